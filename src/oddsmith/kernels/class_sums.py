"""Weights, totals, squares and products of dense rows by class, in one read by a compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.errors import InvalidInputError
from oddsmith.kernels import native
from oddsmith.kernels.native import MomentsProblem, address, contiguous, strided
from oddsmith.numerics import Array


def add_class_sums(
    block: Block,
    rank: npt.NDArray[np.intp],
    group: npt.NDArray[np.intp],
    seen: npt.NDArray[np.bool_],
    sums: tuple[Array, Array, Array, Array],
) -> bool:
    """Add to ``sums``, the base rows, weights, totals and squares (K × M) or products (G × M × M) of the classes.

    ``rank`` orders the classes so that those of a ``group`` are neighbours. The first row of a class that is not
    ``seen`` becomes its base, which is subtracted from its rows. Returns False where there are no compiled kernels.

    >>> sums = np.zeros((1, 1)), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1))
    >>> one = np.zeros(1, dtype=np.intp)
    >>> block = Block(np.array([[3.0], [5.0]]), np.zeros(2, dtype=np.int32))
    >>> if add_class_sums(block, one, one, np.zeros(1, dtype=bool), sums):
    ...     assert [part.ravel().tolist() for part in sums] == [[3.0], [2.0], [2.0], [4.0]]
    """
    kernels = native.kernels()
    if kernels is None:
        return False
    base, weight, total, products = sums
    order, groups = contiguous(rank, np.int64), contiguous(group, np.int64)
    squares, matrices = (products, None) if products.ndim == 2 else (None, products)
    problem, _held = _problem(block, len(weight))
    problem.G, problem.rank, problem.group, problem.seen = len(products), address(order), address(groups), address(seen)
    problem.base, problem.weight, problem.total = address(base), address(weight), address(total)
    problem.squares, problem.products = address(squares), address(matrices)
    kernels("moments", problem)
    return True


def centred_class_sums(block: Block, K: int, *, exact: bool, far: float) -> tuple[Array, Array, Array] | None:
    """Return the weight (K), the mean and the squares about it (K × M) of each class; None without compiled kernels.

    The rows are read a second time, about their mean, if that is ``exact`` or explains a share ``far`` of some squares.

    >>> block = Block(np.array([[3.0], [5.0]]), np.zeros(2, dtype=np.int32))
    >>> found = centred_class_sums(block, 1, exact=False, far=0.99)
    >>> found is None or [part.ravel().tolist() for part in found] == [[2.0], [4.0], [2.0]]
    True
    """
    kernels = native.kernels()
    if kernels is None:
        return None
    M = block.n_columns
    numbers = np.zeros(2 * K + 3 * K * M)  # whether a class was seen, weights, means, totals, squares
    at = address(numbers)
    assert at is not None
    problem, _held = _problem(block, K)
    problem.seen, problem.weight, problem.base = at, at + 8 * K, at + 16 * K
    problem.total, problem.squares = at + 8 * K * (2 + M), at + 8 * K * (2 + 2 * M)
    kernels("centred_moments", problem, exact, far)
    mean, squares = numbers[2 * K : K * (2 + M)], numbers[K * (2 + 2 * M) :]
    return numbers[K : 2 * K], mean.reshape(K, M), squares.reshape(K, M)


def _problem(block: Block, K: int) -> tuple[MomentsProblem, tuple[npt.NDArray[Any] | None, ...]]:
    """Return a problem with the arrays of a block alone, and these, which must stay alive."""
    X, s = strided(block.X), contiguous(block.s)
    t = contiguous(block.t, np.int32) if K > 1 else None
    if t is not None and len(t) and not (t.min() >= 0 and t.max() < K):
        raise InvalidInputError(f"Class codes go from {t.min()} to {t.max()}, expected 0 to {K - 1}.")
    (n, m), (row, column), size = X.shape, X.strides, X.itemsize
    rows = address(X), X.dtype == np.float32, n, m, row // size, column // size
    return MomentsProblem(*rows, address(t), address(s), K), (X, t, s)
