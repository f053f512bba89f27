"""The loss of two classes at known activations, and its conjugate."""

from __future__ import annotations

import ctypes

import numpy as np
from scipy.special import expit

from oddsmith.kernels.native import address, kernels
from oddsmith.numerics import Array, log1pexp


def logistic_losses(a: Array, sign: Array, s: Array) -> tuple[float, Array, Array]:
    """Return the sum of the losses of rows of weights ``s`` at activations ``a``, residuals and curvatures.

    ``sign`` is 1 for the second class and −1 for the first.

    >>> value, r, h = logistic_losses(np.zeros(2), np.array([1.0, -1.0]), np.array([1.0, 2.0]))
    >>> round(float(value / np.log(2.0)), 12), r.tolist(), h.tolist()
    (3.0, [-0.5, 1.0], [0.25, 0.5])
    """
    native = kernels()
    if native is None:
        margin = sign * a
        q = expit(-margin)
        return float(s @ log1pexp(-margin)), -sign * s * q, s * q * expit(margin)
    r, h, value = np.empty(len(a)), np.empty(len(a)), ctypes.c_double()
    a = np.ascontiguousarray(a)
    native("logistic", address(a), len(a), address(sign), address(s), address(r), address(h), ctypes.byref(value))
    return value.value, r, h


def logistic_conjugate(theta: Array, s: Array, shrink: float) -> float:
    """Return the conjugate of the loss at residuals times ``shrink``: ``Σ s (c log c + (1 − c) log(1 − c))``.

    c = shrink |theta| / s is the probability of the wrong class, at most 1.

    >>> round(float(logistic_conjugate(np.array([-0.5, 0.0]), np.ones(2), 1.0) / np.log(2.0)), 12)
    -1.0
    """
    native = kernels()
    if native is None:
        c = np.minimum(shrink * np.abs(theta) / s, 1.0)
        return float(s @ (times_log(c) + times_log(1.0 - c)))
    value = ctypes.c_double()
    native("logistic_conjugate", address(theta), len(theta), address(s), shrink, ctypes.byref(value))
    return value.value


def times_log(c: Array) -> Array:
    """Return ``c log c``, 0 at 0: in vectors, as SciPy's is not.

    >>> times_log(np.array([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    return c * np.log(np.maximum(c, 1e-300))
