"""How far the rows reach: what bounds the change of a likelihood's curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.moments import TILE_ELEMENTS


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
        """Return a random centre and scale."""
        return [ExtentParams(rng.normal(size=shape.M), rng.uniform(0.5, 2.0, size=shape.M))]


def _squared_lengths(block: Block, params: ExtentParams) -> Any:
    if block.is_sparse:
        X = block.Phi
        c, d = params.center, 1.0 / params.scale**2
        data = X.data.astype(np.float64, copy=False)
        # ‖x − c‖² = ‖c‖² + Σ over non-zeros of x² − 2 x c, never negative.
        entry = (data**2 - 2.0 * data * c[X.indices]) * d[X.indices]
        row = np.repeat(np.arange(block.n_rows), np.diff(X.indptr))
        squares = np.bincount(row, weights=entry, minlength=block.n_rows) + (c**2 * d).sum()
        yield 0, np.maximum(squares, 0.0)
        return
    step = max(64, TILE_ELEMENTS // max(1, block.n_columns))
    for start in range(0, block.n_rows, step):
        Z = (block.Phi[start : start + step] - params.center) / params.scale
        yield start, np.einsum("nm,nm->n", Z, Z)
