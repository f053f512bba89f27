"""The base of classifiers around other classifiers: the inner model, and its rows and weights."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, has_fit_parameter, validate_data

from oddsmith.design.class_weight import check_class_weights, read_weights, weigh_classes
from oddsmith.design.input_errors import explain_rows
from oddsmith.design.inputs import _with_names, as_table, plain_values
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.models.estimator import Estimator
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels


@runtime_checkable
class Trainable(Protocol):
    """A classifier of any library, fitted or not."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to rows and labels."""

    def predict(self, X: Any) -> Labels:
        """Return the class of each row."""


class WrapperMixin(Estimator):
    """A mixin for a classifier around ``model``, a classifier of any library. List it before `Classifier`."""

    model: object

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._template()).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _template(self) -> Any:
        """Return the unfitted model that is copied for each fit."""
        model = LogisticRegression(prior=1.0) if self.model is None else self.model
        if isinstance(model, type) or not isinstance(model, Trainable) or is_regressor(model):
            raise InvalidTypeError(
                f"{type(self).__name__} needs a classifier, an instance such as LogisticRegression(); found {model!r}."
            )
        return model

    def _read_weights(self, sample_weight: object, t: npt.NDArray[np.int32], classes: Labels) -> Array | None:
        """Return checked sample weights; refuse them if the model does not accept any."""
        s = weigh_classes(self, classes, t, read_weights(sample_weight, len(t)))
        if s is None:
            return None
        model = self._template()
        if not has_fit_parameter(model, "sample_weight"):
            kind, name = type(model).__name__, "sample_weight" if self.class_weight is None else "class_weight"
            inside = ""
            if name == "class_weight" and "class_weight" in vars(model):
                inside = f", give it to the model inside ({kind}(class_weight=…))"
            raise InvalidInputError(
                f"{name} was given, but {kind}.fit takes no sample weights. Leave it out{inside}, or use a model that "
                "has them."
            )
        check_class_weights(np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64), classes)
        return s

    def _input(self, X: object, *, reset: bool) -> Any:
        """Return rows for the inner model, which checks values: tables unchanged, others as an array or CSR matrix."""
        table = as_table(X)
        with as_input_errors(explain_rows):
            if table is None:
                name = type(self).__name__
                X = check_array(
                    plain_values(X), accept_sparse="csr", dtype=None, ensure_all_finite=False, estimator=name
                )
            validate_data(self, X if table is None else _with_names(table), reset=reset, skip_check_array=True)
        return X


def take(X: Any, inside: Indices | None) -> Any:
    """Return some rows of an array, a sparse matrix or a table; None: all of them.

    >>> take(np.eye(3), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """
    if inside is None:
        return X
    table = as_table(X)
    return X[inside] if table is None else table[inside].to_native()


def fit_copy(model: Trainable, X: object, inside: Indices | None, y: Labels, s: Array | None) -> Any:
    """Return a copy of a model, fitted to some of the rows ``X`` (None: all), whose labels are ``y``."""
    weights = {} if s is None else {"sample_weight": take(s, inside)}
    return clone(model).fit(take(X, inside), y, **weights)
