"""Several scales of a Laplace prior solved together: one reading of the rows serves all of them.

A pass over many rows costs its reading; the gradients of several models are little more work. So the points of a path
advance together, each with its own weights and its own model of the Hessian, corrected by its own steps. A few scales
begin, at the optimum of a sample or of a similar problem, and their second pass gives their Hessians over the columns
that matter; the others begin between two neighbours, as soon as these are near their optima.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import linalg
from scipy.special import expit

from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import Indices
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import (
    PRECISION,
    ROUNDING,
    Ending,
    ProximalNewton,
    SparseOptimum,
    SparsePenalty,
    corrected,
    dual_gap,
    is_accurate,
    minimise_model,
    model_fall,
    model_minimum,
    violation,
)
from oddsmith.statistics import Gradients, LossesParams

NEAR_BOUND = 0.9  # A gradient of this share of its bound may reach it nearby.
SLOW_STEPS = 5  # Steps of a point after which its Hessian is formed.
NEAR = 0.3  # The relative gap of a point from which its neighbours begin.
SAMPLE_TOLERANCE, SAMPLE_STEPS = 1e-2, 20  # The relative gap of a fit to a sample, and its most steps.


def advance_together(stated: SparseProblem) -> bool:
    """Return whether scales are solved together: rows are many, and the loss is that of two classes."""
    objective = stated.objective
    plain = objective.shape[0] == 1 and objective.link is None and objective.whitening is None
    return stated.is_small and not stated.exact and plain


def models_at(objective: FoldObjective, points: Sequence[Array]) -> LossesParams:
    """Return the weights of several models of two classes, as kernels read them."""
    X = np.where(objective.free[0], np.stack(points), 0.0)
    return LossesParams(X[:, 1:] / objective.scale, X[:, 0].copy(), objective.center)


def evaluations(
    objective: FoldObjective, points: Sequence[Array], losses: Array, gradients: Array
) -> list[ObjectiveValue]:
    """Return the evaluations at several points with the sums of the kernels there."""
    X, free = np.stack(points), objective.free[0]
    values, slopes = losses, gradients / np.concatenate([[1.0], objective.scale])
    if objective.penalty is not None:
        more = [objective.penalty.at(x[None]) for x in X]
        values, slopes = values + [value for value, _ in more], slopes + np.vstack([slope for _, slope in more])
    slopes = np.where(free, slopes, 0.0)
    return [
        ObjectiveValue(w=x, value=float(value), log_likelihood=-float(loss), gradient=slope)
        for x, value, loss, slope in zip(points, values, losses, slopes, strict=True)
    ]


def split_hessians(objective: FoldObjective, sums: Array, members: Sequence[Indices]) -> Iterator[Array]:
    """Yield the Hessians over the ``members`` of each model, in the coordinates of the solver, from kernel sums."""
    first, unit = 0, np.append(1.0, objective.scale)
    for which in members:
        m = len(which)
        yield sums[..., first : first + m * m].reshape(*sums.shape[:-1], m, m) / np.outer(unit[which], unit[which])
        first += m * m


def with_block(H: Array, which: Indices, G: Array) -> Array:
    """Return a Hessian that is ``G`` over some coordinates; of H it keeps how the others depend on these.

    With T the regression of the other coordinates on these and R what it leaves of them, both of H, the blocks are
    ``G``, ``G T`` and ``R + Tᵀ G T``: positive semidefinite, if H and G are.

    >>> with_block(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0]), np.array([[2.0]])).round(9).tolist()
    [[2.0, 1.0], [1.0, 1.25]]
    """
    others = np.setdiff1d(np.arange(len(H)), which)
    A, B, C = (H[np.ix_(*each)] for each in ((which, which), (which, others), (others, others)))
    little = 1e-10 * float(np.diag(A).max(initial=0.0)) + 1e-300
    T = linalg.solve(A + little * np.eye(len(A)), B, assume_a="pos") if B.size else B
    new = np.empty_like(H)
    new[np.ix_(which, which)], new[np.ix_(which, others)] = G, G @ T
    new[np.ix_(others, which)] = new[np.ix_(which, others)].T
    new[np.ix_(others, others)] = C - B.T @ T - T.T @ (B - A @ T) + T.T @ G @ T
    return new


@dataclass(kw_only=True)
class BatchPoint:
    """One scale on its way: where to look next, the last accepted evaluation, and the model there.

    ``slope`` is the gradient that the model predicts at the target. With ``formed`` the model has the Hessian there.
    """

    penalty: SparsePenalty
    target: Array
    H: Array | None
    slope: Array | None = None
    formed: bool = False
    e: ObjectiveValue | None = None
    value: float = np.inf
    gap: float = np.inf
    steps: int = 0
    done: bool = False
    ending: Ending | None = None

    @property
    def is_near(self) -> bool:
        """Whether neighbours may begin here."""
        return self.e is not None and self.gap <= NEAR * max(1.0, abs(self.value))

    def take(self, new: ObjectiveValue, tol: float) -> None:
        """Go to the point that was evaluated if the objective falls there, else half the way back; look further."""
        assert self.H is not None
        value = new.value + self.penalty.value(new.w)
        self.steps += 1
        if self.e is not None and not value <= self.value + 8.0 * EPS * abs(self.value):
            self.target, self.formed = 0.5 * (self.target + self.e.w), False
            return
        if self.e is not None and not self.formed:
            self.H = corrected(self.H, new.w - self.e.w, new.gradient - self.e.gradient)
        self.e, self.value, self.gap, self.formed = new, value, dual_gap(new, self.penalty), False
        self.done = self.gap <= tol * max(1.0, abs(value)) and (self.ending is None or self._ends(new, self.ending))
        if not self.done:
            self.look(self.H, new.gradient, new.w)

    def look(self, H: Array, gradient: Array, x: Array) -> None:
        """Look next at the minimum of a model at ``x``."""
        self.target = model_minimum_near(H, gradient, x, self.penalty)
        self.slope = gradient + H @ (self.target - x)

    @property
    def members(self) -> Indices:
        """The coordinates that are not zero at the target, or nearly so, and those without a penalty."""
        blocks = self.penalty.blocks
        keep = (blocks.norms(self.target) > 0.0) | (blocks.strength == 0.0)
        if self.slope is not None:
            keep |= blocks.norms(self.slope) > NEAR_BOUND * blocks.strength
        return np.unique(blocks.member[blocks.of_members(keep)])

    def form(self, members: Indices, G: Array) -> None:
        """Take the Hessian of the loss at the target, over some coordinates."""
        assert self.H is not None
        self.H, self.formed = with_block(self.H, members, G + np.diag(self.penalty.ridge[members])), True

    def bound(self, penalty: SparsePenalty) -> None:
        """Take the same penalty with another bound of the free coordinates."""
        self.penalty = penalty
        if self.ending is not None:
            self.ending.penalty = penalty

    def _ends(self, new: ObjectiveValue, ending: Ending) -> bool:
        """Return whether the gap is near what is left."""
        assert self.H is not None
        floor = ROUNDING * abs(self.value)
        if self.gap > floor:
            self.gap = min(self.gap, ending.moved_gap(new))
        target = model_minimum(self.H, new, self.penalty)
        ends = ending.reached(self.gap, max(model_fall(self.H, new, self.penalty, target), floor))
        return (ends and is_accurate(self.H, new.w, target, self.penalty, self.value)) or ending.is_over

    def settle(self, found: SparseOptimum) -> None:
        """End at the optimum that was found otherwise."""
        self.e, self.value, self.gap, self.H, self.done = found.e, found.value, found.gap, found.H, True
        self.steps += found.iterations


@dataclass(kw_only=True)
class PathBatch:
    """The points of a path by their places in ``scales``, those that have begun; at ``null`` all weights are zero."""

    stated: SparseProblem
    scales: Sequence[float]
    null: ObjectiveValue
    points: dict[int, BatchPoint]
    mean_bound: float | None = None
    passes: int = 0

    @classmethod
    def begun(
        cls, stated: SparseProblem, scales: Sequence[float], e: ObjectiveValue, guide: PathBatch | None, tol: float
    ) -> PathBatch:
        """Begin at some scales: where a guide ended, or a sample; without either these are solved one by one."""
        places = first_places(len(scales))
        some = [scales[k] for k in places]
        batch, sample = cls(stated=stated, scales=scales, null=e, points={}), stated.on_sample()
        if guide is not None and list(guide.scales) == list(scales):
            starts = guide.starts(stated)
        elif sample is not None:
            starts = _sample_optima(sample, some, e)
        else:
            for k in places:
                found = stated.solve(scales[k], e, tol=tol, max_iter=stated.problem.max_iter)
                batch._add(k, found.e.w, found.H, found.e).settle(found)
                e = found.e
            return batch
        for k, (w, H) in zip(places, starts, strict=True):
            point = batch._add(k, w, H, e)
            if dual_gap(e, point.penalty) <= tol * max(1.0, abs(e.value)):  # all weights are zero
                point.target, point.e, point.value = e.w, e, e.value + point.penalty.value(e.w)
                point.gap, point.done = dual_gap(e, point.penalty), True
        return batch

    def solve(self, tol: float) -> list[SparseOptimum]:
        """Take all points to their optima, a pass for all of them; one that is slow is solved by itself in the end."""
        while True:
            self._bisect()
            open_points = {k: point for k, point in sorted(self.points.items()) if not point.done}
            if not open_points:
                break
            for (k, point), new in zip(open_points.items(), self._evaluate(list(open_points.values())), strict=True):
                point.take(new, tol)
                if point.steps >= policy.POLICY.sparse_batch_rounds and not point.done:
                    self._solve_alone(k, point, tol)
        return [optimum_of(self.points[k]) for k in range(len(self.scales))]

    def _evaluate(self, points: list[BatchPoint]) -> list[ObjectiveValue]:
        """Return the evaluations of points where they look next: one pass.

        The first pass also finds the means of the classes, the second the Hessians of all points over the coordinates
        that matter; later passes find those of points that are slow.
        """
        objective, targets = self.stated.objective, [point.target for point in points]
        self.passes += 1
        with_means = self.passes == 1 and has_mean_bound(self.stated)
        if with_means:
            targets = [*targets, intercept_moved(self.null.w)]
        free, none = np.flatnonzero(objective.free[0]), np.zeros(0, dtype=np.intp)
        due = [self.passes == 2 or point.steps == SLOW_STEPS for point in points]
        members = tuple(
            np.intersect1d(point.members, free) if each else none for point, each in zip(points, due, strict=True)
        )
        models = replace(models_at(objective, targets), members=members if any(due) else ())
        sums = objective.fold(Gradients, models)
        found = evaluations(objective, targets, sums.value, sums.gradient)
        for point, which, G in zip(
            points, members, split_hessians(objective, sums.hessian, models.members), strict=False
        ):
            if len(which):
                point.form(which, G)
        if with_means:
            self.mean_bound = mean_bound(self.stated, self.null, found.pop())
            for k, point in self.points.items():
                point.bound(bounded_penalty(self.stated, self.scales[k], self.null, self.mean_bound))
        return found

    def starts(self, stated: SparseProblem) -> list[tuple[Array, Array]]:
        """Return where the path of a similar problem over the same columns may begin: some weights and Hessians."""
        old, new = self.stated.coordinates, stated.coordinates
        back = np.diag(np.concatenate([[1.0], old.scale / new.scale]))
        back[0, 1:] = (old.center - new.center) / new.scale
        ahead = np.diag(np.concatenate([[1.0], new.scale / old.scale]))
        ahead[0, 1:] = (new.center - old.center) / old.scale
        share = stated.objective.weight / self.stated.objective.weight
        optima = [optimum_of(self.points[k]) for k in first_places(len(self.scales))]
        return [(ahead @ each.e.w, share * (back.T @ each.H @ back)) for each in optima]

    def hessian_near(self, k: int) -> Array:
        """Return a model of the Hessian at a scale, between those that are kept."""
        places = [place for place in sorted(self.points) if self.points[place].H is not None]
        above = next(place for place in places if place >= k)
        below = max((place for place in places if place <= k), default=above)
        one, other = self.points[below].H, self.points[above].H
        assert one is not None and other is not None
        t = (k - below) / max(1, above - below)
        return one if t == 0.0 else (1.0 - t) * one + t * other

    def _add(self, k: int, target: Array, H: Array, e: ObjectiveValue) -> BatchPoint:
        stated, penalty = self.stated, bounded_penalty(self.stated, self.scales[k], e, self.mean_bound)
        ending = None
        if stated.tight:
            ending = Ending(objective=stated.objective, penalty=penalty, curvature=stated.curvature_at)
        self.points[k] = BatchPoint(penalty=penalty, target=target, H=H, ending=ending)
        return self.points[k]

    def _solve_alone(self, k: int, point: BatchPoint, tol: float) -> None:
        assert point.e is not None
        self.stated.H = point.H
        point.settle(self.stated.solve(self.scales[k], point.e, tol=tol, max_iter=self.stated.problem.max_iter))

    def _bisect(self) -> None:
        """Begin between neighbours that are near their optima, as many as there is memory for their Hessians."""
        room, n = batch_room(self.stated), len(self.scales)
        kept = set(range(n) if n <= room else first_places(n))
        places = sorted(self.points)
        for before, k, after in zip([-1, *places], places, [*places[1:], len(self.scales)], strict=False):
            if self.points[k].done and k not in kept and before >= k - 1 and after <= k + 1:
                self.points[k].H = None
        for a, b in pairwise(places):
            one, other = self.points[a], self.points[b]
            live = sum(point.H is not None for point in self.points.values())
            waiting = any(not point.done for point in self.points.values())
            if b - a > 1 and one.is_near and other.is_near and (live < room or not waiting):
                self._begin_between(a, b, (a + b) // 2)

    def _begin_between(self, a: int, b: int, k: int) -> None:
        """Begin at the minimum of the model between two points; its gradient is interpolated, with its curvature."""
        one, other, t = self.points[a], self.points[b], (k - a) / (b - a)
        assert one.e is not None and other.e is not None and one.H is not None and other.H is not None
        x, H = (1.0 - t) * one.e.w + t * other.e.w, (1.0 - t) * one.H + t * other.H
        bend = 0.5 * t * (1.0 - t) * ((other.H - one.H) @ (other.e.w - one.e.w))
        gradient = (1.0 - t) * one.e.gradient + t * other.e.gradient - bend
        self._add(k, x, H, one.e).look(H, gradient, x)


def batch_room(stated: SparseProblem) -> int:
    """Return how many Hessians there is memory for."""
    return max(1, int(policy.POLICY.sparse_batch_bytes / (8.0 * stated.objective.size**2)))


def bounded_penalty(stated: SparseProblem, scale: float, e: ObjectiveValue, mean_bound: float | None) -> SparsePenalty:
    """Return the penalty at a scale; what is known of the means of the classes bounds the optimum's intercept."""
    penalty = stated.penalty_at(scale, e)
    if mean_bound is None:
        return penalty
    # A class's mean activation is on the wrong side by at most its loss: the rest of it is due to the weights.
    least = float(stated.problem.class_weight.min())
    value = e.value + penalty.value(e.w)
    return replace(penalty, reach=value * (1.0 / least + scale * mean_bound))


