"""Files that are read in pieces: the same model, scores and predictions as from the same rows in memory."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import oddsmith
from oddsmith.cli import data as cli_data
from oddsmith.engines.progress import following
from oddsmith.errors import NeedsMemoryError
from oddsmith.evaluation import streamed

N = 600


def rides() -> pa.Table:
    rng = np.random.default_rng(0)
    city = rng.choice(["Athens", "Bergen", "Cork"], N)
    x = rng.normal(size=(N, 2))
    late = rng.random(N) < 1 / (1 + np.exp(-(x[:, 0] + (city == "Cork"))))
    columns = {"ride": [f"{i:05}" for i in range(N)], "city": city, "x": x[:, 0], "z": x[:, 1]}
    return pa.table({**columns, "count": rng.integers(1, 4, N), "arrival": np.where(late, "late", "on time")})


@pytest.fixture
def folder(run: Any) -> Path:
    """Write the rides as one CSV and as a folder of three Parquet files."""
    table = rides()
    csv.write_csv(table, "rides.csv")
    os.mkdir("rides")
    for i in range(3):
        parquet.write_table(table.slice(200 * i, 200), f"rides/{i}.parquet", row_group_size=50)
    return Path.cwd()


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be a large one, whose answers are too many to bring together."""
    monkeypatch.setattr(cli_data, "LARGE", -1)
    monkeypatch.setattr(streamed, "GATHERED", 0)


FIT = ("-t", "arrival", "--ignore", "ride", "--ignore", "count")
FORMS = (("rides.csv",), ("rides",), ("rides/*.parquet",), ("rides/0.parquet", "rides/1.parquet", "rides/2.parquet"))


