"""The sums of an objective over a table with factors: Hessians whose largest factor is eliminated, and samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal
from oddsmith.engines import AnySource, MemorySource
from oddsmith.engines.memory import RunSource, available_cores, in_slices, parallel_map
from oddsmith.kernels.curvature import can_cross, cross_block, cross_room
from oddsmith.kernels.reference import RowBuffers
from oddsmith.kernels.texts import count_codes
from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.priors import Quadratic
from oddsmith.rows import CodeRows, ColumnRows, SplitRows
from oddsmith.solvers import policy
from oddsmith.statistics import Curvature, CurvatureParams

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


def between_bytes(objective: FoldObjective) -> float:
    """Return the bytes of the block between the factor eliminated and all else."""
    first, last = objective.eliminated or (0, 0)
    return 8.0 * (last - first) * (objective.size - (last - first))


def crosses(objective: FoldObjective) -> bool:
    """Whether that block is summed apart: in two slices it would take much memory."""
    source = objective.source
    if not isinstance(source, MemorySource) or source.form is None:
        return False
    large = 2.0 * between_bytes(objective) > policy.POLICY.table_room * source.n_rows * source.form.row_bytes
    return large and can_cross(source.block(*source.slices()[0]), objective._at(np.zeros(objective.size), 2))


def in_few_slices(source: AnySource | RunSource, sums: float) -> AnySource | RunSource:
    """Return the rows of a table in few slices, since the sums of each (so many bytes) take time to make and merge."""
    settings = policy.POLICY
    if not isinstance(source, MemorySource) or source.form is None:
        return source
    few = max(settings.small_slices, source.n_rows // settings.table_slice_rows)
    if sums:
        room = settings.table_room * source.n_rows * source.form.row_bytes
        few = settings.small_slices if settings.small_slices * sums <= room else 2
    return in_slices(source, few) if len(source.slices()) > few else source


def sums_apart(objective: FoldObjective, at: CurvatureParams) -> Curvature:
    """Return the sums with a Hessian in which a factor is eliminated, in the memory of one such Hessian.

    Each thread sums levels of its own between the factor and the others: the block exists once, not for every slice of
    the rows.
    """
    source, h = objective.memory_source, np.empty(objective.n_rows)
    buffers = replace(objective.buffers or RowBuffers(), curvature=h)
    sums = objective.fold(Curvature, replace(at, apart=True, buffers=buffers))
    H = sums.hessian
    assert isinstance(H, BorderedDiagonal)
    L, threads = len(H.d), objective.threads or available_cores()
    rows = source.block(0, source.n_rows)
    B = cross_room(rows, at, H.B)

    def add(levels: tuple[int, int]) -> None:
        cross_block(rows, h, at, levels, B[slice(*levels)])

    edges = [L * i // threads for i in range(threads + 1)]
    deque(parallel_map(add, list(pairwise(edges)), threads), maxlen=0)
    return replace(sums, hessian=replace(H, B=B[:, :-1]))


def table_sample(objective: FoldObjective, rows: int, seed: int) -> tuple[FoldObjective, npt.NDArray[np.bool_]]:
    """Return the objective over about ``rows`` rows without the columns eliminated, and which weights it has.

    Its prior is scaled up like its rows: levels of which it has few rows stay near the mean of the prior. Without a
    prior, one of unit scale keeps them from diverging.
    """
    source, (C, P) = objective.memory_source, objective.shape
    first, last = objective.eliminated or (0, 0)
    kept = np.ones(P, dtype=bool)
    kept[1 + first : 1 + last] = False
    assert isinstance(source.X, SplitRows)
    parts = zip(source.X.parts, source.X.ranges, strict=True)
    others = tuple(part for part, columns in parts if columns != objective.eliminated)
    part = replace(source, X=SplitRows(others or (ColumnRows((), source.n_rows),))).sample(rows, seed)
    part = in_slices(part, 1 if part.size <= policy.POLICY.table_slice_rows else 2)
    fraction = (float(part.n_rows) if part.s is None else float(part.s.sum())) / objective.weight
    penalty = objective.penalty or Quadratic(np.zeros((C, P)), np.append(0.0, np.ones(P - 1)))
    Q = penalty.Q[kept] if penalty.Q.ndim == 1 else penalty.Q
    sample = replace(
        objective.over(part, fraction),
        center=objective.center[kept[1:]],
        scale=objective.scale[kept[1:]],
        free=objective.free[:, kept],
        penalty=Quadratic(penalty.mean[:, kept], Q / fraction),
        eliminated=None,
    )
    return sample, kept


@dataclass(frozen=True, eq=False)
class SampleFactor:
    """About the Hessian of all weights: that of a sample, and the diagonal ``d`` of the levels from ``start`` on.

    Levels eliminated have nothing in common with the rest: they move as if all else stayed.
    """

    factor: SpdFactor
    d: Array
    start: int

    @classmethod
    def of(cls, objective: FoldObjective, H: Array) -> SampleFactor:
        """Return the factor, from the Hessian of a sample without the factor eliminated.

        Levels have their rows of all times the mean curvature on the diagonal: a sample has few of some, and its prior
        is scaled up.
        """
        source, (first, last) = objective.memory_source, objective.eliminated or (0, 0)
        prior = np.zeros(objective.size) if objective.penalty is None else objective.penalty.diagonal(1)[0]
        diagonal = np.full(objective.size, np.nan)
        assert isinstance(source.X, SplitRows)
        parts = zip(source.X.parts, source.X.ranges, strict=True)
        factors = [(part, columns) for part, columns in parts if isinstance(part, CodeRows)]
        threads = objective.threads or available_cores()
        squares = parallel_map(lambda one: _level_squares(one[0], source.s), factors, threads)
        for (_, (a, b)), sums in zip(factors, squares, strict=True):
            mean = H[0, 0] / objective.weight / objective.scale[a:b] ** 2
            diagonal[1 + a : 1 + b] = sums * mean + prior[1 + a : 1 + b]
        kept = np.delete(diagonal, slice(1 + first, 1 + last))
        ratio = np.sqrt(np.where(np.isnan(kept), 1.0, kept / H.diagonal()))
        d = diagonal[1 + first : 1 + last]
        return cls(factor_spd(H * np.outer(ratio, ratio), tol=0.0), np.where(d > 0.0, d, np.inf), 1 + first)

    def solve(self, b: Array) -> Array:
        """Return the step for a gradient."""
        end = self.start + len(self.d)
        x = self.factor.solve(np.delete(b, slice(self.start, end)))
        return np.insert(x, self.start, b[self.start : end] / self.d)

    def norm(self, b: Array) -> float:
        """Return the decrement of a gradient."""
        return float(np.sqrt(max(float(b @ self.solve(b)), 0.0)))


def _level_squares(factor: CodeRows, s: Array | None) -> Array:
    """Return the sum of the weights of the rows of each column, times their squares."""
    if factor.x is None and s is None:
        return factor.by_column(count_codes(factor.codes, factor.levels).astype(np.float64))
    return factor.squares((np.ones(len(factor.codes)) if s is None else s)[:, None])[:, 0]
