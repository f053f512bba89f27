"""Cyanure: variance-reduced and quasi-Newton solvers in C++; its objective is the mean, λ = 1 / (σ² N)."""

from __future__ import annotations

from typing import Any

from ..problem import Matrix
from .base import Peer


class Cyanure(Peer):
    """`cyanure.estimators.Classifier` with the logistic or the softmax loss and the solver it picks."""

    name = "cyanure"
    module = "cyanure"
    distribution = "cyanure"

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with λ = 1 / (σ² N); its weights come as (D, K)."""
        from cyanure.estimators import Classifier

        model = Classifier(
            loss="logistic" if y.max() == 1 else "multiclass-logistic",
            penalty="none" if sigma is None else "l2",
            lambda_1=0.0 if sigma is None else 1.0 / (sigma**2 * X.shape[0]),
            fit_intercept=True,
            tol=tol,
            max_iter=10_000,
            verbose=False,
        )
        model.fit(X, y)
        return model.coef_.T, model.intercept_


ADAPTERS: tuple[Peer, ...] = (Cyanure(),)
