"""Preconditioners: matrices close to a Hessian that are easy to solve with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import EPS, Array

LEAST = 1e-6  # Minimum share of a diagonal after eliminating the intercept: smaller values may be rounding errors.


@dataclass(frozen=True)
class InterceptPreconditioner:
    """A Hessian with its intercepts eliminated and the rest approximated by its diagonal.

    Weights of uncentred columns are coupled to the intercept; eliminating it removes the ``shift`` (C × M) that each of
    them causes. ``rest`` (C × (M + 1)) is the remaining diagonal, with the curvature of the intercepts in its first
    column; ``cross`` (C × M) is the Hessian's row of each intercept.

    >>> diagonal, cross = np.array([[4.0, 9.0]]), np.array([[2.0]])
    >>> InterceptPreconditioner.of(diagonal, cross).solve(np.array([6.0, 11.0])).round(12).tolist()
    [1.0, 1.0]
    """

    rest: Array
    shift: Array
    cross: Array

    @classmethod
    def of(cls, diagonal: Array, cross: Array) -> InterceptPreconditioner:
        """Build it from a Hessian's diagonal (C × (M + 1)) and its rows of the intercepts (C × M)."""
        diagonal = np.maximum(diagonal, EPS)
        first, others = diagonal[:, :1], diagonal[:, 1:]
        shift = cross / first
        left = np.maximum(others - first * shift**2, LEAST * others)
        return cls(np.concatenate([first, left], axis=1), shift, cross)

    def solve(self, b: Array) -> Array:
        R = b.reshape(self.rest.shape)
        z = R / self.rest
        z[:, 1:] -= self.shift * R[:, :1] / self.rest[:, 1:]
        z[:, 0] -= (self.shift * z[:, 1:]).sum(axis=1)
        return z.ravel()

    def norm(self, b: Array) -> float:
        return float(np.sqrt(b @ self.solve(b)))


class KroneckerSumPreconditioner:
    """Independent columns: ``A = B ⊗ 1 + 1 ⊗ diag(d)``, with B (C × C) between the classes.

    >>> KroneckerSumPreconditioner(np.array([[4.0]]), np.array([0.0, 4.0])).solve(np.array([8.0, 4.0])).tolist()
    [2.0, 0.5]
    """

    def __init__(self, B: Array, d: Array) -> None:
        values, self.vectors = np.linalg.eigh(B)
        self.diagonal = np.maximum(values, 0.0)[:, None] + d

    def solve(self, b: Array) -> Array:
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        x: Array = (self.vectors @ (rotated / self.diagonal)).ravel()
        return x

    def norm(self, b: Array) -> float:
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        return float(np.sqrt((rotated**2 / self.diagonal).sum()))
