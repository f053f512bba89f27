"""The null model: the likelihood of the intercepts and the offset alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.fit import fit_likelihood
from oddsmith.likelihood.problem import Problem, constant_log_likelihood
from oddsmith.numerics import Array
from oddsmith.rows import ColumnRows, SplitRows

if TYPE_CHECKING:
    from oddsmith.likelihood.separation import DesignRows


def zero_column(rows: DesignRows) -> Array:
    """Return one column of zeros, the design of the null model."""
    return np.zeros((rows.shape[0], 1))


def null_log_likelihood(problem: Problem) -> float:
    """Return the log likelihood of the intercepts (and the offset) alone; without intercepts, of weights 0.

    Without an offset it has a closed form, ``Σ_k W_k log(W_k / W)``; with one, it takes a small fit of K − 1 weights.
    """
    if not problem.source.has_offset:
        return constant_log_likelihood(problem)
    source = replace(problem.source, transform=zero_column, M=1)
    if isinstance(source, MemorySource):
        n = source.n_rows
        nothing = ColumnRows((np.broadcast_to(0.0, n),), n)  # which takes no memory
        X = SplitRows((nothing,)) if source.form is not None else np.zeros((n, 1))
        source = replace(source, X=X, transform=None, M=None)
    else:
        source = replace(source, form=None)
    null = replace(problem, source=source, prior=None, jeffreys=False, laplace=None, solver="newton", start=None)
    null = replace(null, names=lambda: ["(none)"], max_iter=200, explain=None)
    if null.link is None or np.isinf(null.link.domain).all():
        return fit_likelihood(null).result.final.log_likelihood
    from oddsmith.likelihood.barrier import fit_bounded

    try:
        return fit_bounded(null).result.final.log_likelihood
    except InvalidInputError:  # with this offset no constant keeps every probability inside (0, 1)
        return float("nan")
