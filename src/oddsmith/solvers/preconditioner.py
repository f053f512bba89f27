"""Preconditioners: matrices close to a Hessian that are easy to solve with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import dsyrk

from oddsmith.bordered import BorderedDiagonal, BorderedFactor, ClassBorder, SparseBorder
from oddsmith.numerics import EPS, Array, factor_spd, mirror

HELD = 1e-10  # Share of the diagonal that is added, so that directions without curvature stay definite.
CROSSED = 1e-8  # The same where a matrix is not exact anyway.
CHUNK = 1 << 14  # Numbers of a Hessian that are worked on at a time, to save memory.
ALIKE = 4.0  # Ratio of eigenvalues up to which one factor serves the directions of several classes.
LEAST = 1e-6  # Minimum share of a diagonal after eliminating the intercept: smaller values may be rounding errors.


@dataclass(frozen=True)
class InterceptPreconditioner:
    """A Hessian with its intercepts eliminated and the rest approximated by its diagonal.

    Weights of uncentred columns are coupled to the intercept; eliminating it removes the ``shift`` (C × M) that each of
    them causes. ``rest`` (C × (M + 1)) is the remaining diagonal, with the curvature of the intercepts in its first
    column. One row of both serves all classes.

    >>> diagonal, cross = np.array([[4.0, 9.0]]), np.array([[2.0]])
    >>> InterceptPreconditioner.of(diagonal, cross).solve(np.array([6.0, 11.0])).round(12).tolist()
    [1.0, 1.0]
    """

    rest: Array
    shift: Array

    @property
    def cross(self) -> Array:
        """The Hessian's row of each intercept (C × M)."""
        return self.shift * self.rest[:, :1]

    @classmethod
    def of(cls, diagonal: Array, cross: Array) -> InterceptPreconditioner:
        """Build it from a Hessian's diagonal (C × (M + 1)) and its rows of the intercepts (C × M)."""
        diagonal = np.maximum(diagonal, EPS)
        first, others = diagonal[:, :1], diagonal[:, 1:]
        shift = cross / first
        left = np.maximum(others - first * shift**2, LEAST * others)
        return cls(np.concatenate([first, left], axis=1), shift)

    def solve(self, b: Array) -> Array:
        R = b.reshape(-1, self.rest.shape[1])
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
        self.vectors: Array
        values, self.vectors = np.linalg.eigh(B) if B.size > 1 else (B[0], np.ones((1, 1)))
        self.diagonal = np.maximum(values, 0.0)[:, None] + d

    def solve(self, b: Array) -> Array:
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        x: Array = (self.vectors @ (rotated / self.diagonal)).ravel()
        return x

    def norm(self, b: Array) -> float:
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        return float(np.sqrt((rotated**2 / self.diagonal).sum()))


