"""Textbook algorithms, line by line as in lectures, with every iterate.

They use sums over rows, never means; no scaling of columns; and the given start, step size and stopping rule. They are
for teaching: the solvers of the models (`oddsmith.solvers`) scale columns, check their steps and return a certificate.

``Phi`` (N × M) is the design matrix, with a column of ones for an intercept: see `with_ones`.

>>> Phi, t = with_ones([[-2.0], [-1.0], [0.0], [1.0], [2.0]]), [0, 0, 1, 0, 1]
>>> path = irls(Phi, t, w0=[0.0, 0.0], theta=1e-8)
>>> path.converged, path.steps, path.w.round(4).tolist()
(True, 6, [-0.6227, 1.0904])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array, sigmoid, softmax


@dataclass(frozen=True)
class WeightPath:
    """The sequence of weights of an algorithm.

    Attributes
    ----------
    weights : array
        The start and the weights after each step: (steps + 1) × M, or (steps + 1) × K × M for K classes.
    converged : bool
        Whether the stopping rule was met before the maximum number of steps.
    rows : array of int or None
        For algorithms that use one row at a time, the row of each step.

    >>> WeightPath(np.array([[0.0, 0.0], [1.0, 2.0]]), True).w.tolist()
    [1.0, 2.0]
    """

    weights: Array
    converged: bool
    rows: npt.NDArray[np.intp] | None = None

    @property
    def w(self) -> Array:
        """The last weights."""
        return np.asarray(self.weights[-1])

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return len(self.weights) - 1


def irls(Phi: npt.ArrayLike, t: npt.ArrayLike, w0: npt.ArrayLike, theta: float, *, max_iter: int = 100) -> WeightPath:
    """Iteratively reweighted least squares: Newton-Raphson on the cross-entropy of logistic regression.

    For τ = 1, 2, …
      1. yₙ = σ(wᵀφₙ) and rₙₙ = yₙ(1 − yₙ) for every row,
      2. w⁽τ⁾ = w⁽τ⁻¹⁾ − (ΦᵀRΦ)⁻¹ Φᵀ(y − t),
      3. stop if ‖w⁽τ⁾ − w⁽τ⁻¹⁾‖ < θ.

    It raises an `InvalidInputError` if ΦᵀRΦ is singular: on separated classes all r go to zero.

    >>> path = irls([[1.0], [1.0], [1.0], [1.0]], [1, 1, 1, 0], w0=[0.0], theta=1e-12)
    >>> round(float(path.w[0]), 6), round(float(np.log(3)), 6)  # the log odds of 3 in 4
    (1.098612, 1.098612)
    """
    Phi, t, w = _read(Phi, t, w0, (0, 1))
    _positive(theta=theta)
    weights = [w]
    for _ in range(max_iter):
        y = sigmoid(Phi @ w)  # 1
        r = y * (1.0 - y)
        H = (Phi.T * r) @ Phi
        new = w - _solve(H, Phi.T @ (y - t), len(weights))  # 2
        weights.append(new)
        if np.linalg.norm(new - w) < theta:  # 3
            return WeightPath(np.array(weights), True)
        w = new
    return WeightPath(np.array(weights), False)


def batch_gradient(
    Phi: npt.ArrayLike, t: npt.ArrayLike, w0: npt.ArrayLike, eta: float, theta: float, *, max_iter: int = 100_000
) -> WeightPath:
    """Batch gradient descent on the cross-entropy, with a fixed step size on the sum over rows.

    Repeat
      1. ∇E = Φᵀ(y − t), with yₙ = σ(wᵀφₙ),
      2. stop if ‖∇E‖ < θ,
      3. w ← w − η ∇E.

    It does not converge if η > 2/λ, with λ the largest eigenvalue of the Hessian at the optimum.

    >>> Phi, t = with_ones([[-1.0], [0.0], [1.0], [2.0]]), [0, 1, 0, 1]
    >>> path = batch_gradient(Phi, t, w0=[0.0, 0.0], eta=0.5, theta=1e-6)
    >>> path.converged, path.steps, bool(np.allclose(path.w, irls(Phi, t, [0.0, 0.0], 1e-9).w, atol=1e-5))
    (True, 44, True)
    """
    Phi, t, w = _read(Phi, t, w0, (0, 1))
    _positive(eta=eta, theta=theta)
    weights = [w]
    for _ in range(max_iter):
        gradient = Phi.T @ (sigmoid(Phi @ w) - t)  # 1
        if np.linalg.norm(gradient) < theta:  # 2
            return WeightPath(np.array(weights), True)
        w = w - eta * gradient  # 3
        weights.append(w)
    return WeightPath(np.array(weights), False)


def sgd(
    Phi: npt.ArrayLike,
    t: npt.ArrayLike,
    w0: npt.ArrayLike,
    eta: float,
    *,
    epochs: int = 1,
    order: Sequence[int] | npt.NDArray[np.intp] | None = None,
) -> WeightPath:
    """Stochastic gradient descent: one step for each row in turn.

    For each row n in turn
      1. yₙ = σ(wᵀφₙ),
      2. w ← w + η (tₙ − yₙ) φₙ.

    ``order`` lists the row numbers of an epoch; None keeps the given order. The step size is constant, so the weights
    keep moving around the optimum: ``converged`` is always False.

    >>> path = sgd([[1.0], [1.0]], [1, 0], w0=[0.0], eta=0.5)
    >>> path.weights.round(4).ravel().tolist(), path.rows.tolist()
    ([0.0, 0.25, -0.0311], [0, 1])
    """
    Phi, t, w = _read(Phi, t, w0, (0, 1))
    _positive(eta=eta)
    epoch = np.arange(len(t)) if order is None else _row_numbers(order, len(t))
    rows, weights = np.tile(epoch, epochs), [w]
    for n in rows:
        y = sigmoid(Phi[n] @ w)  # 1
        w = w + eta * (t[n] - y) * Phi[n]  # 2
        weights.append(w)
    return WeightPath(np.array(weights), False, rows)


def perceptron(
    Phi: npt.ArrayLike, t: npt.ArrayLike, w0: npt.ArrayLike, eta: float, *, max_epochs: int = 1000
) -> WeightPath:
    """The perceptron, one mistake at a time; the labels ``t`` are −1 and +1.

    For each row n in turn, again and again
      1. if tₙ wᵀφₙ ≤ 0, the row is a mistake: w ← w + η tₙ φₙ,
      2. stop after an epoch without a mistake.

    A row on the boundary counts as a mistake, so w = 0 is a valid start. If no hyperplane separates the classes, it
    never stops by itself.

    >>> path = perceptron(with_ones([[-2.0], [-1.0], [1.0], [2.0]]), [-1, -1, 1, 1], w0=[0.0, 0.0], eta=1.0)
    >>> path.converged, path.weights.tolist(), path.rows.tolist()
    (True, [[0.0, 0.0], [-1.0, 2.0]], [0])
    """
    Phi, t, w = _read(Phi, t, w0, (-1, 1))
    _positive(eta=eta)
    rows: list[int] = []
    weights = [w]
    for _ in range(max_epochs):
        before = len(rows)
        for n in range(len(t)):
            if t[n] * (w @ Phi[n]) <= 0.0:  # 1
                w = w + eta * t[n] * Phi[n]
                weights.append(w)
                rows.append(n)
        if len(rows) == before:  # 2
            return WeightPath(np.array(weights), True, np.array(rows, dtype=np.intp))
    return WeightPath(np.array(weights), False, np.array(rows, dtype=np.intp))


def softmax_newton(
    Phi: npt.ArrayLike, T: npt.ArrayLike, W0: npt.ArrayLike, theta: float, *, max_iter: int = 100
) -> WeightPath:
    """Newton-Raphson for softmax regression; the weights of the first class are fixed at zero.

    ``T`` (N × K) is one-hot; ``W0`` (K × M) has a row of weights for each class, the first zero. For τ = 1, 2, …
      1. yₙₖ = exp(wₖᵀφₙ) / Σⱼ exp(wⱼᵀφₙ),
      2. the gradient for class j is Σₙ (yₙⱼ − tₙⱼ) φₙ,
      3. the block Hⱼₖ of the Hessian is Σₙ yₙₖ (Iⱼₖ − yₙⱼ) φₙφₙᵀ, for j, k = 2 … K,
      4. w⁽τ⁾ = w⁽τ⁻¹⁾ − H⁻¹ ∇E, with the weights of classes 2 … K in one vector,
      5. stop if ‖w⁽τ⁾ − w⁽τ⁻¹⁾‖ < θ.

    >>> T = np.eye(3)[[0, 1, 1, 2, 2, 2]]
    >>> path = softmax_newton(np.ones((6, 1)), T, np.zeros((3, 1)), theta=1e-10)
    >>> np.exp(path.w[:, 0]).round(6).tolist()  # odds against the first class: 1, 2 and 3 rows
    [1.0, 2.0, 3.0]
    """
    Phi, T, W = _read_classes(Phi, T, W0)
    _positive(theta=theta)
    K, M = W.shape
    weights = [W]
    for _ in range(max_iter):
        Y = softmax(Phi @ W.T)  # 1
        gradient = ((Y - T).T @ Phi)[1:].ravel()  # 2
        H = np.empty(((K - 1) * M, (K - 1) * M))
        for j in range(1, K):  # 3
            for k in range(1, K):
                h = Y[:, k] * (float(j == k) - Y[:, j])
                H[(j - 1) * M : j * M, (k - 1) * M : k * M] = (Phi.T * h) @ Phi
        step = _solve(H, gradient, len(weights))  # 4
        W = W - np.vstack([np.zeros(M), step.reshape(K - 1, M)])
        weights.append(W)
        if np.linalg.norm(step) < theta:  # 5
            return WeightPath(np.array(weights), True)
    return WeightPath(np.array(weights), False)


def with_ones(X: npt.ArrayLike) -> Array:
    """Return rows with a first column of ones, whose weight is w₀.

    >>> with_ones([[2.0], [3.0]]).tolist()
    [[1.0, 2.0], [1.0, 3.0]]
    """
    rows = np.asarray(X, dtype=np.float64)
    return np.column_stack([np.ones(len(rows)), rows])


def random_start(size: int, seed: int = 0) -> Array:
    """Return small random weights, uniform between −0.01 and 0.01.

    >>> bool((np.abs(random_start(5)) <= 0.01).all())
    True
    """
    return np.random.default_rng(seed).uniform(-0.01, 0.01, size)


def _solve(H: Array, gradient: Array, step: int) -> Array:
    """Return H⁻¹ ∇E; raise an error if H is singular."""
    try:
        found = np.linalg.solve(H, gradient)
    except np.linalg.LinAlgError:
        found = np.full_like(gradient, np.nan)
    if not np.isfinite(found).all():
        raise InvalidInputError(
            f"The Hessian is singular in step {step}: the probabilities of (almost) all rows are 0 or 1, or columns "
            "depend on each other. The classes may be separated, or the start too far from the optimum: start from "
            "zeros, or use LogisticRegression with a prior."
        )
    return np.asarray(found)


def _read(
    Phi: npt.ArrayLike, t: npt.ArrayLike, w0: npt.ArrayLike, labels: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """Return rows, targets and start as arrays; raise an error if their shapes do not match."""
    rows, targets, w = (np.asarray(a, dtype=np.float64) for a in (Phi, t, w0))
    if rows.ndim != 2 or targets.shape != rows.shape[:1] or w.shape != rows.shape[1:]:
        raise InvalidInputError(
            f"Phi has shape {rows.shape}, t {targets.shape} and w0 {w.shape}; expected N × M, N and M: a row, a target "
            "and a weight for each."
        )
    if not np.isin(targets, labels).all():
        raise InvalidInputError(
            f"t must hold {labels[0]} and {labels[1]} only, found {np.unique(targets).tolist()[:5]}."
        )
    _finite(Phi=rows, w0=w)
    return rows, targets, w


def _read_classes(Phi: npt.ArrayLike, T: npt.ArrayLike, W0: npt.ArrayLike) -> tuple[Array, Array, Array]:
    rows, targets, W = (np.asarray(a, dtype=np.float64) for a in (Phi, T, W0))
    if rows.ndim != 2 or targets.ndim != 2 or W.shape != (targets.shape[1], rows.shape[1]) or len(rows) != len(targets):
        raise InvalidInputError(
            f"Phi has shape {rows.shape}, T {targets.shape} and W0 {W.shape}; expected N × M, N × K and K × M."
        )
    if not (np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all()):
        raise InvalidInputError("Each row of T must be zeros and a single one, in the column of its class.")
    if W[0].any():
        raise InvalidInputError(f"The first row of W0 must be zeros (its class is fixed), found {W[0].tolist()}.")
    _finite(Phi=rows, W0=W)
    return rows, targets, W


def _row_numbers(order: Sequence[int] | npt.NDArray[np.intp], n_rows: int) -> npt.NDArray[np.intp]:
    rows = np.asarray(order)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or ((rows < 0) | (rows >= n_rows)).any():
        raise InvalidInputError(f"order must be numbers of rows from 0 to {n_rows - 1}, found {order!r}.")
    return rows.astype(np.intp)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise InvalidInputError(f"{name} must be a positive number, found {value!r}.")


def _finite(**arrays: Array) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InvalidInputError(f"{name} holds values that are not finite. Drop or replace them first.")
