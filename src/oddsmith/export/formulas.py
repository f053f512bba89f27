"""Formulas that can be written in any language: one text for SQL and ONNX.

A `FormulaWriter` knows how its language writes numbers, sums, exponentials and cases, several columns at a time. All
else (softmax, the normal distribution function, splines) is composed of these here, once, so that every export computes
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, Protocol, TypeVar

import numpy as np

from oddsmith.design.basis import GaussianKernel, Polynomial, RadialBasis, SelectColumns, Spline, Standardize
from oddsmith.design.basis.expansion import Adapted
from oddsmith.errors import InvalidInputError, UnavailableError
from oddsmith.numerics import Array

Columns = TypeVar("Columns")  # Some columns in a writer's language: numbers of every row, or booleans.
MOST_CENTERS, MOST_COLUMNS = 500, 1000


class FormulaWriter(Protocol[Columns]):
    """A language for formulas. Two operands have equally many columns, or one of them has one.

    ``highest`` and ``smallest`` are its largest number and its smallest above zero, ``far`` one whose square it has.
    """

    highest: float
    smallest: float
    far: float

    def number(self, name: str, kind: str = "number") -> Columns:
        """Return a column of the table as numbers; ``kind`` is "number", "boolean" or "date" (days since 1970)."""

    def category(self, name: str, levels: Sequence[Any], kind: str) -> tuple[Columns, Columns]:
        """Return a 0/1 column for each level (None: missing), and whether the value is missing."""

    def constant(self, *values: float) -> Columns:
        """Return numbers that are the same in every row."""

    def width(self, x: Columns) -> int:
        """Return the number of columns."""

    def join(self, *parts: Columns) -> Columns:
        """Return columns side by side."""

    def pick(self, x: Columns, which: Sequence[int]) -> Columns:
        """Return some of the columns."""

    def affine(self, x: Columns, W: Array, b: Array | None = None) -> Columns:
        """Return ``W x + b``: W has a row for each column that comes out."""

    def apply(self, operation: str, *operands: Columns) -> Columns:
        """Return an operation, column by column.

        Of two: ``+ - * /``, "max" and "min"; the comparisons ``<``, ``<=`` and ``=``. Of one: "exp" (0 of very negative
        numbers), "log", "sqrt", "floor", "abs", and "missing". Of three: "where", a condition and two values.
        """

    def largest(self, x: Columns) -> Columns:
        """Return the largest number of each row."""

    def require(self, condition: Columns) -> None:
        """Give rows in which a condition does not hold (in all its columns) no result."""

    def let(self, x: Columns) -> Columns:
        """Give columns that are used more than once a name."""

    def piecewise(self, x: Columns, knots: Array, origins: Array, C: Array) -> Columns:
        """Return ``Σ_g C[g, i] u^g`` for one column x: i counts the knots that are not above x, ``u = x − origins[i]``.

        C is (degree + 1) × (knots + 1) × columns.
        """

    # What follows is composed of the methods above.

    def sum_columns(self, x: Columns) -> Columns:
        """Return the sum over columns."""
        return self.affine(x, np.ones((1, self.width(x))))

    def sum_squares(self, x: Columns) -> Columns:
        """Return the sum of squares over columns."""
        return self.sum_columns(self.apply("*", x, x))

    def scale(self, x: Columns, factor: float, added: float = 0.0) -> Columns:
        """Return ``factor · x + added``."""
        M = self.width(x)
        return self.affine(x, factor * np.eye(M), np.full(M, added))

    def standardize(self, x: Columns, center: Array, unit: Array | float = 1.0) -> Columns:
        """Return ``(x − center) / unit``, with a difference first: nothing cancels that the data has not cancelled."""
        difference = self.apply("-", x, self.constant(*center))
        return self.apply("/", difference, self.constant(*np.broadcast_to(unit, center.shape)))

    def indicator(self, condition: Columns, yes: float = 1.0, no: float = 0.0) -> Columns:
        """Return one number where a condition holds, another where it does not."""
        return self.apply("where", condition, self.constant(yes), self.constant(no))

    def horner(self, x: Columns, coefficients: Sequence[float]) -> Columns:
        """Return the polynomial with these coefficients, the highest power first."""
        value = self.constant(coefficients[0])
        for c in coefficients[1:]:
            value = self.apply("+", self.apply("*", value, x), self.constant(c))
        return value

    def clip(self, x: Columns, low: Columns, high: Columns) -> Columns:
        """Return numbers moved between two bounds."""
        return self.let(self.apply("max", self.apply("min", x, high), low))

    def bound(self, x: Columns, limit: float) -> Columns:
        """Return numbers that are not beyond ±limit; rows in which they were have no result, and overflow nowhere."""
        self.require_finite(x, limit)
        return self.clip(x, self.constant(-limit), self.constant(limit))

    def require_finite(self, x: Columns, limit: float | None = None) -> None:
        """Give rows without finite numbers (or with some beyond ±limit) no result."""
        self.require(self.apply("<=", self.apply("abs", x), self.constant(self.highest if limit is None else limit)))

    def require_not(self, condition: Columns) -> None:
        """Give rows in which a condition holds no result."""
        self.require(self.apply("<", self.indicator(condition), self.constant(0.5)))

    def require_positive(self, x: Columns, *, zero: bool = False) -> None:
        """Give rows with numbers below zero (or zero) no result."""
        self.require(self.apply("<=" if zero else "<", self.constant(0.0), x))

    def softmax(self, A: Columns) -> tuple[Columns, Columns]:
        """Return ``exp(a_k) / Σ_j exp(a_j)`` and its logarithm; the largest activation is subtracted first."""
        A = self.let(A)
        D = self.let(self.apply("-", A, self.let(self.largest(A))))
        E = self.let(self.apply("exp", D))
        S = self.let(self.sum_columns(E))
        return self.apply("/", E, S), self.apply("-", D, self.apply("log", S))

    def safe_log(self, P: Columns) -> Columns:
        """Return the logarithm of probabilities, that of the smallest normal number where they are zero."""
        return self.apply("log", self.apply("max", P, self.constant(self.smallest)))


def link_probabilities(w: FormulaWriter[Columns], link: str, a: Columns) -> tuple[Columns, Columns]:
    """Return the probabilities of both classes under a link, and their logarithms."""
    a = w.let(a)
    if link == "logit":
        return w.softmax(w.join(w.constant(0.0), a))
    if link in ("probit", "cauchit"):
        tail, log_tail = (_normal_tail if link == "probit" else _cauchy_tail)(w, w.apply("abs", a))
        tail, up = w.let(tail), w.apply("<", w.constant(0.0), a)
        rest = w.let(w.apply("-", w.constant(1.0), tail))
        P = w.join(w.apply("where", up, tail, rest), w.apply("where", up, rest, tail))
        small, large = w.let(log_tail), w.let(w.safe_log(rest))
        return P, w.join(w.apply("where", up, small, large), w.apply("where", up, large, small))
    if link == "identity":
        p = w.clip(a, w.constant(0.0), w.constant(1.0))
        P = w.join(w.apply("-", w.constant(1.0), p), p)
        return P, w.safe_log(P)
    # What is left has one logarithm that is linear in exp(±a) or a: log f = −exp(−a), log(1 − f) = −exp(a), log f = a.
    if link in ("loglog", "cloglog"):
        exponent = a if link == "cloglog" else w.scale(a, -1.0)
        u = w.let(w.apply("exp", w.apply("min", exponent, w.constant(10.0))))
    elif link == "log":
        u = w.let(w.scale(w.apply("min", a, w.constant(0.0)), -1.0))
    else:
        raise UnavailableError(f"The link {link!r} has no formula for export: add it to link_probabilities.")
    log_p = w.scale(u, -1.0)
    p, rest = w.apply("exp", log_p), w.let(_one_minus_exp(w, u))
    if link == "cloglog":
        return w.join(p, rest), w.join(log_p, w.safe_log(rest))
    return w.join(rest, p), w.join(w.safe_log(rest), log_p)


def _one_minus_exp(w: FormulaWriter[Columns], u: Columns) -> Columns:
    """Return ``1 − exp(−u)`` for u ≥ 0, by its series where the difference would cancel."""
    series = one = w.constant(1.0)
    small = w.let(w.apply("min", u, w.constant(0.1)))
    for k in range(10, 1, -1):
        series = w.apply("-", one, w.apply("*", w.scale(small, 1.0 / k), series))
    exact = w.apply("-", one, w.apply("exp", w.scale(u, -1.0)))
    return w.apply("where", w.apply("<", u, w.constant(0.1)), w.apply("*", small, series), exact)


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


def _ratio(w: FormulaWriter[Columns], x: Columns, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> Columns:
    return w.let(w.apply("/", w.horner(x, parts[0]), w.horner(x, parts[1])))


def _normal_tail(w: FormulaWriter[Columns], z: Columns) -> tuple[Columns, Columns]:
    """Return ``1 − Φ(z)`` and its logarithm for z ≥ 0: half of erfc(z/√2), of which exp(−z²/2) is the larger part."""
    x = w.let(w.scale(w.apply("min", z, w.constant(BEYOND)), float(np.sqrt(0.5))))
    square = w.let(w.apply("*", x, x))
    near = w.apply("min", x, w.constant(0.46875))
    small = w.apply("*", near, _ratio(w, w.let(w.apply("*", near, near)), ERF))
    inner = w.let(w.scale(small, -0.5, 0.5))
    far = w.let(w.apply("max", x, w.constant(4.0)))
    inverse = w.let(w.apply("/", w.constant(1.0), w.apply("*", far, far)))
    series = w.apply("*", inverse, _ratio(w, inverse, FAR_ERFC))
    outer = w.apply("-", w.constant(float(1.0 / np.sqrt(np.pi))), series)
    middle = _ratio(w, w.apply("min", x, w.constant(4.0)), ERFC)
    factor = w.apply("where", w.apply("<", w.constant(4.0), x), w.apply("/", outer, far), middle)
    factor = w.let(w.scale(factor, 0.5))
    inside = w.apply("<=", x, w.constant(0.46875))
    tail = w.apply("where", inside, inner, w.apply("*", w.apply("exp", w.scale(square, -1.0)), factor))
    return tail, w.apply("where", inside, w.apply("log", inner), w.apply("-", w.apply("log", factor), square))


def _cauchy_tail(w: FormulaWriter[Columns], z: Columns) -> tuple[Columns, Columns]:
    """Return ``atan(1/z) / π`` and its logarithm for z ≥ 0.

    Half of the angle of the point (z, 1) has the tangent ``1 / (z + √(1 + z²))``; two more halvings make it so small
    that ten terms of the series for atan are enough.
    """

    def hypotenuse(x: Columns) -> Columns:
        return w.apply("sqrt", w.scale(w.apply("*", x, x), 1.0, 1.0))

    z, one = w.let(w.apply("min", z, w.constant(w.far))), w.constant(1.0)
    t = w.let(w.apply("/", one, w.apply("+", z, hypotenuse(z))))
    for _ in range(2):
        t = w.let(w.apply("/", t, w.apply("+", one, hypotenuse(t))))
    series = w.horner(w.let(w.apply("*", t, t)), [(-1.0) ** k / (2 * k + 1) for k in range(10, -1, -1)])
    tail = w.let(w.scale(w.apply("*", t, series), 8.0 / float(np.pi)))
    return tail, w.apply("log", tail)


def expand(w: FormulaWriter[Columns], x: Columns, steps: Sequence[object]) -> Columns:
    """Return the columns that fitted bases make of others, one after the other."""
    for step in steps:
        write = _BASES.get(type(step))
        if write is None:
            basis, known = step.transformer if isinstance(step, Adapted) else step, sorted(b.__name__ for b in _BASES)
            raise InvalidInputError(
                f"The basis {basis!r} cannot be exported. Those that can are {', '.join(known)}; or transform the rows "
                "before the fit, and export a model of the new columns."
            )
        x = w.let(write(w, x, step))
        if w.width(x) > MOST_COLUMNS:
            raise InvalidInputError(
                f"The basis makes {w.width(x)} columns; a formula of more than {MOST_COLUMNS} is not exported. Use a "
                "smaller basis, or model.save(path)."
            )
    return x


def _polynomial(w: FormulaWriter[Columns], x: Columns, step: Polynomial) -> Columns:
    D, G = w.width(x), int(step.degree)
    x = w.bound(x, 0.5 * w.highest ** (1.0 / G))
    monomials: dict[tuple[int, ...], Columns] = {(j,): w.pick(x, [j]) for j in range(D)}
    for g in range(2, G + 1):
        for chosen in combinations_with_replacement(range(D), g):
            if step.interactions or len(set(chosen)) == 1:
                monomials[chosen] = w.let(w.apply("*", monomials[chosen[:1]], monomials[chosen[1:]]))
    return w.join(*monomials.values())


def _spline(w: FormulaWriter[Columns], x: Columns, step: Spline) -> Columns:
    parts = []
    for j, (knots, C) in enumerate(zip(step.knots_, step.coefficients_, strict=True)):
        period = float(knots[-1] - knots[0]) or 1.0
        value = w.pick(x, [j])
        if step.periodic:
            turns = w.apply("floor", w.standardize(value, knots[:1], period))
            value = w.apply("-", value, w.scale(turns, period))
        powers = period ** np.arange(len(C), dtype=np.float64)
        parts.append(w.piecewise(w.let(value), knots, np.append(knots[0], knots), C / powers[:, None, None]))
    return w.join(*parts)


def _radial(w: FormulaWriter[Columns], x: Columns, step: RadialBasis | GaussianKernel) -> Columns:
    centers, unit = step.centers_, float(np.sqrt(2.0) * step.width_)
    if len(centers) > MOST_CENTERS:
        raise InvalidInputError(
            f"{type(step).__name__} has {len(centers)} centres, and each is an exponential of {centers.shape[1]} "
            f"distances in every row; more than {MOST_CENTERS} are not exported. Use fewer (landmarks= or centers=)."
        )
    # So far away that the function is zero, and no square overflows.
    low, high = centers.min(axis=0) - 1e3 * unit, centers.max(axis=0) + 1e3 * unit
    x = w.clip(x, w.constant(*low), w.constant(*high))
    distances = w.let(w.join(*(w.sum_squares(w.standardize(x, center, unit)) for center in centers)))
    Phi = w.apply("exp", w.scale(distances, -1.0))
    R = step.whitening_ if isinstance(step, GaussianKernel) else None
    return Phi if R is None else w.affine(w.let(Phi), R.T)


_BASES: dict[type[Any], Callable[[FormulaWriter[Any], Any, Any], Any]] = {
    Standardize: lambda w, x, step: w.standardize(x, step.mean_, step.scale_),
    SelectColumns: lambda w, x, step: w.pick(x, step.kept_.tolist()),
    Polynomial: _polynomial,
    Spline: _spline,
    RadialBasis: _radial,
    GaussianKernel: _radial,
}
