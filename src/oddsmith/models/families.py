"""The families of naive Bayes: how the values of a column are distributed within a class.

Each takes the sums of its columns (`oddsmith.statistics.Features`), estimates its parameters, and gives log densities,
samples and the function of x that the log density is. Rows come as dense arrays with NaN for missing values,
or as CSR matrices; a missing value adds nothing, since its density integrates to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, xlogy

from oddsmith.numerics import Array

Indices = npt.NDArray[np.intp]

LOG_2PI = float(np.log(2.0 * np.pi))
TILE_ELEMENTS = 1 << 17


def _filled(X: Any) -> tuple[Any, Any]:
    """Return the values with zeros for the missing ones, and 1 where a value is there (None: everywhere)."""
    values = X.data if sparse.issparse(X) else X
    if not np.isnan(values.sum(dtype=np.float64)):
        return X, None
    if sparse.issparse(X):
        X = X.toarray()
    there = ~np.isnan(X)
    return np.where(there, X, 0.0), there.astype(np.float64)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _log(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _times(X: Any, W: Array) -> Array:
    """Return ``Σ_j x_j w_kj``, N × K, where 0 · (−∞) is 0."""
    low = np.isneginf(W)
    if not low.any():
        return np.asarray(X @ W.T)
    result: Array = np.asarray(X @ np.where(low, 0.0, W).T)
    result[np.asarray(X @ low.T.astype(np.float64)) > 0] = -np.inf
    return result


@dataclass(frozen=True)
class GaussianColumns:
    """``x_j ~ N(mean_kj, variance_kj)``."""

    name: ClassVar[str] = "gaussian"
    columns: Indices
    mean: Array
    variance: Array

    @property
    def n_parameters(self) -> int:
        """Means and variances."""
        return 2 * self.mean.size

    def log_density(self, X: Any, *, normalised: bool) -> Array:
        """Return the log density of the rows under each class, N × K."""
        if sparse.issparse(X):
            step = max(64, TILE_ELEMENTS // max(1, X.shape[1]))
            starts = range(0, X.shape[0], step)
            return np.concatenate([self.log_density(X[i : i + step].toarray(), normalised=normalised) for i in starts])
        X = _dense(X)
        missing = np.isnan(X)
        some = bool(missing.any())
        result, d = np.empty((len(X), len(self.mean))), np.empty_like(X)
        for k, (m, v) in enumerate(zip(self.mean, self.variance, strict=True)):
            np.subtract(X, m, out=d)
            d *= d
            constant = np.log(v) + LOG_2PI
            if some:
                d[missing] = 0.0
            result[:, k] = -0.5 * (d @ (1.0 / v) + (~missing @ constant if some else constant.sum()))
        return result

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw values for rows of the classes ``t``."""
        z = rng.standard_normal((len(t), len(self.columns)))
        drawn: Array = self.mean[t] + z * np.sqrt(self.variance[t])
        return drawn

    def form(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of W, w and w0 of the log density as a quadratic function."""
        w = self.mean / self.variance
        constant = -0.5 * (self.mean * w + np.log(self.variance)).sum(axis=1)
        return -0.5 / self.variance, w, constant

    def parameters(self, j: int) -> dict[str, Array]:
        """Return what is estimated of the j-th of these columns."""
        return {"mean": self.mean[:, j], "variance": self.variance[:, j]}


@dataclass(frozen=True)
class BernoulliColumns:
    """``x_j`` is 1 with probability ``probability_kj``, else 0."""

    name: ClassVar[str] = "bernoulli"
    columns: Indices
    probability: Array
    complement: Array

    @property
    def n_parameters(self) -> int:
        """A probability for each class and column."""
        return self.probability.size

    def log_density(self, X: Any, *, normalised: bool) -> Array:
        """Return the log probability of the rows under each class, N × K."""
        one, zero, odds = self._logs
        X, there = _filled(X)
        if np.isneginf(one).any() or np.isneginf(zero).any():
            X = _dense(X)
            return _times(X, one) + _times((1.0 if there is None else there) - X, zero)
        rest = zero.sum(axis=1) if there is None else there @ zero.T
        values: Array = np.asarray(X @ odds.T) + rest
        return values

    @cached_property
    def _logs(self) -> tuple[Array, Array, Array]:
        one, zero = _log(self.probability), _log(self.complement)
        with np.errstate(invalid="ignore"):
            return one, zero, one - zero

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw values for rows of the classes ``t``."""
        return (rng.random((len(t), len(self.columns))) < self.probability[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of W (zero), w and w0 of the log density."""
        one, zero, odds = self._logs
        return np.zeros_like(one), odds, zero.sum(axis=1)

    def parameters(self, j: int) -> dict[str, Array]:
        """Return what is estimated of the j-th of these columns."""
        return {"probability": self.probability[:, j]}


@dataclass(frozen=True)
class PoissonColumns:
    """``x_j`` is a count of rate ``rate_kj``."""

    name: ClassVar[str] = "poisson"
    columns: Indices
    rate: Array

    @property
    def n_parameters(self) -> int:
        """A rate for each class and column."""
        return self.rate.size

    def log_density(self, X: Any, *, normalised: bool) -> Array:
        """Return the log probability of the rows under each class, N × K (up to Σ log x! unless normalised)."""
        X, there = _filled(X)
        mass = self.rate.sum(axis=1) if there is None else there @ self.rate.T
        result: Array = _times(X, self._log) - mass
        return result - _log_factorials(X)[:, None] if normalised else result

    @cached_property
    def _log(self) -> Array:
        return _log(self.rate)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw values for rows of the classes ``t``."""
        return rng.poisson(self.rate[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of W (zero), w and w0 of the log density."""
        return np.zeros_like(self.rate), self._log, -self.rate.sum(axis=1)

    def parameters(self, j: int) -> dict[str, Array]:
        """Return what is estimated of the j-th of these columns."""
        return {"rate": self.rate[:, j]}


@dataclass(frozen=True)
class MultinomialColumns:
    """The counts of all these columns together, given their total, are multinomial with shares ``share_kj``.

    Of the counts that are there, given their total, the shares are those among the columns that are there.
    ``mean_total`` is the mean of the totals, which samples are drawn with: the model says nothing about totals.
    """

    name: ClassVar[str] = "multinomial"
    columns: Indices
    share: Array
    mean_total: float

    @property
    def n_parameters(self) -> int:
        """Shares that sum to one in each class."""
        return self.share.size - len(self.share)

    def log_density(self, X: Any, *, normalised: bool) -> Array:
        """Return the log probability of the rows under each class, N × K (no coefficient unless normalised)."""
        X, there = _filled(X)
        result = _times(X, self._log)
        total = np.asarray(X.sum(axis=1)).ravel()
        if there is not None:
            result -= xlogy(total[:, None], there @ self.share.T)
        if normalised:
            result += (gammaln(total + 1.0) - _log_factorials(X))[:, None]
        return result

    @cached_property
    def _log(self) -> Array:
        return _log(self.share)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw values for rows of the classes ``t``, with totals from a Poisson distribution."""
        return rng.multinomial(rng.poisson(self.mean_total, len(t)), self.share[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of W (zero), w and w0 of the log density."""
        return np.zeros_like(self.share), self._log, np.zeros(len(self.share))

    def parameters(self, j: int) -> dict[str, Array]:
        """Return what is estimated of the j-th of these columns."""
        return {"share": self.share[:, j]}


@dataclass(frozen=True)
class CategoricalColumns:
    """``x_j`` is level l with probability ``probability[j][k, l]``; rows hold the numbers of the levels."""

    name: ClassVar[str] = "categorical"
    columns: Indices
    probability: tuple[Array, ...]

    @property
    def n_parameters(self) -> int:
        """Probabilities that sum to one in each class and column."""
        return sum(p.size - len(p) for p in self.probability)

    def log_density(self, X: Any, *, normalised: bool) -> Array:
        """Return the log probability of the rows under each class, N × K."""
        X = _dense(X)
        result = np.zeros((len(X), len(self.probability[0])))
        for x, p in zip(X.T, self.probability, strict=True):
            there = ~np.isnan(x)
            result[there] += _log(p).T[x[there].astype(np.intp)]
        return result

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw the numbers of levels for rows of the classes ``t``."""
        X = np.empty((len(t), len(self.columns)))
        for j, p in enumerate(self.probability):
            edges = np.cumsum(p, axis=1)
            edges[:, -1] = 1.0
            X[:, j] = (rng.random(len(t))[:, None] >= edges[t]).sum(axis=1)
        return X

    def form(self) -> None:
        """Return None: the number of a level has no meaning as a number."""
        return None

    def parameters(self, j: int) -> dict[str, Array]:
        """Return what is estimated of the j-th of these columns."""
        return {"probability": self.probability[j]}


def _log_factorials(X: Any) -> Array:
    """Return ``Σ_j log x_j!`` of each row."""
    if not sparse.issparse(X):
        sums: Array = gammaln(X + 1.0).sum(axis=1)
        return sums
    terms = sparse.csr_array((gammaln(X.data + 1.0), X.indices, X.indptr), shape=X.shape)
    return np.asarray(terms.sum(axis=1)).ravel()
