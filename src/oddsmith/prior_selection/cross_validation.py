"""Cross-validation of the scale of a prior: a warm-started path over scales for each fold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.engines import Engine, MemoryEngine, MemorySource
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.likelihood.coordinates import is_large
from oddsmith.likelihood.fit import start_weights
from oddsmith.likelihood.objective import FoldObjective, ObjectiveState
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.prior_selection.prior_family import NEAR, PriorFamily
from oddsmith.prior_selection.quadratic_model import QuadraticModel, Selection, one_standard_error
from oddsmith.protocols import Indices
from oddsmith.solvers import Newton, policy
from oddsmith.statistics import Losses, LossesParams

Split: TypeAlias = tuple[Indices, Indices]  # The training rows and the test rows of a fold.
ENOUGH = 1e-2
"""Squared Newton decrement per weight before the last step: of 100,000 × 20 a hundredth of it moved losses by 2e-6."""
NEWTON_ENOUGH = 1e-3 * ENOUGH  # The same for few rows, where a pass costs little.
PASSES = 16
"""Numbers in the rows of all fits, in units of `large_elements`, from which the rows of a fold share the threads, not
the folds: 12,000 × 20 then took half the time."""
HESSIAN_ROWS = 8000
"""Rows of a sample's Hessian, at least: of 100,000 × 20, 2,000 took as long and 32,000 a third longer."""
ROWS_A_WEIGHT = 40
"""The same for each weight: the Hessian is then off by about √(1/40) = 0.16, and a step leaves a few percent."""
CLOSE = 2.0 * NEAR
"""Within this distance one Hessian of all rows serves all larger scales: from there on losses differ by 1e-7."""
CONTRACTION = 0.3
"""A step that leaves more than this of the squared decrement asks for a new Hessian; 0.05 to 0.9 took as long."""
REPRESENTATIVE = (0.5, 2.0)
"""Variance of every column in a sample, relative to all rows, so that its Hessian serves: without this, flights (rare
destinations) had losses that were off by 2e-3 at some scales."""


