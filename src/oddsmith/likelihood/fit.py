"""The fit of a likelihood: coordinates → plan → dependent columns → solve → the user's units.

This module connects engines and solvers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal
from oddsmith.engines import AnySource, MemorySource, is_device_source
from oddsmith.engines.memory import in_slices
from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.coordinates import (
    Coordinates,
    find_coordinates,
    independent_columns,
    independent_levels,
    is_large,
    make_contrast,
    shifted,
)
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.objective import FoldObjective, ObjectiveState
from oddsmith.likelihood.problem import Problem, constant_log_likelihood, facts_of, log_odds, machine_of
from oddsmith.links import is_bounded
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.records import Certificate
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.solvers import SOLVERS, Newton, Solver, SolverResult, TruncatedNewton, policy
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.plan import Plan, plan, plan_for
from oddsmith.solvers.sgd import SGD
from oddsmith.solvers.subsampled import SubsampledQuasiNewton

CHUNK_ROWS = 1 << 16
MOST_PLANS = 32  # Plans that are kept, each as long as the machine is the same: a second.


class InfeasibleStartError(Exception):
    """The start of a fit lies outside the domain of its link."""


@dataclass(frozen=True, kw_only=True)
class LikelihoodFit:
    """The result of a fit: weights against class 0 in user units, with trace, certificate and plan."""

    coef: Array
    intercept: Array
    result: SolverResult
    certificate: Certificate
    plan: Plan
    flat: bool
    learned: FittedState

    @property
    def aliased(self) -> npt.NDArray[np.bool_]:
        """Columns left out because they depend on earlier ones."""
        return np.logical_not(self.learned.free[:, 1:].any(axis=0))

    @property
    def rounded(self) -> bool:
        """Whether the optimum was found, but rounding of the weights in user units exceeds the tolerance."""
        return self.result.certificate.converged and not self.certificate.converged


def make_objective(
    problem: Problem, coordinates: Coordinates | None = None, *, eliminate: bool = False
) -> tuple[FoldObjective, Coordinates, Array]:
    """Return the objective in its coordinates (computed unless given), and the prior mean shared by all classes.

    With ``eliminate``, the Hessian of a table with a large factor keeps that factor's block as a diagonal.
    """
    M = problem.M
    contrast = _contrast(problem)
    penalty, common = _penalty(problem, contrast) if problem.prior is not None else (None, _nothing(M + 1))
    covers_intercept = penalty is not None and _covers_intercept(penalty, M)
    if coordinates is None:
        # A prior on the intercept of a wide problem would fill in under centring: leave such columns where they are.
        centre = not (covers_intercept and M > policy.POLICY.largest_hessian)
        with np.errstate(over="ignore", invalid="ignore"):
            coordinates = find_coordinates(
                problem.engine,
                problem.source,
                contrast,
                whitening=problem.whitening,
                centred=problem.intercept and centre,
            )
        _check_scale(coordinates.scale, problem)
    if penalty is not None:
        lost = coordinates.center / coordinates.scale if covers_intercept and coordinates.center.any() else None
        penalty = penalty.transformed(lost, 1.0 / coordinates.scale)
    free = np.ones((contrast.shape[1], M + 1), dtype=bool)
    free[:, 0] = problem.intercept
    source, center, scale = _stored(problem, coordinates)
    if isinstance(source, MemorySource) and source.form is not None:
        from oddsmith.likelihood.table_sums import for_gradients

        source = for_gradients(source, 8.0 * free.size)
    kind, device = _kind_of_objective(problem, coordinates)
    objective = kind(
        engine=problem.engine,
        source=source,
        center=center,
        scale=scale,
        T=coordinates.T,
        penalty=penalty,
        free=free,
        weight=float(problem.class_weight.sum()),
        class_weight=problem.class_weight,
        explain=problem.explain,
        progress=problem.progress,
        link=problem.link,
        whitening=problem.whitening,
        eliminated=eliminated_columns(problem) if eliminate and (penalty is None or penalty.Q.ndim == 1) else None,
        state=ObjectiveState(passes=getattr(problem.engine, "count", 0), max_row_norm2=coordinates.longest),
        **device,
    )
    return objective, coordinates, common


def _kind_of_objective(problem: Problem, coordinates: Coordinates) -> tuple[type[FoldObjective], dict[str, Any]]:
    """Return the type of the objective, and its extra arguments."""
    if not is_device_source(problem.source):
        return FoldObjective, {}
    from oddsmith.likelihood.device_objective import DeviceObjective

    return DeviceObjective, {"contrast": coordinates.contrast}


def _contrast(problem: Problem) -> Array:
    """Return the class contrasts, which the prior determines; without a prior, any will do."""
    if problem.K == 2:
        return np.array([[0.0], [1.0]])
    if problem.laplace is not None and problem.reference is None:
        return np.eye(problem.K)  # the weights of every class, so that each can be zero
    symmetric = _is_symmetric(problem) and problem.prior is not None
    return make_contrast(problem.K, None if symmetric else problem.reference or 0)


def _is_symmetric(problem: Problem) -> bool:
    """Whether the weights of all classes sum to zero."""
    return problem.reference is None and problem.K > 2


def _stored(problem: Problem, coordinates: Coordinates) -> tuple[Any, Array, Array]:
    """Return the rows as the objective reads them, with the centre and scale that the kernels apply."""
    source, center, scale = problem.source, coordinates.center, coordinates.scale
    if source.is_sparse and (far := np.abs(center) > policy.POLICY.far_center * scale).any():
        # A column that far from zero has no zeros to keep, and is moved before it is summed.
        shift = np.where(far, center, 0.0)
        source, center = shifted(source, shift), center - shift
    if problem.whitening is not None:
        assert coordinates.raw_center is not None
        return source, coordinates.raw_center, scale
    if source.is_sparse and not is_large(source) and isinstance(source, MemorySource):
        # A sum over few non-zeros is larger than they are: one slice.
        return replace(source, slice_rows=max(1, source.n_rows)), center, scale
    if isinstance(source, MemorySource) and source.transform is None and not is_large(source):
        slices = 1 if _is_quick(problem) else policy.POLICY.small_slices
        return in_slices(source, slices), center, scale
    return source, center, scale


def _is_quick(problem: Problem) -> bool:
    """Whether a pass over all rows is too short to benefit from threads."""
    return float(problem.source.size) * (problem.K - 1) <= policy.POLICY.one_thread_elements


def _penalty(problem: Problem, contrast: Array) -> tuple[Quadratic, Array]:
    """Return the penalty of the prior on the contrasts, and the part of its mean shared by all classes."""
    assert problem.prior is not None
    K, M = problem.K, problem.M
    symmetric = _is_symmetric(problem)
    penalty = problem.prior.quadratic(K - 1, M, symmetric_classes=K if symmetric else 0)
    if _covers_intercept(penalty, M) and penalty.Q.shape[0] == M + 1 and not problem.intercept:
        raise InvalidInputError(
            f"The covariance of the GaussianPrior has size {M + 1}, the intercept first, and the model has none "
            f"(fit_intercept=False). Give the {M} weights of the columns."
        )
    if not symmetric:
        return penalty, _nothing(M + 1)
    if not penalty.mean.any():
        return replace(penalty, mean=np.broadcast_to(0.0, (contrast.shape[1], M + 1))), _nothing(M + 1)
    return replace(penalty, mean=contrast.T @ penalty.mean), penalty.mean.mean(axis=0)


def _nothing(size: int) -> Array:
    """Return zeros that take no memory, not to be written to."""
    return np.broadcast_to(0.0, size)


def _covers_intercept(penalty: Quadratic, M: int) -> bool:
    Q = penalty.Q
    return len(Q) > M + 1 or bool((Q[0] if Q.ndim == 1 else Q[0, 0]) > 0)


def eliminated_columns(problem: Problem) -> tuple[int, int] | None:
    """Return the columns of the factor to eliminate, if any: the largest of a table with two classes."""
    form, settings = problem.source.form, policy.POLICY
    if form is None or problem.K > 2 or problem.M < settings.eliminated_columns:
        return None
    if form.products and _has_far_products(problem.source):
        return None  # of a level times such a number elimination would leave rounding
    first, last = max(form.factors, key=lambda columns: columns[1] - columns[0], default=(0, 0))
    levels, rest = last - first, problem.M + 1 - (last - first)
    products, most = float(levels) * rest**2, settings.eliminated_products[problem.prior is None]
    affordable = float(levels) * rest <= settings.eliminated_elements and products + rest**3 <= most
    return (first, last) if levels >= settings.eliminated_levels and affordable else None


def _has_far_products(source: AnySource) -> bool:
    """Whether a table with a factor has numbers that are far from zero, or may be if no row is available."""
    rows = source.X if isinstance(source, MemorySource) else source.drawn.X if source.drawn is not None else None
    if not isinstance(rows, SplitRows):
        return True
    return any(isinstance(part, CodeRows) and part.x is not None and _is_far(part.x) for part in rows.parts)


def _is_far(x: Array) -> bool:
    """Whether numbers are so far from zero, relative to their spread, that differences of squares lose digits."""
    mean = float(x.mean())
    parts = (x[start : start + CHUNK_ROWS] - mean for start in range(0, len(x), CHUNK_ROWS))  # to save memory
    return bool(abs(mean) > policy.POLICY.far_factor * sqrt(sum(float((part * part).sum()) for part in parts) / len(x)))


def make_plan(problem: Problem, coordinates: Coordinates, eliminated: tuple[int, int] | None = None) -> Plan:
    """Return the plan of a fit, for the requested solver or the one that suits the problem."""
    facts = facts_of(problem, coordinates, eliminated)
    machine = machine_of(problem)
    if problem.solver == "auto":
        try:
            return _plan(facts, machine)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error} {_largest_columns(problem)}".strip()) from None
    solver = SOLVERS[problem.solver]() if isinstance(problem.solver, str) else problem.solver
    if problem.prior is not None and isinstance(solver, Newton | TruncatedNewton):
        solver = replace(solver, watch_divergence=False)
    return plan_for(solver, facts, machine)


_plans: dict[Facts, tuple[Machine, policy.Policy, Plan]] = {}


def _plan(facts: Facts, machine: Machine) -> Plan:
    """Return `plan`, which is pure, kept for fits of the same size: small ones take little longer than their plan."""
    kept = _plans.get(facts)
    if kept is None or kept[0] is not machine or kept[1] is not policy.POLICY:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        kept = _plans[facts] = machine, policy.POLICY, plan(facts, machine)
    return kept[2]


def _largest_columns(problem: Problem) -> str:
    """Name the columns that expand into the most others, as far as names show it (``carrier[AA]``)."""
    names, counts = np.unique([str(name).partition("[")[0] for name in problem.names()], return_counts=True)
    largest = np.argsort(-counts)[:3]
    shown = ", ".join(f"{str(names[k])!r} ({counts[k]:,})" for k in largest if counts[k] > 1)
    return f"Most columns come from {shown}." if shown else ""


def fit_likelihood(problem: Problem) -> LikelihoodFit:
    """Fit a likelihood.

    1. Choose coordinates (one cheap fold) and create the objective in them.
    2. Plan: which solver, on which rows, at what cost.
    3. Leave out columns that depend on earlier ones, if there is no prior.
    4. Solve.
    5. Return weights in the user's units, with their certificate.
    """
    objective, coordinates, common = make_objective(problem, eliminate=True)  # 1
    x = [inside_domain(problem, objective, coordinates, start_weights(problem, objective))]
    chosen = make_plan(problem, coordinates, objective.eliminated)  # 2
    solver, flat = chosen.solver, problem.prior is None
    truncated = isinstance(solver, TruncatedNewton)
    if flat and objective.eliminated is not None:  # 3
        objective = independent_levels(objective, x[0])
    elif flat and objective.size <= policy.POLICY.largest_hessian:
        sample_rows = (solver.drawn or 0) if isinstance(solver, SubsampledQuasiNewton) else None
        objective = independent_columns(objective, x[0], sample_rows)
    x = [_start_point(problem, objective, coordinates, x.pop())]
    if truncated and problem.K == 2 and isinstance(problem.source, MemorySource) and problem.link is None:
        objective = objective.with_row_curvature()
    with _memory_of(problem):
        result = solver.minimise(objective, x.pop(), tol=problem.tol, max_iter=problem.max_iter)  # 4, the start let go
    if not isfinite(result.final.value):
        raise InvalidInputError(
            f"The objective is not finite at the weights that solver={solver.name!r} reached: its steps were too "
            "long. Give a smaller step_size, or use solver='newton'."
        )
    learned = fitted_state(problem, objective, coordinates, common, result, costly=truncated)
    W, b = coordinates.to_user(result.w)  # 5
    certificate = _reported_certificate(problem, objective, coordinates, result, (W, b))
    return LikelihoodFit(
        coef=W, intercept=b, result=result, certificate=certificate, plan=chosen, flat=flat, learned=learned
    )


def _memory_of(problem: Problem) -> AbstractContextManager[None]:
    """Return a context that raises a helpful error if a device runs out of memory."""
    if not is_device_source(problem.source):
        return nullcontext()
    from oddsmith.likelihood.device_coordinates import device_memory

    return device_memory(problem.source)  # type: ignore[arg-type]


def likelihood_fit(
    learned: FittedState, result: SolverResult, certificate: Certificate, plan: Plan, *, flat: bool
) -> LikelihoodFit:
    """Return the result of a fit, with the weights in the user's units."""
    W, b = learned.coordinates.to_user(result.w)
    return LikelihoodFit(
        coef=W, intercept=b, result=result, certificate=certificate, plan=plan, flat=flat, learned=learned
    )


