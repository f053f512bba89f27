"""What the Hessian of an objective nearly is, for solvers that do not form it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.numerics import Array
from oddsmith.solvers.base import Preconditioner
from oddsmith.solvers.preconditioner import InterceptPreconditioner
from oddsmith.statistics import CurvatureDiagonal

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective


def preconditioner(objective: FoldObjective, w: Array) -> Preconditioner:
    """Return the diagonal of the Hessian with the intercepts eliminated: one pass.

    The contrasts of a symmetric softmax mix classes; there the mean over them is close enough. For several classes over
    a table with a large factor, it is the Hessian with that factor eliminated, or one in which all rows mix them alike.
    """
    C, P = objective.shape
    if C > 1 and isinstance(objective.source, MemorySource) and objective.source.form is not None:
        from oddsmith.likelihood.class_blocks import level_preconditioner

        found = level_preconditioner(objective, w)
        if found is not None:
            return found
    if objective.whitening is not None:
        return InterceptPreconditioner.of(np.ones((C, P)), np.zeros((C, P - 1)))
    objective._fill_row_curvature(w)
    sums = objective.fold(CurvatureDiagonal, objective._at(w))
    d, cross = sums.diagonal / objective.sampling_fraction, sums.cross[:, 1:] / objective.sampling_fraction
    prior = np.zeros((1, 1)) if objective.penalty is None else objective.penalty.diagonal(C)
    if C > 1 and not np.array_equal(objective.T, np.eye(C)):
        d, cross = (part.mean(axis=0, keepdims=True) for part in (d, cross))
        if objective.all_free and (prior == prior[:1]).all():
            prior = prior[:1]  # one row serves all classes
        else:
            d, cross = (np.broadcast_to(part, (C, part.shape[1])) for part in (d, cross))
    d = d / np.concatenate([[1.0], objective.scale]) ** 2 + prior
    if objective.all_free:
        return InterceptPreconditioner.of(d, cross / objective.scale)
    both = objective.free[:, 1:] & objective.free[:, :1]
    return InterceptPreconditioner.of(np.where(objective.free, d, 1.0), np.where(both, cross / objective.scale, 0.0))


def column_curvature(objective: FoldObjective) -> tuple[Array, Array]:
    """Return B (C × C) between the classes, and the diagonal of the prior (P) that is added to it for each column."""
    source, C, K = objective.source, objective.shape[0], len(objective.class_weight)
    counts = objective.class_weight
    if isinstance(source, MemorySource):
        counts = np.bincount(source.t, weights=source.s, minlength=K).astype(np.float64)
    p = (counts + 1.0 / K) / (counts + 1.0 / K).sum()
    between = -np.outer(p, p)
    np.fill_diagonal(between, p * (p @ (1.0 - np.eye(K))))  # 1 − p would lose the rows of a rare class
    B: Array = objective.weight * objective.T.T @ between[1:, 1:] @ objective.T
    prior = np.zeros(objective.shape[1]) if objective.penalty is None else objective.penalty.diagonal(C).mean(axis=0)
    return B, prior
