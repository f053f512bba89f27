"""Likelihoods to be fitted, without a model around them."""

from typing import Any

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
