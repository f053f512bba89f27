"""The centred Gram matrix of the columns and their products with the class indicators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.tiles import sums_by_class

TILE_BYTES = 1 << 20
SAMPLE_ROWS = 255
DENSE_ABOVE = 0.1


@STATISTICS.register("gram")
@dataclass(frozen=True, kw_only=True)
class Gram:
    """Centred second moments of ``Φ`` and of ``Φ`` with the one-of-K targets ``T``.

    ``weight = Σ s_n``, ``class_weight_k = Σ s_n T_nk``, ``mean = Σ s_n φ_n / weight``,
    ``PhiPhi_ij = Σ s_n (φ_ni − mean_i)(φ_nj − mean_j)``,
    ``PhiT_ik = Σ s_n (φ_ni − mean_i)(T_nk − class_weight_k / weight)``. Merged by Chan's rule.

    A block is read once: each tile of rows, minus a typical row of its block (unless that is zero), is copied to a
    buffer in the cache, and the remaining mean is removed from the sums at the end.

    >>> block = Block(np.array([[1.0], [3.0]]), np.array([0, 1], dtype=np.int32))
    >>> gram = Gram.of(block, Shape(1, 2))
    >>> gram.mean.tolist(), gram.PhiPhi.tolist(), gram.PhiT.tolist()
    ([2.0], [[2.0]], [[-1.0, 1.0]])
    """

    weight: float
    class_weight: Array
    mean: Array
    PhiPhi: Array
    PhiT: Array

    @classmethod
    def zero(cls, shape: Shape, params: Shape) -> Gram:
        M, K = shape.M, shape.K
        sizes = {"class_weight": K, "mean": M, "PhiPhi": (M, M), "PhiT": (M, K)}
        return cls(weight=0.0, **{name: np.zeros(size) for name, size in sizes.items()})

    @classmethod
    def of(cls, block: Block, params: Shape) -> Gram:
        """Return the Gram matrix of a block in float64; ``params`` is the shape, for its number of classes."""
        block = block.concrete()
        class_weight = np.bincount(block.t, weights=block.s, minlength=params.K).astype(np.float64)
        if not class_weight.any():
            return cls.zero(Shape(block.n_columns, params.K), params)
        is_sparse = block.is_sparse and block.X.nnz < DENSE_ABOVE * block.n_rows * block.n_columns
        base, PhiPhi, sums = (_sparse_sums if is_sparse else _dense_sums)(block, params.K)
        weight = float(class_weight.sum())
        rest = sums.sum(axis=1) / weight
        PhiT = sums - np.outer(rest, class_weight)
        PhiPhi -= weight * np.outer(rest, rest)
        # Rounding can leave a trace below zero where nothing varies.
        np.einsum("ii->i", PhiPhi)[:] = np.maximum(np.diag(PhiPhi), 0.0)
        return cls(weight=weight, class_weight=class_weight, mean=base + rest, PhiPhi=PhiPhi, PhiT=PhiT)

    def merge(self, other: Gram) -> Gram:
        if self.weight == 0 or other.weight == 0:
            return other if self.weight == 0 else self
        weight = self.weight + other.weight
        delta = other.mean - self.mean
        delta_t = other.class_weight / other.weight - self.class_weight / self.weight
        cross = self.weight * (other.weight / weight)
        return Gram(
            weight=weight,
            class_weight=self.class_weight + other.class_weight,
            mean=self.mean + delta * (other.weight / weight),
            PhiPhi=self.PhiPhi + other.PhiPhi + cross * np.outer(delta, delta),
            PhiT=self.PhiT + other.PhiT + cross * np.outer(delta, delta_t),
        )

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [shape]


def typical_row(block: Block) -> Array:
    """Return a row near the mean in each column, from some of the rows: zero if near enough, else a median.

    Zero is near enough if it lies between the quartiles: then the mean is at most about two standard deviations away. A
    median is a value of the data, so a constant column becomes exactly zero.

    >>> typical_row(Block(np.array([[1.0, -9.0], [5.0, 0.0], [100.0, 1.0]]), np.zeros(3, dtype=np.int32))).tolist()
    [5.0, 0.0]
    """
    inside = np.arange(block.n_rows) if block.s is None else np.flatnonzero(block.s)
    step = -(-len(inside) // SAMPLE_ROWS)
    rows = block.Phi.take(inside[::step]).dense()
    n = len(rows)
    low, middle, high = np.sort(rows, axis=0)[[n // 4, n // 2, n - 1 - n // 4]]
    return np.where((low <= 0.0) & (high >= 0.0), 0.0, middle)


def _dense_sums(block: Block, K: int) -> tuple[Array, Array, Array]:
    """Return a base row and, of the rows less it, the products with each other and the sums by class."""
    base = typical_row(block)
    M, Phi = block.n_columns, block.X
    step = max(256, TILE_BYTES // (8 * max(1, M)) // 16 * 16)
    by_columns = not block.is_sparse and Phi.flags.f_contiguous and not Phi.flags.c_contiguous
    buffer = np.empty((M, step)).T if by_columns else np.empty((step, M))
    # Rows that need neither moving, nor weights, nor more digits are used where they lie.
    in_place = not base.any() and block.s is None and Phi.dtype == np.float64
    PhiPhi, sums = np.zeros((M, M)), np.zeros((M, K))
    for start in range(0, block.n_rows, step):
        part = slice(start, min(start + step, block.n_rows))
        rows = Phi[part].toarray() if block.is_sparse else Phi[part]
        s = None if block.s is None else block.s[part]
        Z = rows if in_place else buffer[: len(rows)]
        if not in_place:
            _subtract(rows, base, Z)
        sums += sums_by_class(Z, block.t[part], s, K)
        if s is not None:
            Z *= np.sqrt(s)[:, None]
        PhiPhi += Z.T @ Z
    return base, PhiPhi, sums


def _subtract(rows: Array, base: Array, out: Array) -> None:
    """Write ``rows − base`` to ``out``, with several short rows per stride if they are contiguous."""
    M = len(base)
    together = 16 if M < 64 and len(rows) % 16 == 0 and len(rows) else 1
    if together > 1 and rows.flags.c_contiguous and out.flags.c_contiguous:
        rows, out, base = rows.reshape(-1, together * M), out.reshape(-1, together * M), np.tile(base, together)
    np.subtract(rows, base, out=out)


def _sparse_sums(block: Block, K: int) -> tuple[Array, Array, Array]:
    """Like `_dense_sums`, in time proportional to the number of nonzeros.

    Zeros must stay zeros, so only columns without zeros are shifted; in a column with zeros, the squared mean is at
    most n times the scatter, and their difference keeps enough digits.
    """
    X, s = block.X, block.s
    data = X.data.astype(np.float64)
    base = np.zeros(block.n_columns)
    full = np.bincount(X.indices, minlength=block.n_columns) == block.n_rows
    if full.any() and X.has_canonical_format:
        base[full] = typical_row(block)[full]
        data -= base[X.indices]
    Z = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    sums = sums_by_class(Z, block.t, s, K)
    if s is not None:
        data = data * np.repeat(s, np.diff(X.indptr))
    products = Z.T @ sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    return base, products.toarray(), sums
