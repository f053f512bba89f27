"""The paths of all folds of a cross-validation together: one reading of the rows serves all folds and scales.

Rows are sorted so that those of a range belong to the same folds, and a model reads the ranges that it is trained on.
Each fold begins at the optima of all rows: their sums over ranges are its gradients there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemorySource
from oddsmith.engines.memory import available_cores, parallel_map
from oddsmith.likelihood.coordinates import OF_COLUMNS
from oddsmith.likelihood.objective import ObjectiveState
from oddsmith.likelihood.sparse_batch import (
    NEAR_BOUND,
    BatchPoint,
    PathBatch,
    bounded_penalty,
    evaluations,
    has_mean_bound,
    intercept_moved,
    mean_bound,
    model_minimum_near,
    models_at,
    split_hessians,
    with_block,
)
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import Indices
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import PRECISION, SparsePenalty, dual_gap, dual_step, minimise_model, moving_cost
from oddsmith.statistic import Statistic
from oddsmith.statistics import Gradients, Losses, LossesParams, Moments

S = TypeVar("S", bound=Statistic)
FEW_STEPS = 4  # Steps after which the Hessian of a group serves no longer.
MOST_FOLDS = 31  # Two bits of an integer for each.
PARTS, LEAST_ROWS = 16, 1024  # Number of parts in which rows are read, about, and rows of one, at least.


@dataclass(frozen=True)
class FoldRows:
    """Rows in ranges: ``train`` and ``test`` (folds × ranges) say which folds are trained and tested on a range."""

    source: MemorySource
    ranges: list[tuple[int, int]]
    train: npt.NDArray[np.bool_]
    test: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, source: MemorySource, splits: Sequence[tuple[Indices, Indices]]) -> FoldRows | None:
        """Sort rows by the folds that they belong to; None where a fold has rows twice, or ranges would be short.

        >>> source = MemorySource(np.arange(4000.0)[:, None], np.zeros(4000, dtype=np.int32), K=1)
        >>> even, odd = np.arange(0, 4000, 2), np.arange(1, 4000, 2)
        >>> rows = FoldRows.of(source, [(odd, even), (even, odd)])
        >>> rows.ranges, rows.train.tolist(), rows.source.X[:2].ravel().tolist()
        ([(0, 2000), (2000, 4000)], [[False, True], [True, False]], [0.0, 2.0])
        """
        n, code = source.n_rows, np.zeros(source.n_rows, dtype=np.int64)
        if len(splits) > MOST_FOLDS:
            return None
        for k, (train, test) in enumerate(splits):
            for role, rows in enumerate((train, test)):
                count = np.bincount(rows, minlength=n)
                if count.max() > 1:
                    return None
                code += count << (2 * k + role)
        order = np.argsort(code, kind="stable")[np.count_nonzero(code == 0) :]
        edges = np.flatnonzero(np.diff(code[order], prepend=-1, append=-1))
        if len(order) < policy.POLICY.fold_range_rows * (len(edges) - 1):
            return None
        own, bits = code[order[edges[:-1]]], 2 * np.arange(len(splits))[:, None]
        roles = [(own >> (bits + role)) & 1 > 0 for role in range(2)]
        return cls(source.take(order, as_stored=True), list(pairwise(edges.tolist())), *roles)

    def parts(self) -> list[tuple[int, tuple[int, int]]]:
        """Return parts of the ranges, each with the number of its range."""
        found, step = [], max(LEAST_ROWS, self.source.n_rows // PARTS)
        for k, (start, stop) in enumerate(self.ranges):
            count = max(1, round((stop - start) / step))
            edges = [start + (stop - start) * i // count for i in range(count + 1)]
            found += [(k, ends) for ends in pairwise(edges)]
        return found


@dataclass(kw_only=True)
class FoldGroup:
    """Neighbouring scales, and weights ``w`` near their optima, with a model ``H`` of the Hessian of all rows.

    ``starts`` are the evaluations of each fold at ``w``, ``G`` the Hessians of their losses there over ``members``, the
    coordinates that matter.
    """

    places: range
    w: Array
    H: Array
    starts: list[ObjectiveValue] = field(default_factory=list)
    members: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    G: list[Array] = field(default_factory=list)


@dataclass(kw_only=True)
class FoldPoint:
    """A fold at a scale on its way, over the members of its group.

    ``squares`` bound the sum of the squares of each column, ``concordance`` is the constant of self-concordance. Once
    another coordinate must move, or steps are many, ``missing`` is set: then all coordinates are needed.
    """

    penalty: SparsePenalty
    part: SparsePenalty
    group: FoldGroup
    G: Array
    squares: Array
    concordance: float
    target: Array
    e: ObjectiveValue | None = None
    value: float = np.inf
    steps: int = 0
    done: bool = False
    missing: bool = False

    def take(self, new: ObjectiveValue, tol: float) -> None:
        """Go to the point that was evaluated if the objective falls there, else half the way back; look further.

        The target beyond a point that is done is nearer to the optimum than it, but not evaluated.
        """
        value, members = new.value + self.penalty.value(new.w), self.group.members
        self.steps += 1
        if self.e is not None and not value <= self.value + 8.0 * EPS * abs(self.value):
            self.target = 0.5 * (self.target + self.e.w)
            return
        self.e, self.value = new, value
        H = self.G + np.diag(self.part.ridge)
        inner = replace(new, w=new.w[members], gradient=new.gradient[members])
        tight = PRECISION * tol * float(self.penalty.blocks.strength.max())
        target = minimise_model(H, inner.gradient, inner.w, self.part.blocks, tol=tight)
        self.target = np.zeros_like(new.w)
        self.target[members] = target
        d, allowed = target - inner.w, tol * max(1.0, abs(value))
        if 0.5 * float(d @ (H @ d)) <= allowed:
            self.done = self._moved_gap(H, new, inner, target) <= allowed or dual_gap(new, self.penalty) <= allowed
        others, blocks = new.gradient.copy(), self.penalty.blocks
        others[members] = 0.0
        slow = self.steps > FEW_STEPS
        self.missing = not self.done and (slow or bool((blocks.norms(others) > blocks.strength).any()))

    def _moved_gap(self, H: Array, e: ObjectiveValue, inner: ObjectiveValue, target: Array) -> float:
        """Return the gap from residuals moved by the Hessian of the group.

        Where it is not known what that changes of a gradient, Cauchy and Schwarz bound it: curvatures are at most ¼.
        """
        members, d = self.group.members, dual_step(H, inner, self.part, target)
        cost = moving_cost(self.concordance, e.w - self.group.w, d)
        if not np.isfinite(cost):
            return np.inf
        change, product = np.zeros_like(e.w), np.zeros_like(e.w)
        change[members], product[members] = d, self.G @ d
        slack = np.sqrt(0.25 * self.squares * max(0.0, float(change @ product)))
        slack[members] = 0.0
        return dual_gap(e, self.penalty, change, product, cost, slack)


@dataclass(kw_only=True)
class FoldBatch:
    """The folds of a problem that a path of all rows solved; ``folds`` know the classes' weights of each.

    1. Neighbouring scales form groups; near their optima, ranges of rows give each fold's gradient (one pass).
    2. Models of these find the coordinates that matter in a group, and a pass the Hessians over them.
    3. Steps with these Hessians: one for nearly all points, and a pass that shows it.
    """

    path: PathBatch
    rows: FoldRows
    splits: Sequence[tuple[Indices, Indices]]
    folds: list[SparseProblem]
    bounds: list[float | None]

    @classmethod
    def of(cls, path: PathBatch, rows: FoldRows, splits: Sequence[tuple[Indices, Indices]]) -> FoldBatch:
        """State the problem of each fold."""
        problem, source, folds = path.stated.problem, path.stated.problem.memory_source, []
        for train, _ in splits:
            weights = None if source.s is None else source.s[train]
            weight = np.bincount(source.t[train], weights=weights, minlength=source.K).astype(np.float64)
            folds.append(replace(path.stated, problem=replace(problem, class_weight=weight), tight=False))
        return cls(path=path, rows=rows, splits=splits, folds=folds, bounds=[None] * len(folds))

    @property
    def stated(self) -> SparseProblem:
        """The problem of all rows."""
        return self.path.stated

    def share(self, k: int) -> float:
        """Return the share of the rows that a fold is trained on."""
        return float(self.folds[k].problem.class_weight.sum() / self.stated.objective.weight)

    def losses(self, tol: float) -> Array:
        """Return the loss of each fold's test rows (folds × scales), fitted to its training rows at each scale."""
        groups = self._groups()
        self._start(groups)
        W = np.empty((len(self.folds), len(self.path.scales), self.stated.objective.size))
        for some in self._affordable(groups):
            self._form_hessians(some)
            points = self._points(some, tol)
            self._solve(points, tol)
            for at, point in points.items():
                W[at] = point.target
        return self._test_losses(W)

    def _groups(self) -> list[FoldGroup]:
        """Return groups of scales whose optima are near each other.

        Of fewer rows the same penalty is the stronger: weights are those of all rows at smaller scales.
        """
        path, share = self.path, float(np.mean([self.share(k) for k in range(len(self.folds))]))
        penalty, n = 1.0 / np.array(path.scales), len(path.scales)
        optima = np.stack([point.e.w for _, point in sorted(path.points.items()) if point.e is not None])
        place = np.interp(-penalty / share, -penalty, np.arange(n))
        below = np.minimum(place.astype(int), max(0, n - 2))
        t = (place - below)[:, None]
        W = (1.0 - t) * optima[below] + t * optima[np.minimum(below + 1, n - 1)]
        return [
            FoldGroup(places=each, w=W[k], H=path.hessian_near(round(place[k])))
            for each in neighbours(W, self.stated.objective.self_concordance)
            for k in each[len(each) // 2 :][:1]
        ]

    def _start(self, groups: list[FoldGroup]) -> None:
        """Evaluate each fold near the optima of each group, and find which coordinates matter there: one pass."""
        points, bounded, ranges = [group.w for group in groups], has_mean_bound(self.stated), len(self.rows.ranges)
        if bounded:
            null = np.zeros(self.stated.objective.size)
            points += [null, intercept_moved(null)]
        values, models = np.zeros((ranges, len(points))), models_at(self.stated.objective, points)
        gradients = np.zeros((*values.shape, self.stated.objective.size))
        for part, sums in self._sums(Gradients, [models] * ranges):
            values[part] += sums.value
            gradients[part] += sums.gradient
        for k, train in enumerate(self.rows.train):
            each = evaluations(self.stated.objective, points, values[train].sum(axis=0), gradients[train].sum(axis=0))
            self.bounds[k] = mean_bound(self.folds[k], *each[-2:]) if bounded else None
            for group, e in zip(groups, each, strict=False):
                group.starts.append(e)
        threads = self.stated.objective.threads or available_cores()
        for group, members in zip(groups, parallel_map(self._members, groups, threads), strict=True):
            group.members = members

    def _penalty(self, k: int, i: int, e: ObjectiveValue) -> SparsePenalty:
        return bounded_penalty(self.folds[k], self.path.scales[i], e, self.bounds[k])

    def _members(self, group: FoldGroup) -> Indices:
        """Return the coordinates that are not zero, or nearly so, where models of the folds are least."""
        blocks = self.stated.unit.blocks
        keep = (blocks.strength == 0.0) | (blocks.norms(group.w) > 0.0)
        for k, e in enumerate(group.starts):
            H = self.share(k) * group.H
            for i in {group.places[0], group.places[-1]}:
                penalty = self._penalty(k, i, e)
                x = model_minimum_near(H, e.gradient, e.w, penalty)
                slope = blocks.norms(e.gradient + H @ (x - e.w) - penalty.ridge * x)
                keep |= (blocks.norms(x) > 0.0) | (slope > NEAR_BOUND * penalty.blocks.strength)
        return np.union1d([0], blocks.member[blocks.of_members(keep)])

    def _affordable(self, groups: list[FoldGroup]) -> Iterator[list[FoldGroup]]:
        """Yield as many groups at a time as there is memory for."""
        some: list[FoldGroup] = []
        room = taken = policy.POLICY.sparse_batch_bytes / (8.0 * len(self.folds))
        for group in groups:
            size = float(len(group.members)) ** 2
            if not self._pays(group):
                size = float(self.stated.objective.size) ** 2 * len(group.places)
            if some and taken + size > room:
                yield some
                some, taken = [], 0.0
            some, taken = [*some, group], taken + size if some else size
        yield some

    def _pays(self, group: FoldGroup) -> bool:
        """Return whether the Hessian of a group costs no more than some gradients of all its points."""
        m, gradients = len(group.members), len(self.folds) * len(group.places)
        each = 2.0 * (m + self.stated.objective.size)
        return float(m) ** 2 <= policy.POLICY.fold_hessian_rounds * gradients * each

    def _form_hessians(self, groups: list[FoldGroup]) -> None:
        """Form the Hessians of all folds over the members of each group: one pass."""
        objective, ranges = self.stated.objective, len(self.rows.ranges)
        some = [group for group in groups if self._pays(group)]
        if not some:
            return
        models = models_at(objective, [group.w for group in some])
        models = replace(models, members=tuple(group.members for group in some))
        found = np.zeros((ranges, sum(len(group.members) ** 2 for group in some)))
        for part, sums in self._sums(Gradients, [models] * ranges):
            found[part] += sums.hessian
        found = self.rows.train.astype(np.float64) @ found
        for group, G in zip(some, split_hessians(objective, found, models.members), strict=True):
            group.G = list(G)

    def _points(self, groups: list[FoldGroup], tol: float) -> dict[tuple[int, int], FoldPoint | BatchPoint]:
        """Return a point for each fold and scale, where its first step leads."""
        squares, concordance = self._squares(), self.stated.objective.self_concordance
        points: dict[tuple[int, int], FoldPoint | BatchPoint] = {}
        starts: list[tuple[FoldPoint | BatchPoint, ObjectiveValue]] = []
        for group in groups:
            for k, e in enumerate(group.starts):
                for i in group.places:
                    penalty = self._penalty(k, i, e)
                    if not group.G:
                        points[k, i] = BatchPoint(penalty=penalty, target=e.w, H=self.share(k) * group.H)
                    else:
                        points[k, i] = FoldPoint(
                            penalty=penalty,
                            part=self.stated.penalty_over(penalty, group.members[1:] - 1),
                            group=group,
                            G=group.G[k],
                            squares=squares,
                            concordance=concordance,
                            target=e.w,
                        )
                    starts.append((points[k, i], e))
        self._take(starts, tol)
        return points

    def _squares(self) -> Array:
        """Return the sum of the squares of each column of all rows, in the coordinates of the solver: one pass."""
        objective = self.stated.objective
        moments = objective.engine.fold(Moments, self.rows.source, OF_COLUMNS)
        W, mean = moments.weight[0], moments.mean[0] - objective.center
        return np.append(W, (moments.scatter[0] + W * mean**2) / objective.scale**2)

    def _sums(self, statistic: type[S], models: Sequence[LossesParams]) -> Iterator[tuple[int, S]]:
        """Yield sums over parts of each range, of its ``models``."""
        parts, source = [part for part in self.rows.parts() if len(models[part[0]].b)], self.rows.source

        def of_part(part: tuple[int, tuple[int, int]]) -> S:
            return statistic.of(source.block(*part[1]), models[part[0]])

        found = parallel_map(of_part, parts, self.stated.objective.threads or available_cores())
        for (part, _), sums in zip(parts, found, strict=True):
            yield part, sums

    def _solve(self, points: dict[tuple[int, int], FoldPoint | BatchPoint], tol: float) -> None:
        """Take all points to their optima, a pass for all of them; one that is slow is solved by itself in the end."""
        objective = self.stated.objective
        while still := {at: point for at, point in points.items() if not point.done}:
            folds, targets = np.array([k for k, _ in still]), [point.target for point in still.values()]
            values, gradients = np.zeros(len(still)), np.zeros((len(still), objective.size))
            wanted = [np.flatnonzero(train[folds]) for train in self.rows.train.T]
            for part, sums in self._sums(Gradients, [_some(models_at(objective, targets), which) for which in wanted]):
                values[wanted[part]] += sums.value
                gradients[wanted[part]] += sums.gradient
            found = evaluations(objective, targets, values, gradients)
            self._take(list(zip(still.values(), found, strict=True)), tol)
            for at, point in still.items():
                if isinstance(point, FoldPoint) and point.missing:
                    points[at] = self._widened(at[0], point, tol)
            if max(point.steps for point in still.values()) >= policy.POLICY.sparse_batch_rounds:
                break
        for k in range(len(self.folds)):
            slow = [i for fold, i in points if fold == k and not points[k, i].done]
            if slow:
                self._solve_alone(k, {i: points[k, i] for i in slow}, tol)

    def _take(self, found: Sequence[tuple[FoldPoint | BatchPoint, ObjectiveValue]], tol: float) -> None:
        """Let points look further from evaluations: those with models of all coordinates on all threads."""
        wide = [(point, new) for point, new in found if isinstance(point, BatchPoint)]
        threads = self.stated.objective.threads or available_cores()
        deque(parallel_map(lambda each: each[0].take(each[1], tol), wide, threads), maxlen=0)
        for point, new in found:
            if isinstance(point, FoldPoint):
                point.take(new, tol)

    def _widened(self, k: int, point: FoldPoint, tol: float) -> BatchPoint:
        """Return a point with a model over all coordinates."""
        assert point.e is not None
        H = with_block(self.share(k) * point.group.H, point.group.members, point.G + np.diag(point.part.ridge))
        wide = BatchPoint(penalty=point.penalty, target=point.e.w, H=H, steps=point.steps)
        wide.take(point.e, tol)
        return wide

    def _solve_alone(self, k: int, points: dict[int, FoldPoint | BatchPoint], tol: float) -> None:
        """Solve some scales of a fold one by one, over a copy of its rows."""
        stated, weight = self.folds[k], self.folds[k].problem.class_weight
        source = stated.objective.memory_source.take(self.splits[k][0])
        state = ObjectiveState(max_row_norm2=stated.objective.longest_row)
        part = replace(stated.objective, source=source, weight=float(weight.sum()), class_weight=weight, state=state)
        alone = replace(stated, objective=part, H=None)
        for i, point in points.items():
            assert point.e is not None
            found = alone.solve(self.path.scales[i], point.e, tol=tol, max_iter=stated.problem.max_iter)
            point.target, point.done = found.e.w, True

    def _test_losses(self, W: Array) -> Array:
        """Return the losses of the test rows of each fold at its weights (folds × scales × size)."""
        losses, n = np.zeros(W.shape[:2]), W.shape[1]
        models = models_at(self.stated.objective, list(W.reshape(-1, W.shape[2])))
        wanted = [np.flatnonzero(np.repeat(test, n)) for test in self.rows.test.T]
        for part, sums in self._sums(Losses, [_some(models, which) for which in wanted]):
            losses.ravel()[wanted[part]] += sums.value
        return losses


def neighbours(W: Array, concordance: float) -> list[range]:
    """Return which rows of weights, in their order, are so near each other that one Hessian serves them.

    >>> neighbours(np.array([[0.0], [0.1], [0.2], [1.0]]), concordance=2.0)
    [range(0, 3), range(3, 4)]
    """
    apart, first, found = policy.POLICY.fold_group / concordance, 0, []
    for k in range(1, len(W) + 1):
        if k == len(W) or np.linalg.norm(W[k] - W[first]) > apart:
            found.append(range(first, k))
            first = k
    return found


def _some(models: LossesParams, which: Indices) -> LossesParams:
    return replace(models, W=models.W[which], b=models.b[which])
