"""Sums over rows: what is read at once, where another way is taken, and sums of inference against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from oddsmith.block import Block
from oddsmith.links import LINKS
from oddsmith.statistic import Shape
from oddsmith.statistics import gram, moments
from oddsmith.statistics.gram import Gram, typical_row
from oddsmith.statistics.moments import Moments, MomentsParams
from oddsmith.statistics.rowwise import WeightPoint, tiles
from oddsmith.statistics.scores import LeverageParams, LeverageSlope, ScoreScatter
from oddsmith.statistics.tiles import sorted_tiles, sums_by_class


def block(X: Any, t: Any = None, s: Any = None) -> Block:
    return Block(X, np.zeros(X.shape[0], dtype=np.int32) if t is None else t, s)


@pytest.mark.parametrize(("M", "rows"), [(100, [1310, 1310, 380]), (1000, [256] * 11 + [184])])
def test_a_tile_of_rows_holds_a_megabyte(M: int, rows: list[int]) -> None:
    at = WeightPoint(x=np.zeros((1, M + 1)), center=np.zeros(M), scale=np.ones(M), T=np.ones((1, 1)))
    assert [len(tile.Z) for tile in tiles(block(np.zeros((3000, M))), at)] == rows


@pytest.mark.parametrize(("M", "rows"), [(100, [2621, 379]), (5000, [64, 64, 22])])
def test_a_tile_of_classes_holds_two_megabytes(M: int, rows: list[int]) -> None:
    assert [len(tile.Z) for tile in sorted_tiles(block(np.zeros((sum(rows), M))), 1)] == rows


@pytest.mark.parametrize(("M", "rows"), [(100, [1296, 1296, 408]), (700, [256, 256, 88])])
def test_a_tile_of_a_gram_matrix_holds_a_megabyte(M: int, rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(gram, "sums_by_class", lambda Z, t, s, K: (seen.append(len(Z)), sums_by_class(Z, t, s, K))[1])
    Gram.of(block(np.ones((sum(rows), M))), Shape(M, 1))
    assert seen == rows


@pytest.mark.parametrize(("share", "way"), [(0.09, "_sparse_sums"), (0.12, "_dense_sums")])
def test_rows_with_a_tenth_of_non_zeros_are_made_dense(share: float, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    for name in ("_sparse_sums", "_dense_sums"):
        inner = getattr(gram, name)
        monkeypatch.setattr(gram, name, lambda *given, name=name, inner=inner: (taken.append(name), inner(*given))[1])
    X = np.zeros((100, 10))
    X.flat[: int(1000 * share)] = 3.0
    found = Gram.of(block(sparse.csr_array(X)), Shape(10, 1))
    assert taken == [way]
    np.testing.assert_allclose(found.PhiPhi, 100 * np.cov(X.T, ddof=0), atol=1e-9)


@pytest.mark.parametrize(
    ("column", "typical"),
    [
        ([-3, -2, 1, 2, 3, 4, 5, 6], 3.0),  # the lower quartile is above zero
        ([-3, -2, -1, 2, 3, 4, 5, 6], 0.0),
        ([-6, -5, -4, -3, -2, -1, 2, 3], -2.0),
        ([-6, -5, -4, -3, -2, 1, 2, 3], 0.0),
    ],
)
def test_a_typical_row_is_zero_between_the_quartiles_and_else_the_median(column: list[float], typical: float) -> None:
    assert typical_row(block(np.array(column, dtype=float)[:, None])).tolist() == [typical]


def test_a_typical_row_looks_at_255_rows() -> None:
    """Of 600 every third."""
    column = np.where(np.arange(600) % 3 == 0, 5.0, 9.0)
    assert typical_row(block(column[:, None])).tolist() == [5.0]
    assert typical_row(block(column[:254, None])).tolist() == [9.0]


@pytest.mark.parametrize(("n", "passes"), [(2048, 2), (2049, 1)])
def test_a_small_block_is_centred_exactly(n: int, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 32,768 numbers, of 16 columns."""
    made: list[int] = []
    inner = moments._Sums.__init__
    monkeypatch.setattr(moments._Sums, "__init__", lambda self, *given: (made.append(1), inner(self, *given))[1])
    X = np.random.default_rng(0).normal(size=(n, 16))
    X[0] = 0.0
    Moments.of(block(X), MomentsParams(1))
    assert len(made) == passes


@pytest.mark.parametrize(("away", "far"), [(8.0, False), (12.0, True)])
def test_rows_are_centred_again_where_the_mean_explains_their_squares(away: float, far: bool) -> None:
    """a² / (a² + 1) is 0.985, and 0.993."""
    X = away + np.tile([-1.0, 1.0], 500)[:, None]
    X[0] = 0.0
    assert moments._Sums(block(X), MomentsParams(1)).is_far() == far


