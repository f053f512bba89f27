"""Recalibrated models: the right map around any model, and what it does to the scores."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from oddsmith import (
    FisherDiscriminant,
    GaussianClassifier,
    LogisticRegression,
    NaiveBayes,
    PerceptronClassifier,
    RecalibratedClassifier,
    evaluate,
    load,
    recalibrate,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning, UnknownNameError

METHODS = ["logistic", "temperature", "isotonic"]


def rows(K: int, n: int, seed: int) -> tuple[Any, Any]:
    """Correlated columns, of which naive Bayes is too sure."""
    rng = np.random.default_rng(seed)
    t = rng.integers(0, K, n)
    z = rng.normal(size=(n, 1)) + 0.9 * t[:, None]
    return z + 0.3 * rng.normal(size=(n, 6)), np.array(["ash", "birch", "cedar"])[t]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("K", [2, 3])
def test_an_overconfident_model_is_calibrated(method: str, K: int) -> None:
    model = NaiveBayes().fit(*rows(K, 1000, 0))
    better = recalibrate(model, *rows(K, 3000, 1), method)
    test = rows(K, 5000, 2)
    before, after = (evaluate(m, *test, replicates=200) for m in (model, better))
    assert before.calibration_slope < 0.6, "it is too sure of itself"
    assert after.log_loss < before.log_loss - 0.05 and after.calibration_error < before.calibration_error / 4
    if method != "isotonic":
        assert abs(after.calibration_slope - 1.0) < 0.1
    if method == "temperature":
        assert (better.predict(test[0]) == model.predict(test[0])).all() and better.map_.shift.tolist() == [0.0] * K
    np.testing.assert_allclose(better.predict_proba(test[0]).sum(axis=1), 1.0, atol=1e-12)
    assert better.model_ is model and better.decide(test[0]).tolist() == better.predict(test[0]).tolist()


@pytest.mark.parametrize("K", [2, 3])
def test_models_without_probabilities_get_some(K: int) -> None:
    X, y = rows(K, 2000, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        models = [PerceptronClassifier(max_epochs=5).fit(X[:500], y[:500]), LinearSVC().fit(X[:500], y[:500])]
    for model in models:
        better = recalibrate(model, X[500:], y[500:])
        found = evaluate(better, *rows(K, 4000, 1), replicates=200)
        assert abs(found.calibration_slope - 1.0) < 0.2 and found.log_loss < np.log(K)
        assert better.decide(X, reject=0.1).shape == y.shape


def test_fitting_learns_the_map_on_rows_that_the_model_had_not_seen() -> None:
    X, y = rows(2, 4000, 0)
    model = RecalibratedClassifier(NaiveBayes(), cv=4, seed=5).fit(X, y)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=5).split(X, y))
    by_hand = RecalibratedClassifier(NaiveBayes(), cv=folds).fit(X, y)
    assert model.map_.slope == pytest.approx(by_hand.map_.slope, rel=1e-12)
    assert abs(evaluate(model, *rows(2, 5000, 1), replicates=200).calibration_slope - 1.0) < 0.12
    np.testing.assert_allclose(model.class_prior_, [np.mean(y == "ash"), np.mean(y == "birch")])


def test_a_recalibrated_model_takes_another_prior_and_can_be_recalibrated_again() -> None:
    X, y = rows(2, 1000, 0)
    model = recalibrate(GaussianClassifier().fit(X, y), *rows(2, 1000, 1))
    moved = model.with_class_prior({"ash": 0.9, "birch": 0.1})
    P = model.predict_proba(X) * np.array([0.9, 0.1]) / model.class_prior_
    np.testing.assert_allclose(moved.predict_proba(X), P / P.sum(axis=1, keepdims=True), rtol=1e-10)
    again = recalibrate(moved, *rows(2, 3000, 2))
    assert abs(evaluate(again, *rows(2, 5000, 3), replicates=200).calibration_intercept) < 0.15
    # scikit-learn's models keep no shares: then a resampling can be undone, not a prior be set.
    theirs = recalibrate(Theirs().fit(X, y), X, y)
    with pytest.raises(InvalidInputError, match="does not know the class shares"):
        theirs.with_class_prior({"ash": 0.9, "birch": 0.1})
    odds = [np.log(m.predict_proba(X)) @ [-1.0, 1.0] for m in (theirs, theirs.undo_resampling({"ash": 0.5}))]
    np.testing.assert_allclose(odds[1] - odds[0], np.log(0.5), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_map_is_plain_arrays_and_travels_in_the_file_of_the_model(method: str, tmp_path: Path) -> None:
    X, y = rows(3, 600, 0)
    model = recalibrate(NaiveBayes().fit(X, y), *rows(3, 600, 1), method)
    for value in vars(model.map_).values():
        assert isinstance(value, bool | float | np.ndarray)
        assert np.asarray(value).dtype.kind in "bfi"
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert repr(model).startswith("RecalibratedClassifier(")
    model.save(tmp_path / "model")
    kept = load(tmp_path / "model")
    np.testing.assert_array_equal(kept.predict_proba(X), model.predict_proba(X))
    assert kept.method == method and type(kept.map_) is type(model.map_)


def test_predictive_decisions_are_mapped_too() -> None:
    from tests.decision.test_models_decide import Cautious

    X, y = rows(2, 600, 0)
    inner = Cautious().fit(X, y)
    model = recalibrate(inner, *rows(2, 600, 1))
    mapped = np.exp(model.map_(np.log(inner.predictive(X).mean)))
    expected = np.where(mapped[:, 1] > 0.25, "birch", "ash")
    assert model.decide(X, [[0, 1], [3, 0]], predictive=True).tolist() == expected.tolist()


def test_bad_input_is_refused_in_words() -> None:
    X, y = rows(2, 100, 0)
    model = LogisticRegression(prior=1.0).fit(X, y)
    refused: list[tuple[Any, type[Exception], str]] = [
        ((LogisticRegression(), X, y), InvalidTypeError, "needs a fitted classifier"),
        ((model, X, np.full(100, "ash")), InvalidInputError, "All rows are of class 'ash'"),
        ((model, X, np.full(100, "oak")), UnknownNameError, "Unknown class in y 'oak'"),
        ((model, X[:50], y), InvalidInputError, "50 rows and y 100"),
        ((model, X, y, "plat"), UnknownNameError, "Unknown way of calibrating"),
    ]
    for arguments, error, words in refused:
        with pytest.raises(error, match=words):
            recalibrate(*arguments)
    for parameters, error, words in (
        ({"cv": 1}, InvalidInputError, "cv must be"),
        ({"method": "plat"}, UnknownNameError, "Unknown way"),
        ({"model": LogisticRegression}, InvalidTypeError, "an instance"),
    ):
        with pytest.raises(error, match=words):
            RecalibratedClassifier(**parameters).fit(X, y)
    with pytest.raises(InvalidInputError, match="Class 'oak' has 1 row"):
        RecalibratedClassifier().fit(X, np.append(y[:-1], "oak"))


# ----------------------------------------------------------------------------------- models and rows of other makers


@pytest.mark.parametrize("method", METHODS)
def test_separated_classes_keep_finite_probabilities(method: str) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    for inner in (FisherDiscriminant(), GaussianClassifier("separate"), LinearSVC()):
        fitted = RecalibratedClassifier(inner, method).fit(X, y)
        for model in (fitted, recalibrate(inner.fit(X, y), X, y, method)):
            P = model.predict_proba(X)
            assert np.isfinite(P).all() and model.score(X, y) == 1.0
            assert log_loss(y, P) < 0.1, "a slope that was not found is 0"


@pytest.mark.parametrize("method", METHODS)
def test_zeros_of_a_forest_do_not_spoil_the_map(method: str) -> None:
    X, y = make_classification(1500, 10, n_informative=5, n_classes=4, flip_y=0.3, random_state=0)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:500], y[:500])
    assert (forest.predict_proba(X) == 0.0).mean() > 0.05
    FrozenEstimator = pytest.importorskip("sklearn.frozen").FrozenEstimator
    sigmoid = CalibratedClassifierCV(FrozenEstimator(forest), method="sigmoid").fit(X[500:1000], y[500:1000])
    better = recalibrate(forest, X[500:1000], y[500:1000], method)
    before, theirs, after = (evaluate(m, X[1000:], y[1000:], replicates=100) for m in (forest, sigmoid, better))
    assert after.brier < before.brier and after.brier < 1.03 * theirs.brier
    assert after.log_loss < before.log_loss - 1.0


def test_naive_bayes_that_is_sure_beyond_all_reason_is_calibrated() -> None:
    """Its log probabilities go down to −8e9; scikit-learn's sigmoid and temperature come to 1.98 and 3.80."""
    X, y = load_digits(return_X_y=True)
    model = NaiveBayes().fit(X[:600], y[:600])
    for method in ("logistic", "temperature"):
        better = recalibrate(model, X[600:1200], y[600:1200], method)
        assert evaluate(better, X[1200:], y[1200:], replicates=100).log_loss < 0.9


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_the_row_twice(method: str) -> None:
    X, y = rows(2, 200, 0)
    s = np.random.default_rng(0).integers(0, 3, 200)
    for model in (NaiveBayes().fit(X, y), LinearSVC().fit(X, y)):
        weighted = recalibrate(model, X, y, method, sample_weight=s)
        repeated = recalibrate(model, X.repeat(s, axis=0), y.repeat(s), method)
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)
    with pytest.raises(InvalidInputError, match="All rows are of class 'ash'"):
        recalibrate(model, X, y, method, sample_weight=y == "ash")


def test_weights_reach_the_map_of_a_model_that_takes_none() -> None:
    X, y = rows(2, 300, 0)
    s = np.where(y == "ash", 3.0, 1.0)
    with pytest.warns(OddsmithWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        weighted = RecalibratedClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=s)
    plain = RecalibratedClassifier(KNeighborsClassifier()).fit(X, y)
    assert weighted.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.05
    np.testing.assert_allclose(weighted.class_prior_[0], s[y == "ash"].sum() / s.sum())


def test_folds_without_a_class_are_left_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 5)), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    for inner in (DecisionTreeClassifier(random_state=7), LinearSVC(), NaiveBayes()):
        with pytest.warns(OddsmithWarning, match=r"2 of 3 folds have no training rows of some class \(0, 3\)"):
            model = RecalibratedClassifier(inner, cv=KFold(3)).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    with pytest.raises(InvalidInputError, match=r"No fold has training rows of every class .*cv=5"):
        RecalibratedClassifier(cv=KFold(2)).fit(X[:6], y[:6])
