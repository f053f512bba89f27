"""Many columns in memory: proximal Newton whose models are solved by columns, without any Hessian.

1. At the current activations: residuals and curvatures of the rows, a least-squares model of the loss.
2. Coordinate descent over a working set of columns finds its minimum with the penalty, and residuals there that are
   nearly a feasible point of the dual problem.
3. The objective at the new weights less the value of the dual there bounds the gap. Once that is small on the working
   set, the residuals times all columns say which are missing from it.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.cached_property import cached_property
from oddsmith.engines import MemorySource
from oddsmith.engines.memory import available_cores, parallel_map
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.likelihood.dual_correction import DualCorrection
from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.proximal_newton import ROUNDING

FIRST_PRECISION, LAST_PRECISION = 1e-2, 1e-10
"""How far the conditions of an optimum may be missed by the first model, and by any."""
SHORT_STEP = 1.3  # The ratio of scales up to which the first model is near the optimum, and worth solving to the end.
LAST_SHARE = 0.1
"""The share of the gap asked for that the conditions missed by a model near the optimum may take, to first order."""
PATIENCE = 12  # So many steps in a row may leave the gap as it was.
LEAST_SHARE, ROUGH_SHARE, ROUGH = 0.7, 0.9, 1e-3
"""Columns with a gradient below this share of their penalty begin outside the working set, however long the step; the
second where the gap may be as large as the third."""
MISSING_SHARE = 0.95
ADDED = 256  # Dense columns that are added to the working set at a time, besides as many as there are.
AHEAD_SHARE, SPARSE_AHEAD_SHARE = 0.97, 0.95  # The same where gradients are extrapolated, of dense columns and others.
NEAR_SHARE = 0.5  # The gradients of sparse columns below this share of their next penalty are not extrapolated.
ORDER = 2  # Of the extrapolation along a path.
LEAST_APART = (
    1e-3  # The distance of two scales from which it is made, against that to the next: rounding grows with it.
)
INTERCEPT_STEPS, LONGEST_STEP = (
    20,
    2.0,
)  # Newton steps of intercepts alone at most, each no longer: some see no curvature.
STRIPES = 16  # Parts into which columns are divided for threads.


@dataclass(kw_only=True)
class ColumnPoint:
    """Weights ``x`` of some ``columns`` (all others are zero) in the user's units, intercepts, the activations there.

    ``theta`` are residuals that are a point of the dual problem, ``sizes`` the dual norms of their products with all
    columns.
    """

    columns: npt.NDArray[np.intp]
    x: Array
    b: Array
    a: Array
    value: float
    loss: float
    gap: float
    theta: Array
    sizes: Array
    products: Array = field(default_factory=lambda: np.zeros(0))
    steps: int = 0

    def weights_of(self, columns: npt.NDArray[np.intp]) -> Array:
        """Return the weights of some columns, which hold all that are not zero."""
        result, k = np.zeros((len(columns), *self.x.shape[1:])), len(self.columns)
        if self.begins(columns):
            result[:k] = self.x
        elif len(columns) and k:
            place = np.full(1 + max(columns.max(), self.columns.max()), -1)
            place[columns] = np.arange(len(columns))
            at = place[self.columns]
            there = at >= 0
            result[at[there]] = self.x[there]
        return result

    def begins(self, columns: npt.NDArray[np.intp]) -> bool:
        """Return whether some columns begin with those of this point."""
        return columns is self.columns or np.array_equal(columns[: len(self.columns)], self.columns)

    def all_weights(self, M: int) -> Array:
        """Return the weights of all M columns."""
        whole = np.zeros((M, *self.x.shape[1:]))
        whole[self.columns] = self.x
        return whole


@dataclass(kw_only=True)
class ColumnDescent(ABC):
    """The problem by columns: rows ``X`` (an array or CSC), classes, weights, offsets, penalties at scale 1 and ridge.

    ``chosen`` are the columns of the working set, ``columns`` a copy of these. ``passed`` are the optima before the
    last, with their scales. ``seen`` are residuals with their products with all columns. ``rough`` is whether the
    solution is but the start of another, ``frugal`` whether residuals are corrected only where that takes a
    millisecond. ``SHARES`` are where stretches of a path end that take about equal times: later points have more
    columns.
    """

    SHARES: ClassVar[tuple[float, ...]] = (0.5, 0.7, 0.84, 0.93)

    X: npt.NDArray[np.float64] | sparse.csc_array
    t: npt.NDArray[np.int32]
    s: Array
    offset: Array
    strength: Array
    ridge: Array
    intercept: bool
    threads: int | None = None
    grouped: bool = False
    tight: bool = True
    frugal: bool = False
    chosen: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    columns: MatrixColumns | None = None
    passed: list[tuple[float, ColumnPoint]] = field(default_factory=list)
    last_scale: float = 0.0
    rough: bool = False
    seen: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, source: MemorySource, strength: Array, ridge: Array, **how: Any) -> Self:
        """Return the problem of a source in memory; ``how`` are further fields."""
        X, t, s, offset = present_rows(source)
        return cls(X=X, t=t, s=s, offset=cls.arranged(offset), strength=strength, ridge=ridge, **how)

    @staticmethod
    @abstractmethod
    def arranged(offset: Array) -> Array:
        """Return offsets (n × (K − 1)) in the shape of the activations."""

    @abstractmethod
    def losses(self, a: Array) -> tuple[float, Array]:
        """Return the loss at activations, and its derivative by each."""

    @abstractmethod
    def sizes(self, g: Array) -> Array:
        """Return the dual norm of the gradient of each column."""

    @abstractmethod
    def norms(self, w: Array) -> Array:
        """Return the norm of the weights of each column that the penalty is about."""

    @abstractmethod
    def step(self, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint:
        """Return the point after one step over the working set; its gap is that over the working set."""

    @abstractmethod
    def entropy(self, theta: Array, shrink: float) -> float:
        """Return the conjugate of the loss at shrunk residuals."""

    @abstractmethod
    def corrected(self, at: ColumnPoint, penalty: Array, precision: float) -> Array:
        """Return the residuals at a point, corrected until they meet the conditions of an optimum."""

    @abstractmethod
    def at_best_intercepts(self, inner: Array, b: Array, penalty: Array) -> tuple[Array, float, Array, DualCorrection]:
        """Return the best intercepts beside activations, the loss and residuals there, conditions and Hessian.

        ``b`` are intercepts near them.
        """

    @abstractmethod
    def feasible(self, theta: Array) -> Array:
        """Return residuals near those given that stand for probabilities and, with an intercept, sum to zero."""

    @property
    def extrapolates(self) -> bool:
        """Whether gradients are taken to be where those of the last optima point to."""
        return False

    @property
    def threaded(self) -> bool:
        """Whether steps are on all threads: then a path is solved from one end to the other."""
        return False

    @property
    def inexact(self) -> bool:
        """Whether a step has curvatures of another point: what is missed then is due to these, not to the descent."""
        return False

    def shares(self, threads: int) -> tuple[float, ...]:
        """Return where stretches of a path end that take about equal times on so many threads."""
        return self.SHARES if threads > 1 else ()

    def copy(self) -> Self:
        """Return the same problem with a working set of its own, for one thread."""
        return replace(self, threads=1, columns=None, passed=[])

    def gradient(self, u: Array) -> Array:
        """Return ``Xᵀ u`` over all columns."""
        if not isinstance(self.X, np.ndarray):
            return self.all_columns.dots(u)
        if self.seen is not None and self.seen[0] is u:
            return self.seen[1]
        M = self.X.shape[1]
        parts = list(itertools.pairwise(M * i // STRIPES for i in range(STRIPES + 1)))
        each = parallel_map(lambda ends: self.X[:, slice(*ends)].T @ u, parts, self.threads or available_cores())
        self.seen = u, np.concatenate([np.asarray(part, dtype=np.float64) for part in each])
        return self.seen[1]

    def gradient_sizes(self, u: Array) -> Array:
        """Return the dual norm of each column of ``Xᵀ u``."""
        return self.sizes(self.gradient(u))

    @cached_property
    def plain(self) -> bool:
        """Whether every column has a penalty and none a ridge."""
        return not self.ridge.any() and bool((self.strength > 0.0).all())

    @cached_property
    def all_columns(self) -> MatrixColumns:
        """All columns of a sparse matrix."""
        return MatrixColumns.of(self.X)

    def start(self, w: Array, b: Array) -> tuple[ColumnPoint, Array]:
        """Return the point of given weights, and the gradient of all columns there."""
        at = self._placed(w, b)
        g = self.gradient(at.theta)
        at.sizes = self.sizes(g)
        return at, g

    def _placed(self, w: Array, b: Array) -> ColumnPoint:
        used = np.flatnonzero(self.norms(w))
        a = self.offset + b + (np.asarray(self.X[:, used] @ w[used]) if len(used) else 0.0)
        loss, r = self.losses(a)
        none = np.zeros(0)
        return ColumnPoint(columns=used, x=w[used], b=b, a=a, value=loss, loss=loss, gap=np.inf, theta=r, sizes=none)

    def solve(self, scale: float, at: ColumnPoint, *, before: float, tol: float, max_iter: int) -> ColumnPoint:
        """Return the optimum at ``scale`` from the point ``at``, the optimum at the scale ``before``."""
        penalty, old = self.strength / scale, at
        at, precision = self._ahead(at, penalty, scale, before), FIRST_PRECISION
        near = at is not old and scale <= SHORT_STEP * before
        if near:
            precision = self.last_precision(at, tol)
        at = replace(at, steps=0)
        self.passed, self.last_scale = [*self.passed, (before, old)][-ORDER:], scale
        self.rough = tol >= ROUGH
        least = max(2.0 - scale / before, ROUGH_SHARE if self.rough else LEAST_SHARE)
        if self.extrapolates:
            least = AHEAD_SHARE if self.threaded else SPARSE_AHEAD_SHARE
        strong = least * penalty
        self.choose(self.wanted(at, at.sizes > strong, at.columns[self.norms(at.x) > 0.0], penalty))
        best, last, stalled, again = np.inf, np.inf, 0, True
        for step in range(1, max_iter + 1):
            at = self.step(at, penalty, precision)
            at.steps, allowed = step, tol * max(1.0, abs(at.value))
            fell = at.gap < 0.7 * best or at.value < last - 1e-9 * abs(last)
            best, stalled, last = min(at.gap, best), 0 if fell else stalled + 1, at.value
            if at.gap <= allowed or stalled > PATIENCE or step == max_iter:
                left = self._tightened(at, penalty) if self.tight and not self.rough else np.inf
                self._look_at_all(at, penalty)
                more = again and at.gap > 2.0 * policy.POLICY.sparse_tight * left  # columns that nearly matter
                again = again and not more
                if at.gap <= allowed and not more:
                    break
                wanted = self.wanted(at, at.sizes > MISSING_SHARE * penalty, self.chosen, penalty)
                if stalled > PATIENCE and len(wanted) == len(self.chosen):
                    break
                self.choose(wanted)
                best, stalled = np.inf, 0
            share = 0.01 if not near else 1.0 if fell and self.inexact else 0.1
            precision = max(LAST_PRECISION, min(share * precision, self.last_precision(at, tol)))
        return at

    def with_gap(self, at: ColumnPoint, residuals: Array, penalty: Array) -> ColumnPoint:
        """Return a point over the working set with the dual point of its residuals, and its gap."""
        assert self.columns is not None
        at = replace(at, theta=self.feasible(residuals))
        at.products = self.columns.dots(at.theta)
        sizes, ridge = self.sizes(at.products), self.ridge[self.chosen]
        at.gap = self.gap(at, at.products, sizes, penalty[self.chosen], ridge)
        self._tightened(at, penalty)
        self._look_at_all(at, penalty)
        return at

    def _tightened(self, at: ColumnPoint, penalty: Array) -> float:
        """Correct the residuals of a point, in place, where what they miss of the conditions is most of the gap.

        Return about how far the objective is from its optimum, or infinity where that is not asked for.
        """
        assert self.columns is not None
        settings, floor = policy.POLICY, ROUNDING * abs(at.value)
        left = max(self._divergence(at), floor)
        cheap = at.theta.size * len(self.chosen) <= settings.dual_always
        if self.frugal and not cheap:
            return np.inf
        if (cheap and at.gap > settings.sparse_tight * floor) or at.gap - left > settings.sparse_tight * left:
            precision = max(left / max(at.value - at.loss, left), EPS)
            new = replace(at, theta=self.feasible(self.corrected(at, penalty, precision)))
            g = new.products = self.columns.dots(new.theta)
            new.gap = self.gap(new, g, self.sizes(g), penalty[self.chosen], self.ridge[self.chosen])
            if new.gap < at.gap:
                at.theta, at.products, at.gap = new.theta, new.products, new.gap
                left = max(self._divergence(at), floor)
        return left

    def _divergence(self, at: ColumnPoint) -> float:
        """Return the divergence of the residuals from those at the point: the gap if they meet all conditions."""
        return at.loss + self.entropy(at.theta, 1.0) - float((at.theta * at.a).sum())

    def wanted(
        self, at: ColumnPoint, more: npt.NDArray[np.bool_], known: npt.NDArray[np.intp], penalty: Array
    ) -> npt.NDArray[np.intp]:
        """Return the columns ``known`` and ``more``, of dense ones those with the largest gradients."""
        more[known] = False
        added = np.flatnonzero(more)
        if self.threaded and len(added) > (most := ADDED + len(known)):
            added = added[np.argsort(-at.sizes[added] / penalty[added], kind="stable")[:most]]
        return np.sort(np.concatenate([known, added]))

    @staticmethod
    def last_precision(at: ColumnPoint, tol: float) -> float:
        """Return how far the conditions of an optimum may be missed near a point, for a gap within ``tol``."""
        share = max(at.value - at.loss, 1e-300) / max(abs(at.value), 1e-300)
        return min(max(LAST_PRECISION, LAST_SHARE * tol / share), FIRST_PRECISION)

    def _ahead(self, at: ColumnPoint, penalty: Array, scale: float, before: float) -> ColumnPoint:
        """Return the point expected at ``scale`` from the last optima, which are nearly a parabola in the penalty.

        ``at`` itself where the objective is lower there.
        """
        known: dict[float, ColumnPoint] = {}
        for u, point in reversed(self.passed):
            if u < min([before, *known]) - LEAST_APART * (scale - before):
                known[u] = point
        if not known or self.last_scale != before:
            return at
        places = [1.0 / each for each in (*known, before)]
        shares = [math.prod((1.0 / scale - v) / (u - v) for v in places if v != u) for u in places]
        points = [*known.values(), at]

        def combined(each: Iterable[Array]) -> Array:
            parts = (share * part for share, part in zip(shares, each, strict=True))
            total = next(parts)
            for part in parts:
                total += part
            return np.asarray(total)

        columns = max((point.columns for point in points), key=len)
        if not all(point.begins(columns) for point in points):
            columns = in_any([point.columns for point in points], len(penalty))
        x = combined(point.weights_of(columns) for point in points)
        a, b = combined(point.a for point in points), combined(point.b for point in points)
        if self.extrapolates and not self.threaded:
            sizes, near = at.sizes.copy(), np.flatnonzero(at.sizes > NEAR_SHARE * penalty)
            sizes[near] = np.abs(combined(point.sizes[near] for point in points))
        else:
            sizes = np.abs(combined(point.sizes for point in points))
        crossed = (x != 0.0) & (x * at.weights_of(columns) <= 0.0)
        if isinstance(self.X, np.ndarray) and crossed.any():  # weights that were zero, or would change their sign
            away = np.where(crossed, x, 0.0)
            if self.columns is not None and columns is self.chosen and x.ndim == 1:
                a -= self.columns.activations(away)
            else:
                some = np.flatnonzero(self.norms(crossed * 1.0))
                a -= self.X[:, columns[some]] @ away[some]
            x[crossed] = 0.0
        loss, _ = self.losses(a)
        new = replace(at, columns=columns, x=x, sizes=sizes, b=b, a=a, loss=loss, steps=0)
        new.value, stays = (point.loss + self._penalty_at(point, penalty) for point in (new, at))
        return new if new.value < stays else at

    def _penalty_at(self, point: ColumnPoint, penalty: Array) -> float:
        ridge = 0.5 * float((self.ridge[point.columns] * (point.x**2).T).sum())
        return float(penalty[point.columns] @ self.norms(point.x)) + ridge

    def choose(self, columns: npt.NDArray[np.intp]) -> None:
        """Take the columns of the working set together, unless they are there already."""
        if self.columns is None or not np.isin(columns, self.chosen, assume_unique=True).all():
            self.chosen = columns
            self.columns = MatrixColumns.of(self.X[:, columns])

    def stepped(
        self, at: ColumnPoint, x: Array, intercept: Array, change: Array, theta: Array, penalty: Array
    ) -> ColumnPoint:
        """Go to the minimum of the model or part of the way, until the objective falls.

        ``x`` and ``intercept`` are the weights of the working set and the step of the intercepts there, ``change`` that
        of the activations, ``theta`` the residuals of the model.
        """
        assert self.columns is not None
        before, t, new_x = at.weights_of(self.chosen), 1.0, x
        old = at.loss + self.penalty(before, penalty)
        for _ in range(30):
            a = at.a + t * change
            loss, r = self.losses(a)
            new_x = x if t == 1.0 else before + t * (x - before)
            value = loss + self.penalty(new_x, penalty)
            if value <= old + 8.0 * EPS * abs(old):
                break
            t *= 0.5
        else:  # only rounding is left: the point stays, and is judged by this penalty
            t, a, new_x, value = 0.0, at.a, before, old
            loss, r = self.losses(a)
        new = replace(at, columns=self.chosen, x=new_x, b=at.b + t * intercept, a=a, value=value, loss=loss, steps=0)
        judged = []
        for residuals in (theta,) if t == 1.0 else (theta, r):  # any of them is a point of the dual
            point = replace(new, theta=self.feasible(residuals))
            g = point.products = self.columns.dots(point.theta)
            point.gap = self.gap(point, g, self.sizes(g), penalty[self.chosen], self.ridge[self.chosen])
            judged.append(point)
        return min(judged, key=lambda point: point.gap)

    def penalty(self, x: Array, strength: Array) -> float:
        """Return the penalty at weights of the working set, the ridge included."""
        ridge = 0.5 * float((self.ridge[self.chosen] * (x**2).T).sum())
        return float(strength[self.chosen] @ self.norms(x)) + ridge

    def _look_at_all(self, at: ColumnPoint, penalty: Array) -> None:
        g = self.gradient(at.theta) if self.ridge.any() else None
        at.sizes = self.gradient_sizes(at.theta) if g is None else self.sizes(g)
        at.gap = self.gap(at, g, at.sizes, penalty, self.ridge) + ROUNDING * abs(at.value)

    def gap(self, at: ColumnPoint, g: Array | None, size: Array, penalty: Array, ridge: Array) -> float:
        """Return the objective less the value of the dual at the residuals, shrunk until they are feasible.

        ``g`` is their product with the columns, of which those with a ridge are looked at.
        """
        over = np.flatnonzero(size > penalty)
        over = over[(ridge[over] == 0.0) & (penalty[over] > 0.0)]
        shrink = 1.0 / float(np.max(size[over] / penalty[over], initial=1.0))
        dual = shrink * float((at.theta * self.offset).sum()) - self.entropy(at.theta, shrink)
        if g is not None and (ridged := ridge > 0.0).any():
            dual -= self.ridge_conjugate(shrink * g[ridged], penalty[ridged], ridge[ridged])
        return max(at.value - dual, 0.0)

    def ridge_conjugate(self, g: Array, penalty: Array, ridge: Array) -> float:
        """Return the conjugate of a penalty with a ridge at the gradient of its columns."""
        over = np.maximum((self.sizes(g) if self.grouped else np.abs(g).T) - penalty, 0.0)
        return float((over**2 / (2.0 * ridge)).sum())


def present_rows(
    source: MemorySource,
) -> tuple[npt.NDArray[np.float64] | sparse.csc_array, npt.NDArray[np.int32], Array, Array]:
    """Return the rows of positive weight by columns, with their classes, weights and offsets."""
    s = np.ones(source.n_rows) if source.s is None else source.s
    offset = np.zeros((source.n_rows, source.K - 1)) if source.offset is None else source.offset
    X, t = source.X, source.t.astype(np.int32, copy=False)
    if (s > 0.0).all():
        return sparse.csc_array(source.by_columns()) if sparse.issparse(X) else X, t, s, offset
    kept = s > 0.0
    return X[kept].tocsc() if sparse.issparse(X) else X[kept], t[kept], s[kept], offset[kept]


def in_any(columns: Iterable[npt.NDArray[np.intp]], M: int) -> npt.NDArray[np.intp]:
    """Return which of M columns are in one of some lists, ascending.

    >>> in_any([np.array([3, 1]), np.array([1])], 5).tolist()
    [1, 3]
    """
    there = np.zeros(M, dtype=bool)
    for each in columns:
        there[each] = True
    return np.flatnonzero(there)
