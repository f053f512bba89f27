"""Radial bases and kernels against their formula in extended precision, scikit-learn and brute force."""

from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from oddsmith import GaussianKernel, RadialBasis
from oddsmith.design.basis.radial import METHODS, bumps, inverse_root
from oddsmith.errors import InvalidInputError, OddsmithError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("width", [1e-3, 0.5, 2.0, 1e6])
def test_bumps_equal_their_formula_in_extended_precision(width: float, shift: float) -> None:
    """Far from zero and far from each other, where products of rows and centres would cancel."""
    rows = X[:6] + shift
    # Neighbours a fraction of a width away from the centres, wherever these are.
    rows = np.vstack([rows, rows + 0.3 * width])
    centers = rows[:4]
    found = bumps(rows, centers, width)
    with mpmath.workdps(50):
        for i, x in enumerate(rows):
            for j, c in enumerate(centers):
                square = mpmath.fsum((mpmath.mpf(a) - mpmath.mpf(b)) ** 2 for a, b in zip(x, c, strict=True))
                expected = float(mpmath.exp(-square / (2 * mpmath.mpf(width) ** 2)))
                assert found[i, j] == pytest.approx(expected, rel=1e-10, abs=1e-300)


def test_extreme_widths_give_ones_and_zeros() -> None:
    rows = np.array([[0.0], [1.0], [1e300]])
    np.testing.assert_array_equal(bumps(rows, rows, 1e-300), np.eye(3))
    np.testing.assert_array_equal(bumps(rows[:2], rows[:2], 1e300), np.ones((2, 2)))


def test_no_bump_is_higher_than_one() -> None:
    rows = X + 3.0
    for width in (0.05, 0.3, 1.0):
        assert bumps(rows, rows, width).max() == 1.0


def test_a_kernel_at_every_row_is_the_kernel_matrix() -> None:
    basis = GaussianKernel(width=0.7).fit(X)
    expected = rbf_kernel(X, gamma=1.0 / (2.0 * 0.7**2))
    np.testing.assert_allclose(basis.transform(X), expected, atol=1e-14)
    np.testing.assert_allclose(basis.gram_, expected, atol=1e-14)
    np.testing.assert_array_equal(basis.gram_, basis.gram_.T)
    np.testing.assert_array_equal(basis.centers_, X)


def test_whitened_landmarks_approximate_the_kernel_as_scikit_learn_does() -> None:
    basis = GaussianKernel(width=1.5, landmarks=40, whiten=True, seed=3).fit(X)
    theirs = Nystroem(gamma=1.0 / (2.0 * 1.5**2), n_components=40).fit(basis.centers_)
    Phi, Psi = basis.transform(X), theirs.transform(X)
    np.testing.assert_allclose(Phi @ Phi.T, Psi @ Psi.T, atol=1e-7)
    inside = basis.transform(basis.centers_)
    np.testing.assert_allclose(inside @ inside.T, rbf_kernel(basis.centers_, gamma=1 / 4.5), atol=1e-9)
    np.testing.assert_array_equal(basis.gram_, np.eye(40))


