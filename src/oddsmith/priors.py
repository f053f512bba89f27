"""Priors on the weights: added once, after the fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import EPS, Array
from oddsmith.registry import Registry, column_number

PRIORS: Registry[type[Any]] = Registry("prior")
SCALE_CRITERIA = ("evidence", "loo", "cv")  # The methods that select the scale of a prior.


@dataclass(frozen=True)
class Quadratic:
    """``½ Σ (x − mean)ᵀ Q (x − mean)`` over a C × P array of weights.

    ``Q`` is a vector of length P (a diagonal, the same for each class), a P × P matrix (the same for each
    class) or a CP × CP matrix (all classes together).
    """

    mean: Array
    Q: Array

    def apply(self, x: Array) -> Array:
        """Return ``Q x`` (C × P)."""
        if self.Q.ndim == 1:
            return x * self.Q
        if len(self.Q) == x.shape[1]:
            return x @ self.Q
        return (self.Q @ x.ravel()).reshape(x.shape)

    def at(self, x: Array) -> tuple[float, Array]:
        """Return the penalty at ``x`` and its gradient (C × P)."""
        delta = x - self.mean
        slope = self.apply(delta)
        return 0.5 * float(np.vdot(delta, slope)), slope

    def rounding(self, x: Array) -> float:
        """Bound the rounding error of the gradient, whose large terms may cancel unless ``Q`` is diagonal."""
        if self.Q.ndim == 1:
            return 0.0
        terms = Quadratic(self.mean, np.abs(self.Q)).apply(np.abs(x - self.mean))
        return 4.0 * EPS * float(terms.max(initial=0.0))

    def value(self, x: Array) -> float:
        """Return the penalty at ``x``."""
        return self.at(x)[0]

    def add_to(self, H: Array, C: int, P: int) -> None:
        """Add the Hessian of the penalty to ``H`` (CP × CP) in place."""
        if self.Q.ndim == 1:
            np.einsum("ii->i", H).reshape(C, P)[:] += self.Q
        elif len(self.Q) == C * P:
            H += self.Q
        else:
            blocks = H.reshape(C, P, C, P)
            for k in range(C):
                blocks[k, :, k, :] += self.Q

    def diagonal(self, C: int) -> Array:
        """Return the diagonal of the Hessian of the penalty (C × P)."""
        d, P = _diag(self.Q), self.mean.shape[1]
        return np.broadcast_to(d, (C, P)) if len(d) == P else d.reshape(C, P)

    def transformed(self, L: Array | None, d: Array) -> Quadratic:
        """Return the same penalty in coordinates ``x`` with user weights ``(b, w) = (x₀ − Lᵀx′, d x′)``.

        ``d`` scales the weights; ``L`` (or None) is the shift of the intercept that centring the columns causes.
        """
        C, P = self.mean.shape
        if L is None and self.Q.ndim == 1:
            scale = np.concatenate([[1.0], d])
            mean = self.mean / scale if self.mean.any() else self.mean
            return Quadratic(mean, self.Q * scale**2)
        J = _affine_map(d, np.zeros(P - 1) if L is None else -L)
        mean = linalg.solve_triangular(J, self.mean.T, lower=False).T
        Q = np.diag(self.Q) if self.Q.ndim == 1 else self.Q
        whole = J if len(Q) == P else np.kron(np.eye(C), J)
        return Quadratic(mean, whole.T @ Q @ whole)


def _affine_map(scale: Array, shift: Array) -> Array:
    """Return the matrix that scales the weights and adds ``shiftᵀ w`` to the intercept, which comes first."""
    J = np.diag(np.concatenate([[1.0], scale]))
    J[0, 1:] = shift
    return J


@dataclass(frozen=True)
class Anchored(Quadratic):
    """A penalty with ``Q`` in the coordinates of separately centred and scaled columns, and the mean in user units."""

    center: Array
    scale: Array

    def transformed(self, L: Array | None, d: Array) -> Quadratic:
        C, P = self.mean.shape
        center = np.zeros(P - 1) if L is None else L / d
        mean = linalg.solve_triangular(_affine_map(d, -center * d), self.mean.T, lower=False).T
        # Map the new coordinates to those of Q; only differences of centres enter.
        G = np.kron(np.eye(C), _affine_map(self.scale * d, (self.center - center) * d))
        return Quadratic(mean, G.T @ self.Q @ G)


@PRIORS.register("gaussian")
@dataclass(frozen=True, eq=False, repr=False)
class GaussianPrior:
    """A Gaussian prior on the weights, ``p(w) = N(w | mean, covariance)``; the maximum is then the MAP estimate.

    Parameters
    ----------
    scale : float, "evidence", "loo" or "cv", optional
        Standard deviation σ of every weight: the penalty is ``½ ‖w − mean‖² / σ²``. A string names the criterion by
        which ``LogisticRegression.fit`` selects σ: the largest evidence, the smallest leave-one-out loss, or the
        smallest cross-validated loss. ``prior_`` then holds the selected prior, and ``selection_`` the record of the
        search.
    mean : number or array, optional
        Prior mean; zero if not given.
    covariance : number or array, optional
        Replaces ``scale``: a variance, a vector of variances, or a matrix. With D columns, size D leaves the intercept
        without a prior and size D + 1 includes it (first). With K > 2 classes and a ``reference`` class, size (K − 1)(D
        + 1) covers all classes jointly, one class after another.
    space : "weights" or "function"
        What the prior is on. ``"function"`` is for models whose last basis is a `GaussianKernel`: the function ``f(x) =
        Σ_j v_j k(x, c_j)`` has the penalty ``½ vᵀK v / σ²`` (its squared RKHS norm), where K is the kernel matrix of
        the centres. This is a Gaussian process with covariance ``σ² k``, restricted to the centres. The kernel columns
        are whitened, and the model's weights w belong to the whitened columns, ``v = R w``.
    groups : "each", "factor", or list of lists of columns (names or numbers), optional
        With ``scale="evidence"``, which they imply: one scale for each column (automatic relevance determination), for
        each categorical column of a table, or for each listed group. Columns in no group form one more. ``"factor"`` is
        partial pooling: every level has a weight (`Design` with ``reference="mean"``), and the less the levels of a
        category differ, the more rare levels shrink towards their mean, as random intercepts of a mixed model do at
        their mode. It is not a mixed model: intervals ignore the uncertainty of the scales.
    scales : list of numbers, optional
        The candidates for ``"loo"`` and ``"cv"``; by default 20 over four decades, centred by the spread of the
        columns.
    cv : int, splitter or list of (train, test), optional
        Folds for ``"cv"``: their number (stratified), a scikit-learn splitter, or lists of row numbers.
    one_standard_error : bool
        With ``"cv"``: selects the smallest scale whose loss is within one standard error of the best.

    >>> GaussianPrior(scale=2.0)
    GaussianPrior(scale=2.0)
    >>> GaussianPrior(groups="factor")
    GaussianPrior(scale='evidence', groups='factor')
    """

    scale: float | str | None = None
    mean: npt.ArrayLike | None = None
    covariance: npt.ArrayLike | None = None
    space: str = "weights"
    groups: Any = None
    scales: npt.ArrayLike | None = None
    cv: Any = 5
    one_standard_error: bool = False

    def __post_init__(self) -> None:
        if self.groups is not None and self.scale is None and self.covariance is None:
            object.__setattr__(self, "scale", "evidence")

    @property
    def open(self) -> bool:
        """Whether the scale is still to be selected."""
        return isinstance(self.scale, str)

    def __repr__(self) -> str:
        return _shown(self)

    def quadratic(self, C: int, M: int, *, symmetric_classes: int = 0) -> Quadratic:
        """Return the penalty for C classes and M columns (plus the intercept, first) in user units.

        With ``symmetric_classes=K``, the weights of the K classes sum to zero.
        """
        Q = self._precision(C, M, joint=not symmetric_classes)
        covered = (Q.ndim == 2 and len(Q) > M + 1) or _diag(Q)[0] > 0
        return Quadratic(self._mean(symmetric_classes or C, M, covered=covered), Q)

    def _precision(self, C: int, M: int, *, joint: bool) -> Array:
        P = M + 1
        if (self.scale is None) == (self.covariance is None):
            raise InvalidInputError(
                "A GaussianPrior needs either scale (a standard deviation) or covariance, and not both: "
                f"found scale={self.scale!r}, covariance={self.covariance!r}."
            )
        if self.open:
            if self.scale not in SCALE_CRITERIA:
                raise UnknownNameError("criterion for the scale of a GaussianPrior", self.scale, SCALE_CRITERIA)
            raise InvalidInputError(
                f"Only LogisticRegression.fit can select the scale of GaussianPrior(scale={self.scale!r}). Here, give "
                "a number."
            )
        if self.scale is not None:
            if isinstance(self.scale, bool) or not np.isscalar(self.scale):
                raise InvalidTypeError(f"The scale of a GaussianPrior must be a positive number, found {self.scale!r}.")
            sigma = float(self.scale)  # type: ignore[arg-type]
            if not (np.isfinite(sigma) and sigma > 1e-100):
                raise InvalidInputError(
                    f"The scale of a GaussianPrior must be a positive number (above 1e-100), found {self.scale!r}. "
                    "For no prior (maximum likelihood) use prior=None."
                )
            Q = np.full(P, sigma**-2.0)
            Q[0] = 0.0  # no prior on the intercept
            return Q
        S = _numeric(self.covariance, "covariance")
        sizes = {M: "weights", P: "weights with the intercept"} | ({C * P: "all classes"} if joint and C > 1 else {})
        if S.ndim == 0:
            S = np.full(M, float(S))
        if S.ndim > 2 or len(S) not in sizes or (S.ndim == 2 and S.shape[0] != S.shape[1]):
            known = ", ".join(f"{size} ({what})" for size, what in sizes.items())
            raise InvalidInputError(
                f"The covariance of the GaussianPrior has shape {S.shape}; for this data its size must be one of "
                f"{known}."
            )
        Q = _inverse(S)
        if len(S) == M:
            return np.pad(Q, [(1, 0)] * S.ndim)  # no prior on the intercept
        return np.diag(Q) if S.ndim == 1 and len(S) > P else Q

    def _mean(self, rows: int, M: int, *, covered: bool) -> Array:
        if self.mean is None:
            return np.broadcast_to(0.0, (rows, M + 1))  # zeros that take no memory
        result = np.zeros((rows, M + 1))
        m = _numeric(self.mean, "mean")
        if m.size == rows * (M + 1) and m.ndim >= 1 and covered:
            return m.reshape(rows, M + 1)
        if m.ndim == 0 or m.shape in ((M,), (rows, M)):
            result[:, 1:] = m
        elif m.shape == (M + 1,) and covered:
            result[:] = m
        else:
            sizes = f"{M}" + (f" or {M + 1} (with the intercept)" if covered else "")
            raise InvalidInputError(
                f"The mean of the GaussianPrior has shape {m.shape}; for this data and covariance it must be a "
                f"number, a vector of length {sizes}, or {rows} such vectors."
            )
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Inherited(GaussianPrior):
    """The posterior of an earlier fit as the prior of the next one: a precision in the earlier fit's coordinates.

    ``mean`` is in user units, with rows as ``quadratic`` returns them. ``Q`` (CP × CP) belongs to columns with the
    centre and scale ``about`` and to the contrasts of the classes. In user units, where a column may lie far from
    zero, it would lose digits.
    """

    Q: Array = field(default_factory=lambda: np.zeros((0, 0)))
    about: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))

    def __repr__(self) -> str:
        return f"<the posterior of an earlier fit, {len(self.Q)} weights>"

    def quadratic(self, C: int, M: int, *, symmetric_classes: int = 0) -> Quadratic:
        return Anchored(np.asarray(self.mean, dtype=np.float64), self.Q, *self.about)


@PRIORS.register("jeffreys")
@dataclass(frozen=True, eq=False)
class JeffreysPrior:
    """Jeffreys' prior, ``p(w) ∝ √det I(w)`` with the expected information I: Firth's bias reduction.

    The estimate maximises ``log L(w) + ½ log det I(w)``. For logistic and softmax regression this removes the
    first-order bias, and the estimate is finite even if the classes are separated. It does not depend on the units of
    the columns.

    Parameters
    ----------
    gaussian : None, number or GaussianPrior
        A Gaussian prior to multiply it with: ``JeffreysPrior(gaussian=2.5)``.

    References
    ----------
    D. Firth, Bias reduction of maximum likelihood estimates, Biometrika 80 (1993).

    >>> JeffreysPrior()
    JeffreysPrior(gaussian=None)
    """

    gaussian: Any = None


@PRIORS.register("laplace")
@dataclass(frozen=True, eq=False, repr=False)
class LaplacePrior:
    """A Laplace prior on the weights, which sets many of them to exactly zero: the lasso and its relatives.

    The penalty is ``Σ_j factors_j |w_j| / scale``: the smaller the scale, the fewer weights remain. The intercept has
    no prior. The weights are in the user's units, so standardise the columns first (``basis=Standardize()``).

    Parameters
    ----------
    scale : float or "cv"
        The scale of the density. With ``"cv"``, ``LogisticRegression.fit`` selects the scale of smallest
        cross-validated loss along a whole path (`regularization_path`). ``"evidence"`` and ``"loo"`` need a second
        derivative, which does not exist at zero: only a `GaussianPrior` has them.
    groups : "factor", "class", or list of lists of columns (names or numbers), optional
        The group lasso: the weights of a group are either all zero or all nonzero, and the penalty of a group is
        ``√size ‖w_group‖ / scale``. ``"factor"`` groups the levels of each category. ``"class"``, for more than two
        classes, groups a column's weights over all classes, ``‖w_j‖ / scale``. A column in no group is its own group.
    gaussian : float, optional
        Standard deviation of an additional Gaussian prior (the elastic net): adds the penalty ``½ Σ_j w_j² /
        gaussian²``.
    factors : array, optional
        Penalty factor of each column; 0 leaves a column unpenalised. Default: 1.
    cv : int, splitter or list of (train, test)
        Folds for ``"cv"``.
    one_standard_error : bool
        With ``"cv"``: selects the smallest scale whose loss is within one standard error of the best.

    References
    ----------
    R. Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 58 (1996); M. Yuan and Y. Lin, Model
    selection and estimation in regression with grouped variables, JRSS B 68 (2006).

    >>> LaplacePrior(0.1)
    LaplacePrior(scale=0.1)
    """

    scale: float | str
    groups: str | Sequence[Sequence[int | str]] | None = None
    gaussian: float | None = None
    factors: npt.ArrayLike | None = None
    cv: Any = 5
    one_standard_error: bool = False

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def open(self) -> bool:
        """Whether the scale is still to be selected."""
        return isinstance(self.scale, str)

    def checked(self) -> LaplacePrior:
        """Return the prior with a scale that is a positive number, or raise."""
        if self.open:
            if self.scale != "cv":
                raise InvalidInputError(
                    f"The scale of a LaplacePrior must be a positive number or 'cv', found {self.scale!r}. Evidence "
                    "and leave-one-out loss need a second derivative, which does not exist at zero."
                )
            raise InvalidInputError(
                "Only LogisticRegression.fit can select the scale of LaplacePrior(scale='cv'). Give a number."
            )
        return replace(self, scale=_positive(self.scale, "scale", "LaplacePrior"))

    @property
    def ridge(self) -> GaussianPrior | None:
        """The additional Gaussian prior."""
        return None if self.gaussian is None else GaussianPrior(_positive(self.gaussian, "gaussian", "LaplacePrior"))

    def strengths(self, M: int) -> Array:
        """Return the factor of each of M columns."""
        if self.factors is None:
            return np.ones(M)
        found = _numeric(self.factors, "factors", "LaplacePrior")
        if found.shape != (M,) or (found < 0.0).any():
            raise InvalidInputError(
                f"The factors of a LaplacePrior must be a number of at least 0 for each of the {M} columns; found "
                f"shape {found.shape}" + (f", smallest value {found.min():g}." if found.size else ".")
            )
        return found

    def column_groups(self, names: Sequence[str], levels: Mapping[str, Sequence[int]]) -> list[list[int]]:
        """Return the groups of columns, none for ``groups=None`` and ``"class"``; ``levels``: factor → its columns."""
        if self.groups is None or self.groups == "class":
            return []
        if isinstance(self.groups, str):
            if self.groups != "factor":
                raise UnknownNameError("grouping of a LaplacePrior", self.groups, ["factor", "class"])
            return [list(columns) for columns in levels.values()]
        known, found = {str(name): j for j, name in enumerate(names)}, []
        for group in self.groups:
            if isinstance(group, str):
                raise InvalidTypeError(f"A group of a LaplacePrior must be a list of columns, found {group!r}.")
            found.append([column_number(column, known, "a group") for column in group])
        flat = [j for group in found for j in group]
        if len(set(flat)) < len(flat):
            twice = next(names[j] for j in flat if flat.count(j) > 1)
            raise InvalidInputError(f"Column {str(twice)!r} is in two groups of the LaplacePrior, or twice in one.")
        return [group for group in found if group]


def _positive(value: object, what: str, of: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not (np.isfinite(value) and value > 1e-100)
    ):
        raise InvalidInputError(f"The {what} of a {of} must be a positive number (above 1e-100), found {value!r}.")
    return float(value)


def _shown(prior: Any) -> str:
    """Return the repr of a prior, without arguments that equal their defaults."""
    given = {f: repr(getattr(prior, f.name)) for f in fields(prior)}
    shown = [f"{f.name}={value}" for f, value in given.items() if value != repr(f.default)]
    return f"{type(prior).__name__}({', '.join(shown)})"


def split_prior(prior: object) -> tuple[GaussianPrior | None, bool]:
    """Return the Gaussian part of a prior, and whether it includes Jeffreys' prior.

    >>> split_prior(JeffreysPrior())
    (None, True)
    """
    if isinstance(prior, LaplacePrior):
        return prior.ridge, False
    if isinstance(prior, JeffreysPrior):
        return as_prior(prior.gaussian), True
    return as_prior(prior), False


def as_prior(prior: object) -> GaussianPrior | None:
    """Return the prior that an argument stands for: None, a prior, or a number σ.

    >>> as_prior(2.0)
    GaussianPrior(scale=2.0)
    """
    if prior is None or isinstance(prior, GaussianPrior):
        return prior
    if isinstance(prior, LaplacePrior):
        raise InvalidTypeError("A LaplacePrior works in LogisticRegression.fit only. Use a GaussianPrior or a number.")
    if isinstance(prior, JeffreysPrior):
        raise InvalidTypeError("A JeffreysPrior works in LogisticRegression.fit only. Use a GaussianPrior or a number.")
    if isinstance(prior, bool | str | complex) or not np.isscalar(prior):
        hint = (
            f" To select σ, use GaussianPrior({prior!r})." if isinstance(prior, str) and prior in SCALE_CRITERIA else ""
        )
        raise InvalidTypeError(
            f"prior must be None, a positive number (the standard deviation σ of the weights) or a GaussianPrior; "
            f"found {prior!r}.{hint}"
        )
    return GaussianPrior(scale=float(prior))  # type: ignore[arg-type]


def checked_scales(scales: npt.ArrayLike) -> Array:
    """Return distinct scales in ascending order; raise if one is not a positive number."""
    try:
        found = np.unique(np.asarray(scales, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidTypeError(f"scales must be a list of numbers, found {scales!r}.") from None
    if not len(found) or not (np.isfinite(found).all() and found[0] > 1e-100):
        raise InvalidInputError(f"scales must be positive numbers, at least one; found {scales!r}.")
    return found


def _diag(Q: Array) -> Array:
    return Q if Q.ndim == 1 else np.diag(Q)


def _numeric(value: object, what: str, of: str = "GaussianPrior") -> Array:
    try:
        result = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"The {what} of a {of} must be numeric, found {value!r}.") from None
    if not np.all(np.isfinite(result)):
        raise InvalidInputError(f"The {what} of a {of} contains NaN or infinite values.")
    return result


def _inverse(S: Array) -> Array:
    if S.ndim == 1:
        if not np.all(S > 0):
            raise InvalidInputError(f"The prior variances must be positive; entry {int(np.argmin(S))} is {S.min():g}.")
        return 1.0 / S
    if not np.allclose(S, S.T, rtol=1e-10, atol=0.0):
        raise InvalidInputError("The prior covariance is not symmetric.")
    try:
        factor = linalg.cho_factor(S, lower=True)
    except linalg.LinAlgError:
        found = f"its smallest eigenvalue is {np.linalg.eigvalsh(S)[0]:g}"
        raise InvalidInputError(f"The prior covariance is not positive definite: {found}.") from None
    Q = linalg.cho_solve(factor, np.eye(len(S)))
    result: Array = (Q + Q.T) / 2.0
    return result
