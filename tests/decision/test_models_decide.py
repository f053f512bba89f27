"""Models decide as the function does, and every one of them can be asked."""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith import REJECT, GaussianClassifier, LogisticRegression, decide
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError, OddsmithWarning
from oddsmith.testing import all_models


def rows(K: int, n: int = 240) -> tuple[Any, Any]:
    rng = np.random.default_rng(K)
    t = np.arange(n) % K
    return rng.normal(size=(n, 3)) + 1.2 * t[:, None] * [1.0, -0.5, 0.2], np.array(["ash", "birch", "cedar"])[t]


@cache
def fitted(model: Any, K: int) -> tuple[Any, Any]:
    X, y = rows(K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        return clone(model).fit(X, y), X


CASES = [(model, K) for model in all_models() for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])]
PROBABILISTIC = [(m, K) for m, K in CASES if hasattr(fitted(m, K)[0], "predict_proba")]
IDS = [f"{type(m).__name__}-{K}" for m, K in PROBABILISTIC]


@pytest.mark.parametrize(("model", "K"), PROBABILISTIC, ids=IDS)
def test_every_probabilistic_model_decides_by_its_probabilities(model: Any, K: int) -> None:
    model, X = fitted(model, K)
    P, labels = model.predict_proba(X), model.classes_.tolist()
    assert model.decide(X).tolist() == model.predict(X).tolist()
    assert model.decide(X, 1.0 - np.eye(K)).tolist() == model.predict(X).tolist()
    decided = model.decide(X, reject=0.2)
    assert ((decided == REJECT) == (1.0 - P.max(axis=1) > 0.2)).all()
    loss = np.random.default_rng(0).random((K, 4))
    assert model.decide(X, loss, reject=0.3).tolist() == decide(P, loss, 0.3, classes=labels).tolist()
    named = {label: {"go": float(k), "stay": 0.5} for k, label in enumerate(labels)}
    assert model.decide(X, named).tolist() == decide(P, named, classes=labels).tolist()


@pytest.mark.parametrize(("model", "K"), CASES, ids=[f"{type(m).__name__}-{K}" for m, K in CASES])
def test_a_model_without_probabilities_says_so_and_what_to_use(model: Any, K: int) -> None:
    model, X = fitted(model, K)
    if hasattr(model, "predict_proba"):
        assert hasattr(model, "with_class_prior") and hasattr(model, "undo_resampling")
        return
    assert not hasattr(model, "with_class_prior") and not hasattr(model, "undo_resampling")
    for loss in (None, np.arange(4 * K).reshape(K, 4)):
        with pytest.raises(InvalidTypeError, match=r"no probabilities.*recalibrate.*LogisticRegression"):
            model.decide(X, loss)


def test_threshold_of_a_model_is_by_its_classes() -> None:
    model, X = fitted(LogisticRegression(), 2)
    loss = {"ash": {"ash": 0, "birch": 1}, "birch": {"ash": 4, "birch": 0}}
    assert model.threshold_for(loss) == 0.2
    expected = np.where(model.predict_proba(X)[:, 1] > 0.2, "birch", "ash")
    assert model.decide(X, loss).tolist() == expected.tolist()
    with pytest.raises(InvalidInputError, match="needs two classes, but this model has 3"):
        fitted(LogisticRegression(), 3)[0].threshold_for()
    with pytest.raises(NotFittedError):
        LogisticRegression().threshold_for()
    with pytest.raises(NotFittedError):
        LogisticRegression().decide(X)


@dataclass
class Predictive:
    mean: Any


class Cautious(LogisticRegression):
    """A model whose predictive distribution is halfway to the uniform one."""

    def predictive(self, X: Any) -> Any:
        return Predictive((self.predict_proba(X) + 1.0 / len(self.classes_)) / 2)


def test_predictive_decisions_are_by_the_predictive_distribution() -> None:
    model, X = fitted(Cautious(), 2)
    loss = [[0, 1], [3, 0]]
    expected = decide(model.predictive(X).mean, loss, 0.4, classes=model.classes_)
    assert model.decide(X, loss, reject=0.4, predictive=True).tolist() == expected.tolist()
    assert model.decide(X, loss, reject=0.4).tolist() != expected.tolist()
    assert (model.decide(X, reject=0.3, predictive=True) == REJECT).sum() > (
        model.decide(X, reject=0.3) == REJECT
    ).sum()
    with pytest.raises(InvalidInputError, match="no predictive distribution"):
        fitted(GaussianClassifier(), 2)[0].decide(X, loss, predictive=True)


def test_decisions_are_refused_where_predictions_are() -> None:
    model, X = fitted(GaussianClassifier(), 2)
    X = X.copy()
    X[3, 1] = np.nan
    for loss in (None, [[0, 1], [3, 0]]):
        with pytest.raises(InvalidInputError, match="decides on complete rows"):
            model.decide(X, loss)


def test_refused_losses_name_the_classes_of_the_model() -> None:
    model, X = fitted(LogisticRegression(), 3)
    with pytest.raises(InvalidInputError, match=r"expected 3 × A: one row for each class .'ash', 'birch', 'cedar'"):
        model.decide(X, np.ones((2, 2)))