def has_mean_bound(stated: SparseProblem) -> bool:
    """Return whether means of classes bound the intercept: there are no offsets, and no other weight is free."""
    penalised = stated.unit.blocks.strength > 0.0
    return not stated.problem.source.has_offset and stated.problem.intercept and (~penalised).sum() <= 1


def intercept_moved(w: Array) -> Array:
    """Return weights with another intercept."""
    moved = w.copy()
    moved[0] += 1.0
    return moved


def mean_bound(stated: SparseProblem, e: ObjectiveValue, moved: ObjectiveValue) -> float:
    """Return the largest mean of a column in a class, against its penalty at scale 1.

    Of ``e`` and ``moved`` all weights are zero, and the intercepts differ.
    """
    problem, blocks = stated.problem, stated.unit.blocks
    penalised = blocks.strength > 0.0
    p, q = float(expit(e.w[0])), float(expit(moved.w[0]))
    total = (moved.gradient - e.gradient) / (q - p)
    second = p * total - e.gradient
    first_mean, second_mean = (total - second) / problem.class_weight[0], second / problem.class_weight[1]
    largest = np.maximum(blocks.norms(first_mean), blocks.norms(second_mean))
    return float(np.max(largest[penalised] / blocks.strength[penalised], initial=0.0))


def first_places(n: int) -> list[int]:
    """Return the places of a path at which it begins: the ends, and some between them.

    >>> first_places(20)
    [0, 7, 15, 19]
    """
    stride = policy.POLICY.sparse_stride
    return sorted({0, *range(stride - 1, n, stride), n - 1})