def _start_point(problem: Problem, objective: FoldObjective, coordinates: Coordinates, x: Array) -> Array:
    """Return the start, or the weights of another fit if they are better."""
    if problem.start is not None:
        cold, warm = objective.evaluate(x).value, coordinates.from_user(*problem.start)
        # Weights of other data can be so far off that no curvature is left to go by.
        x = warm if objective.evaluate(warm).value < cold else x
    return objective.fixed(x).ravel()


def _reported_certificate(
    problem: Problem,
    objective: FoldObjective,
    coordinates: Coordinates,
    result: SolverResult,
    reported: tuple[Array, Array],
) -> Certificate:
    """Return the certificate of the weights in the user's units, whose rounding adds to the gap.

    Loss and penalty are non-negative, so with a prior, the value itself bounds the gap. If the classes are separated
    and the scale of the prior is large, this is the only bound, since no curvature is left.
    """
    found, allowed = result.certificate, result.final.allowed_gap(problem.tol)
    if problem.prior is not None and result.final.value < found.gap:
        least = float(max(result.final.value, 0.0))
        found = replace(found, gap=least, converged=found.converged or least <= allowed, rigorous=True)
    extra = coordinates.rounding_gap(result.w, objective.weight, objective.state.max_row_norm2 or 0.0, reported)
    gap = (sqrt(found.gap) + sqrt(extra)) ** 2
    converged = found.converged and gap <= allowed
    stage = result.trace.columns.index("stage")
    method = ", then ".join(dict.fromkeys(record[stage] for record in result.trace.records))
    return Certificate(
        converged=converged,
        gap=gap,
        gradient_norm=found.gradient_norm,
        condition=found.condition,
        passes=objective.passes,
        rigorous=found.rigorous,
        optimum_exists=found.optimum_exists,
        method=method,
    )


