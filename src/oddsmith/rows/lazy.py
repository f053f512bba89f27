"""Rows that a basis computes when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, DerivedRows, Rows
from oddsmith.rows.dense import DenseRows
from oddsmith.rows.sparse import SparseRows


@STORAGES.register("lazy")
@dataclass(frozen=True, slots=True, eq=False)
class LazyRows(DerivedRows):
    """``φ = transform(x)`` for the rows x of another storage; M columns come out.

    >>> LazyRows(DenseRows(np.array([[1.0], [2.0]])), np.square, 1).dense().tolist()
    [[1.0], [4.0]]
    """

    base: Rows
    transform: Callable[[Any], Any]
    M: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape[0], self.M

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the rows before the transform."""
        return self.base.dtype

    @property
    def origin(self) -> Rows:
        return self.base.origin

    def take(self, rows: Indices) -> LazyRows:
        return LazyRows(self.base.take(rows), self.transform, self.M)

    def slice(self, start: int, stop: int) -> LazyRows:
        return LazyRows(self.base.slice(start, stop), self.transform, self.M)

    def concrete(self) -> DenseRows | SparseRows:
        X = self.transform(self.base.concrete().X)
        return SparseRows(X) if sparse.issparse(X) else DenseRows(np.asarray(X))

    @classmethod
    def example(cls, X: Array) -> LazyRows:
        return cls(DenseRows(X), np.array, X.shape[1])
