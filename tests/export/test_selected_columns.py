"""Columns without a weight are not in what is exported: not read, not checked, no inputs of a graph."""

import sqlite3

import numpy as np
import pandas
import pytest

from oddsmith import (
    Design,
    LaplacePrior,
    LogisticRegression,
    OneVsRest,
    Polynomial,
    ProbitRegression,
    SelectColumns,
    Standardize,
)

RNG = np.random.default_rng(0)
N = 300
TABLE = pandas.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.normal(size=N),
        "c": RNG.choice(["u", "v", "w"], N),
        "d": RNG.choice(["p", "q"], N),
        "e": RNG.normal(size=N),
    }
)
LABELS = np.where(2 * TABLE["a"] + 4 * (TABLE["c"] == "v") + RNG.logistic(size=N) > 0, "yes", "no")

CASES = {
    "table": ({}, 0.08, "ac"),
    "standardize": ({"basis": Standardize()}, 0.08, "ac"),
    "formula": ({"design": Design("~ a * c + b + d + log(e + 9)")}, 0.08, "ac"),
    "groups": ({"prior": LaplacePrior(0.08, groups="factor")}, 0.08, "ac"),
    "polynomial": ({"basis": [Standardize(), Polynomial(2)]}, 0.05, "abcde"),
    "none": ({}, 1e-9, "a"),
}


def fitted(name):
    options, scale, read = CASES[name]
    model = LogisticRegression(**{"prior": LaplacePrior(scale), **options}).fit(TABLE, LABELS)
    return model, list(read)


def query(text):
    """What SQLite finds, and the columns that its table needs."""
    database = sqlite3.connect(":memory:")
    TABLE.to_sql("t", database, index=False)
    return pandas.read_sql(text, database)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_query_reads_the_columns_with_a_weight(name, refit):
    model, read = fitted(name)
    if refit and name != "none":
        model = model.refit(TABLE, LABELS)
    text = model.to_sql("t", "sqlite")
    assert [c for c in TABLE.columns if f't."{c}"' in text] == read
    found = query(text)
    assert sorted(found.columns[:-3]) == read
    np.testing.assert_allclose(found["p_yes"], model.predict_proba(TABLE)[:, 1], rtol=1e-12)


@pytest.mark.parametrize("name", ["table", "standardize", "formula", "polynomial"])
def test_graph_has_inputs_for_the_columns_with_a_weight(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model, read = fitted(name)
    session = onnxruntime.InferenceSession(model.to_onnx())
    names = [column.name for column in session.get_inputs()]
    assert sorted(names) == read
    given = {c: TABLE[[c]].to_numpy(np.float64 if c in "abe" else object) for c in names}
    np.testing.assert_allclose(session.run(["probabilities"], given)[0], model.predict_proba(TABLE), rtol=1e-10)


def test_missing_values_in_a_column_without_a_weight_do_no_harm():
    model, _ = fitted("table")
    holes = TABLE.assign(b=np.nan, d=None)
    database = sqlite3.connect(":memory:")
    holes.to_sql("t", database, index=False)
    found = pandas.read_sql(model.to_sql("t", "sqlite"), database)
    np.testing.assert_allclose(found["p_yes"], model.predict_proba(TABLE)[:, 1], rtol=1e-12)


def test_wide_rows_give_a_short_query():
    X = RNG.normal(size=(100, 3000))
    y = X[:, 5] + 0.3 * RNG.logistic(size=100) > 0
    model = LogisticRegression(LaplacePrior(0.05), basis=Standardize()).fit(X, y)
    assert 0 < len(model.selected_) < 40
    text = model.to_sql("t", "duckdb")
    assert len(text) < 20_000
    assert all(f'"{name}"' in text for name in model.selected_)


def test_parts_of_other_models_keep_their_weights():
    three = np.digitize(TABLE["a"] + RNG.logistic(size=N), [-1, 1])
    model = OneVsRest(LogisticRegression(LaplacePrior(0.05))).fit(TABLE[["a", "b", "e"]], three)
    found = query(model.to_sql("t", "sqlite"))
    np.testing.assert_allclose(found["p_1"], model.predict_proba(TABLE[["a", "b", "e"]])[:, 1], rtol=1e-10)


def test_select_columns_can_be_exported():
    model = LogisticRegression(basis=[SelectColumns(["e", "a"]), Polynomial(2)]).fit(TABLE[["a", "b", "e"]], LABELS)
    text = model.to_sql("t", "sqlite")
    assert 't."b"' not in text
    np.testing.assert_allclose(query(text)["p_yes"], model.predict_proba(TABLE[["a", "b", "e"]])[:, 1], rtol=1e-10)


def test_a_model_of_weights_that_are_all_zero_is_a_constant():
    model = ProbitRegression(LaplacePrior(1e-9), fit_intercept=False).fit(TABLE[["a", "b"]], LABELS)
    np.testing.assert_allclose(query(model.to_sql("t", "sqlite"))["p_yes"], np.full(N, 0.5))