def weights(run: Any, name: str) -> Any:
    return np.array(json.loads(run("summary", name, "--json").out)["columns"]["estimate"])


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_every_form_of_data_gives_what_memory_gives(
    form: tuple[str, ...], run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commands(where: str) -> dict[str, Any]:
        model = f"{where}.odds"
        assert run("fit", *form, *FIT, "-o", model).code == 0
        scores = run("evaluate", model, *form, "-t", "arrival", "--loss", "[[0, 5], [1, 0]]", "--json")
        assert run("predict", model, *form, "--keep", "ride", "-o", f"{where}.p.csv").code == 0
        assert run("decide", model, *form, "--reject", "0.3", "--keep", "ride", "-o", f"{where}.d.csv").code == 0
        found = json.loads(scores.out)
        return {
            "w": weights(run, model),
            "scores": {name: score["value"] for name, score in found["scores"].items()},
            "rows": found["rows"],
            "p": csv.read_csv(f"{where}.p.csv").to_pydict(),
            "d": csv.read_csv(f"{where}.d.csv").to_pydict(),
        }

    whole = commands("whole")
    monkeypatch.setattr(cli_data, "LARGE", -1)
    monkeypatch.setattr(streamed, "GATHERED", 0)
    parts = commands("parts")
    np.testing.assert_allclose(parts["w"], whole["w"], rtol=1e-9)
    assert parts["rows"] == whole["rows"] == N
    assert parts["scores"] == pytest.approx(whole["scores"], rel=1e-8, abs=1e-8)
    for name in ("p", "d"):
        assert parts[name].keys() == whole[name].keys()
        for column, values in whole[name].items():
            exact = isinstance(values[0], str | bool)
            assert parts[name][column] == (values if exact else pytest.approx(values, rel=1e-8))


def test_the_report_of_a_fit_counts_rows_and_passes(run: Any, folder: Path, in_pieces: None) -> None:
    ended = run("fit", "rides", *FIT, "-o", "m.odds", "--json")
    found = json.loads(ended.out)
    assert found["rows"] == N and found["classes"] == ["late", "on time"] and found["certificate"]["converged"]
    for model in ("naive-bayes", "gaussian", "least-squares", "one-vs-rest"):
        ignored = (*FIT, "--ignore", "city")
        assert json.loads(run("fit", "rides", *ignored, "--model", model, "-o", "n.odds", "--json").out)["rows"] == N


def test_nothing_but_the_result_goes_into_a_pipe(run: Any, folder: Path, in_pieces: None) -> None:
    ended = run("fit", "rides", *FIT, "-o", "m.odds")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    ended = run("predict", "m.odds", "rides.csv", "--keep", "ride")
    assert ended.err == "" and ended.out.splitlines()[:2][0] == '"ride","predicted","p_late","p_on time"'
    assert len(ended.out.splitlines()) == N + 1 and ended.out.splitlines()[1].startswith('"00000",')
    lines = run("predict", "m.odds", "rides", "--json").out.splitlines()
    assert len(lines) == N and json.loads(lines[0]).keys() == {"predicted", "p_late", "p_on time"}


def test_weights_and_formulas_are_read_in_pieces(run: Any, folder: Path) -> None:
    fit = ("rides", "--formula", "arrival ~ city + log(x + 9)", "--weights", "count")
    assert run("fit", *fit, "-o", "a.odds").code == 0
    assert run("fit", *fit, "--memory", "20MB", "-o", "b.odds").code == 0
    np.testing.assert_allclose(weights(run, "b.odds"), weights(run, "a.odds"), rtol=1e-8)


def test_keys_of_folders_are_columns(run: Any, folder: Path) -> None:
    for i, city in enumerate(("Athens", "Bergen")):
        os.makedirs(f"keyed/city={city}")
        parquet.write_table(rides().slice(200 * i, 200).drop_columns(["city", "ride"]), f"keyed/city={city}/a.parquet")
    assert run("fit", "keyed", "-t", "arrival", "-o", "m.odds").code == 0
    assert "city" in oddsmith.load("m.odds").feature_names_in_
    assert run("evaluate", "m.odds", "keyed", "-t", "arrival").code == 0


def test_predictions_may_be_a_folder(run: Any, folder: Path, in_pieces: None) -> None:
    assert run("fit", "rides", *FIT, "-o", "m.odds").code == 0
    assert run("predict", "m.odds", "rides", "--keep-all", "-o", "said").code == 0
    assert parquet.read_table("said").drop_columns(["predicted", "p_late", "p_on time"]).equals(rides())


def test_a_fit_goes_on_from_its_file(run: Any, folder: Path) -> None:
    for name in ("a", "b"):
        assert run("fit", "rides", *FIT, "--resume", "fit.journal", "-o", f"{name}.odds").code == 0
    assert Path("fit.journal").stat().st_size > 0
    assert np.array_equal(weights(run, "a.odds"), weights(run, "b.odds"))


def test_a_cache_is_used(run: Any, folder: Path) -> None:
    assert run("fit", "rides.csv", *FIT, "--cache", "kept", "-o", "m.odds").code == 0
    assert list(Path("kept").rglob("*.blocks"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("fit", "-", "-t", "y", "--memory", "1GB", "-o", "m.odds"),
            "cannot be read in pieces, so --memory has no effect",
        ),
        (("fit", "rides", *FIT, "--memory", "much", "-o", "m.odds"), "is not a number of bytes"),
        (("fit", "rides", *FIT, "--memory", "1GB", "--model", "perceptron", "-o", "m.odds"), "rows in memory"),
        (("fit", "rides", "-t", "arival", "--memory", "1GB", "-o", "m.odds"), "Did you mean 'arrival'?"),
        (("fit", "rides", "-t", "arrival", "--ignore", "q", "--memory", "1GB", "-o", "m.odds"), "'q' for --ignore"),
        (
            ("fit", "rides", *FIT, "--cache", "c", "-o", "m.odds", "--report", "r.html"),
            "--cache cannot be combined with",
        ),
        (("fit", "rides.csv", "rides", *FIT, "-o", "m.odds"), "'rides' is not a file. Several names"),
        (("evaluate", "m.odds", "rides", "-t", "arival", "--memory", "1GB"), "no column 'arival' for --target"),
        (("predict", "m.odds", "rides", "--keep", "q", "--memory", "1GB", "-o", "p.csv"), "no column 'q' for --keep"),
        (("predict", "m.odds", "bad", "--memory", "1GB", "-o", "p.csv"), "Column 'x' has 1 missing"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_sentence(arguments: Any, sentence: str, run: Any, folder: Path) -> None:
    if arguments[0] != "fit":
        assert run("fit", "rides", *FIT, "-o", "m.odds").code == 0
    os.mkdir("bad")
    parquet.write_table(rides().set_column(2, "x", pa.array([None] + [0.5] * (N - 1))), "bad/a.parquet")
    before = sorted(os.listdir())
    ended = run(*arguments)
    assert ended.code == 1 and sentence in ended.err and len(ended.err.strip().splitlines()) == 1, ended.err
    assert sorted(os.listdir()) == before


def test_a_model_that_needs_rows_in_memory_gets_them(run: Any, folder: Path, in_pieces: None) -> None:
    assert run("fit", "rides", *FIT, "--model", "perceptron", "-o", "m.odds").code == 0
    with pytest.raises(NeedsMemoryError):
        oddsmith.PerceptronClassifier().fit("rides", "arrival")


def test_text_that_needs_wider_types_is_not_printed_twice(run: Any, folder: Path) -> None:
    n = 40_000  # beyond the rows that types are first learned from
    day = np.datetime64("2024-01-01") + np.arange(n) % 300
    label = np.where(np.random.default_rng(0).random(n) < 0.5, "yes", "no")
    parquet.write_table(pa.table({"day": day.astype("datetime64[s]"), "label": label}), "days.parquet")
    Path("days.csv").write_text("\n".join(["day", *day[:-1].astype(str), f"{day[-1]} 00:00:00"]) + "\n")
    assert run("fit", "days.parquet", "-t", "label", "-o", "m.odds").code == 0
    ended = run("predict", "m.odds", "days.csv", "--memory", "16MiB")
    assert ended.code == 1 and "Write to a file with -o" in ended.err
    assert run("predict", "m.odds", "days.csv", "--memory", "16MiB", "-o", "p.csv").code == 0
    assert len(Path("p.csv").read_text().splitlines()) == n + 1


# ------------------------------------------------------------------------------------- interrupted


def test_interrupting_leaves_no_file_and_says_how_to_go_on(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(oddsmith.LogisticRegression, "fit", stop)
    ended = run("fit", "rides", *FIT, "--memory", "1GB", "-o", "m.odds")
    assert ended.code == 130 and "With --resume FILE a fit to files resumes" in ended.err
    ended = run("fit", "rides", *FIT, "--resume", "fit.journal", "-o", "m.odds")
    assert ended.code == 130 and "The passes so far are in fit.journal: run the same command" in ended.err
    assert not Path("m.odds").exists()


def test_ctrl_c_in_the_middle_of_predictions_leaves_nothing(run: Any, folder: Path) -> None:
    assert run("fit", "rides", *FIT, "-o", "m.odds").code == 0
    csv.write_csv(pa.concat_tables([rides()] * 500), "many.csv")
    before = sorted(os.listdir())
    command = [
        sys.executable,
        "-m",
        "oddsmith.cli",
        "predict",
        "m.odds",
        "many.csv",
        "--memory",
        "16MiB",
        "-o",
        "p.csv",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while process.poll() is None and not [name for name in os.listdir() if name.startswith(".p.csv")]:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130 and told == "Interrupted: Nothing was written.\n", told
    assert sorted(os.listdir()) == before


def test_a_terminal_has_a_bar_with_the_number_of_the_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("TTY_COMPATIBLE", "1"), ("TERM", "xterm"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    with following(True, "pass 3") as tell:
        assert tell is not None
        tell(2, 5)
    shown = capsys.readouterr().err
    assert "pass 3" in shown and "2/5" in shown
