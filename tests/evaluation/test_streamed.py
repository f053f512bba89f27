"""Scores of data in pieces are those in memory; where they are not exact, they say by how much they can be off."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pyarrow import csv, parquet
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags
from tests.spark import lay_out_spark, why_no_spark

import oddsmith
from oddsmith import LeastSquaresClassifier, LogisticRegression, evaluate, scan
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning, UnknownNameError
from oddsmith.evaluation import streamed
from oddsmith.evaluation.sums import bin_of
from oddsmith.evaluation.value_counts import ValueCounts, keys_of, values_of
from oddsmith.testing import Cut, all_models, lay_out_dask, lay_out_files

N = 400
LABELS = np.array(["ash", "birch", "cedar"])
LOSS = {2: [[0, 1], [5, 0]], 3: [[0, 1, 2], [1, 0, 1], [4, 1, 0]]}


def table(K: int, n: int = N) -> pa.Table:
    rng = np.random.default_rng(K)
    t = rng.integers(0, K, n)
    X = rng.normal(size=(n, 2)) + 0.8 * np.eye(3)[t, :2]
    return pa.table({"a": X[:, 0], "b": X[:, 1], "label": LABELS[t]})


def inside(rows: pa.Table) -> tuple[Any, Any]:
    return rows.select(["a", "b"]).to_pandas(), rows["label"].to_numpy(zero_copy_only=False)


@pytest.fixture
def always_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "GATHERED", 0)


def assert_same(found: Any, expected: Any, tol: float = 1e-12) -> None:
    assert list(found.scores) == list(expected.scores)
    assert np.array_equal(found.confusion, expected.confusion) and found.n_rows == expected.n_rows
    assert not found.bounds
    for name, estimate in expected.scores.items():
        assert found.scores[name].value == pytest.approx(estimate.value, rel=tol, abs=tol, nan_ok=True), name


MODELS = [
    pytest.param(model, K, id=f"{type(model).__name__}-{K}")
    for model in all_models()
    for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])
]


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize(("model", "K"), MODELS)
def test_scores_of_files_and_dask_are_those_in_memory(
    model: Any, K: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(K)
    X, y = inside(rows)
    model = clone(model).fit(X, y)
    costs = {"loss": LOSS[K], "reject": 0.4} if hasattr(model, "predict_proba") else {}
    expected = evaluate(model, X, y, replicates=100, **costs)
    folder = lay_out_files(rows, 50, tmp_path)
    gathered = evaluate(model, folder, "label", replicates=100, **costs)
    assert_same(gathered, expected)
    assert all(gathered.interval(name) == pytest.approx(expected.interval(name)) for name in expected.scores)
    monkeypatch.setattr(streamed, "GATHERED", 0)
    for data in (scan(folder, piece_rows=37), lay_out_dask(rows, 150)):
        assert_same(evaluate(model, data, y="label", replicates=100, **costs), expected)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning", "ignore::ResourceWarning")
def test_scores_on_spark_are_those_in_memory(always_folded: None) -> None:
    if missing := why_no_spark():
        pytest.skip(missing)
    rows = table(2)
    X, y = inside(rows)
    model = LogisticRegression().fit(X, y)
    assert_same(evaluate(model, lay_out_spark(rows, 150), "label"), evaluate(model, X, y))


def test_labels_of_a_dask_array_are_an_array(always_folded: None) -> None:
    X, y = inside(table(3))
    model = LogisticRegression().fit(X.to_numpy(), y)
    found = evaluate(model, lay_out_dask(X.to_numpy(), 100), lay_out_dask(y, 100))
    assert_same(found, evaluate(model, X.to_numpy(), y))


def test_numbers_as_labels_are_numbers_in_text_too(tmp_path: Path, always_folded: None) -> None:
    rows = table(2)
    X, y = inside(rows)
    y = (y == "birch").astype(int)
    model = LogisticRegression().fit(X, y)
    csv.write_csv(rows.set_column(2, "label", pa.array(y)), tmp_path / "a.csv")
    assert_same(evaluate(model, tmp_path / "a.csv", "label"), evaluate(model, X, y))


def test_intervals_of_folds_are_those_in_memory_but_for_chance(always_folded: None) -> None:
    rows = table(2, 20_000)
    X, y = inside(rows)
    model = LogisticRegression().fit(X[:200], y[:200])
    expected, found = evaluate(model, X, y), evaluate(model, Cut(rows, 3000), "label")
    for name in ("log_loss", "brier", "auc", "calibration_slope", "calibration_intercept", "brier_resolution"):
        low, high = expected.interval(name)
        assert np.allclose(found.interval(name), (low, high), atol=0.15 * (high - low)), name


def test_models_of_scikit_learn_are_measured(tmp_path: Path, always_folded: None) -> None:
    rows = table(2)
    X, y = inside(rows)
    folder = lay_out_files(rows, 50, tmp_path)
    for model in (SklearnLogistic(), LinearSVC()):
        model.fit(X, y)
        assert_same(evaluate(model, folder, "label"), evaluate(model, X, y))


def test_passes_are_told_of_and_few(tmp_path: Path, always_folded: None) -> None:
    rows = table(2)
    model = LogisticRegression().fit(*inside(rows))
    told: list[tuple[int, int]] = []
    evaluate(
        model, scan(lay_out_files(rows, 50, tmp_path), piece_rows=50), "label", progress=lambda *at: told.append(at)
    )
    assert 3 <= sum(done == total for done, total in told) <= 8


# --------------------------------------------------------------------------------------------- ranking


values = arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e3, 1e3).map(lambda v: round(v, 1)))


@settings(max_examples=100, deadline=None)
@given(v=values, data=st.data(), most=st.integers(1, 70))
def test_tallies_of_parts_are_the_tally_of_all_and_its_area_holds_the_true_one(v: Any, data: Any, most: int) -> None:
    own = np.array(data.draw(st.lists(st.booleans(), min_size=len(v), max_size=len(v))))
    cut = data.draw(st.integers(0, len(v)))
    whole = ValueCounts.of(v, own, most)
    parts = [ValueCounts.of(v[i], own[i], most) for i in (slice(cut, None), slice(cut))]
    for found in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        assert np.array_equal(found.keys, whole.keys) and np.array_equal(found.counts, whole.counts)
        assert found.drop == whole.drop and len(found.keys) <= most
    if 0 < own.sum() < len(own):
        area, bound = whole.area()
        assert abs(area - roc_auc_score(own, v)) <= bound + 1e-12
        assert bound == 0.0 or len(np.unique(v)) > most


@settings(max_examples=100, deadline=None)
@given(p=arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1)), bins=st.integers(1, 12))
def test_edges_of_a_tally_make_the_bins_that_there_are_in_memory(p: Any, bins: int) -> None:
    edges = ValueCounts.of(p, p > 0.5, 1000).edges(bins)
    cell = np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]
    assert np.array_equal(cell, bin_of(p, bins))


@given(v=arrays(np.float64, 10, elements=st.floats(allow_nan=False)))
def test_keys_are_in_the_order_of_values_and_lead_back(v: Any) -> None:
    assert np.array_equal(values_of(keys_of(v)), v)
    assert np.array_equal(np.sort(v), v[np.argsort(keys_of(v), kind="stable")])


def test_an_auc_of_many_values_says_how_far_it_can_be_off(monkeypatch: pytest.MonkeyPatch, always_folded: None) -> None:
    monkeypatch.setattr(streamed, "VALUES", 1)  # that is, 4096
    rows = table(2, 20_000)
    X, y = inside(rows)
    model = LogisticRegression().fit(X, y)
    found, expected = evaluate(model, Cut(rows, 3000), "label"), evaluate(model, X, y)
    bound = found.bounds["auc"]
    assert 0.0 < abs(found.auc - expected.auc) <= bound < 1e-3
    assert found.interval("auc")[1] - found.interval("auc")[0] > 2 * bound
    assert "±" in found.scores["auc"].interval and "±" not in found.scores["brier"].interval
    for name in ("log_loss", "brier", "accuracy", "calibration_slope"):
        assert found.scores[name].value == pytest.approx(expected.scores[name].value, rel=1e-12)
    assert found.calibration_error == pytest.approx(expected.calibration_error, abs=1e-3)


# --------------------------------------------------------------------------------------------- hostile


def test_one_class_is_said_to_say_little(always_folded: None) -> None:
    rows = table(3)
    model = LogisticRegression().fit(*inside(rows))
    X, y = inside(rows.filter(pa.compute.equal(rows["label"], "ash")))
    with pytest.warns(OddsmithWarning, match="All rows are of class 'ash'"):
        expected = evaluate(model, X, y)
    with pytest.warns(OddsmithWarning, match="All rows are of class 'ash'"):
        found = evaluate(model, Cut(X.assign(label=y), 50), "label")
    assert_same(found, expected)


def test_an_absent_class_is_left_out_as_in_memory(always_folded: None) -> None:
    rows = table(3)
    model = LogisticRegression().fit(*inside(rows))
    X, y = inside(rows.filter(pa.compute.not_equal(rows["label"], "ash")))
    assert_same(evaluate(model, Cut(X.assign(label=y), 50), "label"), evaluate(model, X, y))


def test_separated_classes_have_an_infinite_slope(always_folded: None) -> None:
    X = np.arange(100.0)[:, None]
    y = np.where(X[:, 0] < 50, "ash", "birch")
    model = LogisticRegression(prior=1.0).fit(X, y)
    assert_same(evaluate(model, lay_out_dask(X, 30), lay_out_dask(y, 30)), evaluate(model, X, y))


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, always_folded: None) -> None:
    rows = table(2)
    X, y = inside(rows)
    model = LogisticRegression().fit(X, y)
    labels = np.where(np.arange(N) == 399, "elm", y)
    parquet.write_table(rows.set_column(2, "label", pa.array(labels)), tmp_path / "a.parquet", row_group_size=50)
    with pytest.raises(InvalidInputError, match=r"a\.parquet.*Unknown class in y 'elm'"):
        evaluate(model, scan(tmp_path / "a.parquet", piece_rows=50), "label")
    holes = pa.array([None if i == 399 else label for i, label in enumerate(y)])
    parquet.write_table(rows.set_column(2, "label", holes), tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match="missing values"):
        evaluate(model, tmp_path / "b.parquet", "label")
    with pytest.raises(InvalidInputError, match="no column 'lable'"):
        evaluate(model, tmp_path / "a.parquet", "lable")
    with pytest.raises(InvalidInputError, match="y must be the name of a column"):
        evaluate(model, tmp_path / "a.parquet", y)
    parquet.write_table(rows.slice(0, 0), tmp_path / "c.parquet")
    with pytest.raises(InvalidInputError, match="no rows"):
        evaluate(model, tmp_path / "c.parquet", "label")
    with pytest.raises(InvalidTypeError, match="has no probabilities"):
        evaluate(LeastSquaresClassifier().fit(X, y), tmp_path / "a.parquet", "label", reject=0.1)
    with pytest.raises(InvalidTypeError, match="memory: works with files"):
        evaluate(model, X, y, memory="1GB")
    with pytest.raises(InvalidTypeError, match="A fitted classifier is needed"):
        evaluate(LogisticRegression(), tmp_path / "a.parquet", "label")
    assert issubclass(UnknownNameError, InvalidInputError)


class Shrinking(Cut):
    """A table that loses rows after its first pass."""

    passes = 0

    def pieces(self) -> Any:
        Shrinking.passes += 1
        return list(super().pieces())[: None if Shrinking.passes == 1 else -1]


def test_data_that_changes_between_passes_is_refused(always_folded: None) -> None:
    rows = table(2)
    model = LogisticRegression().fit(*inside(rows))
    Shrinking.passes = 0
    with pytest.raises(InvalidInputError, match="The first pass read 400 rows, but a later one 300"):
        oddsmith.evaluate(model, Shrinking(rows, 100), "label")
