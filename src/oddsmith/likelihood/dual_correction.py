"""Residuals that meet the conditions of an optimum: a dual point whose gap is of the second order.

Residuals at weights near the optimum miss its conditions by as much as the weights are away, and so does their dual
value, though the objective is only away by the square of that. The conditions are met again by a Newton step of the
weights that are not zero: residuals follow it to first order, and their dual value is away by the square as well.

1. The conditions that residuals miss: over weights that are not zero, and columns whose gradient is above the penalty.
2. The step: by the Hessian over few weights, else by conjugate gradients, on products with the columns alone.
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
from oddsmith.solvers.proximal_newton import solve_near
from oddsmith.solvers.truncated_newton import conjugate_gradients


@dataclass(frozen=True, kw_only=True)
class DualCorrection:
    """Columns with their penalty, ridge and a diagonal near that of the Hessian (each m × 1, or m × K for classes).

    ``curved`` turns a change of the activations into that of the residuals, with the intercepts at their best;
    ``hessian`` returns the same between weights of some columns, given by their places and classes.
    """

    columns: MatrixColumns
    penalty: Array
    ridge: Array
    diagonal: Array
    curved: Callable[[Array], Array]
    hessian: Callable[[MatrixColumns, npt.NDArray[np.intp], npt.NDArray[np.intp]], Array] | None = None
    grouped: bool = False

    def apply(self, theta: Array, x: Array, precision: float) -> Array:
        """Return residuals near ``theta`` that meet the conditions over the weights ``x``.

        They may be missed by ``precision``, relative to the penalty.
        """
        shape, w, system = theta.shape, x.reshape(len(x), -1).copy(), None
        theta = theta.reshape(len(theta), -1)
        for _ in range(policy.POLICY.dual_corrections):
            g = self.columns.dots(theta.reshape(shape)).reshape(w.shape)
            bound, pull = self._conditions(g, w)  # 1
            missed = np.where(bound, g + self.ridge * w + pull, 0.0)
            far = float(np.abs(missed / np.where(self.penalty > 0.0, self.penalty, 1.0)).max(initial=0.0))
            if far <= precision:
                break
            if system is None or self.grouped or not (system.bound == bound).all():
                system = self._system(bound, w)
            d = np.zeros_like(w)
            d[bound] = -system.solve(missed[bound], 0.1 * precision / far)  # 2
            theta = theta + self.curved(self._activations(d))  # 3
            w = w + d
        return theta.reshape(shape)

    def _conditions(self, g: Array, w: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        """Return which weights have a condition, and the pull of the penalty there."""
        if not self.grouped:
            bound = (w != 0.0) | (np.abs(g) > self.penalty)
            return bound, self.penalty * np.where(w != 0.0, np.sign(w), -np.sign(g))
        size, slope = np.linalg.norm(w, axis=1, keepdims=True), np.linalg.norm(g, axis=1, keepdims=True)
        live = size > 0.0
        pull = self.penalty * np.where(live, w / np.where(live, size, 1.0), -g / np.where(slope > 0.0, slope, 1.0))
        return np.broadcast_to(live | (slope > self.penalty), w.shape), pull

    def _activations(self, d: Array) -> Array:
        if d.shape[1] == 1:
            return self.columns.activations(np.ascontiguousarray(d[:, 0]))[:, None]
        return np.asarray(self.columns.matrix() @ d)

    def _system(self, bound: npt.NDArray[np.bool_], w: Array) -> SupportSystem:
        size = np.linalg.norm(w, axis=1, keepdims=True) if self.grouped else np.zeros((len(w), 1))
        safe = np.where(size > 0.0, size, 1.0)
        used = np.flatnonzero(bound.any(axis=1))
        part = replace(
            self,
            columns=MatrixColumns.of(self.columns.matrix()[:, used]),
            penalty=self.penalty[used],
            ridge=self.ridge[used],
            diagonal=self.diagonal[used],
        )
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
        if self.of.hessian is not None and len(missed) <= policy.POLICY.dual_weights:
            return solve_near(self.matrix, missed)
        start = ObjectiveValue(w=missed, value=0.0, log_likelihood=0.0, gradient=missed)
        diagonal = (self.of.diagonal + self.bend)[self.own]
        return conjugate_gradients(self, start, Diagonal(diagonal), residual, policy.POLICY.dual_products)

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the Hessian times ``d``."""
        of = self.of
        part: Array = np.zeros(self.own.shape)
        part[self.own] = d
        moved = of.curved(of._activations(part))
        product = of.columns.dots(moved if part.shape[1] > 1 else moved[:, 0]).reshape(part.shape) + of.ridge * part
        if of.grouped:
            product += self.bend * (part - self.unit * (self.unit * part).sum(axis=1, keepdims=True))
        return np.asarray(product[self.own])

    @cached_property
    def matrix(self) -> Array:
        """The Hessian as a matrix."""
        assert self.of.hessian is not None
        column, cls = np.nonzero(self.own)
        A = self.of.hessian(self.of.columns, column, cls)
        np.einsum("ii->i", A)[:] += self.of.ridge[column, 0] + self.bend[column, 0]
        if self.of.grouped:
            unit = self.unit[column, cls] * np.sqrt(self.bend[column, 0])
            A -= np.where(column[:, None] == column, np.outer(unit, unit), 0.0)
        return A


@dataclass(frozen=True)
class Diagonal:
    """A preconditioner."""

    values: Array

    def solve(self, r: Array) -> Array:
        """Return ``r`` over the diagonal."""
        return r / self.values
