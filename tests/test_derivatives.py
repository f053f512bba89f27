"""Gradients, Hessians and links against differences in sixty digits, far into the tails too."""

import mpmath
import numpy as np
import pytest
from scipy import sparse

from oddsmith.block import Block
from oddsmith.losses import logistic_rows, softmax_rows
from oddsmith.statistic import Shape
from oddsmith.statistics import Curvature, CurvatureParams, CurvatureProduct

DIGITS = 60


def problem(K: int, size: float, *, form: str, center: float) -> tuple[Block, CurvatureParams]:
    """Return eight rows with weights and offsets, and weights whose activations are about ``size``."""
    rng = np.random.default_rng(K)
    n, M, C = 8, 2, K - 1
    X = center + rng.normal(size=(n, M))
    if form == "CSR":
        X = sparse.csr_array(np.where(rng.random((n, M)) < 0.3, 0.0, X))
    t = (np.arange(n) % K).astype(np.int32)
    block = Block(X, t, rng.uniform(0.0, 2.0, n), rng.normal(size=(n, C)))
    W, V = rng.normal(scale=size, size=(2, C, M))
    b, v = rng.normal(size=(2, C))
    return block, CurvatureParams(W=W, b=b, center=np.full(M, center), V=V, v=v)


def exact_value(block: Block, params: CurvatureParams, theta: list[mpmath.mpf]) -> mpmath.mpf:
    """The loss as it is written down, in as many digits as mpmath works with; ``theta`` has the intercepts first."""
    X = block.X.toarray() if block.is_sparse else block.X
    C, P = params.size
    total = mpmath.mpf(0)
    for x, t, s, offset in zip(X, block.t, block.s, block.offset, strict=True):
        z = [mpmath.mpf(1)] + [mpmath.mpf(float(v)) - float(c) for v, c in zip(x, params.center, strict=True)]
        a = [mpmath.mpf(0)]
        for k in range(C):
            a.append(mpmath.fdot(theta[k * P : (k + 1) * P], z) + float(offset[k]))
        total += float(s) * (mpmath.log(mpmath.fsum(mpmath.exp(v) for v in a)) - a[t])
    return total


def differences(block: Block, params: CurvatureParams) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian by central differences whose error is far below float64's."""
    C, P = params.size
    with mpmath.workdps(DIGITS):
        at = np.column_stack([params.b, params.W]).ravel()
        h = mpmath.mpf(10) ** -15

        def f(*moves: tuple[int, int]) -> mpmath.mpf:
            theta = [mpmath.mpf(float(v)) for v in at]
            for i, sign in moves:
                theta[i] += sign * h
            return exact_value(block, params, theta)

        size = C * P
        g = np.array([float((f((i, 1)) - f((i, -1))) / (2 * h)) for i in range(size)]).reshape(C, P)
        H = np.empty((size, size))
        for i in range(size):
            for j in range(i, size):
                corners = f((i, 1), (j, 1)) - f((i, 1), (j, -1)) - f((i, -1), (j, 1)) + f((i, -1), (j, -1))
                H[i, j] = H[j, i] = float(corners / (4 * h * h))
        return float(f()), g, H


@pytest.mark.parametrize("center", [0.0, 1e8])
@pytest.mark.parametrize("form", ["dense", "CSR"])
@pytest.mark.parametrize("size", [1.0, 30.0, 400.0])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_curvature_equals_extended_differences(K: int, size: float, form: str, center: float) -> None:
    if form == "CSR" and center:
        center = 1.0  # sparse rows are centred in the algebra: their columns cannot be far from zero
    block, params = problem(K, size, form=form, center=center)
    value, g, H = differences(block, params)
    found = Curvature.of(block, params)
    # Rounding an activation of this size moves every derivative by this much, relative to its terms.
    X = block.X.toarray() if block.is_sparse else block.X
    Z = np.column_stack([np.ones(len(X)), np.abs(X - params.center)])
    rtol = 2e-15 * (1.0 + np.abs(params.W).max() * Z.sum(axis=1).max())
    first = np.tile(block.s @ Z, (K - 1, 1))
    second = np.tile(Z.T @ (block.s[:, None] * Z), (K - 1, K - 1))
    assert found.value == pytest.approx(value, rel=rtol)
    assert np.all(np.abs(found.gradient - g) <= rtol * first)
    assert np.all(np.abs(found.hessian - H) <= rtol * second)
    assert np.all(np.abs(found.hessian - found.hessian.T) <= rtol * second)


