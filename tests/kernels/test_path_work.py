"""The sweeps and steps of paths of sparse weights by columns, with the kernels of every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from tests.kernels.kernel_cases import LEVELS
from tests.likelihood.sparse_work import PATHS
from tests.likelihood.test_sparse_work import assert_same_work

from oddsmith.kernels import native
from oddsmith.kernels.columns import ClassModel, MatrixColumns


@pytest.mark.parametrize("name", [name for name in PATHS if not name.startswith("working sets")])
@pytest.mark.parametrize("level", LEVELS)
def test_work_of_a_path(level: str, name: str) -> None:
    with native.using(level):
        assert_same_work(name)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_model_of_a_softmax_is_its_quadratic(intercept: bool) -> None:
    """Residuals and curvature at probabilities p: s (diag p − p pᵀ) of each row."""
    rng = np.random.default_rng(0)
    n, K = 12, 3
    p = rng.dirichlet(np.ones(K), n)
    own, s, z = np.eye(K, dtype=bool)[rng.integers(0, K, n)], rng.uniform(0.5, 2.0, n), rng.normal(size=(n, K))
    model = ClassModel.at(p, own, s, np.zeros(2), intercept=intercept)
    V = s[:, None, None] * (np.einsum("nk,kl->nkl", p, np.eye(K)) - p[:, :, None] * p[:, None, :])
    np.testing.assert_allclose(model.residuals(z), s[:, None] * (p - own) + np.einsum("nkl,nl->nk", V, z), atol=1e-12)
    X, classes = rng.normal(size=(n, 4)), np.array([0, 2, 1, 2])
    expected = np.einsum("ni,nij,nj->ij", X, V[:, classes][:, :, classes], X)
    np.testing.assert_allclose(model.hessian(sparse.csc_array(X), classes), expected, atol=1e-12)
    if intercept:
        assert model.inverse is not None
        np.testing.assert_allclose(model.inverse, np.linalg.pinv(V.sum(axis=0)), atol=1e-10)


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("stored", [np.asarray, sparse.csc_array])
def test_the_model_of_columns_is_their_mean_and_square_under_curvatures(level: str, stored: type) -> None:
    rng = np.random.default_rng(1)
    X, h, ridge = (
        rng.normal(size=(30, 3)) + np.array([0.0, 2.0, 0.0]),
        rng.uniform(0.1, 1.0, 30),
        np.array([0.0, 0.5, 1.0]),
    )
    X[:, 2] = 4.0  # constant: no curvature is left of it
    with native.using(level):
        centred = MatrixColumns.of(stored(X)).model(h, ridge)
        plain = MatrixColumns.of(stored(X)).model(h, ridge, centred=False)
    mean = h @ X / h.sum()
    np.testing.assert_allclose(centred.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(centred.diagonal, h @ (X - mean) ** 2 + ridge, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(plain.diagonal, h @ X**2 + ridge, rtol=1e-9)
    assert centred.diagonal[2] == 1.0 and not plain.mean.any() and centred.total == pytest.approx(h.sum())
