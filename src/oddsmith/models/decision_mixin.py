"""Decisions by probabilities: by a loss matrix, with a reject option, under another class prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if

from oddsmith.data_access.streamed_prediction import streams
from oddsmith.decision import actions as acting
from oddsmith.decision.class_prior import PerClass, read_class_prior, read_rates
from oddsmith.decision.loss import LossLike, RejectLike, read_loss, read_probabilities
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.inference.predictive import Predictive
from oddsmith.models.estimator import Estimator
from oddsmith.numerics import Array
from oddsmith.protocols import Labels


@runtime_checkable
class HasPredictive(Protocol):
    """A model with a posterior of its weights."""

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution of each row."""


def is_probabilistic(model: object) -> bool:
    """Whether a model has probabilities; scikit-learn hides ``predict_proba`` where its parameters do not allow it."""
    return hasattr(model, "predict_proba")


def training_prior(model: object) -> Array | None:
    """Return the class shares that a model was trained on, None if it does not know them."""
    return getattr(model, "class_prior_", None)


class DecisionMixin(Estimator):
    """A mixin for classifiers: ``decide``, ``threshold_for``, ``with_class_prior``, ``undo_resampling``."""

    predict: Callable[[Any], Labels]
    predict_proba: Callable[[Any], Array]

    @streams
    def decide(self, X: Any, loss: LossLike = None, reject: RejectLike = None, predictive: bool = False) -> Labels:
        """Return the action of smallest expected loss for each row, or ``oddsmith.REJECT``.

        ``argmin_a Σ_k p(C_k | x) L[k, a]``; if all errors cost the same, that is ``predict(X)``. Among actions that
        cost the same the first is taken; a row is rejected only if that is cheaper than every action.

        Parameters
        ----------
        X : rows
        loss : None, K × A numbers, or {class: {action: cost}}
            What each action costs in each class, classes in the order of ``classes_``; None: 1 for every error.
        reject : None, number, {class: cost}, or K numbers
            What making no decision costs; None: every row gets a decision.
        predictive : bool
            Whether the loss is expected under the predictive distribution, ``predictive(X).mean``, which knows how
            uncertain the weights are, instead of under the probabilities at the estimate.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["well", "well", "sick", "sick"])
        >>> model.decide([[0.5], [1.4], [3.0]], reject=0.3).tolist()
        ['well', REJECT, 'sick']
        >>> model.decide([[-2.0], [1.4], [3.0]], {"sick": {"go": 9, "stay": 0}, "well": {"go": 0, "stay": 1}}).tolist()
        ['go', 'stay', 'stay']
        """
        self._check_fitted()
        matrix = read_loss(loss, self.classes_)
        if matrix.error_cost is None or predictive:
            return acting.decide_by(self._probabilities(X, predictive), matrix, reject)
        self._check_probabilistic()
        # With equal errors the decision is predict's, to the last tie.
        labels = self.predict(X)
        if reject is None:
            return labels
        rejected = acting.decide_by(self._probabilities(X, False), matrix, reject) == acting.REJECT
        return acting.mark(labels, rejected)

    def threshold_for(self, loss: LossLike = None) -> float:
        """Return the probability of ``classes_[1]`` above which the second action is the cheaper one (two classes).

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["sick", "sick", "well", "well"])
        >>> model.threshold_for({"sick": {"sick": 0, "well": 9}, "well": {"sick": 1, "well": 0}})
        0.9
        """
        self._check_fitted()
        if len(self.classes_) != 2:
            raise InvalidInputError(
                f"A threshold lies between two classes, and this model has {len(self.classes_)}: "
                f"{self.classes_.tolist()[:8]}. Use decide(X, loss), which compares all actions."
            )
        return acting.threshold_for(loss, classes=self.classes_)

    @available_if(is_probabilistic)
    def with_class_prior(self, class_prior: PerClass) -> Any:
        """Return a model for the same class densities under another class prior, {class: probability}.

        ``p'(C_k | x) ∝ p(C_k | x) π'_k / π_k``, with π = ``class_prior_``, the shares of the classes in training. Where
        log odds are linear only the intercepts move, by ``log(π'_k / π_k)``. With another link than the logit, and for
        models made of models, that is no model of the same kind: a `RecalibratedClassifier` around it is returned.

        Nothing is refitted; log likelihood, certificate and trace remain those of the fit.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> moved = model.with_class_prior({"a": 0.9, "b": 0.1})
        >>> bool((moved.coef_ == model.coef_).all()), float((moved.intercept_ - model.intercept_).round(6)[0])
        (True, -2.197225)
        """
        self._check_fitted()
        prior = read_class_prior(class_prior, self.classes_)
        trained = training_prior(self)
        if trained is None:
            raise InvalidInputError(
                f"This {type(self).__name__} does not know the class shares that it was trained on (partial_fit keeps "
                "none). Use fit(X, y); or undo_resampling({class: share in training / share wanted}), if you know them."
            )
        return self._shifted(np.log(prior / trained), prior)

    @available_if(is_probabilistic)
    def undo_resampling(self, rates: PerClass | None = None, *, y: Any = None) -> Any:
        """Return the model as if its classes had not been resampled or weighted before the fit.

        Parameters
        ----------
        rates : {class: factor} or K numbers
            By which factor the rows of each class were multiplied: the share of them that was kept, how often each was
            repeated, or their weight. Only ratios matter; classes that are not named have 1.
        y : labels
            Instead: the labels before resampling, whose shares are the prior to go back to.

        The training prior was proportional to π_k · rate_k; dividing it out moves the intercepts by ``−log rate_k``.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"])
        >>> rare = model.undo_resampling({"no": 0.1})  # every tenth "no" was kept
        >>> float((rare.intercept_ - model.intercept_).round(6)[0])
        -2.302585
        """
        self._check_fitted()
        if (rates is None) == (y is None):
            raise InvalidInputError("undo_resampling takes either rates={class: factor} or y, the original labels.")
        if rates is None:
            return self.with_class_prior(self._shares(y))
        factors = read_rates(rates, self.classes_)
        trained = training_prior(self)
        if trained is None:
            return self._shifted(-np.log(factors), None)
        prior = trained / factors
        return self.with_class_prior(prior / prior.sum())

    def _check_probabilistic(self) -> None:
        if not is_probabilistic(self):
            raise InvalidTypeError(
                f"{type(self).__name__} has no probabilities, and without them no loss can be expected. Use "
                "predict(X); or give it probabilities by recalibrate(model, X, y) on rows that it was not fitted to; "
                "or use a probabilistic model such as LogisticRegression."
            )

    def _probabilities(self, X: object, predictive: bool) -> Array:
        """Return the probabilities that a decision rests on, N × K."""
        self._check_probabilistic()
        if not predictive:
            return read_probabilities(self._decision_proba(X), len(self.classes_))
        if not isinstance(self, HasPredictive):
            raise InvalidInputError(
                f"{type(self).__name__} has no predictive distribution. Use predictive=False, or a model with a "
                "posterior of its weights, such as LogisticRegression."
            )
        return read_probabilities(self.predictive(X).mean, len(self.classes_))

    def _decision_proba(self, X: object) -> Array:
        """Return the probabilities at the estimate; some models ask for complete rows here."""
        return self.predict_proba(X)

    def _shares(self, y: npt.ArrayLike) -> Array:
        labels, known = np.asarray(y), self.classes_.tolist()
        counts = np.array([np.count_nonzero(labels == label) for label in known], dtype=np.float64)
        if counts.sum() != labels.size or not counts.all():
            unknown = sorted({str(label) for label in np.unique(labels).tolist() if label not in known})
            what = f"holds other labels too: {', '.join(unknown[:8])}" if unknown else "lacks some of them"
            raise InvalidInputError(f"The model's classes are {known[:8]}, and y {what}.")
        return np.asarray(counts / counts.sum())

    def _shifted(self, shift: Array, prior: Array | None) -> Any:
        """Return a model whose log odds are moved by ``shift``."""
        from oddsmith.models.recalibrated import RecalibratedClassifier

        return RecalibratedClassifier.around(self, shift=shift - shift.mean(), class_prior=prior)
