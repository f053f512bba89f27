"""Newton's method under linear equality constraints, for profiles and likelihood-ratio tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from oddsmith.numerics import EPS, Array, SpdFactor, factor_spd
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.lbfgs import Pairs, add_pair, two_loop
from oddsmith.solvers.line_search import backtrack

Evaluate = Callable[[Array], ObjectiveValue]
"""Value, gradient and a positive definite (approximate) Hessian at a point."""

ROUNDING = 1e-12  # Relative rounding of a value that is the sum of a likelihood and a determinant.


@dataclass(frozen=True)
class KKTFactor:
    """The factored optimality conditions of ``min gᵀp + ½ pᵀHp`` subject to ``A p = v``.

    ``HinvAt`` is ``H⁻¹Aᵀ`` and ``schur`` the Schur complement ``A H⁻¹ Aᵀ``.
    """

    factor: SpdFactor
    A: Array
    HinvAt: Array
    schur: Array

    @property
    def definite(self) -> bool:
        """Whether the Schur complement is positive definite; far out, no curvature may be left."""
        return bool(np.isfinite(self.schur).all() and factor_spd(self.schur, tol=0.0).kept.all())

    @classmethod
    def of(cls, H: Array, A: Array) -> KKTFactor:
        """Factor the Hessian for the constraints ``A`` (m × n)."""
        factor = factor_spd(H, tol=0.0)
        HinvAt = factor.solve(np.ascontiguousarray(A.T))
        return cls(factor, A, HinvAt, A @ HinvAt)

    def step(self, g: Array, v: Array | None = None) -> Array:
        """Return the minimiser p."""
        y = self.factor.solve(g)
        wanted = self.A @ y if v is None else v + self.A @ y
        if not len(wanted):
            return -y
        return np.asarray(self.HinvAt @ np.linalg.solve(self.schur, wanted) - y, dtype=np.float64)

    def quasi_newton_step(self, g: Array, pairs: Pairs) -> Array:
        """Return the step with the L-BFGS corrections of the last pairs, with rounding errors across ``A`` removed."""
        p = -two_loop(g, pairs, lambda q: -self.step(q))
        return p - self.HinvAt @ np.linalg.solve(self.schur, self.A @ p) if len(self.A) else p

    def multiplier(self, g: Array) -> Array:
        """Return λ with ``g ≈ Aᵀ λ``: the derivative of the minimum in the value of the constraint."""
        return np.asarray(np.linalg.solve(self.schur, self.A @ self.factor.solve(g)), dtype=np.float64)

    def within(self, g: Array) -> Array:
        """Return ``g − Aᵀ λ``, which has the same steps; at a minimum ``g`` itself is large, and so is its rounding."""
        return np.asarray(g - self.A.T @ self.multiplier(g), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The point reached, its decrement (in standard errors), and whether that is below the tolerance."""

    e: ObjectiveValue
    decrement: float
    converged: bool
    iterations: int
    kkt: KKTFactor


def minimise(
    evaluate: Evaluate,
    e: ObjectiveValue,
    A: Array,
    *,
    tol: float,
    max_iter: int,
    exact: bool = True,
    on_step: Callable[[ObjectiveValue, float], None] = lambda e, step: None,
) -> Minimum:
    """Minimise over the points with the same ``A x`` as the start (A may have no rows: no constraint).

    Each iteration
      1. solves for the Newton direction within the constraints; if the Hessian is not ``exact``, the last steps correct
         it,
      2. stops when the decrement √(gᵀp) is below ``tol``, or rounding keeps it from falling (if weights diverge, the
         remaining decrease of the value is about the square of the decrement),
      3. shortens the step until the value falls, and evaluates there.
    """
    pairs: Pairs = []
    decrements: list[float] = []
    for iteration in range(max_iter + 1):
        kkt = KKTFactor.of(e.dense_hessian, A)
        reached = partial(Minimum, e=e, iterations=iteration, kkt=kkt)
        if not kkt.definite:
            return reached(decrement=np.inf, converged=False)
        g = kkt.within(e.gradient)
        newton = kkt.step(g)  # 1
        # A direction without curvature is left out of the step, not out of the decrement.
        uncurved = float(np.abs(g[~kkt.factor.kept]).sum())
        decrements.append(float(np.sqrt(max(-float(newton @ g), 0.0) + uncurved)))
        possible_fall, noise = 0.5 * decrements[-1] ** 2, 64.0 * EPS * abs(e.value)
        if decrements[-1] <= tol or (possible_fall <= noise and _falls_no_more(decrements)):  # 2
            return reached(decrement=decrements[-1], converged=True)
        first = newton if exact else kkt.quasi_newton_step(e.gradient, pairs)
        moved = _line_search(evaluate, e, first) or (None if exact else _line_search(evaluate, e, newton))  # 3
        if moved is None or iteration == max_iter:
            return reached(decrement=decrements[-1], converged=moved is None and possible_fall <= 1e3 * noise)
        f, step = moved
        add_pair(pairs, f.w - e.w, f.gradient - e.gradient)
        e = f
        on_step(e, step)
    raise AssertionError("unreachable")


def _falls_no_more(decrements: list[float]) -> bool:
    return min(decrements[-3:]) > 0.5 * min(decrements[:-3], default=np.inf)


def _line_search(evaluate: Evaluate, e: ObjectiveValue, p: Array) -> tuple[ObjectiveValue, float] | None:
    """Return the first of the points w + p, w + p/2, … at which the value falls enough, or None.

    If rounding hides the decrease of the value, the slope decides: it must not have become as steep in the other
    direction.
    """
    slope, noise = float(p @ e.gradient), ROUNDING * max(1.0, abs(e.value))

    def falls(f: ObjectiveValue, step: float) -> bool:
        enough = f.value <= e.value + policy.POLICY.armijo * step * slope
        level = f.value <= e.value + noise and float(p @ f.gradient) <= 0.8 * abs(slope)
        return bool(np.isfinite(f.value) and (enough or level))

    return backtrack(lambda step: evaluate(e.w + step * p), falls) if slope < 0.0 else None
