"""The classes of the rows in which a column is nonzero, such as the classes of each level of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.rows import CodeRows, Rows, SplitRows
from oddsmith.statistic import STATISTICS, Additive, Shape


@STATISTICS.register("column classes")
@dataclass(frozen=True)
class ColumnClasses(Additive):
    """``weight_jk = Σ_n s_n 1[φ_nj ≠ 0] 1[t_n = k]`` (M × K), ``total_k = Σ_n s_n 1[t_n = k]``.

    >>> rows = SplitRows((CodeRows(np.array([0, 1, 1], dtype=np.int8), 2),))
    >>> ColumnClasses.of(Block(rows, np.array([0, 0, 1], dtype=np.int32)), Shape(2, 2)).weight.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    weight: Array
    total: Array

    @classmethod
    def zero(cls, shape: Shape, params: Shape) -> ColumnClasses:
        return cls(np.zeros((shape.M, shape.K)), np.zeros(shape.K))

    @classmethod
    def of(cls, block: Block, params: Shape) -> ColumnClasses:
        """Return the sums of a block; ``params`` is the shape, for its number of classes."""
        R = np.zeros((block.n_rows, params.K))
        R[np.arange(block.n_rows), block.t] = block.weights()
        return cls(_nonzero_sums(block.Phi, R), R.sum(axis=0))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [shape]


def _nonzero_sums(rows: Rows, R: Array) -> Array:
    """Return ``Σ_n 1[φ_nj ≠ 0] R_nk``."""
    if isinstance(rows, SplitRows):
        return np.concatenate([_nonzero_sums(part, R) for part in rows.parts])
    if isinstance(rows, CodeRows) and rows.x is None:
        return rows.gradient(R)
    return np.asarray((rows.concrete().X != 0).astype(np.float64).T @ R)
