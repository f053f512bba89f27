"""Activations of any classifier: what calibration maps and estimates of the class prior work on."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.errors import InvalidTypeError
from oddsmith.numerics import Array
from oddsmith.protocols import ClassifierLike

TINY = float(np.finfo(np.float64).tiny)
LEAST_LOG = float(np.log(TINY))


def first_method(model: ClassifierLike, *names: str) -> str | None:
    """Return the first of these methods that a classifier has; scikit-learn hides some of them by its parameters."""
    return next((name for name in names if hasattr(model, name)), None)


def activations(model: ClassifierLike, X: Any) -> Array:
    """Return what a map works on, N × K: log probabilities, or values of the decision function.

    >>> from oddsmith import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    >>> activations(model, [[1.5]]).round(6).tolist()
    [[-0.693147, -0.693147]]
    """
    name = first_method(model, "predict_log_proba", "predict_proba", "decision_function")
    if name is None:
        raise InvalidTypeError(
            f"{type(model).__name__} has no predict_proba and no decision_function: labels alone cannot be calibrated."
        )
    method = getattr(model, name)
    if name == "predict_log_proba":
        with np.errstate(divide="ignore"):
            return np.maximum(np.asarray(method(X), dtype=np.float64), LEAST_LOG)
    values = np.asarray(method(X), dtype=np.float64)
    if name == "predict_proba":
        return np.asarray(np.log(np.maximum(values, TINY)))
    return np.column_stack([-0.5 * values, 0.5 * values]) if values.ndim == 1 else values
