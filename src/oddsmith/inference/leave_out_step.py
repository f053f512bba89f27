"""One Newton step of leave-one-out: the activation and loss of each row without itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.kernels.rowwise import Tile, WeightPoint, tiles
from oddsmith.losses import RowLosses, row_losses
from oddsmith.numerics import Array
from oddsmith.statistic import Shape


def curvatures(rows: RowLosses) -> Array:
    """Return the curvature of each row's loss between its activations, n × C × C."""
    C = rows.gradient.shape[1]
    return np.stack([np.stack([rows.curvature(j, k) for k in range(C)], axis=-1) for j in range(C)], axis=1)


def leave_out(rows: RowLosses, B: Array, s: Array) -> tuple[Array, Array, Array, npt.NDArray[np.bool_]]:
    """Return what leaving out a row adds to its own activation (n × C), its leverage, its influence, and if it can be.

    With B the variance of the row's activations (n × C × C) under the inverse Hessian of all rows, g and R gradient and
    curvature of its loss, and ``v = (I − s R B)⁻¹ s g``,

        Δa = B v,    leverage = s tr(R B),    influence = vᵀ B v,

    the latter the squared distance that the weights move in the metric of the Hessian. One unit of weight is left out
    (all of it, if it is less): a row of weight 2 is the row twice, and its copy stays. Where its leverage is 1 nothing
    but the row determines some weight: it cannot be left out, and v is s g.
    """
    g, C, out = rows.gradient, rows.gradient.shape[1], np.minimum(s, 1.0)
    if C == 1:
        b, r = B[:, 0, 0], rows.curvature(0, 0)
        left = 1.0 - out * r * b
        possible = left > 1e-9
        v: Array = out * g[:, 0] / np.where(possible, left, 1.0)
        return (b * v)[:, None], s * r * b, b * v * v, possible
    R = curvatures(rows)
    left = np.eye(C) - out[:, None, None] * (R @ B)
    possible = np.linalg.det(left) > 1e-9
    left[~possible] = np.eye(C)
    v = np.asarray(np.linalg.solve(left, (out[:, None] * g)[:, :, None])[:, :, 0], dtype=np.float64)
    change = np.einsum("njk,nk->nj", B, v)
    return change, s * np.einsum("njk,njk->n", R, B), (v * change).sum(axis=1), possible


@dataclass(frozen=True)
class LeaveOutLossesParams:
    """L sets of weights, and the inverse Hessian at each in one common basis.

    ``at.x`` is not used; ``X`` is L × C × P. The inverse Hessian of set l is ``Σ_i shrink_li v_i v_iᵀ``, the v_i being
    columns of ``V`` (CP × F).
    """

    at: WeightPoint
    X: Array
    V: Array
    shrink: Array


@dataclass(frozen=True)
class LeaveOutLosses:
    """``loss_l = Σ s ℓ₋ₙ``, the loss of each row without itself at each of L sets of weights; ``square_l = Σ s ℓ₋ₙ²``.

    ``fitted_l = Σ s ℓ`` is the loss with all rows. One pass serves all sets: rows are turned once into the basis in
    which every Hessian is diagonal. It is folded as a statistic is, but is none of the registry's: rows of weight below
    one are left out whole, so two halves of a row are not the row.
    """

    weight: float
    loss: Array
    square: Array
    fitted: Array

    @classmethod
    def zero(cls, shape: Shape, params: LeaveOutLossesParams) -> LeaveOutLosses:
        return cls(0.0, *np.zeros((3, len(params.X))))

    @classmethod
    def of(cls, block: Block, params: LeaveOutLossesParams) -> LeaveOutLosses:
        _, C, P = params.X.shape
        result = cls.zero(Shape(P - 1, C + 1), params)
        # Contrasts become activations against class 0.
        V = np.einsum("jk,kpf->jpf", params.at.T, params.V.reshape(C, P, -1))
        X = np.einsum("jk,lkp->ljp", params.at.T, params.X)
        for tile in tiles(block, replace(params.at, x=params.X[0])):
            out, fitted = (np.where(tile.s > 0, loss, 0.0) for loss in _losses(tile, X, V, params))
            result = result.merge(cls(float(tile.s.sum()), out @ tile.s, (out * out) @ tile.s, fitted @ tile.s))
        return result

    def error(self, share: float = 1.0) -> Array:
        """Return the standard errors of the mean losses of all rows, of which these are a share."""
        mean = self.loss / self.weight
        variance = np.maximum(self.square / self.weight - mean * mean, 0.0)
        return np.asarray(np.sqrt(variance / self.weight * share))

    def merge(self, other: LeaveOutLosses) -> LeaveOutLosses:
        sums = (self.loss + other.loss, self.square + other.square, self.fitted + other.fitted)
        return LeaveOutLosses(self.weight + other.weight, *sums)


def _losses(tile: Tile, X: Array, V: Array, params: LeaveOutLossesParams) -> tuple[Array, Array]:
    """Return the loss of each row when left out, and when not, both L × n."""
    L, C, _ = X.shape
    n = len(tile.Z)
    # What is not the weights' (the offset) is the same for all sets; the sets follow on one another.
    rest = tile.A - tile.Z @ X[0].T
    A = np.concatenate([tile.Z @ W.T + rest for W in X])
    turned = [tile.Z @ V[j] for j in range(C)]
    B = np.empty((L * n, C, C))
    for j in range(C):
        for k in range(j, C):
            B[:, j, k] = B[:, k, j] = (params.shrink @ (turned[j] * turned[k]).T).ravel()
    t, s = np.tile(tile.t, L), np.tile(tile.s, L)
    rows = row_losses(A, t, tile.at.link)
    change, *_ = leave_out(rows, B, s)
    return row_losses(A + change, t, tile.at.link).value.reshape(L, n), rows.value.reshape(L, n)
