"""Integrals of a link over a Gaussian activation, with full relative precision for any mean and variance.

``E[f(a)], a ~ N(mu, sigma²)`` has no closed form for most links. Gauss–Hermite rules are exact for narrow Gaussians and
fail for wide ones, where f is a step. So rows are integrated in one of two ways, both by the trapezoidal rule, which
converges exponentially for analytic functions:

- *near*: f(a) N(a | mu, sigma²) around its own peak, for a narrow Gaussian or one whose peak is far from the step of f;
- *wide*: ∫ f′(a) Φ((mu − a) / sigma) da (by parts) in u, a = sinh(u): points lie densely at the step and reach far out.

Both add positive terms only, so small probabilities keep their digits. Links whose domain ends (log, identity) are
smooth inside it only: they are integrated from end to end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special

from oddsmith.links import Link
from oddsmith.numerics import Array, normal_density
from oddsmith.protocols import Indices

Integrand: TypeAlias = Callable[[Array, Indices], Array]
"""A function of activations, and of the rows that they belong to."""
NEAR = 3.0  # Gaussians up to this standard deviation are integrated around their peak.
REACH = 10.0  # Standard deviations from the peak after which nothing is left of a Gaussian.
STEPS = {"logit": 0.6, "cloglog": 0.3, "loglog": 0.3, "cauchit": 0.2}
"""Longest step at which the singularities of a link in the complex plane leave no trace (for others 0.15)."""
FARTHEST = {"logit": 7.5, "cloglog": 7.5, "loglog": 7.5}
"""Largest |u| at which f′(sinh u) is more than nothing (for others 40)."""
WIDE_STEP = 0.05
END_STEP = 0.02
CHUNK = 1 << 20  # Numbers held at once.


@dataclass(frozen=True)
class _Side:
    """One class's probability as a function that rises from 0 to 1: f(a), or 1 − f(−a).

    ``log`` is its logarithm, ``score`` and ``curvature`` are the derivatives of that, ``derivative`` is its own.
    """

    link: Link
    mirrored: bool

    def log(self, a: Array) -> Array:
        return self.link.log_probability(-a)[1] if self.mirrored else self.link.log_probability(a)[0]

    def score(self, a: Array) -> Array:
        return -self.link.score(-a)[1] if self.mirrored else self.link.score(a)[0]

    def curvature(self, a: Array) -> Array:
        return self.link.score_derivative(-a)[1] if self.mirrored else self.link.score_derivative(a)[0]

    def derivative(self, a: Array) -> Array:
        return self.link.derivative(-a if self.mirrored else a)


def expected_probability(link: Link, mu: Array, sigma: Array) -> Array:
    """Return ``E[1 − f(a)]`` and ``E[f(a)]`` for ``a ~ N(mu, sigma²)``, N × 2, each to about 1e-12 relative.

    The probit, log and identity links have closed forms. Cost: some tens to hundreds of evaluations of f a row.
    """
    exact = CLOSED_FORMS.get(link.name, _numerical)
    both = np.column_stack([exact(_Side(link, True), -mu, sigma), exact(_Side(link, False), mu, sigma)])
    return np.minimum(both, 1.0)


def probability_std(link: Link, mu: Array, sigma: Array, mean: Array) -> Array:
    """Return the standard deviation of ``f(a)``, whose mean (N × 2, from `expected_probability`) is given."""
    variance = np.zeros(len(mu))
    if not np.isinf(link.domain).all():
        away = _integrate_domain(link, lambda a, rows: (link.inverse(a) - mean[rows, 1:]) ** 2, mu, sigma)
        for end, sign in zip(link.domain, (1.0, -1.0), strict=True):  # beyond an end of its domain f is constant
            if np.isfinite(end):
                beyond = special.ndtr(sign * (end - mu) / np.where(sigma > 0, sigma, 1.0))
                away += beyond * (link.inverse(np.array(end)) - mean[:, 1]) ** 2
        return np.where(sigma > 0, np.sqrt(away), 0.0)
    narrow = (sigma > 0) & (sigma <= NEAR)
    centre, m, s = mean[narrow, 1:], mu[narrow], sigma[narrow]
    variance[narrow] = _integrate_around(lambda a, rows: (link.inverse(a) - centre[rows]) ** 2, m, m, s, _step(link, s))
    for mirrored in (True, False):  # of two probabilities the smaller one: its square is not near its mean's
        smaller = (sigma > NEAR) & ((mean[:, 0] < mean[:, 1]) == mirrored)
        if smaller.any():
            m = -mu[smaller] if mirrored else mu[smaller]
            second = _numerical(_Side(link, mirrored), m, sigma[smaller], power=2)
            variance[smaller] = second - mean[smaller, 0 if mirrored else 1] ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def expected_entropy(link: Link, mu: Array, sigma: Array) -> Array:
    """Return ``E[−f log f − (1 − f) log(1 − f)]`` in nats, length N."""

    def entropy(a: Array, rows: Indices | None = None) -> Array:
        total = np.zeros_like(a)
        for log_p in link.log_probability(a):
            total -= np.where(log_p > -700.0, np.exp(log_p) * np.maximum(log_p, -700.0), 0.0)
        return total

    result = np.empty(len(mu))
    point = sigma == 0
    if not np.isinf(link.domain).all():
        return np.where(point, entropy(mu), _integrate_domain(link, entropy, mu, sigma))
    result[point] = entropy(mu[point])
    wide = (sigma > NEAR) & (np.abs(mu) < REACH * sigma)
    near = ~(wide | point)
    result[near] = _integrate_around(entropy, mu[near], mu[near], sigma[near], _step(link, sigma[near]))
    a, da = _sinh_nodes(link)
    weight = entropy(a) * da
    for rows in _chunks(np.flatnonzero(wide), len(a)):
        z = (a - mu[rows, None]) / sigma[rows, None]
        result[rows] = normal_density(z) @ weight / sigma[rows]
    return result


def _numerical(side: _Side, mu: Array, sigma: Array, power: int = 1) -> Array:
    """Return ``E[F(a)^power]`` for a function F that rises from 0 to 1."""
    result = np.empty(len(mu))
    point = sigma == 0
    result[point] = np.exp(power * side.log(mu[point]))
    peak = _peak(side, mu, sigma, power)
    wide = (sigma > NEAR) & (np.abs(peak) < REACH * sigma)
    near = ~(wide | point)

    if near.any():
        # A factor whose logarithm bends down makes the peak narrower than the Gaussian; sharper ones underflow.
        curvature = np.clip(side.curvature(peak[near]), -1e3, 0.0)
        width = (sigma[near] ** -2.0 - power * curvature) ** -0.5
        # … and less like a Gaussian: there the points lie closer.
        width = np.where(width > 0.9 * sigma[near], width, 0.5 * width)
        result[near] = _integrate_around(
            lambda a, rows: np.exp(power * side.log(a)), peak[near], mu[near], sigma[near], _step(side.link, width)
        )
    if wide.any():
        a, da = _sinh_nodes(side.link)
        with np.errstate(under="ignore"):
            weight = power * np.exp(side.log(a)) ** (power - 1) * side.derivative(a) * da
            for rows in _chunks(np.flatnonzero(wide), len(a)):
                result[rows] = special.ndtr((mu[rows, None] - a) / sigma[rows, None]) @ weight
    return result


def _peak(side: _Side, mu: Array, sigma: Array, power: int) -> Array:
    """Return where ``F(a)^power N(a | mu, sigma²)`` is largest: ``power · score(a) = (a − mu) / sigma²``."""
    if side.link.name == "cauchit":  # its tails are too flat to move the peak
        return mu
    variance, score = power * sigma**2, side.score(mu)
    # The score falls, so the peak lies between mu and mu + variance · score. If that is near, Newton's step will do.
    with np.errstate(over="ignore", invalid="ignore"):  # where both are infinite the peak is searched for below
        peak = mu + variance * score / (1.0 - variance * np.minimum(side.curvature(mu), 0.0))
    far = np.flatnonzero(variance * score > 2.0 * sigma)
    m, v = mu[far], variance[far]
    # A peak above zero lies below mu + variance · score(0).
    low, high = m, np.minimum(m + v * score[far], np.maximum(m + v * side.score(0.0 * m), 0.0))
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = v * side.score(middle) > middle - m
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    peak[far] = low
    return peak


def _step(link: Link, width: Array) -> Array:
    return np.minimum(0.7 * width, STEPS.get(link.name, 0.15))


def _integrate_around(function: Integrand, center: Array, mu: Array, sigma: Array, step: Array) -> Array:
    """Return ``∫ function(a) N(a | mu, sigma²) da`` by the trapezoidal rule around ``center``."""
    result = np.empty(len(mu))
    # Rows are gathered by the number of points that they need, a power of two.
    counts = np.ceil(np.log2(np.maximum(REACH * sigma / step, 1.0))).astype(int)
    for count in np.unique(counts):
        j = np.arange(-(2**count), 2**count + 1)
        for rows in _chunks(np.flatnonzero(counts == count), len(j)):
            away = step[rows, None] * j
            a = center[rows, None] + away
            # Not (a − mu) / sigma: a is rounded, and in units of a small sigma that is much.
            density = normal_density(((center - mu)[rows, None] + away) / sigma[rows, None])
            with np.errstate(under="ignore"):
                result[rows] = (function(a, rows) * density).sum(axis=1) * (step[rows] / sigma[rows])
    return result


def _integrate_domain(link: Link, function: Integrand, mu: Array, sigma: Array) -> Array:
    """Return ``∫ function(a) N(a | mu, sigma²) da`` over the domain of a link that ends (0 where sigma is 0).

    By the double exponential rule: at the ends the function need not be smooth.
    """
    result = np.zeros(len(mu))
    u = np.arange(-3.5, 3.5 + 0.5 * END_STEP, END_STEP)
    p, q = special.expit(np.pi * np.sinh(u)), special.expit(-np.pi * np.sinh(u))
    for rows in _chunks(np.flatnonzero(sigma > 0), len(u)):
        m, d = mu[rows, None], sigma[rows, None]
        low, high = (np.clip(end, m - REACH * d, m + REACH * d) for end in link.domain)
        a = np.where(p < 0.5, low + (high - low) * p, high - (high - low) * q)
        values = function(a, rows) * normal_density((a - m) / d) * ((high - low) / d)
        result[rows] = values @ (p * q * np.pi * np.cosh(u) * END_STEP)
    return result


def _sinh_nodes(link: Link) -> tuple[Array, Array]:
    """Return points a = sinh(u), u equally spaced, and what each stands for, da."""
    far = FARTHEST.get(link.name, 40.0)
    u = np.arange(-far, far + 0.5 * WIDE_STEP, WIDE_STEP)
    return np.sinh(u), WIDE_STEP * np.cosh(u)


def _chunks(rows: Indices, points: int) -> list[Indices]:
    return np.array_split(rows, max(1, -(-len(rows) * points // CHUNK))) if len(rows) else []


def _probit(side: _Side, mu: Array, sigma: Array) -> Array:
    """``E[Φ(a)] = Φ(mu / √(1 + sigma²))``."""
    return np.asarray(special.ndtr(mu / np.hypot(1.0, sigma)))


def _log(side: _Side, mu: Array, sigma: Array) -> Array:
    """``E[exp(min(a, 0))] = Φ(r) + exp(mu + sigma²/2) Φ(−r − sigma)``, r = mu/sigma; its complement when mirrored."""
    sign = -1.0 if side.mirrored else 1.0
    result = -np.expm1(np.minimum(-mu, 0.0)) if side.mirrored else np.exp(np.minimum(mu, 0.0))
    some = sigma > 0
    r, v = sign * mu[some] / sigma[some], sigma[some]
    # exp(mu + sigma²/2) Φ(−r − sigma) without the large exponents that cancel.
    x = (r + v) / np.sqrt(2.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        below = np.where(
            x > 0, 0.5 * special.erfcx(x) * np.exp(-0.5 * r * r), np.exp(r * v + 0.5 * v * v) * special.ndtr(-r - v)
        )
    result[some] = np.maximum(special.ndtr(-r) - below, 0.0) if side.mirrored else special.ndtr(r) + below
    return result


def _identity(side: _Side, mu: Array, sigma: Array) -> Array:
    """``E[min(max(a, 0), 1)] = ∫₀¹ Φ((mu − a) / sigma) da``, which is ``sigma (G(r) − G(r − 1/sigma))``, G = ∫ Φ."""
    mu = 1.0 + mu if side.mirrored else mu
    result = np.clip(mu, 0.0, 1.0)
    some = (sigma > 0) & (sigma < 0.3)
    low = np.minimum(mu[some], 1.0 - mu[some]) / sigma[some]
    part = sigma[some] * (_integrated_normal(low) - _integrated_normal(low - 1.0 / sigma[some]))
    result[some] = np.where(mu[some] <= 0.5, part, 1.0 - part)
    wide = sigma >= 0.3
    a, weight = special.roots_legendre(40)
    result[wide] = special.ndtr((mu[wide, None] - 0.5 * (1.0 + a)) / sigma[wide, None]) @ (0.5 * weight)
    return result


def _integrated_normal(z: Array) -> Array:
    """Return ``G(z) = z Φ(z) + φ(z)``; far to the left it is ``φ(z) (1 − |z| · Mills' ratio)``."""
    far = np.maximum(-z, 5.0)
    tail = far
    for k in range(40, 1, -1):  # Laplace's continued fraction of φ/(1 − Φ) − z
        tail = far + k / tail
    left = normal_density(z) / tail / (far + 1.0 / tail)
    return np.asarray(np.where(z < -5.0, left, z * special.ndtr(z) + normal_density(z)))


CLOSED_FORMS = {"probit": _probit, "log": _log, "identity": _identity}
