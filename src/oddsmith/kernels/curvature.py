"""The curvature sums of a block by the compiled kernels: the same as `reference`, chosen by the storage of the rows.

Links other than the logit, and machines without the compiled kernels, are served by the reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from oddsmith.block import Block
from oddsmith.errors import InvalidInputError
from oddsmith.kernels import native, reference, table
from oddsmith.kernels.class_sums import add_class_sums
from oddsmith.kernels.native import (
    CsrProblem,
    DenseProblem,
    Kernels,
    ModelHessiansProblem,
    address,
    addresses,
    contiguous,
    strided,
)
from oddsmith.kernels.reference import CurvatureParams, Sums
from oddsmith.losses import row_losses
from oddsmith.numerics import Array, sigmoid
from oddsmith.protocols import Indices
from oddsmith.rows import CodeRows, ColumnRows, DenseRows, HalfRows, LazyRows, RunRows, SparseRows, SplitRows

KINDS = {np.dtype(np.float64): 0, np.dtype(np.float32): 1, np.dtype(np.float16): 2}
LOGISTIC, PRODUCT, SQUARES, LONGEST, GRAM = range(5)  # The tasks of the CSR kernel.
BLAS_COLUMNS = 400  # Columns from which products by a library are faster: their sums do not stay in L2.
CHUNK_BYTES = 1 << 19
FEWEST_LANES = 16  # Columns that rows of half precision have at least: the lanes of the widest registers.


def curvature(block: Block, at: CurvatureParams) -> Sums:
    """As `reference.curvature`. Writes the buffers of ``at`` that belong to the rows of the block."""
    block = _in_parts(block)
    kernels = kernels_for(block, at)
    if kernels is not None and isinstance(block.Phi, SplitRows):
        from oddsmith.kernels import table_losses

        return table_losses.curvature(kernels, block, at, row_curvature(block, at))
    if kernels is None:
        return reference.curvature(block, at)
    if isinstance(block.Phi, SparseRows):
        return _csr(kernels, block, at)
    block = _readable(kernels, block, at)
    C, P = at.size
    if at.order >= 2 and C > 1 and not at.W.any() and block.offset is None:
        return _at_zero_weights(kernels, block, at)
    if at.order >= 2 and P > BLAS_COLUMNS:
        return _by_products(kernels, block, at)
    size, hessian = C * P, at.order >= 2
    sums = np.zeros(size + size * size if hessian else size)
    half_rows = None if hessian else _half_rows(kernels, block, at)
    value, longest = _dense(kernels, block, at, sums=sums, hessian=hessian, half_rows=half_rows)
    g = sums[:size].reshape(C, P)
    return value, g, sums[size:].reshape(size, size) if hessian else None, longest


def curvature_product(block: Block, at: CurvatureParams) -> Array:
    """As `reference.curvature_product`, with the curvatures of CSR rows if they are known."""
    block = _in_parts(block)
    kernels = kernels_for(block, at)
    if kernels is not None and isinstance(block.Phi, SplitRows):
        from oddsmith.kernels import table_losses

        return table_losses.curvature_product(kernels, block, at, row_curvature(block, at))
    if kernels is None or (isinstance(block.Phi, SparseRows) and len(at.b) > 1):
        return reference.curvature_product(block, at)
    if isinstance(block.Phi, SparseRows):
        return _csr_logistic(kernels, block, at, row_curvature(block, at), at.direction)[1]
    g, at = np.zeros(at.size), replace(at, inverse=None)
    _dense(kernels, _readable(kernels, block, at), at, sums=g, direction=at.direction)
    return g


def curvature_diagonal(block: Block, at: CurvatureParams) -> tuple[Array, Array]:
    """As `reference.curvature_diagonal`, with the curvatures of CSR rows if they are known."""
    block = _in_parts(block)
    kernels, h = kernels_for(block, at), row_curvature(block, at)
    if kernels is not None and isinstance(block.Phi, SplitRows):
        from oddsmith.kernels import table_losses

        return table_losses.curvature_diagonal(kernels, block, at, h)
    if kernels is not None and len(at.b) == 1 and isinstance(block.Phi, DenseRows):
        return _dense_diagonal(block, at)
    if kernels is None or h is None or not isinstance(block.Phi, SparseRows) or at.center.any():
        return reference.curvature_diagonal(block, at)
    diagonal, cross = np.zeros(at.size), np.zeros(at.size)
    kernels("csr", _csr_problem(block, g=diagonal, h=h, H=cross), SQUARES)
    return diagonal, cross


def curvature_intercepts(block: Block, at: CurvatureParams) -> Array:
    """As `reference.curvature_intercepts`."""
    kernels = kernels_for(block, at) if isinstance(block.Phi, SplitRows) and at.link is None else None
    if kernels is None:
        return reference.curvature_intercepts(block, at)
    from oddsmith.kernels import table_losses

    return table_losses.curvature_intercepts(kernels, block, at)


def _dense_diagonal(block: Block, at: CurvatureParams) -> tuple[Array, Array]:
    """Return the sums of the rows and of their squares, weighted by the curvature of each."""
    A = activations(block, at.W, at.b, at.center)
    h = row_losses(A if block.offset is None else A + block.offset, block.t, None).curvature(0, 0)
    M, one = block.n_columns, np.zeros(1, dtype=np.intp)
    weight, total, squares = np.zeros(1), np.zeros((1, M)), np.zeros((1, M))
    weighted = replace(block.concrete(), s=h if block.s is None else h * block.s)
    add_class_sums(weighted, one, one, np.ones(1, dtype=bool), (at.center[None].copy(), weight, total, squares))
    return np.append(weight, squares)[None], np.append(weight, total)[None]


def curvature_root(block: Block, at: CurvatureParams) -> Array:
    """Return the rows √h (1, z) of two classes and dense rows, B (n × P): the Hessian is BᵀB."""
    kernels = kernels_for(block, at)
    if kernels is None:
        return reference.curvature_root(block, at)
    B = np.empty((block.n_rows, at.size[1]))
    _dense(kernels, block.concrete(), replace(at, inverse=None), sums=np.zeros(at.size), root_rows=B)
    return B


def activations(block: Block, W: Array, b: Array, center: Array) -> Array:
    """Return ``b + W (φ − center)``, n × C, without the offset."""
    at = CurvatureParams(W=W, b=b, center=center)
    kernels = kernels_for(block, at)
    if kernels is not None and isinstance(block.Phi, SplitRows):
        return table.TableKernel(kernels, table.Layout.of(block), center).activations(W, b).T
    return np.asarray(block.Phi.activations(W.T) + (b - W @ center))


def has_half_precision() -> bool:
    """Whether this machine reads numbers of half precision as fast as others."""
    kernels = native.kernels()
    return kernels is not None and kernels.has_half


def kernels_for(block: Block, at: CurvatureParams) -> Kernels | None:
    """Return the kernels in use if they sum such losses; raise where they would read beyond the ends of arrays."""
    (n, M), (C, columns) = block.Phi.shape, at.W.shape
    in_parts = isinstance(block.Phi, SplitRows)
    if not (in_parts or at.link is None) or n == 0 or M == 0:
        return None
    if columns != M or at.center.shape != (M,):
        raise InvalidInputError(
            f"There are {columns} weights and {len(at.center)} centers, but the rows have {M} columns."
        )
    if block.offset is not None and block.offset.shape != (n, C):
        raise InvalidInputError(f"The offsets have the shape {block.offset.shape}, expected {(n, C)}.")
    return native.kernels() if not in_parts or table.reads(block, at.center) else None


def _in_parts(block: Block) -> Block:
    """Return the block with rows of codes or of columns as the one part of `SplitRows`, as their kernel reads them.

    Rows of a basis are computed: only then is it known whether they are sparse.
    """
    block = block.concrete() if isinstance(block.Phi, LazyRows) else block
    return replace(block, Phi=SplitRows((block.Phi,))) if isinstance(block.Phi, CodeRows | ColumnRows) else block


def _readable(kernels: Kernels, block: Block, at: CurvatureParams) -> Block:
    """Return the block with rows that a kernel reads in place: computed or copied together where they are not."""
    Phi = block.Phi
    if not isinstance(Phi, (RunRows, HalfRows)) or not (Phi.X.flags.c_contiguous and Phi.X.flags.aligned):
        return block.concrete()
    readable = Phi.dtype in KINDS
    if Phi.dtype == np.float16:  # value and gradient only, of several classes those of plain rows
        plain = len(at.b) == 1 or (block.s is None and block.offset is None and at.inverse is None)
        readable = kernels.has_half and at.order < 2 and at.V is None and Phi.shape[1] >= FEWEST_LANES and plain
    return block if readable else block.concrete()


def _array(block: Block) -> tuple[npt.NDArray[Any], int, int]:
    """Return the array that rows are read from, how many rows of each run count, and the distance of the runs."""
    if isinstance(block.Phi, RunRows):
        length, distance = block.Phi.length, block.Phi.distance
        last = (block.n_rows // length - 1) * distance  # what follows the last whole run is not counted
        return block.Phi.X[: last + length], length, distance
    X = block.Phi.X if isinstance(block.Phi, HalfRows) else strided(block.X)
    return X, len(X), len(X)


def _dense(
    kernels: Kernels,
    block: Block,
    at: CurvatureParams,
    *,
    sums: Array,
    hessian: bool = False,
    direction: tuple[Array, Array] | None = None,
    half_rows: npt.NDArray[Any] | None = None,
    root_rows: Array | None = None,
    moments: bool = False,
) -> tuple[float, float]:
    """Add to ``sums``, a gradient and then a Hessian, if one is asked for; return the value and the longest row.

    ``moments`` are sums of the rows' weights, not of losses.
    """
    (C, M), inverse = at.W.shape, () if at.inverse is None else (at.inverse,)
    ahead = () if direction is None else (direction[0].ravel(), direction[1])
    parts = (at.W.ravel(), at.b, at.center, *inverse, *ahead)
    numbers = np.concatenate(parts, dtype=np.float64)  # one address instead of six
    begin, to = numbers.ctypes.data, sums.ctypes.data
    center = begin + 8 * C * (M + 1)
    following = center + 8 * M * (1 + len(inverse))
    problem = DenseProblem.from_buffer_copy(dense_addresses(block, C))
    problem.C, problem.W, problem.b, problem.center = C, begin, begin + 8 * C * M, center
    problem.g, problem.H = to, to + 8 * C * (M + 1) if hessian else None
    if inverse:
        problem.inverse = center + 8 * M
    if direction is not None:
        problem.V, problem.v = following, following + 8 * C * M
        if C == 1 and not direction[0].any():  # the intercept alone: long rows are read as for a gradient
            problem.V = None
    if moments:
        problem.t = None
    problem.half_rows, problem.root_rows = address(half_rows), address(root_rows)
    kernels("dense", problem)
    return problem.value, problem.max_norm2


def dense_addresses(block: Block, C: int) -> DenseProblem:
    """Return a problem of the dense kernel with the arrays of a block alone, which the block keeps."""
    if not block.addresses:
        table.check_codes(block, C)
        X, run, apart = _array(block)
        t, s, offset = contiguous(block.t, np.int32), contiguous(block.s), contiguous(block.offset)
        row, column = X.strides[0] // X.itemsize, X.strides[1] // X.itemsize
        rows = (address(X), KINDS[X.dtype], *X.shape, row, column, run, apart)
        block.addresses.extend((DenseProblem(*rows, address(t), address(s), address(offset)), X, t, s, offset))
    problem: DenseProblem = block.addresses[0]
    return problem


def row_curvature(block: Block, at: CurvatureParams) -> npt.NDArray[Any] | None:
    """Return the curvatures that are kept for the rows of a block, if they are."""
    return _rows_of(at.buffers.curvature if at.buffers else None, block)


def _half_rows(kernels: Kernels, block: Block, at: CurvatureParams) -> npt.NDArray[Any] | None:
    """Return where a kernel puts the rows of a block in half precision, if it does; fill it where no kernel can."""
    rows, M = _rows_of(at.buffers.half if at.buffers else None, block), block.n_columns
    if rows is None:
        return None
    if kernels.has_half and block.s is None and at.inverse is not None and M >= FEWEST_LANES:
        X, run, apart = _array(block)
        if run == apart and X.dtype != np.float16 and X.strides == (M * X.itemsize, X.itemsize):
            return rows
    rows[:] = (block.Phi.dense() - at.center) * (1.0 if at.inverse is None else np.sqrt(at.inverse))
    return None


def _rows_of(buffer: npt.NDArray[Any] | None, block: Block) -> npt.NDArray[Any] | None:
    return None if buffer is None else buffer[block.first_row : block.first_row + block.n_rows]


def _at_zero_weights(kernels: Kernels, block: Block, at: CurvatureParams) -> Sums:
    """Sums of several classes where all rows have the same probabilities: one Gram matrix serves all pairs of them."""
    C, P = at.size
    value, g, _, longest = curvature(block, replace(at, order=1))
    e = np.exp(np.append(0.0, at.b) - max(0.0, at.b.max()))
    p = e / e.sum()
    between = -np.outer(p, p)
    np.fill_diagonal(between, p * (p @ (1.0 - np.eye(C + 1))))
    one = replace(at, W=at.W[:1], b=at.b[:1], inverse=None)
    sums = np.zeros(P + P * P)
    G = sums[P:].reshape(P, P)
    if P > BLAS_COLUMNS:
        for part in _chunks(block, one):
            B = np.empty((part.n_rows, P))
            _dense(kernels, part, one, sums=sums, root_rows=B, moments=True)
            G += B.T @ B
    else:
        _dense(kernels, block, one, sums=sums, hessian=True, moments=True)
    H = between[1:, None, 1:, None] * G[None, :, None, :]
    return value, g, H.reshape(C * P, C * P), longest


def _chunks(block: Block, at: CurvatureParams) -> Iterator[Block]:
    """Yield the rows in parts of at least as many rows as columns: with fewer, Hessians are more work than rows."""
    (C, P), block = at.size, block.concrete()
    step = max(64, P - 1, CHUNK_BYTES // (8 * max(P, 2 * C)))
    for start in range(0, block.n_rows, step):
        yield block.slice(start, min(start + step, block.n_rows))


def _by_products(kernels: Kernels, block: Block, at: CurvatureParams) -> Sums:
    """Sums of many columns, a chunk of rows at a time: rows √h (1, z) by a kernel, their products by BLAS."""
    C, P = at.size
    value, g, H, longest, others = 0.0, np.zeros((C, P)), np.zeros((C * P, C * P)), 0.0, 1.0 - np.eye(C + 1)
    table.check_codes(block, C)
    for part in _chunks(block, at):
        if C == 1:
            B = np.empty((part.n_rows, P))
            some, norm = _dense(kernels, part, at, sums=g, root_rows=B)
            H += B.T @ B
        else:
            Z, Y = part.Phi.dense() - at.center, np.empty((part.n_rows, C + 1))
            A = Z @ at.W.T + (at.b if part.offset is None else at.b + part.offset)
            some, norm = _softmax(kernels, A, part.t, part.s, Y), 0.0
            g += np.concatenate([A.sum(axis=0)[:, None], A.T @ Z], axis=1)
            H += reference.softmax_hessian(Z, Y, Y @ others, part.s).reshape(H.shape)
            if at.inverse is not None:
                norms = (Z * Z) @ at.inverse
                norm = float((norms if part.s is None else norms * (part.s > 0)).max())
        value, longest = value + some, max(longest, norm)
    return value, g, H, longest


def _softmax(kernels: Kernels, A: Array, t: npt.NDArray[np.int32], s: Array | None, Y: Array | None) -> float:
    """Turn activations ``A`` (n × C) into residuals, fill the probabilities ``Y`` (n × (C+1)), return the loss."""
    value = ctypes.c_double()
    t, weights = np.ascontiguousarray(t, dtype=np.int32), contiguous(s)
    kernels("softmax", address(A), *A.shape, 0, address(t), address(weights), address(Y), value)
    return value.value


def models(
    block: Block, at: CurvatureParams, *, slopes: bool = True, members: Sequence[Indices] = ()
) -> tuple[Array, Array, Array]:
    """Return losses (k) and gradients (k × (M + 1)) of k models of two classes, with weights ``at``, in one reading.

    Gradients are zero without ``slopes``. With ``members``, the coordinates of each that matter (0 is the intercept),
    the Hessians over them follow, one after the other.
    """
    kernels, Phi, (k, M) = native.kernels(), block.Phi.concrete(), at.W.shape
    if block.offset is not None and block.offset.shape[1] > 1:
        block = replace(block, offset=block.offset[:, :1])
    sizes = np.array([len(each) for each in members], dtype=np.int64)
    value, g, H = np.zeros(k), np.zeros((k, M + 1)), np.zeros(int((sizes**2).sum()))
    if kernels is not None and isinstance(Phi, DenseRows) and block.n_rows and M:
        held = block if Phi is block.Phi else replace(block, Phi=Phi)  # it keeps the arrays that the kernel reads
        problem = DenseProblem.from_buffer_copy(dense_addresses(held, 1))
        W, b, center = contiguous(at.W), contiguous(at.b), contiguous(at.center)
        problem.C, problem.W, problem.b, problem.center = k, address(W), address(b), address(center)
        problem.g = address(g) if slopes else None
        hessians = None
        if members:
            first, begin = (np.append(0, np.cumsum(each)) for each in (sizes, sizes**2))
            member = np.concatenate(members).astype(np.int32)
            hessians = ModelHessiansProblem(**addresses(first=first, member=member, at=begin, H=H))
        kernels("models", problem, address(value), hessians)
        return value, g, H
    block = replace(block, t=(block.t == 1).astype(np.int32))
    each = [curvature(block, replace(at, W=at.W[i : i + 1], b=at.b[i : i + 1], order=1)) for i in range(k)]
    if members:
        H = _model_hessians(block, at, members)
    return np.array([found[0] for found in each]), np.vstack([found[1] for found in each]), H


def _model_hessians(block: Block, at: CurvatureParams, members: Sequence[Indices]) -> Array:
    """Return the Hessians of models of two classes over some coordinates each, one after the other."""
    Z = np.column_stack([np.ones(block.n_rows), block.Phi.dense() - at.center])
    A = Z[:, 1:] @ at.W.T + at.b + (0.0 if block.offset is None else block.offset)
    h = sigmoid(A) * sigmoid(-A) * (1.0 if block.s is None else block.s[:, None])
    parts = (Z[:, which] for which in members)
    return np.concatenate([((own * h[:, i, None]).T @ own).ravel() for i, own in enumerate(parts)])


def _csr_rows(block: Block) -> csr_array:
    """Return the rows of a block as CSR kernels read them, which the block keeps: mostly its own.

    Numbers are float32 or float64, indices of one type, each array in one piece, and no entry is there twice.
    """
    if not block.addresses:
        X = block.X
        kinds = X.data.dtype in (np.float64, np.float32), X.indices.dtype == X.indptr.dtype
        whole = all(part.flags.c_contiguous and part.flags.aligned for part in (X.data, X.indices, X.indptr))
        if not (all(kinds) and whole and X.has_canonical_format):
            dtype = np.float32 if X.data.dtype == np.float32 else np.float64
            X = csr_array((X.data.astype(dtype), X.indices, X.indptr), shape=X.shape, copy=True)
            X.sum_duplicates()
        block.addresses.append(X)
    rows: csr_array = block.addresses[0]
    return rows


def _csr_problem(block: Block, **arrays: npt.NDArray[Any] | None) -> CsrProblem:
    """Return the problem of a CSR kernel; the arrays must stay alive."""
    X = _csr_rows(block)
    rows = address(X.data), address(X.indices), address(X.indptr), X.data.dtype == np.float32
    return CsrProblem(*rows, X.indices.dtype == np.int32, *X.shape, **addresses(**arrays))


def _csr_logistic(
    kernels: Kernels, block: Block, at: CurvatureParams, h: Array | None, direction: tuple[Array, Array] | None = None
) -> tuple[float, Array]:
    """Return value and gradient of two classes and fill the curvatures ``h``; or the product with a direction."""
    W, center, g = contiguous(at.W[0]), at.center, np.zeros(at.size[1])
    t, s, offset = contiguous(block.t, np.int32), contiguous(block.s), contiguous(block.offset)
    V = None if direction is None else contiguous(direction[0][0])
    problem = _csr_problem(block, t=t, s=s, offset=offset, w=W, v=V, g=g, h=h)
    problem.b = float(at.b[0] - at.W[0] @ center)
    problem.v0 = 0.0 if direction is None else float(direction[1][0] - direction[0][0] @ center)
    kernels("csr", problem, LOGISTIC if direction is None or h is None else PRODUCT)
    g[1:] -= center * g[0]
    return float(problem.value), g[None]


def _csr(kernels: Kernels, block: Block, at: CurvatureParams) -> Sums:
    (C, P), s = at.size, block.s
    longest = _csr_longest(kernels, block, at)
    if C == 1:
        h = row_curvature(block, at)
        h = np.empty(block.n_rows) if at.order >= 2 and h is None else h
        value, g = _csr_logistic(kernels, block, at, h)
        return value, g, None if at.order < 2 or h is None else _csr_hessian(kernels, block, h, at), longest
    table.check_codes(block, C)
    A = np.ascontiguousarray(block.X @ at.W.T, dtype=np.float64) + (at.b - at.W @ at.center)
    A += 0.0 if block.offset is None else block.offset
    Y = np.empty((len(A), C + 1)) if at.order >= 2 else None
    value = _softmax(kernels, A, block.t, s, Y)
    total = A.sum(axis=0)[:, None]
    gradient = np.concatenate([total, np.asarray(block.X.T @ A).T - total * at.center], axis=1)
    if Y is None:
        return value, gradient, None, longest
    H = np.empty((C, P, C, P))
    for j in range(C):
        for k in range(j, C):
            h = -Y[:, j + 1] * Y[:, k + 1] if j != k else Y[:, j + 1] * np.delete(Y, j + 1, axis=1).sum(axis=1)
            H[j, :, k, :] = H[k, :, j, :] = _csr_hessian(kernels, block, h if s is None else h * s, at)
    return value, gradient, H.reshape(C * P, C * P), longest


def _csr_hessian(kernels: Kernels, block: Block, h: Array, at: CurvatureParams) -> Array:
    """Return ``Σ h (1, z)(1, z)ᵀ``, P × P."""
    M, total, first, center = block.n_columns, float(h.sum()), np.asarray(block.X.T @ h), at.center
    G, inner, h = np.zeros((M + 1, M + 1)), np.zeros((M, M)), np.ascontiguousarray(h)
    kernels("csr", _csr_problem(block, h=h, H=inner), GRAM)
    inner += inner.T - np.diag(np.diag(inner))
    inner -= np.outer(center, first) + np.outer(first, center) - total * np.outer(center, center)
    G[0, 0] = total
    G[0, 1:] = G[1:, 0] = first - center * total
    G[1:, 1:] = inner
    return G


def _csr_longest(kernels: Kernels, block: Block, at: CurvatureParams) -> float:
    if at.inverse is None:
        return 0.0
    s, (center, inverse) = contiguous(block.s), (np.ascontiguousarray(a, dtype=float) for a in (at.center, at.inverse))
    same = not center.any() and bool((inverse == inverse[0]).all())  # then no column indices are read
    problem = _csr_problem(block, s=s, w=None if same else center, v=inverse)
    problem.b = float((center**2 * inverse).sum())
    kernels("csr", problem, LONGEST)
    return float(problem.value)
