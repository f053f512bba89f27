"""Backtracking, the line search of all solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import Evaluates, ObjectiveValue

T = TypeVar("T")


def backtrack(
    trial: Callable[[float], T],
    accepts: Callable[[T, float], bool],
    step: float = 1.0,
    *,
    smallest: float | None = None,
) -> tuple[T, float] | None:
    """Return the first of ``trial(step)``, ``trial(step / 2)``, … that is accepted, and its step; None if none is.

    >>> backtrack(lambda step: (3.0 - 4.0 * step) ** 2, lambda value, step: value < 9.0)
    (1.0, 1.0)
    """
    smallest = policy.POLICY.smallest_step if smallest is None else smallest
    while step > smallest:
        found = trial(step)
        if accepts(found, step):
            return found, step
        step *= 0.5
    return None


def line_search(
    objective: Evaluates, e: ObjectiveValue, p: Array, slope: float, *, order: int, rounding: float = 8.0 * EPS
) -> tuple[ObjectiveValue, float] | None:
    """Return the first of the points w − p, w − p/2, … at which the objective falls enough (Armijo), or None.

    ``slope`` is gᵀp > 0. A change within the (relative) rounding error is accepted, or the last steps would be refused.
    """
    noise, armijo = rounding * abs(e.value), policy.POLICY.armijo

    def falls(f: ObjectiveValue, step: float) -> bool:
        return math.isfinite(f.value) and f.value <= e.value - armijo * step * slope + noise

    return backtrack(lambda step: objective.evaluate(e.w - step * p, order=order), falls)
