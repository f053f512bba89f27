"""Every registered statistic obeys the laws of ``oddsmith/statistic.py``, on values that break careless sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oddsmith.statistics  # noqa: F401  (registers them)
from oddsmith.block import Block
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.testing import check_statistic

MEANS = [0.0, 0.0, 1.0, -1e3, 1e8, -1e8]
SCALES = [0.0, 1e-6, 1.0, 1.0, 1e3, 1e6]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Block, Shape]:
    """Rows of up to four columns, each with a mean and scale of its own, in any storage, weighted in any way."""
    n, M, K = draw(st.integers(0, 40)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    mean = np.array(draw(st.lists(st.sampled_from(MEANS), min_size=M, max_size=M)))
    scale = np.array(draw(st.lists(st.sampled_from(SCALES), min_size=M, max_size=M)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = mean + scale * rng.normal(size=(n, M))
    present = sorted(draw(st.sets(st.integers(0, K - 1), min_size=1)))
    t = rng.choice(present, size=n).astype(np.int32)
    weights = draw(st.sampled_from(["none", "whole", "fractional", "zero"]))
    s = {
        "none": None,
        "whole": rng.integers(0, 4, n).astype(np.float64),
        "fractional": rng.uniform(0.0, 3.0, n) * (rng.random(n) < 0.8),
        "zero": np.zeros(n),
    }[weights]
    offset = rng.normal(scale=3.0, size=(n, K - 1)) if draw(st.booleans()) else None
    form = draw(st.sampled_from(["C", "F", "float32", "CSR", "every second row"]))
    if form == "F":
        X = np.asfortranarray(X)
    elif form == "float32":
        X = X.astype(np.float32)
    elif form == "CSR":
        X = sparse.csr_array(np.where(rng.random((n, M)) < 0.5, 0.0, X))
    elif form == "every second row":
        X = np.repeat(X, 2, axis=0)[::2]
    return Block(X, t, s, offset, draw(st.integers(0, 10**6))), Shape(M, K)


@pytest.mark.parametrize("name", list(STATISTICS))
def test_statistic_obeys_the_laws_on_hostile_blocks(name: str) -> None:
    check_statistic(STATISTICS[name])


@pytest.mark.parametrize("name", list(STATISTICS))
@settings(max_examples=max(15, settings.default.max_examples * 3 // 8))  # each holds all laws against all parameters
@given(block=blocks(), seed=st.integers(0, 2**32 - 1))
def test_statistic_obeys_the_laws_on_any_block(name: str, block: tuple[Block, Shape], seed: int) -> None:
    check_statistic(STATISTICS[name], [block], seed=seed)


@pytest.mark.parametrize("name", list(STATISTICS))
def test_float32_rows_are_summed_as_their_float64_values(name: str) -> None:
    """A float32 accumulator would be off by 1e-7, and by more the more rows there are."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 3)) + 50.0).astype(np.float32)
    t = rng.integers(0, 3, 5000).astype(np.int32)
    statistic, shape = STATISTICS[name], Shape(3, 3)
    for params in statistic.example_params(shape, rng):
        narrow, wide = statistic.of(Block(X, t), params), statistic.of(Block(X.astype(np.float64), t), params)
        for field in narrow.__dataclass_fields__:
            value = getattr(narrow, field)
            if value is not None:
                np.testing.assert_allclose(
                    value, getattr(wide, field), rtol=1e-10, atol=1e-10 * np.max(np.abs(value), initial=0.0)
                )
