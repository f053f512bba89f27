"""Fitting of a likelihood: choose coordinates, set dependent columns aside, solve, look into trouble.

This is where an engine and a solver meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import Engine, MemorySource, PartedSource
from oddsmith.errors import InvalidInputError
from oddsmith.links import Link
from oddsmith.models.coordinates import (
    FAR,
    Coordinates,
    find_coordinates,
    is_large,
    is_small,
    made_dense,
    make_contrast,
    standardised,
)
from oddsmith.models.learned import Learned
from oddsmith.models.objective import FoldObjective
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.priors import GaussianPrior, Quadratic
from oddsmith.records import Certificate
from oddsmith.solvers import SOLVERS, Newton, SolverResult, TruncatedNewton
from oddsmith.solvers.eased import Eased
from oddsmith.solvers.sampled import MANY, Sampled
from oddsmith.solvers.sgd import SGD
from oddsmith.solvers.truncated import LARGEST_HESSIAN

QUICK_NUMBERS, QUICK_PRODUCTS = 2.5e5, 1e8
"""Numbers through a link, and products for a Hessian, that one thread sums as fast as several."""
QUARTERS = 4
WIDE = 400
DEAR_PRODUCTS, FEW_WEIGHTS = 1e7, 40
"""With more products for a Hessian, of more weights, it takes as long as several gradients."""


@dataclass(frozen=True)
class Problem:
    """A likelihood to be fitted: rows, prior, classes, and how."""

    engine: Engine
    source: Any
    prior: GaussianPrior | None
    intercept: bool
    reference: int | None
    solver: Any
    tol: float
    max_iter: int
    class_weight: Array
    start: tuple[Array, Array] | None = None
    explain: Callable[[], None] | None = None
    names: Callable[[], Any] = list
    progress: Any = None
    link: Link | None = None
    mix: Array | None = None
    jeffreys: bool = False

    @property
    def M(self) -> int:
        """Number of columns that have weights."""
        return int(self.source.shape.M if self.mix is None else self.mix.shape[1])

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.class_weight)


class InfeasibleStartError(Exception):
    """The start of a fit lies outside the domain of its link."""


@dataclass(frozen=True)
class Fit:
    """The outcome: weights against class 0 in user units, and all that was learned on the way."""

    coef: Array
    intercept: Array
    aliased: npt.NDArray[np.bool_]
    common: Array
    coordinates: Coordinates
    result: SolverResult
    certificate: Certificate
    flat: bool
    learned: Learned

    @property
    def rounded(self) -> bool:
        """Whether the optimum was found, and only the rounding of weights in user units keeps them from it."""
        return self.result.certificate.converged and not self.certificate.converged


def make_objective(
    problem: Problem, coordinates: Coordinates | None = None
) -> tuple[FoldObjective, Coordinates, Array]:
    """Return the objective in its coordinates (found, unless given), and what all classes share (the prior's mean)."""
    K, M = problem.K, problem.M
    C = K - 1
    symmetric = problem.reference is None and K > 2
    # A prior decides which contrasts it is about; without one any will do.
    reference = None if symmetric and problem.prior is not None else (problem.reference or 0)
    contrast = make_contrast(K, 0 if K == 2 else reference)
    penalty, common = _penalty(problem, contrast) if problem.prior is not None else (None, np.zeros(M + 1))
    covers_intercept = penalty is not None and _covers_intercept(penalty, M)
    # A prior on the intercept of a wide problem would fill in under centring: leave such columns where they are.
    centre = not (covers_intercept and M > LARGEST_HESSIAN)
    if coordinates is None:
        about = (problem.engine, problem.source, contrast)
        with np.errstate(over="ignore", invalid="ignore"):
            coordinates = find_coordinates(*about, mix=problem.mix, intercept=problem.intercept, center=centre)
        _check_scale(coordinates.scale, problem)
    if penalty is not None:
        lost = coordinates.center / coordinates.scale if covers_intercept and coordinates.center.any() else None
        penalty = penalty.transformed(lost, 1.0 / coordinates.scale)
    free = np.ones((C, M + 1), dtype=bool)
    free[:, 0] = problem.intercept
    source, center, scale = problem.source, coordinates.center, coordinates.scale
    if source.is_sparse and (np.abs(center) > FAR * scale).any():
        # A column that far from zero has no zeros to save, and must be centred before it is summed.
        source = made_dense(source)
    if problem.mix is not None:
        assert coordinates.raw_center is not None
        center = coordinates.raw_center
    elif source.is_sparse and not is_large(source) and isinstance(source, MemorySource):
        source = replace(source, slice_rows=max(1, source.n_rows))  # a sum over few non-zeros is larger than they are
    elif is_small(source):
        source = standardised(source, center, scale, 1 if _is_quick(problem, C * (M + 1)) else QUARTERS)
        center, scale = np.zeros(M), np.ones(M)
    objective = FoldObjective(
        problem.engine,
        source,
        center,
        scale,
        coordinates.T,
        penalty,
        free,
        float(problem.class_weight.sum()),
        coordinates.longest,
        is_large(source),
        problem.explain,
        problem.progress,
        problem.link,
        problem.mix,
        passes=getattr(problem.engine, "count", 0),
    )
    return objective, coordinates, common


def _is_quick(problem: Problem, size: int) -> bool:
    """Whether a pass over all rows is so short that threads would only wait for each other."""
    if problem.link is not None:
        return float(problem.source.size) <= QUICK_NUMBERS
    return int(problem.source.n_rows) * float(size) ** 2 <= QUICK_PRODUCTS


def _penalty(problem: Problem, contrast: Array) -> tuple[Quadratic, Array]:
    """Return what the prior adds, on the contrasts, and what all classes share of its mean."""
    assert problem.prior is not None
    K, M = problem.K, problem.M
    symmetric = problem.reference is None and K > 2
    penalty = problem.prior.quadratic(K - 1, M, symmetric_classes=K if symmetric else 0)
    if _covers_intercept(penalty, M) and penalty.Q.shape[0] == M + 1 and not problem.intercept:
        raise InvalidInputError(
            f"The covariance of the GaussianPrior has size {M + 1}, the intercept first, and the model has none "
            f"(fit_intercept=False). Give the {M} weights of the columns."
        )
    if not symmetric:
        return penalty, np.zeros(M + 1)
    return replace(penalty, mean=contrast.T @ penalty.mean), penalty.mean.mean(axis=0)


def _covers_intercept(penalty: Quadratic, M: int) -> bool:
    return penalty.Q.shape[0] > M + 1 or bool(np.atleast_2d(penalty.Q)[0, 0] > 0)


def fit_likelihood(problem: Problem) -> Fit:
    """Fit: coordinates → start → dependent columns → solve → trouble → user units."""
    objective, coordinates, common = make_objective(problem)
    C, P = objective.shape
    flat = problem.prior is None
    x = _inside(problem, objective, coordinates, _start(problem, objective))
    solver = _choose(problem, coordinates)
    if flat and objective.size <= LARGEST_HESSIAN:
        sampled = isinstance(solver, Sampled)
        objective.free = _independent(objective, x, sample=sampled, drawn=solver.drawn if sampled else None)
    if problem.start is not None:
        cold, warm = objective.evaluate(x).value, coordinates.from_user(*problem.start)
        # Weights of other data can be so far off that no curvature is left to go by.
        x = warm if objective.evaluate(warm).value < cold else x
    x = np.where(objective.free, x.reshape(C, P), 0.0).ravel()
    if isinstance(solver, TruncatedNewton) and objective.large and C == 1 and objective.source.is_sparse:
        # What was evaluated before has left nothing in it.
        objective.source, objective._last = replace(objective.source, memo=np.zeros(objective.n_rows)), None
    result = solver.minimise(objective, x, tol=problem.tol, max_iter=problem.max_iter)
    if not np.isfinite(result.final.value):
        raise InvalidInputError(
            f"The objective is not finite at the weights that solver={solver.name!r} reached: its steps were too "
            "long. Give a smaller step_size, or use solver='newton'."
        )
    W, b = coordinates.to_user(result.w)
    extra = coordinates.rounding_gap(result.w, objective.weight, objective.longest or 0.0)
    gap = float((np.sqrt(result.certificate.gap) + np.sqrt(extra)) ** 2)
    converged = result.certificate.converged and gap <= problem.tol * max(1.0, abs(result.final.value))
    certificate = replace(result.certificate, gap=gap, converged=converged, passes=objective.passes)
    aliased = np.logical_not(objective.free[:, 1:].any(axis=0))
    learned = learn(problem, objective, coordinates, common, result)
    return Fit(W, b, aliased, common, coordinates, result, certificate, flat, learned)


def learn(
    problem: Problem, objective: FoldObjective, coordinates: Coordinates, common: Array, result: SolverResult
) -> Learned:
    """Return what inference needs of a fit.

    Its Hessian is formed now if that was not done on the way (one pass), unless there is a prior, and rows are many or
    Hessians dear: then only if it is asked for.
    """
    e, expected = result.final, None
    if objective.size > LARGEST_HESSIAN:
        e = replace(e, hessian=None)
    elif e.hessian is None and (problem.prior is None or not (objective.large or _is_wide_and_sparse(problem))):
        e = objective.evaluate(result.w, order=2)
    if problem.link is not None and e.hessian is not None:
        expected = objective.evaluate(result.w, order=2, expected=True).hessian
    x = np.where(objective.free, result.w.reshape(objective.shape), 0.0)
    source = problem.source
    return Learned(
        coordinates,
        x,
        objective.free,
        common,
        problem.reference,
        problem.class_weight,
        source.n_present,
        e.log_likelihood,
        objective.penalty,
        e.hessian,
        expected,
    )


def relearn(problem: Problem, coef: Array, intercept: Array, learned: Learned, gap: float) -> Learned:
    """Return what was learned with the Hessian of the rows of ``problem`` at given weights (against class 0).

    They must be the rows of the fit: the gradient there says whether they are. The fit may have ended a ``gap`` above
    its optimum.
    """
    objective, coordinates, _ = make_objective(problem, learned.coordinates)
    objective.free = learned.free
    e = objective.evaluate(coordinates.from_user(coef, intercept), order=2)
    assert e.hessian is not None
    decrement = factor_spd(e.hessian, tol=0.0).norm(e.gradient)
    near = max(1e-3 * np.sqrt(objective.size), 2.0 * np.sqrt(gap))
    if not (decrement <= near and np.isclose(e.log_likelihood, learned.log_likelihood)):
        raise InvalidInputError(
            f"These are not the rows that the model was fitted to: with them its weights are {decrement:.3g} standard "
            f"errors from the optimum, and the log likelihood is {e.log_likelihood:.10g} instead of "
            f"{learned.log_likelihood:.10g}. Pass the rows, labels, weights and offsets of the fit."
        )
    expected = None if problem.link is None else objective.evaluate(e.w, order=2, expected=True).hessian
    return replace(learned, hessian=e.hessian, expected=expected)


def _check_scale(scale: Array, problem: Problem) -> None:
    """Refuse columns whose squares leave the range of floating point."""
    extreme = ~((scale > 1e-100) & (scale < 1e100))
    if extreme.any():
        if problem.explain is not None:
            problem.explain()  # NaN and infinity have their own words
        j = int(np.argmax(extreme))
        raise InvalidInputError(
            f"Column {problem.names()[j]!r} has a spread of {scale[j]:.3g}, whose square leaves the range of floating "
            "point. Give it in other units."
        )


def resume(problem: Problem, fit: Fit) -> Fit:
    """Go on with a Newton fit that stopped because it looked like separation and was not."""
    solver = TruncatedNewton() if problem.solver == "truncated-newton" else Newton()
    start = (fit.coef, fit.intercept)
    return fit_likelihood(replace(problem, solver=replace(solver, watch_divergence=False), start=start))


def _start(problem: Problem, objective: FoldObjective) -> Array:
    """Return the start: weights 0 (or the prior's mean), intercepts that fit the class frequencies."""
    C, P = objective.shape
    x = np.zeros((C, P)) if objective.penalty is None else objective.penalty.mean.copy()
    if problem.intercept:
        weight = np.where(problem.class_weight > 0, problem.class_weight, 0.5)  # an update may lack a class
        odds = np.log(weight[1:] / weight[0])
        if problem.link is not None:
            odds = problem.link.link(weight[1:] / weight.sum())
        if problem.source.has_offset:
            odds = odds - problem.source.offset_mean
        x[:, 0] = np.linalg.solve(objective.T, odds)
    return x.ravel()


def _inside(problem: Problem, objective: FoldObjective, coordinates: Coordinates, x: Array) -> Array:
    """Return a start inside the domain of the link: the usual one, or the one given."""
    if problem.link is None or np.isinf(problem.link.domain).all() or np.isfinite(objective.evaluate(x).value):
        return x
    warm = None if problem.start is None else coordinates.from_user(*problem.start)
    if warm is None or not np.isfinite(objective.evaluate(warm).value):
        raise InfeasibleStartError("The start is outside the domain of the link.")
    return warm


def _independent(
    objective: FoldObjective, x: Array, *, sample: bool = False, drawn: int | None = None
) -> npt.NDArray[np.bool_]:
    """Return which coordinates remain when columns that depend on earlier ones are set aside, as R does.

    Columns that are independent on a sample of the rows are so on all of them; only otherwise all are asked.
    """
    if sample:
        part = objective.sample(max(1000, 4 * objective.size, drawn or 0), seed=1)
        if np.array_equal(_independent(part, x), objective.free):
            return objective.free
    # Not the observed Hessian: with the log link one class has none.
    H = objective.evaluate(x, order=2, expected=not objective.canonical).hessian
    assert H is not None
    P = objective.shape[1]
    # One class's block suffices: its columns depend on each other exactly as the data's do.
    block = H[:P, :P].copy()
    if objective.source.is_sparse:
        # Sparse rows are centred in the sums: what cancels there to less than its rounding is nothing.
        rounding = 64.0 * EPS * block[0, 0] * np.append(0.0, (objective.center / objective.scale) ** 2)
        constant = np.diag(block) <= rounding
        block[constant] = block[:, constant] = 0.0
    kept = factor_spd(block).kept
    if kept.all():
        return objective.free
    objective._last = None
    return objective.free & kept


def _choose(problem: Problem, coordinates: Coordinates) -> Any:
    """Return the solver: the one asked for, or the one that suits the size of the problem."""
    watch = problem.prior is None
    if problem.solver != "auto":
        solver = SOLVERS[problem.solver]() if isinstance(problem.solver, str) else problem.solver
        return replace(solver, watch_divergence=False) if hasattr(solver, "watch_divergence") and not watch else solver
    size = (problem.K - 1) * (problem.M + 1)
    if size > LARGEST_HESSIAN or _is_wide_and_sparse(problem):
        return TruncatedNewton(strict=watch, watch_divergence=watch)
    source = problem.source
    # A Hessian of all rows is dear where weights are many; but few rows for each must show every column.
    rows = (60 if watch or size <= MANY or not coordinates.from_sample else 8) * size
    many = source.n_present >= rows and is_large(source) and not source.has_offset and problem.link is None
    if isinstance(source, PartedSource) and source.drawn is not None:
        # A pass over pieces is dear: begin on the sample that the first one drew, and spend one more on all digits.
        trusted = many and coordinates.from_sample and source.drawn.n_rows >= 10 * size
        return Sampled(polish=True, trusted=trusted, drawn=source.drawn.n_rows)
    # A sample pays when it shows every column and is a small part of the rows, yet many for each weight.
    if many and (coordinates.from_sample or not watch):
        return Sampled(polish=watch, trusted=coordinates.from_sample)
    if source.n_present >= max(5000, 100 * size) and not source.has_offset and problem.link is None:
        return Sampled(polish=True, trusted=is_small(source) and coordinates.from_sample)
    if _goes_by_gradients(problem, size):
        return Eased(watch_divergence=watch)
    return Newton(watch_divergence=watch)


def _is_wide_and_sparse(problem: Problem) -> bool:
    """Whether rows are sparse and weights so many that products with the Hessian are cheaper by far than to form it."""
    source = problem.source
    if problem.prior is None or problem.link is not None or not (isinstance(source, MemorySource) and source.is_sparse):
        return False
    return problem.M > WIDE


def _goes_by_gradients(problem: Problem, size: int) -> bool:
    """Whether a pass with the Hessian takes as long as several for the gradient, and those lead to an optimum."""
    source = problem.source
    if not isinstance(source, MemorySource) or problem.link is not None or size <= FEW_WEIGHTS:
        return False
    # Without a prior, few rows for each weight are likely to be separated: Newton's steps tell that best.
    exists = problem.prior is not None or source.n_present >= 4 * size
    return exists and source.n_present * float(size) ** 2 > DEAR_PRODUCTS


def seeded(solver: Any, seed: int | None) -> Any:
    """Return the solver with the model's seed, where it uses one and has none of its own."""
    chosen = SOLVERS[solver]() if solver == "sgd" else solver
    return replace(chosen, seed=seed) if isinstance(chosen, SGD) and chosen.seed is None else solver
