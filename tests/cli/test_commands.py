"""Commands do what their help says, print what can be read, and give the numbers of the library."""

import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import typer
from pyarrow import csv, parquet

import oddsmith
from oddsmith import Design, LogisticRegression
from oddsmith.cli.app import app
from oddsmith.data import load_dataset
from oddsmith.models import MODELS
from oddsmith.testing import all_models

COMMANDS = (
    *("fit", "compare", "path", "summary", "report", "evaluate", "predict", "decide", "sample", "datasets"),
    *("export sql", "export onnx", "sites start", "sites answer", "sites step"),
)


def all_commands(group: Any = None, path: tuple[str, ...] = ()) -> list[str]:
    found = []
    for name, command in (group or typer.main.get_command(app)).commands.items():
        inside = hasattr(command, "commands")
        found += all_commands(command, (*path, name)) if inside else [" ".join([*path, name])]
    return found


def test_commands_are_those_that_are_tested() -> None:
    assert set(all_commands()) == {
        *COMMANDS,
        "gallery",
        "notebooks",
        "lecture",
        "exercise",
        "check",
        "lab",
        "explore",
    }  # these have tests of their own


def test_every_example_in_the_help_runs(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command in COMMANDS:  # those that fit come first: the others use their files
        lines = [line.strip() for line in run(*command.split(), "--help").out.splitlines()]
        examples = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        assert examples, f"{command} has no example."
        for example in examples:
            assert example.startswith(f"oddsmith {command}")
            ended = run(*shlex.split(example)[1:])
            needs_onnx = command == "export onnx" and find_spec("onnx") is None
            assert ended.code == (1 if needs_onnx else 0), (example, ended.err)
            assert not needs_onnx or "oddsmith[onnx]" in ended.err


def test_the_help_of_fit_names_every_model_and_basis(run: Any) -> None:
    from oddsmith.design.basis import BASES

    shown = run("fit", "--help").out
    assert {name for name in (*MODELS, *BASES) if name not in shown} == {"recalibrated"}  # a wrapper, made in Python


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; from oddsmith.cli.app import app\n"
        "try: app(['fit', '--help'])\n"
        "except SystemExit: pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"matplotlib", "pyarrow", "dask", "sklearn", "scipy", "pandas", "polars", "numpy"}
    assert not heavy & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "formula", [None, "species ~ island * bill_depth_mm + log(body_mass_g)"], ids=["columns", "formula"]
)
def test_weights_are_the_same_to_the_bit_from_pandas_polars_arrow_and_the_command_line(run: Any, formula: str) -> None:
    if formula:
        pytest.importorskip("formulaic")
    assert run("datasets", "penguins", "-o", "penguins.csv").code == 0
    options = ["--formula", formula] if formula else []
    ended = run(
        "fit", "penguins.csv", "-t", "species", "--prior", 2, "--missing", "indicator", *options, "-o", "m.odds"
    )
    assert ended.code == 0, ended.err
    expected = oddsmith.load("m.odds")
    arrow = csv.read_csv("penguins.csv", convert_options=csv.ConvertOptions(strings_can_be_null=True))
    for table in (pandas.read_csv("penguins.csv"), polars.read_csv("penguins.csv"), arrow):
        model = LogisticRegression(2.0, design=Design(formula, missing="indicator")).fit(table, "species")
        assert (model.coef_ == expected.coef_).all() and (model.intercept_ == expected.intercept_).all()