def test_inverse_root_leaves_singular_directions_out() -> None:
    V = RNG.normal(size=(6, 3))
    K = V @ V.T
    root = inverse_root(K)
    assert root.shape == (6, 3)
    np.testing.assert_allclose(root.T @ K @ root, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(K @ root @ root.T @ K, K, atol=1e-10)


def test_duplicated_rows_are_whitened() -> None:
    rows = np.vstack([X[:10], X[:10]])
    basis = GaussianKernel(width=1.0, whiten=True).fit(rows)
    Phi = basis.transform(rows)
    assert Phi.shape == (20, 10) and len(basis.get_feature_names_out()) == 10
    np.testing.assert_allclose(Phi @ Phi.T, rbf_kernel(rows, gamma=0.5), atol=1e-9)


def test_the_median_width_is_the_median_distance_between_rows() -> None:
    expected = np.median(pdist(X))
    assert GaussianKernel().fit(X).width_ == pytest.approx(expected)
    assert RadialBasis().fit(X).width_ == pytest.approx(expected)
    # Rows that are equal are one row.
    assert GaussianKernel(landmarks=5).fit(np.repeat(X, 3, axis=0)).width_ == pytest.approx(expected)
    many = np.random.default_rng(1).normal(size=(20_000, 3))
    assert GaussianKernel(landmarks=5).fit(many).width_ == pytest.approx(np.median(pdist(many[:3000])), rel=0.05)


def test_landmarks_are_different_training_rows_whatever_their_order() -> None:
    rows = np.vstack([X, X])
    basis = GaussianKernel(landmarks=20, seed=1).fit(rows)
    assert len(np.unique(basis.centers_, axis=0)) == 20
    assert {tuple(row) for row in basis.centers_} <= {tuple(row) for row in X}
    again = GaussianKernel(landmarks=20, seed=1).fit(rows[::-1].copy())
    np.testing.assert_array_equal(again.centers_, basis.centers_)
    other = GaussianKernel(landmarks=20, seed=2).fit(rows)
    assert {tuple(row) for row in other.centers_} != {tuple(row) for row in basis.centers_}


def test_kmeans_finds_the_clusters() -> None:
    places = np.array([[0.0, 0.0], [1e6, 0.0], [0.0, 1e6], [1e6, 1e6]])
    rows = np.repeat(places, 50, axis=0) + np.random.default_rng(0).normal(size=(200, 2))
    centers = RadialBasis(4).fit(rows).centers_
    expected = rows.reshape(4, 50, 2).mean(axis=1)
    order = np.lexsort(np.round(centers, -3).T[::-1])
    np.testing.assert_allclose(centers[order], expected[[0, 2, 1, 3]], atol=1e-5)


def test_kmeans_weighs_a_row_by_how_often_it_occurs() -> None:
    rows = np.repeat([[0.0], [1.0], [10.0]], [30, 10, 5], axis=0)
    centers = np.sort(RadialBasis(2, width=1.0).fit(rows).centers_.ravel())
    np.testing.assert_allclose(centers, [0.25, 10.0])


def test_centers_can_be_given() -> None:
    centers = X[:7].copy()
    basis = RadialBasis(centers, width=1.0).fit(X)
    np.testing.assert_allclose(basis.transform(X), rbf_kernel(X, centers, gamma=0.5), atol=1e-14)
    assert basis.centers is centers
    np.testing.assert_array_equal(GaussianKernel(1.0, landmarks=centers).fit(X).centers_, centers)


def test_no_number_of_centers_is_some_or_all_rows() -> None:
    assert len(RadialBasis().fit(X).centers_) == 25
    assert len(RadialBasis().fit(X[:6]).centers_) == 6


def test_sparse_rows_give_the_same_centers_and_values() -> None:
    dense = np.where(RNG.random((200, 4)) < 0.6, 0.0, RNG.normal(size=(200, 4)))
    rows = sparse.csr_array(dense)
    for basis in (GaussianKernel(landmarks=10), RadialBasis(10), GaussianKernel()):
        expected = basis.fit(dense).transform(dense)
        np.testing.assert_allclose(basis.fit(rows).transform(rows), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (GaussianKernel(width=0), "positive number, found 0"),
        (GaussianKernel(width=-1.0), "found -1.0"),
        (GaussianKernel(width=float("nan")), "found nan"),
        (GaussianKernel(width=float("inf")), "found inf"),
        (GaussianKernel(width="mean"), "Unknown width .*'mean'. Known: 'median'"),
        (GaussianKernel(width=None), "None"),
        (GaussianKernel(width=True), "True"),
        (GaussianKernel(landmarks=301), "301 .* 300 .*landmarks=300"),
        (GaussianKernel(landmarks=0), "at least 1, found 0"),
        (GaussianKernel(landmarks=2.5), "whole number.*found 2.5"),
        (GaussianKernel(landmarks=[[1.0]]), "3 columns"),
        (GaussianKernel(landmarks=[[1.0, np.nan, 2.0]]), "NaN"),
        (GaussianKernel(landmarks="all"), "could not convert"),
        (GaussianKernel(limit=299), "300 columns .*landmarks=300.*limit=300"),
        (GaussianKernel(whiten="yes"), "True or False"),
        (GaussianKernel(seed=-1), "seed"),
        (GaussianKernel(seed="a"), "seed"),
        (RadialBasis(0), "at least 1"),
        (RadialBasis(301), "301"),
        (RadialBasis(301, method="sample"), "301"),
        (RadialBasis([[1.0, 2.0]]), "3 columns"),
        (RadialBasis(np.empty((0, 3))), "shape"),
        (RadialBasis(50, limit=20), "50 columns .*limit=50"),
        (RadialBasis(method="k-means"), "Known: 'kmeans', 'sample'. Did you mean 'kmeans'?"),
        (RadialBasis(width=0.0), "positive"),
    ],
    ids=repr,
)
def test_bad_arguments_are_refused(basis: Any, message: str) -> None:
    with pytest.raises(OddsmithError, match=message):
        basis.fit(X)


def test_equal_rows_have_no_median_distance() -> None:
    with pytest.raises(InvalidInputError, match="Give a number as width"):
        GaussianKernel().fit(np.ones((5, 2)))
    assert GaussianKernel(width=1.0, landmarks=1).fit(np.ones((5, 2))).transform(np.ones((1, 2))).tolist() == [[1.0]]


def test_methods_are_found_by_name() -> None:
    assert list(METHODS) == ["kmeans", "sample"]
