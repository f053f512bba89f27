"""Predictions for data in pieces are those for the same rows in memory, or a sentence; what is written is whole."""

import inspect
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, dataset, parquet
from sklearn.base import clone
from sklearn.utils import get_tags
from tests.spark import lay_out_spark, why_no_spark

import oddsmith
from oddsmith import REJECT, Design, GaussianClassifier, LeastSquaresClassifier, LogisticRegression, NaiveBayes
from oddsmith.data_access.streamed_prediction import METHODS
from oddsmith.errors import InvalidInputError, InvalidTypeError, NeedsMemoryError, NotFittedError, UnknownNameError
from oddsmith.testing import Cut, all_models, lay_out_dask, lay_out_files

N = 120
LABELS = {2: ["no", "yes"], 3: ["ash", "birch", "cedar"]}
FOLDED = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(K: int = 2, n: int = N) -> pa.Table:
    """Return numbers of different units, and a column that no model reads (and none could)."""
    rng = np.random.default_rng(K)
    t = rng.integers(0, K, n)
    X = rng.normal(size=(n, 3)) + 0.8 * np.eye(3)[t]
    columns = {"id": [f"{i:04}" for i in range(n)], "b": 100 * X[:, 1], "a": X[:, 0], "c": X[:, 2] - 5}
    return pa.table({**columns, "label": np.array(LABELS[K])[t]})


def mixed(n: int = N) -> pa.Table:
    """Return words, some of which look like numbers, and truth values, too."""
    rng = np.random.default_rng(0)
    zone = rng.choice(["01", "02", "x"], n)
    p = np.where(zone == "x", 0.8, 0.4)
    columns = {"zone": zone, "member": rng.random(n) < 0.5, "age": rng.normal(40, 9, n), "shift": rng.normal(size=n)}
    return pa.table({**columns, "label": np.where(rng.random(n) < p, "yes", "no")})


MODELS = [
    pytest.param(model, K, id=f"{type(model).__name__}-{K}")
    for model in all_models()
    for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])
]


def fitted(model: Any, K: int) -> tuple[Any, pa.Table, pd.DataFrame]:
    table = rows(K)
    inside = table.select(["a", "b", "c"]).to_pandas()
    return clone(model).fit(inside, table["label"].to_numpy(zero_copy_only=False)), table, inside


def answers(model: Any, X: Any) -> dict[str, Any]:
    found = {name: getattr(model, name)(X) for name in METHODS if hasattr(model, name) and name != "decide"}
    if hasattr(model, "predict_proba"):
        found |= {"decide": model.decide(X), "reject": model.decide(X, reject=0.3)}
        found["act"] = model.decide(X, [[0.0, 1.0]] + [[5.0, 0.0]] * (len(model.classes_) - 1))
    return found


def assert_same(found: dict[str, Any], expected: dict[str, Any], get: Any = np.asarray) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        here = get(found[name])
        assert here.shape == value.shape, name
        if value.dtype.kind == "f":
            np.testing.assert_allclose(here, value, rtol=1e-12, atol=1e-12, err_msg=name)
        else:
            assert here.tolist() == value.tolist(), name


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning", "ignore::oddsmith.errors.SeparationWarning")
@pytest.mark.parametrize(("model", "K"), MODELS)
def test_answers_for_files_and_dask_are_those_in_memory(model: Any, K: int, tmp_path: Path) -> None:
    model, table, inside = fitted(model, K)
    expected = answers(model, inside)
    folder = lay_out_files(table, 50, tmp_path)
    assert_same(answers(model, oddsmith.scan(folder, piece_rows=17)), expected)
    csv.write_csv(table, tmp_path / "table.csv")
    assert_same(answers(model, tmp_path / "table.csv"), expected)
    frame = answers(model, lay_out_dask(table, 50))
    assert_same(frame, expected, lambda lazy: np.asarray(lazy.compute()))


def test_a_dataset_a_glob_a_list_and_other_pieces_are_read_too(tmp_path: Path) -> None:
    model, table, inside = fitted(LogisticRegression(), 3)
    folder = lay_out_files(table, 50, tmp_path)
    expected = model.predict_proba(inside)
    files = [f"{folder}/part-{i}.parquet" for i in (0, 1)]
    for data in (dataset.dataset(folder), f"{folder}/*.parquet", files, Cut(table, 17)):
        np.testing.assert_allclose(model.predict_proba(data), expected, rtol=1e-12)


