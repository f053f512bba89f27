"""The last digits of a point by columns: Newton steps over the weights that are not zero.

A gap within the tolerance leaves its square root of the weights. From there

1. activations in double precision, with the best intercepts; the conditions of an optimum over the working set,
2. the Newton step over the weights that miss theirs, or are not zero, under the curvatures there: conjugate gradients,
   preconditioned by the factor of the products of the columns or by their diagonal, so that a few products are enough,
3. go there, a weight or group that would change its sign to zero, or half of the way where the objective rises; end
   after a short step.
4. Residuals times all columns give the gap, and say which columns are missing from the working set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.likelihood.column_descent import ColumnDescent, ColumnPoint
from oddsmith.likelihood.dual_correction import DualCorrection
from oddsmith.likelihood.gram_model import GramModel
from oddsmith.likelihood.two_class_descent import TwoClassDescent
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import ROUNDING
from oddsmith.solvers.truncated_newton import conjugate_gradients

ROUNDS = 4  # Times that columns are found missing, at most.
STEPS = 20  # Newton steps of a point, halvings included, at most.
DIGITS = 1e-10  # What may be left of the weights, relative to the largest, and missed of conditions, to their penalty.
LEAST_RESIDUAL, MOST_RESIDUAL = 1e-5, 0.1  # Of a system: products in single precision have about five digits.
FARTHEST = 10.0  # Change of activations along a step, at most: columns that hardly differ may have any weights.
PRODUCTS = 200  # Products of a system, at most.


def polished(descent: ColumnDescent, at: ColumnPoint, penalty: Array) -> ColumnPoint:
    """Return a point near the optimum with weights of about nine digits, and the gap there."""
    for _ in range(ROUNDS):
        new, residuals = newton_steps(descent, at, penalty)
        # The dual point of ``at`` is one for all weights; the difference of two objectives has their rounding.
        kept = max(at.gap + (new.value - at.value), 0.0) + ROUNDING * abs(new.value)
        new = descent.with_gap(new, residuals, penalty)  # 4
        new.gap, at = min(new.gap, kept), new
        missing = np.setdiff1d(np.flatnonzero(new.sizes > penalty * (1.0 + DIGITS)), descent.chosen)
        if not len(missing):
            break
        descent.choose(np.union1d(descent.chosen, missing))
    return at


def newton_steps(descent: ColumnDescent, at: ColumnPoint, penalty: Array) -> tuple[ColumnPoint, Array]:
    """Return the optimum over the working set from a point near it, and the residuals there."""
    assert descent.columns is not None
    x, b, best, short, residuals = at.weights_of(descent.chosen), at.b, at, False, at.theta
    last = d = aim = x
    for step in range(STEPS + 1):
        inner = descent.offset + descent.columns.activations(x)  # 1
        b, loss, r, support = descent.at_best_intercepts(inner, b, penalty)
        value = loss + descent.penalty(x, penalty)
        if step and not value <= best.value + ROUNDING * abs(best.value):
            d, short = 0.5 * d, False
            x = moved(last, d, aim, grouped=descent.grouped)
            continue
        best, residuals = replace(at, columns=descent.chosen, x=x, b=b, a=inner + b, value=value, loss=loss), r
        if short or step == STEPS:
            break
        bound, missed, aim = support.conditions(descent.columns.dots(r), x)
        far = float(np.abs(missed / support.penalty).max(initial=0.0))
        if far <= DIGITS:
            break
        residual = float(np.clip(max(far, DIGITS / far), LEAST_RESIDUAL, MOST_RESIDUAL))
        d = newton_step(descent, support, x, bound, missed, residual)  # 2
        far = float(np.abs(descent.columns.activations(d)).max())
        if not np.isfinite(far):
            break
        d = d * min(1.0, FARTHEST / far) if far > 0.0 else d
        last, x = x, moved(x, d, aim, grouped=descent.grouped)  # 3
        away = float(np.abs(d).max() / max(np.abs(x).max(), 1e-300))
        short = away * max(away, residual) <= DIGITS and bool((x == last - d).all())
    return best, residuals


def moved(x: Array, d: Array, aim: Array, *, grouped: bool) -> Array:
    """Return ``x − d``, with zero for weights, or groups in rows, that are not on the side of ``aim``.

    >>> moved(np.array([1.0, 0.5]), np.array([0.5, 1.0]), np.array([1.0, 0.5]), grouped=False).tolist()
    [0.5, 0.0]
    """
    new = x - d
    side = new * aim
    return np.where((side.sum(axis=1, keepdims=True) if grouped else side) > 0.0, new, 0.0)


def newton_step(
    descent: ColumnDescent,
    support: DualCorrection,
    x: Array,
    bound: npt.NDArray[np.bool_],
    missed: Array,
    residual: float,
) -> Array:
    """Return the inverse of the Hessian over the weights ``bound`` times what they miss of their conditions."""
    d = np.zeros(x.shape)
    gram = descent.gram if isinstance(descent, TwoClassDescent) else None
    if gram is None or gram.h is None:
        d[bound] = support.system(bound, x).solve(missed[bound], residual)
    else:
        d[bound] = ProductSystem(support, gram, np.flatnonzero(bound)).solve(missed[bound], residual)
    return d


@dataclass(frozen=True)
class ProductSystem:
    """The Hessian over the columns ``bound`` of the working set, preconditioned by the factor of their products."""

    support: DualCorrection
    gram: GramModel
    bound: npt.NDArray[np.intp]

    def solve(self, missed: Array, residual: float) -> Array:
        """Return the inverse of the Hessian times ``missed``, to a relative residual."""
        start = ObjectiveValue(w=missed, value=0.0, log_likelihood=0.0, gradient=missed)
        return conjugate_gradients(self, start, ProductFactor(self.gram, self.bound), residual, PRODUCTS)

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the Hessian times ``d``, by columns in single precision."""
        whole = np.zeros(len(self.gram.chosen))
        whole[self.bound] = d
        u = self.support.curved(self.gram.moved(whole))
        return np.asarray(self.gram.slopes(u)[self.bound] + self.support.ridge[self.bound] * d)


@dataclass(frozen=True)
class ProductFactor:
    """The factor of the products of columns, as a preconditioner."""

    gram: GramModel
    bound: npt.NDArray[np.intp]

    def solve(self, r: Array) -> Array:
        """Precondition a residual."""
        m = len(self.gram.chosen)
        return self.gram.factor.solve(self.gram.G[:m, :m], self.bound, r) / self.gram.share
