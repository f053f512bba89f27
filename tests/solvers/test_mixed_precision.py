"""Searches on rows of half precision end at the optimum of the exact rows, wherever they lead on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.likelihoods import at_the_optimum, problem
from tests.policies import set_policy

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.engines import MemorySource
from oddsmith.kernels import native
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner
from oddsmith.solvers.subsample_certificate import SubsampleCertificate


@pytest.fixture(autouse=True)
def _small_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search on rows of half precision where a kernel's L-BFGS on exact ones would be as fast."""
    set_policy(monkeypatch, kernel_gradient_elements=0.0)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many searches on coarse rows were begun."""
    begun: list[int] = []
    real = FoldObjective.low_precision

    def low_precision(self: FoldObjective, x: Any) -> Any:
        begun.append(self.n_rows)
        return real(self, x)

    monkeypatch.setattr(FoldObjective, "low_precision", low_precision)
    return begun


def table(N: int, D: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    A = np.column_stack([np.zeros(N), X @ rng.normal(size=(D, K - 1)) / np.sqrt(D)])
    y = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    return X, y


@pytest.mark.parametrize("D, K", [(200, 2), (20, 12), (60, 5)])
def test_columns_that_do_not_depend_on_each_other(searches: list[int], D: int, K: int) -> None:
    fit, _ = at_the_optimum(*table(max(20_000, 1_600_000 // D), D, K))
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


@pytest.mark.parametrize("level", native.available())
def test_half_precision_is_used_where_the_processor_has_it(level: str, searches: list[int]) -> None:
    with native.using(level) as kernels:
        at_the_optimum(*table(20_000, 200, 2))
    assert bool(searches) == (kernels is not None and kernels.has_half)


@pytest.mark.parametrize("D, K", [(160, 2), (80, 3)])
@pytest.mark.parametrize("low, high", [(-8, 8), (-60, -60), (42, 42), (60, 60)])
def test_priors_that_weigh_columns_unlike(searches: list[int], D: int, K: int, low: int, high: int) -> None:
    """In scaled columns a prior is as large as a column is small."""
    X, y = table(20_000, D, K)
    scale = np.ones(D)
    scale[: D // 2] = np.logspace(low, high, D // 2)
    fit, _ = at_the_optimum(X * scale, y)
    assert searches
    assert fit.certificate_.passes <= 20


@pytest.mark.parametrize("sigma", [10.0, 100.0])
def test_classes_that_are_all_but_separated(sigma: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 80))
    A = np.column_stack([np.zeros(20_000), X @ rng.normal(size=(80, 2)) * 1e4 / np.sqrt(80)])
    at_the_optimum(X, (A + rng.gumbel(size=A.shape)).argmax(axis=1), sigma)


def test_same_bits_on_one_thread_or_two(searches: list[int]) -> None:
    X, y = table(20_000, 200, 2)
    one, two = (LogisticRegression(1.0, threads=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert len(searches) == 2


@pytest.fixture(scope="module")
def of_a_sample() -> Callable[[float], tuple[Any, Any]]:
    """All rows and a sample of them, for a prior of some width; columns far from zero, of two scales."""
    X, y = table(20_000, 200, 2)
    X[:, :100] = 50.0 + 10.0 * X[:, :100]
    source = MemorySource(X, y.astype(np.int32), 2)

    def with_prior(sigma: float) -> tuple[Any, Any]:
        weight = np.bincount(y).astype(float)
        prior = GaussianPrior(sigma)
        whole = make_objective(problem(source, prior, weight))[0]
        whole.evaluate(np.zeros(whole.size))  # finds the longest row
        return whole, whole.subsample(900, seed=0)

    return with_prior


def test_rows_have_the_curvature_of_their_hessian(of_a_sample: Any) -> None:
    _, sample = of_a_sample(0.3)
    v = np.random.default_rng(3).normal(size=sample.size)
    e = sample.evaluate(0.1 * v, order=2)
    bound = sample.hessian_lower_bound(e)
    np.testing.assert_allclose(sample.implicit_lower_bound(e).hessian_product(e.w, v), bound @ v, rtol=1e-11)


@pytest.mark.parametrize("sigma", [0.03, 1.0, 30.0, 1e4])
def test_products_prove_what_the_hessian_proves(of_a_sample: Any, sigma: float) -> None:
    whole, sample = of_a_sample(sigma)
    optimum = np.zeros(whole.size)
    for _ in range(8):
        e = whole.evaluate(optimum, order=2)
        optimum = optimum - np.linalg.solve(e.hessian, e.gradient)
    best, d = whole.evaluate(optimum), np.random.default_rng(4).normal(size=whole.size)
    verdicts = set()

    def certificate(guess: ObjectiveValue, d: np.ndarray) -> SubsampleCertificate:
        diagonal = KroneckerSumPreconditioner(np.eye(1), d)
        return SubsampleCertificate(objective=whole, sample=sample, guess=guess, preconditioner=diagonal, tol=1e-8)

    for distance in np.logspace(-9, -1, 33):
        e = whole.evaluate(optimum + distance * d)
        formed = certificate(sample.evaluate(e.w, order=2), np.zeros(201)).at(e)
        products = certificate(best, np.ones(201))._by_products(e)
        if products is not None:
            verdicts.add(products.converged)
            assert products.rigorous and products.gap >= e.value - best.value - 1e-11 * best.value
            assert formed.converged or not products.converged or products.gap >= 0.99 * formed.gap
            assert products.converged or formed.gap > 0.99e-8 * e.value
    assert verdicts == ({True, False} if sigma < 1e3 else {False})  # so wide a prior proves nothing


def test_no_hessian_of_many_columns(searches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[int] = []
    real = FoldObjective.evaluate

    def evaluate(self: FoldObjective, x: Any, order: int = 1, **how: Any) -> Any:
        orders.append(order)
        return real(self, x, order, **how)

    monkeypatch.setattr(FoldObjective, "evaluate", evaluate)
    for N, D in [(12_000, 300), (40_000, 200)]:
        fit = LogisticRegression(1.0).fit(*table(N, D, 2))
        assert fit.certificate_.converged
    assert len(searches) == 2 and set(orders) == {1}


def test_columnwise_metric_is_a_kronecker_sum() -> None:
    B, d, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.0, 3.0, 1e6]), np.arange(1.0, 7.0)
    A = np.kron(B, np.eye(3)) + np.kron(np.eye(2), np.diag(d))
    metric = KroneckerSumPreconditioner(B, d)
    np.testing.assert_allclose(metric.solve(b), np.linalg.solve(A, b), rtol=1e-12)
    assert metric.norm(b) == pytest.approx(np.sqrt(b @ np.linalg.solve(A, b)), rel=1e-12)
