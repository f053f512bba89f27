"""Piecewise polynomials of each column: natural splines, B-splines and periodic splines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial
from numbers import Integral

import numpy as np
import numpy.typing as npt
from scipy.interpolate import BSpline

from oddsmith.design.basis.base import BASES, LIMIT, AllRows, Basis, Names, dense_tiles, seen_through
from oddsmith.design.inputs import ArrayOrCSR, dense
from oddsmith.engines import AnySource, Engine, MemorySource
from oddsmith.errors import InvalidInputError, as_input_errors
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.statistics import Moments, MomentsParams, Sample, SampleParams

Knots = int | npt.ArrayLike
QUANTILE_VALUES = 1 << 20  # Distinct values of a column up to which its quantiles are exact.
GATHERED = 1 << 22  # Numbers gathered at a time for quantiles.


@BASES.register("spline")
class Spline(Basis):
    """Splines of each column: piecewise polynomials that join smoothly at knots.

    With n knots ξ_1 < … < ξ_n, both ends included, a column becomes

    * n − 1 columns if ``natural``: cubic between the knots, linear outside, as in R's ``splines::ns``;
    * n + degree − 2 otherwise: B-splines of that degree, as in R's ``splines::bs``;
    * n − 2 if ``periodic``: ``φ(x + period) = φ(x)`` with the period ``ξ_n − ξ_1``.

    Together with a constant they span all such splines; the first function is left out, since models have an intercept.

    Parameters
    ----------
    knots : int or array
        The number of knots, placed at quantiles of each column: the smallest value, the largest, and equal shares of
        the rows between. R's ``ns(x, df)`` has ``knots=df+1``, and ``bs(x, df)`` of degree 3 has ``knots=df-1``.
        Coinciding quantiles count as one knot; a column with fewer distinct values has a knot at each. An array gives
        the knots themselves, both ends included: one list for all columns, or n × D.
    degree : int
        Degree of the pieces; natural splines have 3.
    natural : bool
        Whether the second derivative is zero at both ends.
    periodic : bool
        Whether the ends meet (``natural`` is then ignored). Give the knots as an array, so that the period is the real
        one (0 to 24 hours); a number of knots is spaced equally between the smallest and largest value.
    limit : int
        Maximum number of columns; more is an error that states the number.

    Attributes
    ----------
    knots_ : list of arrays
        The knots of each column.
    coefficients_ : list of arrays, (degree + 1) × (n + 1) × columns
        The polynomials of each column, in units of ξ_n − ξ_1, from below the first knot to above the last.
    n_outputs_ : int
        M.

    Notes
    -----
    Outside the knots, natural splines continue as straight lines, periodic splines repeat, and B-splines keep their
    value at the end, since polynomials would diverge.

    A column with a single value becomes a column of zeros. Quantiles are exact for columns of up to 2²⁰ rows or
    distinct values; beyond that, they come from a uniform sample of that size. Cost: one pass for each 4 million
    numbers; with given knots, one pass in total, to check whether values lie between them.

    References
    ----------
    T. Hastie, R. Tibshirani, J. Friedman, The Elements of Statistical Learning, 2009, section 5.2.

    >>> basis = Spline([0.0, 1.0, 3.0]).fit([[0.0], [2.0], [3.0]])
    >>> basis.transform([[4.0], [5.0], [6.0]]).round(4).tolist(), basis.get_feature_names_out().tolist()
    ([[0.0094, 1.5944], [-0.2831, 2.3698], [-0.5755, 3.1453]], ['x0_sp_0', 'x0_sp_1'])
    """

    knots_: list[Array]
    coefficients_: list[Array]
    n_outputs_: int

    def __init__(
        self, knots: Knots = 5, degree: int = 3, *, natural: bool = True, periodic: bool = False, limit: int = LIMIT
    ) -> None:
        self.knots, self.degree, self.natural = knots, degree, natural
        self.periodic, self.limit = periodic, limit

    def check_parameters(self) -> None:
        degree = self._check_whole("degree", 1)
        self._check_whole("limit", 1)
        self._check_flag("natural")
        self._check_flag("periodic")
        if self.natural and not self.periodic and degree != 3:
            raise InvalidInputError(f"Natural splines have degree 3, found degree={degree}. Use natural=False with it.")
        least = max(3, degree + 1) if self.periodic else 2
        if isinstance(self.knots, Integral | bool):
            self._check_whole("knots", least)
            return
        with as_input_errors():
            knots = np.array(self.knots, dtype=np.float64)
        if knots.ndim not in (1, 2) or len(knots) < least:
            raise InvalidInputError(
                f"knots of Spline must be a whole number, or an array of at least {least} knots (for all columns, or a "
                f"column for each); found {self.knots if knots.ndim == 0 else f'the shape {knots.shape}'}."
            )
        if not np.isfinite(knots).all():
            raise InvalidInputError("knots of Spline contains NaN or infinity.")
        if not (np.diff(knots, axis=0) > 0).all():
            raise InvalidInputError(f"knots of Spline must increase, without repetition; found {self.knots!r}.")

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        """Place the knots at quantiles, by a fold of `Sample` over each column."""
        if isinstance(self.knots, Integral):
            self._check_limit(self._columns(int(self.knots)) * source.shape.M, f"{source.shape.M} columns of splines")
            knots = [self._placed(int(self.knots), *column) for column in column_values(source, engine)]
        else:
            knots = self._given(source, engine, names)
        for name, places in zip(names, knots, strict=True):
            if not 0.5 * places[-1] - 0.5 * places[0] < 0.5 * np.finfo(np.float64).max:
                raise InvalidInputError(f"Column {str(name)!r} spans more than a float64 can hold: rescale it.")
        self.knots_ = knots
        self.coefficients_ = [self._polynomials(places) for places in knots]
        self.n_outputs_ = sum(C.shape[-1] for C in self.coefficients_)

    def _columns(self, n: int) -> int:
        """Return the number of columns that n knots make of one."""
        if self.periodic:
            return n - 2
        return n - 1 if self.natural else n + int(self.degree) - 2

    def _placed(self, n: int, values: Array, weight: Array) -> Array:
        """Return n knots of a column with the given values."""
        if self.periodic:
            places = np.unique(np.linspace(values[0], values[-1], n))
            # Values so close together that no knots fit between them count as one.
            return places if len(places) == n else values[:1]
        return values if len(values) < n else np.unique(quantiles(values, weight, n))

    def _given(self, source: AnySource, engine: Engine, names: Names) -> list[Array]:
        D, knots = source.shape.M, np.array(self.knots, dtype=np.float64)
        if knots.ndim == 1:
            knots = np.repeat(knots[:, None], D, axis=1)
        if knots.shape[1] != D:
            raise InvalidInputError(f"knots of Spline has {knots.shape[1]} columns, but the rows have {D}.")
        self._check_limit(self._columns(len(knots)) * D, f"{D} columns of splines")
        first, last = knots[0], knots[-1]

        def between(rows: ArrayOrCSR) -> Array:
            X = dense(rows)
            return np.asarray((first <= X) & (last >= X), dtype=np.float64)

        share = engine.fold(Moments, seen_through(source, between, D), MomentsParams(1, "diagonal")).mean[0]
        if not self.periodic and not share.all():
            j = int(np.argmin(share))
            raise InvalidInputError(
                f"No value of column {str(names[j])!r} lies between its knots, from {first[j]:g} to {last[j]:g}. "
                "Choose knots in its range, or a number of them."
            )
        return list(knots.T)

    def _polynomials(self, knots: Array) -> Array:
        """Return the coefficients of all pieces."""
        degree = int(self.degree)
        if len(knots) == 1:
            return np.zeros((degree + 1, 2, 1))
        z = (knots - knots[0]) / (knots[-1] - knots[0])
        if self.periodic:
            return periodic_pieces(z, degree)
        return natural_pieces(z) if self.natural else bspline_pieces(z, degree)[0][..., 1:]

    def expand(self, rows: ArrayOrCSR) -> Array:
        Phi = np.empty((rows.shape[0], self.n_outputs_))
        for part, X in dense_tiles(rows, max(C.shape[-1] for C in self.coefficients_)):
            end = 0
            for x, knots, C in zip(X.T, self.knots_, self.coefficients_, strict=True):
                start, end = end, end + C.shape[-1]
                Phi[part, start:end] = self._column(x, knots, C)
        return Phi

    def _column(self, x: Array, knots: Array, C: Array) -> Array:
        period = knots[-1] - knots[0] or 1.0
        if self.periodic:
            x = knots[0] + np.mod(x - knots[0], period)
        piece = np.searchsorted(knots, x, side="right")
        u = ((x - knots[np.maximum(piece - 1, 0)]) / period)[:, None]
        value: Array = np.take(C[-1], piece, axis=0)
        for c in C[-2::-1]:
            value *= u
            value += np.take(c, piece, axis=0)
        return value

    def column_names(self, names: Names) -> list[str]:
        counts = [C.shape[-1] for C in self.coefficients_]
        return [f"{name}_sp_{b}" for name, count in zip(names, counts, strict=True) for b in range(count)]


def column_values(source: AnySource, engine: Engine) -> Iterator[tuple[Array, Array]]:
    """Yield the distinct values of each column, sorted, and the weight of each."""
    D, in_memory = source.shape.M, isinstance(source, MemorySource) and source.n_rows <= QUANTILE_VALUES
    step = max(1, GATHERED // max(1, source.n_rows)) if in_memory else 1
    for start in range(0, D, step):
        columns = np.arange(start, min(start + step, D))
        picked = seen_through(source, Picked(columns), len(columns))
        if isinstance(source, MemorySource) and in_memory:
            rows = engine.fold(AllRows, picked, None).joined(len(columns))
            s = None if source.s is None else source.s[source.s > 0]
        else:
            size = min(QUANTILE_VALUES, source.n_rows)
            rows, s = engine.fold(Sample, picked, SampleParams(size, by_origin=False)).found
        for values in dense(rows).T:
            different, which, counts = np.unique(values, return_inverse=True, return_counts=True)
            weight = counts if s is None else np.bincount(which.ravel(), weights=s)
            yield different, weight.astype(np.float64)


@dataclass(frozen=True)
class Picked:
    """Some columns of rows."""

    columns: Indices

    def __call__(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        return rows[:, self.columns]


def quantiles(values: Array, weight: Array, n: int) -> Array:
    """Return n quantiles at equal steps, from the smallest to the largest of sorted values.

    Between two rows they are interpolated as in R's default (type 7). A row of weight 2 is the row twice; weights that
    are not whole numbers count in proportion.

    >>> quantiles(np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.0, 1.0]), 5).tolist()
    [1.0, 1.75, 2.0, 2.75, 5.0]
    """
    if (weight != np.round(weight)).any():
        weight = weight * (len(weight) / weight.sum())
    upto = np.cumsum(weight)
    place = np.linspace(0.0, 1.0, n) * max(upto[-1] - 1.0, 0.0)
    below = np.floor(place)

    def ranked(rank: Array) -> Array:
        at: Array = values[np.minimum(np.searchsorted(upto, rank, side="right"), len(values) - 1)]
        return at

    low, high = ranked(below), ranked(below + 1.0)
    between: Array = low + (place - below) * (high - low)
    # The ends to the last bit, or the rows there would lie outside.
    between[0], between[-1] = values[0], values[-1]
    return between


def bspline_pieces(z: Array, degree: int) -> tuple[Array, BSpline]:
    """Return the B-splines on the knots z from 0 to 1: (degree + 1) × (n + 1) × (n + degree − 1), constant outside."""
    ends = np.concatenate([np.zeros(degree), z, np.ones(degree)])
    spline = BSpline(ends, np.eye(len(z) + degree - 1), degree)
    C = np.zeros((degree + 1, len(z) + 1, spline.c.shape[1]))
    C[:, 1:-1] = _taylor(spline, z[:-1], degree)
    C[0, 0], C[0, -1] = spline(0.0), spline(1.0)
    return C, spline


def natural_pieces(z: Array) -> Array:
    """Return the natural cubic splines on the knots z from 0 to 1, 4 × (n + 1) × (n − 1), linear outside.

    They are the combinations of B-splines, without the first, whose second derivative is zero at both ends: the null
    space of these two conditions by Householder reflections, as in R's ``ns``.
    """
    C, spline = bspline_pieces(z, 3)
    C[1, 0], C[1, -1] = spline(0.0, nu=1), spline(1.0, nu=1)
    conditions = spline(np.array([0.0, 1.0]), nu=2)[:, 1:]
    Q = np.linalg.qr(conditions.T, mode="complete")[0][:, 2:]
    pieces: Array = C[..., 1:] @ Q
    return pieces


def periodic_pieces(z: Array, degree: int) -> Array:
    """Return the periodic splines on the knots z from 0 to 1, (degree + 1) × (n + 1) × (n − 2)."""
    n = len(z)
    around = np.concatenate([z[n - 1 - degree : n - 1] - 1.0, z, z[1 : degree + 1] + 1.0])
    unit = np.eye(n - 1)
    spline = BSpline(around, np.vstack([unit, unit[:degree]]), degree)
    C = np.zeros((degree + 1, n + 1, n - 1))
    C[:, 1:-1] = _taylor(spline, z[:-1], degree)
    # Rounding can put a value on the last knot, which is the first.
    C[:, 0] = C[:, -1] = C[:, 1]
    return C[..., 1:]


def _taylor(spline: BSpline, at: Array, degree: int) -> Array:
    return np.stack([spline(at, nu=m) / factorial(m) for m in range(degree + 1)])
