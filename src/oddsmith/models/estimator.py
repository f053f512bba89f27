"""The base of classifiers and mixins: a scikit-learn estimator with classes and column names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.data_access.dispatch import streams
from oddsmith.design.fitted_basis import expanded, has_basis, input_names
from oddsmith.design.fitted_design import column_names
from oddsmith.design.inputs import check_finite, check_fitted, learned_design, read_rows
from oddsmith.engines import MemorySource
from oddsmith.engines.memory import available_cores, parallel_map
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.curvature import activations
from oddsmith.models.foreign_parameters import translate
from oddsmith.numerics import Array, log_softmax, softmax
from oddsmith.protocols import Indices, Labels
from oddsmith.rows import SplitRows

if TYPE_CHECKING:
    from oddsmith.densities.rows import RowMatrix
    from oddsmith.design.basis import Expansion


class Estimator(BaseEstimator):
    """An estimator that checks the rows to predict and names the columns of its weights."""

    classes_: Labels
    n_features_in_: int
    basis_: Expansion
    basis: object = None
    class_weight: object = None

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; nested ones as ``model__prior``."""
        known = self._get_param_names()
        for name, value in params.items():
            if name.partition("__")[0] not in known:
                raise InvalidInputError(translate(type(self), name, value, known))
        return super().set_params(**params)

    def _names(self) -> Labels:
        """Return the names of the columns of the weights: from the basis, or from the data (``x0``, ``x1`` …)."""
        return self.basis_.names if has_basis(self) else input_names(self)

    def _names_at(self, columns: Indices) -> list[str]:
        """Return the names of some columns, in ascending order; those of a design are not all made for it."""
        design = None if has_basis(self) else learned_design(self)
        if design is None:
            return [str(name) for name in self._names()[columns]]
        found: list[str] = []
        start = 0
        for part in (term.names for term in design.terms_):
            inside = columns[(columns >= start) & (columns < start + len(part))] - start
            if len(inside) * 16 < len(part):
                found.extend(part[j] for j in inside.tolist())
            else:
                found.extend(compress(part, np.isin(np.arange(len(part)), inside, assume_unique=True).tolist()))
            start += len(part)
        return found

    def _check_fitted(self) -> None:
        check_fitted(self, "fit(X, y)")

    def _rows(self, X: object, *, deciding: bool = False) -> Any:
        """Return checked rows, with the basis applied if there is one; some models decide on complete rows only."""
        return self._checked_rows(X, split=False)

    def _checked_rows(self, X: object, *, split: bool) -> Any:
        """Return `_rows`; with ``split``, large tables may come in parts, with categories as codes."""
        self._check_fitted()
        rows = read_rows(self, X, reset=False, split=split and not has_basis(self))
        check_finite(rows, column_names(self, rows))
        return expanded(self, rows)


class PosteriorMixin(Estimator):
    """A mixin for classifiers whose probabilities are the softmax of ``_activations(X)``, N × K."""

    _activations: Callable[..., Array]

    @streams
    def predict_proba(self, X: Any) -> Array:
        """Return the posterior ``p(C_k | x)`` of each class, N × K.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.predict_proba([[1.5], [2.5]]).round(3).tolist()
        [[0.5, 0.5], [0.269, 0.731]]
        """
        return softmax(self._activations(X))

    @streams
    def predict_log_proba(self, X: Any) -> Array:
        """Return the log posterior, N × K, accurate for tiny probabilities.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.predict_log_proba([[1001.5]]).tolist()
        [[-1000.0, 0.0]]
        """
        return log_softmax(self._activations(X))


def linear_activations(rows: RowMatrix | SplitRows, W: Array, b: Array, threads: int | None = None) -> Array:
    """Return ``rows @ Wᵀ + b``; refuse rows for which it is not finite.

    >>> linear_activations(np.array([[1.0], [2.0]]), np.array([[3.0]]), np.array([1.0])).tolist()
    [[4.0], [7.0]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        A = _split_activations(rows, W, b, threads) if isinstance(rows, SplitRows) else np.asarray(rows @ W.T + b)
    finite = np.isfinite(A)
    if not finite.all():
        raise InvalidInputError(
            f"Row {int(np.argmin(finite.all(axis=1)))} has values so large that its activation exceeds the range of "
            f"floating point. They differ greatly from the training data: correct them, or leave the row out."
        )
    return A


def _split_activations(rows: SplitRows, W: Array, b: Array, threads: int | None) -> Array:
    source = MemorySource(rows, np.zeros(rows.shape[0], dtype=np.int32), 1)

    def part(ends: tuple[int, int]) -> Array:
        return activations(source.block(*ends), W, b, np.zeros(rows.shape[1]))

    return np.concatenate([*parallel_map(part, source.slices(), threads or available_cores())])


def per_class(A: Array) -> Array:
    """Return activations as N × K: for two classes zeros (class 0) and the log odds."""
    return np.column_stack([np.zeros(len(A)), A]) if A.ndim == 1 else A


def check_seed(seed: object) -> None:
    """Raise unless ``seed`` is None or a whole number of at least 0."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise InvalidInputError(f"seed must be None or a whole number of at least 0, found {seed!r}.")


def check_count(name: str, value: object, *, optional: bool = False) -> None:
    """Raise unless the value is a whole number of at least 1 (or None, if allowed)."""
    if not (isinstance(value, int | np.integer) and value >= 1) and not (optional and value is None):
        or_none = "None or " if optional else ""
        raise InvalidInputError(f"{name} must be {or_none}a whole number of at least 1, found {value!r}.")


def reported_weights(W: Array, b: Array, common: Array, reference: int | None) -> tuple[Array, Array]:
    """Return weights against class 0 as they are reported: of K > 2 classes they sum to ``common``, or one is 0."""
    if len(W) == 1:
        return W, b
    W, b = np.vstack([np.zeros(W.shape[1]), W]), np.concatenate([[0.0], b])
    if reference is None:
        return W - W.mean(axis=0) + common[1:], b - b.mean() + common[0]
    return W - W[reference], b - b[reference]
