"""Loss and gradient of several classes on a device: two products a chunk of rows, and probabilities between them.

No N × K array exists: a chunk's activations become its residuals, and those its share of the gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from oddsmith.kernels.device.tensors import Tensor, chunks, has_triton, on_device, split_parts, split_product

CHUNK_BYTES = 1 << 26
"""Activations of a chunk, 64 MB: products of matrices run at nine tenths of full speed, and little memory is taken."""
RESIDUAL_SCALE = 1024.0
"""Factor of residuals in half precision: the smallest probability that they hold is then 6e-11."""


def softmax_sums(
    X: Tensor, t: Tensor, s: Tensor | None, W: Tensor, b: Tensor, center: Tensor, inverse: Tensor, *, exact: bool
) -> tuple[Tensor, Tensor]:
    """Return the loss, a number on the device, and the gradient K × (1 + M), in float64.

    ``z = (x − center) · inverse`` and ``a_k = b_k + w_kᵀ z`` for all K classes. With ``exact`` all is in float64. Else
    rows are in half precision, weights and residuals in two parts of it (22 bits), and products are summed in float32
    by tensor cores: it is nearly the objective of rows rounded to 11 bits, and as smooth as that of the rows.
    """
    (N, M), K = X.shape, W.shape[0]
    half = torch.float16 if not exact and X.is_cuda else torch.float32
    kind: Any = torch.float64 if exact else half
    wide = torch.float64 if exact else torch.float32
    G, sums = on_device(X, (K, M), wide), on_device(X, 1 + K)
    parts = split_parts(W, kind)
    factor = RESIDUAL_SCALE if kind == torch.float16 else 1.0
    for start, stop in chunks(N, max(K, M), CHUNK_BYTES // (8 if exact else 4)):
        Z = packed(X[start:stop], center, inverse, kind)
        A = torch.zeros((stop - start, K), dtype=wide, device=X.device) if not parts else None
        for part in parts:
            A = split_product(Z, part.T, A, wide)
        for R in residuals(A, b, t[start:stop], None if s is None else s[start:stop], sums, kind, factor):
            G = split_product(R.T, Z, G, wide)
    gradient = torch.cat([sums[1:, None], G.to(torch.float64) / factor], dim=1)
    return sums[0], gradient


def packed(
    X: Tensor, center: Tensor, inverse: Tensor, kind: Any, *, ones: bool = False, width: int | None = None
) -> Tensor:
    """Return the rows ``(x − center) · inverse`` of a chunk, after a column of ones; zeros fill the ``width``."""
    n, M = X.shape
    if not has_triton(X) or X.stride(1) != 1:
        wide = torch.float64 if kind == torch.float64 else torch.float32
        Z = ((X.to(wide) - center.to(wide)) * inverse.to(wide)).to(kind)
        Z = torch.cat([torch.ones_like(Z[:, :1]), Z], dim=1) if ones else Z
        return Z if width is None else torch.nn.functional.pad(Z, (0, width - Z.shape[1]))
    from oddsmith.kernels.device.fused import packed_tiles

    BM, columns = 128 if M <= 128 else 256, M + ones if width is None else width
    Z = torch.empty((n, columns), dtype=kind, device=X.device)
    Z[:, M + ones :] = 0.0
    grid = (-(-n // 16), -(-M // BM))
    packed_tiles[grid](X, center, inverse, Z, n, M, X.stride(0), columns, ONES=int(ones), BN=16, BM=BM)
    return Z


def residuals(
    A: Tensor, b: Tensor, t: Tensor, s: Tensor | None, sums: Tensor, kind: Any, factor: float = 1.0
) -> list[Tensor]:
    """Return ``factor · s (p − t)`` of a chunk of activations without intercepts, as a sum of matrices of a type.

    Losses and residuals are added to ``sums``.
    """
    n, K = A.shape
    if not has_triton(A):
        a = A + b.to(A.dtype)
        own = a.gather(1, t[:, None].to(torch.int64))
        lse = torch.logsumexp(a, dim=1, keepdim=True)
        R = torch.exp(a - lse)
        R.scatter_add_(1, t[:, None].to(torch.int64), torch.full_like(own, -1.0))
        value = (lse - own)[:, 0].to(torch.float64)
        if s is not None:
            R, value = R * s[:, None].to(R.dtype), value * s
        sums[0] += value.sum()
        sums[1:] += R.to(torch.float64).sum(dim=0)
        return split_parts(R * factor, kind)
    from oddsmith.kernels.device.fused import softmax_tiles

    BK = max(16, 1 << (K - 1).bit_length())
    programs = min(n, 1056)
    split = kind != A.dtype
    R = torch.empty((2, n, K), dtype=kind, device=A.device) if split else A[None]
    out = torch.empty((programs, BK + 1), dtype=torch.float64, device=A.device)
    softmax_tiles[(programs,)](
        A, b, t, t if s is None else s, R[0], R[-1], out, n, K, factor,
        BK=BK, WEIGHTED=s is not None, SPLIT=split, num_warps=4,
    )  # fmt: skip
    sums += out.sum(dim=0)[: 1 + K]
    return list(R)


def class_curvature(
    X: Tensor, s: Tensor | None, W: Tensor, b: Tensor, center: Tensor, inverse: Tensor, *, exact: bool
) -> Tensor:
    """Return ``Σ s (diag(p) − p pᵀ)``, K × K, in float64: the Hessian between the intercepts."""
    K, kind = W.shape[0], torch.float64 if exact else torch.float32
    B, total = on_device(X, (K, K)), on_device(X, K)
    for start, stop in chunks(X.shape[0], max(K, X.shape[1]), CHUNK_BYTES // 16):
        Z = packed(X[start:stop], center, inverse, kind)
        Y = torch.softmax(Z @ W.to(kind).T + b.to(kind), dim=1)
        weighted = Y if s is None else Y * s[start:stop, None].to(kind)
        total += weighted.to(torch.float64).sum(dim=0)
        B -= (weighted.T @ Y).to(torch.float64)
    B.diagonal().add_(total)
    return B


def class_moments(
    X: Tensor, s: Tensor | None, W: Tensor, b: Tensor, center: Tensor, inverse: Tensor, V: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``Σ h``, K, ``Σ h u`` and ``Σ h u²``, K × M, with ``h_k = s p_k (1 − p_k)`` and ``u = Vᵀ z``; roughly.

    On a GPU everything is in half precision, summed in float32: three digits, for a preconditioner.
    """
    K, M = W.shape
    kind = torch.float16 if X.is_cuda else torch.float32
    own, first, second = on_device(X, K), on_device(X, (K, M)), on_device(X, (K, M))
    V, W = V.to(kind) / 16.0, W.to(kind)  # squares of 16 u would leave the range of half precision
    for start, stop in chunks(X.shape[0], max(K, M), CHUNK_BYTES // 8):
        Z = packed(X[start:stop], center, inverse, kind)
        Y = torch.softmax(split_product(Z, W.T, None, torch.float32) + b.to(torch.float32), dim=1)
        Y = (Y - Y * Y) if s is None else (Y - Y * Y) * s[start:stop, None].to(torch.float32)
        own += Y.sum(dim=0)
        Y, U = (Y * RESIDUAL_SCALE).to(kind), split_product(Z, V, None, torch.float32).to(kind)
        first += split_product(Y.T, U, None, torch.float32)
        second += split_product(Y.T, U * U, None, torch.float32)
    return own, first * (16.0 / RESIDUAL_SCALE), second * (256.0 / RESIDUAL_SCALE)
