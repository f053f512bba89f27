"""The families of naive Bayes: the distributions of a column within a class.

Each takes the sums of its columns (`oddsmith.statistics.Features`), estimates its parameters, and provides log
densities, samples and the log density as a function of x. Rows come as dense arrays with NaN for missing values, or as
CSR matrices; a missing value adds nothing, since its density integrates to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from scipy import sparse
from scipy.special import gammaln, xlogy

from oddsmith.cached_property import cached_property
from oddsmith.densities.gaussian import LOG_2PI
from oddsmith.densities.rows import RowMatrix, dense, stored, tiles
from oddsmith.numerics import Array
from oddsmith.protocols import Indices


class _Columns(Protocol):
    """Columns of one family, with parameters for each class and column."""

    parameter_names: ClassVar[tuple[str, ...]] = ()

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        """Return the log density of rows under each class, N × K, up to a common term unless ``normalised``."""

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw values (of categories: numbers of levels) for rows of the classes ``t``."""

    def form(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of W, w and w0 of the log density as a quadratic function of numbers."""
        raise TypeError("Categories have no quadratic form.")

    @property
    def n_parameters(self) -> int:
        """The number of parameters that are estimated."""
        return sum(getattr(self, name).size for name in self.parameter_names)

    def parameters(self, j: int) -> dict[str, Array]:
        """Return the estimates of the j-th of these columns."""
        return {name: getattr(self, name)[:, j] for name in self.parameter_names}


@dataclass(frozen=True)
class GaussianColumns(_Columns):
    """``x_j ~ N(mean_kj, variance_kj)``."""

    parameter_names = ("mean", "variance")
    columns: Indices
    mean: Array
    variance: Array

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        if sparse.issparse(X):
            return np.concatenate([self.log_density(dense(X[part]), normalised=normalised) for part in tiles(X)])
        values = dense(X)
        missing = np.isnan(values)
        incomplete = bool(missing.any())
        result, d = np.empty((len(values), len(self.mean))), np.empty_like(values)
        for k, (m, v) in enumerate(zip(self.mean, self.variance, strict=True)):
            np.subtract(values, m, out=d)
            d *= d
            constant = np.log(v) + LOG_2PI
            if incomplete:
                d[missing] = 0.0
            result[:, k] = -0.5 * (d @ (1.0 / v) + (~missing @ constant if incomplete else constant.sum()))
        return result

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((len(t), len(self.columns)))
        return np.asarray(self.mean[t] + z * np.sqrt(self.variance[t]))

    def form(self) -> tuple[Array, Array, Array]:
        w = self.mean / self.variance
        constant = -0.5 * (self.mean * w + np.log(self.variance)).sum(axis=1)
        return -0.5 / self.variance, w, constant


@dataclass(frozen=True)
class BernoulliColumns(_Columns):
    """``x_j`` is 1 with probability ``probability_kj``, else 0."""

    parameter_names = ("probability",)
    columns: Indices
    probability: Array
    complement: Array

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        one, zero, odds = self._logs
        X, present = _fill(X)
        if np.isneginf(one).any() or np.isneginf(zero).any():
            values = dense(X)
            return _times(values, one) + _times((1.0 if present is None else present) - values, zero)
        rest = zero.sum(axis=1) if present is None else present @ zero.T
        return np.asarray(X @ odds.T) + rest

    @cached_property
    def _logs(self) -> tuple[Array, Array, Array]:
        one, zero = _log(self.probability), _log(self.complement)
        with np.errstate(invalid="ignore"):
            return one, zero, one - zero

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        return (rng.random((len(t), len(self.columns))) < self.probability[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        one, zero, odds = self._logs
        return np.zeros_like(one), odds, zero.sum(axis=1)


@dataclass(frozen=True)
class PoissonColumns(_Columns):
    """``x_j`` is a count of rate ``rate_kj``."""

    parameter_names = ("rate",)
    columns: Indices
    rate: Array

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        X, present = _fill(X)
        mass = self.rate.sum(axis=1) if present is None else present @ self.rate.T
        result: Array = _times(X, self._log_rate) - mass
        return result - _log_factorials(X)[:, None] if normalised else result

    @cached_property
    def _log_rate(self) -> Array:
        return _log(self.rate)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        return rng.poisson(self.rate[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        return np.zeros_like(self.rate), self._log_rate, -self.rate.sum(axis=1)


@dataclass(frozen=True)
class MultinomialColumns(_Columns):
    """The counts of all these columns together, given their total, are multinomial with shares ``share_kj``.

    With missing counts, the shares are renormalised over the present columns. ``mean_total`` is the mean total, used
    for sampling, because the model does not describe totals.
    """

    parameter_names = ("share",)
    columns: Indices
    share: Array
    mean_total: float

    @property
    def n_parameters(self) -> int:
        """Shares that sum to one in each class."""
        return self.share.size - len(self.share)

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        X, present = _fill(X)
        result = _times(X, self._log_share)
        total = np.asarray(X.sum(axis=1)).ravel()
        if present is not None:
            result -= xlogy(total[:, None], present @ self.share.T)
        if normalised:
            result += (gammaln(total + 1.0) - _log_factorials(X))[:, None]
        return result

    @cached_property
    def _log_share(self) -> Array:
        return _log(self.share)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        return rng.multinomial(rng.poisson(self.mean_total, len(t)), self.share[t]).astype(np.float64)

    def form(self) -> tuple[Array, Array, Array]:
        return np.zeros_like(self.share), self._log_share, np.zeros(len(self.share))


@dataclass(frozen=True)
class CategoricalColumns(_Columns):
    """``x_j`` is level l with probability ``probability[j][k, l]``; rows hold the numbers of the levels."""

    columns: Indices
    probability: tuple[Array, ...]

    @property
    def n_parameters(self) -> int:
        """Probabilities that sum to one in each class and column."""
        return sum(p.size - len(p) for p in self.probability)

    def log_density(self, X: RowMatrix, *, normalised: bool) -> Array:
        values = dense(X)
        result = np.zeros((len(values), len(self.probability[0])))
        for x, p in zip(values.T, self.probability, strict=True):
            present = ~np.isnan(x)
            result[present] += _log(p).T[x[present].astype(np.intp)]
        return result

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        X = np.empty((len(t), len(self.columns)))
        for j, p in enumerate(self.probability):
            edges = np.cumsum(p, axis=1)
            edges[:, -1] = 1.0
            X[:, j] = (rng.random(len(t))[:, None] >= edges[t]).sum(axis=1)
        return X

    def parameters(self, j: int) -> dict[str, Array]:
        return {"probability": self.probability[j]}


Family: TypeAlias = GaussianColumns | BernoulliColumns | PoissonColumns | MultinomialColumns | CategoricalColumns


def _fill(X: RowMatrix) -> tuple[RowMatrix, Array | None]:
    """Return the values with zeros for the missing ones, and 1 where a value is present (None: everywhere)."""
    if not np.isnan(stored(X).sum(dtype=np.float64)):
        return X, None
    values = dense(X)
    present = ~np.isnan(values)
    return np.where(present, values, 0.0), present.astype(np.float64)


def _log(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _times(X: RowMatrix, W: Array) -> Array:
    """Return ``Σ_j x_j w_kj``, N × K, where 0 · (−∞) is 0."""
    low = np.isneginf(W)
    if not low.any():
        return np.asarray(X @ W.T)
    result: Array = np.asarray(X @ np.where(low, 0.0, W).T)
    result[np.asarray(X @ low.T.astype(np.float64)) > 0] = -np.inf
    return result


def _log_factorials(X: RowMatrix) -> Array:
    """Return ``Σ_j log x_j!`` of each row."""
    matrix: Any = X
    logs = gammaln(stored(X) + 1.0)
    if sparse.issparse(matrix):
        logs = sparse.csr_array((logs, matrix.indices, matrix.indptr), shape=matrix.shape)
    return np.asarray(logs.sum(axis=1)).ravel()
