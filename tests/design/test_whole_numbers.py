"""Whole numbers that float64 cannot hold: a warning if they are numbers, an error if they are levels."""

import warnings

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy import sparse

from oddsmith import Design, GaussianClassifier, LogisticRegression, NaiveBayes, scan
from oddsmith.design.whole_numbers import first_rounded
from oddsmith.errors import FormatWarning, InvalidInputError

N = 60
EXACT = np.random.default_rng(0).integers(-(2**50), 2**50, N) << 10
IDS = EXACT + 1
x = np.cos(np.arange(N))
y = np.where(np.sin(np.arange(N) ** 2) + x > 0, "yes", "no")
CONTAINERS = {
    "pandas": lambda ids: pandas.DataFrame({"id": ids, "x": x}),
    "nullable": lambda ids: pandas.DataFrame({"id": pandas.array(ids, dtype="Int64"), "x": x}),
    "polars": lambda ids: polars.DataFrame({"id": ids, "x": x}),
    "arrow": lambda ids: pa.table({"id": ids, "x": x}),
    "unsigned": lambda ids: pa.table({"id": (ids + 2**62).astype(np.uint64), "x": x}),
    "Python integers": lambda ids: pandas.DataFrame({"id": [2**20 * int(i) for i in ids], "x": x}),
    "categories beside": lambda ids: pandas.DataFrame({"id": ids, "x": x, "g": np.where(x > 0.2, "a", "b")}),
    "array": lambda ids: np.column_stack([ids, np.arange(N)]),
    "list": lambda ids: [[int(i), 0.5 * j] for j, i in enumerate(ids)],
    "sparse": lambda ids: sparse.csr_array(np.column_stack([ids, np.arange(N)])),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_numbers_that_are_rounded_are_named(container):
    X = CONTAINERS[container](IDS)
    name = "'id'" if hasattr(X, "columns") else "0"
    with pytest.warns(FormatWarning, match=f"^Column {name} holds whole numbers beyond 2⁵³.*If it is an ID, leave"):
        LogisticRegression(1.0).fit(X, y)


@pytest.mark.parametrize("container", CONTAINERS)
def test_numbers_that_are_exact_are_not(container):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FormatWarning)
        LogisticRegression(1.0).fit(CONTAINERS[container](EXACT), y)


@pytest.mark.parametrize("model", [NaiveBayes(), GaussianClassifier()], ids=str)
def test_generative_models_say_it_too(model):
    table = pandas.DataFrame({"id": IDS, "x": x, "z": x**2})
    with pytest.warns(FormatWarning, match="Column 'id' holds whole numbers beyond"):
        model.fit(table, y)


@pytest.mark.parametrize("design", [None, "~ id + x"])
def test_files_in_pieces_say_it_once(tmp_path, design):
    path = tmp_path / "rows.csv"
    pyarrow.csv.write_csv(pa.table({"id": IDS, "x": x, "other": IDS, "y": y}), path)
    model = LogisticRegression(1.0, design=None if design is None else Design(design))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(scan(path, memory="16MiB"), y="y")
    texts = [str(one.message) for one in caught if "2⁵³" in str(one.message)]
    assert len(texts) == 1
    assert texts[0].startswith("Columns 'id', 'other' hold" if design is None else "Column 'id' holds")


def test_levels_that_would_become_one_are_refused():
    table = pandas.DataFrame({"id": np.repeat([2**60, 2**60 + 1, 2**60 + 2], 20)})
    with pytest.raises(InvalidInputError, match=r"Column 'id' holds whole numbers.*such as 1152921504606846977"):
        Design("~ C(id)").fit(table)
    assert len(Design("~ C(id)").fit(table * 1024).get_feature_names_out()) == 2


def test_integers_are_judged_as_python_does():
    rng = np.random.default_rng(0)
    some = [int(v) << int(k) for v, k in zip(rng.integers(2**50, 2**56, 300), rng.integers(0, 7, 300), strict=True)]
    for value in [*some, *(-v for v in some), -(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0]:
        assert first_rounded(np.array([1, value])) == (value if int(float(value)) != value else None)
