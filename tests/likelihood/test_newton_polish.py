"""The last digits of weights by columns: conditions of an optimum, columns that are missing, systems by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.likelihood import two_class_descent
from oddsmith.likelihood.newton_polish import PolishSystem, newton_steps, polished, with_best_intercept
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.likelihood.two_class_descent import TwoClassDescent
from oddsmith.solvers import policy
from oddsmith.solvers.proximal_newton import ROUNDING

SCALE, COLUMNS, ROWS = 0.4, 60, 150


@pytest.fixture(autouse=True)
def many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any table one of many columns."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=0))


def table(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, COLUMNS)) + 0.5 * rng.normal(size=(ROWS, 1))
    t = (X[:, 0] - X[:, 5] + rng.logistic(size=ROWS) > 0).astype(int)
    return (sparse.csc_array(np.where(rng.random(X.shape) < 0.3, X, 0.0)) if kind == "sparse" else X), t


def near(kind: str, tol: float = 1e-4) -> tuple[TwoClassDescent, Any, Any]:
    """Return a descent, a point with a gap of some tolerance, and the penalty."""
    X, t = table(kind)
    prior = LaplacePrior(1.0, gaussian=2.0 if kind == "ridge" else None)
    rows = {"sample_weight": np.linspace(0.5, 2.0, ROWS), "offset": np.linspace(-1.0, 1.0, ROWS)}
    given = [rows["sample_weight"], rows["offset"]] if kind == "weights and offset" else [None, None]
    model = LogisticRegression(prior, fit_intercept=kind != "no intercept")
    stated = SparseProblem.of(model._problem(X, t, *given, {}, reset=True)[1])
    stated.accurate = False
    stated.start_columns(stated.null_point().w)
    point = stated.step_columns(SCALE, tol=tol, max_iter=50, before=0.02)
    descent = stated.column_descent()
    assert isinstance(descent, TwoClassDescent)
    return descent, point, descent.strength / SCALE


def missed(descent: TwoClassDescent, point: Any, penalty: Any) -> float:
    """Return by how much the conditions of an optimum are missed over all columns, relative to the penalty."""
    w = point.all_weights(COLUMNS)
    r = descent.s * (expit(descent.offset + descent.X @ w + point.b) - descent.t)
    g = descent.X.T @ r + descent.ridge * w
    each = np.where(w != 0.0, np.abs(g + penalty * np.sign(w)), np.abs(g) - penalty)
    return max(float((each / penalty).max()), abs(float(r.sum())) if descent.intercept else 0.0)


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse", "ridge", "weights and offset", "no intercept"])
def test_a_polished_point_meets_the_conditions_of_an_optimum(
    kind: str, products: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a factor of the products of columns or without any: over all columns, and its gap is rounding."""
    if not products:
        monkeypatch.setattr(two_class_descent, "MOST_PRODUCTS", 0)
    descent, point, penalty = near(kind)
    assert (descent.gram is not None) == products and missed(descent, point, penalty) > 1e-4
    found = polished(descent, point, penalty)
    assert missed(descent, found, penalty) <= 1e-9
    assert found.value <= point.value and found.gap <= 1e-12 * found.value
    np.testing.assert_allclose(
        found.a, descent.offset + descent.X @ found.all_weights(COLUMNS) + found.b, rtol=1e-12, atol=1e-12
    )


def test_columns_that_are_missing_are_found() -> None:
    descent, point, penalty = near("dense", tol=1e-9)
    largest = point.columns[np.argmax(np.abs(point.x))]
    descent.gram, kept = None, np.setdiff1d(point.columns, largest)
    descent.choose(kept)
    start = descent._placed(np.zeros(COLUMNS), np.asarray(0.0))
    start.gap = np.inf
    part, _ = newton_steps(descent, start, penalty)
    assert largest not in part.columns
    found = polished(descent, start, penalty)
    assert missed(descent, found, penalty) <= 1e-9 and found.weights_of(np.array([largest]))[0] != 0.0


@pytest.mark.parametrize("K", [2, 3])
def test_the_gap_of_a_polished_point_has_the_rounding_of_its_objective(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bounded by that of the point before, less the fall of the objective: a difference that may vanish."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=60 if K == 2 else 182))
    X, t = table("dense")
    t = np.where(X[:, 7] > 1.0, K - 1, t)
    stated = SparseProblem.of(LogisticRegression(LaplacePrior(1.0))._problem(X, t, None, None, {}, reset=True)[1])
    stated.accurate = False
    stated.start_columns(stated.null_point().w)
    point = stated.step_columns(SCALE, tol=1e-4, max_iter=50, before=0.02)
    found = stated._polished(stated.column_descent(), replace(point, gap=0.0), SCALE)
    assert found.value < point.value and ROUNDING * found.value <= found.gap <= 1e-12 * found.value


def test_the_best_intercept_balances_residuals() -> None:
    descent, point, _ = near("weights and offset")
    b, loss, r, h = with_best_intercept(descent, point.a - point.b, 0.0)
    assert abs(r.sum()) <= 1e-12 and loss <= point.loss and h.min() > 0.0
    assert loss == pytest.approx(descent.losses(point.a - point.b + b)[0], rel=1e-14)


@pytest.mark.parametrize("products", [True, False])
def test_a_system_is_the_hessian_with_the_best_intercept(products: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not products:
        monkeypatch.setattr(two_class_descent, "MOST_PRODUCTS", 0)
    descent, _, _ = near("ridge")
    bound, h = np.arange(0, len(descent.chosen), 2), np.linspace(0.05, 0.25, ROWS)
    V = descent.X[:, descent.chosen[bound]]
    V = V - (h @ V) / h.sum()
    H = (V.T * h) @ V + np.diag(descent.ridge[descent.chosen[bound]])
    system, d = PolishSystem.of(descent, bound, h), np.linspace(-1.0, 1.0, len(bound))
    np.testing.assert_allclose(system.hessian_product(d, d), H @ d, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(system.step(H @ d, 1e-5), d, atol=1e-4)
