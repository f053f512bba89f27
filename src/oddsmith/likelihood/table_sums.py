"""The sums of an objective over a table with factors: Hessians whose largest factor is eliminated, and samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal
from oddsmith.engines import MemorySource
from oddsmith.engines.base import Progress, S
from oddsmith.engines.memory import MemoryEngine, available_cores, in_background, in_slices, parallel_map
from oddsmith.kernels.reference import Sums
from oddsmith.kernels.table import Cells
from oddsmith.kernels.table_folds import count_cells, find_cells, level_sums, passes_over
from oddsmith.kernels.table_folds import has_cells as cells_are_read
from oddsmith.kernels.table_passes import LogisticPass
from oddsmith.kernels.texts import count_codes
from oddsmith.numerics import Array, factor_spd, sigmoid
from oddsmith.priors import Quadratic
from oddsmith.protocols import Indices
from oddsmith.rows import CodeRows, ColumnRows, Rows, SplitRows
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue, Subsample, TableSample
from oddsmith.statistics import Curvature, CurvatureParams

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


CHUNK_ROWS = 1 << 14  # Rows with weights that are counted at a time, to save memory.
LEVEL_STEPS = 2  # Steps of Newton's method for levels on their own: a third hardly moves them.


def between_bytes(objective: FoldObjective) -> float:
    """Return the bytes of the block between the factor eliminated and all else."""
    first, last = objective.eliminated or (0, 0)
    return 8.0 * (last - first) * (objective.size - (last - first))


def has_cells(objective: FoldObjective) -> bool:
    """Whether that block is summed where it is not zero: rows in memory, which kernels read."""
    source = objective.gradient_source  # whose blocks are kept
    if not isinstance(source, MemorySource) or source.form is None:
        return False
    return cells_are_read(source.block(*source.slices()[0]), objective._at(np.zeros(objective.size), 2))


def in_few_slices(source: MemorySource, sums: float) -> MemorySource:
    """Return the rows of a table in few slices, since the sums of each (so many bytes) take time to make and merge."""
    settings = policy.POLICY
    few = max(settings.small_slices, source.n_rows // settings.table_slice_rows)
    if sums:
        few = settings.small_slices if settings.small_slices * sums <= table_room(source) else 2
    return in_slices(source, few) if len(source.slices()) > few else source


def for_gradients(source: MemorySource, sums: float) -> MemorySource:
    """Return the rows of a table in so few slices that their gradients (so many bytes each) take little memory."""
    few = max(2, int(0.25 * table_room(source) / sums))
    return in_slices(source, few) if len(source.slices()) > few else source


def table_room(source: MemorySource) -> float:
    """Return the bytes that sums over a table may take, twice as many where reading it took more."""
    assert source.form is not None
    return policy.POLICY.table_room * (2 if source.was_read else 1) * source.n_rows * source.form.row_bytes


class OwnSums(Curvature):
    """As `Curvature`, but a merge adds to the first gradient and Hessian where they are: nobody else holds them."""

    def merge(self, other: Curvature) -> OwnSums:
        if isinstance(self.hessian, BorderedDiagonal) and isinstance(other.hessian, BorderedDiagonal):
            self.hessian.add(other.hessian)
        return OwnSums(
            rows=self.rows + other.rows,
            value=self.value + other.value,
            gradient=np.add(self.gradient, other.gradient, out=self.gradient),
            hessian=self.hessian,
            longest=max(self.longest, other.longest),
        )


def table_sums(objective: FoldObjective, at: CurvatureParams) -> Curvature:
    """Return the sums over a table; the block of a factor eliminated with all else is summed where it is not zero."""
    if at.order >= 2 and objective._has_cells:
        at = replace(at, cells=cells_of(objective))
        if _is_by_levels(objective) and objective.state.by_levels is None:
            objective.state.by_levels = LevelEngine(_level_ranges(objective), _threads(objective))
    statistic: type[Curvature] = OwnSums if isinstance(objective.source, MemorySource) else Curvature
    return objective.fold(statistic, at)


def _is_by_levels(objective: FoldObjective) -> bool:
    """Whether sums of slices would take much memory, and rows are summed level by level instead."""
    source = objective.memory_source
    assert source.form is not None
    return not source.form.products and policy.POLICY.small_slices * hessian_bytes(objective) > table_room(source)


@dataclass(frozen=True)
class PassEngine:
    """Folds the few slices of a table in memory by passes that are made ready; else as the engine in memory."""

    threads: int | None
    name: str = "passes"

    def fold(self, statistic: type[S], source: MemorySource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the curvature sums."""
        slices, whole = source.slices(), source.block(0, source.n_rows)
        passes = passes_over(whole, params, slices) if len(slices) <= policy.POLICY.small_slices else None
        if passes is None:
            return MemoryEngine(self.threads).fold(statistic, source, params, progress=progress)
        deque(parallel_map(LogisticPass.run, passes, self.threads or available_cores()), maxlen=0)
        if progress is not None:
            progress(len(slices), len(slices))
        return _curvature(source, LogisticPass.total(passes))  # type: ignore[no-any-return]


