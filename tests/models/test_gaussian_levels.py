"""Singular covariances of factors with many levels are found by counts, and refused as those that are formed."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oddsmith import GaussianClassifier
from oddsmith.densities.covariance_checks import Names, check_levels
from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.models import gaussian
from oddsmith.statistics import Moments, MomentsParams

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
KINDS = ("shared", "separate", {0: "a", 1: "b", 2: "a"})


@st.composite
def tables(draw: st.DrawFn) -> tuple[npt.NDArray[np.float64], tuple[int, int], npt.NDArray[np.int32]]:
    """Numbers, a small factor that may be nested in a larger one, and that one; its columns, and classes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, levels, numbers = draw(st.integers(30, 200)), draw(st.integers(2, 9)), draw(st.integers(0, 2))
    fine = np.append(np.arange(levels), rng.integers(0, levels, n - levels))
    nested = draw(st.sampled_from(["nested", "some nested", "free"]))
    coarse = fine % 3
    if nested != "nested":
        moved = rng.random(n) < (1.0 if nested == "free" else 0.3 * (fine > levels // 2))
        coarse = np.where(moved, rng.integers(0, 3, n), coarse)
    t = rng.integers(0, 3, n)
    if draw(st.booleans()):  # a level without some class
        t[(fine == levels - 1) & (t == draw(st.integers(0, 2)))] = draw(st.integers(0, 2))
    t[:9] = np.repeat([0, 1, 2], 3)
    x = draw(st.sampled_from([0.0, 1e4])) + rng.normal(size=(n, numbers))
    dropped = draw(st.integers(0, 1))
    X = np.column_stack([x, np.eye(3)[coarse][:, 1:], np.eye(levels)[fine][:, dropped:]])
    first = X.shape[1] - (levels - dropped)
    return X, (first, X.shape[1]), t.astype(np.int32)


def refusal(action: Any) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except InvalidInputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(tables(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_counts_refuse_what_the_covariance_itself_would(kind: Any, table: Any, weighted: bool) -> None:
    X, levels, t = table
    model = GaussianClassifier(kind)
    s = np.random.default_rng(0).integers(1, 4, len(t)).astype(float) if weighted else None
    expected = refusal(lambda: model.fit(X, t, sample_weight=s))
    classes, params = np.arange(3), model._moments_params(np.arange(3))
    source = MemorySource(sparse.csr_array(X), t, 3, s)
    found = Moments.of(source.block(0, len(t)), MomentsParams(3, "diagonal"))
    moments = Moments(found.weight, found.mean, found.scatter, params.group)
    names = Names([f"x{j}" for j in range(X.shape[1])], classes)
    assert refusal(lambda: check_levels(source, moments, levels, names, set_aside=kind == "shared")) == expected


def nested(n: int = 6_000, levels: int = 400) -> tuple[pandas.DataFrame, npt.NDArray[np.int64]]:
    """An operator with its vehicles, and classes in all of which each vehicle occurs."""
    rng = np.random.default_rng(0)
    vehicle, t = np.tile(np.arange(levels), n // levels), np.repeat(np.arange(2), n // 2)
    columns = {"speed": 100.0 + rng.normal(size=n), "operator": np.char.add("o", (vehicle % 7).astype(str))}
    return pandas.DataFrame({**columns, "vehicle": np.char.add("v", vehicle.astype(str))}), t


def never(*_: object) -> None:
    raise AssertionError("the covariance was formed")


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_nested_factors_are_refused_before_a_covariance_is_formed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of 4,037 aircraft with their carriers took 80 s and 1.3 GB."""
    frame, t = nested()
    monkeypatch.setattr(GaussianClassifier, "_fold", never)
    with pytest.raises(
        InvalidInputError, match=r"singular: column 'vehicle\[v\d+\]' is a linear combination of 'operator"
    ):
        GaussianClassifier(kind).fit(frame, t)


def test_levels_absent_from_a_class_are_refused_before_a_covariance_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, t = nested()
    frame = frame[["speed", "vehicle"]]
    t[(frame["vehicle"] == "v7").to_numpy()] = 0
    monkeypatch.setattr(GaussianClassifier, "_fold", never)
    with pytest.raises(InvalidInputError, match=r"Column 'vehicle\[v7\]' has zero variance in class 1"):
        GaussianClassifier("separate").fit(frame, t)


@pytest.mark.parametrize(
    "options", [{"shrinkage": 0.1}, {"shrinkage": "oas"}, {"covariance": "shared-diagonal"}], ids=str
)
def test_what_makes_covariances_regular_is_fitted(options: dict[str, Any]) -> None:
    frame, t = nested()
    assert GaussianClassifier(**options).fit(frame, t).score(frame, t) >= 0.5


def test_a_fit_that_is_not_refused_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, t = nested()
    frame = frame[["speed", "vehicle"]]
    early = GaussianClassifier().fit(frame, t)
    monkeypatch.setattr(gaussian, "MANY_LEVELS", 10_000)
    np.testing.assert_array_equal(early.coef_, GaussianClassifier().fit(frame, t).coef_)
