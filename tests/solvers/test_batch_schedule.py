"""A first pass from part to part ends where Newton's method on all rows ends, whatever the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.likelihoods import at_the_optimum

from oddsmith import LogisticRegression
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.engines.memory import STRETCHES
from oddsmith.kernels import native
from oddsmith.solvers import subsampled as sampled
from oddsmith.solvers.batch_schedule import BatchSchedule
from oddsmith.solvers.policy import POLICY
from oddsmith.statistics import Counts, Curvature, CurvatureParams

N, D = 800_000, 2


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was found from part to part, or None where parts were unlike the sample."""
    given: list[Any] = []
    real = sampled.progressive_batches

    def progressive_batches(objective: Any, plan: BatchSchedule, start: Any) -> Any:
        given.append(real(objective, plan, start))
        return given[-1]

    monkeypatch.setattr(sampled, "progressive_batches", progressive_batches)
    return given


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, D)) * [1.0, 30.0] + [0.0, 400.0]
    a = X[:, 0] - (X[:, 1] - 400.0) / 60.0 - 0.7
    return X, (rng.random(N) < 1.0 / (1.0 + np.exp(-a))).astype(int)


def same(X: Any, y: Any, sigma: float | None = 1.0) -> LogisticRegression:
    """Hold a fit against Newton's method on all rows."""
    fit, exact = at_the_optimum(X, y, sigma, 1e-8)
    if sigma is None:
        np.testing.assert_allclose(fit.coef_, exact.coef_, rtol=1e-8)
    return fit


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_passes_are_enough(table: Any, points: list[Any], dtype: Any) -> None:
    X, y = table
    fit = same(X.astype(dtype), y)
    assert len(points) == 2 and None not in points
    assert fit.certificate_.passes == 2


def test_columns_in_one_piece(table: Any, points: list[Any]) -> None:
    """Parts are runs of rows: of other orders a copy of a sample is the start."""
    X, y = table
    same(np.asfortranarray(X), y)
    assert not points


