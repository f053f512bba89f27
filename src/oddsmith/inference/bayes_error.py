"""The Bayes error of a generative model: the error rate of the best decision under its densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtr

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.inference.laplace import Seed
from oddsmith.numerics import Array
from oddsmith.records import Table

DEFAULT_ROWS = 100_000
BATCH = 1 << 16


@dataclass(frozen=True)
class BayesError(Table):
    """The probability that the most probable class is wrong.

    Attributes
    ----------
    error : float
    std_error : float
        Standard error of a sampled value; 0 for a closed form.
    n : int
        Rows sampled; 0 for a closed form.

    >>> print(BayesError(0.25, 0.001, 1000))
    0.25 ± 0.001 (1000 rows sampled)
    >>> float(BayesError(0.25, 0.0, 0))
    0.25
    """

    error: float
    std_error: float
    n: int

    def __float__(self) -> float:
        return self.error

    def to_dict(self) -> dict[str, list[Any]]:
        return {"error": [self.error], "std_error": [self.std_error], "n": [self.n]}

    def __str__(self) -> str:
        if not self.n:
            return f"{self.error:.6g} (closed form)"
        return f"{self.error:.6g} ± {self.std_error:.2g} ({self.n} rows sampled)"


@runtime_checkable
class DensityModel(Protocol):
    """A fitted model of the class densities."""

    def sample(self, n: int, seed: np.random.Generator) -> tuple[Any, Any]:
        """Return n rows and their classes."""

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, N × K."""


def bayes_error(model: DensityModel, n: int | None = None, seed: Seed = None) -> BayesError:
    """Return the error rate of the best possible decision, assuming that the densities of ``model`` are true.

    ``E = 1 − ∫ max_k p(C_k) p(x | C_k) dx``. For two Gaussian classes of one covariance this is, with the
    Mahalanobis distance Δ of their means and the log odds λ of their priors,

        E = p(C_0) Φ(−Δ/2 + λ/Δ) + p(C_1) Φ(−Δ/2 − λ/Δ),        Φ(−Δ/2) for equal priors,

    and is returned unless ``n`` is given. In all other cases ``n`` rows (default 100,000) are sampled from the model
    and ``1 − max_k p(C_k | x)`` is averaged, which has a smaller standard error than counting wrong decisions.

    Parameters
    ----------
    model : a fitted generative model
        Anything with ``sample(n, seed)`` and ``predict_proba(X)``.
    n : int, optional
        Number of rows to sample.
    seed : int or Generator, optional
        Random seed of the sample.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [2.0], [4.0]], ["a", "a", "b", "b"])
    >>> round(bayes_error(model).error, 6)
    0.158655
    >>> sampled = bayes_error(model, n=10_000, seed=0)
    >>> abs(sampled.error - 0.158655) < 3 * sampled.std_error
    True
    """
    if not isinstance(model, DensityModel):
        raise InvalidTypeError(
            f"bayes_error needs a model of the densities, such as GaussianClassifier or NaiveBayes; a "
            f"{type(model).__name__} has none. Estimate its error on rows that it was not fitted to instead."
        )
    if n is None:
        # Two Gaussian classes with linear log odds have a closed form.
        separation: float | None = getattr(model, "_squared_separation", lambda: None)()
        if separation is not None:
            return BayesError(_closed_form(separation, model.class_prior_), 0.0, 0)  # type: ignore[attr-defined]
        n = DEFAULT_ROWS
    if not isinstance(n, int | np.integer) or n < 2:
        raise InvalidInputError(f"n must be a whole number of at least 2, found {n!r}.")
    n, rng = int(n), np.random.default_rng(seed)
    errors = np.empty(n)
    for start in range(0, n, BATCH):
        X, _ = model.sample(min(BATCH, n - start), rng)
        errors[start : start + BATCH] = 1.0 - model.predict_proba(X).max(axis=1)
    return BayesError(float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(n)), n)


def _closed_form(squared_separation: float, class_prior: Array) -> float:
    """Return the error of two Gaussian classes with linear log odds."""
    p0, p1 = map(float, class_prior)
    distance = float(np.sqrt(squared_separation))
    if distance == 0.0:
        return min(p0, p1)
    odds = np.log(p1 / p0) / distance
    return float(p0 * ndtr(-0.5 * distance + odds) + p1 * ndtr(-0.5 * distance - odds))
