"""The number of rows, and the weight of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Additive, Shape

CHUNK_ROWS = 1 << 15  # Rows with weights that are counted at a time, to save memory.


@STATISTICS.register("counts")
@dataclass(frozen=True)
class Counts(Additive):
    """``rows = Σ_n 1[s_n > 0]``, ``weight_k = Σ_n s_n 1[t_n = k]``.

    >>> block = Block(np.zeros((3, 1)), np.array([0, 1, 1], dtype=np.int32), s=np.array([1.0, 2.0, 0.0]))
    >>> Counts.of(block, Shape(1, 2))
    Counts(rows=2, weight=array([1., 2.]))
    """

    rows: int
    weight: Array

    @classmethod
    def zero(cls, shape: Shape, params: Shape) -> Counts:
        return cls(0, np.zeros(shape.K))

    @classmethod
    def of(cls, block: Block, params: Shape) -> Counts:
        """Return the counts of a block; ``params`` is the shape, for its number of classes."""
        if block.s is None and params.K == 2:
            ones = float(np.count_nonzero(block.t))
            return cls(block.n_rows, np.array([block.n_rows - ones, ones]))
        if block.s is None:
            return cls(block.n_rows, np.bincount(block.t, minlength=params.K).astype(np.float64))
        weight = np.zeros(params.K)
        for start in range(0, block.n_rows, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            weight += np.bincount(block.t[rows], weights=block.s[rows], minlength=params.K)
        return cls(int(np.count_nonzero(block.s)), weight)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [shape]
