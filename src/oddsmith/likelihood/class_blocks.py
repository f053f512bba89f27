"""The Hessian of several classes over a table, with the largest factor eliminated: a preconditioner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal, ClassBorder, SparseBorder
from oddsmith.engines import MemorySource
from oddsmith.engines.memory import available_cores, in_slices, parallel_map
from oddsmith.kernels.table import Cells, border_gram
from oddsmith.kernels.table_folds import class_hessians, has_cells
from oddsmith.likelihood.table_sums import cells_of, table_room
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import Preconditioner
from oddsmith.solvers.preconditioner import KroneckerPreconditioner, LevelPreconditioner

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective

SLICES = 2  # Of the rows at most: each has sums of its own, as large as the Hessian.
CHUNK = 1 << 14  # Numbers of a block that are combined at a time, to save memory.


def level_preconditioner(objective: FoldObjective, w: Array) -> Preconditioner | None:
    """Return about the Hessian at ``w`` as a preconditioner: one pass; None if the rows are no table, or it is costly.

    It is exact for few classes if there is room for the sums of all their pairs, O(L C³ R²) for L levels and R other
    columns. Else classes mix in all rows as they do in their sum: the sums of two classes, and O(L R²).
    """
    columns = _columns(objective)
    if columns is None:
        return None
    source, at = objective.memory_source, objective._at(w)
    if (cells := _cells(objective, columns)) is not None:
        at = replace(at, cells=cells)
    sums, room = _bytes(objective, columns, cells), table_room(source)
    C = objective.shape[0]
    common = C >= policy.POLICY.exact_classes or sums > room or _columns(objective, C) is None
    if common and not (objective.free == objective.free[0]).all():
        return None
    sums /= C * (C + 1) / 2 if common else 1
    source = in_slices(source, SLICES if SLICES * sums <= room else 1)
    parts = parallel_map(
        lambda rows: class_hessians(source.block(*rows), at, columns, common=common),
        source.slices(),
        objective.threads or available_cores(),
    )
    total, found = np.zeros((C, C)), list[BorderedDiagonal]()
    for part in parts:
        if part is None:
            return None
        total += part[0]
        for one, two in zip(found, part[1], strict=bool(found)):
            one.add(two)
        found = found or part[1]
    objective.count_pass()
    return _mixed(objective, total, found.pop()) if common else _in_solver_coordinates(objective, found, columns)


def _mixed(objective: FoldObjective, total: Array, common: BorderedDiagonal) -> KroneckerPreconditioner:
    """Return the Hessian in which all rows mix the classes as their sum does; the classes share the mean of priors."""
    M = objective.T.T @ total @ objective.T / (common.A[0, 0] * objective.sampling_fraction)
    G, q = common.rescaled(np.append(1.0, objective.scale)), np.zeros(objective.shape[1])
    if objective.penalty is not None:
        q += objective.penalty.diagonal(len(M)).mean(axis=0)
    return KroneckerPreconditioner(M, G.fix(~objective.free[0], 1.0), q, border_gram())


def _bytes(objective: FoldObjective, columns: tuple[int, int], cells: Cells | None) -> float:
    """Return the bytes of the sums of all pairs of classes."""
    form, (C, P), levels = objective.memory_source.form, objective.shape, columns[1] - columns[0]
    assert form is not None
    numbers = P - sum(b - a for a, b in form.factors)
    between = levels * (P - levels) if cells is None else cells.count + numbers * levels
    return 4.0 * C * (C + 1) * (between + float(P - levels) ** 2)


def _cells(objective: FoldObjective, columns: tuple[int, int]) -> Cells | None:
    """Return where the block between a factor and all else is not zero, None if no kernel sums over such rows."""
    apart = replace(objective, eliminated=columns)
    block = objective.memory_source.block(*objective.memory_source.slices()[0])
    return cells_of(apart) if has_cells(block, apart._at(np.zeros(objective.size))) else None


def _columns(objective: FoldObjective, together: int = 1) -> tuple[int, int] | None:
    """Return the columns of the largest factor, if eliminating it (some classes ``together``) pays."""
    source, settings, (C, P) = objective.source, policy.POLICY, objective.shape
    if C < 2 or not isinstance(source, MemorySource) or source.form is None or objective.whitening is not None:
        return None
    if (objective.penalty is not None and objective.penalty.Q.ndim == 2) or len(objective.T) != C:
        return None
    first, last = max(source.form.factors, key=lambda columns: columns[1] - columns[0], default=(0, 0))
    levels, rest = last - first, together * (P - (last - first))
    elements, products = float(levels) * together * rest, float(levels) * together * rest**2 + C / together * rest**3.0
    affordable = elements <= settings.eliminated_elements and products <= settings.class_products
    return (first, last) if levels >= settings.eliminated_levels and affordable else None


def _in_solver_coordinates(
    objective: FoldObjective, sums: list[BorderedDiagonal], columns: tuple[int, int]
) -> LevelPreconditioner:
    """Return the sums of pairs of classes as blocks: contrasts, units, the prior, and coordinates that are fixed."""
    (C, _), start, L, R = objective.shape, 1 + columns[0], len(sums[0].d), len(sums[0].A)
    unit = np.concatenate([[1.0], objective.scale])
    A, D = np.empty((C, R, C, R)), np.empty((L, C, C))
    borders: dict[tuple[int, int], Any] = {}
    classes = [(j, k) for j in range(C) for k in range(j + 1)]
    for j, k in reversed(classes):
        H = sums.pop().rescaled(unit)  # which makes room
        for a, b in {(j, k), (k, j)}:
            A[a, :, b], D[:, a, b], borders[a, b] = H.A, H.d, H.B
    del H
    T, f = objective.T, objective.sampling_fraction
    if not np.array_equal(T, np.eye(C)):
        for r in range(0, R, step := max(1, CHUNK // (C * C * R))):
            A[:, r : r + step] = np.einsum("ai,arbs,bj->irjs", T, A[:, r : r + step], T, optimize=True)
        _mix([borders[pair] for pair in classes], T)
        D = T.T @ D @ T
    if f != 1.0:
        A, D, borders = A / f, D / f, {pair: border * (1.0 / f) for pair, border in borders.items()}
    free = objective.free
    outside = np.concatenate([free[:, :start], free[:, start + L :]], axis=1)
    inside = free[:, start : start + L].T
    if not free.all():
        A = np.where(outside[:, :, None, None] & outside, A, 0.0)
        borders = {(i, j): _cleared(border, ~inside[:, i], ~outside[j]) for (i, j), border in borders.items()}
        D = np.where(inside[:, :, None] & inside[:, None, :], D, 0.0)
    penalty = np.zeros(free.shape) if objective.penalty is None else objective.penalty.diagonal(C)
    q = np.where(free, penalty, 1.0)
    q_outside = np.concatenate([q[:, :start], q[:, start + L :]], axis=1)
    flat = A.reshape(C * R, C * R)
    flat[np.diag_indices(C * R)] += q_outside.ravel()
    each = np.arange(C)
    D[:, each, each] += q[:, start : start + L].T
    return LevelPreconditioner(flat.reshape(C, R, C, R), ClassBorder(borders, C), D, start=start)


def pair_mixing(T: Array) -> Array:
    """Return the matrix that turns B_ab of the pairs of classes (0, 0), (1, 0), (1, 1) … into ``Σ_ab T_ai T_bj B_ab``.

    B_ab is B_ba.
    """
    classes = [(j, k) for j in range(len(T)) for k in range(j + 1)]
    each = [np.outer(T[:, i], T[:, j]) for i, j in classes]
    return np.array([[w[a, b] + (w[b, a] if a != b else 0.0) for a, b in classes] for w in each])


def _mix(borders: list[Any], T: Array) -> None:
    """Replace the blocks of pairs of classes by their mixtures, where they are."""
    M = pair_mixing(T)
    sparse = isinstance(borders[0], SparseBorder)
    groups = [[one.numbers for one in borders], [one.data for one in borders]] if sparse else [borders]
    for arrays in groups:
        step = max(1, CHUNK // max(1, len(arrays) * arrays[0][:1].size))
        for start in range(0, len(arrays[0]), step):
            rows = slice(start, start + step)
            some = np.stack([array[rows] for array in arrays])
            for array, mixed in zip(arrays, np.tensordot(M, some, axes=1), strict=True):
                array[rows] = mixed


def _cleared(border: Any, rows: npt.NDArray[np.bool_], columns: npt.NDArray[np.bool_]) -> Any:
    """Return a block with some rows and columns at zero."""
    border = border * 1.0
    if isinstance(border, SparseBorder):
        border.clear(columns, rows)
    else:
        border[rows], border[:, columns] = 0.0, 0.0
    return border
