"""The curvature sums of rows on a device, as the folds of a likelihood ask for them: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
import torch

from oddsmith.kernels.device.logistic import logistic_sums, point
from oddsmith.kernels.device.softmax import SoftmaxPoint, packed, softmax_sums
from oddsmith.kernels.device.tensors import Tensor, chunks
from oddsmith.kernels.reference import CurvatureParams, Sums
from oddsmith.numerics import Array

HESSIAN_NUMBERS = 1 << 22
"""Numbers of a chunk on the way to a Hessian: 32 MB, and as much again times the curvatures."""


def curvature(X: Tensor, t: Tensor, s: Tensor | None, at: CurvatureParams) -> Sums:
    """As `reference.curvature`, of rows on a device; everything is in float64."""

    def there(values: Array) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64), device=t.device)

    C, P = at.size
    center, longest = there(at.center), 0.0
    if C == 1:
        inverse = center if at.inverse is None else there(np.sqrt(at.inverse))
        here = point(there(at.W[0]), there(at.b), center, inverse)
        sums = logistic_sums(X, t, s, here, exact=True, longest=at.inverse is not None).cpu().numpy()
        value, gradient = float(sums[0]), sums[None, 2:]
        longest = float(sums[1]) * (1.0 + 1e-5)  # it was summed in float32
    else:
        W = torch.cat([torch.zeros((1, P - 1), dtype=torch.float64, device=t.device), there(at.W)])
        b, unit = there(np.append(0.0, at.b)), torch.ones_like(center)
        loss, G = softmax_sums(X, t, s, None, SoftmaxPoint(W, b, center, unit), precision=2)
        value, gradient = float(loss), G[1:].cpu().numpy()
        if at.inverse is not None:
            longest = longest_row(X, s, center, there(at.inverse))
    H = None if at.order < 2 else hessian(X, s, there(at.W), there(at.b), center).cpu().numpy()
    return value, np.ascontiguousarray(gradient), H, longest


def longest_row(X: Tensor, s: Tensor | None, center: Tensor, inverse: Tensor) -> float:
    """Return ``max_n Σ_j inverse_j (x_nj − center_j)²`` over rows of positive weight, from above."""
    most, unit = torch.zeros((), dtype=torch.float64, device=X.device), torch.ones_like(center)
    for start, stop in chunks(*X.shape):
        z = packed(X, slice(start, stop), center, unit, torch.float32, 1)[:, 0]
        norms = (z * z) @ inverse.to(torch.float32)
        norms = norms if s is None else norms * (s[start:stop] > 0)
        most = torch.maximum(most, norms.max().to(torch.float64))
    return float(most) * (1.0 + 1e-5)


def hessian(X: Tensor, s: Tensor | None, W: Tensor, b: Tensor, center: Tensor) -> Tensor:
    """Return ``Σ s ∂²ℓ/∂a_j∂a_k (1, z)(1, z)ᵀ``, CP × CP, in float64, with ``z = x − center``."""
    C, M = W.shape
    P, unit = M + 1, torch.ones_like(center)
    W = torch.cat([b[:, None], W], dim=1)
    H = torch.zeros((C, P, C, P), dtype=torch.float64, device=X.device)
    for start, stop in chunks(X.shape[0], P * C, HESSIAN_NUMBERS):
        Z = packed(X, slice(start, stop), center, unit, torch.float64, 1)[:, 0]
        Z = torch.cat([torch.ones_like(Z[:, :1]), Z], dim=1)
        weight = None if s is None else s[start:stop]
        if C == 1:
            y = torch.sigmoid(Z @ W[0])
            h = y * torch.sigmoid(-(Z @ W[0]))
            H[0, :, 0] += Z.T @ (Z * (h if weight is None else h * weight)[:, None])
            continue
        A = Z @ W.T
        Y = torch.softmax(torch.cat([torch.zeros_like(A[:, :1]), A], dim=1), dim=1)
        for j in range(C):
            for k in range(j, C):
                # 1 − y of one class is the sum over the others: it keeps the digits of a small one.
                others = torch.cat([Y[:, : j + 1], Y[:, j + 2 :]], dim=1).sum(dim=1) if j == k else -Y[:, k + 1]
                h = Y[:, j + 1] * others
                H[j, :, k] += Z.T @ (Z * (h if weight is None else h * weight)[:, None])
    for j in range(C):
        for k in range(j):
            H[j, :, k] = H[k, :, j].T
    return H.reshape(C * P, C * P)
