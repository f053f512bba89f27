"""The kernels of large blocks: the same sums as `reference`, through compiled loops and matrix products of tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from oddsmith.block import Block
from oddsmith.kernels import compiled, compiled_softmax, gram, reference, vectors
from oddsmith.kernels.reference import CurvatureParams, Sums
from oddsmith.numerics import Array
from oddsmith.rows import HalfRows, RunRows, SparseRows

CHUNK_BYTES = 1 << 19
MOST_ROWS = 2048
"""Rows of a chunk, at most, where a Hessian has more rows than that."""
HALF_PRECISION = vectors.has_half_precision()
"""Whether this machine reads numbers of half precision as fast as others."""
NOTHING, NO_OFFSET = np.empty(0), np.empty((0, 1))
ALL = slice(None)


def curvature(block: Block, at: CurvatureParams) -> Sums:
    """As `reference.curvature`; the kernel is chosen by the storage of the rows. Fills the buffers of the block."""
    (C, M), Phi = at.W.shape, block.Phi
    if block.n_rows == 0:
        return reference.curvature(block, at)
    if isinstance(Phi, HalfRows) and at.order < 2 and C > 1 and block.s is None and block.offset is None:
        if at.inverse is None and not at.center.any():
            return _softmax_half(block, at)
    in_place = isinstance(Phi, RunRows) and C == 1 and M < gram.MOST_COLUMNS and Phi.X.flags.c_contiguous
    if not (in_place or (isinstance(Phi, HalfRows) and C == 1 and at.order < 2)):
        block = block.concrete()
    if block.is_sparse:
        return _csr(block, at)
    if C == 1:
        return _logistic_hessian(block, at) if at.order >= 2 else _logistic(block, at)
    return _softmax_hessian(block, at) if at.order >= 2 else _softmax(block, at)


def curvature_product(block: Block, at: CurvatureParams) -> Array:
    """As `reference.curvature_product`, with the curvatures of the rows if they are known."""
    W, b, center, (V, v), (C, P) = at.W, at.b, at.center, at.direction, at.size
    block = block.concrete()
    g = np.zeros((C, P))
    if block.is_sparse and C == 1:
        turn, h = float(v[0] - V[0] @ center), _row_curvature(block, at)
        if h.size:
            compiled.weighted_csr_product(_csr_arrays(block), h, V[0], turn, g[0])
        else:
            shift = float(b[0] - W[0] @ center)
            compiled.logistic_csr(_csr_arrays(block), _targets(block), W[0], shift, V[0], turn, g[0], h)
        g[0, 1:] -= center * g[0, 0]
        return g
    others = 1.0 - np.eye(C + 1)
    for rows in _ranges(block, C):
        Z, (t, s, offset) = _centred(block, rows, center), _targets(block, rows)
        A = _activations(Z, W, b, center, offset)
        Y = np.empty((len(A), C + 1))
        compiled_softmax.softmax_chunk(A, t, NOTHING, Y)
        dA = _activations(Z, V, v, center, NO_OFFSET)
        # y_j Σ_k y_k (da_j − da_k), the sums over the other classes alone: no cancellation where y_j is near 1.
        R = Y[:, 1:] * (dA * (Y @ others)[:, 1:] - (Y[:, 1:] * dA) @ others[1:, 1:])
        if s.size:
            R *= s[:, None]
        g += _gradient(Z, R, center)
    return g


def curvature_diagonal(block: Block, at: CurvatureParams) -> tuple[Array, Array]:
    """As `reference.curvature_diagonal`, with the curvatures of the rows if they are known."""
    C, P = at.size
    h = _row_curvature(block, at)
    if not (isinstance(block.Phi, SparseRows) and C == 1 and h.size and not at.center.any()):
        return reference.curvature_diagonal(block, at)
    sums = np.zeros((P, 2))
    compiled.csr_squares(_csr_arrays(block), h, sums)
    return sums[None, :, 0], sums[None, :, 1]


def curvature_root(block: Block, at: CurvatureParams) -> Array:
    """Return the rows √h (1, z) of two classes and dense rows, B (n × P): the Hessian is BᵀB."""
    B = np.empty((block.n_rows, at.size[1]))
    for rows in _ranges(block, 1):
        _roots(block, at, rows, B[rows], np.zeros(B.shape[1]))
    return B


def _array(block: Block) -> tuple[Any, tuple[int, int]]:
    """Return the array that rows are read from, how many rows of each run count, and the distance of the runs."""
    if isinstance(block.Phi, RunRows):
        return block.Phi.X, (block.Phi.length, block.Phi.distance)
    X = block.Phi.X if isinstance(block.Phi, HalfRows) else block.X
    n = max(1, block.n_rows)
    return X, (n, n)


def _targets(block: Block, rows: slice = ALL) -> tuple[Any, Array, Array]:
    """Return class codes, weights and offsets of some rows, empty where there are none."""
    s = NOTHING if block.s is None else block.s[rows]
    return block.t[rows], s, NO_OFFSET if block.offset is None else block.offset[rows]


def _row_curvature(block: Block, at: CurvatureParams) -> npt.NDArray[Any]:
    """Return the curvatures that are kept for the rows of a block, empty where there are none."""
    return _rows_of(at.buffers.curvature if at.buffers else None, block)


def _half_rows(block: Block, at: CurvatureParams) -> npt.NDArray[np.uint16]:
    """Return where the rows of a block go in half precision, flat and as bits, empty where they do not."""
    return _rows_of(at.buffers.half if at.buffers else None, block).reshape(-1).view(np.uint16)


def _rows_of(buffer: npt.NDArray[Any] | None, block: Block) -> npt.NDArray[Any]:
    return NOTHING if buffer is None else buffer[block.first_row : block.first_row + block.n_rows]


def _csr_arrays(block: Block) -> tuple[Any, Any, Any]:
    return block.X.data, block.X.indices, block.X.indptr


def _weights(at: CurvatureParams) -> tuple[Array, float, Array, Array]:
    """Return the weights of two classes, intercept, center and ``inverse`` (empty where there is none)."""
    return at.W[0], float(at.b[0]), at.center, NOTHING if at.inverse is None else at.inverse


def _logistic(block: Block, at: CurvatureParams) -> Sums:
    (X, runs), targets, weights, M = _array(block), _targets(block), _weights(at), at.W.shape[1]
    g = np.zeros(M + 1)
    if X.dtype == np.float16:
        X = np.ascontiguousarray(X).view(np.uint16)  # compiled code knows no other way to name them
    if X.flags.c_contiguous:
        residuals = np.empty(_tile_rows(max(1, X.itemsize * M)), np.float32 if X.itemsize == 2 else np.float64)
        scratch = vectors.scratch(X.itemsize, M), residuals, _half_rows(block, at)
        value, longest = compiled.logistic_c(X, targets, weights, g, *scratch, runs)
    else:
        columns = X.strides[0] == X.itemsize and X.strides[1] >= 0 and X.strides[1] % X.itemsize == 0
        XT = X.T if columns else np.ascontiguousarray(X.T)
        value, longest = compiled.logistic_f(*_flat(XT), targets, weights, g, 512 if M <= 200 else 256)
    return value, g[None], None, longest


def _tile_rows(row_bytes: int) -> int:
    """How many rows a tile has, a multiple of eight: as many as L1 holds twice, or once if they are long."""
    if row_bytes <= 128:
        return min(384, 16_384 // row_bytes // 8 * 8)
    return min(96, max(32, 24_576 // row_bytes // 8 * 8))


def _flat(XT: Any) -> tuple[Any, int]:
    """Return an array of contiguous rows as a flat one, which compiled code vectorises, and how far rows are apart."""
    apart = XT.strides[0] // XT.itemsize
    size = (XT.shape[0] - 1) * apart + XT.shape[1] if XT.size else 0
    return as_strided(XT, (size,), (XT.itemsize,)), apart


def _ranges(block: Block, C: int, least: int = 64) -> list[slice]:
    width = block.n_columns if not block.is_sparse else max(1, block.X.nnz // max(1, block.n_rows))
    step = max(least, CHUNK_BYTES // (8 * max(width, 2 * C)))
    return [slice(i, min(i + step, block.n_rows)) for i in range(0, block.n_rows, step)]


def _centred(block: Block, rows: slice, center: Array) -> Any:
    """Return some rows, those of an array centred: the zeros of CSR rows stay, and their centre is in the algebra."""
    return block.X[rows] if block.is_sparse else np.subtract(block.X[rows], center, dtype=np.float64)


def _activations(Z: Any, W: Array, b: Array, center: Array, offset: Array) -> Array:
    A = np.ascontiguousarray(Z @ W.T) + (b if isinstance(Z, np.ndarray) else b - W @ center)
    if offset.size:
        A += offset
    return A


def _gradient(Z: Any, R: Array, center: Array) -> Array:
    total = R.sum(axis=0)[:, None]
    inner = R.T @ Z if isinstance(Z, np.ndarray) else np.asarray(Z.T @ R).T - total * center
    return np.concatenate([total, inner], axis=1)


def _softmax(block: Block, at: CurvatureParams) -> Sums:
    g, (C, M) = np.zeros(at.size), at.W.shape
    tile = min(block.n_rows, max(64, CHUNK_BYTES // (8 * max(M, 2 * C))))
    weights = at.W, at.b, at.center, NOTHING if at.inverse is None else at.inverse
    half = _half_rows(block, at)
    value, longest = compiled_softmax.softmax(block.X, _targets(block), weights, g, tile, half, vectors.scratch(8, M))
    return value, g, None, longest


def _softmax_half(block: Block, at: CurvatureParams) -> Sums:
    """Softmax of plain rows in half precision."""
    g, (C, M) = np.zeros(at.size), at.W.shape
    tile = min(block.n_rows, max(64, CHUNK_BYTES // (16 * max(M, 2 * C))))
    rows = np.ascontiguousarray(_array(block)[0]).view(np.uint16)
    return compiled_softmax.softmax_half(rows, block.t, at.W, at.b, g, tile), g, None, 0.0


def _logistic_hessian(block: Block, at: CurvatureParams) -> Sums:
    """Two classes, dense rows. Of many columns a chunk at a time: rows √h (1, z) by a loop, their product by BLAS."""
    P, (X, runs) = at.size[1], _array(block)
    longest = 0.0 if at.inverse is None else _logistic(block, replace(at, buffers=None))[3]
    value, g = 0.0, np.zeros(P)
    if P <= gram.MOST_COLUMNS:
        G, scratch = np.zeros((gram.padded(P),) * 2), (vectors.scratch(8, P - 1), gram.tile_scratch(P))
        for rows in [ALL] if X.flags.c_contiguous else _ranges(block, 1):
            Z, targets = np.ascontiguousarray(X[rows]), _targets(block, rows)
            value += compiled.logistic_hessian(Z, targets, _weights(at), g, G, *scratch, runs)
        return value, g[None], gram.symmetric_hessian(G[None], 1, P), longest
    H: Array | None = None
    for rows in _ranges(block, 1, least=max(64, P - 1)):  # with fewer rows than columns H is more work than they are
        B = np.empty((rows.stop - rows.start, P))
        value += _roots(block, at, rows, B, g)
        H = B.T @ B if H is None else np.add(H, B.T @ B, out=H)
    return value, g[None], H, longest


def _roots(block: Block, at: CurvatureParams, rows: slice, B: Array, g: Array) -> float:
    """Fill ``B`` with the rows √h (1, z), add to the gradient ``g``, return the value."""
    Z, scratch = np.ascontiguousarray(block.X[rows]), (vectors.scratch(8, at.W.shape[1]), B.reshape(-1))
    runs = len(Z), len(Z)
    return float(compiled.logistic_hessian(Z, _targets(block, rows), _weights(at), g, B[:0], *scratch, runs))


def _softmax_hessian(block: Block, at: CurvatureParams) -> Sums:
    """Softmax, dense rows a chunk at a time: products by BLAS, probabilities by a compiled loop."""
    (C, P), M = at.size, at.W.shape[1]
    value, g, longest, others = 0.0, np.zeros((C, P)), 0.0, 1.0 - np.eye(C + 1)
    alike = not at.W.any() and block.offset is None  # all rows have the same probabilities
    few = 4 <= M < gram.MOST_COLUMNS and not alike  # fewer columns would be mostly padding, for each pair of classes
    pairs, scratch = np.zeros((C * (C + 1) // 2 if few else 0, *(gram.padded(P),) * 2)), gram.tile_scratch(P)
    H: Array | None = None
    for rows in _ranges(block, C, least=64 if few else max(64, min(C * P, MOST_ROWS))):
        Z, (t, s, offset) = _centred(block, rows, at.center), _targets(block, rows)
        R = _activations(Z, at.W, at.b, at.center, offset)
        Y = np.empty((len(R), C + 1))
        value += compiled_softmax.softmax_chunk(R, t, s, Y)
        g += _gradient(Z, R, at.center)
        if at.inverse is not None:
            squares = (Z * Z) @ at.inverse
            longest = max(longest, float((squares * (s > 0) if s.size else squares).max(initial=0.0)))
        if few:
            gram.add_softmax_gram(Z, Y, Y @ others, s, pairs, scratch)
            continue
        if alike:
            B = np.concatenate([np.ones((len(Z), 1)), Z], axis=1) * (np.sqrt(s)[:, None] if s.size else 1.0)
            part = B.T @ B
        else:
            part = reference.softmax_hessian(Z, Y, Y @ others, s if s.size else None)
        H = part if H is None else np.add(H, part, out=H)
    if few:
        return value, g, gram.symmetric_hessian(pairs, C, P), longest
    assert H is not None
    if alike:
        p = Y[0, 1:]
        H = (np.diag(p) - np.outer(p, p))[:, None, :, None] * H[None, :, None, :]
    return value, g, H.reshape(C * P, C * P), longest


def _csr(block: Block, at: CurvatureParams) -> Sums:
    (C, P), (t, s, offset) = at.size, _targets(block)
    longest = _csr_longest(block, s, at)
    if C == 1:
        g, h = np.zeros(P), _row_curvature(block, at)
        h = np.empty(block.n_rows) if at.order >= 2 and not h.size else h
        shift = float(at.b[0] - at.W[0] @ at.center)
        value = compiled.logistic_csr(_csr_arrays(block), (t, s, offset), at.W[0], shift, NOTHING, 0.0, g, h)
        g[1:] -= at.center * g[0]
        return value, g[None], _csr_hessian(block, h, at.center) if at.order >= 2 else None, longest
    R = _activations(block.X, at.W, at.b, at.center, offset)
    Y = np.empty((len(R), C + 1))
    value = compiled_softmax.softmax_chunk(R, t, s, Y)
    gradient = _gradient(block.X, R, at.center)
    if at.order < 2:
        return value, gradient, None, longest
    H = np.empty((C, P, C, P))
    for j in range(C):
        for k in range(j, C):
            h = -Y[:, j + 1] * Y[:, k + 1] if j != k else Y[:, j + 1] * np.delete(Y, j + 1, axis=1).sum(axis=1)
            H[j, :, k, :] = H[k, :, j, :] = _csr_hessian(block, h * s if s.size else h, at.center)
    return value, gradient, H.reshape(C * P, C * P), longest


def _csr_hessian(block: Block, h: Array, center: Array) -> Array:
    """Return ``Σ h (1, z)(1, z)ᵀ``, P × P."""
    M, total, first = block.n_columns, float(h.sum()), np.asarray(block.X.T @ h)
    G, inner = np.zeros((M + 1, M + 1)), np.zeros((M, M))
    compiled.csr_gram(_csr_arrays(block), h, inner)
    inner += inner.T - np.diag(np.diag(inner))
    inner -= np.outer(center, first) + np.outer(first, center) - total * np.outer(center, center)
    G[0, 0] = total
    G[0, 1:] = G[1:, 0] = first - center * total
    G[1:, 1:] = inner
    return G


def _csr_longest(block: Block, s: Array, at: CurvatureParams) -> float:
    center, inverse = at.center, at.inverse
    if inverse is None:
        return 0.0
    zeros = float((center**2 * inverse).sum())
    if len(inverse) and not center.any() and (inverse == inverse[0]).all():
        center, inverse = NOTHING, inverse[:1]  # reads no column indices
    return float(compiled.csr_longest(_csr_arrays(block), s, center, inverse, zeros))
