"""Diagonally preconditioned L-BFGS, then Newton: for weights so many that a Hessian costs many gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SOLVERS, ColumnCurvature, ObjectiveValue, Preconditioner, Recorder, SolverResult
from oddsmith.solvers.lbfgs import lbfgs
from oddsmith.solvers.newton import Newton, continue_with_newton
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner


@SOLVERS.register("lbfgs")
@dataclass(frozen=True)
class DiagonalLBFGS:
    """L-BFGS preconditioned by the columns' own curvature, then by Hessians, as few as will do.

      1. Where columns hardly depend on each other, gradients alone lead to the optimum.
      2. When progress stalls, the Hessian at that point becomes the preconditioner.
      3. Newton's method adds the last digits and the certificate.

    Cost: a pass an iteration, and a few Hessians of O(P²) numbers.
    """

    watch_divergence: bool = True
    name: str = "lbfgs"

    def minimise(self, objective: ColumnCurvature, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        settings = policy.POLICY
        recorder, start = Recorder(objective, "L-BFGS"), w
        preconditioner: Preconditioner = KroneckerSumPreconditioner(*objective.column_curvature())
        e: ObjectiveValue | None = None
        for _ in range(settings.diagonal_hessians):
            steps = min(settings.diagonal_iterations, max_iter // 2 - len(recorder.records))
            if steps < 1:
                break
            f, near = _search(objective, w, preconditioner, steps - 1, recorder)  # 1
            w = f.w
            if near:
                break
            if e is not None and not _predicted(e, f, preconditioner):
                w = start
                break
            e = objective.evaluate(w, order=2)  # 2
            preconditioner = e.factor()
        newton = Newton(watch_divergence=self.watch_divergence)
        left = max(1, max_iter - len(recorder.records))
        return continue_with_newton(newton, objective, w, recorder, tol, left)  # 3


def _search(
    objective: ColumnCurvature, w: Array, preconditioner: Preconditioner, steps: int, recorder: Recorder
) -> tuple[ObjectiveValue, bool]:
    """Run L-BFGS while it is fast; return the end, and whether it is near the optimum."""
    near = policy.POLICY.diagonal_near
    few, left = policy.POLICY.diagonal_stall
    norms: list[float] = []

    def ends(e: ObjectiveValue) -> bool:
        norms.append(preconditioner.norm(e.gradient))
        return norms[-1] <= near or (len(norms) > few and norms[-1] > left * norms[-1 - few])

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
        e = lbfgs(objective, w, preconditioner, ends, steps, recorder)
    return e, norms[-1] <= near


def _predicted(e: ObjectiveValue, f: ObjectiveValue, hessian: Preconditioner) -> bool:
    """Whether the objective fell from e to f about as the Hessian at e predicted.

    Where it did not (a few rows of enormous values, whose probabilities are 0 or 1 but for a narrow strip), Newton's
    steps from the start, where all rows have curvature, are the surest.
    """
    predicted, fall, trust = 0.5 * hessian.norm(e.gradient) ** 2, e.value - f.value, policy.POLICY.diagonal_trust
    return bool(trust * fall <= predicted <= fall / trust)
