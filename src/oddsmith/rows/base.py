"""The contract of storages: how Φ (n rows of M columns) is stored, and the operations that sums over rows need.

A storage is a frozen record. Its laws, which `oddsmith.testing.check_rows` tests for every registered storage:

1. each method gives the result of the equivalent dense matrix;
2. a slice of the rows is a storage with the same methods;
3. no method writes to the data or keeps state between calls.

The type of the storage selects the kernels. A new storage is one file in this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.registry import Registry

if TYPE_CHECKING:
    from oddsmith.rows.dense import DenseRows
    from oddsmith.rows.sparse import SparseRows

TILE_ELEMENTS = 1 << 17  # Numbers of a tile that stays in the second-level cache.
FEWEST_TILE_ROWS = 256
PRODUCTS = 1 << 21  # Numbers that may be computed for the rows of a tile on the way to a Hessian of several classes.


class Rows(ABC):
    """A storage of Φ, n × M."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The stored number type."""

    @property
    def is_sparse(self) -> bool:
        """Whether `concrete` is a CSR matrix."""
        return False

    @property
    def origin(self) -> Rows:
        """The rows from which a basis computed these, or these themselves; identifies a row in a sample."""
        return self

    @abstractmethod
    def activations(self, W: Array) -> Array:
        """Return ``A_nc = Σ_j φ_nj W_jc`` (n × C)."""

    @abstractmethod
    def gradient(self, R: Array) -> Array:
        """Return ``G_jc = Σ_n φ_nj R_nc`` (M × C)."""

    @abstractmethod
    def gram(self, h: Array) -> Array:
        """Return ``G_jk = Σ_n h_n φ_nj φ_nk`` (M × M)."""

    @abstractmethod
    def squares(self, R: Array) -> Array:
        """Return ``Q_jc = Σ_n φ_nj² R_nc`` (M × C): the diagonal of `gram` for each column of ``R``."""

    @abstractmethod
    def row_norms(self, scale: Array) -> Array:
        """Return ``q_n = Σ_j (φ_nj / scale_j)²``."""

    @abstractmethod
    def take(self, rows: Indices) -> Rows:
        """Return a copy of the given rows."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows from ``start`` to ``stop``, without copying the numbers."""

    def slices(self, width: int = 1) -> list[tuple[int, int]]:
        """Return row ranges that fit into the cache, with ``width`` further numbers computed for each row."""
        return cache_ranges(*self.shape, width)

    @abstractmethod
    def centred(self, center: Array) -> Rows:
        """Return the rows ``φ − center``, without changing the data."""

    @abstractmethod
    def columns(self, which: Sequence[int]) -> Rows:
        """Return some of the columns."""

    @abstractmethod
    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        """Return the rows from ``start`` to ``stop`` as an array of float64."""

    @abstractmethod
    def concrete(self) -> DenseRows | SparseRows:
        """Return the rows as one array or one CSR matrix, computed, converted or copied if necessary."""

    @classmethod
    @abstractmethod
    def example(cls, X: Array) -> Rows:
        """Return a storage of (nearly) these numbers, for tests of its laws."""


STORAGES: Registry[type[Any]] = Registry("storage of rows")


class DerivedRows(Rows):
    """A storage whose rows are computed, converted or gathered anew by every method."""

    __slots__ = ()

    def activations(self, W: Array) -> Array:
        return self.concrete().activations(W)

    def gradient(self, R: Array) -> Array:
        return self.concrete().gradient(R)

    def gram(self, h: Array) -> Array:
        return self.concrete().gram(h)

    def squares(self, R: Array) -> Array:
        return self.concrete().squares(R)

    def row_norms(self, scale: Array) -> Array:
        return self.concrete().row_norms(scale)

    def centred(self, center: Array) -> Rows:
        return self.concrete().centred(center)

    def columns(self, which: Sequence[int]) -> Rows:
        return self.concrete().columns(which)

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return self.slice(start, self.shape[0] if stop is None else stop).concrete().dense()


def cache_ranges(n: int, M: int, width: int = 1) -> list[tuple[int, int]]:
    """Return ranges of n rows of M numbers that fit into the cache, with ``width`` further numbers per row.

    >>> cache_ranges(600, 1 << 10)
    [(0, 256), (256, 512), (512, 600)]
    """
    step = max(FEWEST_TILE_ROWS, min(TILE_ELEMENTS // max(1, M), PRODUCTS // max(1, width)))
    return [(i, min(i + step, n)) for i in range(0, n, step)]
