"""The Gaussian (Laplace) posterior of the weights of a linear model, its mean, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.cached_property import cached_property
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnavailableError, as_input_errors
from oddsmith.inference.covariance import EliminatedCovariance
from oddsmith.inference.fit_record import INTERCEPT, FitRecord
from oddsmith.inference.laplace import Seed, standard_normals
from oddsmith.likelihood.coordinates import make_contrast
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import Inherited
from oddsmith.records import Table
from oddsmith.statistics import LeverageParams, LeverageSlope
from oddsmith.statistics.rowwise import WeightPoint

LOG_2PI = float(np.log(2.0 * np.pi))
NO_DENSITY = (
    "The evidence needs a prior that is a density: a GaussianPrior on the weights of the columns. Without one it would "
    "depend on the units of the columns. Fit with prior=σ, or GaussianPrior(scale='evidence')."
)


@dataclass(frozen=True)
class Posterior(Table):
    """``p(w | t) ≈ N(w | mean, covariance)``: a Gaussian at the fitted weights with the curvature there.

    The covariance is the inverse Hessian of ``−log p(t | w) − log p(w)``. After maximum likelihood, the prior is flat.
    It is stored as a Cholesky factor in the coordinates of the solver (centred and scaled columns), with the linear map
    from there to the user's weights: columns far from zero cost no precision, and no inverse is computed.

    The vector of weights has the intercept first, one class after another: 1 + M weights for two classes, K (1 + M) for
    more. With more than two classes, the K vectors are constrained: they sum to the prior's mean, or one is zero
    (``reference=``). Weights that were not estimated (aliased columns, no intercept) are fixed. The posterior is then
    supported on a subspace: its covariance is singular, samples lie in the subspace, and ``logpdf`` is the density with
    respect to its volume, −∞ outside.

    Attributes
    ----------
    mean : array of length R (1 + M), R = 1 for two classes and K for more
    covariance : array, square
    std : array
        Square roots of the diagonal of ``covariance``.

    >>> from oddsmith import LogisticRegression
    >>> posterior = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).posterior_
    >>> posterior.mean.round(4).tolist(), posterior.covariance.round(3).tolist()
    ([-0.2264, 0.4529], [[1.181, -0.235], [-0.235, 0.47]])
    >>> posterior.sample(3, seed=0).shape
    (3, 2)
    """

    state: FittedState
    at: WeightPoint
    labels: tuple[tuple[Any, ...], ...]

    @property
    def size(self) -> int:
        """Number of estimated weights, the dimension of the subspace."""
        return len(self.state.kept)

    @cached_property
    def mean(self) -> Array:
        """The fitted weights."""
        return self.state.weights().ravel()

    @property
    def _estimated(self) -> npt.NDArray[np.bool_]:
        """Which terms were estimated, the same for every class."""
        return np.asarray(self.state.free[0])

    @property
    def _to_user(self) -> Array:
        """The matrix that maps the solver's weights of the estimated columns to the user's weights."""
        return self.state.to_user[np.ix_(self._estimated, self._estimated)]

    @cached_property
    def covariance(self) -> Array:
        """The covariance matrix of the weights."""
        return self.state.covariance()

    @property
    def std(self) -> Array:
        """Standard deviation of each weight."""
        if EliminatedCovariance.of(self.state) is not None:
            return np.nan_to_num(self.state.bordered_errors())  # what was not estimated is certain
        return np.sqrt(np.diag(self.covariance))

    def sample(self, n: int, seed: Seed = None) -> Array:
        """Return ``n`` draws of the weights, n × len(mean).

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> draws = model.posterior_.sample(40_000, seed=1)
        >>> bool(np.allclose(np.cov(draws.T), model.posterior_.covariance, atol=0.03))
        True
        """
        eliminated = EliminatedCovariance.of(self.state)
        if eliminated is not None:
            return np.stack([replace(self.state, x=self.state.x + u).weights()[0] for u in eliminated.sample(n, seed)])
        factor, gauge, estimated = self.state.factor, self.state.gauge, self._estimated
        z = standard_normals(n, self.size, seed)
        U = linalg.solve_triangular(factor.L, z.T, lower=True, trans=1).T / factor.d
        U = U.reshape(n, gauge.shape[1], -1)
        W = np.zeros((n, len(gauge), len(estimated)))
        W[:, :, estimated] = np.einsum("rc,ncp->nrp", gauge, U @ self._to_user.T)
        return self.mean + W.reshape(n, -1)

    def logpdf(self, w: npt.ArrayLike) -> Any:
        """Return the log density at weights ``w`` (one vector, or one per row), with respect to the subspace.

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
        factor, gauge, estimated = self.state.factor, self.state.gauge, self._estimated
        W = (np.atleast_2d(w) - self.mean).reshape(-1, len(gauge), len(estimated))
        inside, outside = W[:, :, estimated], W[:, :, ~estimated]
        V = np.einsum("cr,nrp->ncp", linalg.pinv(gauge), inside)
        off = np.abs(np.einsum("rc,ncp->nrp", gauge, V) - inside).max(axis=(1, 2), initial=0.0)
        on = (off <= 1e-9 * (1.0 + np.abs(np.atleast_2d(w)).max(axis=1))) & ~outside.any(axis=(1, 2))
        U = linalg.solve_triangular(self._to_user, V.reshape(-1, V.shape[2]).T, lower=False).T.reshape(len(V), -1)
        # The map to user weights makes this volume of a unit of the solver's.
        unit = gauge.shape[1] * np.log(np.abs(np.diag(self._to_user))).sum()
        log_volume = unit + 0.5 * len(self._to_user) * np.linalg.slogdet(gauge.T @ gauge)[1]
        square = (((U * factor.d) @ np.tril(factor.L)) ** 2).sum(axis=1)
        result = 0.5 * (factor.log_det() - self.size * LOG_2PI - square) - log_volume
        result = np.where(on, result, -np.inf)
        return result[0] if w.ndim == 1 else result

    @cached_property
    def solver_covariance(self) -> Array:
        """The covariance in the solver's coordinates, CP × CP, zero for weights that were not estimated."""
        kept, size = self.state.kept, self.state.x.size
        S = np.zeros((size, size))
        S[np.ix_(kept, kept)] = self.state.factor.solve(np.eye(len(kept)))
        return S

    def to_dict(self) -> dict[str, list[Any]]:
        names = ("class", "term") if len(self.state.gauge) > 1 else ("term",)
        columns = zip(*self.labels, strict=True)
        table: dict[str, list[Any]] = {name: list(c) for name, c in zip(names, columns, strict=True)}
        return {**table, "mean": self.mean.tolist(), "std": self.std.tolist()}


