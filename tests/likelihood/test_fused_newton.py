"""Newton steps that a kernel takes end where those of the solver end, with the same trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.policies import set_policy

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import ConvergenceWarning, SeparationWarning
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.solvers.newton import Newton

Data = tuple[Any, Any]


def rows(n: int = 200, M: int = 3) -> Data:
    rng = np.random.default_rng([n, M])
    X = rng.normal(size=(n, M)) * np.geomspace(0.1, 100.0, M) + 5.0
    return X, ((X - 5.0) @ np.geomspace(10.0, 0.01, M) + rng.logistic(size=n) > 0).astype(int)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps that kernels took, one number for each time that they were asked."""
    found: list[int] = []
    newton_steps = FoldObjective.newton_steps

    def noted(self: FoldObjective, *how: Any) -> Any:
        steps = newton_steps(self, *how)
        found.append(-1 if steps is None else len(steps.trace))
        return steps

    monkeypatch.setattr(FoldObjective, "newton_steps", noted)
    return found


FITS: dict[str, Callable[[Any], LogisticRegression]] = {
    "maximum likelihood": lambda s: LogisticRegression(solver=s).fit(*rows()),
    "prior": lambda s: LogisticRegression(0.3, solver=s).fit(*rows()),
    "prior with means": lambda s: LogisticRegression(GaussianPrior(2.0, mean=[1.0, 0.0, -0.01]), solver=s).fit(*rows()),
    "weights": lambda s: LogisticRegression(solver=s).fit(*rows(), sample_weight=np.arange(200) % 3),
    "offset": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(), offset=np.linspace(-1.0, 1.0, 200)),
    "float32 by columns": lambda s: LogisticRegression(1.0, solver=s).fit(
        np.asfortranarray(rows()[0], dtype=np.float32), rows()[1]
    ),
    "sixty columns": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(300, 60)),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_the_same_without_the_kernel(name: str, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    set_policy(monkeypatch, rough_weights=1000)  # every Hessian in double precision
    found = FITS[name](Newton())
    assert taken[0] >= 2
    taken.clear()
    expected = FITS[name](Newton(fused=False))
    assert max(taken, default=-1) == -1
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-10)
    for column in ("objective", "log_likelihood", "step_size", "passes"):
        np.testing.assert_allclose(getattr(found.trace_, column), getattr(expected.trace_, column), rtol=1e-9)
    norms = found.trace_.gradient_norm, expected.trace_.gradient_norm
    np.testing.assert_allclose(*norms, rtol=1e-3, atol=1e-8)
    assert found.certificate_.passes == expected.certificate_.passes and found.certificate_.converged


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("M", [9, 30, 60])
@pytest.mark.parametrize("alike", [False, True])
def test_a_fit_ends_the_same_with_hessians_in_single_precision(M: int, scale: float, alike: bool) -> None:
    """Columns may have any units, and nearly depend on each other."""
    X, y = rows(300, M)
    X[:, 1] = X[:, 0] + 1e-5 * X[:, 1] if alike else 1e30 * X[:, 1]
    found, expected = (LogisticRegression(scale, solver=s).fit(X, y) for s in (Newton(), Newton(fused=False)))
    deviations = X.std(axis=0)
    np.testing.assert_allclose(found.coef_ * deviations, expected.coef_ * deviations, rtol=1e-9, atol=1e-9)
    assert found.certificate_.converged and found.certificate_.gap < 1e-12
    np.testing.assert_allclose(found._learned.hessian, expected._learned.hessian, rtol=1e-7, atol=1e-9)
    least = min(len(found.trace_), len(expected.trace_))
    np.testing.assert_allclose(found.trace_.objective[:least], expected.trace_.objective[:least], rtol=1e-4)
    assert abs(len(found.trace_) - len(expected.trace_)) <= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogisticRegression(link="probit").fit(*rows()),
        lambda: LogisticRegression(fit_intercept=False).fit(*rows()),
        lambda: LogisticRegression(GaussianPrior(covariance=np.eye(3) + 0.5)).fit(*rows()),
        lambda: LogisticRegression(1.0).fit(rows()[0], np.arange(200) % 3),
    ],
    ids=["link", "no intercept", "correlated prior", "three classes"],
)
def test_other_fits_take_their_steps_one_by_one(make: Callable[[], Any], taken: list[int]) -> None:
    assert make().certificate_.converged and set(taken) == {-1}


def test_a_subsample_counts_its_steps_in_units_of_all_rows(monkeypatch: pytest.MonkeyPatch, taken: list[int]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4))
    y = (X[:, 0] + rng.logistic(size=6000) > 0).astype(int)
    set_policy(monkeypatch, small_rows=(5000, 5000))
    found = LogisticRegression(1.0).fit(X, y)
    assert taken[0] > 1 and "on 750 rows" in found.trace_.stage[0]
    assert found.trace_.objective[0] == pytest.approx(found.trace_.objective[-1], rel=0.05)


def test_separated_classes_are_found_all_the_same(taken: list[int]) -> None:
    X, _ = rows()
    with pytest.warns(SeparationWarning):
        LogisticRegression().fit(X, X[:, 0] > 5.0)
    assert taken[0] >= 4


def test_no_more_steps_are_taken_than_asked_for() -> None:
    with pytest.warns(ConvergenceWarning):
        found = LogisticRegression(max_iter=2).fit(*rows())
    assert len(found.trace_) == 3 and not found.certificate_.converged
