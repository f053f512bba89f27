"""Formulas that can be written in any language: one text for SQL and ONNX.

A `Writer` knows how its language says numbers, sums, exponentials and cases, some columns at a time. All else (softmax,
the normal distribution function, splines) is written here once, in those words, so that every export computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array

Columns = Any
"""Some columns, as a writer has them: numbers of every row, or truth values."""


class Writer(Protocol):
    """A language for formulas. Two operands have equally many columns, or one of them has one.

    ``highest`` and ``smallest`` are its largest number and its smallest above zero, ``far`` one whose square it has.
    """

    highest: float
    smallest: float
    far: float

    def number(self, name: str, kind: str = "number") -> Columns:
        """Return a column of the table as numbers; ``kind`` is "number", "boolean" or "date" (days since 1970)."""
        ...

    def category(self, name: str, levels: Sequence[Any], kind: str) -> tuple[Columns, Columns]:
        """Return a 0/1 column for each level (None: missing), and whether the value is missing."""
        ...

    def constant(self, values: Sequence[float]) -> Columns:
        """Return numbers that are the same in every row."""
        ...

    def width(self, x: Columns) -> int:
        """Return the number of columns."""
        ...

    def join(self, *parts: Columns) -> Columns:
        """Return columns side by side."""
        ...

    def pick(self, x: Columns, which: Sequence[int]) -> Columns:
        """Return some of the columns."""
        ...

    def affine(self, x: Columns, W: Array, b: Array) -> Columns:
        """Return ``W x + b``: W has a row for each column that comes out."""
        ...

    def binary(self, sign: str, x: Columns, y: Columns) -> Columns:
        """Return ``x sign y`` for ``+ - * /``, and "max" or "min"."""
        ...

    def unary(self, name: str, x: Columns) -> Columns:
        """Return a function of each number: "exp" (0 of very negative ones), "log", "sqrt", "floor" or "abs"."""
        ...

    def largest(self, x: Columns) -> Columns:
        """Return the largest number of each row."""
        ...

    def compare(self, sign: str, x: Columns, y: Columns) -> Columns:
        """Return whether ``x sign y``, for ``<``, ``<=`` and ``=``."""
        ...

    def missing(self, x: Columns) -> Columns:
        """Return where numbers are missing."""
        ...

    def where(self, condition: Columns, x: Columns, y: Columns) -> Columns:
        """Return x where the condition holds, else y."""
        ...

    def require(self, condition: Columns) -> None:
        """Give rows in which a condition does not hold (in all its columns) no result."""
        ...

    def let(self, x: Columns) -> Columns:
        """Give columns that are used more than once a name."""
        ...

    def piecewise(self, x: Columns, knots: Array, origins: Array, C: Array) -> Columns:
        """Return ``Σ_g C[g, i] u^g`` for one column x: i counts the knots that are not above x, ``u = x − origins[i]``.

        C is (degree + 1) × (knots + 1) × columns.
        """
        ...


# ------------------------------------------------------------------------------------------- short words


def number(w: Writer, value: float) -> Columns:
    """Return one number."""
    return w.constant([value])


def total(w: Writer, x: Columns) -> Columns:
    """Return the sum over columns."""
    return w.affine(x, np.ones((1, w.width(x))), np.zeros(1))


def scaled(w: Writer, x: Columns, factor: float, added: float = 0.0) -> Columns:
    """Return ``factor · x + added``."""
    M = w.width(x)
    return w.affine(x, factor * np.eye(M), np.full(M, added))


def shifted(w: Writer, x: Columns, center: Array, scale: Array | float = 1.0) -> Columns:
    """Return ``(x − center) / scale``, with a difference first: nothing cancels that the data has not cancelled."""
    return w.binary("/", w.binary("-", x, w.constant(center.tolist())), w.constant(_full(scale, len(center))))


def _full(scale: Array | float, M: int) -> list[float]:
    return np.broadcast_to(np.asarray(scale, dtype=np.float64), (M,)).tolist()  # type: ignore[no-any-return]


def horner(w: Writer, x: Columns, coefficients: Sequence[float]) -> Columns:
    """Return the polynomial with these coefficients, the highest power first."""
    value = number(w, coefficients[0])
    for c in coefficients[1:]:
        value = w.binary("+", w.binary("*", value, x), number(w, c))
    return value


def require_finite(w: Writer, x: Columns) -> None:
    """Give rows without finite numbers no result."""
    w.require(w.compare("<=", w.unary("abs", x), number(w, w.highest)))


def within(w: Writer, x: Columns, limit: float) -> Columns:
    """Return numbers that are not beyond ±limit; rows in which they were have no result, and overflow nowhere."""
    w.require(w.compare("<=", w.unary("abs", x), number(w, limit)))
    return clipped(w, x, w.constant([-limit]), w.constant([limit]))


def clipped(w: Writer, x: Columns, low: Columns, high: Columns) -> Columns:
    """Return numbers moved between two bounds."""
    return w.let(w.binary("max", w.binary("min", x, high), low))


def require_positive(w: Writer, x: Columns, *, zero: bool = False) -> None:
    """Give rows with numbers below zero (or zero) no result."""
    w.require(w.compare("<=" if zero else "<", number(w, 0.0), x))


# -------------------------------------------------------------------------------------- probabilities


def softmax(w: Writer, A: Columns) -> tuple[Columns, Columns]:
    """Return ``exp(a_k) / Σ_j exp(a_j)`` and its logarithm; the largest activation is subtracted first."""
    A = w.let(A)
    D = w.let(w.binary("-", A, w.let(w.largest(A))))
    E = w.let(w.unary("exp", D))
    S = w.let(total(w, E))
    return w.binary("/", E, S), w.binary("-", D, w.unary("log", S))


def log_of(w: Writer, P: Columns) -> Columns:
    """Return the logarithm of probabilities, that of the smallest normal number where they are zero."""
    return w.unary("log", w.binary("max", P, number(w, w.smallest)))


def link_probabilities(w: Writer, link: str, a: Columns) -> tuple[Columns, Columns]:
    """Return the probabilities of both classes under a link, and their logarithms."""
    a = w.let(a)
    if link == "logit":
        return softmax(w, w.join(number(w, 0.0), a))
    if link in ("probit", "cauchit"):
        tail, log_tail = (_normal_tail if link == "probit" else _cauchy_tail)(w, w.unary("abs", a))
        tail, up = w.let(tail), w.compare("<", number(w, 0.0), a)
        rest = w.let(w.binary("-", number(w, 1.0), tail))
        P = w.join(w.where(up, tail, rest), w.where(up, rest, tail))
        small, large = w.let(log_tail), w.let(log_of(w, rest))
        return P, w.join(w.where(up, small, large), w.where(up, large, small))
    if link == "identity":
        p = w.let(w.binary("max", w.binary("min", a, number(w, 1.0)), number(w, 0.0)))
        P = w.join(w.binary("-", number(w, 1.0), p), p)
        return P, log_of(w, P)
    # What is left has one logarithm that is linear in exp(±a) or a: log f = −exp(−a), log(1 − f) = −exp(a), log f = a.
    exponent = {"loglog": scaled(w, a, -1.0), "cloglog": a}.get(link)
    if exponent is not None:
        u = w.unary("exp", w.binary("min", exponent, number(w, 10.0)))
    else:
        u = scaled(w, w.binary("min", a, number(w, 0.0)), -1.0)
    u = w.let(u)
    plain, log_plain = w.unary("exp", scaled(w, u, -1.0)), scaled(w, u, -1.0)
    rest = w.let(_one_minus_exp(w, u))
    first, second = (rest, plain), (log_of(w, rest), log_plain)
    if link == "cloglog":
        return w.join(*first[::-1]), w.join(*second[::-1])
    return w.join(*first), w.join(*second)


def _one_minus_exp(w: Writer, u: Columns) -> Columns:
    """Return ``1 − exp(−u)`` for u ≥ 0, by its series where the difference would cancel."""
    series = number(w, 1.0)
    small = w.let(w.binary("min", u, number(w, 0.1)))
    for k in range(10, 1, -1):
        series = w.binary("-", number(w, 1.0), w.binary("*", scaled(w, small, 1.0 / k), series))
    exact = w.binary("-", number(w, 1.0), w.unary("exp", scaled(w, u, -1.0)))
    return w.where(w.compare("<", u, number(w, 0.1)), w.binary("*", small, series), exact)


# W. J. Cody's rational approximations to erf and erfc (1969), to 16 digits; numerator and denominator, highest power
# first, on |x| ≤ 0.46875 in x², on x ≤ 4 in x, and beyond in 1/x².
ERF = (
    (1.85777706184603153e-1, 3.16112374387056560, 113.864154151050156, 377.485237685302021, 3209.37758913846947),
    (1.0, 23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062),
)
ERFC = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 66.1191906371416295),
        *(298.635138197400131, 881.952221241769090, 1712.04761263407058, 2051.07837782607147, 1230.33935479799725),
    ),
    (
        *(1.0, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019),
        *(3290.79923573345963, 4362.61909014324716, 3439.36767414372164, 1230.33935480374942),
    ),
)
FAR_ERFC = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725),
        *(5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)
BEYOND = 60.0
"""Standard deviations at which the normal tail is zero in float64, and its logarithm below that of any float64."""


def _ratio(w: Writer, x: Columns, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> Columns:
    return w.let(w.binary("/", horner(w, x, parts[0]), horner(w, x, parts[1])))


def _normal_tail(w: Writer, z: Columns) -> tuple[Columns, Columns]:
    """Return ``1 − Φ(z)`` and its logarithm for z ≥ 0: half of erfc(z/√2), of which exp(−z²/2) is the larger part."""
    x = w.let(scaled(w, w.binary("min", z, number(w, BEYOND)), float(np.sqrt(0.5))))
    square = w.let(w.binary("*", x, x))
    near = w.binary("min", x, number(w, 0.46875))
    small = w.binary("*", near, _ratio(w, w.let(w.binary("*", near, near)), ERF))
    inner = w.let(scaled(w, small, -0.5, 0.5))
    far = w.let(w.binary("max", x, number(w, 4.0)))
    inverse = w.let(w.binary("/", number(w, 1.0), w.binary("*", far, far)))
    outer = w.binary("-", number(w, float(1.0 / np.sqrt(np.pi))), w.binary("*", inverse, _ratio(w, inverse, FAR_ERFC)))
    middle = _ratio(w, w.binary("min", x, number(w, 4.0)), ERFC)
    factor = w.where(w.compare("<", number(w, 4.0), x), w.binary("/", outer, far), middle)
    factor = w.let(scaled(w, factor, 0.5))
    inside = w.compare("<=", x, number(w, 0.46875))
    tail = w.where(inside, inner, w.binary("*", w.unary("exp", scaled(w, square, -1.0)), factor))
    return tail, w.where(inside, w.unary("log", inner), w.binary("-", w.unary("log", factor), square))


def _cauchy_tail(w: Writer, z: Columns) -> tuple[Columns, Columns]:
    """Return ``atan(1/z) / π`` and its logarithm for z ≥ 0.

    Half of the angle of the point (z, 1) has the tangent ``1 / (z + √(1 + z²))``; two more halvings make it so small
    that ten terms of the series for atan are enough.
    """
    z = w.let(w.binary("min", z, number(w, w.far)))
    one = number(w, 1.0)
    t = w.let(w.binary("/", one, w.binary("+", z, _hypotenuse(w, z))))
    for _ in range(2):
        t = w.let(w.binary("/", t, w.binary("+", one, _hypotenuse(w, t))))
    series = horner(w, w.let(w.binary("*", t, t)), [(-1.0) ** k / (2 * k + 1) for k in range(10, -1, -1)])
    tail = w.let(scaled(w, w.binary("*", t, series), 8.0 / float(np.pi)))
    return tail, w.unary("log", tail)


def _hypotenuse(w: Writer, z: Columns) -> Columns:
    return w.unary("sqrt", scaled(w, w.binary("*", z, z), 1.0, 1.0))


# ---------------------------------------------------------------------------------------------- bases


MOST_CENTERS = 500
MOST_COLUMNS = 1000


def expansion(w: Writer, x: Columns, steps: Sequence[Any]) -> Columns:
    """Return the columns that fitted bases make of others, one after the other."""
    for step in steps:
        write = _BASES.get(type(step).__name__)
        if write is None:
            what = getattr(step, "transformer", step)
            raise InvalidInputError(
                f"The basis {what!r} cannot be exported. Those that can are {', '.join(sorted(_BASES))}; or transform "
                "the rows before the fit, and export a model of the new columns."
            )
        x = w.let(write(w, x, step))
        if w.width(x) > MOST_COLUMNS:
            raise InvalidInputError(
                f"The basis makes {w.width(x)} columns; a formula of more than {MOST_COLUMNS} is not exported. Use a "
                "smaller basis, or model.save(path)."
            )
    return x


def _standardize(w: Writer, x: Columns, step: Any) -> Columns:
    return shifted(w, x, step.mean_, step.scale_)


def _polynomial(w: Writer, x: Columns, step: Any) -> Columns:
    D, G = w.width(x), int(step.degree)
    x = within(w, x, 0.5 * w.highest ** (1.0 / G))
    made: dict[tuple[int, ...], Columns] = {(j,): w.pick(x, [j]) for j in range(D)}
    for g in range(2, G + 1):
        for chosen in combinations_with_replacement(range(D), g):
            if step.interactions or len(set(chosen)) == 1:
                made[chosen] = w.let(w.binary("*", made[chosen[:1]], made[chosen[1:]]))
    return w.join(*made.values())


def _spline(w: Writer, x: Columns, step: Any) -> Columns:
    parts = []
    for j, (knots, C) in enumerate(zip(step.knots_, step.coefficients_, strict=True)):
        period = float(knots[-1] - knots[0]) or 1.0
        value = w.pick(x, [j])
        if step.periodic:
            turns = w.unary("floor", shifted(w, value, knots[:1], period))
            value = w.binary("-", value, scaled(w, turns, period))
        powers = period ** np.arange(len(C), dtype=np.float64)
        origins = knots[np.maximum(np.arange(len(knots) + 1) - 1, 0)]
        parts.append(w.piecewise(w.let(value), knots, origins, C / powers[:, None, None]))
    return w.join(*parts)


def _bumps(w: Writer, x: Columns, step: Any) -> Columns:
    centers, unit = step.centers_, float(np.sqrt(2.0) * step.width_)
    if len(centers) > MOST_CENTERS:
        raise InvalidInputError(
            f"{type(step).__name__} has {len(centers)} centres, and each is an exponential of {centers.shape[1]} "
            f"distances in every row; more than {MOST_CENTERS} are not exported. Use fewer (landmarks= or centers=)."
        )
    # So far away that the bump is zero, and no square overflows.
    reach = 1e3 * unit
    low, high = w.constant((centers.min(axis=0) - reach).tolist()), w.constant((centers.max(axis=0) + reach).tolist())
    x, distances = clipped(w, x, low, high), []
    for center in centers:
        z = shifted(w, x, center, unit)
        distances.append(total(w, w.binary("*", z, z)))
    Phi = w.unary("exp", scaled(w, w.let(w.join(*distances)), -1.0))
    R = getattr(step, "whitening_", None)
    return Phi if R is None else w.affine(w.let(Phi), R.T, np.zeros(R.shape[1]))


_BASES = {
    "Standardize": _standardize,
    "Polynomial": _polynomial,
    "Spline": _spline,
    "RadialBasis": _bumps,
    "GaussianKernel": _bumps,
}
