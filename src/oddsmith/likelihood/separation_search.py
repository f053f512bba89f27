"""The rows for testing separation: all rows in memory, otherwise a sample and the hardest rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.design.basis.base import seen_through
from oddsmith.engines import MemorySource, PartedSource
from oddsmith.likelihood.column_choice import TakeColumns
from oddsmith.likelihood.fit import LikelihoodFit, rescale, resume
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.separation import (
    SLACK,
    DesignRows,
    Separation,
    margins,
    separating_direction,
    separation,
    verdict_of,
    with_alone,
)
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.statistic import Shape
from oddsmith.statistics.column_classes import ColumnClasses

NEAREST = 5000
ROUNDS = 20  # Most passes that a question of separation is worth.
LARGEST_PROGRAM = 3e8  # Numbers of rows in memory up to which they are looked at: 2.4 GB as an array.
HIDDEN = 1e-6  # Rows that move less than this, where others do not move at all, do so by rounding.


@dataclass(frozen=True, kw_only=True)
class HardestRowsParams:
    """Weights against class 0, and how many rows are kept: those of smallest margin, or of largest activation."""

    coef: Array
    intercept: Array
    whitening: Array | None = None
    size: int = NEAREST
    far: bool = False


@dataclass(frozen=True)
class HardestRows:
    """The rows with the smallest margin: the activation of their class minus the largest other one.

    Misclassified rows come first. A statistic that keeps the ``size`` smallest margins.

    >>> block = Block(np.array([[1.0], [-3.0], [2.0]]), np.array([1, 1, 0], dtype=np.int32))
    >>> found = HardestRows.of(block, HardestRowsParams(coef=np.eye(1), intercept=np.zeros(1), size=2))
    >>> found.margin.tolist(), found.rows.tolist(), found.t.tolist()
    ([-3.0, -2.0], [[-3.0], [2.0]], [1, 0])
    """

    margin: Array
    rows: Array
    t: npt.NDArray[np.int32]
    size: int

    @classmethod
    def zero(cls, shape: Shape, params: HardestRowsParams) -> HardestRows:
        """Return those of no rows."""
        return cls(np.empty(0), np.empty((0, shape.M)), np.empty(0, dtype=np.int32), params.size)

    @classmethod
    def of(cls, block: Block, params: HardestRowsParams) -> HardestRows:
        """Return those of a block, rows of weight 0 left out."""
        W = params.coef if params.whitening is None else params.coef @ params.whitening.T
        block = block.concrete()
        A = block.Phi.activations(W.T) + params.intercept
        margin = -np.linalg.norm(A, axis=1) if params.far else margins(A, block.t)
        inside = np.arange(len(A)) if block.s is None else np.flatnonzero(block.s > 0)
        chosen = inside[np.argsort(margin[inside], kind="stable")[: params.size]]
        return cls(margin[chosen], block.Phi.take(chosen).dense(), block.t[chosen], params.size)

    def merge(self, other: HardestRows) -> HardestRows:
        """Return those of both."""
        margin = np.concatenate([self.margin, other.margin])
        chosen = np.argsort(margin, kind="stable")[: self.size]
        rows, t = np.concatenate([self.rows, other.rows]), np.concatenate([self.t, other.t])
        return HardestRows(margin[chosen], rows[chosen], t[chosen], self.size)


def find_separation(
    problem: Problem,
    fit: LikelihoodFit,
    classes: npt.NDArray[Any],
    terms: list[str],
    levels: Mapping[str, Sequence[int]] | None = None,
) -> Separation:
    """Return whether all rows are separated, after a fit that diverged as if they were.

    For data in pieces, the search uses a small set of rows, which grows in each pass:
      1. It starts with the sample, and the rows that the weights of the fit misclassify most.
      2. If no direction orders these rows, none orders all rows, unless some columns vary only in other rows: the rows
         that vary most are added.
      3. If a direction orders these rows and all others, it is the answer; otherwise the rows that it misclassifies
         most are added.
    """
    source, whitening, reached = problem.source, problem.whitening, (fit.coef, fit.intercept)
    how: dict[str, Any] = {"fit_intercept": problem.intercept, "weights": reached}
    named: dict[str, Any] = {"levels": None if whitening is not None else levels}
    if isinstance(source, MemorySource) and source.n_rows * float(source.shape.M) > LARGEST_PROGRAM:
        return Separation("none", {})  # too large to tell: the fit says that it did not converge
    if isinstance(source, MemorySource):
        inside = slice(None) if source.s is None else source.s > 0
        rows, t = _whitened(source.block(0, source.n_rows).X[inside], whitening), source.t[inside]
        return separation(rows, t, classes, terms, **how, **named)

    levels_of_one_class = _one_class_direction(problem)
    if levels_of_one_class is not None:
        return verdict_of((levels_of_one_class, False), classes, terms)
    if (NEAREST + (source.drawn.n_rows if source.drawn is not None else 0)) * float(source.shape.M) > LARGEST_PROGRAM:
        return Separation("none", {})

    def nearest(coef: Array, intercept: Array, *, far: bool = False) -> tuple[Any, ...]:
        params = HardestRowsParams(coef=coef, intercept=intercept, whitening=whitening, far=far)
        near: HardestRows = problem.engine.fold(HardestRows, source, params)  # type: ignore[type-var]
        return near.margin, _whitened(near.rows, whitening), near.t

    rows, t = _drawn(source, whitening)  # 1
    if len(t) == source.n_present:
        return separation(rows, t, classes, terms, **how, **named)
    found, rows, t = _search(rows, t, len(classes), nearest, how)
    verdict = verdict_of(found, classes, terms)
    if verdict.kind != "complete":
        return verdict
    verdict = with_alone(verdict, rows, t, classes, terms)
    alone = tuple(name for name in verdict.alone if _separates_all(terms.index(name), rows, t, nearest))
    return replace(verdict, alone=alone)


def find_free_separation(
    problem: Problem, fit: LikelihoodFit, classes: npt.NDArray[Any], terms: list[str]
) -> Separation | None:
    """Return how the columns that a Laplace prior leaves free separate the classes, None if they do not.

    Along a separating direction, the probability of some class falls to zero in some row, and the loss of that row by
    no less. So this probability is at most the gap over the weight of the row: if no row has activations of that size,
    there is nothing to search. Of rows in pieces the free columns are searched as those of a fit without a prior are.
    """
    free, source = fit.learned.common[1:] > 0.0, problem.source
    if not free.any():
        return None
    names = [name for name, of in zip(terms, free, strict=True) if of]
    if not isinstance(source, MemorySource):
        which = np.flatnonzero(free)
        if problem.whitening is not None or source.form is not None:
            return None
        part = replace(problem, source=seen_through(source, TakeColumns(which), len(which)))
        found = find_separation(part, replace(fit, coef=fit.coef[:, which]), classes, names)
        return None if found.kind == "none" else found
    if source.n_rows * float(free.sum()) > LARGEST_PROGRAM:
        return None
    if source.offset is None:
        params = HardestRowsParams(
            coef=fit.coef, intercept=fit.intercept, whitening=problem.whitening, size=1, far=True
        )
        reach = -float(problem.engine.fold(HardestRows, source, params).margin[0])  # type: ignore[type-var]
        share = fit.certificate.gap / (1.0 if source.s is None else float(source.s[source.s > 0].min()))
        if math.sqrt(2.0) * reach < -math.log(len(classes) * share + np.finfo(np.float64).tiny):
            return None
    inside = slice(None) if source.s is None else source.s > 0
    rows, t = _whitened(source.block(0, source.n_rows).X[inside], problem.whitening)[:, free], source.t[inside]
    found = separation(rows, t, classes, names, fit_intercept=problem.intercept)
    return None if found.kind == "none" else found


LIMIT_MARGIN = 15.0  # Margin of the hardest row at which fitted probabilities are those of the limit: e^−15 of it.
COSTLY_STEPS = 5  # Newton steps towards it where Hessians are costly.
LONGEST_SCALING = 1e3  # Most times as far that weights are moved along a separating direction.


def fit_at_limit(problem: Problem, fit: LikelihoodFit, verdict: Separation) -> LikelihoodFit:
    """Go on with a diverging fit of separated classes, until the fitted probabilities are those of the limit.

    Weights that classify every row correctly separate the classes; then multiples of them go there, in a pass for the
    smallest margin and one Hessian. Newton's method, with a Hessian for each step, goes on otherwise (for fewer steps,
    of about one unit of margin each, where Hessians are costly).
    """
    costly = problem.source.n_present * float(fit.result.w.size) ** 2 >= policy.POLICY.deferred_products
    if verdict.kind == "complete" and costly and fit.learned.hessian is not None:
        params = HardestRowsParams(coef=fit.coef, intercept=fit.intercept, whitening=problem.whitening, size=1)
        margin = float(problem.engine.fold(HardestRows, problem.source, params).margin[0])  # type: ignore[type-var]
        if margin * LONGEST_SCALING > LIMIT_MARGIN:
            return rescale(problem, fit, 1.0 + LIMIT_MARGIN / margin)
    steps = COSTLY_STEPS if costly else int(LIMIT_MARGIN)
    return resume(replace(problem, max_iter=min(problem.max_iter, steps)), fit)


def _search(
    rows: Array, t: npt.NDArray[np.int32], K: int, nearest: Callable[..., tuple[Any, ...]], how: dict[str, Any]
) -> tuple[tuple[Array, bool] | None, Array, npt.NDArray[np.int32]]:
    """Return the direction that orders all rows, if there is one, and the rows that it was found with."""
    _, more, theirs = nearest(*how["weights"])
    for _ in range(ROUNDS):
        rows, t = np.concatenate([rows, more]), np.concatenate([t, theirs])
        found = separating_direction(rows, t, K, **how)
        if found is None:  # 2
            hidden = _unseen(rows)
            if not len(hidden):
                break
            reach, more, theirs = nearest(hidden, -hidden @ rows.mean(axis=0), far=True)
            new = reach < -HIDDEN
        else:  # 3
            direction, complete = found
            margin, more, theirs = nearest(direction[:, 1:], direction[:, 0])
            least = margins(rows @ direction[:, 1:].T + direction[:, 0], t).min()
            new = margin < min(least, -SLACK)
            found = direction, complete and bool(margin.min() > 0.0)
        if not new.any():
            break
        more, theirs = more[new], theirs[new]
    return found, rows, t


def _one_class_direction(problem: Problem) -> Array | None:
    """Return the direction (1 × (1 + columns)) of levels whose rows are all of one class, None if there are none.

    For a table of two classes folded by codes, one pass counts the rows of each level.
    """
    form = problem.source.form
    if form is None or problem.K > 2:
        return None
    sums = problem.engine.fold(ColumnClasses, problem.source, problem.source.shape)
    direction = np.zeros((1, 1 + form.M))
    for first, last in set(form.factors) - set(form.products):
        weight = sums.weight[first:last]
        direction[0, 1 + first : 1 + last] += _only_class(weight)
        without = sums.total - weight.sum(axis=0)
        side = _only_class(np.where(without > HIDDEN * sums.total, without, 0.0)[None])[0]  # but for rounding
        if side and problem.intercept:
            direction[0, 0] += side
            direction[0, 1 + first : 1 + last] -= side
    return direction if direction.any() else None


def _only_class(weight: Array) -> Array:
    """Return 1 where the second of two classes has all the weight, −1 where the first has, 0 elsewhere."""
    there = weight > 0.0
    return np.where(there.sum(axis=1) == 1, there[:, 1].astype(np.float64) - there[:, 0], 0.0)


def _separates_all(j: int, rows: Array, t: npt.NDArray[np.int32], nearest: Callable[..., tuple[Any, ...]]) -> bool:
    """Whether a column that separates some rows of two classes separates all others, too; a pass."""
    if t.max() > 1:
        return False
    ends = [(rows[t == k, j].min(), rows[t == k, j].max()) for k in (0, 1)]
    sign = 1.0 if ends[0][1] < ends[1][0] else -1.0
    middle = 0.5 * (ends[0][1] + ends[1][0]) if sign > 0 else 0.5 * (ends[1][1] + ends[0][0])
    coef = np.zeros((1, rows.shape[1]))
    coef[0, j] = sign
    return bool(nearest(coef, np.array([-sign * middle]))[0].min() > 0.0)


def _drawn(source: PartedSource, whitening: Array | None) -> tuple[Array, npt.NDArray[np.int32]]:
    if source.drawn is None:
        return np.empty((0, source.shape.M if whitening is None else whitening.shape[1])), np.empty(0, dtype=np.int32)
    drawn = replace(source.drawn, transform=source.transform, M=source.M).block(0, source.drawn.n_rows)
    return _whitened(drawn.Phi.dense(), whitening), drawn.t


def _whitened(rows: DesignRows, whitening: Array | None) -> Any:
    return rows if whitening is None else rows @ whitening


def _unseen(rows: Array) -> Array:
    """Return the directions, one per row, that affect no row: columns that are constant here, or depend on others.

    >>> np.abs(_unseen(np.array([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))).tolist()
    [[0.0, 1.0]]
    """
    Z = rows - rows.mean(axis=0)
    scale = np.sqrt((Z**2).mean(axis=0))
    Z /= np.where(scale > 0.0, scale, 1.0)
    size, directions = np.linalg.eigh(Z.T @ Z / len(Z))
    flat: Array = directions[:, size < HIDDEN**2].T
    return flat / np.where(scale > 0.0, scale, 1.0)
