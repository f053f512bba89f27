"""The width of a prior by cross-validation: a warm-started path over widths for each fold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemoryEngine
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.inference.widths import Local, Selection, one_standard_error
from oddsmith.models.bench import NEAR, Bench
from oddsmith.models.coordinates import LARGE, is_large
from oddsmith.models.likelihood import Problem, _choose, _start
from oddsmith.models.objective import FoldObjective
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.solvers import Newton
from oddsmith.solvers.truncated import LARGEST_HESSIAN
from oddsmith.statistics import Losses, LossesParams

ENOUGH = 1e-2
"""Squared Newton decrement per weight before the last step: the weights are then well within their standard errors."""


def by_cross_validation(
    bench: Bench, widths: Array, splits: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]
) -> Selection:
    """Minimise the loss of rows left out in folds, along a path of widths from small to large.

    Each fit starts where the quadratic model of the last one puts it, and keeps that one's Hessian while it serves.
    Folds are fitted in parallel if the rows are few; of large data the rows of a fold are.
    """
    widths = np.sort(widths)
    # Compiled kernels pay once all fits together are large.
    fits = len(widths) * len(splits)
    many = is_large(bench.objective.source) or bench.objective.source.n_rows * bench.unit.Q.size * fits >= 16 * LARGE
    threads = 1 if many else min(bench.problem.engine.threads or available_cores(), len(splits))  # type: ignore[attr-defined]
    engine = bench.problem.engine if many or threads == 1 else MemoryEngine(1)
    # Folds that come one after the other share the memory of their training rows.
    X = bench.objective.source.X
    most = max(len(train) for train, _ in splits)
    room = np.empty((most, X.shape[1]), dtype=X.dtype) if threads == 1 and isinstance(X, np.ndarray) else None
    with ThreadPoolExecutor(threads) as pool:
        paths = pool.map(lambda split: _path(bench, engine, many, widths, split[0], split[1], room), splits)
        losses = np.array(list(paths))
    loss = losses.mean(axis=0)
    error = losses.std(axis=0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.full(len(loss), np.nan)
    k = int(np.argmin(loss))
    at_edge = k in (0, len(loss) - 1) and len(loss) > 1
    if bench.prior.one_standard_error:
        k = one_standard_error(widths, loss, error)
    log_alpha = np.array([-2.0 * np.log(widths[k])])
    prior, width = bench.concrete(log_alpha)
    table = {"width": widths.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    return Selection("cv", prior, width, None, table, at_edge)


def path_solver(bench: Bench) -> Any:
    """Return the solver of a path: Newton's method, unless there are too many weights for a Hessian."""
    if bench.objective.size <= LARGEST_HESSIAN:
        return Newton(watch_divergence=False, strict=False)
    return _choose(replace(bench.problem, prior=GaussianPrior(scale=1.0)), bench.coordinates)


@dataclass(frozen=True)
class Reached:
    """Weights at a width, and a quadratic model near there: of all rows (``exact``), of a sample, or none."""

    x: Array
    local: Local | None = None
    exact: bool = False


def _path(bench: Bench, engine: Any, large: bool, widths: Array, train: Any, test: Any, room: Any) -> Array:
    """Return the mean loss of the test rows at each width, fitted to the training rows."""
    source = bench.objective.source
    inside, outside = source.take(train, room), source.take(test)
    weight = float(len(train) if inside.s is None else inside.s.sum())
    tested = float(len(test) if outside.s is None else outside.s.sum())
    how = {"source": inside, "weight": weight, "engine": engine, "large": large}
    unit = replace(bench.objective, **how, passes=0, _last=None)
    rows = max(8000, 40 * unit.size)
    many = unit.size <= LARGEST_HESSIAN and inside.n_rows >= 2 * rows
    sample = unit.sample(rows, seed=4) if many else None
    points = []
    for k, log_alpha in enumerate(-2.0 * np.log(widths)):
        at = np.array([log_alpha])
        objective = bench.with_prior(unit, at)
        if k == 0:
            reached = Reached(_start(replace(bench.problem, source=inside), objective))
        reached = _next(bench, objective, sample, at, reached)
        points.append(reached.x)
    return _losses(replace(unit, source=outside, penalty=None, _last=None), points) / tested


def _losses(held: FoldObjective, points: list[Array]) -> Array:
    """Return the loss of rows at several weights: one pass for two classes and the logit."""
    if held.link is not None or held.shape[0] > 1:
        return np.array([held.evaluate(x).value for x in points])
    raw = [held.raw(x) for x in points]
    params = LossesParams(np.vstack([W for W, _ in raw]), np.concatenate([b for _, b in raw]), held.center)
    return held.engine.fold(Losses, held.source, params).value


