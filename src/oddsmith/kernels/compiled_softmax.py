"""Compiled kernels of several classes: products of tiles by BLAS, probabilities in loops that compilers vectorise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp

from oddsmith.kernels.scalar import EXACT, SUMS, exp_negative, exp_negative_single, log1p_unit, prefetch, sum_of
from oddsmith.kernels.vectors import pack, pack_half_rows, value_at

MANY_CLASSES = 16


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
def _softmax_tile(A: Any, t: Any, n: int, loss: Any, scratch: Any) -> None:
    """Activations ``A`` (C × n, against class 0) become residuals, and losses go to ``loss``."""
    C = A.shape[0]
    top, total, others, own, scale = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
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
def _activate(Z: Any, W: Any, V: Any, rows: Any, A: Any) -> None:
    """A = W Zᵀ (C × n), in one product of many classes, or by way of ``rows`` = Z V (n × C), V being Wᵀ, of few."""
    if W.shape[0] >= MANY_CLASSES:
        np.dot(W, Z.T, A)
        return
    np.dot(Z, V, rows)
    for k in range(A.shape[0]):
        for i in range(A.shape[1]):
            A[k, i] = rows[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def softmax(X: Any, targets: Any, weights: Any, g: Any, tile: int, half: Any, wide: Any) -> tuple[float, float]:
    """Softmax: add the gradient to ``g`` (C × (M + 1)), return the loss and the longest row; products by BLAS.

    ``targets`` are class codes, weights of rows and offsets; ``weights`` are W, b, center and inverse. The rows,
    centred and scaled by the root of inverse, go to ``half`` if it is not empty; ``wide`` is `scratch` for that.
    """
    (t, s, offset), (W, b, center, inverse) = targets, weights
    N, M = X.shape
    if half.size:
        pack(wide, center, np.zeros(M), inverse)
    C = W.shape[0]
    V = np.ascontiguousarray(W.T)
    Z, A, R, G = np.zeros((tile, M)), np.empty((tile, C)), np.empty((C, tile)), np.empty((C, M))
    loss, scratch = np.empty(tile), np.empty((5, tile))
    value, longest = 0.0, 0.0
    for first in range(0, N, tile):
        n = min(tile, N - first)
        _centre(X, first, n, center, Z)
        _activate(Z, W, V, A, R)
        for k in range(C):
            for i in range(n):
                R[k, i] += b[k]
            if offset.size:
                R[k, :n] += offset[first : first + n, k]
        _softmax_tile(R, t[first : first + n], n, loss, scratch)
        if s.size:
            loss[:n] *= s[first : first + n]
        value += sum_of(loss, n)
        for k in range(C):
            if s.size:
                R[k, :n] *= s[first : first + n]
            R[k, n:] = 0.0
            g[k, 0] += sum_of(R[k], n)
        np.dot(R, Z, G)
        g[:, 1:] += G
        if half.size:
            part, columns = half[first * M : (first + n) * M], (wide[1], wide[2], wide[3])
            longest = max(longest, pack_half_rows(Z.ravel(), uintp(0), uintp(n), uintp(M), *columns, part))
        elif inverse.size:
            for i in range(n):
                if not s.size or s[first + i] > 0.0:
                    longest = max(longest, _square(Z[i], inverse))
    return value, longest


# Rows of half precision, in single precision: for searches that end on the rows themselves.


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _shares(a: Any, top: Any, total: Any, n: Any) -> None:
    for i in range(n):
        a[i] = exp_negative_single(a[i] - top[i])
        total[i] += a[i]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _scaled(a: Any, total: Any, n: Any) -> None:
    for i in range(n):
        a[i] *= total[i]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _raise_by(a: Any, b: Any, top: Any, n: Any) -> None:
    for i in range(n):
        a[i] += b
        top[i] = max(top[i], a[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _log_of(total: Any, n: Any) -> Any:
    """Σ log(total), of numbers that are at least 1, a logarithm for 64 of them."""
    value, product = 0.0, 1.0
    for i in range(n):
        product *= np.float64(total[i])
        if i % 64 == 63:
            value += np.log(product)
            product = 1.0
    return value + np.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def _single_tile(A: Any, t: Any, b: Any, top: Any, total: Any, n: Any) -> Any:
    """Activations ``A`` (C × n, against class 0) become residuals; return the loss."""
    C, value = A.shape[0], 0.0
    top[:] = 0.0
    for k in range(C):
        _raise_by(A[k], b[k], top, n)
    for i in range(n):
        value += np.float64(top[i] - (A[t[i] - 1, i] if t[i] > 0 else np.float32(0.0)))
    for i in range(n):
        total[i] = exp_negative_single(-top[i])
    for k in range(C):
        _shares(A[k], top, total, n)
    value += _log_of(total, n)
    for i in range(n):
        total[i] = np.float32(1.0) / total[i]
    for k in range(C):
        _scaled(A[k], total, n)
    for i in range(n):
        if t[i] > 0:
            A[t[i] - 1, i] -= np.float32(1.0)
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _single(x: Any, first: Any, count: Any, z: Any) -> None:
    """Numbers of half precision from x[first] on in single precision; those after them are prefetched."""
    step = uintp(512)
    for begin in range(uintp(0), count, step):
        for j in range(begin, begin + step, uintp(32)):
            prefetch(x, first + count + j)
        for j in range(begin, min(begin + step, count)):
            z[j] = value_at(x, first + j)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_half(X: Any, t: Any, W: Any, b: Any, g: Any, tile: int) -> float:
    """Softmax of rows of half precision that are centred, of weight 1: add the gradient to ``g``; return the loss."""
    N, M = X.shape
    C, single = W.shape[0], np.float32
    U, shift = W.astype(single), b.astype(single)
    x, V = X.ravel(), np.ascontiguousarray(U.T)
    Z, A, G = np.zeros((tile, M), single), np.empty((C, tile), single), np.empty((C, M), single)
    rows = np.empty((tile, C), single)
    top, total, z = np.empty(tile, single), np.empty(tile, single), Z.ravel()
    value = 0.0
    for first in range(0, N, tile):
        n = min(tile, N - first)
        _single(x, uintp(first * M), uintp(n * M), z)
        _activate(Z, U, V, rows, A)
        value += _single_tile(A, t[first : first + n], shift, top, total, n)
        A[:, n:] = 0.0
        for k in range(C):
            g[k, 0] += sum_of(A[k], n)
        np.dot(A, Z, G)
        g[:, 1:] += G
    return value
