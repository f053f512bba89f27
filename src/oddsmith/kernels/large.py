"""The kernels of large blocks: the same sums as `reference`, through compiled loops and matrix products of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from oddsmith.block import Block
from oddsmith.kernels import compiled, compiled_softmax, gram, reference, vectors
from oddsmith.kernels.buffers import NO_BUFFERS, NO_HALF, NOTHING, RowBuffers
from oddsmith.numerics import Array
from oddsmith.rows import HalfRows, RunRows, SparseRows

CHUNK_BYTES = 1 << 19
MOST_ROWS = 2048
"""Rows of a chunk, at most, where a Hessian has more rows than that."""
HALF_PRECISION = vectors.has_half_precision()
"""Whether this machine reads numbers of half precision as fast as others."""
_NO_OFFSET = np.empty((0, 1))


def curvature(
    block: Block,
    W: Array,
    b: Array,
    center: Array,
    order: int,
    inverse: Array | None,
    buffers: RowBuffers = NO_BUFFERS,
) -> tuple[float, Array, Array | None, float]:
    """Return value, gradient, Hessian (``order=2``) and the longest row under ``inverse`` (squared; else 0).

    The kernel is chosen by the storage of the rows. ``buffers`` are filled at the rows of the block.
    """
    C, M = W.shape
    Phi = block.Phi
    if block.n_rows == 0:
        return 0.0, np.zeros((C, M + 1)), np.zeros((C * (M + 1),) * 2) if order >= 2 else None, 0.0
    if isinstance(Phi, HalfRows) and order < 2 and C > 1 and _plain(block, center, inverse):
        return _softmax_half(block, W, b)
    in_place = isinstance(Phi, RunRows) and C == 1 and M < gram.MOST_COLUMNS and Phi.X.flags.c_contiguous
    if not (in_place or (isinstance(Phi, HalfRows) and C == 1 and order < 2)):
        block = block.concrete()
    if block.is_sparse:
        return _csr(block, W, b, center, order, inverse, buffers.curvature_of(block))
    if C == 1:
        if order >= 2:
            return _logistic_hessian(block, W[0], float(b[0]), center, inverse)
        return _logistic(block, W[0], float(b[0]), center, inverse, buffers.half_of(block))
    if order >= 2:
        return _softmax_hessian(block, W, b, center, inverse)
    return _softmax(block, W, b, center, inverse, buffers.half_of(block))


def curvature_product(
    block: Block,
    W: Array,
    b: Array,
    center: Array,
    V: Array,
    v: Array,
    buffers: RowBuffers = NO_BUFFERS,
) -> Array:
    """Return the Hessian at ``(b, W)`` times the direction ``(v, V)`` (C × (M+1)), with row curvatures if known."""
    C, M = W.shape
    block = block.concrete()
    g = np.zeros((C, M + 1))
    if block.is_sparse and C == 1:
        X, (s, offset) = block.X, _optional(block)
        shift, turn = float(b[0] - W[0] @ center), float(v[0] - V[0] @ center)
        rows = (X.data, X.indices, X.indptr)
        if buffers.curvature is not None:
            compiled.weighted_csr_product(*rows, buffers.curvature_of(block), V[0], turn, g[0])
        else:
            compiled.logistic_csr_product(*rows, block.t, s, offset, W[0], shift, V[0], turn, g[0])
        g[0, 1:] -= center * g[0, 0]
        return g
    others = np.ones((C + 1, C + 1)) - np.eye(C + 1)
    for part_rows in _ranges(block, C):
        Z, part = _centred(block, part_rows, center)
        A, R, P = _activations(Z, block, part_rows, W, b, center)
        compiled_softmax.softmax_chunk(A, block.t[part_rows], NOTHING, P)
        dA = _product(Z, V, v, center)
        # y_j Σ_k y_k (da_j − da_k), the sums over the other classes alone: no cancellation where y_j is near 1.
        rest = dA * (P @ others)[:, 1:] - (P[:, 1:] * dA) @ others[1:, 1:]
        R = P[:, 1:] * rest
        if part is not None:
            R *= part[:, None]
        g += _gradient(Z, R, center)
    return g


def curvature_diagonal(
    block: Block,
    W: Array,
    b: Array,
    center: Array,
    buffers: RowBuffers = NO_BUFFERS,
) -> tuple[Array, Array]:
    """Return the diagonal of the Hessian at ``(b, W)`` and its rows of the intercepts (C × (M+1) each)."""
    C, M = W.shape
    if not (isinstance(block.Phi, SparseRows) and C == 1 and buffers.curvature is not None and not center.any()):
        return reference.curvature_diagonal(block, W, b, center)
    X = block.X
    sums = np.zeros((M + 1, 2))
    compiled.csr_squares(X.data, X.indices, X.indptr, buffers.curvature_of(block), sums)
    return sums[None, :, 0], sums[None, :, 1]


def _array(block: Block) -> tuple[Any, tuple[int, int]]:
    """Return the array that rows are read from, how many rows of each run count, and the distance of the runs."""
    if isinstance(block.Phi, RunRows):
        return block.Phi.X, (block.Phi.length, block.Phi.distance)
    X = block.Phi.X if isinstance(block.Phi, HalfRows) else block.X
    n = max(1, block.n_rows)
    return X, (n, n)


def _optional(block: Block) -> tuple[Array, Array]:
    s = NOTHING if block.s is None else block.s
    return s, _NO_OFFSET if block.offset is None else block.offset


def _logistic(
    block: Block, u: Array, b: float, center: Array, inverse: Array | None, half: Any = NO_HALF
) -> tuple[float, Array, None, float]:
    (X, runs), (s, offset) = _array(block), _optional(block)
    g = np.zeros(len(u) + 1)
    extent = NOTHING if inverse is None else inverse
    if X.dtype == np.float16:
        X = np.ascontiguousarray(X).view(np.uint16)  # compiled code knows no other way to name them
    if X.flags.c_contiguous:
        tile = _tile_rows(max(1, X.itemsize * len(u)))
        residuals = np.empty(tile, np.float32 if X.itemsize == 2 else np.float64)
        more = (g, vectors.scratch(X.itemsize, len(u)), residuals, half, *runs)
        value, longest = compiled.logistic_c(X, block.t, s, offset, u, b, center, extent, *more)
    else:
        columns = X.strides[0] == X.itemsize and X.strides[1] >= 0 and X.strides[1] % X.itemsize == 0
        XT = X.T if columns else np.ascontiguousarray(X.T)
        tile = 512 if len(u) <= 200 else 256
        value, longest = compiled.logistic_f(*_flat(XT), block.t, s, offset, u, b, center, extent, g, tile)
    return value, g[None], None, longest


def _tile_rows(row_bytes: int) -> int:
    """How many rows a tile has, a multiple of eight: as many as the first-level cache holds twice, or once if long."""
    if row_bytes <= 128:
        return min(384, 16_384 // row_bytes // 8 * 8)
    return min(96, max(32, 24_576 // row_bytes // 8 * 8))


def _flat(XT: Any) -> tuple[Any, int]:
    """Return the memory of an array of contiguous rows as one of one dimension, and how far its rows are apart.

    Of a slice of columns, compiled code would not know that their numbers are neighbours.
    """
    apart = XT.strides[0] // XT.itemsize
    size = (XT.shape[0] - 1) * apart + XT.shape[1] if XT.size else 0
    return as_strided(XT, (size,), (XT.itemsize,)), apart


def _ranges(block: Block, C: int, least: int = 64) -> list[slice]:
    width = block.n_columns if not block.is_sparse else max(1, block.X.nnz // max(1, block.n_rows))
    step = max(least, CHUNK_BYTES // (8 * max(width, 2 * C)))
    return [slice(i, min(i + step, block.n_rows)) for i in range(0, block.n_rows, step)]


def _centred(block: Block, rows: slice, center: Array) -> tuple[Any, Array | None]:
    s = None if block.s is None else block.s[rows]
    if block.is_sparse:
        return block.X[rows], s
    return np.subtract(block.X[rows], center, dtype=np.float64), s


def _product(Z: Any, V: Array, v: Array, center: Array) -> Array:
    shift = v - V @ center if hasattr(Z, "indptr") else v
    return np.ascontiguousarray(Z @ V.T) + shift


def _activations(Z: Any, block: Block, rows: slice, W: Array, b: Array, center: Array) -> tuple[Any, Any, Any]:
    A = _product(Z, W, b, center)
    if block.offset is not None:
        A += block.offset[rows]
    return A, A, np.empty((A.shape[0], A.shape[1] + 1))


def _gradient(Z: Any, R: Array, center: Array) -> Array:
    total = R.sum(axis=0)
    inner = np.asarray(Z.T @ R).T if hasattr(Z, "indptr") else R.T @ Z
    if hasattr(Z, "indptr"):
        inner = inner - total[:, None] * center
    return np.concatenate([total[:, None], inner], axis=1)


def _softmax(
    block: Block, W: Array, b: Array, center: Array, inverse: Array | None, half: Any
) -> tuple[float, Array, None, float]:
    g, (s, offset) = np.zeros((len(W), block.n_columns + 1)), _optional(block)
    tile = min(block.n_rows, max(64, CHUNK_BYTES // (8 * max(W.shape[1], 2 * len(W)))))
    extent = NOTHING if inverse is None else inverse
    more = (g, tile, half, vectors.scratch(8, W.shape[1]))
    value, longest = compiled_softmax.softmax(block.X, block.t, s, offset, W, b, center, extent, *more)
    return value, g, None, longest


def _plain(block: Block, center: Array, inverse: Array | None) -> bool:
    return block.s is None and block.offset is None and inverse is None and not center.any()


def _softmax_half(block: Block, W: Array, b: Array) -> tuple[float, Array, None, float]:
    """Softmax of plain rows in half precision."""
    g = np.zeros((len(W), block.n_columns + 1))
    tile = min(block.n_rows, max(64, CHUNK_BYTES // (16 * max(W.shape[1], 2 * len(W)))))
    rows = np.ascontiguousarray(_array(block)[0]).view(np.uint16)
    return compiled_softmax.softmax_half(rows, block.t, W, b, g, tile), g, None, 0.0


def _logistic_hessian(
    block: Block, u: Array, b: float, center: Array, inverse: Array | None
) -> tuple[float, Array, Array, float]:
    """Two classes, dense rows. Of many columns a chunk at a time: rows √h (1, z) by a loop, their product by BLAS."""
    M = len(u)
    longest = 0.0 if inverse is None else _logistic(block, u, b, center, inverse)[3]
    if M < gram.MOST_COLUMNS:
        return *_few_columns(block, u, b, center), longest
    value, g = 0.0, np.zeros(M + 1)
    H: Array | None = None
    for rows in _ranges(block, 1, least=max(64, M)):  # with fewer rows than columns H is more work than they are
        B = np.empty((rows.stop - rows.start, M + 1))
        value += _roots(block, rows, u, b, center, B, g)
        H = B.T @ B if H is None else np.add(H, B.T @ B, out=H)
    assert H is not None
    return value, g[None], H, longest


def _roots(block: Block, rows: slice, u: Array, b: float, center: Array, B: Array, g: Array) -> float:
    """Fill ``B`` with the rows √h (1, z), add to the gradient ``g``, return the value."""
    s, offset = _optional(block)
    some, shift = (s[rows] if s.size else s), (offset[rows] if offset.size else offset)
    at = np.ascontiguousarray(block.X[rows]), block.t[rows], some, shift
    return float(compiled.logistic_chunk(*at, u, b, center, B, g, vectors.scratch(8, len(u))))


def curvature_root(block: Block, W: Array, b: Array, center: Array) -> Array:
    """Return the rows √h (1, z) of two classes and dense rows, B (n × (M+1)): the Hessian is BᵀB."""
    B = np.empty((block.n_rows, W.shape[1] + 1))
    for rows in _ranges(block, 1):
        _roots(block, rows, W[0], float(b[0]), center, B[rows], np.zeros(B.shape[1]))
    return B


def _few_columns(block: Block, u: Array, b: float, center: Array) -> tuple[float, Array, Array]:
    P, (s, offset) = len(u) + 1, _optional(block)
    value, g, G = 0.0, np.zeros(P), np.zeros((gram.padded(P),) * 2)
    X, runs = _array(block)
    scratch = *(vectors.scratch(8, len(u)), gram.tile_scratch(P)), *runs
    for rows in [slice(None)] if X.flags.c_contiguous else _ranges(block, 1):
        some, shift = (s[rows] if s.size else s), (offset[rows] if offset.size else offset)
        at = np.ascontiguousarray(X[rows]), block.t[rows], some, shift
        value += compiled.logistic_hessian(*at, u, b, center, g, G, *scratch)
    return value, g[None], gram.symmetric_hessian(G[None], 1, P)


def _softmax_hessian(
    block: Block, W: Array, b: Array, center: Array, inverse: Array | None
) -> tuple[float, Array, Array, float]:
    """Softmax, dense rows a chunk at a time: products by BLAS, probabilities by a compiled loop."""
    C, M = W.shape
    value, g, longest = 0.0, np.zeros((C, M + 1)), 0.0
    alike = not W.any() and block.offset is None  # all rows have the same probabilities
    others = np.ones((C + 1, C + 1)) - np.eye(C + 1)
    few = 4 <= M < gram.MOST_COLUMNS and not alike  # fewer columns would be mostly padding, for each pair of classes
    pairs = np.zeros((C * (C + 1) // 2 if few else 0, *(gram.padded(M + 1),) * 2))
    scratch = gram.tile_scratch(M + 1)
    H: Array | None = None
    for rows in _ranges(block, C, least=64 if few else max(64, min(C * (M + 1), MOST_ROWS))):
        Z, s = _centred(block, rows, center)
        A, R, P = _activations(Z, block, rows, W, b, center)
        value += compiled_softmax.softmax_chunk(A, block.t[rows], NOTHING if s is None else s, P)
        g += _gradient(Z, R, center)
        if inverse is not None:
            squares = (Z * Z) @ inverse
            longest = max(longest, float((squares if s is None else squares * (s > 0)).max(initial=0.0)))
        if few:
            gram.add_softmax_gram(Z, P, P @ others, NOTHING if s is None else s, pairs, scratch)
            continue
        if alike:
            B = np.concatenate([np.ones((len(Z), 1)), Z], axis=1) * (1.0 if s is None else np.sqrt(s)[:, None])
            part = B.T @ B
        else:
            part = reference.softmax_hessian(Z, P, P @ others, s)
        H = part if H is None else np.add(H, part, out=H)
    if few:
        H = gram.symmetric_hessian(pairs, C, M + 1)
    assert H is not None
    if alike:
        p = P[0, 1:]
        H = (np.diag(p) - np.outer(p, p))[:, None, :, None] * H[None, :, None, :]
    return value, g, H.reshape(C * (M + 1), C * (M + 1)), longest


def _csr(
    block: Block, W: Array, b: Array, center: Array, order: int, inverse: Array | None, h: Array
) -> tuple[float, Array, Array | None, float]:
    C, M = W.shape
    X, (s, offset) = block.X, _optional(block)
    if C == 1:
        g = np.zeros(M + 1)
        h = np.empty(block.n_rows) if order >= 2 and not h.size else h
        shift = float(b[0] - W[0] @ center)
        value = compiled.logistic_csr(X.data, X.indices, X.indptr, block.t, s, offset, W[0], shift, g, h)
        g[1:] -= center * g[0]
        return value, g[None], _csr_block(X, h, center) if order >= 2 else None, _csr_longest(X, s, center, inverse)
    A, R, P = _activations(X, block, slice(None), W, b, center)
    value = compiled_softmax.softmax_chunk(A, block.t, s, P)
    g2 = _gradient(X, R, center)
    H = None
    if order >= 2:
        H = np.zeros((C, M + 1, C, M + 1))
        for j in range(C):
            for k in range(j, C):
                h = -P[:, j + 1] * P[:, k + 1] if j != k else P[:, j + 1] * np.delete(P, j + 1, axis=1).sum(axis=1)
                h = h if block.s is None else h * block.s
                H[j, :, k, :] = _csr_block(X, h, center)
                H[k, :, j, :] = H[j, :, k, :]
        H = H.reshape(C * (M + 1), C * (M + 1))
    return value, g2, H, _csr_longest(X, s, center, inverse)


def _csr_block(X: Any, h: Array, center: Array) -> Array:
    M = X.shape[1]
    total = float(h.sum())
    first = np.asarray(X.T @ h)
    G = np.zeros((M + 1, M + 1))
    inner = np.zeros((M, M))
    compiled.csr_gram(X.data, X.indices, X.indptr, h, inner)
    inner += inner.T - np.diag(np.diag(inner))
    inner -= np.outer(center, first) + np.outer(first, center) - total * np.outer(center, center)
    G[0, 0] = total
    G[0, 1:] = G[1:, 0] = first - center * total
    G[1:, 1:] = inner
    return G


def _csr_longest(X: Any, s: Array, center: Array, inverse: Array | None) -> float:
    if inverse is None:
        return 0.0
    if len(inverse) and not center.any() and (inverse == inverse[0]).all():
        center, inverse = NOTHING, inverse[:1]
    base = float((center**2 * inverse).sum()) if center.size else 0.0
    return float(compiled.csr_longest(X.data, X.indices, X.indptr, s, center, inverse, base))
