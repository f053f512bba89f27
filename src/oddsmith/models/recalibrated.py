"""A wrapper that calibrates the probabilities of another classifier."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import has_fit_parameter

from oddsmith.data_access.dispatch import streams
from oddsmith.decision.calibration import (
    LEAST_LOG,
    METHODS,
    CalibrationMap,
    LinearMap,
    activations,
    fit_map,
    states_probabilities,
)
from oddsmith.decision.class_prior import shift_log_proba
from oddsmith.design.class_weight import check_class_weights, read_weights
from oddsmith.design.inputs import read_labels, split_target
from oddsmith.errors import InvalidInputError, OddsmithWarning, UnknownNameError, as_input_errors
from oddsmith.models.base import MODELS, Classifier, HasPredictive, all_or_nothing, training_prior
from oddsmith.models.estimator import check_seed
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.wrapper_mixin import WrapperMixin, fit_copy, take
from oddsmith.numerics import Array
from oddsmith.protocols import ClassifierLike, Indices, Labels


@MODELS.register("recalibrated")
class RecalibratedClassifier(WrapperMixin, Classifier):
    """A classifier whose probabilities are mapped to agree with observed class frequencies.

    With activations a_k (the model's log probabilities, or its decision function if it has none),

        logistic     p_k ∝ exp(slope · a_k + shift_k)     Platt's map for two classes, one slope for any number
        temperature  p_k ∝ exp(slope · a_k)               no class is favoured; predictions stay the same
        isotonic     p_k ∝ g_k(p_k)                       any increasing g_k, for many rows

    ``fit`` learns the map from out-of-fold predictions, and then fits the model to all rows. `recalibrate` adds a map
    to a model that is already fitted.

    Parameters
    ----------
    model : classifier, optional
        From this library or scikit-learn. Default: ``LogisticRegression(prior=1.0)``.
    method : "logistic", "temperature" or "isotonic"
    cv : int, splitter or iterable of (train, test)
        Number of folds (fewer if a class has fewer rows), or folds as in scikit-learn.
    seed : int
        Random seed of the folds.
    class_weight : None, "balanced" or {class: weight}
        Class weights for both model and map. ``RecalibratedClassifier(LogisticRegression(class_weight="balanced"))``
        has weights in the model only: the map brings its probabilities back to the class frequencies.

    Attributes
    ----------
    model_ : classifier
        The fitted model.
    map_ : LinearMap or IsotonicMap
        The map, in plain arrays.
    shift_ : array, K
        Shift of the log probabilities after the map: zero unless the class prior is changed.
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

    class_prior_: Array | None
    _inner: Any

    @checked_names
    def __init__(
        self,
        model: object = None,
        method: str = "logistic",
        *,
        cv: object = 5,
        seed: int = 0,
        class_weight: object = None,
    ) -> None:
        self.model, self.method, self.cv, self.seed, self.class_weight = model, method, cv, seed, class_weight

    @classmethod
    def around(
        cls,
        model: ClassifierLike,
        calibration: CalibrationMap | None = None,
        *,
        shift: Array | None = None,
        class_prior: Array | None = None,
        method: str = "logistic",
    ) -> RecalibratedClassifier:
        """Return a fitted classifier around a fitted model, with a map, a shift of the log odds, or both.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> half = RecalibratedClassifier.around(model, LinearMap(0.5, np.zeros(2)))
        >>> odds = [np.diff(m.predict_log_proba([[2.0]])).item() for m in (model, half)]
        >>> round(odds[1] / odds[0], 6)
        0.5
        """
        K = len(model.classes_)
        wrapped = cls(model, method)
        wrapped._assign(
            model,
            LinearMap(1.0, np.zeros(K)) if calibration is None else calibration,
            np.zeros(K) if shift is None else shift,
            training_prior(model) if class_prior is None else class_prior,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(wrapped, name, getattr(model, name))
        return wrapped

    def _assign(self, model: ClassifierLike, map_: CalibrationMap, shift: Array, class_prior: Array | None) -> None:
        self.classes_ = np.asarray(model.classes_)
        self._inner, self.map_, self.shift_, self.class_prior_ = model, map_, shift, class_prior

    @property
    def model_(self) -> Any:
        """The fitted model inside."""
        return self._inner

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> RecalibratedClassifier:
        """Fit model and map to rows ``X`` and labels ``y`` (or the name of a column of ``X``).

        ``sample_weight`` counts rows. If the model's ``fit`` does not accept it, only the map is weighted, with a
        warning.

        >>> RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb")).predict([[9.0]]).tolist()
        ['b']
        """
        model = self._template()
        if self.method not in METHODS:
            raise UnknownNameError("way of calibrating", self.method, METHODS)
        X, y = split_target(X, y)
        rows = self._input(X, reset=True)
        classes, t = read_labels(y, rows.shape[0])
        s = self._read_weights(sample_weight, t, classes)
        inner = s if s is None or has_fit_parameter(model, "sample_weight") else None
        tested, parts = [], []
        for train, test in self._complete_folds(t, s, classes):
            fitted = fit_copy(model, rows, train, classes[t[train]], inner)
            tested.append(test)
            parts.append(activations(fitted, take(rows, test)))
        seen = np.concatenate(tested)
        weights = None if s is None else s[seen]
        stated = states_probabilities(fitted)
        calibration = fit_map(np.concatenate(parts), t[seen], self.method, weights, stated=stated)
        weight = np.bincount(t, weights=s, minlength=len(classes))
        fitted = fit_copy(model, rows, None, classes[t], inner)
        self._assign(fitted, calibration, np.zeros(len(classes)), weight / weight.sum())
        return self

    def _read_weights(self, sample_weight: object, t: npt.NDArray[np.int32], classes: Labels) -> Array | None:
        s, model = read_weights(sample_weight, len(t)), self._template()
        if s is None or self.class_weight is not None or has_fit_parameter(model, "sample_weight"):
            return super()._read_weights(s, t, classes)
        check_class_weights(np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64), classes)
        warnings.warn(
            f"{type(model).__name__}.fit takes no sample_weight: the model is fitted without the weights, and only "
            "its calibration uses them.",
            OddsmithWarning,
            stacklevel=4,
        )
        return s

    def _complete_folds(
        self, t: npt.NDArray[np.int32], s: Array | None, classes: Labels
    ) -> Iterator[tuple[Indices, Indices]]:
        """Yield the folds whose training rows include every class."""
        lacking: list[object] = []
        folds = left = 0
        for train, test in self._folds(t, s, classes):
            folds += 1
            weight = np.bincount(t[train], weights=None if s is None else s[train], minlength=len(classes))
            if weight.min() > 0 and len(test):
                yield train, test
                continue
            left += 1
            lacking += [label for label in classes[weight == 0].tolist() if label not in lacking]
        if not left:
            return
        names = ", ".join(map(repr, lacking[:8]))
        advice = "A number as cv, such as cv=5, keeps the shares of the classes in every fold."
        if left == folds:
            raise InvalidInputError(f"No fold has training rows of every class (missing: {names}). {advice}")
        warnings.warn(
            f"{left} of {folds} folds have no training rows of some class ({names}): their rows do not count in the "
            f"calibration. {advice}",
            OddsmithWarning,
            stacklevel=4,
        )

    def _folds(self, t: npt.NDArray[np.int32], s: Array | None, classes: Labels) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training and test rows of each fold."""
        from sklearn.model_selection import StratifiedKFold, check_cv  # slow to load, and rarely needed

        if not isinstance(self.cv, int | np.integer):
            with as_input_errors():
                splits = list(check_cv(self.cv).split(np.zeros(len(t)), t))
            if not splits:
                raise InvalidInputError(f"cv={self.cv!r:.60} has no folds; expected a number, or at least one fold.")
            yield from splits
            return
        if isinstance(self.cv, bool) or self.cv < 2:
            raise InvalidInputError(f"cv must be a whole number of at least 2 or a splitter, found {self.cv!r}.")
        inside = np.arange(len(t)) if s is None else np.flatnonzero(s)
        counts = np.bincount(t[inside], minlength=len(classes))
        if counts.min() < 2:
            label = classes.tolist()[int(counts.argmin())]
            raise InvalidInputError(
                f"Class {label!r} has {counts.min()} row: a model cannot learn a class that it has not seen, so at "
                f"least two rows are needed. Leave it out, or fit the model and call recalibrate(model, X, y) with "
                f"other rows."
            )
        check_seed(self.seed)
        folds = min(int(self.cv), int(counts.min()))
        splitter = StratifiedKFold(folds, shuffle=True, random_state=self.seed)
        for train, test in splitter.split(np.zeros(len(inside)), t[inside]):
            yield inside[train], inside[test]

    def _input(self, X: object, *, reset: bool) -> Any:
        if not reset and "design_" in vars(self._inner):
            return X  # the design looks for its columns by name, in any order
        return super()._input(X, reset=reset)

    @streams
    def predict_log_proba(self, X: Any) -> Array:
        """Return the log probability of each class, N × K.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> model.predict_log_proba([[3.0]]).shape
        (1, 2)
        """
        self._check_fitted()
        rows = self._input(X, reset=False) if "n_features_in_" in vars(self) else X
        return self._mapped(activations(self.model_, rows))

    @streams
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, N × K.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> model.predict_proba([[0.0], [9.0]]).argmax(axis=1).tolist()
        [0, 1]
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @streams
    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` for two classes, the log probabilities (N × K) for more.

        >>> model = RecalibratedClassifier().fit([[x] for x in range(12)], list("aaabaabbabbb"))
        >>> (model.decision_function([[0.0], [9.0]]) > 0).tolist()
        [False, True]
        """
        L = np.maximum(self.predict_log_proba(X), LEAST_LOG)
        return L[:, 1] - L[:, 0] if L.shape[1] == 2 else L

    def _probabilities(self, X: object, predictive: bool) -> Array:
        if not predictive or not isinstance(self._inner, HasPredictive):
            return super()._probabilities(X, predictive)
        with np.errstate(divide="ignore"):
            L = np.log(self._inner.predictive(X).mean)
        return np.asarray(np.exp(self._mapped(L)))

    def _mapped(self, A: Array) -> Array:
        return shift_log_proba(self.map_(A), self.shift_)

    def _shifted(self, shift: Array, prior: Array | None) -> RecalibratedClassifier:
        added = self.shift_ + shift
        return self.around(self.model_, self.map_, shift=added - added.mean(), class_prior=prior, method=self.method)
