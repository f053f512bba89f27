"""How far the rows reach: what bounds the change of a likelihood's curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.moments import TILE_ELEMENTS

FAR = 1e4
"""Columns whose squared centre is this many times their variance are far from zero (and hardly ever sparse)."""


@dataclass(frozen=True)
class ExtentParams:
    """Centre and scale of the columns."""

    center: Array
    scale: Array


@STATISTICS.register("extent")
@dataclass(frozen=True)
class Extent:
    """``longest = max_n ‖(φ_n − center) / scale‖²`` over the rows of positive weight.

    A maximum merges as exactly as a sum does.

    >>> block = Block(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2, dtype=np.int32))
    >>> Extent.of(block, ExtentParams(np.zeros(2), np.ones(2))).longest
    25.0
    """

    longest: float

    @classmethod
    def zero(cls, shape: Shape, params: ExtentParams) -> Extent:
        """Return the extent of no rows."""
        return cls(0.0)

    @classmethod
    def of(cls, block: Block, params: ExtentParams) -> Extent:
        """Return the extent of a block."""
        longest = 0.0
        for start, squares in _squared_lengths(block, params):
            if block.s is not None:
                squares = squares[block.s[start : start + len(squares)] > 0]
            longest = max(longest, float(squares.max(initial=0.0)))
        return cls(longest)

    def merge(self, other: Extent) -> Extent:
        """Return the larger."""
        return Extent(max(self.longest, other.longest))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return a random centre and scale, and a centre far from zero."""
        scale = rng.uniform(0.5, 2.0, size=shape.M)
        return [ExtentParams(rng.normal(size=shape.M), scale), ExtentParams(np.full(shape.M, 1e8), scale)]


def _squared_lengths(block: Block, params: ExtentParams) -> Any:
    if block.is_sparse:
        yield 0, _sparse_squares(block, params)
        return
    step = max(64, TILE_ELEMENTS // max(1, block.n_columns))
    for start in range(0, block.n_rows, step):
        Z = (block.Phi[start : start + step] - params.center) / params.scale
        yield start, np.einsum("nm,nm->n", Z, Z)


def _sparse_squares(block: Block, params: ExtentParams) -> Array:
    """Return the squared lengths of CSR rows: the entries that are there, and those that are not (zeros)."""
    X, n, c, d = block.Phi, block.n_rows, params.center, 1.0 / params.scale**2
    row = np.repeat(np.arange(n), np.diff(X.indptr))
    data = X.data.astype(np.float64, copy=False)
    squares = (data - c[X.indices]) ** 2 * d[X.indices]
    near: Array = np.asarray(np.bincount(row, weights=squares, minlength=n), dtype=np.float64)
    # A zero is c²d away from the centre. The sum over the absent entries is that over all columns less that over
    # the present ones; columns far from zero are counted one by one, or their large terms would cancel.
    zero = c**2 * d
    far = zero > FAR
    zero_near = np.where(far, 0.0, zero)
    present = np.bincount(row, weights=zero_near[X.indices], minlength=n)
    near = near + np.maximum(zero_near.sum() - present, 0.0)
    for j in np.flatnonzero(far):
        near = near + zero[j] * (1.0 - np.bincount(row[X.indices == j], minlength=n))
    return near
