"""The loss of a likelihood at given weights, with its gradient and Hessian: what iterative fits sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.kernels import reference
from oddsmith.kernels.buffers import RowBuffers
from oddsmith.links import LINKS, Link
from oddsmith.numerics import Array
from oddsmith.statistic import STATISTICS, Shape


@dataclass(frozen=True)
class CurvatureParams:
    """Weights at which the loss is summed, and how many derivatives.

    ``a_k = b_k + w_kᵀ (φ − center) + offset_k`` for the classes k = 1 … C against class 0; C = 1 is logistic
    regression, C > 1 softmax. ``order`` 1 gives value and gradient, 2 the Hessian too. ``V``, ``v`` are the
    direction of a Hessian product (`CurvatureProduct` only). With ``inverse`` the longest row is found on the way,
    ``max_n Σ_j inverse_j z_nj²``. ``large`` chooses the compiled kernels, which write and read ``buffers``. ``link`` is
    that of two classes, None for the logit; with ``expected`` the curvature is that expected under the model.
    """

    W: Array
    b: Array
    center: Array
    order: int = 2
    V: Array | None = None
    v: Array | None = None
    inverse: Array | None = None
    large: bool = False
    link: Link | None = None
    expected: bool = False
    buffers: RowBuffers | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The shape of the gradient, C × (M + 1)."""
        return self.W.shape[0], self.W.shape[1] + 1


@STATISTICS.register("curvature")
@dataclass(frozen=True)
class Curvature:
    """``value = Σ s ℓ``, ``gradient_k = Σ s ∂ℓ/∂a_k (1, z)``, ``hessian_jk = Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``.

    ``z = φ − center``; the intercept comes first, class after class. ``rows`` counts the rows of positive weight.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> params = CurvatureParams(np.zeros((1, 1)), np.zeros(1), np.zeros(1))
    >>> Curvature.of(block, params).gradient.tolist()
    [[0.0, -1.0]]
    """

    rows: int
    value: float
    gradient: Array
    hessian: Array | None
    longest: float = 0.0

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> Curvature:
        """Return the sums over no rows."""
        C, P = params.size
        return cls(0, 0.0, np.zeros((C, P)), np.zeros((C * P, C * P)) if params.order >= 2 else None)

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> Curvature:
        """Return the sums over a block (one pass over its rows)."""
        rows = block.n_rows if block.s is None else int(np.count_nonzero(block.s))
        at = (block, params.W, params.b, params.center, params.order, params.inverse)
        if _compiled(params):
            return cls(rows, *_large().curvature(*at, *_buffers(params)))
        return cls(rows, *reference.curvature(*at, _model(params)))

    def merge(self, other: Curvature) -> Curvature:
        """Add both."""
        hessian = None
        if self.hessian is not None and other.hessian is not None:
            hessian = self.hessian + other.hessian
        value, gradient = self.value + other.value, self.gradient + other.gradient
        return Curvature(self.rows + other.rows, value, gradient, hessian, max(self.longest, other.longest))

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return random weights of moderate size, with and without the Hessian, and a link."""
        examples = [_example(shape, rng, order) for order in (1, 2)]
        if shape.K == 2:
            examples += [replace(examples[1], link=LINKS["probit"], expected=expected) for expected in (False, True)]
        return examples


@STATISTICS.register("curvature product")
@dataclass(frozen=True)
class CurvatureProduct:
    """``product = H v``: the Hessian of `Curvature` times a direction, without forming it (C × (M + 1)).

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> params = CurvatureParams(np.zeros((1, 1)), np.zeros(1), np.zeros(1), V=np.ones((1, 1)), v=np.zeros(1))
    >>> CurvatureProduct.of(block, params).product.tolist()
    [[0.0, 0.5]]
    """

    product: Array

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> CurvatureProduct:
        """Return the product over no rows."""
        return cls(np.zeros(params.size))

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> CurvatureProduct:
        """Return the product over a block (one pass over its rows)."""
        assert params.V is not None and params.v is not None
        at = (block, params.W, params.b, params.center, params.V, params.v)
        if _compiled(params):
            return cls(_large().curvature_product(*at, *_buffers(params)))
        return cls(reference.curvature_product(*at, _model(params)))

    def merge(self, other: CurvatureProduct) -> CurvatureProduct:
        """Add both."""
        return CurvatureProduct(self.product + other.product)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return random weights and a random direction."""
        return [_example(shape, rng, 1)]


@STATISTICS.register("curvature diagonal")
@dataclass(frozen=True)
class CurvatureDiagonal:
    """``diagonal_k = Σ s ∂²ℓ/∂a_k² (1, z²)``: the diagonal of the Hessian of `Curvature` (C × (M + 1)).

    ``cross_k = Σ s ∂²ℓ/∂a_k² (1, z)`` is its row of the intercept of class k, among that class's weights.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> params = CurvatureParams(np.zeros((1, 1)), np.zeros(1), np.zeros(1))
    >>> CurvatureDiagonal.of(block, params).diagonal.tolist()
    [[0.5, 0.5]]
    """

    diagonal: Array
    cross: Array

    @classmethod
    def zero(cls, shape: Shape, params: CurvatureParams) -> CurvatureDiagonal:
        """Return the diagonal over no rows."""
        return cls(np.zeros(params.size), np.zeros(params.size))

    @classmethod
    def of(cls, block: Block, params: CurvatureParams) -> CurvatureDiagonal:
        """Return the diagonal over a block (one pass over its rows)."""
        at = (block, params.W, params.b, params.center)
        if _compiled(params):
            return cls(*_large().curvature_diagonal(*at, *_buffers(params)))
        return cls(*reference.curvature_diagonal(*at, _model(params)))

    def merge(self, other: CurvatureDiagonal) -> CurvatureDiagonal:
        """Add both."""
        return CurvatureDiagonal(self.diagonal + other.diagonal, self.cross + other.cross)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return random weights."""
        return [_example(shape, rng, 1)]


def _compiled(params: CurvatureParams) -> bool:
    return params.large and params.link is None


def _large() -> ModuleType:
    """Return the compiled kernels, which are imported for large problems only."""
    return import_module("oddsmith.kernels.large")


def _buffers(params: CurvatureParams) -> tuple[RowBuffers, ...]:
    return () if params.buffers is None else (params.buffers,)


def _model(params: CurvatureParams) -> reference.LossModel:
    return reference.LossModel(params.link, params.expected)


def _example(shape: Shape, rng: np.random.Generator, order: int) -> CurvatureParams:
    C = max(1, shape.K - 1)
    W, V = rng.normal(size=(2, C, shape.M))
    b, v = rng.normal(size=(2, C))
    return CurvatureParams(W, b, np.zeros(shape.M), order, V, v, inverse=rng.uniform(0.5, 2.0, size=shape.M))