def fitted_state(
    problem: Problem,
    objective: FoldObjective,
    coordinates: Coordinates,
    common: Array,
    result: SolverResult,
    *,
    costly: bool = False,
) -> FittedState:
    """Return the state of a fit for inference.

    Its Hessian is formed now (one pass) if the solver did not, unless there is a prior and either many rows or
    ``costly`` Hessians: then it is formed on demand.
    """
    e, expected = result.final, None
    products = problem.source.n_present * float(objective.size) ** 2
    many = products >= policy.POLICY.deferred_products and problem.whitening is None
    long = is_large(problem.source) or many
    deferred = problem.prior is not None and (long or costly)
    large = objective.size > policy.POLICY.largest_hessian
    if e.hessian is None and not deferred and not (large and objective.eliminated is None):
        e = objective.evaluate(result.w, order=2)
    H = None if e.hessian is None or large else e.dense_hessian
    if problem.link is not None and H is not None:
        expected = objective.evaluate(result.w, order=2, expected=True).dense_hessian
    return FittedState(
        coordinates=coordinates,
        x=objective.fixed(result.w),
        free=objective.free,
        common=common,
        reference=problem.reference,
        class_weight=problem.class_weight,
        n_rows=problem.source.n_present,
        log_likelihood=e.log_likelihood,
        penalty=objective.penalty,
        hessian=H,
        expected=expected,
        null_log_likelihood=constant_log_likelihood(problem),
        bordered=e.hessian if H is None and isinstance(e.hessian, BorderedDiagonal) else None,
    )


