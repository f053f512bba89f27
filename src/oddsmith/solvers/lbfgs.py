"""L-BFGS: quasi-Newton steps from gradients and an initial guess of the Hessian."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import matmul
from typing import TYPE_CHECKING, Protocol

import numpy as np

from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import Evaluates, ObjectiveValue, Preconditioner, Recorder
from oddsmith.solvers.line_search import line_search

if TYPE_CHECKING:
    from oddsmith.kernels.lbfgs import LbfgsPoints

Pair = tuple[Array, Array, float | Array]
Pairs = list[Pair]
"""Steps, the changes of the gradient along them, and the products of the two (the curvature)."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far a point is from the end of a search, which is reached at 1: ``√(‖g‖² / near)``.

    With ``measure`` (P), the squared norm is ``Σ measure g²``, otherwise the preconditioner's. If ``relative``,
    ``near`` is a part of the objective, where that is above 1.

    >>> from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner
    >>> A = KroneckerSumPreconditioner(np.eye(1), np.array([0.0, 3.0]))
    >>> e = ObjectiveValue(w=np.zeros(2), value=8.0, log_likelihood=-8.0, gradient=np.array([1.0, 4.0]))
    >>> Distance(preconditioner=A, near=5.0)(e), Distance(preconditioner=A, near=0.5, measure=e.w + 1.0)(e) ** 2
    (1.0, 34.0)
    """

    preconditioner: Preconditioner
    near: float
    measure: Array | None = None
    relative: bool = False

    def __call__(self, e: ObjectiveValue) -> float:
        """Return the distance of ``e``."""
        near = self.near * (max(1.0, abs(e.value)) if self.relative else 1.0)
        if self.measure is None:
            return self.preconditioner.norm(e.gradient) / math.sqrt(near)
        squares = e.gradient.reshape(-1, len(self.measure)) ** 2
        return math.sqrt(float((squares * self.measure).sum()) / near)


class FusedLBFGS(Protocol):
    """An objective that runs L-BFGS faster than by an evaluation for each point."""

    def lbfgs_points(
        self, w: Array, distance: Distance, steps: int, stall: tuple[int, float], *, hessian: bool
    ) -> tuple[ObjectiveValue, LbfgsPoints] | None:
        """Search from ``w``; return the end and the points up to it, None where it cannot.

        ``stall`` are the points from which progress is judged, and the steps up to which it goes on. With ``hessian``,
        the end may have one.
        """


def gradient_only(norms: list[float]) -> int:
    """Request the gradient only."""
    return 1


def lbfgs(
    objective: Evaluates,
    x: Array,
    preconditioner: Preconditioner,
    close: Callable[[ObjectiveValue], bool],
    max_iter: int,
    recorder: Recorder | None = None,
    *,
    order: Callable[[list[float]], int] = gradient_only,
    pairs: Pairs | None = None,
    rounding: float = 8.0 * EPS,
) -> ObjectiveValue:
    """Run L-BFGS from ``x`` with ``preconditioner`` as the initial Hessian, and return the last evaluation.

    Each iteration
      1. stops if ``close`` returns true,
      2. computes the direction by the two-loop recursion over the last pairs,
      3. shortens the step until the objective falls; if steps must be shortened repeatedly, it gives up,
      4. keeps the step and the change of the gradient, if the curvature along it is positive.

    Weights and gradients may be arrays or tensors. ``order`` maps the gradient norms so far to the order of the next
    evaluation. ``pairs`` holds known pairs, to which new ones are added. ``rounding`` is the relative rounding error of
    the objective.
    """
    pairs = [] if pairs is None else pairs
    norms: list[float] = []
    halvings, step = 0.0, 0.0
    e = objective.evaluate(x)
    for _ in range(max_iter + 1):
        if recorder is not None:
            recorder.add(e, step)
        if close(e):  # 1
            break
        if order is not gradient_only:
            norms.append(preconditioner.norm(e.gradient))
        p = two_loop(e.gradient, pairs, preconditioner.solve, preconditioner.norm)  # 2
        slope = float(p @ e.gradient)
        if halvings > policy.POLICY.halvings or not math.isfinite(slope):
            break
        moved = line_search(objective, e, p, slope, order=order(norms), rounding=rounding)  # 3
        if moved is None:
            break
        f, step = moved
        halvings -= float(np.log2(step))
        add_pair(pairs, f.w - e.w, f.gradient - e.gradient)  # 4
        e = f
    return e


def add_pair(pairs: Pairs, dx: Array, dg: Array, memory: int | None = None) -> None:
    """Append a pair if its curvature is positive; the oldest beyond the memory (by default the policy's) is dropped."""
    curvature = float(dx @ dg)
    if curvature > 1e-12 * math.sqrt(float(dx @ dx) * float(dg @ dg)):
        pairs[:] = [*pairs[1 - (memory or policy.POLICY.memory) :], (dx, dg, curvature)]


def two_loop(
    g: Array,
    pairs: Sequence[Pair],
    solve: Callable[[Array], Array],
    norm: Callable[[Array], float] | None = None,
    dot: Callable[[Array, Array], float | Array] = matmul,
) -> Array:
    """Return the L-BFGS direction H⁻¹ g, where ``solve`` applies the inverse of an initial Hessian.

    With ``norm`` (of the inverse), the last pair scales the initial Hessian. For many problems at once, one per row,
    ``dot`` returns a column of products.

    >>> two_loop(np.array([2.0]), [(np.array([1.0]), np.array([4.0]), 4.0)], lambda q: q).tolist()
    [0.5]
    """
    q = g + 0.0
    alphas = []
    for dx, dg, curvature in reversed(pairs):
        alphas.append(dot(dx, q) / curvature)
        q -= alphas[-1] * dg
    p = solve(q)
    if pairs and norm is not None:
        _, dg, curvature = pairs[-1]
        p *= curvature / norm(dg) ** 2
    for (dx, dg, curvature), alpha in zip(pairs, reversed(alphas), strict=True):
        p += dx * (alpha - dot(dg, p) / curvature)
    return p
