"""What an objective knows of itself: rounding, slices, bounds of its curvature and of the change of activations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.likelihoods import problem

from oddsmith.engines import MemorySource
from oddsmith.likelihood.coordinates import Coordinates, _spread
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.separation import _Frame, margins
from oddsmith.likelihood.table_sums import in_few_slices
from oddsmith.priors import GaussianPrior
from oddsmith.rows import ColumnRows, SplitRows

EPS = np.finfo(float).eps


def objective(n: int, M: int, K: int = 2, prior: Any = None) -> Any:
    rng = np.random.default_rng([n, M])
    source = MemorySource(rng.normal(size=(n, M)) * 3.0 + 1.0, (np.arange(n) % K).astype(np.int32), K)
    return make_objective(problem(source, prior, np.full(K, n / K), reference=0))[0]


def test_the_rounding_of_a_gradient_grows_with_the_rows() -> None:
    assert [objective(n, 2).rounding for n in (30, 300)] == [240.0 * EPS, 2400.0 * EPS]


@pytest.mark.parametrize(("sums", "slices"), [(0.0, 4), (199.0, 4), (201.0, 2), (1e9, 2)])
def test_a_table_is_read_in_few_slices_where_sums_are_large(sums: float, slices: int) -> None:
    """Four sums may take a tenth of the memory of 1,000 rows of a number; else there are two."""
    rows = SplitRows((ColumnRows((np.zeros(1000),), 1000),))
    source = MemorySource(rows, np.zeros(1000, dtype=np.int32), 2, slice_rows=125)
    assert len(in_few_slices(source, sums).slices()) == slices


@pytest.mark.parametrize("K", [2, 3])
def test_self_concordance_is_that_of_the_longest_row(K: int) -> None:
    f = objective(40, 3, K)
    f.evaluate(np.zeros(f.size))
    Z = (f.source.X - f.center) / f.scale
    longest = 1.0 + (Z**2).sum(axis=1).max()
    assert f.self_concordance == pytest.approx(np.sqrt(longest * (2.0 if K > 2 else 1.0)))


def test_the_bound_of_the_smallest_eigenvalue_is_that_of_two_weights() -> None:
    """Exact for one column: s = 3, c = 1.2, q = 0.7 on top of s v²."""
    stub: Any = SimpleNamespace(penalty=SimpleNamespace(Q=np.array([0.0, 0.7])), shape=(1, 2), all_free=True)
    H = np.array([[3.0, 1.2], [1.2, 1.2**2 / 3.0 + 0.7]])
    assert FoldObjective.eigenvalue_bound(stub, H) == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-12)


def test_column_curvature_is_the_hessian_at_zero_of_independent_columns() -> None:
    """p (1 − p) N between two classes, a third of a row of each class added; and the precision of the prior."""
    f = objective(60, 2, 2, GaussianPrior(2.0))
    B, prior = f.column_curvature()
    assert B == pytest.approx(np.array([[60 * 0.25]]))
    assert prior == pytest.approx(np.array([0.0, *(0.25 / f.scale**2)]))
    three = objective(60, 2, 3)
    assert three.column_curvature()[0] == pytest.approx(60 * (np.eye(2) / 3.0 - 1.0 / 9.0))


def test_the_rounding_of_weights_in_user_units_adds_to_the_gap() -> None:
    """A quarter of the weight times (4 ε)² times the squared size of activation and shift."""
    c = Coordinates(center=np.array([30.0]), scale=np.array([2.0]), contrast=np.array([[0.0], [1.0]]))
    x = np.array([1.0, 4.0])  # W = 2, b = 1 − 60
    shift, activation = 59.0 + 60.0, np.sqrt(1.0 + 8.0) * 4.0
    expected = 0.25 * 7.0 * (4.0 * EPS) ** 2 * (shift + activation) ** 2
    assert c.rounding_gap(x, 7.0, 8.0) == pytest.approx(expected, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(("spread", "expected"), [(3.5 * EPS, 1.0), (4.5 * EPS, 4.5 * EPS)])
def test_a_trace_of_spread_in_a_constant_column_is_none(spread: float, expected: float) -> None:
    assert _spread(np.array([1.0]), np.array([spread**2]), True)[1][0] == pytest.approx(expected)


@pytest.mark.parametrize("size", [0.9e-6, 1.2e-6])
def test_a_direction_of_rounding_size_is_zero(size: float) -> None:
    frame = _Frame(np.zeros((1, 3)), np.zeros(3), np.array([1.0, 2.0, 1.0]), np.ones(3, dtype=bool))
    user = frame.to_user(np.array([[0.0, 8.0, 8.0 * size]]))  # of the largest
    assert user[0].tolist() == [0.0, 4.0, 8.0 * size if size > 1e-6 else 0.0]


@pytest.mark.parametrize("rest", [0.9e-6, 1.3e-6])
def test_an_intercept_that_cancels_is_zero(rest: float) -> None:
    """Its parts are 1 and 1 − 2 · rest: together no more than a millionth of their size, or more."""
    frame = _Frame(np.zeros((1, 2)), np.array([0.0, 1.0]), np.ones(2), np.ones(2, dtype=bool))
    user = frame.to_user(np.array([[1.0, 1.0 - 2.0 * rest]]))
    assert (user[0, 0] == 0.0) == (rest < 1e-6)


def test_margins_are_those_of_the_own_class() -> None:
    A = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, -4.0]])
    assert margins(A, np.array([0, 2, 1], dtype=np.int32)).tolist() == [-1.0, 2.5, -1.0]


@pytest.mark.parametrize("K", [2, 4])
def test_the_change_of_activations_is_the_widest(K: int) -> None:
    f = objective(50, 3, K)
    step = np.linspace(-1.0, 1.0, f.size)
    W, b = f.raw(step)
    A = np.column_stack([np.zeros(50), (f.source.X - f.center) @ W.T + b])
    widest, slack = np.ptp(A, axis=1).max(), 1e-6 * (1.0 + (np.abs(W) @ np.abs(f.center)).max())
    assert f.activation_change(step, 1e3) == pytest.approx(widest + slack, rel=1e-12)
    assert f.activation_change(step, 0.5 * widest) == 0.5 * widest
