"""Cholesky factors of matrices on a device, or of small ones in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotrs

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

    def squared_norm(self, b: Any) -> tuple[float, bool]:
        """Return ``bᵀ A⁻¹ b``, and whether A is positive definite."""
        half = torch.linalg.solve_triangular(self.L, b[:, None], upper=False)[:, 0]
        square, info = torch.cat([(half * half).sum()[None], self.info]).tolist()
        return square, info == 0.0


@dataclass(frozen=True)
class ShiftedFactor:
    """A matrix ``A − θ D²`` below A, D² its diagonal, that is positive definite: so ``A ⪰ θ D²``."""

    factor: TensorFactor
    smallest: float

    @classmethod
    def of(cls, A: Any, theta: float) -> ShiftedFactor:
        """Shift a matrix; ``smallest``, less what rounding takes, bounds its eigenvalues if the factor exists."""
        diagonal = A.diagonal().clone()
        rounding = 4.0 * EPS * len(A) ** 2
        return cls(TensorFactor.of(A - torch.diag(theta * diagonal)), (theta - rounding) * float(diagonal.min()))


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


AnyFactor: TypeAlias = TensorFactor | SmallFactor
"""The factor of a matrix on the device, or of a small one in memory."""
