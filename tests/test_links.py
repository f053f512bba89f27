"""Every registered link against sixty digits and more, both tails included; domain and convexity."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

from oddsmith.errors import UnknownNameError
from oddsmith.links import LINKS, Link
from oddsmith.testing import check_link

# f and 1 − f for an mpmath number, neither by subtraction from the other in a tail.
EXACT = {
    "logit": lambda a: (1 / (1 + mpmath.exp(-a)), 1 / (1 + mpmath.exp(a))),
    "probit": lambda a: (mpmath.erfc(-a / mpmath.sqrt(2)) / 2, mpmath.erfc(a / mpmath.sqrt(2)) / 2),
    "cloglog": lambda a: (-mpmath.expm1(-mpmath.exp(a)), mpmath.exp(-mpmath.exp(a))),
    "loglog": lambda a: (mpmath.exp(-mpmath.exp(-a)), -mpmath.expm1(-mpmath.exp(-a))),
    "cauchit": lambda a: (mpmath.atan2(1, -a) / mpmath.pi, mpmath.atan2(1, a) / mpmath.pi),
    "log": lambda a: (mpmath.exp(a), -mpmath.expm1(a)),
    "identity": lambda a: (a, 1 - a),
}

# The same for complex numbers in float64.
ANALYTIC = {
    "logit": lambda a: 1 / (1 + np.exp(-a)),
    "cloglog": lambda a: 1 - np.exp(-np.exp(a)),
    "loglog": lambda a: np.exp(-np.exp(-a)),
    "cauchit": lambda a: 0.5 + np.arctan(a) / np.pi,
    "log": np.exp,
    "identity": lambda a: a,
}

GRID = np.linspace(-3.0, 3.0, 41)

links = pytest.mark.parametrize("link", [link for _, link in LINKS.items()], ids=lambda link: link.name)


def inside(link: Link, a: np.ndarray) -> np.ndarray:
    return a[(a > link.domain[0]) & (a < link.domain[1])]


FAR = (40.0, 50.0, 700.0)
THOUSAND = (300.0, 650.0, 900.0)
FURTHER = {"logit": THOUSAND, "probit": THOUSAND, "log": THOUSAND, "cauchit": (*THOUSAND, 1e4, 1e10, 1e100)}
"""Activations at which links of moderate growth equal their formula, too."""


@links
def test_link_equals_its_formula_in_sixty_digits(link: Link) -> None:
    assert link.name in EXACT, f"Write the formulas of the link {link.name!r} in mpmath into EXACT."
    check_link(link, EXACT[link.name], far=(*FAR, *FURTHER.get(link.name, ())))


@links
def test_link_derivatives_equal_differences(link: Link) -> None:
    check_link(link)


@pytest.mark.parametrize("name", list(ANALYTIC))
def test_derivatives_equal_the_complex_step(name: str) -> None:
    link, f = LINKS[name], ANALYTIC[name]
    a = inside(link, GRID)
    h = 1e-30
    y, slope = f(a), np.imag(f(a + 1j * h)) / h
    np.testing.assert_allclose(link.derivative(a), slope, rtol=1e-12)
    np.testing.assert_allclose(link.score(a)[0], np.imag(np.log(f(a + 1j * h))) / h, rtol=1e-11)
    np.testing.assert_allclose(link.score(a)[1], -slope / (1 - y), rtol=1e-7)  # 1 − y has lost digits


def test_the_seven_links_are_there() -> None:
    assert list(LINKS) == sorted(EXACT)


def test_an_unknown_link_gets_the_list_of_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"logit.*probit"):
        LINKS["gompertz"]


@pytest.mark.parametrize(("name", "expected"), [("log", (-np.inf, 0.0)), ("identity", (0.0, 1.0))])
def test_the_loss_of_a_row_outside_the_domain_is_infinite_for_both_classes(
    name: str, expected: tuple[float, float]
) -> None:
    link = LINKS[name]
    assert link.domain == expected
    outside = np.array([v for v in (-1.0, -1e-300, 0.0, 1.0, 1.0 + 1e-15, 7.0) if not expected[0] < v < expected[1]])
    for log_p in link.log_probability(outside):
        assert np.all(log_p == -np.inf)


def test_only_cauchit_is_not_convex() -> None:
    assert [name for name, link in LINKS.items() if not link.convex] == ["cauchit"]


def test_loglog_is_the_mirror_image_of_cloglog() -> None:
    a = np.concatenate([GRID, [-50.0, 50.0]])
    loglog, cloglog = LINKS["loglog"], LINKS["cloglog"]
    np.testing.assert_allclose(loglog.inverse(a), np.exp(cloglog.log_probability(-a)[1]), rtol=1e-15)
    np.testing.assert_array_equal(loglog.second_derivative(a), -cloglog.second_derivative(-a))


@links
def test_a_wrong_convexity_flag_is_found_out(link: Link) -> None:
    broken = type("Broken", (type(link),), {"convex": not link.convex})()
    with pytest.raises(AssertionError, match="convex"):
        check_link(broken)


@links
def test_a_score_that_is_slightly_off_is_found_out(link: Link) -> None:
    class Off(type(link)):  # type: ignore[misc]
        def score(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first, second = super().score(a)
            return first, second * (1.0 + 1e-9)

    with pytest.raises(AssertionError, match="score"):
        check_link(Off())


@pytest.mark.parametrize("name", ["log", "identity"])
def test_a_domain_that_is_too_wide_is_found_out(name: str) -> None:
    link = LINKS[name]
    broken = type("Broken", (type(link),), {"domain": (link.domain[0], link.domain[1] + 0.25)})()
    with pytest.raises((AssertionError, FloatingPointError)):
        check_link(broken)


@links
def test_probability_rises_over_the_whole_line(link: Link) -> None:
    y = link.inverse(np.array([-1e300, -1e4, -50.0, -3.0, -0.5, 0.25, 0.75, 3.0, 50.0, 1e4, 1e300]))
    assert all(low <= high for low, high in pairwise(y)) and y[0] < 1e-200 and y[-1] == 1.0