def test_whoever_asks_is_told_how_far_it_is(tmp_path: Path) -> None:
    model, table, inside = fitted(LogisticRegression(), 3)
    folder, told = lay_out_files(table, 50, tmp_path), []
    for progress in (True, lambda *at: told.append(at)):
        found = model.predict_proba(oddsmith.scan(folder, piece_rows=20, progress=progress))
        np.testing.assert_allclose(found, model.predict_proba(inside), rtol=1e-12)
    assert told and told[-1][0] == told[-1][1]
    with pytest.raises(InvalidInputError, match="resume= works only in fit"):
        oddsmith.write_predictions(model, folder, tmp_path / "p.csv", resume="state")


def test_lazy_answers_have_the_names_of_classes_and_the_index_of_rows() -> None:
    model, table, _ = fitted(LogisticRegression(), 3)
    frame = lay_out_dask(table.to_pandas().set_index("id", drop=False).rename_axis("key"), 50)
    P = model.predict_proba(frame)
    assert list(P.columns) == ["p_ash", "p_birch", "p_cedar"] and P.npartitions == frame.npartitions
    assert P.compute().index.tolist() == table["id"].to_pylist()
    assert model.predict(frame).name == "predicted"
    assert list(model.decision_function(frame).columns) == ["value_ash", "value_birch", "value_cedar"]


def test_dask_arrays_have_lazy_arrays() -> None:
    _, table, inside = fitted(LogisticRegression(), 3)
    X, y = inside.to_numpy(), table["label"].to_numpy()
    model = LogisticRegression().fit(X, y)
    lazy = lay_out_dask(X, 50).rechunk((50, 2))
    np.testing.assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(X), rtol=1e-12)
    assert model.predict(lazy).compute().tolist() == model.predict(X).tolist()
    assert model.decide(lazy, reject=0.2).compute().tolist() == model.decide(X, reject=0.2).tolist()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning", "ignore::ResourceWarning")
def test_spark_frames_have_lazy_columns_added() -> None:
    if missing := why_no_spark():
        pytest.skip(missing)
    model, table, inside = fitted(LogisticRegression(), 3)
    frame = lay_out_spark(table, 50)
    lazy = model.predict(model.predict_proba(frame))
    assert lazy.columns == [*table.column_names, "p_ash", "p_birch", "p_cedar", "predicted"]
    found = sorted(lazy.collect(), key=lambda row: row["id"])
    P = [[row[f"p_{label}"] for label in LABELS[3]] for row in found]
    np.testing.assert_allclose(P, model.predict_proba(inside), rtol=1e-12)
    assert [row["predicted"] for row in found] == model.predict(inside).tolist()
    decided = sorted(model.decide(frame, reject=0.3).collect(), key=lambda row: row["id"])
    expected = [None if one is REJECT else one for one in model.decide(inside, reject=0.3).tolist()]
    assert [row["decision"] for row in decided] == expected and None in expected
    with pytest.raises(InvalidInputError, match="Column 'a', which the model was fitted to, is missing"):
        model.predict(frame.drop("a"))
    assert model.score(frame, "label") == pytest.approx(model.score(inside, np.array(table["label"])), rel=1e-12)


def test_words_that_look_like_numbers_are_words_in_every_piece(tmp_path: Path) -> None:
    table = mixed()
    model = LogisticRegression(prior=1.0).fit(table.drop_columns(["shift"]), "label")
    in_order = table.take(np.argsort(table["zone"].to_numpy(zero_copy_only=False), kind="stable"))
    csv.write_csv(in_order, tmp_path / "a.csv")  # "01" and "02" only, to begin with
    expected = model.predict_proba(in_order.select(["zone", "member", "age"]))
    np.testing.assert_allclose(model.predict_proba(tmp_path / "a.csv"), expected, rtol=1e-12)


