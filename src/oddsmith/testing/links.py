"""The contract of links: inverse, derivatives, tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oddsmith import statistics as _register_all  # noqa: F401
from oddsmith.links import Link
from oddsmith.numerics import EPS, Array


def check_link(link: Link, exact: Callable[[Any], Any] | None = None) -> None:
    """Hold a link against its contract: ``link`` against ``inverse``, derivatives, both tails, logarithms.

    Derivatives are held against differences of the logarithms, which stay accurate far into the tails. With
    ``exact``, the formula of ``f`` for an mpmath number, every function is held against 60 digits instead.

    >>> from oddsmith.links import LINKS
    >>> check_link(LINKS["logit"])
    """
    a = np.concatenate([-np.geomspace(30.0, 1e-3, 40), [0.0], np.geomspace(1e-3, 30.0, 40)])
    with np.errstate(all="raise", under="ignore"):
        y, first, second = link.inverse(a), link.derivative(a), link.second_derivative(a)
        log_y, log_not_y = link.log_probability(a)
    for what, values in (("inverse", y), ("derivative", first), ("second_derivative", second)):
        assert values.shape == a.shape and values.dtype == np.float64, (
            f"{link.name}: {what} is not elementwise float64."
        )
        assert np.all(np.isfinite(values)), f"{link.name}: {what} is not finite everywhere in ±30."
    inside = (y > 1e-8) & (y < 1.0 - 1e-8)
    back = link.link(y[inside])
    # An activation can be no better than the rounding of y, spread by 1/f′.
    allowed = 16.0 * EPS * (1.0 + np.abs(a[inside]) + y[inside] / first[inside])
    _close(f"{link.name}: link(inverse(a))", back, a[inside], allowed)
    _close(f"{link.name}: inverse(link(y))", link.inverse(back), y[inside], 64.0 * EPS * y[inside] + 8.0 * EPS)
    assert np.all(np.diff(y) >= 0), f"{link.name}: inverse is not increasing."
    assert np.all(first >= 0), f"{link.name}: derivative is negative somewhere."
    _close(f"{link.name}: exp(log f)", np.exp(log_y), y, 64.0 * EPS * y)
    _close(f"{link.name}: exp(log f) + exp(log(1 − f))", np.exp(log_y) + np.exp(log_not_y), np.ones_like(y), 8.0 * EPS)
    _check_tails(link)
    if exact is not None:
        _check_exactly(link, exact, a)
        return
    _check_differences(link, a)


def _check_tails(link: Link) -> None:
    """The logarithms neither overflow nor vanish, and a symmetric link is symmetric to the last digits."""
    far = np.array([40.0, 200.0, 1000.0, 1e6, 1e300])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        left, right = link.log_probability(-far), link.log_probability(far)
        for a in (-far, far):
            edge = np.stack([link.inverse(a), link.derivative(a), link.second_derivative(a)])
            assert np.all(np.isfinite(edge)), f"{link.name}: not finite at {a[~np.isfinite(edge).all(axis=0)]}."
    for value in (*left, *right):
        assert not np.any(np.isnan(value)) and np.all(value <= 0), f"{link.name}: a log probability is not in [−∞, 0]."
    moderate = np.linspace(0.1, 5.0, 20)
    if not np.allclose(link.inverse(-moderate), 1.0 - link.inverse(moderate), rtol=1e-12):
        return
    a = np.concatenate([moderate, far])
    (log_y, log_not_y), (mirrored, mirrored_not) = link.log_probability(a), link.log_probability(-a)
    assert np.array_equal(log_y, mirrored_not) and np.array_equal(log_not_y, mirrored), (
        f"{link.name}: the link is symmetric, its log probabilities are not."
    )


def _check_differences(link: Link, a: Array) -> None:
    """Derivatives against differences: f′ = f (log f)′ = −(1 − f) (log(1 − f))′, f″ = f′ (log f′)′."""
    lower = a < 0
    slope_y = _difference(lambda v: link.log_probability(v)[0], a)
    slope_not = _difference(lambda v: link.log_probability(v)[1], a)
    log_y, log_not_y = link.log_probability(a)
    expected = np.where(lower, np.exp(log_y) * slope_y, -np.exp(log_not_y) * slope_not)
    first = link.derivative(a)
    _close(f"{link.name}: derivative", first, expected, 1e-8 * np.abs(expected))
    some = first > 1e-200
    bent = first[some] * _difference(lambda v: np.log(link.derivative(v)), a[some])
    _close(f"{link.name}: second_derivative", link.second_derivative(a)[some], bent, 1e-8 * first[some])


def _difference(f: Callable[[Array], Array], a: Array) -> Array:
    """Central differences of sixth order."""
    h = 2e-3 * np.maximum(1.0, np.abs(a) / 8.0)
    weights = (45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0)
    total = sum(w * (f(a + (i + 1) * h) - f(a - (i + 1) * h)) for i, w in enumerate(weights))
    result: Array = np.asarray(total) / h
    return result


def _check_exactly(link: Link, exact: Callable[[Any], Any], a: Array) -> None:
    import mpmath

    found = {
        "inverse": link.inverse(a),
        "derivative": link.derivative(a),
        "second_derivative": link.second_derivative(a),
        "log f": link.log_probability(a)[0],
        "log(1 − f)": link.log_probability(a)[1],
    }
    with mpmath.workdps(60):
        points = [mpmath.mpf(float(v)) for v in a]
        slope = [mpmath.diff(exact, v) for v in points]
        bend = [mpmath.diff(exact, v, 2) for v in points]
        expected = {
            "inverse": [exact(v) for v in points],
            "derivative": slope,
            "second_derivative": bend,
            "log f": [mpmath.log(exact(v)) for v in points],
            "log(1 − f)": [mpmath.log1p(-exact(v)) for v in points],
        }
        for what, values in found.items():
            reference = np.array([float(v) for v in expected[what]])
            scale = np.array([abs(float(v)) for v in slope]) if what == "second_derivative" else np.abs(reference)
            _close(f"{link.name}: {what}", values, reference, 1e-13 * scale)


def _close(what: str, found: Array, expected: Array, allowed: Any) -> None:
    off = np.abs(found - expected) - allowed
    worst = int(np.argmax(off))
    assert off[worst] <= 0, f"{what}: found {found[worst]!r}, expected {expected[worst]!r} (entry {worst})."
