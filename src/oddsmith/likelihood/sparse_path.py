"""A likelihood under a Laplace prior at many scales, each solved from the one before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import Array

SPAN = 100.0
"""The largest scale of a path is so many times the smallest useful one."""


@dataclass(frozen=True, kw_only=True)
class SparsePath:
    """Solutions along ascending ``scales``.

    ``weights`` (n × C × P) are in the user's units, the intercept first: C = 1 for two classes, K for more. ``gap`` are
    bounds of the objective's distance from its optimum, relative to it. ``passes`` counts passes over all rows.
    """

    scales: Array
    weights: Array
    log_likelihood: Array
    objective: Array
    gap: Array
    passes: int


def solve_path(problem: Problem, scales: Array | None = None, n: int = 100, *, tol: float = 1e-7) -> SparsePath:
    """Solve at all ``scales``, by default ``n`` from the smallest useful one (all weights zero) to a hundred times it."""
    stated = SparseProblem.of(problem)
    e = stated.null_point()
    smallest = stated.smallest_scale(e)
    if scales is None:
        if not np.isfinite(smallest):
            raise InvalidInputError(
                "No column has any relation to the classes here: all weights are zero at any scale."
            )
        scales = smallest * np.geomspace(1.0, SPAN, n)
    points, before = [], min(smallest, float(scales[0]))
    for scale in scales:
        found = stated.solve(float(scale), e, tol=tol, max_iter=problem.max_iter, before=before)
        e, before = found.e, float(scale)
        points.append(found)
    weights = np.stack([stated.user_weights(point.e.w) for point in points])
    objective = np.array([point.value for point in points])
    return SparsePath(
        scales=np.asarray(scales, dtype=np.float64),
        weights=weights,
        log_likelihood=np.array([point.e.log_likelihood for point in points]),
        objective=objective,
        gap=np.array([point.gap for point in points]) / np.maximum(1.0, np.abs(objective)),
        passes=stated.objective.passes,
    )
