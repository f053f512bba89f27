"""The compiled kernels of every instruction set give the sums of the reference, at extreme activations too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.reference import RowBuffers
from oddsmith.statistics import Curvature, CurvatureDiagonal, CurvatureParams, CurvatureProduct

LEVELS = native.available()[1:]
LAYOUTS = ["C", "F", "csr32", "csr64", "strided", "part of F", "F backwards", "odd F"]


def laid_out(X: Any, layout: str) -> Any:
    if layout.startswith("csr"):
        rows = sparse.csr_array(X)
        kind = np.int32 if layout == "csr32" else np.int64
        rows.indices, rows.indptr = rows.indices.astype(kind), rows.indptr.astype(kind)
        return rows
    if layout == "strided":
        wide = np.zeros((X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
        wide[:, ::2] = X
        return wide[:, ::2]
    if layout == "part of F":  # columns are further apart than they are long
        return np.asarray(np.vstack([X, X, X]), order="F")[len(X) : 2 * len(X)]
    if layout == "F backwards":
        return np.asarray(X[:, ::-1], order="F")[:, ::-1]
    if layout == "odd F":  # columns begin in the middle of a number
        n, M = X.shape
        apart = n * X.itemsize + 2
        memory = np.zeros(apart * M + X.itemsize, dtype=np.uint8)
        rows = np.ndarray((n, M), X.dtype, memory, strides=(X.itemsize, apart))
        rows[:] = X
        return rows
    return np.asarray(X, order=layout)


@st.composite
def problems(draw: Any) -> tuple[Block, dict[str, Any]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([0, 1, 3, 4, 5, 63, 64, 257, 1030]))
    M = draw(st.integers(1, 40))  # vector registers take 8 or 16 columns at a time
    C = draw(st.sampled_from([1, 1, 2, 4]))
    size = draw(st.sampled_from([0.1, 1.0, 30.0, 300.0]))
    layout = draw(st.sampled_from(LAYOUTS))
    X = rng.uniform(-1.0, 1.0, size=(n, M)) + draw(st.sampled_from([0.0, 5.0]))
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.7]))] = 0.0
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    weighted, shifted = draw(st.booleans()), draw(st.booleans())
    t = rng.integers(0, C + 1, n).astype(np.int32)
    s = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weighted else None
    offset = rng.normal(size=(n, C)) if shifted else None
    block = Block(laid_out(X, layout), t, s, offset)
    draws = rng.normal(size=(2, C, M))
    params = {
        "W": size * draws[0],
        "b": rng.normal(size=C),
        "center": X.mean(axis=0, dtype=np.float64) if n else np.zeros(M),
        "V": draws[1],
        "v": rng.normal(size=C),
    }
    return block, params


def test_the_kernels_are_built() -> None:
    """Everything below would pass without them."""
    assert LEVELS, "The compiled kernels are missing: run `make kernels`."


def both(statistic: Any, block: Block, params: CurvatureParams, level: str) -> tuple[Any, Any]:
    """Return a statistic by the reference and by the kernels of a level."""
    with native.using("reference"):
        expected = statistic.of(block, params)
    with native.using(level):
        return expected, statistic.of(block, params)


def close(found: Any, expected: Any, scale: float, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=100, deadline=None)
@given(problem=problems(), order=st.sampled_from([1, 2]))
def test_curvature_equals_reference(level: str, problem: tuple[Block, dict[str, Any]], order: int) -> None:
    block, given_params = problem
    inverse = np.linspace(0.5, 2.0, block.n_columns)
    params = CurvatureParams(**given_params, order=order, inverse=inverse)
    small, large = both(Curvature, block, params, level)
    # A sum of signed terms is as exact as the sum of their sizes allows.
    rows = np.abs(np.asarray(block.X.toarray() if block.is_sparse else block.X, dtype=float))
    reach = 1.0 + rows.max(initial=0.0) + np.abs(given_params["center"]).max()
    weight = block.weights().sum()
    close(large.value, small.value, 1e-3 * weight)
    close(large.gradient, small.gradient, weight * reach)
    close(large.longest, small.longest, reach**2)
    assert large.rows == small.rows
    if order == 2:
        close(large.hessian, small.hessian, weight * reach**2)


@pytest.mark.parametrize("M", [7, 8, 23, 24, 47, 63, 100, 399, 400])
@pytest.mark.parametrize("C", [1, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_hessians_of_many_columns(M: int, C: int, level: str) -> None:
    """Whole and partial register blocks, and beyond what is summed in registers."""
    rng = np.random.default_rng(M)
    n = 333
    block = Block(rng.normal(size=(n, M)) + 3.0, rng.integers(0, C + 1, n).astype(np.int32), rng.uniform(0, 2, n))
    at = CurvatureParams(W=rng.normal(size=(C, M)) / np.sqrt(M), b=rng.normal(size=C), center=np.full(M, 3.0))
    small, large = both(Curvature, block, at, level)
    close(large.hessian, small.hessian, float(n))
    assert np.array_equal(large.hessian, large.hessian.T)


@pytest.mark.parametrize("level", native.available())
@settings(max_examples=40, deadline=None)
@given(problem=problems())
def test_products_and_diagonal_equal_the_hessian(level: str, problem: tuple[Block, dict[str, Any]]) -> None:
    block, given_params = problem
    params = CurvatureParams(**given_params, order=1)
    with native.using("reference"):
        H = Curvature.of(block, replace(params, order=2)).hessian
    assert H is not None
    direction = np.column_stack([given_params["v"], given_params["V"]])
    scale = 1e-300 + np.abs(H).max() * np.abs(direction).max() * direction.size
    with native.using(level):
        product, found = CurvatureProduct.of(block, params).product, CurvatureDiagonal.of(block, params)
    close(product.ravel(), H @ direction.ravel(), scale, 1e-11)
    largest = 1e-300 + np.abs(H).max()
    close(found.diagonal.ravel(), np.diag(H), largest, 1e-11)
    C, P = found.cross.shape
    blocks = H.reshape(C, P, C, P)
    close(found.cross, np.array([blocks[k, 0, k] for k in range(C)]), largest, 1e-11)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_curvatures_that_rows_remember_give_the_same(problem: tuple[Block, dict[str, Any]]) -> None:
    block, given_params = problem
    if not block.is_sparse or given_params["W"].shape[0] > 1:
        return
    params = CurvatureParams(**{**given_params, "center": np.zeros(block.n_columns)}, order=1)
    remembering = replace(params, buffers=RowBuffers(curvature=np.zeros(block.n_rows)))
    Curvature.of(block, remembering)
    for statistic in (CurvatureDiagonal, CurvatureProduct):
        plain, remembered = (vars(statistic.of(block, how)) for how in (params, remembering))
        for name, expected in plain.items():
            close(remembered[name], expected, 1e-300 + np.abs(expected).max(initial=0.0), 1e-11)


@pytest.mark.parametrize("C", [1, 3])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("level", LEVELS)
def test_activations_of_700_keep_their_digits(C: int, sign: float, level: str) -> None:
    # Well fitted rows have losses of e^-700, badly fitted ones of 700: both to twelve digits.
    X = np.linspace(600.0, 700.0, 11)[:, None]
    t = np.full(11, 1, dtype=np.int32)
    W = np.full((C, 1), -1.0)
    W[0] = sign
    block = Block(X, t)
    small, large = both(Curvature, block, CurvatureParams(W=W, b=np.zeros(C), center=np.zeros(1)), level)
    exact = np.exp(-X).sum() if sign > 0 else X.sum()
    for found in (small, large):
        assert found.value == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(large.gradient, small.gradient, rtol=1e-12)
    np.testing.assert_allclose(large.hessian, small.hessian, rtol=1e-12, atol=1e-300)


def test_curvatures_kept_from_an_evaluation_serve_the_product() -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(500, 40, density=0.1, format="csr", random_state=rng))
    t = rng.integers(0, 2, 500).astype(np.int32)
    params = CurvatureParams(
        W=rng.normal(size=(1, 40)),
        b=np.zeros(1),
        center=np.zeros(40),
        order=1,
        V=rng.normal(size=(1, 40)),
        v=np.ones(1),
    )
    block, remembering = Block(X, t), replace(params, buffers=RowBuffers(curvature=np.full(500, np.nan)))
    Curvature.of(block, remembering)
    found, expected = (CurvatureProduct.of(block, how).product for how in (remembering, params))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_values_that_are_not_finite_stay_visible() -> None:
    X = np.ones((100, 3))
    for bad in (np.nan, np.inf, -np.inf):
        X[57, 1] = bad
        params = CurvatureParams(W=np.ones((1, 3)), b=np.zeros(1), center=np.zeros(3), order=1)
        assert not np.isfinite(Curvature.of(Block(X, np.ones(100, dtype=np.int32)), params).gradient).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 33, 96, 1030]), st.integers(16, 70), st.sampled_from([1, 3]))
def test_rows_of_half_precision(seed: int, n: int, M: int, C: int) -> None:
    """The pass that makes them is the pass without them; sums over them are those over the rounded rows."""
    rng = np.random.default_rng(seed)
    X, t = rng.normal(size=(n, M)) * 3.0 + 100.0, rng.integers(0, C + 1, n).astype(np.int32)
    W, b, center = rng.normal(size=(C, M)) / M, rng.normal(size=C), np.full(M, 100.0)
    scale = rng.uniform(1.0, 4.0, M)
    scratch = np.zeros((n, M), dtype=np.float16)
    params = CurvatureParams(W=W, b=b, center=center, order=1, inverse=scale**-2.0)
    plain, making = (
        Curvature.of(Block(X, t), params),
        Curvature.of(Block(X, t), replace(params, buffers=RowBuffers(half=scratch))),
    )
    assert making.value == plain.value and np.array_equal(making.gradient, plain.gradient)
    close(making.longest, plain.longest, 0.0)
    np.testing.assert_allclose(scratch, (X - center) / scale, rtol=2.0**-11 * 1.001, atol=1e-7)
    there = CurvatureParams(W=W * scale, b=b, center=np.zeros(M), order=1)
    rounded = Curvature.of(Block(scratch.astype(float), t), there)
    for order in (1, 2):
        found = Curvature.of(Block(scratch, t), replace(there, order=order))
        close(found.value, rounded.value, 1e-300, 1e-5)
        close(found.gradient, rounded.gradient, float(n), 1e-5)
