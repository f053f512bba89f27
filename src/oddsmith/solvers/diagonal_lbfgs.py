"""Diagonally preconditioned L-BFGS, then Newton: for so many weights that a Hessian costs many gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SOLVERS, ObjectiveValue, Preconditioner, Recorder, SolverResult, Subsample
from oddsmith.solvers.certificate import certificate_from
from oddsmith.solvers.lbfgs import lbfgs
from oddsmith.solvers.newton import Newton, continue_with_newton
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner


@SOLVERS.register("lbfgs")
@dataclass(frozen=True, kw_only=True)
class DiagonalLBFGS:
    """L-BFGS preconditioned by the curvature of each column, then by as few Hessians as possible.

      1. If columns are nearly independent, gradients alone reach the optimum.
      2. When progress stalls, the Hessian at that point becomes the preconditioner.
      3. Newton's method adds the last digits and the certificate; without ``final_hessian``, gradient steps continue
         until the prior alone certifies the point.

    With ``keeps_hessian``, the Hessian at the end is formed once, for inference. Cost: one pass per iteration, and a
    few Hessians of O(P²) numbers.
    """

    watch_divergence: bool = True
    final_hessian: bool = True
    keeps_hessian: bool = False
    name: str = "lbfgs"

    def minimise(self, objective: Subsample, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        settings = policy.POLICY
        recorder, start = Recorder(objective, "L-BFGS"), w
        between, prior = objective.column_curvature()
        e: ObjectiveValue | None = None
        preconditioner: Preconditioner = KroneckerSumPreconditioner(between, prior)
        to_certificate = _prior_distance(prior, tol)
        arrived = False
        for _ in range(settings.diagonal_hessians):
            steps = min(settings.diagonal_iterations, max_iter // 2 - len(recorder.records))
            if steps < 1:
                break
            distance = _newton_distance(preconditioner) if self.final_hessian else to_certificate
            f, arrived = _search(objective, w, preconditioner, steps - 1, recorder, distance)  # 1
            w = f.w
            if arrived:
                break
            if e is not None and not _predicted(e, f, preconditioner):
                w = start
                break
            e = objective.evaluate(w, order=2)  # 2
            preconditioner = e.factor()
        if arrived and not self.final_hessian:
            f = objective.evaluate(f.w, order=2) if self.keeps_hessian else f
            certificate = certificate_from(objective.decrement_bound(f), objective, f, tol)
            if certificate.converged:
                return recorder.result(f, certificate)
        newton = Newton(watch_divergence=self.watch_divergence)
        left = max(1, max_iter - len(recorder.records))
        return continue_with_newton(newton, objective, w, recorder, tol, left)  # 3


Distance = Callable[[ObjectiveValue], float]  # Distance of a point from the end of a search, which is reached at 1.


def _newton_distance(preconditioner: Preconditioner) -> Distance:
    """Return the distance to the region where one Newton step gives full precision."""
    return lambda e: preconditioner.norm(e.gradient) / policy.POLICY.diagonal_near


def _prior_distance(prior: Array, tol: float) -> Distance:
    """Return the distance to the region where the prior, as a lower bound of the Hessian, is likely to certify.

    The certificate handles the intercepts, which have no prior.
    """
    margin = policy.POLICY.prior_margin

    def distance(e: ObjectiveValue) -> float:
        slopes = e.gradient.reshape(-1, len(prior))[:, 1:]
        return math.sqrt(float((slopes**2 / prior[1:]).sum()) / (2.0 * margin * e.allowed_gap(tol)))

    return distance


def _search(
    objective: Subsample,
    w: Array,
    preconditioner: Preconditioner,
    steps: int,
    recorder: Recorder,
    distance: Distance,
) -> tuple[ObjectiveValue, bool]:
    """Run L-BFGS while finishing costs less than a Hessian; return the end, and whether the distance is at most 1."""
    few, (least, each) = policy.POLICY.diagonal_stall, policy.POLICY.diagonal_patience
    patience = max(least, each * objective.size)
    distances: list[float] = []

    def ends(e: ObjectiveValue) -> bool:
        distances.append(distance(e))
        if distances[-1] <= 1.0 or len(distances) <= few:
            return distances[-1] <= 1.0
        window = max(few, len(distances) // 3)  # gradients do not fall at every step
        before, now = min(distances[:-window]), min(distances)
        return not math.log(before / now) * patience > math.log(now) * window

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
        e = lbfgs(objective, w, preconditioner, ends, steps, recorder)
    return e, distances[-1] <= 1.0


def _predicted(e: ObjectiveValue, f: ObjectiveValue, hessian: Preconditioner) -> bool:
    """Whether the decrease of the objective from e to f agrees with the Hessian at e.

    If not (a few rows of enormous values, whose probabilities are 0 or 1 except in a narrow strip), Newton steps from
    the start, where all rows have curvature, are the most reliable.
    """
    predicted, fall, trust = 0.5 * hessian.norm(e.gradient) ** 2, e.value - f.value, policy.POLICY.diagonal_trust
    return bool(trust * fall <= predicted <= fall / trust)
