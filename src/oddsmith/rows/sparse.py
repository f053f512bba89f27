"""Rows as a CSR matrix: sums take time in proportion to the non-zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, Rows
from oddsmith.rows.dense import DenseRows

ARRAYS = ("data", "indices", "indptr")  # Of a CSR matrix.


class LateRows(sparse.csr_array):
    """The rows of ``columns``, a canonical CSC matrix, arranged when they are first read: many fits read columns alone.

    What is computed from them is an ordinary CSR array.

    >>> rows = LateRows.of(sparse.csc_array(np.array([[1.0, 0.0], [2.0, 3.0]])))
    >>> rows.shape, rows.nnz, "data" in vars(rows), rows.indptr.tolist(), "data" in vars(rows)
    ((2, 2), 3, False, [0, 1, 3], True)
    """

    columns: Any = None

    @classmethod
    def of(cls, columns: sparse.csc_array) -> LateRows:
        """Return the rows of a matrix without reading it."""
        rows = cls(columns.shape, dtype=columns.dtype)
        for name in ARRAYS:
            delattr(rows, name)
        rows.columns = columns
        return rows

    def __getattr__(self, name: str) -> Any:
        if name not in ARRAYS or self.columns is None:
            raise AttributeError(name)
        rows = self.columns.tocsr()
        for each in ARRAYS:
            setattr(self, each, getattr(rows, each))
        return vars(self)[name]

    def __reduce__(self) -> Any:
        return sparse.csr_array, ((self.data, self.indices, self.indptr), self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        dtype: np.dtype[Any] = (self.data if self.columns is None else self.columns).dtype
        return dtype

    def _getnnz(self, axis: int | None = None) -> Any:
        late = axis is None and self.columns is not None
        return self.columns.nnz if late else super()._getnnz(axis)


@STORAGES.register("sparse")
@dataclass(frozen=True, slots=True, eq=False)
class SparseRows(Rows):
    """A CSR matrix of n rows and M columns.

    >>> SparseRows(sparse.csr_array(np.eye(2))).gradient(np.array([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """

    X: sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    def activations(self, W: Array) -> Array:
        return np.asarray(self.X @ W, dtype=np.float64)

    def gradient(self, R: Array) -> Array:
        return np.asarray(self.X.T @ R, dtype=np.float64)

    def gram(self, h: Array) -> Array:
        return np.asarray((self.X.T @ self.X.multiply(h[:, None]).tocsr()).toarray(), dtype=np.float64)

    def squares(self, R: Array) -> Array:
        return np.asarray(self._squared().T @ R)

    def row_norms(self, scale: Array) -> Array:
        return np.asarray(self._squared() @ scale**-2.0)

    def _squared(self) -> sparse.csr_array:
        """Return the squares of the numbers; a CSR matrix may hold several entries for one, which are summed first."""
        X = self.X
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return sparse.csr_array((np.square(X.data, dtype=np.float64), X.indices, X.indptr), shape=X.shape)

    def take(self, rows: Indices) -> SparseRows:
        return SparseRows(self.X[rows])

    def slice(self, start: int, stop: int) -> SparseRows:
        """Return some rows, as views of the non-zeros."""
        if start == 0 and stop == self.X.shape[0]:
            return self
        first, last = self.X.indptr[start], self.X.indptr[stop]
        # Assigned one by one: the constructor copies whatever is a small part of a larger array.
        part = sparse.csr_array((stop - start, self.X.shape[1]), dtype=self.X.dtype)
        part.data, part.indices = self.X.data[first:last], self.X.indices[first:last]
        part.indptr = self.X.indptr[start : stop + 1] - first
        part.has_canonical_format = self.X.has_canonical_format
        return SparseRows(part)

    def slices(self, width: int = 1) -> list[tuple[int, int]]:
        return [(0, self.shape[0])] if self.shape[0] else []

    def centred(self, center: Array) -> Rows:
        """Return the rows less their centre, in the algebra: zeros stay zeros."""
        return CentredRows(self, center) if center.any() else self

    def columns(self, which: Sequence[int]) -> SparseRows:
        return SparseRows(self.X[:, list(which)])

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return np.asarray(self.X[start:stop].toarray(), dtype=np.float64)

    def concrete(self) -> SparseRows:
        return self

    @classmethod
    def example(cls, X: Array) -> SparseRows:
        return cls(sparse.csr_array(X))


@STORAGES.register("centred")
@dataclass(frozen=True, slots=True, eq=False)
class CentredRows(Rows):
    """The rows ``φ − c`` of any storage, centred in the algebra: ``(Φ − 1cᵀ) W = Φ W − cᵀW`` and so on.

    >>> CentredRows(SparseRows(sparse.csr_array(np.eye(2))), np.array([0.5, 0.0])).dense().tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """

    rows: Rows
    center: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def activations(self, W: Array) -> Array:
        return np.asarray(self.rows.activations(W) - self.center @ W)

    def gradient(self, R: Array) -> Array:
        return np.asarray(self.rows.gradient(R) - np.multiply.outer(self.center, R.sum(axis=0)))

    def gram(self, h: Array) -> Array:
        first, c = self.rows.gradient(h), self.center
        return np.asarray(self.rows.gram(h) - (np.outer(c, first) + np.outer(first, c) - h.sum() * np.outer(c, c)))

    def squares(self, R: Array) -> Array:
        """Return ``Σ r (φ − c)²``, as ``Σ r φ² − 2 c Σ r (φ − c) − c² Σ r``."""
        c = self.center[:, None]
        Q: Array = self.rows.squares(R) - 2.0 * c * self.gradient(R) - c**2 * R.sum(axis=0)
        return np.where((R >= 0.0).all(axis=0), np.maximum(Q, 0.0), Q)

    def row_norms(self, scale: Array) -> Array:
        inverse = scale**-2.0
        cross = self.rows.activations((inverse * self.center)[:, None])[:, 0]
        q: Array = self.rows.row_norms(scale) - 2.0 * cross + (inverse * self.center**2).sum()
        return np.maximum(q, 0.0)

    def take(self, rows: Indices) -> CentredRows:
        return CentredRows(self.rows.take(rows), self.center)

    def slice(self, start: int, stop: int) -> CentredRows:
        return CentredRows(self.rows.slice(start, stop), self.center)

    def slices(self, width: int = 1) -> list[tuple[int, int]]:
        return self.rows.slices(width)

    def centred(self, center: Array) -> CentredRows:
        return CentredRows(self.rows, self.center + center)

    def columns(self, which: Sequence[int]) -> CentredRows:
        return CentredRows(self.rows.columns(which), self.center[list(which)])

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return self.rows.dense(start, stop) - self.center

    def concrete(self) -> DenseRows:
        """Return the centred rows as an array: they have no zeros left."""
        return DenseRows(self.dense())

    @classmethod
    def example(cls, X: Array) -> CentredRows:
        """Return rows about a centre, which is added to them first."""
        center: Array = np.arange(X.shape[1], dtype=np.float64) % 3.0
        return cls(SparseRows(sparse.csr_array(X + center)), center)
