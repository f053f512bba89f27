"""Integrals of every link over a Gaussian, against adaptive integration in many digits."""

import json

import mpmath
import numpy as np
import pytest
from tests.reference_data import FOLDER

from oddsmith.inference.quadrature import expected_entropy, expected_probability, probability_std
from oddsmith.links import LINKS

EXACT = json.loads((FOLDER / "quadrature.json").read_text(encoding="utf-8"))


def test_every_link_has_an_exact_counterpart() -> None:
    assert set(LINKS) == {case["link"] for case in EXACT["probability"]}


@pytest.mark.parametrize("name", tuple(LINKS))
def test_expected_probability_equals_adaptive_integration(name: str) -> None:
    cases = [case for case in EXACT["probability"] if case["link"] == name]
    mu, sigma = np.array([[case["mu"], case["sigma"]] for case in cases]).T
    exact = np.array([[case["down"], case["up"]] for case in cases])
    exact_enough = exact > 1e-100  # farther out the judge loses its digits first
    assert len(cases) >= 4 and exact_enough.sum() >= 4
    found = expected_probability(LINKS[name], mu, sigma)
    np.testing.assert_allclose(found[exact_enough], exact[exact_enough], rtol=1e-11, atol=0)


@pytest.mark.parametrize("case", EXACT["spread"], ids=lambda case: f"{case['link']}-{case['mu']}-{case['sigma']}")
def test_spread_and_entropy_equal_adaptive_integration(case: dict[str, float]) -> None:
    link, at = LINKS[case["link"]], (np.array([case["mu"]]), np.array([case["sigma"]]))
    ends = link.domain != (-np.inf, np.inf)  # there the rule is cut at the end
    tolerance = {"rtol": 1e-9, "atol": 1e-9 if ends else 1e-20}  # farther out the judge loses its digits first
    mean = expected_probability(link, *at)
    assert np.isclose(probability_std(link, *at, mean)[0], case["std"], **tolerance)
    assert np.isclose(expected_entropy(link, *at)[0], case["entropy"], **tolerance)


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


@pytest.mark.parametrize("name", ["logit", "probit", "cauchit"])
def test_the_spread_is_the_same_whichever_class_is_the_rare_one(name: str) -> None:
    mu, sigma = np.array([3.0, 12.0, 25.0, 60.0]), np.array([0.7, 3.0, 4.0, 8.0])
    rare, common = (
        probability_std(LINKS[name], side, sigma, expected_probability(LINKS[name], side, sigma)) for side in (-mu, mu)
    )
    np.testing.assert_allclose(common, rare, rtol=1e-9)
    assert (rare > 0.0).all()


def test_a_narrow_gaussian_far_out_is_no_more_than_certain() -> None:
    for name in LINKS:
        assert (expected_probability(LINKS[name], np.array([-30.0, 25.0]), np.array([1e-3, 1e-3])) <= 1.0).all()


GRID = [
    (mu, sigma) for mu in (-20.0, -3.0, -0.4, 0.0, 0.3, 0.8, 2.0) for sigma in (0.01, 0.2, 0.29, 0.35, 1.0, 4.0, 60.0)
]


def in_sixty_digits(name: str, mu: float, sigma: float) -> tuple[float, float]:
    """The closed forms of E[1 − f] and E[f], where differences of large terms cost nothing."""
    with mpmath.workdps(60):
        m, s = mpmath.mpf(mu), mpmath.mpf(sigma)
        if name == "probit":
            up = mpmath.ncdf(m / mpmath.sqrt(1 + s**2))
        elif name == "log":
            up = mpmath.ncdf(m / s) + mpmath.exp(m + s**2 / 2) * mpmath.ncdf(-m / s - s)
        else:
            integral = lambda z: z * mpmath.ncdf(z) + mpmath.npdf(z)  # noqa: E731
            up = s * (integral(m / s) - integral((m - 1) / s))
        return float(1 - up), float(up)


@pytest.mark.parametrize("name", ["probit", "log", "identity"])
def test_closed_forms_have_their_digits(name: str) -> None:
    mu, sigma = np.array(GRID).T
    exact = np.array([in_sixty_digits(name, *at) for at in GRID])
    found = expected_probability(LINKS[name], mu, sigma)
    shown = exact > 1e-12  # a smaller complement has the rounding of one
    np.testing.assert_allclose(found[shown], exact[shown], rtol=1e-9)
    np.testing.assert_allclose(found[:, 1], exact[:, 1], rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("name", ["log", "identity"])
def test_the_spread_of_bounded_links_is_that_of_their_moments(name: str) -> None:
    """By the trapezoidal rule on half a million points."""
    for mu, sigma in [(-1.0, 0.5), (-0.2, 0.7), (0.4, 0.2), (0.9, 0.5), (0.3, 3.0)]:
        a = mu + sigma * np.linspace(-9.0, 9.0, 500_001)
        weight = np.exp(-0.5 * ((a - mu) / sigma) ** 2)
        weight /= weight.sum()
        f = LINKS[name].inverse(a)
        mean = expected_probability(LINKS[name], np.array([mu]), np.array([sigma]))
        spread = probability_std(LINKS[name], np.array([mu]), np.array([sigma]), mean)[0]
        assert spread == pytest.approx(np.sqrt(weight @ (f - weight @ f) ** 2), rel=1e-4)
