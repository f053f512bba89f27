"""Likelihoods to be fitted, without a model around them, and fits held against Newton's method."""

from typing import Any

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.likelihood.problem import Problem


def problem(source: MemorySource, prior: Any, class_weight: Any, *, reference: int | None = None) -> Problem:
    """Return a problem over rows in memory, to be solved to the usual tolerance."""
    return Problem(
        engine=MemoryEngine(),
        source=source,
        prior=prior,
        intercept=True,
        reference=reference,
        solver="auto",
        tol=1e-8,
        max_iter=100,
        class_weight=class_weight,
    )


def objective(model: LogisticRegression, X: Any, y: Any, sigma: float | None) -> float:
    """The objective at a model's weights: a last Newton step comes after the last pass, and after the trace's end."""
    loss = -model.predict_log_proba(X)[np.arange(len(y)), y]
    return float(loss.sum() + (0.0 if sigma is None else 0.5 * (model.coef_**2).sum() / sigma**2))


def at_the_optimum(
    X: Any, y: Any, sigma: float | None = 1.0, share: float = 1e-9
) -> tuple[LogisticRegression, LogisticRegression]:
    """Return a fit, held against Newton's method on all rows to a share of the objective, and the latter."""
    fit = LogisticRegression(sigma).fit(X, y)
    exact = LogisticRegression(sigma, solver="newton").fit(X, y)
    values = [objective(model, X, y, sigma) for model in (fit, exact)]
    assert fit.certificate_.converged and fit.certificate_.rigorous
    gap, noise = values[0] - values[1], 1e-13 * len(X)
    assert gap <= fit.certificate_.gap + noise
    assert gap <= share * values[1] + noise
    return fit, exact
