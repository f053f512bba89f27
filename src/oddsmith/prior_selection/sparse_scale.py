"""Cross-validation of the scale of a Laplace prior: a whole path of scales for each fold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.engines.memory import available_cores
from oddsmith.likelihood.coordinates import Coordinates, is_large, threads_of
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.fold_batch import FoldBatch, FoldRows
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.sparse_batch import PathBatch, advance_together
from oddsmith.likelihood.sparse_path import SPAN, scale_path, solve_path
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import Array
from oddsmith.prior_selection.cross_validation import Split, folds
from oddsmith.prior_selection.quadratic_model import Selection, one_standard_error
from oddsmith.priors import LaplacePrior
from oddsmith.statistics import Losses, LossesParams

GRID = 50  # Scales tried over two decades: neighbours differ by a tenth.
FOLD_TOL = 1e-7
"""Relative gap of the fits of folds: of 569 × 8, losses are then right to 1e-4, a hundredth of their errors."""


def select_laplace(problem: Problem, seed: int | None) -> tuple[Selection, LaplacePrior]:
    """Return the scale of the smallest loss in cross-validation (or the smallest within its error), and the prior."""
    prior = problem.laplace
    assert prior is not None
    if prior.scale != "cv":
        prior.checked()  # says what a scale is
    splits = folds(problem, prior.cv, seed)
    stated = SparseProblem.of(replace(problem, laplace=replace(prior, scale=1.0)))
    scales = scale_path(stated.smallest_scale(stated.null_point()), GRID)
    loss, error = cross_validated_loss(problem, splits, scales)
    if np.argmin(loss) == len(loss) - 1:  # the loss still falls: two decades more
        larger = SPAN * scales[1:]
        more, its_error = cross_validated_loss(problem, splits, larger)
        scales, loss, error = np.append(scales, larger), np.append(loss, more), np.append(error, its_error)
    k = int(np.argmin(loss))
    at_edge = k in (0, len(loss) - 1)
    if prior.one_standard_error and len(splits) > 1:
        k = one_standard_error(scales, loss, error)
    table = {"width": scales.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    found = replace(prior, scale=float(scales[k]))
    return Selection(method="cv", prior=found, width=float(scales[k]), table=table, at_edge=at_edge), found


def cross_validated_loss(
    problem: Problem, splits: Sequence[Split], scales: Array, tol: float = FOLD_TOL, guide: PathBatch | None = None
) -> tuple[Array, Array]:
    """Return the mean log loss of the rows left out at each of ascending ``scales``, and its standard error over folds.

    Each fold is a path on its training rows. Where the rows are many, it begins near the path of all rows, of which
    ``guide`` is, and all folds share their passes (`FoldBatch`): about four passes, and a sorted copy of the rows.
    Otherwise folds run in parallel, each on a copy of its rows: two at a time for large data.
    """
    source = problem.memory_source
    if guide is None and advance_together(SparseProblem.of(problem)):
        guide = solve_path(problem, scales, tol=tol, tight=False).guide
    rows = None if guide is None else FoldRows.of(guide.stated.objective.memory_source, splits)
    if guide is not None and rows is not None:
        sums = FoldBatch.of(guide, rows, splits).losses(tol)
        tested = [float(len(test) if source.s is None else source.s[test].sum()) for _, test in splits]
        return _over_folds(sums / np.array(tested)[:, None])
    threads = threads_of(problem.engine) or available_cores()
    together = 1 if is_large(source) else min(threads, len(splits))
    inside = problem if together == 1 else replace(problem, engine=MemoryEngine(1))
    with ThreadPoolExecutor(max(together, min(threads, 2))) as pool:
        return _over_folds(
            np.array(list(pool.map(lambda split: _fold_losses(inside, split, scales, tol, guide), splits)))
        )


def _over_folds(losses: Array) -> tuple[Array, Array]:
    """Return the mean of losses (folds × scales) and its standard error."""
    F, n = losses.shape
    error = losses.std(axis=0, ddof=1) / np.sqrt(F) if F > 1 else np.full(n, np.nan)
    return losses.mean(axis=0), error


def _fold_losses(problem: Problem, split: Split, scales: Array, tol: float, guide: PathBatch | None) -> Array:
    """Return the mean loss of the test rows at each scale, fitted to the training rows."""
    train, test = split
    source = problem.memory_source
    outside = source.take(test)
    path = solve_path(over_rows(problem, source.take(train)), scales, tol=tol, guide=guide, tight=False)
    tested = float(len(test) if outside.s is None else outside.s.sum())
    return held_out_losses(over_rows(problem, outside), path.weights) / tested


def over_rows(problem: Problem, source: MemorySource) -> Problem:
    """Return a problem over other rows, which were checked before."""
    weight = np.bincount(source.t, weights=source.s, minlength=source.K).astype(np.float64)
    return replace(problem, source=source, class_weight=weight, explain=None, progress=None, start=None)


def held_out_losses(problem: Problem, weights: Array) -> Array:
    """Return the sum of losses over the rows of a problem at each of several weights (n × C × P, intercept first)."""
    _, C, P = weights.shape
    contrast = np.array([[0.0], [1.0]]) if problem.K == 2 else np.eye(problem.K)
    if C == problem.K - 1 > 1:  # the reference class has weights of zero
        contrast = np.delete(contrast, problem.reference or 0, axis=1)
    frame = Coordinates(center=np.zeros(P - 1), scale=np.ones(P - 1), contrast=contrast, longest=0.0)
    if problem.whitening is not None:
        frame = replace(frame, raw_center=np.zeros(len(problem.whitening)))
    held, _, _ = make_objective(replace(problem, prior=None), frame)
    if held.link is not None or C > 1:
        return np.array([held.evaluate(w.ravel()).value for w in weights])
    raw = [held.raw(w.ravel()) for w in weights]
    params = LossesParams(np.vstack([W for W, _ in raw]), np.concatenate([b for _, b in raw]), held.center)
    return held.engine.fold(Losses, held.source, params).value
