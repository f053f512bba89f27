"""What every classifier shares: a fit that succeeds or changes nothing, prediction by the largest value, saving."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from oddsmith.data_access.checkpoint import checkpointed
from oddsmith.data_access.streamed_prediction import accuracy, streams
from oddsmith.design.fitted_basis import takes_sparse
from oddsmith.design.inputs import restored_on_error, split_target
from oddsmith.engines.scan import is_elsewhere
from oddsmith.models.decision_mixin import DecisionMixin
from oddsmith.models.estimator import Estimator
from oddsmith.models.export_mixin import ExportMixin
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

MODELS: Registry[type[Any]] = Registry("model")


def all_or_nothing(fit: F) -> F:
    """Decorate a method that fits: if it raises, the estimator is as it was before."""

    @wraps(fit)
    def guarded(self: Estimator, *args: object, **kwargs: object) -> object:
        with restored_on_error(self), checkpointed(self):
            return fit(self, *args, **kwargs)

    return guarded  # type: ignore[return-value]


class Classifier(DecisionMixin, ExportMixin, ClassifierMixin, Estimator):
    """A scikit-learn classifier: the constructor stores its arguments, ``fit`` assigns what ends in ``_``."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.basis)
        return tags

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
        from oddsmith.persistence.model_file import save

        save(self, path)

    def decision_function(self, X: Any) -> Array:
        """Return the value whose sign (two classes) or maximum (more) decides."""
        raise TypeError(f"{type(self).__name__} must define decision_function().")

    @streams
    def predict(self, X: Any) -> Labels:
        """Return the class of each row."""
        values = self.decision_function(X)
        codes = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        labels: Labels = self.classes_[codes]
        return labels

    def score(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> float:
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
