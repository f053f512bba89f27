"""Large data: the fit that begins on a sample ends where Newton's method on all rows ends, and says so honestly."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.likelihoods import problem

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.engines import MemorySource
from oddsmith.errors import CollinearityWarning, InvalidInputError, SeparationWarning
from oddsmith.likelihood.fit import make_objective
from oddsmith.solvers.policy import POLICY

N, D = 160_000, 20


@pytest.fixture(scope="module")
def rows() -> Any:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, D)) * np.geomspace(0.1, 10.0, D) + rng.normal(size=D)
    X[:, 1] += 0.1 * X[:, 5]
    w = rng.normal(size=D) / np.geomspace(0.1, 10.0, D) / 3.0
    return X, X @ w, rng


@pytest.fixture(scope="module")
def labels(rows: Any) -> Any:
    _, a, rng = rows
    return (rng.random(N) < 1.0 / (1.0 + np.exp(-(a - a.mean() - 0.5)))).astype(int)


def objective(model: Any, X: Any, y: Any, sigma: float | None, s: Any = None) -> float:
    log_proba = model.predict_log_proba(X)
    loss = -log_proba[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    penalty = 0.0 if sigma is None else 0.5 * (model.coef_**2).sum() / sigma**2
    return float((loss if s is None else loss * s).sum() + penalty)


def same(X: Any, y: Any, **how: Any) -> LogisticRegression:
    """Fit by the sampled path and by Newton on all rows; hold one against the other."""
    assert X.shape[0] * X.shape[1] >= POLICY.large_elements
    auto = LogisticRegression(**how).fit(X, y)
    exact = LogisticRegression(**how, solver="newton").fit(X, y)
    assert auto.certificate_.converged and auto.certificate_.rigorous
    sigma = how.get("prior")
    gap = objective(auto, X, y, sigma) - objective(exact, X, y, sigma)
    noise = 1e-13 * N
    assert gap <= auto.certificate_.gap + noise
    assert gap <= 1e-8 * objective(exact, X, y, sigma)
    if sigma is None:
        np.testing.assert_allclose(auto.coef_, exact.coef_, rtol=1e-8)
        np.testing.assert_allclose(auto.log_likelihood_, exact.log_likelihood_, rtol=1e-12)
    return auto


@pytest.mark.parametrize("prior", [None, 1.0])
@pytest.mark.parametrize("layout", ["C", "F", "float32"])
def test_equals_newton_on_all_rows(rows: Any, labels: Any, prior: Any, layout: str) -> None:
    X = rows[0].astype(np.float32) if layout == "float32" else np.asarray(rows[0], order=layout)
    same(X, labels, prior=prior)


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("size", [0.001, 0.1, 1.0])
def test_what_a_step_leaves_of_the_curvature(K: int, size: float) -> None:
    """H(x + d) ⪰ exp(−δ) H(x), where d changes a row's activations by δ against each other, at most."""
    rng = np.random.default_rng(K)
    source = MemorySource(rng.normal(size=(400, 5)) + 10.0, rng.integers(0, K, 400).astype(np.int32), K)
    f, _, _ = make_objective(problem(source, None, np.ones(K) * 400 / K, reference=0))
    x, d = rng.normal(size=(2, f.size)) * [[1.0], [size]]
    bound = 40.0 * size
    widest = f.activation_change(d, bound)
    A = np.column_stack([np.zeros(400), f.source.X @ f.raw(d)[0].T + f.raw(d)[1] - f.raw(d)[0] @ f.center])
    assert widest == bound if bound <= POLICY.narrow_change else 0.0 < widest - np.ptp(A, axis=1).max() < 1e-4
    there, here = f.evaluate(x + d, order=2).hessian, f.evaluate(x, order=2).hessian
    assert np.linalg.eigvalsh(there - np.exp(-widest) * here)[0] >= -1e-9


def test_rows_sorted_by_label_do_not_hurt(rows: Any, labels: Any) -> None:
    order = np.argsort(labels, kind="stable")
    fit = same(rows[0][order], labels[order], prior=1.0)
    assert fit.certificate_.passes <= 6


