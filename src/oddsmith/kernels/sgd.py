"""One epoch of stochastic gradient descent over a dense block, one row a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.kernels import native
from oddsmith.kernels.native import SgdProblem, address
from oddsmith.numerics import Array


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


def run_epoch(
    X: Any, t: Any, s: Any, offset: Any, center: Any, scale: Any, T: Any, decay: Any, target: Any, V: Any, steps: Any
) -> Array:
    """Run an epoch, by the compiled kernel where there is one; the arguments are those of `epoch`."""
    kernels = native.kernels()
    if kernels is None:
        return np.asarray(epoch(X, t, s, offset, center, scale, T, decay, target, V, steps))
    assert V.flags.c_contiguous
    mean, codes = np.zeros(V.shape), np.ascontiguousarray(t, dtype=np.int32)
    X, s, offset, center, scale, T, decay, target, steps = (
        np.ascontiguousarray(array, dtype=np.float64)
        for array in (X, s, offset, center, scale, T, decay, target, steps)
    )
    problem = SgdProblem(
        *(address(X), *X.shape, len(V), address(codes), address(s), address(offset), address(center), address(scale)),
        *(address(T), address(decay), address(target), address(steps), address(V), address(mean)),
    )
    kernels("sgd", problem)
    return mean
