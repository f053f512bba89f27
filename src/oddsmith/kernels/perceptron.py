"""One epoch of the perceptron: rows in a given order, a correction at each mistake, the best weights kept.

An epoch is sequential (each row depends on the mistakes before it), so it is not a fold. Without compiled kernels,
NumPy looks for the next mistake in a run of rows. Both correct alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.kernels import native
from oddsmith.kernels.native import EpochRows, Kernels, address
from oddsmith.numerics import EPS, Array

LONGEST_RUN = 4096


@dataclass(kw_only=True)
class PocketState:
    """The state of a running perceptron, and the pocket of its best weights (Gallant).

    ``V`` (C × (M+1), intercept first) are the weights: one row for two classes (positive: class 1), K for more.
    ``best`` are those with the fewest rows wrong (``best_errors``) among the weights that were counted: those at
    the end of each epoch, and those with a run without a mistake twice as long as any counted before (``longest``).
    """

    V: Array
    best: Array = field(init=False)
    best_errors: int = field(init=False)
    mistakes: int = 0
    run: int = 0
    longest: int = 0

    def __post_init__(self) -> None:
        self.best = self.V.copy()
        self.best_errors = np.iinfo(np.int64).max

    def keep(self, errors: int) -> None:
        """Put the weights in the pocket if they are better than those there."""
        if errors < self.best_errors:
            self.best[:] = self.V
            self.best_errors = errors


def margins(X: Any, t: npt.NDArray[np.int32], V: Array, bias: float) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return how far each row is on the right side (unscaled) and which class is its rival.

    Two classes: ``±(wᵀx + w₀)``. More: the activation of the row's class less the largest of the others.

    >>> m, rival = margins(np.array([[1.0], [2.0]]), np.array([0, 1], dtype=np.int32), np.array([[0.0, 3.0]]), 1.0)
    >>> m.tolist(), rival.tolist()
    ([-3.0, 6.0], [1, 0])
    """
    A = np.asarray(X @ V[:, 1:].T) + bias * V[:, 0]
    if len(V) == 1:
        return np.where(t == 1, A[:, 0], -A[:, 0]), 1 - t.astype(np.intp)
    rows = np.arange(len(t))
    own = A[rows, t]
    A[rows, t] = -np.inf
    rival = A.argmax(axis=1)
    return own - A[rows, rival], rival


def rounding(X: Any, V: Array, bias: float) -> Array:
    """Return a bound on the rounding error of each row's margin."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("nm,nm->n", X, X)
    length = np.sqrt(np.asarray(squares).ravel() + bias)
    return np.asarray(4.0 * (V.shape[1] + 2) * EPS * float(np.linalg.norm(V, axis=1).max()) * length)


def correct(x: Array, k: int, rival: int, step_size: float, bias: float, V: Array) -> None:
    """Move the weights by one mistake: towards the row for its class, away from it for the rival (Kesler)."""
    row = np.append(bias, x)
    if len(V) == 1:
        V[0] += (step_size if k == 1 else -step_size) * row
        return
    V[k] += step_size * row
    V[rival] -= step_size * row


def run_epoch(
    X: Any, t: npt.NDArray[np.int32], order: npt.NDArray[np.intp], step_size: float, bias: float, state: PocketState
) -> None:
    """Visit the rows (dense or CSR, float64) once in the given order and correct each mistake, in place.

    >>> state = PocketState(V=np.zeros((1, 2)))
    >>> run_epoch(np.array([[-1.0], [2.0]]), np.array([0, 1], dtype=np.int32), np.arange(2), 1.0, 1.0, state)
    >>> state.V.tolist(), state.mistakes
    ([[-1.0, 1.0]], 1)
    """
    kernels = native.kernels()
    if kernels is not None:
        _run_compiled(kernels, X, t, order, step_size, bias, state)
        return
    _run(X[order].toarray() if sparse.issparse(X) else X[order], t[order], step_size, bias, state)


def _run_compiled(
    kernels: Kernels,
    X: Any,
    t: npt.NDArray[np.int32],
    order: npt.NDArray[np.intp],
    step_size: float,
    bias: float,
    state: PocketState,
) -> None:
    """Run an epoch by the compiled kernel."""
    counts = np.array([state.mistakes, state.run, state.longest, state.best_errors], dtype=np.int64)
    if sparse.issparse(X):
        index = np.int32 if X.indices.dtype == X.indptr.dtype == np.int32 else np.int64
        places = (np.ascontiguousarray(part, dtype=index) for part in (X.indices, X.indptr))
        arrays: list[Any] = [None, np.ascontiguousarray(X.data, dtype=np.float64), *places]
    else:
        arrays = [np.ascontiguousarray(X, dtype=np.float64), None, None, None]
    narrow = arrays[2] is not None and arrays[2].dtype == np.int32
    rows = EpochRows(*map(address, arrays), narrow, *X.shape)
    t, order = np.ascontiguousarray(t, dtype=np.int32), np.ascontiguousarray(order, dtype=np.int64)
    pointers = address(state.V), address(state.best), address(counts)
    kernels("perceptron", rows, address(t), address(order), step_size, bias, len(state.V), *pointers)
    state.mistakes, state.run, state.longest, state.best_errors = (int(value) for value in counts)


def _run(X: Array, t: npt.NDArray[np.int32], step_size: float, bias: float, state: PocketState) -> None:
    """Go through the rows as they lie, looking for the next mistake in growing runs."""
    start, length = 0, 16
    while start < len(t):
        part = slice(start, start + length)
        m, rival = margins(X[part], t[part], state.V, bias)
        wrong = m <= 0.0
        first = int(wrong.argmax())
        if not wrong[first]:
            state.run += len(m)
            start, length = start + len(m), min(2 * length, LONGEST_RUN)
            continue
        state.run += first
        if state.run > 2 * state.longest:
            state.longest = state.run
            state.keep(int(np.count_nonzero(margins(X, t, state.V, bias)[0] <= 0.0)))
        n = start + first
        correct(X[n], int(t[n]), int(rival[first]), step_size, bias, state.V)
        state.mistakes, state.run = state.mistakes + 1, 0
        start, length = n + 1, max(16, min(length, 2 * (first + 1)))
