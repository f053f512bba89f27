"""Loss and gradient of two classes on a device by one read of the rows, and rows whose Gram matrix is the Hessian."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from oddsmith.kernels.device.tensors import GRAM_ROWS, Tensor, chunks, gram_rounding, has_triton, launch, on_device

GRAM_WIDTH = 128
"""Columns, with the intercept and the residual, up to which a Gram matrix is summed on the chip."""
GRAM_TILE = 16, True, 8
"""Rows of its tiles, whether the next one is read ahead, and warps (H200, 5,000,000 × 100: 1.4 ms; 64 rows 1.65)."""
WIDEST = 2048
"""Columns up to which a tile of rows stays in registers; beyond, products by chunks in the cache are as fast."""


def point(w: Tensor, b: Tensor, center: Tensor, inverse: Tensor) -> Tensor:
    """Return the vector that `logistic_sums` takes: intercepts of centred rows and of rows, ``w``, centre, inverse."""
    return torch.cat([b, b - w @ center, w, center, inverse])


def logistic_sums(
    X: Tensor,
    t: Tensor,
    s: Tensor | None,
    at: Tensor,
    *,
    exact: bool,
    longest: bool = False,
    centred: bool = True,
    rows: Tensor | None = None,
    B: Tensor | None = None,
    moved: Tensor | None = None,
) -> Tensor:
    """Return value, longest row, ``Σ r`` and ``Σ r z`` in float64, 3 + M numbers on the device; nothing waits for them.

    ``z = x − center``, ``a = b + wᵀz``, ``r = s (σ(a) − t)``, at a `point`. Without ``exact`` rows and activations are
    in float32, and sums in float64. Without ``centred``, which suits columns whose centre is near zero against their
    spread, z is x: `take_off_center` corrects the sums. ``longest`` asks for a bound of ``max ‖z · inverse‖²``.
    With ``moved``, the difference of intercepts and weights from those of another point, the largest ratio of a row's
    curvature there to that here follows on them, to the precision of float32. ``rows`` names the rows to sum. To
    ``B``, where given (and then ``centred``), the rows ``√(s σ(a) σ(−a)) (z · inverse, 1)`` are written, zeros behind
    them.
    """
    if not (has_triton(X) and X.shape[1] <= WIDEST and X.stride(1) == 1):
        return _by_products(X, t, s, at, exact, longest, centred, rows, B, moved)
    return _fused(X, t, s, at, exact, longest, centred, rows, B, moved)


def take_off_center(sums: Any, center: Any, length: float) -> Any:
    """Correct sums over rows as they are to those over centred rows, in place; ``length`` is ``‖center · inverse‖``.

    >>> import numpy as np
    >>> take_off_center(np.array([5.0, 4.0, 2.0, 7.0]), np.array([3.0]), 1.0).tolist()
    [5.0, 9.0, 2.0, 1.0]
    """
    sums[3:] -= center * sums[2]
    sums[1] = (sums[1] ** 0.5 + length) ** 2
    return sums


def _by_products(
    X: Tensor, t: Tensor, s: Tensor | None, at: Tensor,
    exact: bool, longest: bool, centred: bool, rows: Tensor | None, B: Tensor | None, moved: Tensor | None,
) -> Tensor:  # fmt: skip
    """The same by PyTorch, a chunk of rows at a time."""
    M, wide = X.shape[1], torch.float64 if exact else torch.float32
    own, plain, w, center, inverse = at[: 2 + 3 * M].to(wide).split([1, 1, M, M, M])
    total, middle, b = (
        on_device(X, 3 + M + (moved is not None)),
        center if centred else 0.0 * center,
        own if centred else plain,
    )
    for start, stop in chunks(len(X) if rows is None else len(rows), M):
        part = slice(start, stop) if rows is None else rows[start:stop]
        z = X[part].to(wide) - middle
        a = (z @ w + b).to(torch.float64)
        y = t[part].to(torch.float64)
        r, value = torch.sigmoid(a) - y, torch.nn.functional.softplus(-torch.abs(a)) + a.clamp(min=0.0) - a * y
        h = torch.sigmoid(a) * torch.sigmoid(-a)
        if s is not None:
            r, value, h = r * s[part], value * s[part], h * s[part]
        total[0] += value.sum()
        total[2] += r.sum()
        total[3 : 3 + M] += (r.to(wide) @ z).to(torch.float64)
        scaled = z * inverse
        if longest:
            norms = (scaled * scaled).sum(dim=1)
            norms = norms if s is None else norms * (s[part] > 0)
            total[1] = torch.maximum(total[1], norms.max().to(torch.float64))
        if moved is not None:
            a0 = a - z.to(torch.float64) @ moved[2:] - moved[0 if centred else 1]
            ratio = torch.sigmoid(a0) * torch.sigmoid(-a0) / (torch.sigmoid(a) * torch.sigmoid(-a))
            ratio = ratio if s is None else ratio * (s[part] > 0)
            total[-1] = torch.maximum(total[-1], ratio.max())
        if B is not None:
            B[start:stop, :M] = h.sqrt()[:, None].to(wide) * scaled
            B[start:stop, M] = h.sqrt()
            B[start:stop, M + 1 :] = 0.0
    return total


def _fused(
    X: Tensor, t: Tensor, s: Tensor | None, at: Tensor,
    exact: bool, longest: bool, centred: bool, rows: Tensor | None, B: Tensor | None, moved: Tensor | None,
) -> Tensor:  # fmt: skip
    """The same by the kernel in Triton: program p sums the tiles p, p + programs, …, and the device their sums."""
    from oddsmith.kernels.device.fused import logistic_tiles

    N, M = len(X) if rows is None else len(rows), X.shape[1]
    width = 0 if B is None else B.shape[1]
    asked = {"exact": exact, "centred": centred, "longest": longest, "writes": width > 0}
    BN, S, L, V, warps = tile_shape(max(M, width), X.element_size(), **asked)
    programs = min(-(-N // BN), (4 if exact else 8) * _processors(X.device))
    out = torch.empty((programs, S * L * V + 4), dtype=torch.float64, device=X.device)
    launch(
        logistic_tiles,
        programs,
        (X, t, t if s is None else s, t if rows is None else rows, at, at if moved is None else moved, out,
         out if B is None else B, N),
        {
            "M": M, "stride": X.stride(0), "BN": BN, "S": S, "L": L, "V": V, "width": width,
            "WEIGHTED": s is not None, "INDEXED": rows is not None, "CENTRED": centred, "LONGEST": longest,
            "MOVED": moved is not None, "EXACT": exact, "CURVATURE": B is not None, "PRODUCTS": exact and s is None,
            "AHEAD": exact and rows is None and B is None,
        },
        warps,
    )  # fmt: skip
    total = out.sum(dim=0)
    if longest:
        total[1] = out[:, 1].max()
    if moved is not None:
        total[3 + M] = out[:, -1].max()
        return total[: 4 + M]
    return total[: 3 + M]


def gram_fits(X: Tensor) -> bool:
    """Whether `logistic_gram` has a kernel for the rows, on the chip."""
    return has_triton(X) and X.shape[1] + 2 <= GRAM_WIDTH and X.stride(1) == 1


def logistic_gram(
    X: Tensor, t: Tensor, s: Tensor | None, at: Tensor, rows: Tensor | None
) -> tuple[Tensor, Tensor, float]:
    """Return the sum of losses, and the Gram matrix of the rows ``(√h z · inverse, √h, r / √h)``, in half precision.

    But for its last column, which is the gradient, it is that of the rows that `logistic_sums` writes to ``B``. Its
    `gram_rounding` comes with it.
    """
    import triton.language as tl

    from oddsmith.kernels.device.fused import gram_tiles

    N, M = len(X) if rows is None else len(rows), X.shape[1]
    BM, (BN, ahead, warps) = max(16, 1 << (M + 1).bit_length()), GRAM_TILE
    tiles = -(-N // BN)
    few, many = _processors(X.device), 8 * _processors(X.device)
    programs = min(tiles, max(few, min(many, tiles * BN // 1024), -(-tiles * BN // GRAM_ROWS)))
    out = torch.empty((programs, BM * BM + 1), dtype=torch.float64, device=X.device)
    launch(
        gram_tiles,
        programs,
        (X, t, t if s is None else s, t if rows is None else rows, at, out, N),
        {
            "M": M, "stride": X.stride(0), "BN": BN, "BM": BM, "WEIGHTED": s is not None,
            "INDEXED": rows is not None, "AHEAD": ahead, "KIND": tl.float16 if X.is_cuda else tl.float32,
        },
        warps,
    )  # fmt: skip
    total = out.sum(dim=0)
    return total[BM * BM :], total[: BM * BM].view(BM, BM), gram_rounding(-(-tiles // programs) * BN, 1)


def tile_shape(
    M: int, itemsize: int, *, exact: bool, centred: bool = False, longest: bool = False, writes: bool = False
) -> tuple[int, int, int, int, int]:
    """Return rows of a tile, loads, threads and numbers a load of a row, and warps, for M columns.

    >>> tile_shape(100, 4, exact=False)
    (32, 8, 4, 4, 4)
    """
    V, BM = 16 // itemsize, max(32, 1 << (M - 1).bit_length())
    most = BM // V
    if writes and exact:  # few columns a thread: they take four times the registers
        L = min(8 if BM <= 128 else 32 if BM <= 256 else 128, most)
        return max(1, 64 // L), BM // (L * V), L, V, max(2, min(4, L // 32))
    if writes:
        L = min(8 if BM <= 128 else 32 if BM <= 512 else 128, most)
        return max(1, 128 // L, 4096 // BM if BM <= 512 else 1), BM // (L * V), L, V, 4
    # H200, TB/s in float32 and in float64: 4.4 and 3.3 at 100 columns, 4.4 and 3.6 at 1,000.
    L = min(max(8 if centred or longest else 4, BM // 32), most)
    return max(1, 128 // L, (2048 if exact and BM <= 64 else 4096) // BM), BM // (L * V), L, V, 4


@lru_cache(maxsize=8)
def _processors(device: Any) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 4
