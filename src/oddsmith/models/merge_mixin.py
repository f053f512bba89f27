"""Exact merging of models fitted to parts of the data, and exact updates with more rows."""

from __future__ import annotations

import warnings
from copy import copy
from functools import reduce
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.data_access.training_data import read_data
from oddsmith.design.basis.base import S as AnySource
from oddsmith.design.class_weight import BALANCED, check_class_weights, read_weights, weigh_classes
from oddsmith.design.fitted_basis import check_same_basis, has_basis, learn_basis, through_basis
from oddsmith.design.fitted_design import through_design
from oddsmith.design.input_errors import nonfinite_error
from oddsmith.design.inputs import feature_names, read_rows
from oddsmith.design.labels import read_some_labels, union_of_classes
from oddsmith.design.levels import few
from oddsmith.engines import MemorySource, engine_of, one_blas_thread
from oddsmith.engines.base import S, Source
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError, NotFittedError
from oddsmith.likelihood.messages import column_list
from oddsmith.models.base import all_or_nothing
from oddsmith.models.estimator import Estimator
from oddsmith.protocols import Labels
from oddsmith.statistic import Statistic
from oddsmith.statistics import Gram

LARGEST_SCATTER = 20_000  # Columns up to which a matrix of all their pairs is kept.

READ = ("basis_", "design_", "n_features_in_", "feature_names_in_", "class_weight_")
"""What a model learns by reading rows, not by solving."""


@runtime_checkable
class _Mergeable(Protocol):
    """A model that can be merged with another model of its class."""

    def merge(self, other: Any) -> Any: ...


