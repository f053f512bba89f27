"""L-BFGS on a dense table of two classes or more, in one call of a kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.curvature import dense_addresses
from oddsmith.kernels.native import DenseProblem, LbfgsProblem, address
from oddsmith.numerics import Array

Assist = Callable[[Callable[[], None], Callable[[], None]], None]
"""Calls the first function, and on other threads the second one, which helps the first."""


def alone(work: Callable[[], None], help_it: Callable[[], None]) -> None:
    """Work on this thread only."""
    work()


@dataclass(frozen=True, kw_only=True)
class LbfgsRules:
    """The rules of a search, as in `solvers.lbfgs` and `solvers.line_search`.

    It ends where the squared norm of the gradient is ``near``, or with ``relative`` this part of an objective above 1:
    there the distance is 1. After ``few`` points it also ends where the logarithm of the distance falls so slowly that
    more than ``patience`` steps are left. As long as there are ``hessians``, it goes on instead, and the Hessian there
    becomes the preconditioner if more steps are left, at the rate of the last ones, than it costs in passes (``cost``).
    """

    near: float
    relative: bool
    steps: int
    memory: int
    few: int
    patience: float
    armijo: float
    rounding: float
    smallest: float
    halvings: float
    hessians: int = 0
    cost: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LbfgsPoints:
    """Where a search ends, with value, loss and gradient there.

    A row of ``trace``: the objective, the loss, the gradient's norm, the step to the point, the evaluations up to it.
    ``distances`` are 1 at the end that was asked for. ``longest`` is the longest row, squared, and ``hessian`` that at
    the end, where it was reached, if they were asked for.
    """

    w: Array
    value: float
    loss: float
    gradient: Array
    trace: Array
    distances: Array
    evaluations: int
    longest: float
    hessian: Array | None = None


def lbfgs_points(
    block: Block,
    coordinates: tuple[Array, Array, Array | None],
    prior: tuple[Array, Array],
    preconditioner: tuple[Array | None, Array],
    w: Array,
    rules: LbfgsRules,
    *,
    measure: Array | None = None,
    free: Array | None = None,
    inverse: Array | None = None,
    slices: int = 1,
    hessian: bool = False,
    assist: Assist = alone,
) -> LbfgsPoints | None:
    """Run L-BFGS from ``w`` (C × P) until its end is reached, progress stalls, or a step fails.

    ``coordinates`` are the center of the columns (M), the units of the weights (P, the intercept first) and the
    contrasts against class 0 (C × C, or None); ``prior`` is the diagonal of its precision (P) and its mean (C × P);
    ``preconditioner`` the vectors (C × C, or None) and the diagonal (C × P) of ``V diag(d) Vᵀ``. ``measure`` (P) weighs
    the squares of the gradient in its norm, which otherwise is the preconditioner's. ``free`` (P) is 0 where a weight
    must stay 0; ``inverse`` (M) weighs the squares of the longest row. Rows are summed in ``slices``. With ``hessian``,
    that of two classes is formed at the end, the prior included.

    Returns None where there is no compiled kernel, or sums at ``w`` are not finite.
    """
    kernels = native.kernels()
    if kernels is None:
        return None
    C, size, points = len(w), w.size, rules.steps + 1
    center, unit, T = coordinates
    vectors, diagonal = preconditioner
    sums = np.zeros(size)
    numbers = np.empty(size + 6 * points)  # W and b, then the trace and the distances
    begin = int(numbers.__array_interface__["data"][0])
    at = [begin + 8 * k for k in (0, size - C, size, size + 5 * points)]
    kept = [np.ascontiguousarray(part, dtype=np.float64) for part in (center, unit, prior[0], prior[1], diagonal)]
    maybe = [
        None if part is None else np.ascontiguousarray(part, dtype=np.float64)
        for part in (T, free, vectors, measure, inverse)
    ]
    x = np.array(w, dtype=np.float64)
    rows = DenseProblem.from_buffer_copy(dense_addresses(block, C))
    rows.C, rows.W, rows.b, rows.center, rows.inverse = C, at[0], at[1], address(kept[0]), address(maybe[4])
    rows.g = address(sums)
    H = np.empty((size, size)) if hessian else None
    problem = LbfgsProblem(
        ctypes.pointer(rows),
        slices,
        *(address(part) for part in (maybe[0], kept[1], kept[2], maybe[1], kept[3], maybe[2], kept[4], maybe[3], x)),
        at[2],
        at[3],
        *(rules.memory, rules.steps, rules.few, rules.relative),
        *(rules.near, rules.patience, rules.armijo, rules.rounding, rules.smallest, rules.halvings),
    )
    problem.hessians, problem.keeps, problem.cost, problem.H = rules.hessians, hessian, rules.cost, address(H)
    problem.team.helpers = 1  # counts those to come: they may join in the middle of the first pass
    assist(lambda: kernels("lbfgs", problem), lambda: kernels("team_help", problem.team))
    done = problem.points
    if not done:
        return None
    return LbfgsPoints(
        w=x.ravel(),
        value=problem.value,
        loss=rows.value,
        gradient=sums,
        trace=numbers[size : size + 5 * done].reshape(-1, 5),
        distances=numbers[size + 5 * points : size + 5 * points + done],
        evaluations=problem.evaluations,
        longest=rows.max_norm2,
        hessian=H if problem.keeps else None,
    )
