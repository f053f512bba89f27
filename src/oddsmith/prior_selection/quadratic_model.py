"""A quadratic model of the likelihood at one fit, which approximates fits at other scales of the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from oddsmith.bordered import BorderedDiagonal
from oddsmith.cached_property import cached_property
from oddsmith.kernels.table import border_gram
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.priors import GaussianPrior, LaplacePrior
from oddsmith.records import Table
from oddsmith.solvers.base import Factor

LOG_2PI = float(np.log(2.0 * np.pi))
STRIDE = 3.0
"""Log precision that a search rises by at a time: at once, scales of 400 and 3,000 groups went from 1 to 0 past 0.4."""


@dataclass(frozen=True, kw_only=True)
class Selection(Table):
    """The record of how the scale of a prior was selected.

    Attributes
    ----------
    method : "evidence", "loo" or "cv"
    prior : GaussianPrior or LaplacePrior
        With the selected scale or scales.
    width : float, or array with an entry for each group
        The selected scale.
    groups : tuple of tuples of column names, or None
    table : dict
        For ``"evidence"``: iteration, scale (of each group), log evidence. Otherwise the curve: scale, mean log loss,
        and its standard error.
    at_edge : bool
        Whether it is the smallest or largest candidate, so that a scale beyond the range may be better.
    """

    method: str
    prior: GaussianPrior | LaplacePrior
    width: Any
    table: dict[str, list[Any]]
    groups: tuple[tuple[str, ...], ...] | None = None
    at_edge: bool = False

    def to_dict(self) -> dict[str, list[Any]]:
        return self.table


@dataclass(frozen=True, kw_only=True)
class QuadraticModel:
    """A likelihood near weights ``x`` as a quadratic, and a prior of precision ``alpha_g q`` on the weights of group g.

        −log p(t | w) ≈ value + gᵀδ + ½ δᵀ H δ,    δ = w − x;      Q(alpha) = diag(alpha_group · q)

    It is exact at the weights ``x``; ``mean`` is the prior mean. ``gradient`` and ``H`` belong to minus the log
    likelihood, ``q`` is the precision of each weight at alpha = 1 (0 for flat weights, of any group), and ``slope`` is
    ``∂/∂x ½ log det H``, zero until it is known. Of a table ``H`` may have a factor eliminated.
    """

    x: Array
    mean: Array
    log_likelihood: float
    gradient: Array
    H: Array | BorderedDiagonal
    q: Array
    group: npt.NDArray[np.intp]
    slope: Array

    @cached_property
    def sizes(self) -> Array:
        """Number of weights in each group."""
        return np.bincount(self.group[self.q > 0], minlength=int(self.group.max()) + 1).astype(float)

    def precision(self, log_alpha: Array) -> Array:
        """Return the diagonal of Q."""
        return np.where(self.q > 0, np.exp(log_alpha)[self.group] * self.q, 0.0)

    @property
    def dense(self) -> Array:
        """The Hessian, where no factor is eliminated."""
        assert not isinstance(self.H, BorderedDiagonal)
        return self.H

    def factor(self, log_alpha: Array) -> Factor:
        """Return the factor of the Hessian of the objective."""
        if isinstance(self.H, BorderedDiagonal):
            return self.H.plus_diagonal(self.precision(log_alpha)).factor(gram=border_gram())
        return factor_spd(self.H + np.diag(self.precision(log_alpha)), tol=0.0)

    def step(self, log_alpha: Array, factor: Factor | None = None) -> Array:
        """Return the step δ to the most probable weights at other precisions."""
        factor = self.factor(log_alpha) if factor is None else factor
        return -factor.solve(self.gradient + self.precision(log_alpha) * (self.x - self.mean))

    def evidence(self, log_alpha: Array) -> tuple[float, Array]:
        """Return the log evidence and its derivative in each log alpha.

        At the precisions for which x is the most probable point, both equal Laplace's approximation, including the
        dependence of the Hessian on the weights if ``slope`` is known.
        """
        factor, Q = self.factor(log_alpha), self.precision(log_alpha)
        delta = self.step(log_alpha, factor)
        away = self.x + delta - self.mean
        fit = self.log_likelihood - self.gradient @ delta - 0.5 * delta @ (self.H @ delta) - 0.5 * Q @ away**2
        proper = self.q > 0
        log_prior = (self.sizes * log_alpha).sum() + np.log(self.q[proper]).sum()
        flat = len(self.x) - int(proper.sum())
        value = fit + 0.5 * (log_prior - factor.log_det() + flat * LOG_2PI) - self.slope @ delta
        spread = -0.5 * factor.inverse_diagonal() + away * factor.solve(self.slope)
        per_weight = Q * (spread - 0.5 * away**2)
        return float(value), 0.5 * self.sizes + np.bincount(self.group, per_weight, len(self.sizes))

    def bounds(self) -> tuple[Array, Array]:
        """Return the log alphas below and above which the scale has no effect."""
        diagonal = self.H.diagonal()
        # A constant column has no curvature, and any scale will do.
        largest = float(diagonal.max()) or 1.0
        diagonal = np.where(diagonal > EPS * largest, diagonal, largest)
        ratio = np.log(diagonal) - np.log(np.where(self.q > 0, self.q, 1.0))
        low, high = np.full(len(self.sizes), np.inf), np.full(len(self.sizes), -np.inf)
        np.minimum.at(low, self.group[self.q > 0], ratio[self.q > 0])
        np.maximum.at(high, self.group[self.q > 0], ratio[self.q > 0])
        return low - np.log(1e6), high + np.log(1e8)

    def best(self, log_alpha: Array, reach: float, bounds: tuple[Array, Array]) -> tuple[Array, float]:
        """Return the log alphas of largest evidence, at most ``reach`` below ``log_alpha``, and the gain.

        Towards smaller scales the quadratic model stays accurate, since the weights approach the prior mean; towards
        larger scales it is accurate only nearby.
        """
        low, high = np.clip(log_alpha - reach, *bounds), bounds[1]
        start, value = np.clip(log_alpha, low, high), self.evidence(log_alpha)[0]
        if len(start) == 1 and not isinstance(self.H, BorderedDiagonal):
            grid = np.append(np.linspace(low[0], high[0], 60), start)
            seen = grid[[int(np.argmax(self._evidences(float(log_alpha[0]), grid)))]]
            # For nearly separated classes the Hessian is inaccurate, and the prediction along the path may be wrong.
            start = seen if self.evidence(seen)[0] > self.evidence(start)[0] else start

        def negative(a: Array) -> tuple[float, Array]:
            v, g = self.evidence(a)
            return -v, -g

        options = {"ftol": 1e-14, "gtol": 1e-7, "maxiter": 500}
        while True:  # the evidence is flat beyond its maximum: a longer step would not return from there
            most = np.minimum(high, start + STRIDE)
            limits = list(zip(low, most, strict=True))
            found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
            start = np.asarray(found.x, dtype=np.float64)
            if not ((start >= most) & (most < high)).any():
                return start, float(-found.fun - value)

    def distance(self, log_alpha: Array) -> float:
        """Return how far the weights move at other precisions, in standard errors per weight."""
        delta = self.step(log_alpha)
        return float(np.sqrt(delta @ (self.H @ delta + self.precision(log_alpha) * delta) / len(delta)))

    def _evidences(self, log_alpha: float, log_alphas: Array) -> Array:
        """Return the log evidence of one group at many precisions, up to a constant."""
        X, _, factors = self.path(log_alpha, log_alphas)
        fit, delta = self.losses(X), X - self.x
        away = 0.5 * np.exp(log_alphas) * ((X - self.mean) ** 2 @ self.q)
        determinant = self.sizes * log_alphas + np.log(factors).sum(axis=1)
        return np.asarray(0.5 * determinant - fit - away - delta @ self.slope)

    def losses(self, X: Array) -> Array:
        """Return minus the log likelihood at L sets of weights (L × F)."""
        delta = X - self.x
        return np.asarray(
            delta @ self.gradient + 0.5 * ((delta @ self.dense) * delta).sum(axis=1) - self.log_likelihood
        )

    def path(self, log_alpha: float, log_alphas: Array) -> tuple[Array, Array, Array]:
        """Return weights (L × F), a basis V (F × F) and factors (L × F): the inverse Hessian is V diag(factor) Vᵀ.

        For one group. With ``Vᵀ (H + Q) V = I`` and ``Vᵀ Q V = diag(m)`` at the precision alpha, that at alpha′ has the
        factors ``1 / (1 + (alpha′/alpha − 1) m)``.
        """
        Q = self.precision(np.array([log_alpha]))
        m, V = linalg.eigh(np.diag(Q), self.dense + np.diag(Q))
        more = np.expm1(log_alphas - log_alpha)
        factors = 1.0 / (1.0 + more[:, None] * np.clip(m, 0.0, 1.0))
        pull = self.gradient + Q * (self.x - self.mean) + more[:, None] * (Q * (self.x - self.mean))
        return self.x - ((pull @ V) * factors) @ V.T, V, factors


def lowest(log_scales: Array, loss: Array) -> tuple[float, bool]:
    """Return the minimum of a curve, interpolated by a parabola, and whether it is at an edge."""
    k = int(np.argmin(loss))
    if k in (0, len(loss) - 1):
        return float(log_scales[k]), True
    (a, b, c), (u, v, w) = log_scales[k - 1 : k + 2], loss[k - 1 : k + 2]
    left, right = (v - u) / (b - a), (w - v) / (c - b)
    bend = right - left
    at = b if bend <= 0 else 0.5 * (a + b) - left * 0.5 * (c - a) / bend
    return float(np.clip(at, a, c)), False


def one_standard_error(scales: Array, loss: Array, error: Array) -> int:
    """Return the index of the smallest scale whose loss is within one standard error of the best."""
    k = int(np.argmin(loss))
    good = np.flatnonzero(loss <= loss[k] + error[k])
    return int(good[np.argmin(scales[good])])
