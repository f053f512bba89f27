"""How far from the optimum a point can be: a bound from the Newton decrement.

The logistic and softmax losses are generalised self-concordant: along a direction ``d`` the second
derivative of the objective shrinks no faster than ``exp(−ρτ)``, where ``ρ`` bounds the change of activation
that a unit step (in the norm of the Hessian) can cause in any row. With the Newton decrement
``λ = sqrt(gᵀ H⁻¹ g)`` and ``u = ρ λ < 1`` it follows that

    f(w) − f* ≤ (u + (1 − u) log(1 − u)) / ρ²     (→ λ²/2 as u → 0).

``H`` may be replaced by any matrix that bounds it from below, such as the Hessian of a part of the rows.
"""

from __future__ import annotations

import numpy as np

from oddsmith.numerics import SpdFactor, factor_spd
from oddsmith.records import Certificate
from oddsmith.solvers.base import Curb, Evaluation, Objective


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


def curb_from(factor: SpdFactor, e: Evaluation, objective: Objective, smallest: float | None = None) -> Curb:
    """Return decrement and constants from the factor of the Hessian, or of a matrix below it.

    ``smallest`` is a bound of its smallest eigenvalue, where that is known already.
    """
    smallest = factor.smallest_eigenvalue if smallest is None else smallest
    if not (smallest > 0.0 and factor.complete):  # nothing bounds a direction without curvature
        return Curb(np.inf, np.inf, exact=True)
    rigorous = bool(np.isfinite(objective.reach))
    # The rounding of the gradient is added, so that the bound holds for the exact objective.
    noise = (objective.rounding + e.rounding) * np.sqrt(len(e.gradient) / smallest)
    rho = objective.reach / np.sqrt(smallest) if rigorous else 0.0
    return Curb(factor.norm(e.gradient) + noise, rho, exact=rigorous)


def certify(objective: Objective, e: Evaluation, tol: float, factor: SpdFactor | None = None) -> Certificate:
    """Return the certificate of the point at which ``e`` was evaluated.

    It uses the given factor, or the evaluation's Hessian, or what the objective knows of its own curvature.
    """
    if factor is None and e.hessian is not None:
        factor = factor_spd(e.hessian, tol=0.0)
    curb = objective.curb(e) if factor is None else curb_from(factor, e, objective)
    return certificate_from(curb, objective, e, tol, factor)


def certificate_from(
    curb: Curb, objective: Objective, e: Evaluation, tol: float, factor: SpdFactor | None = None
) -> Certificate:
    """Return the certificate that a curb gives; the factor is asked for its condition only."""
    gap = gap_bound(curb.decrement, curb.rho)
    return Certificate(
        converged=bool(np.isfinite(gap) and gap <= tol * max(1.0, abs(e.value))),
        gap=float(gap),
        gradient_norm=float(np.linalg.norm(e.gradient)),
        condition=np.nan if factor is None else factor.condition,
        passes=objective.passes,
        rigorous=curb.exact,
    )
