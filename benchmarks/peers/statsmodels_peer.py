"""statsmodels: maximum likelihood only, so it takes part where there is no prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Facts, Matrix
from .base import Peer, only_binary


class Statsmodels(Peer):
    """`Logit` (Newton), `GLM` (IRLS) or `MNLogit` (Newton)."""

    module = "statsmodels"
    distribution = "statsmodels"

    def __init__(self, model: str) -> None:
        self.name = f"statsmodels {model}"
        self.model = model

    def supports(self, facts: Facts) -> bool | str:
        """Dense data without a prior; two classes, or more than two for MNLogit."""
        if facts.sigma is not None:
            return "not the same model: it has no Gaussian prior"
        if facts.sparse:
            return "dense data only"
        if self.model == "MNLogit":
            return True if facts.classes > 2 else "more than two classes only"
        return only_binary(facts)

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with a constant column in front; MNLogit's first class is the reference."""
        import statsmodels.api as sm

        exog = sm.add_constant(X, has_constant="add")
        if self.model == "GLM":
            params = sm.GLM(y, exog, family=sm.families.Binomial()).fit(tol=tol, maxiter=1_000).params
        else:
            params = getattr(sm, self.model)(y, exog).fit(method="newton", tol=tol, maxiter=1_000, disp=0).params
        theta = np.asarray(params)
        if self.model == "MNLogit":
            theta = np.column_stack([np.zeros(len(theta)), theta])
            return theta[1:].T, theta[0]
        return theta[1:], theta[0]


ADAPTERS: tuple[Peer, ...] = (Statsmodels("Logit"), Statsmodels("GLM"), Statsmodels("MNLogit"))
