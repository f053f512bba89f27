"""Sums of each column by itself, missing values left out: what naive Bayes and diagonal Gaussians need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.rows import as_rows
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.moments import Moments, MomentsParams
from oddsmith.statistics.tiles import sorted_tiles

NEGATIVE, FRACTIONAL, NOT_BINARY = range(3)
"""The rows of ``Features.outside``."""

FEW_DENSE = 16
"""Classes up to which indicators are a dense matrix."""


@dataclass(frozen=True)
class FeaturesParams:
    """Number of classes, and which columns are summed how (a column may be in several lists).

    ``moments`` and ``sums`` list columns (a range, where that is all of them); ``levels`` lists pairs (column, number
    of levels). ``watch`` says which rows of ``Features.outside`` are counted, the others are 0. ``large`` chooses the
    compiled kernels.
    """

    K: int
    moments: Sequence[int] = ()
    sums: Sequence[int] = ()
    levels: tuple[tuple[int, int], ...] = ()
    watch: tuple[int, ...] = (NEGATIVE, FRACTIONAL, NOT_BINARY)
    large: bool = False


@STATISTICS.register("features")
@dataclass(frozen=True)
class Features:
    """Class weights, and sums of single columns by class over the rows in which the column is not NaN.

    ``weight_k = Σ s_n 1[t_n = k]`` over all rows. For the columns j in ``moments`` (K × m each):
    ``observed_kj = Σ s_n``, ``mean_kj = Σ s_n φ_nj / observed_kj``, ``scatter_kj = Σ s_n (φ_nj − mean_kj)²``. For those
    in ``sums``: ``seen_kj = Σ s_n``, ``total_kj = Σ s_n φ_nj``, and ``outside``, 3 × m, the weight of values that are
    negative, not whole, neither 0 nor 1. For those in ``levels``: ``count_kl = Σ s_n 1[φ_nj = l]``, l = 0 … L_j − 1,
    column after column; other values count nowhere.

    Means and scatter are merged by Chan's rule, everything else is added.

    >>> block = Block(np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 1.0]]), np.zeros(3, dtype=np.int32))
    >>> stat = Features.of(block, FeaturesParams(2, moments=(0,), levels=((1, 2),)))
    >>> stat.weight.tolist(), stat.observed.tolist(), stat.mean.tolist(), stat.count.tolist()
    ([3.0, 0.0], [[2.0], [0.0]], [[2.0], [0.0]], [[1.0, 2.0], [0.0, 0.0]])
    """

    weight: Array
    observed: Array
    mean: Array
    scatter: Array
    seen: Array
    total: Array
    outside: Array
    count: Array

    @classmethod
    def zero(cls, shape: Shape, params: FeaturesParams) -> Features:
        """Return the sums over no rows."""
        K, m, n = params.K, len(params.moments), len(params.sums)
        L = sum(size for _, size in params.levels)
        sizes = [(K,), (K, m), (K, m), (K, m), (K, n), (K, n), (3, n), (K, L)]
        return cls(*map(np.zeros, sizes))

    @classmethod
    def of(cls, block: Block, params: FeaturesParams) -> Features:
        """Return the sums over a block, in float64."""
        K = params.K
        weight = np.bincount(block.t, weights=block.s, minlength=K).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            return cls(weight, *_moments(block, params), *_sums(block, params, weight), _levels(block, params))

    def merge(self, other: Features) -> Features:
        """Combine both."""
        observed = self.observed + other.observed
        share = np.divide(other.observed, observed, out=np.zeros_like(observed), where=observed > 0)
        delta = other.mean - self.mean
        # A class that one side lacks takes the other side's mean as it is, bit for bit.
        mean = np.where(self.observed > 0, self.mean + share * delta, other.mean)
        return Features(
            self.weight + other.weight,
            observed,
            mean,
            self.scatter + other.scatter + self.observed * share * delta**2,
            self.seen + other.seen,
            self.total + other.total,
            self.outside + other.outside,
            self.count + other.count,
        )

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return all columns by their moments, or by their sums, with some of the other kinds."""
        K, M = shape.K, shape.M
        every = range(M)
        return [
            FeaturesParams(K, moments=every, sums=every[-1:], levels=((M - 1, 3),), watch=(NEGATIVE,)),
            FeaturesParams(K, moments=every[:1], sums=every, levels=((0, 2), (M - 1, 4)), large=True),
        ]


def _columns(block: Block, columns: Sequence[int]) -> Block:
    """Return the block with some of its columns; the block itself if that is all of them."""
    if columns == range(block.n_columns):
        return block
    return Block(block.Phi.columns(columns), block.t, block.s, None, block.first_row)


def _values(block: Block, column: int) -> Array:
    """Return one column as float64."""
    return block.Phi.columns([column]).dense().ravel()


