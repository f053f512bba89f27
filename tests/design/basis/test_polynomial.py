"""Standardising and monomials against scikit-learn and against their counts."""

from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from oddsmith import Polynomial, Standardize
from oddsmith.design.basis import standardize as standardize_module
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError


@pytest.mark.parametrize("D", [1, 2, 5])
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_monomials_and_names_equal_those_of_scikit_learn(degree: int, D: int) -> None:
    X = np.random.default_rng(D).normal(size=(300, D))
    ours, theirs = Polynomial(degree).fit(X), PolynomialFeatures(degree, include_bias=False).fit(X)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-14)


@pytest.mark.parametrize(("D", "G"), [(1, 5), (2, 4), (4, 3), (10, 3)])
def test_there_are_as_many_monomials_of_a_degree_as_the_lecture_counts(D: int, G: int) -> None:
    names = Polynomial(G).fit(np.ones((1, D))).get_feature_names_out()

    def degree(name: str) -> int:
        return sum(int(part.split("^")[1]) if "^" in part else 1 for part in name.split())

    for g in range(1, G + 1):
        assert sum(degree(name) == g for name in names) == comb(D + g - 1, g)


def test_powers_alone_are_columns_of_the_whole() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    whole, powers = Polynomial(3).fit(X), Polynomial(3, interactions=False).fit(X)
    names = powers.get_feature_names_out().tolist()
    assert names == ["x0", "x1", "x2", "x0^2", "x1^2", "x2^2", "x0^3", "x1^3", "x2^3"]
    where = [whole.get_feature_names_out().tolist().index(name) for name in names]
    np.testing.assert_allclose(powers.transform(X), whole.transform(X)[:, where], rtol=1e-15)


def test_too_many_monomials_are_refused_with_their_count() -> None:
    X = np.ones((2, 100))
    with pytest.raises(InvalidInputError, match=r"176,850 columns .*limit=176850"):
        Polynomial(3).fit(X)
    assert Polynomial(3, limit=176_850).fit(X).n_outputs_ == 176_850


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 0}, "at least 1, found 0"),
        ({"degree": -1}, "found -1"),
        ({"degree": 1.5}, "found 1.5"),
        ({"degree": "two"}, "'two'"),
        ({"degree": True}, "True"),
        ({"degree": None}, "None"),
        ({"interactions": "yes"}, "'yes'"),
        ({"limit": 0}, "limit"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OddsmithError, match=message):
        Polynomial(**options).fit([[1.0], [2.0]])


def test_powers_beyond_float64_are_refused() -> None:
    basis = Polynomial(4).fit([[1.0]])
    with pytest.raises(InvalidInputError, match="Standardize"):
        basis.transform([[1e100]])
    assert basis.transform([[1e-100]])[0, 3] == 0.0


def test_standardising_equals_that_of_scikit_learn() -> None:
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 1e-6, 1e6] + [1e4, 0.0, 5.0]
    for center in (True, False):
        for scale in (True, False):
            ours = Standardize(center, scale).fit(X)
            theirs = StandardScaler(with_mean=center, with_std=scale).fit(X)
            np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-10, atol=1e-10)


def test_a_column_far_from_zero_keeps_its_digits() -> None:
    x = np.arange(1000.0) - 499.5
    Phi = Standardize().fit_transform(np.column_stack([x, x + 2.0**40]))
    np.testing.assert_allclose(Phi[:, 1], Phi[:, 0], rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -1e-300])
def test_a_constant_column_becomes_zero(value: float) -> None:
    Phi = Standardize().fit_transform(np.full((997, 1), value))
    assert np.abs(Phi).max() <= 1e-15 * abs(value)
    # The mean of a sparse column is a sum of rounded numbers, and yet it does not vary.
    rows = sparse.csr_array(np.full((997, 1), value))
    np.testing.assert_array_equal(Standardize(center=False).fit_transform(rows).toarray(), rows.toarray())


def test_sparse_rows_stay_sparse_and_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.where(rng.random((50, 4)) < 0.7, 0.0, rng.normal(size=(50, 4))))
    Phi = Standardize(center=False).fit_transform(X)
    assert sparse.issparse(Phi) and Phi.nnz == X.nnz
    np.testing.assert_allclose(Phi.toarray(), StandardScaler(with_mean=False).fit_transform(X.toarray()), rtol=1e-12)
    centred = Standardize().fit(X)
    assert sparse.issparse(centred.transform(X)) and centred.transform(X).has_canonical_format
    np.testing.assert_allclose(centred.transform(X).toarray(), StandardScaler().fit_transform(X.toarray()), atol=1e-12)
    np.testing.assert_allclose(Standardize().fit(X.toarray()).transform(X).toarray(), centred.transform(X).toarray())
    monkeypatch.setattr(standardize_module, "FILLED", 199)
    with pytest.raises(InvalidInputError, match=r"zeros of a sparse matrix: 200 numbers.*center=False"):
        Standardize().fit(X)


def test_squares_beyond_float64_are_refused_by_the_name_of_the_column() -> None:
    with pytest.raises(InvalidInputError, match="'x1'"):
        Standardize().fit([[1.0, 1e200], [2.0, -1e200]])


@pytest.mark.parametrize("options", [{"center": 1}, {"scale": "yes"}, {"center": None}])
def test_standardize_takes_truth_values(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTypeError, match="True or False"):
        Standardize(**options).fit([[1.0], [2.0]])
