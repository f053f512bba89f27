"""The objective over combinations of the rows: with a prior and more columns than rows, its optimum is one of these.

With precisions Q and rows Z (centred and scaled), the optimum is ``w = Q⁻¹ Zᵀ α``. The products of the rows,
``K = Z Q⁻¹ Zᵀ = L Lᵀ``, are all that the likelihood sees of them: its activations are those of rows L with weights
``u = Lᵀ α`` under a prior of unit precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpstrf, dtrtrs

from oddsmith.engines import MemorySource, engine_of
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.rows import DenseRows

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective

COLUMNS_AT_ONCE = 1024


def over_row_space(objective: FoldObjective) -> tuple[FoldObjective, Callable[[Array], Array]] | None:
    """Return the objective over combinations of the rows, and how these become weights of all columns: two passes.

    None unless rows are dense and in memory, and every column has a precision of its own and a mean of zero.
    """
    source, penalty = objective.source, objective.penalty
    if not isinstance(source, MemorySource) or source.row_storage is not DenseRows or objective.whitening is not None:
        return None
    if penalty is None or penalty.Q.ndim == 2 or penalty.mean[:, 1:].any() or not objective.free[:, 1:].all():
        return None
    X, roots, (C, _) = source.block(0, source.n_rows).X, np.sqrt(penalty.Q[1:]), objective.shape
    if not roots.all():
        return None

    def columns() -> Iterator[tuple[slice, Array]]:
        """Yield the rows Z Q^(-1/2), some columns at a time."""
        for first in range(0, X.shape[1], COLUMNS_AT_ONCE):
            some = slice(first, first + COLUMNS_AT_ONCE)
            yield some, (X[:, some] - objective.center[some]) / (objective.scale[some] * roots[some])

    products = np.zeros((len(X), len(X)))
    for _, Z in columns():
        products += Z @ Z.T
    if not np.isfinite(products).all():
        return None
    factor, pivots, rank, _ = dpstrf(products, lower=1)
    L, order = np.asfortranarray(np.tril(factor)[:, :rank]), pivots - 1
    objective.state.passes += 2
    if rank == 0:
        return None

    def in_all_columns(x: Array) -> Array:
        U = x.reshape(C, 1 + rank)
        alpha, _ = dtrtrs(L[:rank], U[:, 1:].T, lower=1, trans=1)  # the rows of the first pivots suffice
        W = np.empty(objective.shape)
        W[:, 0] = U[:, 0]
        for some, Z in columns():
            W[:, 1:][:, some] = alpha.T @ Z[order[:rank]] / roots[some]
        return W.ravel()

    rows = np.empty((len(X), rank))
    rows[order] = L
    # One slice for gradients; a Hessian of many rows is summed in several.
    part = MemorySource(rows, source.t, source.K, s=source.s, offset=source.offset, slice_rows=len(X))
    mean, free = np.zeros((C, 1 + rank)), np.ones((C, 1 + rank), dtype=bool)
    mean[:, 0], free[:, 0] = penalty.mean[:, 0], objective.free[:, 0]
    inside = replace(
        objective.over(part),
        engine=engine_of(part, objective.threads),
        center=np.zeros(rank),
        scale=np.ones(rank),
        penalty=Quadratic(mean, np.append(penalty.Q[:1], np.ones(rank))),
        free=free,
        explain=None,
    )
    return replace(inside, state=replace(inside.state, max_row_norm2=None)), in_all_columns
