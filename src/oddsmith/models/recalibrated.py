"""A classifier around another one, with probabilities that keep their word."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, has_fit_parameter, validate_data

from oddsmith.decision.calibration import METHODS, IsotonicMap, LinearMap, fit_map
from oddsmith.decision.class_prior import shift_log_proba
from oddsmith.design.inputs import (
    _with_names,
    as_table,
    check_class_weights,
    read_labels,
    read_weights,
    split_target,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError, as_input_errors
from oddsmith.models.base import MODELS, Classifier, all_or_nothing
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array

LEAST_LOG = float(np.log(np.finfo(np.float64).tiny))


@MODELS.register("recalibrated")
class RecalibratedClassifier(Classifier):
    """A classifier whose probabilities are mapped so that they agree with the frequencies of the classes.

    With activations a_k (the model's log probabilities, or the values of its decision function where it has none),

        logistic     p_k ∝ exp(slope · a_k + shift_k)     Platt's map for two classes, one slope for any number
        temperature  p_k ∝ exp(slope · a_k)               no class is favoured; predictions stay the same
        isotonic     p_k ∝ g_k(p_k)                       any increasing g_k, for many rows

    ``fit`` learns the map from probabilities for rows that the model had not seen, fold by fold, and then fits the
    model to all rows. `recalibrate` puts a map around a model that is fitted already.

    Parameters
    ----------
    model : classifier, optional
        Of this library or of scikit-learn; default ``LogisticRegression(prior=1.0)``.
    method : "logistic", "temperature" or "isotonic"
    cv : int, splitter or iterable of (train, test)
        Number of folds (fewer where a class has fewer rows), or the folds as scikit-learn has them.
    seed : int
        Seed of the folds.

    Attributes
    ----------
    model_ : classifier
        The fitted model.
    map_ : LinearMap or IsotonicMap
        The map, in plain arrays.
    shift_ : array, K
        Added to the log probabilities after the map: zero, until another class prior is asked for.
    classes_, class_prior_ : arrays
        The labels, and their shares in training (if known).

    Notes
    -----
    Cost: ``cv + 1`` fits.

    References
    ----------
    J. Platt, Probabilistic outputs for support vector machines, 1999. B. Zadrozny, C. Elkan, Transforming classifier
    scores into accurate multiclass probability estimates, 2002. C. Guo et al., On calibration of modern neural
    networks, 2017.

    >>> from sklearn.datasets import load_iris
    >>> from oddsmith import NaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RecalibratedClassifier(NaiveBayes(), "temperature").fit(X, y)
    >>> round(model.score(X, y), 2), model.map_.slope < 1  # naive Bayes is too sure of itself
    (0.96, True)
    """

    map_: Any
    shift_: Array
    class_prior_: Array | None
    _inner: Any

    def __init__(self, model: Any = None, method: str = "logistic", *, cv: Any = 5, seed: int = 0) -> None:
        self.model = model
        self.method = method
        self.cv = cv
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._template()).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags

    def _template(self) -> Any:
        model = LogisticRegression(prior=1.0) if self.model is None else self.model
        if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")) or is_regressor(model):
            raise InvalidTypeError(
                f"RecalibratedClassifier needs a classifier, an instance such as LogisticRegression(); found {model!r}."
            )
        return model

    @classmethod
    def around(
        cls,
        model: Any,
        calibration: LinearMap | IsotonicMap | None = None,
        *,
        shift: Array | None = None,
        class_prior: Array | None = None,
        method: str = "logistic",
    ) -> RecalibratedClassifier:
        """Return a fitted classifier around a fitted model: a map, or a shift of its log odds, or both.

        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> half = RecalibratedClassifier.around(model, LinearMap(0.5, np.zeros(2)))
        >>> odds = [np.diff(m.predict_log_proba([[2.0]])).item() for m in (model, half)]
        >>> round(odds[1] / odds[0], 6)
        0.5
        """
        K = len(model.classes_)
        made = cls(model, method)
        made._assign(
            model,
            LinearMap(1.0, np.zeros(K)) if calibration is None else calibration,
            np.zeros(K) if shift is None else shift,
            getattr(model, "class_prior_", None) if class_prior is None else class_prior,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(made, name, getattr(model, name))
        return made

    def _assign(self, model: Any, calibration: Any, shift: Array, class_prior: Array | None) -> None:
        self.classes_ = np.asarray(model.classes_)
        self._inner, self.map_, self.shift_, self.class_prior_ = model, calibration, shift, class_prior

    @property
    def model_(self) -> Any:
        """The fitted model inside."""
        return self._inner

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RecalibratedClassifier:
        """Fit model and map to rows ``X`` and labels ``y`` (or the name of a column of ``X``).

        ``sample_weight`` counts rows, and is for models that take it.

        >>> RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb")).predict([[9.0]]).tolist()
        ['b']
        """
        model = self._template()
        if self.method not in METHODS:
            raise UnknownNameError("way of calibrating", self.method, METHODS)
        X, y = split_target(X, y)
        rows = self._input(X, reset=True)
        n = rows.shape[0]
        classes, t = read_labels(y, n)
        s = read_weights(sample_weight, n)
        if s is not None:
            if not has_fit_parameter(model, "sample_weight"):
                raise InvalidInputError(f"sample_weight was given, but {type(model).__name__}.fit takes none.")
            check_class_weights(np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64), classes)
        tested, parts = [], []
        for train, test in self._folds(t, s, classes):
            fitted = _fit(model, take(rows, train), classes[t[train]], None if s is None else s[train])
            tested.append(test)
            parts.append(activations(fitted, take(rows, test)))
        seen = np.concatenate(tested)
        calibration = fit_map(np.concatenate(parts), t[seen], self.method, None if s is None else s[seen])
        weight = np.bincount(t, weights=s, minlength=len(classes))
        self._assign(_fit(model, rows, classes[t], s), calibration, np.zeros(len(classes)), weight / weight.sum())
        return self

    def _folds(self, t: npt.NDArray[np.int32], s: Array | None, classes: npt.NDArray[Any]) -> Any:
        """Yield the rows to train on and to test on, fold by fold."""
        from sklearn.model_selection import StratifiedKFold, check_cv  # slow to load, and rarely needed

        if not isinstance(self.cv, int | np.integer):
            yield from check_cv(self.cv).split(np.zeros(len(t)), t)
            return
        if isinstance(self.cv, bool) or self.cv < 2:
            raise InvalidInputError(f"cv must be a whole number of at least 2 or a splitter, found {self.cv!r}.")
        inside = np.arange(len(t)) if s is None else np.flatnonzero(s)
        counts = np.bincount(t[inside], minlength=len(classes))
        if counts.min() < 2:
            label = classes.tolist()[int(counts.argmin())]
            raise InvalidInputError(
                f"Class {label!r} has {counts.min()} row: a model that has not seen it cannot know it, so it needs two "
                "at least. Leave it out, or fit the model and call recalibrate(model, X, y) with other rows."
            )
        folds = min(int(self.cv), int(counts.min()))
        splitter = StratifiedKFold(folds, shuffle=True, random_state=self.seed)
        for train, test in splitter.split(np.zeros(len(inside)), t[inside]):
            yield inside[train], inside[test]

    def _input(self, X: Any, *, reset: bool) -> Any:
        """Return rows for the model, which checks values: tables as they are, all else as an array or CSR matrix."""
        if not reset and hasattr(self._inner, "design_"):
            return X  # the design looks for its columns by name, in any order
        table = as_table(X)
        with as_input_errors():
            if table is None:
                X = check_array(
                    X, accept_sparse="csr", dtype=None, ensure_all_finite=False, estimator=type(self).__name__
                )
            validate_data(self, X if table is None else _with_names(table), reset=reset, skip_check_array=True)
        return X

    def predict_log_proba(self, X: Any) -> Array:
        """Return the log probability of each class, N × K.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> model.predict_log_proba([[3.0]]).shape
        (1, 2)
        """
        self._check_fitted()
        rows = self._input(X, reset=False) if hasattr(self, "n_features_in_") else X
        return self._mapped(activations(self.model_, rows))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, N × K.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> model.predict_proba([[0.0], [9.0]]).argmax(axis=1).tolist()
        [0, 1]
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` for two classes, the log probabilities (N × K) for more.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> (model.decision_function([[0.0], [9.0]]) > 0).tolist()
        [False, True]
        """
        L = np.maximum(self.predict_log_proba(X), LEAST_LOG)
        return L[:, 1] - L[:, 0] if L.shape[1] == 2 else L

    def _probabilities(self, X: Any, predictive: bool) -> Array:
        if not predictive or not hasattr(self.model_, "predictive"):
            return super()._probabilities(X, predictive)
        with np.errstate(divide="ignore"):
            L = np.log(self.model_.predictive(X).mean)
        return np.asarray(np.exp(self._mapped(np.maximum(L, LEAST_LOG))))

    def _mapped(self, A: Array) -> Array:
        return shift_log_proba(self.map_(A), self.shift_)

    def _shifted(self, shift: Array, prior: Array | None) -> RecalibratedClassifier:
        added = self.shift_ + shift
        return self.around(self.model_, self.map_, shift=added - added.mean(), class_prior=prior, method=self.method)


def activations(model: Any, X: Any) -> Array:
    """Return what a map works on, N × K: log probabilities, or values of the decision function.

    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    >>> activations(model, [[1.5]]).round(6).tolist()
    [[-0.693147, -0.693147]]
    """
    if hasattr(model, "predict_log_proba"):
        with np.errstate(divide="ignore"):
            L = np.asarray(model.predict_log_proba(X), dtype=np.float64)
        return np.maximum(L, LEAST_LOG)
    if hasattr(model, "predict_proba"):
        P = np.asarray(model.predict_proba(X), dtype=np.float64)
        return np.asarray(np.log(np.maximum(P, np.finfo(np.float64).tiny)))
    if hasattr(model, "decision_function"):
        A = np.asarray(model.decision_function(X), dtype=np.float64)
        return np.column_stack([-0.5 * A, 0.5 * A]) if A.ndim == 1 else A
    raise InvalidTypeError(
        f"{type(model).__name__} has no predict_proba and no decision_function: labels alone cannot be calibrated."
    )


def take(rows: Any, inside: npt.NDArray[np.intp]) -> Any:
    """Return some rows of an array, a sparse matrix or a table.

    >>> take(np.eye(3), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """
    table = as_table(rows)
    return rows[inside] if table is None else table[inside].to_native()


def _fit(model: Any, rows: Any, labels: npt.NDArray[Any], s: Array | None) -> Any:
    return clone(model).fit(rows, labels, **({} if s is None else {"sample_weight": s}))
