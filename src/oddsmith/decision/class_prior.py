"""Changed class priors: reweighting by Bayes' rule, and estimating the prior of unlabelled rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.decision.loss import as_numbers
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.numerics import Array, log_softmax
from oddsmith.protocols import Labels
from oddsmith.records import Table

PerClass: TypeAlias = Mapping[Any, float] | npt.ArrayLike
"""One number for each class: {class: number}, or a sequence in their order."""

FLAT = 1e-8
UNINFORMATIVE = (
    "The model gives (nearly) the same probabilities to all rows, or to some classes: these rows say nothing about "
    "the class prior. Use a model that distinguishes the classes."
)


def read_class_prior(class_prior: PerClass, classes: Labels) -> Array:
    """Return prior probabilities in the order of the classes, from a mapping or a sequence.

    >>> read_class_prior({"b": 0.75, "a": 0.25}, np.array(["a", "b"])).tolist()
    [0.25, 0.75]
    """
    labels = classes.tolist()
    if isinstance(class_prior, Mapping):
        if set(class_prior) != set(labels):
            raise InvalidInputError(
                f"class_prior names the classes {sorted(class_prior, key=str)}, but y has {labels}. Give one "
                "probability for each."
            )
        class_prior = [class_prior[label] for label in labels]
    prior = as_numbers(class_prior, "class_prior must be a mapping from class to probability or a sequence")
    if prior.shape != (len(labels),):
        raise InvalidInputError(f"class_prior has shape {prior.shape}; expected one number for each of {labels}.")
    if not (np.isfinite(prior).all() and (prior > 0).all() and abs(prior.sum() - 1.0) <= 1e-8):
        raise InvalidInputError(
            f"class_prior must be positive and sum to 1, found {prior.tolist()} with the sum {prior.sum():g}."
        )
    return prior.copy()  # the caller's array stays the caller's


def read_rates(rates: PerClass, classes: Labels) -> Array:
    """Return the factor by which each class was resampled or weighted, from {class: factor} or a sequence.

    >>> read_rates({"no": 0.05, "yes": 1}, np.array(["no", "yes"])).tolist()
    [0.05, 1.0]
    """
    labels = classes.tolist()
    if isinstance(rates, Mapping):
        for name in rates:
            if name not in labels:
                raise UnknownNameError("class in rates", name, labels)
        rates = [rates.get(label, 1.0) for label in labels]
    factors = as_numbers(
        rates,
        "rates must be a mapping from class to the factor by which its rows were multiplied (a share kept or a weight)",
    )
    if factors.shape != (len(labels),) or not (np.isfinite(factors).all() and (factors > 0).all()):
        raise InvalidInputError(f"rates are {factors.tolist()}; expected one positive number for each of {labels}.")
    return factors


def shift_log_proba(log_proba: Array, shift: Array) -> Array:
    """Return log probabilities with ``shift`` (length K) added to the log odds.

    With ``shift = log(new prior / old prior)`` this is Bayes' rule for the same class densities under the new prior:
    ``p'(C_k | x) ∝ p(C_k | x) π'_k / π_k``.

    >>> P = np.array([[0.5, 0.5]])
    >>> np.exp(shift_log_proba(np.log(P), np.log([0.9 / 0.5, 0.1 / 0.5]))).round(9).tolist()
    [[0.9, 0.1]]
    """
    return log_softmax(log_proba + shift)


@dataclass(frozen=True, kw_only=True)
class ClassPrior(Mapping[Any, float], Table):
    """An estimated class prior: a mapping from class to probability, which ``with_class_prior`` accepts directly.

    Attributes
    ----------
    classes : array
    prior, std_error : arrays
        Estimate, and its standard error from the curvature of the log likelihood.
    gap : float
        The log likelihood at the estimate is at most this far below its maximum.
    n_iter : int
        Iterations of EM.
    """

    classes: Labels
    prior: Array
    std_error: Array
    gap: float
    n_iter: int

    def __getitem__(self, label: object) -> float:
        return float(dict(zip(self.classes.tolist(), self.prior, strict=True))[label])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.classes.tolist())

    def __len__(self) -> int:
        return len(self.prior)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a row per class."""
        columns = {"class": self.classes, "prior": self.prior, "std_error": self.std_error}
        return {name: column.tolist() for name, column in columns.items()}


def estimate_prior(
    log_proba: Array, trained: Array, classes: Labels, *, tol: float = 1e-4, max_iter: int = 10_000
) -> ClassPrior:
    """Estimate the class prior of unlabelled rows by maximum likelihood, with EM.

    With ratios ``r_nk = p(C_k | x_n) / π_k`` (the densities, up to a factor for each row) it maximises, over the new
    prior π',

        ℓ(π') = Σ_n log Σ_k r_nk π'_k,

    which is concave. Each iteration
      1. takes the posterior under the current prior, ``q_nk ∝ r_nk π'_k``,
      2. stops when the bound on the gap, ``N log max_k (mean_n q_nk / π'_k)``, is below ``tol``,
      3. takes the mean of the posteriors for the next prior.

    Cost: O(N K) an iteration, and N K numbers. If the class densities do not differ, the prior is not identified: an
    error.

    References
    ----------
    M. Saerens, P. Latinne, C. Decaestecker, Adjusting the outputs of a classifier to new a priori probabilities,
    Neural Computation 14, 2002.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=20_000) + np.where(rng.random(20_000) < 0.2, 1.0, -1.0)  # log odds 2a at equal priors
    >>> log_p = log_softmax(np.column_stack([np.zeros(20_000), 2 * a]))
    >>> round(estimate_prior(log_p, np.array([0.5, 0.5]), np.array(["no", "yes"]))["yes"], 1)
    0.2
    """
    L = log_proba - np.log(trained)
    R = np.exp(L - L.max(axis=1, keepdims=True))
    if float(np.ptp(L - L[:, :1], axis=0).max()) < FLAT:
        raise InvalidInputError(UNINFORMATIVE)
    N, prior = len(R), trained.copy()
    for n_iter in range(1, max_iter + 1):
        # 1. Posteriors, whose mean over π' is the gradient of ℓ/N.
        slope = R.T @ (1.0 / (R @ prior)) / N
        # 2. By concavity and Jensen's inequality no prior is better by more.
        gap = N * float(np.log(slope.max()))
        if gap <= tol or n_iter == max_iter:
            break
        # 3. The mean posterior.
        prior = prior * slope
        prior /= prior.sum()
    std_error = _standard_errors(R, prior)
    return ClassPrior(classes=classes, prior=prior, std_error=std_error, gap=max(gap, 0.0), n_iter=n_iter)


def _standard_errors(R: Array, prior: Array) -> Array:
    """Return standard errors from the curvature of ℓ along the plane Σ π' = 1."""
    K = len(prior)
    G = R / (R @ prior)[:, None]
    B = np.vstack([np.eye(K - 1), -np.ones(K - 1)])  # directions that keep the sum
    J = (G @ B).T @ (G @ B)
    values, vectors = np.linalg.eigh(J)
    if values[0] <= 1e-12 * len(R):
        raise InvalidInputError(UNINFORMATIVE)
    half = B @ vectors / np.sqrt(values)
    return np.asarray(np.sqrt((half**2).sum(axis=1)))
