"""What the classifiers and their mixins build on: a scikit-learn estimator that knows its classes and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.design.basis import Expansion
from oddsmith.design.fitted_basis import expanded, has_basis, input_names
from oddsmith.design.inputs import check_finite, check_fitted, read_rows
from oddsmith.errors import InvalidInputError
from oddsmith.protocols import Labels


class Estimator(BaseEstimator):
    """An estimator that checks the rows it predicts and names the columns that it has weights for."""

    classes_: Labels
    n_features_in_: int
    basis_: Expansion
    basis: object = None

    def _names(self) -> Labels:
        """Return the names of the columns that have weights: those of the basis, or of the data (``x0``, ``x1`` …)."""
        return self.basis_.names if has_basis(self) else input_names(self)

    def _feature_names(self) -> Labels | None:
        """Return the names of the columns of the data, None if they had none."""
        return getattr(self, "feature_names_in_", None)

    def _check_fitted(self) -> None:
        check_fitted(self, "fit(X, y)")

    def _rows(self, X: object) -> Any:
        """Return checked rows for prediction, seen through the basis where there is one."""
        self._check_fitted()
        rows = read_rows(self, X, reset=False)
        check_finite(rows, self._feature_names())
        return expanded(self, rows)


def check_threads(threads: object) -> None:
    """Refuse what is not a number of threads."""
    if threads is not None and not (isinstance(threads, int | np.integer) and threads >= 1):
        raise InvalidInputError(f"threads must be None or a whole number of at least 1, found {threads!r}.")
