"""The fit under Jeffreys' prior: Firth's bias reduction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.coordinates import independent_columns
from oddsmith.likelihood.fit import (
    LikelihoodFit,
    fitted_state,
    likelihood_fit,
    make_objective,
    start_weights,
)
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem, facts_of, machine_of
from oddsmith.numerics import Array, factor_spd
from oddsmith.records import Certificate
from oddsmith.solvers import Newton, policy
from oddsmith.solvers.base import ObjectiveValue, Recorder
from oddsmith.solvers.constrained import minimise
from oddsmith.solvers.plan import plan_for
from oddsmith.statistics import LeverageParams, LeverageSlope
from oddsmith.statistics.rowwise import WeightPoint

REASON = "since Jeffreys' prior is fitted by a method of its own"


@dataclass(frozen=True)
class FirthObjective:
    """``f(x) − ½ log det I(x)``: an objective with Jeffreys' prior; ``I`` is the information of the likelihood alone.

    Its gradient takes one more pass, for the leverages. As Hessian it returns the information (plus the Gaussian
    prior's part), which is close to its own, always positive definite, and the basis of standard errors.
    """

    inner: FoldObjective

    def evaluate(self, x: Array) -> ObjectiveValue:
        """Return value, gradient and information at ``x``: two passes."""
        inner = self.inner
        e = inner.evaluate(x, order=2, expected=not inner.canonical)
        kept = inner.free.ravel()
        information = e.dense_hessian - inner.prior_hessian()
        if not (np.isfinite(e.value) and np.isfinite(information).all()):
            return replace(e, value=np.inf)
        factor = factor_spd(information[np.ix_(kept, kept)], tol=0.0)
        if not factor.kept.all():  # so far out that no curvature is left: the determinant is zero
            return replace(e, value=np.inf)
        S = np.zeros_like(information)
        S[np.ix_(kept, kept)] = factor.solve(np.eye(int(kept.sum())))
        weights = np.where(inner.free, x.reshape(inner.shape), 0.0)
        at = WeightPoint(x=weights, center=inner.center, scale=inner.scale, T=inner.T, link=inner.link)
        slope = inner.fold(LeverageSlope, LeverageParams(at, S)).slope
        g = e.gradient - np.where(inner.free, slope, 0.0).ravel()
        return replace(e, value=e.value - 0.5 * factor.log_det(), gradient=g, rounding=0.0)


def fit_firth(problem: Problem) -> LikelihoodFit:
    """Fit with Jeffreys' prior: Fisher scoring with quasi-Newton corrections, from zero weights.

    Columns that depend on earlier ones are left out. The certificate is an estimate: half the squared decrement.
    """
    if problem.solver not in ("auto", "newton") and not isinstance(problem.solver, Newton):
        raise InvalidInputError(
            f"A JeffreysPrior is fitted by its own Newton-like method; found solver={problem.solver!r}. "
            "Use solver='auto'."
        )
    if problem.link is not None and not np.isinf(problem.link.domain).all():
        raise InvalidInputError(
            f"Under JeffreysPrior() a model with link={problem.link.name!r} has no estimate: the information grows "
            "without bound as a probability goes to the end of its range. Use link='logit', 'probit' or 'cloglog'."
        )
    objective, coordinates, common = make_objective(problem)
    if objective.size > policy.POLICY.largest_hessian:
        raise InvalidInputError(
            f"A JeffreysPrior needs the information of all {objective.size} weights, and at most "
            f"{policy.POLICY.largest_hessian} are possible: use fewer columns, or a GaussianPrior."
        )
    x = start_weights(problem, objective)
    objective = independent_columns(objective, x)
    firth = FirthObjective(objective)
    e = firth.evaluate(np.where(objective.free.ravel(), x, 0.0))
    if problem.start is not None:
        warm = firth.evaluate(np.where(objective.free.ravel(), coordinates.from_user(*problem.start), 0.0))
        e = warm if warm.value < e.value else e
    recorder = Recorder(objective, "Fisher scoring")
    recorder.add(e, 0.0)
    unconstrained, tol = np.zeros((0, objective.size)), 0.01 * problem.tol
    found = minimise(
        firth.evaluate, e, unconstrained, tol=tol, max_iter=problem.max_iter, exact=False, on_step=recorder.add
    )
    e, gap = found.e, 0.5 * found.decrement**2
    certificate = Certificate(
        converged=bool(found.converged and gap <= e.allowed_gap(problem.tol)),
        gap=gap,
        gradient_norm=float(np.linalg.norm(e.gradient)),
        condition=found.kkt.factor.condition,
        passes=objective.passes,
        rigorous=False,
        method="Fisher scoring",
    )
    final = replace(objective.evaluate(e.w, order=2), value=e.value, gradient=e.gradient)
    result = recorder.result(final, certificate)
    planned = plan_for(Newton(name="firth"), facts_of(problem, coordinates), machine_of(problem), REASON)
    learned = fitted_state(problem, objective, coordinates, common, result)
    return likelihood_fit(learned, result, certificate, planned, flat=False)