def test_predictions_are_those_of_the_library(run: Any, fitted: Path) -> None:
    assert run("predict", fitted, "penguins", "--keep", "species", "-o", "p.parquet").code == 0
    written = parquet.read_table("p.parquet")
    assert written.column_names == ["species", "predicted", "p_Adelie", "p_Chinstrap", "p_Gentoo"]
    P = oddsmith.load(fitted).predict_proba(load_dataset("penguins"))
    assert (np.column_stack([written[f"p_{name}"] for name in ("Adelie", "Chinstrap", "Gentoo")]) == P).all()
    assert (np.array(written["predicted"].to_pylist()) == oddsmith.load(fitted).classes_[P.argmax(axis=1)]).all()


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"recalibrated", "one-vs-one", "probit"}))
def test_every_family_predicts_tables_with_categories_as_the_library_does(run: Any, name: str) -> None:
    policy = [] if name == "naive-bayes" else ["--missing", "indicator"]
    model = (
        "gaussian(shrinkage='oas')" if name == "gaussian" else name
    )  # values that are missing together are collinear
    assert run("fit", "penguins", "-t", "species", "--model", model, *policy, "-o", "m.odds").code == 0
    assert run("predict", "m.odds", "penguins", "-o", "p.parquet").code == 0
    fitted, written = oddsmith.load("m.odds"), parquet.read_table("p.parquet")
    table = load_dataset("penguins").drop_columns(["species"])
    assert written["predicted"].to_pylist() == fitted.predict(table).tolist()
    if hasattr(fitted, "predict_proba"):
        assert (written["p_Gentoo"].to_numpy() == fitted.predict_proba(table)[:, 2]).all()
    assert run("evaluate", "m.odds", "penguins", "-t", "species").code == 0


def test_intervals_hold_the_probabilities(run: Any, fitted: Path) -> None:
    assert run("predict", fitted, "penguins", "--intervals", "-o", "p.csv").code == 0
    table = pandas.read_csv("p.csv")
    assert ((table["lower_Adelie"] <= table["upper_Adelie"]) & (table["upper_Adelie"] <= 1)).all()


def test_predict_writes_csv_to_standard_output_and_reads_standard_input(run: Any, fitted: Path) -> None:
    run("datasets", "penguins", "-o", "penguins.csv")
    from_file = run("predict", fitted, "penguins.csv")
    from_input = run("predict", fitted, "-", stdin=Path("penguins.csv").read_bytes())
    assert from_file.out == from_input.out and from_file.out.count("\n") == 345
    assert from_file.err == from_input.err == ""


@pytest.mark.parametrize(
    "arguments", [("predict", "p.odds", "penguins"), ("datasets", "penguins")], ids="{0[0]}".format
)
def test_every_format_that_is_written_can_be_read(run: Any, fitted: Path, arguments: tuple[str, ...]) -> None:
    from oddsmith.cli.data import open_data

    assert run(*arguments, "-o", "a.parquet").code == 0
    expected = open_data("a.parquet").table().to_pydict()
    for name in ("a.csv", "a.arrow", "a.jsonl"):
        assert run(*arguments, "-o", name).code == 0
        assert open_data(name).table().to_pydict() == expected
    rows = [json.loads(line) for line in run(*arguments, "--json").out.splitlines()]
    assert {name: [row[name] for row in rows] for name in rows[0]} == expected


