"""Newton's method; on a likelihood this is iteratively reweighted least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from oddsmith.numerics import Array, SpdFactor
from oddsmith.records import TRACE_COLUMNS, Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import (
    SOLVERS,
    Factor,
    FusedNewton,
    Objective,
    ObjectiveValue,
    Recorder,
    Solver,
    SolverResult,
)
from oddsmith.solvers.certificate import NEGLIGIBLE, certify, decrement_bound, gap_bound
from oddsmith.solvers.line_search import line_search


@SOLVERS.register("newton")
@dataclass(frozen=True, kw_only=True)
class Newton:
    """Newton–Raphson with a line search (IRLS).

    Each iteration
      1. evaluates value, gradient g and Hessian H at w (one pass over the data),
      2. solves H p = g by Cholesky; where the observed H is not positive definite (some links), with the expected H,
      3. stops when p is below ``tol`` in units of the weights' own standard errors (√(gᵀp) ≤ tol / 100:
         convergence is quadratic, and the next-to-last step would leave fewer digits than R prints),
      4. shortens the step until the objective falls,
      5. takes the last step unchecked, if it is certain to end at the optimum with nearly the same Hessian.

    Cost: one pass and O(M³) an iteration. It returns early, as ``diverging``, when the decrements fall by the constant
    ratio typical of separated classes, so that the caller can check for separation. ``stop`` is a larger decrement at
    which to stop, for a subsample with a larger sampling error. Without ``strict``, it ends as soon as the certificate
    is within ``tol`` of the objective. If ``fused``, the first steps are left to an objective that takes them faster.
    """

    watch_divergence: bool = True
    strict: bool = True
    stop: float = 0.0
    fused: bool = True
    name: str = "newton"

    def minimise(self, objective: Objective, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        columns = TRACE_COLUMNS if objective.canonical else (*TRACE_COLUMNS, "hessian")
        recorder = Recorder(objective, "Newton", columns)
        e, found, diverging = self._descend(objective, w, recorder, tol, max_iter)
        if isinstance(found, Certificate):
            return recorder.result(e, found)
        factor, observed = found
        certificate = certify(objective, e, tol, factor)
        if diverging or not observed:  # without curvature of its own a point is no optimum
            certificate = replace(certificate, converged=False)
        return recorder.result(e, certificate, diverging=diverging)

    def end(self, objective: Objective, w: Array, *, tol: float, max_iter: int) -> ObjectiveValue:
        """Return the last point alone, for a subsample whose optimum is only a start."""
        return self._descend(objective, w, Recorder(objective, "Newton"), tol, max_iter)[0]

    def _descend(
        self, objective: Objective, w: Array, recorder: Recorder, tol: float, max_iter: int
    ) -> tuple[ObjectiveValue, Certificate | tuple[Factor, bool], bool]:
        """Return the last point, its certificate or the factor to certify it with, and whether weights diverge."""
        w, decrements = self._plain_steps(objective, w, recorder, tol, max_iter)
        e = objective.evaluate(w, order=2)  # 1
        step = float(len(decrements) > 0)
        while True:
            factor, observed = known = definite_factor(objective, e)  # 2
            p = e.newton_step if observed else factor.solve(e.gradient)
            slope = float(p @ e.gradient)
            decrements.append(math.sqrt(max(slope, 0.0)))
            recorder.add(e, step, "observed" if observed else "expected")
            if self._ends(decrements, e.value, tol, max_iter):  # 3
                return e, known, False
            last = self._last_step(objective, e, factor, p, tol) if observed or not self.strict else None  # 5
            if last is not None:
                return *last, False
            diverging = self._diverges(decrements)
            moved = None if diverging else line_search(objective, e, p, slope, order=2)  # 4
            if moved is None:
                return e, known, diverging
            e, step = moved

    def _plain_steps(
        self, objective: Objective, w: Array, recorder: Recorder, tol: float, max_iter: int
    ) -> tuple[Array, list[float]]:
        """Let the objective take the first steps, if it does so faster; return the point, and the decrements so far."""
        # The name is looked up, since the question whether an object has all that a protocol asks for takes longer.
        if not (self.fused and hasattr(objective, "newton_steps")):
            return w, []
        settings = policy.POLICY
        small = max(10.0 * settings.newton_digits * tol, self.stop)  # from there one step more ends unchecked
        steps = cast(FusedNewton, objective).newton_steps(w, min(max_iter, settings.fused_steps), small)
        if steps is None:
            return w, []
        recorder.add_steps(steps)
        return steps.w, steps.trace[:, 3].tolist()

    def _diverges(self, decrements: list[float]) -> bool:
        return self.watch_divergence and looks_separated(decrements)

    def _ends(self, decrements: list[float], value: float, tol: float, max_iter: int) -> bool:
        small = decrements[-1] <= max(policy.POLICY.newton_digits * tol, self.stop)
        return small or stalled(decrements, value, tol) or len(decrements) > max_iter

    def _last_step(
        self, objective: Objective, e: ObjectiveValue, factor: Factor, p: Array, tol: float
    ) -> tuple[ObjectiveValue, Certificate] | None:
        """Return the end of a fit and its certificate, if the next step is certain to be the last."""
        if self.strict:
            change = objective.self_concordance * math.sqrt(float(p @ p))
            is_last = change <= policy.POLICY.same_activation
        else:
            is_last = 0.5 * float(p @ e.gradient) <= e.allowed_gap(tol)
        if not is_last:
            return None
        final, certificate = unchecked_newton_step(objective, e, factor, tol)
        left = certificate.gradient_norm if self.strict else 0.0
        enough = certificate.converged and left <= policy.POLICY.newton_digits * tol
        return (final, certificate) if enough else None


def definite_factor(objective: Objective, e: ObjectiveValue) -> tuple[Factor, bool]:
    """Return the factor of the Hessian, or of the expected one if that is not positive definite, and which it is."""
    factor = e.factor()
    if objective.canonical or factor.complete:
        return factor, True
    return objective.evaluate(e.w, order=2, expected=True).factor(), False


def unchecked_newton_step(
    objective: Objective, e: ObjectiveValue, factor: Factor, tol: float
) -> tuple[ObjectiveValue, Certificate]:
    """Take a Newton step without an evaluation: self-concordance bounds the remaining decrement.

    A step of decrement λ leaves at most e^(ρλ) ρλ²/2. If that proves nothing, return the point itself with its own
    certificate.
    """
    certificate, decrement = certify(objective, e, tol, factor), factor.norm(e.gradient)
    # As in a certificate, any bound of the eigenvalues will do where little is left.
    for smallest in (factor.eigenvalue_floor, None) if isinstance(factor, SpdFactor) else (None,):
        bound = decrement_bound(factor, e, objective, smallest)
        u = bound.rho * bound.decrement
        left = 0.5 * u * bound.decrement * math.exp(min(u, 1.0))
        gap = gap_bound(left + (bound.decrement - decrement), bound.rho)
        if gap <= NEGLIGIBLE * e.allowed_gap(tol) and left <= policy.POLICY.newton_digits * tol:
            break
    if not (bound.exact and gap < certificate.gap):
        return e, certificate
    p = e.newton_step if factor is e.factor() else factor.solve(e.gradient)
    w, value = e.w - p, e.value - 0.5 * float(p @ e.gradient)
    final = replace(e, w=w, value=value, log_likelihood=objective.log_likelihood(w, value), gradient=0.0 * p)
    converged = bool(math.isfinite(gap) and gap <= tol * max(1.0, abs(value)))
    return final, replace(certificate, converged=converged, gap=float(gap), gradient_norm=float(left))


def continue_with_newton(
    newton: Newton, objective: Objective, w: Array, recorder: Recorder, tol: float, max_iter: int
) -> SolverResult:
    """Continue with Newton's method, of which few steps are left."""
    return continue_with(replace(newton, fused=False), objective, w, recorder, tol, max_iter)


