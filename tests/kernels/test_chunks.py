"""Rows that kernels read at once, and where products by BLAS take over; the rounding of a perceptron's margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from oddsmith.block import Block
from oddsmith.kernels import curvature, native, perceptron, reference
from oddsmith.kernels.reference import CurvatureParams


def params(M: int, C: int = 1, order: int = 2) -> CurvatureParams:
    W = np.random.default_rng(0).normal(size=(C, M)) / np.sqrt(M)
    return CurvatureParams(W=W, b=np.zeros(C), center=np.zeros(M), order=order)


def block(n: int, M: int, K: int = 2) -> Block:
    X = np.random.default_rng(1).normal(size=(n, M))
    return Block(X, (np.arange(n) % K).astype(np.int32))


@pytest.mark.parametrize(
    ("M", "C", "rows"),
    [(100, 1, [648, 648, 204]), (1000, 1, [1000, 500]), (10, 60, [546, 546, 408]), (9, 900, [64] * 3 + [20])],
)
def test_a_chunk_holds_half_a_megabyte_or_as_many_rows_as_columns(M: int, C: int, rows: list[int]) -> None:
    parts = curvature._chunks(block(sum(rows), M), params(M, C))
    assert [part.n_rows for part in parts] == rows


@pytest.mark.skipif(len(native.available()) == 1, reason="the kernels are not compiled")
@pytest.mark.parametrize(("M", "blas"), [(399, False), (400, True)])
@pytest.mark.parametrize("K", [2, 3])
def test_products_of_four_hundred_columns_are_those_of_blas(
    M: int, blas: bool, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    inner = curvature._by_products
    monkeypatch.setattr(curvature, "_by_products", lambda *given: (taken.append(1), inner(*given))[1])
    rows = block(3, M, K)
    curvature.curvature(rows, params(M, K - 1))
    assert bool(taken) == blas


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_rounding_of_a_margin_by_hand(form: Any) -> None:
    """Four units in the last place for each of its terms and two more, times the lengths of weights and row."""
    X, V = form(np.array([[3.0, 0.0], [0.0, 0.0]])), np.array([[0.0, 3.0, 4.0], [1.0, 0.0, 0.0]])
    found = perceptron.rounding(X, V, 1.0)
    assert found == pytest.approx(4.0 * 5.0 * np.finfo(float).eps * 5.0 * np.sqrt([10.0, 1.0]), rel=1e-12, abs=0.0)


@pytest.mark.parametrize(("C", "order", "width"), [(1, 2, 1), (3, 1, 1), (3, 2, 15)])
def test_a_tile_has_room_for_the_hessian_rows_of_several_classes(
    C: int, order: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    inner = reference._tiles
    monkeypatch.setattr(
        reference, "_tiles", lambda rows, at, width: (asked.append(width), inner(rows, at, width=width))[1]
    )
    reference.curvature(block(6, 4, C + 1), params(4, C, order))
    assert asked == [width]
