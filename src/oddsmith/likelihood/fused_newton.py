"""The objective of a small dense table, as the kernel of Newton steps takes it."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.kernels.newton import NewtonSteps, NewtonSums, newton_steps
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.records import records_weights
from oddsmith.rows import DenseRows
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


def fused_steps(objective: FoldObjective, w: Array, steps: int, small: float) -> NewtonSteps | None:
    """Take plain Newton steps from ``w`` in one call; None where rows, prior or link are of another kind.

    A subsample's sums count m times. In the kernel they count once, and the prior an m-th.
    """
    settings, source, penalty = policy.POLICY, objective.source, objective.penalty
    if not 1 < objective.size <= settings.fused_weights or not isinstance(source, MemorySource) or records_weights():
        return None
    plain = objective.link is None and objective.whitening is None and objective.buffers is None and objective.all_free
    diagonal = penalty is None or penalty.Q.ndim == 1
    if not (plain and diagonal and objective.shape[0] == 1):
        return None
    slices = source.slices()
    block, products = source.block(*slices[0]), source.n_rows * float(objective.size) ** 2
    if products > settings.one_thread_products or len(slices) > 1 or type(block.Phi) is not DenseRows:
        return None
    m, state, nothing = 1.0 / objective.sampling_fraction, objective.state, np.zeros(objective.size)
    e, known, longest = state.last, None, state.max_row_norm2
    if e is not None and isinstance(e.hessian, np.ndarray) and (e.w == w).all():
        known = NewtonSums(-e.log_likelihood / m, e.gradient / m, e.hessian / m)
    found = newton_steps(
        block,
        (objective.center, np.concatenate(([1.0], objective.scale))),
        (nothing, nothing) if penalty is None else (penalty.Q / m, penalty.mean[0]),
        w,
        steps=steps,
        small=small / sqrt(m),
        armijo=settings.armijo,
        separated=settings.separated_ratios,
        inverse=objective.scale**-2.0 if longest is None else None,
        known=known,
        rough=penalty is not None and objective.size > settings.rough_weights,
    )
    if found is None:
        return None
    state.passes += found.evaluations
    if found.sums is not None:
        state.max_row_norm2 = found.sums.longest if longest is None else longest
        state.last = _evaluation(found, found.sums, penalty, m)
    return found if m == 1.0 else replace(found, trace=found.trace * [m, m, m, sqrt(m)])


def _evaluation(end: NewtonSteps, sums: NewtonSums, penalty: Quadratic | None, m: float) -> ObjectiveValue:
    """Return the evaluation at the end of the steps, which the solver asks for next."""
    w, loss, g, H = end.w, sums.loss, sums.gradient, sums.hessian
    if m != 1.0:  # the kernel's factor is another one
        value = m * loss + (0.0 if penalty is None else penalty.value(w[None]))
        return ObjectiveValue(w=w, value=value, log_likelihood=-m * loss, gradient=m * g, hessian=m * H)
    e = ObjectiveValue(w=w, value=loss + end.penalty, log_likelihood=-loss, gradient=g, hessian=H)
    return e if end.factor is None else e.with_factor(end.factor, end.next_step)
