"""Proximal Newton: conditions, gaps and steps by hand, minima of models against their conditions, the work of paths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.likelihood.sparse_work import PATHS
from tests.likelihood.test_sparse_work import assert_same_work

from oddsmith.kernels.coordinate_descent import Blocks
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import (
    ROUNDING,
    Ending,
    ProximalNewton,
    SparsePenalty,
    _moved_gap,
    _newton_on_support,
    _step,
    corrected,
    divergence,
    dual_gap,
    minimise_model,
    model_fall,
    model_minimum,
    solve_near,
    violation,
)


def blocks(*sizes: int, strength: Any) -> Blocks:
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Blocks(first, np.arange(first[-1]), np.array(strength, dtype=float), 1)


def at(w: Any, value: float, gradient: Any, hessian: Any = None, loss: float | None = None) -> ObjectiveValue:
    return ObjectiveValue(
        w=np.array(w, dtype=float),
        value=value,
        log_likelihood=-(value if loss is None else loss),
        gradient=np.array(gradient, dtype=float),
        hessian=hessian,
    )


@pytest.mark.parametrize("name", [name for name in PATHS if not name.startswith("by columns")])
def test_work_of_a_path(name: str) -> None:
    assert_same_work(name)


def test_conditions_of_a_group() -> None:
    """g + strength · x / ‖x‖ inside; the norm of g above the strength where the group is zero."""
    pair = blocks(2, 2, 1, strength=[5.0, 1.0, 0.0])
    x, g = np.array([3.0, 4.0, 0.0, 0.0, 7.0]), np.array([-3.0, -3.5, 3.0, -4.0, 0.25])
    assert violation(pair, x, g) == pytest.approx(4.0)  # 5 − 1
    assert violation(pair, x, np.array([-3.0, -3.5, 0.0, 0.9, 0.25])) == pytest.approx(0.5)
    assert violation(pair, x, np.array([-3.0, -4.0, 0.0, 0.9, 0.25])) == pytest.approx(0.25)


def test_the_gap_of_one_weight_by_hand() -> None:
    """Loss ½(x − 3)² with a penalty |x| at x = 1: g = −2 is shrunk to −1, so the dual is ½ (½ · 4 + 2 · 1) = 2."""
    penalty = SparsePenalty(blocks(1, strength=[1.0]), np.zeros(1), 0.0)
    assert dual_gap(at([1.0], 2.0, [-2.0]), penalty) == pytest.approx(2.0 + 1.0 - 0.5 * (2.0 + 2.0))
    # With a ridge of 2 the conjugate is (|g| − 1)² / 4, and the objective has x² more.
    ridged = SparsePenalty(blocks(1, strength=[1.0]), np.array([2.0]), 0.0)
    assert dual_gap(at([1.0], 3.0, [0.0], loss=2.0), ridged) == pytest.approx(4.0 - (4.0 - 0.25))
    # A free weight of gradient 0.1 is 9, and at most 50 at the optimum.
    free = SparsePenalty(blocks(1, 1, strength=[1.0, 0.0]), np.zeros(2), 50.0)
    assert dual_gap(at([1.0, 9.0], 2.0, [-1.0, 0.1]), free) == pytest.approx(3.0 - (2.0 + 1.0 - 5.9))


def test_the_gap_along_a_step_by_hand() -> None:
    """Moved by d = 0.5 with H = 1: g = −2 + 0.5, and ½ d H d · 1.2 is lost."""
    penalty = SparsePenalty(blocks(1, strength=[2.0]), np.zeros(1), 0.0)
    found = dual_gap(at([1.0], 2.0, [-2.0]), penalty, np.array([0.5]), np.array([0.5]), 1.2)
    assert found == pytest.approx(4.0 - (2.0 - 0.125 * 1.2 + 1.5))


def test_a_divergence_is_within_its_bound() -> None:
    """Σ q ((1 + v) log(1 + v) − v) against half of Σ q v²."""
    for v in np.linspace(-0.49, 0.49, 99):
        exact = (1.0 + v) * np.log1p(v) - v
        assert exact <= 0.5 * v**2 * divergence(abs(v)) * (1.0 + 1e-12)


@pytest.mark.parametrize("sizes", [(1,) * 8, (2, 3, 1, 2), (8,)])
def test_the_minimum_of_a_model_has_its_conditions(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(sizes))
    root = rng.normal(size=(12, 8))
    H, g, x = root.T @ root, rng.normal(size=8) * 9.0, rng.normal(size=8)
    parts = blocks(*sizes, strength=rng.uniform(1.0, 6.0, len(sizes)))
    found = minimise_model(H, g, x, parts, tol=1e-9)
    assert violation(parts, found, g + H @ (found - x)) <= 1e-9

    def value(y: Any) -> float:
        d = y - x
        return float(g @ d + 0.5 * d @ H @ d + parts.strength @ parts.norms(y))

    for _ in range(20):
        assert value(found) <= value(found + 1e-3 * rng.normal(size=8))


def test_a_newton_step_ends_where_the_first_weight_is_zero() -> None:
    """From (1, 1) with gradients (4, 0), strengths 1 and H = 1: d = (−5, −1); a fifth of it makes the first zero."""
    parts = blocks(1, 1, strength=[1.0, 1.0])
    x, r = np.array([1.0, 1.0]), np.array([4.0, 0.0])
    _newton_on_support(np.eye(2), r, x, parts, np.ones(2))
    assert x == pytest.approx([0.0, 0.8]) and r == pytest.approx([3.0, -0.2])


def test_a_newton_step_of_a_group_has_the_curvature_of_its_norm() -> None:
    """Along x / ‖x‖ the norm is straight, across it bends by strength / ‖x‖: 3 / 5 here."""
    parts = blocks(2, strength=[3.0])
    x = np.array([3.0, 4.0])
    along, across = x / 5.0, np.array([-4.0, 3.0]) / 5.0
    r = -3.0 * along + 0.32 * across
    _newton_on_support(np.eye(2), r, x, parts, np.ones(1))
    assert x == pytest.approx(np.array([3.0, 4.0]) - 0.32 / 1.6 * across)


@pytest.mark.parametrize(("least", "solved"), [(1e-3, True), (0.0, False)])
def test_a_matrix_without_an_inverse_is_solved_with_a_little_more(least: float, solved: bool) -> None:
    A = np.diag([1.0, least])
    b = np.array([2.0, 1.0])
    d = solve_near(A, b)
    assert d == pytest.approx([2.0, 1.0 / least] if solved else [0.0, 0.0])
    assert solve_near(np.diag([1.0, 0.0]), np.array([2.0, 0.0]))[0] == pytest.approx(2.0)


def test_a_large_matrix_without_an_inverse_has_a_little_of_its_own_size_added() -> None:
    assert solve_near(np.full((2, 2), 1e8), np.full(2, 1e8)) == pytest.approx([0.5, 0.5], rel=1e-3)


@pytest.mark.parametrize(("curvature", "kept"), [(0.9e-8, True), (1.2e-8, False), (2.0, False)])
def test_a_correction_gives_the_change_of_the_gradient(curvature: float, kept: bool) -> None:
    H, step = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, 2.0])
    change = curvature * float(step @ H @ step) / float(step @ step) * step
    found = corrected(H, step, change)
    assert (found is H) == kept
    if not kept:
        np.testing.assert_allclose(found @ step, change, rtol=1e-6, atol=1e-12)


def function(values: dict[float, float]) -> Any:
    """Return an objective of one weight with these values, and the points at which it was evaluated."""
    seen: list[float] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        seen.append(float(w[0]))
        return at(w, values.get(round(float(w[0]), 9), 9e9), [1.0])

    return SimpleNamespace(evaluate=evaluate, seen=seen, self_concordance=np.inf)


NONE = SparsePenalty(blocks(1, strength=[0.0]), np.zeros(1), 0.0)


@pytest.mark.parametrize(("fall", "points"), [(0.9e-4, [-1.0, -0.5]), (1.2e-4, [-1.0])])
def test_a_step_is_halved_until_the_objective_falls_enough(fall: float, points: list[float]) -> None:
    """A slope of 1: the objective must fall by 1e-4 of it."""
    there = function({-1.0: 1.0 - fall, -0.5: 0.5})
    found = _step(there, NONE, at([0.0], 1.0, [1.0]), np.array([-1.0]), 1.0, 2)
    assert there.seen == points and found is not None and found[2] == -points[-1]


@pytest.mark.parametrize(("order", "evaluations"), [(1, 3), (2, 24)])
def test_a_step_that_never_helps_is_given_up(order: int, evaluations: int) -> None:
    there = function({})
    assert _step(there, NONE, at([0.0], 1.0, [1.0]), np.array([-1.0]), 1.0, order) is None
    assert len(there.seen) == evaluations


@pytest.mark.parametrize(("rise", "taken"), [(6.0, True), (10.0, False)])
def test_a_step_may_rise_by_rounding(rise: float, taken: bool) -> None:
    eps = np.finfo(float).eps
    there = function({-1.0: 1e9 * (1.0 + rise * eps)})
    assert (_step(there, NONE, at([0.0], 1e9, [0.0]), np.array([-1.0]), 1e9, 1) is not None) == taken


@pytest.mark.parametrize(("change", "known"), [(0.24, True), (0.26, False)])
def test_a_gap_along_a_step_needs_activations_that_change_by_less_than_a_half(change: float, known: bool) -> None:
    """2 · ‖d‖ < ½."""
    there: Any = SimpleNamespace(self_concordance=2.0)
    penalty = SparsePenalty(blocks(1, strength=[1.0]), np.zeros(1), 0.0)
    e = at([1.0], 2.0, [-2.0], np.eye(1))
    found = _moved_gap(there, penalty, e, e, np.array([1.0 + change]))
    assert np.isfinite(found) == known
    if known:
        exact = dual_gap(e, penalty, np.array([change]), np.array([change]), divergence(2.0 * change))
        assert found == pytest.approx(exact)


def test_a_hessian_of_another_point_costs_how_far_activations_are_apart() -> None:
    """0.1 away with activations that change 2 times as fast: curvatures are within exp(0.2)."""
    there: Any = SimpleNamespace(self_concordance=2.0)
    penalty = SparsePenalty(blocks(1, strength=[1.0]), np.zeros(1), 0.0)
    e, c = at([1.0], 2.0, [-2.0]), np.exp(0.2)
    found = _moved_gap(there, penalty, e, at([1.1], 2.0, [-2.0], 3.0 * np.eye(1)), np.array([1.05]))
    exact = dual_gap(e, penalty, np.array([0.05]), np.array([0.15]), c * divergence(c * 0.1))
    assert found == pytest.approx(exact)


def logistic(N: int, seed: int) -> Any:
    """Return a logistic loss of some rows over weights, its Hessian over all or some of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5)) @ (np.eye(5) + 0.3)
    t = (X[:, 0] + rng.logistic(size=N) > 0).astype(float)

    def evaluate(w: Any, order: int = 1, rows: int = N) -> ObjectiveValue:
        p = 1.0 / (1.0 + np.exp(-X @ w))
        loss = float(np.logaddexp(0.0, X @ w).sum() - t @ X @ w)
        H = (X[:rows].T * (p * (1.0 - p))[:rows]) @ X[:rows] if order > 1 else None
        return at(w, loss, X.T @ (p - t), H)

    return SimpleNamespace(evaluate=evaluate, self_concordance=float(np.linalg.norm(X, axis=1).max()))


