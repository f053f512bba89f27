"""Loss and gradient of several classes on a device: two products a chunk of rows, and probabilities between them.

No N × K array exists: a chunk's activations become its residuals, and those its share of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from oddsmith.kernels.device.tensors import Tensor, chunks, has_triton, on_device, summed_product

CHUNK_BYTES = (1 << 25, 3 << 25)
"""Activations of a chunk, 32 MB at least and 96 at most: products of matrices run at two thirds of full speed (H200,
1,281,167 × 768 of 1,000 classes: 15 of 23 ms of a pass), and the memory is less than a tenth of the rows'."""
RESIDUAL_SCALE = 1024.0
"""Factor of residuals in half precision: the smallest probability that they hold is then 6e-11."""


class SoftmaxPoint(NamedTuple):
    """Weights of all K classes: ``a_k = b_k + w_kᵀ z`` with ``z = (x − center) · inverse``."""

    W: Tensor
    b: Tensor
    center: Tensor
    inverse: Tensor


def softmax_sums(
    X: Tensor, t: Tensor, s: Tensor | None, rows: Tensor | None, at: SoftmaxPoint, *, precision: int
) -> tuple[Tensor, Tensor]:
    """Return the loss, a number on the device, and the gradient K × (1 + M), in float64.

    In precision 2 all is in float64. In precision 1 rows are in half precision, weights and residuals in two parts of
    it (22 bits), and products are summed in float32 by tensor cores: it is nearly the objective of rows rounded to 11
    bits, and as smooth as that of the rows. In precision 0 weights and residuals have one part. On the CPU both are in
    float32.
    """
    (K, M), exact = at.W.shape, precision == 2
    wide: Any = torch.float64 if exact else torch.float32
    kind: Any = torch.float16 if X.is_cuda and not exact else wide
    parts = 2 if kind == torch.float16 and precision == 1 else 1
    G, sums = on_device(X, (K, M)), on_device(X, 1 + K)
    weights = split(at.W, kind, parts).reshape(K, parts * M).T.contiguous()
    factor = RESIDUAL_SCALE if kind == torch.float16 else 1.0
    for part, Z in packed_chunks(X, rows, at.center, at.inverse, kind, K, copies=parts):
        A = summed_product(Z.reshape(len(Z), parts * M), weights, None, wide)
        R = residuals(A, at.b, t[part], None if s is None else s[part], sums, kind, parts, factor)
        R, Z = R.reshape(len(R) * parts, K), Z.reshape(len(R) * parts, M)
        if exact:
            G.addmm_(R.T, Z)
        else:
            G += summed_product(R.T, Z, None, wide)
        del A, R, Z  # the next chunk takes their place
    return sums[0], torch.cat([sums[1:, None], G / factor], dim=1)


