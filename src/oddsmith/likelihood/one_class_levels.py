"""Levels of a factor whose rows are all of one class: their weights run away, which counting finds.

Such rows are fitted perfectly in the limit, so they say nothing about the other weights: these are the maximum
likelihood estimates of the other rows. Without these rows further levels may be of one class; hence the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemorySource
from oddsmith.likelihood.fit import (
    LikelihoodFit,
    fit_likelihood,
    fitted_state,
    likelihood_fit,
    make_objective,
    make_plan,
    start_weights,
)
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.separation import Separation, verdict_of
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.solvers.base import DecrementBound, Recorder
from oddsmith.solvers.certificate import certificate_from

FAR = 20.0
"""Log odds of rows of one class, at least: a weight of the limit."""


@dataclass(frozen=True)
class OneClassLevels:
    """Rows that levels of one class fit perfectly, and the ``direction`` (1 + columns, user units) towards that."""

    rows: npt.NDArray[np.bool_]
    direction: Array


def find_one_class_levels(source: MemorySource, *, intercept: bool) -> OneClassLevels | None:
    """Return the levels of one class among two, None if there are none.

    >>> rows = SplitRows((CodeRows(np.array([0, 0, 1, 2, 2], dtype=np.int8), 3, dropped=0),))
    >>> found = find_one_class_levels(MemorySource(rows, np.array([0, 1, 1, 0, 1], dtype=np.int32), 2), intercept=True)
    >>> found.rows.tolist(), np.sign(found.direction).tolist()
    ([False, False, True, False, False], [0.0, 1.0, 0.0])
    """
    assert isinstance(source.X, SplitRows)
    factors = [
        (part, columns)
        for part, columns in zip(source.X.parts, source.X.ranges, strict=True)
        if isinstance(part, CodeRows) and part.x is None
    ]
    left = np.ones(source.n_rows, dtype=bool) if source.s is None else source.s > 0
    present, rounds = left.copy(), []
    while True:
        found, gone = np.zeros(1 + source.shape.M), np.zeros_like(left)
        for factor, (a, b) in factors:
            towards = _towards(factor, source.t, left)
            if towards.any():
                found[1 + a : 1 + b] += factor.by_column(towards)
                if (sign := towards[factor.entries < 0][-1]) and intercept:  # the level without a column
                    found[0] += sign
                    found[1 + a : 1 + b] -= sign
                elif sign:
                    towards[factor.entries < 0] = 0.0
                gone |= left & (towards[factor.codes.astype(np.intp) + 1] != 0.0)
        if not gone.any():
            break
        rounds.append(found)
        left &= ~gone
    if not rounds:
        return None
    # What a round before has ordered, later ones must not undo.
    growth = [(1.0 + len(factors)) ** (len(rounds) - 1 - k) for k in range(len(rounds))]
    return OneClassLevels(present & ~left, np.sum([g * d for g, d in zip(growth, rounds, strict=True)], axis=0))


def _towards(factor: CodeRows, t: npt.NDArray[np.int32], left: npt.NDArray[np.bool_]) -> Array:
    """Return the class (−1 or 1) of the levels that have rows of one class only, 0 for others, by code + 1.

    Levels without a column of their own count as one.
    """
    codes = factor.codes[left].astype(np.intp) + 1
    rows = np.bincount(codes, minlength=factor.levels + 1)
    ones = np.bincount(codes[t[left] == 1], minlength=factor.levels + 1)
    nowhere = factor.entries < 0
    nowhere[0] = False
    rows[nowhere], ones[nowhere] = rows[nowhere].sum(), ones[nowhere].sum()
    towards = np.where(ones == rows, 1.0, 0.0) - np.where(ones == 0, 1.0, 0.0)
    towards[rows == 0] = 0.0
    towards[0] = 0.0  # rows without a level have no weight of their own
    return towards


def fit_without_levels(
    problem: Problem, found: OneClassLevels, classes: Labels, terms: list[str]
) -> tuple[LikelihoodFit, Separation]:
    """Fit the rows that no level of one class fits perfectly; the weights of these levels are those of the limit."""
    source = problem.source
    assert isinstance(source, MemorySource)
    s = np.where(found.rows, 0.0, 1.0 if source.s is None else source.s)
    weight = np.bincount(source.t, weights=s, minlength=2).astype(np.float64)
    if weight.min() > 0:
        fit = fit_likelihood(replace(problem, source=replace(source, s=s), class_weight=weight))
    else:
        fit = _null_fit(problem)
    objective, coordinates, common = make_objective(problem, fit.learned.coordinates, eliminate=True)
    free = fit.learned.free | (found.direction != 0.0)
    objective = objective.restricted(free)
    x = coordinates.from_user(fit.coef, fit.intercept)
    direction = coordinates.from_user(found.direction[None, 1:], found.direction[:1])
    reach = float(np.abs(x).sum() if weight.min() <= 0 else _largest_activation(source, found.rows, fit))
    w = x + (FAR + reach) * direction
    e = objective.evaluate(w, order=2 if objective.eliminated is not None else 1)
    result = replace(fit.result, w=w, final=e, diverging=False)
    learned = fitted_state(problem, objective, coordinates, common, result)
    verdict = verdict_of((found.direction[None], bool(weight.min() <= 0)), classes, terms)
    return likelihood_fit(learned, result, fit.certificate, fit.plan, flat=True), verdict


def _largest_activation(source: MemorySource, rows: npt.NDArray[np.bool_], fit: LikelihoodFit) -> float:
    part = source.take(np.flatnonzero(rows))
    A = part.block(0, part.n_rows).Phi.activations(fit.coef.T) + fit.intercept
    return float(np.abs(A).max(initial=0.0))


def _null_fit(problem: Problem) -> LikelihoodFit:
    """Return the null model in the form of a fit: no rows are left to fit."""
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
