"""The vector functions against mpmath over the whole range that kernels use: at most 2 units in the last place."""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.kernels.kernel_cases import LEVELS

from oddsmith.kernels import native
from oddsmith.kernels.two_classes import logistic_conjugate, logistic_losses
from oddsmith.numerics import Array

EXP, LOG1P, LOG = range(3)
LEAST = 5e-324
RNG = np.random.default_rng(0)
NEAR_ROOT = np.sqrt(2.0) + np.arange(-8, 9) * 2.0**-52  # where the logarithms change their interval
POINTS = {
    EXP: np.concatenate(
        [
            *(-np.geomspace(1e-300, 1.0, 300), RNG.uniform(-708.0, 0.0, 1500), RNG.uniform(-746.0, -707.0, 500)),
            *(np.log(2.0) * (np.arange(-1075.0, 1.0) + 0.5), np.log(2.0) * np.arange(-1075.0, 1.0)),
            np.array([0.0, -0.0, -LEAST, -1e-310, -745.13, -745.14, -746.0, -1e3, -1e308, -np.inf]),
        ]
    ),
    LOG1P: np.concatenate(
        [
            *(np.geomspace(LEAST, 1.0, 1500), RNG.uniform(0.0, 1.0, 2000), NEAR_ROOT - 1.0),
            np.array([0.0, LEAST, 1e-310, 2.3e-308, 1.0, 1.0 - 2.0**-53]),
        ]
    ),
    LOG: np.concatenate(
        [
            *(1.0 + np.geomspace(2.0**-52, 1.0, 1000), np.exp(RNG.uniform(0.0, np.log(1e300), 2000)), NEAR_ROOT),
            *(2.0 * NEAR_ROOT, 2.0 ** np.arange(0.0, 996.0, 5.0), np.array([1.0, 1e300])),
        ]
    ),
}


def evaluate(level: str, which: int, x: Array) -> Array:
    """Return a function of any number of points; kernels take eight at a time."""
    padded = np.resize(x, -(-len(x) // 8) * 8)
    out = np.empty_like(padded)
    with native.using(level) as kernels:
        assert kernels is not None
        kernels("function", which, padded.ctypes.data, len(padded), out.ctypes.data)
    return out[: len(x)]


@cache
def exact(which: int) -> list[Any]:
    function = (mpmath.exp, mpmath.log1p, mpmath.log)[which]
    with mpmath.workprec(140):
        return [function(mpmath.mpf(float(x))) for x in POINTS[which]]


@pytest.mark.parametrize("which", [EXP, LOG1P, LOG], ids=["exp", "log1p", "log"])
@pytest.mark.parametrize("level", LEVELS)
def test_error_is_at_most_two_units_in_the_last_place(level: str, which: int) -> None:
    found = evaluate(level, which, POINTS[which])
    with mpmath.workprec(140):
        for x, value, true in zip(POINTS[which], found, exact(which), strict=True):
            unit = float(np.spacing(max(float(true), 0.0)))
            # Results below the normal numbers are off by their least unit at most.
            limit = 1.0 if unit == LEAST else 2.0
            assert np.isfinite(value) and abs(mpmath.mpf(float(value)) - true) <= limit * unit, (x, value, true)


@pytest.mark.parametrize("which", [EXP, LOG1P, LOG], ids=["exp", "log1p", "log"])
@pytest.mark.parametrize("level", LEVELS)
def test_nan_stays_nan_and_touches_no_other_lane(level: str, which: int) -> None:
    x = np.full(16, -0.5 if which == EXP else 1.0)
    x[[0, 5, 15]] = np.nan
    x[7] = -np.nan
    found = evaluate(level, which, x)
    assert np.array_equal(np.isnan(found), np.isnan(x))


@pytest.mark.parametrize("level", LEVELS)
def test_exact_values(level: str) -> None:
    """A row of certain class has no loss at all, one without any has an infinite one that is not hidden."""
    assert evaluate(level, EXP, np.array([0.0, -0.0, -np.inf, -1e300])).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert evaluate(level, LOG1P, np.array([0.0])).tolist() == [0.0]
    assert evaluate(level, LOG, np.array([1.0])).tolist() == [0.0]
    assert not np.isfinite(evaluate(level, LOG, np.array([np.inf]))).any()


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("n", [0, 1, 7, 64, 131])
def test_the_loss_of_two_classes_and_its_conjugate(level: str, n: int) -> None:
    """Fenchel: residuals at activations a give the loss as ``theta a`` less the conjugate; both against mpmath."""
    rng = np.random.default_rng(n)
    a, sign, s = 30.0 * rng.normal(size=n), rng.choice([-1.0, 1.0], n), rng.uniform(0.1, 3.0, n)
    a[: n // 8] = 0.0
    with native.using(level):
        value, r, h = logistic_losses(a, sign, s)
        conjugate = logistic_conjugate(r, s, 1.0)
        assert logistic_conjugate(np.zeros(n), s, 1.0) == 0.0
        half = logistic_conjugate(r, s, 0.5)
    with mpmath.workdps(40):
        wrong = [1 / (1 + mpmath.exp(mpmath.mpf(m))) for m in sign * a]
        exact = mpmath.fsum(w * mpmath.log1p(mpmath.exp(-mpmath.mpf(m))) for w, m in zip(s, sign * a, strict=True))
        cs = [mpmath.mpf(0.5) * c for c in wrong]
        wanted = mpmath.fsum(w * (c * mpmath.log(c) + (1 - c) * mpmath.log(1 - c)) for w, c in zip(s, cs, strict=True))
        residuals = np.array([float(c) for c in wrong])
        curved = np.array([float(c * (1 - c)) for c in wrong])
    np.testing.assert_allclose(value, float(exact), rtol=1e-14)
    np.testing.assert_allclose(r, -sign * s * residuals, rtol=1e-14)
    np.testing.assert_allclose(h, s * curved, rtol=1e-12)
    np.testing.assert_allclose(half, float(wanted), rtol=1e-14, atol=1e-15 * s.sum())
    np.testing.assert_allclose(float(r @ a) - conjugate, value, rtol=1e-12, atol=1e-12)
