"""A first pass from part to part ends where Newton's method on all rows ends, whatever the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith import LogisticRegression
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.models.likelihood import Problem, make_objective
from oddsmith.models.objective import FoldObjective
from oddsmith.priors import GaussianPrior
from oddsmith.solvers import sampled
from oddsmith.solvers.growing import LAST, Plan, rows_to_begin

N, D = 800_000, 2


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What passes in parts gave: a point, and whether it is another than that at which they began."""
    given: list[Any] = []
    real = sampled.grown

    def grown(objective: Any, plan: Plan, sample: Any, guess: Any, factor: Any) -> Any:
        found = real(objective, plan, sample, guess, factor)
        given.append(None if found is None else (found[0], found[0] is not guess.w))
        return found

    monkeypatch.setattr(sampled, "grown", grown)
    return given


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, D)) * [1.0, 30.0] + [0.0, 400.0]
    a = X[:, 0] - (X[:, 1] - 400.0) / 60.0 - 0.7
    return X, (rng.random(N) < 1.0 / (1.0 + np.exp(-a))).astype(int)


def objective(model: Any, X: Any, y: Any, sigma: float | None) -> float:
    loss = -model.predict_log_proba(X)[np.arange(len(y)), y]
    return float(loss.sum() + (0.0 if sigma is None else 0.5 * (model.coef_**2).sum() / sigma**2))


def same(X: Any, y: Any, sigma: float | None = 1.0) -> LogisticRegression:
    """Hold a fit against Newton's method on all rows."""
    fit = LogisticRegression(sigma).fit(X, y)
    exact = LogisticRegression(sigma, solver="newton").fit(X, y)
    values = [objective(model, X, y, sigma) for model in (fit, exact)]
    assert fit.certificate_.converged and fit.certificate_.rigorous
    gap, noise = values[0] - values[1], 1e-13 * len(X)
    assert gap <= fit.certificate_.gap + noise
    assert gap <= 1e-8 * values[1] + noise
    if sigma is None:
        np.testing.assert_allclose(fit.coef_, exact.coef_, rtol=1e-8)
    return fit


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_passes_are_enough(table: Any, points: list[Any], order: Any, dtype: Any) -> None:
    X, y = table
    fit = same(np.asarray(X, dtype=dtype, order=order), y)
    assert points[0][1]
    assert fit.certificate_.passes == 2


def test_maximum_likelihood_to_all_digits(table: Any, points: list[Any]) -> None:
    fit = same(*table, sigma=None)
    assert points[0][1]
    assert fit.certificate_.passes <= 4


@pytest.mark.parametrize("by", ["label", "column", "activation"])
def test_rows_in_order(table: Any, points: list[Any], by: str) -> None:
    X, y = table
    keys = {"label": y, "column": X[:, 1], "activation": X[:, 0] - X[:, 1] / 60.0 + 1e-3 * y}
    rows = np.argsort(keys[by], kind="stable")
    fit = same(X[rows], y[rows])
    assert points and fit.certificate_.passes <= 4


def test_rows_that_change_with_time(points: list[Any]) -> None:
    """Weights that turn round in the middle of the data: each part has both halves."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D))
    a = X[:, 0] * np.where(np.arange(N) < N // 2, 3.0, -1.0)
    fit = same(X, (rng.random(N) < 1.0 / (1.0 + np.exp(-a))).astype(int))
    assert points[0][1] and fit.certificate_.passes <= 3


def test_neighbours_that_are_copies(table: Any, points: list[Any]) -> None:
    """Forty different rows, twenty thousand times each: parts of a few stretches do not show them all."""
    X, y = table
    rows = np.repeat(np.arange(40), N // 40)
    fit = same(X[rows], y[rows])
    assert points and fit.certificate_.passes <= 6


def test_a_few_rows_that_outweigh_others(table: Any, points: list[Any]) -> None:
    X, y = (part.copy() for part in table)
    X[N - 3 :, 0], y[N - 3 :] = 1e6, 0
    fit = same(X, y)
    assert points == [None] or not points[0][1]
    assert fit.certificate_.converged


def test_a_value_that_is_not_finite_is_named(table: Any) -> None:
    X, y = (part.copy() for part in table)
    X[N - 7, 1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        LogisticRegression(1.0).fit(X, y)


def test_same_bits_on_one_thread_or_two(table: Any) -> None:
    one, two = (LogisticRegression(1.0, threads=n).fit(*table) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)


@given(st.integers(0, 5000), st.lists(st.floats(0.001, 0.999), max_size=6, unique=True).map(sorted), st.integers(1, 9))
def test_parts_are_all_rows_once(n: int, ends: list[float], D: int) -> None:
    source = MemorySource(np.zeros((n, D)), np.zeros(n, dtype=np.int32), 2)
    parts = [*source.parts((*ends, 1.0))]
    rows = np.concatenate([np.arange(*piece) for part in parts for piece in part.slices()] or [np.arange(0)])
    assert np.array_equal(np.sort(rows), np.arange(n))
    assert sum(part.n_present for part in parts) == n


def test_parts_come_from_everywhere() -> None:
    source = MemorySource(np.zeros((2_000_000, 20)), np.zeros(2_000_000, dtype=np.int32), 2)
    for part, share in zip(source.parts((0.02, 0.1, 1.0)), (0.02, 0.08, 0.9), strict=True):
        assert part.n_present == pytest.approx(share * source.n_rows, rel=1e-3)
        places = np.array([start for start, _ in part.slices()]) / source.n_rows
        assert np.diff(places).max() <= 0.13 and places[0] < 0.13 and places[-1] > 0.86


@given(st.floats(1e-4, 0.05), st.floats(0.01, 0.35))
def test_a_plan_ends_with_all_rows(sample: float, formed: float) -> None:
    plan = Plan.growing(sample, formed)
    shares = np.diff([0.0, *plan.ends])
    assert plan.ends[-1] == 1.0 and (shares > 0.0).all()
    assert shares[plan.formed] == pytest.approx(formed, abs=1e-5)
    assert all(end <= LAST + formed for end in plan.ends[:-1])


def test_a_plan_where_it_pays() -> None:
    """Of few rows, many weights, or rows with weights, the first pass is like any other."""

    def plan(n: int, D: int, s: Any = None) -> Plan | None:
        # One row, seen n times over: a plan asks for the size of the rows, not for what they hold.
        X = np.broadcast_to(np.zeros(D), (n, D))
        source = MemorySource(X, np.zeros(n, dtype=np.int32), 2, s)
        about = Problem(MemoryEngine(), source, GaussianPrior(1.0), True, None, None, 1e-8, 9, np.array([n / 2, n / 2]))
        whole: FoldObjective = make_objective(about)[0]
        assert rows_to_begin(whole) <= n
        return Plan.of(whole)

    assert plan(2_000_000, 20) is not None
    assert plan(3_000_000, 40) is not None
    assert plan(1_000_000, 20) is None
    assert plan(2_000_000, 100) is None
    assert plan(2_000_000, 20, np.ones(2_000_000)) is None