def test_duplicated_rows_do_not_hurt(rows: Any, labels: Any) -> None:
    fit = same(np.repeat(rows[0][: N // 8], 8, axis=0), np.repeat(labels[: N // 8], 8), prior=1.0)
    assert fit.certificate_.passes <= 8


@pytest.mark.parametrize("prior", [None, 1.0])
def test_a_rare_column_is_not_lost(rows: Any, labels: Any, prior: Any) -> None:
    X = np.column_stack([rows[0], np.zeros(N)])
    X[[3, 77_000, 100_001, N - 2], -1] = 1.0
    y = labels.copy()
    y[[3, 77_000, 100_001, N - 2]] = [0, 1, 1, 1]
    fit = same(X, y, prior=prior)
    assert fit.coef_[0, -1] > 0.1


def test_softmax(rows: Any) -> None:
    X, a, rng = rows
    A = np.column_stack([a, -a, 0.3 * X[:, 3] / X[:, 3].std(), 0.0 * a])
    y = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    for prior in (None, 1.0):
        same(X, y, prior=prior)


def test_weights_and_zero_weights(rows: Any, labels: Any) -> None:
    s = rows[2].integers(0, 3, N).astype(float)
    auto = LogisticRegression(prior=1.0).fit(rows[0], labels, sample_weight=s)
    times = s.astype(int)
    repeated = LogisticRegression(prior=1.0).fit(np.repeat(rows[0], times, axis=0), np.repeat(labels, times))
    found = objective(auto, rows[0], labels, 1.0, s)
    assert found == pytest.approx(objective(repeated, rows[0], labels, 1.0, s), rel=2e-8)


def test_sparse_rows(rows: Any, labels: Any) -> None:
    rng = np.random.default_rng(1)
    X = sparse.csr_array(sparse.random(100_000, 60, density=0.15, format="csr", random_state=rng))
    y = (rng.random(100_000) < 1.0 / (1.0 + np.exp(-3.0 * X.sum(axis=1) + 12.0))).astype(int)
    dense = LogisticRegression(prior=1.0, solver="newton").fit(X.toarray(), y)
    fit = LogisticRegression(prior=1.0).fit(X, y)
    assert fit.certificate_.converged
    found, best = objective(fit, X, y, 1.0), objective(dense, X, y, 1.0)
    assert found - best <= 1e-8 * best


def test_wide_sparse_rows_are_certified_without_a_hessian() -> None:
    rng = np.random.default_rng(2)
    X = sparse.csr_array(sparse.random(20_000, 5_000, density=0.01, format="csr", random_state=rng))
    w = rng.normal(size=5_000)
    y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-3.0 * (X @ w)))).astype(int)
    fit = LogisticRegression(prior=2.0).fit(X, y)
    strict = LogisticRegression(prior=2.0, solver="truncated-newton", tol=1e-11).fit(X, y)
    assert fit.certificate_.converged and fit.certificate_.rigorous
    gap = objective(fit, X, y, 2.0) - objective(strict, X, y, 2.0)
    assert gap <= fit.certificate_.gap + 1e-9
    assert gap <= 1e-8 * objective(strict, X, y, 2.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_value_far_down_is_named(rows: Any, labels: Any, bad: float) -> None:
    X = rows[0].copy()
    X[N - 3, 4] = bad
    model = LogisticRegression(prior=1.0)
    with pytest.raises(InvalidInputError, match=f"column 4 .* the first in row {N - 3}"):
        model.fit(X, labels)
    assert not hasattr(model, "classes_")


def test_dependent_columns_are_named(rows: Any, labels: Any) -> None:
    X = np.column_stack([rows[0], rows[0][:, 2] + rows[0][:, 3]])
    with pytest.warns(CollinearityWarning, match="'x20'"):
        fit = LogisticRegression().fit(X, labels)
    assert fit.aliased_ == ["x20"]
    np.testing.assert_allclose(fit.coef_[:, :-1], LogisticRegression().fit(rows[0], labels).coef_, rtol=1e-7)


def test_separation_is_said(rows: Any) -> None:
    X, a, _ = rows
    with pytest.warns(SeparationWarning):
        fit = LogisticRegression().fit(X, (a > a.mean()).astype(int))
    assert not fit.certificate_.optimum_exists and np.isfinite(fit.coef_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LogisticRegression(prior=1.0).fit(X, (a > a.mean()).astype(int)).certificate_.converged


def test_same_bits_on_one_thread_or_two(rows: Any, labels: Any) -> None:
    fits = [LogisticRegression(prior=1.0, threads=k).fit(rows[0], labels) for k in (1, 2, 2)]
    assert all(np.array_equal(fits[0].coef_, fit.coef_) for fit in fits[1:])


def test_general_prior_on_large_data(rows: Any, labels: Any) -> None:
    covariance = np.diag(np.linspace(0.5, 2.0, D + 1))
    prior = GaussianPrior(mean=np.linspace(-0.1, 0.1, D + 1), covariance=covariance)
    auto = LogisticRegression(prior).fit(rows[0], labels)
    exact = LogisticRegression(prior, solver="newton").fit(rows[0], labels)
    assert auto.certificate_.converged
    np.testing.assert_allclose(auto.coef_, exact.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("n", "d", "K"), [(16_000, 160, 2), (25_000, 170, 2), (60_000, 160, 2), (50_000, 20, 30)])
def test_many_weights_for_the_rows_there_are(n: int, d: int, K: int) -> None:
    # Whether one sample is enough or a larger one follows: the fit ends where truncated Newton does.
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) / np.sqrt(d) + rng.gumbel(size=(n, K))).argmax(axis=1)
    model = LogisticRegression(1.0).fit(X, y)
    other = LogisticRegression(1.0, solver="truncated-newton").fit(X, y)
    assert model.certificate_.converged
    found, best = objective(model, X, y, 1.0), objective(other, X, y, 1.0)
    assert found <= best * (1.0 + 1e-8)


