"""A fit to a table takes little memory besides it, whatever its library and what is given with it."""

import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from oddsmith import Design, GaussianPrior, LogisticRegression
from oddsmith.design.inputs import read_labels

N = 250_000
MOST = 0.30  # of the table's bytes


def table(*, missing: bool = False) -> pandas.DataFrame:
    """Four numbers and three factors; with ``missing``, all but a number and a factor miss some values."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{j}": rng.normal(size=N) for j in range(4)}
    for j, levels in enumerate((3, 20, 60)):
        codes = rng.integers(0, levels, N).astype(np.int8)
        codes[rng.random(N) < 0.02 * (missing and j < 2)] = -1
        columns[f"f{j}"] = pandas.Categorical.from_codes(codes, [f"level {k:02}" for k in range(levels)])
    for j in range(3 * missing):
        columns[f"x{j}"][rng.random(N) < 0.02] = np.nan
    return pandas.DataFrame(columns, copy=False)


def labels(frame: pandas.DataFrame, classes: int = 2) -> Any:
    rng = np.random.default_rng(1)
    a = np.nan_to_num(frame["x0"].to_numpy()) + 0.2 * frame["f1"].cat.codes.to_numpy() + rng.logistic(size=N)
    return np.searchsorted(np.quantile(a, np.arange(1, classes) / classes), a)


def in_blocks(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The numbers as one array by rows, so that those of a column are apart."""
    numbers = pandas.DataFrame(np.ascontiguousarray(frame[["x0", "x1", "x2", "x3"]].to_numpy()), copy=False)
    numbers.columns = pandas.Index(["x0", "x1", "x2", "x3"])
    return pandas.concat([numbers, frame[["f0", "f1", "f2"]]], axis=1)


def in_arrow(frame: pandas.DataFrame, type_: pa.DataType | None = None) -> pa.Table:
    """Each column in one chunk; factors as strings of a type, if one is given."""
    found = pa.Table.from_pandas(frame, preserve_index=False)
    for i, name in enumerate(frame.columns):
        if type_ is not None and name.startswith("f"):
            found = found.set_column(i, name, found[name].cast(type_))
    return found


def in_polars(frame: pandas.DataFrame) -> polars.DataFrame:
    return polars.DataFrame(in_arrow(frame, pa.large_string()))


FORMS: dict[str, tuple[Callable[[pandas.DataFrame], Any], int]] = {
    "pandas categoricals": (lambda frame: frame, 35),
    "pandas, numbers apart": (in_blocks, 35),
    "pandas text": (lambda frame: frame.astype(dict.fromkeys(("f0", "f1", "f2"), "str")), 80),
    "polars text": (in_polars, 80),
    "arrow dictionary": (in_arrow, 35),
    "arrow strings": (lambda frame: in_arrow(frame, pa.string()), 68),
}
"""How a table comes, and the bytes of a row."""


def share(X: Any, y: Any, size: int, design: Design | None = None, prior: Any = 1.0, **given: Any) -> float:
    """The most memory that NumPy, Python and Arrow take in a fit, as a share of the table's bytes."""
    model = LogisticRegression(prior=prior, design=design)
    model.fit(X, y, **given)  # what a fit has to load
    pool = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(pool)
    tracemalloc.start()
    try:
        pa.set_memory_pool(counted)
        LogisticRegression(prior=prior, design=design).fit(X, y, **given)
        peak = tracemalloc.get_traced_memory()[1] + counted.max_memory()
    finally:
        pa.set_memory_pool(pool)
        tracemalloc.stop()
    assert model.certificate_.converged
    return float(peak / (size * N))


# Nulls of other libraries than pandas become NaN in a copy of the column.
CASES = [
    (form, missing)
    for form in FORMS
    for missing in ("error", "drop", "indicator")
    if missing != "indicator" or form.startswith("pandas")
]


@pytest.mark.parametrize(("form", "missing"), CASES)
def test_no_form_of_a_table_is_copied(form: str, missing: str) -> None:
    """A copy of the numbers would be 0.4 to 0.9; rows to drop were copied, and filled columns of numbers."""
    frame = table(missing=missing != "error")
    make, size = FORMS[form]
    if missing == "drop" and not form.startswith("pandas"):  # such a column, too
        frame = frame.fillna(dict.fromkeys(("x0", "x1", "x2"), 0.0))
    assert share(make(frame), labels(frame), size, Design(missing=missing)) <= MOST


