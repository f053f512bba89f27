"""What a classifier, ours or scikit-learn's, says about labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import column_or_1d

from oddsmith.decision.loss import read_probabilities
from oddsmith.design.inputs import split_target
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError, as_input_errors
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array

EPS = float(np.finfo(np.float64).eps)
WORDS = "UST"
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Answers:
    """The truth and what was said about it.

    Attributes
    ----------
    classes : array of length K
    t : codes of the true classes, N
    said : codes of the classes predicted, N
    P : probabilities, N × K, or None where the model has none
    values : array, N × K, or None
        What orders the rows for each class: probabilities, or values of the decision function.
    """

    classes: npt.NDArray[Any]
    t: npt.NDArray[np.intp]
    said: npt.NDArray[np.intp]
    P: Array | None
    values: Array | None

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def own(self) -> Array:
        """Probability of each row's own class, kept off zero by the rounding of 1, as in scikit-learn."""
        assert self.P is not None
        result: Array = np.clip(self.P[np.arange(len(self.t)), self.t], EPS, 1.0 - EPS)
        return result

    @property
    def positives(self) -> list[int]:
        """The classes to look at one against the rest: for two classes the second, as the first mirrors it."""
        return [1] if self.K == 2 else list(range(self.K))


def ask(model: Any, X: Any, y: Any) -> Answers:
    """Return what a fitted model says about rows ``X`` with labels ``y`` (or the name of a column of ``X``).

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    >>> ask(model, [[0.0], [1.0]], ["a", "b"]).said.tolist()
    [0, 0]
    """
    if not (hasattr(model, "predict") and hasattr(model, "classes_")):
        raise InvalidTypeError(
            f"A fitted classifier is needed, with predict and classes_; found {type(model).__name__}. Call fit(X, y) "
            "first."
        )
    X, y = split_target(X, y)
    classes = np.asarray(model.classes_)
    t = codes_of(y, classes)
    return answers(model, X, t, classes)


def answers(model: Any, X: Any, t: npt.NDArray[np.intp], classes: npt.NDArray[Any]) -> Answers:
    """Return what a model says about rows whose classes have been read."""
    P = values = None
    if hasattr(model, "predict_proba"):
        P = values = read_probabilities(model.predict_proba(X), len(classes))
        n = len(P)
    elif hasattr(model, "decision_function"):
        A = np.asarray(model.decision_function(X), dtype=np.float64)
        values = np.column_stack([-A, A]) if A.ndim == 1 else A
        n = len(values)
        values = values if values.shape == (n, len(classes)) else None
    last = model[-1] if isinstance(model, Pipeline) else model
    if P is not None and isinstance(last, Classifier):
        said = P.argmax(axis=1)  # ours predict the most probable class: no need to ask again
    else:
        labels = np.asarray(model.predict(X))
        n = len(labels)
        said = codes_of(labels, classes)
    if n != len(t):
        raise InvalidInputError(f"X has {n} rows and y {len(t)} labels: give one label for each row.")
    return Answers(classes, t, said, P, values)


def codes_of(y: Any, classes: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the place of each label among the classes; a label that is not one of them is refused by name.

    >>> codes_of(["b", "a"], np.array(["a", "b"])).tolist()
    [1, 0]
    """
    with as_input_errors():
        labels = column_or_1d(np.asarray(y))
    if not len(labels):
        raise InvalidInputError("There are no rows.")
    kinds = {labels.dtype.kind, classes.dtype.kind}
    if "O" not in kinds and len({kind in WORDS for kind in kinds}) > 1:
        raise InvalidTypeError(
            f"y holds labels such as {labels.tolist()[0]!r}, and the model's classes are {classes.tolist()[:8]}: words "
            "and numbers. Give y in the type that the model was fitted to."
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
