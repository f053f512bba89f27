"""A bound on the distance of a point from the optimum, from the Newton decrement.

The logistic and softmax losses are generalised self-concordant: along a direction ``d`` the second
derivative of the objective shrinks no faster than ``exp(−ρτ)``, where ``ρ`` bounds the change of activation
that a unit step (in the norm of the Hessian) can cause in any row. With the Newton decrement
``λ = sqrt(gᵀ H⁻¹ g)`` and ``u = ρ λ < 1`` it follows that

    f(w) − f* ≤ (u + (1 − u) log(1 − u)) / ρ²     (→ λ²/2 as u → 0).

``H`` may be replaced by any matrix that bounds it from below, such as the Hessian of a part of the rows.
Along directions that only a prior curves, the prior's own convexity bounds the gap; see `InverseBound.gap`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import cast

import numpy as np

from oddsmith.numerics import Array, SpdFactor
from oddsmith.records import Certificate
from oddsmith.solvers.base import CurvatureBound, DecrementBound, Factor, Objective, ObjectiveValue

CHUNK = 1 << 10  # Columns of a Hessian that are summed at a time, to save memory.
NEGLIGIBLE = 1e-6
"""Share of the allowed gap below which a gap need not be known any better."""


def gap_bound(decrement: float, rho: float) -> float:
    """Return the bound above for the decrement ``λ`` and the constant ``ρ``; infinite when ``ρ λ ≥ 1``.

    >>> gap_bound(0.1, 0.0), gap_bound(0.1, 20.0)
    (0.005000000000000001, inf)
    >>> bool(0.005 < gap_bound(0.1, 1.0) < 0.0053)
    True
    """
    u = decrement * rho
    if not u < 1.0:
        return np.inf
    if u < 1e-3:
        # The series of the bound; the closed form would cancel.
        return 0.5 * decrement**2 * (1.0 + u / 3.0 + u**2)
    return float((u + (1.0 - u) * np.log1p(-u)) / rho**2)


def decrement_bound(
    factor: Factor, e: ObjectiveValue, objective: Objective, smallest: float | None = None
) -> DecrementBound:
    """Return the decrement and constants from the factor of the Hessian, or of a lower bound of it.

    ``smallest`` is a bound of its smallest eigenvalue, if already known.
    """
    smallest = factor.smallest_eigenvalue if smallest is None else smallest
    if not (smallest > 0.0 and factor.complete):  # nothing bounds a direction without curvature
        return DecrementBound(np.inf, np.inf, exact=True)
    constant = objective.self_concordance
    rigorous = isfinite(constant)
    # The rounding of the gradient is added, so that the bound holds for the exact objective.
    noise = (objective.rounding + e.rounding) * sqrt(len(e.gradient) / smallest)
    rho = constant / sqrt(smallest) if rigorous else 0.0
    return DecrementBound(e.decrement(factor) + noise, rho, exact=rigorous)


def certify(objective: Objective, e: ObjectiveValue, tol: float, factor: Factor | None = None) -> Certificate:
    """Return the certificate of the point at which ``e`` was evaluated.

    It uses the given factor, the evaluation's Hessian, or the objective's own bound of its curvature.
    """
    if factor is None and e.hessian is not None:
        factor = e.factor()
    if factor is None:
        return certificate_from(objective.decrement_bound(e), objective, e, tol)
    if isinstance(factor, SpdFactor):  # near the optimum any bound of the eigenvalues will do
        found = certificate_from(
            decrement_bound(factor, e, objective, factor.eigenvalue_floor), objective, e, tol, factor
        )
        if found.gap <= NEGLIGIBLE * e.allowed_gap(tol):
            return found
    found = certificate_from(decrement_bound(factor, e, objective), objective, e, tol, factor)
    # The rounding of a gradient can be too much for self-concordance, along a direction in which only a prior curves.
    if not found.converged and isinstance(e.hessian, np.ndarray) and hasattr(objective, "inverse_bound"):
        bound = cast(CurvatureBound, objective).inverse_bound(e)
        rounding = objective.rounding + e.rounding
        gap = np.inf if bound is None else bound.gap(e.gradient, e.hessian.diagonal(), rounding)
        if gap <= e.allowed_gap(tol):
            return replace(found, converged=True, gap=gap, rigorous=True)
    return found


def certificate_from(
    bound: DecrementBound, objective: Objective, e: ObjectiveValue, tol: float, factor: Factor | None = None
) -> Certificate:
    """Return the certificate from a bound of the decrement; the factor is used for the condition number only."""
    gap = gap_bound(bound.decrement, bound.rho)
    condition = np.nan if factor is None else factor.condition
    return certificate_of_gap(gap, e, tol, objective.passes, condition=condition, rigorous=bound.exact)


def certificate_of_gap(
    gap: float, e: ObjectiveValue, tol: float, passes: int, *, condition: float = np.nan, rigorous: bool = True
) -> Certificate:
    """Return the certificate of a bound of the gap at ``e``, proven unless it is not ``rigorous``."""
    return Certificate(
        converged=bool(isfinite(gap) and gap <= e.allowed_gap(tol)),
        gap=float(gap),
        gradient_norm=e.gradient_norm,
        condition=condition,
        passes=passes,
        rigorous=rigorous,
    )


@dataclass(frozen=True, kw_only=True)
class InverseBound:
    """An upper bound of ``rᵀ H⁻¹ r``: intercepts are eliminated, and the prior bounds the Schur complement from below.

    ``B`` (C × C) and ``cross`` (C × C × M) are the Hessian's rows of the intercepts. Or, to save memory, ``cross`` is
    ``Σ_k X_k diag(1 / prior_k) X_kᵀ`` of their parts X_k (C × M): the share of the intercepts is then added to that of
    the rest, whatever they cancel. ``prior`` (C × M, or one row) is the diagonal lower bound of the rest, ``rho`` the
    self-concordance constant in the norm of the bound, ``noise`` what the rounding of a gradient adds to a decrement.

    >>> columns = np.array([[[4.0, 2.0]]])
    >>> InverseBound.eliminating(columns, np.array([1.0]), self_concordance=1.0, rounding=0.0).norm(
    ...     np.array([4.0, 2.0])
    ... )
    2.0
    """

    B: Array
    cross: Array
    prior: Array
    rho: float
    noise: float

    @classmethod
    def eliminating(
        cls, columns: Array | Iterable[Array], prior: Array, self_concordance: float, rounding: float
    ) -> InverseBound:
        """Return the bound from the Hessian's columns of the intercepts (C × C × P; zero without intercepts).

        Columns that come one after another (C × P) are not kept.
        """
        smallest_prior = float(prior.min())
        if isinstance(columns, np.ndarray):
            B, cross = columns[:, :, 0], columns[:, :, 1:]
        else:
            B, cross, square = _sums_of_columns(columns, prior)
        C, P = len(B), 1 + prior.shape[-1]
        noise = rounding * float(np.sqrt(C * P / smallest_prior))
        if not B.any():
            rho = self_concordance / float(np.sqrt(smallest_prior))
            return cls(B=np.eye(C), cross=cross, prior=prior, rho=rho, noise=noise)
        if C == 1:  # LAPACK takes as long as a pass over few rows
            smallest, shift = float(B[0, 0]), sqrt(float(cross[0, 0] @ cross[0, 0])) / abs(float(B[0, 0]))
        else:
            smallest = float(np.linalg.eigvalsh((B + B.T) / 2)[0])
            if cross.ndim == 3:
                shift = sqrt(sum(float(np.linalg.norm(np.linalg.solve(B, cross[:, k]))) ** 2 for k in range(C)))
            else:
                shift = sqrt(max(0.0, float(np.trace(np.linalg.solve(B, np.linalg.solve(B, square).T)))))
        bound = 2.0 / smallest + (self_concordance + shift) ** 2 / smallest_prior if smallest > 0 else np.inf
        return cls(B=B, cross=cross, prior=prior, rho=float(np.sqrt(bound)), noise=noise)

    def square(self, r: Array) -> float:
        """Return the bound of ``rᵀ H⁻¹ r``."""
        R = r.reshape(len(self.B), -1)
        y = R[:, 0] / self.B[0] if len(R) == 1 else np.linalg.solve(self.B, R[:, 0])
        apart = self.cross.ndim == 2
        rest = R[:, 1:] if apart else R[:, 1:] - np.einsum("j,jkm->km", y, self.cross)
        weighted = rest / self.prior.reshape(-1, rest.shape[1])
        weighted *= rest
        total = float(weighted.sum())
        if apart:
            total = (sqrt(total) + sqrt(max(float(y @ self.cross @ y), 0.0))) ** 2
        return max(float(R[:, 0] @ y), 0.0) + total

    def norm(self, g: Array) -> float:
        """Return a bound of the decrement: the root of `square`, and what the rounding of a gradient adds."""
        return float(np.sqrt(self.square(g))) + self.noise

    def gap(self, g: Array, curvature: Array, rounding: float) -> float:
        """Bound objective − optimum from the gradient, its rounding and the diagonal of the Hessian.

        1. The intercepts alone are within r of their optimum, in the norm of B, by self-concordance.
        2. At that optimum, a gradient entry differs by at most ``r e^(ρr) √H_jj``.
        3. With the intercepts at their optimum the objective is still as convex as the prior: f − f* ≤ Σ g² / 2q.

        >>> bound = InverseBound.eliminating(np.zeros((1, 1, 2)), np.array([4.0]), self_concordance=1.0, rounding=0.0)
        >>> bound.gap(np.array([0.0, 0.2]), np.array([0.0, 5.0]), rounding=0.0)
        0.005
        """
        smallest = float(np.linalg.eigvalsh((self.B + self.B.T) / 2)[0])
        if not (smallest > 0.0 and self.prior.min() > 0.0 and isfinite(self.rho)):
            return np.inf
        C, rho = len(self.B), sqrt(2.0 / smallest)
        G, H = g.reshape(C, -1), curvature.reshape(C, -1)[:, 1:]
        decrement = sqrt(max(float(G[:, 0] @ np.linalg.solve(self.B, G[:, 0])), 0.0)) + rounding * sqrt(C / smallest)
        u = rho * decrement
        if not u < 1.0:
            return np.inf
        r = -np.log1p(-u) / rho  # 1
        rest = np.abs(G[:, 1:]) + rounding + r / (1.0 - u) * np.sqrt(H)  # 2
        return gap_bound(decrement, rho) + 0.5 * float((rest**2 / self.prior.reshape(-1, rest.shape[1])).sum())  # 3


def _sums_of_columns(columns: Iterable[Array], prior: Array) -> tuple[Array, Array, Array]:
    """Return the first of each column, and the sums of the products of all others, over the prior and as they are."""
    first: list[Array] = []
    over_prior = square = np.zeros(1)
    for k, column in enumerate(columns):
        first.append(column[:, 0].copy())
        q = prior if prior.ndim == 1 else prior[k % len(prior)]
        for start in range(0, len(q), CHUNK):
            rest = column[:, 1 + start : 1 + start + CHUNK]
            square = square + rest @ rest.T
            over_prior = over_prior + (rest / q[start : start + CHUNK]) @ rest.T
        del column, rest  # which makes room
    return np.array(first), over_prior, square
