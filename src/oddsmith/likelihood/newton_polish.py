"""The last digits of a point by columns, for two classes: Newton steps over the weights that are not zero.

A gap within the tolerance leaves its square root of the weights. From there

1. activations in double precision, with the best intercept; the conditions of an optimum over the working set,
2. the Newton step over the columns that miss theirs, or have a weight, under the curvatures there: conjugate gradients,
   preconditioned by the factor of the products of the columns, so that a few products are enough,
3. go there, a weight that would change its sign to zero; end after a short step.
4. Residuals times all columns give the gap, and say which columns are missing from the working set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.two_classes import logistic_losses
from oddsmith.likelihood.column_descent import ColumnPoint
from oddsmith.likelihood.two_class_descent import FLAT, TwoClassDescent
from oddsmith.numerics import EPS, Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import ROUNDING
from oddsmith.solvers.truncated_newton import conjugate_gradients

ROUNDS = 4  # Times that columns are found missing, at most.
STEPS, INTERCEPT_STEPS = 8, 20  # Newton steps of a point, and of its intercept alone, at most.
DIGITS = 1e-10  # What may be left of the weights, relative to the largest, and missed of conditions, to their penalty.
LEAST_RESIDUAL, MOST_RESIDUAL = 1e-5, 0.1  # Of a system: products in single precision have about five digits.
PRODUCTS = 200  # Products of a system, at most.


def polished(descent: TwoClassDescent, at: ColumnPoint, penalty: Array) -> ColumnPoint:
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


def newton_steps(descent: TwoClassDescent, at: ColumnPoint, penalty: Array) -> tuple[ColumnPoint, Array]:
    """Return the optimum over the working set from a point near it, and the residuals there."""
    assert descent.columns is not None
    some, ridge = penalty[descent.chosen], descent.ridge[descent.chosen]
    x, b, best, short, residuals = at.weights_of(descent.chosen), float(at.b), at, False, at.theta
    for step in range(STEPS + 1):
        inner = descent.offset + descent.columns.activations(x)  # 1
        b, loss, r, h = with_best_intercept(descent, inner, b)
        value = loss + descent.penalty(x, penalty)
        if step and not value <= best.value + ROUNDING * abs(best.value):
            break
        best, residuals = replace(at, columns=descent.chosen, x=x, b=np.asarray(b), a=inner + b), r
        best.value, best.loss = value, loss
        if short or step == STEPS:
            break
        g = descent.columns.dots(r) + ridge * x
        bound = np.flatnonzero((x != 0.0) | (np.abs(g) > some))
        signs = np.where(x != 0.0, np.sign(x), -np.sign(g))[bound]
        missed = g[bound] + some[bound] * signs
        far = float(np.abs(missed / some[bound]).max(initial=0.0))
        if far <= DIGITS:
            break
        residual = float(np.clip(max(far, DIGITS / far), LEAST_RESIDUAL, MOST_RESIDUAL))
        d = PolishSystem.of(descent, bound, h).step(missed, residual)  # 2
        new = x[bound] - d
        kept = new * signs > 0.0
        away = float(np.abs(d).max() / max(np.abs(new).max(), 1e-300))
        short = bool(kept.all()) and away * max(away, residual) <= DIGITS
        x = x.copy()
        x[bound] = np.where(kept, new, 0.0)  # 3
    return best, residuals


def with_best_intercept(descent: TwoClassDescent, inner: Array, b: float) -> tuple[float, float, Array, Array]:
    """Return the intercept that is best beside activations, and the loss, residuals and curvatures there."""
    for _ in range(INTERCEPT_STEPS):
        loss, r, h = logistic_losses(inner + b, descent.sign, descent.s)
        slope, h = float(r.sum()), np.maximum(h, FLAT * descent.s)
        if not descent.intercept or abs(slope) <= 4.0 * EPS * float(np.abs(r).sum()):
            break
        b -= slope / float(h.sum())
    return b, loss, r, h


@dataclass(frozen=True, kw_only=True)
class PolishSystem:
    """The Hessian over the columns ``bound`` of the working set, under curvatures ``h``; the intercept at its best.

    ``diagonal`` is that of the Hessian where there is no factor of products to precondition by.
    """

    descent: TwoClassDescent
    bound: npt.NDArray[np.intp]
    h: Array
    diagonal: Array | None

    @classmethod
    def of(cls, descent: TwoClassDescent, bound: npt.NDArray[np.intp], h: Array) -> PolishSystem:
        """Return that of some columns of the working set."""
        assert descent.columns is not None
        diagonal = None
        if descent.gram is None or descent.gram.h is None:
            ridge = descent.ridge[descent.chosen]
            diagonal = descent.columns.model(h, ridge, centred=descent.intercept).diagonal[bound]
            diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
        return cls(descent=descent, bound=bound, h=h, diagonal=diagonal)

    def step(self, missed: Array, residual: float) -> Array:
        """Return the inverse of the Hessian times ``missed``, to a relative residual."""
        start = ObjectiveValue(w=missed, value=0.0, log_likelihood=0.0, gradient=missed)
        return conjugate_gradients(self, start, self, residual, PRODUCTS)

    def hessian_product(self, w: Array, d: Array) -> Array:
        """Return the Hessian times ``d``, where there are products in single precision."""
        descent, gram = self.descent, self.descent.gram if self.diagonal is None else None
        assert descent.columns is not None
        whole = np.zeros(len(descent.chosen))
        whole[self.bound] = d
        z = descent.columns.activations(whole) if gram is None else gram.moved(whole)
        u = self.h * (z - (self.h @ z) / self.h.sum() if descent.intercept else z)
        product = descent.columns.dots(u) if gram is None else gram.slopes(u)
        return np.asarray(product[self.bound] + descent.ridge[descent.chosen][self.bound] * d)

    def solve(self, r: Array) -> Array:
        """Precondition a residual."""
        if self.diagonal is not None:
            return r / self.diagonal
        gram = self.descent.gram
        assert gram is not None
        m = len(gram.chosen)
        return gram.factor.solve(gram.G[:m, :m], self.bound, r) / gram.share
