"""Splines against R's ``ns`` and ``bs``, scikit-learn's ``SplineTransformer`` and their definition."""

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import SplineTransformer
from tests.reference_data import Case, cases

from oddsmith import LogisticRegression, Spline
from oddsmith.design.basis import learn_expansion
from oddsmith.design.basis.spline import quantiles
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError, OddsmithError

X = np.random.default_rng(0).gamma(2.0, size=(200, 2))


def spline(case: Case) -> Spline:
    record = case.expected
    knots = record["n_knots"] if record["knots"] is None else record["knots"]
    return Spline(knots, record["degree"], natural=record["basis"] == "ns")


@pytest.mark.parametrize("case", cases("spline_*"), ids=str)
def test_knots_and_columns_equal_those_of_r(case: Case) -> None:
    basis = spline(case).fit(case.X)
    for knots, interior in zip(basis.knots_, case.expected["interior"], strict=True):
        np.testing.assert_allclose(knots[1:-1], interior, rtol=1e-14)
    np.testing.assert_allclose(basis.transform(case.X[:5]), case.expected["phi"], atol=1e-12)


@pytest.mark.parametrize("case", cases("spline_*"), ids=str)
def test_fitted_probabilities_equal_those_of_glm_on_rs_splines(case: Case) -> None:
    basis = spline(case).fit(case.X)
    model = LogisticRegression().fit(basis.transform(case.X), case.y)
    assert model.log_likelihood_ == pytest.approx(case.expected["log_likelihood"], rel=1e-11)
    fitted = case.expected["fitted"]
    found = model.predict_proba(basis.transform(case.X[: len(fitted)]))[:, 1]
    np.testing.assert_allclose(found, fitted, rtol=1e-8)
    beyond = model.predict_proba(basis.transform(case.expected["new"]))[:, 1]
    np.testing.assert_allclose(beyond, case.expected["predicted"], rtol=1e-7)


def same_span(A: np.ndarray, B: np.ndarray) -> None:
    """Assert that both matrices span the same columns, with a constant."""
    A, B = (np.column_stack([np.ones(len(M)), M]) for M in (A, B))
    assert np.linalg.matrix_rank(A) == np.linalg.matrix_rank(B) == A.shape[1] == B.shape[1]
    np.testing.assert_allclose(A @ np.linalg.lstsq(A, B)[0], B, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["B-spline", "periodic"])
def test_span_is_that_of_scikit_learn(kind: str, degree: int) -> None:
    periodic = kind == "periodic"
    knots = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 9.0])
    x = np.linspace(-3.0, 12.0, 400)[:, None]
    ours = Spline(knots, degree, natural=False, periodic=periodic).fit(x)
    way = "periodic" if periodic else "constant"
    theirs = SplineTransformer(degree=degree, knots=knots[:, None], extrapolation=way, include_bias=False).fit(x)
    same_span(ours.transform(x), theirs.transform(x))


def test_natural_splines_are_smooth_and_straight_outside() -> None:
    basis = Spline([0.0, 1.0, 4.0, 5.0]).fit([[0.0], [5.0]])
    h = 1e-4
    for knot in (0.0, 1.0, 4.0, 5.0):
        before, at, after = basis.transform([[knot - h], [knot], [knot + h]])
        left, right = (basis.transform([[knot + d - h], [knot + d], [knot + d + h]]) for d in (-h, h))
        np.testing.assert_allclose((after - at) / h, (at - before) / h, atol=1e-3)
        bend_left, bend_right = ((b[0] - 2 * b[1] + b[2]) / h**2 for b in (left, right))
        np.testing.assert_allclose(bend_left, bend_right, atol=1e-2)
    for side in ([-9.0, -6.0, -3.0], [6.0, 8.0, 10.0]):
        a, b, c = basis.transform(np.array(side)[:, None])
        np.testing.assert_allclose(c - b, b - a, atol=1e-12)


def test_b_splines_keep_their_value_outside() -> None:
    basis = Spline([0.0, 1.0, 2.0], natural=False).fit([[0.0], [2.0]])
    np.testing.assert_array_equal(basis.transform([[-5.0], [7.0]]), basis.transform([[0.0], [2.0]]))


