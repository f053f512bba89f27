"""Proximal Newton: a smooth convex function plus a penalty that makes weights exactly zero.

The penalty is ``Σ_b strength_b ‖x_b‖`` over blocks of coordinates: the lasso where every block has one coordinate, the
group lasso elsewhere. A block of strength 0 is free.

1. Evaluate the smooth part: value, gradient and, if it is due, the Hessian.
2. Minimise the quadratic model plus the penalty: coordinate descent on the Hessian alone, without the data.
3. Bound the gap to the optimum by a point of the dual problem (`dual_gap`).
4. Go to that minimum, or part of the way if the objective does not fall.
5. Once the gap is small enough, stop as soon as it is near what the model says is left, or what rounding hides, and
   the weights have nine digits.

A Hessian that is not due is kept and corrected by the change of the gradient (BFGS), so that a step costs no more than
a gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.kernels.coordinate_descent import Blocks, bounds, descend
from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import Evaluates, ObjectiveValue

SLOW = 0.3  # A step that leaves more than this share of the violation asks for a new Hessian.
PRECISION = 1e-4  # The share of the violation that the minimum of a model may leave.
SWEEPS = 10  # Sweeps of coordinate descent before a Newton step over the coordinates that are not zero.
NEAR_ZERO = (
    1e-2  # Share of its squared norm to which a group falls along a step that then ends there, with the group at zero.
)
HALVINGS = 12  # Most halvings of a Newton step over groups, whose norms it takes for quadratic functions.
ROUNDING = 4.0 * EPS  # What rounding hides of an objective, relative to it.
PATIENCE = 5  # Steps in a row without a smaller gap, after which rounding is taken to be the reason.


@dataclass(frozen=True)
class SparsePenalty:
    """``Σ_b strength_b ‖x_b‖`` over ``blocks``, beside ``½ Σ ridge_j x_j²``, which is part of the smooth function.

    ``reach`` bounds the sizes of the optimum's free coordinates.
    """

    blocks: Blocks
    ridge: Array
    reach: float

    def value(self, x: Array) -> float:
        """Return the penalty at ``x``, without the ridge."""
        return float(self.blocks.strength @ self.blocks.norms(x))

    def scaled(self, factor: float) -> SparsePenalty:
        """Return the penalty times a factor, without the ridge."""
        blocks = replace(self.blocks, strength=self.blocks.strength * factor)
        return replace(self, blocks=blocks)


def violation(blocks: Blocks, x: Array, gradient: Array) -> float:
    """Return by how much the conditions of an optimum are missed at ``x``, where the smooth part has ``gradient``.

    >>> violation(Blocks.single(np.ones(2)), np.array([2.0, 0.0]), np.array([-0.5, 3.0]))
    2.0
    """
    norms, strength = blocks.norms(x), blocks.strength
    zero = norms == 0.0
    outside = (blocks.norms(gradient) - strength)[zero]
    pull = strength / np.where(zero, 1.0, norms)
    inside = np.abs(gradient[blocks.member] + blocks.of_members(pull) * x[blocks.member])[blocks.of_members(~zero)]
    return max(float(outside.max(initial=0.0)), float(inside.max(initial=0.0)))


def dual_gap(
    e: ObjectiveValue,
    penalty: SparsePenalty,
    change: Array | None = None,
    product: Array | None = None,
    cost: float = 1.0,
    slack: Array | None = None,
) -> float:
    """Return a bound of the objective at ``e`` less that at the optimum, from a feasible point of the dual problem.

    The residuals of the rows are a point of the dual: with ``g`` the gradient of the loss f, its value is
    ``f − xᵀg − Σ_b conjugate_b(g)``. The conjugate of a penalty without a ridge is infinite where ``‖g_b‖`` is above
    the strength; the residuals are shrunk until it is not, and the value of the loss's part shrinks no faster than they
    do, since its conjugate is convex and zero at zero.

    With ``change`` (d) and ``product`` (a Hessian of the loss times d) residuals are moved along d to first order.
    That costs ``½ dᵀHd`` times ``cost``; d is the step to the minimum of the quadratic model, where the conditions of
    an optimum hold. ``slack`` bounds the size of the product where it is not known and taken for zero.
    """
    x, blocks, ridge = e.w, penalty.blocks, penalty.ridge
    loss, g = -e.log_likelihood, e.gradient - penalty.ridge * e.w
    primal = loss + 0.5 * float(ridge @ x**2) + penalty.value(x)
    moved = 0.0
    if change is not None and product is not None:
        g = g + product
        moved = 0.5 * float(change @ product) * cost
    norms, strength, ridges = blocks.norms(g), blocks.strength, ridge[blocks.member[blocks.first[:-1]]]
    if slack is not None:
        norms = norms + blocks.norms(slack)
    free = (strength == 0.0) & (ridges == 0.0)
    bounded = (strength > 0.0) & (ridges == 0.0)
    with np.errstate(divide="ignore"):
        shrink = min(1.0, float(np.min(strength[bounded] / norms[bounded], initial=1.0)))
    members = blocks.of_members(~free)
    inner = float(x[blocks.member][members] @ g[blocks.member][members])
    loose = float(norms[free] @ (blocks.norms(x)[free] + penalty.reach))
    ridged = ridges > 0.0
    over = np.maximum(shrink * norms[ridged] - strength[ridged], 0.0)
    conjugate = float((over**2 / (2.0 * ridges[ridged])).sum())
    return primal - (shrink * (loss - moved - inner - loose) - conjugate)


def minimise_model(H: Array, gradient: Array, x: Array, blocks: Blocks, *, tol: float, rounds: int = 100) -> Array:
    """Return the minimum of ``gᵀd + ½ dᵀHd`` plus the penalty at ``x + d``, its conditions missed by ``tol`` at most.

    Rounds of coordinate descent find which blocks are zero; a Newton step over the others then ends where coordinates
    that depend on each other would crawl. What rounding leaves of a block, beside a copy of its columns, is zero.
    """
    x, r = x.copy(), gradient.copy()
    bound = bounds(H, blocks)
    for _ in range(rounds):
        descend(H, r, x, blocks, bound, tol=0.0, sweeps=SWEEPS)
        x = blocks.settled(x)
        if violation(blocks, x, r) <= tol:
            break
        _newton_on_support(H, r, x, blocks, bound)
        x = blocks.settled(x)
        if violation(blocks, x, r) <= tol:
            break
    norms = blocks.norms(x) * (blocks.strength > 0.0)
    rounding = (norms > 0.0) & (norms <= 16.0 * EPS * norms.max(initial=0.0))
    x[blocks.member[blocks.of_members(rounding)]] = 0.0
    return x


def _newton_on_support(H: Array, r: Array, x: Array, blocks: Blocks, bound: Array) -> None:
    """Move the coordinates that are not zero to the minimum of their signs, or until the first is zero."""
    norms = blocks.norms(x)
    live = blocks.of_members(((norms > 0.0) | (blocks.strength == 0.0)) & (bound > 0.0))
    which = blocks.member[live]
    safe = np.where(norms > 0.0, norms, 1.0)
    pull = blocks.of_members(np.where(norms > 0.0, blocks.strength / safe, 0.0))[live]
    A = H[np.ix_(which, which)]
    if not blocks.is_single:
        _add_curvature(A, x, which, blocks, live, pull)
    d = solve_near(A, -(r[which] + pull * x[which]), flat=True)
    whole = np.zeros_like(x)
    whole[which] = d
    for step in steps_along(x, whole, blocks):
        change = step[which] @ H[which]
        moved = x + step
        gain = step @ (r + 0.5 * change) + blocks.strength @ (blocks.norms(moved) - norms)
        if gain < 0.0:
            r += change
            x[:] = moved
            return


def steps_along(x: Array, d: Array, blocks: Blocks) -> Iterator[Array]:
    """Yield steps along ``d``: until the first block is zero, or whole; for groups shorter ones follow.

    The norm of a group is no quadratic function, so a step over groups may be too long.
    """
    sums = [(u * v)[blocks.member] for u, v in ((x, d), (d, d), (x, x))]
    xd, dd, xx = sums if blocks.is_single else [np.add.reduceat(each, blocks.first[:-1]) for each in sums]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -xd / dd
        near = (ratio > 0.0) & (ratio < 1.0) & (xx + ratio * xd <= NEAR_ZERO * xx) & (blocks.strength > 0.0)
    if near.any():
        b = int(np.argmin(np.where(near, ratio, np.inf)))
        step = ratio[b] * d
        own = blocks.member[blocks.first[b] : blocks.first[b + 1]]
        step[own] = -x[own]
        yield step
    if not (near.any() and blocks.is_single):
        yield d
    for k in range(0 if blocks.is_single else HALVINGS):
        yield d * 0.5 ** (k + 1)


def _add_curvature(
    A: Array, x: Array, which: npt.NDArray[np.int64], blocks: Blocks, live: npt.NDArray[np.bool_], pull: Array
) -> None:
    """Add the second derivative of the norms of blocks with several coordinates, in place."""
    sizes = np.diff(blocks.first)
    number = np.repeat(np.arange(len(sizes)), sizes)[live]
    edges = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    for start, stop in itertools.pairwise(edges):
        if sizes[number[start]] > 1 and pull[start] > 0.0:
            part = x[which[start:stop]]
            A[start:stop, start:stop] += pull[start] * (np.eye(len(part)) - np.outer(part, part) / (part @ part))


def solve_near(A: Array, b: Array, *, flat: bool = False) -> Array:
    """Return ``A⁻¹ b``, or that of a matrix a little above A where it has no inverse; zero if that is no solution.

    With ``flat`` it need not be one: along directions in which A vanishes the result is long.
    """
    size, found = float(np.diag(A).max(initial=1e-300)), None
    for little in (0.0, 1e-12, 1e-9, 1e-6):
        try:
            factor = linalg.cho_factor(A + little * size * np.eye(len(A)) if little else A, check_finite=False)
        except linalg.LinAlgError:
            continue
        d: Array = linalg.cho_solve(factor, b, check_finite=False)
        if np.isfinite(d).all() and np.abs(A @ d - b).max(initial=0.0) <= 1e-3 * np.abs(b).max(initial=0.0):
            return d
        if found is None and little and np.isfinite(d).all():
            found = d
    return found if flat and found is not None else np.zeros_like(b)


def corrected(H: Array, step: Array, change: Array) -> Array:
    """Return the Hessian changed so that it gives the ``change`` of the gradient along a ``step`` (BFGS).

    >>> corrected(np.eye(2), np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    Hs = H @ step
    along, curvature = float(step @ Hs), float(step @ change)
    if not (curvature > 1e-8 * along > 0.0):
        return H
    return H + np.stack([change / curvature, -Hs / along], axis=1) @ np.stack([change, Hs])


class SmoothObjective(Evaluates, Protocol):
    """The smooth part: a loss and perhaps a ridge."""

    @property
    def self_concordance(self) -> float:
        """How far a step of norm 1 can move the activations of a row against each other; infinite if not known."""


@dataclass(frozen=True, kw_only=True)
class SparseOptimum:
    """Where the descent ended: the evaluation of the smooth part, the objective, the bound of its gap, the model."""

    e: ObjectiveValue
    value: float
    gap: float
    H: Array
    iterations: int

    def converged(self, tol: float) -> bool:
        """Whether the gap is within a relative tolerance."""
        return self.gap <= tol * max(1.0, abs(self.value))


@dataclass(frozen=True, kw_only=True)
class ProximalNewton:
    """The descent. With ``exact`` every step has its own Hessian.

    With ``tight`` it ends where the gap is near what is left and weights have nine digits, not at the first gap within
    the tolerance. Then residuals are moved by ``curvature``: the Hessian at a point, or that of some of the rows.
    Without ``moves`` they never are.
    """

    name: str = "proximal-newton"
    exact: bool = True
    tol: float = 1e-8
    max_iter: int = 200
    moves: bool = True
    tight: bool = False
    curvature: Callable[[Array], ObjectiveValue] | None = None

    def minimise(
        self,
        objective: SmoothObjective,
        penalty: SparsePenalty,
        e: ObjectiveValue,
        H: Array,
        record: Callable[[ObjectiveValue, float], None] | None = None,
    ) -> SparseOptimum:
        """Return the minimum of ``objective + penalty`` as far as it was found from ``e``, with a Hessian near it."""
        value, missed, best, stalled, t = e.value + penalty.value(e.w), np.inf, np.inf, 0, 1.0
        last, bound, ending = np.inf, np.inf, Ending(objective=objective, penalty=penalty, curvature=self.curvature)
        for iteration in range(self.max_iter + 1):
            allowed, floor = self.tol * max(1.0, abs(value)), ROUNDING * abs(value)
            gap = min(dual_gap(e, penalty), bound)
            if record is not None:
                record(replace(e, value=value), t)
            fell = gap < 0.9 * best or value < last - 1e-9 * abs(last)
            best, stalled, last = min(gap, best), 0 if fell else stalled + 1, value
            certified = gap <= allowed
            if (certified and not self.tight) or iteration == self.max_iter or stalled > PATIENCE:
                break
            before, missed = missed, violation(penalty.blocks, e.w, e.gradient)
            if certified:  # 5
                gap = min(gap, ending.moved_gap(e)) if self.moves and gap > floor else gap
                target = model_minimum(H, e, penalty)
                left = max(model_fall(H, e, penalty, target), floor)
                ends = ending.reached(gap, left)
                ends = is_accurate(H, e.w, target, penalty, value) and (ends or gap <= 10.0 * left)
                if ends or ending.is_over:
                    break
            else:
                target = minimise_model(H, e.gradient, e.w, penalty.blocks, tol=PRECISION * missed)  # 2
                if self.moves and e.hessian is not None:
                    gap = min(gap, _moved_gap(objective, penalty, e, e, target))  # 3
            order = 2 if missed > SLOW * before and not certified else 1
            order = 2 if self.exact and (e.hessian is None or gap > allowed) else order
            found = _step(objective, penalty, e, target, value, order)  # 4
            if found is None:
                if e.hessian is not None or certified:  # only rounding is left
                    break
                e = objective.evaluate(e.w, 2)
                H = e.dense_hessian
                continue
            new, reached, t = found
            bound, value = gap - (value - reached), reached
            if new.hessian is not None:
                H = new.dense_hessian
            elif e.hessian is not None:
                ending.at = e  # a Hessian near the optimum
            if new.hessian is None and not (self.exact and e.hessian is not None):
                H = corrected(H, new.w - e.w, new.gradient - e.gradient)
            e = new
        return SparseOptimum(e=e, value=value, gap=max(gap, 0.0) + floor, H=H, iterations=iteration)


@dataclass(kw_only=True)
class Ending:
    """The end of a descent whose gap is small enough: it need not fall any more if it is near what is left.

    ``at`` has the Hessian by which residuals are moved; ``curvature`` makes one near a point.
    """

    objective: SmoothObjective
    penalty: SparsePenalty
    curvature: Callable[[Array], ObjectiveValue] | None = None
    at: ObjectiveValue | None = None
    last: float = np.inf
    steps: int = 0

    def moved_gap(self, e: ObjectiveValue) -> float:
        """Return the gap at ``e`` from residuals that are moved until they meet the conditions of an optimum."""
        if e.hessian is not None:
            self.at = e
        elif self.curvature is not None and not self._is_near(e):
            self.at = self.curvature(e.w)
        if self.at is None or not self._is_near(e):
            return np.inf
        target = model_minimum(self.at.dense_hessian, e, self.penalty)
        return _moved_gap(self.objective, self.penalty, e, self.at, target)

    def _is_near(self, e: ObjectiveValue) -> bool:
        if self.at is None:
            return False
        far = self.objective.self_concordance * float(np.linalg.norm(e.w - self.at.w))
        return far < policy.POLICY.sparse_curvature_change

    def reached(self, gap: float, left: float) -> bool:
        """Return whether to stop at a gap, where the objective can fall by about ``left``."""
        settings = policy.POLICY
        before, self.last, self.steps = self.last, gap, self.steps + 1
        slow = gap > settings.sparse_slow * before
        return gap <= settings.sparse_tight * left or slow or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether there were as many steps as may be."""
        return self.steps > policy.POLICY.sparse_last_steps


def is_accurate(H: Array, x: Array, target: Array, penalty: SparsePenalty, value: float) -> bool:
    """Return whether weights ``x`` are within about 1e-9 of a ``target``, in units of the objective and of their size.

    So they are the same on every engine; a gap within the tolerance, even one of rounding, leaves its square root.
    """
    d, blocks = target - x, penalty.blocks
    kept = np.zeros_like(x)
    penalised = blocks.member[blocks.of_members(blocks.strength > 0.0)]
    kept[penalised] = target[penalised]
    size, most = 0.5 * float(kept @ (H @ kept)), max(1.0, abs(value))
    seen = size > ROUNDING * most  # rounding hides smaller weights, which may as well be zero
    return 0.5 * float(d @ (H @ d)) <= policy.POLICY.sparse_accuracy * (min(size, most) if seen else most)


def model_minimum(H: Array, e: ObjectiveValue, penalty: SparsePenalty) -> Array:
    """Return the minimum of the model at ``e`` as exactly as rounding allows.

    Its conditions are missed by a rounding of the least penalty at most, since a gap shrinks all residuals by as much
    as the condition that is missed most, relative to its penalty.
    """
    blocks, x, r, last = penalty.blocks, e.w, e.gradient, np.inf
    penalised = blocks.strength[blocks.strength > 0.0]
    enough = ROUNDING * float(penalised.min()) if len(penalised) else 0.0
    for _ in range(policy.POLICY.sparse_refinements):
        x = minimise_model(H, r, x, blocks, tol=enough, rounds=3)
        r = e.gradient + H @ (x - e.w)
        before, last = last, violation(blocks, x, r)
        if last <= enough or last > 0.5 * before:
            break
    return x


def model_fall(H: Array, e: ObjectiveValue, penalty: SparsePenalty, target: Array) -> float:
    """Return by how much the objective falls along the step to ``target``, to second order."""
    d = target - e.w
    return float(penalty.value(e.w) - penalty.value(target) - d @ (e.gradient + 0.5 * (H @ d)))


def _moved_gap(
    objective: SmoothObjective, penalty: SparsePenalty, e: ObjectiveValue, at: ObjectiveValue, target: Array
) -> float:
    """Return the gap from residuals moved along the step to ``target``; infinite where activations change too much.

    The Hessian is that of all or some rows at the point ``at``. There probabilities p are within a factor c = exp(how
    far activations are apart) of those at ``e``, q. Residuals change by ``δ_k = p_k (z_k − Σ p z)``, which costs their
    divergence, ``½ Σ_k δ_k² / q_k`` times ``1 + u / (3 (1 − u))`` where u bounds all ``|δ_k| / q_k``: at most
    ``½ c dᵀHd`` times that, and u is c times the change of the activations at most.
    """
    H = at.dense_hessian
    d = dual_step(H, e, penalty, target)
    cost = moving_cost(objective.self_concordance, e.w - at.w, d)
    return dual_gap(e, penalty, d, H @ d - penalty.ridge * d, cost) if np.isfinite(cost) else np.inf


def moving_cost(concordance: float, away: Array, d: Array) -> float:
    """Return the factor of what it costs to move residuals along ``d`` by a Hessian at a point that far ``away``."""
    far, moved = float(np.linalg.norm(away)), float(np.linalg.norm(d))
    c = float(np.exp(min(concordance * far, 700.0))) if far > 0.0 else 1.0
    return c * divergence(c * concordance * moved if moved > 0.0 else 0.0)


def dual_step(H: Array, e: ObjectiveValue, penalty: SparsePenalty, target: Array) -> Array:
    """Return the step to ``target``, changed so that the conditions of the free coordinates hold to the last digit."""
    d, blocks = target - e.w, penalty.blocks
    free = blocks.member[blocks.of_members(blocks.strength == 0.0)]
    free = free[penalty.ridge[free] == 0.0]
    for _ in range(2):
        d[free] -= np.linalg.lstsq(H[np.ix_(free, free)], (e.gradient + H @ d)[free])[0]
    return d


def divergence(u: float) -> float:
    """Return by how much a divergence is above half of ``Σ_k δ_k² / q_k``, if no ``|δ_k| / q_k`` is above ``u``.

    It is ``Σ_k q_k ((1 + v) log(1 + v) − v)`` with ``v = δ_k / q_k``: ``v² / 2 − v³ / 6 + v⁴ / 12 − …``.

    >>> divergence(0.0), round(divergence(0.25), 3), divergence(0.5)
    (1.0, 1.111, inf)
    """
    return 1.0 + u / (3.0 * (1.0 - u)) if u < 0.5 else np.inf


def _step(
    objective: SmoothObjective, penalty: SparsePenalty, e: ObjectiveValue, target: Array, value: float, order: int
) -> tuple[ObjectiveValue, float, float] | None:
    """Go to ``target`` or part of the way, until the objective falls; None if it does not."""
    d = target - e.w
    predicted = float(e.gradient @ d) + penalty.value(target) - penalty.value(e.w)
    noise, t = 8.0 * EPS * abs(value), 1.0
    for _ in range(24):
        x = target if t == 1.0 else e.w + t * d
        new = objective.evaluate(x, order)
        reached = new.value + penalty.value(x)
        if reached <= value + 1e-4 * t * predicted + noise:
            return new, reached, t
        if order == 1 and t < 0.5:
            return None
        t *= 0.5
    return None
