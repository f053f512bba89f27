"""The compiled kernels of every instruction set give the sums of the reference, at extreme activations too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.kernels.kernel_cases import LAYOUTS, LEVELS, laid_out, shifted

from oddsmith.block import Block
from oddsmith.errors import InvalidInputError
from oddsmith.kernels import native
from oddsmith.kernels.curvature import curvature_root
from oddsmith.kernels.reference import RowBuffers
from oddsmith.rows import RunRows
from oddsmith.statistics import Curvature, CurvatureDiagonal, CurvatureParams, CurvatureProduct


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


@pytest.mark.parametrize("layout", ["C", "F", "csr32"])
@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.filterwarnings("ignore:invalid value")  # of scipy's products
def test_values_that_are_not_finite_stay_visible(level: str, C: int, layout: str) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        for M in (3, 20):
            X = np.ones((100, M))
            X[57, 1] = bad
            block = Block(laid_out(X, layout), np.ones(100, dtype=np.int32))
            params = CurvatureParams(W=np.ones((C, M)), b=np.zeros(C), center=np.zeros(M))
            with native.using(level):
                found = Curvature.of(block, params)
            assert not np.isfinite(found.gradient).all() and not np.isfinite(found.hessian).all()


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


def curvatures(block: Block, params: CurvatureParams, half: bool) -> list[Any]:
    """Return all sums over a block, one after the other."""
    first = Curvature.of(block, replace(params, order=1))
    found = [first.value, first.longest, first.gradient]
    if half:
        return found
    second, product = Curvature.of(block, params), CurvatureProduct.of(block, params).product
    return [*found, second.value, second.gradient, second.hessian, product]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_sums_are_the_same_at_every_alignment(level: str, C: int, dtype: Any, order: Any) -> None:
    """To the bit: where arrays begin decides nothing."""
    rng = np.random.default_rng(C)
    n, M = 67, 19
    X = np.asarray(rng.normal(size=(n, M)).astype(dtype), order=order)
    t, s, offset = rng.integers(0, C + 1, n).astype(np.int32), rng.uniform(0.0, 2.0, n), rng.normal(size=(n, C))
    numbers = {"W": rng.normal(size=(C, M)), "b": rng.normal(size=C), "center": rng.normal(size=M)}
    params = CurvatureParams(**numbers, V=rng.normal(size=(C, M)), v=np.ones(C), inverse=rng.uniform(0.5, 2.0, M))
    half = dtype == np.float16
    with native.using(level):
        expected = curvatures(Block(X, t, s, offset), params, half)
        for by in range(64 // X.itemsize):
            block = Block(shifted(X, by), shifted(t, by % 16), shifted(s, by % 8), shifted(offset, by % 8))
            for a, b in zip(curvatures(block, params, half), expected, strict=True):
                assert np.array_equal(a, b)


@pytest.mark.parametrize("layout", ["C", "F", "csr32"])
@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("level", LEVELS)
def test_denormal_numbers_keep_their_digits(level: str, dtype: Any, C: int, layout: str) -> None:
    """Whole multiples of the least number: nothing is flushed to zero."""
    rng = np.random.default_rng(C)
    n, M = 45, 17
    least = float(np.finfo(dtype).smallest_subnormal)
    X = (rng.integers(-(1 << 20), 1 << 20, size=(n, M)) * least).astype(dtype)
    W = rng.normal(size=(C, M)) * min(1e300, 1.0 / (least * (1 << 20) * M))
    block = Block(laid_out(X, layout), rng.integers(0, C + 1, n).astype(np.int32))
    small, found = both(Curvature, block, CurvatureParams(W=W, b=np.zeros(C), center=np.zeros(M), order=1), level)
    close(found.value, small.value, float(n))
    close(found.gradient[:, 0], small.gradient[:, 0], float(n))
    assert np.abs(small.gradient[:, 1:]).max() > 1000 * n * least
    # Each product is rounded to a multiple of the least number.
    np.testing.assert_allclose(
        found.gradient[:, 1:], small.gradient[:, 1:], rtol=1e-12, atol=n * 5e-324 + 1e-12 * least
    )


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    M=st.integers(1, 40),
    C=st.sampled_from([1, 2]),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
    runs=st.tuples(st.integers(1, 70), st.integers(0, 30), st.integers(1, 5), st.integers(0, 40)),
    order=st.sampled_from([1, 2]),
)
def test_runs_of_rows_equal_the_rows_copied_together(
    level: str, seed: int, M: int, C: int, dtype: Any, runs: tuple[int, int, int, int], order: int
) -> None:
    """Rows between the runs, and those after the last whole one, are not read."""
    rng = np.random.default_rng(seed)
    length, gap, count, rest = runs
    n, n_rest = length * count, min(rest, length + gap - 1)
    X = np.full((count * (length + gap) - gap + n_rest, M), np.nan, dtype=dtype)
    rows = RunRows(X, length, length + gap)
    inside = np.arange(n) // length * (length + gap) + np.arange(n) % length
    X[inside] = rng.normal(size=(n, M))
    t, offset = rng.integers(0, C + 1, n).astype(np.int32), rng.normal(size=(n, C)) if seed % 2 else None
    assert rows.shape == (n, M)
    given_params = {"W": rng.normal(size=(C, M)), "b": rng.normal(size=C), "center": np.zeros(M)}
    params = CurvatureParams(**given_params, order=order, inverse=np.ones(M) if seed % 3 else None)
    plain = Block(X[inside].astype(np.float64), t, None, offset)
    rtol = 1e-5 if dtype == np.float16 else 1e-12
    with native.using(level):
        found, expected = (Curvature.of(block, params) for block in (Block(rows, t, None, offset), plain))
    close(found.value, expected.value, float(n), rtol)
    close(found.gradient, expected.gradient, 4.0 * n, rtol)
    close(found.longest, expected.longest, 1.0, rtol)


@pytest.mark.parametrize("level", native.available())
@settings(max_examples=25, deadline=None)
@given(problem=problems())
def test_root_rows_make_the_hessian(level: str, problem: tuple[Block, dict[str, Any]]) -> None:
    block, given_params = problem
    if block.is_sparse or given_params["W"].shape[0] > 1:
        return
    params = CurvatureParams(**given_params)
    with native.using("reference"):
        H = Curvature.of(block, params).hessian
    with native.using(level):
        B = curvature_root(block, params)
    close(B.T @ B, H, 1e-300 + float(np.abs(H).max(initial=0.0)), 1e-11)


CSR = sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0]]))


def odd_csr(which: str) -> Any:
    rows = sparse.csr_array(CSR)
    if which == "entries twice":
        twice = (np.repeat(0.5 * CSR.data, 2), np.repeat(CSR.indices, 2), 2 * CSR.indptr)
        return sparse.csr_array(twice, shape=CSR.shape)
    if which == "columns backwards":
        order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(CSR.indptr[:-1], CSR.indptr[1:], strict=True)])
        return sparse.csr_array((CSR.data[order], CSR.indices[order], CSR.indptr), shape=CSR.shape)
    if which == "numbers apart":
        rows.data, rows.indices = np.repeat(CSR.data, 2)[::2], np.repeat(CSR.indices, 2)[::2]
    elif which == "indices of two types":
        rows.indptr = CSR.indptr.astype(np.int64)
    elif which == "whole numbers":
        rows.data = CSR.data.astype(np.int64)
    return rows


@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize(
    "which", ["entries twice", "columns backwards", "numbers apart", "indices of two types", "whole numbers"]
)
def test_csr_rows_that_kernels_cannot_read_in_place(which: str, C: int) -> None:
    given_params = {"W": np.arange(3.0 * C).reshape(C, 3) / 8.0, "b": np.zeros(C)}
    params = CurvatureParams(**given_params, center=np.arange(6)[::2], inverse=np.arange(2.0, 8.0)[::2])
    rows, t = odd_csr(which), np.array([0, 1, 1], dtype=np.int32)
    before = rows.data.copy(), rows.indices.copy(), rows.indptr.copy()
    found, expected = (Curvature.of(Block(X, t), params) for X in (rows, CSR.toarray()))
    close(found.value, expected.value, 1.0)
    close(found.gradient, expected.gradient, 10.0)
    close(found.hessian, expected.hessian, 100.0)
    close(found.longest, expected.longest, 1.0)
    for array, as_before in zip((rows.data, rows.indices, rows.indptr), before, strict=True):
        assert np.array_equal(array, as_before)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("inverse", [None, np.linspace(0.5, 2.0, 20)], ids=["plain", "scaled"])
@pytest.mark.parametrize("layout", ["C", "F", "runs"])
def test_half_precision_rows_are_written_in_every_layout(layout: str, inverse: Any, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(50, 20)), rng.integers(0, 2, 50).astype(np.int32)
    s = np.where(np.arange(50) == 7, 0.0, 1.0) if weighted else None
    X[7] *= 100.0  # of weight 0 where there are weights: not the longest row then
    rows = RunRows(np.repeat(X, 2, axis=0), 1, 2) if layout == "runs" else np.asarray(X, order=layout)
    half = np.zeros((50, 20), dtype=np.float16)
    params = CurvatureParams(W=rng.normal(size=(1, 20)), b=np.zeros(1), center=np.ones(20), order=1, inverse=inverse)
    with native.using("reference"):
        expected = Curvature.of(Block(X, t, s), params)
    found = Curvature.of(Block(rows, t, s), replace(params, buffers=RowBuffers(half=half)))
    np.testing.assert_allclose(half, (X - 1.0) * (1.0 if inverse is None else np.sqrt(inverse)), rtol=1e-3, atol=1e-7)
    close(found.longest, expected.longest, 0.0)
    close(found.gradient, expected.gradient, 50.0)


def test_parameters_of_any_type_and_stride() -> None:
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(50, 9)), rng.integers(0, 3, 50)
    W, b, center = rng.normal(size=(9, 2)).astype(np.float32).T, np.zeros(2, dtype=np.int64), np.arange(18)[::2]
    params = CurvatureParams(W=W, b=b, center=center)
    block = Block(X, t, np.arange(50) % 3, np.asarray(rng.normal(size=(50, 2)), order="F"))
    plain = CurvatureParams(W=W.astype(np.float64, order="C"), b=np.zeros(2), center=center * 1.0)
    found, expected = Curvature.of(block, params), both(Curvature, block, plain, LEVELS[0])[0]
    close(found.gradient, expected.gradient, 1e3)
    close(found.hessian, expected.hessian, 1e4)


@pytest.mark.parametrize("X", [np.ones((4, 3)), sparse.csr_array(np.ones((4, 3)))], ids=["dense", "sparse"])
def test_what_would_be_read_outside_is_refused(X: Any) -> None:
    t, offset = np.array([0, 1, 2, 1], dtype=np.int32), np.zeros((4, 2))
    params = CurvatureParams(W=np.zeros((2, 3)) + 0.1, b=np.zeros(2), center=np.zeros(3))
    for W, center in ((4, 4), (3, 4), (4, 3)):
        with pytest.raises(InvalidInputError, match=f"{W} weights and {center} centers, but the rows have 3 columns"):
            Curvature.of(Block(X, t), replace(params, W=np.zeros((2, W)), center=np.zeros(center)))
    with pytest.raises(InvalidInputError, match=r"offsets have the shape \(4, 1\), expected \(4, 2\)"):
        Curvature.of(Block(X, t, None, offset[:, :1]), params)
    with pytest.raises(InvalidInputError, match="codes go up to 9, but there are weights for 3 classes"):
        Curvature.of(Block(X, np.array([0, 1, 9, 1], dtype=np.int32)), params)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("M", [3, 401])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_several_classes_at_zero_weights_equal_reference(level: str, M: int, weighted: bool) -> None:
    """There all rows have the same probabilities, which a kernel makes use of."""
    rng = np.random.default_rng(M)
    X, t = rng.normal(size=(400, M)), rng.integers(0, 4, 400).astype(np.int32)
    block = Block(X, t, rng.uniform(0.5, 2.0, 400) if weighted else None)
    params = CurvatureParams(W=np.zeros((3, M)), b=np.array([-1.0, 0.5, 2.0]), center=X.mean(axis=0), order=2)
    expected, found = both(Curvature, block, params, level)
    for name in ("value", "gradient", "hessian"):
        close(getattr(found, name), getattr(expected, name), np.abs(getattr(expected, name)).max())
