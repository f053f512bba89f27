"""Rows whose columns are stored in several parts: numbers, factors by code, sparse columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, Rows, cache_ranges
from oddsmith.rows.codes import CodeRows
from oddsmith.rows.columns import ColumnRows
from oddsmith.rows.dense import DenseRows
from oddsmith.rows.sparse import SparseRows


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
        edges = np.cumsum([0, *(part.shape[1] for part in self.parts)]).tolist()
        return list(pairwise(edges))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(_row_bytes(part) for part in self.parts)

    @property
    def entries(self) -> float:
        """Numbers that a row is computed from: one for each factor, whatever its levels."""
        return float(sum(1 if isinstance(part, CodeRows) else _row_bytes(part) / 8 for part in self.parts))

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
