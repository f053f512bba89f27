"""The loss of a likelihood at given weights, with its gradient and Hessian, and losses at several weights at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal
from oddsmith.kernels import curvature as kernels
from oddsmith.kernels import native
from oddsmith.kernels.reference import CurvatureParams
from oddsmith.links import LINKS
from oddsmith.numerics import Array, log1pexp
from oddsmith.protocols import Indices
from oddsmith.rows import DenseRows
from oddsmith.rows.base import PRODUCTS, TILE_ELEMENTS, cache_ranges
from oddsmith.statistic import STATISTICS, Additive, Shape


@STATISTICS.register("curvature")
@dataclass(frozen=True, kw_only=True)
class Curvature:
    """``value = Σ s ℓ``, ``gradient_k = Σ s ∂ℓ/∂a_k (1, z)``, ``hessian_jk = Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``.

    ``z = φ − center``; the intercept comes first, class after class. ``rows`` counts the rows of positive weight.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> params = CurvatureParams(W=np.zeros((1, 1)), b=np.zeros(1), center=np.zeros(1))
    >>> Curvature.of(block, params).gradient.tolist()
    [[0.0, -1.0]]
    """

    rows: int
    value: float
    gradient: Array
    hessian: Array | BorderedDiagonal | None
    longest: float = 0.0

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> Curvature:
        C, P = params.size
        hessian = params.zero_hessian() if params.order >= 2 else None
        return cls(rows=0, value=0.0, gradient=np.zeros((C, P)), hessian=hessian)

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> Curvature:
        rows = block.n_rows if block.s is None else int(np.count_nonzero(block.s))
        value, gradient, hessian, longest = kernels.curvature(block, params)
        return cls(rows=rows, value=value, gradient=gradient, hessian=hessian, longest=longest)

    def merge(self, other: Curvature) -> Curvature:
        one: Any = self.hessian  # both are of one type
        hessian = None if one is None or other.hessian is None else one + other.hessian
        return Curvature(
            rows=self.rows + other.rows,
            value=self.value + other.value,
            gradient=self.gradient + other.gradient,
            hessian=hessian,
            longest=max(self.longest, other.longest),
        )

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        examples = [_example(shape, rng, order) for order in (1, 2)]
        if shape.K == 2:
            examples += [replace(examples[1], link=LINKS["probit"], expected=expected) for expected in (False, True)]
        return examples


@STATISTICS.register("curvature product")
@dataclass(frozen=True)
class CurvatureProduct(Additive):
    """``product = H v``: the Hessian of `Curvature` times a direction, without forming it (C × (M + 1)).

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> at = CurvatureParams(W=np.zeros((1, 1)), b=np.zeros(1), center=np.zeros(1), V=np.ones((1, 1)), v=np.zeros(1))
    >>> CurvatureProduct.of(block, at).product.tolist()
    [[0.0, 0.5]]
    """

    product: Array

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> CurvatureProduct:
        return cls(np.zeros(params.size))

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> CurvatureProduct:
        return cls(kernels.curvature_product(block, params))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [_example(shape, rng, 1)]


class OwnProduct(CurvatureProduct):
    """As `CurvatureProduct`, but a merge adds to the first product where it is: nobody else holds it."""

    def merge(self, other: CurvatureProduct) -> OwnProduct:
        np.add(self.product, other.product, out=self.product)
        return self


@STATISTICS.register("curvature diagonal")
@dataclass(frozen=True)
class CurvatureDiagonal(Additive):
    """``diagonal_k = Σ s ∂²ℓ/∂a_k² (1, z²)``: the diagonal of the Hessian of `Curvature` (C × (M + 1)).

    ``cross_k = Σ s ∂²ℓ/∂a_k² (1, z)`` is its row of the intercept of class k, among that class's weights.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> params = CurvatureParams(W=np.zeros((1, 1)), b=np.zeros(1), center=np.zeros(1))
    >>> CurvatureDiagonal.of(block, params).diagonal.tolist()
    [[0.5, 0.5]]
    """

    diagonal: Array
    cross: Array

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> CurvatureDiagonal:
        return cls(np.zeros(params.size), np.zeros(params.size))

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> CurvatureDiagonal:
        return cls(*kernels.curvature_diagonal(block, params))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [_example(shape, rng, 1)]


@dataclass(frozen=True)
class LossesParams:
    """Weights ``W`` (k × M) and ``b`` (k) of k logistic models of two classes, on columns less ``center``.

    ``members`` are the coordinates over which the Hessian of each is asked for, 0 for the intercept.
    """

    W: Array
    b: Array
    center: Array
    members: tuple[Indices, ...] = ()

    @property
    def models(self) -> CurvatureParams:
        """The weights as kernels take them."""
        return CurvatureParams(W=self.W, b=self.b, center=self.center)


@STATISTICS.register("losses")
@dataclass(frozen=True)
class Losses(Additive):
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
        total, Phi = np.zeros(len(params.b)), block.Phi.concrete()
        if isinstance(Phi, DenseRows) and native.kernels() is not None:
            return cls(kernels.models(block, params.models, slopes=False)[0])
        for start, stop in cache_ranges(*Phi.shape, PRODUCTS // TILE_ELEMENTS * len(params.b)):
            part = slice(start, stop)
            A = Phi.slice(start, stop).centred(params.center).activations(params.W.T) + params.b
            if block.offset is not None:
                A = A + block.offset[part, :1]
            loss = log1pexp(np.where(block.t[part, None] == 1, -A, A))
            total += loss.sum(axis=0) if block.s is None else block.s[part] @ loss
        return cls(total)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [LossesParams(rng.normal(size=(3, shape.M)), rng.normal(size=3), rng.normal(size=shape.M))]


@STATISTICS.register("gradients")
@dataclass(frozen=True)
class Gradients(Additive):
    """``value_k`` as in `Losses`, and ``gradient_k = Σ s ∂ℓ/∂a (1, φ − center)``, for k models in one reading.

    ``hessian`` holds ``Σ s ∂²ℓ/∂a² (1, φ − center)(1, φ − center)ᵀ`` over the ``members`` of each, one after the other.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> at = LossesParams(np.array([[0.0], [1.0]]), np.zeros(2), np.zeros(1), (np.array([0]), np.array([0, 1])))
    >>> Gradients.of(block, at).gradient.round(4).tolist()
    [[0.0, -1.0], [0.0, -0.5379]]
    >>> Gradients.of(block, at).hessian.round(4).tolist()
    [0.5, 0.3932, 0.0, 0.0, 0.3932]
    """

    value: Array
    gradient: Array
    hessian: Array

    @classmethod
    def zero(cls, shape: Shape, params: LossesParams) -> Gradients:
        k, M = params.W.shape
        return cls(np.zeros(k), np.zeros((k, M + 1)), np.zeros(sum(len(each) ** 2 for each in params.members)))

    @classmethod
    def of(cls, block: Block, params: LossesParams) -> Gradients:
        return cls(*kernels.models(block, params.models, members=params.members))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        plain = LossesParams(rng.normal(size=(3, shape.M)), rng.normal(size=3), rng.normal(size=shape.M))
        return [plain, replace(plain, members=tuple(np.arange(first, shape.M + 1) for first in (0, 1, shape.M)))]


def _example(shape: Shape, rng: np.random.Generator, order: int) -> CurvatureParams:
    C = max(1, shape.K - 1)
    W, V = rng.normal(size=(2, C, shape.M))
    b, v = rng.normal(size=(2, C))
    inverse = rng.uniform(0.5, 2.0, size=shape.M)
    return CurvatureParams(W=W, b=b, center=np.zeros(shape.M), order=order, V=V, v=v, inverse=inverse)
