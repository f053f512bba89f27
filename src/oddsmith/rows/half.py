"""Rows in half precision: what a search reads that is corrected by exact gradients afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, DerivedRows
from oddsmith.rows.dense import DenseRows


@STORAGES.register("half")
@dataclass(frozen=True, slots=True, eq=False)
class HalfRows(DerivedRows):
    """An array of float16; sums over it are in float64.

    >>> HalfRows(np.array([[0.1]], dtype=np.float16)).dense().round(4).tolist()
    [[0.1]]
    """

    X: npt.NDArray[np.float16]

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    def take(self, rows: Indices) -> HalfRows:
        return HalfRows(self.X[rows])

    def slice(self, start: int, stop: int) -> HalfRows:
        return HalfRows(self.X[start:stop])

    def concrete(self) -> DenseRows:
        """Return a copy in float32, which holds each number exactly."""
        return DenseRows(self.X.astype(np.float32))

    @classmethod
    def example(cls, X: Array) -> HalfRows:
        """Return the numbers rounded to half precision, those that it does not hold as zero."""
        return cls(np.where(np.abs(X) < 6e4, X, 0.0).astype(np.float16))
