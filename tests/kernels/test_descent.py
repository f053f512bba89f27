"""Coordinate descent in C against its definition in NumPy, and gradients of several models at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.kernels.kernel_cases import DENSE_LAYOUTS, LEVELS, laid_out, shifted

from oddsmith.block import Block
from oddsmith.kernels import native
from oddsmith.kernels.columns import ClassModel, MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks, bounds, descend
from oddsmith.kernels.curvature import models
from oddsmith.kernels.reference import CurvatureParams

PARTS = {
    "single": Blocks.single(np.array([0.3, 0.0, 1.0, 0.2, 5.0, 0.1, 0.4])),
    "groups": Blocks(np.array([0, 1, 4, 7]), np.array([2, 0, 3, 4, 1, 5, 6]), np.array([0.5, 0.3, 0.0])),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_descent_on_a_matrix_is_its_definition(parts: str, level: str, dtype: Any) -> None:
    """The matrix is of either precision, and a part of a larger one."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(12, 7))
    H: Any = np.full((9, 10), np.nan, dtype=dtype)[:7, :7]
    H[:], start, blocks = A.T @ A, rng.normal(size=7), PARTS[parts]
    found = []
    for kernels in (native.REFERENCE, level):
        with native.using(kernels):
            x, r = start.copy(), rng.normal(size=7) * 0.0 + np.arange(7.0) - 3.0
            found.append((descend(H, r, x, blocks, bounds(H, blocks), tol=1e-12, sweeps=40), x, r))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[1][1] == 0.0, found[0][1] == 0.0)
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["levels", "numbers", "zeros"])
def test_the_bound_of_a_large_block_is_above_its_eigenvalues_and_near_those_of_levels(kind: str) -> None:
    rng = np.random.default_rng(0)
    h, B = rng.random(500), rng.normal(size=(600, 500))
    levels = np.diag(h) - np.outer(h, h) / (h.sum() + 5.0)
    H = {"levels": levels, "numbers": B.T @ B, "zeros": np.zeros((500, 500))}[kind]
    (bound,) = bounds(H, Blocks(np.array([0, 500]), np.arange(500), np.ones(1)))
    largest = np.linalg.eigvalsh(H)[-1]
    assert largest <= bound <= {"levels": 1.6, "numbers": 10.0, "zeros": 1.0}[kind] * largest


def test_a_minimum_of_a_quadratic_with_a_known_answer() -> None:
    """An identity matrix: every coordinate is its slope, shrunk by the penalty."""
    slope = np.array([-3.0, 0.5, 2.0])
    x, r = np.zeros(3), slope.copy()
    descend(np.eye(3), r, x, Blocks.single(np.ones(3)), np.ones(3), tol=0.0, sweeps=9)
    np.testing.assert_array_equal(x, [2.0, 0.0, -1.0])


@pytest.mark.parametrize("K", [3, 4, 6])
def test_settled_classes_depend_on_their_differences_alone(K: int) -> None:
    rng = np.random.default_rng(K)
    x, blocks = rng.normal(size=(K, 40)).round(3), Blocks(np.arange(40 * K + 1), np.arange(40 * K), np.ones(40 * K), K)
    x[:2, :10] = 0.0
    settled = blocks.settled(x.ravel()).reshape(K, 40)
    for shift in (rng.normal(size=40), 10.0 * rng.normal(size=40), -x[0], -x[-1]):
        np.testing.assert_allclose(blocks.settled((x + shift).ravel()).reshape(K, 40), settled, rtol=0.0, atol=1e-14)
        assert (np.abs(settled).sum(axis=0) <= np.abs(x + shift).sum(axis=0) + 1e-13).all()
    assert (settled == 0.0).any(axis=0).all()
    np.testing.assert_allclose(settled - settled[0], x - x[0], atol=1e-14)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize("rows", [1, 7, 64, 131])
def test_sums_and_descent_by_columns_are_their_definition(level: str, stored: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    X: Any = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.5)
    X[:, 3] = 0.0
    matrix = X if stored == "dense" else sparse.csc_array(X)
    h, v0, ridge = rng.uniform(0.01, 0.25, rows), rng.normal(size=rows), np.array([0.0, 0.1, 0.0, 0.0, 0.2, 0.0])
    penalty, start = np.full(6, 0.05), rng.normal(size=6)
    found = []
    for kernels in (native.REFERENCE, level):
        with native.using(kernels):
            columns = MatrixColumns.of(matrix)
            model, x, v = columns.model(h, ridge), start.copy(), v0.copy()
            shift, sweeps = columns.descend(model, v, x, penalty, shift=0.3, tol=1e-14, sweeps=30)
            sums = columns.dots(v0), columns.activations(start), model.mean, model.diagonal
            found.append((*sums, x, v + h * shift, np.array([sweeps, shift])))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("stored", "classes"), [("dense", 3), ("sparse", 3), ("sparse", 11)])
