"""The state of a likelihood fit: its optimum, the Hessian there, and the map from solver coordinates to user units.

Standard errors, the Laplace posterior, the evidence and leave-one-out are all derived from this record.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal, BorderedFactor
from oddsmith.cached_property import cached_property
from oddsmith.errors import InvalidInputError, UnavailableError
from oddsmith.likelihood.coordinates import Coordinates
from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.priors import Quadratic
from oddsmith.solvers import policy
from oddsmith.solvers.facts import Machine


@dataclass(frozen=True, kw_only=True)
class FittedState:
    """The optimum of a likelihood in the solver's coordinates, with its Hessian.

    C contrasts (K − 1) of P = 1 + M weights, intercept first. Reported weights are R × P, with R = 1 for two classes
    and R = K for more: ``gauge @ x`` in units of the scaled columns, plus ``common``.

    ``free`` (C × P) marks the weights that were estimated: no aliased columns, and an intercept only if there is one.
    ``common`` (length P) is the part shared by all classes (the prior's mean, K > 2), ``reference`` the class whose
    weights are zero, ``class_weight`` the total weight of the rows of each class, ``n_rows`` the number of rows of
    positive weight. ``log_likelihood`` excludes the prior, ``null_log_likelihood`` is that of the null model
    (intercepts and offset); ``penalty`` is minus the log prior, up to a constant. ``hessian`` (CP × CP, None if not
    formed) and ``expected`` (if the link makes it differ) belong to the objective, prior included; fixed weights have
    zero rows except for the diagonal. ``bordered`` is the Hessian of a table whose largest factor has so many levels
    that the whole matrix is not formed. ``moved``: the intercepts were moved after the fit, for another class prior.
    ``sparse``: the weights come from a `LaplacePrior` (for more than two classes, of all K), without curvature where
    they are zero.
    """

    coordinates: Coordinates
    x: Array
    free: npt.NDArray[np.bool_]
    common: Array
    reference: int | None
    class_weight: Array
    n_rows: int
    log_likelihood: float
    penalty: Quadratic | None
    hessian: Array | None
    expected: Array | None
    null_log_likelihood: float = float("nan")
    moved: bool = False
    bordered: BorderedDiagonal | None = None
    sparse: bool = False

    def require_optimum(self) -> None:
        """Raise if the weights were moved off the optimum after the fit."""
        if self.moved:
            raise UnavailableError(
                "The intercepts of this model were moved by with_class_prior or undo_resampling: its weights are not "
                "those of the fit, which this method needs. Use the model as it was fitted."
            )

    def require_curvature(self) -> None:
        """Raise if the weights come from a LaplacePrior, whose density has no second derivative at zero."""
        if self.sparse:
            raise UnavailableError(
                "Weights under a LaplacePrior have no standard errors and no Gaussian posterior: its density has no "
                "second derivative at zero. model.refit(X, y) fits the columns that it selected by maximum likelihood; "
                "a GaussianPrior has a posterior."
            )

    def require_memory(self, most: int) -> None:
        """Raise if there are more than ``most`` weights, or the Hessian and its factor would not fit into memory."""
        if self.x.size > most:
            raise UnavailableError(
                f"This needs the Hessian of {self.x.size:,} weights, and those of up to {most:,} are formed. Use fewer "
                "columns or levels."
            )
        needed, there = 4 * 8.0 * self.x.size**2, Machine.here().memory
        if needed > there:
            raise UnavailableError(
                f"This needs the Hessian of {self.x.size:,} weights: {needed / 1e9:.3g} GB, and {there / 1e9:.3g} GB "
                "are free. Use fewer columns."
            )

    def require_same_rows(self, log_likelihood: float, decrement: float = 0.0, near: float = np.inf) -> None:
        """Raise unless these are the training rows, judged by their log likelihood and, if given, the decrement.

        ``decrement`` is the distance of the weights from the optimum of these rows in standard errors, ``near`` its
        limit.
        """
        if decrement <= near and np.isclose(log_likelihood, self.log_likelihood, rtol=1e-6, atol=1e-6):
            return
        distance = f"its weights are {decrement:.3g} standard errors from the optimum, and the" if decrement else "its"
        raise InvalidInputError(
            f"These are not the rows that the model was fitted to: with them {distance} log likelihood is "
            f"{log_likelihood:.10g} instead of {self.log_likelihood:.10g}. Pass the rows, labels, weights and offsets "
            "of the fit."
        )

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.class_weight)

    @property
    def kept(self) -> npt.NDArray[np.intp]:
        """Positions (in C·P) of the estimated weights."""
        return np.flatnonzero(self.free.ravel())

    @cached_property
    def gauge(self) -> Array:
        """The R × C matrix from contrasts to the reported weights of the classes."""
        contrast = self.coordinates.contrast
        if self.K == 2:
            return np.ones((1, 1))
        shift = contrast.mean(axis=0) if self.reference is None else contrast[self.reference]
        return np.asarray(contrast - shift)

    @cached_property
    def to_user(self) -> Array:
        """The P × P matrix from a contrast's weights to user units: ``b = x₀ − Σ_j center_j/scale_j x_j``."""
        center, scale = self.coordinates.center, self.coordinates.scale
        J: Array = np.diag(np.concatenate([[1.0], 1.0 / scale])).astype(np.float64)
        J[0, 1:] = -center / scale
        return J

    def jacobian(self) -> Array:
        """Return the RP × (estimated weights) matrix from solver weights to reported ones, one class after another."""
        whole: Array = np.kron(self.gauge, self.to_user).astype(np.float64, copy=False)
        return whole[:, self.kept]

    def weights(self) -> Array:
        """Return the reported weights, R × P, intercept first."""
        center, scale = self.coordinates.center, self.coordinates.scale
        x = np.column_stack([self.x[:, 0] - self.x[:, 1:] @ (center / scale), self.x[:, 1:] / scale])  # to_user @ x
        if self.sparse and self.reference is None:  # ``common`` marks what has no penalty, and any mean
            return 0.0 + np.where(self.common != 0.0, x - x.mean(axis=0), x) if self.K > 2 else 0.0 + x
        W: Array = self.gauge @ x
        return W + self.common if self.K > 2 and self.reference is None else W

    @cached_property
    def bordered_factor(self) -> BorderedFactor:
        """The factored Hessian of a table with one factor eliminated."""
        assert self.bordered is not None
        return self.bordered.factor()

    def bordered_errors(self) -> Array:
        """Return the standard errors of the weights of two classes (1 + M) from the Hessian of a table, by elimination.

        Cost: L · R² for L levels eliminated and R other weights.
        """
        factor, shift = self.bordered_factor, self.coordinates.center / self.coordinates.scale
        variance = factor.inverse_diagonal()
        variance[1:] /= self.coordinates.scale**2
        to_intercept = np.where(self.free[0], np.concatenate([[1.0], -shift]), 0.0)
        variance[0] = to_intercept @ factor.solve(to_intercept)
        return np.sqrt(np.where(self.free[0], variance, np.nan))

    def objective_hessian(self, *, expected: bool = False) -> Array:
        """Return the Hessian of the objective, prior included, over the weights estimated.

        For a table with an eliminated factor, the full matrix is formed if memory allows.
        """
        H = self.expected if expected and self.expected is not None else self.hessian
        if H is None:
            assert self.bordered is not None
            self.require_memory(policy.POLICY.largest_summary)
            H = self.bordered.toarray()
        return H[np.ix_(self.kept, self.kept)]

    @cached_property
    def factor(self) -> SpdFactor:
        """The factor of the objective's Hessian over the weights estimated."""
        return factor_spd(self.objective_hessian(), tol=0.0)

    def covariance(self) -> Array:
        """Return the inverse of the objective's Hessian as the covariance of the reported weights, RP × RP."""
        factor = self.factor  # first, since it refuses more weights than memory holds
        J = self.jacobian()
        S: Array = J @ factor.solve(np.ascontiguousarray(J.T))
        return (S + S.T) / 2.0


@dataclass(frozen=True)
class EarlierRows:
    """The rows before a model's last update: their number, and the total weight of each class."""

    n_rows: int
    class_weight: Array

    def add(self, state: FittedState) -> EarlierRows:
        """Return the total with the rows of one more fit."""
        return EarlierRows(self.n_rows + state.n_rows, self.class_weight + state.class_weight)


@dataclass(frozen=True)
class TrainingDataRef:
    """Weak references to the arguments of a fit.

    A fitted model holds no data; methods that need the rows take them as arguments. While the caller still holds the
    objects passed to ``fit``, a method that needs them (``summary(intervals="profile")``, the posterior of a large fit
    with a prior) reads them through these references, so that they need not be passed again. If they are gone, or of a
    type without weak references (a list), the method raises and asks for them. The references are only a convenience:
    no saved file or pickle depends on them.

    >>> rows = np.eye(2)
    >>> training_data = TrainingDataRef.of(rows, None)
    >>> training_data()[0] is rows
    True
    >>> del rows
    >>> training_data() is None
    True
    """

    references: tuple[object, ...]

    @classmethod
    def of(cls, *arguments: object) -> TrainingDataRef | None:
        """Return the references, or None if an argument's type does not support weak references."""
        try:
            return cls(tuple(a if a is None or isinstance(a, str) else weakref.ref(a) for a in arguments))
        except TypeError:
            return None

    def __call__(self) -> tuple[Any, ...] | None:
        """Return the arguments, or None if one of them is gone."""
        found = tuple(r() if isinstance(r, weakref.ref) else r for r in self.references)
        gone = any(f is None and r is not None for f, r in zip(found, self.references, strict=True))
        return None if gone else found


def missing_rows_message(state: FittedState) -> str:
    """Return the message that asks for the training rows of a fit without a Hessian."""
    if state.x.size > policy.POLICY.largest_hessian:
        return (
            f"The Hessian of {state.x.size} weights is not formed (the limit is {policy.POLICY.largest_hessian}): "
            "this needs it, so use fewer columns."
        )
    return (
        f"This fit of {state.n_rows} rows needed no Hessian, and its rows are no longer in memory. Pass them (X, y, "
        f"and the weights "
        "and offsets of the fit) to the method that needs them: it takes one pass. Or fit with solver='newton'."
    )