def model_minimum_near(H: Array, gradient: Array, x: Array, penalty: SparsePenalty) -> Array:
    """Return the minimum of a model to a small part of what its conditions are missed by at ``x``."""
    missed = violation(penalty.blocks, x, gradient)
    return minimise_model(H, gradient, x, penalty.blocks, tol=PRECISION * missed)


def _sample_optima(sample: SparseProblem, scales: Sequence[float], e: ObjectiveValue) -> list[tuple[Array, Array]]:
    """Return the weights of the optima of a sample, nearly, and the Hessians there; ``e`` is all rows' null point."""
    solver, objective, found = ProximalNewton(tol=SAMPLE_TOLERANCE, max_iter=SAMPLE_STEPS), sample.objective, []
    at = objective.evaluate(e.w, 2)
    H = at.dense_hessian
    for scale in scales:
        optimum = solver.minimise(objective, sample.penalty_at(scale, at), at, H)
        at, H = optimum.e, optimum.H
        found.append((at.w, H))
    return found


def optimum_of(point: BatchPoint) -> SparseOptimum:
    """Return where a point ended."""
    assert point.e is not None
    H = np.zeros((0, 0)) if point.H is None else point.H
    gap = max(point.gap, 0.0) + ROUNDING * abs(point.value)
    return SparseOptimum(e=point.e, value=point.value, gap=gap, H=H, iterations=point.steps)
