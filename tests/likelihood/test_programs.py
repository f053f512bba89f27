"""The linear programs behind separation: how many, how large, at what price; and the barrier of bounded links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood import barrier, separation
from oddsmith.likelihood.barrier import BARRIERS, Barrier, feasible_start
from oddsmith.links import LINKS


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any, Any]]:
    """The prices, rows and answer of every linear program."""
    found: list[tuple[Any, Any, Any]] = []
    solve = separation.optimize.linprog

    def noted(cost: Any, **given: Any) -> Any:
        answer = solve(cost, **given)
        found.append((np.array(cost), given, answer))
        return answer

    monkeypatch.setattr(separation.optimize, "linprog", noted)
    return found


def rows(n: int, D: int, K: int = 2) -> tuple[Any, Any]:
    X = np.random.default_rng([n, D]).normal(size=(n, D))
    t = np.clip(np.floor(X[:, 0] + 0.5 * K), 0, K - 1).astype(np.int32)
    return np.column_stack([np.ones(n), X]), t


def test_columns_that_are_not_needed_become_dear(programs: list[tuple[Any, Any, Any]]) -> None:
    """One program finds what can be separated, four take the fewest columns: the intercept is as good as free."""
    Z, t = rows(40, 3)
    D = separation._linear_program(Z, t, 2)
    assert D is not None and np.abs(D[0, 1]) > 0.0 and np.abs(D[0, 2:]).max() < 1e-9
    assert len(programs) == 5
    _, given, _ = programs[0]
    assert given["bounds"][0].tolist() == [-1e5, 1e5] and given["bounds"][-1].tolist() == [0.0, 1.0]
    last = programs[-1][0]
    assert len(last) == 8 and last[:4] == pytest.approx(last[4:])
    size = np.abs(programs[-2][2].x[:4] - programs[-2][2].x[4:])
    assert last[1] == pytest.approx(1.0 / 1.001) and last[2:4] == pytest.approx([1000.0, 1000.0])
    assert last[0] == pytest.approx(1e-3 / (size[0] / size.max() + 1e-3))


@pytest.mark.parametrize(("n", "K", "margins"), [(1500, 2, 1500), (3000, 2, 2000), (3000, 3, 2000), (3000, 12, 2200)])
def test_a_program_begins_with_two_thousand_margins(
    n: int, K: int, margins: int, programs: list[tuple[Any, Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separation, "_linear_program", lambda Z, t, K: programs.append((len(Z) * (K - 1), 0, 0)))
    Z, t = rows(n, 1, K)
    separation._direction(Z, t, K)
    assert programs[0][0] == margins


def test_rows_on_the_boundary_are_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9,000 rows with a margin of zero 2,000 are added at a time, as long as any might be separated."""
    sizes: list[int] = []

    def program(Z: Any, t: Any, K: int) -> Any:
        sizes.append(len(Z))
        return np.array([[0.0, 1.0]])

    monkeypatch.setattr(separation, "_linear_program", program)
    Z, t = rows(9000, 1)
    Z[:, 1], t = np.where(np.arange(9000) % 10, 0.0, np.where(t == 1, 1.0, -1.0)), np.where(t == 1, 1, 0)
    found = separation._direction(Z, t.astype(np.int32), 2)
    assert found is not None and not found[1] and sizes == [2000, 4000, 6000]


