"""Boundaries and distances of every linear model: against the projection formula and the maximum rule."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith import (
    FisherDiscriminant,
    LeastSquaresClassifier,
    LogisticRegression,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
)
from oddsmith.errors import OddsmithWarning
from oddsmith.models.geometry_mixin import lengths
from oddsmith.testing import all_models

RNG = np.random.default_rng


def overlapping(K: int, D: int = 3, n: int = 150):
    rng = RNG(K)
    t = np.arange(n) % K
    X = rng.normal(size=(n, D)) + 1.5 * rng.normal(size=(K, D))[t] + 2.0
    return X, np.array(["ash", "birch", "cedar", "elm"])[t]


def fitted(model, K: int):
    X, y = overlapping(K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        return clone(model).fit(X, y), X


def linear_models():
    """Every registered model that is linear, and those that are with other settings."""
    found = [model for model in all_models() if hasattr(fitted(model, 2)[0], "boundary_")]
    return [*found, LeastSquaresClassifier("fisher"), LeastSquaresClassifier(prior=0.1), FisherDiscriminant(1)]


LINEAR = linear_models()
SEVERAL = [m for m in LINEAR if get_tags(m).classifier_tags.multi_class and getattr(m, "targets", "") != "fisher"]


def test_every_linear_model_has_a_boundary():
    names = {type(model).__name__ for model in LINEAR}
    ours = (LogisticRegression, LeastSquaresClassifier, FisherDiscriminant, PerceptronClassifier, OneVsRest, OneVsOne)
    assert names >= {model.__name__ for model in ours}
    for model in all_models():
        if hasattr(fitted(model, 2)[0], "coef_"):
            assert type(model).__name__ in names, f"{type(model).__name__} has weights and no boundary_."


@pytest.mark.parametrize("model", LINEAR, ids=repr)
def test_signed_distance_is_that_of_the_projection(model):
    """x = x⊥ + r w/‖w‖, where x⊥ is on the boundary and r the signed distance; the origin's is w₀/‖w‖."""
    model, X = fitted(model, 2)
    boundary, w, w0 = model.boundary_, model.coef_[0], model.intercept_[0]
    assert np.linalg.norm(boundary.normal) == pytest.approx(1.0, rel=1e-14)
    r = model.distance(X)
    assert np.allclose(r, (X @ w + w0) / np.linalg.norm(w), rtol=1e-12)
    foot = X - r[:, None] * boundary.normal
    assert np.abs(foot @ w + w0).max() < 1e-12 * np.linalg.norm(w) * np.abs(X).max()
    assert np.allclose(np.linalg.norm(X - foot, axis=1), np.abs(r), rtol=1e-9)
    assert boundary.origin_distance == pytest.approx(-w0 / np.linalg.norm(w), rel=1e-12)
    # The hyperplane's point nearest to the origin is origin_distance · normal.
    assert abs(boundary.origin_distance * boundary.normal @ w + w0) < 1e-12 * max(abs(w0), np.linalg.norm(w))
    assert np.allclose(model.distance(np.zeros((1, 3))), -boundary.origin_distance, rtol=1e-12)
    assert boundary.classes == [("ash", "birch")]
    assert np.array_equal(model.predict(X) == "birch", r > 0)


@pytest.mark.parametrize("model", SEVERAL, ids=repr)
@pytest.mark.parametrize("K", [3, 4])
def test_pairs_of_classes_have_a_hyperplane_each(model, K):
    model, X = fitted(model, K)
    boundary, r = model.boundary_, model.distance(X)
    labels = model.classes_.tolist()
    pairs = list(combinations(range(K), 2))
    assert boundary.classes == [(labels[i], labels[j]) for i, j in pairs]
    assert r.shape == (len(X), len(pairs)) and boundary.normal.shape == (len(pairs), 3)
    assert np.allclose(r, X @ boundary.normal.T + boundary.offset, rtol=1e-9, atol=1e-12)
    assert np.allclose(boundary.origin_distance, -boundary.offset)
    if isinstance(model, OneVsOne):
        return  # its hyperplanes are those of the pairs, which need not agree
    W, b = model.coef_, model.intercept_
    for column, (i, j) in enumerate(pairs):
        w, w0 = W[j] - W[i], b[j] - b[i]
        assert np.allclose(r[:, column], (X @ w + w0) / np.linalg.norm(w), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", SEVERAL, ids=repr)
def test_decisions_are_by_the_maximum_and_every_pair_agrees_with_it(model):
    model, _ = fitted(model, 3)
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 8, 15)] * 3), axis=-1).reshape(-1, 3)
    values = model.decision_function(grid)
    winner = values.argmax(axis=1)
    assert np.array_equal(model.predict(grid), model.classes_[winner])
    if isinstance(model, OneVsOne):
        return
    r = model.distance(grid)
    for column, (i, j) in enumerate(combinations(range(3), 2)):
        assert np.all(r[winner == j, column] >= 0) and np.all(r[winner == i, column] <= 0)


def test_boundary_is_a_table():
    model, _ = fitted(LeastSquaresClassifier(), 3)
    table = model.boundary_.to_dict()
    assert list(table) == ["classes", "normal_0", "normal_1", "normal_2", "offset", "origin_distance"]
    assert table["classes"] == ["ash | birch", "ash | cedar", "birch | cedar"]
    assert "ash | cedar" in str(model.boundary_)


def test_equal_weights_have_no_boundary():
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    model = LeastSquaresClassifier().fit(X, [0, 0, 1, 1])
    assert model.coef_.tolist() == [[0.0]]
    assert np.isnan(model.boundary_.normal).all() and np.isnan(model.distance(X)).all()


def test_lengths_neither_overflow_nor_vanish():
    W = np.array([[3e-200, 4e-200], [3e200, -4e200], [0.0, 0.0]])
    assert np.allclose(lengths(W)[:2], [5e-200, 5e200], rtol=1e-14) and np.isnan(lengths(W)[2])
