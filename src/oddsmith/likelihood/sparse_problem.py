"""Fits whose weights are exactly zero where that is best: the likelihood under a `LaplacePrior`.

Few columns: proximal Newton on the folded Hessian, on any engine; of large data on a sample first, whose Hessian then
serves all rows. Many columns: the same on a working set of columns, which grows until the gradient over all columns
finds none that is missing. The certificate is a duality gap over all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.basis.base import seen_through
from oddsmith.engines import AnySource, MemorySource, engine_of
from oddsmith.engines.memory import RunSource
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.coordinate_descent import Blocks
from oddsmith.likelihood.class_descent import ClassDescent
from oddsmith.likelihood.column_choice import TakeColumns
from oddsmith.likelihood.column_descent import LEAST_SHARE, PATIENCE, ColumnDescent, ColumnPoint
from oddsmith.likelihood.coordinates import Coordinates, has_sample
from oddsmith.likelihood.fit import make_objective, start_weights
from oddsmith.likelihood.newton_polish import DIGITS, polished
from oddsmith.likelihood.objective import FoldObjective, ObjectiveState
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.two_class_descent import TwoClassDescent
from oddsmith.likelihood.unit_penalty import common_scales, unit_penalty
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import (
    ROUNDING,
    ProximalNewton,
    SparseOptimum,
    SparsePenalty,
    divergence,
    dual_gap,
    dual_step,
    model_minimum,
)


@dataclass
class WorkingSet:
    """Columns with the objective over them alone, and a Hessian that is near the one there."""

    columns: npt.NDArray[np.intp]
    objective: FoldObjective
    H: Array | None = None


@dataclass(kw_only=True)
class SparseProblem:
    """A likelihood and the penalty at scale 1, in the coordinates of the solver.

    ``H`` is the Hessian that the last solve ended with: the start of the next one. With ``tight`` each gap is near the
    truth, not only within the tolerance; with ``accurate`` weights have nine digits, by columns too.
    """

    problem: Problem
    objective: FoldObjective
    coordinates: Coordinates
    unit: SparsePenalty
    working: WorkingSet | None = None
    H: Array | None = None
    csc: Any = None
    descent: ColumnDescent | None = None
    point: ColumnPoint | None = None
    last: ObjectiveValue | None = None
    record: Callable[[ObjectiveValue, float], None] | None = None
    tight: bool = True
    accurate: bool = True
    some_rows: FoldObjective | None = None
    no_weights: sparse.csr_array | None = None

    @classmethod
    def of(cls, problem: Problem) -> SparseProblem:
        """Choose coordinates (one cheap fold) and state the penalty in them."""
        assert problem.laplace is not None
        if problem.link is not None and not (problem.link.convex and np.isinf(problem.link.domain).all()):
            raise InvalidInputError(
                f"A LaplacePrior needs a convex loss that is finite everywhere, and that of link={problem.link.name!r} "
                "is not. Use link='logit'."
            )
        objective, coordinates, _ = make_objective(problem)
        grouped = problem.laplace.groups not in (None, "class")
        names = [str(name) for name in problem.names()] if grouped else []
        groups = problem.laplace.column_groups(names, problem.levels)
        if groups:
            coordinates = replace(coordinates, scale=common_scales(coordinates.scale, groups))
            objective, coordinates, _ = make_objective(problem, coordinates)
        unit = unit_penalty(problem, objective, groups)
        return cls(problem=problem, objective=objective, coordinates=coordinates, unit=unit)

    @property
    def is_small(self) -> bool:
        """Whether the Hessian of all weights is formed."""
        return self.objective.size <= policy.POLICY.sparse_hessian

    @property
    def exact(self) -> bool:
        """Whether a Hessian costs so little that every step has its own."""
        return self.objective.n_rows * float(self.objective.size) ** 2 <= policy.POLICY.sparse_products

    def null_point(self) -> ObjectiveValue:
        """Return the evaluation at the optimum of the free coordinates, all others zero."""
        x = start_weights(self.problem, self.objective)
        if not self.is_small and self.by_columns and not self.problem.source.has_offset:
            self.start_columns(x)
            assert self.last is not None
            return self.last
        e = self.objective.evaluate(x)
        for _ in range(50):
            free = self._free_coordinates()
            slope = np.abs(e.gradient[free]).max(initial=0.0)
            if slope <= max(4.0 * self.objective.rounding, 1e-10 * self.objective.weight):
                break
            sub = self._over(np.unique(free % self.objective.shape[1])[1:] - 1)
            inner = sub.objective.evaluate(self._restricted(e.w, sub.columns), 2)
            pen = replace(self.penalty_over(self.unit.scaled(0.0), sub.columns), reach=1.0)
            found = ProximalNewton(tol=1e-15, max_iter=30).minimise(sub.objective, pen, inner, inner.dense_hessian)
            before = e
            e = self.objective.evaluate(self._expanded(found.e.w, sub.columns))
            if np.abs(e.gradient[free]).max(initial=0.0) > 0.5 * slope:
                e = min((before, e), key=lambda point: point.value)
                break
        return e

    def _free_coordinates(self) -> npt.NDArray[np.intp]:
        blocks = self.unit.blocks
        free: npt.NDArray[np.intp] = blocks.member[blocks.of_members(blocks.strength == 0.0) > 0]
        return free

    def smallest_scale(self, e: ObjectiveValue) -> float:
        """Return the scale at and below which all penalised weights are zero; ``e`` is the null point."""
        blocks = self.unit.blocks
        penalised = blocks.strength > 0.0
        most = float(np.max(blocks.norms(e.gradient)[penalised] / blocks.strength[penalised], initial=0.0))
        return 1.0 / most if most > 0.0 else np.inf

    def solve(
        self, scale: float, e: ObjectiveValue, *, tol: float, max_iter: int, before: float = 0.0
    ) -> SparseOptimum:
        """Return the optimum at ``scale`` from the point ``e``, the optimum at the scale ``before`` if given."""
        penalty = self.penalty_at(scale, e)
        if self.is_small:
            return self._solve_all(penalty, e, tol, max_iter)
        if self.by_columns:
            return self._solve_columns(scale, e, tol, max_iter, before)
        return self._solve_working_set(penalty, scale, e, tol, max_iter, before)

    def user_weights(self, w: Array) -> Array:
        """Return weights in the user's units, the intercept first (C × P); without a penalty they sum to zero."""
        C, P = self.objective.shape
        center, scale = self.coordinates.center, self.coordinates.scale
        x = np.where(self.objective.free, w.reshape(C, P), 0.0)
        x = np.column_stack([x[:, 0] - x[:, 1:] @ (center / scale), x[:, 1:] / scale])
        if C == self.problem.K > 2:
            x = np.where(self.unpenalised, x - x.mean(axis=0), x)
        return x + 0.0  # no negative zeros

    @property
    def unpenalised(self) -> npt.NDArray[np.bool_]:
        """Which of the 1 + M weights have no penalty: the intercept, and columns of factor 0."""
        assert self.problem.laplace is not None
        columns = (self.problem.laplace.strengths(self.problem.M) == 0.0) & (self.problem.laplace.gaussian is None)
        return np.concatenate([[True], columns])

    def on_sample(self) -> SparseProblem | None:
        """Return the same problem on a sample of large data, None where there is none that shows enough."""
        objective, settings = self.objective, policy.POLICY
        rows = min(objective.n_rows // 4, settings.subsample_rows_per_weight * objective.size)
        known = self.is_small and has_sample(self.problem.source) and not self.problem.source.has_offset
        if not known or self.exact or rows < settings.sparse_rows_per_weight * objective.size:
            return None
        part = objective.subsample(rows, seed=1)
        return replace(self, objective=part, H=None, record=None, tight=False)

    def curvature_at(self, w: Array) -> ObjectiveValue:
        """Return a point with the Hessian there of some rows, each counted once, and of the ridge in full."""
        if self.some_rows is None:
            self.some_rows = self._some_rows()
        e = self.some_rows.evaluate(w, 2)
        return replace(e, hessian=self.some_rows.hessian_lower_bound(e))

    def _some_rows(self) -> FoldObjective:
        """Return the objective over so many rows that their Hessian costs about as much as some gradients of all."""
        objective, settings = self.objective, policy.POLICY
        least, most = (objective.size * each for each in settings.dual_rows_per_weight)
        rows = int(np.clip(settings.dual_row_passes * objective.n_rows / objective.size, least, most))
        if 2 * rows > objective.n_rows or not (
            isinstance(objective.source, MemorySource) or has_sample(self.problem.source)
        ):
            return objective
        return objective.subsample(rows, seed=1)

    def penalty_at(self, scale: float, e: ObjectiveValue) -> SparsePenalty:
        """Return the penalty at a scale.

        How far its optimum's intercepts can be: the loss of the rows of a class is at least their number times how far
        their mean activation lies on the wrong side, and columns of unit spread have class means of at most √(N / n).
        """
        penalty, problem = self.unit.scaled(1.0 / scale), self.problem
        strength = penalty.blocks.strength
        least = float(problem.class_weight[problem.class_weight > 0.0].min())
        weakest = float(strength[strength > 0.0].min(initial=np.inf))
        value = e.value + penalty.value(e.w)
        reach = 4.0 * value * (1.0 / least + np.sqrt(self.objective.weight / least) / weakest)
        return replace(penalty, reach=reach)

    def _solve_all(self, penalty: SparsePenalty, e: ObjectiveValue, tol: float, max_iter: int) -> SparseOptimum:
        if self.H is None or (self.exact and e.hessian is None):
            e = self.objective.evaluate(e.w, 2)
        H = self.H if e.hessian is None else e.dense_hessian
        assert H is not None
        how: dict[str, Any] = {"exact": self.exact, "tight": self.tight}
        if not self.exact:
            how["curvature"] = self.curvature_at
        found = ProximalNewton(tol=tol, max_iter=max_iter, **how).minimise(self.objective, penalty, e, H, self.record)
        self.H = found.H
        return found

    @property
    def by_columns(self) -> bool:
        """Whether the columns are in memory and each has a penalty, alone or for all classes together."""
        source, objective, laplace = self.objective.source, self.objective, self.problem.laplace
        assert laplace is not None
        if not isinstance(source, MemorySource) or source.transform is not None:
            return False
        matrix = sparse.issparse(source.X) or isinstance(source.X, np.ndarray)
        plain = matrix and objective.link is None and objective.whitening is None and self.problem.reference is None
        return plain and laplace.groups in (None, "class") and bool((laplace.strengths(self.problem.M) > 0.0).all())

    def _solve_columns(
        self, scale: float, e: ObjectiveValue, tol: float, max_iter: int, before: float
    ) -> SparseOptimum:
        """Solve by columns; ``point`` goes on from solve to solve."""
        if self.last is not e:
            self.start_columns(e.w)
        point = self.step_columns(scale, tol=tol, max_iter=max_iter, before=before or scale)
        self.objective.count_pass()
        self.last = self._evaluation(point)
        if self.record is not None:
            self.record(replace(self.last, value=point.value), 1.0)
        none = np.zeros((0, 0))
        return SparseOptimum(e=self.last, value=point.value, gap=max(point.gap, 0.0), H=none, iterations=point.steps)

    def start_columns(self, x: Array) -> None:
        """Begin the descent by columns at weights."""
        W = self.user_weights(x)
        w, b = (W[0, 1:], W[0, 0]) if len(W) == 1 else (np.ascontiguousarray(W[:, 1:].T), W[:, 0])
        self.point, gradient = self.column_descent().start(w, np.asarray(b))
        self.last = self._evaluation(self.point, gradient)
        self.objective.count_pass()

    def step_columns(self, scale: float, *, tol: float, max_iter: int, before: float) -> ColumnPoint:
        """Return the optimum at ``scale``, by columns, from the one at the scale ``before``."""
        assert self.point is not None
        descent = self.column_descent()
        point = self.point = descent.solve(scale, self.point, before=before, tol=tol, max_iter=max_iter)
        few = len(point.columns) <= policy.POLICY.sparse_fallback
        if point.gap > tol * max(1.0, abs(point.value)) and point.steps > PATIENCE and descent.threaded and few:
            # Products in single precision do not tell columns apart that hardly differ; a Hessian does.
            e = self.objective.evaluate(self._evaluation(point).w)
            found = self._solve_working_set(self.penalty_at(scale, e), scale, e, tol, max_iter, scale)
            if found.gap < point.gap:
                self.start_columns(found.e.w)
                self.point = replace(self.point, value=found.value, gap=found.gap, steps=point.steps)
        elif self.accurate and not descent.rough:
            self.point = polished(descent, point, descent.strength / scale)
        return self.point

    def column_weights(self, point: ColumnPoint) -> sparse.csr_array:
        """Return the weights of a point in the user's units, the intercept first (C × P)."""
        order = np.argsort(point.columns)
        x, b = np.atleast_2d(point.x.T)[:, order], np.atleast_1d(point.b)
        if len(b) > 1:
            b = b - b.mean()
        some = np.column_stack([b, x])
        each, which = np.nonzero(some)
        # Assigned one by one to a copy: the constructor looks at every number of each array, and takes as long alone.
        if self.no_weights is None:
            self.no_weights = sparse.csr_array((len(b), self.problem.M + 1))
        found = copy(self.no_weights)
        found.indices = np.concatenate([[0], point.columns[order] + 1])[which].astype(np.int32)
        found.indptr = np.searchsorted(each, np.arange(len(b) + 1)).astype(np.int32)
        found.data = some[each, which]
        return found

    def column_descent(self) -> ColumnDescent:
        """Return the problem by columns, made once."""
        if self.descent is None:
            assert self.problem.laplace is not None
            objective, M = self.objective, self.problem.M
            kind: type[ColumnDescent] = TwoClassDescent if self.problem.K == 2 else ClassDescent
            how: dict[str, Any] = {"intercept": self.problem.intercept, "threads": objective.threads}
            how["tight"] = self.tight and not (self.accurate and self.problem.K == 2)  # `polished` does it
            how["grouped"] = self.problem.K > 2 and self.problem.laplace.groups == "class"
            ridge = self.unit.ridge.reshape(objective.shape)[0, 1:] * self.coordinates.scale**2
            self.descent = kind.of(objective.memory_source, self.problem.laplace.strengths(M), ridge, **how)
        return self.descent

    def _evaluation(self, point: ColumnPoint, gradient: Array | None = None) -> ObjectiveValue:
        """Return a point as an evaluation in the solver's coordinates, its gradient that of the dual residuals."""
        center, spread, x = self.coordinates.center, self.coordinates.scale, self._solver_weights(point)
        gradient = self.column_descent().gradient(point.theta) if gradient is None else gradient
        g = np.atleast_2d(gradient.T)
        first = np.atleast_1d(point.theta.sum(axis=0))
        gradient = np.column_stack([first, (g - np.outer(first, center)) / spread]).ravel() + self.unit.ridge * x
        value = point.loss + 0.5 * float(self.unit.ridge @ x**2)
        return ObjectiveValue(w=x, value=value, log_likelihood=-point.loss, gradient=gradient)

    def _solver_weights(self, point: ColumnPoint) -> Array:
        w = np.atleast_2d(point.all_weights(self.problem.M).T)
        intercepts = np.atleast_1d(point.b) + w @ self.coordinates.center
        return np.column_stack([intercepts, w * self.coordinates.scale]).ravel()

    def _solve_working_set(
        self, penalty: SparsePenalty, scale: float, e: ObjectiveValue, tol: float, max_iter: int, before: float
    ) -> SparseOptimum:
        """Solve over some columns, look at all, and add those that are missing, until none is."""
        # The strong rule: a gradient that was this small at the scale before is small at this one, nearly always.
        threshold = max(2.0 / scale - 1.0 / before if before else 1.0 / scale, LEAST_SHARE / scale)
        wanted = self._columns_above(e, threshold)
        inner_tol, iterations = 0.5 * tol, 0
        for _ in range(policy.POLICY.sparse_rounds):
            if self.working is None or not np.isin(wanted, self.working.columns).all():
                self.working = self._over(wanted)
            working = self.working
            sub_penalty = self.penalty_over(penalty, working.columns)
            x = self._restricted(e.w, working.columns)
            if working.H is None:
                inner = working.objective.evaluate(x, 2)
                working.H = inner.dense_hessian
            else:
                inner = ObjectiveValue(
                    w=x,
                    value=e.value,
                    log_likelihood=e.log_likelihood,
                    gradient=self._restricted(e.gradient, working.columns),
                )
            exact = working.objective.n_rows * float(working.objective.size) ** 2 <= policy.POLICY.sparse_products
            solver = ProximalNewton(exact=exact, tol=inner_tol, max_iter=max_iter, moves=False, tight=self.tight)
            found = solver.minimise(working.objective, sub_penalty, inner, working.H)
            working.H, iterations = found.H, iterations + found.iterations
            e = self.objective.evaluate(self._expanded(found.e.w, working.columns))
            gap = max(dual_gap(e, penalty), 0.0) + ROUNDING * abs(found.value)
            if self.tight and found.converged(tol) and gap > policy.POLICY.sparse_tight * ROUNDING * abs(found.value):
                gap = min(gap, self._moved_gap(e, penalty, sub_penalty, found.H) + ROUNDING * abs(found.value))
            result = SparseOptimum(e=e, value=found.value, gap=gap, H=found.H, iterations=iterations)
            if self.record is not None:
                self.record(replace(e, value=found.value), 1.0)
            missing = np.setdiff1d(self._columns_above(e, (1.0 + DIGITS) / scale), working.columns)
            if result.converged(tol) and not (self.accurate and len(missing)):
                break
            if not len(missing):
                if inner_tol < 1e-6 * tol:
                    break
                inner_tol *= 0.1
            wanted = np.union1d(self._columns_above(e, 0.9 / scale), working.columns)
        return result

    def _moved_gap(self, e: ObjectiveValue, penalty: SparsePenalty, sub_penalty: SparsePenalty, H: Array) -> float:
        """Return the gap from residuals moved along the step that is left over the working set: one pass."""
        assert self.working is not None
        columns = self.working.columns
        inner = replace(e, w=self._restricted(e.w, columns), gradient=self._restricted(e.gradient, columns))
        d = self._expanded(dual_step(H, inner, sub_penalty, model_minimum(H, inner, sub_penalty)), columns)
        cost = divergence(self.objective.self_concordance * float(np.linalg.norm(d)))
        if not np.isfinite(cost):
            return np.inf
        product = self.objective.hessian_product(e.w, d) - penalty.ridge * d
        return max(dual_gap(e, penalty, d, product, cost), 0.0)

    def _columns_above(self, e: ObjectiveValue, strength: float) -> npt.NDArray[np.intp]:
        """Return the columns with weights that are not zero, are free, or have a gradient above a strength."""
        blocks, P = self.unit.blocks, self.objective.shape[1]
        keep = (blocks.norms(e.w) > 0.0) | (
            blocks.norms(e.gradient - self.unit.ridge * e.w) > strength * blocks.strength
        )
        places = blocks.member[blocks.of_members(keep) > 0] % P
        return np.unique(places[places > 0]) - 1

    def _over(self, columns: npt.NDArray[np.intp]) -> WorkingSet:
        """Return the objective over some columns."""
        objective, at = self.objective, np.concatenate([[0], columns + 1])
        source = self._source_of(columns)
        penalty = objective.penalty
        if penalty is not None:
            penalty = Quadratic(penalty.mean[:, at], penalty.Q[at])
        part = replace(
            objective,
            engine=engine_of(source, objective.threads),
            source=source,
            center=objective.center[columns],
            scale=objective.scale[columns],
            penalty=penalty,
            free=objective.free[:, at],
            state=ObjectiveState(),
        )
        return WorkingSet(columns, part)

    def _source_of(self, columns: npt.NDArray[np.intp]) -> AnySource:
        source = self.objective.source
        assert not isinstance(source, RunSource)
        if isinstance(source, MemorySource) and source.transform is None:
            if sparse.issparse(source.X):
                if self.csc is None:
                    self.csc = source.X.tocsc()
                X = self.csc[:, columns].tocsr()
                return replace(source, X=X, slice_rows=None)
            if isinstance(source.X, np.ndarray):
                return replace(source, X=np.ascontiguousarray(source.X[:, columns]), slice_rows=None)
        return seen_through(source, TakeColumns(columns), len(columns))

    def _restricted(self, x: Array, columns: npt.NDArray[np.intp]) -> Array:
        C, P = self.objective.shape
        return np.ascontiguousarray(x.reshape(C, P)[:, np.concatenate([[0], columns + 1])]).ravel()

    def _expanded(self, x: Array, columns: npt.NDArray[np.intp]) -> Array:
        C, P = self.objective.shape
        whole = np.zeros((C, P))
        whole[:, np.concatenate([[0], columns + 1])] = x.reshape(C, -1)
        return whole.ravel()

    def penalty_over(self, penalty: SparsePenalty, columns: npt.NDArray[np.intp]) -> SparsePenalty:
        """Return the penalty of some columns: blocks are there whole or not at all."""
        C, P = self.objective.shape
        place = np.full(P, -1)
        place[0], place[columns + 1] = 0, np.arange(1, len(columns) + 1)
        blocks = penalty.blocks
        keep = place[blocks.member % P] >= 0
        sizes = np.diff(blocks.first)
        if blocks.is_single:
            there = keep
        else:
            there = np.logical_and.reduceat(keep, blocks.first[:-1])
            keep = np.repeat(there, sizes)
        member = blocks.member[keep]
        member = (member // P) * (len(columns) + 1) + place[member % P]
        first = np.concatenate([[0], np.cumsum(sizes[there])])
        at = np.concatenate([[0], columns + 1])
        ridge = penalty.ridge.reshape(C, P)[:, at].ravel()
        return SparsePenalty(Blocks(first, member, blocks.strength[there], blocks.classes), ridge, penalty.reach)
