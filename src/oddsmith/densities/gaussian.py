"""Gaussian class densities: logarithms, marginals, the linear and quadratic functions that they imply, samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from oddsmith.cached_property import cached_property
from oddsmith.densities.rows import RowMatrix, dense, tiles
from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.protocols import Indices
from oddsmith.statistics import Features, Moments

LOG_2PI = float(np.log(2.0 * np.pi))
NEAR = 1e3  # Linear functions of this size lose three digits at most: rows need no centring then.


class QuadraticForm(NamedTuple):
    """The function ``a(x) = xᵀ W x + wᵀ x + w0`` of each class (or of two classes' log odds): stacked arrays."""

    W: Array
    w: Array
    w0: Array


@dataclass(frozen=True, kw_only=True)
class GaussianDensities:
    """``p(x | C_k) = N(x | mean_k, Sigma_g)`` for the group g of class k.

    Attributes
    ----------
    mean : array K × D
    Sigma : array
        A covariance for each group: G × D × D, or its diagonal G × D, or the one variance G.
    group : integer array of length K
    kept : boolean array of length D
        Columns in use; the others are ignored.
    shares : array of length G
        The share by which the covariance of each group was shrunk.

    >>> shared = {"Sigma": np.ones((1, 1, 1)), "group": np.zeros(2, dtype=int), "shares": np.zeros(1)}
    >>> densities = GaussianDensities(mean=np.array([[0.0], [2.0]]), kept=np.array([True]), **shared)
    >>> densities.log_density(np.array([[1.0], [np.nan]])).round(6).tolist()
    [[-1.418939, -1.418939], [0.0, 0.0]]
    """

    mean: Array
    Sigma: Array
    group: Indices
    kept: npt.NDArray[np.bool_]
    shares: Array

    @property
    def form(self) -> str:
        """``"full"``, ``"diagonal"`` or ``"spherical"``."""
        return ("spherical", "diagonal", "full")[self.Sigma.ndim - 1]

    @property
    def n_parameters(self) -> int:
        """Means and covariances, over the columns in use."""
        d = int(self.kept.sum())
        of_covariance = {"full": d * (d + 1) // 2, "diagonal": d, "spherical": 1}[self.form]
        return len(self.mean) * d + len(np.unique(self.group)) * of_covariance

    @property
    def is_linear(self) -> bool:
        """Whether all classes share one covariance, so that their log odds are linear."""
        return len(np.unique(self.group)) == 1

    def log_density(self, rows: RowMatrix) -> Array:
        """Return ``log p(x | C_k)``, N × K, of a dense or CSR matrix; NaNs are integrated out."""
        result = np.empty((rows.shape[0], len(self.mean)))
        for part in tiles(rows):
            X = dense(rows[part])
            missing = np.isnan(X)
            if not missing.any():
                result[part] = self._complete(X[:, self.kept])
                continue
            for inside, columns in _patterns(~missing & self.kept):
                result[part][inside] = self.on(columns)._complete(X[np.ix_(inside, columns)])
        return result

    def activations(self, rows: RowMatrix) -> Array:
        """Return the log densities up to a common term: by the linear function where there is one."""
        if not self.is_linear:
            return self.log_density(rows)
        W, b, center = self.centred()
        if len(W) == 2:
            # The log odds against class 0 are one product instead of two.
            W, b = W[1:] - W[:1], b[1:] - b[:1]
        if sparse.issparse(rows) or (np.abs(W) @ np.abs(center)).max() < NEAR:
            A = np.asarray(rows @ W.T + (b - W @ center), dtype=np.float64)
        else:
            A = np.concatenate([(dense(rows[part]) - center) @ W.T for part in tiles(rows)]) + b
        A = A if len(W) > 1 else np.column_stack([np.zeros(len(A)), A])
        # A missing value shows in every function of its row, even where its weight is 0.
        incomplete = np.flatnonzero(np.isnan(A[:, -1]))
        if len(incomplete):
            A[incomplete] = self.log_density(rows[incomplete])
        return A

    def on(self, columns: npt.NDArray[np.bool_]) -> GaussianDensities:
        """Return the marginal densities of some columns."""
        Sigma = self.Sigma if self.form == "spherical" else self.Sigma[:, columns]
        if self.form == "full":
            Sigma = Sigma[:, :, columns]
        return replace(self, mean=self.mean[:, columns], Sigma=Sigma, kept=self.kept[columns])

    def _complete(self, X: Array) -> Array:
        """Return the log densities of rows that have all columns in use, and those only."""
        if not X.shape[1]:
            return np.zeros((len(X), len(self.mean)))
        mean = self.mean[:, self.kept] if len(self.kept) != X.shape[1] else self.mean
        result = np.empty((len(X), len(mean)))
        for g in np.unique(self.group):
            members = np.flatnonzero(self.group == g)
            center = mean[members].mean(axis=0)
            Z = self._whiten(g, X - center)
            shifted = self._whiten(g, mean[members] - center)
            constant = X.shape[1] * LOG_2PI + self._log_det(g)
            for k, m in zip(members, shifted, strict=True):
                d = Z - m
                result[:, k] = -0.5 * (np.einsum("nd,nd->n", d, d) + constant)
        return result

    @cached_property
    def _factors(self) -> dict[int, SpdFactor]:
        """Cholesky factors of full covariances, over the columns in use."""
        inside = np.ix_(self.kept, self.kept)
        # What is in use was found to be independent (or made so by shrinkage): nothing more is set aside.
        never = np.zeros(int(self.kept.sum()), dtype=bool)
        return {int(g): factor_spd(self.Sigma[g][inside], may_alias=never) for g in np.unique(self.group)}

    def _variances(self, g: int) -> Array:
        return np.asarray(np.broadcast_to(self.Sigma[g], self.kept.shape)[self.kept])

    def _whiten(self, g: int, Z: Array) -> Array:
        """Return rows in coordinates in which the covariance of group g is the unit matrix."""
        return np.asarray(Z @ self._whitening[g] if self.form == "full" else Z / np.sqrt(self._variances(g)))

    @cached_property
    def _whitening(self) -> dict[int, Array]:
        """Matrices by which centred rows are multiplied: (L⁻¹ D⁻¹)ᵀ, by solving for the unit matrix."""
        return {
            g: linalg.solve_triangular(f.L, np.diag(1.0 / f.d), lower=True, check_finite=False).T
            for g, f in self._factors.items()
        }

    def _log_det(self, g: int) -> float:
        return self._factors[g].log_det() if self.form == "full" else float(np.log(self._variances(g)).sum())

    def precision_times(self, V: Array, g: int | None = None) -> Array:
        """Return ``Sigma_g⁻¹ v`` for each row v, zero for the columns that are not in use."""
        g = self.group[0] if g is None else g
        result = np.zeros_like(V)
        if self.form == "full":
            result[:, self.kept] = self._factors[g].solve(V[:, self.kept].T).T
        else:
            result[:, self.kept] = V[:, self.kept] / self._variances(g)
        return result

    def centred(self) -> tuple[Array, Array, Array]:
        """Return weights, constants and a centre c: ``w_kᵀ(x − c) + b_k`` is the log density up to a common term."""
        center = self.mean.mean(axis=0)
        shifted = self.mean - center
        W = self.precision_times(shifted)
        return W, -0.5 * np.einsum("kd,kd->k", W, shifted), center

    def linear(self) -> tuple[Array, Array]:
        """Return ``w_k = Sigma_g⁻¹ mean_k`` (K × D) and the constants ``−½ mean_kᵀ w_k − ½ log |Sigma_g|`` (K).

        Where all classes share a covariance, its determinant is left out.
        """
        W = np.concatenate([self.precision_times(m[None], g) for m, g in zip(self.mean, self.group, strict=True)])
        b: Array = -0.5 * np.einsum("kd,kd->k", W, self.mean)
        return W, b if self.is_linear else b - 0.5 * np.array([self._log_det(g) for g in self.group])

    def linear_odds(self) -> tuple[Array, Array]:
        """Return the linear part of the log ratio of the density of class 1 to that of class 0: 1 × D, and 1."""
        if not self.is_linear:
            W, b = self.linear()
            return W[1:] - W[:1], b[1:] - b[:1]
        # About a centre nearby: the parts of each class would be large where the data is far from zero.
        W, b, center = self.centred()
        w = W[1:] - W[:1]
        return w, b[1:] - b[:1] - w @ center

    def quadratic(self) -> Array:
        """Return ``W_k = −½ Sigma_g⁻¹`` (K × D × D), zero where all classes share a covariance."""
        K, D = self.mean.shape
        if self.is_linear:
            return np.zeros((K, D, D))
        precision = {g: self.precision_times(np.eye(D), g) for g in np.unique(self.group)}
        return np.stack([-0.5 * precision[g] for g in self.group])

    def log_likelihood(self, stat: Moments | Features) -> float:
        """Return ``Σ_n s_n log p(x_n | C_{t_n})`` of the rows that went into a `Moments` or `Features` statistic."""
        total = 0.0
        for g in np.unique(self.group):
            members = self.group == g
            if isinstance(stat, Moments):
                inside = np.ix_(self.kept, self.kept)
                trace = np.trace(self._factors[g].solve(stat.scatter[g][inside]))
                total += stat.weight[members].sum() * (self.kept.sum() * LOG_2PI + self._log_det(g)) + trace
            else:
                v = self._variances(g)
                total += (stat.observed[members] * (LOG_2PI + np.log(v)) + stat.scatter[members] / v).sum()
        return float(-0.5 * total)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array:
        """Draw a row from the density of each class in ``t``."""
        X = rng.standard_normal((len(t), self.mean.shape[1]))
        for g in np.unique(self.group):
            inside = self.group[t] == g
            if self.form == "full":
                # By eigenvectors: a covariance that is singular has samples too.
                values, vectors = linalg.eigh(self.Sigma[g])
                X[inside] = X[inside] * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
            else:
                X[inside] *= np.sqrt(self.Sigma[g])
        X += self.mean[t]
        return X


def _patterns(present: npt.NDArray[np.bool_]) -> Iterator[tuple[Indices, npt.NDArray[np.bool_]]]:
    """Yield the rows that have the same columns, and these columns."""
    packed = np.packbits(present, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel()))
    for i, start in enumerate([0, *ends[:-1]]):
        yield order[start : ends[i]], present[first[i]]
