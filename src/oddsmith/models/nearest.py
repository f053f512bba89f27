"""The rows that tell whether classes are separated: all of those in memory, else a sample and the hardest ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.engines import MemorySource
from oddsmith.models.likelihood import Fit, Problem
from oddsmith.numerics import Array
from oddsmith.statistic import Shape

NEAREST = 5000


@dataclass(frozen=True)
class NearestParams:
    """Weights against class 0, and how many rows are kept."""

    coef: Array
    intercept: Array
    mix: Array | None = None
    size: int = NEAREST


@dataclass(frozen=True)
class Nearest:
    """The rows with the smallest margin: by how much the activation of their class exceeds the largest other one.

    Those that given weights get wrong come first. A statistic: of any rows it keeps the ``size`` smallest margins.

    >>> block = Block(np.array([[1.0], [-3.0], [2.0]]), np.array([1, 1, 0], dtype=np.int32))
    >>> found = Nearest.of(block, NearestParams(np.eye(1), np.zeros(1), size=2))
    >>> found.margin.tolist(), found.rows.tolist(), found.t.tolist()
    ([-3.0, -2.0], [[-3.0], [2.0]], [1, 0])
    """

    margin: Array
    rows: Any
    t: npt.NDArray[np.int32]
    size: int

    @classmethod
    def zero(cls, shape: Shape, params: NearestParams) -> Nearest:
        """Return those of no rows."""
        return cls(np.empty(0), np.empty((0, shape.M)), np.empty(0, dtype=np.int32), params.size)

    @classmethod
    def of(cls, block: Block, params: NearestParams) -> Nearest:
        """Return those of a block, rows of weight 0 left out."""
        W = params.coef if params.mix is None else params.coef @ params.mix.T
        A = np.column_stack([np.zeros(block.n_rows), block.Phi @ W.T + params.intercept])
        own = A[np.arange(len(A)), block.t].copy()
        A[np.arange(len(A)), block.t] = -np.inf
        margin = own - A.max(axis=1)
        inside = np.arange(len(A)) if block.s is None else np.flatnonzero(block.s > 0)
        chosen = inside[np.argsort(margin[inside], kind="stable")[: params.size]]
        rows = block.Phi[chosen]
        return cls(margin[chosen], rows.toarray() if block.is_sparse else rows, block.t[chosen], params.size)

    def merge(self, other: Nearest) -> Nearest:
        """Return those of both."""
        margin = np.concatenate([self.margin, other.margin])
        chosen = np.argsort(margin, kind="stable")[: self.size]
        rows, t = np.concatenate([self.rows, other.rows]), np.concatenate([self.t, other.t])
        return Nearest(margin[chosen], rows[chosen], t[chosen], self.size)


def telling_rows(problem: Problem, fit: Fit) -> tuple[Any, npt.NDArray[np.int32]]:
    """Return rows and class codes that are separated if and (nearly always) only if all rows are.

    In memory these are all rows. Of data in pieces it is the sample, if there is one, with those rows that the
    weights which a fit has reached get most wrong (one pass). If these overlap, all rows do.
    """
    source = problem.source
    if isinstance(source, MemorySource):
        inside = slice(None) if source.s is None else source.s > 0
        return source.block(0, source.n_rows).Phi[inside], source.t[inside]
    params = NearestParams(fit.coef, fit.intercept, problem.mix)
    near: Nearest = problem.engine.fold(Nearest, source, params)  # type: ignore[type-var]
    if source.drawn is None:
        return near.rows, near.t
    sample = source.sample(source.drawn.n_rows, seed=0)
    drawn = sample.block(0, sample.n_rows)
    rows = drawn.Phi.toarray() if sparse.issparse(drawn.Phi) else drawn.Phi
    return np.concatenate([rows, near.rows]), np.concatenate([drawn.t, near.t])
