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
    """Columns of doubles or singles, one in each row of ``rows``, and a team that shares their reading.

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
        u = np.asarray(u, dtype=self.rows.dtype)
        if kernels() is None:
            return np.asarray(np.matmul(self.rows if which is None else self.rows[which], u), dtype=np.float64)
        result = np.empty(len(self.rows) if which is None else len(which))
        self._run(u, which, result, len(result), DOTS)
        return result

    def activations(self, x: Array) -> Array:
        """Return the sum of the columns times the weights ``x``; those of weight zero are not read."""
        if kernels() is None:
            return np.asarray(x.astype(self.rows.dtype) @ self.rows, dtype=np.float64)
        result = np.empty(self.rows.shape[1])
        self._run(np.ascontiguousarray(x), None, result, len(x), ACTIVATIONS)
        return result

    def _run(self, u: Array | Single, which: Places | None, result: Array, count: int, task: int) -> None:
        native, rows = kernels(), self.rows
        assert native is not None
        size = {"n": rows.shape[1], "apart": rows.strides[0] // rows.itemsize, "count": count}
        where = addresses(data=rows, which=which, u=u, result=result)
        problem = PackedProblem(single=int(rows.dtype == np.float32), **size, **where)
        native("packed", _state(self.team), ctypes.byref(problem), task)


def form_products(
    data: Array, h: Array, scaled: Single, G: Single, first: int, *, centred: bool, team: Team | None = None
) -> Array:
    """Write the products of the rows of ``data`` under ``h``, from the ``first`` on with all, into G; return the means.

    ``scaled`` are the rows less their mean, if ``centred``, times √h, and zeros up to a `padded` length: those before
    the first are there, the others are written. It has ``MORE_ROWS`` than there are rows.

    >>> scaled, G = np.empty((1 + MORE_ROWS, padded(2)), dtype=np.float32), np.empty((1, 1), dtype=np.float32)
    >>> form_products(np.array([[1.0, 3.0]]), np.ones(2), scaled, G, 0, centred=True).tolist(), G.tolist()
    ([2.0], [[2.0]])
    """
    native, root, total, m = kernels(), np.sqrt(h), float(h.sum()) if centred else 0.0, len(data)
    if native is None:
        mean = np.asarray(data[first:] @ h) / total if centred else np.zeros(m - first)
        scaled[first:m, : len(h)], scaled[first:m, len(h) :] = (data[first:] - mean[:, None]) * root, 0.0
        G[first:m, :m] = scaled[first:m] @ scaled[:m].T
        G[:first, first:m] = G[first:m, :first].T
        return mean
    mean = np.empty(m)
    size = {"n": len(h), "first": first, "count": m, "apart": G.strides[0] // G.itemsize, "width": scaled.shape[1]}
    problem = GramProblem(total=total, **size, **addresses(data=data, h=h, root=root, mean=mean, scaled=scaled, G=G))
    native("gram", _state(team), ctypes.byref(problem))
    return mean[first:]


def padded(n: int) -> int:
    """Return the length of columns of n numbers that fills vectors.

    >>> padded(17)
    32
    """
    return -(-n // PADDING) * PADDING


def _state(team: Team | None) -> Any:
    return None if team is None else ctypes.byref(team.state)


@dataclass(kw_only=True)
class SupportFactor:
    """A factor of the products G of some columns, which come and go.

    A column that comes is another row of the factor. One that goes stays there, and a row is added that holds its
    weight at zero; if it comes back, that row is held at zero by a third one. ``place`` is the row of each column, −1
    if there is none, and ``held`` the row that holds it; ``columns`` are those of the rows, −1 − k for one that holds
    k. ``weak`` counts columns that hardly differ from others.

    >>> G, factor = np.array([[4.0, 2.0], [2.0, 5.0]], dtype=np.float32), SupportFactor()
    >>> factor.solve(G, np.array([0, 1]), np.array([8.0, 12.0])).round(5).tolist()
    [1.0, 2.0]
    >>> factor.solve(G, np.array([1]), np.array([5.0])).round(5).tolist()
    [1.0]
    """

    team: Team | None = None
    size: int = 0
    weak: int = 0
    L: Single = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    inverse: Single = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    sign: Single = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    columns: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    place: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    held: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def clear(self) -> None:
        """Forget all columns."""
        self.size, self.weak, self.place, self.held = 0, 0, self.place[:0], self.held[:0]

    def solve(self, G: Single, support: Places, b: Array) -> Array:
        """Return the solution of ``G x = b`` over the columns of ``support``, in single precision."""
        self._reach(G, support)
        x, at = np.zeros(self.size + PADDING, dtype=np.float32), self.place[support]
        x[at] = b
        native = kernels()
        if native is None:
            A = self.L[: self.size, : self.size]
            x = np.linalg.solve(A.T, self.sign[: self.size] * np.linalg.solve(A, x[: self.size]))
        else:
            native("factor_solve", ctypes.byref(self._problem(0, G)), address(x))
        return x[at].astype(np.float64)

    def _reach(self, G: Single, support: Places) -> None:
        """Let the factor be that of the columns of ``support``."""
        none = np.full(len(G) - len(self.place), -1)
        self.place, self.held = np.concatenate([self.place, none]), np.concatenate([self.held, none])
        wanted = np.zeros(len(G), dtype=bool)
        wanted[support] = True
        changed = np.flatnonzero(wanted != ((self.place >= 0) & (self.held < 0)))
        if self.size + len(changed) > 1.25 * len(support) + UNUSED and self.size:
            self.clear()
            self._reach(G, support)
            return
        if not len(changed):
            return
        new, known = changed[self.place[changed] < 0], changed[self.place[changed] >= 0]
        k, m, end = self.size, self.size + len(new), self.size + len(changed)
        self._make_room(end)
        self.place[new] = np.arange(k, m)
        back = self.held[known] >= 0
        self.columns[k:m], self.columns[m:end] = new, -1 - np.where(back, self.held[known], self.place[known])
        self.held[known] = np.where(back, -1, np.arange(m, end))
        self._append(G, end - k)

    def _append(self, G: Single, more: int) -> None:
        native, problem = kernels(), self._problem(more, G)
        if native is None:
            self._append_rows(G, more)
        else:
            native("factor_append", _state(self.team), ctypes.byref(problem))
            self.weak += int(problem.weak)
        self.size += more

    def _append_rows(self, G: Single, more: int) -> None:
        """Do it in NumPy: the definition."""
        for j in range(self.size, self.size + more):
            row, own, before = np.zeros(j + 1), self.columns[j], self.columns[:j]
            if own >= 0:
                row[:j] = np.where(before >= 0, G[own, np.maximum(before, 0)], 0.0)
                row[j] = G[own, own] * (1.0 + LEAST_PIVOT)
            else:
                row[-1 - own] = 1.0
            y = np.linalg.solve(self.L[:j, :j], row[:j]) if j else row[:0]
            pivot = float(row[j]) - float(y @ (self.sign[:j] * y))
            self.weak += bool(abs(pivot) <= WEAK * LEAST_PIVOT * row[j])
            if abs(pivot) <= LEAST_PIVOT * row[j]:
                pivot = LEAST_PIVOT * row[j] or 1.0
            self.L[j, :j], self.L[j, j], self.L[j, j + 1 :] = self.sign[:j] * y, np.sqrt(abs(pivot)), 0.0
            self.sign[j] = np.sign(pivot)

    def _make_room(self, end: int) -> None:
        if end <= len(self.L):
            return
        room, k = max(FIRST_ROOM, 3 * end // 2), self.size
        L, columns = np.zeros((room, room + PADDING), dtype=np.float32), np.empty(room, dtype=np.intp)
        inverse, sign = np.empty(room, dtype=np.float32), np.empty(room, dtype=np.float32)
        L[:k, :k], inverse[:k], sign[:k] = self.L[:k, :k], self.inverse[:k], self.sign[:k]
        columns[:k] = self.columns[:k]
        self.L, self.inverse, self.sign, self.columns = L, inverse, sign, columns

    def _problem(self, more: int, G: Single) -> FactorProblem:
        where = addresses(L=self.L, inverse=self.inverse, sign=self.sign, G=G, columns=self.columns)
        size = {"size": self.size, "more": more, "apart": self.L.shape[1], "between": G.strides[0] // G.itemsize}
        return FactorProblem(least=LEAST_PIVOT, **size, **where)
