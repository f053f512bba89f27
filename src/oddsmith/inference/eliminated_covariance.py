"""The covariance of the weights of a table with a large factor, from the Schur complement: it is never formed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.bordered import BorderedFactor
from oddsmith.inference.laplace import Seed, standard_normals
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.numerics import Array
from oddsmith.rows import Rows
from oddsmith.statistics.rowwise import variances


@dataclass(frozen=True, eq=False)
class EliminatedCovariance:
    """The inverse Hessian of two classes, of which one factor is eliminated, for what is asked of single rows."""

    state: FittedState
    factor: BorderedFactor

    @classmethod
    def of(cls, state: FittedState) -> EliminatedCovariance | None:
        """Return the covariance of a fit that has such a Hessian and no other, None for other fits."""
        eliminated = state.hessian is None and state.bordered is not None
        return cls(state, state.bordered_factor) if eliminated else None

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        """Which weights were estimated."""
        return np.asarray(self.state.free[0])

    def solve(self, G: Array) -> Array:
        """Return the covariance times each row of ``G``, n × P."""
        return np.where(self.free, self.factor.solve(np.where(self.free, G, 0.0).T).T, 0.0)

    def activations(self, rows: Rows) -> Array:
        """Return the activation of each row, n × 1, without the offset."""
        w = self.state.weights()
        return rows.activations(w[:, 1:].T) + w[:, 0]

    def spread(self, rows: Rows) -> Array:
        """Return the variance of each row's activation, n × 1 × 1. Cost: O(R²) a row, R weights outside the factor."""
        c = self.state.coordinates
        return variances(rows, self.factor, c.center, c.scale, self.free)[:, None, None]

    def sample(self, n: int, seed: Seed) -> Array:
        """Return ``n`` draws of the weights less their mean, in the solver's coordinates, n × P."""
        H, schur = self.factor.H, self.factor.schur
        z = standard_normals(n, H.shape[0], seed)
        rest = linalg.solve_triangular(schur.L, H.rest(z.T), lower=True, trans=1).T / schur.d
        root = np.where(self.factor.there, np.sqrt(np.where(self.factor.there, H.d, 1.0)), np.inf)
        levels = z[:, H.start : H.stop] / root - rest @ self.factor.G.T
        return np.where(self.free, H.join(rest.T, levels.T).T, 0.0)

    def log_det(self) -> float:
        """Return the log determinant of the Hessian over the weights that were estimated."""
        fixed = self.factor.H.diagonal()[~self.free]
        return self.factor.log_det() - float(np.log(fixed).sum())
