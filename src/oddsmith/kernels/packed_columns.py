"""Dense columns, one in each row of an array, their products, and a factor of the products between some of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.native import FactorProblem, GramProblem, PackedProblem, TeamState, address, addresses, kernels
from oddsmith.numerics import Array

Single = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]
DOTS, ACTIVATIONS = range(2)  # Tasks of the kernel.
STORED = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16))  # In the order that the kernel knows.
LEAST_PIVOT = 1e-6  # Of a factor, against the entry of the matrix: about the rounding of single precision.
WEAK = 100.0  # Times the least pivot: of columns that hardly differ.
FIRST_ROOM = 2048  # Rows of a factor for which there is room at first.
PADDING = 16  # Single numbers of a vector: the kernel may read so many after each row of a factor.
MORE_ROWS = 3  # Rows after the last of scaled columns that the kernel may read.
UNUSED = 64  # Rows of a factor that stand for nothing any more, besides a quarter of it.


class Team:
    """Threads that share the work of kernels: one calls them, others are in ``help`` until ``end``.

    >>> team = Team()
    >>> team.end()
    >>> team.help()
    """

    def __init__(self) -> None:
        self.state = TeamState()

    def help(self) -> None:
        """Take a share of the work of another thread, until the team ends."""
        native = kernels()
        if native is not None:
            native("team_help", ctypes.byref(self.state))

    def end(self) -> None:
        """Let all threads go that help."""
        native = kernels()
        if native is not None:
            native("team_end", ctypes.byref(self.state))


@dataclass(frozen=True)
class Packed:
    """Columns of doubles, singles or halves, one in each row of ``rows``, and a team that shares their reading.

    The results are the same on any number of threads.

    >>> columns = Packed(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> columns.dots(np.ones(2)).tolist(), columns.dots(np.ones(2), np.array([1])).tolist()
    ([3.0, 7.0], [7.0])
    >>> columns.activations(np.array([1.0, 0.5])).tolist()
    [2.5, 4.0]
    """

    rows: npt.NDArray[Any]
    team: Team | None = None

    def dots(self, u: Array, which: Places | None = None) -> Array:
        """Return the products of ``u`` with the columns, or with some of them."""
        u = np.asarray(u, dtype=np.float64 if self.rows.dtype == np.float64 else np.float32)
        if kernels() is None:
            return np.asarray(np.matmul(self.rows if which is None else self.rows[which], u), dtype=np.float64)
        result = np.empty(len(self.rows) if which is None else len(which))
        self._run(u, which, result, len(result), DOTS)
        return result

    def activations(self, x: Array, which: Places | None = None) -> Array:
        """Return the sum of the columns, or of some, times the weights ``x``; those of weight zero are not read."""
        if kernels() is None:
            rows = self.rows if which is None else self.rows[which]
            return np.asarray(x.astype(rows.dtype) @ rows, dtype=np.float64)
        result = np.empty(self.rows.shape[1])
        self._run(np.ascontiguousarray(x), which, result, len(x), ACTIVATIONS)
        return result

    def _run(self, u: Array | Single, which: Places | None, result: Array, count: int, task: int) -> None:
        native, rows = kernels(), self.rows
        assert native is not None
        size = {"n": rows.shape[1], "apart": rows.strides[0] // rows.itemsize, "count": count}
        where = addresses(data=rows, which=which, u=u, result=result)
        problem = PackedProblem(stored=STORED.index(rows.dtype), **size, **where)
        native("packed", _state(self.team), ctypes.byref(problem), task)


def halve(columns: Array, rows: npt.NDArray[np.float16], units: Array, norms: Array) -> None:
    """Write columns (one in each row) in half precision to ``rows``, with the unit of each, and their norms.

    The unit is a power of 2 above the largest number of a column. Only kernels that have half precision do it.
    """
    native = kernels()
    assert native is not None
    where = (address(each) for each in (rows, units, norms))
    native("halve_columns", address(columns), columns.shape[1], len(columns), *where)


def form_products(
    rows: Array,
    places: Places,
    h: Array,
    scaled: Single,
    G: Single,
    first: int,
    *,
    centred: bool,
    team: Team | None = None,
) -> Array:
    """Write the products of some ``rows`` under ``h``, from the ``first`` on with all, into G; return the means.

    The rows are those at the ``places``. ``scaled`` are these less their mean, if ``centred``, times √h, and zeros up
    to a `padded` length: those before the first are there, the others are written. It has ``MORE_ROWS``.

    >>> scaled, G = np.empty((1 + MORE_ROWS, padded(2)), dtype=np.float32), np.empty((1, 1), dtype=np.float32)
    >>> rows, places = np.array([[1.0, 3.0]]), np.zeros(1, dtype=np.intp)
    >>> form_products(rows, places, np.ones(2), scaled, G, 0, centred=True).tolist(), G.tolist()
    ([2.0], [[2.0]])
    """
    native, root, total, m = kernels(), np.sqrt(h), float(h.sum()) if centred else 0.0, len(places)
    if native is None:
        new = rows[places[first:]]
        mean = np.asarray(new @ h) / total if centred else np.zeros(m - first)
        scaled[first:m, : len(h)], scaled[first:m, len(h) :] = (new - mean[:, None]) * root, 0.0
        G[first:m, :m] = scaled[first:m] @ scaled[:m].T
        G[:first, first:m] = G[first:m, :first].T
        return mean
    mean = np.empty(m)
    size = {"n": len(h), "first": first, "count": m, "apart": G.strides[0] // G.itemsize, "width": scaled.shape[1]}
    where = addresses(data=rows, which=places, h=h, root=root, mean=mean, scaled=scaled, G=G)
    native("gram", _state(team), ctypes.byref(GramProblem(total=total, **size, **where)))
    return mean[first:]


def padded(n: int) -> int:
    """Return the length of columns of n numbers that fills vectors.

    >>> padded(17)
    32
    """
    return -(-n // PADDING) * PADDING


def _state(team: Team | None) -> Any:
    return None if team is None else ctypes.byref(team.state)


def team_address(team: Team | None) -> int | None:
    """Return where a team is, for a field of a problem."""
    return None if team is None else ctypes.addressof(team.state)


@dataclass(kw_only=True)
class SupportFactor:
    """A factor of the products G of some columns, which come and go; the kernel changes it in place.

    ``state`` says how many rows it has, and ``weak`` counts columns that hardly differ from others. Without kernels the
    products are factored anew each time.

    >>> G, factor = np.array([[4.0, 2.0], [2.0, 5.0]], dtype=np.float32), SupportFactor()
    >>> factor.solve(G, np.array([0, 1]), np.array([8.0, 12.0])).round(5).tolist()
    [1.0, 2.0]
    >>> factor.solve(G, np.array([1]), np.array([5.0])).round(5).tolist()
    [1.0]
    """

    team: Team | None = None
    state: FactorProblem = field(default_factory=lambda: FactorProblem(least=LEAST_PIVOT, unused=UNUSED))
    L: Single = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    diagonal: Single = field(default_factory=lambda: np.zeros((2, 0), dtype=np.float32))  # its inverse, and the signs
    columns: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    rows: Places = field(default_factory=lambda: np.zeros((2, 0), dtype=np.intp))  # of each column, and what holds it

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.state.size)

    @property
    def weak(self) -> int:
        """The number of columns that hardly differ from others."""
        return int(self.state.weak)

    def clear(self) -> None:
        """Forget all columns."""
        self.state.size = self.state.weak = 0
        self.rows[:] = -1

    def solve(self, G: Single, support: Places, b: Array) -> Array:
        """Return the solution of ``G x = b`` over the columns of ``support``, in single precision."""
        native = kernels()
        if native is None:
            return self._solve_anew(G, support, b)
        wanted, (whole, x) = np.zeros(len(G), dtype=np.int8), np.zeros((2, len(G)))
        wanted[support], whole[support] = 1, b
        where = (address(each) for each in (wanted, whole, x))
        native("factor_solve", _state(self.team), ctypes.byref(self.problem(G)), *where)
        return np.asarray(x[support])

    def _solve_anew(self, G: Single, support: Places, b: Array) -> Array:
        """Do it in NumPy: the definition."""
        A = G[np.ix_(support, support)].astype(np.float64)
        size = np.diag(A).copy()
        np.einsum("ii->i", A)[:] *= 1.0 + LEAST_PIVOT
        left, self.state.size, self.state.weak = A.copy(), len(A), 0
        for j in range(len(A)):
            self.state.weak += bool(left[j, j] <= WEAK * LEAST_PIVOT * size[j])
            if not left[j, j] > LEAST_PIVOT * size[j]:
                A[j, j] += (LEAST_PIVOT * size[j] or 1.0) - left[j, j]
                left[j, j] = LEAST_PIVOT * size[j] or 1.0
            left[j + 1 :, j + 1 :] -= np.outer(left[j + 1 :, j], left[j, j + 1 :]) / left[j, j]
        return np.asarray(np.linalg.solve(A, b))

    def problem(self, G: Single) -> FactorProblem:
        """Return the factor for the kernel, with room for all columns of G."""
        m, state = len(G), self.state
        if (known := self.rows.shape[1]) < m:
            self.rows = np.concatenate([self.rows, np.full((2, m - known), -1)], axis=1)
        if (rows := m + m // 4 + UNUSED) > len(self.L):
            room, k = max(FIRST_ROOM, 3 * rows // 2), self.size
            L, diagonal = np.zeros((room, room + PADDING), dtype=np.float32), np.empty((2, room), dtype=np.float32)
            columns = np.empty(room, dtype=np.intp)
            L[:k, :k], diagonal[:, :k], columns[:k] = self.L[:k, :k], self.diagonal[:, :k], self.columns[:k]
            self.L, self.diagonal, self.columns = L, diagonal, columns
        inverse, sign = self.diagonal
        place, held = self.rows
        fields = addresses(L=self.L, inverse=inverse, sign=sign, G=G, columns=self.columns, place=place, held=held)
        for name, value in fields.items():
            setattr(state, name, value)
        state.apart, state.between, state.count = self.L.shape[1], G.strides[0] // G.itemsize, m
        return state
