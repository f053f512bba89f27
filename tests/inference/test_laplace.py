"""Laplace's approximation of any density, against closed forms."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oddsmith import laplace
from oddsmith.errors import InvalidInputError, InvalidTypeError


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e4), st.floats(-3.0, 3.0))
def test_gaussian_is_found_exactly_from_any_start(mean: float, std: float, away: float) -> None:
    result = laplace(lambda x: -0.5 * ((x - mean) / std) ** 2, start=mean + away * std)
    assert abs(result.mode - mean) < 1e-6 * std + 1e-9 * abs(mean)
    assert np.isclose(result.covariance, std**2, rtol=1e-5)
    assert np.isclose(result.log_normaliser, 0.5 * np.log(2 * np.pi) + np.log(std), atol=1e-5)


@pytest.mark.parametrize("derivatives", ["given", "numerical"])
def test_correlated_gaussian_of_different_scales(derivatives: str) -> None:
    S = np.array([[1.0, 0.95e3, 0.0], [0.95e3, 1e6, 1.0], [0.0, 1.0, 1e-4]])
    S[1, 2] = S[2, 1] = 2.0
    m = np.array([5.0, -2e3, 1e-3])
    A = np.linalg.inv(S)
    more = {}
    if derivatives == "given":
        more = {"gradient": lambda x: -A @ (x - m), "hessian": lambda x: -A}
    result = laplace(lambda x: -0.5 * (x - m) @ A @ (x - m), start=m + np.array([3.0, 1e3, 0.01]), **more)
    std = np.sqrt(np.diag(S))
    assert np.allclose((result.mode - m) / std, 0.0, atol=1e-6)
    assert np.allclose(result.covariance / np.outer(std, std), S / np.outer(std, std), atol=1e-6)
    assert np.isclose(result.log_normaliser, 0.5 * np.linalg.slogdet(2 * np.pi * S)[1], atol=1e-6)
    z = np.random.default_rng(0).normal(size=(5, 3))
    exact = stats.norm.logpdf(z).sum(axis=1) - np.log(np.diag(np.linalg.cholesky(S))).sum()
    assert np.allclose(result.logpdf(m + z @ np.linalg.cholesky(S).T), exact, atol=1e-4)


def test_gamma_density_has_its_textbook_approximation() -> None:
    # log f = 3 log x − x: mode 3, variance 3, so Z ≈ 27 e⁻³ √(6π), Stirling's formula for Γ(4).
    result = laplace(lambda x: 3.0 * np.log(x) - x if x > 0 else -np.inf, start=0.01)
    assert np.isclose(result.mode, 3.0, rtol=1e-8)
    assert np.isclose(result.covariance, 3.0, rtol=1e-6)
    assert np.isclose(np.exp(result.log_normaliser), 27.0 * np.exp(-3.0) * np.sqrt(6.0 * np.pi), rtol=1e-7)


def test_mode_far_from_the_start_is_reached() -> None:
    result = laplace(lambda x: -np.log1p(x @ x / 4.0) - 1e-3 * x @ x, start=np.array([40.0, -60.0]))
    assert np.allclose(result.mode, 0.0, atol=1e-7)


def test_samples_have_the_moments() -> None:
    S = np.array([[2.0, 0.6], [0.6, 1.0]])
    result = laplace(lambda x: -0.5 * x @ np.linalg.solve(S, x), start=np.ones(2))
    draws = result.sample(20_000, seed=0)
    assert np.allclose(np.cov(draws.T), S, atol=0.06)
    assert np.array_equal(draws, result.sample(20_000, seed=0))
    assert laplace(lambda x: -x * x, start=1.0).sample(3, seed=1).shape == (3,)


def test_error_names_the_direction_that_is_no_maximum() -> None:
    with pytest.raises(InvalidInputError, match=r"along the direction \[1\., *-?0\.?\] it curves upwards"):
        laplace(lambda x: x[0] ** 2 - x[1] ** 2, start=np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"along the direction \[1\., 1\.\] it is flat"):
        laplace(lambda x: -((x[0] - x[1]) ** 2), np.array([1.0, 0.0]), lambda x: np.array([-2.0, 2.0]) * (x[0] - x[1]),
                lambda x: np.array([[-2.0, 2.0], [2.0, -2.0]]))  # fmt: skip
    with pytest.raises(InvalidInputError, match="does not fall"):
        laplace(lambda x: -np.exp(-x), start=0.0)


def test_bad_arguments_are_refused_in_words() -> None:
    with pytest.raises(InvalidInputError, match="start where it is finite"):
        laplace(lambda x: np.log(x) if x > 0 else -np.inf, start=-1.0)
    with pytest.raises(InvalidTypeError, match="must be a function"):
        laplace("density", start=0.0)
    with pytest.raises(InvalidInputError, match="returned"):
        laplace(lambda x: np.nan, start=0.0)
    with pytest.raises(InvalidInputError, match="Hessian must be finite and of shape"):
        laplace(lambda x: -x @ x, np.ones(2), hessian=lambda x: np.ones(2))
    with pytest.raises(InvalidInputError, match="finite number or vector"):
        laplace(lambda x: 0.0, start=[[1.0]])


@pytest.mark.parametrize(
    "f, words",
    [
        (lambda x: -x if x > 0 else -np.inf, "no smooth maximum"),  # its maximum is an edge
        (lambda x: -abs(x), "no smooth maximum"),
        (lambda x: -(x**4), "falls steeply"),
    ],
)
def test_maxima_that_are_no_gaussians_are_refused(f, words: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInputError, match=words):
            laplace(f, 1.0)


def test_derivatives_and_points_of_the_wrong_kind_are_refused() -> None:
    def f(x: np.ndarray) -> float:
        return -float(x @ x)

    with pytest.raises(InvalidInputError, match="symmetric"):
        laplace(f, [1.0, 2.0], gradient=lambda x: -2 * x, hessian=lambda x: np.array([[-2.0, 1.0], [0.0, -2.0]]))
    with pytest.raises(InvalidInputError, match="the gradient be wrong"):
        laplace(f, [1.0, 2.0], gradient=lambda x: 2 * x)
    with pytest.raises(InvalidInputError, match="points of length 2"):
        laplace(f, [1.0, 2.0]).logpdf([0.0, 0.0, 0.0])
