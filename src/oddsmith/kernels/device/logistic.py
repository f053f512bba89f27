"""Loss and gradient of two classes on a device, by one read of the rows."""

from __future__ import annotations

import torch

from oddsmith.kernels.device.tensors import Tensor, chunks, has_triton, on_device

WIDEST = 2048
"""Columns up to which a tile of rows stays in registers; beyond, products by chunks in the cache are as fast."""
PROGRAMS_PER_PROCESSOR = 4


def logistic_sums(
    X: Tensor, t: Tensor, s: Tensor | None, w: Tensor, b: Tensor, center: Tensor, inverse: Tensor | None, *, exact: bool
) -> Tensor:
    """Return value, longest row, ``Σ r`` and ``Σ r z`` in float64, 3 + M numbers on the device; nothing waits for them.

    ``z = x − center``, ``a = b + wᵀz``, ``r = s (σ(a) − t)``; the longest row is ``max Σ inverse z²``, 0 without
    ``inverse``. Without ``exact`` rows and activations are in float32, and sums in float64.
    """
    if has_triton(X) and X.shape[1] <= WIDEST and X.stride(1) == 1:
        return _fused(X, t, s, w, b, center, inverse, exact)
    total = on_device(X, 3 + X.shape[1])
    wide = torch.float64 if exact else torch.float32
    for start, stop in chunks(*X.shape):
        z = X[start:stop].to(wide) - center.to(wide)
        a = (z @ w.to(wide) + b.to(wide)).to(torch.float64)
        y = t[start:stop].to(torch.float64)
        r, value = torch.sigmoid(a) - y, torch.nn.functional.softplus(-torch.abs(a)) + a.clamp(min=0.0) - a * y
        if s is not None:
            r, value = r * s[start:stop], value * s[start:stop]
        total[0] += value.sum()
        total[2] += r.sum()
        total[3:] += (r.to(wide) @ z).to(torch.float64)
        if inverse is not None:
            norms = (z * z) @ inverse.to(wide)
            norms = norms if s is None else norms * (s[start:stop] > 0)
            total[1] = torch.maximum(total[1], norms.max().to(torch.float64))
    return total


def _fused(
    X: Tensor, t: Tensor, s: Tensor | None, w: Tensor, b: Tensor, center: Tensor, inverse: Tensor | None, exact: bool
) -> Tensor:
    """The same by the kernel in Triton: each program sums every so-manieth tile of rows, and the device their sums."""
    from oddsmith.kernels.device.fused import logistic_tiles

    N, M = X.shape
    BN, S, L, V, warps = tile_shape(M, X.element_size(), exact=exact)
    programs = min(-(-N // BN), PROGRAMS_PER_PROCESSOR * _processors(X))
    out = on_device(X, (programs, S * L * V + 3))
    logistic_tiles[(programs,)](
        X, t, t if s is None else s, w, center, center if inverse is None else inverse, out, b, N,
        M=M, stride=X.stride(0), BN=BN, S=S, L=L, V=V,
        WEIGHTED=s is not None, LONGEST=inverse is not None, EXACT=exact, num_warps=warps, num_stages=3,
    )  # fmt: skip
    total = out.sum(dim=0)[: 3 + M]
    total[1] = out[:, 1].max()
    return total


def tile_shape(M: int, itemsize: int, *, exact: bool) -> tuple[int, int, int, int, int]:
    """Return rows of a tile, loads, threads and numbers a load of a row, and warps, for M columns.

    >>> tile_shape(100, 4, exact=False)
    (32, 8, 4, 4, 4)
    """
    V, BM = 16 // itemsize, max(32, 1 << (M - 1).bit_length())
    L = 4 if BM <= 128 else 8
    rows = 4096 // BM if BM <= 512 else 8192 // BM  # H200: 4.1 TB/s at 100 columns, 3.2 at 1,000; half of that exactly
    return max(1, rows // 2 if exact and BM > 512 else rows), BM // (L * V), L, V, 4


def _processors(X: Tensor) -> int:
    return int(torch.cuda.get_device_properties(X.device).multi_processor_count) if X.is_cuda else 4
