"""Snap ML: coordinate descent in C++; its objective is the sum, regularizer = 1 / σ²."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from ..problem import Facts, Matrix
from .base import Peer, binary_with_prior

CONSTANT = 10.0
"""The value of the constant column: the penalty on the intercept becomes a hundredth of that on a weight."""


class SnapML(Peer):
    """`snapml.LogisticRegression` on all cores."""

    module = "snapml"
    distribution = "snapml"

    def __init__(self, *, dual: bool) -> None:
        self.name = f"snapml {'dual' if dual else 'primal'}"
        self.dual = dual
        how = "intercept_scaling=10" if dual else "a constant column of 10, as its own is returned as zero"
        self.note = f"penalises the intercept, a hundred times less than a weight ({how})"

    def supports(self, facts: Facts) -> bool | str:
        """Two classes with a prior: for more it fits one against the rest."""
        return binary_with_prior(facts)

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with a constant column, the library's own (dual) or one put in front of it here (primal)."""
        from snapml import LogisticRegression

        assert sigma is not None
        model = LogisticRegression(
            regularizer=1.0 / sigma**2,
            dual=self.dual,
            tol=tol,
            max_iter=10_000,
            fit_intercept=self.dual,
            intercept_scaling=CONSTANT,
            n_jobs=os.cpu_count(),
            random_state=0,
        )
        model.fit(X if self.dual else with_constant(X), y)
        theta = model.coef_.ravel()
        if self.dual:
            return theta, CONSTANT * model.intercept_
        return theta[:-1], CONSTANT * theta[-1]


def with_constant(X: Matrix) -> Matrix:
    """Append a column of `CONSTANT`."""
    column = np.full((X.shape[0], 1), CONSTANT, dtype=X.dtype)
    return sparse.hstack([X, column], format="csr") if sparse.issparse(X) else np.hstack([X, column])


ADAPTERS: tuple[Peer, ...] = (SnapML(dual=True), SnapML(dual=False))
