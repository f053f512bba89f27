"""The objective of a small dense table, as the kernel of Newton steps takes it."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.kernels.curvature import NewtonSteps, newton_steps
from oddsmith.numerics import Array
from oddsmith.records import records_weights
from oddsmith.rows import DenseRows
from oddsmith.solvers import policy

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


def fused_steps(objective: FoldObjective, w: Array, steps: int, small: float) -> NewtonSteps | None:
    """Take plain Newton steps from ``w`` in one call; None where rows, prior or link are of another kind.

    A subsample's sums count m times. In the kernel they count once, and the prior an m-th.
    """
    settings, source, penalty = policy.POLICY, objective.source, objective.penalty
    if objective.size > settings.fused_weights or not isinstance(source, MemorySource) or records_weights():
        return None
    plain = objective.link is None and objective.whitening is None and objective.buffers is None and objective.all_free
    diagonal = penalty is None or penalty.Q.ndim == 1
    if not (plain and diagonal and objective.shape[0] == 1 and source.row_storage is DenseRows):
        return None
    slices = source.slices()
    if len(slices) > 1 or source.n_rows * float(objective.size) ** 2 > settings.one_thread_products:
        return None
    m, e, nothing = 1.0 / objective.sampling_fraction, objective.state.last, np.zeros(objective.size)
    known = None
    if e is not None and isinstance(e.hessian, np.ndarray) and (e.w == w).all():
        known = -e.log_likelihood / m, e.gradient / m, e.hessian / m
    found = newton_steps(
        source.block(*slices[0]),
        (objective.center, np.concatenate(([1.0], objective.scale))),
        (nothing, nothing) if penalty is None else (penalty.Q / m, penalty.mean[0]),
        w,
        steps=steps,
        small=small / sqrt(m),
        armijo=settings.armijo,
        separated=settings.separated_ratios,
        known=known,
    )
    if found is None:
        return None
    objective.state.passes += found.evaluations
    return found if m == 1.0 else replace(found, trace=found.trace * [m, m, m, sqrt(m)])
