"""Rows whose columns are stored in several parts: numbers, factors by code, sparse columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, Rows, cache_ranges
from oddsmith.rows.codes import CodeRows, narrowest
from oddsmith.rows.columns import ColumnRows
from oddsmith.rows.dense import DenseRows
from oddsmith.rows.sparse import SparseRows


@dataclass(frozen=True, kw_only=True)
class TableForm:
    """What rows in parts look like before one of them is read: ``factors`` are the columns of each factor (from, to).

    ``entries`` are the numbers that a row is computed from, ``row_bytes`` the memory that it takes at most;
    ``products`` are those of the factors that stand beside numbers.
    """

    M: int
    factors: tuple[tuple[int, int], ...]
    entries: float
    row_bytes: int
    products: tuple[tuple[int, int], ...] = ()

    @property
    def factor_columns(self) -> npt.NDArray[np.bool_]:
        """Which columns are those of factors."""
        inside = np.zeros(self.M, dtype=bool)
        for first, last in self.factors:
            inside[first:last] = True
        return inside


@STORAGES.register("split")
@dataclass(frozen=True, slots=True, eq=False)
class SplitRows(Rows):
    """``φ = (φ⁽¹⁾, φ⁽²⁾, …)``: the columns of the parts, one after another.

    >>> numbers = ColumnRows((np.array([0.5, 2.0]),), 2)
    >>> SplitRows((numbers, CodeRows(np.array([1, 0], dtype=np.int8), 2))).dense().tolist()
    [[0.5, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """

    parts: tuple[Rows, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def is_sparse(self) -> bool:
        return any(part.is_sparse for part in self.parts)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The columns of each part, from the first to the one after the last."""
        return list(pairwise(accumulate((part.shape[1] for part in self.parts), initial=0)))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(_row_bytes(part) for part in self.parts)

    @property
    def entries(self) -> float:
        """Numbers that a row is computed from: one for each factor, whatever its levels."""
        return float(sum(1 if isinstance(part, CodeRows) else _row_bytes(part) / 8 for part in self.parts))

    @property
    def form(self) -> TableForm:
        """Which columns are those of factors."""
        both = list(zip(self.parts, self.ranges, strict=True))
        factors = tuple(columns for part, columns in both if isinstance(part, CodeRows))
        products = tuple(columns for part, columns in both if isinstance(part, CodeRows) and part.x is not None)
        size = {"M": self.shape[1], "row_bytes": self.row_bytes}
        return TableForm(**size, factors=factors, entries=self.entries, products=products)

    def compact(self, dtype: npt.DTypeLike = np.float64) -> SplitRows:
        """Return the rows in arrays of their own: codes are columns, numbers of the narrowest type that holds them.

        Numbers that need float64 are rounded to float32 if that is the ``dtype``.

        >>> rows = SplitRows((ColumnRows((np.array([0.5, 2.0]), np.array([1, 300])), 2),)).compact()
        >>> [array.dtype.name for array in rows.parts[0].arrays]
        ['float32', 'int16']
        """
        return SplitRows(tuple(_compact(part, np.dtype(dtype)) for part in self.parts))

    def activations(self, W: Array) -> Array:
        A: Array = np.sum(
            [part.activations(W[a:b]) for part, (a, b) in zip(self.parts, self.ranges, strict=True)], axis=0
        )
        return A

    def gradient(self, R: Array) -> Array:
        return np.concatenate([part.gradient(R) for part in self.parts])

    def gram(self, h: Array) -> Array:
        G = np.empty((self.shape[1], self.shape[1]))
        for i, (left, (a, b)) in enumerate(zip(self.parts, self.ranges, strict=True)):
            G[a:b, a:b] = left.gram(h)
            for right, (c, d) in list(zip(self.parts, self.ranges, strict=True))[:i]:
                G[a:b, c:d] = cross_gram(left, right, h)
                G[c:d, a:b] = G[a:b, c:d].T
        return G

    def squares(self, R: Array) -> Array:
        return np.concatenate([part.squares(R) for part in self.parts])

    def row_norms(self, scale: Array) -> Array:
        q: Array = np.sum(
            [part.row_norms(scale[a:b]) for part, (a, b) in zip(self.parts, self.ranges, strict=True)], axis=0
        )
        return q

    def take(self, rows: Indices) -> SplitRows:
        return SplitRows(tuple(part.take(rows) for part in self.parts))

    def slice(self, start: int, stop: int) -> SplitRows:
        return SplitRows(tuple(part.slice(start, stop) for part in self.parts))

    def slices(self, width: int = 1) -> list[tuple[int, int]]:
        return cache_ranges(self.shape[0], int(self.entries), width)

    def centred(self, center: Array) -> Rows:
        parts = zip(self.parts, self.ranges, strict=True)
        return SplitRows(tuple(part.centred(center[a:b]) for part, (a, b) in parts)) if center.any() else self

    def columns(self, which: Sequence[int]) -> Rows:
        return self.concrete().columns(which)

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return np.concatenate([part.dense(start, stop) for part in self.parts], axis=1)

    def concrete(self) -> DenseRows | SparseRows:
        parts = [part.concrete().X for part in self.parts]
        if not any(sparse.issparse(part) for part in parts):
            return DenseRows(np.concatenate(parts, axis=1))
        X = sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
        X.has_canonical_format = True
        return SparseRows(X)

    @classmethod
    def example(cls, X: Array) -> SplitRows:
        M = X.shape[1]
        first, second = M // 3, 2 * (M // 3)
        parts = (
            CodeRows.example(X[:, :first]),
            ColumnRows.example(X[:, first:second]),
            CodeRows.example(X[:, second:]),
        )
        return cls(parts)


def _row_bytes(part: Rows) -> int:
    if isinstance(part, CodeRows | ColumnRows):
        return part.row_bytes
    if isinstance(part, SparseRows):
        return 1 + 12 * int(part.X.nnz) // max(1, part.shape[0])
    return part.dtype.itemsize * part.shape[1]


def cross_gram(left: Rows, right: Rows, h: Array) -> Array:
    """Return ``Σ h φ_left φ_rightᵀ``: of factors a weighted cross-tabulation."""
    if isinstance(left, CodeRows) and isinstance(right, CodeRows):
        a, b, (L, M) = left.places(), right.places(), (left.shape[1], right.shape[1])
        there = (a >= 0) & (b >= 0)
        for x in (left.x, right.x):
            h = h if x is None else h * x
        G: Array = np.bincount(a[there] * M + b[there], weights=h[there], minlength=L * M).astype(np.float64)
        return G.reshape(L, M)
    if isinstance(left, CodeRows):
        return left.gradient(right.dense() * h[:, None])
    return right.gradient(left.dense() * h[:, None]).T


def join_rows(rows: list[SplitRows]) -> SplitRows:
    """Return rows in parts, one after another; each has the same parts, compact. The list is emptied.

    >>> one, two = (SplitRows((CodeRows(np.array([k], dtype=np.int8), 2),)) for k in (1, 0))
    >>> join_rows([one, two]).dense().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    pieces: list[list[Any]] = [list(piece.parts) for piece in rows]
    rows.clear()
    parts: list[Rows] = []
    for k in range(len(pieces[0])):
        some = [piece[k] for piece in pieces]
        for piece in pieces:
            piece[k] = None  # arrays are let go as they are joined
        parts.append(_joined(some))
    return SplitRows(tuple(parts))


def _joined(some: list[Rows]) -> Rows:
    first = some[0]
    if isinstance(first, ColumnRows):
        columns = zip(*(part.filled().arrays for part in some if isinstance(part, ColumnRows)), strict=True)
        return ColumnRows(tuple(np.concatenate(arrays) for arrays in columns), sum(part.shape[0] for part in some))
    if isinstance(first, CodeRows):
        factors = [part for part in some if isinstance(part, CodeRows)]
        x: Array | None = None
        if first.x is not None:
            x = np.concatenate([part.x for part in factors if part.x is not None])
        return replace(first, codes=np.concatenate([part.codes for part in factors]), x=x, counts=None)
    stacked = sparse.csr_array(sparse.vstack([part.concrete().X for part in some], format="csr"))
    return SparseRows(stacked)


def _compact(part: Rows, dtype: np.dtype[Any]) -> Rows:
    if isinstance(part, ColumnRows):
        return ColumnRows(tuple(_narrowed(array, dtype) for array in part.filled().arrays), part.n_rows)
    if isinstance(part, CodeRows):
        M = part.shape[1]
        x = None if part.x is None else np.array(part.x)
        return CodeRows(narrowest(part.places(), M), M, x=x)
    return part


def _narrowed(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a copy in the narrowest type that holds the numbers exactly, of those that the kernels read."""
    if array.dtype == bool or not len(array):
        return np.array(array)
    if array.dtype.kind in "iu":
        least, most = int(array.min()), int(array.max())
        kinds = (np.int8, np.int16, np.int32)
        fits = (kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
        kind: Any = next(fits, array.dtype)
        return np.array(array, dtype=kind)
    with np.errstate(over="ignore"):
        short = array.astype(np.float32)
    return short if dtype == np.float32 or np.array_equal(short, array) else np.array(array)
