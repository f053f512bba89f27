"""Fits whose every pass is known: what each reads, in which order, and how its gradient falls."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith import LogisticRegression
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.solvers import policy


def rows(n: int, D: int, K: int = 2, *, along: float = 0.0, size: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Return columns, each correlated with the one before it, and classes of a softmax."""
    rng = np.random.default_rng([n, D, K, seed])
    X = rng.normal(size=(n, D))
    for j in range(1, D if along else 0):
        X[:, j] = along * X[:, j - 1] + np.sqrt(1.0 - along**2) * X[:, j]
    A = np.column_stack([np.zeros(n), size * X @ rng.normal(size=(D, K - 1)) / np.sqrt(D) - 0.5])
    return X, (A + rng.gumbel(size=A.shape)).argmax(axis=1)


Fit = Callable[[], LogisticRegression]


def fit(data: tuple[Any, Any], prior: Any = 1.0, **how: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(prior, **how).fit(*data)


def under(thresholds: dict[str, Any], fit: Fit) -> Any:
    """Fit under another policy."""
    before = policy.POLICY
    policy.POLICY = replace(before, **thresholds)
    try:
        return fit()
    finally:
        policy.POLICY = before


@contextmanager
def passes_noted() -> Iterator[list[str]]:
    """Note the passes of every objective: the sums and the rows."""
    found: list[str] = []
    fold, newton_steps = FoldObjective.fold, FoldObjective.newton_steps

    def noted(self: Any, statistic: Any, params: Any) -> Any:
        order = getattr(params, "order", 0)
        sums = ("", "gradient", "Hessian")[order]
        kinds = {"Curvature": sums, "OwnSums": sums, "OwnProduct": "CurvatureProduct"}
        kind = kinds.get(statistic.__name__, statistic.__name__)
        found.append(f"{kind} of {self.n_rows:,}")
        return fold(self, statistic, params)

    def noted_steps(self: Any, *how: Any) -> Any:
        steps = newton_steps(self, *how)
        found.extend([f"Hessian of {self.n_rows:,}"] * (steps.evaluations if steps else 0))
        return steps

    FoldObjective.fold, FoldObjective.newton_steps = noted, noted_steps  # type: ignore[method-assign]
    try:
        yield found
    finally:
        FoldObjective.fold, FoldObjective.newton_steps = fold, newton_steps  # type: ignore[method-assign]


def numbers(model: LogisticRegression) -> list[float]:
    """Return what a user reads off a fit: iterations, likelihood, intercepts, the first weights, how many are zero."""
    weights = np.ravel(model.coef_)
    found = [
        model.n_iter_,
        model.log_likelihood_,
        *np.ravel(model.intercept_)[:3],
        *weights[:5],
        np.sum(weights == 0.0),
    ]
    return [float(f"{float(number):.6g}") for number in found]


def trace(fit: Fit) -> dict[str, Any]:
    """Return the passes of a fit, its stages, the gradients on the way, and the certificate."""
    with passes_noted() as found:
        model = fit()
    runs = [(kind, len([*same])) for kind, same in groupby(found)]
    stages = [(stage, len([*same])) for stage, same in groupby(model.trace_.stage.tolist())]
    certificate = model.certificate_
    return {
        "passes": [f"{count} × {kind}" for kind, count in runs],
        "stages": [f"{count} × {stage}" for stage, count in stages],
        "gradients": [float(f"{norm:.4g}") for norm in model.trace_.gradient_norm],
        "steps": [float(f"{step:.4g}") for step in model.trace_.step_size],
        "certificate": [certificate.passes, certificate.converged, certificate.rigorous],
        "gap": float(f"{certificate.gap:.3g}"),
        "numbers": numbers(model),
    }


def write(fits: dict[str, Fit], place: Path) -> None:
    """Write down the traces of fits, one a line."""
    written = [f"{json.dumps(name)}: {json.dumps(trace(fit), ensure_ascii=False)}" for name, fit in fits.items()]
    place.write_text("{\n" + ",\n".join(written) + "\n}\n", encoding="utf-8")


def assert_same(found: dict[str, Any], expected: dict[str, Any], digits: float = 0.01) -> None:
    """Hold a trace against the one that was written down."""
    for part in ("stages", "passes", "certificate"):
        assert found[part] == expected[part]
    norms = np.array(expected["gradients"])
    settled = norms > max(1e-8 * norms.max(), 1e-10)  # what is below is rounding
    for part in ("gradients", "steps"):
        np.testing.assert_allclose(np.array(found[part])[settled], np.array(expected[part])[settled], rtol=digits)
    np.testing.assert_allclose(found["numbers"], expected["numbers"], rtol=1e-4, atol=1e-7)
    assert found["gap"] == pytest.approx(expected["gap"], rel=0.05, abs=1e-11)
