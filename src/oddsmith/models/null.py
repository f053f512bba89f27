"""The likelihood of the constant alone, against which a model is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.models.bounded import fit_bounded
from oddsmith.models.likelihood import Problem, fit_likelihood
from oddsmith.numerics import Array


def nothing(rows: Any) -> Array:
    """Return one column of zeros: what a model of the constant alone sees."""
    return np.zeros((rows.shape[0], 1))


def null_log_likelihood(problem: Problem) -> float:
    """Return the log likelihood of the intercepts (and the offset) alone; without intercepts, of weights 0.

    Without an offset that is a closed form, ``Σ_k W_k log(W_k / W)``; with one, a small fit of K − 1 weights.
    """
    W = problem.class_weight
    if not problem.source.has_offset:
        if problem.intercept:
            return float(W @ np.log(np.where(W > 0, W, 1.0) / W.sum()))  # an update may lack a class
        if problem.link is None:
            return float(-W.sum() * np.log(len(W)))
        log_p = [float(v[0]) for v in problem.link.log_probability(np.zeros(1))]
        return float(W[1] * log_p[0] + W[0] * log_p[1])
    source = replace(problem.source, transform=nothing, M=1, memo=None)
    if isinstance(source, MemorySource):
        source = replace(source, X=np.zeros((source.n_rows, 1)), transform=None, M=None)
    alone = replace(problem, source=source, prior=None, jeffreys=False, solver="newton", start=None, explain=None)
    alone = replace(alone, names=lambda: ["(none)"], max_iter=200)
    if alone.link is None or np.isinf(alone.link.domain).all():
        return fit_likelihood(alone).result.final.log_likelihood
    try:
        return fit_bounded(alone).result.final.log_likelihood
    except InvalidInputError:  # with this offset no constant keeps every probability inside (0, 1)
        return float("nan")
