"""The width of a prior by cross-validation: a warm-started path over widths for each fold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemoryEngine
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.inference.widths import Local, Selection, one_standard_error
from oddsmith.models.bench import Bench
from oddsmith.models.coordinates import is_large
from oddsmith.models.likelihood import Problem, _choose, _start
from oddsmith.models.objective import FoldObjective
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.solvers import Newton
from oddsmith.solvers.truncated import LARGEST_HESSIAN


def by_cross_validation(
    bench: Bench, widths: Array, splits: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]
) -> tuple[Selection, Array]:
    """Minimise the loss of rows left out in folds, along a path of widths from small to large.

    Each fit starts where the quadratic model of the last one puts it, and keeps that one's Hessian while it serves.
    Folds are fitted in parallel if the rows are few; of large data the rows of a fold are.
    """
    widths = np.sort(widths)
    many = is_large(bench.objective.source)
    threads = 1 if many else min(bench.problem.engine.threads or available_cores(), len(splits))  # type: ignore[attr-defined]
    engine = bench.problem.engine if many or threads == 1 else MemoryEngine(1)
    with ThreadPoolExecutor(threads) as pool:
        losses = np.array(list(pool.map(lambda split: _path(bench, engine, widths, *split), splits)))
    loss = losses.mean(axis=0)
    error = losses.std(axis=0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.full(len(loss), np.nan)
    k = int(np.argmin(loss))
    at_edge = k in (0, len(loss) - 1) and len(loss) > 1
    if bench.prior.one_standard_error:
        k = one_standard_error(widths, loss, error)
    log_alpha = np.array([-2.0 * np.log(widths[k])])
    prior, width = bench.concrete(log_alpha)
    table = {"width": widths.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    objective = bench.at(log_alpha)
    result = path_solver(bench).minimise(objective, _start(bench.problem, objective), tol=1e-4, max_iter=200)
    return Selection("cv", prior, width, None, table, at_edge), result.w


def path_solver(bench: Bench) -> Any:
    """Return the solver of a path: Newton's method, unless there are too many weights for a Hessian."""
    if bench.objective.size <= LARGEST_HESSIAN:
        return Newton(watch_divergence=False, strict=False)
    return _choose(replace(bench.problem, prior=GaussianPrior(scale=1.0)), bench.coordinates)


def _path(bench: Bench, engine: Any, widths: Array, train: Any, test: Any) -> Array:
    """Return the mean loss of the test rows at each width, fitted to the training rows."""
    source = bench.objective.source
    inside, outside = source.take(train), source.take(test)
    weight = float(len(train) if inside.s is None else inside.s.sum())
    tested = float(len(test) if outside.s is None else outside.s.sum())
    solver, result = path_solver(bench), np.empty(len(widths))
    x: Array | None = None
    local: Local | None = None
    for k, log_alpha in enumerate(-2.0 * np.log(widths)):
        at = np.array([log_alpha])
        objective = bench.at(at, source=inside, weight=weight, engine=engine, passes=0)
        x = _start(replace(bench.problem, source=inside), objective) if x is None else x
        reached = None if local is None else _chord(bench, objective, local, at)
        if reached is None:
            found = solver.minimise(objective, x, tol=1e-6, max_iter=bench.problem.max_iter)
            x = found.w
            local = bench.local(found.final, at) if found.final.hessian is not None else None
        else:
            x = reached
        held = replace(objective, source=outside, penalty=None, _last=None)
        result[k] = held.evaluate(x).value / tested
    return result


def _chord(bench: Bench, objective: FoldObjective, local: Local, at: Array) -> Array | None:
    """Return the optimum at another width by the Hessian of an earlier one, a gradient a step; None if it is far."""
    factor = local.factor(at)
    x, last = local.x + local.step(at, factor), np.inf
    kept = np.flatnonzero(objective.free.ravel())
    for _ in range(4):
        e = objective.evaluate(bench.whole(x))
        p = factor.solve(e.gradient[kept])
        decrement = float(p @ e.gradient[kept])
        if not decrement < 0.25 * last:
            return None
        x, last = x - p, decrement
        if decrement <= 1e-7 * max(1.0, abs(e.value)):
            return bench.whole(x)
    return None


def folds(problem: Problem, cv: Any, seed: int | None) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return the rows of each fold, (train, test): stratified by class where ``cv`` is a number."""
    source = problem.source
    n = source.n_rows
    if isinstance(cv, bool | str) or not (isinstance(cv, int | np.integer) or hasattr(cv, "split") or np.iterable(cv)):
        raise InvalidTypeError(f"cv must be a number of folds, a splitter or a list of (train, test); found {cv!r}.")
    if not isinstance(cv, int | np.integer):
        pairs = cv.split(np.zeros((n, 1)), source.t) if hasattr(cv, "split") else cv
        result = [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in pairs]
        if not result or any(not len(a) or not len(b) or max(a.max(), b.max()) >= n for a, b in result):
            raise InvalidInputError(f"cv must give pairs (train, test) of row numbers below {n}, none of them empty.")
        return result
    if not 2 <= cv <= n:
        raise InvalidInputError(f"cv must be a number of folds from 2 to the {n} rows, found {cv!r}.")
    rng = np.random.default_rng(0 if seed is None else seed)
    fold, dealt = np.empty(n, dtype=np.intp), 0
    for code in range(source.K):
        rows = rng.permutation(np.flatnonzero(source.t == code))
        fold[rows] = (np.arange(len(rows)) + dealt) % cv
        dealt += len(rows)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]
