"""Residuals that meet the conditions of an optimum: a dual point whose gap is of the second order.

Residuals at weights near the optimum miss its conditions by as much as the weights are away, and so does their dual
value, though the objective is only away by the square of that. The conditions are met again by a Newton step of the
weights that are not zero: residuals follow it to first order, and their dual value is away by the square as well.

1. The conditions that residuals miss: over weights that are not zero, and columns whose gradient is above the penalty.
2. The step: by conjugate gradients, on products with the columns alone.
3. Residuals follow the step. What is missed now is due to rounding, to a step that ended early, or to the norms of
   groups, which turn: the same again, towards where they have turned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.truncated_newton import conjugate_gradients


@dataclass(frozen=True, kw_only=True)
class DualCorrection:
    """Columns with their penalty and ridge (each m, or m × 1 where weights are of several classes, m × K).

    ``curved`` turns a change of the activations into that of the residuals, with the intercepts at their best;
    ``diagonal`` returns that of the Hessian of the loss, nearly, over some columns (m, or m × K).
    """

    columns: MatrixColumns
    penalty: Array
    ridge: Array
    diagonal: Callable[[MatrixColumns], Array]
    curved: Callable[[Array], Array]
    grouped: bool = False

    def apply(self, theta: Array, x: Array, precision: float) -> Array:
        """Return residuals near ``theta`` that meet the conditions over the weights ``x``.

        They may be missed by ``precision``, relative to the penalty.
        """
        w, system, aim = x, None, None
        for _ in range(policy.POLICY.dual_corrections):
            bound, missed, aim = self.conditions(self.columns.dots(theta), w, aim)  # 1
            far = float(np.abs(missed / np.where(self.penalty > 0.0, self.penalty, 1.0)).max(initial=0.0))
            if far <= precision:
                break
            if system is None or self.grouped or not (system.bound == bound).all():
                system = self.system(bound, w)
            d = np.zeros_like(w)
            d[bound] = -system.solve(missed[bound], 0.1 * precision / far)  # 2
            theta = theta + self.curved(self.columns.activations(d))  # 3
            w = w + d
        return theta

    def conditions(self, g: Array, w: Array, before: Array | None = None) -> tuple[npt.NDArray[np.bool_], Array, Array]:
        """Return which weights ``w`` have a condition where the gradient is ``g``, what they miss, where they belong.

        The last is a vector on the same side of zero as they are at the optimum, if they are not zero there; ``before``
        is that of conditions that stay, whatever their weights. Conditions of all classes of a column add up to
        nothing where there is no ridge: then that of the smallest weight follows from the others.
        """
        sizes = self._norms if self.grouped else np.abs
        live = sizes(w) > 0.0
        aim, bound = np.where(live, w, -g), np.broadcast_to(live | (sizes(g) > self.penalty), w.shape).copy()
        if before is not None:
            side = aim * before
            crossed = (side.sum(axis=1, keepdims=True) if self.grouped else side) < 0.0
            aim = np.where(crossed & live, before, aim)
        size = sizes(aim)
        missed = g + self.ridge * w + self.penalty * (aim / np.where(size > 0.0, size, 1.0))
        if w.ndim > 1 and not self.grouped and not self.ridge.any():
            whole = np.flatnonzero(bound.all(axis=1))
            bound[whole, np.abs(w[whole]).argmin(axis=1)] = False
        return bound, np.where(bound, missed, 0.0), aim

    @staticmethod
    def _norms(w: Array) -> Array:
        return np.asarray(np.linalg.norm(w, axis=1, keepdims=True))

    def system(self, bound: npt.NDArray[np.bool_], w: Array) -> SupportSystem:
        """Return the Hessian over the weights that have conditions."""
        size = np.linalg.norm(w, axis=1, keepdims=True) if self.grouped else np.zeros_like(self.penalty)
        safe = np.where(size > 0.0, size, 1.0)
        used = np.flatnonzero(bound if bound.ndim == 1 else bound.any(axis=1))
        columns = self.columns
        if len(used) < len(w):
            columns = MatrixColumns.of(columns.matrix()[:, used])
        part = replace(self, columns=columns, penalty=self.penalty[used], ridge=self.ridge[used])
        bend = np.where(size > 0.0, self.penalty / safe, 0.0)[used]
        return SupportSystem(of=part, bound=bound, own=bound[used], unit=(w / safe)[used], bend=bend)


@dataclass(frozen=True, kw_only=True)
class SupportSystem:
    """The Hessian over the weights that have conditions: that of the loss, the ridge, and the norms of groups.

    ``bound`` marks them among all weights, ``own`` among those of the columns that have some.
    """

    of: DualCorrection
    bound: npt.NDArray[np.bool_]
    own: npt.NDArray[np.bool_]
    unit: Array
    bend: Array

    def solve(self, missed: Array, residual: float) -> Array:
        """Return the inverse of the Hessian times ``missed``."""
        start = ObjectiveValue(w=missed, value=0.0, log_likelihood=0.0, gradient=missed)
        return conjugate_gradients(self, start, self.preconditioner, residual, policy.POLICY.dual_products)

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the Hessian times ``d``."""
        of = self.of
        part: Array = np.zeros(self.own.shape)
        part[self.own] = d
        product = of.columns.dots(of.curved(of.columns.activations(part))) + of.ridge * part
        if of.grouped:
            product += self.bend * (part - self.unit * (self.unit * part).sum(axis=1, keepdims=True))
        return np.asarray(product[self.own])

    @cached_property
    def preconditioner(self) -> DiagonalWithNorms:
        """The diagonal of the Hessian of the loss, with the ridge, and the second derivative of the norms of groups."""
        diagonal = self.of.diagonal(self.of.columns) + self.of.ridge
        return DiagonalWithNorms(
            own=self.own, diagonal=np.where(diagonal > 0.0, diagonal, 1.0), unit=self.unit, bend=self.bend
        )


@dataclass(frozen=True, kw_only=True)
class DiagonalWithNorms:
    """``D + bend (I − u uᵀ)`` over the weights of each column, with u of length 1; its inverse is another of that kind.

    >>> own, u = np.ones((1, 2), dtype=bool), np.array([[0.6, -0.8]])
    >>> each = DiagonalWithNorms(own=own, diagonal=np.array([[1.0, 2.0]]), unit=u, bend=np.array([[3.0]]))
    >>> M = np.diag([1.0, 2.0]) + 3.0 * (np.eye(2) - u.T @ u)
    >>> np.allclose(M @ each.solve(np.array([1.0, -2.0])), [1.0, -2.0])
    True
    """

    own: npt.NDArray[np.bool_]
    diagonal: Array
    unit: Array
    bend: Array

    def solve(self, r: Array) -> Array:
        """Precondition a residual."""
        whole = self.diagonal + self.bend
        if not self.bend.any():
            return np.asarray(r / whole[self.own])
        part: Array = np.zeros(self.own.shape)
        part[self.own] = r
        part /= whole
        along = (self.unit * part).sum(axis=1, keepdims=True)
        left = (self.unit**2 * (self.diagonal / whole)).sum(axis=1, keepdims=True)  # 1 − bend uᵀ(D + bend)⁻¹u
        part += self.unit / whole * (self.bend * along / np.where(left > 0.0, left, 1.0))
        return np.asarray(part[self.own])
