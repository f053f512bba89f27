"""Compiled kernels of two classes: one pass per evaluation over a block, in tiles that stay in the cache.

Rows are in C order, F order or CSR, float32 or float64, summed in float64; more classes are in `compiled_softmax`. This
module is imported for large problems only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp

from oddsmith.kernels.gram import add_gram, centred_rows
from oddsmith.kernels.scalar import SUMS, logistic_tile, prefetch, residual_tile, sum_of
from oddsmith.kernels.vectors import add_columns, add_sums, eight_dots, pack, pack_half_rows, value_at

AHEAD = uintp(384)


# Indices are unsigned in the inner loops: a signed one could mean "from the end", and the check for that keeps
# compilers from using vector registers. Rows are addressed in the flat array, since a slice is counted references.


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _dots_c(x: Any, base: Any, M: Any, u: Any, center: Any, U: Any, C: Any, a: Any, n: Any, ahead: Any) -> None:
    """a_i = Σ_j u_j (x_ij − c_j) for the n rows of length M that begin at x[base], eight at a time.

    U and C are u and center in groups (`pack`), of long rows. The first half of the tile at x[ahead] is prefetched.
    """
    i = uintp(0)
    if U.size:
        while i + uintp(8) <= n:
            eight_dots(x, base + i * M, M, C, i, ahead + i * M // uintp(2), U, a, None, None)
            i += uintp(8)
    while i + uintp(4) <= n:  # short rows, four at a time
        k0 = base + i * M
        k1, k2, k3 = k0 + M, k0 + M + M, k0 + M + M + M
        s0 = s1 = s2 = s3 = 0.0
        for j in range(M):
            w, c = u[j], center[j]
            s0 += (value_at(x, k0 + j) - c) * w
            s1 += (value_at(x, k1 + j) - c) * w
            s2 += (value_at(x, k2 + j) - c) * w
            s3 += (value_at(x, k3 + j) - c) * w
        a[i], a[i + uintp(1)], a[i + uintp(2)], a[i + uintp(3)] = s0, s1, s2, s3
        i += uintp(4)
    while i < n:
        first = base + i * M
        total = 0.0
        for j in range(M):
            total += (value_at(x, first + j) - center[j]) * u[j]
        a[i] = total
        i += uintp(1)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _dots_and_squares_c(x: Any, base: Any, M: Any, weights: Any, wide: Any, a: Any, q: Any, n: Any, ahead: Any) -> None:
    """The same, and q_i = Σ_j inverse_j (x_ij − c_j)²; ``wide`` holds u, center and inverse in groups."""
    u, _, center, inverse = weights
    i = uintp(0)
    if wide.size:
        while i + uintp(8) <= n:
            eight_dots(x, base + i * M, M, wide[1], i, ahead + i * M // uintp(2), wide[0], a, wide[2], q)
            i += uintp(8)
    while i < n:
        k = base + i * M
        total = square = 0.0
        for j in range(M):
            z = value_at(x, k + j) - center[j]
            total += z * u[j]
            square += z * z * inverse[j]
        a[i], q[i] = total, square
        i += uintp(1)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _add_c(
    x: Any, base: Any, M: Any, r: Any, center: Any, C: Any, sums: Any, residuals: Any, g: Any, n: Any, ahead: Any
) -> None:
    """g_j += Σ_i r_i (x_ij − c_j), while the second half of the tile at x[ahead] is prefetched.

    C is center in groups, whose sums are collected for `add_sums`; ``residuals`` is scratch in the precision of sums.
    """
    i = uintp(0)
    if C.size and n >= uintp(4):
        i = n // uintp(4) * uintp(4)
        for row in range(i):
            residuals[row] = r[row]
        rest = ahead + n * M // uintp(2)
        lanes = uintp(64 // C.itemsize)
        for j in range(uintp(0), uintp(C.size), lanes):
            place = rest + j * n // uintp(2)
            add_columns(x, base + min(j, M - lanes), M, i, residuals, C, sums, j, place)
    while i + uintp(4) <= n:
        k0 = base + i * M
        k1, k2, k3 = k0 + M, k0 + M + M, k0 + M + M + M
        r0, r1, r2, r3 = r[i], r[i + uintp(1)], r[i + uintp(2)], r[i + uintp(3)]
        for j in range(M):
            c = center[j]
            first_two = r0 * (value_at(x, k0 + j) - c) + r1 * (value_at(x, k1 + j) - c)
            g[j] += first_two + (r2 * (value_at(x, k2 + j) - c) + r3 * (value_at(x, k3 + j) - c))
        i += uintp(4)
    while i < n:
        first = base + i * M
        for j in range(M):
            g[j] += r[i] * (value_at(x, first + j) - center[j])
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
    return sum_of(a, n)


@njit(cache=True, nogil=True, error_model="numpy")
def _tile_residuals(a: Any, b: float, sign: Any, s: Any, first: Any, n: Any, r: Any, h: Any) -> Any:
    """Turn activations of a tile into residuals ``r`` alone; return the loss."""
    if not s.size:
        value, exact = residual_tile(a, b, sign, r, n)
        if exact:
            return value
    return _tile_rows(a, b, sign, s, first, n, r, h)


@njit(cache=True, nogil=True, error_model="numpy")
def _signs(t: Any, offset: Any, first: Any, n: Any, sign: Any, a: Any) -> None:
    """Signs of the classes of a tile; its offsets are added to the activations."""
    for i in range(n):
        sign[i] = 2.0 * t[first + i] - 1.0
    if offset.size:
        for i in range(n):
            a[i] += offset[first + i, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def _tile_after(first: Any, n: Any, end: Any, run: Any, apart: Any, N: Any) -> tuple[Any, Any]:
    """Where the tile begins that comes after n rows of a run that ends there, and where its own run ends."""
    if first + n < end:
        return first + n, end
    begin = end + apart - run
    return begin, min(begin + run, N)


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_c(X: Any, targets: Any, weights: Any, g: Any, wide: Any, residuals: Any, half: Any, runs: Any) -> Any:
    """Two classes, C order: add the gradient to ``g`` (intercept first); return loss and longest row.

    ``targets`` are class codes, weights of rows and offsets; ``weights`` are u, b, center and inverse. ``wide`` is
    `scratch` for the columns in groups, ``residuals`` for those of a tile. The rows, centred and scaled by the root of
    inverse, go to ``half`` if it is not empty (all have weight 1). ``runs`` are the length of a run of rows that counts
    and the distance between runs; ``targets`` have entries for those rows alone.
    """
    (t, s, offset), (u, b, center, inverse), (run, apart) = targets, weights, runs
    N, M, tile = uintp(X.shape[0]), uintp(X.shape[1]), residuals.size
    x, step, slopes = X.ravel(), uintp(tile), g[1:]
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    pack(wide, u, center, inverse)
    U, C, V, root, sums = wide[0], wide[1], wide[2], wide[3], np.zeros(wide.shape[1])
    value, longest = 0.0, 0.0
    first, end, seen = uintp(0), min(uintp(run), N), uintp(0)
    while first < N:
        n = min(step, end - first)
        following, last = _tile_after(first, n, end, uintp(run), uintp(apart), N)
        ahead = following * M if following + step <= N else first * M
        if inverse.size and not half.size:
            _dots_and_squares_c(x, first * M, M, weights, wide, a, h, n, ahead)
            for i in range(n):
                if not s.size or s[seen + i] > 0.0:
                    longest = max(longest, h[i])
        else:
            _dots_c(x, first * M, M, u, center, U, C, a, n, ahead)
        if half.size:
            longest = max(longest, pack_half_rows(x, first * M, n, M, C, V, root, half))
        _signs(t, offset, seen, n, sign, a)
        value += _tile_residuals(a, b, sign, s, seen, n, r, h)
        g[0] += sum_of(r, n)
        _add_c(x, first * M, M, r, center, C, sums, residuals, slopes, n, ahead)
        first, end, seen = following, last, seen + n
    add_sums(sums, 64 // wide.itemsize, slopes)
    return value, longest


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_dots(x: Any, k: Any, u: float, c: float, a: Any, n: Any) -> None:
    for i in range(n):
        a[i] += u * (x[k + i] - c)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_squares(x: Any, k: Any, inverse: float, c: float, q: Any, n: Any) -> None:
    for i in range(n):
        q[i] += inverse * (x[k + i] - c) * (x[k + i] - c)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _column_product(x: Any, k: Any, c: float, r: Any, n: Any) -> float:
    total = 0.0
    for i in range(n):
        total += r[i] * (x[k + i] - c)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_f(x: Any, apart: int, targets: Any, weights: Any, g: Any, tile: int) -> tuple[float, float]:
    """Two classes, F order: the same from a flat array in which columns begin so many numbers ``apart``."""
    (t, s, offset), (u, b, center, inverse) = targets, weights
    M, N, step, stride = uintp(u.size), uintp(t.size), uintp(tile), uintp(apart)
    a, sign, r, h = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    value, longest, first = 0.0, 0.0, uintp(0)
    while first < N:
        n = min(step, N - first)
        a[:n] = 0.0
        for j in range(M):
            _column_dots(x, j * stride + first, u[j], center[j], a, n)
            for i in range(uintp(0), n, uintp(8)):
                prefetch(x, j * stride + first + step + i)
        if inverse.size:
            h[:n] = 0.0
            for j in range(M):
                _column_squares(x, j * stride + first, inverse[j], center[j], h, n)
            if s.size:
                h[:n] *= s[first : first + n] > 0.0
            longest = max(longest, h[:n].max())
        _signs(t, offset, first, n, sign, a)
        value += _tile_rows(a, b, sign, s, first, n, r, h)
        g[0] += sum_of(r, n)
        for j in range(M):
            g[j + uintp(1)] += _column_product(x, j * stride + first, center[j], r, n)
        first += step
    return value, longest


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _csr_dot(data: Any, indices: Any, first: Any, last: Any, u: Any) -> float:
    """Σ_p data_p u[indices_p] from first to last, in four sums (one would wait for itself), with prefetching."""
    s0 = s1 = s2 = s3 = 0.0
    p = first
    while p + uintp(4) <= last:
        prefetch(data, p + AHEAD)
        prefetch(indices, p + AHEAD)
        s0 += data[p] * u[uintp(indices[p])]
        s1 += data[p + uintp(1)] * u[uintp(indices[p + uintp(1)])]
        s2 += data[p + uintp(2)] * u[uintp(indices[p + uintp(2)])]
        s3 += data[p + uintp(3)] * u[uintp(indices[p + uintp(3)])]
        p += uintp(4)
    while p < last:
        s0 += data[p] * u[uintp(indices[p])]
        p += uintp(1)
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True, error_model="numpy")
def _csr_add(data: Any, indices: Any, first: Any, last: Any, w: float, g: Any) -> None:
    """g[1 + indices_p] += w data_p from first to last."""
    for p in range(first, last):
        g[uintp(indices[p]) + uintp(1)] += w * data[p]


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_csr(rows: Any, targets: Any, u: Any, b: float, v: Any, v0: float, g: Any, h_out: Any) -> float:
    """Two classes, CSR rows, not centred: add the gradient to ``g``; return the loss.

    If v is not empty, the Hessian times (v0, v) is added instead. Curvatures go to ``h_out`` if that is not empty.
    """
    (data, indices, indptr), (t, s, offset) = rows, targets
    tile, N, value = 64, indptr.size - 1, 0.0
    a, sign, r, h, turn = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile), np.empty(tile)
    for first in range(0, N, tile):
        n = min(tile, N - first)
        for i in range(n):
            begin, end = uintp(indptr[first + i]), uintp(indptr[first + i + 1])
            a[i] = _csr_dot(data, indices, begin, end, u)
            if v.size:
                turn[i] = v0 + _csr_dot(data, indices, begin, end, v)
        _signs(t, offset, first, n, sign, a)
        value += _tile_rows(a, b, sign, s, first, n, r, h)
        if v.size:
            for i in range(n):
                r[i] = h[i] * turn[i]
                g[0] += r[i]
        else:
            g[0] += sum_of(r, n)
        if h_out.size:
            h_out[first : first + n] = h[:n]
        for i in range(n):
            _csr_add(data, indices, uintp(indptr[first + i]), uintp(indptr[first + i + 1]), r[i], g)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_csr_product(rows: Any, h: Any, v: Any, v0: float, g: Any) -> None:
    """Add Σ_i h_i (v0 + xᵀv) (1, x) to ``g``: a Hessian product where the curvatures h are known."""
    data, indices, indptr = rows
    for i in range(indptr.size - 1):
        begin, end = uintp(indptr[i]), uintp(indptr[i + 1])
        w = h[i] * (v0 + _csr_dot(data, indices, begin, end, v))
        g[0] += w
        _csr_add(data, indices, begin, end, w, g)


@njit(cache=True, nogil=True, error_model="numpy")
def csr_squares(rows: Any, h: Any, sums: Any) -> None:
    """Add Σ_i h_i (1, x²) and Σ_i h_i (1, x) to the columns of ``sums``."""
    data, indices, indptr = rows
    for i in range(indptr.size - 1):
        sums[0, 0] += h[i]
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            j, hx = uintp(indices[p]) + uintp(1), h[i] * data[p]
            sums[j, 0] += hx * data[p]
            sums[j, 1] += hx
    sums[0, 1] = sums[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def csr_longest(rows: Any, s: Any, center: Any, inverse: Any, zeros: float) -> float:
    """max_i Σ_j inverse_j (x_ij − c_j)² over the rows of positive weight; ``zeros`` is the value of a row of zeros."""
    (data, indices, indptr), longest = rows, 0.0
    for i in range(indptr.size - 1):
        if s.size and s[i] == 0.0:
            continue
        total = zeros
        for p in range(uintp(indptr[i]), uintp(indptr[i + 1])):
            if center.size:
                j = uintp(indices[p])
                total += inverse[j] * data[p] * (data[p] - 2.0 * center[j])
            else:  # the columns have one inverse
                total += inverse[0] * data[p] * data[p]
        longest = max(longest, total)
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def _scale_rows(z: Any, h: Any, P: Any, n: Any) -> None:
    """z_i *= √h_i, rows of length P in a flat array."""
    for i in range(n):
        w, k = np.sqrt(h[i]), i * P
        for j in range(P):
            z[k + j] *= w


@njit(cache=True, nogil=True, error_model="numpy")
def logistic_hessian(X: Any, targets: Any, weights: Any, g: Any, G: Any, wide: Any, scratch: Any, runs: Any) -> float:
    """Two classes, C order: add the gradient to ``g``, the lower half of the Hessian to ``G``; return the loss.

    Arguments are as in `logistic_c`; ``scratch`` takes a tile of rows of the length that ``G`` has. If G has no rows,
    ``scratch`` takes all rows and is left with √h (1, x − center).
    """
    (t, s, offset), (u, b, center, _), (run, apart) = targets, weights, runs
    N, M, P, zero = uintp(X.shape[0]), uintp(X.shape[1]), uintp(G.shape[1]), uintp(0)
    step = uintp(scratch.size) // P
    x, slopes, flat = X.ravel(), g[1:], G.ravel()
    a, sign, r, h = np.empty(step), np.empty(step), np.empty(step), np.empty(step)
    pack(wide, u, center, a[:0])
    U, C, sums, residuals = wide[0], wide[1], np.zeros(wide.shape[1]), np.empty(step)
    value = 0.0
    first, end, seen = zero, min(uintp(run), N), zero
    while first < N:
        n = min(step, end - first)
        following, last = _tile_after(first, n, end, uintp(run), uintp(apart), N)
        ahead = following * M if following + step <= N else first * M
        _dots_c(x, first * M, M, u, center, U, C, a, n, ahead)
        _signs(t, offset, seen, n, sign, a)
        value += _tile_rows(a, b, sign, s, seen, n, r, h)
        g[0] += sum_of(r, n)
        _add_c(x, first * M, M, r, center, C, sums, residuals, slopes, n, ahead)
        centred_rows(x, first * M, M, center, scratch, P, n)
        if flat.size:
            add_gram(scratch, h, n, P, flat)
        else:
            _scale_rows(scratch, h, P, n)
        first, end, seen = following, last, seen + n
    add_sums(sums, 8, slopes)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def csr_gram(rows: Any, h: Any, G: Any) -> None:
    """Add Σ_i h_i x_ij x_ik to G_jk once for each pair of non-zeros of a row: G + Gᵀ − diag(G) is the Gram matrix."""
    (data, indices, indptr), M = rows, uintp(G.shape[1])
    flat = G.ravel()
    for i in range(indptr.size - 1):
        first, last = uintp(indptr[i]), uintp(indptr[i + 1])
        for p in range(first, last):
            left = h[i] * data[p]
            row = uintp(indices[p]) * M
            for q in range(first, p + uintp(1)):
                flat[row + uintp(indices[q])] += left * data[q]
