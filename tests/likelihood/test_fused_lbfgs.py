"""L-BFGS that a kernel runs ends where that of the solver ends, with the same trace, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.likelihood import fused_lbfgs
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.solvers import policy
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS

Data = tuple[Any, Any]


def rows(n: int = 800, M: int = 30, K: int = 2) -> Data:
    rng = np.random.default_rng([n, M, K])
    X = rng.normal(size=(n, M)) * np.geomspace(0.1, 100.0, M) + 5.0
    Z = (X - 5.0) / np.geomspace(0.1, 100.0, M)
    return X, (Z[:, :K] + rng.gumbel(size=(n, K))).argmax(axis=1)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the points of searches in a kernel, 0 where it cannot search."""
    found: list[int] = []
    lbfgs_points = FoldObjective.lbfgs_points

    def noted(self: FoldObjective, *how: Any, **more: Any) -> Any:
        points = lbfgs_points(self, *how, **more)
        found.append(0 if points is None else len(points[1].trace))
        return points

    monkeypatch.setattr(FoldObjective, "lbfgs_points", noted)
    return found


FITS: dict[str, Callable[[Any], LogisticRegression]] = {
    "prior": lambda s: LogisticRegression(0.3, solver=s).fit(*rows()),
    "prior with means": lambda s: LogisticRegression(GaussianPrior(2.0, mean=np.full(30, 0.01)), solver=s).fit(*rows()),
    "weights": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(), sample_weight=np.arange(800) % 3),
    "offset": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(), offset=np.linspace(-1.0, 1.0, 800)),
    "no intercept": lambda s: LogisticRegression(1.0, fit_intercept=False, solver=s).fit(*rows()),
    "float32 by columns": lambda s: LogisticRegression(1.0, solver=s).fit(
        np.asfortranarray(rows()[0], dtype=np.float32), rows()[1]
    ),
    "four classes": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(K=4)),
    "four classes with a reference": lambda s: LogisticRegression(1.0, reference=1, solver=s).fit(*rows(K=4)),
    "in slices": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(3000, 90)),
    "three classes in slices": lambda s: LogisticRegression(1.0, solver=s).fit(*rows(3000, 60, 3)),
}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_the_same_without_the_kernel(
    name: str, final: bool, searched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, kernel_hessians=0))
    found, expected = (
        FITS[name](DiagonalLBFGS(watch_divergence=False, final_hessian=final, fused=fused)) for fused in (True, False)
    )
    assert searched[0] > 5
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-9, atol=1e-12)
    for column in ("objective", "log_likelihood", "step_size", "passes"):
        np.testing.assert_allclose(getattr(found.trace_, column), getattr(expected.trace_, column), rtol=1e-9)
    norms = found.trace_.gradient_norm, expected.trace_.gradient_norm
    np.testing.assert_allclose(*norms, rtol=1e-3, atol=1e-7)
    assert found.trace_.stage.tolist() == expected.trace_.stage.tolist()
    assert found.certificate_.passes == expected.certificate_.passes and found.certificate_.converged
    assert found.certificate_.gap == pytest.approx(expected.certificate_.gap, rel=1e-2, abs=1e-16)


@pytest.mark.parametrize("name", FITS)
def test_hessians_of_the_kernel_lead_to_the_same_optimum(name: str, searched: list[int]) -> None:
    found = FITS[name](DiagonalLBFGS(watch_divergence=False, final_hessian=False, keeps_hessian=True))
    expected = FITS[name]("newton")
    assert searched[0] > 3 and found.certificate_.converged and found.certificate_.rigorous
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-7, atol=1e-10)
    errors = found.summary().posterior_sd, expected.summary().posterior_sd
    np.testing.assert_allclose(*errors, rtol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogisticRegression(GaussianPrior(covariance=np.eye(30) + 0.5), solver="lbfgs").fit(*rows()),
        lambda: LogisticRegression(1.0, link="probit", solver="lbfgs").fit(*rows()),
    ],
    ids=["correlated prior", "link"],
)
def test_other_fits_are_searched_point_by_point(make: Callable[[], Any], searched: list[int]) -> None:
    make()
    assert max(searched) == 0


@pytest.mark.parametrize("K", [2, 3])
def test_threads_change_no_bit(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(fused_lbfgs, "available_cores", lambda cores=cores: cores)
        fits.append(LogisticRegression(1.0).fit(*rows(4000, 70, K)))
    assert set(fits[0].trace_.stage) == {"L-BFGS"}
    for other in fits[1:]:
        assert other.coef_.tolist() == fits[0].coef_.tolist()
        assert other.trace_.gradient_norm.tolist() == fits[0].trace_.gradient_norm.tolist()


def test_numbers_that_are_not_finite_are_explained() -> None:
    from oddsmith.errors import InvalidInputError

    X, y = rows(4000, 70)
    X[3, 4] = np.inf
    with pytest.raises((InvalidInputError, ValueError), match="inf"):
        LogisticRegression(1.0).fit(X, y)
