"""The Laplace evidence, against its formula, grids and laplace-torch."""

import numpy as np
import pytest
from tests.bayesian_cases import fit
from tests.reference_data import Case, cases

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import InvalidInputError


@pytest.mark.parametrize("case", cases("laplace_*"), ids=str)
def test_log_evidence_equals_laplace_torch(case: Case) -> None:
    assert np.isclose(fit(case)[0].log_evidence_, case.expected["log_evidence"], atol=1e-7)


def problem(seed: int, N: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N) * 2.0 + 1.0
    return x[:, None], (rng.random(N) < 1.0 / (1.0 + np.exp(-0.3 - 0.8 * x))).astype(int)


def log_likelihood(X: np.ndarray, y: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -(2 * y - 1) * (b[..., None] + w[..., None] * X[:, 0])).sum(axis=-1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("covers", [True, False])
def test_evidence_is_its_formula_and_near_the_integral(seed: int, covers: bool) -> None:
    X, y = problem(seed)
    S = np.array([[4.0, 0.5], [0.5, 1.5]]) if covers else np.array([[1.5]])
    model = LogisticRegression(GaussianPrior(covariance=S)).fit(X, y)
    Q = np.linalg.inv(S)
    w = np.array([model.intercept_[0], model.coef_[0, 0]])
    p = 1.0 / (1.0 + np.exp(-w[0] - w[1] * X[:, 0]))
    Phi = np.column_stack([np.ones(len(X)), X])
    H = (Phi * (p * (1 - p))[:, None]).T @ Phi
    prior = np.zeros((2, 2))
    prior[2 - len(S) :, 2 - len(S) :] = Q
    formula = log_likelihood(X, y, w[0], w[1]) - 0.5 * w @ prior @ w + 0.5 * np.linalg.slogdet(Q / (2 * np.pi))[1]
    formula -= 0.5 * np.linalg.slogdet((H + prior) / (2 * np.pi))[1]
    assert np.isclose(model.log_evidence_, formula, rtol=0, atol=1e-10)
    std = model.posterior_.std
    b, v = (np.linspace(w[i] - 10 * std[i], w[i] + 10 * std[i], 400) for i in range(2))
    B, V = np.meshgrid(b, v, indexing="ij")
    at = np.stack([B, V], axis=-1)
    log_p = log_likelihood(X, y, B, V) - 0.5 * np.einsum("...i,ij,...j->...", at, prior, at)
    log_p += 0.5 * np.linalg.slogdet(Q / (2 * np.pi))[1]
    exact = np.log(np.exp(log_p).sum() * (b[1] - b[0]) * (v[1] - v[0]))
    assert abs(model.log_evidence_ - exact) < 0.05


def test_symmetric_evidence_is_that_over_all_weights() -> None:
    rng = np.random.default_rng(0)
    X, K, scale = rng.normal(size=(80, 2)), 3, 1.3
    y = (X @ rng.normal(size=(2, K)) + rng.gumbel(size=(80, K))).argmax(axis=1)
    model = LogisticRegression(GaussianPrior(covariance=np.full(3, scale**2))).fit(X, y)
    Phi = np.column_stack([np.ones(80), X])
    W = np.column_stack([model.intercept_, model.coef_])
    A = Phi @ W.T
    P = np.exp(A - A.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    H = np.eye(9) / scale**2
    for j in range(K):
        for k in range(K):
            r = P[:, j] * ((j == k) - P[:, k])
            H[3 * j : 3 * j + 3, 3 * k : 3 * k + 3] += (Phi * r[:, None]).T @ Phi
    value = np.log(P[np.arange(80), y]).sum() - 0.5 * (W**2).sum() / scale**2 - 9 * np.log(scale)
    assert np.isclose(model.log_evidence_, value - 0.5 * np.linalg.slogdet(H)[1], atol=1e-9)


def test_units_of_the_columns_do_not_matter_if_the_prior_has_them_too() -> None:
    X, y = problem(7)
    one = LogisticRegression(2.0).fit(X, y).log_evidence_
    assert np.isclose(one, LogisticRegression(2e-6).fit(X * 1e6, y).log_evidence_, atol=1e-8)


def test_no_evidence_without_a_prior() -> None:
    X, y = problem(1)
    with pytest.raises(InvalidInputError, match="units of the columns"):
        LogisticRegression().fit(X, y).log_evidence_  # noqa: B018
