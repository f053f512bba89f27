"""The kernel of L-BFGS goes the way of `solvers.lbfgs` on a transcription in NumPy, on every instruction set."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logsumexp, softmax
from tests.kernels.kernel_cases import LEVELS, laid_out

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.lbfgs import LbfgsPoints, LbfgsRules, lbfgs_points
from oddsmith.numerics import EPS
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.lbfgs import Distance, lbfgs
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner

RULES = LbfgsRules(
    near=1e-8,
    relative=False,
    steps=30,
    memory=10,
    few=99,
    patience=1e9,
    armijo=1e-4,
    rounding=8.0 * EPS,
    smallest=2.0**-30,
    halvings=12,
)


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, M, C = draw(st.sampled_from([40, 64, 257])), draw(st.sampled_from([1, 3, 8, 9, 20])), draw(st.integers(1, 3))
    X = rng.normal(size=(n, M)).astype(draw(st.sampled_from([np.float32, np.float64])))
    return {
        "X": laid_out(X, draw(st.sampled_from(["C", "F", "strided", "part of F"]))),
        "t": (X[:, : C + 1].sum(axis=1, keepdims=True) + rng.gumbel(size=(n, C + 1))).argmax(axis=1).astype(np.int32),
        "s": rng.choice([0.0, 0.5, 1.0, 3.0], n) if draw(st.booleans()) else None,
        "offset": rng.normal(size=(n, C)) if draw(st.booleans()) else None,
        "center": rng.normal(size=M),
        "unit": np.concatenate(([1.0], np.exp(rng.normal(size=M)))),
        "T": rng.normal(size=(C, C)) + 2.0 * np.eye(C) if C > 1 else None,
        "prior": (np.concatenate(([0.0], np.exp(rng.normal(size=M)))), rng.normal(size=(C, M + 1))),
        "free": None if draw(st.booleans()) else np.concatenate(([0.0], np.ones(M))),
        "measure": None if draw(st.booleans()) else np.exp(rng.normal(size=M + 1)),
        "w": np.zeros((C, M + 1)),
        "A": KroneckerSumPreconditioner(np.diag(0.2 * n * np.ones(C)) + 0.02 * n, np.ones(M + 1)),
    }


def run(level: str, table: dict[str, Any], rules: LbfgsRules = RULES, **how: Any) -> LbfgsPoints | None:
    A = table["A"]
    with native.using(level):
        return lbfgs_points(
            Block(table["X"], table["t"], table["s"], table["offset"]),
            (table["center"], table["unit"], table["T"]),
            table["prior"],
            (None if len(A.diagonal) == 1 else A.vectors, A.diagonal),
            table["w"],
            rules,
            measure=table["measure"],
            free=table["free"],
            **how,
        )


def transcription(table: dict[str, Any]) -> Any:
    """Return the objective of a table, as `lbfgs` evaluates it."""
    X = np.asarray(table["X"], dtype=np.float64) - table["center"]
    Z, (C, P) = np.column_stack([np.ones(len(X)), X]) / table["unit"], table["w"].shape
    s, t = np.ones(len(X)) if table["s"] is None else table["s"], table["t"]
    T, free = np.eye(C) if table["T"] is None else table["T"], 1.0 if table["free"] is None else table["free"]
    (q, mean), offset = table["prior"], 0.0 if table["offset"] is None else table["offset"]

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        V = w.reshape(C, P)
        A = np.column_stack([np.zeros(len(Z)), Z @ (T @ V).T + offset])
        loss = float(s @ (logsumexp(A, axis=1) - A[np.arange(len(A)), t]))
        R = (softmax(A, axis=1) - np.eye(C + 1)[t])[:, 1:] * s[:, None]
        g = (T.T @ (R.T @ Z) + q * (V - mean)) * free
        value = loss + 0.5 * float((q * (V - mean) ** 2).sum())
        return ObjectiveValue(w=w, value=value, log_likelihood=-loss, gradient=g.ravel())

    return SimpleNamespace(evaluate=evaluate)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=40, deadline=None)
@given(tables())
def test_points_are_those_of_the_solver(level: str, table: dict[str, Any]) -> None:
    found = run(level, table)
    assert found is not None
    seen: list[tuple[float, float, float]] = []
    distance = Distance(preconditioner=table["A"], near=RULES.near, measure=table["measure"])
    rows = SimpleNamespace(add=lambda e, step: seen.append((e.value, -e.log_likelihood, step)))
    there = transcription(table)
    e = lbfgs(there, table["w"].ravel(), table["A"], lambda e: distance(e) <= 1.0, RULES.steps, rows)  # type: ignore[arg-type]
    k = min(len(seen), len(found.trace))
    np.testing.assert_allclose(found.trace[:k, :2], np.array(seen)[:k, :2], rtol=1e-9)
    assert abs(len(seen) - len(found.trace)) <= 1  # the last distance may be 1, but for rounding
    np.testing.assert_allclose(found.w, e.w, rtol=1e-4, atol=1e-5)
    last = there.evaluate(found.w)
    assert found.value == pytest.approx(last.value, rel=1e-11) and found.loss == pytest.approx(
        -last.log_likelihood, rel=1e-11
    )
    np.testing.assert_allclose(found.gradient, last.gradient, rtol=1e-6, atol=1e-9 * len(table["t"]))
    assert found.distances[-1] == pytest.approx(distance(last), rel=1e-4, abs=1e-3) or len(found.trace) > RULES.steps
    assert found.evaluations == found.trace[-1, 4] or len(found.trace) > RULES.steps


def plain_table(n: int = 300, M: int = 5, C: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, M))
    return {
        **{"X": X, "t": (X[:, 0] + rng.logistic(size=n) > 0).astype(np.int32) * C, "s": None, "offset": None},
        **{"center": np.zeros(M), "unit": np.ones(M + 1), "T": None, "free": None, "measure": None},
        **{"prior": (np.ones(M + 1), np.zeros((C, M + 1))), "w": np.zeros((C, M + 1))},
        "A": KroneckerSumPreconditioner(0.2 * n * np.eye(C), np.ones(M + 1)),
    }


@pytest.mark.parametrize("level", LEVELS)
def test_the_longest_row_is_found(level: str) -> None:
    table, inverse = plain_table(), np.arange(1.0, 6.0)
    for slices in (1, 3):
        found = run(level, table, inverse=inverse, slices=slices)
        assert found is not None and found.longest == pytest.approx((table["X"] ** 2 @ inverse).max(), rel=1e-13)


def assist(work: Any, help_it: Any) -> None:
    """Work with three threads that help."""
    helpers = [Thread(target=help_it) for _ in range(3)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join(10.0)
        assert not helper.is_alive()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("C", [1, 2])
def test_helpers_change_no_bit(level: str, C: int) -> None:
    table = plain_table(1000, 40, C)

    rules = replace(RULES, near=1e-26, steps=60)
    alone = run(level, table, rules, slices=8)
    assert alone is not None and len(alone.trace) > 8
    for _ in range(5):
        found = run(level, table, rules, slices=8, assist=assist)
        assert found is not None and found.w.tolist() == alone.w.tolist()
        assert found.trace.tolist() == alone.trace.tolist()
    whole = run(level, table, rules)
    assert whole is not None
    np.testing.assert_allclose(whole.w, alone.w, rtol=1e-9, atol=1e-10)


def correlated_table(n: int = 700, M: int = 40, C: int = 1) -> dict[str, Any]:
    """Return a table whose columns depend on each other, on scales over two decades."""
    rng = np.random.default_rng(3)
    table = plain_table(n, M, C)
    X = np.cumsum(rng.normal(size=(n, M)), axis=1) + 5.0
    t = (0.3 * (X[:, -1:] - X[:, :1]) * np.arange(C + 1) / C + rng.gumbel(size=(n, C + 1))).argmax(axis=1)
    unit = np.concatenate(([1.0], X.std(axis=0)))
    return table | {
        **{"X": X * np.geomspace(0.1, 10.0, M), "t": t.astype(np.int32), "T": np.eye(C) if C > 1 else None},
        **{"center": X.mean(axis=0) * np.geomspace(0.1, 10.0, M), "measure": np.ones(M + 1)},
        "unit": unit * np.concatenate(([1.0], np.geomspace(0.1, 10.0, M))),
        "prior": (np.concatenate(([0.0], np.full(M, 0.1))), np.zeros((C, M + 1))),
        "A": KroneckerSumPreconditioner(0.2 * n * np.eye(C) + 0.01 * n, np.concatenate(([0.0], np.full(M, 0.1)))),
    }


HESSIANS = replace(RULES, near=1e-14, steps=100, few=4, halvings=1e3, hessians=20, cost=3.0)
NO_HESSIANS = replace(HESSIANS, hessians=0, steps=2000, few=2000)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("C", [1, 3])
@pytest.mark.parametrize("M", [7, 40, 70])
def test_hessians_shorten_a_search_to_the_same_end(level: str, C: int, M: int) -> None:
    table = correlated_table(M=M, C=C)
    slow = run(level, table, NO_HESSIANS)
    fast = run(level, table, HESSIANS)
    assert slow is not None and fast is not None and slow.distances[-1] <= 1.0 and fast.distances[-1] <= 1.0
    assert 2 * len(fast.trace) < len(slow.trace)
    np.testing.assert_allclose(fast.w, slow.w, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("level", LEVELS)
def test_a_weight_that_may_not_move_does_not_with_a_hessian(level: str) -> None:
    table = correlated_table()
    free = np.ones(41)
    free[[0, 5, 40]] = 0.0
    found = run(level, table | {"free": free}, HESSIANS)
    slow = run(level, table | {"free": free}, NO_HESSIANS)
    assert found is not None and slow is not None and not found.w[free == 0.0].any()
    np.testing.assert_allclose(found.w, slow.w, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("level", LEVELS)
def test_a_hessian_that_is_not_definite_is_not_used(level: str) -> None:
    table = plain_table(M=12)
    table["X"][:, 6:] = table["X"][:, :6]
    nothing = np.zeros(13), np.zeros((1, 13))
    found = run(level, table | {"prior": nothing}, replace(HESSIANS, cost=-1e9))
    assert found is not None and np.isfinite(found.w).all() and found.value <= found.trace[0, 0]


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=30, deadline=None)
@given(tables(), st.sampled_from([1, 3]))
def test_the_last_hessian_is_that_of_the_reference(level: str, table: dict[str, Any], slices: int) -> None:
    if len(table["w"]) > 1:
        return
    found = run(level, table, replace(RULES, near=1e-4, steps=200), slices=slices, hessian=True)
    assert found is not None and (found.hessian is None) == (found.distances[-1] > 1.0)
    if found.hessian is None:
        return
    X = np.asarray(table["X"], dtype=np.float64) - table["center"]
    Z, s = np.column_stack([np.ones(len(X)), X]) / table["unit"], 1.0 if table["s"] is None else table["s"]
    y = expit(Z @ found.w + (0.0 if table["offset"] is None else table["offset"][:, 0]))
    H = (Z.T * (y * (1.0 - y) * s)) @ Z + np.diag(table["prior"][0])
    np.testing.assert_allclose(found.hessian, H, rtol=1e-12, atol=1e-12 * np.abs(H).max())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("C", [1, 3])
def test_helpers_change_no_bit_of_hessians(level: str, C: int) -> None:
    table = correlated_table(1500, 50, C)

    alone = run(level, table, HESSIANS, slices=8, hessian=C == 1)
    assert alone is not None and alone.evaluations > len(alone.trace)
    for _ in range(5):
        found = run(level, table, HESSIANS, slices=8, hessian=C == 1, assist=assist)
        assert found is not None and found.w.tolist() == alone.w.tolist()
        assert C > 1 or found.hessian.tolist() == alone.hessian.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("level", LEVELS)
def test_sums_that_are_not_finite_are_left_to_the_caller(level: str) -> None:
    for value in (np.nan, np.inf):
        table = plain_table()
        table["X"][7, 1] = value
        assert run(level, table) is None


@pytest.mark.parametrize("level", LEVELS)
def test_a_search_ends_where_progress_stalls_and_after_its_steps(level: str) -> None:
    table = plain_table(M=30)
    table["X"] *= np.geomspace(1.0, 100.0, 30)  # the preconditioner knows nothing of it
    slow = run(level, table, replace(RULES, few=8, patience=10.0))
    assert slow is not None and slow.distances[-1] > 1.0 and len(slow.trace) < 20
    short = run(level, table, replace(RULES, steps=2))
    assert short is not None and len(short.trace) == 3


@pytest.mark.parametrize("level", LEVELS)
def test_steps_that_are_too_long_are_shortened_and_the_search_is_given_up(level: str) -> None:
    table = plain_table()
    table["A"] = KroneckerSumPreconditioner(np.array([[1e-3]]), np.zeros(6))
    found = run(level, table, replace(RULES, halvings=1.0))
    assert found is not None and found.trace[1, 3] < 0.25 and len(found.trace) == 2
    refused = run(level, table, replace(RULES, smallest=0.5))
    assert refused is not None and len(refused.trace) == 1 and refused.w.tolist() == [0.0] * 6
    assert refused.value == refused.trace[0, 0] and refused.loss == refused.trace[0, 1]


def test_without_a_compiled_kernel_there_is_no_search() -> None:
    assert run("reference", plain_table()) is None
