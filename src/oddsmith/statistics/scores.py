"""Sums for inference: the spread of the scores, and the slope of the determinant of the information."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.bordered import BorderedFactor
from oddsmith.links import LINKS
from oddsmith.numerics import Array, sigmoid
from oddsmith.statistic import STATISTICS, Additive, Shape
from oddsmith.statistics.rowwise import TILE_ELEMENTS, Tile, WeightPoint, tiles, variances


@STATISTICS.register("score scatter")
@dataclass(frozen=True)
class ScoreScatter(Additive):
    """``meat = Σ s g gᵀ`` with ``g`` the score of a row, CP × CP: the middle of a sandwich; and ``value = Σ s ℓ``.

    Weights count rows: a row of weight 2 counts twice, so ``s`` is not squared.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> at = WeightPoint(x=np.zeros((1, 2)), center=np.zeros(1), scale=np.ones(1), T=np.ones((1, 1)))
    >>> ScoreScatter.of(block, at).meat.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    meat: Array
    value: float

    @classmethod
    def zero(cls, shape: Shape, params: WeightPoint) -> ScoreScatter:
        return cls(np.zeros((params.x.size, params.x.size)), 0.0)

    @classmethod
    def of(cls, block: Block, params: WeightPoint) -> ScoreScatter:
        total, value = np.zeros((params.x.size, params.x.size)), 0.0
        for tile in tiles(block, params):
            G = tile.scores() * np.sqrt(tile.s)[:, None]
            total += G.T @ G
            value += tile.loss
        return cls(total, value)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return _examples(shape, rng)


@dataclass(frozen=True)
class LeverageParams:
    """Weights, and the inverse ``S`` (CP × CP) of the information there.

    For two classes over a table with an eliminated factor, ``S`` is the factored information, of the weights ``free``.
    """

    at: WeightPoint
    S: Array | BorderedFactor
    free: npt.NDArray[np.bool_] | None = None


@STATISTICS.register("leverage slope")
@dataclass(frozen=True)
class LeverageSlope(Additive):
    """``slope = ∂/∂x ½ log det I(x)``, C × P, where ``I = Σ s V(a) ⊗ z zᵀ`` is the expected information.

    With ``B = zᵀ S z`` (C × C, the variance of a row's activations) it is a sum over rows, in the activation

        ½ s y_k (u_k − Σ_j y_j u_j),   u = diag(B) − 2 B y      (softmax; two classes: ½ s B y(1 − y)(1 − 2y)),
        ½ s B v′(a),   v = f′² / (f (1 − f))                    (a link f),

    which is Firth's correction of the score.

    >>> block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    >>> at = WeightPoint(x=np.array([[0.0, 1.0]]), center=np.zeros(1), scale=np.ones(1), T=np.ones((1, 1)))
    >>> LeverageSlope.of(block, LeverageParams(at, np.eye(2))).slope.round(4).tolist()
    [[0.0, -0.1817]]
    """

    slope: Array

    @classmethod
    def zero(cls, shape: Shape, params: LeverageParams) -> LeverageSlope:
        return cls(np.zeros(params.at.x.shape))

    @classmethod
    def of(cls, block: Block, params: LeverageParams) -> LeverageSlope:
        if isinstance(params.S, BorderedFactor):
            return cls(_eliminated_slope(block, params, params.S))
        total = np.zeros(params.at.x.shape)
        for tile in tiles(block, params.at):
            R = _slopes(tile, tile.spread(params.S)) * (0.5 * tile.s)[:, None]
            total += (R @ params.at.T).T @ tile.Z
        return cls(total)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        points = _examples(shape, rng)
        roots = [rng.normal(size=(at.x.size, at.x.size)) for at in points]
        return [LeverageParams(at, root @ root.T) for at, root in zip(points, roots, strict=True)]


def _eliminated_slope(block: Block, params: LeverageParams, factor: BorderedFactor) -> Array:
    """Return the slope for the logit of two classes over a table, whose rows are never made dense as a whole."""
    at, W = params.at, params.at.T @ params.at.x
    free = np.ones(W.shape[1], dtype=bool) if params.free is None else params.free
    w, total = W[0, 1:] / at.scale, np.zeros(W.shape[1])
    step = max(256, TILE_ELEMENTS // (2 * len(factor.H.A)))
    for start in range(0, block.n_rows, step):
        rows = slice(start, min(start + step, block.n_rows))
        part = block.Phi.slice(rows.start, rows.stop)
        a = part.activations(w[:, None])[:, 0] + (W[0, 0] - w @ at.center)
        a = a if block.offset is None else a + block.offset[rows, 0]
        r = 0.5 * block.weights()[rows] * variances(part, factor, at.center, at.scale, free) * _third(a)
        total[0] += r.sum()
        total[1:] += (part.gradient(r[:, None])[:, 0] - r.sum() * at.center) / at.scale
    return np.asarray(np.where(free, total, 0.0)[None] * at.T[0, 0])


def _third(a: Array) -> Array:
    """Return the third derivative of the logistic loss."""
    return np.asarray(sigmoid(a) * sigmoid(-a) * -np.tanh(0.5 * a))


def _slopes(tile: Tile, B: Array) -> Array:
    """Return ``tr(B ∂V/∂a)`` of each row, n × C."""
    a, link = tile.A[:, 0], tile.at.link
    if tile.A.shape[1] == 1:
        slope = _third(a)
        if link is not None:
            (up, down), (d_up, d_down) = link.score(a), link.score_derivative(a)
            slope = -(d_up * down + up * d_down)
        return np.asarray(B[:, 0] * slope[:, None])
    Y = tile.P[:, 1:]
    u = np.diagonal(B, axis1=1, axis2=2) - 2.0 * np.einsum("njk,nk->nj", B, Y)
    return np.asarray(Y * (u - (Y * u).sum(axis=1, keepdims=True)))


def _examples(shape: Shape, rng: np.random.Generator) -> list[WeightPoint]:
    C = max(1, shape.K - 1)
    x = rng.normal(size=(C, shape.M + 1))
    T = np.eye(C) + 0.1 * rng.normal(size=(C, C))
    at = WeightPoint(x=x, center=np.zeros(shape.M), scale=rng.uniform(0.5, 2.0, size=shape.M), T=T)
    return [at, replace(at, T=np.ones((1, 1)), link=LINKS["probit"])] if C == 1 else [at]
