"""Weighted sums of squares and products of columns, the symmetric half alone, in vector registers.

A tile of rows stays in L1 while blocks of the sum, eight columns against up to 24, are summed over its rows in
registers. BLAS would compute both halves, from a second copy of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp
from numba.extending import intrinsic

from oddsmith.kernels.scalar import SUMS
from oddsmith.kernels.vectors import DOUBLE, INDEX, VOID, Build, N, emitted_by
from oddsmith.numerics import Array

LANES = 8
TILE_NUMBERS = 3072
MOST_COLUMNS = 400
"""Of more columns the sum does not stay in L2, and a library's product is as fast."""


def _products(groups: int) -> Any:
    """Make the instruction for blocks of eight columns against so many groups of eight."""

    @intrinsic
    def add_products(_: Any, z: Any, h: Any, n: Any, P: Any, G: Any, i: Any, j: Any) -> Any:
        """G[i:i+8, j:j+8·groups] += Σ_r h_r z_ri z_rj over n rows of length P."""

        def emit(do: Build) -> None:
            builder, (_, _, n, P, _, i, j) = do.builder, do.arguments
            z, h, G = do.pointer(0, DOUBLE), do.pointer(1, DOUBLE), do.pointer(4, DOUBLE)

            def body(row: Any, k: Any, sums: list[Any]) -> list[Any]:
                weight = do.same(builder.load(builder.gep(h, [row])))
                first = builder.add(k, j)
                places = [builder.add(first, INDEX(LANES * group)) for group in range(groups)]
                right = [builder.fmul(do.load(z, place, DOUBLE), weight) for place in places]
                added: list[Any] = []
                for column in range(LANES):
                    place = builder.add(builder.add(k, i), INDEX(column))
                    left = do.same(builder.load(builder.gep(z, [place])))
                    for group in right:
                        added.append(do.fused(sums[len(added)], left, group))
                return added

            sums = iter(do.loop(n, 1, LANES * groups, body, step=P))
            for column in range(LANES):
                first = builder.add(builder.mul(builder.add(i, INDEX(column)), P), j)
                for group in range(groups):
                    target = do.address(G, builder.add(first, INDEX(LANES * group)), DOUBLE, LANES)
                    builder.store(builder.fadd(builder.load(target, align=8), next(sums)), target, align=8)

        return VOID(z, h, N, N, G, N, N), emitted_by(emit)

    return add_products


_one, _two, _three = (_products(groups) for groups in (1, 2, 3))


@njit(cache=True, nogil=True, error_model="numpy")
def add_gram(z: Any, h: Any, n: Any, P: Any, G: Any) -> None:
    """G += Σ_r h_r z_r z_rᵀ, on and below the diagonal, over n rows of length P, a multiple of eight (flat arrays)."""
    i = uintp(0)
    while i < P:
        j, end = uintp(0), i + uintp(8)
        while j + uintp(24) <= end:
            _three(z, h, n, P, G, i, j)
            j += uintp(24)
        if j + uintp(16) <= end:
            _two(z, h, n, P, G, i, j)
        elif j < end:
            _one(z, h, n, P, G, i, j)
        i = end


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def centred_rows(x: Any, base: Any, M: Any, center: Any, z: Any, P: Any, n: Any) -> None:
    """z_i = (1, x_i − center) for the n rows of length M that begin at x[base], rows of length P in a flat array."""
    for i in range(n):
        k, out = base + i * M, i * P + uintp(1)
        z[i * P] = 1.0
        for j in range(M):
            z[out + j] = x[k + j] - center[j]


@njit(cache=True, nogil=True, error_model="numpy")
def add_softmax_gram(Z: Any, Y: Any, others: Any, s: Any, G: Any, scratch: Any) -> None:
    """Add Σ s (diag(y) − y yᵀ)_jk (1, z)(1, z)ᵀ to G, pair after pair of classes k ≤ j but 0, the lower half of each.

    ``others`` is 1 − Y without cancellation; ``scratch`` is for a tile of rows of the length that G has.
    """
    N, M, P = uintp(Z.shape[0]), uintp(Z.shape[1]), uintp(G.shape[2])
    step = uintp(scratch.size) // P
    x, flat, center, h = Z.ravel(), G.ravel(), np.zeros(Z.shape[1]), np.empty(step)
    first = uintp(0)
    while first < N:
        n = min(step, N - first)
        centred_rows(x, first * M, M, center, scratch, P, n)
        pair = uintp(0)
        for j in range(1, Y.shape[1]):
            for k in range(1, j + 1):
                for i in range(n):
                    weight = others[first + i, j] if j == k else -Y[first + i, k]
                    h[i] = weight * Y[first + i, j] * (s[first + i] if s.size else 1.0)
                add_gram(scratch, h, n, P, flat[pair * P * P :])
                pair += uintp(1)
        first += step


def padded(P: int) -> int:
    """Return the next multiple of eight."""
    return -(-P // LANES) * LANES


def tile_scratch(P: int) -> Array:
    """Return room for a tile of rows of P numbers, padded with zeros, that begins with a line of the cache."""
    rows = min(128, max(32, TILE_NUMBERS // padded(P)))
    scratch = np.zeros(rows * padded(P) + LANES)
    return scratch[-scratch.ctypes.data % 64 // 8 :][: rows * padded(P)]


@njit(cache=True, nogil=True, error_model="numpy")
def symmetric_hessian(G: Any, C: int, P: int) -> Any:
    """Return a Hessian of C classes, CP × CP, from the lower halves ``G`` of the blocks of pairs of classes k ≤ j."""
    H, pair = np.empty((C, P, C, P)), 0
    for j in range(C):
        for k in range(j + 1):
            for a in range(P):
                for b in range(a + 1):
                    value = G[pair, a, b]
                    H[j, a, k, b] = H[j, b, k, a] = H[k, a, j, b] = H[k, b, j, a] = value
            pair += 1
    return H.reshape(C * P, C * P)
