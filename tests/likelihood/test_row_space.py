"""Fits with a prior and more columns than rows are found over combinations of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as ScikitLearn

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import InvalidInputError
from oddsmith.solvers import TruncatedNewton

Data = tuple[Any, Any]


def rows(n: int = 60, M: int = 500, K: int = 2) -> Data:
    rng = np.random.default_rng([n, M, K])
    Z = rng.normal(size=(n, M))
    A = 0.3 * Z[:, :20] @ rng.normal(size=(20, K))
    X = Z * np.geomspace(0.1, 10.0, M) + rng.normal(size=M)
    return X, (A + rng.gumbel(size=A.shape)).argmax(axis=1)


def in_row_space(model: LogisticRegression) -> bool:
    return model.trace_.stage[0] == "Newton in the row space"


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"sample_weight": np.arange(60) % 3},
        {"offset": True},
        {"float32": True},
        {"columns": True},
        {"constant": True},
        {"repeated": True},
    ],
    ids=lambda how: next(iter(how), "plain"),
)
def test_the_optimum_is_that_of_all_columns(K: int, how: dict[str, Any]) -> None:
    X, y = rows(K=K)
    given = {k: v for k, v in how.items() if k == "sample_weight"}
    if "offset" in how:
        given["offset"] = np.linspace(-1.0, 1.0, 60) if K == 2 else np.outer(np.linspace(-1.0, 1.0, 60), np.arange(K))
    X = X.astype(np.float32) if "float32" in how else np.asfortranarray(X) if "columns" in how else X
    if "constant" in how:
        X[:, 7] = 3.0
    if "repeated" in how:
        X[30:] = X[:30]  # rows that depend on each other
    expected = LogisticRegression(0.5, solver=TruncatedNewton(watch_divergence=False), tol=1e-13).fit(X, y, **given)
    for solver in ("row-space", "auto"):
        found = LogisticRegression(0.5, solver=solver).fit(X, y, **given)
        assert in_row_space(found) == (solver != "auto")
        assert found.certificate_.converged and found.certificate_.rigorous
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9 * np.abs(expected.coef_).max())
        np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-8)
        assert found.trace_.objective[-1] <= expected.trace_.objective[-1] * (1.0 + 1e-12)
        if solver != "auto":
            assert found.trace_.objective[0] == pytest.approx(found.trace_.objective[-1], rel=1e-10)


def test_it_agrees_with_scikit_learn() -> None:
    X, y = rows(100, 2000)
    found = LogisticRegression(1.0, solver="row-space").fit(X, y)
    expected = ScikitLearn(C=1.0, solver="newton-cg", tol=1e-10, max_iter=10_000).fit(X, y)
    assert in_row_space(found) and found.certificate_.gap < 1e-12
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6 * np.abs(expected.coef_).max())


def test_columns_may_have_precisions_of_their_own() -> None:
    X, y = rows()
    prior = GaussianPrior(covariance=np.geomspace(1e-2, 1e2, 500))
    found = LogisticRegression(prior, solver="row-space").fit(X, y)
    expected = LogisticRegression(prior, solver="truncated-newton", tol=1e-12).fit(X, y)
    assert in_row_space(found) and found.certificate_.converged
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "prior",
    [GaussianPrior(1.0, mean=np.linspace(0.0, 0.01, 500)), GaussianPrior(covariance=np.eye(500) + 0.1)],
    ids=["means", "correlated"],
)
def test_other_priors_are_solved_without_it(prior: GaussianPrior) -> None:
    found = LogisticRegression(prior, solver="row-space").fit(*rows())
    assert not in_row_space(found) and found.certificate_.converged


def test_without_an_intercept() -> None:
    X, y = rows()
    found = LogisticRegression(0.5, fit_intercept=False, solver="row-space").fit(X, y)
    expected = LogisticRegression(0.5, fit_intercept=False, solver="truncated-newton", tol=1e-12).fit(X, y)
    assert in_row_space(found) and found.intercept_.tolist() == [0.0]
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-8)


def test_values_that_are_not_finite_are_named() -> None:
    X, y = rows(200, 8000)
    X[3, 77] = np.nan
    with pytest.raises((InvalidInputError, ValueError), match=r"77|NaN|missing"):
        LogisticRegression(1.0).fit(X, y)


def test_the_plan_begins_with_gradients_and_says_what_follows() -> None:
    model = LogisticRegression(1.0).fit(*rows())
    assert str(model.plan_).startswith(
        "L-BFGS on 60 rows, since gradients of 501 weights cost little; if they stall, Newton in the row space follows"
    )


def test_rows_that_gradients_alone_do_not_fit_are_combined() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 10)) @ rng.normal(size=(10, 600)) + 0.03 * rng.normal(size=(150, 600))
    y = X[:, 0] + rng.logistic(size=150) > 0
    found = LogisticRegression(3.0).fit(X, y)
    assert list(dict.fromkeys(found.trace_.stage)) == ["L-BFGS", "Newton in the row space", "all columns"]
    assert found.certificate_.converged and found.certificate_.rigorous
    expected = LogisticRegression(3.0, solver="newton").fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
