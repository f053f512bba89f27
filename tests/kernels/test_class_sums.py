"""Sums by class of every instruction set equal those of NumPy: any layout, weights of zero, classes that are absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.kernel_cases import DENSE_LAYOUTS, LEVELS, laid_out, shifted

from oddsmith.block import Block
from oddsmith.errors import InvalidInputError
from oddsmith.kernels import native
from oddsmith.statistics import Moments, MomentsParams

FORMS = ["full", "pooled", "diagonal", "groups"]


def params_of(K: int, form: Any) -> MomentsParams:
    return (
        MomentsParams(K, groups=tuple((7 * k) % 3 % K for k in range(K)))
        if form == "groups"
        else MomentsParams(K, form)
    )


@st.composite
def rows_by_class(draw: Any) -> tuple[Block, MomentsParams]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([0, 1, 2, 7, 63, 64, 65, 511, 513, 900]))
    M, K = draw(st.integers(1, 35)), draw(st.sampled_from([1, 2, 3, 7]))
    X = rng.normal(size=(n, M)) + draw(st.sampled_from([0.0, 1e3]))
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    present = sorted(draw(st.sets(st.integers(0, K - 1), min_size=1)))
    t = rng.choice(present, size=n).astype(np.int32)
    s = rng.choice([0.0, 0.5, 1.0, 3.0], n) if draw(st.booleans()) else None
    block = Block(laid_out(X, draw(st.sampled_from(DENSE_LAYOUTS))), t, s)
    return block, params_of(K, draw(st.sampled_from(FORMS)))


def moments(level: str, block: Block, params: MomentsParams) -> Moments:
    with native.using(level):
        return Moments.of(block, params)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(problem=rows_by_class())
def test_moments_equal_those_of_numpy(level: str, problem: tuple[Block, MomentsParams]) -> None:
    expected, found = (moments(which, *problem) for which in ("reference", level))
    block = problem[0]
    reach = float(np.abs(block.X).max(initial=0.0))
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12 * (1.0 + reach))
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-12, atol=1e-12 * 10.0 * (1.0 + block.n_rows))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", LEVELS)
def test_moments_are_the_same_at_every_alignment(level: str, form: str, dtype: Any, order: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(71, 11)).astype(dtype), order=order)
    t, s, params = rng.integers(0, 3, 71).astype(np.int32), rng.uniform(0.0, 2.0, 71), params_of(3, form)
    expected = moments(level, Block(X, t, s), params)
    for by in range(64 // X.itemsize):
        found = moments(level, Block(shifted(X, by), shifted(t, by % 16), shifted(s, by % 8)), params)
        assert np.array_equal(found.mean, expected.mean) and np.array_equal(found.scatter, expected.scatter)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", LEVELS)
def test_denormal_numbers_have_their_means(level: str, form: str) -> None:
    rng = np.random.default_rng(0)
    X, t = rng.integers(0, 1 << 20, size=(200, 5)) * 5e-324, rng.integers(0, 3, 200).astype(np.int32)
    expected, found = (moments(which, Block(X, t), params_of(3, form)) for which in ("reference", level))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1.5e-323)
    assert found.mean.min() > 0.0 and not found.scatter.any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", LEVELS)
def test_values_that_are_not_finite_stay_visible_in_their_class(level: str, form: str) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        for s in (None, np.ones(90)):
            X, t = np.arange(360.0).reshape(90, 4), (np.arange(90) % 3).astype(np.int32)
            X[43, 2] = bad
            found = moments(level, Block(X, t, s), params_of(3, form))
            assert not np.isfinite(found.mean[1, 2])
            assert np.isfinite(np.delete(found.mean, 2, axis=1)).all() and np.isfinite(found.mean[[0, 2]]).all()
            X[43] = bad  # of weight 0 it is not there
            found = moments(level, Block(X, t, (np.arange(90) != 43) * 1.0), params_of(3, form))
            assert np.isfinite(found.mean).all() and np.isfinite(found.scatter).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", LEVELS)
def test_rows_without_columns_have_weights(level: str, form: str) -> None:
    found = moments(level, Block(np.zeros((5, 0)), np.array([0, 1, 2, 1, 1], dtype=np.int32)), params_of(3, form))
    assert found.weight.tolist() == [1.0, 3.0, 1.0] and found.mean.shape == (3, 0)


@pytest.mark.parametrize("codes", [[0, 1, 2], [0, -1, 1]])
def test_codes_of_classes_that_there_are_not_are_refused(codes: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="expected 0 to 1"):
        Moments.of(Block(np.ones((3, 2)), np.array(codes, dtype=np.int32)), MomentsParams(2))