@pytest.mark.parametrize("form", ["dense", "CSR"])
@pytest.mark.parametrize("size", [1.0, 400.0])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_curvature_product_equals_hessian_times_vector(K: int, size: float, form: str) -> None:
    block, params = problem(K, size, form=form, center=0.5)
    H = Curvature.of(block, params).hessian
    v = np.column_stack([params.v, params.V])
    found = CurvatureProduct.of(block, params).product
    np.testing.assert_allclose(found.ravel(), H @ v.ravel(), rtol=1e-12, atol=1e-13 * np.abs(H).max() * size)


@pytest.mark.parametrize("K", [2, 3])
def test_first_order_gives_the_value_and_gradient_of_second_order(K: int) -> None:
    block, params = problem(K, 3.0, form="dense", center=0.5)
    one = Curvature.of(block, CurvatureParams(W=params.W, b=params.b, center=params.center, order=1))
    two = Curvature.of(block, params)
    assert one.hessian is None
    assert one.value == two.value
    np.testing.assert_allclose(one.gradient, two.gradient, rtol=1e-14)


def test_logistic_rows_keep_every_digit_in_both_tails() -> None:
    a = np.concatenate([-np.geomspace(700.0, 1e-3, 60), [0.0], np.geomspace(1e-3, 700.0, 60)])
    for t in (0, 1):
        rows = logistic_rows(a[:, None], np.full(len(a), t))
        with mpmath.workdps(DIGITS):
            x = [mpmath.mpf(float(v)) * (1 if t else -1) for v in a]
            value = [float(mpmath.log1p(mpmath.exp(-v))) for v in x]
            slope = [float((-1 if t else 1) / (1 + mpmath.exp(v))) for v in x]
            bend = [float(1 / ((1 + mpmath.exp(v)) * (1 + mpmath.exp(-v)))) for v in x]
        np.testing.assert_allclose(rows.value, value, rtol=4e-16)
        np.testing.assert_allclose(rows.gradient[:, 0], slope, rtol=1e-15)
        np.testing.assert_allclose(rows.curvature(0, 0), bend, rtol=1e-15)


def test_softmax_rows_of_two_classes_equal_logistic_rows() -> None:
    a = np.linspace(-60.0, 60.0, 241)[:, None]
    for t in (0, 1):
        codes = np.full(len(a), t)
        two, one = softmax_rows(a, codes), logistic_rows(a, codes)
        np.testing.assert_allclose(two.value, one.value, rtol=1e-15, atol=1e-14)
        np.testing.assert_allclose(two.gradient, one.gradient, rtol=1e-15, atol=3e-16)
        np.testing.assert_allclose(two.curvature(0, 0), one.curvature(0, 0), rtol=1e-15)


@pytest.mark.parametrize("a", [-1e308, -1e5, 1e5, 1e308])
def test_rows_are_finite_at_any_activation(a: float) -> None:
    for rows in (logistic_rows(np.array([[a]]), np.array([1])), softmax_rows(np.array([[a, -a / 2]]), np.array([1]))):
        assert np.isfinite(rows.value).all() and np.isfinite(rows.gradient).all()
        assert np.isfinite(rows.curvature(0, 0)).all()


def test_hessian_of_any_block_is_positive_semidefinite() -> None:
    for K in (2, 3, 4):
        block, params = problem(K, 5.0, form="dense", center=0.0)
        eigenvalues = np.linalg.eigvalsh(Curvature.of(block, params).hessian)
        assert eigenvalues[0] >= -1e-14 * eigenvalues[-1]


def test_curvature_of_no_rows_is_zero() -> None:
    block, params = problem(3, 1.0, form="dense", center=0.0)
    empty = Curvature.of(Block(block.X[:0], block.t[:0]), params)
    zero = Curvature.zero(Shape(2, 3), params)
    assert empty.value == zero.value == 0.0
    assert not empty.gradient.any() and not empty.hessian.any()