def laplace_posterior(fit: FitRecord) -> Posterior:
    """Return the Gaussian posterior of a fit; raise an error that says why it has none."""
    _require_existing_optimum(fit)
    eliminated = EliminatedCovariance.of(fit.state)
    if not (fit.state.factor.complete if eliminated is None else eliminated.factor.complete):
        raise UnavailableError(
            "The Hessian at the fitted weights is not positive definite, so there is no Gaussian posterior. Use a "
            "prior, or fewer columns."
        )
    terms = [INTERCEPT, *fit.names]
    labels = [(label, term) for label in fit.classes for term in terms] if fit.state.K > 2 else [(t,) for t in terms]
    return Posterior(fit.state, fit.at, tuple(labels))


def laplace_log_evidence(fit: FitRecord) -> float:
    """Return ``log ∫ p(t | w) p(w) dw ≈ log p(t | w) + log p(w) − ½ log det(H / 2π)`` at the most probable w.

    Here ``log p(w) = −½ (w − m)ᵀ Q (w − m) + ½ log det(Q / 2π)`` over the weights with a prior, of precision Q. A
    weight without a prior (usually the intercept) has the flat density 1 per unit: the evidence then depends on that
    unit, which is the same for every model with the same flat weights.
    """
    state = fit.state
    state.require_optimum()
    _require_existing_optimum(fit)
    eliminated = EliminatedCovariance.of(state)
    if eliminated is not None:
        return _eliminated_evidence(eliminated)
    Q, penalty, factor = np.zeros((state.x.size, state.x.size)), 0.0, state.factor
    if state.penalty is not None:
        state.penalty.add_to(Q, *state.x.shape)
        penalty = state.penalty.value(state.x)
    Q = Q[np.ix_(state.kept, state.kept)]
    proper = np.diag(Q) > 0
    prior = factor_spd(Q[np.ix_(proper, proper)], tol=0.0)
    if not (proper.any() and prior.kept.all() and factor.kept.all()):
        raise UnavailableError(NO_DENSITY)
    flat = len(Q) - int(proper.sum())
    return float(state.log_likelihood - penalty + 0.5 * (prior.log_det() - factor.log_det() + flat * LOG_2PI))


