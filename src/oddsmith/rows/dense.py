"""Rows as one array, in C or F order, float32 or float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, cache_ranges

FEW_COLUMNS = 40
"""Up to so many columns the plain product is faster than the symmetric one."""


@STORAGES.register("dense")
@dataclass(frozen=True, slots=True, eq=False)
class DenseRows:
    """An array of n rows and M columns, never copied.

    >>> DenseRows(np.array([[1.0, 2.0], [3.0, 4.0]])).gram(np.array([1.0, 0.0])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    X: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.X.dtype

    @property
    def origin(self) -> DenseRows:
        """These rows."""
        return self

    def activations(self, W: Array) -> Array:
        """Return Φ W."""
        A: Array = self._wide() @ W
        return A

    def gradient(self, R: Array) -> Array:
        """Return Φᵀ R."""
        G: Array = self._wide().T @ R
        return G

    def gram(self, h: Array) -> Array:
        """Return Φᵀ diag(h) Φ; the roots of weights that are not negative make a symmetric product."""
        Z = self._wide()
        if Z.shape[1] > FEW_COLUMNS and not (h < 0.0).any():
            B = Z * np.sqrt(h)[:, None]
            return np.asarray(B.T @ B)
        return np.asarray(Z.T @ (Z * h[:, None]))

    def squares(self, R: Array) -> Array:
        """Return the sums of squares."""
        Z = self._wide()
        Q: Array = (Z * Z).T @ R
        return Q

    def row_norms(self, scale: Array) -> Array:
        """Return the squared length of each scaled row."""
        Z = self._wide() / scale
        q: Array = np.einsum("nm,nm->n", Z, Z)
        return q

    def take(self, rows: Indices) -> DenseRows:
        """Return a copy of some rows."""
        return DenseRows(self.X[rows])

    def slice(self, start: int, stop: int) -> DenseRows:
        """Return a view of some rows."""
        return DenseRows(self.X[start:stop])

    def slices(self, width: int = 1) -> list[tuple[int, int]]:
        """Return row ranges that fit into the cache."""
        return cache_ranges(*self.shape, width)

    def centred(self, center: Array) -> DenseRows:
        """Return a centred copy in float64: call it on a slice."""
        return DenseRows(self._wide() - center if center.any() else self._wide())

    def columns(self, which: Sequence[int]) -> DenseRows:
        """Return a copy of some columns."""
        return DenseRows(self.X[:, list(which)])

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        """Return some rows in float64, a view where they are that already."""
        return np.asarray(self.X[start:stop], dtype=np.float64)

    def concrete(self) -> DenseRows:
        """Return these rows."""
        return self

    def _wide(self) -> Array:
        return np.asarray(self.X, dtype=np.float64)

    @classmethod
    def example(cls, X: Array) -> DenseRows:
        """Return rows in C order."""
        return cls(np.ascontiguousarray(X))
