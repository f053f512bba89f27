"""Exact merging of models that were fitted to parts of the data."""

from __future__ import annotations

from functools import reduce
from typing import Any

from oddsmith.errors import InvalidInputError, InvalidTypeError


def merge(*models: Any) -> Any:
    """Return the model of the rows of all ``models``: what one fit to all of these rows would give.

    No row is read: each model keeps the sums that it was solved from, and sums add up. So shards can be fitted
    where they lie, in any order, and some may lack some classes (`partial_fit` takes those with a single class).

    Parameters
    ----------
    *models : fitted models
        Of one kind, with the same parameters and columns, at least one. A model takes part if it has ``merge(other)``.

    >>> import numpy as np
    >>> from oddsmith import GaussianClassifier
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0], [0.5], [5.5]]), np.array([0, 0, 1, 1, 0, 1])
    >>> parts = [GaussianClassifier().fit(X[rows], y[rows]) for rows in (slice(0, 4), slice(3, 6))]
    >>> merge(*parts).means_.tolist()
    [[0.5], [4.875]]
    """
    if not models:
        raise InvalidInputError("merge needs at least one model.")
    for model in models:
        if not callable(getattr(model, "merge", None)):
            raise InvalidTypeError(
                f"A {type(model).__name__} cannot be merged: its fit is no sum over rows. Models with a closed form "
                "can, such as GaussianClassifier and NaiveBayes."
            )
    return reduce(lambda one, other: one.merge(other), models)
