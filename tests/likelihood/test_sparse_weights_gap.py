"""Duality gaps and supports against an optimum in extended precision, on random problems."""

import warnings

import numpy as np
import pytest
from tests.sparse_optimum import block_problem, minimise
from tests.sparse_problems import KINDS, WAYS, forced, random_problem

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
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
    for number in range(kind, PROBLEMS, 2 * len(KINDS)):
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
        floor = judged.floor(W) + (judged.feasibility_floor(W) if KINDS[kind] == "scale" else 0.0)
        assert gap <= 10.0 * max(truth, floor), f"{problem}: gap {gap}, truth {truth}, floor {floor}"
        assert_support(problem, judged, optimum, W)


@pytest.mark.parametrize("tol", [1e-6, 1e-8, 1e-12])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "together"])
def test_gap_is_near_the_truth_on_every_way(way, tol):
    """The gap from plain residuals is of the first order in how far weights are away, and the truth of the second."""
    near = []
    for number in range({1e-6: 1, 1e-8: 2, 1e-12: 4}[tol], PROBLEMS, 29):
        problem = random_problem(number)
        with forced(way):
            model, judged = fit(problem, tol=tol), problem.judged()
        W = np.vstack([model.intercept_, model.coef_.T])
        optimum = minimise(judged, W)
        truth, gap = float(judged.value(W) - optimum.value), model.certificate_.gap
        assert gap >= truth, f"{problem}: gap {gap}, truth {truth}"
        floor = judged.floor(W) + (judged.feasibility_floor(W) if number % len(KINDS) == KINDS.index("scale") else 0.0)
        near.append(gap <= 10.0 * max(truth, floor))
        assert gap <= 30.0 * max(truth, floor), f"{problem}: gap {gap}, truth {truth}, floor {floor}"
    assert np.mean(near) > 0.9


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prior", [{}, {"gaussian": 3.0}, {"groups": [[0, 1, 2], [3, 4]]}], ids=str)
def test_gaps_of_a_path_are_near_the_truth(way, prior):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 6)) @ (np.eye(6) + 0.3)
    t = (X[:, 0] - X[:, 3] + rng.logistic(size=300) > 0).astype(int)
    scales = np.geomspace(0.01, 1.0, 7)
    with forced(way):
        path = regularization_path(X, t, scales=scales, prior=LaplacePrior(1.0, **prior))
    for k, scale in enumerate(scales):
        judged, W = block_problem(X, t, 2, scale=scale, **prior), path.weights[k][:, None]
        truth, gap = float(judged.value(W) - minimise(judged, W).value), path.gap[k] * path.objective[k]
        assert truth <= gap <= 10.0 * max(truth, judged.floor(W)), f"{way}, {scale}: gap {gap}, truth {truth}"


@pytest.mark.parametrize("options", [{"tol": 0.1}, {"tol": 1e-4}, {"max_iter": 1}, {"max_iter": 2}], ids=str)
def test_gap_is_true_where_a_fit_stops_early(options):
    for number in range(0, PROBLEMS, 23):
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
    X, t = with_copies(seed, 1e-5, 2 if isinstance(groups, list) else 3)
    for scale in (3.0, 30.0):
        model = LogisticRegression(LaplacePrior(scale, groups=groups), tol=1e-10).fit(X, t)
        assert model.certificate_.converged
        assert model.n_iter_ <= 15


def with_copies(seed, eps, K):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 6))
    X[:, 4:6] = X[:, 0:2] + eps * rng.normal(size=(50, 2))
    t = np.argmax(X @ rng.normal(size=(3, 6)).T + rng.gumbel(size=(50, 3)), axis=1)
    return X, np.minimum(t, K - 1)


@pytest.mark.parametrize("way", ["all columns", "by columns"])
@pytest.mark.parametrize("eps", [1e-6, 1e-7, 1e-8])
@pytest.mark.parametrize(("K", "groups"), [(2, None), (3, None), (3, "class"), (2, [[0, 1], [4, 5]])])
def test_columns_beside_copies_of_them_reach_their_optimum(K, groups, eps, way):
    """Along the difference of two columns the objective is nearly flat, and no sum in single precision shows a slope.

    Of copies at 1e-7 most fits ended without a certificate, after seconds.
    """
    for seed, scale in [(0, 0.3), (1, 3.0), (2, 30.0)]:
        X, t = with_copies(seed, eps, K)
        with forced(way):
            model = LogisticRegression(LaplacePrior(scale, groups=groups)).fit(X, t)
        assert model.certificate_.converged