@pytest.mark.parametrize("n", [75_001, 100_063])
def test_the_first_parts_alone(points: list[Any], n: int) -> None:
    """Of fewer rows only the sample is made of parts."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 20))
    same(X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int))
    assert len(points) == 1 and points[0] is not None


def test_maximum_likelihood_to_all_digits(table: Any, points: list[Any]) -> None:
    fit = same(*table, sigma=None)
    assert None not in points
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
    assert None not in points and fit.certificate_.passes <= 3


def test_neighbours_that_are_copies(table: Any, points: list[Any]) -> None:
    """A row, and a hundred like it: parts of a few stretches show fewer of them than a sample does."""
    X, y = table
    rows = np.repeat(np.arange(N // 100), 100)
    fit = same(X[rows], y[rows])
    assert points == [None] and fit.certificate_.passes <= 4


@pytest.mark.parametrize("prior", [1.0, None])
def test_rows_whose_neighbours_lack_a_column(points: list[Any], prior: float | None) -> None:
    """The gradients of the first parts are as they should be, and their Hessian has nothing of the column."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N // 4, 10))
    place = np.arange(len(X)) % (len(X) // STRETCHES)
    X[place <= place.max() // 2, 3] = 0.0
    fit = same(X, (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int), prior)
    assert points == [None] and fit.certificate_.passes <= 6


def test_a_few_rows_that_outweigh_others(table: Any, points: list[Any]) -> None:
    X, y = (part.copy() for part in table)
    X[N - 3 :, 0], y[N - 3 :] = 1e6, 0
    fit = same(X, y)
    assert points[-1] is None
    assert fit.certificate_.converged


def test_a_value_that_is_not_finite_is_named(table: Any) -> None:
    X, y = (part.copy() for part in table)
    X[N - 7, 1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        LogisticRegression(1.0).fit(X, y)


def test_same_bits_on_one_thread_or_two(table: Any) -> None:
    one, two = (LogisticRegression(1.0, threads=n).fit(*table) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)


@given(
    st.integers(0, 5000), st.lists(st.floats(0.001, 0.999), max_size=6, unique=True).map(sorted), st.integers(1, 300)
)
def test_parts_are_all_rows_once(n: int, ends: list[float], D: int) -> None:
    source = MemorySource(np.zeros((n, D)), np.zeros(n, dtype=np.int32), 2)
    parts = [*source.parts((*ends, 1.0))]
    rows = np.concatenate([np.arange(*run) for part in parts for run in part.runs()] or [np.arange(0)])
    assert np.array_equal(np.sort(rows), np.arange(n))
    for part in parts:
        assert part.n_present == sum(part.block(*rows).n_rows for rows in part.slices())
        assert part.n_present == sum(stop - start for start, stop in part.runs())


@given(
    st.integers(1, 2000), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 9), st.booleans(), st.integers(0, 9)
)
def test_sums_over_a_part_are_those_over_its_rows(
    n: int, one: float, other: float, D: int, single: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, t = rng.normal(size=(n, D)).astype(np.float32 if single else np.float64), rng.integers(0, 2, n, dtype=np.int32)
    offset = rng.normal(size=(n, 1)) if seed % 2 else None
    source = MemorySource(X, t, 2, None, offset)
    W, b, center = rng.normal(size=(1, D)), rng.normal(size=1), rng.normal(size=D)
    for part in source.parts((min(one, other), max(one, other), 1.0)):
        rows = np.concatenate([np.arange(*run) for run in part.runs()] or [np.arange(0)])
        plain = MemorySource(X[rows], t[rows], 2, None, None if offset is None else offset[rows])
        for order in (1, 2):
            params = CurvatureParams(W=W, b=b, center=center, order=order, inverse=np.ones(D))
            sums, wanted = (MemoryEngine().fold(Curvature, rows, params) for rows in (part, plain))
            assert sums.rows == wanted.rows and sums.longest == pytest.approx(wanted.longest, rel=1e-12)
            assert sums.value == pytest.approx(wanted.value, rel=1e-12)
            np.testing.assert_allclose(sums.gradient, wanted.gradient, rtol=1e-11, atol=1e-11 * n)
            if order == 2:
                np.testing.assert_allclose(sums.hessian, wanted.hessian, rtol=1e-11, atol=1e-11 * n)


@pytest.mark.parametrize("level", native.available())
def test_other_sums_count_the_rows_of_a_part_alone(level: str) -> None:
    """Sums of several classes are not read in place, and must not count rows that are between runs."""
    rng = np.random.default_rng(0)
    source = MemorySource(rng.normal(size=(640, 3)), rng.integers(0, 3, 640, dtype=np.int32), 3)
    part = next(source.parts((0.5, 1.0)))
    rows = np.concatenate([np.arange(*run) for run in part.runs()])
    params = CurvatureParams(W=rng.normal(size=(2, 3)), b=np.zeros(2), center=np.zeros(3))
    with native.using(level):
        found, expected = (MemoryEngine().fold(Curvature, some, params) for some in (part, source.take(rows)))
    assert found.rows == expected.rows == len(rows)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-12)
    np.testing.assert_allclose(found.hessian, expected.hessian, rtol=1e-12)
    counts = MemoryEngine().fold(Counts, part, part.shape)
    assert counts.weight.tolist() == np.bincount(source.t[rows], minlength=3).tolist()


@given(st.floats(1e-4, 0.05), st.floats(0.01, 0.35))
def test_a_plan_ends_with_all_rows(sample: float, formed: float) -> None:
    plan = BatchSchedule.growing(sample, formed, whole=True)
    shares = np.diff([0.0, *plan.ends])
    assert plan.ends[-1] == 1.0 and (shares > 0.0).all()
    assert shares[plan.formed] == pytest.approx(formed, abs=1e-5)
    assert all(end <= POLICY.batch_last + formed for end in plan.ends[:-1])


def test_a_plan_where_it_pays() -> None:
    """Of few rows, or many weights, the first pass is like any other."""

    def plan(n: int, D: int) -> BatchSchedule | None:
        return BatchSchedule.whole_pass(n, D + 1, 0.01, POLICY)

    assert plan(2_000_000, 20) is not None
    assert plan(4_000_000, 40) is not None
    assert plan(1_000_000, 20) is None
    assert plan(2_000_000, 100) is None
