"""Profile intervals of a fitted model, from its rows: exact, or interpolated on a grid as R's ``confint`` does.

The interpolation is right to about four digits, so it serves for comparison with R.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.inference.fit_record import FitRecord
from oddsmith.inference.profile import Profiler
from oddsmith.inference.summary import normal_quantile
from oddsmith.likelihood.firth import FirthObjective
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.separation import runs_away
from oddsmith.numerics import Array, factor_spd
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.constrained import Minimum, minimise

AT_OPTIMUM = 1e-3
"""Farther than this from the optimum (standard errors, per root of their number) is not at it."""
GRID_STEPS = 9
"""Most steps to a side of the grid on which R interpolates a profile."""


def objective_of(fit: FitRecord) -> FoldObjective:
    """Return the objective of a fit again, in its coordinates."""
    objective, _, _ = make_objective(fit.problem, fit.state.coordinates)
    return objective.restricted(fit.state.free)


def make_profiler(fit: FitRecord, q: float) -> Profiler:
    """Return the profiler of a fit; refuse rows that are not those of the fit."""
    objective = objective_of(fit)
    x = fit.state.x.ravel()
    existing = fit.separation is None
    if fit.problem.jeffreys:
        firth = FirthObjective(objective)
        profiler = Profiler(evaluate=firth.evaluate, best=firth.evaluate(x), q=q, exact=False)
    else:
        # Where the Hessian may be indefinite, the expected one leads the way.
        expected = not objective.convex

        def evaluate(w: Array) -> ObjectiveValue:
            return objective.evaluate(w, order=2, expected=expected)

        profiler = Profiler(evaluate=evaluate, best=evaluate(x), q=q, exact=not expected)
    e = profiler.best
    assert e.hessian is not None
    fit.state.require_same_rows(e.log_likelihood)
    decrement = factor_spd(e.hessian, tol=0.0).norm(e.gradient)
    if existing:
        if not decrement <= AT_OPTIMUM * np.sqrt(len(x)):
            raise InvalidInputError(
                f"This needs the optimum of the likelihood, and the weights are {decrement:.3g} standard errors from "
                "it: the fit stopped early. Fit again with solver='newton', or with a larger max_iter."
            )
        return profiler
    anchor = profiler.evaluate(np.zeros_like(x))
    profiler = replace(profiler, anchor=anchor)
    limit = minimise(profiler.evaluate, anchor, np.zeros((0, len(x))), tol=profiler.tol, max_iter=200)
    return replace(profiler, best=replace(e, value=min(e.value, limit.e.value)))


def profile_ends(fit: FitRecord, level: float, errors: Array | None = None) -> tuple[Array, Array]:
    """Return the lower and upper ends of the profile intervals of the reported weights.

    With ``errors`` (the standard errors) they are interpolated on a grid, as in R.
    """
    state, weights = fit.state, fit.weights
    if errors is not None and fit.separation is not None:
        raise InvalidInputError("The classes are separated, and intervals='confint' needs estimates: use 'profile'.")
    profiler = make_profiler(fit, normal_quantile(level) ** 2)
    ends = np.full((2, len(weights.terms)), np.nan)
    for i in np.flatnonzero(~weights.aliased):
        c = np.zeros(state.x.size)
        c[state.kept] = weights.J[i]
        if errors is not None:
            ends[:, i] = weights.estimate[i] + np.array(interpolated_ends(profiler, c, float(errors[i]), level))
            continue
        for row, side in enumerate((-1, 1)):
            infinite = not profiler.existing and _runs_away(state, fit.problem.memory_source, side * c)
            ends[row, i] = side * np.inf if infinite else weights.estimate[i] + profiler.end(c, side)
    return ends[0], ends[1]


def _runs_away(state: FittedState, source: MemorySource, c: Array) -> bool:
    """Whether separated classes let ``cᵀx`` go to infinity."""
    coordinates = state.coordinates
    inside = slice(None) if source.s is None else source.s > 0
    block = source.block(0, source.n_rows)
    dense = block.Phi.dense()[inside]
    Z = np.column_stack([np.ones(len(dense)), (dense - coordinates.center) / coordinates.scale])
    # From the solver's contrasts to those against class 0, which the margins are about.
    towards: Array = np.asarray(np.linalg.solve(coordinates.T.T, c.reshape(state.x.shape)), dtype=np.float64)
    return runs_away(Z, block.t[inside], state.K, towards, np.asarray(state.free.all(axis=0)))


def interpolated_ends(profiler: Profiler, c: Array, error: float, level: float) -> tuple[float, float]:
    """Return where the interval of ``cᵀx`` ends, relative to the estimate, by the method of ``confint(glm)``.

    1. The signed root of the profile, at steps of a fifth of the normal quantile of level 1 − (1 − level)/4 (in
       standard errors), until it is beyond that quantile or nine steps are done.
    2. A cubic spline through these points, at three times as many places at equal distances.
    3. Linear interpolation between them.
    """
    farthest = normal_quantile(1.0 - (1.0 - level) / 4.0)
    values, roots = [0.0], [0.0]
    for side in (-1, 1):  # 1
        near: Minimum | ObjectiveValue = profiler.best
        for step in range(1, GRID_STEPS + 1):
            v = side * step * farthest / 5.0 * error
            found = profiler.fit(near, c, v)
            if found is None:
                break
            near = found
            values.append(v)
            roots.append(side * float(np.sqrt(max(2.0 * (found.e.value - profiler.best.value), 0.0))))
            if abs(roots[-1]) >= farthest:
                break
    order = np.argsort(values)
    x, y = np.array(values)[order], np.array(roots)[order]
    if len(x) < 4:
        raise InvalidInputError(
            "The profile could be followed to fewer than four points, too few for a spline: use intervals='profile'."
        )
    places = np.linspace(x[0], x[-1], 3 * len(x))
    heights = fmm_spline(x, y, places)  # 2
    cutoff = normal_quantile(level)
    rising = np.argsort(heights, kind="stable")
    ends = np.interp([-cutoff, cutoff], heights[rising], places[rising], left=np.nan, right=np.nan)  # 3
    return float(ends[0]), float(ends[1])


def fmm_spline(x: Array, y: Array, places: Array) -> Array:
    """Return the cubic spline of Forsythe, Malcolm and Moler through ``(x, y)``, R's default, at ``places``.

    Its third derivative at each end is that of the cubic through the four points there.

    >>> x = np.array([0.0, 1.0, 3.0, 4.0, 6.0])
    >>> fmm_spline(x, x**3 - x, np.array([0.5, 5.0])).round(9).tolist()
    [-0.375, 120.0]
    """
    h, slope = np.diff(x), np.diff(y) / np.diff(x)
    n = len(x)
    M, r = np.zeros((n, n)), np.zeros(n)
    for i in range(1, n - 1):
        M[i, i - 1 : i + 2] = h[i - 1], 2.0 * (h[i - 1] + h[i]), h[i]
        r[i] = slope[i] - slope[i - 1]
    # sigma, a sixth of the second derivative, changes linearly: its slope at the ends is a third divided difference.
    for row, first, sign in ((0, 0, 1), (n - 1, n - 4, -1)):
        d = np.diff(slope[first : first + 3]) / (x[first + 2 : first + 4] - x[first : first + 2])
        third = (d[1] - d[0]) / (x[first + 3] - x[first])
        edge = 0 if row == 0 else n - 2
        M[row, row], M[row, row + sign] = -sign / h[edge], sign / h[edge]
        r[row] = third
    sigma = np.linalg.solve(M, r)
    k = np.clip(np.searchsorted(x, places, side="right") - 1, 0, n - 2)
    w, d = (places - x[k]) / h[k], 1.0 - (places - x[k]) / h[k]
    bend = h[k] ** 2 * ((w**3 - w) * sigma[k + 1] + (d**3 - d) * sigma[k])
    return np.asarray(w * y[k + 1] + d * y[k] + bend)
