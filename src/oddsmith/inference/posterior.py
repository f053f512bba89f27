"""The Gaussian (Laplace) posterior of the weights of a linear model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.errors import InvalidInputError, as_input_errors
from oddsmith.inference.draws import standard_normals
from oddsmith.kernels.rowwise import At
from oddsmith.numerics import Array, SpdFactor
from oddsmith.records import Table

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Posterior(Table):
    """``p(w | t) ≈ N(w | mean, covariance)``: a Gaussian at the fitted weights with the curvature there.

    The covariance is the inverse Hessian of ``−log p(t | w) − log p(w)``. After maximum likelihood the prior is flat,
    and this is the posterior under a flat prior. It is held as a Cholesky factor in the coordinates in which the fit
    was solved (centred and scaled columns), with the linear map from there to the user's weights: no digit is lost to
    columns that lie far from zero, and no inverse is taken.

    The vector of weights has the intercept first, class after class: 1 + M weights for two classes, K (1 + M) for more.
    With more than two classes the K vectors are tied: they sum to the prior's mean, or one is zero (``reference=``).
    So are weights that were not estimated (aliased columns, no intercept): they are certain. The posterior then
    lives on that subspace. Its covariance is singular, samples lie on it, and ``logpdf`` is the density per unit of
    volume (length, area …) of the subspace, −∞ off it.

    Attributes
    ----------
    mean : array of length R (1 + M), R = 1 for two classes and K for more
    covariance : array, square
    std : array
        Roots of the diagonal of ``covariance``.

    >>> from oddsmith import LogisticRegression
    >>> posterior = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).posterior_
    >>> posterior.mean.round(4).tolist(), posterior.covariance.round(3).tolist()
    ([-0.2264, 0.4529], [[1.181, -0.235], [-0.235, 0.47]])
    >>> posterior.sample(3, seed=0).shape
    (3, 2)
    """

    mean: Array
    factor: SpdFactor
    at: At
    gauge: Array
    estimated: npt.NDArray[np.bool_]
    labels: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """Number of weights that were estimated, the dimension of the subspace."""
        return len(self.gauge[0]) * int(self.estimated.sum())

    @cached_property
    def _to_user(self) -> Array:
        """The matrix from the solver's weights of the estimated columns to the user's."""
        J: Array = np.diag(np.concatenate([[1.0], 1.0 / self.at.scale]))
        J[0, 1:] = -self.at.center / self.at.scale
        return J[np.ix_(self.estimated, self.estimated)]

    @cached_property
    def covariance(self) -> Array:
        """The covariance matrix of the weights."""
        whole = np.zeros((len(self.estimated), int(self.estimated.sum())))
        whole[self.estimated] = self._to_user
        J = np.kron(self.gauge, whole)
        S: Array = J @ self.factor.solve(np.ascontiguousarray(J.T))
        return (S + S.T) / 2.0

    @property
    def std(self) -> Array:
        """Standard deviation of each weight."""
        return np.sqrt(np.diag(self.covariance))

    def sample(self, n: int, seed: Any = None) -> Array:
        """Return ``n`` draws of the weights, n × len(mean).

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> draws = model.posterior_.sample(40_000, seed=1)
        >>> bool(np.allclose(np.cov(draws.T), model.posterior_.covariance, atol=0.03))
        True
        """
        z = standard_normals(n, self.size, seed)
        U = linalg.solve_triangular(self.factor.L, z.T, lower=True, trans=1).T / self.factor.d
        U = U.reshape(n, self.gauge.shape[1], -1)
        W = np.zeros((n, len(self.gauge), len(self.estimated)))
        W[:, :, self.estimated] = np.einsum("rc,ncp->nrp", self.gauge, U @ self._to_user.T)
        return self.mean + W.reshape(n, -1)

    def logpdf(self, w: npt.ArrayLike) -> Any:
        """Return the log density at weights ``w`` (one vector, or one a row), with respect to the subspace.

        >>> from oddsmith import LogisticRegression
        >>> posterior = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).posterior_
        >>> round(float(posterior.logpdf(posterior.mean)), 4)
        -1.4912
        """
        with as_input_errors():
            w = np.asarray(w, dtype=np.float64)
        if w.ndim not in (1, 2) or w.shape[-1] != len(self.mean) or not np.isfinite(w).all():
            raise InvalidInputError(
                f"logpdf takes finite weights of length {len(self.mean)}, or rows of them; found an array of shape "
                f"{w.shape}{'' if np.isfinite(w).all() else ' with NaN or infinity'}."
            )
        W = (np.atleast_2d(w) - self.mean).reshape(-1, len(self.gauge), len(self.estimated))
        inside, outside = W[:, :, self.estimated], W[:, :, ~self.estimated]
        V = np.einsum("cr,nrp->ncp", linalg.pinv(self.gauge), inside)
        off = np.abs(np.einsum("rc,ncp->nrp", self.gauge, V) - inside).max(axis=(1, 2), initial=0.0)
        on = (off <= 1e-9 * (1.0 + np.abs(np.atleast_2d(w)).max(axis=1))) & ~outside.any(axis=(1, 2))
        U = linalg.solve_triangular(self._to_user, V.reshape(-1, V.shape[2]).T, lower=False).T.reshape(len(V), -1)
        square = (((U * self.factor.d) @ np.tril(self.factor.L)) ** 2).sum(axis=1)
        result = 0.5 * (self.factor.log_det() - self.size * LOG_2PI - square) - self._log_volume()
        result = np.where(on, result, -np.inf)
        return result[0] if w.ndim == 1 else result

    def _log_volume(self) -> float:
        """Log of the volume that the map to user weights makes of a unit of the solver's."""
        C, P = self.gauge.shape[1], int(self.estimated.sum())
        columns = np.log(np.abs(np.diag(self._to_user))).sum()
        classes = np.linalg.slogdet(self.gauge.T @ self.gauge)[1]
        return float(C * columns + 0.5 * P * classes)

    @cached_property
    def solver_covariance(self) -> Array:
        """The covariance in the solver's coordinates, CP × CP, zero for what was not estimated."""
        C, P = self.gauge.shape[1], len(self.estimated)
        kept = np.flatnonzero(np.tile(self.estimated, C))
        S = np.zeros((C * P, C * P))
        S[np.ix_(kept, kept)] = self.factor.solve(np.eye(self.size))
        return S

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per weight: class (for more than two), term, mean, standard deviation."""
        names = ("class", "term") if len(self.gauge) > 1 else ("term",)
        columns = zip(*self.labels, strict=True)
        table: dict[str, list[Any]] = {name: list(c) for name, c in zip(names, columns, strict=True)}
        return {**table, "mean": self.mean.tolist(), "std": self.std.tolist()}
