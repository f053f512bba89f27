"""The base of generative classifiers: Bayes' rule, exact updates and merging, sampling, other class priors.

A model folds one additive statistic over its rows and keeps it. It estimates the class densities from that statistic
alone. More rows (`partial_fit`), another shard (`merge`) or another prior (`with_class_prior`) therefore give the same
model as one fit to everything, and no rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from oddsmith.data_access.dispatch import streams
from oddsmith.data_access.training_stream import Stream, open_stream
from oddsmith.decision.class_prior import PerClass, read_class_prior
from oddsmith.densities.class_sums import Folded, Solution
from oddsmith.densities.gaussian import QuadraticForm
from oddsmith.densities.rows import RowMatrix, by_rows
from oddsmith.design.class_weight import check_class_weights, read_weights, weigh_classes
from oddsmith.design.fitted_basis import has_basis
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import Codes, as_table, read_labels
from oddsmith.design.labels import read_some_labels
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, NotFittedError
from oddsmith.models.base import all_or_nothing
from oddsmith.models.estimator import PosteriorMixin, check_count
from oddsmith.models.merge_mixin import check_alike
from oddsmith.numerics import Array, softmax
from oddsmith.protocols import Labels
from oddsmith.rows.device import in_memory

ReadLabels: TypeAlias = Callable[[object, int], tuple[Labels, Codes]]

FITTED = (
    *("classes_", "n_features_in_", "feature_names_in_", "design_", "text_formats_"),
    *("basis_", "_folded", "_solution", "_table", "class_weight_"),
)
"""What a copy with other parameters takes over from a fitted model."""


class GenerativeMixin(PosteriorMixin):
    """A mixin for classifiers that model ``p(x | C_k)`` and apply Bayes' rule. List it before `Classifier`.

    The model defines ``_read`` (rows as numbers, and how their columns are read), ``_fold`` and ``_fold_stream`` (rows
    to statistic), ``_join`` (two statistics to one), ``_estimate`` (statistic to densities) and ``_rows``.
    """

    class_prior: PerClass | None
    threads: int | None
    design: object = False
    _folded: Folded | None = None
    _solution: Solution | None = None
    _table: Any = None
    _read: Callable[..., tuple[RowMatrix, Any]]
    _fold: Callable[..., Folded]
    _fold_stream: Callable[[Stream], Folded]
    _join: Callable[[Folded, Folded], Folded]
    _estimate: Callable[[Folded], Any]
    _quadratic_form: Callable[[], QuadraticForm]
    _linear_parts: Callable[[], tuple[Array, Array]]
    _check_linear: Callable[[], None]

    def _check_parameters(self) -> None:
        check_count("threads", self.threads, optional=True)

    def _warn(self) -> None:
        """Warn about the fit; does nothing by default."""

    def _check_rows(self, rows: RowMatrix, classes: Labels, t: Codes, s: Array | None) -> None:
        """Refuse rows before they are folded; does nothing by default."""

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: object = None, **how: object) -> Self:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        One pass over the data. ``sample_weight`` counts rows: a row of weight 2 is the row twice. ``X`` may be a path,
        a folder, or a Dask or Spark data frame; `scan` documents these and the options ``how``.

        >>> from oddsmith import GaussianClassifier
        >>> GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]).means_.tolist()
        [[0.5], [4.5]]
        """
        self._check_parameters()
        stream, self._table = open_stream(X, y, sample_weight, None, how), None
        with one_blas_thread():
            if stream is None:
                folded = self._fold_rows(X, y, sample_weight, read_labels, reset=True, partial=False)
            else:
                folded = self._fold_stream(stream)
            self._folded, self.classes_ = folded, folded.classes
            self._solution = self._solve(folded)
        self._warn()
        return self

    def _fold_rows(
        self, X: object, y: object, sample_weight: object, read: ReadLabels, *, reset: bool, partial: bool = True
    ) -> Folded:
        """Return the statistic of rows in memory; with ``reset``, learn the columns from them."""
        X, y, sample_weight = in_memory(X), in_memory(y), in_memory(sample_weight)
        X, y, sample_weight, _ = through_design(self, self.design, X, y, sample_weight, reset=reset)
        rows, plan = self._read(X, sample_weight, reset=reset)
        classes, t = read(y, rows.shape[0])
        s, table = read_weights(sample_weight, rows.shape[0]), as_table(X)
        s = weigh_classes(self, classes, t, s, partial=partial)
        self._table = None if table is None else table.implementation
        if not partial:
            self._check_rows(rows, classes, t, s)
        return self._fold(rows, plan, classes, t, s)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: npt.ArrayLike | None = None, sample_weight: object = None) -> Self:
        """Add rows: the model then equals a fit to all rows so far.

        ``classes`` is optional and may name labels that appear later; new labels are also accepted when they appear.
        Densities are estimated on first use: until every class has enough rows, the model accepts more rows but cannot
        predict.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> model.partial_fit([[4.0], [5.0]], ["b", "b"]).means_.tolist()
        [[0.5], [4.5]]
        """
        self._check_parameters()
        before, read = self._folded, partial(read_some_labels, classes=classes)
        with one_blas_thread():
            new = self._fold_rows(X, y, sample_weight, read, reset=before is None)
        self._folded, self._solution = new if before is None else self._join(before, new), None
        self.classes_ = self._folded.classes
        return self

    def merge(self, other: Self) -> Self:
        """Return the model of the rows of both, equal to a fit to all of them; no row is read.

        >>> from oddsmith import GaussianClassifier
        >>> one = GaussianClassifier().partial_fit([[0.0], [1.0]], ["a", "a"])
        >>> one.merge(GaussianClassifier().partial_fit([[4.0], [5.0]], ["b", "b"])).means_.tolist()
        [[0.5], [4.5]]
        """
        check_alike(self, other)
        folded = self._join(self._fitted_sums(), other._fitted_sums())
        merged = self._copy()
        merged._folded, merged._solution, merged.classes_ = folded, None, folded.classes
        return merged

    def with_class_prior(self, class_prior: PerClass) -> Self:
        """Return a model with the same densities and another class prior, {class: probability}; nothing is refitted.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> float((model.with_class_prior({"a": 0.9, "b": 0.1}).intercept_ - model.intercept_).round(6)[0])
        -2.197225
        """
        densities = self._solved().densities
        prior = read_class_prior(class_prior, self.classes_)
        other = self._copy(class_prior=dict(zip(self.classes_.tolist(), prior.tolist(), strict=True)))
        other._solution = Solution(prior, densities)
        return other

    def _copy(self, **parameters: object) -> Self:
        """Return a fitted copy, with other parameters."""
        copied: Self = clone(self).set_params(**parameters)
        copied.__dict__.update({name: value for name, value in vars(self).items() if name in FITTED})
        return copied

    def _fitted_sums(self) -> Folded:
        """Return the statistic that the fitted model keeps."""
        self._check_fitted()
        assert self._folded is not None
        return self._folded

    def _solve(self, folded: Folded) -> Solution:
        weight = folded.statistic.weight
        if not (weight > 0).all():
            label = folded.classes.tolist()[int(np.argmin(weight > 0))]
            raise InvalidInputError(
                f"There are no rows of class {label!r}, or none of positive weight. Add rows of it, or leave it out."
            )
        check_class_weights(weight, folded.classes)
        given = self.class_prior
        prior = weight / weight.sum() if given is None else read_class_prior(given, folded.classes)
        return Solution(prior, self._estimate(folded))

    def _solved(self) -> Solution:
        folded = self._fitted_sums()
        if self._solution is None:
            try:
                with one_blas_thread():
                    self._solution = self._solve(folded)
            except InvalidInputError as error:
                raise NotFittedError(str(error)) from None
        return self._solution

    def _activations(self, X: object, *, deciding: bool = False) -> Array:
        """Return the log joint density of row and class, up to a constant common to all classes."""
        solution = self._solved()
        A = by_rows(solution.densities.activations, self._rows(X, deciding=deciding), self.threads)
        A += np.log(solution.prior)
        return with_posterior(A)

    @streams
    def predict(self, X: Any) -> Labels:
        """Return the most probable class of each row.

        >>> from oddsmith import NaiveBayes
        >>> NaiveBayes().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]).predict([[0.7]]).tolist()
        ['a']
        """
        A = self._activations(X, deciding=True)
        codes = A.argmax(axis=1) if A.shape[1] > 2 else (A[:, 1] > A[:, 0]).astype(np.intp)
        return np.asarray(self.classes_[codes])

    def _decision_proba(self, X: object) -> Array:
        return softmax(self._activations(X, deciding=True))

    @streams
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
        return with_posterior(self.log_density(X) + np.log(prior))

    @streams
    def log_density(self, X: Any) -> Array:
        """Return ``log p(x | C_k)``, N × K. Missing values are integrated out.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.log_density([[1.0], [np.nan]]).round(3).tolist()
        [[-0.919, -1.419], [0.0, 0.0]]
        """
        densities = self._solved().densities
        return by_rows(densities.log_density, self._rows(X), self.threads)

    def sample(self, n: int, seed: int | np.random.Generator | None = None) -> tuple[Any, Labels]:
        """Draw ``n`` rows and their labels from the joint density ``p(C_k) p(x | C_k)``.

        The rows are an array, or a table of the same kind as the training data.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> X, y = model.sample(1000, seed=0)
        >>> X.shape, bool(abs(X[y == "b"].mean() - 4.5) < 0.1)
        ((1000, 1), True)
        """
        check_count("n", n)
        if has_basis(self) or "design_" in vars(self):
            raise InvalidInputError(
                "sample draws from the densities of the columns. With basis functions or a design, these are "
                "densities of φ(x), which cannot be mapped back to x. Fit a model of numeric columns without a basis."
            )
        rng = np.random.default_rng(seed)
        solution = self._solved()
        t = rng.choice(len(solution.prior), size=n, p=solution.prior)
        rows = solution.densities.sample(t, rng)
        if self._table is not None:
            columns = rows.T if isinstance(rows, np.ndarray) else rows
            named = dict(zip((str(name) for name in self._names()), columns, strict=True))
            rows = nw.from_dict(named, backend=self._table).to_native()
        elif not isinstance(rows, np.ndarray):
            rows = np.array([list(column) for column in rows], dtype=object).T
        return rows, self.classes_[t]

    @property
    def class_prior_(self) -> Array:
        """The prior probability of each class: its share of the rows, unless ``class_prior`` is given."""
        return self._solved().prior

    @property
    def quadratic_(self) -> QuadraticForm:
        """``(W, w, w0)`` of the functions ``a_k(x) = xᵀ W_k x + w_kᵀ x + w_k0`` whose softmax is the posterior."""
        return self._quadratic_form()

    @property
    def coef_(self) -> Array:
        """The weights of the linear functions, K × D; 1 × D for the log odds of two classes."""
        self._check_linear()
        return self._linear_parts()[0]

    @property
    def intercept_(self) -> Array:
        """The intercepts of the linear functions, K; 1 for the log odds of two classes."""
        self._check_linear()
        return self._linear_parts()[1]

    @property
    def n_parameters_(self) -> int:
        """The number of estimated parameters: those of the densities, and K − 1 class priors unless given."""
        estimated = len(self.classes_) - 1 if self.class_prior is None else 0
        return int(self._solved().densities.n_parameters) + estimated


def with_posterior(A: Array) -> Array:
    """Return the log joint densities of rows and classes, N × K; refuse rows without a posterior."""
    if np.isfinite(A).all():
        return A
    bad = np.isneginf(A).all(axis=1) | np.isnan(A).any(axis=1) | np.isposinf(A).any(axis=1)
    if bad.any():
        raise InvalidInputError(
            f"Row {int(np.argmax(bad))} has density zero under every class, so no posterior exists: it is far outside "
            "the range of the training rows, or holds counts that no class has. Use smoothing > 0 for counts, or leave "
            "such rows out."
        )
    return A
