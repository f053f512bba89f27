"""Newton's method for tables with factors by code, whose Hessian costs about two gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from oddsmith.bordered import BorderedDiagonal
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue, Recorder, SolverResult, TableSampled
from oddsmith.solvers.lbfgs import Pairs, add_pair, two_loop
from oddsmith.solvers.line_search import line_search
from oddsmith.solvers.newton import Newton, continue_with_newton, looks_separated, stalled
from oddsmith.solvers.subsample_certificate import certify_from


@dataclass(frozen=True, kw_only=True)
class TableNewton:
    """Newton's method, if possible from the optimum of a sample, with gradients in place of Hessians near the end.

      1. Newton's method on ``sample_rows`` rows (0: none), without the factor that is eliminated, gives the start, and
         its Hessian the first step, beside the steps that the levels of that factor take on their own.
      2. That step, and each that changes activations by much, is followed by a Hessian, a shorter one by a gradient:
         L-BFGS goes on from the Hessian before.
      3. The last Hessian certifies the end. With ``strict``, steps go on until one of Newton's method gives all digits.

    Cost: one or two Hessians and three or four gradients; with ``strict``, five or so of each.
    """

    sample_rows: int = 0
    strict: bool = False
    watch_divergence: bool = True
    seed: int = 0
    name: str = "newton"

    def minimise(self, objective: TableSampled, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "Newton")
        start = [self._start(objective, w, recorder)]  # emptied below: nobody else may hold its Hessian
        del w
        e, result = self._descend(objective, start, recorder, tol, max_iter)
        if result is not None:
            return result
        newton = Newton(watch_divergence=self.watch_divergence, strict=self.strict)
        left = max(1, max_iter - len(recorder.records))
        return continue_with_newton(newton, objective, e.w, recorder, tol, left)

    def _start(self, objective: TableSampled, w: Array, recorder: Recorder) -> tuple[ObjectiveValue, Array | None]:
        """Return the evaluation at the optimum of a sample, and the step by about the Hessian there (1).

        If ``w`` is better, the evaluation there, which has a Hessian, and None.
        """
        if not self.sample_rows:
            return objective.evaluate(w, order=2), None
        settings, x = policy.POLICY, w.copy()
        sample = objective.table_sample(self.sample_rows, self.seed)
        kept, rest = sample.kept, sample.rest
        error = math.sqrt(rest.size / rest.sampling_fraction)  # which the next step mends
        newton = Newton(watch_divergence=False, stop=error)
        found = newton.end(rest, w[kept], tol=1e-8, max_iter=settings.sample_iterations)
        if not math.isfinite(found.value):
            return objective.evaluate(w, order=2), None
        recorder.add_subsample(found, f"Newton on {rest.n_rows:,} rows")
        value, x[kept], H = found.value, found.w, found.dense_hessian
        whole = None if kept.all() else sample.whole
        del sample, rest, found  # rows that are not needed make room
        e = objective.evaluate(x)
        if not e.value <= settings.misleading * value:
            sample = objective.table_sample(self.sample_rows, self.seed)
            if not e.value <= sample.rest.evaluate(w[kept]).value:
                return objective.evaluate(w, order=2), None
        return e, objective.sample_step(H, e, whole)

    def _descend(
        self,
        objective: TableSampled,
        start: list[tuple[ObjectiveValue, Array | None]],
        recorder: Recorder,
        tol: float,
        max_iter: int,
    ) -> tuple[ObjectiveValue, SolverResult | None]:
        """Return the last point and, if it is certified, the result (steps 2, the first of them as given, and 3)."""
        e, first = start.pop()
        settings, pairs, guess, decrements = policy.POLICY, Pairs(), e, list[float]()
        step, near = 0.0, settings.table_near[self.strict]
        for _ in range(max_iter):
            recorder.add(e, step)
            exact = first is None
            if exact and not self.strict and gap_distance(objective, guess, e, tol) <= 1.0:  # 3
                certificate = certify_from(objective, e, guess, tol)
                if certificate.converged:
                    return e, recorder.result(e, certificate)
            p = self._direction(e, guess, pairs) if first is None else first
            slope = float(p @ e.gradient)
            if not (math.isfinite(slope) and slope > 0.0):
                break
            decrements.append(math.sqrt(slope))
            if stalled(decrements, e.value, tol):  # nor does the last Hessian certify: Newton's method says what it can
                break
            first = None
            if exact and self.strict and last_step_distance(objective, guess, e, tol) <= 1.0:
                break
            if exact and self.strict and self._diverges(decrements):
                break
            order = 2 if not exact or len(pairs) >= settings.table_steps or _change(guess, decrements[-1]) > near else 1
            if order == 2:  # the Hessian before makes room for the next one
                guess = e = replace(e, hessian=None)
                pairs.clear()
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
                moved = line_search(objective, e, p, slope, order=order)  # 2
            if moved is None and not exact:
                guess = e = objective.evaluate(e.w, order=2)
                continue
            if moved is None:
                break
            f, step = moved
            if f.hessian is None:
                # In half the memory: a pair is only a guess of the curvature, and consistent in itself.
                add_pair(pairs, (f.w - e.w).astype(np.float32), (f.gradient - e.gradient).astype(np.float32))
            else:
                guess, pairs = f, []
            e = f
            del moved, f, p  # nobody else may hold its Hessian
        return e, None

    def _direction(self, e: ObjectiveValue, guess: ObjectiveValue, pairs: Pairs) -> Array:
        """Return the direction from an earlier Hessian; few steps need no scale of it, which costs as much again."""
        factor = guess.factor()
        return two_loop(e.gradient, pairs, factor.solve, factor.norm if self.strict else None)

    def _diverges(self, decrements: list[float]) -> bool:
        return self.watch_divergence and looks_separated(decrements)


def _change(e: ObjectiveValue, decrement: float) -> float:
    """Return the root mean square of the change of activations by a step, from the curvature of the intercept."""
    H = e.hessian.A if isinstance(e.hessian, BorderedDiagonal) else e.hessian
    assert H is not None
    return decrement / math.sqrt(max(float(H[0, 0]), 1e-300))


def gap_distance(objective: TableSampled, guess: ObjectiveValue, e: ObjectiveValue, tol: float) -> float:
    """Return the distance from where the curvature at an earlier point is likely to certify, reached at 1."""
    margin, factor = policy.POLICY.table_margin, guess.factor()
    decrement = e.decrement(factor)
    distance = decrement / math.sqrt(2.0 * margin * e.allowed_gap(tol))
    if distance > 1.0:
        return distance
    assert guess.hessian is not None
    change = decrement * objective.self_concordance / margin
    least = objective.eigenvalue_bound(guess.hessian)
    least = least if change <= math.sqrt(least) else max(least, factor.smallest_eigenvalue)
    return max(distance, change / math.sqrt(max(least, 1e-300)))


def last_step_distance(objective: TableSampled, guess: ObjectiveValue, e: ObjectiveValue, tol: float) -> float:
    """Return the distance from the region where a Newton step is the last and needs no evaluation, reached at 1."""
    settings, p = policy.POLICY, guess.factor().solve(e.gradient)
    decrement = math.sqrt(max(0.0, float(p @ e.gradient)))
    change = objective.self_concordance * math.sqrt(float(p @ p))
    last = 2.0 * change / settings.same_activation if np.isfinite(change) else decrement / settings.diagonal_near
    return min(last, decrement / (settings.newton_digits * tol))  # Newton's method takes no step there