def test_periodic_splines_repeat_and_join_smoothly() -> None:
    basis = Spline(np.linspace(0.0, 24.0, 7), periodic=True).fit([[3.0], [20.0]])
    hours = np.array([0.0, 1.5, 11.0, 23.9])[:, None]
    for days in (-2, 1, 5):
        np.testing.assert_allclose(basis.transform(hours + 24.0 * days), basis.transform(hours), atol=1e-12)
    h = 1e-3
    a, b, c, d = basis.transform(np.array([-2.0 * h, -h, h, 2.0 * h])[:, None])
    np.testing.assert_allclose((b - a) / h, (d - c) / h, atol=1e-2)
    np.testing.assert_allclose(b, c, atol=1e-2)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_quantiles_equal_those_of_numpy(n: int) -> None:
    rng = np.random.default_rng(n)
    values, counts = np.sort(rng.normal(size=40)), rng.integers(1, 4, 40)
    expected = np.quantile(np.repeat(values, counts), np.linspace(0.0, 1.0, n))
    np.testing.assert_allclose(quantiles(values, counts.astype(np.float64), n), expected, rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_of_many_rows_are_those_of_few(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of rows the values come from a sample, which here is all of them."""
    from oddsmith.design.basis import spline as module

    table = np.vstack([np.round(X, 1)] * 3)
    s = np.random.default_rng(2).integers(0, 3, len(table)).astype(np.float64) if weighted else None
    source = MemorySource(table, np.zeros(len(table), dtype=np.int32), 1, s)
    at_once = learn_expansion(Spline(6), source, ["a", "b"], engine=MemoryEngine()).steps[0].knots_
    monkeypatch.setattr(module, "QUANTILE_VALUES", 500)
    by_sample = learn_expansion(Spline(6), source, ["a", "b"], engine=MemoryEngine()).steps[0].knots_
    np.testing.assert_array_equal(by_sample, at_once)
    monkeypatch.setattr(module, "QUANTILE_VALUES", 40)
    fewer = learn_expansion(Spline(6), source, ["a", "b"], engine=MemoryEngine()).steps[0].knots_
    assert len(fewer[0]) == 6
    np.testing.assert_allclose(fewer[0], at_once[0], atol=1.5)


def test_a_row_of_weight_2_is_the_row_twice() -> None:
    s = np.random.default_rng(1).integers(0, 4, len(X)).astype(np.float64)
    source = MemorySource(X, np.zeros(len(X), dtype=np.int32), 1, s)
    weighted = learn_expansion(Spline(6), source, ["a", "b"], engine=MemoryEngine())
    repeated = Spline(6).fit(np.repeat(X, s.astype(int), axis=0))
    np.testing.assert_allclose(weighted(X), repeated.transform(X), atol=1e-12)


def test_weights_of_any_size_place_the_knots() -> None:
    s = np.random.default_rng(1).uniform(0.5, 1.5, len(X))

    def knots(s: np.ndarray) -> np.ndarray:
        source = MemorySource(X, np.zeros(len(X), dtype=np.int32), 1, s)
        return learn_expansion(Spline(4), source, ["a", "b"], engine=MemoryEngine()).steps[0].knots_[0]

    np.testing.assert_allclose(knots(s / s.sum()), knots(s), rtol=1e-9)
    s[[X[:, 0].argmin(), X[:, 0].argmax()]] = 0.01
    assert knots(s)[[0, -1]].tolist() == [X[:, 0].min(), X[:, 0].max()]


def test_columns_with_few_values_have_fewer_knots() -> None:
    table = np.column_stack([np.tile([0.0, 1.0], 20), np.full(40, 3.0), np.arange(40.0)])
    basis = Spline(5).fit(table)
    assert [len(knots) for knots in basis.knots_] == [2, 1, 5]
    Phi = basis.transform(table)
    assert Phi.shape == (40, 1 + 1 + 4)
    # Two knots make a straight line, one nothing at all.
    same_span(Phi[:, :1], table[:, :1])
    assert not Phi[:, 1].any()
    assert basis.get_feature_names_out().tolist() == ["x0_sp_0", "x1_sp_0", *(f"x2_sp_{b}" for b in range(4))]


def test_each_column_can_have_its_own_knots() -> None:
    knots = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    both = Spline(knots).fit(X)
    for j in range(2):
        alone = Spline(knots[:, j]).fit(X[:, [j]])
        np.testing.assert_array_equal(both.transform(X)[:, 2 * j : 2 * j + 2], alone.transform(X[:, [j]]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 0}, "at least 1, found 0"),
        ({"degree": 2.5, "natural": False}, "found 2.5"),
        ({"degree": 2}, "natural=False"),
        ({"knots": 1}, "at least 2, found 1"),
        ({"knots": 3, "periodic": True}, "at least 4"),
        ({"knots": 2.5}, "whole number.*found 2.5"),
        ({"knots": "five"}, "could not convert"),
        ({"knots": [0.0]}, "at least 2 knots"),
        ({"knots": [0.0, 2.0, 1.0]}, "must increase"),
        ({"knots": [0.0, 1.0, 1.0, 2.0]}, "without repetition"),
        ({"knots": [0.0, np.nan]}, "NaN"),
        ({"knots": [100.0, 200.0]}, "'x0' lies between its knots, from 100 to 200"),
        ({"knots": [[0.0] * 3, [1.0] * 3]}, "3 columns, but the rows have 2"),
        ({"knots": 50, "limit": 97}, "98 columns .*limit=98"),
        ({"knots": list(range(50)), "limit": 97}, "98 columns .*limit=98"),
        ({"natural": "yes"}, "True or False"),
        ({"periodic": 1}, "True or False"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OddsmithError, match=message):
        Spline(**options).fit(X)


def test_a_range_beyond_float64_is_refused_by_the_name_of_the_column() -> None:
    with pytest.raises(InvalidInputError, match="'x0' spans"):
        Spline(3).fit([[-1e308], [0.0], [1e308]])
