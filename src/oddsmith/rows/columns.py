"""Rows as one array for each column, each of its own type: a table of numbers, read where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, DerivedRows, Rows
from oddsmith.rows.dense import DenseRows
from oddsmith.rows.sparse import CentredRows


@STORAGES.register("columns")
@dataclass(frozen=True, slots=True, eq=False)
class ColumnRows(DerivedRows):
    """``φ_nj = columns[j][n]``: numbers of any real type, booleans among them.

    ``fills`` stand for NaN in each column, and NaN there for nothing; they are empty if no column has any.

    >>> ColumnRows((np.array([1, 2]), np.array([0.5, np.nan])), 2, (np.nan, 0.25)).dense().tolist()
    [[1.0, 0.5], [2.0, 0.25]]
    """

    arrays: tuple[npt.NDArray[Any], ...]
    n_rows: int
    fills: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.arrays)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(array.itemsize for array in self.arrays)

    def take(self, rows: Indices) -> ColumnRows:
        return ColumnRows(tuple(array[rows] for array in self.arrays), len(rows), self.fills)

    def slice(self, start: int, stop: int) -> ColumnRows:
        return ColumnRows(tuple(array[start:stop] for array in self.arrays), stop - start, self.fills)

    def filled(self) -> ColumnRows:
        """Return the rows with numbers in place of NaN, copied where there is one."""
        both = zip(self.arrays, self.fills, strict=True) if self.fills else ()
        arrays = (a if isnan(fill) else np.where(np.isnan(a), np.float64(fill), a) for a, fill in both)
        return ColumnRows(tuple(arrays), self.n_rows) if self.fills else self

    def centred(self, center: Array) -> Rows:
        return CentredRows(self, center) if center.any() else self

    def columns(self, which: Sequence[int]) -> ColumnRows:
        fills = tuple(self.fills[j] for j in which) if self.fills else ()
        return ColumnRows(tuple(self.arrays[j] for j in which), self.n_rows, fills)

    def concrete(self) -> DenseRows:
        X = np.empty(self.shape)
        for j, array in enumerate(self.filled().arrays):
            X[:, j] = array
        return DenseRows(X)

    @classmethod
    def example(cls, X: Array) -> ColumnRows:
        return cls(tuple(np.ascontiguousarray(column) for column in X.T), len(X))
