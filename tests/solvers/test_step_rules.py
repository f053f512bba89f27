"""Rules of single steps and searches, on functions made for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oddsmith.errors import InvalidInputError
from oddsmith.solvers import Gradient, Newton, newton_raphson
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.certificate import InverseBound, gap_bound
from oddsmith.solvers.constrained import _falls_no_more, minimise
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.general import gradient_descent
from oddsmith.solvers.gradient import _descend
from oddsmith.solvers.lbfgs import lbfgs
from oddsmith.solvers.newton import looks_separated, stalled, unchecked_newton_step
from oddsmith.solvers.plan import plan_for
from oddsmith.solvers.preconditioner import InterceptPreconditioner
from oddsmith.solvers.subsampled import oas_shrinkage
from oddsmith.solvers.table_newton import last_step_distance


@pytest.mark.parametrize(("jump", "evaluations"), [(8, 9), (9, 10)])
def test_gradient_descent_remembers_eight_values(jump: int, evaluations: int) -> None:
    """A value just below that of the start is accepted as long as the start is among the last eight values."""
    asked: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        k = len(asked)
        asked.append(order)
        if k > jump:
            raise StopIteration
        value = 10.0 if k == 0 else 9.0 if k == jump else 1.0
        return ObjectiveValue(
            w=np.array([float(k)]), value=value, log_likelihood=0.0, gradient=np.array([1e-6 + 1e-9 * k])
        )

    stub: Any = SimpleNamespace(evaluate=evaluate, passes=0, weight=1.0)
    descent = Gradient()
    object.__setattr__(descent, "_close_enough", lambda *given: False)
    with pytest.raises(StopIteration):
        descent.minimise(stub, np.zeros(1), tol=1e-8, max_iter=jump + (jump < 9))
    assert len(asked) - 1 == evaluations


@pytest.mark.parametrize(("rows", "share"), [(10, 0.8), (40, 0.2), (4, 1.0)])
def test_shrinkage_is_that_of_chen_and_others(rows: int, share: float) -> None:
    """((1 − 2/P) tr R² + P²) / ((n + 1 − 2/P) (tr R² − P)), at most 1; of two weights 4 / (n · 0.5)."""
    e: Any = SimpleNamespace(dense_hessian=np.array([[4.0, 1.0], [1.0, 1.0]]))
    sample: Any = SimpleNamespace(n_rows=rows, size=2)
    assert oas_shrinkage(e, sample) == pytest.approx(share)


def test_shrinkage_of_three_weights() -> None:
    R = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 1.0]])
    e: Any = SimpleNamespace(dense_hessian=R * np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    sample: Any = SimpleNamespace(n_rows=50, size=3)
    assert oas_shrinkage(e, sample) == pytest.approx((1.3 + 9.0) / (50.0 + 1.0 / 3.0) / 0.9)


def test_a_hessian_asked_for_needs_four_matrices_and_one_for_each_thread() -> None:
    facts, solver = Facts(n_rows=9000, n_columns=2999), Newton()
    assert plan_for(solver, facts, Machine(memory=432.1e6)).memory == 32.0 * 3000**2
    with pytest.raises(InvalidInputError, match="needs about 432 MB, but only 431 MB of memory are available"):
        plan_for(solver, facts, Machine(memory=431e6))


@pytest.mark.parametrize(
    ("decrements", "value", "tol", "expected"),
    [
        ([1e-6, 0.51e-6], 1.0, 1e-8, True),
        ([1e-6, 0.49e-6], 1.0, 1e-8, False),
        ([1.5e-5, 1.4e-5], 1.0, 1e-8, True),  # ½ λ² is 0.98e-10
        ([1.5e-5, 1.45e-5], 1.0, 1e-8, False),
        ([1.4e-4, 1.4e-4], 1.0, 1e-8, False),
        ([1.4e-4, 1.4e-4], 100.0, 1e-8, True),
        ([1.4e-6, 1.4e-6], 1.0, 1e-12, True),
        ([1.4e-6, 1.5e-6], 1.0, 1e-12, False),
        ([1e-9], 1.0, 1e-8, False),
    ],
)
def test_decrements_that_rounding_holds_up(decrements: list[float], value: float, tol: float, expected: bool) -> None:
    assert stalled(decrements, value, tol) is expected


def test_separation_is_told_from_six_decrements() -> None:
    assert not looks_separated([0.6**k for k in range(5)]) and looks_separated([0.6**k for k in range(6)])
    assert not looks_separated([1.0, 0.6, 0.36, 0.216, 0.13, 0.01]) and not looks_separated(
        [1.0, 0.6, 0.6, 0.36, 0.2, 0.1]
    )
    assert looks_separated([9.0, 1.0, 0.6, 0.36, 0.216, 0.13])


@pytest.mark.parametrize("u", [1e-5, 0.9e-3, 0.99e-3, 1.2e-3, 0.1, 0.7])
def test_the_bound_of_the_gap_has_all_its_digits(u: float) -> None:
    """(u + (1 − u) log(1 − u)) / ρ², by its series: Σ uᵏ / (k (k − 1))."""
    rho = 3.0
    exact = sum(u**k / (k * (k - 1)) for k in range(2, 200)) / rho**2
    found = gap_bound(u / rho, rho)
    assert exact * (1.0 - 1e-9) <= found <= exact * (1.0 + max(1e-9, u**2))


def test_the_bound_of_an_inverse_by_hand() -> None:
    """B = 4, cross = 2, prior 1: ρ² = 2/4 + (1 + ½)² / 1, and the rounding counts once for each root of a weight."""
    bound = InverseBound.eliminating(np.array([[[4.0, 2.0]]]), np.array([1.0]), self_concordance=1.0, rounding=1e-3)
    assert bound.rho == pytest.approx(np.sqrt(0.5 + 2.25)) and bound.noise == pytest.approx(1e-3 * np.sqrt(2.0))
    assert bound.square(np.array([4.0, 5.0])) == pytest.approx(4.0 + 9.0)
    assert bound.norm(np.array([4.0, 5.0])) == pytest.approx(np.sqrt(13.0) + 1e-3 * np.sqrt(2.0))
    alone = InverseBound.eliminating(np.zeros((1, 1, 3)), np.array([4.0, 0.25]), self_concordance=3.0, rounding=1e-3)
    assert alone.rho == pytest.approx(6.0) and alone.noise == pytest.approx(1e-3 * np.sqrt(3.0 / 0.25))


def test_a_preconditioner_keeps_a_millionth_of_a_diagonal() -> None:
    kept = InterceptPreconditioner.of(np.array([[4.0, 9.0]]), np.array([[6.0]]))
    assert kept.rest.tolist() == [[4.0, 9e-6]]
    assert kept.norm(np.array([4.0, 6.0])) == pytest.approx(2.0)
    inner = InterceptPreconditioner.of(np.array([[4.0, 9.0]]), np.array([[3.0]]))
    exact = np.array([[4.0, 3.0], [3.0, 9.0]])
    b = np.array([1.0, -2.0])
    np.testing.assert_allclose(inner.solve(b), np.linalg.solve(exact, b))
    assert inner.norm(b) == pytest.approx(np.sqrt(b @ np.linalg.solve(exact, b)))


@pytest.mark.parametrize(
    ("decrements", "expected"),
    [
        ([1.0, 0.4], False),
        ([1.0, 0.4, 0.4, 0.4], False),
        ([1.0, 0.6, 0.6, 0.6], True),
        ([1.0, 0.5, 0.9, 0.7, 0.26], True),
        ([1.0, 0.5, 0.9, 0.7, 0.24], False),
    ],
)
def test_decrements_that_fall_no_more(decrements: list[float], expected: bool) -> None:
    assert _falls_no_more(decrements) is expected


def steep(power: float) -> Any:
    """Return |x|^power / power, whose Newton step goes too far or not far enough."""

    def evaluate(x: Any) -> ObjectiveValue:
        a = float(np.abs(x[0]))
        return ObjectiveValue(
            w=x,
            value=a**power / power,
            log_likelihood=0.0,
            gradient=np.sign(x) * a ** (power - 1.0),
            hessian=np.array([[max(abs(power - 1.0) * a ** (power - 2.0), 1e-300)]]),
        )

    return evaluate


@pytest.mark.parametrize(("power", "start", "iterations"), [(4.0, 2.0, 36), (1.4, 3.0, 30), (2.0, 5.0, 1)])
def test_iterations_of_a_minimum_without_constraints(power: float, start: float, iterations: int) -> None:
    """A step leaves two thirds of x⁴, and of the steeper one, halved once, a quarter, until x⁴/3 is below 1e-24."""
    found = minimise(steep(power), steep(power)(np.array([start])), np.zeros((0, 1)), tol=1e-12, max_iter=100)
    assert found.converged and found.iterations == iterations


@pytest.mark.parametrize(
    ("start", "step", "tol", "iterations"), [(10.0, 0.25, 1e-8, 31), (10.0, None, 1e-8, 1), (10.0, 0.4, 1e-4, 8)]
)
def test_iterations_of_gradient_descent(start: float, step: float | None, tol: float, iterations: int) -> None:
    """(x − 2)²: each step of ¼ halves the way, one of 0.4 leaves a fifth, the search finds ½."""
    found = gradient_descent(lambda x: (x - 2.0) ** 2, lambda x: 2.0 * (x - 2.0), start, step_size=step, tol=tol)
    assert found.converged and found.iterations == iterations and found.x == pytest.approx(2.0, abs=tol)


@pytest.mark.parametrize(("tol", "iterations"), [(1e-3, 3), (1e-10, 5)])
def test_iterations_of_newton_raphson(tol: float, iterations: int) -> None:
    """The reciprocal of a number: the error is squared at each step."""
    found = newton_raphson(None, lambda x: 1.0 / x - 3.0, lambda x: -1.0 / x**2, 0.2, tol=tol)
    assert found.iterations == iterations and found.x == pytest.approx(1.0 / 3.0, abs=tol)


def test_a_direction_without_curvature_counts_in_the_decrement() -> None:
    """Its gradient of 0.5 can still be followed: the point is no minimum."""

    def evaluate(x: Any) -> ObjectiveValue:
        g = np.array([x[0], 0.5])
        return ObjectiveValue(
            w=x, value=float(x[0] ** 2 + x[1]), log_likelihood=0.0, gradient=g, hessian=np.diag([1.0, 0.0])
        )

    found = minimise(evaluate, evaluate(np.zeros(2)), np.zeros((0, 2)), tol=1e-6, max_iter=5)
    assert not found.converged and found.decrement == pytest.approx(np.sqrt(0.5))


def test_a_point_is_shown_to_six_digits() -> None:
    found = newton_raphson(lambda x: x**2 - 2.0 * x / 3.0, lambda x: 2.0 * x - 2.0 / 3.0, lambda x: 2.0, 5.0)
    assert "converged after 1 iterations at [0.333333]" in str(found)


@pytest.mark.parametrize(("tol", "taken"), [(1e-8, False), (1e-6, True)])
def test_the_last_newton_step_leaves_no_more_than_a_hundredth_of_the_tolerance(tol: float, taken: bool) -> None:
    """A decrement of 9 in a metric in which rows are 1e-10 long leaves ½ · 9e-10 · 9 = 4e-9."""
    stub: Any = SimpleNamespace(self_concordance=1.0, rounding=0.0, passes=1, canonical=True)
    stub.log_likelihood = lambda w, value: 0.0
    p = np.array([0.9e-9])
    e = ObjectiveValue(w=np.zeros(1), value=1.0, log_likelihood=0.0, gradient=1e20 * p, hessian=np.array([[1e20]]))
    assert (Newton()._last_step(stub, e, e.factor(), p, tol) is not None) == taken


def test_rounding_is_added_to_what_a_newton_step_leaves() -> None:
    """A decrement of 0.011, of which 0.001 is rounding, leaves half its square times e^0.011, and the rounding."""
    stub: Any = SimpleNamespace(self_concordance=1.0, rounding=1e-3, passes=1, log_likelihood=lambda w, value: 0.0)
    e = ObjectiveValue(w=np.zeros(1), value=1.0, log_likelihood=0.0, gradient=np.array([0.01]), hessian=np.eye(1))
    final, certificate = unchecked_newton_step(stub, e, e.factor(), 1e-3)
    left = 0.5 * 0.011**2 * np.exp(0.011)
    assert final.w == pytest.approx([-0.01]) and final.value == pytest.approx(1.0 - 0.5e-4)
    assert certificate.gradient_norm == pytest.approx(left)
    assert certificate.gap == pytest.approx(0.5 * (left + 1e-3) ** 2, rel=1e-3, abs=0.0)


@pytest.mark.parametrize(("concordance", "expected"), [(1.0, 2.0), (np.inf, 1e-4)])
def test_the_distance_from_a_last_newton_step(concordance: float, expected: float) -> None:
    """Twice the change of an activation over 1e-9; where nothing bounds that, the decrement over 1e-5."""
    stub: Any = SimpleNamespace(self_concordance=concordance)
    e = ObjectiveValue(w=np.zeros(1), value=1.0, log_likelihood=0.0, gradient=np.array([1e-9]), hessian=np.eye(1))
    assert last_step_distance(stub, e, e, 1e-8) == pytest.approx(expected)
    assert last_step_distance(stub, e, e, 1.0) == pytest.approx(1e-7)  # there Newton's method takes no step


@pytest.mark.parametrize(("rise", "evaluations"), [(7.0, 6), (9.5, 31)])
def test_a_rise_by_rounding_is_no_rise(rise: float, evaluations: int) -> None:
    """Eight units in the last place; else 30 halvings are tried."""
    seen: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        value = 2.0**40 * (1.0 + rise * np.finfo(float).eps * len(seen))
        seen.append(order)
        return ObjectiveValue(w=w, value=value, log_likelihood=0.0, gradient=np.array([1e-6]))

    unit: Any = SimpleNamespace(solve=lambda g: g + 0.0, norm=lambda g: 1.0)
    lbfgs(SimpleNamespace(evaluate=evaluate), np.zeros(1), unit, lambda e: False, 4)  # type: ignore[arg-type]
    assert len(seen) == evaluations


@pytest.mark.parametrize(("rise", "step"), [(-2e-4, 1.0), (0.5e-4, 0.5)])
def test_a_gradient_step_falls_below_the_recent_maximum(rise: float, step: float) -> None:
    """By 1e-4 of the step times the squared gradient."""
    e = ObjectiveValue(w=np.zeros(1), value=1.0, log_likelihood=0.0, gradient=np.ones(1))
    values = {-1.0: 1.0 + rise, -0.5: 0.5}
    stub: Any = SimpleNamespace(evaluate=lambda w: replace(e, w=w, value=values[float(w[0])]))
    found = _descend(stub, e, 1.0, 1.0)
    assert found is not None and found[1] == step
