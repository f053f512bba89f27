"""Newton's method under linear equality constraints, for profiles and likelihood-ratio tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from oddsmith.numerics import EPS, Array, SpdFactor, factor_spd
from oddsmith.solvers.base import ObjectiveValue

Evaluate = Callable[[Array], ObjectiveValue]
"""Value, gradient and a positive definite Hessian (or what stands for it) at a point."""

ARMIJO = 1e-4
MEMORY = 12
SMALLEST_STEP = 2.0**-30
ROUNDING = 1e-12
"""Of a value that is the sum of a likelihood and a determinant."""


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
        """Whether the constraints can be moved along: far out, no curvature may be left to say how."""
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

    def project(self, p: Array) -> Array:
        """Return a direction without what rounding has put across the constraints."""
        return p - self.HinvAt @ np.linalg.solve(self.schur, self.A @ p) if len(self.A) else p

    def multiplier(self, g: Array) -> Array:
        """Return λ with ``g ≈ Aᵀ λ``: how fast the minimum rises with the value of the constraint."""
        return np.asarray(np.linalg.solve(self.schur, self.A @ self.factor.solve(g)), dtype=np.float64)


@dataclass
class CurvaturePairs:
    """The last steps and gradient changes of limited-memory BFGS, which correct an approximate Hessian."""

    pairs: list[tuple[Array, Array, float]] = field(default_factory=list)

    def add(self, step: Array, change: Array) -> None:
        """Keep a step, if the gradient rose along it by more than rounding."""
        curvature = float(step @ change)
        if curvature > 1e-8 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs = [*self.pairs, (step, change, curvature)][-MEMORY:]

    def direction(self, g: Array, kkt: KKTFactor) -> Array:
        """Return the quasi-Newton direction: the KKT step with the corrections of the pairs."""
        q, shares = g.copy(), []
        for s, y, curvature in reversed(self.pairs):
            shares.append(float(s @ q) / curvature)
            q = q - shares[-1] * y
        p = kkt.step(q)
        for (s, y, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            p = p - s * (share + float(y @ p) / curvature)
        return kkt.project(p)


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The point reached, the decrement there (in standard errors), and whether that is below the tolerance."""

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
    on_step: Callable[[ObjectiveValue, float], None] | None = None,
) -> Minimum:
    """Minimise over the points with the same ``A x`` as the start (A may have no rows: no constraint).

    Each iteration
      1. solves for the Newton direction inside the constraints; where the Hessian is not ``exact`` the last steps
         correct it,
      2. stops when the decrement √(gᵀp) is below ``tol``, or no longer falls for rounding (where weights run away, what
         the value can still fall is about the square of the decrement),
      3. shortens the step until the value falls, and evaluates there.
    """
    pairs, decrements = CurvaturePairs(), []
    for iteration in range(max_iter + 1):
        assert e.hessian is not None
        kkt = KKTFactor.of(e.hessian, A)
        reached = partial(Minimum, e=e, iterations=iteration, kkt=kkt)
        if not kkt.definite:
            return reached(decrement=np.inf, converged=False)
        p = kkt.step(e.gradient)  # 1
        # A direction without curvature is left out of the step, not out of the decrement.
        uncurved = float(np.abs(e.gradient[~kkt.factor.kept]).sum())
        decrements.append(float(np.sqrt(max(-float(p @ e.gradient), 0.0) + uncurved)))
        if not exact:
            p = pairs.direction(e.gradient, kkt)
        noise = 64.0 * EPS * abs(e.value)
        small = decrements[-1] <= tol
        stuck = 0.5 * decrements[-1] ** 2 <= noise and min(decrements[-3:]) > 0.5 * min(decrements[:-3], default=np.inf)
        if small or stuck:  # 2
            return reached(decrement=decrements[-1], converged=True)
        moved = _search(evaluate, e, p) or (None if exact else _search(evaluate, e, kkt.step(e.gradient)))  # 3
        if moved is None or iteration == max_iter:
            done = moved is None and 0.5 * decrements[-1] ** 2 <= 1e3 * noise
            return reached(decrement=decrements[-1], converged=done)
        f, step = moved
        if not exact:
            pairs.add(f.w - e.w, f.gradient - e.gradient)
        e = f
        if on_step is not None:
            on_step(e, step)
    raise AssertionError("unreachable")


def _search(evaluate: Evaluate, e: ObjectiveValue, p: Array) -> tuple[ObjectiveValue, float] | None:
    """Return the first of the points w + p, w + p/2, … at which the value falls enough, or None.

    Where a fall would drown in the rounding of the value, the slope has to tell: it must not have turned as steep the
    other way.
    """
    slope = float(p @ e.gradient)
    if not slope < 0.0:
        return None
    step, noise = 1.0, ROUNDING * max(1.0, abs(e.value))
    while step > SMALLEST_STEP:
        f = evaluate(e.w + step * p)
        if np.isfinite(f.value) and (
            f.value <= e.value + ARMIJO * step * slope
            or (f.value <= e.value + noise and float(p @ f.gradient) <= 0.8 * abs(slope))
        ):
            return f, step
        step *= 0.5
    return None
