"""Diagonally preconditioned L-BFGS, then Newton: for weights so many that a Hessian costs many gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SOLVERS, ColumnCurvature, ObjectiveValue, Preconditioner, Recorder, SolverResult
from oddsmith.solvers.certificate import certify
from oddsmith.solvers.lbfgs import lbfgs
from oddsmith.solvers.newton import Newton, continue_with_newton
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner


@SOLVERS.register("lbfgs")
@dataclass(frozen=True)
class DiagonalLBFGS:
    """L-BFGS preconditioned by the columns' own curvature, then by Hessians, as few as will do.

      1. Where columns hardly depend on each other, gradients alone lead to the optimum.
      2. When progress stalls, the Hessian at that point becomes the preconditioner.
      3. Newton's method adds the last digits and the certificate; without ``final_hessian``, gradients lead on until
         the prior alone certifies the point.

    Cost: a pass an iteration, and a few Hessians of O(P²) numbers.
    """

    watch_divergence: bool = True
    final_hessian: bool = True
    name: str = "lbfgs"

    def minimise(self, objective: ColumnCurvature, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        settings = policy.POLICY
        recorder, start = Recorder(objective, "L-BFGS"), w
        between, prior = objective.column_curvature()
        preconditioner: Preconditioner = KroneckerSumPreconditioner(between, prior)
        certifiable = _certifiable(prior, tol)
        e: ObjectiveValue | None = None
        arrived = False
        for _ in range(settings.diagonal_hessians):
            steps = min(settings.diagonal_iterations, max_iter // 2 - len(recorder.records))
            if steps < 1:
                break
            near = _near(preconditioner) if self.final_hessian else certifiable
            f, arrived = _search(objective, w, preconditioner, steps - 1, recorder, near)  # 1
            w = f.w
            if arrived:
                break
            if e is not None and not _predicted(e, f, preconditioner):
                w = start
                break
            e = objective.evaluate(w, order=2)  # 2
            preconditioner = e.factor()
        if arrived and not self.final_hessian:
            certificate = certify(objective, f, tol)
            if certificate.converged:
                return recorder.result(f, certificate)
        newton = Newton(watch_divergence=self.watch_divergence)
        left = max(1, max_iter - len(recorder.records))
        return continue_with_newton(newton, objective, w, recorder, tol, left)  # 3


Test = Callable[[ObjectiveValue], bool]


def _near(preconditioner: Preconditioner) -> Test:
    """Return the test whether one Newton step gives all digits."""
    return lambda e: preconditioner.norm(e.gradient) <= policy.POLICY.diagonal_near


def _certifiable(prior: Array, tol: float) -> Test:
    """Return the test whether the prior, as a lower bound of the Hessian, is likely to certify a point.

    The intercepts, of which it knows nothing, are left to the certificate.
    """
    margin = policy.POLICY.prior_margin

    def test(e: ObjectiveValue) -> bool:
        slopes = e.gradient.reshape(-1, len(prior))[:, 1:]
        return float((slopes**2 / prior[1:]).sum()) <= 2.0 * margin * e.allowed_gap(tol)

    return test


def _search(
    objective: ColumnCurvature, w: Array, preconditioner: Preconditioner, steps: int, recorder: Recorder, near: Test
) -> tuple[ObjectiveValue, bool]:
    """Run L-BFGS while it is fast; return the end, and whether it is near the optimum."""
    few, left = policy.POLICY.diagonal_stall
    norms: list[float] = []

    def ends(e: ObjectiveValue) -> bool:
        norms.append(preconditioner.norm(e.gradient))
        return near(e) or (len(norms) > few and norms[-1] > left * norms[-1 - few])

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
        e = lbfgs(objective, w, preconditioner, ends, steps, recorder)
    return e, near(e)


def _predicted(e: ObjectiveValue, f: ObjectiveValue, hessian: Preconditioner) -> bool:
    """Whether the objective fell from e to f about as the Hessian at e predicted.

    Where it did not (a few rows of enormous values, whose probabilities are 0 or 1 but for a narrow strip), Newton's
    steps from the start, where all rows have curvature, are the surest.
    """
    predicted, fall, trust = 0.5 * hessian.norm(e.gradient) ** 2, e.value - f.value, policy.POLICY.diagonal_trust
    return bool(trust * fall <= predicted <= fall / trust)
