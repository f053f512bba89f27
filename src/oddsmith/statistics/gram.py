"""The centred Gram matrix of the columns and their products with the class indicators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.moments import TILE_ELEMENTS


@STATISTICS.register("gram")
@dataclass(frozen=True)
class Gram:
    """Centred second moments of ``Φ`` and of ``Φ`` with the one-of-K targets ``T``.

    ``weight = Σ s_n``, ``class_weight_k = Σ s_n T_nk``, ``mean = Σ s_n φ_n / weight``,
    ``PhiPhi_ij = Σ s_n (φ_ni − mean_i)(φ_nj − mean_j)``,
    ``PhiT_ik = Σ s_n (φ_ni − mean_i)(T_nk − class_weight_k / weight)``. Merged by Chan's rule.

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
        """Return the Gram matrix of no rows."""
        M, K = shape.M, shape.K
        return cls(0.0, np.zeros(K), np.zeros(M), np.zeros((M, M)), np.zeros((M, K)))

    @classmethod
    def of(cls, block: Block, params: Shape) -> Gram:
        """Return the Gram matrix of a block, tile by tile in float64; ``params`` is the shape."""
        total = cls.zero(params, params)
        step = max(64, TILE_ELEMENTS // max(1, block.n_columns))
        for start in range(0, block.n_rows, step):
            part = slice(start, min(start + step, block.n_rows))
            Z = block.Phi[part]
            Z = np.asarray(Z.toarray() if block.is_sparse else Z, dtype=np.float64)
            s = None if block.s is None else block.s[part]
            total = total.merge(_tile(Z, block.t[part], s, params.K))
        return total

    def merge(self, other: Gram) -> Gram:
        """Combine both by Chan's rule."""
        if self.weight == 0 or other.weight == 0:
            return other if self.weight == 0 else self
        weight = self.weight + other.weight
        delta = other.mean - self.mean
        delta_t = other.class_weight / other.weight - self.class_weight / self.weight
        cross = self.weight * (other.weight / weight)
        return Gram(
            weight,
            self.class_weight + other.class_weight,
            self.mean + delta * (other.weight / weight),
            self.PhiPhi + other.PhiPhi + cross * np.outer(delta, delta),
            self.PhiT + other.PhiT + cross * np.outer(delta, delta_t),
        )

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return the shape itself."""
        return [shape]


def _tile(Z: Array, t: Any, s: Array | None, K: int) -> Gram:
    weight = float(len(Z)) if s is None else float(s.sum())
    if weight <= 0:
        return Gram.zero(Shape(Z.shape[1], K), None)  # type: ignore[arg-type]
    base = Z[0]
    Z = Z - base
    class_weight = np.bincount(t, weights=s, minlength=K).astype(np.float64)
    mean = Z.mean(axis=0) if s is None else s @ Z / weight
    Z -= mean
    T = np.zeros((len(Z), K))
    T[np.arange(len(Z)), t] = 1.0
    T -= class_weight / weight
    if s is not None:
        root = np.sqrt(s)[:, None]
        Z *= root
        T *= root
    return Gram(weight, class_weight, base + mean, Z.T @ Z, Z.T @ T)
