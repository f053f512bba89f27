"""Profile intervals and constrained minima of functions whose answers are known."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from oddsmith.inference.profile import Profiler
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.constrained import minimise

Q = 3.841458820694124


def evaluation(value: Callable, gradient: Callable, hessian: Callable) -> Callable[[np.ndarray], ObjectiveValue]:
    return lambda x: ObjectiveValue(
        w=x, value=float(value(x)), log_likelihood=0.0, gradient=gradient(x), hessian=hessian(x)
    )


def quadratic(H: np.ndarray, m: np.ndarray) -> Callable[[np.ndarray], ObjectiveValue]:
    return evaluation(lambda x: 0.5 * (x - m) @ H @ (x - m), lambda x: H @ (x - m), lambda x: H)


def gumbel(scale: float = 1.0) -> Callable[[np.ndarray], ObjectiveValue]:
    """exp(u) − u + ½ (w − u)²: least at 0; with u fixed, w = u, so the profile is exp(u) − u − 1."""
    return evaluation(
        lambda x: scale * (np.exp(x[0]) - x[0] - 1.0) + 0.5 * (x[1] - x[0]) ** 2,
        lambda x: np.array([scale * (np.exp(x[0]) - 1.0) - (x[1] - x[0]), x[1] - x[0]]),
        lambda x: np.array([[scale * np.exp(x[0]) + 1.0, -1.0], [-1.0, 1.0]]),
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5))
def test_quadratic_profile_is_the_wald_interval(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    H, m, c = root @ root.T + 0.1 * np.eye(n), rng.normal(size=n), rng.normal(size=n)
    evaluate = quadratic(H, m)
    half = np.sqrt(Q * c @ np.linalg.solve(H, c))
    for exact in (True, False):
        profiler = Profiler(evaluate=evaluate, best=evaluate(m), q=Q, exact=exact)
        for side in (-1, 1):
            assert profiler.end(c, side) == pytest.approx(side * half, rel=1e-7)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_skewed_profile_ends_at_its_roots(scale: float, exact: bool) -> None:
    evaluate = gumbel(scale)
    profiler = Profiler(evaluate=evaluate, best=evaluate(np.zeros(2)), q=Q, exact=exact)

    def excess(u: float) -> float:
        return 2.0 * scale * (np.exp(u) - u - 1.0) - Q

    for side, far in ((1, 10.0), (-1, -60.0)):
        expected = optimize.brentq(excess, 0.0, far, xtol=1e-13)
        assert profiler.end(np.array([1.0, 0.0]), side) == pytest.approx(expected, rel=1e-8)


def test_profile_that_never_reaches_the_cutoff_has_an_infinite_end() -> None:
    """1 − 1/(1 + u²) stays below one."""
    evaluate = evaluation(
        lambda x: x[0] ** 2 / (1.0 + x[0] ** 2) + 0.5 * x[1] ** 2,
        lambda x: np.array([2.0 * x[0] / (1.0 + x[0] ** 2) ** 2, x[1]]),
        lambda x: np.diag([2.0 / (1.0 + x[0] ** 2), 1.0]),
    )
    profiler = Profiler(evaluate=evaluate, best=evaluate(np.zeros(2)), q=Q, exact=False)
    assert [profiler.end(np.array([1.0, 0.0]), side) for side in (-1, 1)] == [-np.inf, np.inf]
    assert np.isfinite(profiler.end(np.array([0.0, 1.0]), 1))


def test_profile_at_the_end_of_a_domain() -> None:
    """−log(1 − u) rises to infinity before u = 1: steps beyond it are shortened."""
    evaluate = evaluation(
        lambda x: -np.log(1.0 - x[0]) - x[0] if x[0] < 1.0 else np.inf,
        lambda x: np.array([1.0 / (1.0 - x[0]) - 1.0]),
        lambda x: np.array([[(1.0 - x[0]) ** -2.0]]),
    )
    profiler = Profiler(evaluate=evaluate, best=evaluate(np.zeros(1)), q=Q)
    expected = optimize.brentq(lambda u: 2.0 * (-np.log(1.0 - u) - u) - Q, 0.0, 1.0 - 1e-12, xtol=1e-14)
    assert profiler.end(np.ones(1), 1) == pytest.approx(expected, rel=1e-8)


@given(seed=st.integers(0, 2**32 - 1))
def test_constrained_minimum_of_a_quadratic_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, A = rng.normal(size=(5, 5)), rng.normal(size=(2, 5))
    H, m, x = root @ root.T + 0.1 * np.eye(5), rng.normal(size=5), rng.normal(size=5)
    evaluate = quadratic(H, m)
    found = minimise(evaluate, evaluate(x), A, tol=1e-10, max_iter=50)
    kkt = np.block([[H, A.T], [A, np.zeros((2, 2))]])
    expected = np.linalg.solve(kkt, np.concatenate([H @ m, A @ x]))
    np.testing.assert_allclose(found.e.w, expected[:5], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.kkt.multiplier(found.e.gradient), -expected[5:], rtol=1e-5, atol=1e-7)


def test_memory_makes_up_for_a_hessian_that_is_only_close() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    H, m = root @ root.T + np.eye(8), rng.normal(size=8)
    wrong = 3.0 * H + np.diag(rng.uniform(0.0, 5.0, 8))
    truth = quadratic(H, m)

    def evaluate(x: np.ndarray) -> ObjectiveValue:
        e = truth(x)
        return ObjectiveValue(w=x, value=e.value, log_likelihood=0.0, gradient=e.gradient, hessian=wrong)

    none = np.zeros((0, 8))
    found = minimise(evaluate, evaluate(np.zeros(8)), none, tol=1e-11, max_iter=100, exact=False)
    plain = minimise(evaluate, evaluate(np.zeros(8)), none, tol=1e-11, max_iter=100)
    assert found.converged and np.allclose(found.e.w, m)
    assert found.iterations < 0.5 * plain.iterations