def _moments(block: Block, params: FeaturesParams) -> tuple[Array, Array, Array]:
    if not params.moments:
        none = np.zeros((params.K, 0))
        return none, none, none
    part = _columns(block, params.moments)
    form = MomentsParams(params.K, "diagonal", large=params.large)
    moments = Moments.of(part, form)
    observed = np.repeat(moments.weight[:, None], len(params.moments), axis=1)
    mean, scatter = moments.mean, moments.scatter
    # A missing value shows in the sums of its column: only such columns are summed again, without it.
    for j in np.flatnonzero(~np.isfinite(mean).all(axis=0)):
        x = _values(part, int(j))
        there = ~np.isnan(x)
        s = None if block.s is None else block.s[there]
        again = Moments.of(Block(as_rows(x[there, None]), block.t[there], s), form)
        observed[:, j], mean[:, j], scatter[:, j] = again.weight, again.mean[:, 0], again.scatter[:, 0]
    return observed, mean, scatter


def _sums(block: Block, params: FeaturesParams, weight: Array) -> tuple[Array, Array, Array]:
    K, m = params.K, len(params.sums)
    if not m:
        return np.zeros((K, 0)), np.zeros((K, 0)), np.zeros((3, 0))
    part = _columns(block, params.sums)
    if block.is_sparse:
        return _sparse_sums(part, K, weight, params.watch)
    return _dense_sums(part, K, params.watch)


def _dense_sums(block: Block, K: int, watch: tuple[int, ...]) -> tuple[Array, Array, Array]:
    M = block.n_columns
    seen, total, outside = np.zeros((K, M)), np.zeros((K, M)), np.zeros((3, M))
    for tile in sorted_tiles(block, K):
        Z, there = tile.Z, tile.weights()[:, None]
        if not _all_inside(Z, watch):
            missing = np.isnan(Z)
            if missing.any():
                Z[missing] = 0.0
                there = tile.sums((~missing).astype(np.float64))
            for mark in watch:
                bad = _is_outside(Z, mark)
                outside[mark] += bad.sum(axis=0) if tile.s is None else tile.s @ bad
        seen[tile.klass] += there
        total[tile.klass] += tile.sums(Z)
    return seen, total, outside


def _all_inside(values: Array, watch: tuple[int, ...]) -> bool:
    """Whether no value is missing or of a kind that is watched."""
    if NOT_BINARY in watch:
        return bool(((values == 0.0) | (values == 1.0)).all())
    low = values.min(initial=0.0)  # NaN, if there is one
    return bool(low >= 0.0) and (FRACTIONAL not in watch or bool((values == np.floor(values)).all()))


def _is_outside(values: Array, mark: int) -> Any:
    if mark == NEGATIVE:
        return values < 0.0
    return values != np.floor(values) if mark == FRACTIONAL else (values != 0.0) & (values != 1.0)


def _sparse_sums(block: Block, K: int, weight: Array, watch: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """As `_dense_sums`, in time proportional to the non-zeros."""
    X, M = block.X, block.n_columns
    s = block.weights()
    data = X.data.astype(np.float64, copy=False)
    seen, outside = np.repeat(weight[:, None], M, axis=1), np.zeros((3, M))
    if not _all_inside(data, watch):
        # A row of weight 0 is not there, whatever it holds.
        entry_weight = np.repeat(s, np.diff(X.indptr))
        missing = np.isnan(data)
        data = np.where(missing | (entry_weight == 0), 0.0, data)
        for mark in watch:
            bad = _is_outside(data, mark)
            if bad.any():
                outside[mark] = np.bincount(X.indices[bad], entry_weight[bad], M)
        if missing.any():
            seen -= _sum_by_class(X, missing, block.t, s, K)
            # What rounding leaves of a column that is missing throughout.
            seen[seen <= 1e-12 * weight[:, None]] = 0.0
    return seen, _sum_by_class(X, data, block.t, s, K), outside


def _sum_by_class(X: Any, values: Any, t: Any, s: Array, K: int) -> Array:
    """Return the weighted sums by class (K × M) of a CSR matrix with the non-zeros of X and other values."""
    Z = sparse.csr_array((values.astype(np.float64, copy=False), X.indices, X.indptr), shape=X.shape)
    if K == 1:
        return np.asarray(Z.T @ s, dtype=np.float64)[None]
    if K > FEW_DENSE:
        T = sparse.csr_array((s, t, np.arange(len(t) + 1)), shape=(len(t), K))
        return np.asarray((T.T @ Z).toarray())
    T = (t[:, None] == np.arange(K)) * s[:, None]
    return np.ascontiguousarray((Z.T @ T).T)


def _levels(block: Block, params: FeaturesParams) -> Array:
    K = params.K
    parts = [np.zeros((K, 0))]
    for column, size in params.levels:
        x = _values(block, column)
        known = (x >= 0.0) & (x < size) & (x == np.floor(x))
        cell = block.t[known].astype(np.int64) * size + x[known].astype(np.int64)
        s = None if block.s is None else block.s[known]
        count = np.bincount(cell, weights=s, minlength=K * size).astype(np.float64)
        parts.append(count.reshape(K, size))
    return np.concatenate(parts, axis=1)