@pytest.mark.parametrize("what", ["weights", "offset", "float32", "three classes", "products"])
def test_nothing_that_belongs_to_a_fit_takes_much(what: str) -> None:
    """Row numbers of rows with a weight, the null model beside an offset, and levels combined, took 8 bytes a row each.

    Several classes take some MB for the losses of a few thousand rows and for samples, however many rows there are;
    losses computed by NumPy took 0.59.
    """
    frame, design, size, given = table(), None, 35, {}
    if what == "weights":
        size, given = 43, {"sample_weight": np.random.default_rng(2).integers(0, 3, N).astype(np.float64)}
    elif what == "offset":
        size, given = 43, {"offset": np.random.default_rng(2).normal(size=N)}
    elif what == "float32":
        size, frame = 19, frame.astype(dict.fromkeys(("x0", "x1", "x2", "x3"), np.float32))
    elif what == "products":
        design = Design("x0 + x1 + x2 + x3 + f0 * f1 + f0 * x0")
    classes, most = (3, 0.36) if what == "three classes" else (2, MOST)
    assert share(frame, labels(frame, classes), size, design, **given) <= most


@pytest.mark.parametrize(
    ("prior", "classes", "formula", "most"),
    [
        (1.0, 2, None, 0.5),
        (None, 2, None, 0.55),
        (GaussianPrior("evidence"), 2, None, 0.65),
        (1.0, 3, None, 0.65),
        (1.0, 6, None, 0.68),
        (1.0, 12, None, 0.75),
        (1.0, 2, "x0 + x1 + x2 + x3 + f1 + f2 + f3 + f2:x0", 1.05),
    ],
    ids=str,
)
def test_many_levels_take_a_bounded_share(prior: Any, classes: int, formula: str | None, most: float) -> None:
    """Their sums do not grow with the rows.

    Copies of them took 0.64, 0.62, 5.7 (rows by all columns), and 1.16 with products. Of several classes, those of all
    pairs took 1.0 (three) and 4.1 (six).
    """
    frame, rng = table(), np.random.default_rng(3)
    codes = rng.integers(0, 4_000, N).astype(np.int16)
    frame["f3"] = pandas.Categorical.from_codes(codes, [f"level {k:04}" for k in range(4_000)])
    y = labels(frame, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many levels
        assert share(frame, y, 37, None if formula is None else Design(formula), prior) <= most


def test_labels_are_read_where_they_are_and_never_written_to() -> None:
    """A copy took a byte a row; dropped rows take the class of another in a copy."""
    frame = table(missing=True)
    y = labels(frame)
    before = y.copy()
    assert read_labels(y, N, narrow=True)[1] is y
    LogisticRegression(prior=1.0, design=Design(missing="drop")).fit(frame, y)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_are_dropped_may_hold_anything(seed: int, classes: int) -> None:
    """They stay in the table with weight 0: their levels, classes, infinities and offsets must not matter."""
    rng, n = np.random.default_rng(seed), 900
    x = {name: 5.0 + rng.normal(size=n) for name in ("a", "b")}
    f = rng.integers(0, 30, n).astype(np.int8)
    frame = pandas.DataFrame({**x, "f": pandas.Categorical.from_codes(f, [f"level {k}" for k in range(30)])})
    y = rng.integers(0, classes, n)
    gone = (f == 7) | (rng.random(n) < (0.05, 0.9)[seed % 2])
    y[np.flatnonzero(gone)[0]] = 9  # a class of its own
    given: dict[str, Any] = {"offset": rng.normal(size=(n, classes)) if classes > 2 else rng.normal(size=n)}
    given["offset"][gone] = np.nan
    if seed >= 2:
        given["sample_weight"] = rng.uniform(0.5, 2.0, n)
    frame.loc[gone, "a"] = np.nan
    if seed >= 4:
        frame.loc[gone, "b"] = np.inf
    model = LogisticRegression(prior=1.0, tol=1e-12, design=Design(missing="drop")).fit(frame, y, **given)
    kept = frame[~gone].reset_index(drop=True)
    other = LogisticRegression(prior=1.0, tol=1e-12).fit(kept, y[~gone], **{k: v[~gone] for k, v in given.items()})
    assert model.design_.get_feature_names_out().tolist() == other.design_.get_feature_names_out().tolist()
    np.testing.assert_array_equal(model.classes_, other.classes_)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-10)
    assert model.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-12)
    assert model.summary().n_rows == other.summary().n_rows
