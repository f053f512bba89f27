"""Newton–Raphson and gradient descent for any function."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oddsmith import gradient_descent, newton_raphson
from oddsmith.errors import InvalidInputError, OddsmithError

RNG = np.random.default_rng(4)
X = np.column_stack([np.ones(40), RNG.normal(size=(40, 3)) * [1.0, 100.0, 0.01]])
T = X @ [1.0, 2.0, -0.3, 40.0] + RNG.normal(size=40)


def half_squares(w: np.ndarray) -> float:
    return 0.5 * float(np.sum((X @ w - T) ** 2))


def squares_gradient(w: np.ndarray) -> np.ndarray:
    return X.T @ (X @ w - T)


def squares_hessian(w: np.ndarray) -> np.ndarray:
    return X.T @ X


def rosenbrock(x: np.ndarray) -> float:
    return float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)


def rosenbrock_gradient(x: np.ndarray) -> np.ndarray:
    return np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)])


def rosenbrock_hessian(x: np.ndarray) -> np.ndarray:
    return np.array([[2 - 400 * (x[1] - 3 * x[0] ** 2), -400 * x[0]], [-400 * x[0], 200.0]])


@given(start=arrays(np.float64, 4, elements=st.floats(-1e3, 1e3)))
def test_linear_regression_takes_newton_one_step_from_any_start(start: np.ndarray) -> None:
    result = newton_raphson(half_squares, squares_gradient, squares_hessian, start)
    expected = np.linalg.lstsq(X, T, rcond=None)[0]
    # The first step ends there; a second is never taken, because the step from there is nothing.
    np.testing.assert_allclose(result.path[min(1, result.iterations)], expected, rtol=1e-7, atol=1e-8)
    assert result.converged
    assert result.iterations <= 1
    assert result.value == pytest.approx(half_squares(expected), rel=1e-10)


def test_linear_regression_takes_exactly_one_step() -> None:
    result = newton_raphson(half_squares, squares_gradient, squares_hessian, np.zeros(4))
    assert result.iterations == 1
    assert len(result.path) == 2


@pytest.mark.parametrize(
    ("gradient", "hessian", "start", "root"),
    [
        (lambda x: 2 * x - 4, lambda x: 2.0, 10.0, 2.0),
        (lambda x: x**2 - 2, lambda x: 2 * x, 1.0, math.sqrt(2)),
        (lambda x: math.cos(x), lambda x: -math.sin(x), 1.0, math.pi / 2),
        (lambda x: math.exp(x) - 3, lambda x: math.exp(x), 0.0, math.log(3)),
    ],
)
def test_newton_in_one_dimension_finds_the_zero_of_the_gradient(gradient, hessian, start, root) -> None:
    result = newton_raphson(None, gradient, hessian, start)
    assert isinstance(result.x, float)
    assert result.x == pytest.approx(root, rel=1e-10)
    assert result.converged
    assert math.isnan(result.value)
    assert result.path.shape == (result.iterations + 1, 1)
    assert result.path[0, 0] == start


def test_newton_converges_quadratically() -> None:
    error = np.abs(newton_raphson(None, lambda x: x**2 - 2, lambda x: 2 * x, 3.0).path[:, 0] - math.sqrt(2))
    early = error[(error > 1e-7) & (error < 1.0)]
    assert len(early) >= 2
    assert np.all(early[1:] <= early[:-1] ** 2)


def test_newton_finds_a_maximum_too() -> None:
    result = newton_raphson(lambda x: -((x - 3) ** 2), lambda x: -2 * (x - 3), lambda x: -2.0, start=0.0)
    assert (result.x, result.value, result.iterations) == (3.0, 0.0, 1)


def test_both_methods_find_the_minimum_of_rosenbrock() -> None:
    newton = newton_raphson(rosenbrock, rosenbrock_gradient, rosenbrock_hessian, [-1.2, 1.0])
    np.testing.assert_allclose(newton.x, [1.0, 1.0], rtol=1e-10)
    assert newton.converged and newton.iterations < 10
    descent = gradient_descent(rosenbrock, rosenbrock_gradient, [-1.2, 1.0], tol=1e-6, max_iter=100_000)
    np.testing.assert_allclose(descent.x, [1.0, 1.0], rtol=1e-4)
    assert descent.converged
    values = [rosenbrock(x) for x in descent.path]
    assert np.all(np.diff(values) < 0), "backtracking must never let the function rise"


@pytest.mark.parametrize("step_size", [0.05, 0.25, 0.45])
def test_gradient_descent_with_a_fixed_step_contracts_as_the_formula_says(step_size: float) -> None:
    """On (x − 2)² each step multiplies the error by 1 − 2η."""
    result = gradient_descent(lambda x: (x - 2) ** 2, lambda x: 2 * (x - 2), start=10.0, step_size=step_size)
    expected = 2.0 + 8.0 * (1 - 2 * step_size) ** np.arange(len(result.path))
    np.testing.assert_allclose(result.path[:, 0], expected, rtol=1e-12)
    assert result.converged and result.gradient_norm <= 1e-8


def test_gradient_descent_agrees_with_newton_on_least_squares() -> None:
    Z = X / np.linalg.norm(X, axis=0)
    newton = newton_raphson(None, lambda w: Z.T @ (Z @ w - T), lambda w: Z.T @ Z, np.zeros(4))
    descent = gradient_descent(
        lambda w: 0.5 * np.sum((Z @ w - T) ** 2), lambda w: Z.T @ (Z @ w - T), np.zeros(4), tol=1e-9
    )
    np.testing.assert_allclose(descent.x, newton.x, rtol=1e-8)


def test_max_iter_is_kept_and_reported() -> None:
    newton = newton_raphson(rosenbrock, rosenbrock_gradient, rosenbrock_hessian, [-1.2, 1.0], max_iter=2)
    descent = gradient_descent(rosenbrock, rosenbrock_gradient, [-1.2, 1.0], max_iter=7)
    for result, limit in ((newton, 2), (descent, 7)):
        assert not result.converged
        assert result.iterations == limit
        assert "did not converge" in str(result)


def test_a_path_is_a_table() -> None:
    result = newton_raphson(rosenbrock, rosenbrock_gradient, rosenbrock_hessian, [-1.2, 1.0])
    table = result.to_pandas()
    assert list(table.columns) == ["iteration", "x0", "x1"]
    assert table.x0.tolist() == result.path[:, 0].tolist()
    assert result.to_polars().columns == ["iteration", "x0", "x1"]
    assert "converged after" in str(result)
    assert "<table>" in result._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: newton_raphson(None, lambda x: 1.0, lambda x: 0.0, 1.0), "singular"),
        (lambda: newton_raphson(None, lambda x: x, lambda x: np.ones((2, 2)), [1.0, 2.0]), "singular"),
        (lambda: newton_raphson(None, lambda x: np.ones(3), lambda x: np.eye(2), [1.0, 2.0]), r"shape \(2,\)"),
        (lambda: newton_raphson(None, lambda x: x, lambda x: np.eye(3), [1.0, 2.0]), r"\(2, 2\)"),
        (lambda: newton_raphson(None, lambda x: np.nan, lambda x: 1.0, 1.0), "not finite"),
        (lambda: newton_raphson(None, lambda x: x, lambda x: 1.0, np.inf), "start must be a finite"),
        (lambda: newton_raphson(None, lambda x: x, lambda x: 1.0, [[1.0]]), "start must be"),
        (
            lambda: gradient_descent(lambda x: x * x, lambda x: 2 * x, 1.0, step_size=0.0),
            "step_size must be a positive",
        ),
        (
            lambda: gradient_descent(lambda x: x * x, lambda x: 2 * x, 1.0, step_size=-1.0),
            "step_size must be a positive",
        ),
        (lambda: gradient_descent(lambda x: x * x, lambda x: 2 * x, np.nan), "start must be a finite"),
        (lambda: gradient_descent(lambda x: x, lambda x: np.inf, 1.0), "not finite"),
        (lambda: gradient_descent(lambda x: x * x, lambda x: 2 * x, 1.0, step_size=10.0), "not finite"),
    ],
)
def test_bad_functions_and_arguments_are_named(call, message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(InvalidInputError, match=message) as caught:
        call()
    assert isinstance(caught.value, OddsmithError) and isinstance(caught.value, ValueError)
