"""The objective of a dense table in memory, as the kernel of L-BFGS takes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.engines.memory import assisted, available_cores
from oddsmith.kernels.lbfgs import LbfgsPoints, LbfgsRules, alone, lbfgs_points
from oddsmith.numerics import EPS, Array
from oddsmith.records import records_weights
from oddsmith.rows import DenseRows
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.lbfgs import Distance
from oddsmith.solvers.plan import rough_hessian_passes
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


def fused_points(
    objective: FoldObjective, w: Array, distance: Distance, steps: int, stall: tuple[int, float], *, hessian: bool
) -> tuple[ObjectiveValue, LbfgsPoints] | None:
    """Run L-BFGS from ``w`` in one call; return its end and its points, None where rows, prior or link do not suit.

    The number of slices depends on the size of the table alone, and their sums are added in order: the result is the
    same on any number of threads.
    """
    source, penalty, settings, A = objective.source, objective.penalty, policy.POLICY, distance.preconditioner
    if not isinstance(A, KroneckerSumPreconditioner) or not _suits(objective):
        return None
    assert isinstance(source, MemorySource)
    (C, P), state = objective.shape, objective.state
    longest, slices = state.max_row_norm2, slice_count(objective)
    threads = min(objective.threads or available_cores(), slices)
    hessians, cost = preconditioners(objective)
    found = lbfgs_points(
        source.block(0, source.n_rows),
        (objective.center, np.concatenate(([1.0], objective.scale)), objective.T if C > 1 else None),
        (np.zeros(P), np.zeros((C, P))) if penalty is None else (penalty.Q, penalty.mean),
        (A.vectors if C > 1 else None, A.diagonal),
        w.reshape(C, P),
        LbfgsRules(
            near=distance.near,
            relative=distance.relative,
            steps=steps,
            memory=settings.memory,
            few=stall[0],
            patience=stall[1],
            armijo=settings.armijo,
            rounding=8.0 * EPS,
            smallest=settings.smallest_step,
            halvings=settings.halvings,
            hessians=hessians,
            cost=cost,
        ),
        measure=distance.measure,
        free=None if objective.all_free else objective.free[0].astype(np.float64),
        inverse=objective.scale**-2.0 if longest is None else None,
        slices=slices,
        hessian=hessian and C == 1,
        assist=alone if threads == 1 else partial(assisted, threads=threads),
    )
    if found is None:
        return None
    state.passes += found.evaluations
    state.max_row_norm2 = found.longest if longest is None else longest
    H = found.hessian
    if H is not None and not objective.all_free:
        objective.fix(H, max(1.0, objective.weight))
    state.last = ObjectiveValue(
        w=found.w, value=found.value, log_likelihood=-found.loss, gradient=found.gradient, hessian=H
    )
    return state.last, found


def preconditioners(objective: FoldObjective) -> tuple[int, float]:
    """Return how many Hessians may precondition, and what one costs, in passes.

    That of several classes neglects how the curvature of rows differs: it does not change, and is of no use where there
    are as many columns as rows.
    """
    settings, (C, P) = policy.POLICY, objective.shape
    wide = settings.row_space_columns * objective.n_rows
    if objective.penalty is None or P > min(settings.largest_hessian, wide):
        return 0, 0.0
    cost = rough_hessian_passes(objective.n_rows, C, P, settings)
    if C == 1:
        return settings.kernel_hessians, cost
    return min(settings.kernel_hessians, int(objective.n_rows >= settings.gradient_rows_per_weight * P)), cost


def _suits(objective: FoldObjective) -> bool:
    """Whether the kernel sums such rows, with such a prior, and the trace asks for nothing else."""
    source, penalty, free = objective.source, objective.penalty, objective.free
    plain = objective.link is None and objective.whitening is None and objective.buffers is None
    quiet = objective.progress is None and objective.sampling_fraction == 1.0 and not records_weights()
    if not (plain and quiet and isinstance(source, MemorySource) and source.row_storage is DenseRows):
        return False
    C = objective.shape[0]
    square = objective.T.shape == (C, C) and (objective.all_free or bool((free == free[0]).all()))
    diagonal = penalty is None or penalty.Q.ndim == 1
    return diagonal and square and 0 < source.shape.M and source.size * C <= policy.POLICY.fused_elements


def slice_count(objective: FoldObjective) -> int:
    """Return the number of slices: 1 unless a pass is long enough for several threads."""
    long = float(objective.n_rows) * objective.size > policy.POLICY.fused_slice_elements
    return policy.POLICY.fused_slices if long and objective.n_rows >= 32 * policy.POLICY.fused_slices else 1
