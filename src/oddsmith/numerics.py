"""Numerically stable functions, each defined once.

Functions of an activation use the array API, so that they work for NumPy and other array libraries; the linear algebra
uses NumPy and SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, special
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs, dtrtri, dtrtrs

from oddsmith.cached_property import cached_property

Array = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


def namespace(array: Any) -> Any:
    """Return the array-API namespace that ``array`` belongs to.

    >>> namespace(np.zeros(2)) is np
    True
    """
    return array.__array_namespace__()


def log1pexp(a: Array) -> Array:
    """Return ``log(1 + exp(a))`` without overflow and without loss in the tails.

    >>> log1pexp(np.array([-800.0, 0.0, 800.0])).round(6).tolist()
    [0.0, 0.693147, 800.0]
    """
    xp = namespace(a)
    result: Array = xp.maximum(a, xp.zeros_like(a)) + xp.log1p(xp.exp(-xp.abs(a)))
    return result


def sigmoid(a: Array) -> Array:
    """Return ``1 / (1 + exp(-a))`` with full relative precision in the lower tail.

    >>> sigmoid(np.array([-700.0, 0.0, 700.0])).tolist()
    [9.859676543759771e-305, 0.5, 1.0]
    """
    xp = namespace(a)
    e = xp.exp(-xp.abs(a))
    result: Array = xp.where(a >= 0, 1.0, e) / (1.0 + e)
    return result


def log1mexp(x: Array) -> Array:
    """Return ``log(1 − exp(−x))`` for ``x > 0`` without loss at either end.

    >>> log1mexp(np.array([1e-20, 1.0, 50.0])).round(4).tolist()
    [-46.0517, -0.4587, -0.0]
    """
    small = x < np.log(2.0)
    below, above = np.where(small, x, 1.0), np.where(small, 1.0, x)
    return np.where(small, np.log(-np.expm1(-below)), np.log1p(-np.exp(-above)))


def coth_excess(x: Array) -> Array:
    """Return ``x coth(x) − 1`` for ``x ≥ 0``, to the last digits of ``x``.

    >>> coth_excess(np.array([0.0, 1e-3, 1.0])).round(9).tolist()
    [0.0, 3.33e-07, 0.313035285]
    """
    far = np.maximum(x, 0.02)
    square = np.minimum(x, 0.02) ** 2
    series = square * (1.0 / 3.0 - square * (1.0 / 45.0 - square * (2.0 / 945.0)))
    return np.where(x < 0.02, series, far / np.tanh(far) - 1.0)


def normal_density(a: Array) -> Array:
    """Return ``φ(a) = exp(−a²/2) / √(2π)``.

    >>> normal_density(np.array([0.0, 1e200])).round(6).tolist()
    [0.398942, 0.0]
    """
    bounded = np.clip(a, -40.0, 40.0)  # φ(40) is zero in float64
    result: Array = np.exp(-0.5 * bounded * bounded) / np.sqrt(2.0 * np.pi)
    return result


def inverse_mills(a: Array) -> Array:
    """Return ``λ(a) = φ(a) / Φ(a)`` with full relative precision.

    >>> inverse_mills(np.array([-1e8, 0.0])).round(4).tolist()
    [100000000.0, 0.7979]
    """
    result: Array = np.sqrt(2.0 / np.pi) / special.erfcx(-a / np.sqrt(2.0))
    return result


def inverse_mills_excess(a: Array) -> Array:
    """Return ``λ(a) + a`` with full relative precision, ``λ = φ/Φ``.

    For very negative a, λ is near −a and the sum cancels; Laplace's continued fraction is used there,
    ``λ(−x) − x = 1/(x + 2/(x + 3/(x + …)))``.

    >>> inverse_mills_excess(np.array([-1e8, 0.0])).round(10).tolist()
    [1e-08, 0.7978845608]
    """
    x = np.maximum(-a, 8.0)
    tail = x
    for k in range(16, 1, -1):  # sixteen levels give every digit from x = 8 on
        tail = x + k / tail
    return np.where(a < -8.0, 1.0 / tail, inverse_mills(a) + a)


def log_normaliser(A: Array) -> tuple[Array, Array]:
    """Return ``log(1 + Σ_k exp(A_k))`` and the matching probabilities, the reference class first.

    ``A`` is n × C, the activations of the classes 1…C against class 0, whose activation is 0.
    The first result is of length n, the second n × (C + 1).

    >>> value, P = log_normaliser(np.array([[0.0, 0.0], [900.0, -900.0]]))
    >>> value.round(6).tolist(), P.round(6).tolist()
    ([1.098612, 900.0], [[0.333333, 0.333333, 0.333333], [0.0, 1.0, 0.0]])
    """
    xp = namespace(A)
    A = xp.concat([xp.zeros_like(A[:, :1]), A], axis=1)
    top = xp.max(A, axis=1, keepdims=True)
    E = xp.exp(A - top)
    total = xp.sum(E, axis=1, keepdims=True)
    return (top + xp.log(total))[:, 0], E / total


def log_softmax(A: Array) -> Array:
    """Return the logarithms of the row-wise softmax of ``A`` (n × K).

    >>> log_softmax(np.array([[0.0, 1000.0]])).tolist()
    [[-1000.0, 0.0]]
    """
    with np.errstate(over="ignore"):  # a difference of -inf is a probability of 0
        shifted = A - A.max(axis=1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def softmax(A: Array) -> Array:
    """Return the row-wise softmax of ``A`` (n × K).

    >>> softmax(np.array([[0.0, 1000.0]])).tolist()
    [[0.0, 1.0]]
    """
    with np.errstate(over="ignore"):  # a difference of -inf is a probability of 0
        E = np.exp(A - A.max(axis=1, keepdims=True))
    result: Array = E / E.sum(axis=1, keepdims=True)
    return result


SMALL = 64  # Matrices up to this size are worth an exact answer.
LANCZOS = 10


@dataclass(frozen=True)
class SpdFactor:
    """A Cholesky factor of a symmetric matrix scaled to unit diagonal, without dependent rows.

    ``A = D (L Lᵀ) D`` on the rows in ``kept``; rows that depend linearly on earlier ones are listed in
    ``aliased`` and get a zero in every solution, as R does. ``scaled`` is the matrix ``L Lᵀ`` itself, if no row is:
    its unit diagonal and what is below, since the rest of a large one is L, which is not zero above its diagonal then.
    """

    L: Array
    d: Array
    kept: npt.NDArray[np.bool_]
    scaled: Array | None = None

    @classmethod
    def known(cls, L: Array, d: Array, scaled: Array, eigenvalue_floor: float, condition: float) -> SpdFactor:
        """Return the factor of a matrix of which no row depends on others, with what else is known of it."""
        factor = cls(L, d, d > 0.0, scaled)
        vars(factor).update(complete=True, eigenvalue_floor=eigenvalue_floor, condition=condition)
        return factor

    @cached_property
    def complete(self) -> bool:
        """Whether no row was left out."""
        return bool(self.kept.all())

    @property
    def aliased(self) -> npt.NDArray[np.intp]:
        """Indices of the rows left out."""
        return np.flatnonzero(~self.kept)

    def solve(self, b: Array) -> Array:
        """Return ``x`` with ``A x = b`` on the kept rows and zero on the others (``b`` may have columns)."""
        if self.complete and len(self.L):
            scale = self.d if b.ndim == 1 else self.d[:, None]
            solution: Array = dpotrs(self.L, b / scale, lower=1)[0] / scale
            return solution
        x = np.zeros_like(b, dtype=np.float64)
        if len(self.L):
            scale = self.d[self.kept] if b.ndim == 1 else self.d[self.kept][:, None]
            x[self.kept] = dpotrs(self.L, b[self.kept] / scale, lower=1)[0] / scale
        return x

    def norm(self, b: Array) -> float:
        """Return ``sqrt(bᵀ A⁻¹ b)`` over the kept rows."""
        if not len(self.L):
            return 0.0
        half, _ = dtrtrs(self.L, b / self.d if self.complete else b[self.kept] / self.d[self.kept], lower=1)
        return float(np.sqrt(half @ half))

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of ``A⁻¹`` on the kept rows, zero on the others."""
        return self.solve(np.eye(len(self.kept))).diagonal()

    def log_det(self) -> float:
        """Return ``log det A`` over the kept rows."""
        return float(2.0 * np.log(np.diag(self.L)).sum() + 2.0 * np.log(self.d[self.kept]).sum())

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """A lower bound of the smallest eigenvalue of ``A`` on the kept rows.

        Exact for small matrices. For others, a guess is verified: A − 0.7 · guess must have a Cholesky factor;
        otherwise the bound is 1 / trace(A⁻¹).
        """
        if not self.kept.any():
            return 1.0
        if len(self.L) > SMALL and self.scaled is not None:
            bound = 0.7 * self._likely_smallest()
            rest = self.scaled.T.copy(order="F")  # by columns, as LAPACK wants it
            np.einsum("ii->i", rest)[:] = 1.0 - bound / self.d**2
            # Rounding of a factor is at most n · EPS of the diagonal, entry by entry.
            safe = bound - len(self.L) ** 2 * EPS * float(self.d.max()) ** 2
            if safe > 0.5 * bound and dpotrf(rest, lower=0, clean=0, overwrite_a=1)[1] == 0:
                return safe
        if len(self.L) > SMALL:
            return self.eigenvalue_floor
        B = self.d[self.kept][:, None] * np.tril(self.L)
        return float(np.linalg.svd(B, compute_uv=False)[-1] ** 2)

    @cached_property
    def eigenvalue_floor(self) -> float:
        """1 / trace(A⁻¹) on the kept rows: a lower bound of the smallest eigenvalue, at most n times too small."""
        inverse = self._inverse_root / (self.d if self.complete else self.d[self.kept])
        return float(1.0 / np.vdot(inverse, inverse)) if len(inverse) else 1.0

    @cached_property
    def _inverse_root(self) -> Array:
        """L⁻¹, zero above the diagonal."""
        inverse: Array = dtrtri(self.L, lower=1)[0]
        return inverse if len(inverse) <= SMALL else np.tril(inverse)

    def _likely_smallest(self) -> float:
        """Return an upper estimate of the smallest eigenvalue, by a few Lanczos steps with A⁻¹."""
        v = np.random.default_rng(0).normal(size=len(self.d))
        v /= np.linalg.norm(v)
        before, beta, T = np.zeros_like(v), 0.0, np.zeros((LANCZOS, LANCZOS))
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(LANCZOS):
                w = self.solve(v) - beta * before
                T[k, k] = w @ v
                w -= T[k, k] * v
                beta = float(np.linalg.norm(w))
                if k + 1 < LANCZOS:
                    T[k, k + 1] = T[k + 1, k] = beta
                if beta <= EPS * T[k, k]:
                    break
                before, v = v, w / beta
        return float(1.0 / np.linalg.eigvalsh(T)[-1]) if np.isfinite(T).all() else 0.0

    @cached_property
    def condition(self) -> float:
        """The condition number (in the 1-norm) of ``A`` scaled to unit diagonal; of large matrices an estimate."""
        if not self.kept.any():
            return 1.0
        R = np.tril(self.L) @ np.tril(self.L).T if self.scaled is None else self.scaled
        size = np.abs(R) if len(R) <= SMALL else np.abs(np.tril(R, -1))
        norm1 = float(size.sum(axis=1).max() if len(R) <= SMALL else 1.0 + (size.sum(axis=1) + size.sum(axis=0)).max())
        if len(self.L) <= SMALL:
            inverse = self._inverse_root.T @ self._inverse_root
            return norm1 * float(np.abs(inverse).sum(axis=1).max())
        reciprocal, _ = dpocon(self.L, norm1, uplo="L")
        return float(1.0 / reciprocal) if reciprocal > 0 else np.inf