def with_hessian(problem: Problem, coef: Array, intercept: Array, learned: FittedState, gap: float) -> FittedState:
    """Return the state with the Hessian of the rows of ``problem`` at given weights (against class 0).

    They must be the training rows, which the gradient there verifies. The fit may have ended a ``gap`` above its
    optimum.
    """
    many = learned.x.size > policy.POLICY.largest_hessian
    objective, coordinates, _ = make_objective(problem, learned.coordinates, eliminate=many)
    objective = objective.restricted(learned.free)
    e = objective.evaluate(coordinates.from_user(coef, intercept), order=2)
    decrement = e.factor().norm(e.gradient)
    near = max(1e-3 * np.sqrt(objective.size), 2.0 * np.sqrt(gap))
    learned.require_same_rows(e.log_likelihood, decrement, near)
    if isinstance(e.hessian, BorderedDiagonal):
        return replace(learned, bordered=e.hessian)
    expected = None if problem.link is None else objective.evaluate(e.w, order=2, expected=True).dense_hessian
    return replace(learned, hessian=e.hessian, expected=expected)


def _check_scale(scale: Array, problem: Problem) -> None:
    """Refuse columns whose squares exceed the range of floating point."""
    if not (scale.min(initial=1.0) > 1e-100 and scale.max(initial=1.0) < 1e100):
        extreme = ~((scale > 1e-100) & (scale < 1e100))
        if problem.explain is not None:
            problem.explain()  # NaN and infinity have their own words
        j = int(np.argmax(extreme))
        raise InvalidInputError(
            f"Column {problem.names()[j]!r} has a spread of {scale[j]:.3g}, whose square exceeds the range of "
            f"floating point. Give it in other units."
        )