def test_an_offset_is_the_name_of_a_column(tmp_path: Path) -> None:
    table = mixed()
    model = LogisticRegression().fit(table, "label", offset=table["shift"].to_numpy())
    model = LogisticRegression(design=Design("label ~ age")).fit(table, offset=table["shift"].to_numpy())
    parquet.write_table(table, tmp_path / "a.parquet")
    expected = model.predict_proba(table, offset=table["shift"].to_numpy())
    np.testing.assert_allclose(model.predict_proba(tmp_path / "a.parquet", offset="shift"), expected, rtol=1e-12)


@FOLDED
@given(edges=st.lists(st.integers(1, N - 1), max_size=5), rows_each=st.integers(1, N))
def test_however_files_are_cut_the_answers_are_in_the_order_of_the_rows(
    edges: list[int], rows_each: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    model, table, inside = fitted(GaussianClassifier(), 2)
    ends = [0, *sorted(edges), N]
    for i, (first, last) in enumerate(pairwise(ends)):
        parquet.write_table(table.slice(first, last - first), folder / f"{i}.parquet", row_group_size=rows_each)
    found = model.predict_proba(oddsmith.scan(folder, piece_rows=rows_each))
    np.testing.assert_allclose(found, model.predict_proba(inside), rtol=1e-12)


def test_methods_keep_their_signature_and_whether_they_are_there() -> None:
    assert list(inspect.signature(LogisticRegression().predict_proba).parameters) == ["X", "offset"]
    assert list(inspect.signature(GaussianClassifier().decide).parameters) == ["X", "loss", "reject", "predictive"]
    assert not hasattr(LeastSquaresClassifier(), "predict_proba")
    assert not hasattr(oddsmith.OneVsRest(LeastSquaresClassifier()), "predict_proba")
    model, _, inside = fitted(LeastSquaresClassifier(), 2)
    with pytest.raises(InvalidTypeError, match="has no probabilities"):
        model.decide(inside)


def broken(table: pa.Table, path: Path) -> None:
    """Write a table into three files, of which the last has a hole."""
    for i in range(3):
        part = table.slice(40 * i, 40)
        if i == 2:
            part = part.set_column(part.schema.get_field_index("a"), "a", pa.array([None] + [1.0] * 39))
        parquet.write_table(part, path / f"{i}.parquet")


def test_hostile_data_is_refused_with_the_file_it_is_in(tmp_path: Path) -> None:
    model, table, _ = fitted(LogisticRegression(), 2)
    holes, empty, rest = (tmp_path / name for name in ("holes", "empty", "rest"))
    for folder in (holes, empty, rest):
        folder.mkdir()
    broken(table, holes)
    with pytest.raises(InvalidInputError, match=r"2\.parquet.*column 'a' has 1 missing"):
        model.predict(holes)
    parquet.write_table(table.slice(0, 0), empty / "a.parquet")
    with pytest.raises(InvalidInputError, match="no rows"):
        model.predict(empty)
    parquet.write_table(table.drop_columns(["a"]), rest / "a.parquet")
    with pytest.raises(InvalidInputError, match="'a', which the model was fitted to, is missing"):
        model.predict(rest)
    (rest / "b.csv").write_text("a,b,c\n1,2,3\n1,two,3\n")
    with pytest.raises(InvalidInputError, match=r"(?s)b\.csv.*two"):
        model.predict(rest / "b.csv")
    with pytest.raises(InvalidInputError, match="There is no file or folder"):
        model.predict(tmp_path / "nowhere")
    with pytest.raises(NotFittedError):
        LogisticRegression().predict(holes)


def test_a_model_without_names_reads_columns_by_their_place(tmp_path: Path) -> None:
    _, table, inside = fitted(LogisticRegression(), 2)
    model = LogisticRegression().fit(inside.to_numpy(), table["label"].to_numpy())
    parquet.write_table(table.select(["a", "b", "c"]), tmp_path / "a.parquet")
    np.testing.assert_allclose(
        model.predict_proba(tmp_path / "a.parquet"), model.predict_proba(inside.to_numpy()), rtol=1e-12
    )
    parquet.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match="3 unnamed columns, but the data has 5"):
        model.predict(tmp_path / "b.parquet")


