"""The reference kernel: the curvature sums of one block by the three verbs of its storage.

It is the definition that the compiled kernels are held against, and the path of small problems. Rows are read in tiles
that fit the cache; each is centred as it is read, so that a column of mean 1e8 loses no digits and the user's array is
never copied whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oddsmith.block import Block
from oddsmith.links import Link
from oddsmith.losses import RowLosses, SoftmaxRows, row_losses
from oddsmith.numerics import Array
from oddsmith.rows import DenseRows, Rows


class LossModel(NamedTuple):
    """The link of two classes (None: the logit, or softmax), and whether the curvature is the expected one."""

    link: Link | None = None
    expected: bool = False


LOGISTIC = LossModel()


class _Tile(NamedTuple):
    """Some centred rows, their losses, and their weights."""

    Z: Rows
    losses: RowLosses
    s: Array | None

    def weighted(self, values: Array) -> Array:
        """Return values of the rows, n or n × C, times the rows' weights."""
        if self.s is None:
            return values
        return values * (self.s if values.ndim == 1 else self.s[:, None])


def curvature(
    block: Block,
    W: Array,
    b: Array,
    center: Array,
    order: int,
    inverse: Array | None = None,
    model: LossModel = LOGISTIC,
) -> tuple[float, Array, Array | None, float]:
    """Return ``Σ s ℓ``, its gradient (C × (M+1)), for ``order=2`` its Hessian (C(M+1) square), and the longest row.

    With ``z = φ − center`` and activations ``a_k = b_k + w_kᵀ z (+ offset)``:
    ``g_k = Σ s ∂ℓ/∂a_k (1, z)``, ``H_jk = Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``. The intercept comes first. The longest row
    is ``max_n Σ_j inverse_j z_nj²``, over rows of positive weight; 0 without ``inverse``.
    """
    C, M = W.shape
    value, longest, g = 0.0, 0.0, np.zeros((C, M + 1))
    H = np.zeros((C, M + 1, C, M + 1)) if order >= 2 else None
    for tile in _tiles(block, W, b, center, model, width=C * (M + 1) if order >= 2 and C > 1 else 1):
        value += float(tile.weighted(tile.losses.value).sum())
        g += _gradient(tile.Z, tile.weighted(tile.losses.gradient))
        if H is not None:
            H += _hessian(tile, C)
        if inverse is not None:
            norms = tile.Z.row_norms(inverse**-0.5)
            longest = max(longest, float((norms if tile.s is None else norms * (tile.s > 0)).max(initial=0.0)))
    return value, g, None if H is None else H.reshape(C * (M + 1), C * (M + 1)), longest


def curvature_product(
    block: Block, W: Array, b: Array, center: Array, V: Array, v: Array, model: LossModel = LOGISTIC
) -> Array:
    """Return the Hessian at ``(b, W)`` times the direction ``(v, V)``, without forming it (C × (M+1))."""
    C, M = W.shape
    result = np.zeros((C, M + 1))
    for tile in _tiles(block, W, b, center, model):
        dA = tile.Z.activations(V.T) + v
        R = np.stack([sum(tile.losses.curvature(j, k) * dA[:, k] for k in range(C)) for j in range(C)], axis=1)
        result += _gradient(tile.Z, tile.weighted(R))
    return result


def curvature_diagonal(
    block: Block, W: Array, b: Array, center: Array, model: LossModel = LOGISTIC
) -> tuple[Array, Array]:
    """Return the diagonal of the Hessian at ``(b, W)`` and the rows of the intercepts in it (C × (M+1) each).

    Of the row of a class's intercept those entries are meant that belong to the weights of the same class.
    """
    C, M = W.shape
    diagonal, cross = np.zeros((C, M + 1)), np.zeros((C, M + 1))
    for tile in _tiles(block, W, b, center, model):
        R = tile.weighted(np.stack([tile.losses.curvature(k, k) for k in range(C)], axis=1))
        first = _gradient(tile.Z, R)
        cross += first
        diagonal[:, 0] += first[:, 0]
        diagonal[:, 1:] += tile.Z.squares(R).T
    return diagonal, cross


def _tiles(block: Block, W: Array, b: Array, center: Array, model: LossModel, width: int = 1) -> Iterator[_Tile]:
    """Yield the rows in tiles, of each of which ``width`` numbers are computed on the way."""
    Phi = block.Phi.concrete()
    for start, stop in Phi.slices(width):
        part = slice(start, stop)
        s = None if block.s is None else block.s[part]
        Z = Phi.slice(start, stop).centred(center)
        A = Z.activations(W.T) + b
        if block.offset is not None:
            A += block.offset[part]
        if model.link is not None and s is not None:
            # A row that does not count may be impossible: nothing times its loss is nothing.
            A = np.where(s[:, None] > 0, A, model.link.link(np.array([0.5])))
        yield _Tile(Z, row_losses(A, block.t[part], model.link, expected=model.expected), s)


def _gradient(Z: Rows, R: Array) -> Array:
    """Return ``Σ r (1, z)``, C × (M+1)."""
    return np.concatenate([R.sum(axis=0)[:, None], Z.gradient(R).T], axis=1)


def _hessian(tile: _Tile, C: int) -> Array:
    if isinstance(tile.losses, SoftmaxRows) and isinstance(tile.Z, DenseRows):
        return softmax_hessian(tile.Z.X, tile.losses.P, tile.losses.others, tile.s)
    M = tile.Z.shape[1]
    H = np.empty((C, M + 1, C, M + 1))
    for j in range(C):
        for k in range(j, C):
            H[j, :, k, :] = H[k, :, j, :] = bordered_gram(tile.Z, tile.weighted(tile.losses.curvature(j, k)))
    return H


def bordered_gram(Z: Rows, h: Array) -> Array:
    """Return ``Σ h (1, z)(1, z)ᵀ``."""
    M = Z.shape[1]
    G = np.empty((M + 1, M + 1))
    G[0, 0] = h.sum()
    G[0, 1:] = G[1:, 0] = Z.gradient(h)
    G[1:, 1:] = Z.gram(h)
    return G


def softmax_hessian(Z: Array, P: Array, others: Array, s: Array | None) -> Array:
    """Return ``Σ s (diag(p) − p pᵀ)_jk (1, z)(1, z)ᵀ`` (C × (M+1) × C × (M+1)) without the class 0.

    ``others`` is 1 − P, without cancellation: the blocks of one class take it from there, the rest is one product.
    """
    (n, M), C = Z.shape, P.shape[1] - 1
    Z1 = np.empty((n, M + 1))
    Z1[:, 0], Z1[:, 1:] = 1.0, Z
    if s is not None:
        Z1 *= np.sqrt(s)[:, None]
    L = (P[:, 1:, None] * Z1[:, None, :]).reshape(n, C * (M + 1))
    H: Array = (L.T @ L).reshape(C, M + 1, C, M + 1)
    np.negative(H, out=H)
    own = np.sqrt(P * others)
    for k in range(C):
        B = Z1 * own[:, k + 1 : k + 2]
        H[k, :, k, :] = B.T @ B
    return H
