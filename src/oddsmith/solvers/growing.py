"""The first rows of all, part by part: each part moves the point at which the next one is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.solvers.base import Evaluation
from oddsmith.solvers.lbfgs import Metric

RATIO = 2.0
"""By which the rows that were met grow from part to part."""
LAST = 0.5
"""With more of the rows than this, all others are one part."""
ALIKE = 8.0
"""A part whose gradient is so many times what chance explains is unlike the rows before it."""
LIKE = 0.25, 4.0
"""So much of the sample's curvature, at least and at most, a part has in every direction, or it is unlike it."""
MISLEADING = 1.5
"""A value that is so much larger than before tells of rows that were not shown by those."""
PROVING, MOST = 28_000, 0.35
"""Rows for each weight whose Hessian is near enough to that of all to end a fit with the next pass; if they are no more
than this share."""
SLOWER, CHEAP, DEAR = 15.0, 0.25, 0.9
"""Weights of which a row's Hessian takes as long as its gradient; what the Hessian may always cost, and at most, in
passes over all rows."""


class Start(NamedTuple):
    """A point from which all rows are met; some of the rows, their evaluation near there, and a metric made of it."""

    x: Array
    sample: Any
    guess: Evaluation
    factor: Metric


@dataclass(frozen=True)
class Plan:
    """The ends of parts, as shares of the rows, and which part's Hessian is formed: the last, or all rows are met."""

    ends: tuple[float, ...]
    formed: int

    @classmethod
    def proving(cls, objective: Any, sample: float) -> Plan | None:
        """Return a plan in which all rows are met and the Hessian of some saves a pass over all, where that pays.

        It does where rows are very many for their weights.
        """
        size, n = objective.size, objective.n_rows
        one_pass = SLOWER * n / size
        rows = max(PROVING * size, min(0.15 * n, CHEAP * one_pass))
        return cls.growing(sample, rows / n, whole=True) if rows <= min(MOST * n, DEAR * one_pass) else None

    @classmethod
    def growing(cls, sample: float, formed: float, *, whole: bool = False) -> Plan:
        """Return one for shares of the rows that a sample has, and the part whose Hessian is formed.

        >>> Plan.growing(0.02, 0.2, whole=True)
        Plan(ends=(0.02, 0.06, 0.26, 1.0), formed=2)
        >>> Plan.growing(0.02, 0.2)
        Plan(ends=(0.02, 0.06, 0.26), formed=2)
        """
        ends: list[float] = []
        end, which = 0.0, -1
        while end < 1.0 and (whole or which < 0):
            before = end
            end += (RATIO - 1.0) * (sample + end)
            if which < 0 and end >= 0.5 * formed:
                end, which = before + formed, len(ends)
            end = round(end, 6) if end <= LAST or which == len(ends) else 1.0
            ends.append(end)
        return cls(tuple(ends), which)


def grown(objective: Any, plan: Plan, start: Start) -> Start | None:
    """Return a point that is nearer to the optimum, after parts of the rows were met once.

    A gradient g at x, scaled up to all rows, puts the optimum of a part at x − H⁻¹g, and that of several at their mean,
    as far as H is right: what is wrong with it counts by the way from x to there. So the first rows are met where a
    sample has its optimum, the next ones at the mean of that and theirs, and so on: few are met far away.

    Parts come from across the data. If one is unlike what was met before, neighbouring rows are alike, or a few
    outweigh others. Then None is returned; or, if it is one of the last, all others are met where it was. A gradient
    says nothing of rows that are fewer, or nearer to each other, than elsewhere: their Hessian must be alike, too.
    """
    x, sample, guess, factor = start
    share, met = sample.share, 0.0
    points, slopes = share * x, np.zeros_like(x)
    moves, whole = True, plan.ends[-1] == 1.0
    objective.passes += whole
    for k, part in enumerate(objective.parts(plan.ends)):
        e: Evaluation = part.evaluate(x, order=2 if k == plan.formed else 1)
        chance = (objective.size + 6.0) * (1.0 / part.share + 1.0 / (share + met))
        with np.errstate(over="ignore", invalid="ignore"):  # a row may be longer than any number
            alike = bool(factor.norm(e.gradient) ** 2 <= ALIKE * chance)
        if not e.value <= MISLEADING * guess.value or not (alike or k > plan.formed):
            return None
        moves = moves and alike
        if e.hessian is not None:
            factor = factor_spd(e.hessian, tol=0.0)
            if not _curved_alike(factor, guess):
                return None
            sample, guess = part, e
        met += part.share
        points += part.share * x
        slopes += part.share * e.gradient
        if moves:
            x = (points - factor.solve(slopes)) / (share + met)
    if whole:  # the sample is among all rows, and must not count twice
        x = points - share * start.x - factor.solve(slopes)
    return Start(x, sample, guess, factor)


def _curved_alike(factor: SpdFactor, guess: Evaluation) -> bool:
    """Whether a Hessian, factored, has about the curvature of another one in every direction."""
    if guess.hessian is None or not factor.complete:
        return False
    half, _ = dtrtrs(factor.L, guess.hessian / factor.d / factor.d[:, None], lower=1)
    both, _ = dtrtrs(factor.L, half.T, lower=1)
    if not np.isfinite(both).all():
        return False
    values = np.linalg.eigvalsh(both)
    return bool(values[0] * LIKE[1] >= 1.0 and values[-1] * LIKE[0] <= 1.0)
