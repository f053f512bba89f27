"""Mixed-precision refinement: searches on rows in half precision, corrected by a few exact gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import LowPrecision, Objective, ObjectiveValue, Preconditioner, Recorder, Subsample
from oddsmith.solvers.lbfgs import Pairs, lbfgs
from oddsmith.solvers.preconditioner import InterceptPreconditioner, KroneckerSumPreconditioner
from oddsmith.solvers.subsample_certificate import SubsampleCertificate


@dataclass(frozen=True)
class ShiftedObjective:
    """An objective with a linear function added to it."""

    objective: Objective
    slope: Array

    def evaluate(self, w: Array, order: int = 1) -> ObjectiveValue:
        e = self.objective.evaluate(w, order)
        return replace(e, value=e.value + float(self.slope @ w), gradient=e.gradient + self.slope)


def refine(
    objective: LowPrecision,
    certificate: SubsampleCertificate,
    factor: Callable[[ObjectiveValue, Subsample], Preconditioner],
    close: Callable[[ObjectiveValue], bool],
    recorder: Recorder,
) -> ObjectiveValue:
    """Return the evaluation near the optimum, found in low precision with few passes over the exact rows.

    1. The pass over the exact rows that packs them into half precision gives the gradient at the start.
    2. The difference between the exact and the low-precision gradient is added to the latter: each correction brings
       the optimum closer by a factor of hundreds.
    3. Near it, the subsample's Hessian becomes the preconditioner, or its diagonal if columns are independent. If the
       start was not close enough, the exact gradient is evaluated here, too.
    """
    settings = policy.POLICY
    pairs: Pairs = []
    low, e = objective.low_precision(certificate.guess.w)  # 1
    (C, P), several = objective.shape, objective.shape[0] > 1
    far = certificate.guess.hessian is None
    error = settings.half_hessian_rounding * np.sqrt(P / objective.n_rows)
    left, near = np.inf, settings.near_hessian[several] * np.sqrt(objective.size)
    for _ in range(4):
        here = low.evaluate(e.w)
        before, left = left, certificate.preconditioner.norm(e.gradient)
        stuck = left > settings.half_progress * before
        if close(e) or not np.isfinite(here.gradient).all() or stuck:
            break
        recorder.add(e, 1.0)
        shifted, x = ShiftedObjective(low, e.gradient - here.gradient), e.w  # 2
        if far:
            x, found = _search(shifted, x, certificate, pairs, lambda _: near)
            if not found:
                e = objective.evaluate(x)
                break
            far = False
            _recondition(certificate, x, factor, one_contrast=C == 1)  # 3
            left = certificate.preconditioner.norm(e.gradient)
            if error * left > certificate.needed(e):
                e = objective.evaluate(x)
                continue
        x, found = _search(shifted, x, certificate, pairs, partial(_goal, certificate, 1e-5 * left))
        e = objective.evaluate(x)
        if not found:
            break
    return e


def _recondition(
    certificate: SubsampleCertificate,
    x: Array,
    factor: Callable[[ObjectiveValue, Subsample], Preconditioner],
    *,
    one_contrast: bool,
) -> None:
    """Replace the preconditioner of a start by the subsample's curvature at ``x``."""
    if isinstance(certificate.preconditioner, KroneckerSumPreconditioner) and one_contrast:
        diagonal = certificate.sample.preconditioner(x)
        assert isinstance(diagonal, InterceptPreconditioner)
        certificate.preconditioner = KroneckerSumPreconditioner(np.zeros((1, 1)), diagonal.rest[0])
    else:
        certificate.move(x)
        certificate.preconditioner = factor(certificate.guess, certificate.sample)


def _goal(certificate: SubsampleCertificate, least: float, e: ObjectiveValue) -> float:
    return max(least, policy.POLICY.half_margin * certificate.needed(e))


def _search(
    shifted: ShiftedObjective,
    x: Array,
    certificate: SubsampleCertificate,
    pairs: Pairs,
    goal: Callable[[ObjectiveValue], float],
) -> tuple[Array, bool]:
    """Return a point whose gradient meets the goal, and whether a few steps were enough."""
    preconditioner, settings = certificate.preconditioner, policy.POLICY

    def reached(e: ObjectiveValue) -> bool:
        return preconditioner.norm(e.gradient) <= goal(e)

    steps, rounding = settings.half_iterations, settings.half_rounding
    e = lbfgs(shifted, x, preconditioner, reached, steps, pairs=pairs, rounding=rounding)
    return e.w, reached(e)
