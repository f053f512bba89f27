"""scikit-learn: its objective is C Σ loss + ½ ‖w‖², so C = σ²."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Facts, Matrix
from .base import Peer, only_binary

MAX_ITERATIONS = 100_000
WIDEST_HESSIAN = 5_000


class ScikitLearn(Peer):
    """`sklearn.linear_model.LogisticRegression` with one solver."""

    module = "sklearn"
    distribution = "scikit-learn"

    def __init__(self, solver: str, note: str = "", **options: Any) -> None:
        self.name = f"scikit-learn {solver}"
        self.solver = solver
        self.note = note
        self.options = options

    def supports(self, facts: Facts) -> bool | str:
        """Refuse what the solver cannot fit, or not within memory."""
        if self.solver == "newton-cholesky" and facts.parameters > WIDEST_HESSIAN:
            return f"a full Hessian of {facts.parameters:,} parameters does not fit memory"
        if self.solver == "liblinear":
            if facts.sigma is None:
                return "no maximum likelihood"
            return only_binary(facts)
        return True

    def estimator(self) -> Any:
        """The class to fit with."""
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with C = σ²."""
        C = np.inf if sigma is None else sigma**2
        model = self.estimator()(
            C=C, solver=self.solver, tol=tol, max_iter=MAX_ITERATIONS, random_state=0, **self.options
        )
        model.fit(X, y)
        return model.coef_, model.intercept_


ADAPTERS: tuple[Peer, ...] = (
    ScikitLearn("lbfgs"),
    ScikitLearn("newton-cholesky"),
    ScikitLearn("newton-cg"),
    ScikitLearn("saga"),
    ScikitLearn(
        "liblinear",
        "penalises the intercept; intercept_scaling=100 makes that penalty 10,000 times weaker than a weight's",
        intercept_scaling=100.0,
    ),
)
