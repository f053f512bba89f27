"""Reading of rows, labels, weights and offsets: the same whatever form they come in, and no copy where none is due."""

import warnings
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.base import BaseEstimator

from oddsmith import FisherDiscriminant, GaussianClassifier, LogisticRegression, OneVsRest
from oddsmith.design.class_weight import read_weights
from oddsmith.design.inputs import (
    _small_integers,
    check_finite,
    read_labels,
    read_offset,
    read_rows,
    split_target,
)
from oddsmith.errors import InvalidInputError, LevelsWarning, OddsmithError
from oddsmith.rows import ColumnRows, SplitRows

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@given(data=st.data(), dtype=st.sampled_from(WHOLE))
def test_codes_of_whole_numbers_are_those_of_sorting_them(data: st.DataObject, dtype: str) -> None:
    base = data.draw(st.sampled_from([0, 0, 1, -5, 100, 2**31, 2**63]))
    steps = data.draw(arrays(np.int64, st.integers(2, 40), elements=st.integers(0, 6)))
    info = None if dtype == "bool" else np.iinfo(dtype)
    values = [int(base) + int(step) for step in steps]
    if info is not None and not all(info.min <= value <= info.max for value in values):
        values = steps.tolist()
    y = np.array(values, dtype=dtype)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        with pytest.raises(InvalidInputError, match="one class only"):
            read_labels(y, len(y))
        return
    found, found_codes = read_labels(y, len(y))
    assert found.dtype == y.dtype and found_codes.dtype == np.int32
    assert np.array_equal(found, classes)
    assert np.array_equal(found_codes, codes)


@given(st.lists(st.sampled_from(["ash", "birch", "Birke", "ü", ""]), min_size=10, max_size=30))
def test_codes_of_words_are_those_of_sorting_them(words: list[str]) -> None:
    classes, codes = np.unique(words, return_inverse=True)
    if len(classes) < 2:
        return
    for y in (words, tuple(words), np.array(words), np.array(words, dtype=object)):
        found, found_codes = read_labels(y, len(words))
        assert found.tolist() == classes.tolist()
        assert np.array_equal(found_codes, codes)


@pytest.mark.parametrize("gap", [2, 4095, 4096, 10**9])
def test_labels_far_apart_are_coded_too(gap: int) -> None:
    y = np.array([0, gap, 0, gap, 1])
    classes, codes = read_labels(y, 5)
    assert classes.tolist() == [0, 1, gap]
    assert codes.tolist() == [0, 2, 0, 2, 1]


@given(
    base=st.sampled_from([0.0, -0.0, -3.0, 2.0**31, 2.0**53, -(2.0**53), 2.0**60]),
    steps=arrays(np.int64, st.integers(20, 40), elements=st.integers(0, 6)),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_codes_of_whole_floats_are_those_of_sorting_them(base: float, steps: Any, dtype: str) -> None:
    """Beyond 2⁵³ floats are further apart than 1: some of the labels are then one."""
    with np.errstate(over="ignore"):
        y = (base + 4096.0 * steps if abs(base) > 2.0**53 else base + steps).astype(dtype)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2 or not np.isfinite(y).all():
        with pytest.raises(InvalidInputError):
            read_labels(y, len(y))
        return
    found, found_codes = read_labels(y, len(y))
    assert found.dtype == y.dtype and found_codes.dtype == np.int32
    assert np.array_equal(found, classes) and np.array_equal(found_codes, codes)


@pytest.mark.parametrize("far", [2.0**62, -(2.0**63), -(2.0**64), 1e300])
def test_floats_beyond_whole_numbers_are_left_to_sorting(far: float) -> None:
    assert _small_integers(np.array([far, np.nextafter(far, 0.0)] * 9), 18, narrow=False) is None


@pytest.mark.parametrize("labels", [[0.0, 0.5, 1.0], [0.0, np.nan, 1.0], [0.0, np.inf, 1.0], [-np.inf, 0.0, 1.0]])
def test_labels_that_are_no_classes_are_refused(labels: list[float]) -> None:
    with pytest.raises(InvalidInputError):
        read_labels(np.array(labels * 20), 60)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 2)),
        np.zeros((3, 2), dtype=np.float32),
        np.asfortranarray(np.zeros((3, 2))),
        np.zeros((6, 2))[::2],
    ],
)
def test_float_arrays_are_not_copied(X: np.ndarray) -> None:
    assert np.shares_memory(read_rows(BaseEstimator(), X, reset=True), X)


def test_csr_is_not_copied_and_other_sparse_forms_become_csr() -> None:
    X = sparse.coo_array(sparse.random(20, 4, density=0.3, random_state=np.random.default_rng(0)))
    csr = sparse.csr_array(X)
    assert np.shares_memory(read_rows(BaseEstimator(), csr, reset=True).data, csr.data)
    for form in (sparse.csc_array, sparse.coo_array, sparse.csr_matrix, sparse.lil_array):
        rows = read_rows(BaseEstimator(), form(X), reset=True)
        assert rows.format == "csr"
        np.testing.assert_array_equal(rows.toarray(), X.toarray())


