"""Several scales of a Laplace prior solved together: one reading of the rows serves all of them.

A pass over many rows costs its reading; the gradients of several models are little more work. So the points of a path
advance together: each has its own weights and its own model of the Hessian, corrected by its own steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import (
    PRECISION,
    SparseOptimum,
    SparsePenalty,
    corrected,
    dual_gap,
    minimise_model,
    violation,
)
from oddsmith.statistics import Gradients, LossesParams


def batch_size(stated: SparseProblem) -> int:
    """Return how many scales are solved together: 1 where rows are few, or the loss has another form."""
    objective, settings = stated.objective, policy.POLICY
    plain = objective.shape[0] == 1 and objective.link is None and objective.whitening is None
    return settings.sparse_batch if stated.is_small and not stated.exact and plain else 1


def evaluate_together(objective: FoldObjective, points: Sequence[Array]) -> list[ObjectiveValue]:
    """Return value and gradient at several points: one pass."""
    raw = [objective.raw(x) for x in points]
    params = LossesParams(np.vstack([W for W, _ in raw]), np.concatenate([b for _, b in raw]), objective.center)
    sums = objective.fold(Gradients, params)
    unit = np.concatenate([[1.0], objective.scale])
    found = []
    for x, loss, slope in zip(points, sums.value, sums.gradient, strict=True):
        value, gradient = float(loss), slope / unit
        if objective.penalty is not None:
            more, extra = objective.penalty.at(x[None])
            value, gradient = value + more, gradient + extra[0]
        gradient = np.where(objective.free[0], gradient, 0.0)
        found.append(ObjectiveValue(w=x, value=value, log_likelihood=-float(loss), gradient=gradient))
    return found


@dataclass(kw_only=True)
class _Point:
    """One scale on its way: where to look next, the last accepted evaluation, and the model there."""

    penalty: SparsePenalty
    target: Array
    H: Array
    e: ObjectiveValue | None = None
    value: float = np.inf
    gap: float = np.inf
    steps: int = 0
    done: bool = False

    def take(self, new: ObjectiveValue, tol: float) -> None:
        """Go to the point that was evaluated if the objective falls there, else half the way back; look further."""
        value = new.value + self.penalty.value(new.w)
        self.steps += 1
        if self.e is not None and not value <= self.value + 8.0 * EPS * abs(self.value):
            self.target = 0.5 * (self.target + self.e.w)
            return
        if self.e is not None:
            self.H = corrected(self.H, new.w - self.e.w, new.gradient - self.e.gradient)
        self.e, self.value, self.gap = new, value, dual_gap(new, self.penalty)
        self.done = self.gap <= tol * max(1.0, abs(value))
        if not self.done:
            missed = violation(self.penalty.blocks, new.w, new.gradient)
            self.target = minimise_model(self.H, new.gradient, new.w, self.penalty.blocks, tol=PRECISION * missed)


def solve_together(
    stated: SparseProblem, scales: Sequence[float], e: ObjectiveValue, H: Array, *, tol: float
) -> list[SparseOptimum]:
    """Return the optima at some scales, from the point ``e`` with a Hessian near it."""
    points = []
    for scale in scales:
        penalty = stated.penalty_at(scale, e)
        missed = violation(penalty.blocks, e.w, e.gradient)
        start = minimise_model(H, e.gradient, e.w, penalty.blocks, tol=1e-3 * missed)
        points.append(_Point(penalty=penalty, target=start, H=H, e=e, value=e.value + penalty.value(e.w)))
    return _advance(stated, scales, points, tol)


def solve_from_sample(
    stated: SparseProblem, sample: SparseProblem, scales: Sequence[float], starts: Sequence[ObjectiveValue], tol: float
) -> list[SparseOptimum]:
    """Return the optima at all scales from those of a sample of the rows, each with the sample's Hessian there."""
    points = []
    for scale, start in zip(scales, starts, strict=True):
        H = (start if start.hessian is not None else sample.objective.evaluate(start.w, 2)).dense_hessian
        points.append(_Point(penalty=stated.penalty_at(scale, start), target=start.w, H=H))
    return _advance(stated, scales, points, tol)


def _advance(
    stated: SparseProblem, scales: Sequence[float], points: Sequence[_Point], tol: float
) -> list[SparseOptimum]:
    """Take all points to their optima, a pass for all of them; a point that is slow is solved by itself in the end."""
    for _ in range(policy.POLICY.sparse_batch_rounds):
        open_points = [point for point in points if not point.done]
        if not open_points:
            break
        evaluations = evaluate_together(stated.objective, [point.target for point in open_points])
        for point, new in zip(open_points, evaluations, strict=True):
            point.take(new, tol)
    results = []
    for scale, point in zip(scales, points, strict=True):
        assert point.e is not None
        if point.done:
            gap = max(point.gap, 0.0)
            found = SparseOptimum(e=point.e, value=point.value, gap=gap, H=point.H, iterations=point.steps)
            results.append(found)
        else:
            stated.H = point.H
            results.append(stated.solve(scale, point.e, tol=tol, max_iter=stated.problem.max_iter))
    return results
