"""Truncated Newton: each step by preconditioned conjugate gradients, for many columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.numerics import Array
from oddsmith.records import Certificate
from oddsmith.solvers.base import SOLVERS, Evaluation, Objective, Preconditioner, Recorder, SolverResult, Solves
from oddsmith.solvers.certificate import certify, gap_bound
from oddsmith.solvers.newton import line_search, looks_separated, stalled

LOOSEST, TIGHTEST = 0.3, 0.01
"""Shares of the gradient to which a step is solved for: far from the optimum, and near it (if not to all digits)."""


@SOLVERS.register("truncated-newton")
@dataclass(frozen=True)
class TruncatedNewton:
    """Newton's method that never forms the Hessian.

    Each iteration
      1. evaluates value and gradient g (one pass),
      2. solves H p ≈ g by conjugate gradients, preconditioned by the Hessian's diagonal with the intercept eliminated,
         to a relative residual that tightens as the gradient falls (one pass a product),
      3. stops when √(gᵀp) ≤ ``tol``,
      4. shortens the step until the objective falls.

    Memory: a few vectors of the size of the weights. Without ``strict`` it stops as soon as the certificate is within
    ``tol`` of the objective.
    """

    max_products: int = 250
    watch_divergence: bool = True
    strict: bool = True
    name: str = "truncated-newton"

    def minimise(self, objective: Any, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser with its certificate."""
        recorder = Recorder(objective)
        e = objective.evaluate(w)  # 1
        first = np.nan
        step, decrements, diverging = 0.0, [np.inf], False
        while True:
            recorder.add(e, step)
            if not e.gradient.any() or len(recorder.records) > max_iter:
                break
            near = not self.strict and decrements[-1] ** 2 <= 1e-2 * abs(e.value)
            if near or len(recorder.records) % 2:  # far from the optimum it serves for two steps
                metric = objective.preconditioner(e.w)
            norm = float(np.sqrt(e.gradient @ metric.solve(e.gradient)))
            if not norm > 0.0:
                break
            first = norm if np.isnan(first) else first
            watch = Watch.at(objective, e, metric, tol) if near else None
            share = min(LOOSEST, max(float(np.sqrt(norm / first)), 0.0 if self.strict else TIGHTEST))
            p = conjugate_gradients(objective, e, metric, share, self.max_products, watch)  # 2
            if watch is not None and watch.certificate is not None:
                return SolverResult(e.w, recorder.trace(), watch.certificate, e)
            slope = float(p @ e.gradient)
            decrements.append(float(np.sqrt(max(slope, 0.0))))
            if decrements[-1] <= tol or stalled(decrements, e.value, tol):  # 3
                break
            diverging = self.watch_divergence and looks_separated(decrements[1:])
            if diverging:
                break
            moved = line_search(objective, e, p, slope, order=1)  # 4
            if moved is None:
                break
            e, step = moved
        return certified(objective, e, recorder, tol, diverging=diverging)


@dataclass
class Watch:
    """Watches conjugate gradients at a point and certifies it as soon as the residual allows.

    With H p = g − r the decrement is bounded by λ² = pᵀg + pᵀr + rᵀH⁻¹r, the last term by the prior. If it ``judges``
    it says no, too, once the terms before that are too large, and gives up where the prior is too wide to tell.
    """

    objective: Any
    e: Evaluation
    bound: Any
    tol: float
    judges: bool = False
    certificate: Certificate | None = None

    @classmethod
    def at(cls, objective: Any, e: Evaluation, metric: Preconditioner, tol: float) -> Watch | None:
        """Return one for the point ``e``, if the objective can bound its inverse Hessian."""
        bound = objective.inverse_bound(e, metric)
        return None if bound is None else cls(objective, e, bound, tol)

    def reached(self, p: Array, r: Array) -> bool:
        """Whether this is the end, given a step and its residual: with a certificate or without."""
        limit = self.tol * max(1.0, abs(self.e.value))
        least = float(p @ (self.e.gradient + r))
        decrement = float(np.sqrt(max(least + self.bound.square(r), 0.0))) + self.bound.noise
        gap = gap_bound(decrement, self.bound.rho)
        converged = bool(np.isfinite(gap) and gap <= limit)
        if not converged and not (self.judges and 0.5 * least > limit):
            return self.judges and self.bound.rho**2 * least >= 1.0
        norm = float(np.linalg.norm(self.e.gradient))
        self.certificate = Certificate(converged, gap, norm, np.nan, self.objective.passes, True)
        return True


def conjugate_gradients(
    objective: Any, e: Evaluation, metric: Solves, share: float, limit: int, watch: Watch | None = None
) -> Array:
    """Solve H(w) p = g by preconditioned conjugate gradients from zero, to a ``share`` of g in the metric's norm.

    It ends at once when ``watch`` has its certificate.
    """
    p = np.zeros_like(e.w)
    r = e.gradient.copy()
    if watch is not None and watch.reached(p, r):
        return p
    z = metric.solve(r)
    q = z.copy()
    rz = r @ z
    enough = share**2 * rz
    for _ in range(limit):
        Hq = objective.hessian_product(e.w, q)
        curvature = q @ Hq
        if curvature <= 0.0:
            break
        alpha = rz / curvature
        p += alpha * q
        r -= alpha * Hq
        if watch is not None and watch.reached(p, r):
            break
        z = metric.solve(r)
        rz, previous = r @ z, rz
        if rz <= enough:
            break
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