class LevelPreconditioner:
    """A Hessian of several classes over a table, with the levels of one factor eliminated.

    A level meets no other level of its factor, so its weights in the C classes have a block of their own. ``A``
    (C × R × C × R) is the Hessian of the R weights outside the factor, ``B`` that between a level and these, ``D``
    (L × C × C) the blocks of the L levels, which begin at ``start``. ``A`` and ``D`` are overwritten, ``B`` is rounded
    where it is. A small multiple of the diagonal holds singular directions.

    >>> A, B, D = np.array([[[[4.0]]]]), ClassBorder({(0, 0): np.array([[2.0]])}, 1), np.array([[[5.0]]])
    >>> LevelPreconditioner(A, B, D, start=1).solve(np.array([10.0, 12.0])).round(6).tolist()
    [1.625, 1.75]
    """

    def __init__(self, A: Array, B: ClassBorder, D: Array, start: int) -> None:
        (L, C, _), R = D.shape, A.shape[1]
        self.shape, self.start, self.stop = (C, R + L), start, start + L
        each, step = np.arange(C), max(1, CHUNK // (C * C * R))
        for i in range(0, L, CHUNK // (C * C)):
            some = D[i : i + CHUNK // (C * C)]
            some[:, each, each] += HELD * some[:, each, each] + EPS
            values, vectors = np.linalg.eigh(some)
            np.divide(vectors, np.sqrt(np.maximum(values, EPS))[:, None, :], out=some)
        self.root = D  # its square is the inverse of D
        S = A.reshape(C * R, C * R)
        S[np.diag_indices_from(S)] *= 1.0 + HELD
        for i in range(0, L, step):
            half = (self.root[i : i + step].transpose(0, 2, 1) @ B[i : i + step]).reshape(-1, C * R)
            dsyrk(-1.0, half.T, beta=1.0, c=S.T, lower=1, overwrite_c=1)  # S − halfᵀ half above the diagonal, in place
        mirror(S)
        B.round()  # only now: S must be exact
        self.B = B
        self.schur = replace(factor_spd(S, tol=HELD, overwrite=True), scaled=None)  # which only the eigenvalues need

    def solve(self, b: Array) -> Array:
        b = b.reshape(self.shape)
        inside = b[:, self.start : self.stop].T
        outside = np.concatenate([b[:, : self.start], b[:, self.stop :]], axis=1)
        own = self._solve_levels(inside)
        left = outside.ravel() - self.B.transposed_product(own)
        y = self.schur.solve(left)
        # Directions that the factor has left out keep their own scale, so that the matrix stays positive definite.
        y = np.where(self.schur.kept, y, left)
        x = own - self._solve_levels(self.B.product(y))
        rest = y.reshape(len(b), -1)
        return np.concatenate([rest[:, : self.start], x.T, rest[:, self.start :]], axis=1).ravel()

    def _solve_levels(self, b: Array) -> Array:
        """Return the inverse of the levels' blocks times ``b`` (L × C)."""
        half = np.einsum("lji,lj->li", self.root, b)
        x: Array = np.einsum("lij,lj->li", self.root, half)
        return x

    def norm(self, b: Array) -> float:
        return float(np.sqrt(max(float(b @ self.solve(b)), 0.0)))


class KroneckerPreconditioner:
    """Rows in which classes mix alike: ``A = M ⊗ G + 1 ⊗ diag(q)``, M (C × C) between classes, G over the rows.

    In the direction of an eigenvector of M, with the eigenvalue λ, it is ``λ G + diag(q)``. Directions with eigenvalues
    that are ``ALIKE`` share a factor of ``G + diag(q) / λ``, and all of them the block between, rounded to float32.
    ``gram`` is that of `BorderedDiagonal.factor`. A small multiple of the diagonal holds singular directions.

    >>> G = BorderedDiagonal(A=np.array([[4.0]]), B=np.array([[2.0]]), d=np.array([5.0]), start=1)
    >>> M, q = np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros(2)
    >>> KroneckerPreconditioner(M, G, q).solve(np.array([8.0, 4.0, 4.0, 2.0])).round(6).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        M: Array,
        G: BorderedDiagonal,
        q: Array,
        gram: Callable[[SparseBorder, Array], Array] | None = None,
    ) -> None:
        values, self.vectors = np.linalg.eigh(M)
        self.values = np.maximum(values, EPS * values[-1])
        held, self.factors = CROSSED * G.diagonal() + EPS, list[BorderedFactor]()
        B = G.B.astype(np.float32) if isinstance(G.B, SparseBorder) else G.B
        while (done := len(self.factors)) < len(self.values):
            alike = self.values[done:][self.values[done:] <= ALIKE * self.values[done]]
            middle = float(np.exp(np.log(alike).mean()))
            factor = G.plus_diagonal(held + q / middle).factor(gram=gram)
            H = replace(factor.H, A=np.zeros((0, 0)), B=B)  # solutions need no more
            factor = replace(factor, H=H, schur=replace(factor.schur, scaled=None))
            self.factors += [factor] * len(alike)

    def solve(self, b: Array) -> Array:
        x: Array = self.vectors.T @ b.reshape(len(self.values), -1)
        for row, value, factor in zip(x, self.values.tolist(), self.factors, strict=True):
            np.divide(factor.solve(row), value, out=row)
        solution: Array = self.vectors @ x
        return solution.ravel()

    def norm(self, b: Array) -> float:
        return float(np.sqrt(max(float(b @ self.solve(b)), 0.0)))
