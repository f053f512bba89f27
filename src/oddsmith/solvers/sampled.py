"""Large problems: begin on a sample of the rows, meet the whole data near the optimum, certify there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.solvers.base import Evaluation, Recorder, SolverResult
from oddsmith.solvers.coarse import corrected
from oddsmith.solvers.growing import MISLEADING, Plan, Start, grown
from oddsmith.solvers.lbfgs import Columnwise, Metric, Pairs, descend
from oddsmith.solvers.newton import Newton, go_on, leap
from oddsmith.solvers.proof import Proof

MANY = 150
SAMPLE_NUMBERS = 1_000_000
ROWS_A_WEIGHT = 400
"""With so many rows for each weight a sample's Hessian is within some 5% of that of all rows."""
MADE_NUMBERS = 4_000_000
PATIENCE = 60
"""Steps by gradients on all rows. Where classes are nearly separated they take hundreds: Newton's method ends it."""
SOON, EASY, OWN = 7, (12, 20), 0.01
"""Steps in which L-BFGS comes to the sampling error of a sample, where columns do not depend on each other. Those that
are not there so soon, but in time, must come to so much of it in some more."""
ALL_CHANCE = 0.6
"""A sample whose Hessian is chance to such a share, off its diagonal, says that columns do not depend on each other."""
FOURFOLD = 4
"""A sample from which parts go on without a search is so many times the one from which a search does."""
LEFT = 0.1
"""Standard errors, in units of the tolerance, that a polished fit may be from the optimum."""


