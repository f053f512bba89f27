"""The class prior of unlabelled rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from oddsmith.decision.calibration import LEAST_LOG, activations
from oddsmith.decision.class_prior import ClassPrior, PerClass, estimate_prior, read_class_prior
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from oddsmith.evaluation.model_output import provides
from oddsmith.models.estimator import check_count
from oddsmith.protocols import ProbabilisticClassifierLike

TOLERANCE = 1e-3  # Distance from the largest log likelihood: less than a twentieth of a standard error.


def estimate_class_prior(
    model: ProbabilisticClassifierLike, X_new: Any, *, trained: PerClass | None = None, max_iter: int = 10_000
) -> ClassPrior:
    """Estimate the class prior of unlabelled rows by maximum likelihood, with EM.

    If the class densities are as in training and only the class shares have changed, the new shares π' maximise

        Σ_n log Σ_k p(C_k | x_n) π'_k / π_k,

    with the training prior π. The result is a mapping: ``model.with_class_prior(estimate_class_prior(model, X_new))``.

    Parameters
    ----------
    model : fitted probabilistic classifier
        From this library or scikit-learn; the better calibrated, the better the estimate.
    X_new : rows
    trained : {class: probability}, optional
        The training prior. Default: ``class_prior_`` (or scikit-learn's ``priors_``) of the model.
    max_iter : int
        Maximum number of EM iterations.

    Cost: one prediction, then O(N K) an iteration, until the log likelihood is within 1e-3 of its maximum.

    References
    ----------
    M. Saerens, P. Latinne, C. Decaestecker, Adjusting the outputs of a classifier to new a priori probabilities,
    Neural Computation 14, 2002.

    >>> from oddsmith import GaussianClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(20_000) < 0.5
    >>> model = GaussianClassifier().fit(rng.normal(size=(20_000, 1)) + 2 * y[:, None], y)
    >>> now = rng.random(20_000) < 0.1
    >>> prior = estimate_class_prior(model, rng.normal(size=(20_000, 1)) + 2 * now[:, None])
    >>> abs(prior[True] - 0.1) < 0.01
    True
    """
    if not provides(model, "classes_", "predict_proba"):
        raise InvalidTypeError(
            f"estimate_class_prior needs a fitted model with probabilities; {type(model).__name__} has none. Use "
            "recalibrate(model, X, y) to add them."
        )
    check_count("max_iter", max_iter)
    classes = np.asarray(model.classes_)
    given = trained
    for name in ("class_prior_", "priors_"):
        given = getattr(model, name, None) if given is None else given
    if given is None:
        raise InvalidInputError(
            f"{type(model).__name__} does not keep the class shares of its training rows. Give them as "
            "trained={class: share}."
        )
    A = np.maximum(activations(model, X_new), LEAST_LOG)
    found = estimate_prior(A, read_class_prior(given, classes), classes, tol=TOLERANCE, max_iter=max_iter)
    if found.gap > TOLERANCE:
        warnings.warn(
            f"EM stopped after {found.n_iter} iterations, at most {found.gap:.3g} below the largest log likelihood. "
            "Raise max_iter.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found
