"""Profile intervals of a fitted model, from its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.inference.constrained import minimise
from oddsmith.inference.interpolated import interpolated_ends
from oddsmith.inference.profile import Profiler
from oddsmith.inference.separation import runs_away
from oddsmith.inference.summary import normal_quantile
from oddsmith.models.firth import FirthObjective
from oddsmith.models.learned import Learned
from oddsmith.models.likelihood import Problem, make_objective
from oddsmith.models.objective import FoldObjective
from oddsmith.models.reported import Weights
from oddsmith.numerics import Array, factor_spd
from oddsmith.solvers.base import Evaluation

AT_OPTIMUM = 1e-3
"""Farther than this from the optimum (standard errors, per root of their number) is not at it."""


def objective_of(learned: Learned, problem: Problem) -> FoldObjective:
    """Return the objective of a fit again, in its coordinates."""
    objective, _, _ = make_objective(problem, learned.coordinates)
    objective.free = learned.free
    return objective


def make_profiler(learned: Learned, problem: Problem, q: float, *, existing: bool) -> Profiler:
    """Return what finds the ends of profile intervals; refuse rows that are not those of the fit."""
    objective = objective_of(learned, problem)
    x = learned.x.ravel()
    if problem.jeffreys:
        firth = FirthObjective(objective)
        profiler = Profiler(firth.evaluate, firth.evaluate(x), q, exact=False)
    else:
        # Where the Hessian may be indefinite, the expected one leads the way.
        expected = not objective.convex

        def evaluate(w: Array) -> Evaluation:
            return objective.evaluate(w, order=2, expected=expected)

        profiler = Profiler(evaluate, evaluate(x), q, not expected)
    e = profiler.best
    assert e.hessian is not None
    check_rows(learned, e.log_likelihood)
    decrement = factor_spd(e.hessian, tol=0.0).norm(e.gradient)
    if existing and not decrement <= AT_OPTIMUM * np.sqrt(len(x)):
        raise InvalidInputError(
            f"This needs the optimum of the likelihood, and the weights are {decrement:.3g} standard errors from it: "
            "the fit stopped early. Fit again with solver='newton', or with a larger max_iter."
        )
    if existing:
        return profiler
    anchor = profiler.evaluate(np.zeros_like(x))
    profiler = replace(profiler, anchor=anchor)
    limit = minimise(profiler.evaluate, anchor, np.zeros((0, len(x))), tol=profiler.tol, max_iter=200)
    return replace(profiler, best=replace(e, value=min(e.value, limit.e.value)))


def check_rows(learned: Learned, log_likelihood: float) -> None:
    """Refuse rows that are not those of the fit, by their likelihood."""
    if not np.isclose(log_likelihood, learned.log_likelihood, rtol=1e-6, atol=1e-6):
        raise InvalidInputError(
            f"These are not the rows that the model was fitted to: with them its log likelihood is "
            f"{log_likelihood:.10g} instead of {learned.log_likelihood:.10g}. Pass the rows, labels, weights and "
            "offsets of the fit."
        )


def profile_ends(
    model: Any, learned: Learned, weights: Weights, problem: Problem, level: float, errors: Array | None = None
) -> tuple[Array, Array]:
    """Return the lower and upper ends of the profile intervals of the reported weights.

    With ``errors`` (the standard errors) they are interpolated on a grid, as in R.
    """
    q = normal_quantile(level) ** 2
    existing = model._separation is None
    if errors is not None and not existing:
        raise InvalidInputError("The classes are separated, and intervals='confint' needs estimates: use 'profile'.")
    profiler = make_profiler(learned, problem, q, existing=existing)
    ends = np.full((2, len(weights.terms)), np.nan)
    for i in np.flatnonzero(~weights.aliased):
        c = np.zeros(learned.x.size)
        c[learned.kept] = weights.J[i]
        if errors is not None:
            ends[:, i] = weights.estimate[i] + np.array(interpolated_ends(profiler, c, float(errors[i]), level))
            continue
        for row, side in enumerate((-1, 1)):
            away = not profiler.existing and _runs_away(learned, problem, side * c)
            ends[row, i] = side * np.inf if away else weights.estimate[i] + profiler.end(c, side)
    return ends[0], ends[1]


def _runs_away(learned: Learned, problem: Problem, c: Array) -> bool:
    """Whether separated classes let ``cᵀx`` go to infinity."""
    source, coordinates = problem.source, learned.coordinates
    inside = slice(None) if source.s is None else source.s > 0
    block = source.block(0, source.n_rows)
    rows = block.Phi[inside]
    dense = np.asarray(rows.toarray() if block.is_sparse else rows, dtype=np.float64)
    Z = np.column_stack([np.ones(len(dense)), (dense - coordinates.center) / coordinates.scale])
    # From the solver's contrasts to those against class 0, which the margins are about.
    towards: Array = np.asarray(np.linalg.solve(coordinates.T.T, c.reshape(learned.x.shape)), dtype=np.float64)
    return runs_away(Z, block.t[inside], learned.K, towards, np.asarray(learned.free.all(axis=0)))
