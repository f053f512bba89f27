"""The first steps of Newton's method on a small dense table of two classes, in one call of a kernel."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.curvature import dense_addresses
from oddsmith.kernels.native import DenseProblem, NewtonProblem
from oddsmith.numerics import EPS, Array, SpdFactor


@dataclass(frozen=True)
class NewtonSums:
    """The loss at a point, the objective's gradient and Hessian, and the longest row (squared, if it was asked for)."""

    loss: float
    gradient: Array
    hessian: Array
    longest: float = 0.0


@dataclass(frozen=True, kw_only=True)
class NewtonSteps:
    """Where the steps end, and for each of them the objective, the loss, the gradient's norm and the decrement before.

    ``evaluations`` counts the passes over the rows; ``first`` is the one of these that the first step is from, 0 if its
    sums were known. ``sums`` are those at the end, None if they are not known; ``penalty`` is that of the prior there,
    ``factor`` that of the Hessian, if it has one, and ``next_step`` its solution for the gradient.
    """

    w: Array
    trace: Array
    evaluations: int
    first: int
    sums: NewtonSums | None
    penalty: float
    factor: SpdFactor | None
    next_step: Array


def newton_steps(
    block: Block,
    coordinates: tuple[Array, Array],
    prior: tuple[Array, Array],
    w: Array,
    *,
    steps: int,
    small: float,
    armijo: float,
    separated: tuple[float, float],
    inverse: Array | None = None,
    known: NewtonSums | None = None,
    rough: bool = False,
) -> NewtonSteps | None:
    """Take full Newton steps from ``w`` while the objective falls, until a decrement of ``small`` is due next.

    They also end where the squared decrements have ``separated`` ratios, three times in a row.

    ``coordinates`` are the center of the columns (M) and the units of the weights (P, the intercept first), ``prior``
    the diagonal of its precision and its mean (P each). ``known`` are the sums at ``w``; ``inverse`` (M) weighs the
    squares of the longest row. If ``rough``, Hessians are summed in single precision as long as steps are far from the
    optimum and no column nearly depends on others; values, gradients and the last Hessians never are. Returns None
    where there is no compiled kernel.
    """
    kernels = native.kernels()
    if kernels is None:
        return None
    P = len(w)
    S = P * P
    # Nine vectors (start, units, precisions, mean, centre, inverse, roots of the diagonal, step, gradient), three
    # matrices (Hessian, the same with unit diagonal, its factor) and the trace, in one array: to find where an array
    # begins takes long.
    numbers = np.zeros(9 * P + 3 * S + 4 * steps)
    numbers[: 5 * P - 1] = np.concatenate((w, coordinates[1], *prior, coordinates[0]))
    if inverse is not None:
        numbers[5 * P : 6 * P - 1] = inverse
    begin = int(numbers.__array_interface__["data"][0])
    at, matrix = range(begin, begin + 80 * P, 8 * P), begin + 72 * P
    rows = DenseProblem.from_buffer_copy(dense_addresses(block, 1))
    rows.C, rows.center, rows.g, rows.H = 1, at[4], at[8], matrix
    problem = NewtonProblem(
        *(ctypes.addressof(rows), at[1], at[2], at[3], at[0], matrix + 24 * S, None if inverse is None else at[5]),
        *(known is not None, steps, 0, 0, 0, small, armijo, 8.0 * EPS, *separated),
        *(at[6], at[7], matrix + 8 * S, matrix + 16 * S),
        rough=rough,
    )
    (diagonal, step, gradient), matrices = numbers[6 * P : 9 * P].reshape(3, P), numbers[9 * P : 9 * P + 3 * S]
    hessian, scaled, lower = matrices.reshape(3, P, P)
    if known is not None:
        rows.value = known.loss
        gradient[:], hessian[:] = known.gradient, known.hessian
    kernels("newton", problem)
    factor = SpdFactor.known(lower.T, diagonal, scaled, problem.floor, problem.condition) if problem.factored else None
    return NewtonSteps(
        w=numbers[:P].copy(),
        trace=numbers[9 * P + 3 * S :][: 4 * problem.done].reshape(-1, 4),
        evaluations=problem.evaluations,
        first=int(known is None),
        sums=NewtonSums(rows.value, gradient, hessian, rows.max_norm2) if problem.ended else None,
        penalty=problem.penalty,
        factor=factor,
        next_step=step,
    )