@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("away", [1e-3, 1e-5])
def test_a_moved_gap_is_near_what_is_left(share: float, away: float) -> None:
    """A gap of the first order is not; by a quarter of the rows it is some four times as much, and still a bound."""
    there, penalty = logistic(400, 1), SparsePenalty(Blocks.single(np.full(5, 20.0)), np.zeros(5), 0.0)
    zero = there.evaluate(np.zeros(5), 2)
    solver = ProximalNewton(tol=1e-13, tight=True)
    best = solver.minimise(there, penalty, zero, zero.dense_hessian)
    assert best.gap <= 10.0 * ROUNDING * best.value
    w = best.e.w + away * np.sign(best.e.w) * np.arange(1.0, 6.0)
    e = there.evaluate(w)
    truth = e.value + penalty.value(w) - best.value
    ending = Ending(objective=there, penalty=penalty, curvature=lambda w: there.evaluate(w, 2, int(share * 400)))
    moved = ending.moved_gap(e)
    assert truth - 1e-12 <= moved <= 2.5 / share * truth + 1e-12
    assert dual_gap(e, penalty) > 30.0 * truth
    H = there.evaluate(w, 2).dense_hessian
    assert model_fall(H, e, penalty, model_minimum(H, e, penalty)) == pytest.approx(truth, rel=0.05, abs=1e-12)


