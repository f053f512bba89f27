"""The first pass over all rows, part by part: each part moves the point at which the next one is met."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.solvers.base import Evaluation

LAST = 0.5
"""With more of the rows than this, all others are one part."""
ALIKE = 3.0
"""A part whose gradient is so many times what chance explains is unlike the rows before it."""
BEGINNING = (10_000, 100_000)
"""Rows of the sample from which parts go on, at least and at most; between them it is a fiftieth of all."""
PROVING, MOST = 24_000, 0.35
"""Rows for each weight whose Hessian is near enough to that of all to end a fit with the next pass; if they are no more
than this share."""
RATIO = 2.0
"""By which the rows that were met grow from part to part."""
SLOWER, CHEAP, DEAR = 15.0, 0.25, 0.9
"""Weights of which a row's Hessian takes as long as its gradient; what the Hessian may always cost, and at most, in
passes over all rows."""
MISLEADING = 1.5
"""A value that is so much larger than the sample's tells of rows that it does not show."""


@dataclass(frozen=True)
class Plan:
    """How a pass is divided: the ends of its parts, as shares of the rows, and which part's Hessian is formed."""

    ends: tuple[float, ...]
    formed: int

    @classmethod
    def of(cls, objective: Any) -> Plan | None:
        """Return a plan for an objective of rows in memory, or None where it does not pay.

        A Hessian of some rows saves a pass over all of them: the more there are, the sooner.
        """
        size, n = objective.size, objective.n_rows
        pass_ = SLOWER * n / size
        rows = max(PROVING * size, min(0.15 * n, CHEAP * pass_))
        if not objective.has_parts or rows > min(MOST * n, DEAR * pass_):
            return None
        return cls.growing(rows_to_begin(objective) / n, rows / n)

    @classmethod
    def growing(cls, sample: float, formed: float) -> Plan:
        """Return one for shares of the rows that a sample has, and the part whose Hessian is formed.

        >>> Plan.growing(0.02, 0.2)
        Plan(ends=(0.02, 0.06, 0.26, 1.0), formed=2)
        """
        ends: list[float] = []
        end, which = 0.0, -1
        while end < 1.0:
            end += (RATIO - 1.0) * (sample + end)
            if which < 0 and end >= 0.5 * formed:
                end, which = (ends[-1] if ends else 0.0) + formed, len(ends)
            ends.append(round(end, 6) if end <= LAST or which == len(ends) else 1.0)
            end = ends[-1]
        return cls(tuple(ends), which)


def rows_to_begin(objective: Any) -> int:
    """How many rows the sample has, at whose optimum the first part is met."""
    return int(np.clip(objective.n_rows // 50, *BEGINNING))


def grown(
    objective: Any, plan: Plan, sample: Any, guess: Evaluation, factor: SpdFactor
) -> tuple[Array, Any, Evaluation, SpdFactor] | None:
    """Return a point near the optimum, after one pass over all rows; and rows, their Hessian, and its factor.

    A gradient g at x, scaled up to all rows, puts the optimum of a part at x − H⁻¹g, and that of several at their mean,
    as far as H is right: what is wrong with it counts by the way from x to there. So the first rows are met at the
    sample's optimum, the next ones at the mean of that and theirs, and so on: what was met far away was met by few.

    Parts come from across the data. If one is unlike what was met before, neighbouring rows are alike, and all others
    are met where it was. None is returned where a few rows outweigh others, of which the sample did not know.
    """
    start, share = guess.w, sample.share
    x, moves, value = start, True, 0.0
    points, slopes = np.zeros_like(x), np.zeros_like(x)
    met = 0.0
    for k, part in enumerate(objective.parts(plan.ends)):
        e: Evaluation = part.evaluate(x, order=2 if k == plan.formed else 1)
        if e.hessian is not None:
            factor = factor_spd(e.hessian, tol=0.0)
        chance = (objective.size + 6.0) * (1.0 / part.share + 1.0 / (share + met))
        moves = moves and bool(factor.norm(e.gradient) ** 2 <= ALIKE * chance)
        if not e.value <= MISLEADING * guess.value:
            if x is not start:
                return None
            moves = False
        if e.hessian is not None:
            sample, guess = part, e
        points += part.share * x
        slopes += part.share * e.gradient
        value, met = value + part.share * e.value, met + part.share
        if moves:
            x = (share * start + points - factor.solve(slopes)) / (share + met)
    objective.passes += 1
    if x is not start:
        return points - factor.solve(slopes), sample, guess, factor
    objective.remember(replace(e, value=value, gradient=slopes, hessian=None))
    return start, sample, guess, factor
