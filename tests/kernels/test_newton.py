"""The kernel of Newton steps takes the steps of a transcription in NumPy, on every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.kernel_cases import LEVELS, laid_out

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.newton import NewtonSteps, NewtonSums, newton_steps
from oddsmith.numerics import factor_spd

RATIOS = (0.15, 0.75)


def transcription(X: Any, t: Any, s: Any, offset: Any, units: Any, prior: Any, w: Any, steps: int) -> tuple[Any, Any]:
    """Return the point after so many full Newton steps, and (objective, loss, gradient norm, decrement) before each."""
    found = []
    Z = np.column_stack([np.ones(len(X)), X]) / units
    for _ in range(steps):
        a = Z @ w + offset
        loss = float(s @ (np.logaddexp(0.0, a) - t * a))
        p = 1.0 / (1.0 + np.exp(-a))
        g = Z.T @ (s * (p - t)) + prior[0] * (w - prior[1])
        H = (Z.T * (s * p * (1.0 - p))) @ Z + np.diag(prior[0])
        step = np.linalg.solve(H, g)
        value = loss + 0.5 * float(prior[0] @ (w - prior[1]) ** 2)
        found.append((value, loss, np.linalg.norm(g), np.sqrt(g @ step)))
        w = w - step
    return w, np.array(found)


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, M = draw(st.sampled_from([40, 63, 64, 257])), draw(st.sampled_from([1, 2, 3, 7, 8, 9, 20]))
    X = rng.normal(size=(n, M)).astype(draw(st.sampled_from([np.float32, np.float64])))
    t = (X.sum(axis=1) / np.sqrt(M) + rng.logistic(size=n) > 0).astype(np.int32)
    return {
        "X": laid_out(X, draw(st.sampled_from(["C", "F", "strided", "part of F"]))),
        "t": t,
        "s": rng.choice([0.0, 0.5, 1.0, 3.0], n) if draw(st.booleans()) else None,
        "offset": rng.normal(size=(n, 1)) if draw(st.booleans()) else None,
        "center": rng.normal(size=M),
        "units": np.exp(rng.normal(size=M + 1)),
        "prior": (np.exp(rng.normal(size=M + 1)), rng.normal(size=M + 1)),
        "w": 0.1 * rng.normal(size=M + 1),
    }


@pytest.mark.parametrize("level", LEVELS)
def test_the_longest_row_is_found_at_the_end(level: str) -> None:
    table = plain_table()
    inverse = np.array([4.0, 0.25])
    found = run(level, table, inverse=inverse)
    assert found.sums is not None and found.sums.longest == pytest.approx((table["X"] ** 2 @ inverse).max(), rel=1e-13)


def run(level: str, table: dict[str, Any], steps: int = 8, small: float = 1e-9, **how: Any) -> NewtonSteps:
    block = Block(table["X"], table["t"], table["s"], table["offset"])
    at = (table["center"], table["units"]), table["prior"], table["w"]
    with native.using(level):
        found = newton_steps(block, *at, steps=steps, small=small, armijo=1e-4, separated=RATIOS, **how)
    assert found is not None
    return found


def expected(table: dict[str, Any], steps: int) -> tuple[Any, Any]:
    X = np.asarray(table["X"], dtype=np.float64) - table["center"]
    s = np.ones(len(X)) if table["s"] is None else table["s"]
    offset = np.zeros(len(X)) if table["offset"] is None else table["offset"][:, 0]
    return transcription(X, table["t"], s, offset, table["units"], table["prior"], table["w"], steps)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=40, deadline=None)
@given(tables())
def test_steps_are_those_of_the_transcription(level: str, table: dict[str, Any]) -> None:
    found = run(level, table)
    w, trace = expected(table, len(found.trace))
    if not len(found.trace):  # the first step is too long already
        assert found.w.tolist() == w.tolist() and expected(table, 2)[1][1, 0] > expected(table, 2)[1][0, 0]
        return
    np.testing.assert_allclose(found.w, w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.trace[:, :2], trace[:, :2], rtol=1e-11)
    np.testing.assert_allclose(found.trace[:, 2:], trace[:, 2:], rtol=1e-6, atol=1e-9)
    if found.sums is not None:
        assert found.evaluations == len(found.trace) + 1
        _, loss, norm, decrement = expected(table, len(trace) + 1)[1][-1]
        assert found.sums.loss == pytest.approx(loss, rel=1e-11)
        assert np.linalg.norm(found.sums.gradient) == pytest.approx(norm, rel=1e-6, abs=1e-9)
        step = np.linalg.solve(found.sums.hessian, found.sums.gradient)
        assert np.sqrt(step @ found.sums.gradient) == pytest.approx(decrement, rel=1e-5, abs=1e-9)
        if len(trace) < 8:  # it ended because the next decrement is as small as asked
            assert decrement < 1e-7


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=30, deadline=None)
@given(tables())
def test_the_last_factor_is_that_of_lapack(level: str, table: dict[str, Any]) -> None:
    end = run(level, table)
    if (sums := end.sums) is None:
        return
    expected = factor_spd(sums.hessian, tol=0.0)
    found, delta = end.factor, table["prior"][1]
    assert found is not None and found.complete and found.scaled is not None
    np.testing.assert_allclose(found.L, expected.L, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.scaled, expected.scaled, rtol=1e-13)
    np.testing.assert_allclose(found.d, expected.d, rtol=1e-14)
    np.testing.assert_allclose(end.next_step, expected.solve(sums.gradient), rtol=1e-9, atol=1e-20)
    assert found.eigenvalue_floor == pytest.approx(expected.eigenvalue_floor, rel=1e-10)
    assert found.condition == pytest.approx(expected.condition, rel=1e-10)
    assert end.penalty == pytest.approx(0.5 * float(table["prior"][0] @ (end.w - delta) ** 2), rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=30, deadline=None)
@given(tables())
def test_rough_steps_end_at_the_same_point(level: str, table: dict[str, Any]) -> None:
    plain, found = run(level, table), run(level, table, rough=True)
    np.testing.assert_allclose(found.trace[:1, :3], plain.trace[:1, :3], rtol=1e-12)  # value and gradient are not rough
    np.testing.assert_allclose(found.trace[:1, 3], plain.trace[:1, 3], rtol=1e-3)
    if plain.sums is None or found.sums is None or len(plain.trace) == 8 or len(found.trace) == 8:
        return
    np.testing.assert_allclose(found.w, plain.w, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.sums.hessian, plain.sums.hessian, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=15, deadline=None)
@given(tables())
def test_sums_that_are_known_are_not_found_again(level: str, table: dict[str, Any]) -> None:
    plain = run(level, table)
    X = np.asarray(table["X"], dtype=np.float64) - table["center"]
    s = np.ones(len(X)) if table["s"] is None else table["s"]
    offset = np.zeros(len(X)) if table["offset"] is None else table["offset"][:, 0]
    Z, prior, w = np.column_stack([np.ones(len(X)), X]) / table["units"], table["prior"], table["w"]
    a = Z @ w + offset
    p = 1.0 / (1.0 + np.exp(-a))
    g = Z.T @ (s * (p - table["t"])) + prior[0] * (w - prior[1])
    H = (Z.T * (s * p * (1.0 - p))) @ Z + np.diag(prior[0])
    known = run(level, table, known=NewtonSums(float(s @ (np.logaddexp(0.0, a) - table["t"] * a)), g, H))
    assert known.evaluations == plain.evaluations - 1 and len(known.trace) == len(plain.trace)
    np.testing.assert_allclose(known.w, plain.w, rtol=1e-9, atol=1e-9)


def plain_table(n: int = 60, M: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, M))
    nothing = np.zeros(M + 1)
    return {
        "X": X,
        "t": (X[:, 0] + rng.logistic(size=n) > 0).astype(np.int32),
        **{"s": None, "offset": None, "center": np.zeros(M), "units": np.ones(M + 1)},
        **{"prior": (nothing, nothing), "w": nothing.copy()},
    }


@pytest.mark.parametrize("level", LEVELS)
def test_a_step_that_must_be_shortened_is_taken_back(level: str) -> None:
    table = plain_table()
    table["w"] = np.array([0.0, 6.0, 0.0])  # so far out that a full step goes beyond the optimum
    found = run(level, table)
    assert found.evaluations == len(found.trace) + 2 and found.evaluations < 8
    np.testing.assert_allclose(found.w, expected(table, len(found.trace))[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_done_without_a_factor_or_with_numbers_that_are_not_finite(level: str) -> None:
    for column, value in ((slice(None), 3.0), (5, np.nan), (5, np.inf)):
        table = plain_table()
        table["X"][column, 1] = value  # a constant column depends on the intercept
        found = run(level, table)
        assert len(found.trace) == 0 and found.evaluations == 1 and found.w.tolist() == table["w"].tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_separated_classes_are_left_early_and_steps_are_counted(level: str) -> None:
    table = plain_table()
    assert len(run(level, table, steps=2).trace) == 2
    table["t"] = (table["X"][:, 0] > 0).astype(np.int32)
    found = run(level, table)
    ratios = (found.trace[1:, 3] / found.trace[:-1, 3]) ** 2
    assert len(found.trace) < 8 and (ratios[-3:] > 0.15).all() and (ratios[-3:] < 0.75).all()


def test_without_a_compiled_kernel_there_are_no_steps() -> None:
    table = plain_table()
    block = Block(table["X"], table["t"])
    with native.using("reference"):
        at = (table["center"], table["units"]), table["prior"], table["w"]
        assert newton_steps(block, *at, steps=8, small=1e-9, armijo=1e-4, separated=RATIOS) is None
