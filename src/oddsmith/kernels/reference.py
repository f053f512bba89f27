"""The reference kernel: the curvature sums of one block by the three verbs of its storage.

It defines what the compiled kernels must return, and serves where there are none: for links other than the logit, and
on machines without them. Rows are read in tiles that fit the cache,
each centred as it is read: a column of mean 1e8 loses no digits, and the user's array is never copied whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal
from oddsmith.links import Link
from oddsmith.losses import RowLosses, SoftmaxRows, row_losses
from oddsmith.numerics import Array
from oddsmith.rows import DenseRows, Rows, SplitRows
from oddsmith.rows.split import cross_gram

if TYPE_CHECKING:
    from oddsmith.kernels.table import Cells

Sums = tuple[float, Array, Array | BorderedDiagonal | None, float]
"""Value, gradient (C × P), Hessian (CP × CP, or None) and longest row; P = 1 + M, the intercept first."""


@dataclass(frozen=True, eq=False)
class RowBuffers:
    """Arrays with an entry for each row of the data, which one pass of the compiled kernels writes and later ones read.

    ``curvature`` (N) holds the second derivative of each row's loss, of CSR rows and two classes: an evaluation writes
    it, products with the Hessian read it. ``half`` (N × M) takes the rows in half precision, centred and scaled by the
    roots of ``inverse``, in a pass that looks for the longest row.
    """

    curvature: Array | None = None
    half: npt.NDArray[np.float16] | None = None


@dataclass(frozen=True, kw_only=True)
class CurvatureParams:
    """Weights at which the loss is summed, and how many derivatives.

    ``a_k = b_k + w_kᵀ (φ − center) + offset_k`` for the classes k = 1 … C against class 0; C = 1 is logistic
    regression, C > 1 softmax. ``order`` 1 gives value and gradient, 2 the Hessian too. ``V``, ``v`` are the
    direction of a Hessian product (`curvature_product` only). With ``inverse`` the longest row is found on the way,
    ``max_n Σ_j inverse_j z_nj²``. Compiled kernels write and read ``buffers``. ``link`` is that of two classes, None
    for the logit; with ``expected`` the curvature is that expected under the model. ``eliminated`` are the columns
    (from, to) of a factor of `SplitRows` whose block of the Hessian is kept as a diagonal; ``cells``, which some
    kernels know, say where the block between that factor and all others is not zero.
    """

    W: Array
    b: Array
    center: Array
    order: int = 2
    V: Array | None = None
    v: Array | None = None
    inverse: Array | None = None
    link: Link | None = None
    expected: bool = False
    buffers: RowBuffers | None = None
    eliminated: tuple[int, int] | None = None
    cells: Cells | None = None

    @property
    def size(self) -> tuple[int, int]:
        """The shape of the gradient, C × P."""
        return self.W.shape[0], self.W.shape[1] + 1

    def zero_hessian(self) -> Array | BorderedDiagonal:
        """Return the Hessian of no rows."""
        (C, P), columns = self.size, self.eliminated
        if columns is None:
            return np.zeros((C * P, C * P))
        levels = columns[1] - columns[0]
        A, B = np.zeros((P - levels, P - levels)), np.zeros((levels, P - levels))
        return BorderedDiagonal(A=A, B=B, d=np.zeros(levels), start=1 + columns[0])

    @property
    def direction(self) -> tuple[Array, Array]:
        """The direction of a Hessian product, (V, v)."""
        assert self.V is not None and self.v is not None
        return self.V, self.v

    def towards(self, V: Array, v: Array) -> CurvatureParams:
        """Return the same with a direction."""
        return replace(self, V=V, v=v)


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


def curvature(block: Block, at: CurvatureParams) -> Sums:
    """Return ``Σ s ℓ``, its gradient, for ``order=2`` its Hessian, and the longest row.

    With ``z = φ − center`` and the activations of `CurvatureParams`: ``g_k = Σ s ∂ℓ/∂a_k (1, z)``,
    ``H_jk = Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``. The longest row is ``max_n Σ_j inverse_j z_nj²``, over rows of positive
    weight; 0 without ``inverse``.
    """
    C, P = at.size
    value, longest = 0.0, 0.0
    g: Array | None = None
    H: Any = None
    for tile in _tiles(block, at, width=C * P if at.order >= 2 and C > 1 else 1):
        value += float(tile.weighted(tile.losses.value).sum())
        g = _added(g, _gradient(tile.Z, tile.weighted(tile.losses.gradient)))
        if at.order >= 2:
            part = _hessian(tile, C) if at.eliminated is None else _bordered(tile, at.eliminated)
            H = part if H is None else H + part
        if at.inverse is not None:
            norms = tile.Z.row_norms(at.inverse**-0.5)
            longest = max(longest, float((norms if tile.s is None else norms * (tile.s > 0)).max(initial=0.0)))
    if g is None:  # no rows
        g, H = np.zeros((C, P)), at.zero_hessian() if at.order >= 2 else None
    return value, g, H.reshape(C * P, C * P) if isinstance(H, np.ndarray) else H, longest


def _added(total: Array | None, part: Array) -> Array:
    return part if total is None else np.add(total, part, out=total)


def curvature_product(block: Block, at: CurvatureParams) -> Array:
    """Return the Hessian at ``(b, W)`` times the direction ``(v, V)``, without forming it (C × P)."""
    (C, _), (V, v) = at.size, at.direction
    result = np.zeros(at.size)
    for tile in _tiles(block, at):
        dA = tile.Z.activations(V.T) + v
        R = np.stack([sum(tile.losses.curvature(j, k) * dA[:, k] for k in range(C)) for j in range(C)], axis=1)
        result += _gradient(tile.Z, tile.weighted(R))
    return result


def curvature_diagonal(block: Block, at: CurvatureParams) -> tuple[Array, Array]:
    """Return the diagonal of the Hessian, and of each intercept's row the entries of its own class (C × P each)."""
    diagonal, cross = np.zeros(at.size), np.zeros(at.size)
    for tile in _tiles(block, at):
        R = tile.weighted(np.stack([tile.losses.curvature(k, k) for k in range(len(diagonal))], axis=1))
        first = _gradient(tile.Z, R)
        cross += first
        diagonal[:, 0] += first[:, 0]
        diagonal[:, 1:] += tile.Z.squares(R).T
    return diagonal, cross


