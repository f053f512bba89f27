"""Weights, totals, squares and products of dense rows by class, in one read by a compiled kernel."""

from __future__ import annotations

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
    X, s = strided(block.X), contiguous(block.s)
    t = contiguous(block.t, np.int32) if len(weight) > 1 else None
    if t is not None and len(t) and not (t.min() >= 0 and t.max() < len(weight)):
        raise InvalidInputError(f"Class codes go from {t.min()} to {t.max()}, expected 0 to {len(weight) - 1}.")
    order, groups = contiguous(rank, np.int64), contiguous(group, np.int64)
    squares, matrices = (products, None) if products.ndim == 2 else (None, products)
    problem = MomentsProblem(
        *(address(X), X.dtype == np.float32, *X.shape, *(stride // X.itemsize for stride in X.strides)),
        *(address(t), address(s), len(weight), len(products), address(order), address(groups)),
        *(address(seen), address(base), address(weight), address(total), address(squares), address(matrices)),
    )
    kernels("moments", problem)
    return True
