"""A step of two classes over some columns by their products, in one call: most steps along a path are of this kind."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.native import GramStepProblem, addresses, kernels
from oddsmith.numerics import EPS, Array

DRIFTED, HARD = 1, 2  # Outcomes of the kernel.


class GramStepResult(NamedTuple):
    """The next point: weights, activations, the step of the intercept, residuals and their products."""

    x: Array
    a: Array
    shift: float
    theta: Array
    g: Array
    loss: float
    value: float
    gap: float


@dataclass(frozen=True, kw_only=True)
class GramStep:
    """The columns, their products G under curvatures ``h``, signs of the classes, weights, offsets and penalties."""

    columns: MatrixColumns
    G: npt.NDArray[np.float32]
    h: Array
    mean: Array
    sign: Array
    s: Array
    offset: Array
    penalty: Array
    ridge: Array
    intercept: bool

    def take(
        self, a: Array, x: Array, *, drift: float, precision: float, rough: float, settled: bool
    ) -> GramStepResult | Array | None:
        """Return the point after a step from activations ``a`` and weights ``x``.

        Return the curvatures at the point if they are further than ``drift`` from those of the products, and None where
        coordinate descent or conjugate gradients are slow, or without kernels. ``rough`` is how far coordinate descent
        may miss the conditions of an optimum, ``precision`` how far the residuals may.
        """
        native = kernels()
        if native is None:
            return None
        m, n, a, x = len(x), len(a), a.copy(), x.copy()
        diagonal = np.diag(self.G)[:m].astype(np.float64)
        known = diagonal > 0.0
        typical = float(np.median(self.penalty[known] ** 2 / diagonal[known])) if known.any() else 0.0
        theta, g, r, curvature = np.empty(n), np.empty(m), np.empty(n), np.empty(n)
        fields = addresses(G=self.G, h=self.h, mean=self.mean, diagonal=diagonal, sign=self.sign, s=self.s)
        fields |= addresses(offset=self.offset, penalty=self.penalty, ridge=self.ridge, a=a, x=x)
        fields |= addresses(theta=theta, g=g, r=r, curvature=curvature)
        problem = GramStepProblem(
            columns=self.columns.problem(),
            stride=self.G.strides[0] // self.G.itemsize,
            intercept=self.intercept,
            settled=settled,
            total=float(self.h.sum()),
            drift=drift,
            gain=rough**2 * typical,
            precision=precision,
            rounding=8.0 * EPS,
            **fields,
        )
        native("gram_step", ctypes.byref(problem))
        if problem.outcome == DRIFTED:
            return curvature
        if problem.outcome == HARD:
            return None
        return GramStepResult(x, a, problem.shift, theta, g, problem.loss, problem.value, problem.gap)
