"""Shards merged are the pooled model: any number of them, in any order, with classes or categories missing in some."""

from typing import Any

import numpy as np
import polars
import pytest

from oddsmith import (
    FisherDiscriminant,
    GaussianClassifier,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    merge,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError
from oddsmith.models.gaussian import STRUCTURES

RNG = np.random.default_rng


def numbers(n: int = 2000, far: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    t = rng.integers(0, 4, n)
    X = rng.normal(size=(n, 4)) * np.array([1.0, 2.0, 0.5, 1.0]) + 1.5 * np.eye(4)[t]
    X[:, 3] += 0.3 * X[:, 0]
    return X + (np.array([1e8, -1e8, 1e6, 0.0]) if far else 0.0), np.array(["a", "b", "c", "d"])[t]


def columns(n: int = 2000) -> tuple[polars.DataFrame, np.ndarray]:
    """Return columns of every type; whole numbers that are 0 or 1 in some shards, and more in others."""
    rng = RNG(1)
    t = rng.integers(0, 4, n)
    table = polars.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + t),
            "flag": rng.random(n) < 0.2 + 0.2 * t,
            "colour": rng.choice(np.array([f"colour {i}" for i in range(30)]), n),
            "visits": rng.poisson(0.3 + 0.3 * t),
            "bit": rng.integers(0, 2, n),
            "change": rng.integers(-50, 50, n),
        }
    )
    return table, np.array(["a", "b", "c", "d"])[t]


def shards(X: Any, y: np.ndarray, count: int, seed: int) -> list[tuple[Any, np.ndarray]]:
    """Cut the rows, sorted roughly by class, so that every shard lacks some classes; in random order."""
    rng = RNG(seed)
    order = np.argsort(0.5 * np.unique(y, return_inverse=True)[1] + rng.random(len(y)))
    parts = np.array_split(order, count)
    return [(X[parts[i]], y[parts[i]]) for i in rng.permutation(count)]


