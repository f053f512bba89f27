"""Maps that make probabilities keep their word: logistic, temperature and isotonic calibration.

A map is plain arrays. It takes activations (log probabilities, or values of a decision function), N × K, and
returns log probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array, factor_spd, log_softmax, softmax
from oddsmith.protocols import ClassifierLike
from oddsmith.solvers.line_search import backtrack
from oddsmith.solvers.policy import POLICY

TINY = float(np.finfo(np.float64).tiny)
LEAST_LOG = float(np.log(TINY))

Entropy = tuple[float, Array, Array]
"""A cross entropy, its gradient and its Hessian."""

FLAT = 1e-10
"""Spread of activations below which there is nothing to calibrate."""

FAR = 1e-4
"""A Newton step this long that gains nothing goes towards infinity."""


def first_method(model: ClassifierLike, *names: str) -> str | None:
    """Return the first of these methods that a classifier has; scikit-learn hides some of them by its parameters."""
    return next((name for name in names if hasattr(model, name)), None)


def activations(model: ClassifierLike, X: Any) -> Array:
    """Return what a map works on, N × K: log probabilities, or values of the decision function.

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
    if name == "predict_log_proba":
        return np.maximum(values, LEAST_LOG)
    if name == "predict_proba":
        return np.asarray(np.log(np.maximum(values, TINY)))
    return np.column_stack([-0.5 * values, 0.5 * values]) if values.ndim == 1 else values


@dataclass(frozen=True)
class LinearMap:
    """``p'_k ∝ exp(slope · a_k + shift_k)``: logistic calibration, with ``shift = 0`` temperature scaling.

    The slope is 1 / temperature; the shifts (K) sum to zero.
    """

    slope: float
    shift: Array

    def __call__(self, A: Array) -> Array:
        """Return log probabilities, N × K."""
        return log_softmax(self.slope * A + self.shift)


