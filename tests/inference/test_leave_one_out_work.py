"""How much work leave-one-out does: which rows it follows, how often it evaluates, what it holds at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oddsmith import LogisticRegression
from oddsmith.engines import MemorySource
from oddsmith.inference import leave_one_out as module
from oddsmith.inference.leave_one_out import LeaveOutObjective, leave_one_out, leave_out, minimise_each
from oddsmith.losses import row_losses
from oddsmith.statistics.rowwise import WeightPoint


class StoppedError(Exception):
    """Enough was seen."""


def data(n: int, D: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([n, D])
    X = rng.normal(size=(n, D)) * [1.0, 5.0, 0.2][:D]
    return X, (X @ [2.0, -0.5, 2.0][:D] + rng.logistic(size=n) > 0).astype(int)


def test_rows_that_move_the_weights_far_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose squared distance is above 0.05; the others have the Newton step's prediction."""
    X, y = data(60, 3)
    model = LogisticRegression(3.0).fit(X, y)
    followed: list[int] = []
    evaluate = LeaveOutObjective.evaluate

    def noted(self: Any, W: Any) -> Any:
        followed.append(len(W))
        return evaluate(self, W)

    monkeypatch.setattr(LeaveOutObjective, "evaluate", noted)
    found = model.leave_one_out(X, y)
    distance = np.sort(4.0 * found.influence)
    assert followed[0] == int((distance > 0.05).sum()) and (distance > 0.065).sum() < followed[0]
    assert followed == [13, 13, 13, 13, 1, 1]


def test_a_search_evaluates_fifty_times_and_remembers_twelve_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations, remembered = [], []
    two_loop = module.two_loop

    def noted(G: Any, pairs: Any, *more: Any, **how: Any) -> Any:
        remembered.append(len(pairs))
        return two_loop(G, pairs, *more, **how)

    def evaluate(X: Any) -> Any:
        evaluations.append(len(X))
        k = len(evaluations)
        return np.full(len(X), 1e6 - k), np.full(X.shape, 1.0 + 1.0 / k)

    monkeypatch.setattr(module, "two_loop", noted)
    stub: Any = SimpleNamespace(at=SimpleNamespace(x=np.zeros((1, 2))), rows=np.arange(3), evaluate=evaluate)
    stub.solve = lambda G: 1e-3 * G
    stub.take = lambda on: stub
    minimise_each(stub)
    assert len(evaluations) == 51 and max(remembered) == 13


@pytest.mark.parametrize(("slope", "evaluations"), [(0.9e-8, 1), (1.2e-8, 51)])
def test_a_row_has_arrived_where_its_decrement_is_small(slope: float, evaluations: int) -> None:
    seen: list[int] = []

    def evaluate(X: Any) -> Any:
        seen.append(1)
        return np.full(1, -float(len(seen))), np.full(X.shape, np.sqrt(slope))

    stub: Any = SimpleNamespace(at=SimpleNamespace(x=np.zeros((1, 1))), rows=np.arange(1), evaluate=evaluate)
    stub.solve, stub.take = lambda G: G + 0.0, lambda on: stub
    minimise_each(stub)
    assert len(seen) == evaluations


@pytest.mark.parametrize(("fall", "step"), [(0.9e-4, 0.5), (1.2e-4, 1.0)])
def test_a_step_is_halved_until_the_loss_falls_enough(fall: float, step: float) -> None:
    """Of a slope of one; a fall is at least 1e-4 of it."""
    tried: list[float] = []

    def evaluate(X: Any) -> Any:
        tried.append(float(X[0, 0]))
        return np.array([1e-3 - (fall if len(tried) > 1 else 0.0)]), np.ones((1, 1))

    stub: Any = SimpleNamespace(at=SimpleNamespace(x=np.zeros((1, 1))), rows=np.arange(1), evaluate=evaluate)
    stub.solve, stub.take = lambda G: G + 0.0, lambda on: stub
    minimise_each(stub)
    assert tried[1] == -1.0 and tried[2] == (-2.0 if step == 1.0 else -0.5)


@pytest.mark.parametrize(("left", "possible"), [(0.9e-9, False), (1.2e-9, True)])
@pytest.mark.parametrize("C", [1, 2])
def test_a_row_that_determines_a_weight_alone(left: float, possible: bool, C: int) -> None:
    """A quarter of the variance (2/9 and its cross terms, of three classes) is its leverage."""
    if C == 1:
        B = np.array([[[4.0 * (1.0 - left)]]])
    else:
        R = np.eye(2) / 3.0 - 1.0 / 9.0
        B = np.linalg.solve(R, np.diag([1.0 - left, 0.0]))[None]
    *_, found = leave_out(row_losses(np.zeros((1, C)), np.array([1]), None), B, np.ones(1))
    assert found.tolist() == [possible]


def test_parts_of_a_pass_hold_two_million_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    monkeypatch.setattr(LeaveOutObjective, "_add", lambda self, tile, rest, W, part, value, G: parts.append(len(part)))
    n = 4096
    source = MemorySource(np.zeros((n, 1)), (np.arange(n) % 2).astype(np.int32), 2)
    at = WeightPoint(x=np.zeros((1, 2)), center=np.zeros(1), scale=np.ones(1), T=np.eye(1), link=None)
    f = LeaveOutObjective(
        source=source, at=at, penalty=None, S=np.eye(2), rows=np.arange(1100), Z=np.zeros((1100, 2)), out=np.ones(1100),
        K=np.zeros((1100, 1, 1)),
    )  # fmt: skip
    f.evaluate(np.zeros((1100, 2)))
    assert parts == [550, 550]


def test_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """2e8 products at most: of 40,000 rows with two weights 2,500 are followed, and one more."""
    n = 40_000
    source = MemorySource(np.zeros((n, 1)), (np.arange(n) % 2).astype(np.int32), 2)
    at = WeightPoint(x=np.zeros((1, 2)), center=np.zeros(1), scale=np.ones(1), T=np.eye(1), link=None)
    followed: list[int] = []

    def refined(source: Any, at: Any, S: Any, penalty: Any, far: Any) -> Any:
        followed.append(len(far))
        raise StoppedError

    monkeypatch.setattr(module, "_refined", refined)
    with pytest.raises(StoppedError):
        leave_one_out(source, at, np.diag([0.5, 0.5]), 2)
    assert followed == [2501]
