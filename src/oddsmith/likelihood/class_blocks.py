"""The Hessian of several classes over a table, with the largest factor eliminated: a preconditioner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oddsmith.bordered import BorderedDiagonal
from oddsmith.engines import MemorySource
from oddsmith.engines.memory import available_cores, in_slices, parallel_map
from oddsmith.kernels.curvature import class_hessians
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.preconditioner import LevelPreconditioner

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective

SLICES = 2  # Of the rows: each has sums of its own, as large as the Hessian.


def level_preconditioner(objective: FoldObjective, w: Array) -> LevelPreconditioner | None:
    """Return the Hessian at ``w`` as a preconditioner: one pass; None for rows that are no table, or are too many.

    Cost: C² times the sums of two classes, and O(L C³ R²) for L levels and R other columns.
    """
    columns = _columns(objective)
    if columns is None:
        return None
    source, at = in_slices(objective.memory_source, SLICES), objective._at(w)
    parts = parallel_map(
        lambda rows: class_hessians(source.block(*rows), at, columns),
        source.slices(),
        objective.threads or available_cores(),
    )
    sums: list[BorderedDiagonal] = []
    for part in parts:
        if part is None:
            return None
        sums = [one + two for one, two in zip(sums, part, strict=True)] if sums else part
    objective.count_pass()
    return _in_solver_coordinates(objective, sums, columns)


def _columns(objective: FoldObjective) -> tuple[int, int] | None:
    """Return the columns of the largest factor, if its elimination is worthwhile and affordable."""
    source, settings, (C, P) = objective.source, policy.POLICY, objective.shape
    if C < 2 or not isinstance(source, MemorySource) or source.form is None or objective.whitening is not None:
        return None
    if (objective.penalty is not None and objective.penalty.Q.ndim == 2) or len(objective.T) != C:
        return None
    first, last = max(source.form.factors, key=lambda columns: columns[1] - columns[0], default=(0, 0))
    levels, rest = last - first, P - (last - first)
    elements, products = float(levels) * C * C * rest, float(levels) * C * (C * rest) ** 2 + (C * rest) ** 3.0
    affordable = elements <= settings.eliminated_elements and products <= settings.class_products
    return (first, last) if levels >= settings.eliminated_levels and affordable else None


def _in_solver_coordinates(
    objective: FoldObjective, sums: list[BorderedDiagonal], columns: tuple[int, int]
) -> LevelPreconditioner:
    """Return the sums of pairs of classes as blocks: contrasts, units, the prior, and coordinates that are fixed."""
    (C, _), start, L, R = objective.shape, 1 + columns[0], len(sums[0].d), len(sums[0].A)
    unit = np.concatenate([[1.0], objective.scale])
    r, e = sums[0].rest(unit), unit[start : start + L]
    A, B, D = np.empty((C, R, C, R)), np.empty((L, C, C, R)), np.empty((L, C, C))
    pairs = [(j, k) for j in range(C) for k in range(j + 1)]
    for pair, (j, k) in zip(sums, pairs, strict=True):
        between = pair.B[:]
        np.divide(between, e[:, None], out=between)
        for a, b in {(j, k), (k, j)}:
            np.divide(between, r, out=B[:, a, b])
            A[a, :, b], D[:, a, b] = pair.A / np.outer(r, r), pair.d / e**2
    T = objective.T
    if not np.array_equal(T, np.eye(C)):
        A = np.einsum("ai,arbs,bj->irjs", T, A, T, optimize=True)
        B = np.einsum("ai,labr,bj->lijr", T, B, T, optimize=True)
        D = T.T @ D @ T
    if objective.sampling_fraction != 1.0:
        A, B, D = (part / objective.sampling_fraction for part in (A, B, D))
    free = objective.free
    outside = np.concatenate([free[:, :start], free[:, start + L :]], axis=1)
    inside = free[:, start : start + L].T
    if not free.all():
        A = np.where(outside[:, :, None, None] & outside, A, 0.0)
        B = np.where(inside[:, :, None, None] & outside, B, 0.0)
        D = np.where(inside[:, :, None] & inside[:, None, :], D, 0.0)
    penalty = np.zeros(free.shape) if objective.penalty is None else objective.penalty.diagonal(C)
    q = np.where(free, penalty, 1.0)
    q_outside = np.concatenate([q[:, :start], q[:, start + L :]], axis=1)
    flat = A.reshape(C * R, C * R)
    flat[np.diag_indices(C * R)] += q_outside.ravel()
    each = np.arange(C)
    D[:, each, each] += q[:, start : start + L].T
    return LevelPreconditioner(flat.reshape(C, R, C, R), B, D, start=start)
