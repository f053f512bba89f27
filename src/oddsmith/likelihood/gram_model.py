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
from scipy import linalg
from scipy.linalg.blas import strsv

from oddsmith.engines.memory import parallel_map
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks, bounds, descend
from oddsmith.likelihood.product_columns import ProductColumns, Single
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.truncated_newton import conjugate_gradients

SWEEPS, ROUNDS = 30, 5
"""Sweeps of coordinate descent before the columns that are not zero are solved for, and how often that is done."""
LEAST_PRECISION = (
    1e-3  # How far coordinate descent may miss the conditions of an optimum: the support is solved after it.
)
SUPPORT_RESIDUAL, SUPPORT_STEPS = 1e-5, 60  # How exactly the support is solved for, and in how many steps at most.
SOLVED = 1e-4  # The share of what was missed that is surely less than is missed after a solve.
REFINEMENTS = 3  # Times that residuals are corrected in a step.
CHANGED = 0.1  # The share of the support that may differ from the one that was factored.
STRIPES, TAKEN_AT_ONCE = 16, 128  # Parts of all columns, for threads, and columns in a part of those that are read.
LEAST_ROOM, MOST_ROOM = 512, 4096  # Columns for whose products there is room at first, and ahead at most.


@dataclass(kw_only=True)
class GramModel:
    """Columns ``chosen`` of a matrix, curvatures ``h`` of the rows, and the products G (with ``ridge``) under them.

    ``G`` has room for more columns. ``members`` are those of the factored support.
    """

    store: ProductColumns
    all_ridge: Array
    centred: bool
    chosen: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    h: Array | None = None
    mean: Array = field(default_factory=lambda: np.zeros(0))
    G: Single = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    members: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    factor: Single | None = None

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
        new = np.setdiff1d(columns, self.chosen)
        if not len(new):
            return
        k, m = len(self.chosen), len(self.chosen) + len(new)
        if m > len(self.G):
            room = min(max(LEAST_ROOM, 2 * m), len(self.all_ridge), max(MOST_ROOM, m))
            G = np.empty((room, room), dtype=np.float32)
            G[:k, :k] = self.G[:k, :k]
            self.G = G
        self.store.add(new)
        self.chosen = np.concatenate([self.chosen, new])
        if self.h is not None:
            self._form_products(k)

    def drift(self, h: Array) -> float:
        """Return how far other curvatures are from those of the model, relative to them."""
        if self.h is None:
            return np.inf
        return float(np.linalg.norm(h - self.h) / np.linalg.norm(self.h))

    def move_to(self, h: Array) -> None:
        """Form all products anew, under the curvatures ``h``."""
        self.h, self.factor, self.mean = h, None, np.zeros(0)
        self.members = np.zeros(0, dtype=np.intp)
        self._form_products(0)

    def _form_products(self, k: int) -> None:
        """Form the products of the columns from the k-th on with all."""
        assert self.h is not None
        m = len(self.chosen)
        new = self.columns.part(k).dots(self.h) / self.total if self.centred else np.zeros(m - k)
        self.mean = np.concatenate([self.mean[:k], new])
        self.store.form(self.G, self.h, self.mean, k)
        np.einsum("ii->i", self.G[k:m, k:m])[:] += self.ridge[k:]

    def minimise(self, slope: Array, x: Array, penalty: Array, precision: float) -> Array:
        """Return weights near the minimum of the model plus the penalty, from ``x`` where it has the slope."""
        m = len(x)
        G, x, slope, blocks = self.G[:m, :m], x.copy(), slope.copy(), Blocks.single(penalty)
        diagonal = bounds(G, blocks)
        known = diagonal > 0.0
        typical = float(np.median(penalty[known] ** 2 / diagonal[known])) if known.any() else 0.0
        gain = precision**2 * typical
        for _ in range(ROUNDS):
            if descend(G, slope, x, blocks, diagonal, tol=gain, sweeps=SWEEPS) < SWEEPS:
                break
            support = np.flatnonzero(x)
            own, pull = x[support], penalty[support]
            new = own - self.solve(support, slope[support] + pull * np.sign(own))
            new[new * own < 0.0] = 0.0
            d = np.zeros(m)
            d[support] = new - own
            change = np.asarray(G @ d.astype(np.float32), dtype=np.float64)
            if not d @ (slope + 0.5 * change) + pull @ (np.abs(new) - np.abs(own)) < 0.0:  # columns that hardly differ
                break
            x[support], slope = new, slope + change
        return x

    def corrected(self, x: Array, theta: Array, penalty: Array, precision: float) -> tuple[Array, Array, Array]:
        """Return weights near ``x``, the change of the activations, and residuals that meet an optimum's conditions.

        They are met by the residuals over the columns that are not zero or whose gradient is too large.
        """
        assert self.h is not None
        columns, ridge, change = self.columns, self.ridge, np.zeros_like(theta)
        for _ in range(REFINEMENTS):
            g = columns.dots(theta) + ridge * x
            bound = np.flatnonzero((x != 0.0) | (np.abs(g) > penalty))
            signs = np.where(x != 0.0, np.sign(x), -np.sign(g))[bound]
            missed = g[bound] + penalty[bound] * signs
            most = float(np.abs(missed / penalty[bound]).max(initial=0.0))
            if most <= precision:
                break
            rest, new = np.zeros_like(x), x.copy()
            rest[bound] = self.solve(bound, missed)
            new[bound] = np.where((x - rest)[bound] * signs > 0.0, (x - rest)[bound], 0.0)
            moved = columns.activations(rest)
            theta = theta - self.h * (moved - self.mean @ rest)
            kept = bool(new[bound].all())
            change -= moved if kept else columns.activations(x - new)
            x = new
            if kept and SOLVED * most <= precision:
                break
        return x, change, theta

    def solve(self, support: npt.NDArray[np.intp], slope: Array) -> Array:
        """Return the inverse of the products over ``support``, times ``slope``, by the factor of a support near it."""
        if len(np.setxor1d(support, self.members, assume_unique=True)) > CHANGED * len(support):
            self._factor(support)
        start = ObjectiveValue(w=slope, value=0.0, log_likelihood=0.0, gradient=slope)
        diagonal = np.diag(self.G)[: len(self.chosen)]
        system = _Support(self, support, np.where(diagonal > 0.0, diagonal, np.float32(1.0)))
        return conjugate_gradients(system, start, system, SUPPORT_RESIDUAL, SUPPORT_STEPS)

    def _factor(self, support: npt.NDArray[np.intp]) -> None:
        A = self.G.take(support, axis=0).take(support, axis=1)
        np.einsum("ii->i", A)[:] *= 1.0 + 1e-6
        try:
            self.factor = linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)[0]
            self.members = support
        except linalg.LinAlgError:  # columns that hardly differ
            self.factor, self.members = None, np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class LowPrecisionColumns:
    """All columns in single precision, one in each row, and their Euclidean norms.

    >>> columns = LowPrecisionColumns.of(np.array([[3.0], [4.0]]), threads=1)
    >>> u = np.array([1.0, -1.0])
    >>> columns.some_dots(u, np.array([0])).tolist(), bool(0.0 < columns.error(u)[0] < 1e-5)
    ([-1.0], True)
    """

    rows: Single
    norms: Array
    threads: int

    @classmethod
    def of(cls, X: npt.NDArray[np.float64], *, threads: int) -> LowPrecisionColumns:
        """Copy the columns of a matrix."""
        rows, norms = np.empty(X.shape[::-1], dtype=np.float32), np.empty(X.shape[1])

        def copy(part: slice) -> None:
            rows[part] = X[:, part].T
            norms[part] = np.sqrt(np.einsum("ij,ij->i", rows[part], rows[part]))

        deque(parallel_map(copy, _stripes(len(rows)), threads), maxlen=0)
        return cls(rows=rows, norms=norms, threads=threads)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of entries of each column."""
        return np.full(len(self.rows), self.rows.shape[1])

    @property
    def rounding(self) -> float:
        """How far rounding can move a product, relative to the norms of a column and of what it is multiplied by.

        A sum of n products has an error of at most n + 2 roundings times the sum of their sizes, in whatever order.
        """
        return float(1.01 * (self.rows.shape[1] + 2) * 2.0**-24)

    def some_dots(self, u: Array, which: npt.NDArray[np.intp]) -> Array:
        """Return the products of the columns ``which`` with ``u``."""
        low, whole = u.astype(np.float32), len(which) == len(self.rows)

        def multiply(part: slice) -> Single:
            return (self.rows[part] if whole else self.rows[which[part]]) @ low

        parts = parallel_map(multiply, _stripes(len(which), len(which) // TAKEN_AT_ONCE + 1), self.threads)
        return np.asarray(np.concatenate(list(parts)), dtype=np.float64)

    def error(self, u: Array) -> Array:
        """Return how far rounding can have moved the product of each column with ``u``."""
        return self.rounding * float(np.sqrt(u @ u)) * self.norms + len(u) * 1e-37


def _stripes(count: int, parts: int = STRIPES) -> list[slice]:
    return [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


@dataclass(frozen=True)
class _Support:
    """The products over a support, with the factor of one near it as the preconditioner."""

    model: GramModel
    support: npt.NDArray[np.intp]
    diagonal: Single

    def _spread(self, d: Array) -> Single:
        whole = np.zeros(len(self.model.chosen), dtype=np.float32)
        whole[self.support] = d
        return whole

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the products times ``d``."""
        m = len(self.model.chosen)
        return np.asarray((self.model.G[:m, :m] @ self._spread(d))[self.support], dtype=np.float64)

    def solve(self, r: Array) -> Array:
        """Return the solution for ``r`` over the factored columns, and by their diagonal that of the others."""
        model, whole = self.model, self._spread(r)
        result = whole / self.diagonal
        if model.factor is not None:
            half = strsv(model.factor, whole[model.members], lower=1)
            result[model.members] = strsv(model.factor, half, lower=1, trans=1, overwrite_x=1)
        return np.asarray(result[self.support], dtype=np.float64)
