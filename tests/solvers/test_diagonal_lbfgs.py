"""Many weights: gradients first, Hessians as few as will do, the same optimum and an honest certificate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oddsmith import LogisticRegression
from oddsmith.errors import CollinearityWarning, ConvergenceWarning, SeparationWarning
from oddsmith.likelihood import fit as likelihood
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS
from oddsmith.solvers.newton import Newton


def rows(kind: str, n: int = 4000, M: int = 60, seed: int = 0) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, M))
    if kind == "correlated":
        X = rng.normal(size=(n, 6)) @ rng.normal(size=(6, M)) + 0.2 * X
    elif kind == "scales":
        X = X * 10.0 ** rng.uniform(-4, 4, M) + 1e3 * rng.normal(size=M)
    elif kind == "rare":
        X = (X > 2.0).astype(float)
    elif kind == "heavy":
        X = rng.standard_t(2.0, size=(n, M))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    a = 3.0 * Z @ rng.normal(size=M) / np.sqrt(M)
    return (sparse.csr_array(X) if kind == "rare" else X), (a + rng.logistic(size=n) > 0).astype(int)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note what is asked of the objective."""
    found: list[int] = []
    evaluate = FoldObjective.evaluate

    def noted(self: Any, x: Any, order: int = 1, **options: Any) -> Any:
        found.append(order)
        return evaluate(self, x, order, **options)

    monkeypatch.setattr(FoldObjective, "evaluate", noted)
    return found


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which solvers are chosen."""
    found: list[str] = []
    make_plan = likelihood.make_plan

    def noted(*about: Any) -> Any:
        found.append(type((chosen := make_plan(*about)).solver).__name__)
        return chosen

    monkeypatch.setattr(likelihood, "make_plan", noted)
    return found


@pytest.mark.parametrize("prior", [None, 1.0])
@pytest.mark.parametrize("kind", ["plain", "correlated", "scales", "rare", "heavy"])
def test_it_ends_where_newton_ends_with_fewer_hessians(kind: str, prior: float | None, orders: list[int]) -> None:
    X, y = rows(kind)
    exact = LogisticRegression(prior, solver=Newton(watch_divergence=prior is None, fused=False)).fit(X, y)
    hessians, orders[:] = orders.count(2), []
    eased = LogisticRegression(prior, solver=DiagonalLBFGS(watch_divergence=prior is None)).fit(X, y)
    assert orders.count(2) < hessians and orders.count(2) <= {"plain": 3, "correlated": 4}.get(kind, hessians)
    assert eased.certificate_.converged and eased.certificate_.rigorous
    np.testing.assert_allclose(eased.coef_, exact.coef_, rtol=1e-8, atol=1e-9 * np.abs(exact.coef_).max())
    np.testing.assert_allclose(eased.log_likelihood_, exact.log_likelihood_, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), K=st.integers(2, 4), weighted=st.booleans(), shifted=st.booleans())
def test_it_agrees_with_newton(seed: int, K: int, weighted: bool, shifted: bool) -> None:
    rng = np.random.default_rng(seed)
    n, M = 400, 12
    X = rng.normal(size=(n, M)) @ rng.normal(size=(M, M))
    y = (X[:, :K] / 3.0 + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = range(K)
    how: dict[str, Any] = {"sample_weight": rng.integers(0, 3, n) + 0.5 * (np.arange(n) < K)} if weighted else {}
    if shifted:
        how["offset"] = rng.normal(size=n if K == 2 else (n, K))
    exact, eased = (
        LogisticRegression(2.0, solver=solver).fit(X, y, **how)
        for solver in ("newton", DiagonalLBFGS(watch_divergence=False))
    )
    assert eased.certificate_.converged
    np.testing.assert_allclose(eased.coef_, exact.coef_, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("prior", [None, 1.0])
def test_a_table_of_many_columns_takes_it(prior: float | None, chosen: list[str]) -> None:
    X, y = rows("plain", 4000, 60)
    model = LogisticRegression(prior).fit(X, y)
    assert chosen == ["DiagonalLBFGS"] and model.certificate_.converged
    exact = LogisticRegression(prior, solver=Newton(watch_divergence=prior is None, fused=False)).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_other_links_do_not(link: str, chosen: list[str]) -> None:
    X, y = rows("plain", 4000, 60)
    LogisticRegression(1.0, link=link).fit(X, y)
    assert "DiagonalLBFGS" not in chosen


def test_rows_too_few_to_have_a_maximum_do_not(chosen: list[str]) -> None:
    X, y = rows("plain", 100, 400)
    with pytest.warns(SeparationWarning), warnings.catch_warnings():
        warnings.simplefilter("ignore", CollinearityWarning)
        LogisticRegression().fit(X, y)
    assert "DiagonalLBFGS" not in chosen


@pytest.mark.parametrize(("n", "classes"), [(3000, 2), (5000, 2), (3000, 3)])
def test_wide_tables_are_as_near_the_optimum_as_they_say(n: int, classes: int, chosen: list[str]) -> None:
    """More than 1.5 million numbers: compiled kernels."""
    X, y = rows("plain", n, 510)
    y = y + (X[:, 0] > 1.0) if classes == 3 else y
    model = LogisticRegression(1.0, reference=None).fit(X, y)
    exact = LogisticRegression(1.0, solver="newton").fit(X, y)
    best = exact.trace_.objective[-1]
    value = -model.log_likelihood_ + 0.5 * (model.coef_**2).sum()
    assert chosen[0] in ("DiagonalLBFGS", "SubsampledQuasiNewton") and model.certificate_.converged
    assert value - best <= model.certificate_.gap + 1e-14 * best <= 1.001e-8 * best
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0, atol=1e-4)


def test_divergence_is_watched_if_asked_for() -> None:
    X, y = rows("plain", 4000, 60)
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched, not_watched = (
            LogisticRegression(solver=DiagonalLBFGS(watch_divergence=watch), max_iter=400).fit(X, y).certificate_.passes
            for watch in (True, False)
        )
    assert watched < not_watched


def test_separated_classes_are_found(chosen: list[str]) -> None:
    X, y = rows("plain", 4000, 60)
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(SeparationWarning):
        model = LogisticRegression().fit(X, y)
    assert chosen[0] == "DiagonalLBFGS" and not model.certificate_.converged


def test_columns_that_depend_on_others_get_no_weight(chosen: list[str]) -> None:
    X, y = rows("plain", 4000, 60)
    X = np.column_stack([X, X[:, 3] + X[:, 7]])
    with pytest.warns(CollinearityWarning):
        model = LogisticRegression().fit(X, y)
    assert chosen == ["DiagonalLBFGS"] and model.coef_[0, -1] == 0.0 and model.certificate_.converged


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_iterations_that_are_too_few_are_admitted(max_iter: int) -> None:
    X, y = rows("correlated", 4000, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(1.0, max_iter=max_iter).fit(X, y)
    assert not model.certificate_.converged and len(model.trace_.records) <= 2 * max_iter + 2


def test_its_trace_goes_down() -> None:
    X, y = rows("correlated", 4000, 60)
    trace = LogisticRegression(1.0).fit(X, y).trace_
    values = np.asarray(trace.objective)
    assert (np.diff(values) <= 1e-12 * values[0]).all() and list(trace.iteration) == list(range(len(values)))


def test_many_weights_on_few_rows_with_rare_columns_take_fewer_hessians_than_newton(orders: list[int]) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8000, 200))
    y = rng.random(8000) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1)))
    X[:, :100] = X[:, :100] > 2.9
    newton = LogisticRegression(10.0, solver="newton").fit(X, y)
    hessians, orders[:] = orders.count(2), []
    found = LogisticRegression(10.0).fit(X, y)
    assert orders.count(2) < hessians / 2 and len(orders) < 4 * hessians
    assert found.certificate_.converged and found.certificate_.gap <= 1e-8 * newton.trace_.objective[-1]
    np.testing.assert_allclose(found.coef_, newton.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("prior", [0.3, 2.0])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_gradients_alone_end_at_the_weights_of_newton(storage, prior):
    rng = np.random.default_rng(360)
    levels = np.eye(60)[np.minimum(rng.pareto(1.0, 800) * 3.0, 59.0).astype(int)]
    X = np.column_stack([levels, rng.normal(size=(800, 40)) * 10.0 ** rng.integers(-1, 2, 40)])
    y = np.argmax(X[:, :3] + X[:, 60:63] + rng.gumbel(size=(800, 3)), axis=1)
    expected = LogisticRegression(prior=prior, solver="newton", tol=1e-14).fit(X, y).coef_
    model = LogisticRegression(prior=prior).fit(storage(X), y)
    assert model.certificate_.method == "L-BFGS"
    np.testing.assert_allclose(model.coef_, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())
