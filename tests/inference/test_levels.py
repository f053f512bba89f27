"""Summaries of tables whose largest factor is eliminated: the errors of the whole covariance, without forming it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from oddsmith import Design, GaussianPrior, LogisticRegression, load
from oddsmith.design import table as design
from oddsmith.errors import InvalidInputError, LevelsWarning, UnavailableError
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.solvers import policy

pytestmark = pytest.mark.filterwarnings(f"ignore::{LevelsWarning.__module__}.{LevelsWarning.__name__}")


def groups() -> tuple[polars.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    group, kind, x = rng.integers(0, 120, 3000), rng.integers(0, 3, 3000), rng.normal(5.0, 2.0, 3000)
    a = 0.4 * (x - 5.0) + 0.5 * rng.normal(size=120)[group] + 0.3 * kind
    names = {"x": x, "kind": [f"k{k}" for k in kind], "group": [f"g{g:03d}" for g in group]}
    return polars.DataFrame(names), rng.random(3000) < 1.0 / (1.0 + np.exp(-a))


@pytest.mark.parametrize("prior", [None, 2.0])
def test_errors_equal_those_of_the_whole_hessian(
    prior: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X, y = groups()
    monkeypatch.setattr(design, "SPLIT_ELEMENTS", np.inf)
    expected = LogisticRegression(prior, design=None, tol=1e-12).fit(X, y)
    whole = expected.summary()
    monkeypatch.setattr(design, "SPLIT_ELEMENTS", 0)
    small = replace(policy.POLICY, largest_hessian=50, eliminated_columns=1, eliminated_levels=1)
    monkeypatch.setattr(policy, "POLICY", small)
    monkeypatch.setattr("oddsmith.models.inference_mixin.POLICY", small)
    model = LogisticRegression(prior, tol=1e-12).fit(X, y)
    found = model.summary()
    assert found.term.tolist() == whole.term.tolist() if hasattr(found.term, "tolist") else found.term == whole.term
    error = "std_error" if prior is None else "posterior_sd"
    np.testing.assert_allclose(found.estimate, whole.estimate, atol=1e-9)
    np.testing.assert_allclose(getattr(found, error), getattr(whole, error), rtol=1e-9)
    model.save(tmp_path / "m.odds")
    np.testing.assert_array_equal(getattr(load(tmp_path / "m.odds").summary(), error), getattr(found, error))
    if prior is None:
        terms = [name for name in whole.term if str(name).startswith("group[")]
        joint = expected.test_linear([{name: 1.0} for name in terms])
        assert f"joint Wald test of {joint.df} levels, χ² = {joint.statistic:.6g}" in str(found)
    else:
        assert isinstance(model.prior_, GaussianPrior) and "joint" not in str(found)


@pytest.mark.parametrize("formula", ["~ x + kind + group", "~ kind + group:x"])
@pytest.mark.parametrize("prior", [None, 1.0])
def test_posterior_predictive_evidence_and_leave_one_out_equal_those_of_the_whole_hessian(
    formula: str, prior: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = groups()
    s = np.random.default_rng(0).integers(1, 3, len(y)).astype(np.float64)
    whole = LogisticRegression(prior, design=Design(formula), tol=1e-12).fit(X, y, sample_weight=s)
    posterior, predictive = whole.posterior_, whole.predictive(X[:50])
    out = whole.leave_one_out(X, y, sample_weight=s)
    monkeypatch.setattr(design, "SPLIT_ELEMENTS", 0)
    small = replace(policy.POLICY, largest_hessian=50, eliminated_columns=1, eliminated_levels=1)
    monkeypatch.setattr(policy, "POLICY", small)
    monkeypatch.setattr("oddsmith.models.inference_mixin.POLICY", small)
    model = LogisticRegression(prior, design=Design(formula), tol=1e-12).fit(X, y, sample_weight=s)
    found = model.posterior_
    assert model._learned is not None and model._learned.hessian is None  # and it stays so until it is asked for
    np.testing.assert_allclose(found.std, posterior.std, rtol=1e-7)
    np.testing.assert_allclose(model.predictive(X[:50]).mean, predictive.mean, atol=1e-9)
    np.testing.assert_allclose(model.predictive(X[:50]).std, predictive.std, atol=1e-9)
    left = model.leave_one_out(X, y, sample_weight=s)
    np.testing.assert_allclose(left.proba, out.proba, atol=1e-7)
    np.testing.assert_allclose(left.leverage, out.leverage, atol=1e-9)
    draws = found.sample(4000, seed=1)
    np.testing.assert_allclose(draws.std(axis=0), posterior.std, rtol=0.06, atol=1e-12)
    np.testing.assert_allclose(
        np.cov(draws[:, 1:3].T), posterior.covariance[1:3, 1:3], atol=0.1 * posterior.std[2] ** 2
    )
    if prior is not None:
        assert model.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-9)
    else:
        with pytest.raises(UnavailableError, match="prior that is a density"):
            model.log_evidence_  # noqa: B018
    with pytest.raises(InvalidInputError, match="not the rows"):
        model.leave_one_out(X, ~y, sample_weight=s)
    np.testing.assert_allclose(found.covariance, posterior.covariance, rtol=1e-6, atol=1e-9)


def test_covariance_of_too_many_levels_is_refused_before_a_matrix_of_its_size_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = polars.DataFrame({"g": (np.arange(20_000) % 5100).astype(str)})
    model = LogisticRegression(1.0).fit(table, np.arange(20_000) % 2)
    monkeypatch.setattr(FittedState, "jacobian", lambda state: pytest.fail("A matrix was made."))
    with pytest.raises(UnavailableError, match="the Hessian of 5,100 weights, and those of up to 5,000"):
        _ = model.posterior_.covariance