def test_descent_by_columns_of_several_classes_reaches_the_same_minimum(
    level: str, grouped: bool, stored: str, classes: int
) -> None:
    """In NumPy all columns are visited every time, in C mostly the active ones: the minimum is one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.7)
    p = rng.dirichlet(np.ones(classes), size=40)
    own = rng.integers(classes, size=40)[:, None] == np.arange(classes)
    model = ClassModel.at(p, own, rng.uniform(0.5, 2.0, 40), np.full(5, 0.1), intercept=True)
    found = []
    for kernels in (native.REFERENCE, level):
        with native.using(kernels):
            x, z, b = np.zeros((5, classes)), np.zeros((40, classes)), np.zeros(classes)
            columns = MatrixColumns.of(X if stored == "dense" else sparse.csc_array(X))
            columns.descend_classes(model, z, b, x, np.full(5, 2.0), grouped=grouped, tol=1e-20, sweeps=3000)
            found.append((x, model.residuals(z), b - b.mean()))
            np.testing.assert_allclose(z, X @ x + b, atol=1e-10)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-8)
    assert 0 < np.count_nonzero(found[1][0]) < (15 if classes == 3 else 56 if grouped else 55)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("classes", [2, 7, 8, 9, 16, 20, 31, 32, 33, 70])
def test_dual_norms_of_any_number_of_classes_are_those_of_the_product(level: str, classes: int) -> None:
    rng = np.random.default_rng(classes)
    X = sparse.csc_array(rng.normal(size=(50, 9)) * (rng.random((50, 9)) < 0.4))
    u = rng.normal(size=(50, classes))
    g = X.toarray().T @ u
    with native.using(level):
        columns = MatrixColumns.of(X)
        np.testing.assert_allclose(columns.class_norms(u, grouped=False), np.abs(g).max(axis=1), rtol=1e-12)
        np.testing.assert_allclose(columns.class_norms(u, grouped=True), np.linalg.norm(g, axis=1), rtol=1e-12)


def test_hessian_of_a_softmax_model_is_the_change_of_its_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddsmith.kernels.columns.CHUNK", 16)
    rng = np.random.default_rng(0)
    p, own = rng.dirichlet(np.ones(4), size=40), rng.integers(4, size=40)[:, None] == np.arange(4)
    model = ClassModel.at(p, own, rng.uniform(0.5, 2.0, 40), np.zeros(6), intercept=False)
    V, classes = sparse.csc_array(rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.6)), np.array([0, 3, 1, 1, 2, 0])
    H = model.hessian(V, classes)
    for j in range(6):
        z = np.zeros((40, 4))
        z[:, classes[j]] = V.toarray()[:, j]
        change = model.residuals(z) - model.r
        np.testing.assert_allclose(H[:, j], (V.toarray() * change[:, classes]).sum(axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", DENSE_LAYOUTS)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_several_models_are_those_of_each(level: str, layout: str, kind: Any, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    X = laid_out((rng.normal(size=(157, 11)) + 3.0).astype(kind), layout)
    t = rng.integers(2, size=157).astype(np.int32)
    s = rng.uniform(0.0, 2.0, 157) if weighted else None
    offset = rng.normal(size=(157, 1)) if weighted else None
    W = rng.normal(size=(9, 11)) * (rng.random((9, 11)) < np.linspace(0.0, 1.0, 9)[:, None])
    at = CurvatureParams(W=W, b=rng.normal(size=9), center=np.full(11, 3.0))
    members = [np.flatnonzero(rng.random(12) < share) for share in np.linspace(0.0, 1.0, 9)]
    with native.using(native.REFERENCE):
        value, g, H = models(Block(X, t, s, offset), at, members=members)
    with native.using(level):
        block = Block(shifted(X, 1) if layout in "CF" else X, t, s, offset)
        found, slopes, hessians = models(block, at, members=members)
        alone, none, _ = models(block, at, slopes=False)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    np.testing.assert_allclose(slopes, g, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(hessians, H, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(alone, found)
    assert not none.any()


@pytest.mark.parametrize("level", LEVELS)
def test_many_models_are_the_sums_of_a_few(level: str) -> None:
    rng = np.random.default_rng(6)
    block = Block(rng.normal(size=(700, 5)), rng.integers(2, size=700).astype(np.int32))
    at = CurvatureParams(W=rng.normal(size=(71, 5)), b=rng.normal(size=71), center=np.zeros(5))
    with native.using(level):
        value, g, _ = models(block, at)
        each = [models(block, replace(at, W=at.W[k : k + 1], b=at.b[k : k + 1])) for k in range(71)]
    np.testing.assert_allclose(value, [found[0][0] for found in each], rtol=1e-13)
    np.testing.assert_allclose(g, [found[1][0] for found in each], rtol=1e-11, atol=1e-11)
