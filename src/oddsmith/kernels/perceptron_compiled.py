"""The compiled epoch of the perceptron. This module is imported for large problems only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from oddsmith.kernels.perceptron import Walk

SUMS = {"reassoc", "contract"}


@njit(cache=True, nogil=True, fastmath=SUMS)
def _dense_activations(X: Any, n: Any, V: Any, bias: float, a: Any) -> None:
    for c in range(V.shape[0]):
        total = bias * V[c, 0]
        for j in range(X.shape[1]):
            total += V[c, j + 1] * X[n, j]
        a[c] = total


@njit(cache=True, nogil=True, fastmath=SUMS)
def _csr_activations(data: Any, indices: Any, first: Any, last: Any, V: Any, bias: float, a: Any) -> None:
    for c in range(V.shape[0]):
        total = bias * V[c, 0]
        for i in range(first, last):
            total += V[c, indices[i] + 1] * data[i]
        a[c] = total


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
def _dense_errors(X: Any, t: Any, V: Any, bias: float, a: Any) -> int:
    errors = 0
    for n in range(len(t)):
        _dense_activations(X, n, V, bias, a)
        if _rival(a, t[n]) >= 0:
            errors += 1
    return errors


@njit(cache=True, nogil=True)
def _csr_errors(data: Any, indices: Any, indptr: Any, t: Any, V: Any, bias: float, a: Any) -> int:
    errors = 0
    for n in range(len(t)):
        _csr_activations(data, indices, indptr[n], indptr[n + 1], V, bias, a)
        if _rival(a, t[n]) >= 0:
            errors += 1
    return errors


# state: mistakes, run without a mistake, longest run, fewest errors


@njit(cache=True, nogil=True)
def _dense_epoch(X: Any, t: Any, order: Any, step_size: float, bias: float, V: Any, best: Any, state: Any) -> None:
    a = np.zeros(V.shape[0])
    for n in order:
        k = t[n]
        _dense_activations(X, n, V, bias, a)
        rival = _rival(a, k)
        if rival < 0:
            state[1] += 1
            continue
        if state[1] > state[2]:
            state[2] = state[1]
            errors = _dense_errors(X, t, V, bias, a)
            if errors < state[3]:
                best[:] = V
                state[3] = errors
        state[0] += 1
        state[1] = 0
        single = V.shape[0] == 1
        up, down = (0 if single else k), (0 if single else rival)
        step = -step_size if single and k == 0 else step_size
        V[up, 0] += step * bias
        for j in range(X.shape[1]):
            V[up, j + 1] += step * X[n, j]
        if not single:
            V[down, 0] -= step * bias
            for j in range(X.shape[1]):
                V[down, j + 1] -= step * X[n, j]


@njit(cache=True, nogil=True)
def _csr_epoch(
    data: Any,
    indices: Any,
    indptr: Any,
    t: Any,
    order: Any,
    step_size: float,
    bias: float,
    V: Any,
    best: Any,
    state: Any,
) -> None:
    a = np.zeros(V.shape[0])
    for n in order:
        k = t[n]
        first, last = indptr[n], indptr[n + 1]
        _csr_activations(data, indices, first, last, V, bias, a)
        rival = _rival(a, k)
        if rival < 0:
            state[1] += 1
            continue
        if state[1] > state[2]:
            state[2] = state[1]
            errors = _csr_errors(data, indices, indptr, t, V, bias, a)
            if errors < state[3]:
                best[:] = V
                state[3] = errors
        state[0] += 1
        state[1] = 0
        single = V.shape[0] == 1
        up, down = (0 if single else k), (0 if single else rival)
        step = -step_size if single and k == 0 else step_size
        V[up, 0] += step * bias
        for i in range(first, last):
            V[up, indices[i] + 1] += step * data[i]
        if not single:
            V[down, 0] -= step * bias
            for i in range(first, last):
                V[down, indices[i] + 1] -= step * data[i]


def run(X: Any, t: Any, order: Any, step_size: float, bias: float, walk: Walk) -> None:
    """Run an epoch; see `oddsmith.kernels.perceptron.run_epoch`."""
    state = np.array([walk.mistakes, walk.run, walk.longest, walk.best_errors], dtype=np.int64)
    if sparse.issparse(X):
        _csr_epoch(X.data, X.indices, X.indptr, t, order, step_size, bias, walk.V, walk.best, state)
    else:
        _dense_epoch(X, t, order, step_size, bias, walk.V, walk.best, state)
    walk.mistakes, walk.run, walk.longest, walk.best_errors = (int(value) for value in state)
