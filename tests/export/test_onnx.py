"""Models as ONNX graphs, run by onnxruntime: the numbers of predict_proba, and columns by their names."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from tests.persistence import zoo
from tests.persistence.tables import as_polars, exported, penguins

from oddsmith import (
    Design,
    GaussianClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    Polynomial,
    Spline,
    Standardize,
)
from oddsmith.errors import InvalidInputError, OddsmithError, UnknownNameError
from oddsmith.links import LINKS
from oddsmith.models import MODELS

DAY = 86_400_000_000


def run(model: Any, table: pl.DataFrame, dtype: str = "float64", **options: Any) -> tuple[Any, Any]:
    """The labels and numbers that onnxruntime finds for the rows of a table."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    made = model.to_onnx(dtype=dtype, **options)
    session = onnxruntime.InferenceSession(made, settings, providers=["CPUExecutionProvider"])
    if options.get("matrix"):
        return tuple(session.run(None, {"X": table.to_numpy().astype(dtype)}))  # type: ignore[return-value]
    feed = {}
    for column in session.get_inputs():
        values = table[column.name]
        if column.type == "tensor(string)":
            given = np.array(["" if value is None else value for value in values.cast(pl.String)], dtype=object)
        elif values.dtype.is_temporal():
            given = values.cast(pl.Datetime("us")).to_physical().to_numpy() / DAY
        else:
            given = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
        feed[column.name] = given[:, None] if given.dtype == object else given[:, None].astype(dtype)
    return tuple(session.run(None, feed))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", list(MODELS))
def test_random_models_of_every_kind_say_the_same_in_onnx(kind: str) -> None:
    for seed in range(3):
        said, model, X, _ = zoo.random_model(kind, np.random.default_rng([8, seed]))
        table = as_polars(X)
        labels, found = run(model, table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            P = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
        assert np.abs(found - P.reshape(found.shape)).max() <= 1e-9 * max(1.0, np.abs(P).max()), said
        top = np.sort(np.column_stack([-P, P]) if P.ndim == 1 else P, axis=1)
        decided = top[:, -1] - top[:, -2] > 1e-9 * max(1.0, np.abs(P).max())  # either class is right in a tie
        wanted = exported(model.predict(X))
        assert all(a == b for a, b, one in zip(labels.tolist(), wanted, decided, strict=True) if one), said


@pytest.mark.parametrize("kind", [kind for kind in MODELS if hasattr(MODELS[kind](), "predict_proba")])
def test_float32_is_near_for_every_kind(kind: str) -> None:
    X = penguins()[0].drop("year").drop_nulls()
    rows = X.select(pl.col(pl.Float64, pl.Int64)).to_numpy()
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    model = MODELS[kind]()
    if "prior" in model.get_params(deep=False):
        model.set_params(prior=1.0)
    binary = kind == "probit"
    t = np.arange(len(rows)) % (2 if binary else 3)
    model.fit(rows + 0.5 * t[:, None], t)
    _, found = run(model, as_polars(rows), "float32")
    assert found.dtype == np.float32
    assert np.abs(found - model.predict_proba(rows)).max() < 1e-5


def test_missing_values_and_unseen_levels_follow_the_policies() -> None:
    X, y = penguins()
    strange = X.head(3).with_columns(island=pl.Series(["Atlantis", "Torgersen", "biscoe"]))
    later = pl.concat([X, strange])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(prior=1.0, design=Design(missing="indicator", unseen="reference")).fit(X, y)
        strict = LogisticRegression(prior=1.0, design=Design(missing="drop")).fit(X, y)
    labels, found = run(model, later)
    assert np.abs(found - model.predict_proba(later)).max() < 1e-9
    assert labels.tolist() == model.predict(later).tolist()
    labels, found = run(strict, later)
    complete = later.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    good = complete & ~np.isin(np.arange(len(later)), [len(X), len(X) + 2])
    assert np.isnan(found[~good]).all()
    assert np.abs(found[good] - strict.predict_proba(later.filter(good))).max() < 1e-9
    assert (labels[~good] == "").all()


def test_formulas_and_bases_are_in_the_graph() -> None:
    X, y = penguins()
    formula = "~ poly(body_mass_g, 2) * sex + spline(bill_length_mm):island + log(flipper_length_mm) + I(year > 2007)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(prior=1.0, design=Design(formula, missing="indicator")).fit(X, y)
        basis = [Standardize(), Polynomial(2), Spline(4)]
        curved = LogisticRegression(prior=1.0, basis=basis, design=Design("~ sex + year", missing="indicator")).fit(
            X, y
        )
    for one in (model, curved):
        assert np.abs(run(one, X)[1] - one.predict_proba(X)).max() < 1e-9


def test_names_that_are_odd_come_through_as_names() -> None:
    names = ['a"b', "select", "x;drop table", "🐧", "/0", "/c0", "//", "N", "X", "%s", " "]
    rng = np.random.default_rng(0)
    table = pl.DataFrame({name: rng.normal(size=40) for name in names})
    table = table.with_columns(pl.Series("word", np.array(["it's", '"', "\\", "a;b"])[rng.integers(0, 4, 40)]))
    labels = np.array(["'); DROP", "🐧", "no"])[np.arange(40) % 3]
    model = LogisticRegression(prior=1.0).fit(table, labels)
    read = {column.name for column in onnx.load_from_string(model.to_onnx()).graph.input}
    assert read == {*names, "word"}
    found, P = run(model, table)
    assert np.abs(P - model.predict_proba(table)).max() < 1e-9
    assert found.tolist() == model.predict(table).tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("link", list(LINKS))
def test_links_equal_those_of_the_library_everywhere(link: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    model = LogisticRegression(prior=1.0).fit(rng.normal(size=(30, 1)), np.arange(30) % 2)
    model.coef_, model.intercept_, model.link_ = np.array([[1.0]]), np.zeros(1), link
    grid = np.concatenate([np.linspace(-45, 45, 901), np.linspace(-0.7, 0.7, 201), [-1e3, 1e3, -1e20, 1e20]])
    grid = grid.astype(dtype).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P = np.exp(model.predict_log_proba(grid[:, None]))
    found = run(model, pl.DataFrame({"x0": grid}), dtype)[1]
    assert np.abs(found - P).max() < (1e-14 if dtype == "float64" else 1e-6)


def test_one_matrix_is_the_same_as_many_columns() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4))
    model = GaussianClassifier("separate").fit(X + np.arange(50)[:, None] % 2, np.arange(50) % 2)
    one, many = (run(model, as_polars(X), matrix=matrix) for matrix in (True, False))
    assert np.array_equal(one[1], many[1]) and np.array_equal(one[0], many[0])