def test_what_needs_rows_in_memory_says_so(tmp_path: Path) -> None:
    model, table, _ = fitted(LogisticRegression(prior=1.0), 2)
    folder = lay_out_files(table, 50, tmp_path)
    for method in (
        lambda: model.predictive(folder),
        lambda: model.leave_one_out(folder, "label"),
        lambda: model.report(folder, "label", tmp_path / "r.html"),
        lambda: oddsmith.recalibrate(model, folder, "label"),
        lambda: oddsmith.PerceptronClassifier().fit(folder, "label"),
        lambda: oddsmith.compare("all", folder, "label"),
    ):
        with pytest.raises(NeedsMemoryError, match=r"rows in memory|Rows in memory"):
            method()


# --------------------------------------------------------------------------------------------- written


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.arrow", "p.jsonl", "p"])
def test_what_is_written_is_what_is_predicted(name: str, tmp_path: Path) -> None:
    model, table, inside = fitted(LogisticRegression(prior=1.0), 3)
    folder = lay_out_files(table, 13, tmp_path, "csv")
    done = oddsmith.write_predictions(
        model, folder, tmp_path / name, columns=["id"], intervals=True, reject=0.3, file_rows=50
    )
    assert (done.rows, done.files) == (N, 3 if name == "p" else 1) and done.seconds > 0
    read = {"csv": csv.read_csv, "arrow": lambda p: pa.ipc.open_file(p).read_all()}
    path = tmp_path / name
    if name == "p.jsonl":
        found = pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
    else:
        found = read.get(name.partition(".")[2], parquet.read_table)(path)
    P, Q = model.predict_proba(inside), model.predictive(inside, level=0.95)
    for k, label in enumerate(LABELS[3]):
        np.testing.assert_allclose(found[f"p_{label}"].to_numpy(), P[:, k], rtol=1e-12)
        np.testing.assert_allclose(found[f"lower_{label}"].to_numpy(), Q.lower[:, k], rtol=1e-9)
    assert found["predicted"].to_pylist() == model.predict(inside).tolist()
    assert [int(i) for i in found["id"].to_pylist()] == list(range(N))
    decided = [one or REJECT for one in found["decision"].to_pylist()]
    assert decided == model.decide(inside, reject=0.3).tolist()
    assert found["rejected"].to_pylist() == [one is REJECT for one in decided]


def test_columns_are_copied_as_they_are(tmp_path: Path) -> None:
    model, table, _ = fitted(LogisticRegression(), 2)
    csv.write_csv(table, tmp_path / "a.csv")
    oddsmith.write_predictions(model, tmp_path / "a.csv", tmp_path / "p.parquet", columns=["id", "label"], proba=False)
    found = parquet.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["id", "label", "predicted"]
    assert found["id"].to_pylist() == table["id"].to_pylist()
    oddsmith.write_predictions(model, table.select(["a", "b", "c"]), tmp_path / "q.parquet", columns=["c"])
    assert parquet.read_table(tmp_path / "q.parquet")["c"].to_pylist() == table["c"].to_pylist()


