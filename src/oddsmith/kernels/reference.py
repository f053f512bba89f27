"""The reference kernel: the curvature sums of one block in plain array operations.

It is the judge of the compiled kernels and the path of small problems. Dense blocks are taken in tiles that
fit the cache; each tile is centred as it is read, so that a column of mean 1e8 loses no digits and the
user's array is never copied whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.losses import link_rows, logistic_rows, softmax_rows
from oddsmith.numerics import Array, namespace

TILE_ELEMENTS = 1 << 17
MADE_ELEMENTS = 1 << 21
FEW_COLUMNS = 40
LOGISTIC = (None, False)
"""No link of its own (logistic, or softmax), and the observed curvature."""


def curvature(
    block: Block, W: Array, b: Array, center: Array, order: int, inverse: Array | None = None, model: Any = LOGISTIC
) -> tuple[float, Array, Array | None, float]:
    """Return ``Σ s ℓ``, its gradient (C × (M+1)), for ``order=2`` its Hessian (C(M+1) square), and the longest row.

    With ``z = φ − center`` and activations ``a_k = b_k + w_kᵀ z (+ offset)``:
    ``g_k = Σ s ∂ℓ/∂a_k (1, z)``, ``H_jk = Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``. The intercept comes first. ``model`` is a
    pair: the link of two classes, and whether the curvature is the expected one.
    """
    C, M = W.shape
    sums = _csr_tile if block.is_sparse else _dense_tile
    value, g, H = 0.0, None, None
    for start, stop in _tiles(block, C * (M + 1) if order >= 2 and C > 1 else 1):
        part = sums(block, start, stop, W, b, center, order, model)
        value += part[0]
        g = part[1] if g is None else g + part[1]
        H = part[2] if H is None else np.add(H, part[2], out=H)
    if g is None:
        g, H = np.zeros((C, M + 1)), np.zeros((C, M + 1, C, M + 1)) if order >= 2 else None
    longest = 0.0 if inverse is None else _longest(block, center, inverse)
    return value, g, None if H is None else H.reshape(C * (M + 1), C * (M + 1)), longest


def curvature_product(
    block: Block, W: Array, b: Array, center: Array, V: Array, v: Array, model: Any = LOGISTIC
) -> Array:
    """Return the Hessian at ``(b, W)`` times the direction ``(v, V)``, without forming it (C × (M+1))."""
    C, M = W.shape
    result = np.zeros((C, M + 1))
    for start, stop in _tiles(block):
        t, s, offset = _targets(block, start, stop)
        Z = _rows(block, start, stop, center)
        rows = _loss_rows(_activation(Z, W, b, center, offset), t, s, model)
        dA = _activation(Z, V, v, center, None)
        R = np.stack([sum(rows.curvature(j, k) * dA[:, k] for k in range(C)) for j in range(C)], axis=1)
        if s is not None:
            R = R * s[:, None]
        result += _gradient(Z, R, center)
    return result


def curvature_diagonal(block: Block, W: Array, b: Array, center: Array, model: Any = LOGISTIC) -> tuple[Array, Array]:
    """Return the diagonal of the Hessian at ``(b, W)`` and the rows of the intercepts in it (C × (M+1) each).

    Of the row of a class's intercept those entries are meant that belong to the weights of the same class.
    """
    C, M = W.shape
    diagonal, cross = np.zeros((C, M + 1)), np.zeros((C, M + 1))
    for start, stop in _tiles(block):
        t, s, offset = _targets(block, start, stop)
        Z = _rows(block, start, stop, center)
        rows = _loss_rows(_activation(Z, W, b, center, offset), t, s, model)
        R = np.stack([rows.curvature(k, k) for k in range(C)], axis=1)
        R = R if s is None else R * s[:, None]
        first = _gradient(Z, R, center)
        cross += first
        diagonal[:, 0] += first[:, 0]
        if block.is_sparse:
            X = Z.astype(np.float64)
            # Σ r (x − c)² = Σ r x² − 2 c Σ r (x − c) − c² Σ r
            inner = (X.multiply(X).T @ R).T - 2.0 * center * first[:, 1:] - first[:, :1] * center**2
            diagonal[:, 1:] += np.maximum(inner, 0.0)
        else:
            diagonal[:, 1:] += ((Z * Z).T @ R).T
    return diagonal, cross


def _longest(block: Block, center: Array, inverse: Array) -> float:
    """Return ``max_n Σ_j inverse_j (φ_nj − c_j)²``."""
    longest = 0.0
    for start, stop in _tiles(block):
        if block.is_sparse:
            X = block.Phi.astype(np.float64)
            squares = X.multiply(X) @ inverse - 2.0 * (X @ (inverse * center))
            squares = squares + (inverse * center**2).sum()
        else:
            squares = (_rows(block, start, stop, center) ** 2) @ inverse
        if block.s is not None:
            squares = squares * (block.s[start:stop] > 0)
        longest = max(longest, float(squares.max(initial=0.0)))
    return longest


def _tiles(block: Block, width: int = 1) -> list[tuple[int, int]]:
    """Return the rows of tiles, of each of which ``width`` numbers are made on the way."""
    n = block.n_rows
    step = n if block.is_sparse else max(256, min(TILE_ELEMENTS // max(1, block.n_columns), MADE_ELEMENTS // width))
    return [(i, min(i + step, n)) for i in range(0, n, step)] if n else []


def _loss_rows(A: Any, t: Any, s: Any, model: Any) -> Any:
    link, expected = model
    if link is not None:
        if s is not None:  # a row that does not count may be impossible: nothing times its loss is nothing
            A = np.where(s[:, None] > 0, A, link.link(np.array([0.5])))
        return link_rows(A, t, link, expected=expected)
    return logistic_rows(A, t) if A.shape[1] == 1 else softmax_rows(A, t)


def _targets(block: Block, start: int, stop: int) -> tuple[Any, Any, Any]:
    part = slice(start, stop)
    return (
        block.t[part],
        None if block.s is None else block.s[part],
        None if block.offset is None else block.offset[part],
    )


def _rows(block: Block, start: int, stop: int, center: Array) -> Any:
    """Return the centred rows of a dense block; those of a CSR block as they are (centred in the algebra)."""
    if block.is_sparse:
        return block.Phi
    xp = namespace(block.Phi)
    rows = block.Phi[start:stop, :]
    if rows.dtype != xp.float64:
        rows = xp.astype(rows, xp.float64)
    return rows - center if center.any() else rows


def _activation(Z: Any, W: Array, b: Array, center: Array, offset: Any) -> Any:
    shift = b - W @ center if hasattr(Z, "indptr") else b
    A = Z @ W.T + shift
    return A if offset is None else A + offset


def _gradient(Z: Any, R: Any, center: Array) -> Any:
    total = R.sum(axis=0)
    inner = (Z.T @ R).T
    if hasattr(Z, "indptr"):
        inner = inner - total[:, None] * center
    return np.concatenate([total[:, None], inner], axis=1)


def _dense_tile(block: Block, start: int, stop: int, W: Array, b: Array, center: Array, order: int, model: Any) -> Any:
    t, s, offset = _targets(block, start, stop)
    Z = _rows(block, start, stop, center)
    xp = namespace(Z)
    rows = _loss_rows(_activation(Z, W, b, center, offset), t, s, model)
    value, R = _weighted(rows, s)
    if order < 2:
        return value, _gradient(Z, R, center), None
    C, M = W.shape
    if C > 1:
        return value, _gradient(Z, R, center), softmax_hessian(Z, rows.P, rows.others, s)
    r = rows.curvature(0, 0) if s is None else rows.curvature(0, 0) * s
    symmetric = model[0] is None or not (r < 0.0).any()
    H = _weighted_gram(xp, Z, r, symmetric=symmetric)
    return value, _gradient(Z, R, center), H.reshape(1, M + 1, 1, M + 1)


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


def _weighted_gram(xp: Any, Z: Any, r: Any, *, symmetric: bool) -> Array:
    """Return ``Σ r (1, z)(1, z)ᵀ``; the roots of weights that are not negative make a symmetric product.

    Of few columns that takes longer than both halves.
    """
    M = Z.shape[1]
    G = np.empty((M + 1, M + 1))
    G[0, 0] = r.sum()
    G[0, 1:] = G[1:, 0] = r @ Z
    if symmetric and M > FEW_COLUMNS:
        B = Z * xp.sqrt(r)[:, None]
        G[1:, 1:] = B.T @ B
    else:
        G[1:, 1:] = Z.T @ (Z * r[:, None])
    return G


def _csr_tile(block: Block, start: int, stop: int, W: Array, b: Array, center: Array, order: int, model: Any) -> Any:
    t, s, offset = _targets(block, start, stop)
    X = block.Phi
    rows = _loss_rows(_activation(X, W, b, center, offset), t, s, model)
    value, R = _weighted(rows, s)
    g = _gradient(X, R, center)
    if order < 2:
        return value, g, None
    C, M = W.shape
    H = np.empty((C, M + 1, C, M + 1))
    for j in range(C):
        for k in range(j, C):
            r = rows.curvature(j, k) if s is None else rows.curvature(j, k) * s
            H[j, :, k, :] = _centred_gram(X, r, center)
            H[k, :, j, :] = H[j, :, k, :]
    return value, g, H


def _centred_gram(X: Any, r: Array, center: Array) -> Array:
    """Return ``Σ r (1, x − c)(1, x − c)ᵀ`` for CSR ``X`` without forming ``x − c``."""
    M = X.shape[1]
    weighted = X.multiply(r[:, None]).tocsr()
    total = float(r.sum())
    h = np.asarray(X.T @ r)
    G = np.empty((M + 1, M + 1))
    G[0, 0] = total
    G[0, 1:] = G[1:, 0] = h - center * total
    G[1:, 1:] = (X.T @ weighted).toarray()
    G[1:, 1:] -= np.outer(center, h) + np.outer(h, center) - total * np.outer(center, center)
    return G


def _weighted(rows: Any, s: Any) -> tuple[float, Any]:
    if s is None:
        return float(rows.value.sum()), rows.gradient
    return float(rows.value @ s), rows.gradient * s[:, None]
