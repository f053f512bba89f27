"""The loss of two classes at several weights at once: what a path of fits is judged by, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.numerics import Array, log1pexp
from oddsmith.rows.base import PRODUCTS, TILE_ELEMENTS, cache_ranges
from oddsmith.statistic import STATISTICS, Shape


@dataclass(frozen=True)
class LossesParams:
    """Weights ``W`` (k × M) and ``b`` (k) of k logistic models of two classes, on columns less ``center``."""

    W: Array
    b: Array
    center: Array


@STATISTICS.register("losses")
@dataclass(frozen=True)
class Losses:
    """``value_k = Σ s ℓ(t, b_k + w_kᵀ(φ − center) + offset)`` with ``ℓ = log(1 + exp(∓a))``, for k models at once.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> Losses.of(block, LossesParams(np.array([[0.0], [1.0]]), np.zeros(2), np.zeros(1))).value.round(4).tolist()
    [1.3863, 0.6265]
    """

    value: Array

    @classmethod
    def zero(cls, shape: Shape, params: LossesParams) -> Losses:
        return cls(np.zeros(len(params.b)))

    @classmethod
    def of(cls, block: Block, params: LossesParams) -> Losses:
        total = np.zeros(len(params.b))
        Phi = block.Phi.concrete()
        for start, stop in cache_ranges(*Phi.shape, PRODUCTS // TILE_ELEMENTS * len(params.b)):
            part = slice(start, stop)
            A = Phi.slice(start, stop).centred(params.center).activations(params.W.T) + params.b
            if block.offset is not None:
                A = A + block.offset[part, :1]
            loss = log1pexp(np.where(block.t[part, None] == 1, -A, A))
            total += loss.sum(axis=0) if block.s is None else block.s[part] @ loss
        return cls(total)

    def merge(self, other: Losses) -> Losses:
        return Losses(self.value + other.value)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [LossesParams(rng.normal(size=(3, shape.M)), rng.normal(size=3), rng.normal(size=shape.M))]
