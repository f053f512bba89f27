"""The fit with a Laplace prior: the lasso, the elastic net and the group lasso at one scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.coordinates import Coordinates
from oddsmith.likelihood.fit import LikelihoodFit
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.problem import Problem, facts_of, machine_of
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.numerics import Array
from oddsmith.records import Certificate
from oddsmith.solvers.base import ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.plan import Plan, plan_sparse
from oddsmith.solvers.proximal_newton import SparseOptimum

STAGE = "proximal Newton"
STEP = 3.0  # Ratio of neighbouring scales on the way to that of a fit of many columns.


def fit_laplace(problem: Problem) -> LikelihoodFit:
    """Fit under a Laplace prior.

    1. State the problem in its coordinates; the null model and its gradient say which scales leave all weights zero.
    2. Large data: begin on a sample, and take its Hessian along. Many columns: begin at smaller scales, where few
       weights are not zero.
    3. Solve on all rows until the duality gap is within the tolerance.
    """
    if problem.solver != "auto":
        raise InvalidInputError(
            f"A LaplacePrior is fitted by proximal Newton; found solver={problem.solver!r}. Use solver='auto'."
        )
    assert problem.laplace is not None
    scale = float(problem.laplace.checked().scale)
    stated = SparseProblem.of(problem)  # 1
    recorder = Recorder(stated.objective, STAGE)
    sample = stated.on_sample()
    planned = plan_sparse(
        facts_of(problem, stated.coordinates), machine_of(problem), None if sample is None else sample.objective.n_rows
    )
    e = stated.null_point()
    if sample is not None:  # 2
        e = sample_start(stated, sample, scale, e)
        recorder.add_subsample(e, f"{STAGE} on a sample")
    before = stated.smallest_scale(e)
    if not stated.is_small:
        while STEP * before < scale:
            e = stated.solve(STEP * before, e, tol=1e-3, max_iter=problem.max_iter, before=before).e
            before *= STEP
    stated.record = recorder.add
    found = stated.solve(scale, e, tol=problem.tol, max_iter=problem.max_iter, before=min(before, scale))  # 3
    certificate = certificate_of(found, problem, stated)
    final = replace(found.e, value=found.value, hessian=None)
    if recorder.last is None:
        recorder.add(final, 1.0)
    result = recorder.result(final, certificate)
    return sparse_fit(problem, stated, result, certificate, planned)


def sample_start(stated: SparseProblem, sample: SparseProblem, scale: float, e: ObjectiveValue) -> ObjectiveValue:
    """Return the evaluation on all rows at the optimum of a sample, whose Hessian ``stated`` keeps."""
    first = sample.objective.evaluate(e.w, 2)
    found = sample.solve(scale, first, tol=1e-5, max_iter=50)
    at = found.e if found.e.hessian is not None else sample.objective.evaluate(found.e.w, 2)
    stated.H = at.dense_hessian
    return stated.objective.evaluate(found.e.w)


def certificate_of(found: SparseOptimum, problem: Problem, stated: SparseProblem) -> Certificate:
    """Return the certificate: the duality gap, with what rounding adds to it."""
    coordinates: Coordinates = stated.coordinates
    rounding = coordinates.rounding_gap(found.e.w, stated.objective.weight, stated.objective.longest_row or 0.0)
    gap = float(found.gap + rounding)
    return Certificate(
        converged=bool(gap <= problem.tol * max(1.0, abs(found.value))),
        gap=gap,
        gradient_norm=float(np.linalg.norm(found.e.gradient)),
        condition=np.nan,
        passes=stated.objective.passes,
        rigorous=True,
        method=STAGE,
    )


def sparse_fit(
    problem: Problem, stated: SparseProblem, result: SolverResult, certificate: Certificate, planned: Plan
) -> LikelihoodFit:
    """Return the outcome of a fit, with what inference may ask of it."""
    objective, coordinates = stated.objective, stated.coordinates
    learned = FittedState(
        coordinates=coordinates,
        x=np.where(objective.free, result.w.reshape(objective.shape), 0.0),
        free=objective.free,
        common=stated.unpenalised.astype(np.float64),
        reference=problem.reference,
        class_weight=problem.class_weight,
        n_rows=problem.source.n_present,
        log_likelihood=result.final.log_likelihood,
        penalty=objective.penalty,
        hessian=None,
        expected=None,
        sparse=True,
    )
    W: Array
    W, b = coordinates.to_user(result.w)
    return LikelihoodFit(
        coef=W, intercept=b, result=result, certificate=certificate, plan=planned, flat=False, learned=learned
    )
