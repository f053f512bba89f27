"""The last digits of weights by columns: conditions of an optimum, columns that are missing, systems by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax

from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.likelihood import two_class_descent
from oddsmith.likelihood.newton_polish import newton_step, newton_steps, polished
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
    descent = stated.column_descent()
    found = polished(descent, replace(point, gap=0.0), descent.strength / SCALE)
    assert found.value < point.value and ROUNDING * found.value <= found.gap <= 1e-12 * found.value


def test_the_best_intercept_balances_residuals() -> None:
    descent, point, penalty = near("weights and offset")
    b, loss, r, _ = descent.at_best_intercepts(point.a - point.b, np.asarray(0.0), penalty)
    assert abs(r.sum()) <= 1e-12 and loss <= point.loss
    assert loss == pytest.approx(descent.losses(point.a - point.b + b)[0], rel=1e-14)


@pytest.mark.parametrize("products", [True, False])
def test_a_newton_step_is_that_of_the_hessian_with_the_best_intercept(
    products: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not products:
        monkeypatch.setattr(two_class_descent, "MOST_PRODUCTS", 0)
    descent, point, penalty = near("ridge")
    x = point.weights_of(descent.chosen)
    b, _, _, support = descent.at_best_intercepts(point.a - point.b, point.b, penalty)
    bound, p = np.arange(len(x)) % 2 == 0, expit(point.a - point.b + b)
    V, h = descent.X[:, descent.chosen[bound]], p * (1.0 - p)
    V = V - (h @ V) / h.sum()
    H = (V.T * h) @ V + np.diag(descent.ridge[descent.chosen[bound]])
    missed, d = np.zeros(len(x)), np.linspace(-1.0, 1.0, int(bound.sum()))
    missed[bound] = H @ d
    found = newton_step(descent, support, x, bound, missed, 1e-5)
    np.testing.assert_allclose(found[bound], d, atol=1e-4)
    assert not found[~bound].any()


def classes(kind: str, K: int, tol: float = 1e-4) -> tuple[Any, Any, Any]:
    """Return a descent of K classes, a point with a gap of some tolerance, and the penalty."""
    X, t = table("sparse" if kind == "sparse" else "dense")
    dense = X.toarray() if sparse.issparse(X) else X
    for k in range(2, K):
        t = np.where(dense[:, 5 + k] > 0.8, k, t)
    prior = LaplacePrior(1.0, gaussian=2.0 if "ridge" in kind else None, groups="class" if "groups" in kind else None)
    offset = np.sin(np.arange(ROWS * K)).reshape(ROWS, K)
    given = [np.linspace(0.5, 2.0, ROWS), offset] if kind == "weights and offset" else [None, None]
    model = LogisticRegression(prior, fit_intercept=kind != "no intercept")
    stated = SparseProblem.of(model._problem(X, t, *given, {}, reset=True)[1])
    stated.accurate = False
    stated.start_columns(stated.null_point().w)
    point = stated.step_columns(SCALE, tol=tol, max_iter=50, before=0.02)
    return stated.column_descent(), point, stated.column_descent().strength / SCALE


def missed_of_classes(descent: Any, point: Any, penalty: Any) -> float:
    """Return by how much the conditions of an optimum are missed over all columns, relative to the penalty."""
    w, own = point.all_weights(COLUMNS), np.eye(descent.offset.shape[1])[descent.t]
    r = descent.s[:, None] * (softmax(descent.offset + descent.X @ w + point.b, axis=1) - own)
    g = descent.X.T @ r + descent.ridge[:, None] * w
    size, slope = (np.linalg.norm(each, axis=1) if descent.grouped else np.abs(each) for each in (w, g))
    size, slope = (each.reshape(COLUMNS, -1) for each in (size, slope))
    pull = penalty[:, None] * w / np.where(size > 0.0, size, 1.0)
    inside = np.where(size > 0.0, np.abs(g + pull), 0.0) / penalty[:, None]
    outside = np.where(size > 0.0, 0.0, slope / penalty[:, None] - 1.0)
    return max(inside.max(), outside.max(), np.abs(r.sum(axis=0)).max() if descent.intercept else 0.0)


@pytest.mark.parametrize("K", [3, 4])
@pytest.mark.parametrize(
    "kind", ["dense", "sparse", "groups", "ridge", "groups and ridge", "weights and offset", "no intercept"]
)
def test_a_polished_point_of_classes_meets_the_conditions_of_an_optimum(kind: str, K: int) -> None:
    descent, point, penalty = classes(kind, K)
    assert missed_of_classes(descent, point, penalty) > 1e-5
    found = polished(descent, point, penalty)
    assert missed_of_classes(descent, found, penalty) <= 1e-9
    assert found.value <= point.value and found.gap <= 1e-12 * found.value
    weights = found.all_weights(COLUMNS)
    np.testing.assert_allclose(found.a, descent.offset + descent.X @ weights + found.b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "times"), [("dense", 5.0), ("groups", 1.5)])
def test_steps_that_are_too_long_are_halved(kind: str, times: float) -> None:
    """From several times the optimum, where rows have less curvature, whole steps go up."""
    descent, point, penalty = classes(kind, 4, tol=1e-9)
    far = descent._placed(times * point.all_weights(COLUMNS), times * point.b)
    far.value = far.loss + float(penalty[far.columns] @ descent.norms(far.x))
    found, _ = newton_steps(descent, far, penalty)
    assert missed_of_classes(descent, found, penalty) <= 1e-9


def test_conditions_of_all_classes_of_a_column_leave_one_out() -> None:
    """They add up to nothing: the Hessian over all classes of a column is singular."""
    descent, point, penalty = classes("dense", 4, tol=1e-9)
    b, _, r, support = descent.at_best_intercepts(descent.offset + 0.0 * point.a, point.b, penalty)
    x = np.ones((len(descent.chosen), 4))
    x[:, 2] = 1e-3
    bound, missed, _ = support.conditions(descent.columns.dots(r), x)
    assert bound[:, [0, 1, 3]].all() and not bound[:, 2].any() and not missed[:, 2].any()
    d, p = newton_step(descent, support, x, bound, missed, 1e-9), softmax(descent.offset + b, axis=1)
    z = descent.X[:, descent.chosen] @ d
    change = p * (z - (p * z).sum(axis=1, keepdims=True))
    H = np.diag(p.sum(axis=0)) - p.T @ p
    z = z - np.linalg.pinv(H) @ change.sum(axis=0)
    change = p * (z - (p * z).sum(axis=1, keepdims=True))
    product = descent.X[:, descent.chosen].T @ change
    np.testing.assert_allclose(np.where(bound, product, 0.0), missed, atol=1e-6 * np.abs(missed).max())


def test_residuals_of_classes_follow_a_short_step_to_the_last_digit() -> None:
    """A last correction is some 1e-12 of the activations: residuals beside it must not hide it."""
    descent, point, penalty = classes("dense", 3)
    _, _, _, support = descent.at_best_intercepts(point.a - point.b, point.b, penalty)
    z = np.sin(np.arange(point.a.size)).reshape(point.a.shape)
    expected = support.curved(z)
    np.testing.assert_allclose(1e12 * support.curved(1e-12 * z), expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["dense", "groups"])
def test_weights_and_groups_that_a_step_takes_across_zero_end_there_together(kind: str) -> None:
    """One at a time, 300 × 400 with four classes took a hundred solves of a model."""
    descent, _, penalty = classes(kind, 3)
    x = np.ones((len(descent.chosen), 3))
    x[:, 2] = 0.0 if kind == "dense" else -2.0
    step = np.where(np.arange(len(x))[:, None] < 2, -1.5 * x, 0.5 * x)
    column, cls = np.nonzero(x)
    d = np.concatenate([step[column, cls], np.zeros(3)])
    change, new = next(descent._goals(x, d, column, cls, penalty[descent.chosen]))
    np.testing.assert_array_equal(new, np.where(np.arange(len(x))[:, None] < 2, 0.0, 1.5 * x))
    np.testing.assert_array_equal(change[:-3], (new - x)[column, cls])