def _curvature(source: MemorySource, sums: Sums) -> Any:
    value, gradient, hessian, longest = sums
    return Curvature(rows=source.n_present, value=value, gradient=gradient, hessian=hessian, longest=longest)


@dataclass(frozen=True)
class LevelEngine:
    """Folds the rows of each range of levels of the factor eliminated: the ranges share the memory of its sums.

    The ranges depend only on the data, so results are bit-identical on any number of threads.
    """

    ranges: list[tuple[int, int]]
    threads: int
    name: str = "levels"

    def fold(self, statistic: type[S], source: MemorySource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the curvature sums."""
        sums, count = level_sums(source.block(0, source.n_rows), params, self.ranges), len(self.ranges)
        deque(parallel_map(sums.run, range(count), self.threads), maxlen=0)
        if progress is not None:
            progress(count, count)
        return _curvature(source, sums.total())  # type: ignore[no-any-return]


def _level_ranges(objective: FoldObjective) -> list[tuple[int, int]]:
    """Return two ranges of levels of the factor eliminated with about the same number of rows; no column comes last."""
    source, columns = objective.memory_source, objective.eliminated
    assert columns is not None and isinstance(source.X, SplitRows)
    factor = source.X.parts[source.X.ranges.index(columns)]
    assert isinstance(factor, CodeRows)
    rows = np.cumsum(_level_rows(factor))
    middle = min(int(np.searchsorted(rows, 0.5 * source.n_rows)) + 1, len(rows))
    return [(0, middle), (middle, len(rows) + 1)]


def hessian_bytes(objective: FoldObjective) -> float:
    """Return the bytes of the sums of a factor that is eliminated, 0 without one."""
    if not objective._has_cells:
        return between_bytes(objective)
    form, (first, last) = objective.memory_source.form, objective.eliminated or (0, 0)
    assert form is not None
    numbers = 1 + form.M - sum(b - a for a, b in form.factors)
    return 8.0 * (cells_of(objective).count + numbers * (last - first))


def cells_of(objective: FoldObjective) -> Cells:
    """Return the cells of an objective, which remembers them."""
    state = objective.state
    if state.cells is None:
        state.cells = _cells(objective, _threads(objective)) if state.find_cells is None else state.find_cells()
        state.find_cells = None
    return state.cells


def _look(objective: FoldObjective) -> Cells:
    """Return the cells, after the sums of squares that the first step needs."""
    objective.state.level_squares = [
        _level_squares(factor, objective.memory_source.s) for factor, _ in _factors(objective)
    ]
    return _cells(objective, 1)


def _factors(objective: FoldObjective) -> list[tuple[CodeRows, tuple[int, int]]]:
    """Return the factors and their columns."""
    rows = objective.memory_source.X
    assert isinstance(rows, SplitRows)
    both = zip(rows.parts, rows.ranges, strict=True)
    return [(part, columns) for part, columns in both if isinstance(part, CodeRows)]


def _cells(objective: FoldObjective, threads: int) -> Cells:
    """Return which levels of other factors occur beside those of the factor eliminated: one pass over the codes."""
    source, columns = objective.memory_source, objective.eliminated
    assert columns is not None and source.form is not None
    if len(source.form.factors) == 1:
        return Cells()
    few = in_slices(source, 1) if threads == 1 else in_few_slices(source, between_bytes(objective) / 32.0)
    kept = objective.gradient_source
    assert isinstance(kept, MemorySource)
    source = kept if len(kept.slices()) <= len(few.slices()) else few  # whose blocks are kept, if memory allows
    words: npt.NDArray[np.uint64] | None = None
    for part in parallel_map(lambda rows: find_cells(source.block(*rows), columns), source.slices(), threads):
        words = part if words is None else np.bitwise_or(words, part, out=words)
    assert words is not None
    return count_cells(source.block(*source.slices()[0]), columns, words)


def _threads(objective: FoldObjective) -> int:
    return objective.threads or available_cores()


def table_sample(objective: FoldObjective, rows: int, seed: int) -> TableSample:
    """Return about ``rows`` rows of a table.

    Without the columns eliminated, the prior is scaled up like the rows: levels of which there are few stay near its
    mean. Without a prior, one of unit scale keeps them from diverging.
    """
    source, (C, P) = objective.memory_source, objective.shape
    first, last = objective.eliminated or (0, 0)
    kept = np.ones(P, dtype=bool)
    kept[1 + first : 1 + last] = False
    whole = _some_rows(objective, source.spread(rows, seed))
    if objective._has_cells and objective.state.cells is None:  # while one thread searches the sample
        objective.state.find_cells = in_background(partial(_look, objective), _threads(objective))
    assert isinstance(whole.X, SplitRows)
    parts = zip(whole.X.parts, whole.X.ranges, strict=True)
    others = [part for part, columns in parts if columns != objective.eliminated] or [ColumnRows((), whole.n_rows)]
    part = replace(whole, X=SplitRows(tuple(others)))
    few = objective._has_cells or part.size <= policy.POLICY.table_slice_rows
    part = in_slices(part, 1 if few and part.n_rows <= policy.POLICY.table_slice_rows else 2)
    fraction = (float(part.n_rows) if part.s is None else float(part.s.sum())) / objective.weight
    penalty = objective.penalty or Quadratic(np.zeros((C, P)), np.append(0.0, np.ones(P - 1)))
    Q = penalty.Q[kept] if penalty.Q.ndim == 1 else penalty.Q
    rest = replace(
        objective.over(part, fraction),
        center=objective.center[kept[1:]],
        scale=objective.scale[kept[1:]],
        free=objective.free[:, kept],
        penalty=Quadratic(penalty.mean[:, kept], Q / fraction),
        eliminated=None,
    )
    return TableSample(rest=rest, kept=kept, whole=replace(objective.over(whole, fraction), eliminated=None))


def _some_rows(objective: FoldObjective, chosen: Indices) -> MemorySource:
    """Return some rows of a table; numbers are rounded where that does no harm."""
    source, far = objective.memory_source, np.abs(objective.center) > policy.POLICY.far_factor * objective.scale
    assert isinstance(source.X, SplitRows)
    some = [part.take(chosen) if far.any() else _rounded(part, chosen) for part in source.X.parts]
    s, offset = (None if array is None else array[chosen] for array in (source.s, source.offset))
    t: Any = np.empty(len(chosen), dtype=np.int8 if source.K < 128 else np.int32)
    for start in range(0, len(t), CHUNK_ROWS // 4):  # labels may be wide
        t[start : start + CHUNK_ROWS // 4] = source.t[chosen[start : start + CHUNK_ROWS // 4]]
    return replace(source, X=SplitRows(tuple(some)), t=t, s=s, offset=offset, slice_rows=None)


def _rounded(part: Rows, rows: Indices) -> Rows:
    """Return some rows, numbers rounded to float32: the optimum of a sample is a start, which need not be exact."""
    if not isinstance(part, ColumnRows):
        return part.take(rows)
    arrays = (array[rows] for array in part.arrays)
    numbers = tuple(x.astype(np.float32) if x.dtype == np.float64 else x for x in arrays)
    return ColumnRows(numbers, len(rows), part.fills)


def sample_step(objective: FoldObjective, H: Array, e: ObjectiveValue, whole: Subsample | None) -> Array:
    """Return about the step of Newton's method from ``e``, the optimum of a sample without the factor eliminated.

    The levels of that factor move as if all else stayed; then all else, of Hessian H in the sample, makes up for what
    they do to the ``whole`` sample. Levels have their rows of all times the mean curvature on the diagonal: a sample
    has few of some, and its prior is scaled up.
    """
    source, (first, last) = objective.memory_source, objective.eliminated or (0, 0)
    levels, prior = slice(1 + first, 1 + last), np.zeros(objective.size)
    if objective.penalty is not None:
        prior = objective.penalty.diagonal(1)[0]
    curvature = np.full(objective.size, np.nan)
    if objective.state.find_cells is not None:
        cells_of(objective)
    factors, known = _factors(objective), objective.state.level_squares
    work = parallel_map(lambda one: _level_squares(one[0], source.s), factors, _threads(objective))
    squares = list(work) if known is None else known
    for (_, (a, b)), sums in zip(factors, squares, strict=True):
        curvature[1 + a : 1 + b] = sums * (H[0, 0] / objective.weight / objective.scale[a:b] ** 2)
    step, g = np.zeros(objective.size), e.gradient
    if whole is not None:
        rate = float(objective.class_weight[1] / objective.class_weight.sum())
        alike = rate if objective.canonical and 0.0 < rate < 1.0 else None
        step[levels] = _level_steps(g[levels], curvature[levels], prior[levels], alike)
        g = g + (whole.evaluate(e.w - step).gradient - whole.evaluate(e.w).gradient)
    kept = np.delete(curvature + prior, levels)
    ratio = np.sqrt(np.where(np.isnan(kept), 1.0, kept / H.diagonal()))
    rest = factor_spd(H * np.outer(ratio, ratio), tol=0.0).solve(np.delete(g, levels))
    step[: levels.start], step[levels.stop :] = np.split(rest, [levels.start])
    return step


def _level_steps(g: Array, curvature: Array, prior: Array, rate: float | None) -> Array:
    """Return the steps of levels of gradient ``g`` and some ``curvature``, each on its own, its rows alike.

    That is the whole way if two classes have the given ``rate`` of the second; without it, one step of Newton's method.

    >>> _level_steps(np.array([-10.0]), np.array([25.0]), np.array([1.0]), 0.5).round(2).tolist()
    [-0.4]
    """
    u = np.zeros_like(g)
    for _ in range(1 if rate is None else LEVEL_STEPS):
        p = 0.5 if rate is None else sigmoid(np.log(rate / (1.0 - rate)) - u)
        variance = 0.25 if rate is None else rate * (1.0 - rate)
        left = g - prior * u + curvature / variance * (p - (0.5 if rate is None else rate))
        slope = prior + curvature / variance * (p * (1.0 - p))
        u += np.clip(np.divide(left, slope, out=np.zeros_like(g), where=slope > 0.0), -1.0, 1.0)
    return u


def _level_rows(factor: CodeRows) -> Array:
    """Return the number of rows of each column."""
    counts = count_codes(factor.codes, factor.levels) if factor.counts is None else factor.counts
    return factor.by_column(counts.astype(np.float64))


def _level_squares(factor: CodeRows, s: Array | None) -> Array:
    """Return the sum of the weights of the rows of each column, times their squares."""
    if factor.x is None and s is None:
        return _level_rows(factor)
    total, n = np.zeros(factor.shape[1]), len(factor.codes)
    step = max(CHUNK_ROWS, factor.levels)
    for start in range(0, n, step):
        part = factor.slice(start, min(start + step, n))
        weight = np.ones(len(part.codes)) if s is None else s[start : start + step].astype(np.float64)
        total += part.squares(weight[:, None])[:, 0]
    return total