@dataclass(frozen=True)
class IsotonicMap:
    """``p'_k ∝ g_k(p_k)`` with increasing step functions g_k, joined by straight lines.

    ``x`` and ``y`` are the knots of all classes one after another, ``ends`` where those of each class end. For two
    classes there are those of the second only.
    """

    x: Array
    y: Array
    ends: npt.NDArray[np.intp]

    def __call__(self, A: Array) -> Array:
        """Return log probabilities, N × K."""
        P = softmax(A)
        starts = np.append(0, self.ends[:-1])
        columns = P[:, 1:] if len(self.ends) == 1 else P
        Q = np.column_stack(
            [np.interp(p, self.x[i:j], self.y[i:j]) for p, i, j in zip(columns.T, starts, self.ends, strict=True)]
        )
        if Q.shape[1] == 1:
            Q = np.column_stack([1.0 - Q, Q])
        total = Q.sum(axis=1, keepdims=True)
        Q = np.where(total > 0, Q, 1.0) / np.where(total > 0, total, Q.shape[1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(Q))


CalibrationMap: TypeAlias = LinearMap | IsotonicMap
METHODS = ("logistic", "temperature", "isotonic")


def fit_map(A: Array, t: npt.NDArray[Any], method: str, s: Array | None = None) -> CalibrationMap:
    """Return the calibration map for activations ``A`` (N × K) of rows of classes ``t`` (codes) and weights ``s``.

    The logistic map has Platt's targets, ``(N_k + 1)/(N_k + K)`` for a row's own class in place of 1, so that it stays
    finite where the rows are separated; so has the temperature. Maps are increasing: where the best slope is negative
    (or none is better than another), the probabilities are the shares of the classes.

    >>> A = np.log([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.1, 0.9]])
    >>> fit_map(A, np.array([0, 0, 1, 1]), "temperature").slope < 1.0
    True
    """
    if method not in METHODS:
        raise UnknownNameError("way of calibrating", method, METHODS)
    s = np.ones(len(A)) if s is None else s
    if method == "isotonic":
        return _fit_isotonic(A, t, s)
    K = A.shape[1]
    counts = np.bincount(t, weights=s, minlength=K)
    targets = np.where(np.eye(K, dtype=bool), (counts + 1)[:, None], 1.0) / (counts + K)[:, None]
    found = fit_linear(A, targets[t], s, shifts=method == "logistic")
    if found.slope > 0:
        return found
    if method == "temperature":
        raise InvalidInputError(
            "On these rows the model's order is no better than chance, so no temperature calibrates it. Do rows and "
            "labels belong together?"
        )
    return LinearMap(0.0, fit_linear(np.zeros_like(A), targets[t], s, slope=False).shift)


def fit_linear(A: Array, T: Array, s: Array | None = None, *, shifts: bool = True, slope: bool = True) -> LinearMap:
    """Return the linear map that maximises the likelihood: logistic recalibration (Cox), for any number of classes.

    Minimises ``E(c, b) = −Σ_n s_n Σ_k T_nk log softmax(c A_n + b)_k`` (a sum over rows) by Newton's method: convex in
    slope c and shifts b. ``slope=False`` keeps c = 1, ``shifts=False`` keeps b = 0. Where the classes are separated
    the slope is infinite (and the shifts NaN); where all rows have the same activations it is NaN.

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
    Z = A - A.mean(axis=1, keepdims=True)
    K = Z.shape[1]
    scale = float(np.sqrt((Z**2).mean()))
    if not slope:
        scale = 1.0
    elif scale <= FLAT:
        return LinearMap(np.nan, np.full(K, np.nan))
    s = np.ones(len(Z)) if s is None else s
    return solve_linear(lambda theta: cross_entropy(Z / scale, T, s, theta), scale, K, shifts=shifts, slope=slope)


def solve_linear(
    entropy: Callable[[Array], Entropy], scale: float, K: int, *, shifts: bool = True, slope: bool = True
) -> LinearMap:
    """Return the linear map of smallest ``entropy``: a function of (scale · slope, shifts), see `fit_linear`.

    It is called once an iteration, seldom more often, so it may be a pass over data that is not in memory.

    >>> A, T = np.log([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.1, 0.9]]), np.eye(2)[[0, 0, 1, 1]]
    >>> Z = A - A.mean(axis=1, keepdims=True)
    >>> found = solve_linear(lambda theta: cross_entropy(Z, T, np.ones(4), theta), 1.0, 2)
    >>> bool(np.isclose(found.slope, fit_linear(A, T).slope))
    True
    """
    theta = np.append(scale, np.zeros(K))
    B = _directions(K, slope=slope, shifts=shifts)
    value, g, H = entropy(theta)
    for iteration in range(100):
        # 1. Newton's step.
        factor = factor_spd(B.T @ H @ B)
        step = B @ factor.solve(B.T @ g)
        decrement = float(g @ step)
        # 2. The objective is within half of gᵀstep of its optimum; without curvature there is none.
        if decrement <= 1e-20 * max(1.0, value) or len(factor.aliased):
            if len(factor.aliased) or np.abs(step).max() > FAR * (1.0 + np.abs(theta).max()):
                return LinearMap(np.inf if iteration else np.nan, np.full(K, np.nan))
            theta = theta - step
            break
        # 3. Halve until it helps; close to the optimum rounding hides that it does.
        moved = _line_search(entropy, theta, step, value, decrement)
        if moved is None:
            break
        (value, g, H), size = moved
        theta = theta - size * step
    return LinearMap(float(theta[0] / scale), theta[1:] - theta[1:].mean())


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
    mean = (P * Z).sum(axis=1)
    sP = s[:, None] * P
    H = np.empty((len(theta), len(theta)))
    H[0, 0] = np.vdot(sP, Z * Z) - s @ mean**2
    H[0, 1:] = H[1:, 0] = (sP * Z).sum(axis=0) - mean @ sP
    H[1:, 1:] = np.diag(sP.sum(axis=0)) - sP.T @ P
    return -float(s @ (T * log_p).sum(axis=1)), g, H


def influence(A: Array, T: Array, found: LinearMap) -> Array:
    """Return what each row moves slope and shifts by, N × (1 + K): ``−H⁻¹ g_n`` at the estimate.

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
    """Return by what rows, or sums of rows, of the gradients ``G`` move slope and shifts: ``−H⁻¹ g``."""
    B = _directions(len(H) - 1, slope=True, shifts=True)
    return np.asarray(-(B @ factor_spd(B.T @ H @ B).solve(B.T @ G.T)).T)


def _directions(K: int, *, slope: bool, shifts: bool) -> Array:
    """Return the directions, as columns, in which (slope, shifts) may go: shifts sum to zero."""
    B = np.zeros((K + 1, K))
    B[0, 0] = 1.0
    B[1:, 1:] = np.vstack([np.eye(K - 1), -np.ones(K - 1)])
    return B[:, np.append(slope, np.full(K - 1, shifts))]


def _fit_isotonic(A: Array, t: npt.NDArray[Any], s: Array) -> IsotonicMap:
    A, t, s = A[s > 0], t[s > 0], s[s > 0]
    P, xs, ys = softmax(A), [], []
    for k in [1] if P.shape[1] == 2 else range(P.shape[1]):
        values, inverse = np.unique(P[:, k], return_inverse=True)
        weight = np.bincount(inverse, weights=s)
        share = np.bincount(inverse, weights=s * (t == k)) / weight
        fitted = isotonic_regression(share, sample_weight=weight, y_min=0.0, y_max=1.0)
        # The two ends of every step suffice.
        inner = np.zeros(len(values), dtype=bool)
        inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
        xs.append(values[~inner])
        ys.append(fitted[~inner])
    return IsotonicMap(np.concatenate(xs), np.concatenate(ys), np.cumsum([len(x) for x in xs]))
