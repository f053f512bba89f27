"""Loss and gradient of two classes on a device by one read of the rows, and rows whose Gram matrix is the Hessian."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from oddsmith.kernels.device.tensors import Tensor, chunks, has_triton, on_device

WIDEST = 2048
"""Columns up to which a tile of rows stays in registers; beyond, products by chunks in the cache are as fast."""
PROGRAMS_PER_PROCESSOR = (4, 8)
"""Programs of a pass, and of one that writes rows, too."""


def logistic_sums(
    X: Tensor,
    t: Tensor,
    s: Tensor | None,
    w: Tensor,
    b: Tensor,
    center: Tensor,
    inverse: Tensor,
    *,
    exact: bool,
    longest: bool = False,
    centred: bool = True,
    rows: Tensor | None = None,
    B: Tensor | None = None,
) -> Tensor:
    """Return value, longest row, ``Σ r`` and ``Σ r z`` in float64, 3 + M numbers on the device; nothing waits for them.

    ``z = x − center``, ``a = b + wᵀz``, ``r = s (σ(a) − t)``. Without ``exact`` rows and activations are in float32,
    and sums in float64. Without ``centred``, which suits columns whose centre is near zero against their spread, the
    centre is taken off the sums instead of the rows, and ``b`` must be ``b − wᵀ center``. ``longest`` asks for a bound
    of ``max ‖z · inverse‖²``. ``rows`` names the rows to sum. To ``B``, where given (and then ``centred``), the rows
    ``√(s σ(a) σ(−a)) (z · inverse, 1)`` are written, zeros behind them.
    """
    if not (has_triton(X) and X.shape[1] <= WIDEST and X.stride(1) == 1):
        b = b if centred else b + w @ center
        return _by_products(X, t, s, w, b, center, inverse, exact, longest, rows, B)
    if centred:
        return _fused(X, t, s, w, b, center, inverse, exact, longest, True, rows, B)
    total = _fused(X, t, s, w, b, center, inverse, exact, longest, False, rows, None)
    total[3:].addcmul_(center, total[2], value=-1.0)
    if longest:
        total[1] = (total[1].sqrt() + (center * inverse).norm()) ** 2
    return total


def _by_products(
    X: Tensor, t: Tensor, s: Tensor | None, w: Tensor, b: Tensor, center: Tensor, inverse: Tensor,
    exact: bool, longest: bool, rows: Tensor | None, B: Tensor | None,
) -> Tensor:  # fmt: skip
    """The same by PyTorch, a chunk of rows at a time."""
    total = on_device(X, 3 + X.shape[1])
    wide = torch.float64 if exact else torch.float32
    for start, stop in chunks(len(X) if rows is None else len(rows), X.shape[1]):
        part = slice(start, stop) if rows is None else rows[start:stop]
        z = X[part].to(wide) - center.to(wide)
        a = (z @ w.to(wide) + b.to(wide)).to(torch.float64)
        y = t[part].to(torch.float64)
        r, value = torch.sigmoid(a) - y, torch.nn.functional.softplus(-torch.abs(a)) + a.clamp(min=0.0) - a * y
        h = torch.sigmoid(a) * torch.sigmoid(-a)
        if s is not None:
            r, value, h = r * s[part], value * s[part], h * s[part]
        total[0] += value.sum()
        total[2] += r.sum()
        total[3:] += (r.to(wide) @ z).to(torch.float64)
        scaled = z * inverse.to(wide)
        if longest:
            norms = (scaled * scaled).sum(dim=1)
            norms = norms if s is None else norms * (s[part] > 0)
            total[1] = torch.maximum(total[1], norms.max().to(torch.float64))
        if B is not None:
            B[start:stop, : X.shape[1]] = h.sqrt()[:, None].to(wide) * scaled
            B[start:stop, X.shape[1]] = h.sqrt()
            B[start:stop, X.shape[1] + 1 :] = 0.0
    return total


def _fused(
    X: Tensor, t: Tensor, s: Tensor | None, w: Tensor, b: Tensor, center: Tensor, inverse: Tensor,
    exact: bool, longest: bool, centred: bool, rows: Tensor | None, B: Tensor | None,
) -> Tensor:  # fmt: skip
    """The same by the kernel in Triton: each program sums every so-manieth tile of rows, and the device their sums."""
    from oddsmith.kernels.device.fused import logistic_tiles

    N, M = len(X) if rows is None else len(rows), X.shape[1]
    width = 0 if B is None else B.shape[1]
    BN, S, L, V, warps = tile_shape(max(M, width), X.element_size(), exact=exact, centred=centred, writes=width > 0)
    programs = min(-(-N // BN), PROGRAMS_PER_PROCESSOR[width > 0] * _processors(X.device))
    out = torch.empty((programs, S * L * V + 3), dtype=torch.float64, device=X.device)
    logistic_tiles[(programs,)](
        X, t, t if s is None else s, t if rows is None else rows, w, center, inverse, out, out if B is None else B, b,
        N, M=M, stride=X.stride(0), BN=BN, S=S, L=L, V=V, width=width,
        WEIGHTED=s is not None, INDEXED=rows is not None, CENTRED=centred, LONGEST=longest, EXACT=exact,
        CURVATURE=B is not None, num_warps=warps,
    )  # fmt: skip
    total = out.sum(dim=0)[: 3 + M]
    if longest:
        total[1] = out[:, 1].max()
    return total


def tile_shape(
    M: int, itemsize: int, *, exact: bool, centred: bool = True, writes: bool = False
) -> tuple[int, int, int, int, int]:
    """Return rows of a tile, loads, threads and numbers a load of a row, and warps, for M columns.

    >>> tile_shape(100, 4, exact=False)
    (32, 8, 4, 4, 4)
    """
    V, BM = 16 // itemsize, max(32, 1 << (M - 1).bit_length())
    if writes:  # more threads share a row, so that its columns stay in registers
        L = max(min(32, BM // V), BM // 16)
        return max(2, min(16, 2048 // BM)), BM // (L * V), L, V, 4
    L = 4 if BM <= 128 and (centred or not exact) else min(8, BM // V)
    # H200, TB/s in float32 and in float64: 4.3 and 2.5 at 100 columns, 3.4 and 2.4 at 1,000.
    rows = 4096 // BM if BM <= 512 else 8192 // BM
    return max(1, rows // 2 if exact and BM > 512 else rows), BM // (L * V), L, V, 4


@lru_cache(maxsize=8)
def _processors(device: Any) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 4
