"""The one objective that every library's weights are put into, in float64 whatever the data's type.

It is the sum f(w, b) = Σ_n −log p(t_n | x_n, w, b) + ½ ‖w‖² / σ², with the intercept b free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from .problem import Matrix, Problem, Weights

CHUNK_ENTRIES = 4_000_000

Floats = NDArray[np.float64]


def row_chunks(X: Matrix) -> Iterator[slice]:
    """Cut the rows so that a dense chunk holds about four million numbers."""
    step = max(1, CHUNK_ENTRIES // (60 if sparse.issparse(X) else X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield slice(start, min(start + step, X.shape[0]))


def as_weights(coef: object, intercept: object) -> Weights:
    """Bring the weights into float64: (1, D) and (1,) for two classes, (K, D) and (K,) for more."""
    W = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    return W, np.broadcast_to(np.asarray(intercept, dtype=np.float64).ravel(), (W.shape[0],)).copy()


def loss(a: Floats, t: NDArray[np.int64]) -> float:
    """Sum −log p(t) over a chunk, from its activations (n, 1) or (n, K)."""
    if a.shape[1] == 1:
        signed = np.where(t == 1, -a[:, 0], a[:, 0])
        return float(np.sum(np.maximum(signed, 0) + np.log1p(np.exp(-np.abs(signed)))))
    return float(np.sum(logsumexp(a, axis=1) - np.take_along_axis(a, t[:, None], axis=1)[:, 0]))


def penalty(W: Floats, sigma: float | None) -> float:
    """The prior's part, ½ ‖W‖² / σ²."""
    return 0.0 if sigma is None else float(0.5 * np.sum(W**2) / sigma**2)


def objective(problem: Problem, weights: Weights) -> float:
    """Evaluate f: one pass over the data, chunk sums added without rounding error. Infinite for bad weights."""
    W, b = weights
    if not (np.isfinite(W).all() and np.isfinite(b).all()):
        return math.inf
    parts = [penalty(W, problem.sigma)]
    for rows in row_chunks(problem.X):
        a = problem.X[rows].astype(np.float64, copy=False) @ W.T + b
        parts.append(loss(a, problem.y[rows]))
    return math.fsum(parts)