def by_cross_validation(family: PriorFamily, scales: Array, splits: Sequence[Split]) -> Selection:
    """Minimise the cross-validated loss along a path of scales from small to large.

    Each fit starts at the prediction of the last one's quadratic model, and keeps its Hessian while it is accurate
    enough. Folds are fitted in parallel if there are few rows; otherwise rows are processed in parallel within a fold.
    """
    scales, source = np.sort(scales), family.objective.memory_source
    fits = family.unit.Q.size * len(scales) * len(splits)
    many = is_large(source) or source.n_rows * fits >= PASSES * policy.POLICY.large_elements
    threads = 1 if many else min(family.objective.threads or available_cores(), len(splits))
    engine = family.problem.engine if many or threads == 1 else MemoryEngine(1)
    scratch = None
    if threads == 1 and isinstance(source.X, np.ndarray):  # folds one after the other share memory for their rows
        scratch = np.empty((max(len(train) for train, _ in splits), source.X.shape[1]), dtype=source.X.dtype)
    with ThreadPoolExecutor(threads) as pool:
        losses = np.array(list(pool.map(lambda split: _path(family, engine, scales, split, scratch), splits)))
    loss = losses.mean(axis=0)
    error = losses.std(axis=0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.full(len(loss), np.nan)
    k = int(np.argmin(loss))
    at_edge = k in (0, len(loss) - 1) and len(loss) > 1
    if family.prior.one_standard_error:
        k = one_standard_error(scales, loss, error)
    prior, scale = family.prior_at(np.array([-2.0 * np.log(scales[k])]))
    table = {"width": scales.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    return Selection(method="cv", prior=prior, width=scale, table=table, at_edge=at_edge)


def path_solver(family: PriorFamily) -> Any:
    """Return the solver of a path: Newton's method, unless there are too many weights for a Hessian."""
    if family.forms_hessian:
        return Newton(watch_divergence=False, strict=False)
    return family.solver()


@dataclass(frozen=True)
class PathPoint:
    """Weights at a scale, and a quadratic model near there: of all rows (``exact``), of a sample, or none."""

    x: Array
    quadratic: QuadraticModel | None = None
    exact: bool = False


def _path(family: PriorFamily, engine: Engine, scales: Array, split: Split, scratch: npt.NDArray[Any] | None) -> Array:
    """Return the mean loss of the test rows at each scale, fitted to the training rows."""
    source, (train, test) = family.objective.memory_source, split
    inside, outside = source.take(train, scratch), source.take(test)
    weight = float(len(train) if inside.s is None else inside.s.sum())
    tested = float(len(test) if outside.s is None else outside.s.sum())
    state = ObjectiveState(max_row_norm2=family.objective.state.max_row_norm2)
    unit = replace(family.objective, source=inside, weight=weight, engine=engine, state=state)
    rows = max(HESSIAN_ROWS, ROWS_A_WEIGHT * unit.size)
    many = family.forms_hessian and inside.form is None and inside.n_rows >= 2 * rows
    sample = unit.subsample(rows, seed=4) if many else None
    sample = sample if sample is not None and _is_representative(sample) else None
    points: list[Array] = []
    point = None
    for at in -2.0 * np.log(scales)[:, None]:
        objective = family.at(at, unit)
        point = point or PathPoint(start_weights(replace(family.problem, source=inside), objective))
        point = _next(family, objective, sample, at, point)
        points.append(point.x)
    return _losses(replace(unit, source=outside).with_penalty(None), points) / tested


def _is_representative(sample: FoldObjective) -> bool:
    """Whether every column varies in the sample about as much as in all rows, where its scaled variance is 1."""
    block = sample.memory_source.block(0, sample.n_rows)
    s = block.weights()[:, None] / block.weights().sum()
    mean, square = block.Phi.gradient(s)[:, 0], block.Phi.squares(s)[:, 0]
    variance = (square - 2.0 * sample.center * mean + sample.center**2) / sample.scale**2
    return bool(((variance > REPRESENTATIVE[0]) & (variance < REPRESENTATIVE[1])).all())


def _losses(held: FoldObjective, points: list[Array]) -> Array:
    """Return the loss of rows at several weights: one pass for two classes and the logit."""
    if held.link is not None or held.shape[0] > 1:
        return np.array([held.evaluate(x).value for x in points])
    raw = [held.raw(x) for x in points]
    params = LossesParams(np.vstack([W for W, _ in raw]), np.concatenate([b for _, b in raw]), held.center)
    return held.engine.fold(Losses, held.source, params).value


def _next(
    family: PriorFamily, objective: FoldObjective, sample: FoldObjective | None, at: Array, last: PathPoint
) -> PathPoint:
    """Return the optimum at the next scale of a path.

    With many rows, steps use a sample's Hessian and the gradient of all rows, while the weights move far between
    scales. Then losses are so similar that every digit matters: one Hessian of all rows is used for all later scales.
    """
    x, quadratic = last.x, last.quadratic
    if quadratic is not None:
        x = family.moved(quadratic, at)
        distance = quadratic.distance(at) if sample is not None else np.inf
        if distance < CLOSE:
            if not last.exact:
                quadratic = family.quadratic_model(objective.evaluate(x, order=2), at)
            if last.exact or quadratic.distance(at) < CLOSE:
                return PathPoint(family.moved(quadratic, at), quadratic, exact=True)
    if sample is not None:
        found = _chord(family, objective, family.at(at, sample), at, x)
    else:
        found = _plain_newton(family, objective, at, x)
    if found is not None:
        return found
    final = path_solver(family).minimise(objective, x, tol=1e-6, max_iter=family.problem.max_iter).final
    return PathPoint(final.w, None if final.hessian is None else family.quadratic_model(final, at), exact=True)


def _plain_newton(family: PriorFamily, objective: FoldObjective, at: Array, x: Array) -> PathPoint | None:
    """Return the optimum by Newton's method, without line search or certificate; None if it does not just converge."""
    if not family.forms_hessian:
        return None
    last = np.inf
    for _ in range(8):
        e = objective.evaluate(x, order=2)
        quadratic = family.quadratic_model(e, at)
        p = quadratic.factor(at).solve(e.gradient[family.kept])
        decrement = float(p @ e.gradient[family.kept])
        if not 0.0 <= decrement < last:
            return None
        x, last = x - family.embed(p), decrement
        if decrement <= NEWTON_ENOUGH * len(p):
            return PathPoint(x, quadratic, exact=True)
    return None


def _chord(
    family: PriorFamily, objective: FoldObjective, sample: FoldObjective, at: Array, x: Array
) -> PathPoint | None:
    """Return the optimum, by steps with a sample's Hessian and the gradient of all rows; None if they do not converge.

    It is accurate enough if the remaining error does not affect the loss of other rows.
    """
    kept = family.kept
    for _ in range(4):
        quadratic = family.quadratic_model(sample.evaluate(x, order=2), at)
        factor, last = quadratic.factor(at), np.inf
        for _ in range(4):
            e = objective.evaluate(x)
            p = factor.solve(e.gradient[kept])
            decrement = float(p @ e.gradient[kept])
            if not decrement < CONTRACTION * last:
                break
            x, last = x - family.embed(p), decrement
            if decrement <= ENOUGH * len(p):
                gradient = -quadratic.precision(at) * (x[kept] - quadratic.mean)
                return PathPoint(x, replace(quadratic, x=x[kept], gradient=gradient, log_likelihood=e.log_likelihood))
    return None


def folds(problem: Problem, cv: Any, seed: int | None) -> list[Split]:
    """Return the rows of each fold, (train, test): stratified by class where ``cv`` is a number."""
    source, n = problem.memory_source, problem.memory_source.n_rows
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        if isinstance(cv, bool | str) or not (hasattr(cv, "split") or np.iterable(cv)):
            raise InvalidTypeError(
                f"cv must be a number of folds, a splitter or a list of (train, test); found {cv!r}."
            )
        with as_input_errors():
            pairs = cv.split(np.zeros((n, 1)), source.t) if hasattr(cv, "split") else cv
            result = [(np.asarray(train), np.asarray(test)) for train, test in pairs]
        parts = [part for pair in result for part in pair]
        whole = all(part.ndim == 1 and len(part) and np.issubdtype(part.dtype, np.integer) for part in parts)
        if not parts or not whole or min(map(np.min, parts)) < 0 or max(map(np.max, parts)) >= n:
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
    splits = [(np.flatnonzero((fold != k) & counts), np.flatnonzero(fold == k)) for k in range(int(cv))]
    return _with_all_classes(splits, source)


def _with_all_classes(splits: list[Split], source: MemorySource) -> list[Split]:
    """Return the folds; refuse a fold whose training rows lack a class or that has no test rows."""
    counts = source.t if source.s is None else np.where(source.s > 0, source.t, source.K)
    for k, (train, test) in enumerate(splits):
        if (counts[test] == source.K).all():
            raise InvalidInputError(f"All rows that fold {k} is tested on have weight 0. Give cv= other folds.")
        lacking = np.flatnonzero(np.bincount(counts[train], minlength=source.K + 1)[: source.K] == 0)
        if len(lacking):
            raise InvalidInputError(
                f"The training rows of fold {k} hold none of class number {lacking[0]} (in order, from 0), which has "
                f"{int((counts == lacking[0]).sum())} rows in all. Leave out a class that rare, give cv= folds that "
                "have all classes, or give the scale as a number."
            )
    return splits
