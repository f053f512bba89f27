"""Intervals from the profile of a likelihood: all values of a weight that a likelihood-ratio test does not reject.

The profile of a linear function ``cᵀx`` is ``D(v) = 2 (min {f(x): cᵀx = cᵀx̂ + v} − f(x̂))``; an interval ends
where it reaches the quantile q of χ²₁. Reference: D. J. Venzon and S. H. Moolgavkar, A method for computing
profile-likelihood-based confidence intervals, Applied Statistics 37 (1988).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.constrained import Evaluate, KKTFactor, Minimum, minimise

LAST_STEP = 1e-6
"""A step this short (in standard errors) is the last: convergence is quadratic."""
FARTHEST = 2.0**24
"""How many standard errors (or units of Wald's interval) away an end is looked for."""
SHORTEST = 2.0**-12
SAME_CURVATURE = 0.2
"""Where an end and the curvature there are Wald's but for this share, there is no other branch to look for."""
OTHER_BRANCH = 1e-6
"""A minimum lower than this is another one."""


@dataclass(frozen=True, kw_only=True)
class Profiler:
    """Finds the ends of profile intervals of an objective around its minimum ``best``.

    ``exact`` says that ``evaluate`` gives the Hessian itself rather than something close. Where no minimum exists,
    because the classes are separated, ``best`` has the value that cannot be fallen below, and ``anchor`` is the origin,
    from which constrained fits begin: where weights ran off to there is no curvature to go by.
    """

    evaluate: Evaluate
    best: ObjectiveValue
    q: float
    exact: bool = True
    anchor: ObjectiveValue | None = None

    @property
    def existing(self) -> bool:
        """Whether there is a minimum."""
        return self.anchor is None

    @property
    def tol(self) -> float:
        """The decrement at which a constrained fit ends; where weights run away, D is then right to its square."""
        return 1e-9 if self.existing else 2e-5

    def end(self, c: Array, side: int) -> float:
        """Return how far from the estimate the interval of ``cᵀx`` ends on a side (±1): a signed number, or ±∞.

        Steps straight for the end first; where these go astray, it is looked for by constrained fits.
        """
        found = self._venzon_moolgavkar(c, side) if self.exact and self.existing else None
        return self._bracketed_newton(c, side) if found is None else found

    def _venzon_moolgavkar(self, c: Array, side: int) -> float | None:
        """Return the end by the method of Venzon and Moolgavkar, or None if it does not settle.

        At x the quadratic model of f, minimised subject to ``cᵀp = δ``, is
        ``f − ½ gᵀH⁻¹g + ½ (δ + cᵀH⁻¹g)² / cᵀH⁻¹c``. Each iteration (one pass) solves for the δ at which it is
        f(x̂) + q/2, and goes there.
        """
        e, v, last = self.best, 0.0, np.inf
        A = c[None, :]
        for _ in range(12):
            assert e.hessian is not None
            kkt = KKTFactor.of(e.hessian, A)
            if not (kkt.definite and kkt.factor.kept.all()):
                return None
            y = kkt.factor.solve(e.gradient)
            k, slope = float(kkt.schur[0, 0]), float(c @ y)
            under = k * (self.q - 2.0 * (e.value - self.best.value) + float(e.gradient @ y))
            if not under > 0.0:
                return None
            delta = side * float(np.sqrt(under)) - slope
            p = kkt.step(e.gradient, np.array([delta]))
            size = float(np.sqrt(max(float(p @ (e.hessian @ p)), 0.0)))
            if not size < max(last, 2.0 * np.sqrt(self.q)):
                return None
            v, last = v + delta, size
            if size <= LAST_STEP:
                return v if side * v > 0.0 else None
            e = self.evaluate(e.w + p)
            if not np.isfinite(e.value):
                return None
        return None

    def _bracketed_newton(self, c: Array, side: int) -> float:
        """Return the end by constrained fits: Newton's method on √D, kept inside a bracket.

        Each fit begins at the nearest one before it.
        """
        x, v = self.best.w, self._initial_distance(c, side)
        known: list[Minimum | ObjectiveValue] = [self.best]
        if self.anchor is not None:
            known = [minimise(self.evaluate, self.anchor, c[None, :], tol=self.tol, max_iter=200)]
        inside, outside, start = 0.0, np.inf, v
        close = 1e-11 if self.existing else 1e-8
        for _ in range(100):
            near = min(known, key=lambda point: abs(float(c @ (_weights_of(point) - x)) - v))
            found = self.fit(near, c, v)
            D = np.inf if found is None else 2.0 * (found.e.value - self.best.value)
            inside, outside = (inside, abs(v)) if D > self.q else (abs(v), outside)
            if abs(D - self.q) <= close * max(1.0, self.q):
                found = self._find_other_branch(found, c, v)
                if found is None:
                    return v
                known, inside, outside = [], abs(v), np.inf
                D = 2.0 * (found.e.value - self.best.value)
            if np.isinf(outside) and inside >= FARTHEST * abs(start):
                return side * np.inf
            new = np.nan
            if found is not None:
                known.append(found)
                new = self._newton_on_root(found, c, side, abs(v), D)
            if np.isinf(outside):
                new = float(np.clip(new, 1.1 * inside, 8.0 * inside)) if np.isfinite(new) else 2.0 * inside
            elif not inside < new < outside:
                new = 0.5 * (inside + outside)
            if abs(new - abs(v)) <= 1e-12 * new:
                return side * new
            v = side * new
        return float("nan")  # no number is better than a wrong one

    def _find_other_branch(self, end: Minimum | None, c: Array, v: float) -> Minimum | None:
        """Return a minimum with ``cᵀ(x − x̂) = v`` that is inside the interval, although its ``end`` was found there.

        A penalised likelihood may have several along its profile. Those are looked at that are reached straight from
        the estimate, from the point on the ray through it, and from both sides of the end in the two directions
        of least curvature.
        """
        if self.exact or end is None:
            return None
        x, A = self.best.w, c[None, :]
        assert self.best.hessian is not None and end.e.hessian is not None
        around = KKTFactor.of(self.best.hessian, A)
        unit = float(around.schur[0, 0])
        if max(abs(end.kkt.schur[0, 0] / unit - 1.0), abs(v**2 / (unit * self.q) - 1.0)) <= SAME_CURVATURE:
            return None  # the profile is almost Wald's parabola
        starts = [x + around.step(np.zeros_like(x), np.array([v]))]
        if c @ x != 0.0:
            starts.append(x * (1.0 + v / float(c @ x)))
        inside = linalg.null_space(np.vstack([A, np.eye(len(x))[x == 0.0]]))  # weights that are fixed are zero
        curvature, directions = np.linalg.eigh(inside.T @ end.e.hessian @ inside)
        for i in np.flatnonzero(curvature > 0.0)[:2]:
            step = inside @ directions[:, i] / np.sqrt(curvature[i])
            starts += [end.e.w + far * step for far in (-6.0, -3.0, 3.0, 6.0)]
        with np.errstate(over="ignore", invalid="ignore"):  # some starts are far out
            for e in map(self.evaluate, starts):
                if np.isfinite(e.value):
                    found = minimise(self.evaluate, e, A, tol=self.tol, max_iter=100, exact=False)
                    if found.converged and 2.0 * (found.e.value - self.best.value) < self.q - OTHER_BRANCH:
                        return found
        return None

    def _initial_distance(self, c: Array, side: int) -> float:
        """Return where the search begins: at Wald's end, with the curvature of the origin if there is no minimum.

        Then it begins at the origin itself if that is farther off, on this side.
        """
        around = self.best if self.anchor is None else self.anchor
        assert around.hessian is not None
        unit = float(np.sqrt(KKTFactor.of(around.hessian, c[None, :]).schur[0, 0] * self.q))
        reached = 0.0 if self.anchor is None else float(c @ self.best.w)
        return side * max(unit, -side * reached)

    def _newton_on_root(self, found: Minimum, c: Array, side: int, size: float, D: float) -> float:
        """Return the root of √D = √q on its tangent, whose slope is the multiplier of the constraint over √D."""
        slope = side * float(found.kkt.multiplier(found.e.gradient)[0])
        root = float(np.sqrt(max(D, 0.0)))
        return size - (root - float(np.sqrt(self.q))) * root / slope if slope > 0.0 and root > 0.0 else np.nan

    def fit(self, near: Minimum | ObjectiveValue, c: Array, v: float) -> Minimum | None:
        """Return the minimum with ``cᵀ(x − x̂) = v``, from a point near it; None if the way there ends."""
        return self.fit_constrained(near, c[None, :], np.array([v]), self.best.w)

    def fit_constrained(
        self,
        near: Minimum | ObjectiveValue,
        A: Array,
        v: Array,
        around: Array,
        *,
        shortest: float = SHORTEST,
        max_iter: int = 100,
    ) -> Minimum | None:
        """Return the minimum with ``A (x − around) = v``, from a point near it; None if the way there ends.

        A step that leaves the domain of the objective, or from which no minimum is found, is shortened, and taken again
        from the minimum there.
        """
        share = 1.0
        while share > shortest:
            e = near if isinstance(near, ObjectiveValue) else near.e
            assert e.hessian is not None
            kkt = near.kkt if isinstance(near, Minimum) else KKTFactor.of(e.hessian, A)
            f = self.evaluate(e.w + kkt.step(np.zeros_like(e.w), share * (v - A @ (e.w - around))))
            found = None
            if np.isfinite(f.value):
                found = minimise(self.evaluate, f, A, tol=self.tol, max_iter=max_iter, exact=self.exact)
            if found is None or not found.converged:
                share *= 0.5
            elif share == 1.0:
                return found
            else:
                near, share = found, min(1.0, 2.0 * share)
        return None


def _weights_of(point: Minimum | ObjectiveValue) -> Array:
    return point.w if isinstance(point, ObjectiveValue) else point.e.w
