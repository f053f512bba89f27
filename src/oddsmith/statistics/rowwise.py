"""Rows at given weights, one tile at a time: quantities of single rows, and sums other than the likelihood.

All quantities are in the solver's coordinates: a row is ``z = (1, (φ − center) / scale)``, the weights are C contrasts
``x`` of length P = 1 + M, and ``a = T x z (+ offset)`` are the activations of the classes 1 … C against class 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.bordered import BorderedFactor
from oddsmith.cached_property import cached_property
from oddsmith.links import Link
from oddsmith.losses import RowLosses, row_losses
from oddsmith.numerics import Array, log_normaliser, sigmoid
from oddsmith.rows import Rows

TILE_ELEMENTS = 1 << 17
VARIANCE_ELEMENTS = 1 << 13  # Numbers of rows whose variances are computed at a time, to save memory.


@dataclass(frozen=True, kw_only=True)
class WeightPoint:
    """Weights in the solver's coordinates, and these coordinates; ``link`` is None for the logit and for softmax."""

    x: Array
    center: Array
    scale: Array
    T: Array
    link: Link | None = None


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Some rows: z (n × P), activations against class 0 (n × C), class codes, weights."""

    start: int
    Z: Array
    A: Array
    t: npt.NDArray[np.int32]
    s: Array
    at: WeightPoint

    @cached_property
    def rows(self) -> RowLosses:
        """Loss, gradient and expected curvature of each row."""
        return row_losses(self.A, self.t, self.at.link, expected=True)

    @cached_property
    def gradient(self) -> Array:
        """The gradient of each row's loss in the solver's contrasts, n × C."""
        return np.asarray(self.rows.gradient @ self.at.T)

    @cached_property
    def P(self) -> Array:
        """Probability of each class, n × K."""
        if self.A.shape[1] > 1:
            return np.asarray(log_normaliser(self.A)[1])
        a = self.A[:, 0]
        if self.at.link is None:
            return np.column_stack([sigmoid(-a), sigmoid(a)])
        return np.exp(np.column_stack(self.at.link.log_probability(a)[::-1]))

    @property
    def loss(self) -> float:
        """Minus the log likelihood of the rows."""
        return float(np.where(self.s > 0, self.rows.value, 0.0) @ self.s)

    def scores(self) -> Array:
        """Return minus the score of each row of weight one, n × CP, one contrast after another."""
        return np.asarray((self.gradient[:, :, None] * self.Z[:, None, :]).reshape(len(self.Z), -1))

    def spread(self, S: Array) -> Array:
        """Return the variance of each row's activations (n × C × C) if the weights have covariance ``S`` (CP × CP)."""
        C, P = self.at.x.shape
        blocks = S.reshape(C, P, C, P)
        B = np.empty((len(self.Z), C, C))
        for j in range(C):
            for k in range(j, C):
                B[:, j, k] = B[:, k, j] = ((self.Z @ blocks[j, :, k, :]) * self.Z).sum(axis=1)
        return B if C == 1 else self.at.T @ B @ self.at.T.T


def tiles(block: Block, at: WeightPoint) -> Iterator[Tile]:
    """Yield the rows of a block in tiles that fit the cache, sparse ones made dense."""
    block, n, M = block.concrete(), block.n_rows, block.n_columns
    step = max(256, TILE_ELEMENTS // max(1, M))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        Z = np.ones((part.stop - part.start, M + 1))
        np.subtract(block.Phi.dense(part.start, part.stop), at.center, out=Z[:, 1:])
        Z[:, 1:] /= at.scale
        A = Z @ (at.T @ at.x).T
        if block.offset is not None:
            A = A + block.offset[part]
        s = np.ones(len(Z)) if block.s is None else block.s[part]
        yield Tile(start=block.first_row + start, Z=Z, A=A, t=block.t[part], s=s, at=at)


def variances(rows: Rows, factor: BorderedFactor, center: Array, scale: Array, free: npt.NDArray[np.bool_]) -> Array:
    """Return the variance of each row's activation (n) from the factor of a Hessian with a factor eliminated.

    With D the diagonal block of the levels, G = D⁻¹ B and S the Schur complement of all other weights, a row with the
    numbers r outside the factor and u at its level l has the variance ``(r − u G_l)ᵀ S⁻¹ (r − u G_l) + u² / d_l``.
    Weights that are not ``free`` have none. Cost: O(R²) a row, R weights outside the factor.
    """
    H, X = factor.H, sparse.csr_array(rows.concrete().X)
    first, last = H.start - 1, H.stop - 1
    unit = np.where(free[1:], 1.0 / scale, 0.0)
    outside = np.r_[0:first, last : X.shape[1]]
    variance, step = np.empty(X.shape[0]), max(64, VARIANCE_ELEMENTS // len(H.A))
    for start in range(0, X.shape[0], step):
        part = sparse.csr_array(X[start : start + step])
        y = np.empty((part.shape[0], 1 + len(outside)))
        y[:, 0] = float(free[0])
        y[:, 1 : 1 + first] = part[:, :first].toarray()
        y[:, 1 + first :] = part[:, last:].toarray()
        y[:, 1:] -= center[outside]
        y[:, 1:] *= unit[outside]
        levels = sparse.csr_array(part[:, first:last] * unit[first:last])
        y -= factor.level_rows(levels)
        own = (levels * levels) @ (1.0 / np.where(factor.there, H.d, np.inf))
        variance[start : start + step] = np.einsum("ij,ji->i", y, factor.schur.solve(np.ascontiguousarray(y.T))) + own
    return np.maximum(variance, 0.0)
