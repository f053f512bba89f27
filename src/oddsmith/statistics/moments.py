"""Class means and centred scatter, for Gaussian models, Fisher's discriminant and scaling."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.kernels.class_sums import add_class_sums, centred_class_sums
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.tiles import ClassTile, Codes, sorted_tiles

SMALL_BLOCK = 1 << 15
BLAS_COLUMNS = 256  # Columns up to which the compiled products are faster than those of BLAS.
SPARSE_SHARE = 32
"""Entries for each that is not zero from which sparse products pay: 2,000 × 200 with 5 a row took as long as dense
ones, 20,000 × 640 with 20 a row a third, 20,000 × 3,000 with 8 a row a sixtieth."""
FAR = 0.99  # Share of raw squares explained by the mean from which rows are centred again: at most two digits are lost.


@dataclass(frozen=True)
class MomentsParams:
    """The number of classes (1 treats all rows as one class), and which part of the scatter to keep.

    ``"full"`` keeps a matrix for each class, ``"pooled"`` one for all classes (their sum, about the class means),
    ``"diagonal"`` the diagonals of ``"full"``. With ``groups`` (class → group 0 … G−1) there is a matrix for each
    group, the sum over its classes.

    >>> MomentsParams(3, "pooled").group.tolist(), MomentsParams(3, groups=(0, 1, 0)).G
    ([0, 0, 0], 2)
    """

    K: int
    scatter: Literal["full", "pooled", "diagonal"] = "full"
    groups: tuple[int, ...] | None = None

    @property
    def group(self) -> Codes:
        """The group of each class."""
        if self.groups is not None:
            return np.array(self.groups, dtype=np.intp)
        return np.zeros(self.K, dtype=np.intp) if self.scatter == "pooled" else np.arange(self.K)

    @property
    def G(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1


@STATISTICS.register("moments")
@dataclass(frozen=True)
class Moments:
    """Weight, mean and centred scatter of each class.

    ``weight_k = Σ s_n``, ``mean_k = Σ s_n φ_n / weight_k``, ``scatter_k = Σ s_n (φ_n − mean_k)(φ_n − mean_k)ᵀ``
    over the rows of class k; shapes K, K × M, and K × M × M (``"full"``) or K × M (``"diagonal"``). Where classes form
    groups, scatter is G × M × M, ``scatter_g = Σ_{k in g} scatter_k``; ``"pooled"`` is a single group, and ``group``
    says which class is in which. The mean of a class without weight is 0.

    Parts are merged by Chan's rule, ``scatter = scatter_a + scatter_b + (w_a w_b / w) δ δᵀ`` with
    ``δ = mean_b − mean_a``, so a column of mean 1e8 and standard deviation 1 keeps its digits.

    A block is read once: (1) a tile of rows is copied to the cache, sorted by class; (2) the first row of its class is
    subtracted from each; (3) sums and products are accumulated; and (4) the remaining mean is removed at the end. Only
    if that remainder dominates the sums is the block read again with better centres.

    >>> block = Block(np.array([[1e8], [1e8 + 2]]), np.zeros(2, dtype=np.int32))
    >>> Moments.of(block, MomentsParams(1)).scatter.tolist()
    [[[2.0]]]
    """

    weight: Array
    mean: Array
    scatter: Array
    group: Codes

    @classmethod
    def zero(cls, shape: Shape, params: MomentsParams) -> Moments:
        K, M = params.K, shape.M
        scatter = np.zeros((K, M) if params.scatter == "diagonal" else (params.G, M, M))
        return cls(np.zeros(K), np.zeros((K, M)), scatter, params.group)

    @classmethod
    def of(cls, block: Block, params: MomentsParams) -> Moments:
        block = block.concrete()
        if block.is_sparse and params.scatter == "diagonal":
            return cls(*sparse_diagonal(block, params.K), params.group)
        if block.is_sparse and SPARSE_SHARE * block.X.nnz < block.n_rows * block.n_columns:
            return cls(*sparse_scatter(block, params), params.group)
        # Few rows are centred exactly: that costs nothing, and rank deficiency is then plain to see.
        exact = block.n_rows * block.n_columns <= SMALL_BLOCK
        if params.scatter == "diagonal" and (found := centred_class_sums(block, params.K, exact=exact, far=FAR)):
            return cls(*found, params.group)
        # NaN and infinity end up in the sums, where they are looked for.
        with np.errstate(invalid="ignore", over="ignore"):
            sums = _Sums(block, params)
            if sums.is_far() or exact:
                sums = _Sums(block, params, sums.base + sums.rest)
            return cls(sums.weight, sums.base + sums.rest, sums.scatter(), params.group)

    def merge(self, other: Moments) -> Moments:
        weight, more = self.weight[:, None], other.weight[:, None]
        mean, delta, cross = merged_means(weight, self.mean, more, other.mean)
        between = _by_group(delta, cross[:, 0], self.group, self.scatter)
        return Moments(self.weight + other.weight, mean, self.scatter + other.scatter + between, self.group)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        groups = tuple(k % 2 for k in range(shape.K))
        forms = [MomentsParams(shape.K, form) for form in ("full", "pooled", "diagonal")]
        others = [MomentsParams(shape.K, groups=groups), MomentsParams(1, "diagonal"), MomentsParams(1)]
        return [*forms, *others]


def merged_means(weight: Array, mean: Array, more: Array, others: Array) -> tuple[Array, Array, Array]:
    """Return the mean of two parts by Chan's rule, the difference δ of their means, and the weight of δ² in scatter.

    >>> merged_means(np.array([1.0]), np.array([0.0]), np.array([3.0]), np.array([4.0]))
    (array([3.]), array([4.]), array([0.75]))
    """
    total = weight + more
    share = np.divide(more, total, out=np.zeros_like(total), where=total > 0)
    delta = others - mean
    # A class that one side lacks takes the other side's mean as it is, bit for bit.
    return np.where(weight > 0, mean + share * delta, others), delta, weight * share


def _by_group(delta: Array, weight: Array, group: Codes, like: Array) -> Array:
    """Return ``Σ_{k in g} weight_k δ_k δ_kᵀ`` for each group, in the form of the scatter ``like``."""
    if like.ndim == 2:
        return np.asarray(weight[:, None] * delta**2)
    # A root on both sides keeps the products symmetric to the bit.
    half = np.sqrt(weight)[:, None] * delta
    result = np.empty_like(like)
    for g in range(len(like)):
        inside = half[group == g]
        result[g] = inside.T @ inside
    return result


class _Sums:
    """Weight, ``Σ s z`` and ``Σ s z zᵀ`` of the rows of a block, ``z = φ − base`` with a base row for each class."""

    def __init__(self, block: Block, params: MomentsParams, base: Array | None = None) -> None:
        K, M = params.K, block.n_columns
        zero = Moments.zero(Shape(M, K), params)
        self.group, self.weight, self.total, self.products = params.group, zero.weight, zero.mean, zero.scatter
        self.base = np.zeros((K, M)) if base is None else base
        seen = np.full(K, base is not None)
        # An order in which the classes of a group are neighbours, so that one product serves them all.
        rank = np.argsort(np.argsort(self.group, kind="stable"), kind="stable")
        narrow = self.products.ndim == 2 or M <= BLAS_COLUMNS
        if narrow and not block.is_sparse and add_class_sums(block, rank, self.group, seen, self._arrays):
            return
        for tile in sorted_tiles(block, K, rank):  # 1
            new = ~seen[tile.klass]
            self.base[tile.klass[new]], seen[tile.klass] = tile.Z[tile.first[new]], True
            tile.subtract(self.base)  # 2
            self._add(tile)  # 3

    @property
    def _arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.base, self.weight, self.total, self.products

    def _add(self, tile: ClassTile) -> None:
        self.weight[tile.klass] += tile.weights()
        self.total[tile.klass] += tile.sums(tile.Z)
        if self.products.ndim == 2:
            self.products[tile.klass] += tile.sums(tile.Z * tile.Z)
            return
        Z = tile.Z
        if tile.s is not None:
            Z *= np.sqrt(tile.s)[:, None]
        group = self.group[tile.klass]
        edges = np.flatnonzero(np.diff(group, prepend=-1))
        for g, (start, stop) in zip(group[edges], pairwise([*tile.first[edges], len(Z)]), strict=True):
            inside = Z[start:stop]
            self.products[g] += inside.T @ inside

    @property
    def rest(self) -> Array:
        """The class means relative to the base rows."""
        return np.asarray(self.total / np.where(self.weight > 0, self.weight, 1.0)[:, None])

    def is_far(self) -> bool:
        """Whether the distance between base and mean dominates the products."""
        between = _by_group(self.rest, self.weight, self.group, self.products)
        products = _diagonal(self.products)
        # A column that does not vary is exactly zero here, and one row of its class is its own mean.
        return bool(((_diagonal(between) > FAR * products) & (products > 0)).any())

    def scatter(self) -> Array:
        """Return the scatter about the mean (4)."""
        scatter = self.products - _by_group(self.rest, self.weight, self.group, self.products)
        diagonal = _diagonal(scatter)
        # Rounding can leave a trace below zero where nothing varies.
        np.maximum(diagonal, 0.0, out=diagonal)
        return scatter


def _diagonal(scatter: Array) -> Array:
    """Return a view of the diagonals, K × M or G × M."""
    return scatter if scatter.ndim == 2 else np.einsum("gii->gi", scatter)


def sparse_diagonal(block: Block, K: int) -> tuple[Array, Array, Array]:
    """Return weight, mean and diagonal scatter of a CSR block in time proportional to its non-zeros."""
    X, M = block.X, block.n_columns
    data = X.data.astype(np.float64, copy=False)
    entry_weight: Any
    if K == 1 and block.s is None:
        weight, cell, entry_weight = np.array([float(block.n_rows)]), X.indices.astype(np.intp), 1.0
    else:
        s, t = block.weights(), block.t if K > 1 else np.zeros(block.n_rows, dtype=np.int32)
        weight = np.bincount(t, weights=s, minlength=K).astype(np.float64)
        row = np.repeat(np.arange(block.n_rows), np.diff(X.indptr))
        cell, entry_weight = t[row].astype(np.int64) * M + X.indices, s[row]
    safe = np.where(weight > 0, weight, 1.0)[:, None]

    def sums(values: Any) -> Array:
        weights = None if np.isscalar(values) else values
        return np.bincount(cell, weights=weights, minlength=K * M).astype(np.float64).reshape(K, M)

    mean = sums(entry_weight * data) / safe
    deviation = data - mean.ravel()[cell]
    zeros = weight[:, None] - sums(entry_weight)
    scatter = sums(entry_weight * deviation**2) + np.maximum(zeros, 0.0) * mean**2
    return weight, mean, scatter


def sparse_scatter(block: Block, params: MomentsParams) -> tuple[Array, Array, Array]:
    """Return weight, mean and full scatter of a CSR block by products of the entries that are not zero.

    1. Columns that are mostly not zero in a class are made dense and centred.
    2. Their products with the others need no centred others: the weighted sum of a centred column is zero, up to the
       rounding of its mean.
    3. Products of the others are centred at the end. No digits are lost: at least half of such a column is zero, so
       its variance is at least half of its mean square.
    """
    weight, mean, _ = sparse_diagonal(block, params.K)
    scatter = Moments.zero(Shape(block.n_columns, params.K), params).scatter
    t, s = block.t if params.K > 1 else np.zeros(block.n_rows, dtype=np.int32), block.weights()
    for k in np.flatnonzero(weight > 0):
        rows = np.flatnonzero(t == k)
        X, own = sparse.csc_array(block.X[rows], dtype=np.float64), np.sqrt(s[rows])[:, None]
        X.data *= own[X.indices, 0]
        full = np.diff(X.indptr) > 0.5 * len(rows)
        into, often, others = scatter[params.group[k]], np.flatnonzero(full), np.flatnonzero(~full)
        Z, S = X[:, often].toarray() - own * mean[k, often], X[:, others]  # 1
        into[np.ix_(often, often)] += Z.T @ Z
        between = S.T @ Z - np.outer(mean[k, others], own[:, 0] @ Z)  # 2
        into[np.ix_(others, often)] += between
        into[np.ix_(often, others)] += between.T
        products = (S.T @ S).tocoo()  # 3
        np.add.at(into, (others[products.row], others[products.col]), products.data)
        half = np.sqrt(weight[k]) * mean[k, others]
        into[np.ix_(others, others)] -= np.outer(half, half)
    diagonal = _diagonal(scatter)
    np.maximum(diagonal, 0.0, out=diagonal)
    return weight, mean, scatter