@pytest.mark.parametrize(("M", "compiled"), [(256, True), (257, False)])
def test_products_of_many_columns_are_those_of_blas(M: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(moments, "add_class_sums", lambda *given: bool(asked.append(1)))
    Moments.of(block(np.zeros((3, M))), MomentsParams(1))
    assert bool(asked) == compiled


def information(at: WeightPoint, X: Any, s: Any, x: Any) -> Any:
    """Σ s V(a) ⊗ z zᵀ with the expected curvature V of a softmax, or of a link."""
    Z = np.column_stack([np.ones(len(X)), (X - at.center) / at.scale])
    A = Z @ (at.T @ x).T
    C = A.shape[1]
    H = np.zeros((x.size, x.size))
    for z, a, weight in zip(Z, A, s, strict=True):
        if at.link is None:
            p = np.exp(np.append(0.0, a) - np.logaddexp.reduce(np.append(0.0, a)))[1:]
            V = np.diag(p) - np.outer(p, p)
        else:
            f = at.link.inverse(a)
            V = np.diag(at.link.derivative(a) ** 2 / (f * (1.0 - f)))
        H += weight * np.kron(at.T.T @ V @ at.T, np.outer(z, z))
    assert C == len(V)
    return H


@pytest.mark.parametrize("case", ["two classes", "three classes", "probit", "cloglog"])
def test_the_slope_of_the_determinant_equals_its_differences(case: str) -> None:
    rng = np.random.default_rng(len(case))
    K = 3 if case == "three classes" else 2
    X, t, s = rng.normal(size=(40, 2)) + 1.0, rng.integers(0, K, 40).astype(np.int32), rng.uniform(0.5, 2.0, 40)
    at = WeightPoint(
        x=rng.normal(size=(K - 1, 3)) * 0.5,
        center=np.array([0.5, 1.0]),
        scale=np.array([2.0, 0.7]),
        T=np.eye(K - 1) + (0.2 * rng.normal(size=(K - 1, K - 1)) if K > 2 else 0.0),
        link=LINKS[case] if case in LINKS else None,
    )
    S = np.linalg.inv(information(at, X, s, at.x))
    found = LeverageSlope.of(block(X, t, s), LeverageParams(at, S)).slope
    expected = np.empty_like(at.x)
    for place in np.ndindex(*at.x.shape):
        step = np.zeros_like(at.x)
        step[place] = 1e-5
        ends = [np.linalg.slogdet(information(at, X, s, at.x + sign * step))[1] for sign in (1.0, -1.0)]
        expected[place] = 0.5 * (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_the_scatter_of_scores_equals_its_formula(K: int) -> None:
    rng = np.random.default_rng(K)
    X, t, s = rng.normal(size=(20, 2)), rng.integers(0, K, 20).astype(np.int32), rng.uniform(0.5, 2.0, 20)
    T = np.eye(K - 1) + 0.3 * rng.normal(size=(K - 1, K - 1))
    at = WeightPoint(x=rng.normal(size=(K - 1, 3)), center=np.ones(2), scale=np.array([2.0, 0.5]), T=T)
    found = ScoreScatter.of(block(X, t, s), at)
    Z = np.column_stack([np.ones(20), (X - 1.0) / [2.0, 0.5]])
    A = np.column_stack([np.zeros(20), Z @ (T @ at.x).T])
    P = np.exp(A - np.logaddexp.reduce(A, axis=1)[:, None])
    G = np.array([np.kron(((p - np.eye(K)[k])[1:]) @ T, z) for p, k, z in zip(P, t, Z, strict=True)])
    np.testing.assert_allclose(found.meat, (G * s[:, None]).T @ G, rtol=1e-10)
    assert found.value == pytest.approx(-s @ np.log(P[np.arange(20), t]))


@pytest.mark.parametrize("params", [MomentsParams(3), MomentsParams(3, "pooled"), MomentsParams(3, groups=(0, 1, 0))])
def test_scatter_of_sparse_rows_is_that_of_dense_ones(params: MomentsParams) -> None:
    """Columns far from zero, rare ones, an empty one, and a class that one column misses."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 90)) < 0.01, rng.normal(size=(300, 90)) + 3.0, 0.0)
    t = rng.integers(0, 3, 300).astype(np.int32)
    X[:, 5], X[:, 7], X[:, 8], X[t == 1, 9] = 1e6 + rng.normal(size=300), 0.0, t == 2, 0.0
    s = rng.choice([0.0, 0.5, 2.0], 300)
    rows = block(sparse.csr_array(X), t, s)
    assert moments.SPARSE_SHARE * rows.X.nnz < X.size
    apart, whole = Moments.of(rows, params), Moments.of(block(X, t, s), params)
    np.testing.assert_allclose(apart.mean, whole.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(apart.scatter, whole.scatter, rtol=1e-9, atol=1e-9)
