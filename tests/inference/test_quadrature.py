"""Integrals of every link over a Gaussian, against adaptive integration in many digits."""

import mpmath as mp
import numpy as np
import pytest

from oddsmith.inference.quadrature import expected_entropy, expected_probability, probability_std
from oddsmith.links import LINKS

EXACT = {
    "logit": lambda a: 1 / (1 + mp.exp(-a)),
    "probit": mp.ncdf,
    "cauchit": lambda a: mp.atan2(1, -a) / mp.pi,
    "cloglog": lambda a: -mp.expm1(-mp.exp(min(a, mp.mpf(60)))),
    "loglog": lambda a: mp.exp(-mp.exp(min(-a, mp.mpf(60)))),
    "log": lambda a: mp.exp(min(a, mp.mpf(0))),
    "identity": lambda a: min(max(a, mp.mpf(0)), mp.mpf(1)),
}
CASES = [(-300.0, 1e3), (3.0, 0.01), (4.0, 5.0), (-40.0, 1.0)]


def integral(function, mu: float, sigma: float, digits: int = 32) -> float:
    """Adaptive integration of a function over N(mu, sigma²), split where it may bend."""
    ends = {mu + k * sigma for k in (-40, -12, -5, -2, 0, 2, 5, 12, 40)}
    ends |= {
        mu + sigma**2,
        mu + 2 * sigma**2,
        mu - sigma**2,
        *(x for x in (-30.0, -8.0, -2.0, 0.0, 1.0, 3.0, 8.0, 30.0)),
    }
    inside = sorted(e for e in ends if abs(e - mu) <= 40 * sigma + 2 * sigma**2)
    with mp.workdps(digits):
        return mp.quad(lambda a: function(a) * mp.npdf(a, mu, sigma), [mp.mpf(e) for e in inside])


def test_every_link_has_an_exact_counterpart_here() -> None:
    assert set(LINKS) == set(EXACT)


@pytest.mark.parametrize("name", tuple(LINKS))
@pytest.mark.parametrize("mu, sigma", CASES)
def test_expected_probability_equals_adaptive_integration(name: str, mu: float, sigma: float) -> None:
    f = EXACT[name]
    down, up = expected_probability(LINKS[name], np.array([mu]), np.array([sigma]))[0]
    for found, exact in ((up, integral(f, mu, sigma)), (down, integral(lambda a: 1 - f(a), mu, sigma))):
        if exact > 1e-100:  # farther out the judge loses its digits first
            assert abs(mp.mpf(float(found)) - exact) <= 1e-11 * exact


@pytest.mark.parametrize("name", ["logit", "cauchit", "cloglog"])
@pytest.mark.parametrize("mu, sigma", [(-2.0, 2.0), (1.0, 20.0)])
def test_spread_and_entropy_equal_adaptive_integration(name: str, mu: float, sigma: float) -> None:
    f, link = EXACT[name], LINKS[name]
    at = np.array([mu]), np.array([sigma])
    mean = expected_probability(link, *at)
    variance = integral(lambda a: f(a) ** 2, mu, sigma, 16) - integral(f, mu, sigma, 16) ** 2
    assert np.isclose(probability_std(link, *at, mean)[0], float(mp.sqrt(variance)), rtol=1e-6)

    def entropy(a):
        p = f(a)
        return sum(-q * mp.log(q) for q in (p, 1 - p) if q > 1e-14)

    assert np.isclose(expected_entropy(link, *at)[0], float(integral(entropy, mu, sigma, 16)), rtol=1e-6)


@pytest.mark.parametrize("name", tuple(LINKS))
def test_no_variance_gives_the_link_itself(name: str) -> None:
    link, a = LINKS[name], np.array([-3.0, -0.5, 0.25, 2.0])
    P = expected_probability(link, a, np.zeros(4))
    inside = (a > link.domain[0]) & (a < link.domain[1])
    assert np.allclose(P[inside, 1], link.inverse(a[inside]), rtol=1e-12)
    assert np.allclose(P[inside].sum(axis=1), 1.0)
    assert np.array_equal(probability_std(link, a, np.zeros(4), P), np.zeros(4))


def test_a_row_is_the_same_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    mu, sigma = rng.normal(size=300) * 20, np.exp(rng.normal(size=300) * 3)
    together = expected_probability(LINKS["logit"], mu, sigma)
    alone = np.vstack([expected_probability(LINKS["logit"], mu[[i]], sigma[[i]]) for i in range(300)])
    assert np.allclose(together, alone, rtol=1e-13)
    assert np.allclose(together.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["log", "identity"])
@pytest.mark.parametrize("mu, sigma", [(0.3, 0.001), (0.0, 0.2), (-2.0, 1.0), (1.5, 0.4), (-2.0, 100.0)])
def test_spread_and_entropy_of_links_whose_domain_ends(name: str, mu: float, sigma: float) -> None:
    link, f = LINKS[name], EXACT[name]
    m, s = np.array([mu]), np.array([sigma])
    mean = expected_probability(link, m, s)
    centre = integral(f, mu, sigma)
    variance = integral(lambda a: (f(a) - centre) ** 2, mu, sigma)
    entropy = integral(lambda a: -sum(p * mp.log(p) for p in (f(a), 1 - f(a)) if p > 0), mu, sigma)
    assert np.isclose(probability_std(link, m, s, mean)[0], np.sqrt(float(variance)), rtol=1e-9, atol=1e-9)
    assert np.isclose(expected_entropy(link, m, s)[0], float(entropy), rtol=1e-9, atol=1e-9)


def test_a_narrow_gaussian_far_out_is_no_more_than_certain() -> None:
    for name in LINKS:
        assert (expected_probability(LINKS[name], np.array([-30.0, 25.0]), np.array([1e-3, 1e-3])) <= 1.0).all()
