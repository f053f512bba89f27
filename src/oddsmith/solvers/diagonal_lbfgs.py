"""Diagonally preconditioned L-BFGS, then Newton: for so many weights that a Hessian costs many gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SOLVERS, ObjectiveValue, Preconditioner, Recorder, Solver, SolverResult, Subsample
from oddsmith.solvers.certificate import certificate_from
from oddsmith.solvers.lbfgs import Distance, FusedLBFGS, lbfgs
from oddsmith.solvers.newton import Newton, continue_with
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner


@SOLVERS.register("lbfgs")
@dataclass(frozen=True, kw_only=True)
class DiagonalLBFGS:
    """L-BFGS preconditioned by the curvature of each column, then by as few Hessians as possible.

      1. If columns are nearly independent, gradients alone reach the optimum.
      2. When progress stalls, the Hessian at that point becomes the preconditioner, or the solver ``then`` takes over.
      3. Newton's method adds the last digits and the certificate; without ``final_hessian``, gradient steps continue
         until the prior alone certifies the point.

    With ``keeps_hessian``, the Hessian at the end is formed once, for inference. Cost: one pass per iteration, and a
    few Hessians of O(P²) numbers. If ``fused``, step 1 is left to an objective that takes it faster.
    """

    watch_divergence: bool = True
    final_hessian: bool = True
    keeps_hessian: bool = False
    fused: bool = True
    then: Solver[Any] | None = None
    name: str = "lbfgs"

    def minimise(self, objective: Subsample, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "L-BFGS")
        f, w = self._approach(objective, w, recorder, tol, max_iter)
        if f is not None and not self.final_hessian:
            f = objective.evaluate(f.w, order=2) if self.keeps_hessian else f
            certificate = certificate_from(objective.decrement_bound(f), objective, f, tol)
            if certificate.converged:
                return recorder.result(f, certificate)
        newton = self.then or Newton(watch_divergence=self.watch_divergence, fused=False)  # few steps are left
        left = max(1, max_iter - len(recorder.records))
        return continue_with(newton, objective, w, recorder, tol, left)  # 3

    def _approach(
        self, objective: Subsample, w: Array, recorder: Recorder, tol: float, max_iter: int
    ) -> tuple[ObjectiveValue | None, Array]:
        """Return the end of the searches, None where they do not reach it, and the point to go on from."""
        settings, start = policy.POLICY, w
        between, prior = objective.column_curvature()
        e: ObjectiveValue | None = None
        preconditioner: Preconditioner = KroneckerSumPreconditioner(between, prior)
        for _ in range(settings.diagonal_hessians):
            steps = min(settings.diagonal_iterations, max_iter // 2 - len(recorder.records))
            if steps < 1:
                break
            distance = _newton_distance if self.final_hessian else partial(_prior_distance, prior, tol)
            f, arrived = self._search(objective, w, distance(preconditioner), steps - 1, recorder)  # 1
            w = f.w
            if arrived:
                return f, w
            if self.then is not None:
                break
            if e is not None and not _predicted(e, f, preconditioner):
                return None, start
            e = objective.evaluate(w, order=2)  # 2
            preconditioner = e.factor()
        return None, w

    def _search(
        self, objective: Subsample, w: Array, distance: Distance, steps: int, recorder: Recorder
    ) -> tuple[ObjectiveValue, bool]:
        """Run L-BFGS while finishing costs less than a Hessian; return the end, and whether the distance is 1."""
        few, patience = stall = _stall(distance.preconditioner, objective.size)
        if self.fused and hasattr(objective, "lbfgs_points"):  # a protocol takes longer to look up
            found = cast(FusedLBFGS, objective).lbfgs_points(w, distance, steps, stall, hessian=self.keeps_hessian)
            if found is not None:
                e, points = found
                recorder.add_points(points.trace, points.evaluations, e.w)
                return e, bool(points.distances[-1] <= 1.0)
        distances: list[float] = []

        def ends(e: ObjectiveValue) -> bool:
            distances.append(distance(e))
            if distances[-1] <= 1.0 or len(distances) <= few:
                return distances[-1] <= 1.0
            window = max(few, len(distances) // 3)  # gradients do not fall at every step
            before, now = min(distances[:-window]), min(distances)
            return not math.log(before / now) * patience > math.log(now) * window

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
            e = lbfgs(objective, w, distance.preconditioner, ends, steps, recorder)
        return e, distances[-1] <= 1.0


def _newton_distance(preconditioner: Preconditioner) -> Distance:
    """Return the distance to the region where one Newton step gives full precision."""
    return Distance(preconditioner=preconditioner, near=policy.POLICY.diagonal_near**2)


def _prior_distance(prior: Array, tol: float, preconditioner: Preconditioner) -> Distance:
    """Return the distance to the region where the prior, as a lower bound of the Hessian, is likely to certify.

    The certificate handles the intercepts, which have no prior.
    """
    near = 2.0 * policy.POLICY.prior_margin * tol
    measure = np.concatenate(([0.0], 1.0 / prior[1:]))
    return Distance(preconditioner=preconditioner, near=near, measure=measure, relative=True)


def _stall(preconditioner: Preconditioner, size: int) -> tuple[int, float]:
    """Return the points from which progress is judged, and the steps that a Hessian of ``size`` weights is worth."""
    settings = policy.POLICY
    if isinstance(preconditioner, KroneckerSumPreconditioner):
        least, each, most = settings.column_patience
        return settings.column_stall, min(max(least, each * size), most)
    least, each = settings.diagonal_patience
    return settings.diagonal_stall, max(least, each * size)


def _predicted(e: ObjectiveValue, f: ObjectiveValue, hessian: Preconditioner) -> bool:
    """Whether the decrease of the objective from e to f agrees with the Hessian at e.

    If not (a few rows of enormous values, whose probabilities are 0 or 1 except in a narrow strip), Newton steps from
    the start, where all rows have curvature, are the most reliable.
    """
    predicted, fall, trust = 0.5 * hessian.norm(e.gradient) ** 2, e.value - f.value, policy.POLICY.diagonal_trust
    return bool(trust * fall <= predicted <= fall / trust)
