"""Columns one after another, their products and the factor of these in C, against their definitions in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.kernel_cases import LEVELS

from oddsmith.engines.memory import assisted
from oddsmith.kernels import native
from oddsmith.kernels.packed_columns import MORE_ROWS, Packed, SupportFactor, Team, form_products, padded


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "count"), [(1, 1), (17, 3), (530, 130)])
def test_products_and_sums_of_columns(level: str, kind: Any, n: int, count: int) -> None:
    rng = np.random.default_rng(n)
    rows, u = rng.normal(size=(count, n + 3)).astype(kind)[:, :n], rng.normal(size=n)
    x, which = rng.normal(size=count) * (rng.random(count) < 0.7), rng.permutation(count)[: count // 2 + 1]
    tolerance = 1e-12 if kind is np.float64 else 1e-5
    whole = rows.astype(np.float64)
    with native.using(level):
        columns = Packed(rows)
        np.testing.assert_allclose(columns.dots(u), whole @ u, atol=tolerance * n)
        np.testing.assert_allclose(columns.dots(u, which), whole[which] @ u, atol=tolerance * n)
        np.testing.assert_allclose(columns.activations(x), x @ whole, atol=tolerance * count)
        some = x[which]
        np.testing.assert_allclose(columns.activations(some, which), some @ whole[which], atol=tolerance * count)


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("n", "count", "first"), [(1, 1, 0), (19, 70, 65), (1030, 131, 0), (64, 130, 64)])
def test_products_between_columns(level: str, centred: bool, n: int, count: int, first: int) -> None:
    """Those before the first are known from a call before; the others are less their means."""
    rng = np.random.default_rng(count)
    data, h = rng.normal(size=(count, n)) + 100.0, rng.uniform(0.01, 0.25, n)
    scaled, G = (
        np.full((count + MORE_ROWS, padded(n)), np.nan, np.float32),
        np.full((count + 2, count + 2), np.nan, np.float32),
    )
    with native.using(level):
        means = [
            form_products(data, np.arange(end), h, scaled, G, start, centred=centred)
            for start, end in ((0, first), (first, count))
        ]
    mean = data @ h / h.sum() if centred else np.zeros(count)
    exact = (data - mean[:, None]) * h @ (data - mean[:, None]).T
    np.testing.assert_allclose(np.concatenate(means), mean, rtol=1e-12)
    np.testing.assert_allclose(G[:count, :count], exact, atol=1e-5 * np.abs(exact).max() + 1e-9)
    assert np.isnan(G[count:]).all() and np.isnan(G[:, count:]).all()


@pytest.mark.parametrize("level", native.available())
def test_a_factor_follows_a_support_that_changes(level: str) -> None:
    """Columns come, go and come back; the factor is made anew where most of its rows stand for nothing."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(150, 300)).astype(np.float32)
    G, factor, sizes = A @ A.T, SupportFactor(), []
    with native.using(level):
        for _ in range(12):
            support, b = np.flatnonzero(rng.random(150) < 0.7), rng.normal(size=150)
            for some in (support, support[::2], support):
                exact = np.linalg.solve(G[np.ix_(some, some)].astype(np.float64), b[some])
                np.testing.assert_allclose(factor.solve(G, some, b[some]), exact, atol=1e-4 * np.abs(exact).max())
                sizes.append(factor.size - len(some))
    assert min(sizes) == 0 and factor.weak == 0
    assert max(sizes) > 0 or level == "reference"  # which factors anew each time


@pytest.mark.parametrize("level", native.available())
def test_a_factor_says_that_columns_hardly_differ(level: str) -> None:
    G, factor = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]], dtype=np.float32), SupportFactor()
    with native.using(level):
        factor.solve(G, np.array([0, 2]), np.ones(2))
        assert factor.weak == 0
        found = factor.solve(G, np.arange(3), np.array([1.0, 1.0, 0.5]))
        assert np.isfinite(found).all() and factor.weak == 1
        factor.clear()
        assert factor.size == 0 and factor.weak == 0


@pytest.mark.parametrize("level", LEVELS)
def test_a_team_changes_no_bit(level: str) -> None:
    rng = np.random.default_rng(1)
    data, h, found = rng.normal(size=(200, 700)), rng.uniform(0.01, 0.25, 700), []
    for threads in (1, 2, 4):
        team, scaled, G = Team(), np.empty((200 + MORE_ROWS, padded(700)), np.float32), np.empty((200, 200), np.float32)
        results: list[Any] = []

        def work(team: Team = team, scaled: Any = scaled, G: Any = G, results: list[Any] = results) -> None:
            with native.using(level):
                for _ in range(20):
                    results[:] = [form_products(data, np.arange(200), h, scaled, G, 0, centred=True, team=team)]
                    results += [Packed(data, team).dots(h), Packed(scaled[:200], team).activations(data[:, 0])]
                    results += [SupportFactor(team=team).solve(G, np.arange(200), data[:, 1])]
            team.end()

        assisted(work, team.help, threads)
        found.append([*results, G])
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
