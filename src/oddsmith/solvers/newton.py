"""Newton's method; on a likelihood this is iteratively reweighted least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.numerics import EPS, Array, SpdFactor, factor_spd
from oddsmith.records import TRACE_COLUMNS, Certificate
from oddsmith.solvers.base import SOLVERS, Evaluation, Objective, Recorder, SolverResult
from oddsmith.solvers.certificate import certify, curb_from, gap_bound

ARMIJO = 1e-4
SMALLEST_STEP = 2.0**-30
SAME = 1e-9
"""A step that changes activations by no more than this leaves the Hessian as it is, to nine digits."""


@SOLVERS.register("newton")
@dataclass(frozen=True)
class Newton:
    """Newton–Raphson with a line search (IRLS).

    Each iteration
      1. evaluates value, gradient g and Hessian H at w (one pass over the data),
      2. solves H p = g by Cholesky; where the observed H is not positive definite (some links), with the expected H,
      3. stops when p is below ``tol`` in units of the weights' own standard errors (√(gᵀp) ≤ tol / 100:
         convergence is quadratic, and the next-to-last step would leave fewer digits than R prints),
      4. shortens the step until the objective falls,
      5. takes the last step unchecked, where it is sure to end at the optimum and to leave the Hessian as it is.

    Cost: one pass and O(M³) an iteration. It returns early, as ``diverging``, when the decrements fall by the
    constant ratio that separated classes produce, so that the caller can look into it. ``stop`` is a
    larger decrement to stop at, for a sample whose own error is larger still. Without ``strict`` it ends as soon as the
    certificate is within ``tol`` of the objective.
    """

    watch_divergence: bool = True
    strict: bool = True
    stop: float = 0.0
    name: str = "newton"

    def minimise(self, objective: Objective, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser with its certificate."""
        recorder = Recorder(objective, TRACE_COLUMNS if objective.canonical else (*TRACE_COLUMNS, "hessian"))
        e = objective.evaluate(w, order=2)  # 1
        step, decrements, diverging = 0.0, [], False
        while True:
            factor, observed = definite_factor(objective, e)  # 2
            p = factor.solve(e.gradient)
            slope = float(p @ e.gradient)
            decrements.append(float(np.sqrt(max(slope, 0.0))))
            recorder.add(e, step, "observed" if observed else "expected")
            if decrements[-1] <= max(0.01 * tol, self.stop) or stalled(decrements, e.value, tol):  # 3
                break
            if len(decrements) > max_iter:
                break
            near = self.strict and observed and objective.reach * float(np.linalg.norm(p)) <= SAME
            if near or (not self.strict and 0.5 * slope <= tol * max(1.0, abs(e.value))):  # 5
                final, certificate = leap(objective, e, factor, tol)
                if certificate.converged and not (self.strict and certificate.gradient_norm > 0.01 * tol):
                    return SolverResult(final.w, recorder.trace(), certificate, final)
            diverging = self.watch_divergence and looks_separated(decrements)
            if diverging:
                break
            moved = line_search(objective, e, p, slope, order=2)  # 4
            if moved is None:
                break
            e, step = moved
        certificate = certify(objective, e, tol, factor)
        if diverging or not observed:  # without curvature of its own a point is no optimum
            certificate = replace(certificate, converged=False)
        return SolverResult(e.w, recorder.trace(), certificate, e, diverging)


def definite_factor(objective: Any, e: Evaluation) -> tuple[SpdFactor, bool]:
    """Return the factor of the Hessian, or of the expected one where that is not positive definite, and which it is."""
    assert e.hessian is not None
    factor = factor_spd(e.hessian, tol=0.0)
    if objective.canonical or factor.complete:
        return factor, True
    expected = objective.evaluate(e.w, order=2, expected=True).hessian
    return factor_spd(expected, tol=0.0), False


def leap(objective: Any, e: Evaluation, factor: SpdFactor, tol: float) -> tuple[Evaluation, Certificate]:
    """Take a Newton step without a pass to check it: self-concordance says how little is left.

    A step of decrement λ leaves one of at most e^(ρλ) ρλ²/2. Where that proves nothing the point itself is returned
    with its own certificate.
    """
    certificate = certify(objective, e, tol, factor)
    curb = curb_from(factor, e, objective)
    u = curb.rho * curb.decrement
    left = 0.5 * u * curb.decrement * float(np.exp(min(u, 1.0)))
    noise = curb.decrement - factor.norm(e.gradient)
    gap = gap_bound(left + noise, curb.rho)
    if not (curb.exact and gap < certificate.gap):
        return e, certificate
    p = factor.solve(e.gradient)
    w, value = e.w - p, e.value - 0.5 * float(p @ e.gradient)
    final = replace(e, w=w, value=value, log_likelihood=objective.log_likelihood(w, value), gradient=0.0 * p)
    converged = np.isfinite(gap) and gap <= tol * max(1.0, abs(value))
    return final, replace(certificate, converged=bool(converged), gap=gap, gradient_norm=float(left))


def go_on(newton: Newton, objective: Any, w: Array, recorder: Recorder, tol: float, max_iter: int) -> SolverResult:
    """Go on with Newton's method, its iterations appended to those recorded (of which its start may be the last)."""
    result = newton.minimise(objective, w, tol=tol, max_iter=max_iter)
    known = recorder.records[:-1] if recorder.last is w else recorder.records
    later = tuple((len(known) + record[0], *record[1:]) for record in result.trace.records)
    return replace(result, trace=replace(result.trace, records=(*known, *later)))


def looks_separated(decrements: list[float]) -> bool:
    """Whether the squared decrements fall by about 1/e again and again, as they do when weights run away.

    >>> looks_separated([1.0, 0.5, 0.3, 0.18, 0.11, 0.067]), looks_separated([1.0, 0.1, 1e-3, 1e-7])
    (True, False)
    """
    if len(decrements) < 6:
        return False
    ratios = np.square(np.divide(decrements[-4:], decrements[-5:-1]))
    return bool(np.all((ratios > 0.15) & (ratios < 0.75)))


def stalled(decrements: list[float], value: float, tol: float) -> bool:
    """Whether rounding keeps the decrement from falling any further, well below the tolerance on the gap."""
    if len(decrements) < 2 or decrements[-1] < 0.5 * decrements[-2]:
        return False
    return 0.5 * decrements[-1] ** 2 <= min(tol, 1e-10) * max(1.0, abs(value))


def line_search(
    objective: Objective, e: Evaluation, p: Array, slope: float, *, order: int, rounding: float = 8.0 * EPS
) -> tuple[Evaluation, float] | None:
    """Return the first of the points w − p, w − p/2, … at which the objective falls enough, or None.

    ``slope`` is gᵀp > 0. A fall smaller than the (relative) rounding counts as one, or the last steps would be refused.
    """
    step = 1.0
    noise = rounding * abs(e.value)
    while step > SMALLEST_STEP:
        f = objective.evaluate(e.w - step * p, order=order)
        if np.isfinite(f.value) and f.value <= e.value - ARMIJO * step * slope + noise:
            return f, step
        step *= 0.5
    return None