def resume(problem: Problem, fit: LikelihoodFit) -> LikelihoodFit:
    """Go on with a Newton fit that stopped because it looked like separation and was not."""
    no_hessian = problem.solver == "truncated-newton" or isinstance(fit.plan.solver, TruncatedNewton)
    solver = TruncatedNewton() if no_hessian else Newton()
    start = (fit.coef, fit.intercept)
    return fit_likelihood(replace(problem, solver=replace(solver, watch_divergence=False), start=start))


def rescale(problem: Problem, fit: LikelihoodFit, factor: float) -> LikelihoodFit:
    """Return a fit with its weights (and intercepts) multiplied by a factor; one pass, for the Hessian."""
    objective, coordinates, common = make_objective(problem, fit.learned.coordinates)
    objective = objective.restricted(fit.learned.free)
    e = objective.evaluate(factor * fit.result.w, order=2)
    result = replace(fit.result, w=e.w, final=e, diverging=False)
    learned = fitted_state(problem, objective, coordinates, common, result)
    return likelihood_fit(learned, result, fit.certificate, fit.plan, flat=fit.flat)


def start_weights(problem: Problem, objective: FoldObjective) -> Array:
    """Return the start: weights 0 (or the prior's mean), intercepts that fit the class frequencies."""
    x = np.zeros(objective.shape) if objective.penalty is None else objective.penalty.mean.copy()
    if problem.intercept:
        odds = log_odds(problem.class_weight, problem.link)
        if problem.source.has_offset:
            odds = odds - np.asarray(problem.source.offset_mean)
        T = objective.T
        if T.size == 1:
            x[:, 0] = odds / T[0]
        else:
            x[:, 0] = np.linalg.solve(T, odds) if len(T) == T.shape[1] else np.linalg.lstsq(T, odds)[0]
    return x.ravel()


def inside_domain(problem: Problem, objective: FoldObjective, coordinates: Coordinates, x: Array) -> Array:
    """Return a start inside the domain of the link: the usual one, or the one given."""
    if problem.link is None or not is_bounded(problem.link) or np.isfinite(objective.evaluate(x).value):
        return x
    warm = None if problem.start is None else coordinates.from_user(*problem.start)
    if warm is None or not np.isfinite(objective.evaluate(warm).value):
        raise InfeasibleStartError("The start is outside the domain of the link.")
    return warm


def seeded(solver: str | Solver[Any], seed: int | None) -> str | Solver[Any]:
    """Return the solver with the model's seed, where it uses one and has none of its own."""
    chosen = SOLVERS[solver]() if solver == "sgd" else solver
    return replace(chosen, seed=seed) if isinstance(chosen, SGD) and chosen.seed is None else solver
