"""Comparisons: the same folds for all, paired differences, failures that stay in their row."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, StratifiedKFold, cross_val_predict

from oddsmith import GaussianClassifier, LogisticRegression, NaiveBayes, OneVsRest, compare
from oddsmith.demo import penguins
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.comparison import default_models
from oddsmith.models import MODELS, RecalibratedClassifier

X, Y = load_iris(return_X_y=True)


class Broken(ClassifierMixin, BaseEstimator):
    """A classifier that fails in the fold of that number."""

    folds = 0

    def __init__(self, fold: int = 0) -> None:
        self.fold = fold

    def fit(self, X: Any, y: Any) -> Any:
        Broken.folds += 1
        if Broken.folds > self.fold:
            raise RuntimeError("broken on purpose")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def row(result: Any, name: str) -> dict[str, Any]:
    i = result.columns["model"].index(name)
    return {column: values[i] for column, values in result.columns.items()}


def test_scores_are_those_of_cross_validated_predictions() -> None:
    result = compare({"ours": GaussianClassifier(), "theirs": Theirs(max_iter=1000)}, X, Y, cv=4, seed=3)
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    losses = {}
    for name, model in (("ours", GaussianClassifier()), ("theirs", Theirs(max_iter=1000))):
        P = cross_val_predict(model, X, Y, cv=folds, method="predict_proba")
        found = row(result, name)
        assert found["log_loss"] == pytest.approx(log_loss(Y, P), rel=1e-9)
        assert found["accuracy"] == pytest.approx((P.argmax(axis=1) == Y).mean())
        areas = [roc_auc_score(Y[test], P[test], multi_class="ovr") for _, test in folds.split(X, Y)]
        sizes = [len(test) for _, test in folds.split(X, Y)]
        assert found["auc"] == pytest.approx(np.average(areas, weights=sizes), rel=1e-9)
        losses[name] = -np.log(P[np.arange(150), Y])
    d = losses["theirs"] - losses["ours"]
    found = row(result, "theirs")
    assert result.best == "ours" and found["difference"] == pytest.approx(d.mean(), rel=1e-6)
    assert found["std_error"] == pytest.approx(d.std(ddof=1) / np.sqrt(150), rel=1e-6)
    assert found["fit_seconds"] > 0 and found["predict_seconds"] > 0


def test_one_broken_model_does_not_lose_the_others() -> None:
    for fold in (0, 2):
        Broken.folds = 0
        result = compare({"good": NaiveBayes(), "broken": Broken(fold), "none": DummyClassifier()}, X, Y)
        assert result.columns["model"] == ["good", "none", "broken"]
        assert result.columns["verdict"] == ["best", "worse", "failed"]
        assert row(result, "broken")["note"] == "RuntimeError: broken on purpose"
        assert np.isnan(row(result, "broken")["accuracy"])
        assert Broken.folds == fold + 1, "it is not tried again"
    Broken.folds = 0
    many = compare(["all", Broken(0)], X, Y, cv=2)
    assert many.columns["model"][-1] == "Broken()" and set(default_models(3)) < set(many.columns["model"])
    assert many.columns["verdict"].count("failed") == 1 and many.best is not None
    only = compare([Broken(0)], X, Y)
    assert only.best is None and "No model has a log_loss" in str(only)


def test_models_that_are_alike_are_within_noise_and_keep_their_order() -> None:
    result = compare({"one": GaussianClassifier(), "two": GaussianClassifier()}, X, Y)
    assert result.best == "one" and result.within_noise == ["two"]
    assert result.title == "Best by log_loss: one; within noise of it: two"
    assert "Best by log_loss: one" in str(result) and result.to_pandas().shape == (2, 11)


def test_a_simple_model_precedes_wrappers_with_the_same_score() -> None:
    logistic = LogisticRegression(prior=1.0)
    two = Y < 2
    models = {"wrapped": OneVsRest(logistic), "simple": logistic, "worse": DummyClassifier()}
    assert compare(models, X[two], Y[two]).columns["model"] == ["simple", "wrapped", "worse"]


@pytest.mark.parametrize("K", [2, 3])
def test_all_covers_every_family_and_names_a_winner(K: int) -> None:
    rows, species = penguins()
    inside = species != "Chinstrap" if K == 2 else slice(None)
    result = compare("all", rows[inside], species[inside], cv=3)
    names = result.columns["model"]
    for family, kind in MODELS.items():
        if kind is not RecalibratedClassifier:
            assert any(name.startswith(family) for name in names), family
    assert result.best is not None and "failed" not in result.columns["verdict"]
    assert row(result, result.best)["accuracy"] > 0.95


def test_warnings_stand_in_the_row_and_not_on_the_screen() -> None:
    rows, species = penguins()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = compare({"separated": LogisticRegression()}, rows[species != "Adelie"], species[species != "Adelie"])
    assert row(result, "separated")["note"].startswith("SeparationWarning")
    assert len(result.notes["separated"]) > 120


def test_models_without_probabilities_come_last_or_are_compared_by_errors() -> None:
    models = {"ridge": RidgeClassifier(), "nb": NaiveBayes(), "none": DummyClassifier()}
    result = compare(models, X, Y)
    assert row(result, "ridge")["verdict"] == "no probabilities" and result.columns["model"][-1] == "ridge"
    by_error = compare(models, X, Y, by="error")
    assert by_error.best == "nb" and row(by_error, "ridge")["difference"] > 0
    assert compare(models, X, Y, by="brier").best == "nb"


def test_any_splitter_of_scikit_learn_is_taken() -> None:
    models = [GaussianClassifier(), NaiveBayes(), NaiveBayes()]
    result = compare(models, X, Y, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0))
    assert sorted(result.columns["model"]) == ["GaussianClassifier()", "NaiveBayes()", "NaiveBayes() #2"]
    assert row(result, "NaiveBayes()")["log_loss"] == row(result, "NaiveBayes() #2")["log_loss"]
    halves = [(np.arange(0, 150, 2), np.arange(1, 150, 2))]
    single = compare(GaussianClassifier(), X, Y, cv=halves)
    model = GaussianClassifier().fit(X[::2], Y[::2])
    assert single.columns["accuracy"] == [pytest.approx(model.score(X[1::2], Y[1::2]))]


def test_tables_and_lists_are_taken() -> None:
    import polars

    table = polars.DataFrame({"x": X[:, 0], "z": X[:, 2], "kind": np.array(["u", "v", "w"])[Y]})
    named = compare({"nb": NaiveBayes()}, table, "kind")
    listed = compare({"nb": NaiveBayes()}, X[:, [0, 2]].tolist(), Y.tolist())
    assert row(named, "nb")["log_loss"] == pytest.approx(row(listed, "nb")["log_loss"], rel=1e-9)


def test_folds_without_a_class_and_other_bad_input_are_refused_in_words() -> None:
    rare = Y.copy()
    rare[0] = 7
    with pytest.raises(InvalidInputError, match="Class 7 has a single row"):
        compare([NaiveBayes()], X, rare)
    rare[1] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compare([GaussianClassifier()], X, rare).best is not None
    sorted_folds = [(np.arange(100), np.arange(100, 150))]
    with pytest.raises(InvalidInputError, match="Fold 0 has no training row of class 2"):
        compare([NaiveBayes()], X, Y, cv=sorted_folds)
    refused: list[tuple[Any, type[Exception], str]] = [
        (("al", X, Y), UnknownNameError, "Known: 'all'"),
        (([], X, Y), InvalidInputError, "no models"),
        (([NaiveBayes], X, Y), InvalidTypeError, "an instance"),
        (({"a": 3}, X, Y), InvalidTypeError, "'a' is 3"),
        ((["nb"], X, Y), InvalidTypeError, "expected a classifier"),
        (([NaiveBayes()], X, Y, 1), InvalidInputError, "cv must be"),
        (([NaiveBayes()], X, Y[:-1]), InvalidInputError, "inconsistent numbers"),
        (([NaiveBayes()], X, None), InvalidInputError, "needs labels"),
    ]
    for arguments, error, words in refused:
        with pytest.raises(error, match=words):
            compare(*arguments)
    with pytest.raises(UnknownNameError, match="score to compare by"):
        compare([NaiveBayes()], X, Y, by="auc")


def test_a_bar_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    compare([NaiveBayes()], X, Y)
    assert capsys.readouterr().err == ""
    compare([NaiveBayes()], X, Y, progress=True)
    assert "compare" in capsys.readouterr().err


def test_default_models_are_fresh_and_named_once() -> None:
    one, two = default_models(3), default_models(3)
    assert list(one) == list(two) and all(one[name] is not two[name] for name in one)


def test_every_family_takes_a_table_with_categories() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    table = pd.DataFrame({"size": rng.normal(size=120) + y, "colour": rng.choice(["red", "blue"], 120), "y": y})
    assert "failed" not in compare("all", table, "y", cv=2).columns["verdict"]


@pytest.mark.parametrize(
    "cv", ["five", 5.0, GroupKFold(3), [(np.arange(50), np.arange(50, 130))], [], [(np.arange(100), [])]]
)
def test_folds_that_cannot_be_are_refused(cv: Any) -> None:
    X = np.random.default_rng(0).normal(size=(120, 2))
    with pytest.raises(InvalidInputError, match="cv="):
        compare([NaiveBayes()], X, np.arange(120) % 2, cv=cv)


def test_sparse_rows_of_any_format_are_cut_into_folds() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    dense, coordinate = (compare([NaiveBayes()], rows, y) for rows in (X, sparse.coo_array(X)))
    assert coordinate.columns["log_loss"] == pytest.approx(dense.columns["log_loss"])