def continue_with(
    solver: Solver[Any], objective: Objective, w: Array, recorder: Recorder, tol: float, max_iter: int
) -> SolverResult:
    """Continue with another solver, appending its iterations to the record (which may end with its start)."""
    result = solver.minimise(objective, w, tol=tol, max_iter=max_iter)
    if recorder.last is w:
        recorder.records.pop()
    recorder.records.extend(record[1:] for record in result.trace.records)
    recorder.columns = result.trace.columns
    return replace(result, trace=recorder.trace(), iterations=max(1, len(recorder.records) - 1))


def looks_separated(decrements: list[float]) -> bool:
    """Whether the squared decrements repeatedly fall by about 1/e, as they do when weights diverge.

    >>> looks_separated([1.0, 0.5, 0.3, 0.18, 0.11, 0.067]), looks_separated([1.0, 0.1, 1e-3, 1e-7])
    (True, False)
    """
    if len(decrements) < 6:
        return False
    ratios = np.square(np.divide(decrements[-4:], decrements[-5:-1]))
    least, most = policy.POLICY.separated_ratios
    return bool(np.all((ratios > least) & (ratios < most)))


def stalled(decrements: list[float], value: float, tol: float) -> bool:
    """Whether rounding keeps the decrement from falling any further, well below the tolerance on the gap."""
    if len(decrements) < 2 or decrements[-1] < 0.5 * decrements[-2]:
        return False
    return 0.5 * decrements[-1] ** 2 <= min(tol, 1e-10) * max(1.0, abs(value))