def _next(bench: Bench, objective: FoldObjective, sample: FoldObjective | None, at: Array, last: Reached) -> Reached:
    """Return the optimum at the next width of a path.

    With many rows: by steps with a sample's Hessian and the gradient of all rows, while widths move the weights far.
    Then losses are so nearly equal that every digit counts: by the Hessian of all rows, one for all widths that follow.
    """
    x, local = last.x, last.local
    if local is not None:
        x = bench.whole(local.x + local.step(at))
        distance = local.distance(at) if sample is not None else np.inf
        if distance < 2.0 * NEAR:
            if not last.exact or distance > 2.0 * NEAR:
                local = bench.local(objective.evaluate(x, order=2), at)
            return Reached(bench.whole(local.x + local.step(at)), local, exact=True)
    if sample is not None:
        found = _chord(bench, objective, bench.with_prior(sample, at), at, x)
    else:
        found = _plain_newton(bench, objective, at, x)
    if found is not None:
        return found
    final = path_solver(bench).minimise(objective, x, tol=1e-6, max_iter=bench.problem.max_iter).final
    return Reached(final.w, None if final.hessian is None else bench.local(final, at), exact=True)


def _plain_newton(bench: Bench, objective: FoldObjective, at: Array, x: Array) -> Reached | None:
    """Return the optimum by Newton's method, without line search or certificate; None if it does not just converge."""
    if objective.size > LARGEST_HESSIAN:
        return None
    last = np.inf
    for _ in range(8):
        e = objective.evaluate(x, order=2)
        local = bench.local(e, at)
        p = local.factor(at).solve(e.gradient[objective.free.ravel()])
        decrement = float(p @ e.gradient[objective.free.ravel()])
        if not 0.0 <= decrement < last:
            return None
        x, last = x - bench.whole(p), decrement
        if decrement <= 1e-3 * ENOUGH * len(p):
            return Reached(x, local, exact=True)
    return None


def _chord(bench: Bench, objective: FoldObjective, sample: FoldObjective, at: Array, x: Array) -> Reached | None:
    """Return the optimum, by steps with a sample's Hessian and the gradient of all rows; None if they do not converge.

    It is near enough when what is left would not show in the loss of other rows.
    """
    kept = objective.free.ravel()
    for _ in range(4):
        local = bench.local(sample.evaluate(x, order=2), at)
        factor, last = local.factor(at), np.inf
        for _ in range(4):
            e = objective.evaluate(x)
            p = factor.solve(e.gradient[kept])
            decrement = float(p @ e.gradient[kept])
            if not decrement < 0.3 * last:
                break
            x, last = x - bench.whole(p), decrement
            if decrement <= ENOUGH * len(p):
                there = x[kept]
                gradient = -local.precision(at) * (there - local.mean)
                return Reached(x, replace(local, x=there, gradient=gradient, log_likelihood=e.log_likelihood))
    return None


def folds(problem: Problem, cv: Any, seed: int | None) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return the rows of each fold, (train, test): stratified by class where ``cv`` is a number."""
    source = problem.source
    n = source.n_rows
    if isinstance(cv, bool | str) or not (isinstance(cv, int | np.integer) or hasattr(cv, "split") or np.iterable(cv)):
        raise InvalidTypeError(f"cv must be a number of folds, a splitter or a list of (train, test); found {cv!r}.")
    if not isinstance(cv, int | np.integer):
        with as_input_errors():
            pairs = cv.split(np.zeros((n, 1)), source.t) if hasattr(cv, "split") else cv
            result = [(np.asarray(train), np.asarray(test)) for train, test in pairs]
        if not result or not all(_are_rows(part, n) for pair in result for part in pair):
            raise InvalidInputError(
                f"cv must give pairs (train, test) of row numbers from 0 to {n - 1}, none of them empty."
            )
        return _with_all_classes([(train.astype(np.intp), test.astype(np.intp)) for train, test in result], source)
    counts = np.ones(n, dtype=bool) if source.s is None else source.s > 0  # rows of no weight are in no fold
    if not 2 <= cv <= counts.sum():
        raise InvalidInputError(f"cv must be a number of folds from 2 to the {counts.sum()} rows, found {cv!r}.")
    rng = np.random.default_rng(0 if seed is None else seed)
    fold, dealt = np.full(n, -1, dtype=np.intp), 0
    for code in range(source.K):
        rows = rng.permutation(np.flatnonzero((source.t == code) & counts))
        fold[rows] = (np.arange(len(rows)) + dealt) % cv
        dealt += len(rows)
    parts = [(np.flatnonzero((fold != k) & counts), np.flatnonzero(fold == k)) for k in range(int(cv))]
    return _with_all_classes(parts, source)


def _with_all_classes(splits: list[Any], source: Any) -> list[Any]:
    """Return the folds, or refuse one that is trained without a class (it could only rule it out) or tests no row."""
    counts = source.t if source.s is None else np.where(source.s > 0, source.t, source.K)
    for k, (train, test) in enumerate(splits):
        if (counts[test] == source.K).all():
            raise InvalidInputError(f"All rows that fold {k} is tested on have weight 0. Give cv= other folds.")
        lacking = np.flatnonzero(np.bincount(counts[train], minlength=source.K + 1)[: source.K] == 0)
        if len(lacking):
            raise InvalidInputError(
                f"The training rows of fold {k} hold none of class number {lacking[0]}. Give cv= folds that do, or use "
                "scale='evidence'."
            )
    return splits


def _are_rows(part: npt.NDArray[Any], n: int) -> bool:
    """Whether an array holds row numbers: whole ones, no truth values, none from the end."""
    if part.ndim != 1 or not len(part) or not np.issubdtype(part.dtype, np.integer):
        return False
    return bool(part.min() >= 0 and part.max() < n)
