"""Truncated Newton: each step by preconditioned conjugate gradients, for many columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import Array
from oddsmith.solvers.base import SOLVERS, Evaluation, Objective, Recorder, SolverResult
from oddsmith.solvers.certificate import certify
from oddsmith.solvers.newton import line_search, looks_separated, stalled


@SOLVERS.register("truncated-newton")
@dataclass(frozen=True)
class TruncatedNewton:
    """Newton's method that never forms the Hessian.

    Each iteration
      1. evaluates value and gradient g (one pass),
      2. solves H p ≈ g by conjugate gradients, preconditioned by the Hessian's diagonal, to a relative
         residual that tightens as the gradient falls (one pass a product),
      3. stops when √(gᵀp) ≤ ``tol``,
      4. shortens the step until the objective falls.

    Memory: a few vectors of the size of the weights.
    """

    max_products: int = 250
    watch_divergence: bool = True
    name: str = "truncated-newton"

    def minimise(self, objective: Objective, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser with its certificate."""
        recorder = Recorder(objective)
        e = objective.evaluate(w)  # 1
        first = float(np.linalg.norm(e.gradient))
        step, decrements, diverging = 0.0, [], False
        while True:
            recorder.add(e, step)
            norm = float(np.linalg.norm(e.gradient))
            if norm == 0.0 or len(recorder.records) > max_iter:
                break
            residual = min(0.1, np.sqrt(norm / first)) * norm
            p = conjugate_gradients(objective, e, residual, self.max_products)  # 2
            slope = float(p @ e.gradient)
            decrements.append(float(np.sqrt(max(slope, 0.0))))
            if decrements[-1] <= tol or stalled(decrements, e.value, tol):  # 3
                break
            diverging = self.watch_divergence and looks_separated(decrements)
            if diverging:
                break
            moved = line_search(objective, e, p, slope, order=1)  # 4
            if moved is None:
                break
            e, step = moved
        return certified(objective, e, recorder, tol, diverging=diverging)


def conjugate_gradients(objective: Objective, e: Evaluation, residual: float, limit: int) -> Array:
    """Solve H(w) p = g to ``‖g − H p‖ ≤ residual`` by preconditioned conjugate gradients from zero."""
    d = objective.hessian_diagonal(e.w)
    p = np.zeros_like(e.w)
    r = e.gradient.copy()
    z = r / d
    q = z.copy()
    rz = r @ z
    for _ in range(limit):
        Hq = objective.hessian_product(e.w, q)
        curvature = q @ Hq
        if curvature <= 0.0:
            break
        alpha = rz / curvature
        p += alpha * q
        r -= alpha * Hq
        if np.linalg.norm(r) <= residual:
            break
        z = r / d
        rz, previous = r @ z, rz
        q = z + (rz / previous) * q
    return p


LARGEST_HESSIAN = 2500


def certified(
    objective: Objective, e: Evaluation, recorder: Recorder, tol: float, *, diverging: bool = False
) -> SolverResult:
    """End a solver that did not form the Hessian: certify with it (one more pass) unless it is too large."""
    if e.w.size <= LARGEST_HESSIAN:
        e = objective.evaluate(e.w, order=2)
    certificate = certify(objective, e, tol)
    return SolverResult(e.w, recorder.trace(), certificate, e, diverging)
