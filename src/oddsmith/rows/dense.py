"""Rows as one array, in C or F order, float32 or float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, Rows

FEW_COLUMNS = 40  # Number of columns up to which the plain product is faster than the symmetric one.


@STORAGES.register("dense")
@dataclass(frozen=True, slots=True, eq=False)
class DenseRows(Rows):
    """An array of n rows and M columns, never copied whole; sums over it are in float64.

    >>> DenseRows(np.array([[1.0, 2.0], [3.0, 4.0]])).gram(np.array([1.0, 0.0])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    X: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    def activations(self, W: Array) -> Array:
        return np.asarray(self.dense() @ W)

    def gradient(self, R: Array) -> Array:
        return np.asarray(self.dense().T @ R)

    def gram(self, h: Array) -> Array:
        """Return Φᵀ diag(h) Φ; the roots of weights that are not negative make a symmetric product."""
        Z = self.dense()
        if Z.shape[1] > FEW_COLUMNS and not (h < 0.0).any():
            B = Z * np.sqrt(h)[:, None]
            return np.asarray(B.T @ B)
        return np.asarray(Z.T @ (Z * h[:, None]))

    def squares(self, R: Array) -> Array:
        Z = self.dense()
        return np.asarray((Z * Z).T @ R)

    def row_norms(self, scale: Array) -> Array:
        Z = self.dense() / scale
        return np.asarray(np.einsum("nm,nm->n", Z, Z))

    def take(self, rows: Indices) -> DenseRows:
        return DenseRows(self.X[rows])

    def slice(self, start: int, stop: int) -> DenseRows:
        return self if stop - start == len(self.X) else DenseRows(self.X[start:stop])

    def centred(self, center: Array) -> DenseRows:
        """Return a centred copy in float64: call it on a slice."""
        if center.any():
            return DenseRows(self.dense() - center)
        return self if self.X.dtype == np.float64 else DenseRows(self.dense())

    def columns(self, which: Sequence[int]) -> DenseRows:
        return DenseRows(self.X[:, list(which)])

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        """Return some rows in float64, a view where they are that already."""
        return np.asarray(self.X[start:stop], dtype=np.float64)

    def concrete(self) -> DenseRows:
        return self

    @classmethod
    def example(cls, X: Array) -> DenseRows:
        return cls(np.ascontiguousarray(X))
