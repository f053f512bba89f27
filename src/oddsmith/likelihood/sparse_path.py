"""A likelihood under a Laplace prior at many scales, each solved from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from oddsmith.engines.memory import assisted, available_cores
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.packed_columns import Team
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.sparse_batch import PathBatch, advance_together
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.likelihood.two_class_descent import LOOKS, TwoClassDescent
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import SparseOptimum

SPAN = 100.0  # The largest scale of a path is so many times the smallest useful one.
SHORT_PATH = 20  # The number of scales from which there are several stretches.
PathPoint = tuple[sparse.csr_array, tuple[float, float, float]]
ROUGH = 1e-2  # The relative gap of the point at which a stretch begins.


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
    guide: PathBatch | None = None

    @property
    def weights(self) -> Array:
        """All weights, n × C × P."""
        return np.stack([point.toarray() for point in self.points])


def solve_path(
    problem: Problem,
    scales: Array | None = None,
    n: int = 100,
    *,
    tol: float = 1e-7,
    guide: PathBatch | None = None,
    tight: bool = True,
) -> SparsePath:
    """Solve at all ``scales``, by default ``n`` from the smallest useful one to a hundred times it.

    ``guide`` is that of the path of a problem over nearly the same rows. With ``tight`` each gap is near the truth, not
    only within the tolerance.
    """
    stated = _stated(problem, tol, tight)
    e = stated.null_point()
    smallest = stated.smallest_scale(e)
    scales = scale_path(smallest, n) if scales is None else np.asarray(scales, dtype=np.float64)
    if not stated.is_small and stated.by_columns:
        return _by_columns(stated, e, scales, smallest, tol)
    batch, optima = None, _one_by_one(stated, e, scales.tolist(), smallest, tol)
    if advance_together(stated):
        stated.tight = stated.accurate  # more passes that are short
        batch = PathBatch.begun(stated, scales.tolist(), e, guide, tol)
        optima = iter(batch.solve(tol))
    found, weights = [], []
    for point in optima:
        weights.append(sparse.csr_array(stated.user_weights(point.e.w)))
        found.append((point.e.log_likelihood, point.value, point.gap))
    return replace(_path(stated, scales, weights, found), guide=batch)


def scale_path(smallest: float, n: int) -> Array:
    """Return ``n`` scales from the smallest useful one to a hundred times it.

    The first is below it by more than rounding, so that all weights are zero there on every engine.
    """
    if not np.isfinite(smallest):
        raise InvalidInputError("No column has any relation to the classes here: all weights are zero at any scale.")
    return smallest * np.geomspace(1.0 - 1e-10, SPAN, n)


def _stated(problem: Problem, tol: float, tight: bool) -> SparseProblem:
    """State a path, and whether its weights have nine digits and its gaps are near the truth.

    They are for tables of some size, and for larger ones where the tolerance asks for it.
    """
    stated = SparseProblem.of(problem)
    numbers = stated.objective.n_rows * float(stated.objective.size)
    quick = problem.K == 2 and not stated.is_small and stated.by_columns
    return replace(stated, tight=tight, accurate=tight and has_digits(numbers, tol, quick=quick))


def has_digits(numbers: float, tol: float, *, quick: bool) -> bool:
    """Return whether the weights of a path over so many numbers have nine digits; ``quick`` are columns of two classes.

    >>> [has_digits(2e6, 1e-7, quick=quick) for quick in (True, False)], has_digits(1e12, 1e-8, quick=False)
    ([True, False], True)
    """
    settings = policy.POLICY
    return tol <= settings.sparse_digits or numbers <= (settings.sparse_polish if quick else settings.dual_always)


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
    """Solve many columns in memory: nothing of the size of all weights is kept but those that are not zero.

    Columns of two classes whose products may be formed are solved on all threads at each scale, others in stretches of
    the path.
    """
    if stated.last is not e:
        stated.start_columns(e.w)
    before = min(smallest, float(scales[0]))
    descent = stated.column_descent()
    descent.frugal = stated.problem.K > 2  # a correction takes as long as a step
    descent.tight = descent.tight and (stated.accurate or descent.frugal)
    if isinstance(descent, TwoClassDescent) and descent.teamed:
        points = _with_team(stated, scales, before, tol)
    else:
        points = _by_stretches(stated, scales, before, tol)
    path = _path(stated, scales, [weights for weights, _ in points], [figures for _, figures in points])
    return replace(path, passes=path.passes + len(points))


def _with_team(stated: SparseProblem, scales: Array, before: float, tol: float) -> list[PathPoint]:
    """Solve a path from one end to the other, with all threads at each scale."""
    descent, team = stated.column_descent(), Team()
    assert isinstance(descent, TwoClassDescent)
    descent.team, descent.looks, points = team, LOOKS, []  # each scale looks at all columns

    def solve() -> None:
        try:
            points.extend(_stretch(stated, scales, before, tol))
        finally:
            team.end()

    assisted(solve, team.help, stated.objective.threads or available_cores())
    return points


def _by_stretches(stated: SparseProblem, scales: Array, before: float, tol: float) -> list[PathPoint]:
    """Solve stretches of a path at the same time.

    A quick climb to some scales, solved roughly, finds where they begin; it goes on as the last stretch, which takes
    longest.
    """
    threads, alone = stated.objective.threads or available_cores(), stated.problem.K > 2
    *edges, (last, end) = stretches(len(scales), stated.column_descent().shares(threads))
    with ThreadPoolExecutor(threads if alone else max(threads - 1, 1)) as pool:
        try:
            work, waiting = {}, {}
            for k, (first, stop) in enumerate(edges):
                part = replace(stated, descent=stated.column_descent().copy())
                waiting[k] = (part, scales[first:stop], before, tol)
                if k == 0 or not alone:
                    work[k] = pool.submit(_stretch, *waiting[k])
                for scale in scales[[(first + stop) // 2, stop - 1]]:
                    stated.step_columns(float(scale), tol=ROUGH, max_iter=stated.problem.max_iter, before=before)
                    before = float(scale)
            if alone:
                work[len(edges)] = pool.submit(_stretch, stated, scales[last:end], before, tol)
            for k in range(len(edges) - 1, -1, -1):
                work[k] = work[k] if k in work else pool.submit(_stretch, *waiting[k])
            rest = [] if alone else _stretch(stated, scales[last:end], before, tol)
            return [point for k in sorted(work) for point in work[k].result()] + rest
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def stretches(n: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Return the parts of a path of n points that end at some shares of it.

    >>> stretches(50, (0.5, 0.78)), stretches(10, (0.5, 0.78))
    ([(0, 25), (25, 39), (39, 50)], [(0, 10)])
    """
    edges = [0, *(int(share * n) for share in shares), n] if n >= SHORT_PATH else [0, n]
    return list(pairwise(edges))


def _stretch(part: SparseProblem, scales: Array, before: float, tol: float) -> list[PathPoint]:
    """Return weights, log likelihood, objective and gap at each of ascending scales."""
    found = []
    for scale in scales:
        point = part.step_columns(float(scale), tol=tol, max_iter=part.problem.max_iter, before=before)
        found.append((part.column_weights(point), (-point.loss, point.value, max(point.gap, 0.0))))
        before = float(scale)
    return found


def _one_by_one(
    stated: SparseProblem, e: ObjectiveValue, scales: Sequence[float], smallest: float, tol: float
) -> Iterator[SparseOptimum]:
    """Solve at each scale from the one before."""
    before = min(smallest, scales[0])
    for scale in scales:
        found = stated.solve(scale, e, tol=tol, max_iter=stated.problem.max_iter, before=before)
        yield found
        e, before = found.e, scale
