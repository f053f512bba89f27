"""Calibration maps: logistic, temperature and isotonic.

A map consists of plain arrays. It takes activations (log probabilities, or values of a decision function), N × K, and
returns log probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning, UnknownNameError
from oddsmith.numerics import EPS, Array, factor_spd, log_softmax, softmax
from oddsmith.protocols import ClassifierLike
from oddsmith.solvers.line_search import backtrack
from oddsmith.solvers.policy import POLICY

TINY = float(np.finfo(np.float64).tiny)
LEAST_LOG = float(np.log(TINY))
LOG_EPS = float(np.log(EPS))
HUGE = 1e290  # Decision values are clipped here, so that their sums do not overflow.
Entropy = tuple[float, Array, Array]  # A cross entropy, its gradient and its Hessian.
FLAT = 1e-12  # Relative spread of activations that is only rounding error: there is nothing to calibrate.
FAR = 1e-4  # Length of a Newton step without progress that indicates divergence.
NEAR = 4.0
"""Newton's method starts at slope 1, or at the slope that gives activations of this size: farther out, all
probabilities are 0 or 1, and there is no curvature."""


def first_method(model: ClassifierLike, *names: str) -> str | None:
    """Return the first of these methods that a classifier has; some scikit-learn parameters hide methods."""
    return next((name for name in names if hasattr(model, name)), None)


def activations(model: ClassifierLike, X: Any) -> Array:
    """Return the inputs of a map, N × K: log probabilities, or values of the decision function.

    >>> from oddsmith import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
    >>> activations(model, [[1.5]]).round(6).tolist()
    [[-0.693147, -0.693147]]
    """
    name = first_method(model, "predict_log_proba", "predict_proba", "decision_function")
    if name is None:
        raise InvalidTypeError(
            f"{type(model).__name__} has no predict_proba and no decision_function: labels alone cannot be calibrated."
        )
    with np.errstate(divide="ignore"):
        values = np.asarray(getattr(model, name)(X), dtype=np.float64)
        values = np.log(values) if name == "predict_proba" else values
    _refuse_undefined(values, name, model)
    if name != "decision_function":
        return values
    values = np.clip(values, -HUGE, HUGE)
    return np.column_stack([-0.5 * values, 0.5 * values]) if values.ndim == 1 else values


def states_probabilities(model: ClassifierLike) -> bool:
    """Whether the activations of a model are log probabilities rather than values of a decision function.

    >>> from oddsmith import LeastSquaresClassifier, LogisticRegression
    >>> states_probabilities(LogisticRegression()), states_probabilities(LeastSquaresClassifier())
    (True, False)
    """
    return first_method(model, "predict_log_proba", "predict_proba") is not None


def _refuse_undefined(values: Array, name: str, model: ClassifierLike) -> None:
    """Raise unless the values are log probabilities (−∞ for 0) or finite."""
    wrong = ~np.isfinite(values) if name == "decision_function" else np.isnan(values) | np.isposinf(values)
    if np.any(wrong):
        row = int(np.argwhere(wrong)[0, 0])
        raise InvalidInputError(
            f"{type(model).__name__}.{name} returned {values[wrong][0]} for row {row}: such a value cannot be "
            "calibrated. Check that row of X and how the model was fitted."
        )


@dataclass(frozen=True)
class LinearMap:
    """``p'_k ∝ exp(slope · a_k + shift_k)``: logistic calibration, with ``shift = 0`` temperature scaling.

    The slope is 1 / temperature; the shifts (K) sum to zero. Activations below ``floor`` (for example of zero
    probabilities) are raised to it.
    """

    slope: float
    shift: Array
    floor: float = LEAST_LOG

    def __call__(self, A: Array) -> Array:
        """Return log probabilities, N × K."""
        return log_softmax(self.slope * np.maximum(A, self.floor) + self.shift)


@dataclass(frozen=True)
class IsotonicMap:
    """``p'_k ∝ g_k(p_k)`` with increasing step functions g_k, joined by straight lines.

    ``x`` and ``y`` are the knots of all classes, concatenated, and ``ends`` the end of each class. Two classes have
    knots for the second class only. With ``raw``, g_k is a function of the decision values (for two classes, of their
    difference) instead of p_k.
    """

    x: Array
    y: Array
    ends: npt.NDArray[np.intp]
    raw: bool = False

    def __call__(self, A: Array) -> Array:
        """Return log probabilities, N × K."""
        starts = np.append(0, self.ends[:-1])
        columns = _isotonic_inputs(A, self.raw)
        Q = np.column_stack(
            [np.interp(p, self.x[i:j], self.y[i:j]) for p, i, j in zip(columns.T, starts, self.ends, strict=True)]
        )
        if Q.shape[1] == 1:
            Q = np.column_stack([1.0 - Q, Q])
        total = Q.sum(axis=1, keepdims=True)
        Q = np.where(total > 0, Q, 1.0) / np.where(total > 0, total, Q.shape[1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(Q))


def _isotonic_inputs(A: Array, raw: bool) -> Array:
    """Return the arguments of the isotonic functions, one column each: probabilities or decision values."""
    if raw:
        return A if A.shape[1] > 2 else A[:, 1:] - A[:, :1]
    return softmax(A)[:, 1:] if A.shape[1] == 2 else softmax(A)


CalibrationMap: TypeAlias = LinearMap | IsotonicMap
METHODS = ("logistic", "temperature", "isotonic")


def fit_map(
    A: Array, t: npt.NDArray[Any], method: str, s: Array | None = None, *, stated: bool = False
) -> CalibrationMap:
    """Return the calibration map for activations ``A`` (N × K) of rows of classes ``t`` (codes) and weights ``s``.

    Linear maps maximise the likelihood with a weak prior, so that they stay finite if the rows are separated:

    - Log probabilities (``stated``) have a prior worth K rows that agree exactly with the model: the targets are
      ``(t_n + K/N p_n) / (1 + K/N)``. It favours slope 1 and shifts 0, so the log loss of these rows is never larger
      than without the map.
    - Values of a decision function have no natural scale. They have Platt's targets, ``(N_k + 1)/(N_k + K)`` for a
      row's own class in place of 1, as in scikit-learn.

    Maps are increasing: if the best slope is negative, the probabilities are the class shares (nearly equal for the
    temperature, which favours no class). A probability of exactly zero has no logarithm: it is replaced by the observed
    frequency of the class in such cases, at most the smallest other probability. Log probabilities may also be raised
    to log 1e-308 or log 2e-16 if that fits better.

    >>> A = np.log([[0.9, 0.1], [0.99, 0.01], [0.9, 0.1], [0.1, 0.9]])  # wrong once, which it did not expect
    >>> fit_map(A, np.array([0, 0, 1, 1]), "temperature", stated=True).slope < 1.0
    True
    """
    if method not in METHODS:
        raise UnknownNameError("way of calibrating", method, METHODS)
    s = np.ones(len(A)) if s is None else s
    shifts = method == "logistic"
    if not stated:
        if method == "isotonic":
            return _fit_isotonic(A, t, s, raw=True)
        return replace(_fit_increasing(A, _platt_targets(A.shape[1], t, s), s, shifts=shifts), floor=-2.0 * HUGE)
    floor = zero_floor(A, t, s)
    maps: list[CalibrationMap] = [LinearMap(1.0, np.zeros(A.shape[1]), floor)]
    if method == "isotonic":
        maps.append(_fit_isotonic(A, t, s))
    else:
        # A model that is sure beyond any reason ranks its rows by how sure it is, or its doubts are all that counts.
        for f in (floor, *(f for f in (LEAST_LOG, LOG_EPS) if f > max(floor, A.min()))):
            raised = np.maximum(A, f)
            maps.append(replace(_fit_increasing(raised, _prior_targets(raised, t, s), s, shifts=shifts), floor=f))
    return min(maps, key=lambda found: mean_log_loss(found(A), t, s))


def zero_floor(A: Array, t: npt.NDArray[Any], s: Array) -> float:
    """Return the replacement for the logarithm of an exact zero.

    >>> forest = np.log([[0.9, 0.1], [1.0, 1e-300]])
    >>> round(zero_floor(forest, np.array([0, 0]), np.ones(2)), 1)
    -690.8
    """
    zero = np.isneginf(A)
    least = min(LOG_EPS, float(A[~zero].min(initial=0.0)))
    own = s[zero[np.arange(len(t)), t]].sum()
    if not own > 0:
        return least
    share = float(np.log(own / (s @ zero.sum(axis=1))))
    higher = min(share, float(A[~zero & (A < 0)].min(initial=0.0)))
    losses = [mean_log_loss(log_softmax(np.maximum(A, floor)), t, s) for floor in (least, higher)]
    return higher if losses[1] <= losses[0] else least


def mean_log_loss(L: Array, t: npt.NDArray[Any], s: Array) -> float:
    """Return the mean of −log p(true class) of log probabilities, p between 2e-16 and 1 − 2e-16 as in `evaluate`.

    >>> round(mean_log_loss(np.log([[0.5, 0.5], [0.9, 0.1]]), np.array([1, 0]), np.array([1.0, 3.0])), 4)
    0.2523
    """
    own = np.clip(L[np.arange(len(t)), t], LOG_EPS, np.log1p(-EPS))
    return -float(s @ own) / float(s.sum())


def _prior_targets(A: Array, t: npt.NDArray[Any], s: Array) -> Array:
    K, share = A.shape[1], A.shape[1] / float(s.sum())
    return np.asarray((np.eye(K)[t] + share * softmax(A)) / (1.0 + share))


def _platt_targets(K: int, t: npt.NDArray[Any], s: Array) -> Array:
    counts = np.bincount(t, weights=s, minlength=K)
    targets = np.where(np.eye(K, dtype=bool), (counts + 1)[:, None], 1.0) / (counts + K)[:, None]
    return np.asarray(targets[t])


def _fit_increasing(A: Array, T: Array, s: Array, *, shifts: bool) -> LinearMap:
    """Return the finite map for targets between 0 and 1; if its slope would be negative, the best map with slope 0."""
    found = fit_linear(A, T, s, shifts=shifts, finite=True)
    if found.slope > 0:
        return found
    if shifts:
        slope = float(np.isnan(found.slope))  # of equal activations, shifts do what a slope does: it stays 1
        return LinearMap(slope, fit_linear(slope * A, T, s, slope=False, finite=True).shift)
    if np.isnan(found.slope):
        return LinearMap(1.0, np.zeros(A.shape[1]))
    warnings.warn(
        "On these rows the model's order is no better than chance: after its temperature all classes are about "
        "equally probable. Do rows and labels belong together?",
        OddsmithWarning,
        stacklevel=2,
    )
    widest = float(np.abs(A - A.mean(axis=1, keepdims=True)).max())
    return LinearMap(min(1.0, 1e-3 / widest), np.zeros(A.shape[1]))


def fit_linear(
    A: Array, T: Array, s: Array | None = None, *, shifts: bool = True, slope: bool = True, finite: bool = False
) -> LinearMap:
    """Return the linear map that maximises the likelihood: logistic recalibration (Cox), for any number of classes.

    Minimises ``E(c, b) = −Σ_n s_n Σ_k T_nk log softmax(c A_n + b)_k`` (a sum over rows) by Newton's method: convex in
    slope c and shifts b. ``slope=False`` keeps c = 1, ``shifts=False`` keeps b = 0. If the classes are separated, the
    slope is infinite (and the shifts are NaN) or, with ``finite=True``, finite with a loss of zero up to rounding. If
    all rows have the same activations, the slope is NaN.

    Each iteration
      1. solves H step = g, with the gradient g and the Hessian H,
      2. stops when gᵀstep is below rounding,
      3. shortens the step until E falls.

    Cost: O(N K²) an iteration.

    >>> A = np.log([[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10)  # right nine times in ten, as it says
    >>> found = fit_linear(A, np.eye(2)[[0] * 9 + [1] * 10 + [0]])
    >>> round(found.slope, 9), bool(abs(found.shift).max() < 1e-9)
    (1.0, True)
    """
    s = np.ones(len(A)) if s is None else s
    Z = A - A.mean(axis=1, keepdims=True)
    K, largest = Z.shape[1], float(np.abs(A).max(initial=0.0))
    # Shifts take what is the same for all rows: without it, a slope is well determined.
    center = s @ Z / s.sum() if shifts and slope else np.zeros(K)
    scale = root_mean_square(Z - center) if slope else 1.0
    if scale <= max(FLAT * largest, 1.0 / HUGE):
        return LinearMap(np.nan, np.full(K, np.nan))
    Z = (Z - center) / scale
    where = MapCoordinates(scale, center)
    return solve_linear(lambda theta: cross_entropy(Z, T, s, theta), where, shifts=shifts, slope=slope, finite=finite)


def root_mean_square(Z: Array) -> float:
    """Return the root of the mean square, without overflow.

    >>> root_mean_square(np.array([3e200, -3e200]))
    3e+200
    """
    largest = float(np.abs(Z).max(initial=0.0))
    return largest * float(np.sqrt(((Z / largest) ** 2).mean())) if largest > 0 else 0.0


@dataclass(frozen=True)
class MapCoordinates:
    """The coordinates of the search: activations minus ``center`` (K), divided by ``scale``."""

    scale: float
    center: Array

    def start(self, slope: bool) -> Array:
        """Return the starting point of the search: the identity map, or a point nearer to zero if that is far out."""
        size = min(self.scale, NEAR) if slope else self.scale
        return np.append(size, size / self.scale * self.center)

    def linear_map(self, theta: Array) -> LinearMap:
        """Return the map of (scale · slope, shifts)."""
        slope = float(theta[0] / self.scale)
        shift = theta[1:] - slope * self.center
        return LinearMap(slope, shift - shift.mean())


def solve_linear(
    entropy: Callable[[Array], Entropy],
    where: MapCoordinates,
    *,
    shifts: bool = True,
    slope: bool = True,
    finite: bool = False,
) -> LinearMap:
    """Return the linear map of smallest ``entropy``: a function of (scale · slope, shifts), see `fit_linear`.

    It is called once an iteration, seldom more often, so it may be a pass over data that is not in memory.

    >>> A, T = np.log([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.1, 0.9]]), np.eye(2)[[0, 0, 1, 1]]
    >>> Z = A - A.mean(axis=1, keepdims=True)
    >>> found = solve_linear(lambda theta: cross_entropy(Z, T, np.ones(4), theta), MapCoordinates(1.0, np.zeros(2)))
    >>> bool(np.isclose(found.slope, fit_linear(A, T).slope))
    True
    """
    K = len(where.center)
    theta = where.start(slope)
    B = _directions(K, slope=slope, shifts=shifts)
    value, g, H = entropy(theta)
    for iteration in range(100):
        # 1. Newton's step.
        factor = factor_spd(B.T @ H @ B)
        step = B @ factor.solve(B.T @ g)
        decrement = float(g @ step)
        # 2. The objective is within half of gᵀstep of its optimum; without curvature there is none.
        if decrement <= 1e-20 * max(1.0, value) or len(factor.aliased):
            far = len(factor.aliased) or np.abs(step).max() > FAR * (1.0 + np.abs(theta).max())
            if far and not finite:
                return LinearMap(np.inf if iteration else np.nan, np.full(K, np.nan))
            theta = theta if far else theta - step
            break
        # 3. Halve until it helps; close to the optimum rounding hides that it does.
        moved = _line_search(entropy, theta, step, value, decrement)
        if moved is None:
            break
        (value, g, H), size = moved
        theta = theta - size * step
    return where.linear_map(theta)


def _line_search(
    entropy: Callable[[Array], Entropy], theta: Array, step: Array, value: float, decrement: float
) -> tuple[Entropy, float] | None:
    def falls(new: Entropy, size: float) -> bool:
        return new[0] <= value - POLICY.armijo * size * decrement or (size == 1.0 and decrement < 1e-10)

    return backtrack(lambda size: entropy(theta - size * step), falls, smallest=1e-10)


def cross_entropy(Z: Array, T: Array, s: Array, theta: Array) -> Entropy:
    """Return E, its gradient and its Hessian in (slope, shifts), K + 1 of them, for centred activations ``Z``."""
    log_p = log_softmax(theta[0] * Z + theta[1:])
    P = np.exp(log_p)
    E = P - T
    g = np.append(s @ (E * Z).sum(axis=1), s @ E)
    sP = s[:, None] * P
    D = Z - (P * Z).sum(axis=1, keepdims=True)  # differences first: no square of a large activation cancels
    H = np.empty((len(theta), len(theta)))
    H[0, 0] = np.vdot(sP, D * D)
    H[0, 1:] = H[1:, 0] = (sP * D).sum(axis=0)
    H[1:, 1:] = -sP.T @ P
    np.fill_diagonal(H[1:, 1:], 0.0)
    np.fill_diagonal(H[1:, 1:], -H[1:, 1:].sum(axis=1))
    return -float(s @ (T * log_p).sum(axis=1)), g, H


def influence(A: Array, T: Array, found: LinearMap) -> Array:
    """Return the influence of each row on slope and shifts, N × (1 + K): ``−H⁻¹ g_n`` at the estimate.

    Their sum is zero; the sum of their squares is the (sandwich) variance of the estimate.

    >>> A = np.log([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.1, 0.9]])
    >>> T = np.eye(2)[[0, 0, 1, 1]]
    >>> bool(np.allclose(influence(A, T, fit_linear(A, T)).sum(axis=0), 0.0))
    True
    """
    Z = A - A.mean(axis=1, keepdims=True)
    H = cross_entropy(Z, T, np.ones(len(Z)), np.append(found.slope, found.shift))[2]
    return moves_by(gradients(A, T, found), H)


def gradients(A: Array, T: Array, found: LinearMap) -> Array:
    """Return the gradient of E in slope and shifts of each row, N × (1 + K)."""
    Z = A - A.mean(axis=1, keepdims=True)
    E = np.exp(found(Z)) - T
    return np.column_stack([(E * Z).sum(axis=1), E])


def moves_by(G: Array, H: Array) -> Array:
    """Return the influence of the gradients ``G`` (rows, or sums of rows) on slope and shifts: ``−H⁻¹ g``."""
    B = _directions(len(H) - 1, slope=True, shifts=True)
    return np.asarray(-(B @ factor_spd(B.T @ H @ B).solve(B.T @ G.T)).T)


def _directions(K: int, *, slope: bool, shifts: bool) -> Array:
    """Return the feasible directions of (slope, shifts) as columns: shifts sum to zero."""
    B = np.zeros((K + 1, K))
    B[0, 0] = 1.0
    B[1:, 1:] = np.vstack([np.eye(K - 1), -np.ones(K - 1)])
    return B[:, np.append(slope, np.full(K - 1, shifts))]


def _fit_isotonic(A: Array, t: npt.NDArray[Any], s: Array, *, raw: bool = False) -> IsotonicMap:
    A, t, s = A[s > 0], t[s > 0], s[s > 0]
    xs, ys = [], []
    for k, column in enumerate(_isotonic_inputs(A, raw).T, start=int(A.shape[1] == 2)):
        values, inverse = np.unique(column, return_inverse=True)
        weight = np.bincount(inverse, weights=s)
        share = np.bincount(inverse, weights=s * (t == k)) / weight
        fitted = isotonic_regression(share, sample_weight=weight, y_min=0.0, y_max=1.0)
        # The two ends of every step suffice.
        inner = np.zeros(len(values), dtype=bool)
        inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        xs.append(values[~inner])
        ys.append(fitted[~inner])
    return IsotonicMap(np.concatenate(xs), np.concatenate(ys), np.cumsum([len(x) for x in xs]), raw)
