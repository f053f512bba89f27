"""A quadratic model of a two-class loss over some columns of a dense matrix, by their products.

The products ``Σ_n h_n x_nj x_nk`` of columns less their mean under the curvatures h are in single precision. Curvatures
change slowly along a path, so the products of one point serve several scales; columns are added to them. What single
precision and old curvatures lack, steps with residuals in double precision have.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.linalg.blas import strsv

from oddsmith.engines.memory import parallel_map
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks, bounds, descend
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.truncated_newton import conjugate_gradients

SWEEPS, ROUNDS = 30, 5
"""Sweeps of coordinate descent before the columns that are not zero are solved for, and how often that is done."""
LEAST_PRECISION = (
    1e-3  # How far coordinate descent may miss the conditions of an optimum: the support is solved after it.
)
SUPPORT_RESIDUAL, SUPPORT_STEPS = 1e-5, 60  # How exactly the support is solved for, and in how many steps at most.
REFINEMENTS = 3  # Times that residuals are corrected in a step.
CHANGED = 0.05  # The share of the support that may differ from the one that was factored.
PANELS, CENTRED_AT_ONCE = 8, 64  # Parts of the products, and columns that are centred at a time, for threads.
STRIPES = 16  # Parts of all columns, for threads.
SUMMED_AT_ONCE = 256  # The same for sums over columns.
ROOM = 2**23  # Numbers in columns for which there is room at first.

Single = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class PackedColumns(MatrixColumns):
    """Dense columns whose sums are formed in parts: the same on any number of threads."""

    threads: int

    def _parts(self) -> list[slice]:
        return [slice(j, min(j + SUMMED_AT_ONCE, self.count)) for j in range(0, self.count, SUMMED_AT_ONCE)]

    def dots(self, u: Array) -> Array:
        rows = self.data.reshape(self.count, self.n)
        return np.concatenate([*parallel_map(lambda part: rows[part] @ u, self._parts(), self.threads), np.zeros(0)])

    def activations(self, x: Array) -> Array:
        rows = self.data.reshape(self.count, self.n)
        total = np.zeros(self.n)
        for part in parallel_map(lambda part: x[part] @ rows[part], self._parts(), self.threads):
            total += part
        return total


@dataclass(kw_only=True)
class GramModel:
    """Columns ``chosen`` of ``X``, the curvatures ``h`` of the model, and the products G (with ``ridge``) under them.

    ``packed`` are the columns, ``scaled`` the same less their mean and times √h. Both and ``G`` have room for more
    columns. ``members`` are those of the factored support.
    """

    X: npt.NDArray[np.float64]
    all_ridge: Array
    centred: bool
    threads: int
    chosen: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    h: Array | None = None
    mean: Array = field(default_factory=lambda: np.zeros(0))
    packed: Array = field(init=False)
    scaled: Single = field(init=False)
    G: Single = field(init=False)
    members: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    factor: Single | None = None

    def __post_init__(self) -> None:
        self.packed, self.G = np.empty((0, len(self.X))), np.empty((0, 0), dtype=np.float32)
        self.scaled = self.packed.astype(np.float32)

    @property
    def columns(self) -> PackedColumns:
        """The columns, without a copy."""
        k, n = len(self.chosen), len(self.X)
        return PackedColumns(n=n, count=k, data=self.packed[:k].reshape(-1), threads=self.threads)

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
        if m > len(self.packed):
            room = min(max(ROOM // len(self.X), 2 * m), self.X.shape[1])
            packed, G = np.empty((room, len(self.X))), np.empty((room, room), dtype=np.float32)
            scaled = np.empty(packed.shape, dtype=np.float32)
            packed[:k], scaled[:k], G[:k, :k] = self.packed[:k], self.scaled[:k], self.G[:k, :k]
            self.packed, self.scaled, self.G = packed, scaled, G
        for place, column in enumerate(new, start=k):
            self.packed[place] = self.X[:, column]
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
        """Form the products of the columns from the k-th on with all, in panels: the same on any number of threads."""
        assert self.h is not None
        m, B = len(self.chosen), self.scaled
        new = self.packed[k:m] @ self.h / self.total if self.centred else np.zeros(m - k)
        self.mean, root = np.concatenate([self.mean[:k], new]), np.sqrt(self.h)
        areas = np.linspace(k * k, m * m, 1 + min(max((m - k) // CENTRED_AT_ONCE, 1), PANELS))
        panels = list(pairwise(np.round(np.sqrt(areas)).astype(int).tolist()))

        def centre(j: int) -> None:
            some = slice(j, min(j + CENTRED_AT_ONCE, m))
            np.multiply(self.packed[some] - self.mean[some, None], root, out=B[some], casting="same_kind")

        def multiply(ends: tuple[int, int]) -> None:
            start, stop = ends
            np.matmul(B[start:stop], B[:stop].T, out=self.G[start:stop, :stop])
            self.G[:start, start:stop] = self.G[start:stop, :start].T

        deque(parallel_map(centre, range(k, m, CENTRED_AT_ONCE), self.threads), maxlen=0)
        deque(parallel_map(multiply, panels, self.threads), maxlen=0)
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
            if np.abs(missed / penalty[bound]).max(initial=0.0) <= precision:
                break
            rest, new = np.zeros_like(x), x.copy()
            rest[bound] = self.solve(bound, missed)
            new[bound] = np.where((x - rest)[bound] * signs > 0.0, (x - rest)[bound], 0.0)
            moved = columns.activations(rest)
            theta = theta - self.h * (moved - self.mean @ rest)
            change -= moved if new[bound].all() else columns.activations(x - new)
            x = new
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
    >>> sizes, error = columns.sizes(np.array([1.0, -1.0]))
    >>> sizes.tolist(), bool(0.0 < error[0] < 1e-5)
    ([1.0], True)
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

    def sizes(self, u: Array) -> tuple[Array, Array]:
        """Return the size of the product of each column with ``u``, and how far rounding can have moved it.

        A sum of n products has an error of at most n + 2 roundings times the sum of their sizes, in whatever order.
        """
        low, n = u.astype(np.float32), len(u)
        parts = parallel_map(lambda part: self.rows[part] @ low, _stripes(len(self.rows)), self.threads)
        error = 1.01 * (n + 2) * 2.0**-24 * float(np.sqrt(u @ u)) * self.norms + n * 1e-37
        return np.abs(np.concatenate(list(parts)), dtype=np.float64), error


def _stripes(count: int) -> list[slice]:
    return [slice(count * i // STRIPES, count * (i + 1) // STRIPES) for i in range(STRIPES)]


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