def test_names_and_number_of_columns_are_kept_and_compared() -> None:
    import pandas

    estimator = BaseEstimator()
    table = pandas.DataFrame({"age": [1.0, 2.0], "dose": [3, 4]})
    rows = read_rows(estimator, table, reset=True)
    assert rows.dtype == np.float64 and rows.flags.c_contiguous
    assert estimator.feature_names_in_.tolist() == ["age", "dose"] and estimator.n_features_in_ == 2
    read_rows(estimator, table, reset=False)
    with pytest.raises(InvalidInputError, match="same order"):
        read_rows(estimator, table[["dose", "age"]], reset=False)


def test_missing_values_in_whole_number_columns_are_seen() -> None:
    import pandas
    import polars

    for table in (
        pandas.DataFrame({"n": pandas.array([1, None, 3], dtype="Int64")}),
        polars.DataFrame({"n": [1, None, 3]}),
        polars.DataFrame({"n": [True, None, False]}),
    ):
        rows = read_rows(BaseEstimator(), table, reset=True)
        assert np.isnan(rows[:, 0]).tolist() == [False, True, False]
        with pytest.raises(InvalidInputError, match=r"column 'n' has 1 missing value .*, the first in row 1"):
            check_finite(rows, np.array(["n"]))


def test_large_finite_values_are_finite() -> None:
    """Their sum is not: a quick look at the sum must not be the last word."""
    check_finite(np.full((4, 2), 1e308), None)
    check_finite(sparse.csr_array(np.full((4, 2), -1e308)), None)
    check_finite(np.full((4, 2), 3e38, dtype=np.float32), None)
    check_finite(SplitRows((ColumnRows((np.full(4, 1e308),), 4),)), None)


def test_opposite_infinities_do_not_cancel() -> None:
    X = np.zeros((5, 2))
    X[1, 1], X[3, 1] = np.inf, -np.inf
    for rows in (X, SplitRows((ColumnRows(tuple(X.T), 5),))):
        with pytest.raises(InvalidInputError, match=r"column 1 has 2 infinite values .*, the first in row 1"):
            check_finite(rows, None)


@given(arrays(np.float64, (6, 3), elements=st.sampled_from([0.0, 1.0, np.nan, np.inf, -np.inf])), st.booleans())
def test_every_value_that_is_not_finite_is_found(X: np.ndarray, as_csr: bool) -> None:
    rows = sparse.csr_array(X) if as_csr else X
    if np.isfinite(X).all():
        check_finite(rows, None)
        return
    with pytest.raises(InvalidInputError) as caught:
        check_finite(rows, None)
    column = int(str(caught.value).split("column ")[1].split()[0])
    assert not np.isfinite(X[:, column]).all()


def test_weights_are_read_from_anything_with_one_number_a_row() -> None:
    import polars

    assert read_weights(None, 3) is None
    for weights in ([1, 2, 3], np.array([1, 2, 3], dtype=np.int8), polars.Series([1, 2, 3])):
        found = read_weights(weights, 3)
        assert found is not None and found.dtype == np.float64 and found.tolist() == [1.0, 2.0, 3.0]
    for wrong in ([1, 2], [[1, 2, 3]], [1, -2, 3], [np.nan, 1, 1], [0, 0, 0], ["a", "b", "c"]):
        with pytest.raises(OddsmithError):
            read_weights(wrong, 3)


def test_offsets_are_kept_against_the_first_class() -> None:
    assert read_offset(None, 3, 2) is None
    found = read_offset([1, 2, 3], 3, 2)
    assert found is not None and found.tolist() == [[1.0], [2.0], [3.0]]
    three = read_offset([[1.0, 3.0, 6.0], [0.0, -1.0, 2.0]], 2, 3)
    assert three is not None and three.tolist() == [[2.0, 5.0], [-1.0, 2.0]]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_target_is_taken_out_of_its_table(library: str) -> None:
    import polars

    table: Any = polars.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"], "z": [0.0, 1.0]})
    table = {"polars": table, "pandas": table.to_pandas(), "pyarrow": table.to_arrow()}[library]
    rows, labels = split_target(table, "y")
    names = rows.column_names if library == "pyarrow" else list(rows.columns)
    assert names == ["x", "z"] and list(labels) == ["a", "b"]
    assert split_target(table, labels)[0] is table


def test_arrays_of_floats_are_taken_as_they_are_and_replace_the_names_of_an_earlier_fit() -> None:
    model = BaseEstimator()
    model.feature_names_in_ = np.array(["a", "b"], dtype=object)
    for dtype in (np.float64, np.float32):
        X = np.ones((3, 4), dtype=dtype)
        assert read_rows(model, X, reset=True) is X
        assert vars(model) == {"n_features_in_": 4}
    with pytest.raises(InvalidInputError, match="4 features"):
        read_rows(model, np.ones((3, 2)), reset=False)
    for wrong in (np.ones(3), np.ones((0, 2)), np.ones((3, 0)), np.ones((2, 2, 2))):
        with pytest.raises(InvalidInputError):
            read_rows(model, wrong, reset=True)
    swapped = np.ones((2, 2), dtype=np.float64).byteswap()
    swapped = swapped.view(swapped.dtype.newbyteorder())
    assert read_rows(model, swapped, reset=True).tolist() == [[1.0, 1.0], [1.0, 1.0]]


