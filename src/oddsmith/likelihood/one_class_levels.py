"""Levels of a factor whose rows are all of one class: their weights diverge, which counting detects.

Such rows are fitted perfectly in the limit, so they do not affect the other weights, which are the maximum likelihood
estimates from the other rows. Without these rows, further levels may be of one class; hence the search is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemorySource
from oddsmith.kernels.texts import count_codes
from oddsmith.likelihood.coordinates import independent_columns, independent_levels
from oddsmith.likelihood.fit import (
    LikelihoodFit,
    fit_likelihood,
    fitted_state,
    likelihood_fit,
    make_objective,
    make_plan,
    resume,
    start_weights,
)
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.separation import Separation, verdict_of
from oddsmith.likelihood.separation_search import find_separation
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.protocols import Labels
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.solvers import policy
from oddsmith.solvers.base import DecrementBound, Recorder
from oddsmith.solvers.certificate import certificate_from

CHUNK_ROWS = 1 << 16  # Rows that are counted at a time, to save memory.
NOTHING = 1e-9  # Share of the largest weight of a direction that is rounding.
LAST = 15  # Iterations along the way to infinity, where the rows that are left are separated too.
FAR = 20.0  # Log odds of rows of one class, at least: a weight of the limit.


@dataclass(frozen=True)
class OneClassLevels:
    """The rows ``left`` that no level of one class fits perfectly, and the diverging ``direction`` (1 + columns)."""

    left: npt.NDArray[np.bool_]
    direction: Array


def find_one_class_levels(source: MemorySource, *, intercept: bool) -> OneClassLevels | None:
    """Return the levels of one class among two, None if there are none.

    >>> rows = SplitRows((CodeRows(np.array([0, 0, 1, 2, 2], dtype=np.int8), 3, dropped=0),))
    >>> found = find_one_class_levels(MemorySource(rows, np.array([0, 1, 1, 0, 1], dtype=np.int32), 2), intercept=True)
    >>> found.left.tolist(), np.sign(found.direction).tolist()
    ([True, True, False, True, True], [0.0, 1.0, 0.0])
    """
    assert isinstance(source.X, SplitRows)
    factors = [
        (part, columns)
        for part, columns in zip(source.X.parts, source.X.ranges, strict=True)
        if isinstance(part, CodeRows) and part.x is None
    ]
    left = np.ones(source.n_rows, dtype=bool) if source.s is None else source.s > 0
    rounds = []
    while True:
        found, perfect = np.zeros(1 + source.shape.M), []
        for factor, (a, b) in factors:
            towards = _towards(factor, source.t, left)
            if towards.any():
                found[1 + a : 1 + b] += factor.by_column(towards)
                nowhere = factor.entries < 0
                if (sign := towards[nowhere][-1] if nowhere.any() else 0.0) and intercept:  # the level without a column
                    found[0] += sign
                    found[1 + a : 1 + b] -= sign
                elif sign:
                    towards[nowhere] = 0.0
                perfect.append((factor.codes, np.roll(towards != 0.0, -1)))  # code −1 comes last
        if not _leave_out(perfect, left):
            break
        rounds.append(found)
    if not rounds:
        return None
    # What a round before has ordered, later ones must not undo.
    growth = [(1.0 + len(factors)) ** (len(rounds) - 1 - k) for k in range(len(rounds))]
    return OneClassLevels(left, np.sum([g * d for g, d in zip(growth, rounds, strict=True)], axis=0))


def _leave_out(perfect: list[tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]], left: npt.NDArray[np.bool_]) -> bool:
    """Take the rows of some levels of each factor, by code, out of those that are ``left``; return if there are any."""
    any_left = False
    for start in range(0, len(left), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        gone = np.zeros(len(left[part]), dtype=bool)
        for codes, levels in perfect:
            gone |= levels[codes[part]]
        gone &= left[part]
        any_left = any_left or bool(gone.any())
        left[part] ^= gone
    return any_left


def find_absent_classes(source: MemorySource, *, intercept: bool) -> Array:
    """Return the direction (K−1 × (1 + columns), against class 0) towards levels that lack a class; zeros if none do.

    Lowering the activation of a class in a level without rows of that class affects no row, so such weights diverge.

    >>> rows = SplitRows((CodeRows(np.array([0, 0, 0, 1, 1, 1, 1], dtype=np.int8), 2, dropped=0),))
    >>> source = MemorySource(rows, np.array([0, 1, 2, 1, 1, 0, 1], dtype=np.int32), 3)
    >>> find_absent_classes(source, intercept=True).tolist()
    [[0.0, 0.0], [0.0, -1.0]]
    """
    assert isinstance(source.X, SplitRows)
    K, found = source.K, np.zeros((source.K, 1 + source.shape.M))
    for factor, (a, b) in zip(source.X.parts, source.X.ranges, strict=True):
        if not isinstance(factor, CodeRows) or factor.x is not None:
            continue
        rows = _class_counts(factor, source)
        nowhere = factor.entries < 0
        nowhere[0] = False  # rows without a level have no weight of their own
        rows[nowhere] = rows[nowhere].sum(axis=0)
        absent = (rows == 0) & rows.any(axis=1, keepdims=True)
        absent[0] &= factor.entries[0] >= 0
        for k in range(K):
            towards = -absent[:, k].astype(np.float64)
            found[k, 1 + a : 1 + b] += factor.by_column(towards)
            if intercept and nowhere.any() and towards[nowhere][-1]:  # the level without a column
                found[k, 0] -= 1.0
                found[k, 1 + a : 1 + b] += 1.0
    return np.asarray(found[1:] - found[0])


def _class_counts(factor: CodeRows, source: MemorySource) -> npt.NDArray[np.intp]:
    """Return the number of rows of each class (K) by code + 1, those of weight 0 left out."""
    K = source.K
    rows = np.zeros((factor.levels + 1) * K, dtype=np.intp)
    step = max(CHUNK_ROWS, rows.size)
    for start in range(0, source.n_rows, step):
        part = slice(start, start + step)
        cells = (factor.codes[part].astype(np.intp) + 1) * K + source.t[part]
        rows += np.bincount(cells if source.s is None else cells[source.s[part] > 0], minlength=rows.size)
    return rows.reshape(-1, K)


def _towards(factor: CodeRows, t: npt.NDArray[np.int32], left: npt.NDArray[np.bool_]) -> Array:
    """Return the class (−1 or 1) of the levels that have rows of one class only, 0 for others, by code + 1.

    Levels without a column of their own count as one.
    """
    rows, ones = np.zeros((2, factor.levels + 1), dtype=np.intp)
    for start in range(0, len(t), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        rows += count_codes(factor.codes[part][left[part]], factor.levels)
        ones += count_codes(factor.codes[part][left[part] & (t[part] == 1)], factor.levels)
    nowhere = factor.entries < 0
    nowhere[0] = False
    rows[nowhere], ones[nowhere] = rows[nowhere].sum(), ones[nowhere].sum()
    towards = np.where(ones == rows, 1.0, 0.0) - np.where(ones == 0, 1.0, 0.0)
    towards[rows == 0] = 0.0
    towards[0] *= factor.entries[0] >= 0  # rows without a level have mostly no weight of their own
    return towards


def fit_levels_of_one_class(problem: Problem, classes: Labels) -> tuple[LikelihoodFit, Separation] | None:
    """Return the fit of a table in which levels have rows of one class only, None if none have.

    For more than two classes and many weights: levels that lack a class. No linear program is needed to detect that
    their weights diverge.
    """
    if not problem.in_parts or not isinstance(problem.source, MemorySource):
        return None
    if problem.K > 2:
        if (problem.K - 1) * (problem.M + 1) <= policy.POLICY.largest_hessian:
            return None
        towards = find_absent_classes(problem.memory_source, intercept=problem.intercept)
        if not towards.any():
            return None
        verdict = verdict_of((towards, False), classes, _terms(problem, towards))
        return _fit_towards_infinity(problem), verdict
    found = find_one_class_levels(problem.memory_source, intercept=problem.intercept)
    if found is None:
        return None
    return fit_without_levels(problem, found, classes)


def fit_without_levels(problem: Problem, found: OneClassLevels, classes: Labels) -> tuple[LikelihoodFit, Separation]:
    """Fit the rows that no level of one class fits perfectly; these levels have the weights of the limit.

    Columns that separate the remaining rows are named as well.
    """
    source = problem.source
    assert isinstance(source, MemorySource)
    s = found.left if source.s is None else np.where(found.left, source.s, 0.0)
    weight = np.array([s.sum(where=source.t == k) for k in range(2)], dtype=np.float64)
    rest = replace(problem, source=replace(source, s=s), class_weight=weight)
    fit = fit_likelihood(rest) if weight.min() > 0 else _null_fit(problem)
    further = Separation("none", {})
    if fit.result.diverging:
        further = find_separation(rest, fit, classes, [str(name) for name in problem.names()])
        fit = resume(rest if further.kind == "none" else replace(rest, max_iter=min(rest.max_iter, LAST)), fit)
    fit = _without_hessian(fit)  # which makes room for another
    objective, coordinates, common = make_objective(problem, fit.learned.coordinates, eliminate=True)
    x = coordinates.from_user(fit.coef, fit.intercept)
    direction = coordinates.from_user(found.direction[None, 1:], found.direction[:1])
    if objective.eliminated is not None or objective.size <= policy.POLICY.largest_hessian:
        objective, (x, direction) = _without_aliased(objective, start_weights(problem, objective), (x, direction))
    else:
        objective = objective.restricted(fit.learned.free | (found.direction != 0.0))
    reach = float(np.abs(x).sum() if weight.min() <= 0 else _largest_activation(source, found.left, fit))
    w = x + (FAR + reach) * direction
    e = objective.evaluate(w, order=2 if objective.eliminated is not None else 1)
    result = replace(fit.result, w=w, final=e, diverging=False)
    learned = fitted_state(problem, objective, coordinates, common, result)
    towards = np.concatenate([part.ravel() for part in coordinates.to_user(direction)[::-1]])
    towards[np.abs(towards) <= NOTHING * np.abs(towards).max()] = 0.0
    complete = weight.min() <= 0 or further.kind == "complete"
    verdict = verdict_of((towards[None], complete), classes, _terms(problem, towards[None]))
    verdict = replace(verdict, infinite={**further.infinite, **verdict.infinite})
    return likelihood_fit(learned, result, fit.certificate, fit.plan, flat=True), verdict


def _terms(problem: Problem, direction: Array) -> dict[int, str]:
    """Return the names of the columns that a direction (K−1 × (1 + columns)) involves."""
    return problem.names_at(np.flatnonzero(direction[:, 1:].any(axis=0)))


def _without_hessian(fit: LikelihoodFit) -> LikelihoodFit:
    result = replace(fit.result, final=replace(fit.result.final, hessian=None))
    return replace(fit, result=result, learned=replace(fit.learned, hessian=None, bordered=None))


def _without_aliased(
    objective: FoldObjective, start: Array, weights: tuple[Array, Array]
) -> tuple[FoldObjective, tuple[Array, Array]]:
    """Return the objective without columns that depend on earlier ones, and the weights without these columns.

    All rows determine which they are: on the fitted rows alone, more columns may be dependent. Weights v of
    aliased columns become the weights u of kept ones with ``H u = H v``, so that no activation changes.
    """
    levels = objective.eliminated is not None
    free = (independent_levels if levels else independent_columns)(objective, start).free
    whole, part = objective.evaluate(start, order=2).hessian, objective.restricted(free)
    assert whole is not None
    aside = ~free.ravel()
    away = (np.where(aside, w, 0.0) for w in weights)
    sums = [np.where(aside, 0.0, whole @ v) if v.any() else None for v in away]
    whole = objective.state.last = None  # which makes room
    moved = [
        w if b is None else np.where(aside, 0.0, w + part.evaluate(start, order=2).factor().solve(b))
        for w, b in zip(weights, sums, strict=True)
    ]
    return part, (moved[0], moved[1])


def _largest_activation(source: MemorySource, left: npt.NDArray[np.bool_], fit: LikelihoodFit) -> float:
    """Return the largest activation of the rows that are not left."""
    largest = 0.0
    for start in range(0, source.n_rows, CHUNK_ROWS):
        part = source.block(start, min(start + CHUNK_ROWS, source.n_rows))
        gone = ~left[start : start + CHUNK_ROWS] & (True if part.s is None else part.s > 0)
        some = part.Phi.take(np.flatnonzero(gone))
        A = some.activations(fit.coef.T) + fit.intercept
        largest = max(largest, float(np.abs(A).max(initial=0.0)))
    return largest


def _fit_towards_infinity(problem: Problem) -> LikelihoodFit:
    """Return the fit at weights on the way to infinity, held by a prior of the scale of the limit."""
    held = fit_likelihood(replace(problem, prior=GaussianPrior(FAR), max_iter=min(problem.max_iter, LAST)))
    objective, coordinates, common = make_objective(problem)
    e = objective.evaluate(coordinates.from_user(held.coef, held.intercept))
    result = replace(held.result, w=e.w, final=e, diverging=False)
    learned = fitted_state(problem, objective, coordinates, common, result, costly=True)
    return likelihood_fit(learned, result, held.certificate, held.plan, flat=True)


def _null_fit(problem: Problem) -> LikelihoodFit:
    """Return the null model as a fit, when no rows are left."""
    objective, coordinates, common = make_objective(problem, eliminate=True)
    x = start_weights(problem, objective)
    chosen = make_plan(problem, coordinates, objective.eliminated)
    recorder = Recorder(objective, "null model")
    e = objective.evaluate(x)
    recorder.add(e, 0.0)
    certificate = certificate_from(DecrementBound(np.inf, np.inf, exact=True), objective, e, problem.tol)
    result = recorder.result(e, certificate)
    learned = fitted_state(problem, objective, coordinates, common, result, costly=True)
    return likelihood_fit(learned, result, certificate, chosen, flat=True)
