"""What every classifier shares: reading of rows and labels, prediction by the largest value, the registry."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from oddsmith.design.inputs import check_finite, read_rows, split_target
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import NotFittedError
from oddsmith.models.answering import accuracy, answering
from oddsmith.models.deciding import Deciding
from oddsmith.models.expanding import expanded, input_names, takes_sparse
from oddsmith.models.exporting import Exporting
from oddsmith.models.reporting import Reporting
from oddsmith.models.resuming import fitting
from oddsmith.numerics import Array
from oddsmith.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

MODELS: Registry[type[Any]] = Registry("model")


def all_or_nothing(fit: F) -> F:
    """Decorate a method that fits: if it raises, the estimator is as it was before."""

    @wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            with fitting(self):
                return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return guarded  # type: ignore[return-value]


class Classifier(Deciding, Exporting, Reporting, ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier: the constructor stores its arguments, ``fit`` assigns what ends in ``_``."""

    classes_: npt.NDArray[Any]
    n_features_in_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        answering(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(getattr(self, "basis", None))
        return tags

    def _names(self) -> npt.NDArray[Any]:
        """Return the names of the columns that have weights: those of the basis, or of the data (``x0``, ``x1`` …)."""
        expansion = getattr(self, "basis_", None)
        return input_names(self) if expansion is None else expansion.names

    def _check_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except ValueError:
            name = type(self).__name__
            raise NotFittedError(f"This {name} instance is not fitted yet. Call fit(X, y) first.") from None

    def _rows(self, X: Any) -> Any:
        """Return checked rows for prediction, seen through the basis where there is one."""
        self._check_fitted()
        rows = read_rows(self, X, reset=False)
        check_finite(rows, getattr(self, "feature_names_in_", None))
        return expanded(self, rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file, from which ``oddsmith.load(path)`` makes it again, to the bit.

        The file holds numbers and JSON, never code, and no rows; it is written whole or not at all. Its format is in
        ``docs/model_file.md``. A model or transformer of scikit-learn inside this one is refused.

        >>> import tempfile, oddsmith
        >>> model = oddsmith.LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.odds")
        ...     oddsmith.load(f"{folder}/m.odds").predict([[3.0]]).tolist()
        ['b']
        """
        from oddsmith.models.saving import save

        save(self, path)

    def decision_function(self, X: Any) -> Array:
        """Return the value whose sign (two classes) or maximum (more) decides."""
        raise TypeError(f"{type(self).__name__} must define decision_function().")

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of each row."""
        values = self.decision_function(X)
        codes = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; ``y`` may name a column, also of data in pieces.

        More scores, and how sure they are: `oddsmith.evaluate`.

        >>> import polars, oddsmith
        >>> table = polars.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "b", "a", "b"]})
        >>> oddsmith.LogisticRegression().fit(table, y="y").score(table, "y")
        0.5
        """
        if is_elsewhere(X):
            return accuracy(self, X, y, sample_weight)
        X, y = split_target(X, y)
        return float(super().score(X, y, sample_weight))
