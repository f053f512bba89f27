"""The evidence: the probability of the labels with the weights integrated out, by Laplace's approximation."""

from __future__ import annotations

import numpy as np

from oddsmith.errors import UnavailableError
from oddsmith.numerics import Array, SpdFactor, factor_spd

LOG_2PI = float(np.log(2.0 * np.pi))


def log_evidence(log_likelihood: float, penalty: float, factor: SpdFactor, Q: Array) -> float:
    """Return ``log ∫ p(t | w) p(w) dw ≈ log p(t | w) + log p(w) − ½ log det(H / 2π)`` at the most probable w.

    ``penalty`` is ``½ (w − m)ᵀ Q (w − m)``, ``Q`` the precision of the prior over the weights estimated and ``factor``
    that of the Hessian H, prior included; all in any one set of coordinates with

        log p(w) = −penalty + ½ log det(Q / 2π)

    over the weights that have a prior. A weight without one (the intercept, as a rule) has the flat density 1 for each
    unit: the evidence is then known but for that unit, which is the same for every model with the same flat weights.

    >>> factor = factor_spd(np.array([[3.0]]))
    >>> round(log_evidence(-1.0, 0.5, factor, np.array([[2.0]])), 6)  # −1.5 + ½ log(2/3)
    -1.702733
    """
    proper = np.diag(Q) > 0
    prior = factor_spd(Q[np.ix_(proper, proper)], tol=0.0)
    if not (proper.any() and prior.kept.all() and factor.kept.all()):
        raise UnavailableError(
            "The evidence needs a prior that is a density: a GaussianPrior on the weights of the columns. Without one "
            "it would depend on the units of the columns. Fit with prior=σ, or GaussianPrior(scale='evidence')."
        )
    flat = len(Q) - int(proper.sum())
    return float(log_likelihood - penalty + 0.5 * (prior.log_det() - factor.log_det() + flat * LOG_2PI))
