"""The predictions of a classifier, ours or scikit-learn's, for labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import column_or_1d

from oddsmith.decision.loss import read_probabilities
from oddsmith.design.input_errors import refuse_missing
from oddsmith.design.inputs import split_target
from oddsmith.design.text_columns import read_formats
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError, as_input_errors
from oddsmith.models.base import Classifier
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import ClassifierLike, Indices, Labels, ProbabilisticClassifierLike

WORDS = "UST"
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """True classes ``t`` (codes, N) and predictions: ``predicted`` classes and probabilities ``P`` (N × K), if any.

    ``values`` (N × K) order the rows for each class: probabilities, or values of the decision function.
    """

    classes: Labels
    t: Indices
    predicted: Indices
    P: Array | None
    values: Array | None

    @classmethod
    def of_probabilities(cls, classes: Labels, t: Indices, P: Array) -> ModelOutput:
        """Return the output of a model that predicts the most probable class."""
        return cls(classes=classes, t=t, predicted=P.argmax(axis=1), P=P, values=P)

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def own(self) -> Array:
        """Probability of each row's own class, kept off zero by the rounding of 1, as in scikit-learn."""
        assert self.P is not None
        return np.asarray(np.clip(self.P[np.arange(len(self.t)), self.t], EPS, 1.0 - EPS))

    @property
    def positives(self) -> list[int]:
        """The classes to look at one against the rest: for two classes the second, as the first mirrors it."""
        return [1] if self.K == 2 else list(range(self.K))

    def confusion(self) -> Indices:
        """Return the number of rows by true class (rows) and predicted class (columns)."""
        return np.bincount(self.t * self.K + self.predicted, minlength=self.K**2).reshape(self.K, self.K)


def provides(model: object, *names: str) -> bool:
    """Whether an object of any library has these methods or fitted attributes."""
    return all(hasattr(model, name) for name in names)


def require_fitted(model: object) -> None:
    """Refuse what is not a fitted classifier."""
    if not provides(model, "predict", "classes_"):
        raise InvalidTypeError(
            f"A fitted classifier is needed, with predict and classes_; found {type(model).__name__}. Call fit(X, y) "
            "first."
        )


def has_proba(model: object) -> TypeGuard[ProbabilisticClassifierLike]:
    """Whether a model gives probabilities."""
    return provides(model, "predict_proba")


def read_output(model: ClassifierLike, X: object, y: object) -> ModelOutput:
    """Return what a fitted model predicts for rows ``X`` with labels ``y`` (or the name of a column of ``X``)."""
    require_fitted(model)
    X, y = split_target(read_formats(X, vars(model).get("text_formats_", {})), y)
    classes = np.asarray(model.classes_)
    return predict_output(model, X, class_codes(y, classes), classes)


def predict_output(model: ClassifierLike, X: object, t: Indices, classes: Labels) -> ModelOutput:
    """Return what a model predicts for rows whose classes have been read."""
    P = values = None
    if has_proba(model):
        P = values = read_probabilities(model.predict_proba(X), len(classes))
    elif hasattr(model, "decision_function"):
        A = np.asarray(model.decision_function(X), dtype=np.float64)
        values = np.column_stack([-A, A]) if A.ndim == 1 else A
    last = model[-1] if isinstance(model, Pipeline) else model
    if P is not None and isinstance(last, Classifier):
        predicted = P.argmax(axis=1)  # ours predict the most probable class: no second prediction is needed
    else:
        predicted = class_codes(model.predict(X), classes)
    n = len(predicted)
    if n != len(t):
        raise InvalidInputError(f"X has {n} rows and y {len(t)} labels: give one label for each row.")
    if values is not None and values.shape != (n, len(classes)):
        values = None  # of pairs of classes, say
    return ModelOutput(classes=classes, t=t, predicted=predicted, P=P, values=values)


def class_codes(y: object, classes: Labels) -> Indices:
    """Return the place of each label among the classes; a label that is not one of them is refused by name."""
    with as_input_errors():
        labels = column_or_1d(np.asarray(y))
    if not len(labels):
        raise InvalidInputError("There are no rows.")
    refuse_missing(labels)
    kinds = {labels.dtype.kind, classes.dtype.kind}
    if "O" not in kinds and len({kind in WORDS for kind in kinds}) > 1:
        raise InvalidTypeError(
            f"y holds labels such as {labels.tolist()[0]!r}, but the model's classes are {classes.tolist()[:8]}: text "
            "and numbers differ. Give y the type of the training labels."
        )
    order = np.argsort(classes)
    try:
        places = np.searchsorted(classes[order], labels)
        places[places == len(classes)] = 0
        codes = order[places]
        strange = classes[codes] != labels
    except TypeError:
        raise UnknownNameError("class", labels.tolist()[0], classes.tolist()) from None
    if np.any(strange):
        raise UnknownNameError("class in y", labels[strange].tolist()[0], classes.tolist())
    return np.asarray(codes, dtype=np.intp)