def merge(*models: _Mergeable) -> Any:
    """Return the model of the rows of all ``models``, equal to one fit to all of these rows.

    No row is read: each model keeps the sums from which it was solved, and sums add up. So each shard can be fitted
    where it is stored, in any order, and may lack classes (use `partial_fit` for a shard with a single class).

    Parameters
    ----------
    *models : fitted models
        At least one; all of one class, with the same parameters and columns. Any model with ``merge(other)`` works.

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
        if not isinstance(model, _Mergeable):
            raise InvalidTypeError(
                f"A {type(model).__name__} cannot be merged: its fit is not a sum over rows. Models with a closed form "
                "can, such as GaussianClassifier and NaiveBayes; oddsmith.Fit fits others over several sites."
            )
    return reduce(lambda one, other: one.merge(other), models)


class MergeMixin(Estimator):
    """A mixin for models that keep the sums they were solved from: they update and merge without rereading rows.

    The model defines ``_check_parameters()``; ``_sum(source)``, which folds its sums; ``_solve(classes, sums)``, which
    assigns its fitted attributes; and ``_on_classes(sums, where, K)``, which returns the sums with their classes at
    ``where`` among K. List it before `Classifier`.
    """

    design: object
    threads: int | None
    aliased_: list[str]
    _sums: Any = None
    _unsolved: bool = False

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: object = None, **how: object) -> Self:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        ``X`` may be a path, a folder, or a Dask or Spark data frame; `scan` documents these and the options ``how``.

        >>> from oddsmith import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.predict([[0.4], [2.9]]).tolist()
        ['a', 'b']
        """
        self._check_parameters()
        data = read_data(self, X, y, sample_weight, None, how, reset=True)
        classes, source = data.classes, data.source
        if data.class_weight is None and isinstance(source, MemorySource) and source.s is not None:
            weight = np.bincount(source.t, weights=source.s, minlength=len(classes))
            check_class_weights(weight.astype(np.float64), classes)
        source = self._expand(source, reset=True)
        with one_blas_thread():
            self._settle(classes, self._fit_sums(source))
        return self

    def _fit_sums(self, source: Source) -> Any:
        """Return the sums of all rows of a fit, which may be read twice."""
        return self._sum(source)

    def _expand(self, source: AnySource, *, reset: bool) -> AnySource:
        """Return a source with the basis applied; refuse so many columns that their Gram matrix does not fit."""
        source = learn_basis(self, source) if reset else through_basis(self, source)
        M = source.shape.M
        if M > LARGEST_SCATTER:
            raise InvalidInputError(
                f"{type(self).__name__} keeps a matrix of {M} × {M} numbers for {M} columns, and takes "
                f"{LARGEST_SCATTER} columns at most. Use fewer (by hashing or a projection), or LogisticRegression, "
                "which needs no such matrix."
            )
        return source

    def _fold(self, source: Source, statistic: type[S], params: object) -> S:
        """Return the statistic of the rows.

        NaN and infinity are found in the sums, which saves a pass over the data; the error then names the column.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            total = engine_of(source, self.threads).fold(statistic, source, params)
        fields = [np.asarray(getattr(total, name)) for name in total.__dataclass_fields__]
        if not all(np.isfinite(field).all() for field in fields):
            raise self._not_finite(source)
        return total

    def _not_finite(self, source: Source) -> InvalidInputError:
        if not isinstance(source, MemorySource):
            return InvalidInputError(
                "The squares of a column add up to more than a float64 can hold. Rescale the columns."
            )
        rows = source.block(0, source.n_rows).X
        values = rows.data if sparse.issparse(rows) else rows
        if not np.isfinite(values).all():
            return nonfinite_error(rows, self._names() if has_basis(self) else feature_names(self))
        largest = int(np.argmax(abs(rows).max(axis=0).toarray() if sparse.issparse(rows) else np.abs(rows).max(axis=0)))
        return InvalidInputError(
            f"The squares of column {str(self._names()[largest])!r} add up to more than a float64 can hold. "
            "Divide it by a power of ten."
        )

    def _warn_collinear(self, consequence: str, remedy: str) -> None:
        """Warn about columns that depend on earlier ones, with the remedy applied."""
        if self.aliased_:
            depend = "depends" if len(self.aliased_) == 1 else "depend"
            warnings.warn(
                f"{column_list(self.aliased_)} {depend} linearly on earlier columns (or on none, being constant): "
                f"{consequence}. {remedy}",
                CollinearityWarning,
                stacklevel=6,
            )

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: npt.ArrayLike | None = None, sample_weight: object = None) -> Self:
        """Add rows: the model then equals a fit to all rows so far.

        ``classes`` is optional and may name labels that appear later; new labels are also accepted when they appear.
        The weights are solved for on first use: until two classes have rows, the model accepts more rows and merges,
        but cannot predict.

        >>> from oddsmith import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> model.partial_fit([[4.0], [5.0]], ["b", "b"]).predict([[4.4]]).tolist()
        ['b']
        """
        self._check_parameters()
        first = self._sums is None
        X, y, sample_weight, _ = through_design(self, self.design, X, y, sample_weight, reset=first)
        rows = read_rows(self, X, reset=first)
        known, t = read_some_labels(y, rows.shape[0], classes)
        s = weigh_classes(self, known, t, read_weights(sample_weight, rows.shape[0]), partial=True)
        source = MemorySource(rows, t, len(known), s)
        source = self._expand(source, reset=first)
        with one_blas_thread():
            new = self._sum(source)
        self._postpone(known, new) if first else self._postpone(*self._joined(known, new))
        return self

    def merge(self, other: Self) -> Self:
        """Return the model of the rows of both, equal to a fit to all of them; no row is read.

        Either may lack some of the classes. Parameters and columns must be the same.

        >>> from oddsmith import LeastSquaresClassifier
        >>> one = LeastSquaresClassifier().fit([[0.0], [1.0]], ["a", "b"])
        >>> two = LeastSquaresClassifier().fit([[2.0], [5.0]], ["b", "c"])
        >>> one.merge(two).classes_.tolist()
        ['a', 'b', 'c']
        """
        check_alike(self, other)
        merged = copy(self)
        joined = self._joined(other.classes_, other._sums)
        if self._unsolved or other._unsolved:
            merged._postpone(*joined)
        else:
            merged._settle(*joined)
        return merged

    def _joined(self, classes: Labels, sums: Statistic) -> tuple[Labels, Any]:
        """Return the classes of these sums and of others, and the sums of both."""
        both, i, j = union_of_classes(self.classes_, classes)
        K = len(both)
        return both, self._on_classes(self._sums, i, K).merge(self._on_classes(sums, j, K))

    def _postpone(self, classes: Labels, sums: Statistic) -> None:
        """Keep the sums, and discard solutions of earlier ones."""
        for name in [name for name in self.__dict__ if name.endswith("_") and name not in READ]:
            del self.__dict__[name]
        self.classes_, self._sums, self._unsolved = classes, sums, True

    def _settle(self, classes: Labels, sums: Statistic) -> None:
        """Solve now."""
        self.__dict__.pop("_unsolved", None)
        with one_blas_thread():
            self._solve(classes, sums)

    def __getattr__(self, name: str) -> Any:
        """Solve if the solution was postponed and the attribute depends on it."""
        if not name.endswith("_") or name.startswith("_") or name in READ or not self._unsolved:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        weight = self._sums.class_weight if isinstance(self._sums, Gram) else self._sums.weight
        if np.count_nonzero(weight) < 2 or not weight.all():
            label = self.classes_.tolist()[int(np.argmin(weight > 0))]
            lacking = "there are rows of one class only" if weight.all() else f"there are no rows of class {label!r}"
            raise _UnsolvedError(f"This {type(self).__name__} cannot predict yet: {lacking}. Add rows, or merge.")
        self._settle(self.classes_, self._sums)
        return getattr(self, name)


class _UnsolvedError(NotFittedError, AttributeError):
    """The weights need more rows: ``hasattr`` returns False."""


def check_alike(one: Estimator, other: Estimator) -> None:
    """Raise unless the models have the same class, parameters and columns."""
    if type(one) is not type(other):
        raise InvalidTypeError(f"A {type(one).__name__} merges only with its own kind, found a {type(other).__name__}.")
    one._check_fitted()
    other._check_fitted()
    if isinstance(one.class_weight, str) and one.class_weight == BALANCED:
        raise InvalidInputError(
            "Models with class_weight='balanced' cannot be merged: each was weighted by the class counts of its own "
            "rows. Give all of them the same dictionary, class_weight={class: weight}."
        )
    its = other.get_params(deep=False)
    for name, value in one.get_params(deep=False).items():
        if name != "threads" and not _same(value, its[name]):
            raise InvalidInputError(
                f"Models merge only if their parameters are equal: {name} is {value!r} here and {its[name]!r} "
                f"there. Fit both with the same {name}."
            )
    if not np.array_equal(one._names(), other._names()):
        here, there = (few(map(str, model._names())) for model in (one, other))
        raise InvalidInputError(
            f"Models merge only if their columns are equal: {here} here and {there} there. Fit both on the same "
            "columns in the same order."
        )
    check_same_basis(one, other)


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b))
    return bool(a == b) or repr(a) == repr(b)
