"""skglm: compiled proximal Newton; its objective is the mean, α = 1 / (σ² N)."""

from __future__ import annotations

from typing import Any

from ..problem import Facts, Matrix
from .base import Peer, binary_with_prior


class Skglm(Peer):
    """`skglm.GeneralizedLinearEstimator` with the logistic loss and an elastic net that is all ridge."""

    name = "skglm prox-newton"
    module = "skglm"
    distribution = "skglm"

    def supports(self, facts: Facts) -> bool | str:
        """Two classes with a prior."""
        return binary_with_prior(facts)

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with α = 1 / (σ² N) and no ℓ₁ part."""
        from skglm import GeneralizedLinearEstimator
        from skglm.datafits import Logistic
        from skglm.penalties import L1_plus_L2
        from skglm.solvers import ProxNewton

        assert sigma is not None
        model = GeneralizedLinearEstimator(
            Logistic(),
            L1_plus_L2(1.0 / (sigma**2 * X.shape[0]), l1_ratio=0.0),
            ProxNewton(tol=tol, max_iter=1_000, fit_intercept=True),
        )
        model.fit(X, y)
        return model.coef_, model.intercept_


ADAPTERS: tuple[Peer, ...] = (Skglm(),)
