"""A step of two classes over some columns by their products, in one call: most steps along a path are of this kind."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import typical_gain
from oddsmith.kernels.native import GramStepProblem, addresses, kernels
from oddsmith.kernels.packed_columns import Single, SupportFactor, Team, team_address
from oddsmith.numerics import EPS, Array

DRIFTED, HARD = 1, 2  # Outcomes of the kernel.


class ScaledColumns(NamedTuple):
    """Dense columns less their mean times the ``root`` of the curvatures, and a factor of their products."""

    scaled: Single
    root: Array
    factor: SupportFactor


class GramStepResult(NamedTuple):
    """The next point: weights, activations, the intercept, residuals and their products.

    ``share`` is the multiple of the products that the model had.
    """

    x: Array
    a: Array
    b: float
    share: float
    theta: Array
    g: Array
    loss: float
    value: float
    gap: float


@dataclass(frozen=True, kw_only=True)
class GramStep:
    """The columns, their products G under curvatures ``h`` with the diagonal, signs of the classes, weights, penalties.

    ``dense`` is what dense columns have besides, ``splits`` where each part of the rows begins in sparse columns; a
    ``team`` shares the work.
    """

    columns: MatrixColumns
    G: Single
    diagonal: Array
    h: Array
    mean: Array
    sign: Array
    s: Array
    offset: Array
    penalty: Array
    ridge: Array
    intercept: bool
    dense: ScaledColumns | None = None
    splits: npt.NDArray[np.int64] | None = None
    team: Team | None = None

    def take(
        self, a: Array, x: Array, b: float, *, drift: float, precision: float, rough: float, settled: bool
    ) -> GramStepResult | Array | None:
        """Return the point after a step from activations ``a``, weights ``x`` and the intercept ``b``.

        Return the curvatures at the point if they are further than ``drift`` from those of the products, and None where
        coordinate descent or conjugate gradients are slow, or without kernels. ``rough`` is how far coordinate descent
        may miss the conditions of an optimum, ``precision`` how far the residuals may.
        """
        native = kernels()
        if native is None:
            return None
        m, n, a, x = len(x), len(a), a.copy(), x.copy()
        theta, g, r, curvature = np.empty(n), np.empty(m), np.empty(n), np.empty(n)
        fields = addresses(G=self.G, h=self.h, mean=self.mean, diagonal=self.diagonal, sign=self.sign, s=self.s)
        fields |= addresses(offset=self.offset, penalty=self.penalty, ridge=self.ridge, a=a, x=x, splits=self.splits)
        fields |= addresses(theta=theta, g=g, r=r, curvature=curvature)
        if self.dense is not None:
            scaled, root, factor = self.dense
            fields |= addresses(scaled=scaled, root=root)
            fields |= {"width": scaled.shape[1], "factor": ctypes.addressof(factor.problem(self.G[:m, :m]))}
        problem = GramStepProblem(
            columns=self.columns.problem(),
            b=b,
            stride=self.G.strides[0] // self.G.itemsize,
            intercept=self.intercept,
            team=team_address(self.team),
            settled=settled,
            total=float(self.h.sum()),
            drift=drift,
            gain=typical_gain(rough, self.penalty, self.diagonal),
            precision=precision,
            rounding=8.0 * EPS,
            **fields,
        )
        native("gram_step", ctypes.byref(problem))
        if problem.outcome == DRIFTED:
            return curvature
        if problem.outcome == HARD:
            return None
        return GramStepResult(x, a, problem.b, problem.share, theta, g, problem.loss, problem.value, problem.gap)