@pytest.mark.parametrize("name", ["p.parquet", "p"])
def test_a_file_is_written_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    model, table, _ = fitted(LogisticRegression(), 2)
    folder = tmp_path / "rows"
    folder.mkdir()
    broken(table, folder)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InvalidInputError, match="column 'a' has 1 missing"):
        oddsmith.write_predictions(model, oddsmith.scan(folder, piece_rows=20), tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == before


def test_dates_that_turn_out_to_have_times_begin_the_file_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 40_000  # beyond the rows that types are first learned from
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    label = np.where(rng.random(n) < (day - day.min()).astype(float) / 300, "yes", "no")
    table = pa.table({"day": day.astype("datetime64[s]"), "label": label})
    model = LogisticRegression().fit(table, "label")
    lines = [f"{d}" for d in day[:-1].astype(str)] + [f"{day[-1]} 00:00:00"]
    (tmp_path / "a.csv").write_text("day\n" + "\n".join(lines) + "\n")
    done = oddsmith.write_predictions(model, tmp_path / "a.csv", tmp_path / "p.parquet", memory="16MiB")
    found = parquet.read_table(tmp_path / "p.parquet")
    assert done.rows == found.num_rows == n
    np.testing.assert_allclose(found["p_yes"].to_numpy(), model.predict_proba(table.select(["day"]))[:, 1], rtol=1e-12)


def test_writing_refuses_what_cannot_be_written(tmp_path: Path) -> None:
    model, table, _ = fitted(LogisticRegression(), 2)
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("")
    for target, further, error, text in (
        ("p.xlsx", {}, UnknownNameError, "Unknown format"),
        ("no/p.csv", {}, InvalidInputError, "The folder"),
        ("taken", {}, InvalidInputError, "already exists"),
        ("p.csv", {"columns": ["nope"]}, InvalidInputError, "no column 'nope' to copy"),
        ("p.csv", {"loss": [[0, 1]]}, InvalidInputError, "loss"),
    ):
        with pytest.raises(error, match=text):
            oddsmith.write_predictions(model, path, tmp_path / target, **further)
    with pytest.raises(InvalidInputError, match="lazy columns"):
        oddsmith.write_predictions(model, lay_out_dask(table, 50), tmp_path / "p.csv")
    with pytest.raises(InvalidInputError, match="no posterior"):
        oddsmith.write_predictions(NaiveBayes().fit(table.select(["a", "label"]), "label"), path, "p", intervals=True)
    with pytest.raises(InvalidTypeError, match="has no probabilities"):
        least = LeastSquaresClassifier().fit(table.select(["a", "label"]), "label")
        oddsmith.write_predictions(least, path, tmp_path / "p.csv", reject=0.1)
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "taken"]


PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
from pyarrow import parquet
import oddsmith
folder = sys.argv[1]
table = pa.table({f"x{j}": np.random.default_rng(j).normal(size=50_000) for j in range(8)})
model = oddsmith.GaussianClassifier().fit(table, np.arange(50_000) % 2)
for count in (4, 14):
    with parquet.ParquetWriter(f"{folder}/a.parquet", table.schema) as writer:
        for _ in range(count):
            writer.write_table(table)
    oddsmith.write_predictions(model, f"{folder}/a.parquet", f"{folder}/p.parquet", memory="32MB")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    few, many = map(int, done.stdout.split())
    # Ten parts more are 32 MB of rows and 12 MB of predictions.
    assert many < few + 20, (few, many)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning", "ignore::oddsmith.errors.SeparationWarning")
@pytest.mark.parametrize(("model", "K"), MODELS)
def test_scores_of_files_and_dask_are_those_in_memory(model: Any, K: int, tmp_path: Path) -> None:
    model, table, inside = fitted(model, K)
    expected = model.score(inside, np.array(table["label"]))
    assert model.score(table.select(["a", "b", "c", "label"]).to_pandas(), "label") == expected
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=50)
    csv.write_csv(table, tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        assert model.score(tmp_path / name, "label") == pytest.approx(expected, rel=1e-12)
    import dask.dataframe as dd

    assert model.score(dd.from_pandas(table.to_pandas(), npartitions=3), "label") == pytest.approx(expected, rel=1e-12)


def test_scores_of_files_weigh_rows_and_refuse_what_cannot_be_right(tmp_path: Path) -> None:
    model, table, inside = fitted(LogisticRegression(), 2)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, table.num_rows)
    path = tmp_path / "a.parquet"
    parquet.write_table(table.append_column("weight", pa.array(weights)), path)
    expected = model.score(inside, np.array(table["label"]), weights)
    assert model.score(path, "label", "weight") == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidInputError, match="score\\(data, 'y'\\)"):
        model.score(path, np.array(table["label"]))
    with pytest.raises(InvalidInputError, match="label2"):
        model.score(path, "label2")
    with pytest.raises(InvalidInputError, match="holds numbers"):
        model.score(path, "weight")
    place = table.schema.get_field_index("label")
    gap = table.set_column(place, "label", pa.array([None, *table["label"].to_pylist()[1:]]))
    parquet.write_table(gap, path)
    with pytest.raises(InvalidInputError, match="1 rows without a label"):
        model.score(path, "label")
    parquet.write_table(table.slice(0, 0), path)
    with pytest.raises(InvalidInputError, match="no rows"):
        model.score(path, "label")
