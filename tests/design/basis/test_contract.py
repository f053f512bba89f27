"""Every registered basis keeps the contract of scikit-learn and of this library."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import oddsmith
from oddsmith import GaussianKernel, Polynomial, RadialBasis, Spline, Standardize
from oddsmith.design.basis import BASES
from oddsmith.design.basis.base import Basis
from oddsmith.errors import InvalidInputError, NotFittedError
from oddsmith.testing import all_bases, check_basis

OTHERS = [
    Standardize(center=False),
    Standardize(scale=False),
    Polynomial(3, interactions=False),
    Polynomial(4),
    RadialBasis(3, method="sample"),
    RadialBasis(4, width=2.0, seed=7),
    GaussianKernel(landmarks=3),
    GaussianKernel(width=0.5, landmarks=4, whiten=True),
    GaussianKernel(whiten=True),
    Spline(natural=False, degree=2, knots=4),
    Spline(periodic=True),
    Spline(3),
]
EVERY = [*all_bases(), *OTHERS]


@pytest.mark.parametrize("basis", EVERY, ids=repr)
def test_basis_keeps_the_contract(basis: Any) -> None:
    check_basis(basis)


@pytest.mark.parametrize("basis", EVERY, ids=repr)
def test_basis_passes_the_checks_of_scikit_learn(basis: Any) -> None:
    check_estimator(basis, on_skip=None)


def test_every_registered_basis_is_public() -> None:
    for _, kind in BASES.items():
        assert getattr(oddsmith, kind.__name__) is kind


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """Rows of up to three columns: continuous or with ties, near zero or far from it, in any unit."""
    n, D = draw(st.integers(8, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, D))
    ties = np.array(draw(st.lists(st.booleans(), min_size=D, max_size=D)))
    X = np.where(ties, np.round(X), X)
    # Five different rows, so that there are centres enough.
    X[:5, 0] = np.arange(5)
    unit = draw(st.sampled_from([1e-30, 1e-3, 1.0, 1e5, 1e30]))
    return (X + draw(st.sampled_from([0.0, 0.0, -3.0, 1e4]))) * unit


@pytest.mark.parametrize(
    "basis", [basis for basis in EVERY if isinstance(getattr(basis, "width", "median"), str)], ids=repr
)
@given(X=tables())
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_basis_keeps_the_contract_on_any_rows(basis: Any, X: np.ndarray) -> None:
    check_basis(basis, X)


@pytest.mark.parametrize("basis", EVERY, ids=repr)
def test_names_come_from_a_data_frame_of_any_library(basis: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = np.random.default_rng(0).normal(size=(30, 2))
    plain = clone(basis).fit(X)
    for library in (pandas, polars):
        table = library.DataFrame({"age": X[:, 0], "weight": X[:, 1]})
        named = clone(basis).fit(table)
        np.testing.assert_array_equal(named.transform(table), plain.transform(X))
        assert named.feature_names_in_.tolist() == ["age", "weight"]
        expected = plain.get_feature_names_out(["age", "weight"]).tolist()
        assert named.get_feature_names_out().tolist() == expected
    frame = named.set_output(transform="pandas").transform(table)
    assert frame.columns.tolist() == expected


@pytest.mark.parametrize("basis", list(all_bases()), ids=repr)
def test_words_are_refused_by_the_name_of_their_column(basis: Any) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, 2.0, 3.0], "town": ["a", "b", "c"]})
    with pytest.raises(InvalidInputError, match="'town'"):
        basis.fit(table)


@pytest.mark.parametrize("basis", list(all_bases()), ids=repr)
def test_transform_before_fit_is_refused(basis: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(basis).transform([[1.0]])


class Forgetful(Basis):
    """The rows less the mean of whatever rows come together: what the contract forbids."""

    def learn(self, source: Any, engine: Any, names: Any) -> None:
        self.width_ = len(names)

    def expand(self, rows: Any) -> np.ndarray:
        return np.asarray(rows, dtype=np.float64) - np.mean(rows)

    def column_names(self, names: Any) -> list[str]:
        return list(names)


class Greedy(Basis):
    """Learns from the first block only."""

    def learn(self, source: Any, engine: Any, names: Any) -> None:
        self.mean_ = source.block(*source.slices()[0]).X.mean(axis=0)

    def expand(self, rows: Any) -> np.ndarray:
        return np.asarray(rows, dtype=np.float64) - self.mean_

    def column_names(self, names: Any) -> list[str]:
        return list(names)


class Twin(Greedy):
    """Gives two columns one name."""

    def learn(self, source: Any, engine: Any, names: Any) -> None:
        self.mean_ = 0.0

    def column_names(self, names: Any) -> list[str]:
        return ["same"] * len(names)


@pytest.mark.parametrize(
    ("basis", "law"), [(Forgetful(), "rows in two parts"), (Greedy(), "blocks of"), (Twin(), "occurs twice")]
)
def test_check_basis_finds_what_breaks_the_contract(basis: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_basis(basis)