@pytest.mark.parametrize("prior", [None, 1.0])
def test_sparse_rows_remember_nothing_that_was_not_evaluated(prior: Any) -> None:
    # What a row remembers of its curvature is made by an evaluation, not by one before there was room for it.
    rng = np.random.default_rng(3)
    X = sparse.csr_array(sparse.random(60_000, 60, density=0.5, format="csr", random_state=rng))
    a = 2.0 * (X @ rng.normal(size=60))
    y, later = (rng.random((2, 60_000)) < 1.0 / (1.0 + np.exp(-a))).astype(int)
    model = LogisticRegression(prior=prior, solver="truncated-newton", warm_start=True).fit(X, y)
    again = model.fit(X, later)
    cold = LogisticRegression(prior=prior, solver="newton").fit(X, later)
    assert again.certificate_.converged
    np.testing.assert_allclose(again.coef_, cold.coef_, rtol=1e-6, atol=1e-8)


def test_weights_next_to_nothing_are_no_reason_to_fail() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    model = LogisticRegression(prior=1.0, solver="truncated-newton").fit(X, y, sample_weight=np.full(200, 1e-170))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-100)


@given(seed=st.integers(0, 1000), scale=st.floats(-3.0, 3.0), shift=st.floats(0.0, 5.0))
def test_the_simple_bound_of_curvature_is_below_the_smallest_eigenvalue(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 5)) + shift, rng.integers(0, 2, 60)
    source = MemorySource(X, y.astype(np.int32), K=2)
    objective = make_objective(problem(source, GaussianPrior(10.0**scale), np.bincount(y).astype(float)))[0]
    objective = replace(objective, center=rng.normal(size=5))  # columns that are not centred pull at the intercept
    H = objective.evaluate(rng.normal(size=6), order=2).hessian
    least = float(np.linalg.eigvalsh(H)[0])
    assert 0.0 < objective.eigenvalue_bound(H) <= least * (1.0 + 1e-9)
