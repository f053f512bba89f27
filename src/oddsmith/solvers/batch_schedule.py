"""Progressive batching: growing batches of rows, with an update after each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from oddsmith.numerics import Array, SpdFactor
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue, Preconditioner, Subsample, Subsampled


class Start(NamedTuple):
    """A point near the optimum; a subsample, its evaluation nearby, and a preconditioner from it."""

    x: Array
    sample: Subsample
    guess: ObjectiveValue
    preconditioner: Preconditioner


@dataclass(frozen=True)
class BatchSchedule:
    """The ends of batches, as fractions of the rows, and the batch whose Hessian is formed."""

    ends: tuple[float, ...]
    formed: int

    @classmethod
    def whole_pass(cls, n_rows: int, size: int, sample: float, settings: policy.Policy) -> BatchSchedule | None:
        """Return a schedule that reads all rows, in which the Hessian of some saves a pass; None if not worthwhile.

        It is worthwhile with very many rows per weight.

        >>> [BatchSchedule.whole_pass(n, 21, 0.01, policy.POLICY) is None for n in (2_000_000, 1_000_000)]
        [False, True]
        """
        always, most = settings.whole_passes
        one_pass = settings.whole_weights * n_rows / size
        rows = max(settings.whole_rows_per_weight * size, min(settings.whole_least * n_rows, always * one_pass))
        if rows > min(settings.whole_fraction * n_rows, most * one_pass):
            return None
        return cls.growing(sample, rows / n_rows, whole=True)

    @classmethod
    def growing(cls, sample: float, formed: float, *, whole: bool = False) -> BatchSchedule:
        """Return a schedule for the fraction of rows in a subsample and the batch whose Hessian is formed.

        >>> BatchSchedule.growing(0.02, 0.2, whole=True)
        BatchSchedule(ends=(0.02, 0.06, 0.26, 1.0), formed=2)
        >>> BatchSchedule.growing(0.02, 0.2)
        BatchSchedule(ends=(0.02, 0.06, 0.26), formed=2)
        """
        settings = policy.POLICY
        ends: list[float] = []
        end, which = 0.0, -1
        while end < 1.0 and (whole or which < 0):
            before = end
            end += (settings.batch_ratio - 1.0) * (sample + end)
            if which < 0 and end >= 0.5 * formed:
                end, which = before + formed, len(ends)
            end = round(end, 6) if end <= settings.batch_last or which == len(ends) else 1.0
            ends.append(end)
        return cls(tuple(ends), which)


def progressive_batches(objective: Subsampled, schedule: BatchSchedule, start: Start) -> Start | None:
    """Return a point nearer to the optimum after one pass over batches of rows; None if they differ from the start.

    A gradient g at x, scaled up to all rows, places the optimum of a batch at x − H⁻¹g, and that of several batches at
    the mean, as far as H is accurate: its error is multiplied by the distance from x. So the first rows are evaluated
    at the optimum of a subsample, the next ones at the mean of that optimum and their own, and so on: few rows are
    evaluated far away.

    Batches come from across the data. If a batch differs from the earlier ones, neighbouring rows are similar or a few
    rows dominate: then the result is None or, for one of the last batches, all others are evaluated at the same point.
    A gradient does not reveal rows that are rarer, or closer to each other, than elsewhere: their Hessians must agree.
    """
    x, sample, guess, hessian = start
    share, seen = sample.sampling_fraction, 0.0
    points, slopes = share * x, np.zeros_like(x)
    moves, whole = True, schedule.ends[-1] == 1.0
    if whole:
        objective.count_pass()
    for k, batch in enumerate(objective.batches(schedule.ends)):
        e = batch.evaluate(x, order=2 if k == schedule.formed else 1)
        alike = _gradient_is_alike(e, hessian, batch.sampling_fraction, share + seen)
        misleads = not e.value <= policy.POLICY.misleading * guess.value
        if misleads or not (alike or k > schedule.formed):
            return None
        moves = moves and alike
        if e.hessian is not None:
            hessian = e.factor()
            if not isinstance(hessian, SpdFactor) or not _curvature_is_alike(hessian, guess):
                return None
            sample, guess = batch, e
        seen += batch.sampling_fraction
        points += batch.sampling_fraction * x
        slopes += batch.sampling_fraction * e.gradient
        if moves:
            x = (points - hessian.solve(slopes)) / (share + seen)
    if whole:  # the subsample is among all rows, and must not count twice
        x = points - share * start.x - hessian.solve(slopes)
    return Start(x, sample, guess, hessian)


def _gradient_is_alike(e: ObjectiveValue, hessian: Preconditioner, batch: float, before: float) -> bool:
    """Whether chance explains the gradient of a batch, given the fractions of rows in it and before it."""
    chance = (len(e.gradient) + 6.0) * (1.0 / batch + 1.0 / before)
    with np.errstate(over="ignore", invalid="ignore"):  # a row may be longer than any number
        return bool(hessian.norm(e.gradient) ** 2 <= policy.POLICY.batch_gradient * chance)


def _curvature_is_alike(factor: SpdFactor, guess: ObjectiveValue) -> bool:
    """Whether a factored Hessian has about the same curvature as another in every direction."""
    if guess.hessian is None or not factor.complete:
        return False
    half, _ = dtrtrs(factor.L, guess.dense_hessian / factor.d / factor.d[:, None], lower=1)
    both, _ = dtrtrs(factor.L, half.T, lower=1)
    if not np.isfinite(both).all():
        return False
    values = np.linalg.eigvalsh(both)
    least, most = policy.POLICY.batch_curvature
    return bool(values[0] * most >= 1.0 and values[-1] * least <= 1.0)