def curvature_intercepts(block: Block, at: CurvatureParams) -> Array:
    """Return ``Σ s ∂²ℓ/∂a_j∂a_k (1, z)`` of classes j ≥ k, (0, 0), (1, 0), (1, 1) …: the rows of the intercepts."""
    C, P = at.size
    first, second = np.tril_indices(C)
    total = np.zeros((len(first), P))
    for tile in _tiles(block, at, width=len(first)):
        pairs = [tile.losses.curvature(j, k) for j, k in zip(first.tolist(), second.tolist(), strict=True)]
        total += _gradient(tile.Z, tile.weighted(np.stack(pairs, axis=1)))
    return total


def curvature_root(block: Block, at: CurvatureParams) -> Array:
    """Return the rows √h (1, z) of two classes and dense rows, B (n × P): the Hessian is BᵀB."""
    tiles = [(tile.Z.dense(), np.sqrt(tile.weighted(tile.losses.curvature(0, 0)))) for tile in _tiles(block, at)]
    parts = [root[:, None] * np.column_stack([np.ones(len(Z)), Z]) for Z, root in tiles]
    return np.concatenate([np.empty((0, at.size[1])), *parts])


def _tiles(block: Block, at: CurvatureParams, width: int = 1) -> Iterator[_Tile]:
    """Yield the rows in tiles; ``width`` numbers are computed for each row on the way."""
    Phi = block.Phi if isinstance(block.Phi, SplitRows) else block.Phi.concrete()
    for start, stop in Phi.slices(width):
        part = slice(start, stop)
        s = None if block.s is None else block.s[part]
        Z = Phi.slice(start, stop).centred(at.center)
        A = Z.activations(at.W.T) + at.b
        if block.offset is not None:
            A += block.offset[part]
        if at.link is not None and s is not None:
            # A row of weight 0 may be impossible: nothing times its loss is nothing.
            A = np.where(s[:, None] > 0, A, at.link.link(np.array([0.5])))
        yield _Tile(Z, row_losses(A, block.t[part], at.link, expected=at.expected), s)


def _gradient(Z: Rows, R: Array) -> Array:
    """Return ``Σ r (1, z)``, C × (M+1)."""
    return np.concatenate([R.sum(axis=0)[:, None], Z.gradient(R).T], axis=1)


def _hessian(tile: _Tile, C: int) -> Array:
    if isinstance(tile.losses, SoftmaxRows) and isinstance(tile.Z, DenseRows):
        return softmax_hessian(tile.Z.X, tile.losses.P, tile.losses.others, tile.s)
    Z, P = tile.Z, tile.Z.shape[1] + 1
    H = np.empty((C, P, C, P))
    for j in range(C):
        for k in range(j, C):
            h, G = tile.weighted(tile.losses.curvature(j, k)), H[j, :, k, :]  # G = Σ h (1, z)(1, z)ᵀ
            G[0, 0], G[1:, 1:] = h.sum(), Z.gram(h)
            G[0, 1:] = G[1:, 0] = Z.gradient(h)
            H[k, :, j, :] = G
    return H


def _bordered(tile: _Tile, columns: tuple[int, int]) -> BorderedDiagonal:
    """Return the Hessian of two classes with the block of one factor as a diagonal."""
    assert isinstance(tile.Z, SplitRows)
    h, e = tile.weighted(tile.losses.curvature(0, 0)), tile.Z.ranges.index(columns)
    factor, others = tile.Z.parts[e], (*tile.Z.parts[:e], *tile.Z.parts[e + 1 :])
    R = sum(part.shape[1] for part in others)
    A, B = np.empty((R + 1, R + 1)), np.empty((factor.shape[1], R + 1))
    A[0, 0], B[:, 0] = h.sum(), factor.gradient(h)
    if others:
        Z = SplitRows(others)
        A[1:, 1:] = Z.gram(h)
        A[0, 1:] = A[1:, 0] = Z.gradient(h)
        B[:, 1:] = np.concatenate([cross_gram(factor, part, h) for part in others], axis=1)
    return BorderedDiagonal(A=A, B=B, d=factor.squares(h[:, None])[:, 0], start=1 + columns[0])


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
