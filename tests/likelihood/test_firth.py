"""The slope of Jeffreys' penalty against differences of the determinant itself."""

import numpy as np
import pytest

from oddsmith.block import Block
from oddsmith.links import LINKS
from oddsmith.priors import PRIORS, JeffreysPrior, as_prior, split_prior
from oddsmith.statistics import LeverageParams, LeverageSlope
from oddsmith.statistics.rowwise import WeightPoint, tiles


def information(block: Block, at: WeightPoint) -> np.ndarray:
    """The expected information, row by row from its definition."""
    C, P = at.x.shape
    total = np.zeros((C * P, C * P))
    for tile in tiles(block, at):
        for i in range(len(tile.Z)):
            V = np.array([[tile.rows.curvature(j, k)[i] for k in range(C)] for j in range(C)])
            total += tile.s[i] * np.kron(at.T.T @ V @ at.T, np.outer(tile.Z[i], tile.Z[i]))
    return total


@pytest.mark.parametrize(
    ("K", "link"), [(2, None), (3, None), (4, None), (2, "probit"), (2, "cloglog"), (2, "cauchit")]
)
def test_slope_equals_differences_of_the_log_determinant(K: int, link: str | None) -> None:
    rng = np.random.default_rng(K)
    C, M, n = K - 1, 2, 30
    block = Block(
        rng.normal(size=(n, M)) * [1.0, 5.0] + [0.0, 20.0],
        rng.integers(0, K, n).astype(np.int32),
        rng.uniform(0.0, 2.0, n),
        rng.normal(size=(n, C)),
    )
    T = np.eye(C) + (0.2 * rng.normal(size=(C, C)) if C > 1 else 0.0)
    x = 0.5 * rng.normal(size=(C, M + 1))

    def half(x: np.ndarray) -> float:
        at = WeightPoint(x=x, center=np.array([0.0, 20.0]), scale=np.array([1.0, 5.0]), T=T, link=link and LINKS[link])
        return 0.5 * np.linalg.slogdet(information(block, at))[1]

    at = WeightPoint(x=x, center=np.array([0.0, 20.0]), scale=np.array([1.0, 5.0]), T=T, link=link and LINKS[link])
    found = LeverageSlope.of(block, LeverageParams(at, np.linalg.inv(information(block, at)))).slope
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-5
        assert found[place] == pytest.approx((half(x + step) - half(x - step)) / 2e-5, rel=1e-5, abs=1e-7)


def test_jeffreys_prior_is_registered_and_split() -> None:
    assert PRIORS["jeffreys"] is JeffreysPrior
    gaussian, jeffreys = split_prior(JeffreysPrior(gaussian=2.5))
    assert jeffreys and gaussian is not None and gaussian.scale == 2.5
    assert split_prior(None) == (None, False)
    with pytest.raises(TypeError, match="JeffreysPrior works in LogisticRegression"):
        as_prior(JeffreysPrior())
