"""Intervals from the profile of a likelihood: all values of a weight that a likelihood-ratio test does not reject.

The profile of a linear function ``cᵀx`` is ``D(v) = 2 (min {f(x): cᵀx = cᵀx̂ + v} − f(x̂))``; an interval ends
where it reaches the quantile q of χ²₁. Reference: D. J. Venzon and S. H. Moolgavkar, A method for computing
profile-likelihood-based confidence intervals, Applied Statistics 37 (1988). For comparison with R there are also the
ends that its ``confint`` interpolates on a grid, right to about four digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg
from scipy.interpolate import make_interp_spline

from oddsmith.errors import InvalidInputError
from oddsmith.inference.fit_record import FitRecord
from oddsmith.inference.summary import normal_quantile
from oddsmith.likelihood.firth import FirthObjective
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.separation import runs_away
from oddsmith.numerics import Array
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.constrained import Evaluate, KKTFactor, Minimum, minimise

LAST_STEP = 1e-6  # A step this short (in standard errors) is the last: convergence is quadratic.
FARTHEST = 2.0**24  # Maximum distance of an end, in standard errors (or units of Wald's interval).
SHORTEST = 2.0**-12
SAME_CURVATURE = 0.2
"""Where an end and the curvature there are Wald's but for this share, there is no other branch to look for."""
OTHER_BRANCH = 1e-6  # A minimum lower than this is another one.
AT_OPTIMUM = 1e-3  # Farther than this from the optimum (standard errors, per root of their number) is not at it.
GRID_STEPS = 9  # Most steps to a side of the grid on which R interpolates a profile.


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

        At x the quadratic model of f, minimised subject to ``cᵀp = δ``, is ``f − ½ gᵀH⁻¹g + ½ (δ + cᵀH⁻¹g)² / cᵀH⁻¹c``.
        Each iteration (one pass) solves for the δ at which it is f(x̂) + q/2, and goes there.
        """
        e, v, last = self.best, 0.0, np.inf
        A = c[None, :]
        for _ in range(12):
            kkt = KKTFactor.of(e.dense_hessian, A)
            if not (kkt.definite and kkt.factor.kept.all()):
                return None
            y = kkt.factor.solve(e.gradient)
            k, slope = float(kkt.schur[0, 0]), float(c @ y)
            under = k * (self.q - 2.0 * (e.value - self.best.value) + float(e.gradient @ y))
            if not under > 0.0:
                return None
            delta = side * float(np.sqrt(under)) - slope
            p = kkt.step(e.gradient, np.array([delta]))
            size = float(np.sqrt(max(float(p @ (e.dense_hessian @ p)), 0.0)))
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
        """Return the end by Newton's method on √D in a bracket: constrained fits, each from the nearest before it."""
        x, around, reached = self.best.w, self.best, 0.0
        known: list[Minimum | ObjectiveValue] = [self.best]
        if self.anchor is not None:
            around, reached = self.anchor, float(c @ x)
            known = [minimise(self.evaluate, self.anchor, c[None, :], tol=self.tol, max_iter=200)]
        # The search begins at Wald's end; without a minimum at that of the origin, or at the origin if it is farther.
        wald = float(np.sqrt(KKTFactor.of(around.dense_hessian, c[None, :]).schur[0, 0] * self.q))
        v = side * max(wald, -side * reached)
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
            new, root = np.nan, float(np.sqrt(max(D, 0.0)))
            if found is not None:
                known.append(found)
                # The tangent of √D has the multiplier of the constraint over √D as its slope.
                slope = side * float(found.kkt.multiplier(found.e.gradient)[0])
                if slope > 0.0 and root > 0.0:
                    new = abs(v) - (root - float(np.sqrt(self.q))) * root / slope
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
        around = KKTFactor.of(self.best.dense_hessian, A)
        unit = float(around.schur[0, 0])
        if max(abs(end.kkt.schur[0, 0] / unit - 1.0), abs(v**2 / (unit * self.q) - 1.0)) <= SAME_CURVATURE:
            return None  # the profile is almost Wald's parabola
        starts = [x + around.step(np.zeros_like(x), np.array([v]))]
        if c @ x != 0.0:
            starts.append(x * (1.0 + v / float(c @ x)))
        inside = linalg.null_space(np.vstack([A, np.eye(len(x))[x == 0.0]]))  # weights that are fixed are zero
        curvature, directions = np.linalg.eigh(inside.T @ end.e.dense_hessian @ inside)
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
            kkt = near.kkt if isinstance(near, Minimum) else KKTFactor.of(e.dense_hessian, A)
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


def objective_of(fit: FitRecord) -> FoldObjective:
    """Return the objective of a fit again, in its coordinates."""
    return make_objective(fit.problem, fit.state.coordinates)[0].restricted(fit.state.free)


