"""A quadratic model of a two-class loss over some columns, by their products.

The products ``Σ_n h_n x_nj x_nk`` of columns less their mean under the curvatures h are in single precision. Curvatures
change slowly along a path, so the products of one point serve several scales; columns are added to them. What single
precision and old curvatures lack, steps with residuals in double precision have.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oddsmith.engines.memory import parallel_map
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks, bounds, descend, typical_gain
from oddsmith.kernels.native import kernels
from oddsmith.kernels.packed_columns import PADDING, Packed, Single, SupportFactor, Team, halve
from oddsmith.likelihood.product_columns import ProductColumns
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.truncated_newton import conjugate_gradients

SWEEPS, MORE_SWEEPS, ROUNDS = 5, 30, 8
"""Sweeps of coordinate descent after the columns that are not zero were solved for, those where that failed, and how
often it is done."""
NEGLIGIBLE = 1e-2  # The share of the gain that ends a descent that no coordinate moves for.
SUPPORT_RESIDUAL, SUPPORT_STEPS = 1e-5, 60  # How exactly the support is solved for, and in how many steps at most.
SOLVED = 1e-4  # The share of what was missed that is surely less than is missed after a solve.
REFINEMENTS = 3  # Times that residuals are corrected in a step.
STRIPES = 16  # Parts of all columns, for threads.
LEAST_ROOM, AHEAD = 2880, 1.25
"""Columns for whose products there is room at first, 32 MiB, and room against columns later: a copy takes long."""


@dataclass(kw_only=True)
class GramModel:
    """Columns ``chosen`` of a matrix, curvatures of the rows, and the products G (with ``ridge``) under them.

    ``h`` are the curvatures of the model: ``share`` times those of G, since all rows become flatter along a path.
    ``G`` has room for more columns. ``factor`` is that of a support of dense columns; ``quick`` is whether
    steps are taken in one call of the kernel.
    """

    store: ProductColumns
    all_ridge: Array
    centred: bool
    chosen: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    h: Array | None = None
    base: Array = field(default_factory=lambda: np.zeros(0))
    share: float = 1.0
    mean: Array = field(default_factory=lambda: np.zeros(0))
    G: Single = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    diagonal: Array = field(default_factory=lambda: np.zeros(0))
    factor: SupportFactor = field(default_factory=SupportFactor)
    quick: bool = False

    @property
    def columns(self) -> MatrixColumns:
        """The columns, without a copy."""
        return self.store.columns

    @property
    def ridge(self) -> Array:
        """The ridge of each column."""
        return self.all_ridge[self.chosen]

    @property
    def total(self) -> float:
        """The sum of the curvatures."""
        assert self.h is not None
        return float(self.h.sum())

    def add(self, columns: npt.NDArray[np.intp]) -> None:
        """Add columns, and their products if the model has curvatures."""
        there = np.zeros(len(self.all_ridge), dtype=bool)
        there[self.chosen] = True
        new = columns[~there[columns]]
        if not len(new):
            return
        k, m = len(self.chosen), len(self.chosen) + len(new)
        if m > len(self.G):
            room = min(max(LEAST_ROOM, int(AHEAD * m)), len(self.all_ridge))
            # Rows that are a power of two apart would share lines of the cache.
            G = np.empty((room, room + PADDING), dtype=np.float32)[:, :room]
            G[:k, :k] = self.G[:k, :k]
            self.G = G
        self.store.add(new)
        self.chosen = np.concatenate([self.chosen, new])
        if self.h is not None:
            self._form_products(k)

    def drift(self, h: Array) -> float:
        """Return how far other curvatures are from those of the products times a number, relative to them."""
        if self.h is None:
            return np.inf
        share = self.nearest_share(h)
        return float(np.linalg.norm(h - share * self.base) / (share * np.linalg.norm(self.base)))

    def nearest_share(self, h: Array) -> float:
        """Return the multiple of the products that is nearest to those under the curvatures ``h``."""
        return 1.0 if self.all_ridge.any() else float((h @ self.base) / (self.base @ self.base))

    def scale(self, share: float) -> None:
        """Take a multiple of the products."""
        self.share, self.h = share, share * self.base

    def move_to(self, h: Array) -> None:
        """Form all products anew, under the curvatures ``h``."""
        self.h, self.base, self.share, self.mean = h, h, 1.0, np.zeros(0)
        self.factor.clear()
        self._form_products(0)

    def _form_products(self, k: int) -> None:
        """Form the products of the columns from the k-th on with all."""
        m = len(self.chosen)
        self.mean = np.concatenate([self.mean[:k], self.store.form(self.G, self.base, k, centred=self.centred)])
        own = np.einsum("ii->i", self.G[k:m, k:m])
        own += self.ridge[k:]
        self.diagonal = np.concatenate([self.diagonal[:k], own])

    def slopes(self, r: Array) -> Array:
        """Return the products of centred columns with residuals, nearly."""
        return self.store.centred_dots(r, self.mean)

    def moved(self, x: Array) -> Array:
        """Return the change of the activations by weights of centred columns, nearly."""
        return self.store.centred_activations(x, self.mean)

    def minimise(self, slope: Array, x: Array, penalty: Array, precision: float) -> Array:
        """Return weights near the minimum of the model plus the penalty, from ``x`` where it has the slope."""
        m = len(x)
        slope, penalty = slope / self.share, penalty / self.share
        G, x, blocks = self.G[:m, :m], x.copy(), Blocks.single(penalty)
        diagonal = bounds(G, blocks)
        gain = typical_gain(precision, penalty, diagonal)
        for _ in range(ROUNDS):
            support = np.flatnonzero(x)
            own, pull = x[support], penalty[support]
            new = own - self._solve(support, slope[support] + pull * np.sign(own))
            new[new * own < 0.0] = 0.0
            d = np.zeros(m)
            d[support] = new - own
            change, sweeps = Packed(G, self.factor.team).activations(d), SWEEPS
            if d @ (slope + 0.5 * change) + pull @ (np.abs(new) - np.abs(own)) < 0.0:
                x[support], slope = new, slope + change
            elif len(support):  # signs that change, or columns that hardly differ
                sweeps = MORE_SWEEPS
            done = descend(G, slope, x, blocks, diagonal, tol=gain, sweeps=sweeps, negligible=NEGLIGIBLE * gain)
            if done < sweeps:
                break
        return x

    def corrected(
        self, x: Array, theta: Array, penalty: Array, precision: float, *, rough: bool = False
    ) -> tuple[Array, Array]:
        """Return weights near ``x``, and residuals that meet the conditions of an optimum.

        They are met by the residuals over the columns that are not zero or whose gradient is too large. With ``rough``,
        the residuals miss more at first than single precision does.
        """
        assert self.h is not None
        ridge = self.ridge
        for k in range(REFINEMENTS):
            first = rough and k == 0
            g = (self.slopes(theta) if first else self.columns.dots(theta)) + ridge * x
            bound = np.flatnonzero((x != 0.0) | (np.abs(g) > penalty))
            signs = np.where(x != 0.0, np.sign(x), -np.sign(g))[bound]
            missed = g[bound] + penalty[bound] * signs
            most = float(np.abs(missed / penalty[bound]).max(initial=0.0))
            if most <= precision:
                break
            rest = np.zeros_like(x)
            rest[bound] = self._solve(bound, missed / self.share)
            exact = k == 0 and not rough  # later steps are small
            moved = self.columns.activations(rest) - float(self.mean @ rest) if exact else self.moved(rest)
            theta = theta - self.h * moved
            new = (x - rest)[bound]
            x = x.copy()
            x[bound] = np.where(new * signs > 0.0, new, 0.0)
            if x[bound].all() and SOLVED * most <= precision and not first:
                break
        return x, theta

    def _solve(self, support: npt.NDArray[np.intp], slope: Array) -> Array:
        """Return the inverse of the products over ``support``, times ``slope``."""
        m = len(self.chosen)
        d = self.factor.solve(self.G[:m, :m], support, slope)
        if not self.factor.weak:
            return d
        start = ObjectiveValue(w=slope, value=0.0, log_likelihood=0.0, gradient=slope)
        system = _Support(self.G[:m, :m], support, self.factor)
        return conjugate_gradients(system, start, system, SUPPORT_RESIDUAL, SUPPORT_STEPS)


@dataclass(frozen=True, kw_only=True)
class LowPrecisionColumns:
    """All columns in half precision, or single where that is not quick, one in each row, and their Euclidean norms.

    The numbers of a column are in ``units`` of it.

    >>> columns = LowPrecisionColumns.of(np.array([[3.0], [4.0]]), threads=1)
    >>> u = np.array([1.0, -1.0])
    >>> columns.some_dots(u, np.array([0])).tolist(), bool(0.0 < columns.error(u)[0] < 1e-2)
    ([-1.0], True)
    """

    rows: npt.NDArray[np.float16] | Single
    norms: Array
    units: Array
    team: Team | None = None

    @classmethod
    def of(cls, X: npt.NDArray[np.float64], *, threads: int, team: Team | None = None) -> LowPrecisionColumns:
        """Copy the columns of a matrix."""
        native = kernels()
        half = native is not None and native.has_half
        rows = np.empty(X.shape[::-1], dtype=np.float16 if half else np.float32)
        norms, units = np.empty(len(rows)), np.ones(len(rows))

        def copy(part: slice) -> None:
            columns = np.ascontiguousarray(X[:, part].T, dtype=np.float64)
            if half:
                halve(columns, rows[part], units[part], norms[part])
            else:
                rows[part], norms[part] = columns, np.sqrt(np.einsum("ij,ij->i", columns, columns))

        deque(parallel_map(copy, _stripes(len(rows)), threads), maxlen=0)
        return cls(rows=rows, norms=norms, units=units, team=team)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of entries of each column."""
        return np.full(len(self.rows), self.rows.shape[1])

    @property
    def rounding(self) -> float:
        """How far rounding can move a product, relative to the norms of a column and of what it is multiplied by.

        A sum of n products has an error of at most n + 2 roundings times the sum of their sizes, in whatever order.
        Half precision rounds numbers to 11 bits, and those below 2⁻¹⁴ units to multiples of 2⁻²⁴ units: n of these
        have a norm of at most √n 2⁻²⁵ units, and a unit is at most twice the norm of the column.
        """
        n = self.rows.shape[1]
        stored = 2.0**-11 + n**0.5 * 2.0**-24 if self.rows.dtype == np.float16 else 0.0
        return float(1.01 * (stored + (n + 2) * 2.0**-24))

    def some_dots(self, u: Array, which: npt.NDArray[np.intp]) -> Array:
        """Return the products of the columns ``which`` with ``u``."""
        return Packed(self.rows, self.team).dots(u, which) * self.units[which]

    def error(self, u: Array) -> Array:
        """Return how far rounding can have moved the product of each column with ``u``."""
        return self.rounding * float(np.sqrt(u @ u)) * self.norms + len(u) * 1e-37 * self.units


def _stripes(count: int, parts: int = STRIPES) -> list[slice]:
    return [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


@dataclass(frozen=True)
class _Support:
    """The products over a support, with a factor in which columns that hardly differ are told apart."""

    G: Single
    support: npt.NDArray[np.intp]
    factor: SupportFactor

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the products times ``d``."""
        whole = np.zeros(len(self.G), dtype=np.float32)
        whole[self.support] = d
        return np.asarray((self.G @ whole)[self.support], dtype=np.float64)

    def solve(self, r: Array) -> Array:
        """Return the solution for ``r`` by the factor."""
        return self.factor.solve(self.G, self.support, r)
