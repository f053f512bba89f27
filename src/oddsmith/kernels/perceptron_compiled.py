"""The compiled epoch of the perceptron. This module is imported for large problems only.

``rows`` are X, data, indices and indptr: dense (X is N × M) or CSR (X is empty, and the others are not).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uintp
from scipy import sparse

from oddsmith.kernels.perceptron import Walk
from oddsmith.kernels.scalar import prefetch

SUMS = {"reassoc", "contract"}
AHEAD = 16


@njit(cache=True, nogil=True, fastmath=SUMS)
def _activations(rows: Any, n: Any, V: Any, bias: float, a: Any) -> None:
    X, data, indices, indptr = rows
    for c in range(V.shape[0]):
        total = bias * V[c, 0]
        if X.shape[0] > 0:
            for j in range(X.shape[1]):
                total += V[c, j + 1] * X[n, j]
        else:
            for i in range(indptr[n], indptr[n + 1]):
                total += V[c, indices[i] + 1] * data[i]
        a[c] = total


@njit(cache=True, nogil=True)
def _add(rows: Any, n: Any, step: float, bias: float, v: Any) -> None:
    X, data, indices, indptr = rows
    v[0] += step * bias
    if X.shape[0] > 0:
        for j in range(X.shape[1]):
            v[j + 1] += step * X[n, j]
    else:
        for i in range(indptr[n], indptr[n + 1]):
            v[indices[i] + 1] += step * data[i]


@njit(cache=True, nogil=True)
def _rival(a: Any, k: Any) -> Any:
    """Return the class that beats or equals class ``k``, −1 if none does."""
    if len(a) == 1:
        right = a[0] > 0.0 if k == 1 else a[0] < 0.0
        return -1 if right else 1 - k
    best = -1
    for c in range(len(a)):
        if c != k and (best < 0 or a[c] > a[best]):
            best = c
    return best if a[k] <= a[best] else -1


@njit(cache=True, nogil=True)
def _epoch(rows: Any, t: Any, order: Any, step: float, bias: float, V: Any, best: Any, state: Any) -> None:
    """Run an epoch; ``state`` holds mistakes, run without a mistake, longest run, fewest errors."""
    a = np.zeros(V.shape[0])
    flat, M = rows[0].reshape(-1), rows[0].shape[1]
    for i in range(len(order)):
        n, k = order[i], t[order[i]]
        # Rows in random order are far apart in memory: prefetch those to come while this one is worked on.
        if i + AHEAD < len(order):
            for j in range(0, M, 8):
                prefetch(flat, uintp(order[i + AHEAD] * M + j))
        _activations(rows, n, V, bias, a)
        rival = _rival(a, k)
        if rival < 0:
            state[1] += 1
            continue
        if state[1] > 2 * state[2]:
            state[2] = state[1]
            errors = 0
            for m in range(len(t)):
                _activations(rows, m, V, bias, a)
                errors += _rival(a, t[m]) >= 0
            if errors < state[3]:
                best[:] = V
                state[3] = errors
        state[0] += 1
        state[1] = 0
        if V.shape[0] == 1:
            _add(rows, n, step if k == 1 else -step, bias, V[0])
        else:
            _add(rows, n, step, bias, V[k])
            _add(rows, n, -step, bias, V[rival])


def run(X: Any, t: Any, order: Any, step_size: float, bias: float, walk: Walk) -> None:
    """Run an epoch; see `oddsmith.kernels.perceptron.run_epoch`."""
    state = np.array([walk.mistakes, walk.run, walk.longest, walk.best_errors], dtype=np.int64)
    if sparse.issparse(X):
        rows = (np.empty((0, 0)), X.data, X.indices, X.indptr)
    else:
        rows = (X, np.empty(0), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
    _epoch(rows, t, order, step_size, bias, walk.V, walk.best, state)
    walk.mistakes, walk.run, walk.longest, walk.best_errors = (int(value) for value in state)
