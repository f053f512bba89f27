"""Integrals of links over a Gaussian, by mpmath in 32 digits: ``quadrature.json``. Run in this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
from common import write

EXACT: dict[str, Callable[[Any], Any]] = {
    "logit": lambda a: 1 / (1 + mp.exp(-a)),
    "probit": mp.ncdf,
    "cauchit": lambda a: mp.atan2(1, -a) / mp.pi,
    "cloglog": lambda a: -mp.expm1(-mp.exp(min(a, mp.mpf(60)))),
    "loglog": lambda a: mp.exp(-mp.exp(min(-a, mp.mpf(60)))),
    "log": lambda a: mp.exp(min(a, mp.mpf(0))),
    "identity": lambda a: min(max(a, mp.mpf(0)), mp.mpf(1)),
}
PROBABILITY = [(-300.0, 1e3), (3.0, 0.01), (4.0, 5.0), (-40.0, 1.0)]
SPREAD = [
    *((name, mu, sigma) for name in ("logit", "cauchit", "cloglog") for mu, sigma in [(-2.0, 2.0), (1.0, 20.0)]),
    *(
        (name, mu, sigma)
        for name in ("log", "identity")
        for mu, sigma in [(0.3, 0.001), (0.0, 0.2), (-2.0, 1.0), (1.5, 0.4), (-2.0, 100.0), (0.4, 0.33)]
    ),
    # Rare classes, Gaussians just narrower and far wider than a link, and one far from where it bends.
    *(
        (name, mu, sigma)
        for name in ("logit", "probit", "cauchit", "cloglog", "loglog")
        for mu, sigma in [(-30.0, 1.5), (-8.0, 2.9), (5.0, 300.0), (-35.0, 3.2)]
    ),
]


def integral(function: Callable[[Any], Any], mu: float, sigma: float) -> Any:
    """Adaptive integration of a function over N(mu, sigma²), split where it may bend."""
    ends = {mu + k * sigma for k in (-40, -12, -5, -2, 0, 2, 5, 12, 40)}
    ends |= {mu + sigma**2, mu + 2 * sigma**2, mu - sigma**2, -30.0, -8.0, -2.0, 0.0, 1.0, 3.0, 8.0, 30.0}
    inside = sorted(e for e in ends if abs(e - mu) <= 40 * sigma + 2 * sigma**2)
    return mp.quad(lambda a: function(a) * mp.npdf(a, mu, sigma), [mp.mpf(e) for e in inside])


def entropy(p: Any) -> Any:
    """Return the entropy of a probability."""
    return sum(-q * mp.log(q) for q in (p, 1 - p) if q > 0)


def main() -> None:
    """Write the expected probabilities of both classes; then standard deviations and expected entropies."""
    mp.mp.dps = 32
    probability = []
    for name, f in EXACT.items():
        for mu, sigma in PROBABILITY:
            down, up = integral(lambda a, f=f: 1 - f(a), mu, sigma), integral(f, mu, sigma)
            probability.append({"link": name, "mu": mu, "sigma": sigma, "down": float(down), "up": float(up)})
    spread = []
    for name, mu, sigma in SPREAD:
        f = EXACT[name]
        centre = integral(f, mu, sigma)
        variance = integral(lambda a, f=f, centre=centre: (f(a) - centre) ** 2, mu, sigma)
        expected = integral(lambda a, f=f: entropy(f(a)), mu, sigma)
        found = {"std": float(mp.sqrt(variance)), "entropy": float(expected)}
        spread.append({"link": name, "mu": mu, "sigma": sigma, **found})
    write("quadrature", {"probability": probability, "spread": spread}, ["mpmath"])


if __name__ == "__main__":
    main()
