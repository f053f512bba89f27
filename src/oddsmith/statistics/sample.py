"""A uniform sample of the rows that merges exactly, for learning centres, landmarks, widths and knots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics.tiles import TILE_ELEMENTS

Keys = npt.NDArray[np.uint64]

NOTHING = np.uint64(2**64 - 1)  # The key of a place that no row has taken.


@dataclass(frozen=True)
class SampleParams:
    """Maximum number of rows kept, and the seed of their hash.

    Rows are identified by their values before a transform (``by_origin``) or after it.
    """

    size: int
    seed: int = 0
    by_origin: bool = True


@STATISTICS.register("sample")
@dataclass(frozen=True)
class Sample:
    """The ``size`` distinct rows whose values have the smallest hash, each with the weight of all rows equal to it.

    A row's key depends only on its values (before a transform) and the seed, and behaves like a random number. So the
    rows in the sample of the whole are in the samples of the parts, samples merge exactly, and neither the order of the
    rows nor their blocks matter; rows need no numbers. Each *distinct* row is equally likely to be kept, and ``weight``
    counts its occurrences. If there are at most ``size`` distinct rows, the sample contains all of them.

    ``keys`` (sorted), ``rows`` and ``weight`` have the shapes k, k × M and k with k = size, for any number of rows:
    unused places come last, with weight 0. Cost: O(n M) for n rows, not counting the zeros of CSR rows.

    >>> block = Block(np.array([[1.0], [2.0], [1.0]]), np.zeros(3, dtype=np.int32))
    >>> sample = Sample.of(block, SampleParams(4))
    >>> sorted(zip(sample.found[0].ravel().tolist(), sample.found[1].tolist()))
    [(1.0, 2.0), (2.0, 1.0)]
    """

    keys: Keys
    rows: Array
    weight: Array

    @property
    def found(self) -> tuple[Array, Array]:
        """The rows that were kept and their weights, in the order of their keys."""
        taken = self.keys < NOTHING
        return self.rows[taken], self.weight[taken]

    @classmethod
    def zero(cls, shape: Shape, params: SampleParams) -> Sample:
        k = params.size
        return cls(np.full(k, NOTHING), np.zeros((k, shape.M)), np.zeros(k))

    @classmethod
    def of(cls, block: Block, params: SampleParams) -> Sample:
        inside = np.arange(block.n_rows) if block.s is None else np.flatnonzero(block.s > 0)
        known_by = block.Phi.origin if params.by_origin else block.Phi
        keys = _hash(known_by.concrete().X, params.seed)[inside]
        keys, first, weight = _smallest(keys, block.weights()[inside], params.size)
        return cls._padded(keys, block.Phi.take(inside[first]).dense(), weight, params.size)

    def merge(self, other: Sample) -> Sample:
        """Return the smallest keys of both; the weights of common rows add up."""
        keys = np.concatenate([self.keys, other.keys])
        taken = np.flatnonzero(keys < NOTHING)
        weight = np.concatenate([self.weight, other.weight])
        keys, first, weight = _smallest(keys[taken], weight[taken], len(self.keys))
        return self._padded(keys, np.concatenate([self.rows, other.rows])[taken[first]], weight, len(self.keys))

    @classmethod
    def _padded(cls, keys: Keys, rows: Array, weight: Array, k: int) -> Sample:
        result = cls.zero(Shape(rows.shape[1], 1), SampleParams(k))
        result.keys[: len(keys)], result.rows[: len(keys)], result.weight[: len(keys)] = keys, rows, weight
        return result

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [SampleParams(3), SampleParams(64), SampleParams(8, seed=int(rng.integers(2**32)))]


def _smallest(keys: Keys, weight: Array, k: int) -> tuple[Keys, npt.NDArray[np.intp], Array]:
    """Return the k smallest distinct keys, the first occurrence of each, and the total weight of equal rows."""
    count, n = 2 * k, len(keys)
    while True:
        # Equal rows share a key, so the smallest keys are looked for among more and more of them.
        inside = np.flatnonzero(keys <= np.partition(keys, count)[count]) if count < n else np.arange(n)
        order = inside[np.argsort(keys[inside])]
        ordered = keys[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(order) else order
        if len(first) >= k or len(inside) == n:
            total = np.add.reduceat(weight[order], first) if len(order) else weight[:0]
            return ordered[first[:k]], order[first[:k]], total[:k]
        count *= 4


def _hash(Phi: Any, seed: int) -> Keys:
    """Return a key for each row: the mixed sum of its mixed values. Zeros do not count, so CSR rows agree."""
    n, M = Phi.shape
    start = _mixed(np.array([seed % 2**64], dtype=np.uint64))
    salt = np.arange(M, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
    keys = np.zeros(n, dtype=np.uint64)
    if sparse.issparse(Phi):
        sums = np.concatenate([[np.uint64(0)], np.cumsum(_parts(Phi.data, salt[Phi.indices]), dtype=np.uint64)])
        # Differences of sums that have run over are right modulo 2⁶⁴.
        keys = sums[Phi.indptr[1:]] - sums[Phi.indptr[:-1]]
    else:
        step = max(64, TILE_ELEMENTS // max(1, M))
        for i in range(0, n, step):
            keys[i : i + step] = _parts(Phi[i : i + step], salt).sum(axis=1, dtype=np.uint64)
    return np.minimum(_mixed(keys + start), NOTHING - np.uint64(1))


def _parts(values: Any, salt: Keys) -> Keys:
    # The sum with 0.0 makes a new array, and one zero of −0.0 and 0.0.
    bits = np.ascontiguousarray(np.add(values, 0.0, dtype=np.float64)).view(np.uint64)
    return np.where(bits == 0, np.uint64(0), _mixed(bits ^ salt))


def _mixed(z: Keys) -> Keys:
    """Return Stafford's 64-bit mix (as in splitmix64), in which every input bit affects every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
