"""All rows of a source, for what cannot do with less: a kernel at every row, a transformer of another library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.design.inputs import Rows
from oddsmith.statistic import Shape


@dataclass(frozen=True)
class AllRows:
    """The rows themselves, in their order. Not among the registered statistics, since the order of its parts matters.

    >>> block = Block(np.array([[1.0], [2.0]]), np.zeros(2, dtype=np.int32), s=np.array([0.0, 1.0]))
    >>> AllRows.of(block, None).joined(1).tolist()
    [[2.0]]
    """

    parts: tuple[Rows, ...]

    @classmethod
    def zero(cls, shape: Shape, params: None) -> AllRows:
        """Return no rows."""
        return cls(())

    @classmethod
    def of(cls, block: Block, params: None) -> AllRows:
        """Return the rows of positive weight."""
        return cls((block.X if block.s is None else block.X[block.s > 0],))

    def merge(self, other: AllRows) -> AllRows:
        """Return these rows, then the others."""
        return AllRows(self.parts + other.parts)

    def joined(self, M: int) -> Rows:
        """Return one array of float64, or one CSR matrix."""
        if self.parts and all(sparse.issparse(part) for part in self.parts):
            return sparse.vstack(self.parts, format="csr", dtype=np.float64)
        return np.concatenate([np.empty((0, M)), *self.parts], dtype=np.float64)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[None]:
        """Return nothing, since there are no parameters."""
        return [None]