@dataclass(frozen=True)
class Sampled:
    """Newton on a small sample, then quasi-Newton iterations on more and more rows that need gradients only.

      1. Newton on a small sample; then on a larger one L-BFGS steps, whose first guess of the inverse is the smaller
         sample's Hessian scaled up; each no further than its own sampling error.
      2. The same on all rows with the larger sample's Hessian: one pass a step. Where rows are very many for their
         weights, the first pass goes from part to part, and one of them has a Hessian of its own (`growing`).
      3. It stops when the certificate is within ``tol``. The Hessian is bounded from below by that of the sampled
         rows alone (the other rows can only add to it), so the bound is rigorous without another pass.
      4. With ``polish`` it goes on until a Newton step with the Hessian of all rows (one more pass) gives all digits.

    If the sample is not ``trusted`` to show every column (a rare level of a factor, say), it serves as the start only,
    and Newton's method goes on from there, or gradients with one Hessian of all rows where that is dear. Of rows that
    are not in memory a sample was ``drawn``, of so many rows: then the larger sample is all of it, and since a pass is
    dear, the last Newton step comes as soon as it can. Of many weights, steps go by a copy of the rows in half
    precision (`coarse`).

    Cost: a few passes; memory O(P²) and the sample.
    """

    polish: bool = True
    trusted: bool = True
    drawn: int | None = None
    seed: int = 0
    name: str = "auto"

    def minimise(self, objective: Any, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser with its certificate, or the plain Newton fit where a sample is of no use."""
        if not self.trusted:
            return self._from_a_start(objective, w, tol, max_iter)
        recorder, most = Recorder(objective), max_iter
        coarse = not self.polish and objective.size > MANY and objective.has_coarse
        start = self._on_gradients(objective, w) if coarse else None
        if start is None:  # 1
            start, coarse = self._on_samples(objective, w), coarse and objective.shape[0] == 1
        if start is None or (not coarse and _misleads(start, objective, w)):
            newton = Newton(watch_divergence=objective.penalty is None)
            return newton.minimise(objective, w, tol=tol, max_iter=max_iter)
        x, sample, guess, factor = start
        proof = Proof(objective, sample, guess, factor, tol)

        def leaping() -> float:
            assert isinstance(factor, SpdFactor)
            return _leaping(objective, factor, tol)

        def close(e: Evaluation) -> bool:  # 3
            # The bound is about 1 / share of what the metric suggests; far from that it is not worth its price.
            distance = proof.metric.norm(e.gradient)
            if 0.5 * distance**2 * max(1.0, 0.1 / proof.sample.share) > tol * max(1.0, abs(e.value)):
                return False
            if not (proof.at(e).converged and self.polish):
                return proof.at(e).converged
            return distance <= leaping()

        def order(norms: list[float]) -> int:
            """Ask for the Hessian along with the gradient of a pass that will be the last but for it."""
            if not self.polish or len(norms) < 2:
                return 1
            return 2 if norms[-1] ** 2 / norms[-2] <= 0.7 * leaping() else 1

        if coarse:
            e = corrected(objective, proof, metric, close, recorder)
            if not close(e):
                proof = self._anew(objective, e, tol)
            x, max_iter = e.w, max(1, max_iter - len(recorder.records))
        e = descend(objective, x, proof.metric, close, min(PATIENCE, max_iter), recorder, order)  # 2
        if self.polish:
            return _polished(objective, e, recorder, tol, max_iter)  # 4
        left = most - len(recorder.records)
        if close(e) or left < 1:
            return SolverResult(e.w, recorder.trace(), proof.at(e), e)
        return go_on(Newton(watch_divergence=False, strict=False), objective, e.w, recorder, tol, left)

    def _from_a_start(self, objective: Any, w: Array, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser where a sample serves as the start only."""
        rows = max(4 * objective.size, objective.n_rows // 16) if self.drawn is None else self.drawn
        sample = objective.sample(rows, self.seed)
        first, _ = self._first(_shown(sample, w), w)
        if first is not None and not self.polish and objective.dear_hessian:
            return _by_one_hessian(objective, sample, first.w, Recorder(objective), tol, max_iter)
        newton = Newton(watch_divergence=objective.penalty is None, strict=self.polish)
        return newton.minimise(objective, w if first is None else first.w, tol=tol, max_iter=max_iter)

    def _on_samples(self, objective: Any, w: Array) -> Start | None:
        """Return the larger sample, its minimiser to within the sampling error, and its factored Hessian there.

        Of rows in memory it is made of parts of them, if these are like the smaller sample.
        """
        small, large = self._rows(objective)
        if objective.has_parts and objective.size <= MANY and self.drawn is None and large > 2 * FOURFOLD * small:
            start = self._grown(objective, w, FOURFOLD * small, large + large // 4)
            if start is not None:
                return start
        both = large > 2 * small
        sample = objective.sample(small if both else large, self.seed)
        guess, factor = self._first(sample, w)
        if guess is None:
            return None
        if both and objective.size > MANY and objective.shape[0] == 1:
            # Where columns do not depend on each other the Hessian of more rows costs more than it tells.
            more = objective.sample(max(large, objective.n_rows // 16), self.seed)
            e = _to_sampling_error(more, guess.w, factor)
            guess = sample.evaluate(e.w, order=2)
            both, factor = chance(guess, sample) < ALL_CHANCE, metric(guess, sample)
        if both:
            sample = objective.sample(large, self.seed)
            guess = _to_sampling_error(sample, guess.w, factor)
        if guess.hessian is None:
            guess = sample.evaluate(guess.w, order=2)
            factor = metric(guess, sample)
        return Start(guess.w, sample, guess, factor)

    def _grown(self, objective: Any, w: Array, small: int, large: int) -> Start | None:
        """Return a start from a sample and parts of the rows that are like it; or, if that pays, from all rows."""
        sample = objective.sample(small, self.seed)
        guess, factor = self._first(sample, w)
        if guess is None:
            return None
        plan = Plan.growing(sample.share, large / objective.n_rows)
        start = grown(objective, plan, Start(guess.w, sample, guess, factor))
        if start is None or self.polish:  # all digits take a Hessian of all rows anyway
            return start
        proving = Plan.proving(objective, start.sample.share)
        return start if proving is None else grown(objective, proving, start) or start

    def _on_gradients(self, objective: Any, w: Array) -> Start | None:
        """Return a sample, a minimiser to within the sampling error, and a metric, without a Hessian of many weights.

        That is possible where columns hardly depend on each other: where gradients alone come far below the sampling
        error in a few steps. Else None is returned.
        """
        small, _ = self._rows(objective)
        sample = objective.sample(small, self.seed)
        plain = Columnwise(*sample.column_curvature())
        pairs: Pairs = []
        guess = _to_sampling_error(sample, w, plain, steps=EASY[0], pairs=pairs)
        if plain.norm(guess.gradient) > _sampling_error(sample):
            return None
        if len(pairs) > SOON:
            # The sample's own optimum is no better than that; how soon it is found tells of its columns.
            own = _to_sampling_error(sample, guess.w, plain, part=OWN, steps=EASY[1], pairs=pairs)
            if plain.norm(own.gradient) > OWN * _sampling_error(sample):
                return None
        C, P = objective.shape
        rows = objective.n_rows // 16
        if C == 1 and rows > 2 * small and rows * P <= MADE_NUMBERS:
            guess = _to_sampling_error(objective.sample(rows, self.seed), guess.w, plain)
        return Start(guess.w, sample, guess, plain)

    def _anew(self, objective: Any, e: Evaluation, tol: float) -> Proof:
        """Return metric and proof from the larger sample's Hessian at a point."""
        sample = objective.sample(self._rows(objective)[1], self.seed)
        guess = sample.evaluate(e.w, order=2)
        return Proof(objective, sample, guess, metric(guess, sample), tol)

    def _rows(self, objective: Any) -> tuple[int, int]:
        """How many rows the smaller and the larger sample have."""
        size = objective.size
        return max(1000, min(4 * size, 1000 + 2 * size)), self.drawn or sample_rows(objective)

    @staticmethod
    def _first(sample: Any, w: Array) -> tuple[Evaluation | None, SpdFactor]:
        """Return the first sample's minimiser and a metric, or None where it has none."""
        if sample.size > MANY and sample.penalty is not None:
            # Many weights make a Hessian costly, and that at the start will do for gradients to go by.
            factor = metric(sample.evaluate(w, order=2), sample)
            return _to_sampling_error(sample, w, factor), factor
        newton = Newton(watch_divergence=sample.penalty is None, stop=_sampling_error(sample))
        result = newton.minimise(sample, w, tol=1e-8, max_iter=30)
        lost = result.diverging or not np.isfinite(result.final.value)
        return None if lost else result.final, metric(result.final, sample)


def _shown(sample: Any, w: Array) -> Any:
    """Return a sample's objective with the weights held where they are that it does not show.

    Of a column that is constant there, or depends on others, it would give any weight, however large.
    """
    H = sample.evaluate(w, order=2, expected=not sample.canonical).hessian
    kept = factor_spd(H).kept
    return sample if kept.all() else replace(sample, free=sample.free & kept.reshape(sample.free.shape), _last=None)


def _misleads(start: Start, objective: Any, w: Array) -> bool:
    """Whether a sample's minimiser is worse than where it began: a few rows that it does not show outweigh others."""
    value = objective.evaluate(start.x).value
    return bool(value > MISLEADING * start.guess.value and value > start.sample.evaluate(w).value)


def metric(e: Evaluation, sample: Any) -> SpdFactor:
    """Factor a sample's Hessian for use as a metric; what chance explains of it is taken off it, but for the diagonal.

    The classes of a softmax are no noise.
    """
    assert e.hessian is not None
    if sample.n_rows >= 40 * sample.size or sample.shape[0] > 1:
        return _factor(e)
    R, d = _correlations(e)
    R *= 1.0 - chance(e, sample)
    np.einsum("ii->i", R)[:] = 1.0
    return replace(factor_spd(R, tol=0.0), d=d)


def chance(e: Evaluation, sample: Any) -> float:
    """Return which share of what stands off the diagonal of a sample's Hessian is chance, from 0 to 1.

    Scaled to unit diagonal, a matrix of P weights from n rows has noise of P²/n in all; what is more than that is the
    data's (the oracle approximation of Chen and others). With n ≥ 40 P there is little of it.
    """
    n, P = sample.n_rows, sample.size
    R, _ = _correlations(e)
    square = float(np.vdot(R, R))
    beyond = (n + 1.0 - 2.0 / P) * (square - P)
    noise = (1.0 - 2.0 / P) * square + P**2
    return min(1.0, noise / beyond) if beyond > 0.0 else 1.0


def _correlations(e: Evaluation) -> tuple[Array, Array]:
    assert e.hessian is not None
    d = np.sqrt(np.diag(e.hessian))
    return e.hessian / d / d[:, None], d


def sample_rows(objective: Any) -> int:
    """How many rows the larger sample has: a Hessian worth two passes for the gradient, a copy of a few megabytes.

    Rough times a row: reading at 30 GB/s or 20 GFlop/s for the gradient, 55 GFlop/s for the Hessian.
    """
    C, P = objective.shape
    gradient = max(8 * P / 30e9, 4 * C * P / 20e9)
    hessian = C * (C + 1) / 2 * P**2 / 55e9
    enough = max(SAMPLE_NUMBERS / P, ROWS_A_WEIGHT * P if C == 1 else 0)
    rows = min(objective.n_rows / 8, 2.0 * objective.n_rows * gradient / hessian, enough)
    if objective.made:  # rows are costly to make, and those of a sample are made once
        rows = min(objective.n_rows / 16, MADE_NUMBERS / P)
    # A row shows the curvature of every class: many of them do not need more rows than a few.
    return max(min(10 * int(objective.size), ROWS_A_WEIGHT * int(P)), int(rows))


def _to_sampling_error(
    sample: Any, w: Array, factor: Metric, *, part: float = 1.0, steps: int = 40, pairs: Pairs | None = None
) -> Evaluation:
    """Return the end of a search on a sample that goes no further than (part of) the sampling error."""
    error = part * _sampling_error(sample)
    return descend(sample, w, factor, lambda e: factor.norm(e.gradient) <= error, steps, None, pairs=pairs)


def _factor(e: Evaluation) -> SpdFactor:
    assert e.hessian is not None
    return factor_spd(e.hessian, tol=0.0)


def _sampling_error(sample: Any) -> float:
    """A tenth of the distance, in standard errors of all rows, between the optima of the sample and of all rows."""
    return float(0.1 * np.sqrt(sample.size / sample.share))


def _by_one_hessian(
    objective: Any, sample: Any, x: Array, recorder: Recorder, tol: float, max_iter: int
) -> SolverResult:
    """Go on from ``x`` with the Hessian of all rows there as the metric: gradients do the rest.

    Where they take long after all (weights of rare columns that the sample did not show), Newton's method ends it.
    """
    e = objective.evaluate(x, order=2)
    factor = _factor(e)
    proof = Proof(objective, sample, replace(e, hessian=None), factor, tol)
    least = float(np.sqrt(factor.smallest_eigenvalue))

    def close(f: Evaluation) -> bool:
        # A proof needs a step that changes no row's activation by much, too; rare columns have long rows.
        distance = factor.norm(f.gradient) / np.sqrt(sample.share)
        near = 0.5 * distance**2 <= tol * max(1.0, abs(f.value)) and 2.0 * distance * objective.reach <= least
        return near and proof.at(f).converged

    e = descend(objective, x, factor, close, min(PATIENCE // 3, max_iter), recorder)
    if close(e):
        return SolverResult(e.w, recorder.trace(), proof.at(e), e)
    return go_on(Newton(watch_divergence=False, strict=False), objective, e.w, recorder, tol, max_iter)


def _polished(objective: Any, e: Evaluation, recorder: Recorder, tol: float, max_iter: int) -> SolverResult:
    """End with the Hessian of all rows and a Newton step without a pass; with more of them if that is not enough."""
    e = objective.evaluate(e.w, order=2)
    final, certificate = leap(objective, e, _factor(e), tol)
    # What rounding adds to the gap no further pass takes away: the decrement that the step leaves decides.
    leaped = final is not e and certificate.converged and certificate.gradient_norm <= LEFT * tol
    if leaped or certificate.gap <= 0.5 * (LEFT * tol) ** 2:
        recorder.add(e, 1.0)
        return SolverResult(final.w, recorder.trace(), certificate, final)
    return go_on(Newton(watch_divergence=False), objective, e.w, recorder, tol, max_iter)


def _leaping(objective: Any, factor: SpdFactor, tol: float) -> float:
    """How far from the optimum, in standard errors, a Newton step that is not checked leaves `LEFT` · ``tol`` of them.

    A step of decrement λ leaves at most about ρλ²/2, and mostly far less.
    """
    rho = objective.reach / np.sqrt(max(factor.smallest_eigenvalue, 1e-300))
    return float(np.clip(0.7 * np.sqrt(2.0 * LEFT * tol / rho), 1e-6, 1e-3)) if np.isfinite(rho) else 1e-6
