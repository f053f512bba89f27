"""Runs of rows at equal distances: a sample from across the data that is read in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, DerivedRows
from oddsmith.rows.dense import DenseRows


def run_values(values: npt.NDArray[Any], length: int, distance: int) -> npt.NDArray[Any]:
    """Return the first ``length`` of every ``distance`` entries, copied together; the last run must be whole.

    >>> run_values(np.arange(8), 2, 3).tolist()
    [0, 1, 3, 4, 6, 7]
    """
    count = _count(len(values), length, distance)
    shape = (count, length, *values.shape[1:])
    strides = (distance * values.strides[0], *values.strides)
    return as_strided(values, shape, strides, writeable=False).reshape(count * length, *values.shape[1:])


def _count(n: int, length: int, distance: int) -> int:
    return 0 if length == 0 or n < length else 1 + (n - length) // distance


@STORAGES.register("runs")
@dataclass(frozen=True, slots=True, eq=False)
class RunRows(DerivedRows):
    """The first ``length`` rows of every ``distance`` rows of an array in C order; kernels read them in place.

    >>> RunRows(np.arange(8.0)[:, None], length=2, distance=3).dense().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0, 6.0, 7.0]
    """

    X: npt.NDArray[Any]
    length: int
    distance: int

    @property
    def shape(self) -> tuple[int, int]:
        return _count(len(self.X), self.length, self.distance) * self.length, self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    def take(self, rows: Indices) -> DenseRows:
        return DenseRows(self.X[rows // self.length * self.distance + rows % self.length])

    def slice(self, start: int, stop: int) -> DenseRows:
        return self.take(np.arange(start, stop))

    def concrete(self) -> DenseRows:
        return DenseRows(run_values(self.X, self.length, self.distance))

    @classmethod
    def example(cls, X: Array) -> RunRows:
        """Return runs of one row in every three."""
        spread = np.full((max(0, 3 * len(X) - 2), X.shape[1]), np.nan)
        spread[::3] = X
        return cls(spread, 1, 3)
