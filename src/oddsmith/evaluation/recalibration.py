"""Calibration of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.decision.calibration import activations, fit_map, states_probabilities
from oddsmith.design.class_weight import read_weights
from oddsmith.design.inputs import split_target
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.evaluation.model_output import class_codes, provides
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.protocols import ClassifierLike


def recalibrate(
    model: ClassifierLike, X: Any, y: Any, method: str = "logistic", *, sample_weight: npt.ArrayLike | None = None
) -> RecalibratedClassifier:
    """Return a classifier around ``model`` whose probabilities agree with these rows.

    The map is ``p'_k ∝ exp(slope · log p_k + shift_k)`` (``"logistic"``: Platt's map for two classes), the same without
    shifts (``"temperature"``), or increasing functions of p_k (``"isotonic"``), fitted by maximum likelihood (isotonic:
    least squares). A weak prior keeps slope and shifts finite if the classes are separated; see
    `oddsmith.decision.calibration.fit_map`. On these rows, the log loss is never larger than before. The returned model
    stores the map as plain arrays.

    Parameters
    ----------
    model : fitted classifier
        From this library or scikit-learn. If it has no ``predict_proba``, its decision function is calibrated, which
        gives it probabilities.
    X, y : rows and labels
        Rows that the model was **not** fitted to: on its training rows it looks better than it is. To use the same rows
        for both, by cross-validation, fit a `RecalibratedClassifier`.
    method : "logistic", "temperature" or "isotonic"
        ``"logistic"`` has two parameters for two classes, ``"temperature"`` one, ``"isotonic"`` as many as the rows
        support (a thousand rows are few).
    sample_weight : array of length N, optional
        Row counts: a row of weight 2 counts twice.

    Cost: one prediction, and Newton's method for K parameters or a sort for each class.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from oddsmith import NaiveBayes, evaluate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = NaiveBayes().fit(X[:200], y[:200])
    >>> better = recalibrate(model, X[200:400], y[200:400])
    >>> before, after = (evaluate(m, X[400:], y[400:]).log_loss for m in (model, better))
    >>> bool(after < before / 2)
    True
    """
    if not provides(model, "classes_"):
        raise InvalidTypeError(
            f"recalibrate needs a fitted classifier; found {type(model).__name__} without classes_. Call fit(X, y) "
            "with other rows first, or fit RecalibratedClassifier(model), which does both."
        )
    X, y = split_target(X, y)
    t = class_codes(y, np.asarray(model.classes_))
    A = activations(model, X)
    if len(A) != len(t):
        raise InvalidInputError(f"X has {len(A)} rows and y {len(t)} labels: give one label for each row.")
    s = read_weights(sample_weight, len(t))
    inside = np.unique(t if s is None else t[s > 0])
    if len(inside) < 2:
        raise InvalidInputError(
            f"All rows are of class {model.classes_.tolist()[inside[0]]!r}: nothing can be calibrated on them. Give "
            "rows of every class."
        )
    found = fit_map(A, t, method, s, stated=states_probabilities(model))
    return RecalibratedClassifier.around(model, found, method=method)
