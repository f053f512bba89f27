"""A likelihood under a Laplace prior at many scales, each solved from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from oddsmith.engines import PartedSource
from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.sparse_batch import batch_size, solve_from_sample, solve_together
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import SparseOptimum

SPAN = 100.0
"""The largest scale of a path is so many times the smallest useful one."""
SAMPLE_TOLERANCE = 1e-5


@dataclass(frozen=True, kw_only=True)
class SparsePath:
    """Solutions along ascending ``scales``.

    ``points`` hold the weights of each (C × P, sparse) in the user's units, the intercept first: C = 1 for two classes,
    K for more. ``gap`` bounds the objective's distance from its optimum, relative to it. ``passes`` counts passes over
    all rows.
    """

    scales: Array
    points: tuple[sparse.csr_array, ...]
    log_likelihood: Array
    objective: Array
    gap: Array
    passes: int

    @property
    def weights(self) -> Array:
        """All weights, n × C × P."""
        return np.stack([point.toarray() for point in self.points])


def solve_path(problem: Problem, scales: Array | None = None, n: int = 100, *, tol: float = 1e-7) -> SparsePath:
    """Solve at all ``scales``, by default ``n`` from the smallest useful one to a hundred times it."""
    stated = SparseProblem.of(problem)
    e = stated.null_point()
    smallest = stated.smallest_scale(e)
    if scales is None:
        if not np.isfinite(smallest):
            raise InvalidInputError(
                "No column has any relation to the classes here: all weights are zero at any scale."
            )
        scales = smallest * np.geomspace(1.0, SPAN, n)
    found, weights = [], []
    if not stated.is_small and stated.by_columns:
        return _by_columns(stated, e, np.asarray(scales, dtype=np.float64), smallest, tol)
    for point in _solve_all(stated, e, [float(scale) for scale in scales], smallest, tol):
        weights.append(sparse.csr_array(stated.user_weights(point.e.w)))
        found.append((point.e.log_likelihood, point.value, point.gap))
    return _path(stated, np.asarray(scales, dtype=np.float64), weights, found)


def _path(
    stated: SparseProblem, scales: Array, weights: list[sparse.csr_array], found: list[tuple[float, float, float]]
) -> SparsePath:
    log_likelihood, objective, gap = np.array(found).T
    return SparsePath(
        scales=scales,
        points=tuple(weights),
        log_likelihood=log_likelihood,
        objective=objective,
        gap=gap / np.maximum(1.0, np.abs(objective)),
        passes=stated.objective.passes,
    )


def _by_columns(stated: SparseProblem, e: ObjectiveValue, scales: Array, smallest: float, tol: float) -> SparsePath:
    """Solve many columns in memory: nothing of the size of all weights is kept but those that are not zero."""
    stated.start_columns(e)
    found, weights, before = [], [], min(smallest, float(scales[0]))
    for scale in scales:
        point = stated.step_columns(float(scale), tol=tol, max_iter=stated.problem.max_iter, before=before)
        weights.append(stated.column_weights(point))
        found.append((-point.loss, point.value, max(point.gap, 0.0)))
        before = float(scale)
    return _path(stated, scales, weights, found)


def _solve_all(
    stated: SparseProblem, e: ObjectiveValue, scales: Sequence[float], smallest: float, tol: float
) -> Iterator[SparseOptimum]:
    """Solve at each scale from the one before, or a few scales together where a pass over the rows is long."""
    batch, sample = batch_size(stated), stated.on_sample()
    if batch > 1 and sample is not None and isinstance(stated.problem.source, PartedSource):
        # A pass over files or a cluster is costly: the path of the sample is the start, and all scales share passes.
        null = sample.objective.evaluate(e.w)
        starts = [point.e for point in _solve_all(sample, null, scales, smallest, SAMPLE_TOLERANCE)]
        yield from solve_from_sample(stated, sample, scales, starts, tol)
        return
    curvature, before = sample or stated, min(smallest, scales[0])
    for first in range(0, len(scales), batch):
        some = scales[first : first + batch]
        if batch > 1:
            H = curvature.objective.evaluate(e.w, 2).dense_hessian
            found = solve_together(stated, some, e, H, tol=tol)
        else:
            found = [stated.solve(some[0], e, tol=tol, max_iter=stated.problem.max_iter, before=before)]
        yield from found
        e, before = found[-1].e, some[-1]
