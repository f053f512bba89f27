"""mlpack: L-BFGS in C++ on the sum; its weights are not shown, so they are read off its own predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Facts, Matrix
from .base import SUM_DECADES, Peer, only_binary


class Mlpack(Peer):
    """`mlpack.LogisticRegression` with L-BFGS, λ = 1 / σ²."""

    name = "mlpack lbfgs"
    module = "mlpack"
    distribution = "mlpack"
    ladder = SUM_DECADES
    note = "weights recovered from predicted probabilities at the origin and the unit vectors"

    def supports(self, facts: Facts) -> bool | str:
        """Dense data of two classes."""
        if facts.sparse:
            return "dense data only"
        return only_binary(facts)

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit, then ask for the log odds at D + 1 points (a negligible part of the time)."""
        from mlpack.logistic_regression import LogisticRegression

        model = LogisticRegression(
            lambda_=0.0 if sigma is None else 1.0 / sigma**2, optimizer="lbfgs", max_iterations=100_000, tolerance=tol
        )
        model.fit(training=X, labels=y)
        points = np.vstack([np.zeros(X.shape[1]), np.eye(X.shape[1])])
        p = model.predict_proba(test=points)
        a = np.log(p[:, 1]) - np.log(p[:, 0])
        return a[1:] - a[0], a[0]


ADAPTERS: tuple[Peer, ...] = (Mlpack(),)