def _eliminated_evidence(eliminated: EliminatedCovariance) -> float:
    """Return `laplace_log_evidence` for a table with an eliminated factor and a diagonal prior."""
    state = eliminated.state
    if state.penalty is None or not eliminated.factor.complete:
        raise UnavailableError(NO_DENSITY)
    q = state.penalty.diagonal(1)[0][state.free[0]]
    proper = q > 0
    inside = state.log_likelihood - state.penalty.value(state.x)
    flat = len(q) - int(proper.sum())
    return float(inside + 0.5 * (np.log(q[proper]).sum() - eliminated.log_det() + flat * LOG_2PI))


def posterior_mean(fit: FitRecord) -> Array:
    """Return the mean of the posterior to first order; see ``LogisticRegression.posterior_mean``."""
    if fit.link is not None:
        raise InvalidInputError(
            f"posterior_mean is for link='logit', found link={fit.link.name!r}. Use posterior_.mean, the mode."
        )
    posterior, state, problem = laplace_posterior(fit), fit.state, fit.problem
    with one_blas_thread():
        state.require_same_rows(-sum(tile.loss for tile in fit.tiles()))
        params = LeverageParams(posterior.at, posterior.solver_covariance)
        slope = problem.engine.fold(LeverageSlope, problem.source, params).slope
    x = state.x - (posterior.solver_covariance @ slope.ravel()).reshape(state.x.shape)
    return replace(state, x=x).weights().ravel()


def posterior_as_prior(fit: FitRecord) -> Inherited:
    """Return the posterior of a fit as a prior: its Hessian in its own coordinates, its mean in user units.

    With K > 2 classes and no reference, a prior is solved in orthonormal contrasts; the fit may have had others.
    """
    state, aliased = fit.state, fit.aliased
    state.require_optimum()
    if aliased:
        raise InvalidInputError(
            f"The last fit set {', '.join(map(repr, aliased[:5]))} aside, so nothing is known about these weights: "
            f"its posterior cannot be a prior. Leave the columns out, or fit with a prior."
        )
    laplace_posterior(fit)  # raises if there is none
    c, W = state.coordinates, state.weights()
    C, P = state.x.shape
    Q = np.zeros((C * P, C * P))
    Q[np.ix_(state.kept, state.kept)] = state.objective_hessian()
    if state.K > 2 and state.reference is not None:
        W = np.delete(W, state.reference, axis=0)
    elif state.K > 2:
        back = np.kron(np.linalg.solve(make_contrast(state.K, None).T @ c.contrast, np.eye(C)), np.eye(P))
        Q = back.T @ Q @ back
    return Inherited(mean=W, Q=Q, about=(c.center, c.scale))


def _require_existing_optimum(fit: FitRecord) -> None:
    if not fit.certificate.optimum_exists:
        raise UnavailableError(
            "The classes are separated and nothing keeps the weights finite, so there is no posterior. "
            "Use a GaussianPrior."
        )