def add_transpose(S: Array) -> None:
    """Add its transpose to a square matrix, where it is, some rows at a time to save memory.

    >>> S = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> add_transpose(S)
    >>> S.tolist()
    [[2.0, 5.0], [5.0, 8.0]]
    """
    for i in range(0, len(S), SMALL):
        own, after, below = (
            S[i : i + SMALL, i : i + SMALL],
            S[i : i + SMALL, i + SMALL :],
            S[i + SMALL :, i : i + SMALL],
        )
        own += own.T.copy()
        after += below.T
        below[:] = after.T


def mirror(S: Array) -> None:
    """Copy what is above the diagonal of a square matrix to below it, some rows at a time to save memory.

    >>> S = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> mirror(S)
    >>> S.tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    for i in range(0, len(S), SMALL):
        own = S[i : i + SMALL, i : i + SMALL]
        own[:] = np.triu(own) + np.triu(own, 1).T
        S[i + SMALL :, i : i + SMALL] = S[i : i + SMALL, i + SMALL :].T


NOISE = 32.0 * EPS
"""Rounding of an entry of a matrix of unit diagonal. A pivot is a row less Σ weight × earlier rows: the more and
the larger the weights, the more of it is rounding, NOISE · (1 + Σ|weight|)²."""


def _stands_out(L: Array, tol: float) -> bool:
    """Whether every pivot of a Cholesky factor (of unit diagonal) is above ``tol`` and its own rounding."""
    pivots = np.diag(L) ** 2
    smallest = pivots.min(initial=1.0)
    if smallest <= tol or smallest > 1e-6:
        return bool(smallest > tol)
    # Row j of L⁻¹ is (−weights, 1) / √pivot.
    inverse, _ = dtrtri(L, lower=1)
    return bool(np.all(pivots > tol + NOISE * pivots * np.abs(np.tril(inverse)).sum(axis=1) ** 2))


def factor_spd(
    A: Array, *, tol: float = 1e-13, may_alias: npt.NDArray[np.bool_] | None = None, overwrite: bool = False
) -> SpdFactor:
    """Factor a symmetric positive semidefinite matrix, leaving out rows that depend on earlier ones.

    1. Scale to unit diagonal. 2. Try LAPACK's Cholesky. 3. If a pivot (the share of a row's variance that earlier rows
    do not explain) is below ``tol`` or within rounding error of zero, go through the rows one by one and leave out such
    rows. Only rows in ``may_alias`` (default: all) can be left out. With ``tol=0``, only rows with a non-positive pivot
    are left out. With ``overwrite``, the matrix becomes the one scaled, to save memory.

    >>> A = np.array([[2.0, 1.0, 2.0], [1.0, 2.0, 1.0], [2.0, 1.0, 2.0]])
    >>> factor = factor_spd(A)
    >>> factor.aliased.tolist(), factor.solve(np.array([3.0, 3.0, 3.0])).tolist()
    ([2], [1.0, 1.0, 0.0])
    """
    diagonal = A.diagonal()
    kept = diagonal > 0
    whole = bool(kept.all())
    d = np.sqrt(diagonal if whole else np.where(kept, diagonal, 1.0))
    R = A if overwrite else np.empty_like(A)
    for start in range(0, len(d), SMALL):  # some rows at a time, to save memory
        part = slice(start, start + SMALL)
        np.divide(A[part], d * d[part, None], out=R[part])
    if whole:
        small = len(d) <= SMALL
        L, info = dpotrf(R.T, lower=1, clean=small, overwrite_a=not small)  # by columns, as LAPACK wants it
        if info == 0 and (tol == 0.0 or _stands_out(L, tol)):
            return SpdFactor(L, d, kept, R)
        if not small:  # of which a large one is in the same memory
            R = np.tril(R, -1)
            R += R.T
            np.einsum("ii->i", R)[:] = 1.0
    allowed = np.ones(len(d), dtype=bool) if may_alias is None else may_alias
    L = np.zeros_like(R)
    rows: list[int] = []
    for j in range(len(d)):
        if not kept[j]:
            continue
        m = len(rows)
        v = linalg.solve_triangular(L[:m, :m], R[rows, j], lower=True, check_finite=False) if m else R[:0, 0]
        pivot = R[j, j] - v @ v
        if allowed[j] and pivot <= tol:
            kept[j] = False
            continue
        weights = linalg.solve_triangular(L[:m, :m], v, lower=True, trans=1, check_finite=False) if m else v
        if allowed[j] and pivot <= tol + (NOISE * (1.0 + np.abs(weights).sum()) ** 2 if tol > 0 else 0.0):
            kept[j] = False
            continue
        L[m, :m] = v
        L[m, m] = np.sqrt(max(pivot, EPS))
        rows.append(j)
    m = len(rows)
    return SpdFactor(np.asfortranarray(L[:m, :m]), d, kept)


def without_traces(scatter: Array, mean: Array, weight: float) -> Array:
    """Return the scatter with columns set to zero whose spread is only the rounding error of their mean.

    >>> without_traces(np.array([[1e-20, 0.0], [0.0, 4.0]]), np.array([1e6, 1.0]), 2.0).tolist()
    [[0.0, 0.0], [0.0, 4.0]]
    """
    still = np.sqrt(np.diag(scatter) / weight) <= 4.0 * EPS * np.abs(mean)
    return np.where(still[:, None] | still, 0.0, scatter) if still.any() else scatter


def null_vectors(S: Array, factor: SpdFactor) -> Array:
    """Return a basis of the constant combinations of columns, M × number of columns left out.

    A column left out is ``x_j = Σ_i c_i x_i + const`` over the kept ones, hence ``e_j − Σ_i c_i e_i``.

    >>> S = np.array([[1.0, 2.0], [2.0, 4.0]])
    >>> null_vectors(S, factor_spd(S)).tolist()
    [[-2.0], [1.0]]
    """
    out = factor.aliased
    N = -factor.solve(S[:, out])
    N[out, np.arange(len(out))] = 1.0
    return N


def smallest_norm(solution: Array, N: Array) -> Array:
    """Return the solution without its component in the span of ``N``, which fits equally well."""
    return solution - N @ np.linalg.lstsq(N, solution, rcond=None)[0] if N.size else solution
