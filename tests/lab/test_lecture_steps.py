"""The steps that the lab shows are those of `oddsmith.lectures.algorithms`, iterate by iterate."""

from __future__ import annotations

import numpy as np
import pytest

from oddsmith.lab.steps import Likelihood, Path, iterate
from oddsmith.lectures import algorithms


@pytest.fixture(params=range(4))
def problem(request: pytest.FixtureRequest) -> Likelihood:
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(40, 2))
    t = (X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=40) > 0).astype(np.intp)
    return Likelihood(Phi=algorithms.with_ones(X), t=t, K=2)


def steps(problem: Likelihood, method: str, count: int, step_size: float = 0.05) -> Path:
    start = np.array([[0.1, -0.2, 0.3]])
    return iterate(problem, start, method, step_size=step_size, count=count, theta=1e-9, seed=3)


def test_newton_is_irls(problem: Likelihood) -> None:
    path = steps(problem, "newton", 30).weights[:, 0]
    exact = algorithms.irls(problem.Phi, problem.t, path[0], theta=1e-9).weights
    n = min(len(path), len(exact))
    assert n >= 5
    np.testing.assert_allclose(path[:n], exact[:n], rtol=1e-9, atol=1e-12)


def test_gradient_descent_is_the_batch_gradient(problem: Likelihood) -> None:
    path = steps(problem, "gradient", 60).weights[:, 0]
    exact = algorithms.batch_gradient(problem.Phi, problem.t, path[0], 0.05, theta=1e-30, max_iter=60).weights
    np.testing.assert_allclose(path, exact, rtol=1e-9, atol=1e-12)


def test_sgd_is_one_row_at_a_time(problem: Likelihood) -> None:
    path = steps(problem, "sgd", 40)
    exact = algorithms.sgd(problem.Phi, problem.t, path.weights[0, 0], 0.05, order=path.rows)
    np.testing.assert_allclose(path.weights[:, 0], exact.weights, rtol=1e-9, atol=1e-12)


def test_perceptron_is_one_mistake_at_a_time(problem: Likelihood) -> None:
    path = steps(problem, "perceptron", 50, 1.0)
    exact = algorithms.perceptron(problem.Phi, 2 * problem.t - 1, path.weights[0, 0], 1.0, max_epochs=60)
    assert path.rows == exact.rows[: len(path.rows)].tolist() and len(path.rows) >= 5
    np.testing.assert_allclose(path.weights[:, 0], exact.weights[: len(path.weights)], rtol=1e-12)
