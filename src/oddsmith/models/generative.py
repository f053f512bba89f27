"""What generative classifiers share: Bayes' rule, exact updates and merging, sampling, another class prior.

A model folds one additive statistic over its rows and keeps it. The densities of the classes are estimated from
that statistic alone, so that more rows (`partial_fit`), another shard (`merge`) or another prior
(`with_class_prior`) give what a fit to everything at once gives, and no row is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone

from oddsmith.decision.class_prior import read_class_prior
from oddsmith.design.inputs import as_table, read_labels, read_weights
from oddsmith.design.labels import read_some_labels
from oddsmith.design.reading import through_design
from oddsmith.engines import one_blas_thread
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError
from oddsmith.models.base import all_or_nothing
from oddsmith.models.closed_form import check_threads
from oddsmith.models.expanding import check_same_basis, has_basis, whole
from oddsmith.models.streaming import Stream, open_stream
from oddsmith.numerics import Array, log_softmax, softmax
from oddsmith.statistics import Features

Labels = npt.NDArray[Any]

LARGE = 8_000_000
"""Numbers in the data from which compiled kernels save more than loading them costs."""


SLICE_ELEMENTS = 1 << 20
"""Numbers in a slice of rows that is predicted at once."""


def is_large(rows: Any) -> bool:
    """Whether compiled kernels are worth their loading; the answer depends on the size of the data alone."""
    return bool(rows.shape[0] * rows.shape[1] >= LARGE)


@dataclass(frozen=True)
class Folded:
    """What a generative model keeps of its rows: the classes, a statistic, and how its columns are read."""

    classes: Labels
    statistic: Any
    plan: Any = None


@dataclass(frozen=True)
class Solution:
    """Class prior and densities.

    Densities have ``log_density(rows)`` (N × K), ``activations(rows)`` (the same up to a term that is the same for all
    classes), ``sample(t, rng)`` and ``n_parameters``.
    """

    prior: Array
    densities: Any


class Generative:
    """A mixin for classifiers that model ``p(x | C_k)`` and apply Bayes' rule. It stands before `Classifier`.

    The model defines ``_fold`` and ``_fold_stream`` (rows to statistic), ``_join`` (two statistics to one),
    ``_weights`` (class weights in a statistic), ``_estimate`` (statistic to densities), ``_rows`` and ``_columns_of``
    (samples).
    """

    classes_: Labels
    class_prior: Any
    threads: int | None
    _folded: Folded
    _solution: Solution | None
    _table: Any

    # ------------------------------------------------------------------------------------------ fitting

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **how: Any) -> Any:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        One pass over the data. ``sample_weight`` counts rows: a row of weight 2 is the row twice. ``X`` may be a path,
        a folder, or a data frame of Dask or Spark: see `scan`, also for ``how`` it is read.

        >>> from oddsmith import GaussianClassifier
        >>> GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]).means_.tolist()
        [[0.5], [4.5]]
        """
        self._check_parameters()
        stream = open_stream(X, y, sample_weight, None, how)
        if stream is not None:
            with one_blas_thread():
                self._keep(self._fold_stream(stream), None)
                self._solution = self._solve(self._folded)
            self._warn()
            return self
        X, y, sample_weight, _ = through_design(self, self._design(), X, y, sample_weight, reset=True)
        rows, plan = self._read(X, sample_weight, reset=True)
        classes, t = read_labels(y, rows.shape[0])
        s = read_weights(sample_weight, rows.shape[0])
        with one_blas_thread():
            self._keep(self._fold(rows, plan, classes, t, s), X)
            self._solution = self._solve(self._folded)
        self._warn()
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Add rows: the model is then that of all rows so far, exactly.

        ``classes`` may name labels that are still to come; it is not needed, since a new label is taken in when it
        comes. Densities are estimated when they are first asked for: until every class has rows enough for that,
        the model can take more rows but not predict.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> model.partial_fit([[4.0], [5.0]], ["b", "b"]).means_.tolist()
        [[0.5], [4.5]]
        """
        self._check_parameters()
        first = not hasattr(self, "_folded")
        X, y, sample_weight, _ = through_design(self, self._design(), X, y, sample_weight, reset=first)
        rows, plan = self._read(X, sample_weight, reset=first)
        known, t = read_some_labels(y, rows.shape[0], classes)
        s = read_weights(sample_weight, rows.shape[0])
        with one_blas_thread():
            new = self._fold(rows, plan, known, t, s)
        self._keep(new if first else self._join(self._folded, new), X)
        self._solution = None
        return self

    def merge(self, other: Any) -> Any:
        """Return the model of the rows of both: what a fit to all of them would give, without a row being read.

        >>> from oddsmith import GaussianClassifier
        >>> one = GaussianClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> one.merge(GaussianClassifier().partial_fit([[4.0], [5.0]], ["b", "b"])).means_.tolist()
        [[0.5], [4.5]]
        """
        model: Any = self
        if type(other) is not type(model):
            raise InvalidTypeError(f"A {type(self).__name__} merges with its like, found a {type(other).__name__}.")
        for one in (model, other):
            one._check_fitted()
        self._check_alike(other)
        merged = clone(model)
        merged.__dict__.update(_fitted_attributes(model))
        merged._folded, merged._solution = self._join(self._folded, other._folded), None
        merged.classes_ = merged._folded.classes
        return merged

    def with_class_prior(self, class_prior: Any) -> Any:
        """Return a model with the same densities and another class prior, a mapping from class to probability.

        Nothing is refitted; the log odds of two classes change by a constant, so that a linear boundary moves parallel
        to itself.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> moved = model.with_class_prior({"a": 0.9, "b": 0.1})
        >>> bool((moved.coef_ == model.coef_).all()), float((moved.intercept_ - model.intercept_).round(6)[0])
        (True, -2.197225)
        """
        model: Any = self
        solution = self._solved()
        prior = read_class_prior(class_prior, self.classes_)
        labels = self.classes_.tolist()
        other = clone(model).set_params(class_prior=dict(zip(labels, prior.tolist(), strict=True)))
        other.__dict__.update(_fitted_attributes(model))
        other._solution = Solution(prior, solution.densities)
        return other

    def _keep(self, folded: Folded, X: Any) -> None:
        table = None if X is None else as_table(X)
        self._folded, self.classes_ = folded, folded.classes
        self._table = None if table is None else table.implementation

    def _solve(self, folded: Folded) -> Solution:
        weight = self._weights(folded)
        labels = folded.classes.tolist()
        if not (weight > 0).all():
            label = labels[int(np.argmin(weight > 0))]
            raise InvalidInputError(
                f"There are no rows of class {label!r}, or none of positive weight. Add rows of it, or leave it out."
            )
        prior = weight / weight.sum()
        if self.class_prior is not None:
            prior = read_class_prior(self.class_prior, folded.classes)
        return Solution(prior, self._estimate(folded))

    def _solved(self) -> Solution:
        model: Any = self
        model._check_fitted()
        if self._solution is None:
            try:
                with one_blas_thread():
                    self._solution = self._solve(self._folded)
            except InvalidInputError as error:
                raise NotFittedError(str(error)) from None
        return self._solution

    def _check_alike(self, other: Any) -> None:
        """Refuse to merge models with other parameters or columns."""
        model: Any = self
        mine, its = model.get_params(deep=False), other.get_params(deep=False)
        for name, value in mine.items():
            if name != "threads" and not _same(value, its[name]):
                raise InvalidInputError(
                    f"Models merge only if their parameters are the same: {name} is {value!r} here and "
                    f"{its[name]!r} there. Fit both with the same {name}."
                )
        if model.n_features_in_ != other.n_features_in_ or not np.array_equal(model._names(), other._names()):
            raise InvalidInputError(
                f"Models merge only if their columns are the same: {_few(model._names())} here and "
                f"{_few(other._names())} there. Fit both on the same columns in the same order."
            )
        check_same_basis(model, other)

    # --------------------------------------------------------------------------------------- predicting

    def _activations(self, X: Any, *, deciding: bool = False) -> Array:
        """Return the log joint density of row and class, up to a term that is the same for all classes."""
        solution = self._solved()
        A = by_rows(solution.densities.activations, self._rows(X, deciding=deciding), self.threads)
        A += np.log(solution.prior)
        impossible = np.isneginf(A)
        if impossible.any() and impossible.all(axis=1).any():
            raise InvalidInputError(
                f"Row {int(np.argmax(impossible.all(axis=1)))} has density zero under every class, so no posterior "
                "exists. Use smoothing > 0, or leave such rows out."
            )
        return A

    def predict(self, X: Any) -> Labels:
        """Return the most probable class of each row.

        >>> from oddsmith import NaiveBayes
        >>> NaiveBayes().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]).predict([[0.7]]).tolist()
        ['a']
        """
        A = self._activations(X, deciding=True)
        codes = A.argmax(axis=1) if A.shape[1] > 2 else (A[:, 1] > A[:, 0]).astype(np.intp)
        labels: Labels = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Return the posterior ``p(C_k | x)`` of each class, N × K.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.predict_proba([[1.5], [2.5]]).round(3).tolist()
        [[0.5, 0.5], [0.269, 0.731]]
        """
        return softmax(self._activations(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of the posterior, N × K, without loss where it is tiny.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.predict_log_proba([[1001.5]]).tolist()
        [[-1000.0, 0.0]]
        """
        return log_softmax(self._activations(X))

    def _deciding_proba(self, X: Any) -> Array:
        return softmax(self._activations(X, deciding=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (two classes), or the log joint density of row and class, N × K.

        >>> from oddsmith import NaiveBayes
        >>> model = NaiveBayes(variance_smoothing=0.0).fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.decision_function([[1.5], [2.5]]).tolist()
        [0.0, 1.0]
        """
        prior = self.class_prior_
        if len(prior) == 2:
            A = self._activations(X)
            return A[:, 1] - A[:, 0]
        return self.log_density(X) + np.log(prior)

    def log_density(self, X: Any) -> Array:
        """Return ``log p(x | C_k)``, N × K. Missing values are integrated out: the density is that of the others.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.log_density([[1.0], [np.nan]]).round(3).tolist()
        [[-0.919, -1.419], [0.0, 0.0]]
        """
        densities = self._solved().densities
        return by_rows(densities.log_density, self._rows(X), self.threads)

    def sample(self, n: int, seed: int | np.random.Generator | None = None) -> tuple[Any, Labels]:
        """Draw ``n`` rows and their labels from the joint density ``p(C_k) p(x | C_k)``.

        The rows are an array, or a table of the kind that the model was fitted to.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> X, y = model.sample(1000, seed=0)
        >>> X.shape, bool(abs(X[y == "b"].mean() - 4.5) < 0.1)
        ((1000, 1), True)
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise InvalidInputError(f"n must be a whole number of at least 1, found {n!r}.")
        model: Any = self
        if has_basis(model) or hasattr(model, "design_"):
            raise InvalidInputError(
                "sample draws from the densities of the columns. With basis functions or a design these are of φ(x), "
                "from which no x can be had: fit a model of numeric columns, without a basis, to draw from."
            )
        rng = np.random.default_rng(seed)
        solution = self._solved()
        t = rng.choice(len(solution.prior), size=n, p=solution.prior)
        rows = solution.densities.sample(t, rng)
        if self._table is not None:
            columns = rows.T if isinstance(rows, np.ndarray) else rows
            named = dict(zip((str(name) for name in model._names()), columns, strict=True))
            rows = nw.from_dict(named, backend=self._table).to_native()
        elif not isinstance(rows, np.ndarray):
            rows = np.array([list(column) for column in rows], dtype=object).T
        return rows, self.classes_[t]

    # --------------------------------------------------------------------------------------- attributes

    @property
    def class_prior_(self) -> Array:
        """The prior probability of each class: its share of the rows, unless ``class_prior`` says otherwise."""
        return self._solved().prior

    @property
    def n_parameters_(self) -> int:
        """The number of parameters estimated: those of the densities, and K − 1 class priors unless given."""
        estimated = len(self.classes_) - 1 if self.class_prior is None else 0
        return int(self._solved().densities.n_parameters) + estimated

    # ------------------------------------------------------------------------- what each model defines

    def _design(self) -> Any:
        """Return the design of tables, False for a model that takes their columns as they are."""
        return getattr(self, "design", False)

    def _check_parameters(self) -> None:
        check_threads(self.threads)

    def _warn(self) -> None:
        """Warn of what the fit has met; nothing by default."""

    def _read(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any]:
        raise TypeError(f"{type(self).__name__} must define _read().")

    def _fold(self, rows: Any, plan: Any, classes: Labels, t: npt.NDArray[np.int32], s: Array | None) -> Folded:
        raise TypeError(f"{type(self).__name__} must define _fold().")

    def _fold_stream(self, stream: Stream) -> Folded:
        raise TypeError(f"{type(self).__name__} must define _fold_stream().")

    def _join(self, a: Folded, b: Folded) -> Folded:
        raise TypeError(f"{type(self).__name__} must define _join().")

    def _weights(self, folded: Folded) -> Array:
        weight: Array = folded.statistic.weight
        return weight

    def _estimate(self, folded: Folded) -> Any:
        raise TypeError(f"{type(self).__name__} must define _estimate().")

    def _rows(self, X: Any, *, deciding: bool = False) -> Any:
        raise TypeError(f"{type(self).__name__} must define _rows().")


# ------------------------------------------------------------------------------------------------ helpers


def by_rows(function: Callable[[Any], Array], rows: Any, threads: int | None) -> Array:
    """Return ``function(rows)``, slices of many rows on several threads."""
    n = rows.shape[0]
    elements = rows.nnz if sparse.issparse(rows) else n * rows.shape[1]
    count = min(n, -(-elements // SLICE_ELEMENTS))
    if count < 2:
        return function(whole(rows))
    edges = [n * i // count for i in range(count + 1)]
    with one_blas_thread(), ThreadPoolExecutor(threads or available_cores()) as pool:
        return np.concatenate(list(pool.map(lambda ends: function(rows[slice(*ends)]), pairwise(edges))))


def place(part: Array, where: npt.NDArray[np.intp], K: int) -> Array:
    """Return an array with a row per class in which those of ``part`` stand at ``where``, and the others are zero.

    >>> place(np.array([[1.0], [2.0]]), np.array([0, 2]), 3).tolist()
    [[1.0], [0.0], [2.0]]
    """
    if len(part) == K:
        return part
    whole = np.zeros((K, *part.shape[1:]))
    whole[where] = part
    return whole


def on_classes(stat: Features, where: npt.NDArray[np.intp], K: int) -> Features:
    """Return the statistic with its classes at ``where`` among K."""
    fields = {name: getattr(stat, name) for name in stat.__dataclass_fields__}
    return Features(**{name: value if name == "outside" else place(value, where, K) for name, value in fields.items()})


def has_missing(rows: Any, names: Callable[[], Any]) -> bool:
    """Return whether there are NaNs among the values; refuse infinity, saying in which column and row."""
    values = rows.data if sparse.issparse(rows) else rows
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return False
    if np.isinf(values).any():
        raise infinite_error(rows, names())
    return bool(np.isnan(values).any())


def infinite_error(rows: Any, names: Any) -> InvalidInputError:
    """Return the error that names the first column with infinite values."""
    if sparse.issparse(rows):
        entries = rows.tocoo()
        cells = np.column_stack([entries.row, entries.col])[np.isinf(entries.data)]
    else:
        cells = np.argwhere(np.isinf(rows))
    column = int(cells[0, 1])
    inside = cells[cells[:, 1] == column, 0]
    return InvalidInputError(
        f"Input X contains infinity (inf): column {str(names[column])!r} has {len(inside)} infinite values, the first "
        f"in row {int(inside.min())}. Replace them by finite numbers, or by NaN if they stand for missing values."
    )


def _fitted_attributes(model: Any) -> dict[str, Any]:
    names = ("classes_", "n_features_in_", "feature_names_in_", "design_", "basis_", "_folded", "_solution", "_table")
    return {name: value for name, value in vars(model).items() if name in names}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b) or repr(a) == repr(b)


def _few(names: Any) -> str:
    shown = [repr(str(name)) for name in names]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
