"""One epoch of stochastic gradient descent over a dense block, one row a step."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

COMPILE_ABOVE = 20_000


def epoch(
    X: Any, t: Any, s: Any, offset: Any, center: Any, scale: Any, T: Any, decay: Any, target: Any, V: Any, steps: Any
) -> Any:
    """Update ``V`` (C × P, intercept first) in place by one step a row; return the mean of the iterates.

    Row n moves V by −η s_n Tᵀ(y − t)(1, z), with z = (x − center)/scale and activations a = T V (1, z) + offset.
    The prior's share, −η decay · (V − target), is then taken at the new V, so that no decay is too strong for a step.
    """
    mean, z = np.zeros(V.shape), np.ones(V.shape[1])
    for n in range(X.shape[0]):
        z[1:] = (X[n] - center) / scale
        a = T @ (V @ z) + offset[n]
        top = max(0.0, a.max())
        e = np.exp(a - top)
        r = e / (np.exp(-top) + e.sum())
        if t[n] > 0:
            r[t[n] - 1] -= 1.0
        r = T.T @ r * s[n]
        V -= steps[n] * np.outer(r, z)
        V -= steps[n] * decay / (1.0 + steps[n] * decay) * (V - target)
        mean += (V - mean) / (n + 1.0)
    return mean


@lru_cache(maxsize=1)
def compiled_epoch() -> Any:
    """Return the compiled epoch (cached on disk by numba)."""
    import numba

    return numba.njit(cache=True, nogil=True)(epoch)


def run_epoch(n_rows: int, *arguments: Any) -> Any:
    """Run an epoch, compiled when there are many rows."""
    return (compiled_epoch() if n_rows > COMPILE_ABOVE else epoch)(*arguments)