def test_rows_go_by_in_batches(run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli import files

    run("datasets", "penguins", "-o", "penguins.csv")
    whole = run("predict", fitted, "penguins.csv").out
    monkeypatch.setattr(files, "BYTES", 2048)
    assert len(list(files.batches("penguins.csv", "csv", "penguins.csv"))) > 5
    assert run("predict", fitted, "penguins.csv").out == whole


def test_columns_that_a_model_does_not_read_are_copied_as_they_are(
    run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oddsmith.cli import files

    monkeypatch.setattr(files, "BYTES", 2048)
    keys = [f"{i:03}" if i < 300 else "last" for i in range(344)]  # 007, and of another type in later batches
    csv.write_csv(load_dataset("penguins").append_column("key", pa.array(keys)), "penguins.csv")
    assert run("predict", fitted, "penguins.csv").out == run("predict", fitted, "penguins").out
    assert run("predict", fitted, "penguins.csv", "--keep", "key", "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet")["key"].to_pylist() == keys
    assert run("predict", fitted, "penguins.csv", "--keep-all", "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet")["key"].to_pylist() == keys


def test_a_prediction_that_fails_leaves_the_file_as_it_was(run: Any, fitted: Path) -> None:
    Path("out.csv").write_text("before")
    run("datasets", "penguins", "-o", "penguins.csv")
    with open("penguins.csv", "a") as file:
        file.write("1,2,3\n")
    ended = run("predict", fitted, "penguins.csv", "-o", "out.csv")
    assert ended.code == 1 and "line 346 has 3 fields" in ended.err
    assert Path("out.csv").read_text() == "before"
    assert sorted(os.listdir()) == ["out.csv", "p.odds", "penguins.csv"]


def test_decisions_follow_the_loss_and_reject(run: Any, fitted: Path) -> None:
    Path("loss.csv").write_text("class,tag,leave\nAdelie,0,1\nChinstrap,0,9\nGentoo,1,0\n")
    assert run("decide", fitted, "penguins", "--loss", "loss.csv", "-o", "by_csv.csv").code == 0
    loss = {"Adelie": {"tag": 0, "leave": 1}, "Chinstrap": {"tag": 0, "leave": 9}, "Gentoo": {"tag": 1, "leave": 0}}
    assert run("decide", fitted, "penguins", "--loss", json.dumps(loss), "-o", "by_json.csv").code == 0
    decided = pandas.read_csv("by_csv.csv")
    assert decided.equals(pandas.read_csv("by_json.csv")) and set(decided["decision"]) == {"tag", "leave"}
    assert run("decide", fitted, "penguins", "--reject", "0.01", "--keep", "species", "-o", "d.csv").code == 0
    rejecting = pandas.read_csv("d.csv")
    assert 0 < rejecting["decision"].isna().sum() < 100
    assert np.allclose(rejecting["expected_loss"][rejecting["decision"].isna()], 0.01, rtol=1e-14)


def test_the_confusion_table_follows_the_loss(run: Any, fitted: Path) -> None:
    Path("loss.csv").write_text("class,tag,leave\nAdelie,0,1\nChinstrap,0,9\nGentoo,1,0\n")
    given = ("evaluate", fitted, "penguins", "-t", "species", "--loss", "loss.csv", "--reject", "0.01")
    shown = run(*given).out
    assert "Rows by true class, columns by decision under the loss" in shown
    assert [word for word in ("tag", "leave", "no decision") if word not in shown] == []
    found = json.loads(run(*given, "--json").out)["confusion"]
    assert run("decide", *given[1:3], *given[5:], "--keep", "species", "-o", "d.csv").code == 0
    counts = pandas.crosstab(*(pandas.read_csv("d.csv").fillna("reject")[name] for name in ("species", "decision")))
    assert found["decisions"] == ["tag", "leave", "reject"]
    assert found["counts"] == counts[found["decisions"]].loc[found["classes"]].to_numpy().tolist()
    assert "columns by prediction" in run(*given[:5]).out


def test_evaluation_and_comparison_as_json(run: Any, fitted: Path) -> None:
    scores = json.loads(run("evaluate", fitted, "penguins", "-t", "species", "--json").out)
    assert scores["rows"] == 344 and scores["scores"]["accuracy"]["value"] > 0.97
    ended = run("compare", "iris", "-t", "species", "--models", "logistic,naive-bayes", "-o", "best.odds", "--json")
    compared = json.loads(ended.out)
    assert compared["best"] in ("logistic", "naive-bayes")
    # The command that it names gives the model that it wrote.
    arguments = shlex.split(compared["fit"].replace("best.odds", "again.odds"))[1:]
    assert run(*arguments).code == 0
    rows = pa.table({name: [5.0] for name in oddsmith.load("best.odds").feature_names_in_})
    again, best = (oddsmith.load(name).predict_proba(rows) for name in ("again.odds", "best.odds"))
    assert (again == best).all()


def test_comparison_of_all_families_takes_missing_values_and_categories(run: Any) -> None:
    ended = run("compare", "penguins", "-t", "species", "--missing", "indicator", "--cv", 3, "--json")
    assert "failed" not in json.loads(ended.out)["columns"]["verdict"], ended.out


@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")
def test_every_model_has_a_summary(run: Any, model: Any) -> None:
    table = load_dataset("budworm").drop_columns(["sex"])
    model.fit(table, "dead").save("m.odds")
    shown = json.loads(run("summary", "m.odds", "--json").out)
    assert shown["kind"] == type(model).__name__ and shown["classes"] == ["no", "yes"]
    if hasattr(model, "coef_") and not hasattr(model, "summary"):
        assert shown["columns"]["value"] == [*model.intercept_, *model.coef_[0]]
        assert shown["columns"]["term"] == ["(intercept)", "dose", "count"]


def test_weights_of_pairs_are_called_by_the_pair(run: Any) -> None:
    run("fit", "iris", "-t", "species", "--model", "one-vs-one", "-o", "m.odds")
    shown = json.loads(run("summary", "m.odds", "--json").out)["columns"]["class"]
    assert list(dict.fromkeys(shown)) == ["setosa | versicolor", "setosa | virginica", "versicolor | virginica"]


def test_a_model_that_fails_in_a_comparison_says_why(run: Any) -> None:
    ended = run("compare", "penguins", "-t", "species", "--models", "logistic,naive-bayes", "--cv", 2)
    assert ended.code == 0 and ended.out.startswith("Best by log_loss: naive-bayes")
    assert ended.err.startswith("Warning: logistic failed. Column ") and "--missing indicator" in ended.err


def test_samples_have_the_columns_of_the_fit(run: Any) -> None:
    run("fit", "iris", "-t", "species", "--model", "gaussian", "-o", "iris.odds")
    assert run("sample", "iris.odds", "-n", 50, "-t", "species", "-o", "drawn.csv").code == 0
    drawn = pandas.read_csv("drawn.csv")
    assert len(drawn) == 50 and list(drawn) == list(pandas.read_csv(oddsmith.data.dataset_path("iris")))


def test_quiet_when_piped_and_readable_json_of_a_fit(run: Any) -> None:
    ended = run("fit", "iris", "-t", "species", "--prior", 1, "-o", "m.odds")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    facts = json.loads(run("fit", "iris", "-t", "species", "--prior", 1, "-o", "m.odds", "--json").out)
    assert facts["rows"] == 150 and facts["classes"] == ["setosa", "versicolor", "virginica"]
    assert facts["certificate"]["converged"] is True and np.shape(facts["coef"]) == (3, 4)


def test_warnings_are_sentences_and_in_the_json(run: Any) -> None:
    ended = run("fit", "iris", "-t", "species", "-o", "m.odds", "--json")
    assert ended.code == 0 and ended.err.startswith("Warning: ") and "separated" in ended.err
    assert json.loads(ended.out)["warnings"][0] in ended.err


NAMES = (
    'a"; DROP TABLE penguins; --',
    "$(touch pwned) `touch pwned` ; touch pwned",
    "{0.__class__.__mro__} %s%n %(x)s {x!r}",
    "[red]markup[/red] [/] [link=file:///]x[/link]",
    ":smile: & <b>html</b> |",
    "\x1b[31mescape\a",
    "two\nlines, and a comma",
    "__import__('os').system('touch pwned')",
    " -o ",
    "Ωλ 🐧",
)


@pytest.mark.parametrize("model", ["logistic", "naive-bayes"])
def test_hostile_names_come_through_as_names(run: Any, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=60) for name in NAMES}
    target = NAMES[0] + "?"
    data[target] = np.where(data[NAMES[0]] + rng.normal(size=60) > 0, NAMES[3], NAMES[1])
    pandas.DataFrame(data).to_csv("data.csv", index=False)
    prior = ["--prior", "1"] if model == "logistic" else []
    ended = run("fit", "data.csv", "-t", target, "--model", model, *prior, "-o", "m.odds")
    assert ended.code == 0, ended.err
    fitted = oddsmith.load("m.odds")
    assert fitted.feature_names_in_.tolist() == list(NAMES) and fitted.classes_.tolist() == [NAMES[1], NAMES[3]]
    for command in ("predict", "decide"):
        assert run(command, "m.odds", "data.csv", "--keep-all", "-o", "out.csv").code == 0
        assert list(pandas.read_csv("out.csv"))[: len(data)] == list(data)
    for width in ("", "80"):
        if width:
            monkeypatch.setenv("FORCE_COLOR", "1"), monkeypatch.setenv("COLUMNS", width)
        for arguments in (("summary", "m.odds"), ("evaluate", "m.odds", "data.csv", "-t", target)):
            shown = run(*arguments)
            assert shown.code == 0, shown.err
            assert "\x1b[31mescape" not in shown.out and "😄" not in shown.out
            if not width:
                assert "[red]markup[/red]" in shown.out
    ended = run("fit", "data.csv", "-t", "[red]no[/red] :smile:", "-o", "m.odds")
    assert ended.code == 1 and "'[red]no[/red] :smile:'" in ended.err.replace("\x1b[0m", "")
    assert sorted(os.listdir()) == ["data.csv", "m.odds", "out.csv"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_terminal(run: Any, fitted: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    (
        monkeypatch.setenv("TERM", "xterm"),
        monkeypatch.setenv("FORCE_COLOR", "1"),
        monkeypatch.setenv("COLUMNS", str(width)),
    )
    import re

    for arguments in (("summary", fitted), ("evaluate", fitted, "penguins", "-t", "species"), ("datasets",)):
        ended = run(*arguments)
        lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in ended.out.splitlines()]
        assert ended.code == 0 and max(map(len, lines)) <= width, ended.out
        assert not any("…" in line for line in lines)


def test_version_and_completion(run: Any) -> None:
    assert run("--version").out == f"oddsmith {oddsmith.__version__}\n"
    assert "--install-completion" in run("--help").out


def test_the_query_of_a_model_gives_its_predictions(run: Any, fitted: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the query is run by the package duckdb")
    query = run("export", "sql", fitted, "--table", "birds", "--keep", "species").out
    with duckdb.connect() as connection:
        connection.register("birds", load_dataset("penguins"))
        found = connection.sql(query).to_arrow_table()
    assert run("predict", fitted, "penguins", "--keep", "species", "-o", "p.parquet").code == 0
    written = parquet.read_table("p.parquet")
    assert set(found.column_names) == set(written.column_names)
    assert found["predicted"].to_pylist() == written["predicted"].to_pylist()
    assert np.allclose(found["p_Adelie"], written["p_Adelie"], rtol=0, atol=1e-12)


def test_the_demonstration_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from oddsmith.demo import STEPS, main

    assert main() == 0
    shown = capsys.readouterr().out
    assert all(f"$ {command}" in shown for command in STEPS.values())
    assert "Best by log_loss: logistic" in shown and "island[Dream]" in shown and "WITH step0 AS" in shown
    assert shown.rstrip().endswith("predict model.odds NEW.csv -o predictions.csv")


def test_scores_of_a_weighted_model_say_that_rows_count_once(run: Any) -> None:
    assert run("fit", "budworm", "-t", "dead", "--weights", "count", "-o", "w.odds").code == 0
    said = run("evaluate", "w.odds", "budworm", "-t", "dead").err
    assert "these scores count every row once" in " ".join(said.split()), said
    assert run("fit", "iris", "-t", "species", "--prior", "1", "-o", "i.odds").code == 0
    assert "count every row" not in run("evaluate", "i.odds", "iris", "-t", "species").err


@pytest.mark.parametrize(("text", "weights"), [("balanced", "balanced"), ("{'Adelie': 3}", {"Adelie": 3})])
def test_class_weights_of_the_command_line_are_those_of_the_library(run: Any, text: str, weights: Any) -> None:
    given = ("fit", "penguins", "-t", "species", "--prior", 1, "--missing", "drop", "-o", "p.odds")
    assert run(*given, "--class-weight", text).code == 0
    model = LogisticRegression(1.0, design=Design(missing="drop"), class_weight=weights)
    model.fit(load_dataset("penguins"), "species")
    loaded = oddsmith.load("p.odds")
    assert loaded.class_weight == weights
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


def test_class_weights_and_parameters_of_other_libraries_get_a_sentence(run: Any) -> None:
    given = ("fit", "iris", "-t", "species", "-o", "i.odds")
    assert "balanced" in run(*given, "--class-weight", "even").err
    assert "cannot be read" in run(*given, "--class-weight", "{no").err
    assert "C=4 is prior=2.0" in " ".join(run(*given, "--model", "logistic(C=4)").err.split())
