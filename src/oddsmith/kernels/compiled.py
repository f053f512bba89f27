"""Compiled kernels: one pass per evaluation over a block, in tiles that stay in the cache.

Two classes: activation, probability, loss and gradient of a row are made while it is in the cache of its core, from
C-ordered, F-ordered or CSR rows of float32 or float64, summed in float64. Softmax: the products are matrix products
of a tile (BLAS), the probabilities a compiled loop. This module is imported for large problems only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp

from oddsmith.kernels.scalar import EXACT, SUMS, exp_negative, log1p_unit, logistic_tile, prefetch

TILE_BYTES = 32_768


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _sum(values: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


# Indices are unsigned in the inner loops: a signed one could mean "from the end", and the check for that keeps
# compilers from using vector registers. Rows are addressed in the flat array, since a slice is counted references.


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _dots_c(x: Any, base: Any, M: Any, u: Any, center: Any, a: Any, n: Any, ahead: Any) -> None:
    """a_i = Σ_j u_j (x_ij − c_j) for the n rows of length M that begin at x[base], four at a time.

    Meanwhile the first half of the tile that begins at x[ahead] is called into the cache (0: none); `_add_c` calls
    the second half. All at once would be more than memory can send while a tile is worked on.
    """
    i = uintp(0)
    line = uintp(64 // x.itemsize)
    k = ahead
    while i + uintp(4) <= n:
        k0 = base + i * M
        if ahead > uintp(0):
            end = ahead + (i + uintp(4)) // uintp(2) * M
            while k < end:
                prefetch(x, k)
                k += line
        k1 = k0 + M
        k2 = k1 + M
        k3 = k2 + M
        s0 = s1 = s2 = s3 = 0.0
        for j in range(M):
            w, c = u[j], center[j]
            s0 += (x[k0 + j] - c) * w
            s1 += (x[k1 + j] - c) * w
            s2 += (x[k2 + j] - c) * w
            s3 += (x[k3 + j] - c) * w
        a[i] = s0
        a[i + uintp(1)] = s1
        a[i + uintp(2)] = s2
        a[i + uintp(3)] = s3
        i += uintp(4)
    while i < n:
        k0 = base + i * M
        s0 = 0.0
        for j in range(M):
            s0 += (x[k0 + j] - center[j]) * u[j]
        a[i] = s0
        i += uintp(1)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _longest_c(x: Any, base: Any, M: Any, inverse: Any, center: Any, s: Any, first: Any, n: Any) -> float:
    """max_i Σ_j inverse_j (x_ij − c_j)² over the rows of positive weight."""
    longest = 0.0
    for i in range(n):
        if s.size and s[first + i] == 0.0:
            continue
        k = base + i * M
        total = 0.0
        for j in range(M):
            z = x[k + j] - center[j]
            total += z * z * inverse[j]
        longest = max(longest, total)
    return longest


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _add_c(x: Any, base: Any, M: Any, r: Any, center: Any, g: Any, n: Any, ahead: Any) -> None:
    """g_j += Σ_i r_i (x_ij − c_j), while the second half of the tile at x[ahead] is called into the cache."""
    i = uintp(0)
    line = uintp(64 // x.itemsize)
    k = ahead + n // uintp(2) * M
    while i + uintp(4) <= n:
        k0 = base + i * M
        if ahead > uintp(0):
            end = ahead + (n // uintp(2) + (i + uintp(4)) // uintp(2)) * M
            while k < end:
                prefetch(x, k)
                k += line
        k1 = k0 + M
        k2 = k1 + M
        k3 = k2 + M
        r0, r1, r2, r3 = r[i], r[i + uintp(1)], r[i + uintp(2)], r[i + uintp(3)]
        for j in range(M):
            c = center[j]
            g[j] += (r0 * (x[k0 + j] - c) + r1 * (x[k1 + j] - c)) + (r2 * (x[k2 + j] - c) + r3 * (x[k3 + j] - c))
        i += uintp(4)
    while i < n:
        k0 = base + i * M
        for j in range(M):
            g[j] += r[i] * (x[k0 + j] - center[j])
        i += uintp(1)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _tile_rows(a: Any, b: float, sign: Any, s: Any, first: Any, n: Any, r: Any, h: Any) -> Any:
    """Turn activations of a tile into residuals ``r`` and curvatures ``h``; return the loss."""
    logistic_tile(a, b, sign, r, h, n)
    if s.size:
        for i in range(n):
            a[i] *= s[first + i]
            r[i] *= s[first + i]
            h[i] *= s[first + i]
    return _sum(a, n)


@njit(cache=True, nogil=True, error_model="numpy")
def _signs(t: Any, offset: Any, first: Any, n: Any, sign: Any, a: Any) -> None:
    """Signs of the classes of a tile; its offsets are added to the activations."""
    for i in range(n):
        sign[i] = 2.0 * t[first + i] - 1.0
    if offset.size:
        for i in range(n):
            a[i] += offset[first + i, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_c(
    X: Any, t: Any, s: Any, offset: Any, u: Any, b: float, center: Any, inverse: Any, g: Any, tile: int
) -> tuple[float, float]:
    """Two classes, C order: add the gradient to ``g`` (intercept first); return loss and longest row."""
    N, M = uintp(X.shape[0]), uintp(X.shape[1])
    x, step, slopes = X.ravel(), uintp(tile), g[1:]
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    value, longest = 0.0, 0.0
    first = uintp(0)
    while first < N:
        n = min(step, N - first)
        ahead = (first + step) * M if first + step + step <= N else uintp(0)
        _dots_c(x, first * M, M, u, center, a, n, ahead)
        if inverse.size:
            longest = max(longest, _longest_c(x, first * M, M, inverse, center, s, first, n))
        _signs(t, offset, first, n, sign, a)
        value += _tile_rows(a, b, sign, s, first, n, r, h)
        g[0] += _sum(r, n)
        _add_c(x, first * M, M, r, center, slopes, n, ahead)
        first += step
    return value, longest


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_dots(x: Any, u: float, c: float, a: Any, n: int) -> None:
    for i in range(n):
        a[i] += u * (x[i] - c)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_squares(x: Any, inverse: float, c: float, q: Any, n: int) -> None:
    for i in range(n):
        q[i] += inverse * (x[i] - c) * (x[i] - c)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_product(x: Any, c: float, r: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += r[i] * (x[i] - c)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_f(
    XT: Any, t: Any, s: Any, offset: Any, u: Any, b: float, center: Any, inverse: Any, g: Any, tile: int
) -> tuple[float, float]:
    """Two classes, F order: the same from the transposed view ``XT`` (M × N, rows contiguous)."""
    M, N = XT.shape
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    value, longest = 0.0, 0.0
    for first in range(0, N, tile):
        n = min(tile, N - first)
        a[:n] = 0.0
        for j in range(M):
            _column_dots(XT[j, first : first + n], u[j], center[j], a, n)
        if inverse.size:
            h[:n] = 0.0
            for j in range(M):
                _column_squares(XT[j, first : first + n], inverse[j], center[j], h, n)
            if s.size:
                h[:n] *= s[first : first + n] > 0.0
            longest = max(longest, h[:n].max())
        _signs(t, offset, first, n, sign, a)
        value += _tile_rows(a, b, sign, s, first, n, r, h)
        g[0] += _sum(r, n)
        for j in range(M):
            g[j + 1] += _column_product(XT[j, first : first + n], center[j], r, n)
    return value, longest


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_csr(
    data: Any, indices: Any, indptr: Any, t: Any, s: Any, offset: Any, u: Any, b: float, g: Any, h_out: Any
) -> float:
    """Two classes, CSR rows, not centred: add the gradient to ``g``; return the loss.

    Curvatures go to ``h_out`` if it has room for them.
    """
    tile = 64
    N = indptr.size - 1
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    value = 0.0
    for first in range(0, N, tile):
        n = min(tile, N - first)
        for i in range(n):
            total = 0.0
            for p in range(uintp(indptr[first + i]), uintp(indptr[first + i + 1])):
                total += data[p] * u[uintp(indices[p])]
            a[i] = total
        _signs(t, offset, first, n, sign, a)
        value += _tile_rows(a, b, sign, s, first, n, r, h)
        g[0] += _sum(r, n)
        if h_out.size:
            h_out[first : first + n] = h[:n]
        for i in range(n):
            for p in range(uintp(indptr[first + i]), uintp(indptr[first + i + 1])):
                g[uintp(indices[p]) + uintp(1)] += r[i] * data[p]
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_csr_product(data: Any, indices: Any, indptr: Any, h: Any, v: Any, v0: float, g: Any) -> None:
    """Add Σ_i h_i (v0 + xᵀv) (1, x) to ``g``: a Hessian product where the curvatures h are known."""
    for i in range(indptr.size - 1):
        change = v0
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            change += data[p] * v[uintp(indices[p])]
        w = h[i] * change
        g[0] += w
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            g[uintp(indices[p]) + uintp(1)] += w * data[p]


@njit(cache=True, nogil=True, error_model="numpy")
def csr_squares(data: Any, indices: Any, indptr: Any, h: Any, sums: Any) -> None:
    """Add Σ_i h_i (1, x²) and Σ_i h_i (1, x) to the columns of ``sums``."""
    for i in range(indptr.size - 1):
        sums[0, 0] += h[i]
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            j, hx = uintp(indices[p]) + uintp(1), h[i] * data[p]
            sums[j, 0] += hx * data[p]
            sums[j, 1] += hx
    sums[0, 1] = sums[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def csr_longest(data: Any, indices: Any, indptr: Any, s: Any, center: Any, inverse: Any, base: float) -> float:
    """max_i Σ_j inverse_j (x_ij − c_j)² over the rows of positive weight; ``base`` is the value of a row of zeros."""
    longest = 0.0
    for i in range(indptr.size - 1):
        if s.size and s[i] == 0.0:
            continue
        total = base
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            j = uintp(indices[p])
            total += inverse[j] * data[p] * (data[p] - 2.0 * center[j])
        longest = max(longest, total)
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_csr_product(
    data: Any, indices: Any, indptr: Any, t: Any, s: Any, offset: Any, u: Any, b: float, v: Any, v0: float, g: Any
) -> None:
    """Two classes, CSR rows, not centred: add the Hessian at (b, u) times the direction (v0, v) to ``g``."""
    tile = 64
    N = indptr.size - 1
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    da = np.empty(tile)
    for first in range(0, N, tile):
        n = min(tile, N - first)
        for i in range(n):
            total, change = 0.0, v0
            for p in range(uintp(indptr[first + i]), uintp(indptr[first + i + 1])):
                j = uintp(indices[p])
                total += data[p] * u[j]
                change += data[p] * v[j]
            a[i], da[i] = total, change
        _signs(t, offset, first, n, sign, a)
        _tile_rows(a, b, sign, s, first, n, r, h)
        for i in range(n):
            w = h[i] * da[i]
            g[0] += w
            for p in range(uintp(indptr[first + i]), uintp(indptr[first + i + 1])):
                g[uintp(indices[p]) + uintp(1)] += w * data[p]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _root_rows(x: Any, M: Any, h: Any, center: Any, B: Any, n: Any) -> None:
    """B_i = √h_i (1, x_i − center), rows of length M + 1 in a flat array."""
    for i in range(n):
        w = np.sqrt(h[i])
        k, out = i * M, i * (M + uintp(1))
        B[out] = w
        out += uintp(1)
        for j in range(M):
            B[out + j] = w * (x[k + j] - center[j])


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_chunk(Z: Any, t: Any, s: Any, offset: Any, u: Any, b: float, center: Any, B: Any, g: Any) -> Any:
    """Two classes, some C-ordered rows: loss, gradient into ``g``, Hessian rows √h (1, z) into ``B``."""
    n, M, zero = uintp(Z.shape[0]), uintp(Z.shape[1]), uintp(0)
    a, sign, r, h = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    x = Z.ravel()
    _dots_c(x, zero, M, u, center, a, n, zero)
    _signs(t, offset, zero, n, sign, a)
    value = _tile_rows(a, b, sign, s, zero, n, r, h)
    g[0] += _sum(r, n)
    _add_c(x, zero, M, r, center, g[1:], n, zero)
    _root_rows(x, M, h, center, B.ravel(), n)
    return value


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def softmax_chunk(A: Any, t: Any, s: Any, P: Any) -> float:
    """Softmax: activations ``A`` (n × C, against class 0) become residuals; P (n × (C+1)) the probabilities.

    Returns the loss. Weights multiply the residuals, not the probabilities.
    """
    n, C = A.shape
    value = 0.0
    for i in range(n):
        row, p = A[i], P[i]
        top = 0.0
        for k in range(C):
            top = max(top, row[k])
        own = row[t[i] - 1] if t[i] > 0 else 0.0
        p[0] = exp_negative(-top)
        for k in range(C):
            p[k + 1] = exp_negative(row[k] - top)
        total = 0.0
        for k in range(C + 1):
            total += p[k]
        scale = 1.0 / total
        others = 0.0
        for k in range(C + 1):
            p[k] *= scale
            if k != t[i]:
                others += p[k]
        # −log p of a row that is fitted well comes from the other classes: no cancellation.
        loss = -np.log1p(-others) if others < 0.5 else (top - own) + np.log(total)
        weight = s[i] if s.size else 1.0
        value += weight * loss
        for k in range(C):
            row[k] = weight * p[k + 1]
        if t[i] > 0:
            row[t[i] - 1] = -weight * others
    return value


# The same with a class in each row of an array: the loops over rows of data are then those that are vectorised.


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _raise_to(a: Any, top: Any, n: int) -> None:
    for i in range(n):
        top[i] = max(top[i], a[i])


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _exp_below(a: Any, top: Any, total: Any, n: int) -> None:
    for i in range(n):
        a[i] = exp_negative(a[i] - top[i])
        total[i] += a[i]


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _sum_others(a: Any, t: Any, k: Any, others: Any, n: int) -> None:
    for i in range(n):
        others[i] += 0.0 if t[i] == k else a[i]


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _near_losses(others: Any, total: Any, scale: Any, loss: Any, n: int) -> None:
    """−log p = log(1 + q) with q = (1 − p) / p, where the own class has at least half."""
    for i in range(n):
        scale[i] = 1.0 / total[i]
        others[i] *= scale[i]
        q = others[i] / (1.0 - others[i])
        loss[i] = log1p_unit(q if others[i] < 0.5 else 0.0)


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _residuals(a: Any, t: Any, k: Any, others: Any, scale: Any, n: int) -> None:
    for i in range(n):
        a[i] = -others[i] if t[i] == k else a[i] * scale[i]


@njit(cache=True, nogil=True, fastmath=EXACT, error_model="numpy")
def _softmax_tile(A: Any, t: Any, n: int, loss: Any, room: Any) -> None:
    """Activations ``A`` (C × n, against class 0) become residuals, and losses go to ``loss``."""
    C = A.shape[0]
    top, total, others, own, scale = room[0], room[1], room[2], room[3], room[4]
    for i in range(n):
        own[i] = A[t[i] - 1, i] if t[i] > 0 else 0.0
        top[i] = others[i] = 0.0
    for k in range(C):
        _raise_to(A[k], top, n)
    for i in range(n):
        total[i] = exp_negative(-top[i])
    _sum_others(total, t, 0, others, n)
    for k in range(C):
        _exp_below(A[k], top, total, n)
        _sum_others(A[k], t, k + 1, others, n)
    _near_losses(others, total, scale, loss, n)
    for i in range(n):
        if not others[i] < 0.5:
            loss[i] = (top[i] - own[i]) + np.log(total[i])
    for k in range(C):
        _residuals(A[k], t, k + 1, others, scale, n)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _square(z: Any, inverse: Any) -> float:
    total = 0.0
    for j in range(z.size):
        total += z[j] * z[j] * inverse[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _centre(X: Any, first: int, n: int, center: Any, Z: Any) -> None:
    for i in range(n):
        row, z = X[first + i], Z[i]
        for j in range(center.size):
            z[j] = row[j] - center[j]


@njit(cache=True, nogil=True, error_model="numpy")
def softmax(
    X: Any, t: Any, s: Any, offset: Any, W: Any, b: Any, center: Any, inverse: Any, g: Any, tile: int
) -> tuple[float, float]:
    """Softmax: add the gradient to ``g`` (C × (M + 1)), return the loss and the longest row; products by BLAS."""
    N, M = X.shape
    C = W.shape[0]
    V = np.ascontiguousarray(W.T)
    Z, A, R, G = np.zeros((tile, M)), np.empty((tile, C)), np.empty((C, tile)), np.empty((C, M))
    loss, room = np.empty(tile), np.empty((5, tile))
    value, longest = 0.0, 0.0
    for first in range(0, N, tile):
        n = min(tile, N - first)
        _centre(X, first, n, center, Z)
        np.dot(Z, V, A)
        for k in range(C):
            for i in range(n):
                R[k, i] = A[i, k] + b[k]
            if offset.size:
                R[k, :n] += offset[first : first + n, k]
        _softmax_tile(R, t[first : first + n], n, loss, room)
        if s.size:
            loss[:n] *= s[first : first + n]
        value += _sum(loss, n)
        for k in range(C):
            if s.size:
                R[k, :n] *= s[first : first + n]
            R[k, n:] = 0.0
            g[k, 0] += _sum(R[k], n)
        np.dot(R, Z, G)
        g[:, 1:] += G
        if inverse.size:
            for i in range(n):
                if not s.size or s[first + i] > 0.0:
                    longest = max(longest, _square(Z[i], inverse))
    return value, longest


@njit(cache=True, nogil=True, error_model="numpy")
def csr_gram(data: Any, indices: Any, indptr: Any, h: Any, G: Any) -> None:
    """Add Σ_i h_i x_ij x_ik to G_jk once for each pair of non-zeros of a row: G + Gᵀ − diag(G) is the Gram matrix."""
    M = uintp(G.shape[1])
    flat = G.ravel()
    for i in range(indptr.size - 1):
        first, last = uintp(indptr[i]), uintp(indptr[i + 1])
        for p in range(first, last):
            left = h[i] * data[p]
            row = uintp(indices[p]) * M
            for q in range(first, p + uintp(1)):
                flat[row + uintp(indices[q])] += left * data[q]
