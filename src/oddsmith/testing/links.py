"""The contract of links: inverse, derivatives, tails, domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith import statistics as _register_all  # noqa: F401
from oddsmith.links import Link
from oddsmith.numerics import EPS, Array

if TYPE_CHECKING:
    from mpmath import mpf

VALUES = (
    *("inverse", "derivative", "second_derivative", "log f", "log(1 − f)", "score of f", "score of 1 − f"),
    *("score_derivative of f", "score_derivative of 1 − f"),
)
Exact = Callable[[Any], tuple[Any, Any]]  # The formulas of ``f`` and ``1 − f`` for an mpmath number.


def check_link(link: Link, exact: Exact | None = None, *, far: Sequence[float] = (40.0, 50.0, 700.0)) -> None:
    """Check a link against its contract: ``link`` against ``inverse``, derivatives, both tails, domain, convexity.

    Derivatives are compared with differences of the logarithms, which stay accurate far into the tails. With ``exact``
    (mpmath formulas of ``f`` and ``1 − f``), every function is compared with 60 or more digits instead, also at
    ``±far`` and close to the ends of the domain.

    >>> from oddsmith.links import LINKS
    >>> check_link(LINKS["logit"])
    """
    a = _grid(link.domain)
    with np.errstate(all="raise", under="ignore"):
        values = _evaluate(link, a)
    for what, found in values.items():
        assert found.shape == a.shape and found.dtype == np.float64, f"{link.name}: {what} is not elementwise float64."
        assert np.all(np.isfinite(found)), f"{link.name}: {what} is not finite everywhere in ±30."
    _check_inverse(link, a)
    _check_logarithms(link, values)
    _check_convexity(link, values)
    _check_tails(link)
    _check_outside(link)
    if exact is None:
        _check_differences(link, a)
    else:
        _check_exactly(link, exact, np.concatenate([a, _far_points(link.domain, far)]))


def _grid(domain: tuple[float, float]) -> Array:
    """Activations of the domain up to 30 away from its ends, or from zero where it has none."""
    lower, upper = domain
    steps = np.geomspace(1e-3, 30.0, 40)
    ends = [end for end in domain if np.isfinite(end)] or [0.0]
    a: Array = np.unique(np.concatenate([end + sign * steps for end in ends for sign in (-1, 0, 1)]))
    return a[(a > lower) & (a < upper)]


def _far_points(domain: tuple[float, float], far: Sequence[float]) -> Array:
    """Activations in the tails, and slivers inside the ends of the domain."""
    lower, upper = domain
    slivers = np.array([1e-12, 1e-9, 1e-6])
    a: Array = np.concatenate([far, np.negative(far), lower + slivers, upper - slivers])
    return a[(a > lower) & (a < upper) & np.isfinite(a)]


def _evaluate(link: Link, a: Array) -> dict[str, Array]:
    functions = (link.inverse(a), link.derivative(a), link.second_derivative(a))
    pairs = (*link.log_probability(a), *link.score(a), *link.score_derivative(a))
    return dict(zip(VALUES, (*functions, *pairs), strict=True))


def _check_inverse(link: Link, a: Array) -> None:
    """``link`` undoes ``inverse``, which rises from 0 to 1."""
    y, first = link.inverse(a), link.derivative(a)
    inside = (y > 1e-8) & (y < 1.0 - 1e-8)
    back = link.link(y[inside])
    # An activation can be no better than the rounding of y, spread by 1/f′.
    allowed = 16.0 * EPS * (1.0 + np.abs(a[inside]) + y[inside] / first[inside])
    _close(f"{link.name}: link(inverse(a))", back, a[inside], allowed)
    slack = 64.0 * EPS * (y[inside] + np.abs(a[inside]) * first[inside]) + 8.0 * EPS
    _close(f"{link.name}: inverse(link(y))", link.inverse(back), y[inside], slack)
    assert np.all(np.diff(y) >= 0), f"{link.name}: inverse is not increasing."
    assert np.all(first >= 0), f"{link.name}: derivative is negative somewhere."
    assert np.all((y >= 0) & (y <= 1)), f"{link.name}: inverse leaves [0, 1]."


def _check_logarithms(link: Link, values: dict[str, Array]) -> None:
    """The logarithms and their slopes say the same as ``f`` and its derivatives."""
    y, first, second = (values[what] for what in ("inverse", "derivative", "second_derivative"))
    log_y, log_not_y = values["log f"], values["log(1 − f)"]
    # exp(x) carries the rounding of x, |x| times over.
    _close(f"{link.name}: exp(log f)", np.exp(log_y), y, 64.0 * EPS * y * (1.0 + np.abs(log_y)))
    _close(f"{link.name}: exp(log f) + exp(log(1 − f))", np.exp(log_y) + np.exp(log_not_y), np.ones_like(y), 8.0 * EPS)
    for sign, log_p, of in ((1.0, log_y, "f"), (-1.0, log_not_y, "1 − f")):
        p, score, bend = np.exp(log_p), values[f"score of {of}"], values[f"score_derivative of {of}"]
        assert np.all(sign * score >= 0), f"{link.name}: the score of {of} has the wrong sign somewhere."
        noise = 64.0 * EPS * (1.0 + np.abs(log_p) + np.abs(np.log(np.maximum(first, 1e-300))))
        _close(f"{link.name}: score of {of}", sign * p * score, first, noise * first + 1e-300)
        allowed = 16.0 * noise * p * (np.abs(bend) + score**2) + 1e-300
        _close(f"{link.name}: score_derivative of {of}", sign * p * (bend + score**2), second, allowed)


def _check_convexity(link: Link, values: dict[str, Array]) -> None:
    """``−log f`` and ``−log(1 − f)`` bend upwards everywhere if, and only if, the link says so."""
    concave = all(np.all(values[f"score_derivative of {of}"] <= 0) for of in ("f", "1 − f"))
    assert concave == link.convex, f"{link.name}: convex is {link.convex}, the second derivatives say {concave}."


def _check_tails(link: Link) -> None:
    """Nothing overflows or vanishes, and a symmetric link is symmetric to the last digits."""
    far = np.array([40.0, 200.0, 1000.0, 1e6, 1e300])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        left, right = _evaluate(link, -far), _evaluate(link, far)
    for values in (left, right):
        edge = np.stack([values["inverse"], values["derivative"], values["second_derivative"]])
        assert np.all(np.isfinite(edge)), f"{link.name}: not finite at {far[~np.isfinite(edge).all(axis=0)]}."
        for what, found in values.items():
            assert not np.any(np.isnan(found)), f"{link.name}: {what} is not a number somewhere in the tails."
            if what.startswith("log"):
                assert np.all(found <= 0), f"{link.name}: {what} is not in [−∞, 0]."
    moderate = np.linspace(0.1, 5.0, 20)
    if not np.allclose(link.inverse(-moderate), 1.0 - link.inverse(moderate), rtol=1e-12):
        return
    a = np.concatenate([moderate, far])
    (log_y, log_not_y), (mirrored, mirrored_not) = link.log_probability(a), link.log_probability(-a)
    assert np.array_equal(log_y, mirrored_not) and np.array_equal(log_not_y, mirrored), (
        f"{link.name}: the link is symmetric, its log probabilities are not."
    )


def _check_outside(link: Link) -> None:
    """Outside the domain, its ends included, both classes are impossible and every slope is zero."""
    for end, sign in zip(link.domain, (-1.0, 1.0), strict=True):
        if not np.isfinite(end):
            continue
        with np.errstate(all="raise", under="ignore"):
            values = _evaluate(link, end + sign * np.array([0.0, 1e-12, 0.5, 1e300]))
        for what, found in values.items():
            outside = -np.inf if what.startswith("log") else max(sign, 0.0)
            expected = 0.0 if "score" in what or "derivative" in what else outside
            assert np.all(found == expected), f"{link.name}: {what} outside the domain is {found}, expected {expected}."


def _check_differences(link: Link, a: Array) -> None:
    """Derivatives against differences: f′ = f (log f)′ = −(1 − f) (log(1 − f))′, f″ = f′ (log f′)′."""
    log_y, log_not_y = link.log_probability(a)
    slope_y = _difference(lambda v: link.log_probability(v)[0], a, link.domain)
    slope_not = _difference(lambda v: link.log_probability(v)[1], a, link.domain)
    expected = np.where(a < 0, np.exp(log_y) * slope_y, -np.exp(log_not_y) * slope_not)
    first = link.derivative(a)
    _close(f"{link.name}: derivative", first, expected, 1e-8 * np.abs(expected))
    some = first > 1e-200
    bent = first[some] * _difference(lambda v: np.log(link.derivative(v)), a[some], link.domain)
    _close(f"{link.name}: second_derivative", link.second_derivative(a)[some], bent, 1e-8 * first[some])
    for i, of in enumerate(("f", "1 − f")):
        score, bend = link.score(a)[i], link.score_derivative(a)[i]
        some = np.abs(score) > 1e-200
        log_score = _difference(lambda v, i=i: np.log(np.abs(link.score(v)[i])), a[some], link.domain)  # type: ignore[misc]
        allowed = 1e-8 * (np.abs(score) + np.abs(bend))[some]
        _close(f"{link.name}: score_derivative of {of}", bend[some], score[some] * log_score, allowed)


def _difference(f: Callable[[Array], Array], a: Array, domain: tuple[float, float]) -> Array:
    """Central differences of sixth order, kept inside the domain."""
    room = np.minimum(a - domain[0], domain[1] - a)
    h = np.minimum(2e-3 * np.maximum(1.0, np.abs(a) / 8.0), room / 40.0)
    weights = (45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0)
    return np.asarray(sum(w * (f(a + i * h) - f(a - i * h)) for i, w in enumerate(weights, 1))) / h


def _check_exactly(link: Link, exact: Exact, a: Array) -> None:
    """Every function against 60 digits, and more in the tails: a difference of exp(−exp(700)) needs a tiny step."""
    import mpmath

    values = _evaluate(link, a)
    rows = []
    for v in a:
        with mpmath.workdps(60 + int(min(abs(v), 1000.0))):
            rows.append(_exact_row(exact, mpmath.mpf(float(v))))
    for what, found in values.items():
        reference = np.array([row[what] for row in rows])
        scale = np.abs(reference)
        # Second derivatives may pass through zero.
        if what.startswith("score_derivative"):
            scale = scale + np.array([min(abs(row[what.replace("_derivative", "")]), 1.0) ** 2 for row in rows])
        elif what == "second_derivative":
            scale = scale + EPS * values["derivative"]
        # A number of size exp(x) carries the rounding of x, |x| times over; below 1e-300 digits are lost.
        with np.errstate(divide="ignore"):
            digits = 1e-13 + 4.0 * EPS * np.abs(np.log(np.maximum(scale, 1e-300)))
        some = np.isfinite(reference)
        _close(f"{link.name}: {what}", found[some], reference[some], (digits * scale + 1e-300)[some])
        assert np.array_equal(found[~some], reference[~some]), f"{link.name}: {what} should be infinite."


def _exact_row(exact: Exact, a: mpf) -> dict[str, float]:
    import mpmath

    lower = exact(a)[0] < 0.5  # the probability that is small keeps its digits

    def f(v: mpf) -> mpf:
        return exact(v)[0] if lower else -exact(v)[1]

    def logarithms(v: mpf) -> tuple[mpf, mpf]:
        y, not_y = exact(v)
        return (mpmath.log(y), mpmath.log1p(-y)) if lower else (mpmath.log1p(-not_y), mpmath.log(not_y))

    y, not_y = exact(a)
    slope, second = mpmath.diff(f, a), mpmath.diff(f, a, 2)
    bends = (mpmath.diff(lambda v: logarithms(v)[0], a, 2), mpmath.diff(lambda v: logarithms(v)[1], a, 2))
    values = (y, slope, second, *logarithms(a), slope / y, -slope / not_y, *bends)
    return dict(zip(VALUES, map(float, values), strict=True))


def _close(what: str, found: Array, expected: Array, allowed: Array | float) -> None:
    off = np.abs(found - expected) - allowed
    worst = int(np.argmax(off))
    assert off[worst] <= 0, f"{what}: found {found[worst]!r}, expected {expected[worst]!r} (entry {worst})."
