"""What inference costs: how often searches evaluate a function, and where; how many points a rule takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.inference.test_profile import Q, evaluation, gumbel

from oddsmith import laplace
from oddsmith.errors import InvalidInputError
from oddsmith.inference import quadrature
from oddsmith.inference.profile import Profiler
from oddsmith.links import LINKS

S = np.array([[1.0, 0.95e3, 0.0], [0.95e3, 1e6, 2.0], [0.0, 2.0, 1e-4]])
A, M = np.linalg.inv(S), np.array([5.0, -2e3, 1e-3])


def gamma(x: float) -> float:
    return 3.0 * np.log(x) - x if x > 0 else -np.inf


def logistic(x: float) -> float:
    return float(-3.0 * np.logaddexp(0.0, -x) - np.logaddexp(0.0, x))


# Log density, start, derivatives; how often it is called, its mode, the log of its integral.
DENSITIES: dict[str, tuple[Callable[[Any], Any], Any, dict[str, Any], int, Any, float]] = {
    "Gaussian": (lambda x: -0.5 * ((x - 3.0) / 2.0) ** 2, 0.0, {}, 46, 3.0, 1.612086),
    "narrow": (lambda x: -0.5 * ((x - 3.0) / 1e-4) ** 2, 3.001, {}, 93, 3.0, -8.291402),
    "broad": (lambda x: -0.5 * ((x - 3.0) / 1e5) ** 2, -1e5, {}, 62, 3.0, 12.431864),
    "gamma from near 0": (gamma, 0.01, {}, 298, 3.0, 1.764082),
    "gamma from far": (gamma, 500.0, {}, 215, 3.0, 1.764082),
    "cosh": (lambda x: -np.cosh(x), 12.0, {}, 410, 0.0, -0.081061),
    "Student": (
        *(lambda x: -np.log1p(x @ x / 4.0) - 1e-3 * x @ x, np.array([40.0, -60.0]), {}),
        *(607, [0.0, 0.0], 2.527032),
    ),
    "correlated": (
        *(lambda x: -0.5 * (x - M) @ A @ (x - M), M + np.array([3.0, 1e3, 0.01]), {}),
        *(333, M, 3.631416),
    ),
    "logistic": (logistic, 8.0, {}, 172, np.log(3.0), -1.186561),
    "logistic with its slope": (
        *(logistic, 8.0, {"gradient": lambda x: 3.0 / (1.0 + np.exp(x)) - 1.0 / (1.0 + np.exp(-x))}),
        *(116, np.log(3.0), -1.186561),
    ),
    "cosh with its derivatives": (
        *(lambda x: -np.cosh(x), 18.0, {"gradient": lambda x: -np.sinh(x), "hessian": lambda x: -np.cosh(x)}),
        *(31, 0.0, -0.081061),
    ),
    "double well": (
        lambda x: -((x[0] ** 2 - 1.0) ** 2) - (x[1] - x[0]) ** 2,
        [0.1, 0.0],
        {},
        544,
        [1.0, 1.0],
        0.451583,
    ),
    "log cosh": (
        lambda x: -np.log(np.cosh(x)),
        *(3.0, {"gradient": lambda x: -np.tanh(x), "hessian": lambda x: -(np.cosh(x) ** -2.0)}, 51, 0.0, 0.918939),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_calls_of_a_density(name: str) -> None:
    f, start, derivatives, calls, mode, normaliser = DENSITIES[name]
    found = laplace(f, start, **derivatives)
    assert found.evaluations == calls
    np.testing.assert_allclose(found.mode, mode, rtol=2e-7, atol=2e-6)
    assert found.log_normaliser == pytest.approx(normaliser, abs=1e-5)


def quadratic(H: Any) -> dict[str, Any]:
    """Return a log density with its derivatives, at its mode."""
    H = np.array(H)
    zero = np.zeros(len(H))
    return {
        "start": zero,
        "gradient": lambda x: -H @ x,
        "hessian": lambda x: -H,
        "log_density": lambda x: -0.5 * x @ H @ x,
    }


@pytest.mark.parametrize(
    ("smallest", "words"),
    [(1.15e-7, ""), (0.9e-7, "it is flat"), (-0.9e-7, "it is flat"), (-1.2e-7, "it curves upwards")],
)
def test_a_correlation_of_one_is_flat(smallest: float, words: str) -> None:
    along = 1.0 - smallest
    density = quadratic([[1.0, along], [along, 1.0]])
    if words:
        with pytest.raises(InvalidInputError, match=words):
            laplace(**density)
    else:
        assert laplace(**density).covariance[0, 0] == pytest.approx(0.5 / smallest, rel=1e-6)


@pytest.mark.parametrize(
    ("fall", "words"), [(9e-4, "does not fall"), (1.15e-3, ""), (900.0, ""), (1150.0, "falls steeply")]
)
def test_how_far_a_density_falls_within_a_standard_deviation(fall: float, words: str) -> None:
    f = {
        "log_density": lambda x: -0.5 * x**2 + (0.5 - fall) * x**4,
        "gradient": lambda x: -x + 4.0 * (0.5 - fall) * x**3,
        "hessian": lambda x: -1.0 + 12.0 * (0.5 - fall) * x**2,
    }
    if words:
        with pytest.raises(InvalidInputError, match=words):
            laplace(start=0.0, **f)
    else:
        assert laplace(start=0.0, **f).covariance == 1.0


@pytest.mark.parametrize(
    ("largest", "apart", "refused"),
    [(1.0, 0.9e-6, False), (1.0, 1.2e-6, True), (1e4, 1.6e-5, False), (1e4, 2.4e-5, True)],
)
def test_a_hessian_is_symmetric_to_six_digits(largest: float, apart: float, refused: bool) -> None:
    between = 1.0 if largest == 1.0 else 0.0
    H = np.array([[-2.0 * largest, between], [between + apart, -2.0 * largest]])
    density = {**quadratic(-H), "hessian": lambda x: H}
    if refused:
        with pytest.raises(InvalidInputError, match="symmetric"):
            laplace(**density)
    else:
        laplace(**density)


BOUNDED = evaluation(
    lambda x: x[0] ** 2 / (1.0 + x[0] ** 2) + 0.5 * x[1] ** 2,
    lambda x: np.array([2.0 * x[0] / (1.0 + x[0] ** 2) ** 2, x[1]]),
    lambda x: np.diag([2.0 / (1.0 + x[0] ** 2), 1.0]),
)
EDGE = evaluation(
    lambda x: -np.log(1.0 - x[0]) - x[0] if x[0] < 1.0 else np.inf,
    lambda x: np.array([1.0 / (1.0 - x[0]) - 1.0]),
    lambda x: np.array([[(1.0 - x[0]) ** -2.0]]),
)
VALLEYS = evaluation(
    lambda x: 0.5 * x[0] ** 2 * (1.0 - 0.9 * np.exp(-0.5 * (x[1] - 3.0) ** 2)) + 0.15 * x[1] ** 2,
    lambda x: np.array(
        [
            x[0] * (1.0 - 0.9 * np.exp(-0.5 * (x[1] - 3.0) ** 2)),
            0.45 * x[0] ** 2 * np.exp(-0.5 * (x[1] - 3.0) ** 2) * (x[1] - 3.0) + 0.3 * x[1],
        ]
    ),
    lambda x: np.diag([1.0 - 0.9 * np.exp(-0.5 * (x[1] - 3.0) ** 2), 0.3 + 0.45 * x[0] ** 2]),
)
SOFTPLUS = evaluation(
    lambda x: np.logaddexp(0.0, -x[0]) + 0.5 * (x[1] - x[0]) ** 2,
    lambda x: np.array([-1.0 / (1.0 + np.exp(x[0])) - (x[1] - x[0]), x[1] - x[0]]),
    lambda x: np.array([[np.exp(-abs(x[0])) / (1.0 + np.exp(-abs(x[0]))) ** 2 + 1.0, -1.0], [-1.0, 1.0]]),
)


@pytest.mark.parametrize(
    ("evaluate", "c", "exact", "side", "end", "evaluations", "travelled"),
    [
        (gumbel(0.1), [1.0, 0.0], True, -1, -20.207294, 3, 46.444),
        (gumbel(0.1), [1.0, 0.0], True, 1, 3.15095, 8, 33.218),
        (gumbel(0.1), [1.0, 0.0], False, -1, -20.207294, 8, 144.63),
        (gumbel(0.1), [1.0, 0.0], False, 1, 3.15095, 8, 30.171),
        (gumbel(1.0), [1.0, 0.0], True, -1, -2.8636705, 3, 7.6731),
        (gumbel(1.0), [1.0, 0.0], True, 1, 1.4822907, 4, 6.3618),
        (gumbel(1.0), [1.0, 0.0], False, -1, -2.8636705, 7, 19.254),
        (gumbel(1.0), [1.0, 0.0], False, 1, 1.4822907, 6, 9.4168),
        (gumbel(30.0), [1.0, 0.5], True, -1, -1.1253227, 3, 3.368),
        (gumbel(30.0), [1.0, 0.5], False, -1, -1.1253227, 11, 12.658),
        (EDGE, [1.0], True, -1, -3.4030201, 3, 8.7315),
        (EDGE, [1.0], True, 1, 0.94294106, 27, 30.463),
        (EDGE, [1.0], False, -1, -3.4030201, 7, 22.360),
        (BOUNDED, [1.0, 0.0], True, 1, np.inf, 22, 8.1607e7),
        (BOUNDED, [1.0, 0.0], False, 1, np.inf, 10, 8.1602e7),
        (VALLEYS, [1.0, 0.0], True, 1, 3.5724189, 104, 246.66),
        (VALLEYS, [1.0, 0.0], False, 1, 3.5724189, 64, 198.63),
    ],
)
def test_evaluations_of_a_profile(
    evaluate: Any, c: list[float], exact: bool, side: int, end: float, evaluations: int, travelled: float
) -> None:
    """An end, how many evaluations lead to it, and the sum of their distances from the estimate."""
    seen: list[float] = []
    best = evaluate(np.zeros(len(c)))
    profiler = Profiler(
        evaluate=lambda x: (seen.append(abs(float(x @ c))), evaluate(x))[1], best=best, q=Q, exact=exact
    )
    assert profiler.end(np.array(c), side) == pytest.approx(end, rel=1e-7)
    assert len(seen) == evaluations and sum(seen) == pytest.approx(travelled, rel=1e-3)


def test_evaluations_of_a_profile_without_a_minimum() -> None:
    """log(1 + exp(−u)) falls for ever; its interval ends where it is half the quantile above nothing."""
    seen: list[float] = []
    far, origin = SOFTPLUS(np.array([40.0, 40.0])), SOFTPLUS(np.zeros(2))
    profiler = Profiler(evaluate=lambda x: (seen.append(abs(x[0])), SOFTPLUS(x))[1], best=far, q=Q, anchor=origin)
    assert 40.0 + profiler.end(np.array([1.0, 0.0]), -1) == pytest.approx(-np.log(np.expm1(0.5 * Q)), rel=1e-7)
    assert len(seen) == 6 and sum(seen) == pytest.approx(10.759, rel=1e-3)


class Counting:
    """A link that counts the activations at which it is evaluated."""

    def __init__(self, name: str) -> None:
        self.link, self.points, self.largest = LINKS[name], 0, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.link, name)
        if name not in ("log_probability", "inverse", "derivative", "score"):
            return found

        def counted(a: Any, *more: Any) -> Any:
            self.points, self.largest = self.points + np.size(a), max(self.largest, np.size(a))
            return found(a, *more)

        return counted


AT = [
    *((0.5, 0.01), (-2.0, 0.97), (1.0, 1.9), (1.0, 2.9), (1.0, 3.8), (-20.0, 1.5)),
    *((5.0, 0.6), (2.0, 30.0), (37.0, 3.5), (44.0, 3.5), (-400.0, 35.0)),
]
"""Means and deviations of an activation."""
POINTS: dict[str, list[tuple[int, int, int]]] = {
    "cauchit": [
        *((66, 1634, 33), (258, 1730, 129), (514, 1858, 257), (1026, 2114, 513), (6404, 1601, 3202), (514, 1858, 257)),
        *((130, 1666, 65), (6404, 1601, 3202), (1026, 2114, 513), (1026, 2114, 513), (8194, 5698, 4097)),
    ],
    "cloglog": [
        *((68, 334, 33), (260, 430, 129), (301, 430, 129), (557, 558, 257), (1247, 301, 644), (260, 430, 129)),
        *((237, 366, 65), (1247, 301, 644), (902, 558, 644), (902, 558, 644), (4742, 4398, 644)),
    ],
    "identity": [(0, 352, 353)],
    "log": [(0, 352, 352)],
    "logit": [
        *((68, 334, 33), (132, 366, 65), (260, 366, 65), (301, 430, 129), (1247, 301, 644), (132, 366, 65)),
        *((68, 334, 33), (1288, 301, 644), (774, 430, 644), (774, 430, 644), (2694, 2350, 644)),
    ],
    "loglog": [
        *((68, 334, 33), (301, 430, 129), (260, 430, 129), (557, 558, 257), (1247, 301, 644), (429, 430, 129)),
        *((132, 366, 65), (1288, 301, 644), (902, 558, 644), (902, 558, 644), (4742, 4398, 644)),
    ],
    "probit": [
        *((0, 1634, 33), (0, 1858, 257), (0, 1858, 257), (0, 2114, 513), (0, 1601, 3244), (0, 1858, 257)),
        *((0, 1730, 129), (0, 1601, 3244), (0, 2114, 3244), (0, 2114, 3244), (0, 9794, 3244)),
    ],
}
"""Activations for probabilities, entropy and spread at each; with closed forms at the second only."""


@pytest.mark.parametrize("name", POINTS)
def test_points_of_the_rules(name: str) -> None:
    """Activations at which a link is evaluated for probabilities, entropy and spread, of a mean and a deviation."""
    places = AT if len(POINTS[name]) > 1 else AT[1:2]
    for (mu, sigma), expected in zip(places, POINTS[name], strict=True):
        at, found = (np.array([mu]), np.array([sigma])), []
        mean = quadrature.expected_probability(LINKS[name], *at)
        for rule in (quadrature.expected_probability, quadrature.expected_entropy, quadrature.probability_std):
            link: Any = Counting(name)
            rule(link, *at, *([mean] if rule is quadrature.probability_std else []))
            found.append(link.points)
        assert found == list(expected), (mu, sigma)


def test_a_rule_holds_a_million_numbers_at_most() -> None:
    link: Any = Counting("cauchit")
    quadrature.expected_entropy(link, np.zeros(700), np.full(700, 30.0))  # 1,601 points each
    wide = link.largest
    narrow: Any = Counting("logit")
    quadrature.expected_entropy(narrow, np.zeros(9000), np.full(9000, 2.9))  # 129 points each
    assert wide == 1601 and narrow.largest == 4500 * 129 < 1 << 20