def packed_chunks(
    X: Tensor, rows: Tensor | None, center: Tensor, inverse: Tensor, kind: Any, K: int, *, copies: int = 1
) -> Iterator[tuple[Any, Tensor]]:
    """Yield which rows a chunk has, and the rows ``(x − center) · inverse`` of it, n × copies × M."""
    (N, M), size = X.shape, 8 if kind == torch.float64 else 4
    least, most = CHUNK_BYTES
    numbers = min(most, max(least, X.numel() * X.element_size() // 24)) // size
    for start, stop in chunks(N if rows is None else len(rows), max(K, M), numbers):
        part = slice(start, stop) if rows is None else rows[start:stop]
        yield part, packed(X, part, center, inverse, kind, copies)


def split(W: Tensor, kind: Any, parts: int) -> Tensor:
    """Return matrices of a type, n × parts × m, whose sum is W, nearly."""
    first = W.to(kind)
    return torch.stack([first, (W - first.to(W.dtype)).to(kind)][:parts], dim=1)


def packed(X: Tensor, part: Any, center: Tensor, inverse: Tensor, kind: Any, copies: int) -> Tensor:
    """Return the rows ``(x − center) · inverse`` of a slice or of numbered rows, each repeated ``copies`` times."""
    if not has_triton(X) or X.stride(1) != 1:
        wide = torch.float64 if kind == torch.float64 else torch.float32
        Z = ((X[part].to(wide) - center.to(wide)) * inverse.to(wide)).to(kind)
        return Z[:, None].expand(-1, copies, -1)
    from oddsmith.kernels.device.fused import packed_tiles

    M, indexed = X.shape[1], not isinstance(part, slice)
    X = X if indexed else X[part]
    n, BM = len(part) if indexed else len(X), 128 if M <= 128 else 256
    Z = torch.empty((n, copies, M), dtype=kind, device=X.device)
    packed_tiles[(-(-n // 8), -(-M // BM))](
        X, part if indexed else X, center, inverse, Z, n, M, X.stride(0), COPIES=copies, INDEXED=indexed, BN=8, BM=BM
    )
    return Z


def residuals(
    A: Tensor, b: Tensor, t: Tensor, s: Tensor | None, sums: Tensor, kind: Any, parts: int, factor: float
) -> Tensor:
    """Return ``factor · s (p − t)`` of a chunk of activations without intercepts, n × parts × K, as a sum of parts.

    Losses and residuals are added to ``sums``. ``A`` may be overwritten.
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
        return split(R * factor, kind, parts)
    from oddsmith.kernels.device.fused import softmax_tiles

    BK, programs = max(16, 1 << (K - 1).bit_length()), min(n, 1056)
    R = A[:, None] if kind == A.dtype else torch.empty((n, parts, K), dtype=kind, device=A.device)
    out = torch.empty((programs, BK + 1), dtype=torch.float64, device=A.device)
    softmax_tiles[(programs,)](
        A, b, t, t if s is None else s, R, out, n, K, factor, BK=BK, WEIGHTED=s is not None, PARTS=parts, num_warps=4
    )
    sums += out.sum(dim=0)[: 1 + K]
    return R


def class_curvature(
    X: Tensor, t: Tensor, s: Tensor | None, rows: Tensor | None, at: SoftmaxPoint, *, exact: bool
) -> Tensor:
    """Return ``Σ s (diag(p) − p pᵀ)``, K × K: the Hessian between the intercepts, in float64 or to three digits.

    Its rows sum to zero, which gives the diagonal without a difference of large numbers.
    """
    K = at.W.shape[0]
    wide: Any = torch.float64 if exact else torch.float32
    kind: Any = torch.float16 if X.is_cuda and not exact else wide
    B = on_device(X, (K, K))
    for part, Z in packed_chunks(X, rows, at.center, at.inverse, kind, 2 * K):
        Y = torch.softmax(summed_product(Z[:, 0], at.W.to(kind).T, None, wide) + at.b.to(wide), dim=1)
        Y = (Y if s is None else Y * s[part][:, None].sqrt().to(wide)) * (1.0 if kind == wide else RESIDUAL_SCALE)
        B -= summed_product(Y.to(kind).T, Y.to(kind), None, wide)
        del Y, Z
    B = B / (1.0 if kind == wide else RESIDUAL_SCALE**2)
    B.fill_diagonal_(0.0)
    return B - torch.diag(B.sum(dim=1))


def class_moments(
    X: Tensor, t: Tensor, s: Tensor | None, rows: Tensor | None, at: SoftmaxPoint, V: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``Σ h``, K, ``Σ h u`` and ``Σ h u²``, K × M, with ``h_k = s p_k (1 − p_k)`` and ``u = Vᵀ z``; roughly.

    On a GPU everything is in half precision, summed in float32: three digits, for a preconditioner.
    """
    K, M = at.W.shape
    kind = torch.float16 if X.is_cuda else torch.float32
    own, first, second = on_device(X, K), on_device(X, (K, M)), on_device(X, (K, M))
    V, W = V.to(kind) / 16.0, at.W.to(kind)  # squares of 16 u would leave the range of half precision
    for part, Z in packed_chunks(X, rows, at.center, at.inverse, kind, 2 * K):
        Y = torch.softmax(summed_product(Z[:, 0], W.T, None, torch.float32) + at.b.to(torch.float32), dim=1)
        Y = (Y - Y * Y) if s is None else (Y - Y * Y) * s[part][:, None].to(torch.float32)
        own += Y.sum(dim=0)
        Y, U = (Y * RESIDUAL_SCALE).to(kind), summed_product(Z[:, 0], V, None, torch.float32).to(kind)
        first += summed_product(Y.T, U, None, torch.float32)
        second += summed_product(Y.T, U * U, None, torch.float32)
        del Y, U, Z
    return own, first * (16.0 / RESIDUAL_SCALE), second * (256.0 / RESIDUAL_SCALE)


def column_gram(X: Tensor, t: Tensor, s: Tensor | None, rows: Tensor | None, center: Tensor, inverse: Tensor) -> Tensor:
    """Return ``Σ s z zᵀ``, M × M: on a GPU of rows in half precision, a chunk in float32, all of them in float64."""
    kind = torch.float16 if X.is_cuda else torch.float32
    G = on_device(X, (X.shape[1], X.shape[1]))
    for part, Z in packed_chunks(X, rows, center, inverse, kind, 1):
        Z = Z[:, 0] if s is None else Z[:, 0] * s[part].sqrt()[:, None].to(kind)
        G += summed_product(Z.T, Z, None, torch.float32)
    return G