ROWS = np.random.default_rng(0).normal(size=(40, 2))
SIDES = np.arange(40) % 3 > 0
MODELS = [LogisticRegression(1.0), GaussianClassifier(), FisherDiscriminant(), OneVsRest(LogisticRegression(1.0))]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_masked_values_are_missing(model: Any) -> None:
    masked = np.ma.masked_array(ROWS, mask=np.arange(80).reshape(40, 2) == 9)
    with pytest.raises(InvalidInputError, match=r"column 1 has 1 missing value .* row 4"):
        model.fit(masked, SIDES)
    with pytest.raises(InvalidInputError, match=r"y contains .* row 3"):
        model.fit(ROWS, np.ma.masked_array(SIDES, mask=np.arange(40) == 3))
    with pytest.raises(InvalidInputError, match="column 1 has 1 missing value"):
        model.fit(ROWS, SIDES).predict(masked)
    unmasked = model.fit(np.ma.masked_array(ROWS), SIDES).predict(ROWS)  # nothing is masked
    assert unmasked.tolist() == model.fit(ROWS, SIDES).predict(ROWS).tolist()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("type_", ["m8[h]", "M8[D]"])
def test_arrays_of_times_are_refused(model: Any, type_: str) -> None:
    with pytest.raises(InvalidInputError, match="array of times"):
        model.fit(np.arange(80).reshape(40, 2).astype(type_), SIDES)


def test_durations_are_refused_whatever_the_library() -> None:
    hours = np.arange(40).astype("m8[h]").astype("m8[us]")
    for table in (pandas.DataFrame({"a": hours}), polars.DataFrame({"a": hours}), pa.table({"a": hours})):
        with pytest.raises(InvalidInputError, match=r"Column 'a' is of type .*uration"):
            LogisticRegression(1.0).fit(table, SIDES)


def test_record_batch_is_a_table() -> None:
    columns = {"a": ROWS[:, 0], "b": ["u", "v"] * 20}
    batch, table = pa.record_batch(columns), pa.table(columns)
    model = LogisticRegression(1.0).fit(batch, SIDES)
    assert np.array_equal(model.coef_, LogisticRegression(1.0).fit(table, SIDES).coef_)
    assert np.array_equal(model.predict_proba(batch), model.predict_proba(table))


def test_labels_that_are_not_available_are_missing() -> None:
    y = pandas.Series(SIDES, dtype="boolean")
    y[3] = pandas.NA
    with pytest.raises(InvalidInputError, match=r"missing values .* row 3"):
        read_labels(y, 40)


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", "Int64", "category"])
def test_labels_in_an_array_of_pandas_are_those_of_its_series(dtype: str) -> None:
    y = pandas.array(SIDES.astype(int if dtype == "Int64" else bool), dtype=dtype)
    classes, codes = read_labels(y, 40)
    assert classes.dtype == (np.int64 if dtype == "Int64" else bool) and np.array_equal(codes, SIDES)


@pytest.mark.parametrize("kind", [bool, np.bool_, int, np.int64, np.str_])
def test_objects_of_one_type_are_labels(kind: Any) -> None:
    y = np.array([kind(side) for side in SIDES], dtype=object)
    classes, codes = read_labels(y, 40)
    assert classes.tolist() == sorted({kind(side) for side in SIDES}) and codes.tolist() == SIDES.tolist()


def test_weights_and_offsets_that_are_missing_are_located() -> None:
    holes = np.where(np.arange(40) > 30, np.nan, 1.0)
    with pytest.raises(
        InvalidInputError, match="sample_weight contains NaN or infinity in 9 rows, the first in row 31"
    ):
        read_weights(holes, 40)
    with pytest.raises(InvalidInputError, match="offset contains NaN or infinity in 9 rows, the first in row 31"):
        read_offset(holes, 40, 2)


def test_column_of_numbers_and_text_shows_one_of_each() -> None:
    table = pandas.DataFrame({"a": [np.float64(i) if i else "n/a" for i in range(40)], "b": ["u", "v"] * 20})
    with pytest.raises(InvalidInputError, match=r"different types \('n/a' in row 0, 1\.0 in row 1\)"):
        LogisticRegression(1.0).fit(table, SIDES)


def test_columns_that_were_not_in_the_fit_are_named_before_their_values() -> None:
    table = pandas.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]})
    model = LogisticRegression(1.0).fit(table, SIDES)
    with pytest.raises(InvalidInputError, match="unseen at fit time:\n- name"):
        model.predict(table.assign(name="x"))


@pytest.mark.parametrize("label", [int, str])
def test_labels_that_are_nearly_all_different_are_questioned(label: Any) -> None:
    y = [label(i) for i in range(30)] * 2
    with pytest.warns(LevelsWarning, match=r"y holds 30 classes in 50 rows"):
        read_labels(np.array(y[:50]), 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_labels(np.array(y), 60)
        read_labels(np.array([label(i) for i in range(20)]), 20)