def test_the_minimum_of_a_model_meets_each_condition_relative_to_its_penalty() -> None:
    """Columns of other sizes have other penalties: a gap shrinks residuals by what the least of them is missed by."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        A, strength = rng.normal(size=(30, 1)) + rng.normal(size=(30, 12)), 10.0 ** rng.uniform(-2.0, 4.0, 12)
        H, blocks, slope = A.T @ A, Blocks.single(strength), 10.0 * rng.normal(size=12)
        near = minimise_model(H, slope, np.zeros(12), blocks, tol=0.0, rounds=300)
        near[near != 0.0] += 1e-10 * rng.normal(size=np.count_nonzero(near))
        e = at(near, 1.0, slope + H @ near)
        x = model_minimum(H, e, SparsePenalty(blocks, np.zeros(12), 0.0))
        r = e.gradient + H @ (x - near)
        missed = np.where(x != 0.0, np.abs(r + strength * np.sign(x)), np.abs(r) - strength)
        assert (missed <= ROUNDING * (strength + np.abs(slope) + np.abs(H) @ np.abs(x))).all()


@pytest.mark.parametrize(("gaps", "steps"), [([1.0, 0.5], 2), ([1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5], 5), ([3.9], 1)])
def test_a_descent_ends_at_a_gap_near_what_is_left_or_that_falls_no_more(gaps: list[float], steps: int) -> None:
    """The gap falls by less than 0.3; four steps are enough; it is within 4 times of what is left."""
    ending = Ending(objective=SimpleNamespace(self_concordance=1.0), penalty=NONE)
    ends = [ending.reached(gap, 1.0 if steps == 1 else 1e-9) for gap in gaps]
    assert ends.index(True) == steps - 1


@pytest.mark.parametrize("eps", [1e-6, 1e-7, 1e-9])
def test_of_columns_that_hardly_differ_one_ends_at_zero(eps: float) -> None:
    """Along their difference the model is nearly flat: a step goes on until a weight is zero."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    X = np.column_stack([X, X[:, 0] + eps * rng.normal(size=40)])
    H, g = X.T @ X, X.T @ rng.normal(size=40) * 5.0
    parts = Blocks.single(np.full(4, 2.0))
    x = minimise_model(H, g, np.full(4, -0.5), parts, tol=1e-10)
    assert violation(parts, x, g + H @ (x + 0.5)) <= 1e-10


def test_a_gap_that_rounding_holds_up_ends_the_descent() -> None:
    """Six steps that leave gap and objective as they were, after the first."""
    seen: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        seen.append(order)
        return at(w, 1e6 - 1e-4 * len(seen), [1.0 + 1e-3 * len(seen)], np.eye(1), loss=1.0)

    there: Any = SimpleNamespace(evaluate=evaluate, self_concordance=np.inf)
    penalty = SparsePenalty(blocks(1, strength=[0.5]), np.zeros(1), 0.0)
    found = ProximalNewton(tol=1e-12, max_iter=50).minimise(
        there, penalty, at([0.0], 1e6, [1.0], np.eye(1), loss=1.0), np.eye(1)
    )
    assert found.iterations == 6


def test_rounding_beside_a_copy_of_a_column_is_zero() -> None:
    x = minimise_model(np.ones((2, 2)), -np.ones(2), np.array([1.0, 6e-16]), Blocks.single(np.ones(2)), tol=1e-12)
    assert x.tolist() == [1.0, 0.0]
