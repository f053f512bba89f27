"""Epochs of the perceptron and of stochastic gradients: the compiled ones take the steps of those in NumPy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.kernel_cases import LAYOUTS, LEVELS, laid_out, shifted

from oddsmith.kernels import native, sgd
from oddsmith.kernels.perceptron import PocketState, run_epoch


@st.composite
def walks(draw: Any) -> tuple[Any, Any, list[Any], float, PocketState]:
    """Rows of whole numbers, whose sums are exact: every mistake must be the same one."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, M = draw(st.sampled_from([1, 2, 15, 16, 17, 40, 150])), draw(st.integers(1, 40))
    K = draw(st.sampled_from([2, 3, 5]))
    X = rng.integers(-4, 5, size=(n, M)) * draw(st.sampled_from([1.0, 0.125]))
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.8]))] = 0.0
    t = rng.integers(0, K, n).astype(np.int32)
    if draw(st.booleans()):  # separable, nearly: long runs without a mistake
        t = (X[:, 0] > 0).astype(np.int32)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(3))]
    state = PocketState(V=rng.integers(-2, 3, size=(1 if K == 2 else K, M + 1)) * 1.0, longest=draw(st.integers(0, 3)))
    return laid_out(X, draw(st.sampled_from(LAYOUTS))), t, orders, draw(st.sampled_from([0.0, 1.0])), state


def run_epochs(level: str, X: Any, t: Any, orders: list[Any], bias: float, state: PocketState) -> PocketState:
    state = deepcopy(state)
    with native.using(level):
        for order in orders:
            run_epoch(X, t, order, 0.5, bias, state)
    return state


def same(found: PocketState, expected: PocketState) -> None:
    for name, value in vars(expected).items():
        assert np.array_equal(getattr(found, name), value, equal_nan=name in ("V", "best")), name


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=50, deadline=None)
@given(problem=walks())
def test_perceptron_makes_the_mistakes_of_the_reference(
    level: str, problem: tuple[Any, Any, list[Any], float, PocketState]
) -> None:
    same(run_epochs(level, *problem), run_epochs("reference", *problem))


@pytest.mark.parametrize("level", LEVELS)
def test_perceptron_reads_csr_rows_of_any_type(level: str) -> None:
    rng = np.random.default_rng(0)
    X, t, orders = rng.integers(-1, 2, size=(60, 9)), rng.integers(0, 2, 60).astype(np.int32), [rng.permutation(60)]
    expected = run_epochs(level, 1.0 * X, t, orders, 1.0, PocketState(V=np.zeros((1, 10))))
    mixed, apart, single = (laid_out(1.0 * X, "csr32") for _ in range(3))
    mixed.indptr = mixed.indptr.astype(np.int64)
    apart.data, apart.indices = np.repeat(apart.data, 2)[::2], np.repeat(apart.indices, 2)[::2]
    single.data = single.data.astype(np.float32)
    for rows in (mixed, apart, single):
        same(run_epochs(level, rows, t, orders, 1.0, PocketState(V=np.zeros((1, 10)))), expected)


@pytest.mark.parametrize("level", LEVELS)
def test_perceptron_is_the_same_at_every_alignment(level: str) -> None:
    rng = np.random.default_rng(0)
    X, t, orders = rng.normal(size=(60, 19)), rng.integers(0, 3, 60).astype(np.int32), [rng.permutation(60)]
    expected = run_epochs(level, X, t, orders, 1.0, PocketState(V=np.zeros((3, 20))))
    for by in range(8):
        state = PocketState(V=np.zeros((3, 20)))
        state.V, state.best = shifted(state.V, by), shifted(state.best, (by + 1) % 8)
        with native.using(level):
            run_epoch(shifted(X, by), shifted(t, by), shifted(orders[0], by), 0.5, 1.0, state)
        same(state, expected)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("level", native.available())
@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy's remark on infinity less infinity
def test_perceptron_makes_no_mistake_of_a_margin_that_is_not_a_number(level: str, K: int) -> None:
    """What has no side is on no wrong side: rows of NaN change no weight."""
    X, t = np.ones((6, 3)), np.array([0, 1, 0, 1, 0, 1], dtype=np.int32)
    X[2:4] = np.nan
    V = np.arange(4.0 * (1 if K == 2 else K)).reshape(-1, 4)
    state = run_epochs(level, X, t, [np.arange(6)], 1.0, PocketState(V=V))
    assert np.isfinite(state.V).all() and 0 < state.mistakes <= 4


@st.composite
def descents(draw: Any) -> tuple[Any, ...]:
    """The arguments of an epoch: offsets of ±700 among them, weights of zero, columns far from zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, M, C = draw(st.integers(0, 40)), draw(st.integers(1, 30)), draw(st.sampled_from([1, 2, 4]))
    scale = rng.uniform(0.5, 2.0, M)
    X = laid_out(100.0 + rng.normal(size=(n, M)) * scale, draw(st.sampled_from(["C", "F", "strided", "odd F"])))
    X = X.astype(np.float32) if draw(st.booleans()) else X
    offset = rng.choice([-700.0, -1.0, 0.0, 1.0, 700.0], size=(n, C)) * draw(st.sampled_from([0.0, 1.0]))
    s, t = rng.choice([0.0, 0.5, 2.0], n), rng.integers(0, C + 1, n)
    T = np.eye(C) + 0.1 * rng.normal(size=(C, C))
    decay, target = rng.uniform(0.0, 1.0, (C, M + 1)), rng.normal(size=(C, M + 1))
    V = rng.normal(size=(C, M + 1))
    return X, t, s, offset, np.full(M, 100.0), scale, T, decay, target, V, 1.0 / (10.0 + M + np.arange(n))


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=50, deadline=None)
@given(arguments=descents())
def test_stochastic_gradients_take_the_steps_of_the_reference(level: str, arguments: tuple[Any, ...]) -> None:
    *before, V, steps = arguments
    with native.using(level):
        moved = V.copy()
        found = sgd.run_epoch(*before, moved, steps)
    expected_V = V.copy()
    expected = sgd.epoch(*before, expected_V, steps)
    np.testing.assert_allclose(moved, expected_V, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_stochastic_gradients_show_what_is_not_finite(level: str) -> None:
    n, C, M = 12, 2, 9
    for bad in (np.nan, np.inf):
        X, V = np.ones((n, M)), np.zeros((C, M + 1))
        X[5, 3] = bad
        zeros, ones = np.zeros((C, M + 1)), np.ones(M)
        with native.using(level):
            mean = sgd.run_epoch(
                *(X, np.ones(n, dtype=np.int32), np.ones(n), np.zeros((n, C)), 0.0 * ones, ones, np.eye(C)),
                *(zeros, zeros, V, np.full(n, 0.1)),
            )
        assert not np.isfinite(V).all() and not np.isfinite(mean).all()
