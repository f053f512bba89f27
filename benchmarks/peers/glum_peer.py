"""glum: its objective is the mean of half the deviance + ½ α ‖w‖², so α = 1 / (σ² N)."""

from __future__ import annotations

from typing import Any

from ..problem import Facts, Matrix
from .base import Peer, only_binary

WIDEST_HESSIAN = 5_000


class Glum(Peer):
    """`glum.GeneralizedLinearRegressor` with the binomial family and one solver."""

    module = "glum"
    distribution = "glum"

    def __init__(self, solver: str) -> None:
        self.name = f"glum {solver}"
        self.solver = solver

    def supports(self, facts: Facts) -> bool | str:
        """Two classes; the Newton solver only where its Hessian fits memory."""
        if self.solver == "irls-ls" and facts.classes == 2 and facts.parameters > WIDEST_HESSIAN:
            return f"a full Hessian of {facts.parameters:,} parameters does not fit memory"
        return only_binary(facts)

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with α = 1 / (σ² N)."""
        from glum import GeneralizedLinearRegressor

        alpha = 0.0 if sigma is None else 1.0 / (sigma**2 * X.shape[0])
        model = GeneralizedLinearRegressor(
            family="binomial", alpha=alpha, l1_ratio=0, solver=self.solver, gradient_tol=tol, max_iter=10_000
        )
        model.fit(X, y)
        return model.coef_, model.intercept_


ADAPTERS: tuple[Peer, ...] = (Glum("irls-ls"), Glum("lbfgs"))
