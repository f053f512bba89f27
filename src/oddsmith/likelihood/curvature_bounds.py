"""Bounds of the curvature of an objective, and of how far a step moves: what certificates without a Hessian need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.bordered import BorderedDiagonal
from oddsmith.engines import MemorySource, PartedSource
from oddsmith.engines.memory import available_cores, in_slices, parallel_map
from oddsmith.kernels.curvature import activations, curvature_intercepts
from oddsmith.kernels.table_folds import widest_in_table
from oddsmith.likelihood.class_blocks import pair_mixing
from oddsmith.likelihood.table_sums import for_gradients, table_room
from oddsmith.numerics import Array
from oddsmith.rows import DenseRows
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue, Preconditioner
from oddsmith.solvers.certificate import InverseBound
from oddsmith.solvers.preconditioner import InterceptPreconditioner

PRODUCTS = 8  # Contrasts from which products take less memory than sums of all pairs (ten classes: 4.6 MB, not 5.6).
CHUNK_ROWS = 1 << 14  # Rows of a table whose activations are held at a time, or numbers, to save memory.

if TYPE_CHECKING:
    from oddsmith.likelihood.implicit_hessian import ImplicitHessian
    from oddsmith.likelihood.objective import FoldObjective


def inverse_bound(
    objective: FoldObjective, e: ObjectiveValue, preconditioner: Preconditioner | None = None
) -> InverseBound | None:
    """Return a bound of the inverse Hessian at ``e`` from the prior, the intercepts eliminated (at most C passes).

    The Hessian there, or of two classes the preconditioner, knows all that is needed.
    """
    C, P = objective.shape
    if objective.penalty is None or objective.penalty.Q.ndim == 2 or P == 1:
        return None
    prior = objective.penalty.diagonal(C)[:, 1:]
    return InverseBound.eliminating(
        _intercept_columns(objective, e, preconditioner),
        prior,
        objective.self_concordance,
        objective.rounding + e.rounding,
    )


def _intercept_columns(
    objective: FoldObjective, e: ObjectiveValue, preconditioner: Preconditioner | None
) -> Array | Iterator[Array]:
    """Return the columns of the Hessian at ``e`` that belong to the intercepts (C × C × P), zero without these.

    Those of several classes come one after another.
    """
    C, P = objective.shape
    if not objective.free[:, 0].all():
        return np.broadcast_to(0.0, (C, C, P))
    if isinstance(e.hessian, np.ndarray):
        return e.hessian[::P].reshape(C, C, P)
    if C == 1 and isinstance(preconditioner, InterceptPreconditioner) and objective.whitening is None:
        return np.append(preconditioner.rest[0, 0], preconditioner.cross[0])[None, None]
    alike, source = objective.all_free or bool((objective.free == objective.free[0]).all()), objective.source
    if C > 1 and alike and isinstance(source, MemorySource) and objective.whitening is None:
        if source.form is None or C < PRODUCTS:
            return _summed_columns(objective, e.w)
    units = (np.eye(1, C * P, k * P)[0] for k in range(C))
    products = (objective.hessian_product(e.w, unit).reshape(C, P) for unit in units)
    return products if C > 1 else np.stack([*products])


def _summed_columns(objective: FoldObjective, w: Array) -> Iterator[Array]:
    """Yield these columns, of one pass."""
    columns, mixing, (C, P) = _pair_sums(objective, w).T, pair_mixing(objective.T).T, objective.shape
    for start in range(0, P, CHUNK_ROWS // C**2 + 1):  # some at a time, to save memory
        some = columns[start : start + CHUNK_ROWS // C**2 + 1]
        some[:] = some @ mixing
    columns /= objective.sampling_fraction
    if objective._unit is not None:
        columns /= objective._unit[:, None]
    j, k = np.indices((C, C))
    pairs = np.maximum(j, k) * (np.maximum(j, k) + 1) // 2 + np.minimum(j, k)
    if objective.penalty is not None:
        columns[0, pairs.diagonal()] += objective.penalty.diagonal(C)[:, 0]
    columns[~objective.free[0]] = 0.0
    for some_pairs in pairs:
        yield columns[:, some_pairs].T


def _pair_sums(objective: FoldObjective, w: Array) -> Array:
    """Return the sums of the second derivatives of pairs of classes (C (C + 1) / 2 × P), by one pass."""
    source, at, (C, P) = objective.memory_source, objective._at(w), objective.shape
    if source.form is not None:
        sums = 4.0 * C * (C + 1) * P
        source = for_gradients(source, sums) if 2.0 * sums <= table_room(source) else in_slices(source, 1)
    threads = objective.threads or available_cores()
    parts = parallel_map(lambda rows: curvature_intercepts(source.block(*rows), at), source.slices(), threads)
    total = next(parts)
    for part in parts:
        total += part
    objective.count_pass()
    return total


def eigenvalue_bound(objective: FoldObjective, H: Array | BorderedDiagonal) -> float:
    """Return a simple bound of the smallest eigenvalue of a Hessian, its prior included, or 0 where there is none.

    With s and c, the curvature of the intercept and its row, H is at least ``s (b + cᵀw / s)² + Σ q w²``.
    """
    penalty = objective.penalty
    if penalty is None or penalty.Q.ndim == 2 or objective.shape[0] > 1 or not objective.all_free:
        return 0.0
    first = H.first_row() if isinstance(H, BorderedDiagonal) else H[0]
    if not first[0] > 0.0:
        return 0.0
    s, v, q = first[0], np.linalg.norm(first[1:]) / first[0], penalty.Q[1:].min(initial=np.inf)
    half = 0.5 * (s + s * v**2 + q)
    least = s * q / (half + np.sqrt(max(0.0, half**2 - s * q)))
    return float(least) if np.isfinite(least) else 0.0


def implicit_lower_bound(objective: FoldObjective, e: ObjectiveValue) -> ImplicitHessian | None:
    """Return the curvature at ``e`` of a subsample's rows, each counted once, with the prior in full.

    Other rows can only add to it. Of two classes and dense rows in memory, with a simple prior; else None.
    """
    source, penalty = objective.source, objective.penalty
    plain = objective.link is None and objective.whitening is None and objective.shape[0] == 1 and objective.all_free
    if not plain or penalty is None or penalty.Q.ndim == 2:
        return None
    if not isinstance(source, MemorySource) or source.row_storage is not DenseRows:
        return None
    from oddsmith.likelihood.implicit_hessian import ImplicitHessian, curvature_roots

    threads = objective.threads or available_cores()
    roots = curvature_roots(source, *objective.raw(e.w), objective.center, threads)
    unit = np.ones(objective.size) if objective._unit is None else objective._unit
    return ImplicitHessian(roots, unit, penalty.diagonal(1)[0], threads)


def activation_change(objective: FoldObjective, step: Array, bound: float, enough: float = 0.0) -> float:
    """Return by how much a step changes the activations of a row against each other, at most.

    It is looked up if the rows are in memory, unless the ``bound``, or that of a table, is narrow or ``enough``.
    """
    source, bound = objective.gradient_source, min(bound, _change_of_table(objective, step))
    if bound <= max(enough, policy.POLICY.narrow_change) or isinstance(source, PartedSource):
        return bound
    W, b = objective.raw(step)
    finders: Sequence[Callable[[], float]] | None = None
    if isinstance(source, MemorySource) and source.form is not None:
        finders = widest_in_table(source.block(0, source.n_rows), source.slices(), W, b, objective.center)
        source = replace(source, slice_rows=CHUNK_ROWS)

    def widest_of(rows: tuple[int, int]) -> float:
        A = activations(source.block(*rows), W, b, objective.center)
        if A.shape[1] == 1:
            return max(float(A.max(initial=0.0)), -float(A.min(initial=0.0)))
        return float((A.max(axis=1, initial=0.0) - A.min(axis=1, initial=0.0)).max(initial=0.0))

    finders = finders or [partial(widest_of, rows) for rows in source.slices()]
    found = parallel_map(lambda find: find(), finders, objective.threads or available_cores())
    widest = float(np.max([*found], initial=0.0))
    rounding = 1e-6 * (1.0 + float((np.abs(W) @ np.abs(objective.center)).max(initial=0.0)))  # it is taken off last
    return min(bound, widest + rounding) if np.isfinite(widest) else bound


def _change_of_table(objective: FoldObjective, step: Array) -> float:
    """Bound the change of a table's activations: a row has one of the levels of each factor.

    With x its intercept and numbers, which are no longer than the whole row, it is at most ``‖x‖ ‖w‖ + Σ max |w_l|``.
    """
    form = objective.source.form if isinstance(objective.source, MemorySource) else None
    if form is None or form.products or objective.shape[0] > 1 or objective.whitening is not None:
        return np.inf
    w = step if objective._unit is None else step / objective._unit
    levels = sum(float(np.abs(w[1 + a : 1 + b]).max(initial=0.0)) for a, b in form.factors)
    others = np.append(True, ~form.factor_columns)
    return objective.self_concordance * float(np.linalg.norm(step[others])) + levels