MODELS = [
    *[(GaussianClassifier(structure), numbers()) for structure in STRUCTURES],
    (GaussianClassifier({"a": 1, "b": 2, "c": 1, "d": 2}), numbers()),
    (GaussianClassifier("separate", shrinkage="oas"), numbers()),
    (GaussianClassifier(class_prior={"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}), numbers()),
    (LeastSquaresClassifier(), numbers()),
    (LeastSquaresClassifier(prior=0.5), numbers()),
    (FisherDiscriminant(2, shrinkage="oas"), numbers()),
    (FisherDiscriminant(class_prior={"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}), numbers()),
    (NaiveBayes(), numbers()),
    (NaiveBayes(), columns()),
    (NaiveBayes({"visits": "multinomial", "bit": "multinomial", "change": "categorical"}), columns()),
]


NAMES = [f"{model!r} on {'numbers' if isinstance(data[0], np.ndarray) else 'columns'}" for model, data in MODELS]


def fit(model: Any, X: Any, y: np.ndarray) -> Any:
    return type(model)(**model.get_params()).partial_fit(X, y)


def same(found: Any, pooled: Any, X: Any) -> None:
    np.testing.assert_allclose(found.decision_function(X), pooled.decision_function(X), rtol=1e-10, atol=1e-9)
    for method in ("predict_proba", "log_density"):
        if hasattr(pooled, method):
            np.testing.assert_allclose(getattr(found, method)(X), getattr(pooled, method)(X), rtol=1e-10, atol=1e-10)
    assert getattr(found, "n_parameters_", None) == getattr(pooled, "n_parameters_", None)


@pytest.mark.parametrize("count", [2, 7, 40])
@pytest.mark.parametrize(("model", "data"), MODELS, ids=NAMES)
def test_merged_shards_equal_the_pooled_fit(model, data, count) -> None:
    X, y = data
    pooled = type(model)(**model.get_params()).fit(X, y)
    parts = shards(X, y, count, seed=count)
    assert any(len(np.unique(labels)) < 4 for _, labels in parts)
    merged = merge(*[fit(model, rows, labels) for rows, labels in parts])
    assert merged.classes_.tolist() == pooled.classes_.tolist()
    same(merged, pooled, X)


@pytest.mark.parametrize(("model", "data"), MODELS, ids=NAMES)
def test_rows_in_batches_equal_the_pooled_fit(model, data) -> None:
    X, y = data
    pooled = type(model)(**model.get_params()).fit(X, y)
    growing = type(model)(**model.get_params())
    for rows, labels in shards(X, y, 30, 0):
        growing.partial_fit(rows, labels, classes=["a", "b", "c", "d"])
    same(growing, pooled, X)


def test_merging_fitted_models_of_which_one_lacks_a_class() -> None:
    X, y = numbers()
    first = np.arange(len(y)) < 1000
    without = first & (y != "c")
    parts = [GaussianClassifier("separate").fit(X[rows], y[rows]) for rows in (without, ~without)]
    assert parts[0].classes_.tolist() == ["a", "b", "d"]
    pooled = GaussianClassifier("separate").fit(X, y)
    for merged in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        np.testing.assert_allclose(merged.predict_proba(X), pooled.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("structure", [*STRUCTURES, {"a": 1, "b": 2, "c": 1, "d": 2}], ids=str)
def test_columns_of_mean_1e8_keep_six_digits_through_a_hundred_merges(structure) -> None:
    X, y = numbers(far=True)
    merged = merge(*[fit(GaussianClassifier(structure), *part) for part in shards(X, y, 100, 0)])
    exact = GaussianClassifier(structure).fit(X - np.array([1e8, -1e8, 1e6, 0.0]), y)
    np.testing.assert_allclose(merged.covariances_, exact.covariances_, rtol=1e-6)
    np.testing.assert_allclose(merged.means_ - np.array([1e8, -1e8, 1e6, 0.0]), exact.means_, atol=1e-6)


def test_new_categories_and_new_classes_are_taken_in() -> None:
    one = NaiveBayes().fit(polars.DataFrame({"c": ["u", "v", "u"]}), [0, 1, 0])
    one.partial_fit(polars.DataFrame({"c": ["w", "u"]}), [2, 2])
    both = NaiveBayes().fit(polars.DataFrame({"c": ["u", "v", "u", "w", "u"]}), [0, 1, 0, 2, 2])
    assert one.levels_ == {"c": ["u", "v", "w"]} and one.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(one.parameters_["c"]["probability"], both.parameters_["c"]["probability"], rtol=1e-14)


def test_weights_pass_through() -> None:
    X, y = numbers()
    s = RNG(5).integers(0, 3, len(y))
    parts = [GaussianClassifier().partial_fit(X[i::3], y[i::3], sample_weight=s[i::3]) for i in range(3)]
    pooled = GaussianClassifier().fit(X, y, sample_weight=s)
    np.testing.assert_allclose(merge(*parts).coef_, pooled.coef_, rtol=1e-10)


def test_the_parts_stay_as_they_were() -> None:
    X, y = numbers()
    a, b = GaussianClassifier().fit(X[:1000], y[:1000]), GaussianClassifier().fit(X[1000:], y[1000:])
    before = a.predict_proba(X), b.predict_proba(X)
    merged = merge(a, b)
    assert merged is not a and merge(a) is a
    np.testing.assert_array_equal(a.predict_proba(X), before[0])
    np.testing.assert_array_equal(b.predict_proba(X), before[1])


def test_a_model_that_cannot_predict_yet_says_what_it_lacks() -> None:
    X, y = numbers()
    model = GaussianClassifier("separate").partial_fit(X[:3], ["a", "a", "b"], classes=["a", "b", "c", "d"])
    with pytest.raises(NotFittedError, match="no rows of class 'c'"):
        model.predict(X)
    assert not hasattr(model, "means_")
    model.partial_fit(X, y)
    assert model.predict(X).shape == (2000,)
    few = GaussianClassifier("separate").partial_fit(X[:3], ["a", "a", "b"])
    with pytest.raises(NotFittedError, match="Class 'a' has 2 rows, too few"):
        few.predict_proba(X)


@pytest.mark.parametrize("kind", [LeastSquaresClassifier, FisherDiscriminant])
def test_weights_are_solved_for_when_they_are_asked_for(kind: Any) -> None:
    X, y = numbers()
    model = kind().partial_fit(X[y == "a"], y[y == "a"])
    with pytest.raises(NotFittedError, match="cannot predict yet: there are rows of one class only"):
        model.predict(X)
    assert not hasattr(model, "coef_")
    model.partial_fit(X[y == "b"], y[y == "b"], classes=["a", "b", "d"])
    with pytest.raises(NotFittedError, match="there are no rows of class 'd'"):
        model.predict(X)
    other = kind().partial_fit(X[y == "d"], y[y == "d"])
    merged = merge(model, other)
    assert "coef_" not in vars(merged) and "coef_" not in vars(model)
    pooled = kind().fit(X[y != "c"], y[y != "c"])
    same(merged, pooled, X)
    assert merged.partial_fit(X[y == "c"], y[y == "c"]).classes_.tolist() == ["a", "b", "c", "d"]
    same(merged, kind().fit(X, y), X)
    again = merged.fit(X[y != "c"], y[y != "c"])
    assert again.classes_.tolist() == ["a", "b", "d"] and again.coef_.tobytes() == pooled.coef_.tobytes()
    with pytest.raises(AttributeError, match="no attribute 'nothing_'"):
        _ = model.nothing_ if kind().fit(X, y).nothing_ else None


def test_what_does_not_fit_together_is_refused_by_name() -> None:
    X, y = numbers()
    model = GaussianClassifier().fit(X, y)
    with pytest.raises(InvalidInputError, match="covariance is 'shared' here and 'separate' there"):
        merge(model, GaussianClassifier("separate").fit(X, y))
    with pytest.raises(InvalidInputError, match="columns are equal"):
        merge(model, GaussianClassifier().fit(X[:, :3], y))
    with pytest.raises(TypeError, match="GaussianClassifier merges only with its own kind, found a NaiveBayes"):
        merge(model, NaiveBayes().fit(X, y))
    with pytest.raises(TypeError, match="LogisticRegression cannot be merged"):
        merge(model, LogisticRegression())
    with pytest.raises(NotFittedError):
        merge(model, GaussianClassifier())
    with pytest.raises(TypeError, match="different types"):
        merge(model, GaussianClassifier().fit(X, np.arange(2000) % 3))
    with pytest.raises(InvalidInputError, match="at least one model"):
        merge()
    words = NaiveBayes().fit(polars.DataFrame({"c": ["u", "v"]}), [0, 1])
    with pytest.raises(InvalidInputError, match="'c' is categorical in one part and gaussian in the other"):
        merge(words, NaiveBayes().fit(polars.DataFrame({"c": [0.1, 0.2]}), [0, 1]))


def test_a_label_outside_the_classes_named_is_refused() -> None:
    X, y = numbers()
    with pytest.raises(InvalidInputError, match=r"label 'd'.*not among classes=\['a', 'b', 'c'\]"):
        GaussianClassifier().partial_fit(X, y, classes=["a", "b", "c"])


@pytest.mark.parametrize(
    ("kind", "other"), [(FisherDiscriminant, {"shrinkage": 0.5}), (LeastSquaresClassifier, {"prior": 0.5})]
)
def test_merged_shards_with_weights_equal_the_fit_to_all_rows(kind: Any, other: dict[str, float]) -> None:
    X, y = numbers(400)
    s = RNG(5).uniform(0.5, 2.0, len(y))
    pooled = kind().fit(X, y, sample_weight=s)
    first = (np.arange(len(y)) % 2 == 0) & (y != "c")  # a shard that lacks a class
    parts = [kind().fit(X[rows], y[rows], sample_weight=s[rows]) for rows in (first, ~first)]
    for merged in (merge(*parts), parts[1].merge(parts[0])):
        assert merged.classes_.tolist() == ["a", "b", "c", "d"]
        assert np.allclose(merged.coef_, pooled.coef_, rtol=1e-9, atol=1e-12)
        assert np.allclose(merged.intercept_, pooled.intercept_, rtol=1e-9)
    assert parts[0].classes_.tolist() == ["a", "b", "d"]
    with pytest.raises(InvalidInputError, match="columns are equal"):
        parts[0].merge(kind().fit(X[:, :3], y))
    with pytest.raises(InvalidInputError, match="parameters are equal"):
        parts[0].merge(kind(**other).fit(X, y))
    with pytest.raises(InvalidTypeError, match="merges only with its own kind"):
        parts[0].merge(LogisticRegression())
    with pytest.raises(NotFittedError):
        parts[0].merge(kind())
