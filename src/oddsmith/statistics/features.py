"""Sums of single columns without missing values, for naive Bayes and diagonal Gaussians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.rows import as_rows
from oddsmith.statistic import STATISTICS, Additive, Shape
from oddsmith.statistics.moments import Moments, MomentsParams, merged_means
from oddsmith.statistics.tiles import sorted_tiles, sums_by_class

NEGATIVE, FRACTIONAL, NOT_BINARY = range(3)  # The rows of ``Features.outside``.


@dataclass(frozen=True, kw_only=True)
class FeaturesParams:
    """The number of classes, and how each column is summed (a column may be in several lists).

    ``moments`` and ``sums`` list columns (a range for all of them); ``levels`` lists pairs (column, number of levels).
    ``watch`` selects the rows of ``Features.outside`` to count; the others are 0.
    """

    K: int
    moments: Sequence[int] = ()
    sums: Sequence[int] = ()
    levels: tuple[tuple[int, int], ...] = ()
    watch: tuple[int, ...] = (NEGATIVE, FRACTIONAL, NOT_BINARY)


@STATISTICS.register("features")
@dataclass(frozen=True, kw_only=True)
class Features(Additive):
    """Class weights, and sums of single columns by class over the rows in which the column is not NaN.

    ``weight_k = Σ s_n 1[t_n = k]`` over all rows. For the columns j in ``moments`` (K × m each):
    ``observed_kj = Σ s_n``, ``mean_kj = Σ s_n φ_nj / observed_kj``, ``scatter_kj = Σ s_n (φ_nj − mean_kj)²``. For those
    in ``sums``: ``seen_kj = Σ s_n``, ``total_kj = Σ s_n φ_nj``, and ``outside``, 3 × m, the weight of values that are
    negative, not whole, neither 0 nor 1. For those in ``levels``: ``count_kl = Σ s_n 1[φ_nj = l]``, l = 0 … L_j − 1,
    column after column; other values count nowhere.

    Means and scatter are merged by Chan's rule, everything else is added.

    >>> block = Block(np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 1.0]]), np.zeros(3, dtype=np.int32))
    >>> stat = Features.of(block, FeaturesParams(K=2, moments=(0,), levels=((1, 2),)))
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
        K, m, n = params.K, len(params.moments), len(params.sums)
        sizes: dict[str, tuple[int, ...]] = {
            **{"weight": (K,), "observed": (K, m), "mean": (K, m), "scatter": (K, m)},
            **{"seen": (K, n), "total": (K, n), "outside": (3, n), "count": (K, sum(L for _, L in params.levels))},
        }
        return cls(**{name: np.zeros(size) for name, size in sizes.items()})

    @classmethod
    def of(cls, block: Block, params: FeaturesParams) -> Features:
        weight = np.bincount(block.t, weights=block.s, minlength=params.K).astype(np.float64)
        zero = cls.zero(Shape(block.n_columns, params.K), params)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = {**_moments(block, params), **_sums(block, params, weight)}
            return replace(zero, weight=weight, count=_levels(block, params), **sums)

    def merge(self, other: Features) -> Features:
        """Add everything, but merge means and scatter by Chan's rule."""
        mean, delta, cross = merged_means(self.observed, self.mean, other.observed, other.mean)
        added = super().merge(other)
        return replace(added, mean=mean, scatter=added.scatter + cross * delta**2)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        K, M = shape.K, shape.M
        every = range(M)
        one = FeaturesParams(K=K, moments=every, sums=every[-1:], levels=((M - 1, 3),), watch=(NEGATIVE,))
        return [one, FeaturesParams(K=K, moments=every[:1], sums=every, levels=((0, 2), (M - 1, 4)))]


def _columns(block: Block, columns: Sequence[int]) -> Block:
    """Return the block with some of its columns; the block itself if that is all of them."""
    if columns == range(block.n_columns):
        return block
    return Block(block.Phi.columns(columns), block.t, block.s, None, block.first_row)


def _moments(block: Block, params: FeaturesParams) -> dict[str, Array]:
    if not params.moments:
        return {}
    part = _columns(block, params.moments)
    form = MomentsParams(params.K, "diagonal")
    moments = Moments.of(part, form)
    observed = np.repeat(moments.weight[:, None], len(params.moments), axis=1)
    mean, scatter = moments.mean, moments.scatter
    # A missing value shows in the sums of its column: only such columns are summed again, without it.
    for j in np.flatnonzero(~np.isfinite(mean).all(axis=0)):
        x = part.Phi.columns([int(j)]).dense().ravel()
        there = ~np.isnan(x)
        s = None if block.s is None else block.s[there]
        again = Moments.of(Block(as_rows(x[there, None]), block.t[there], s), form)
        observed[:, j], mean[:, j], scatter[:, j] = again.weight, again.mean[:, 0], again.scatter[:, 0]
    return {"observed": observed, "mean": mean, "scatter": scatter}


def _sums(block: Block, params: FeaturesParams, weight: Array) -> dict[str, Array]:
    if not params.sums:
        return {}
    part = _columns(block, params.sums)
    sums = _sparse_sums(part, weight, params.watch) if block.is_sparse else _dense_sums(part, params.K, params.watch)
    return dict(zip(("seen", "total", "outside"), sums, strict=True))


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


def _sparse_sums(block: Block, weight: Array, watch: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Like `_dense_sums`, in time proportional to the number of nonzeros."""
    X, M, s = block.X, block.n_columns, block.weights()

    def by_class(values: Any) -> Array:
        Z = sparse.csr_array((values.astype(np.float64, copy=False), X.indices, X.indptr), shape=X.shape)
        return np.ascontiguousarray(sums_by_class(Z, block.t, s, len(weight)).T)

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
            seen -= by_class(missing)
            # What rounding leaves of a column that is missing throughout.
            seen[seen <= 1e-12 * weight[:, None]] = 0.0
    return seen, by_class(data), outside


def _levels(block: Block, params: FeaturesParams) -> Array:
    K = params.K
    parts = [np.zeros((K, 0))]
    for column, size in params.levels:
        x = block.Phi.columns([column]).dense().ravel()
        known = (x >= 0.0) & (x < size) & (x == np.floor(x))
        cell = block.t[known].astype(np.int64) * size + x[known].astype(np.int64)
        s = None if block.s is None else block.s[known]
        count = np.bincount(cell, weights=s, minlength=K * size).astype(np.float64)
        parts.append(count.reshape(K, size))
    return np.concatenate(parts, axis=1)
