"""Searches on rows of half precision end at the optimum of the exact rows, wherever they lead on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oddsmith import LogisticRegression
from oddsmith.kernels import large
from oddsmith.models.objective import FoldObjective
from oddsmith.solvers.coarse import Isotropic


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many searches on coarse rows were begun."""
    begun: list[int] = []
    real = FoldObjective.coarsened

    def coarsened(self: FoldObjective, x: Any) -> Any:
        begun.append(self.n_rows)
        return real(self, x)

    monkeypatch.setattr(FoldObjective, "coarsened", coarsened)
    return begun


def table(N: int, D: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    A = np.column_stack([np.zeros(N), X @ rng.normal(size=(D, K - 1)) / np.sqrt(D)])
    y = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    return X, y


def at_the_optimum(X: Any, y: Any, sigma: float = 1.0) -> LogisticRegression:
    """Hold a fit against Newton's method on all rows, to ten times the digits that are promised."""
    fit = LogisticRegression(sigma).fit(X, y)
    exact = LogisticRegression(sigma, solver="newton").fit(X, y)
    values = [model.trace_.objective[-1] for model in (fit, exact)]
    assert fit.certificate_.converged and fit.certificate_.rigorous
    gap, noise = values[0] - values[1], 1e-14 * len(X)
    assert gap <= fit.certificate_.gap + noise
    assert gap <= 1e-9 * values[1]
    return fit


@pytest.mark.parametrize("D, K", [(200, 2), (20, 4), (60, 5)])
def test_columns_that_do_not_depend_on_each_other(searches: list[int], D: int, K: int) -> None:
    fit = at_the_optimum(*table(max(20_000, 1_600_000 // D), D, K))
    assert len(searches) == 1
    assert fit.certificate_.passes <= 4


def test_columns_that_depend_on_each_other(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    for j in range(1, 200):
        X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    at_the_optimum(X, y)
    assert searches


def test_columns_far_from_zero_and_of_all_scales(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    at_the_optimum(
        X * np.geomspace(1e-3, 1e3, 200) + np.linspace(-1e6, 1e6, 200) * np.geomspace(1e-3, 1e3, 200), y, 3.0
    )
    assert searches


def test_values_that_half_precision_does_not_hold(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    X[777, 3] = 1e6
    at_the_optimum(X, y)
    assert searches


def test_columns_that_half_precision_hardly_sees(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    X[:, 5] = np.where(np.arange(20_000) % 997 == 0, 1e6, 1.0) * X[:, 5]
    at_the_optimum(X, y)
    assert searches


def test_a_value_that_is_not_finite_is_named(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    X[11_111, 17] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LogisticRegression(1.0).fit(X, y)
    assert searches


def test_machines_without_half_precision(searches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "HALVES", False)
    at_the_optimum(*table(20_000, 200, 2))
    assert not searches


def test_same_bits_on_one_thread_or_two(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    one, two = (LogisticRegression(1.0, threads=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert len(searches) == 2


def test_isotropic_metric_is_a_kronecker_product() -> None:
    B, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.arange(1.0, 7.0)
    A = np.kron(B, np.eye(3))
    metric = Isotropic(B)
    np.testing.assert_allclose(metric.solve(b), np.linalg.solve(A, b), rtol=1e-12)
    assert metric.norm(b) == pytest.approx(np.sqrt(b @ np.linalg.solve(A, b)), rel=1e-12)
