"""Intervals from the profile of a likelihood: all values of a weight that a likelihood-ratio test does not reject.

The profile of a linear function ``cᵀx`` is ``D(v) = 2 (min {f(x): cᵀx = cᵀx̂ + v} − f(x̂))``; an interval ends
where it reaches the quantile q of χ²₁. Reference: D. J. Venzon and S. H. Moolgavkar, A method for computing
profile-likelihood-based confidence intervals, Applied Statistics 37 (1988).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.inference.constrained import Evaluate, Minimum, Tangent, minimise
from oddsmith.numerics import Array
from oddsmith.solvers.base import Evaluation

LAST_STEP = 1e-6
"""A step this short (in standard errors) is the last: convergence is quadratic."""
FARTHEST = 2.0**24
"""How many standard errors (or units of Wald's interval) away an end is looked for."""
SHORTEST = 2.0**-20


@dataclass(frozen=True)
class Profiler:
    """Finds the ends of profile intervals of an objective around its minimum ``best``.

    ``exact`` says that ``evaluate`` gives the Hessian itself rather than something close. ``existing`` is false where
    the classes are separated and ``best`` is only near the value that cannot be fallen below.
    """

    evaluate: Evaluate
    best: Evaluation
    q: float
    exact: bool = True
    existing: bool = True

    def end(self, c: Array, side: int) -> float:
        """Return how far from the estimate the interval of ``cᵀx`` ends on a side (±1): a signed number, or ±∞.

        Steps straight for the end first; where these go astray, it is looked for by constrained fits.
        """
        found = self._straight(c, side) if self.exact and self.existing else None
        return self._searched(c, side) if found is None else found

    def _straight(self, c: Array, side: int) -> float | None:
        """Return the end by the method of Venzon and Moolgavkar, or None if it does not settle.

        At x the quadratic model of f, minimised subject to ``cᵀp = δ``, is
        ``f − ½ gᵀH⁻¹g + ½ (δ + cᵀH⁻¹g)² / cᵀH⁻¹c``. Each iteration (one pass) solves for the δ at which it is
        f(x̂) + q/2, and goes there.
        """
        e, v, last = self.best, 0.0, np.inf
        A = c[None, :]
        for _ in range(12):
            assert e.hessian is not None
            tangent = Tangent.of(e.hessian, A)
            if not tangent.definite:
                return None
            y = tangent.factor.solve(e.gradient)
            k, slope = float(tangent.gram[0, 0]), float(c @ y)
            under = k * (self.q - 2.0 * (e.value - self.best.value) + float(e.gradient @ y))
            if not under > 0.0:
                return None
            delta = side * float(np.sqrt(under)) - slope
            p = tangent.step(e.gradient, np.array([delta]))
            size = float(np.sqrt(max(p @ (e.hessian @ p), 0.0)))
            if not size < max(last, 2.0 * np.sqrt(self.q)):
                return None
            v, last = v + delta, size
            if size <= LAST_STEP:
                return v if side * v > 0.0 else None
            e = self.evaluate(e.w + p)
            if not np.isfinite(e.value):
                return None
        return None

    def _searched(self, c: Array, side: int) -> float:
        """Return the end by constrained fits: Newton's method on √D, kept inside a bracket."""
        A = c[None, :]
        assert self.best.hessian is not None
        unit = float(np.sqrt(Tangent.of(self.best.hessian, A).gram[0, 0] * self.q))
        reached = abs(float(c @ self.best.w))
        if not self.existing and reached > 0.0:  # where weights ran off to, errors are no measure of anything
            unit = min(unit, 0.5 * reached)
        inside, outside, v = 0.0, np.inf, side * unit
        near: Minimum | Evaluation = self.best
        start = v
        for _ in range(200):
            found = self.fit(near, c, v)
            D = np.inf if found is None else 2.0 * (found.e.value - self.best.value)
            if found is None or D > self.q:
                outside = abs(v)
            else:
                inside, near = abs(v), found
            if found is not None and abs(D - self.q) <= 1e-11 * max(1.0, self.q):
                return v
            if np.isfinite(outside) and outside - inside <= 1e-11 * outside:
                return side * outside
            new = np.nan
            if found is not None and D > 0.0:
                slope = side * float(found.tangent.multiplier(found.e.gradient)[0])
                root = float(np.sqrt(D))
                if slope > 0.0:
                    new = abs(v) - (root - float(np.sqrt(self.q))) * root / slope
            if np.isinf(outside):
                if inside >= FARTHEST * abs(start):
                    return side * np.inf
                new = float(np.clip(new, 1.1 * inside, 8.0 * inside)) if np.isfinite(new) else 2.0 * inside
            elif not (inside < new < outside):
                new = 0.5 * (inside + outside)
            v = side * new
        return v

    def fit(self, near: Minimum | Evaluation, c: Array, v: float) -> Minimum | None:
        """Return the minimum with ``cᵀ(x − x̂) = v``, from a point near it; None if the way there ends.

        A step that leaves the domain of the objective is shortened, and taken again from the minimum there.
        """
        A, share = c[None, :], 1.0
        while share > SHORTEST:
            e = near if isinstance(near, Evaluation) else near.e
            assert e.hessian is not None
            tangent = near.tangent if isinstance(near, Minimum) else Tangent.of(e.hessian, A)
            left = np.array([v]) - A @ (e.w - self.best.w)
            f = self.evaluate(e.w + tangent.step(np.zeros_like(e.w), share * left))
            if not np.isfinite(f.value):
                share *= 0.5
                continue
            existing = self.existing
            near = minimise(self.evaluate, f, A, tol=1e-9, max_iter=200, exact=self.exact, flat=not existing)
            if not near.tangent.definite:
                return None
            if share == 1.0:
                return near
            share = min(1.0, 2.0 * share)
        return None
