"""Probit regression: logistic regression with the Gaussian distribution function in place of the sigmoid."""

from __future__ import annotations

from typing import Any

from oddsmith.models.base import MODELS
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.logistic import LogisticRegression
from oddsmith.solvers import Solver


@MODELS.register("probit")
class ProbitRegression(LogisticRegression):
    """Probit regression for two classes: ``p(C₁ | φ) = Φ(wᵀφ + w₀)``, Φ the standard Gaussian distribution function.

    The same as `LogisticRegression` with ``link="probit"``, which documents the parameters. The tails of Φ are thinner
    than the sigmoid's, so a row far on the wrong side has more influence.

    >>> from oddsmith import ProbitRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1, 1]
    >>> ProbitRegression().fit(X, y).predict_proba([[2.0]]).round(3).tolist()
    [[0.349, 0.651]]
    """

    @checked_names
    def __init__(
        self,
        prior: object = None,
        *,
        basis: object = None,
        fit_intercept: bool = True,
        reference: object = None,
        solver: str | Solver[Any] = "auto",
        tol: float = 1e-8,
        max_iter: int = 200,
        seed: int | None = None,
        warm_start: bool = False,
        threads: int | None = None,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        super().__init__(prior, link="probit", basis=basis, fit_intercept=fit_intercept, reference=reference)
        self.solver, self.tol, self.max_iter, self.seed, self.warm_start = solver, tol, max_iter, seed, warm_start
        self.threads, self.design, self.class_weight = threads, design, class_weight