def test_naive_bayes_leaves_out_what_is_missing_or_unknown() -> None:
    model, table, _ = zoo.mixed_naive_bayes()
    rows = pl.from_pandas(table).with_columns(pl.col("word").cast(pl.String))
    rows = pl.concat([rows, *(rows[:6].with_columns(pl.lit(None).cast(rows[c].dtype).alias(c)) for c in rows.columns)])
    rows = pl.concat([rows, rows[:3].with_columns(word=pl.lit("larch"))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # larch is unknown
        P = model.predict_proba(rows)
    assert np.abs(run(model, rows)[1] - P).max() < 1e-9


def test_rows_without_finite_numbers_have_no_result() -> None:
    rng = np.random.default_rng(2)
    for labels, none in (([0, 1], np.iinfo(np.int64).min), (["a", "b"], "")):
        model = LogisticRegression(prior=1.0).fit(rng.normal(size=(30, 1)), np.array(labels)[np.arange(30) % 2])
        found, P = run(model, pl.DataFrame({"x0": [1.0, np.nan, np.inf, -np.inf]}))
        assert np.isnan(P).all(axis=1).tolist() == [False, True, True, True]
        assert found[1:].tolist() == [none] * 3


def test_what_cannot_be_exported_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 1))
    words = pl.DataFrame({"word": np.array(["a", "b"])[np.arange(90) // 2 % 2]})
    plain = LogisticRegression(prior=1.0).fit(X, np.arange(90) % 2)
    called = LogisticRegression(prior=1.0).fit(pl.DataFrame({"label": X[:, 0]}), np.arange(90) % 2)
    named = NaiveBayes().fit(words, np.arange(90) % 2)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: plain.to_onnx(dtype="float16"), UnknownNameError, "float32"),
        (lambda: OneVsOne().fit(X, np.arange(90) % 9).to_onnx(), InvalidInputError, "linear system"),
        (lambda: called.to_onnx(), InvalidInputError, "matrix=True"),
        (lambda: named.to_onnx(matrix=True), InvalidInputError, "matrix=False"),
        (lambda: LogisticRegression().to_onnx(), OddsmithError, "not fitted"),
    ]
    for ask, kind, words_ in cases:
        with pytest.raises(kind, match=words_):
            ask()
    assert run(called, pl.DataFrame({"label": X[:, 0]}), matrix=True)[1].shape == (90, 2)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidInputError, match=r"oddsmith\[onnx\]"):
        plain.to_onnx()
