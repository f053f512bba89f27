"""The curvature sums of rows in parts: columns of numbers read where they lie, factors by their codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal, SparseBorder
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.native import Kernels, TableProblem, address, contiguous, kernels
from oddsmith.kernels.reference import CurvatureParams
from oddsmith.numerics import Array, add_transpose
from oddsmith.protocols import Indices
from oddsmith.rows import CodeRows, ColumnRows, SplitRows

LOGISTIC, PRODUCT, GIVEN, ACTIVATIONS, FIND_CELLS, COUNT_CELLS, WIDEST = range(7)
GRADIENT, DIRECTION, PAIRS, OWN = range(4)
"""The tasks of the kernel, and those of the kernel of several classes."""
SPARE = 8  # Numbers that kernels may read or write beyond the last: a vector of the widest registers.
KINDS = {
    np.dtype(kind): number
    for number, kind in enumerate((np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8))
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Where a kernel finds the parts of some rows.

    ``columns`` are the columns of numbers, ``ranges`` those of each factor (from, to); ``size`` is 1 + M. ``arrays``
    are kept alive for the addresses in ``problem``. ``centers`` has the center asked for last, and what `center` says.
    """

    problem: TableProblem
    size: int
    columns: Indices
    ranges: tuple[tuple[int, int], ...]
    arrays: tuple[Any, ...]
    centers: list[tuple[Array, Array | None]] = field(default_factory=list)

    @classmethod
    def of(cls, block: Block) -> Layout:
        """Return the layout of a block of `SplitRows` whose parts are columns and codes, which the block keeps."""
        if block.addresses:
            kept: Layout = block.addresses[0]
            return kept
        assert isinstance(block.Phi, SplitRows)
        numbers: list[npt.NDArray[Any]] = []
        fills: list[float] = []
        factors: list[CodeRows] = []
        ranges: list[tuple[int, int]] = []
        columns: list[int] = []
        size = 1 + block.n_columns
        for part, (a, b) in zip(block.Phi.parts, block.Phi.ranges, strict=True):
            if isinstance(part, CodeRows):
                factors.append(part)
                ranges.append((a, b))
            else:
                assert isinstance(part, ColumnRows)
                columns.extend(range(a, b))
                numbers.extend(_readable(array, steps=True) for array in part.arrays)
                fills.extend(part.fills or [np.nan] * part.shape[1])
        parts = (
            numbers,
            [np.ascontiguousarray(factor.codes) for factor in factors],
            [contiguous(factor.x) for factor in factors],
            [factor.entries for factor in factors],
        )
        pointers = tuple(np.array([address(one) or 0 for one in some], dtype=np.uint64) for some in parts)
        kinds = tuple(np.array([KINDS[one.dtype] for one in some], dtype=np.int64) for some in parts[:2])
        steps = np.array([one.strides[0] // one.itemsize for one in numbers], dtype=np.int64)
        levels = np.array([factor.levels for factor in factors], dtype=np.int64)
        instead = None if np.isnan(fills).all() else np.array(fills)
        at, firsts = np.array(columns, dtype=np.int64) + 1, np.array([1 + a for a, _ in ranges], dtype=np.int64)
        t, s, offset = _readable(block.t), None if block.s is None else _readable(block.s), contiguous(block.offset)
        problem = TableProblem(n=block.n_rows, m=len(numbers), f=len(factors), numbers=address(at), eliminated=-1)
        problem.columns, problem.codes, problem.values, problem.entries = map(address, pointers)
        problem.column_kinds, problem.code_kinds = map(address, kinds)
        problem.column_steps, problem.fills = address(steps), address(instead)
        problem.code_levels, problem.firsts, problem.nowhere = address(levels), address(firsts), size
        problem.t, problem.s = address(t), address(s)
        problem.t_kind, problem.s_kind = KINDS[t.dtype], 0 if s is None else KINDS[s.dtype]
        problem.offset = None if offset is None or offset.shape[1] > 1 else address(offset)
        problem.start = size + 1  # of no factor
        arrays = (parts, pointers, kinds, steps, instead, levels, at, firsts, t, s, offset)
        layout = cls(problem=problem, size=size, columns=at - 1, ranges=tuple(ranges), arrays=arrays)
        block.addresses.append(layout)
        return layout

    def rows(self, start: int, stop: int) -> TableProblem:
        """Return the problem of some of the rows."""
        problem, (parts, pointers, *_) = TableProblem.from_buffer_copy(self.problem), self.arrays
        steps = [[0 if one is None else one.strides[0] for one in some] for some in parts[:3]]
        moved = tuple(
            at + np.array(step, dtype=np.uint64) * np.uint64(start)
            for at, step in zip(pointers[:3], steps, strict=True)
        )
        problem.n, problem.alive = stop - start, moved
        problem.columns, problem.codes, problem.values = map(address, moved)
        t, s, offset = self.arrays[-3:]
        problem.t, problem.s, problem.offset = (
            None if one is None or not where else where + start * one.strides[0]
            for one, where in ((t, problem.t), (s, problem.s), (offset, problem.offset))
        )
        return problem

    def weights(self, w: Array, b: float) -> Array:
        """Return weights of the columns as the kernel takes them: as they are, if they lie in memory like that."""
        whole = w.base
        if isinstance(whole, np.ndarray) and whole.shape == (self.size + 1,) and whole.flags.c_contiguous:
            if whole.dtype == w.dtype and whole[1:].ctypes.data == w.ctypes.data and whole[0] == b and not whole[-1]:
                return whole
        return np.concatenate([[b], w, [0.0]])

    def center(self, center: Array) -> Array | None:
        """Return the centers of the columns of numbers; None if a factor is centred, too."""
        for known, middle in self.centers:
            if known is center:
                return middle
        factors = any(center[a:b].any() for a, b in self.ranges)
        found = None if factors else np.ascontiguousarray(center[self.columns], dtype=np.float64)
        self.centers[:] = [(center, found)]
        return found

    def zeros(self) -> Array:
        """Return room for sums of the intercept and the columns."""
        return np.zeros(self.size + 1)

    def eliminating(self, columns: tuple[int, int]) -> dict[str, npt.NDArray[Any] | int | None]:
        """Return the fields of a problem in which the factor of the given ``columns`` is eliminated."""
        first, last = columns
        return {"eliminated": self.ranges.index(columns), "start": 1 + first, "levels": last - first}


@dataclass(frozen=True, eq=False)
class Cells:
    """Which levels of other factors occur beside each level of the factor eliminated.

    ``words`` (L + 1 × w × 2) has a bit for each of their columns, and the number of cells in all words before.
    ``indices`` and ``indptr`` are those of the cells as a CSR matrix. All are None where there is no other factor.
    """

    words: npt.NDArray[np.uint64] | None = None
    indices: npt.NDArray[np.int32] | None = None
    indptr: npt.NDArray[np.int32] | None = None

    @property
    def count(self) -> int:
        """The number of cells."""
        return 0 if self.indices is None else len(self.indices)


@dataclass(frozen=True, eq=False)
class TableKernel:
    """The kernel over the rows of one block, its columns of numbers less their ``center`` (M)."""

    kernels: Kernels
    layout: Layout
    center: Array

    def problem(self, of: TableProblem, **fields: npt.NDArray[Any] | int | None) -> TableProblem:
        """Return a problem of the kernel over the rows ``of`` another one; it writes to the given arrays."""
        problem, middle = TableProblem.from_buffer_copy(of), self.layout.center(self.center)
        problem.center = address(middle)  # which the layout keeps no longer once it is asked for another one
        problem.alive = self.layout, of.alive, middle, fields
        for name, value in fields.items():
            setattr(problem, name, address(value) if isinstance(value, np.ndarray) else value)
        return problem

    def run(self, task: int, **fields: npt.NDArray[Any] | int | None) -> TableProblem:
        """Run the kernel, which writes to the given arrays, and return its problem."""
        problem = self.problem(self.layout.problem, **fields)
        self.kernels("table", problem, task)
        return problem

    def activations(self, W: Array, b: Array) -> Array:
        """Return ``b + W (φ − center)``, C × n, without the offset."""
        A = np.empty((len(W), self.layout.problem.n))
        for a, w, b0 in zip(A, W, b.tolist(), strict=True):
            self.run(ACTIVATIONS, w=self.layout.weights(w, b0), rows=a, offset=None)
        return A

    def widest(self, w: Array, b: float, rows: tuple[int, int]) -> Callable[[], float]:
        """Return what finds the widest activation ``b + wᵀ(φ − center)`` of some rows, on any thread."""
        problem = self.problem(self.layout.rows(*rows), w=self.layout.weights(w, b), offset=None)

        def find() -> float:
            self.kernels("table", problem, WIDEST)
            return float(problem.widest)

        return find

    def add_gradient(self, R: Array, G: Array) -> None:
        """Add ``Σ r (1, z)`` of the rows of ``R`` (C × n) to ``G``, C × (P + 1)."""
        for r, g in zip(R, G, strict=True):
            self.run(GIVEN, rows=np.ascontiguousarray(r), g=g)

    def sums_of(self, r: Array | None, *, squares: bool = False) -> tuple[Array, Array]:
        """Return ``Σ r (1, z)`` and, if asked for, ``Σ r (1, z²)``; by default of curvatures at zero weights."""
        g, q = self.layout.zeros(), self.layout.zeros() if squares else None
        self.run(GIVEN, rows=None if r is None else np.ascontiguousarray(r), g=g, squares=q)
        return g[:-1], (g if q is None else q)[:-1]

    def longest(self, inverse: Array) -> float:
        """Return ``max_n Σ_j inverse_j z_nj²``."""
        return float(self.run(GIVEN, inverse=self.layout.weights(inverse, 0.0)).max_norm2)

    def classes(
        self, block: Block, at: CurvatureParams, task: int, count: int, direction: Array | None = None
    ) -> tuple[float, Array, Array]:
        """Return the losses of several classes, and ``count`` sums of the intercept and each column (count × P).

        The same of squares is there if the task is ``OWN``.
        """
        check_codes(block, len(at.b))
        problem, size = TableProblem.from_buffer_copy(self.layout.problem), self.layout.size
        middle, w, offset = self.layout.center(self.center), by_place(at.W, at.b), contiguous(block.offset)
        sums = np.zeros((2 if task == OWN else 1, (size + 1) * count + SPARE))
        problem.center, problem.w, problem.offset, problem.g = map(address, (middle, w, offset, sums))
        problem.squares = address(sums[1]) if task == OWN else None
        self.kernels("class_table", problem, len(at.b), address(direction), task)
        found = [one[: size * count].reshape(size, count).T for one in sums]
        return problem.value, found[0], found[-1]

    def find_cells(self, columns: tuple[int, int]) -> npt.NDArray[np.uint64]:
        """Return the words of `Cells` for the factor of some ``columns``, in these rows; nothing is counted."""
        levels = columns[1] - columns[0]
        size = self.layout.size + 1 - levels
        words = np.zeros((levels + 1, -(-size // 64), 2), dtype=np.uint64)
        self.run(FIND_CELLS, size=size, cells=words, words=words.shape[1], **self.layout.eliminating(columns))
        return words

    def count_cells(self, columns: tuple[int, int], words: npt.NDArray[np.uint64]) -> Cells:
        """Return the cells of the given words, which are counted."""
        fields = {"cells": words, "words": words.shape[1], **self.layout.eliminating(columns)}
        self.run(COUNT_CELLS, **fields)
        indptr = words[:, 0, 1].astype(np.int32)
        indices = np.empty(indptr[-1], dtype=np.int32)
        self.run(COUNT_CELLS, **fields, indices=indices)
        return Cells(words, indices, indptr)

    def curvatures(self, at: CurvatureParams) -> Array:
        """Return the curvature of each row of two classes, times its weight."""
        h = np.empty(self.layout.problem.n)
        self.run(LOGISTIC, w=self.layout.weights(at.W[0], float(at.b[0])), rows=h)
        return h

    def product(self, h: Array, V: Array, v: Array) -> Array:
        """Return the Hessian of rows of curvature ``h`` times the direction (v, V), 1 × P."""
        g = self.layout.zeros()
        self.run(PRODUCT, w=self.layout.weights(V[0], float(v[0])), rows=h, g=g, offset=None)
        return g[None, :-1]


@dataclass(frozen=True, eq=False, kw_only=True)
class HessianRoom:
    """Where the kernel sums a Hessian: ``A`` of all columns but those ``eliminated``, ``D`` and ``B`` of these.

    With ``cells``, ``N`` (intercept and numbers) and ``C`` (the cells) take the place of ``B``.
    """

    layout: Layout
    eliminated: tuple[int, int] | None
    A: Array
    D: Array | None = None
    B: Array | None = None
    N: Array | None = None
    C: Array | None = None
    cells: Cells | None = None

    @classmethod
    def of(
        cls, layout: Layout, columns: tuple[int, int] | None, cells: Cells | None = None, spare: int = 1
    ) -> HessianRoom:
        """Return room for a Hessian in which the factor of the given ``columns`` is eliminated.

        ``spare`` sums take what is in no cell.
        """
        levels = 0 if columns is None else columns[1] - columns[0]
        size = layout.size + 1 - levels
        A = np.zeros((size, size))
        if columns is None:
            return cls(layout=layout, eliminated=None, A=A)
        if cells is None:
            return cls(layout=layout, eliminated=columns, A=A, D=np.zeros(levels + 1), B=np.zeros((levels + 1, size)))
        values = layout.arrays[0][2][layout.ranges.index(columns)]
        N = np.zeros((levels + 1) * (1 + len(layout.columns)) + 8)  # the kernel adds whole vectors
        D = None if values is None else np.zeros(levels + 1)
        return cls(layout=layout, eliminated=columns, A=A, D=D, N=N, C=np.zeros(cells.count + spare), cells=cells)

    def fields(self) -> dict[str, npt.NDArray[Any] | int | None]:
        """Return the fields of a problem."""
        fields: dict[str, npt.NDArray[Any] | int | None] = {"A": self.A, "size": len(self.A)}
        if self.eliminated is None:
            return fields
        words = None if self.cells is None else self.cells.words
        fields |= {"cells": words, "words": 0 if words is None else words.shape[1]}
        sums = {"D": self.D, "B": self.B, "N": self.N, "C": self.C}
        return {**fields, **sums, **self.layout.eliminating(self.eliminated)}

    def add(self, other: HessianRoom) -> None:
        """Add the sums of other rows."""
        for name in ("A", "D", "B", "N", "C"):
            own = getattr(self, name)
            if own is not None:
                np.add(own, getattr(other, name), out=own)

    def result(self) -> Array | BorderedDiagonal:
        """Return the Hessian of the intercept and the columns."""
        A = _both_triangles(self.A[:-1, :-1])
        if self.eliminated is None:
            return A
        first, last = self.eliminated
        if self.N is None or self.C is None or self.cells is None:
            assert self.B is not None and self.D is not None
            return BorderedDiagonal(A=A, B=self.B[:-1, :-1], d=self.D[:-1], start=1 + first)
        columns = self.layout.columns
        numbers = self.N[: (last - first) * (1 + len(columns))].reshape(last - first, -1)
        d = numbers[:, 0].copy() if self.D is None else self.D[:-1]
        if self.cells.indices is None or self.cells.indptr is None:
            return BorderedDiagonal(A=A, B=numbers, d=d, start=1 + first)
        places = np.append(0, 1 + np.where(columns < first, columns, columns - (last - first)))
        B = SparseBorder(
            numbers=numbers,
            places=places,
            data=self.C[: self.cells.count],
            indices=self.cells.indices,
            indptr=self.cells.indptr,
            columns=len(A),
        )
        return BorderedDiagonal(A=A, B=B, d=d, start=1 + first)


def border_gram() -> Callable[[SparseBorder, Array], Array] | None:
    """Return the kernel of ``Bᵀ diag(q) B``, None without kernels."""
    native = kernels()
    return None if native is None else partial(_border_gram, native)


def _border_gram(native: Kernels, B: SparseBorder, q: Array) -> Array:
    numbers, data, places = map(np.ascontiguousarray, (B.numbers, B.data, B.places.astype(np.int64)))
    once = np.zeros((B.columns, B.columns))
    cells = address(data), address(B.indices), address(B.indptr), address(q)
    native(
        "border", len(numbers), numbers.shape[1], address(numbers), address(places), *cells, B.columns, address(once)
    )
    return _both_triangles(once)


def _both_triangles(once: Array) -> Array:
    """Return a symmetric matrix of which each pair is above or below the diagonal, in the same memory."""
    diagonal = once.diagonal().copy()
    add_transpose(once)
    np.einsum("ii->i", once)[:] = diagonal
    return once


def _readable(array: npt.NDArray[Any], *, steps: bool = False) -> npt.NDArray[Any]:
    """Return a column as the kernel reads it, mostly as it is; with ``steps``, its numbers may be apart."""
    array = array.view(np.uint8) if array.dtype == bool else array
    array = array if array.dtype in KINDS and array.dtype.isnative else array.astype(np.float64)
    apart = steps and array.flags.aligned and array.strides[0] % array.itemsize == 0
    return array if apart else np.ascontiguousarray(array)


def by_place(W: Array, b: Array) -> Array:
    """Return weights (C × M) and intercepts as the kernel of several classes takes them, as they are if they lie so."""
    (C, M), whole = W.shape, W.base
    if isinstance(whole, np.ndarray) and whole.shape == ((M + 2) * C + SPARE,) and W.strides == (8, 8 * C):
        if address(W) == whole[C:].ctypes.data and (whole[:C] == b).all() and not whole[(M + 1) * C :].any():
            return whole
    room = room_by_place(C, M + 1)
    room[:, 0], room[:, 1:] = b, W
    return np.asarray(room.base)


def room_by_place(C: int, P: int) -> Array:
    """Return zeros for the weights of C classes (C × P), which lie side by side."""
    whole = np.zeros((P + 1) * C + SPARE)
    return whole[: P * C].reshape(P, C).T


def reads(block: Block, center: Array) -> bool:
    """Whether the kernel sums over these rows: columns and codes, the factors not centred."""
    assert isinstance(block.Phi, SplitRows)
    known = bool(block.addresses) or all(isinstance(part, ColumnRows | CodeRows) for part in block.Phi.parts)
    return known and Layout.of(block).center(center) is not None


def check_codes(block: Block, C: int) -> None:
    """Raise where a class code of several classes is beyond the arrays that it indexes."""
    if C > 1 and block.t.max(initial=0) > C:
        raise InvalidInputError(
            f"Class codes go up to {block.t.max()}, but there are weights for {C + 1} classes only."
        )
