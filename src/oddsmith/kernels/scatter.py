"""Compiled sums by class over large dense blocks: weights, totals, squares and products, in one read.

Each function adds to its last arguments. Rows of weight 0 are skipped; the first row of a class becomes its base, which
is subtracted from all rows of the class. Indices are unsigned, as in `compiled`. Imported for large problems only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp

from oddsmith.kernels.scalar import SUMS

TILE_ELEMENTS = 1 << 16


def locked(array: Any) -> Any:
    """Return a view that cannot be written to: one type, and one compilation, for all arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def diagonal(rows: Any, seen: Any, base: Any, weight: Any, total: Any, squares: Any) -> None:
    """Σ s, Σ s z and Σ s z² of each class, z = x − base. An empty ``t`` is one class, an empty ``s`` all ones."""
    X, t, s = rows
    n, M = X.shape
    for i in range(n):
        r, k = uintp(i), uintp(t[i]) if t.size else uintp(0)
        w = s[i] if s.size else 1.0
        if w == 0.0:
            continue
        if not seen[k]:
            seen[k] = True
            for j in range(M):
                base[k, uintp(j)] = X[r, uintp(j)]
        weight[k] += w
        for j in range(M):
            z = X[r, uintp(j)] - base[k, uintp(j)]
            total[k, uintp(j)] += w * z
            squares[k, uintp(j)] += w * z * z


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _products(Z: Any, T: Any, Mp: Any, a: Any, b: Any, P: Any) -> None:
    """Add ``Σ_p z_ip z_jp`` over p = a … b−1 to P (Mp × Mp, flat), sixteen sums at a time, j from the block of i on."""
    i, four = uintp(0), uintp(4)
    while i < Mp:
        x = i * T
        j = i
        while j < Mp:
            y = j * T
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
            for p in range(a, b):
                x0, x1, x2, x3 = Z[x + p], Z[x + T + p], Z[x + uintp(2) * T + p], Z[x + uintp(3) * T + p]
                y0, y1, y2, y3 = Z[y + p], Z[y + T + p], Z[y + uintp(2) * T + p], Z[y + uintp(3) * T + p]
                s00, s01, s02, s03 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2, s03 + x0 * y3
                s10, s11, s12, s13 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2, s13 + x1 * y3
                s20, s21, s22, s23 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2, s23 + x2 * y3
                s30, s31, s32, s33 = s30 + x3 * y0, s31 + x3 * y1, s32 + x3 * y2, s33 + x3 * y3
            sums = ((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))
            for u in range(4):
                k = (i + uintp(u)) * Mp + j
                for v in range(4):
                    P[k + uintp(v)] += sums[u][v]
            j += four
        i += four


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _gather(rows: Any, first: Any, n: Any, rank: Any, edges: Any, place: Any, seen: Any, base: Any) -> None:
    """Find the place of each row (−1: none) sorted by the rank of its class; rank r begins at edges[r]."""
    X, t, s = rows
    edges[:] = 0
    for i in range(n):
        k = t[first + i] if t.size else 0
        if s.size and s[first + i] == 0.0:
            place[i] = -1
            continue
        if not seen[k]:
            seen[k] = True
            for j in range(X.shape[1]):
                base[k, j] = X[first + i, j]
        place[i] = rank[k]
        edges[rank[k] + 2] += 1
    for k in range(len(rank)):
        edges[k + 2] += edges[k + 1]
    for i in range(n):
        if place[i] >= 0:
            r = place[i] + 1
            place[i] = edges[r]  # counts up from where the rank begins to where it ends
            edges[r] += 1


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def full(rows: Any, rank: Any, group: Any, seen: Any, base: Any, weight: Any, total: Any, products: Any) -> None:
    """Σ s, Σ s z of each class, and Σ s z zᵀ of each group, z = x − base.

    Per tile: (1) rows are sorted by the rank of their class, in which the classes of a group are neighbours;
    (2) columns of the sorted rows, centred and scaled by the root of the weight, become rows of a buffer that stays
    in the cache; (3) sums and products run along these.
    """
    (X, t, s), (N, M) = rows, rows[0].shape
    K, G = len(rank), len(products)
    Mp = -(-M // 4) * 4
    # An odd number of cache lines between columns: then they do not compete for the same places of the cache.
    T = max(1, TILE_ELEMENTS // Mp // 16) * 16 + 8
    Z, root = np.zeros(Mp * T), np.ones(T)
    P = np.zeros((G, Mp * Mp))
    edges, place = np.zeros(K + 2, dtype=np.int64), np.zeros(T, dtype=np.int64)
    classes = np.zeros(K, dtype=np.int64)
    for k in range(K):
        classes[rank[k]] = k
    for first in range(0, N, T):
        n = min(T, N - first)
        _gather(rows, first, n, rank, edges, place, seen, base)  # 1
        for i in range(n):  # 2
            if place[i] < 0:
                continue
            p, r, k = uintp(place[i]), uintp(first + i), uintp(t[first + i]) if t.size else uintp(0)
            w = np.sqrt(s[first + i]) if s.size else 1.0
            root[p] = w
            for j in range(M):
                Z[uintp(j) * uintp(T) + p] = w * (X[r, uintp(j)] - base[k, uintp(j)])
        start = 0
        for c in range(K):  # 3
            a, b, k = uintp(edges[c]), uintp(edges[c + 1]), classes[c]
            for p in range(a, b):
                weight[k] += root[p] * root[p]
            for j in range(M):
                row, add = uintp(j) * uintp(T), 0.0
                for p in range(a, b):
                    add += root[p] * Z[row + p]
                total[k, j] += add
            if c + 1 == K or group[classes[c + 1]] != group[k]:
                if edges[c + 1] > start:
                    _products(Z, uintp(T), uintp(Mp), uintp(start), uintp(edges[c + 1]), P[group[k]])
                start = edges[c + 1]
    for g in range(G):
        for i in range(M):
            for j in range(M):
                products[g, i, j] += P[g, min(i, j) * Mp + max(i, j)]
