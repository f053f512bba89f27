"""Tiles of rows that fit into the cache, sorted by class, for sums by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.cached_property import cached_property
from oddsmith.numerics import Array

Codes = npt.NDArray[np.intp]

TILE_ELEMENTS = 1 << 18
FEW_CLASSES = 64
MOST_DENSE = 16  # Classes up to which indicators are a dense matrix.


@dataclass(frozen=True)
class ClassTile:
    """Rows of positive weight, sorted by class: class ``klass[i]`` has ``count[i]`` rows from ``first[i]`` on.

    ``Z`` is float64 and may be written to; it is overwritten by the next tile.
    """

    Z: Array
    s: Array | None
    klass: Codes
    count: Codes

    @cached_property
    def first(self) -> Codes:
        """The first row of each class in ``klass``."""
        first: Codes = np.cumsum(self.count) - self.count
        return first

    def subtract(self, base: Array) -> None:
        """Subtract the row of its class (K × M) from each row, in place."""
        if len(self.klass) > FEW_CLASSES:
            self.Z[:] -= np.repeat(base[self.klass], self.count, axis=0)
            return
        for k, start, n in zip(self.klass, self.first, self.count, strict=True):
            self.Z[start : start + n] -= base[k]

    def weights(self) -> Array:
        """Return the weight of each class in ``klass``."""
        if self.s is None:
            return self.count.astype(np.float64)
        return np.asarray(np.add.reduceat(self.s, self.first))

    def sums(self, Z: Array) -> Array:
        """Return the weighted sums of ``Z``, in the same layout as the rows, for each class in ``klass``."""
        if len(self.first) > FEW_CLASSES:
            return np.asarray(np.add.reduceat(Z if self.s is None else Z * self.s[:, None], self.first, axis=0))
        s = np.ones(len(Z)) if self.s is None else self.s
        return np.array([s[a:b] @ Z[a:b] for a, b in pairwise([*self.first.tolist(), len(Z)])])


def sorted_tiles(block: Block, K: int, rank: Codes | None = None) -> Iterator[ClassTile]:
    """Yield the rows of a block, tile by tile, sorted by class (K = 1: all are one class).

    ``rank`` is the place of each class in the order, default 0 … K−1.

    >>> block = Block(np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1], dtype=np.int32))
    >>> for tile in sorted_tiles(block, 2):
    ...     tile.Z.tolist(), tile.klass.tolist(), tile.first.tolist(), tile.sums(tile.Z).tolist()
    ([[2.0], [1.0], [3.0]], [0, 1], [0, 1], [[2.0], [4.0]])
    """
    block, M = block.concrete(), block.n_columns
    step = max(64, TILE_ELEMENTS // max(1, M))
    buffer = np.empty((min(step, block.n_rows), M))
    # The smallest type: sorting is then a matter of counting.
    places = (np.arange(K) if rank is None else rank).astype(np.min_scalar_type(K - 1))
    by_place = np.argsort(places, kind="stable")
    for start in range(0, block.n_rows, step):
        part = slice(start, min(start + step, block.n_rows))
        place = places[block.t[part]] if K > 1 else np.zeros(part.stop - part.start, dtype=np.uint8)
        order = np.argsort(place, kind="stable") if K > 1 else None
        s = None
        if block.s is not None:
            s = block.s[part] if order is None else block.s[part][order]
            order = (np.arange(len(s)) if order is None else order)[s > 0]
            place, s = place[order], s[s > 0]
        Z = _copy(block.X[part].toarray() if block.is_sparse else block.X[part], order, buffer)
        if not len(Z):
            continue
        count = np.bincount(place, minlength=K)
        present = np.flatnonzero(count)
        yield ClassTile(Z, s, by_place[present], count[present])


def _copy(rows: npt.NDArray[Any], order: Codes | None, buffer: Array) -> Array:
    """Return the rows in the given order as float64, in the buffer."""
    Z = buffer[: len(rows) if order is None else len(order)]
    if order is None:
        np.copyto(Z, rows)
    elif rows.dtype == Z.dtype and rows.flags.c_contiguous:
        # Every index is inside: "clip" only spares a second buffer.
        np.take(rows, order, axis=0, out=Z, mode="clip")
    else:
        np.copyto(Z, rows[order])
    return Z


def sums_by_class(Z: Any, t: npt.NDArray[np.int32], s: Array | None, K: int) -> Array:
    """Return ``Σ_n s_n z_n 1[t_n = k]`` (M × K) of an array or a CSR matrix.

    >>> sums_by_class(np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1], dtype=np.int32), None, 2).tolist()
    [[2.0, 4.0]]
    """
    if K > MOST_DENSE:
        weights = np.ones(len(t)) if s is None else s
        sums = Z.T @ sparse.csr_array((weights, t, np.arange(len(t) + 1)), shape=(len(t), K))
        return np.asarray(sums.toarray() if sparse.issparse(sums) else sums)
    T = np.empty((K, len(t)))
    for k in range(K):
        np.equal(t, k, out=T[k], casting="unsafe")
    if s is not None:
        T *= s
    return np.asarray(Z.T @ T.T)
