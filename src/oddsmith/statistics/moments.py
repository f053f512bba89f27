"""Class means and scatter, kept centred: what Gaussian models, Fisher's discriminant and scaling need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape

TILE_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class MomentsParams:
    """Number of classes (1 pools them all) and whether the scatter is a full matrix or its diagonal."""

    K: int
    scatter: Literal["full", "diagonal"] = "full"


@STATISTICS.register("moments")
@dataclass(frozen=True)
class Moments:
    """Weight, mean and centred scatter of each class.

    ``weight_k = Σ s_n``, ``mean_k = Σ s_n φ_n / weight_k``, ``scatter_k = Σ s_n (φ_n − mean_k)(φ_n − mean_k)ᵀ``
    over the rows of class k; shapes K, K × M, and K × M × M (``"full"``) or K × M (``"diagonal"``). The mean
    of a class without weight is 0.

    Parts are merged by Chan's rule, ``scatter = scatter_a + scatter_b + (w_a w_b / w) δ δᵀ`` with
    ``δ = mean_b − mean_a``, so a column of mean 1e8 and standard deviation 1 keeps its digits.

    >>> block = Block(np.array([[1e8], [1e8 + 2]]), np.zeros(2, dtype=np.int32))
    >>> Moments.of(block, MomentsParams(1)).scatter.tolist()
    [[[2.0]]]
    """

    weight: Array
    mean: Array
    scatter: Array

    @classmethod
    def zero(cls, shape: Shape, params: MomentsParams) -> Moments:
        """Return the moments of no rows."""
        K, M = params.K, shape.M
        scatter = np.zeros((K, M, M) if params.scatter == "full" else (K, M))
        return cls(np.zeros(K), np.zeros((K, M)), scatter)

    @classmethod
    def of(cls, block: Block, params: MomentsParams) -> Moments:
        """Return the moments of a block, tile by tile in float64."""
        total = cls.zero(Shape(block.n_columns, params.K), params)
        if block.is_sparse and params.scatter == "diagonal":
            return total.merge(_sparse_diagonal(block, params)) if block.n_rows else total
        step = max(64, TILE_ELEMENTS // max(1, block.n_columns))
        for start in range(0, block.n_rows, step):
            part = slice(start, min(start + step, block.n_rows))
            Z = block.Phi[part]
            Z = np.asarray(Z.toarray() if block.is_sparse else Z, dtype=np.float64)
            s = None if block.s is None else block.s[part]
            t = block.t[part] if params.K > 1 else None
            total = total.merge(_tile(Z, t, s, params))
        return total

    def merge(self, other: Moments) -> Moments:
        """Combine both by Chan's rule."""
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        delta = other.mean - self.mean
        # A class that one side lacks takes the other side's mean as it is, bit for bit.
        mean = np.where((self.weight > 0)[:, None], self.mean + share[:, None] * delta, other.mean)
        cross = (self.weight * share)[:, None]
        if self.scatter.ndim == 2:
            scatter = self.scatter + other.scatter + cross * delta**2
        else:
            outer = delta[:, :, None] * delta[:, None, :]
            scatter = self.scatter + other.scatter + cross[:, :, None] * outer
        return Moments(weight, mean, scatter)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return both forms of scatter, per class and pooled."""
        return [MomentsParams(shape.K), MomentsParams(shape.K, "diagonal"), MomentsParams(1, "diagonal")]


def _sparse_diagonal(block: Block, params: MomentsParams) -> Moments:
    """Centred moments of a CSR block in time proportional to its non-zeros."""
    X, K = block.Phi, params.K
    result = Moments.zero(Shape(block.n_columns, K), params)
    s = block.weights()
    t = block.t if K > 1 else np.zeros(block.n_rows, dtype=np.int32)
    row = np.repeat(np.arange(block.n_rows), np.diff(X.indptr))
    entry_class, entry_weight = t[row], s[row]
    cell = entry_class * block.n_columns + X.indices
    data = X.data.astype(np.float64, copy=False)
    weight = np.bincount(t, weights=s, minlength=K)
    safe = np.where(weight > 0, weight, 1.0)[:, None]

    def sums(values: Array) -> Array:
        return np.bincount(cell, weights=values, minlength=K * block.n_columns).reshape(K, -1)

    mean = sums(entry_weight * data) / safe
    deviation = data - mean.ravel()[cell]
    zeros = weight[:, None] - sums(entry_weight)
    scatter = sums(entry_weight * deviation**2) + np.maximum(zeros, 0.0) * mean**2
    result.weight[:], result.mean[:], result.scatter[:] = weight, mean, scatter
    return result


def _tile(Z: Array, t: Any, s: Array | None, params: MomentsParams) -> Moments:
    K, M = params.K, Z.shape[1]
    result = Moments.zero(Shape(M, K), params)
    for k in range(K) if t is None else np.unique(t):
        inside = slice(None) if t is None else t == k
        rows = Z[inside]
        weights = None if s is None else s[inside]
        total = float(len(rows)) if weights is None else float(weights.sum())
        if total <= 0:
            continue
        result.weight[k] = total
        # The first row is subtracted before summing: the mean of values near 1e8 then keeps its digits.
        base = rows[0]
        rows = rows - base
        mean = rows.mean(axis=0) if weights is None else weights @ rows / total
        rows -= mean
        result.mean[k] = base + mean
        if params.scatter == "diagonal":
            result.scatter[k] = np.einsum("nm,nm->m", rows, rows) if weights is None else weights @ rows**2
        elif weights is None:
            result.scatter[k] = rows.T @ rows
        else:
            rows *= np.sqrt(weights)[:, None]
            result.scatter[k] = rows.T @ rows
    return result