def make_profiler(fit: FitRecord, q: float) -> Profiler:
    """Return the profiler of a fit; refuse rows that are not those of the fit."""
    objective, x = objective_of(fit), fit.state.x.ravel()
    # Where the Hessian may be indefinite, the expected one leads the way.
    evaluate: Evaluate = partial(objective.evaluate, order=2, expected=not objective.convex)
    if fit.problem.jeffreys:
        evaluate = FirthObjective(objective).evaluate
    e = evaluate(x)
    profiler = Profiler(evaluate=evaluate, best=e, q=q, exact=objective.convex and not fit.problem.jeffreys)
    fit.state.require_same_rows(e.log_likelihood)
    if fit.separation is None:
        decrement = e.factor().norm(e.gradient)
        if not decrement <= AT_OPTIMUM * np.sqrt(len(x)):
            raise InvalidInputError(
                f"This needs the optimum of the likelihood, and the weights are {decrement:.3g} standard errors from "
                "it: the fit stopped early. Fit again with solver='newton', or with a larger max_iter."
            )
        return profiler
    anchor = profiler.evaluate(np.zeros_like(x))
    profiler = replace(profiler, anchor=anchor)
    limit = minimise(profiler.evaluate, anchor, np.zeros((0, len(x))), tol=profiler.tol, max_iter=200)
    return replace(profiler, best=replace(e, value=min(e.value, limit.e.value)))


def profile_ends(fit: FitRecord, level: float, errors: Array | None = None) -> tuple[Array, Array]:
    """Return the lower and upper ends of the profile intervals of the reported weights.

    With ``errors`` (the standard errors) they are interpolated on a grid, as in R.
    """
    state, weights = fit.state, fit.weights
    if errors is not None and fit.separation is not None:
        raise InvalidInputError("The classes are separated, and intervals='confint' needs estimates: use 'profile'.")
    profiler = make_profiler(fit, normal_quantile(level) ** 2)
    ends = np.full((2, len(weights.terms)), np.nan)
    for i in np.flatnonzero(~weights.aliased):
        c = np.zeros(state.x.size)
        c[state.kept] = weights.J[i]
        if errors is not None:
            ends[:, i] = weights.estimate[i] + interpolated_ends(profiler, c, float(errors[i]), level)
            continue
        for row, side in enumerate((-1, 1)):
            infinite = not profiler.existing and _runs_away(fit, side * c)
            ends[row, i] = side * np.inf if infinite else weights.estimate[i] + profiler.end(c, side)
    return ends[0], ends[1]


def _runs_away(fit: FitRecord, c: Array) -> bool:
    """Whether separated classes let ``cᵀx`` go to infinity."""
    state, coordinates, source = fit.state, fit.state.coordinates, fit.problem.memory_source
    inside, block = slice(None) if source.s is None else source.s > 0, source.block(0, source.n_rows)
    dense = block.Phi.dense()[inside]
    Z = np.column_stack([np.ones(len(dense)), (dense - coordinates.center) / coordinates.scale])
    # From the solver's contrasts to those against class 0, which the margins are about.
    towards: Array = np.asarray(np.linalg.solve(coordinates.T.T, c.reshape(state.x.shape)), dtype=np.float64)
    return runs_away(Z, block.t[inside], state.K, towards, np.asarray(state.free.all(axis=0)))


def interpolated_ends(profiler: Profiler, c: Array, error: float, level: float) -> Array:
    """Return where the interval of ``cᵀx`` ends, relative to the estimate, by the method of ``confint(glm)``.

    1. The signed root of the profile, at steps of a fifth of the normal quantile of level 1 − (1 − level)/4 (in
       standard errors), until it is beyond that quantile or nine steps are done.
    2. A cubic spline through these points, at three times as many places at equal distances.
    3. Linear interpolation between them.
    """
    farthest = normal_quantile(1.0 - (1.0 - level) / 4.0)
    values, roots = [0.0], [0.0]
    for side in (-1, 1):  # 1
        near: Minimum | ObjectiveValue = profiler.best
        for step in range(1, GRID_STEPS + 1):
            v = side * step * farthest / 5.0 * error
            found = profiler.fit(near, c, v)
            if found is None:
                break
            near = found
            values.append(v)
            roots.append(side * float(np.sqrt(max(2.0 * (found.e.value - profiler.best.value), 0.0))))
            if abs(roots[-1]) >= farthest:
                break
    order = np.argsort(values)
    x, y = np.array(values)[order], np.array(roots)[order]
    if len(x) < 4:
        raise InvalidInputError(
            "The profile could be followed to fewer than four points, too few for a spline: use intervals='profile'."
        )
    places = np.linspace(x[0], x[-1], 3 * len(x))
    heights = fmm_spline(x, y, places)  # 2
    cutoff, rising = normal_quantile(level), np.argsort(heights, kind="stable")
    return np.interp([-cutoff, cutoff], heights[rising], places[rising], left=np.nan, right=np.nan)  # 3


def fmm_spline(x: Array, y: Array, places: Array) -> Array:
    """Return the cubic spline of Forsythe, Malcolm and Moler through ``(x, y)``, R's default, at ``places``.

    Its third derivative at each end is that of the cubic through the four points there.
    """
    ends = [(3, 6.0 * np.polyfit(x[four] - x[four].mean(), y[four], 3)[0]) for four in (slice(4), slice(-4, None))]
    return np.asarray(make_interp_spline(x, y, bc_type=([ends[0]], [ends[1]]))(places))
