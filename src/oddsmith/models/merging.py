"""Exact merging of models that were fitted to parts of the data, and exact growing by more rows."""

from __future__ import annotations

from copy import copy
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.inputs import read_rows, read_weights
from oddsmith.design.labels import read_some_labels, union_of_classes
from oddsmith.design.reading import through_design
from oddsmith.engines import MemorySource, one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError
from oddsmith.models.base import all_or_nothing
from oddsmith.models.closed_form import check_width
from oddsmith.models.expanding import check_same_basis, learn_basis, through_basis
from oddsmith.numerics import Array

READ = ("basis_", "design_", "n_features_in_", "feature_names_in_")
"""What a model learns by reading rows, not by solving."""


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
                "can, such as GaussianClassifier and NaiveBayes; oddsmith.Fit fits others over several sites."
            )
    return reduce(lambda one, other: one.merge(other), models)


class Mergeable:
    """A mixin for models that keep the sums they were solved from: they grow and merge without a row being read again.

    The model defines ``_check_parameters()``; ``_sum(source)``, which folds its sums; ``_solve(classes, sums)``, which
    assigns its fitted attributes; ``_on_classes(sums, where, K)``, which returns the sums with their classes at
    ``where`` among K; and ``_weights(sums)``, the weight of each class. It stands before `Classifier`.
    """

    classes_: npt.NDArray[Any]
    _sums: Any

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Add rows: the model is then that of all rows so far, exactly.

        ``classes`` may name labels that are still to come; it is not needed, since a new label is taken in when it
        comes. The weights are solved for when they are first asked for: until two classes have rows, the model can
        take more rows, and be merged, but not predict.

        >>> from oddsmith import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> model.partial_fit([[4.0], [5.0]], ["b", "b"]).predict([[4.4]]).tolist()
        ['b']
        """
        model: Any = self
        model._check_parameters()
        first = "_sums" not in self.__dict__
        X, y, sample_weight, _ = through_design(model, model.design, X, y, sample_weight, reset=first)
        rows = read_rows(model, X, reset=first)
        known, t = read_some_labels(y, rows.shape[0], classes)
        source: Any = MemorySource(rows, t, len(known), read_weights(sample_weight, rows.shape[0]))
        source = learn_basis(model, source) if first else through_basis(model, source)
        check_width(model, source)
        with one_blas_thread():
            new = model._sum(source)
        self._put_off(known, new) if first else self._put_off(*self._joined(known, new))
        return self

    def merge(self, other: Any) -> Any:
        """Return the model of the rows of both: what a fit to all of them would give, without a row being read.

        Either may lack some of the classes. Parameters and columns must be the same.

        >>> from oddsmith import LeastSquaresClassifier
        >>> one = LeastSquaresClassifier().fit([[0.0], [1.0]], ["a", "b"])
        >>> two = LeastSquaresClassifier().fit([[2.0], [5.0]], ["b", "c"])
        >>> one.merge(two).classes_.tolist()
        ['a', 'b', 'c']
        """
        _check_alike(self, other)
        merged = copy(self)
        joined = self._joined(other.classes_, other._sums)
        if "_unsolved" in {**self.__dict__, **other.__dict__}:
            merged._put_off(*joined)
        else:
            merged._settle(*joined)
        return merged

    def _joined(self, classes: npt.NDArray[Any], sums: Any) -> tuple[npt.NDArray[Any], Any]:
        """Return the classes of these sums and of others, and the sums of both."""
        model: Any = self
        both, i, j = union_of_classes(self.classes_, classes)
        K = len(both)
        return both, model._on_classes(self._sums, i, K).merge(model._on_classes(sums, j, K))

    def _put_off(self, classes: npt.NDArray[Any], sums: Any) -> None:
        """Keep the sums, and nothing that was solved from earlier ones."""
        for name in [name for name in self.__dict__ if name.endswith("_") and name not in READ]:
            del self.__dict__[name]
        self.classes_, self._sums, self._unsolved = classes, sums, True

    def _settle(self, classes: npt.NDArray[Any], sums: Any) -> None:
        """Solve now."""
        self.__dict__.pop("_unsolved", None)
        with one_blas_thread():
            self._solve(classes, sums)

    def __getattr__(self, name: str) -> Any:
        """Solve, if that was put off and what is asked for comes of it."""
        if not name.endswith("_") or name.startswith("_") or name in READ or "_unsolved" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._solve_now()
        return getattr(self, name)

    def _solve_now(self) -> None:
        model: Any = self
        weight: Array = model._weights(self._sums)
        if np.count_nonzero(weight) < 2 or not weight.all():
            label = self.classes_.tolist()[int(np.argmin(weight > 0))]
            lacking = "there are rows of one class only" if weight.all() else f"there are no rows of class {label!r}"
            raise _UnsolvedError(f"This {type(self).__name__} cannot predict yet: {lacking}. Add rows, or merge.")
        self._settle(self.classes_, self._sums)


class _UnsolvedError(NotFittedError, AttributeError):
    """Weights that need more rows: ``hasattr`` says False."""


def _check_alike(one: Any, other: Any) -> None:
    """Refuse to merge models of other kinds, parameters or columns."""
    if type(one) is not type(other):
        raise InvalidTypeError(f"A {type(one).__name__} merges with its like, found a {type(other).__name__}.")
    one._check_fitted()
    other._check_fitted()
    mine, its = one.get_params(deep=False), other.get_params(deep=False)
    different = [name for name in mine if name != "threads" and repr(mine[name]) != repr(its[name])]
    if different:
        name = different[0]
        raise InvalidInputError(
            f"Models merge only if their parameters are the same: {name} is {mine[name]!r} here and {its[name]!r} "
            f"there. Fit both with the same {name}."
        )
    if not np.array_equal(one._names(), other._names()):
        raise InvalidInputError(
            f"Models merge only if their columns are the same: {one._names().tolist()[:8]} here and "
            f"{other._names().tolist()[:8]} there. Fit both on the same columns in the same order."
        )
    check_same_basis(one, other)
