"""Cholesky factors of matrices on a device, or of small ones in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from oddsmith.numerics import EPS, Array


@dataclass(frozen=True)
class TensorFactor:
    """``A = L Lᵀ`` on the device; ``info``, a number there, is 0 where A is positive definite."""

    L: Any
    info: Any

    @classmethod
    def of(cls, A: Any) -> TensorFactor:
        """Return the factor of a matrix; nothing waits for it."""
        L, info = torch.linalg.cholesky_ex(A)
        return cls(L, info[None])

    def solve(self, b: Any) -> Any:
        """Return ``A⁻¹ b``."""
        return torch.cholesky_solve(b[:, None], self.L)[:, 0]

    def squared_norm(self, b: Any, also: Any) -> Any:
        """Return ``bᵀ A⁻¹ b``, 0 if A is positive definite, and another number, on the device."""
        half = torch.linalg.solve_triangular(self.L, b[:, None], upper=False)[:, 0]
        return torch.stack([half @ half, self.info[0].to(half.dtype), also])


@dataclass(frozen=True)
class SmallFactor:
    """``A = L Lᵀ`` of a small matrix, in memory."""

    L: Array
    definite: bool

    @classmethod
    def of(cls, A: Array) -> SmallFactor:
        """Return the factor of a symmetric matrix, which is overwritten."""
        L, info = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        return cls(L, info == 0)

    def solve(self, b: Array) -> Array:
        """Return ``A⁻¹ b``, NaN where A is not positive definite."""
        solution: Array = dpotrs(self.L, b, lower=1)[0] if self.definite else np.full_like(b, np.nan)
        return solution

    def squared_norm(self, b: Array, also: float) -> Array:
        """Return ``bᵀ A⁻¹ b``, 0 if A is positive definite, and another number."""
        half = dtrtrs(self.L, b, lower=1)[0] if self.definite else b
        return np.array([half @ half, not self.definite, also])


@dataclass(frozen=True)
class ShiftedFactor:
    """``bᵀ (A − θ D²)⁻¹ b`` with D² the diagonal of A: if the matrix is positive definite, ``A ⪰ θ D²``."""

    theta: float
    size: int
    numbers: Any

    @classmethod
    def of(cls, A: Any, theta: float, b: Any) -> ShiftedFactor:
        """Shift a matrix, in memory or on the device, and factor it; nothing waits for it."""
        diagonal = A.diagonal()
        if isinstance(A, np.ndarray):
            shifted = A.copy()
            shifted.flat[:: len(A) + 1] -= theta * diagonal
            factor: AnyFactor = SmallFactor.of(shifted)
        else:
            factor = TensorFactor.of(A - torch.diag(theta * diagonal))
        return cls(theta, len(A), factor.squared_norm(b, diagonal.min()))

    def bound(self) -> tuple[float, float]:
        """Return the square, and a bound of the smallest eigenvalue of A, 0 where there is none."""
        square, info, least = self.numbers.tolist()
        smallest = (self.theta - 4.0 * EPS * self.size**2) * least
        return square, smallest if info == 0.0 and math.isfinite(square) else 0.0


AnyFactor: TypeAlias = TensorFactor | SmallFactor
"""The factor of a matrix on the device, or of a small one in memory."""