@pytest.mark.parametrize(("margin", "found"), [(0.9e-5, False), (1.2e-5, True)])
def test_a_margin_is_more_than_the_rounding_of_a_program(
    margin: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directions are no longer than 1e5, so a smaller one is rounding."""
    Z, t = rows(6, 1)
    answers = [SimpleNamespace(x=np.concatenate([np.ones(2), np.full(6, margin)])), SimpleNamespace(x=None)]
    monkeypatch.setattr(separation.optimize, "linprog", lambda *given, **more: answers.pop(0))
    answer = separation._linear_program(Z, t, 2)
    assert answer is None if not found else answer[0].tolist() == pytest.approx([1.0 / margin] * 2)


@pytest.mark.parametrize("name", ["log", "identity"])
def test_the_derivatives_of_a_barrier_equal_its_differences(name: str) -> None:
    link, h = Barrier(LINKS[name], 0.3), 1e-5
    a = np.array([-2.0, -0.3]) if name == "log" else np.array([0.2, 0.9])
    for k in range(2):
        ends = [link.log_probability(a + sign * h)[k] for sign in (1.0, -1.0)]
        np.testing.assert_allclose(link.score(a)[k], (ends[0] - ends[1]) / (2.0 * h), rtol=1e-6, atol=1e-8)
        slopes = [link.score(a + sign * h)[k] for sign in (1.0, -1.0)]
        np.testing.assert_allclose(
            link.score_derivative(a)[k], (slopes[0] - slopes[1]) / (2.0 * h), rtol=1e-6, atol=1e-8
        )
    distance = np.log(-a) if name == "log" else np.log(a) + np.log(1.0 - a)
    np.testing.assert_allclose(link.log_probability(a)[0], LINKS[name].log_probability(a)[0] + 0.3 * distance)


def test_barriers_fall_by_tens_to_a_ten_billionth() -> None:
    assert len(BARRIERS) == 11 and BARRIERS[0] == 1.0 and BARRIERS[-1] == pytest.approx(1e-10)


@pytest.mark.parametrize(("rows", "refused"), [(199_000, False), (201_000, True)])
def test_a_start_is_looked_for_among_twenty_million_numbers(
    rows: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = SimpleNamespace(
        n_rows=rows, n_columns=100, s=None, offset=None, Phi=SimpleNamespace(dense=lambda: np.ones((2, 1)))
    )
    source = SimpleNamespace(n_rows=rows, block=lambda first, last: block)
    stated: Any = SimpleNamespace(link=LINKS["log"], memory_source=source, intercept=True)
    block.Phi = SimpleNamespace(dense=lambda: np.ones((rows, 1)) if refused else np.ones((rows, 1))[:])
    monkeypatch.setattr(
        barrier.optimize, "linprog", lambda *given, **more: SimpleNamespace(x=np.array([-1.0, 0.0, 0.5]))
    )
    if refused:
        with pytest.raises(InvalidInputError, match="too many to look for one"):
            feasible_start(stated)
    else:
        coef, intercept = feasible_start(stated)
        assert coef.tolist() == [[0.0]] and intercept.tolist() == [-1.0]


def test_margins_are_those_of_every_row_against_every_other_class() -> None:
    Z, t = rows(30, 2, 4)
    W = np.random.default_rng(0).normal(size=(3, Z.shape[1]))
    A = np.column_stack([np.zeros(30), Z @ W.T])
    pairs = [(n, k) for n in range(30) for k in range(4) if k != t[n]]
    expected = sorted(A[n, t[n]] - A[n, k] for n, k in pairs)
    matrix = separation._margin_matrix(Z, t, 4)
    assert matrix.nnz <= 2 * len(pairs) * Z.shape[1]
    np.testing.assert_allclose(np.sort(matrix @ W.ravel()), expected, rtol=1e-12)


@pytest.mark.parametrize("K", [30, 120])
def test_many_classes_are_tried_one_by_one(K: int, programs: list[tuple[Any, Any, Any]]) -> None:
    """A program of all margins of 120 classes would take half a minute and a gigabyte."""
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(300, 2)), np.append(np.arange(K), rng.integers(0, K - 1, 300 - K)).astype(np.int32)
    X[t == K - 1] = [9.0, 0.0]  # the last class has one row, and that is far out
    found = separation.separating_direction(
        X, t, K, fit_intercept=True, weights=(np.zeros((K - 1, 2)), np.zeros(K - 1))
    )
    assert found is not None and not found[1] and max(given["A_ub"].shape[0] for _, given, _ in programs) <= 300
    margin = separation.margins(X @ found[0][:, 1:].T + found[0][:, 0], t)
    assert margin.min() > -1e-6 and margin[K - 1] > 0.5


def test_overlap_of_very_many_classes_is_looked_for_only_if_asked(programs: list[tuple[Any, Any, Any]]) -> None:
    rng = np.random.default_rng(0)
    X, t = np.round(rng.normal(size=(400, 1))), np.arange(400, dtype=np.int32) % 80
    X[:80] = [5.0]
    X[80:160] = [-5.0]
    weights = (np.zeros((79, 1)), np.zeros(79))
    assert separation.separating_direction(X, t, 80, fit_intercept=True, weights=weights) is None
    assert max(given["A_ub"].shape[0] for _, given, _ in programs) <= 400
