"""Duality gaps and supports against an optimum in extended precision, on random problems."""

import warnings

import numpy as np
import pytest
from tests.sparse_optimum import minimise
from tests.sparse_problems import KINDS, random_problem

from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.errors import ConvergenceWarning

PROBLEMS = 500
TOL = 1e-10
ROUNDING = 1e-13


def fit(problem, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(prior=LaplacePrior(**problem.prior), **{"tol": TOL, **options})
        return model.fit(problem.X, problem.t, **problem.rows)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_gap_is_true_and_support_is_that_of_the_optimum(kind):
    for number in range(kind, PROBLEMS, len(KINDS)):
        problem = random_problem(number)
        model, judged = fit(problem), problem.judged()
        W = np.vstack([model.intercept_, model.coef_.T])
        optimum, objective = minimise(judged, W), judged.value(W)
        least, truth = float(optimum.value), float(objective - optimum.value)
        assert optimum.left <= 1e-15 * least and float(optimum.used.max()) <= 1 + 1e-10, (
            f"{problem}: the judge has no optimum"
        )
        gap, certificate = model.certificate_.gap, model.certificate_
        assert certificate.converged, str(problem)
        assert gap >= truth - ROUNDING * least, f"{problem}: gap {gap}, truth {truth}"
        assert gap <= max(10.0 * truth, TOL * max(least, 1.0)), f"{problem}: gap {gap}, truth {truth}"
        assert_support(problem, judged, optimum, W)


@pytest.mark.parametrize("options", [{"tol": 0.1}, {"tol": 1e-4}, {"max_iter": 1}, {"max_iter": 2}], ids=str)
def test_gap_is_true_where_a_fit_stops_early(options):
    for number in range(0, PROBLEMS, 11):
        problem = random_problem(number)
        model, judged = fit(problem, **options), problem.judged()
        W = np.vstack([model.intercept_, model.coef_.T])
        optimum = minimise(judged)
        truth = float(judged.value(W) - optimum.value)
        assert model.certificate_.gap >= truth - ROUNDING * float(optimum.value), str(problem)


def test_the_judge_finds_one_minimum_from_any_start():
    for number in range(0, PROBLEMS, 23):
        problem = random_problem(number)
        judged = problem.judged()
        start = np.random.default_rng(number).normal(size=judged.block.shape)
        first, second = minimise(judged), minimise(judged, start)
        assert float(first.value) == pytest.approx(float(second.value), rel=1e-14), str(problem)
        assert float(first.used.max()) <= 1 + 1e-10


def assert_support(problem, judged, optimum, W):
    """A block whose condition is strict is exactly zero; one that is not zero for sure is in the support."""
    ours, theirs = judged.norms(W), judged.norms(optimum.W)
    strict = np.asarray(optimum.used < 1 - 1e-6)
    assert not ours[strict].any(), f"{problem}: {ours[strict]} should be zero"
    if optimum.unique:
        sure = np.asarray(theirs > 1e-4 * max(float(theirs.max(initial=0)), 1e-300))
        assert ours[sure].all(), f"{problem}: {theirs[sure]} should not be zero"


@pytest.mark.parametrize("seed", [1, 5, 9])
@pytest.mark.parametrize("groups", ["class", [[0, 1], [4, 5]]])
def test_groups_beside_almost_a_copy_of_their_columns_reach_their_optimum(seed: int, groups: object) -> None:
    """A Newton step over both overshoots: one of them ends at zero. A fit to 50 × 5 took 200 steps, to no end."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 6))
    X[:, 4:6] = X[:, 0:2] + 1e-5 * rng.normal(size=(50, 2))
    t = np.argmax(X @ rng.normal(size=(3, 6)).T + rng.gumbel(size=(50, 3)), axis=1)
    t = t if groups == "class" else np.minimum(t, 1)
    for scale in (3.0, 30.0):
        model = LogisticRegression(LaplacePrior(scale, groups=groups), tol=1e-10).fit(X, t)
        assert model.certificate_.converged
        assert model.n_iter_ <= 15
