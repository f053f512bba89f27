"""Subsampled quasi-Newton: start on a part of the rows, read all of them near the optimum, certify there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.solvers import policy
from oddsmith.solvers.base import (
    SOLVERS,
    LowPrecision,
    ObjectiveValue,
    Preconditioner,
    Recorder,
    SolverResult,
    Subsample,
    Subsampled,
)
from oddsmith.solvers.batch_schedule import BatchSchedule, Start, progressive_batches
from oddsmith.solvers.lbfgs import Pairs, lbfgs
from oddsmith.solvers.newton import Newton, continue_with_newton, unchecked_newton_step
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner
from oddsmith.solvers.subsample_certificate import SubsampleCertificate


def subsample_sizes(
    n_rows: int, shape: tuple[int, int], settings: policy.Policy, *, lazy: bool = False
) -> tuple[int, int]:
    """Return the number of rows of the smaller and the larger subsample.

    The larger one costs two gradient passes for its Hessian and a copy of a few megabytes; rows computed by a basis are
    computed once. A row shows the curvature of every class, so many classes do not need more rows.

    >>> subsample_sizes(1_000_000, (1, 21), policy.POLICY)
    (1000, 47619)
    """
    C, P = shape
    size = C * P
    gradient = max(8 * P / settings.gradient_bytes_per_second, 4 * C * P / settings.gradient_flops)
    hessian = C * (C + 1) / 2 * P**2 / settings.hessian_flops
    enough = max(settings.subsample_elements / P, settings.subsample_rows_per_weight * P if C == 1 else 0)
    rows = min(settings.subsample_fraction * n_rows, 2.0 * n_rows * gradient / hessian, enough)
    if lazy:
        rows = min(settings.start_fraction * n_rows, settings.lazy_elements / P)
    large = max(min(settings.subsample_least_per_weight * size, settings.subsample_rows_per_weight * P), int(rows))
    each, further = settings.start_rows_per_weight
    return max(settings.start_rows, min(each * size, settings.start_rows + further * size)), large


def start_sizes(n_rows: int, shape: tuple[int, int], settings: policy.Policy) -> list[int]:
    """Return the sizes of the (one or two) subsamples that are searched by gradients only."""
    (small, _), rows = subsample_sizes(n_rows, shape, settings), int(settings.start_fraction * n_rows)
    both = shape[0] == 1 and rows > 2 * small and rows * shape[1] <= settings.lazy_elements
    return [small, rows] if both else [small]


def start_alone_rows(n_rows: int, size: int, settings: policy.Policy) -> int:
    """Return the number of rows of a subsample that only provides the start."""
    return max(settings.start_rows_per_weight[0] * size, int(settings.start_fraction * n_rows))


@SOLVERS.register("subsampled")
@dataclass(frozen=True, kw_only=True)
class SubsampledQuasiNewton:
    """Newton on a small subsample, then quasi-Newton iterations on more and more rows, by gradients only.

      1. Newton on a small subsample; then L-BFGS on a larger one, preconditioned by the smaller one's Hessian; each no
         further than its own sampling error. For rows in memory, batches form the larger one (`batches`).
      2. The same on all rows with the larger subsample's Hessian: one pass per iteration.
      3. Stop when the certificate is within ``tol``. The subsampled rows alone bound the Hessian from below (the other
         rows can only add to it), so the bound is rigorous without another pass.
      4. With ``polish``, continue until a Newton step with the Hessian of all rows (one more pass) gives full
         precision.

    If the subsample is not ``representative`` of every column (for example of a rare level), it only provides the
    start; Newton's method continues from there, or gradients with ``one_hessian`` of all rows if that costs many of
    them. For rows that are not in memory, ``drawn`` is the size of a sample, all of which is the larger subsample. With
    ``low_precision``, iterations read a copy of the rows in half precision (`mixed_precision`).

    Cost: a few passes; memory O(P²) and the subsample.
    """

    polish: bool = True
    representative: bool = True
    one_hessian: bool = False
    batches: bool = False
    low_precision: bool = False
    lazy: bool = False
    drawn: int | None = None
    seed: int = 0
    name: str = "subsampled"

    def minimise(self, objective: LowPrecision, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "L-BFGS on all rows")
        if not self.representative:
            return self._from_start_alone(objective, w, recorder, tol, max_iter)
        low_precision = self.low_precision
        start = self._start_by_gradients(objective, w, recorder) if low_precision else None
        if start is None:  # 1
            start = self._start_on_subsamples(objective, w, recorder)
            low_precision = low_precision and objective.shape[0] == 1
        if start is None or (not low_precision and _misleads(start, objective, w)):
            newton = Newton(watch_divergence=not objective.has_prior)
            return continue_with_newton(newton, objective, w, recorder, tol, max_iter)
        certificate = _certificate(objective, start, tol)
        return self._on_all_rows(objective, start.x, certificate, recorder, max_iter, low_precision)

    def _on_all_rows(
        self,
        objective: LowPrecision,
        x: Array,
        certificate: SubsampleCertificate,
        recorder: Recorder,
        max_iter: int,
        low_precision: bool,
    ) -> SolverResult:
        """Return the minimiser from a point near it (steps 2 to 4)."""
        tol, most, settings = certificate.tol, max_iter, policy.POLICY
        hessian = certificate.preconditioner

        def last_step() -> float:
            assert isinstance(hessian, SpdFactor)
            return _last_step(objective, hessian, tol)

        def close(e: ObjectiveValue) -> bool:  # 3
            # The bound is about 1 / fraction of what the preconditioner suggests; far from that it is not worth its
            # price.
            distance, fraction = certificate.preconditioner.norm(e.gradient), certificate.sample.sampling_fraction
            if 0.5 * distance**2 * max(1.0, settings.certificate_margin / fraction) > e.allowed_gap(tol):
                return False
            return certificate.at(e).converged and not (self.polish and distance > last_step())

        def order(norms: list[float]) -> int:
            """Request the Hessian together with the gradient in a pass that is otherwise the last."""
            if not self.polish or len(norms) < 2:
                return 1
            return 2 if norms[-1] ** 2 / norms[-2] <= settings.polish_margin * last_step() else 1

        if low_precision:
            from oddsmith.solvers.mixed_precision import refine

            recorder.stage = "mixed-precision refinement"
            e = refine(objective, certificate, shrunk_factor, close, recorder)
            recorder.add(e, 1.0)
            if close(e):
                return recorder.result(e, certificate.at(e))
            recorder.stage = "L-BFGS on all rows"
            certificate = self._new_certificate(objective, e, tol)
            x, max_iter = e.w, max(1, max_iter - len(recorder.records))
        steps = min(settings.full_iterations, max_iter)
        e = lbfgs(objective, x, certificate.preconditioner, close, steps, recorder, order=order)  # 2
        if self.polish:
            return polished(objective, e, recorder, tol, max_iter)  # 4
        left = most - len(recorder.records)
        if close(e) or left < 1:
            return recorder.result(e, certificate.at(e))
        newton = Newton(watch_divergence=False, strict=False)
        return continue_with_newton(newton, objective, e.w, recorder, tol, left)

    def _from_start_alone(
        self, objective: Subsampled, w: Array, recorder: Recorder, tol: float, max_iter: int
    ) -> SolverResult:
        """Return the minimiser if a subsample only provides the start."""
        rows = self.drawn or start_alone_rows(objective.n_rows, objective.size, policy.POLICY)
        sample = objective.subsample(rows, self.seed)
        first, _ = _first_fit(sample.observed_part(w), w, recorder)
        if first is not None and self.one_hessian and not self.polish:
            return _by_one_hessian(objective, sample, first.w, recorder, tol, max_iter)
        newton = Newton(watch_divergence=not objective.has_prior, strict=self.polish)
        x = w if first is None else first.w
        return continue_with_newton(newton, objective, x, recorder, tol, max_iter)

    def _start_on_subsamples(self, objective: Subsampled, w: Array, recorder: Recorder) -> Start | None:
        """Return the larger subsample, its minimiser to within the sampling error, and its factored Hessian there."""
        settings = policy.POLICY
        small, large = self._sizes(objective)
        if self.batches and large > 2 * settings.batch_start * small:
            more = large + int(settings.batch_excess * large)
            start = self._start_by_batches(objective, w, settings.batch_start * small, more, recorder)
            if start is not None:
                return start
        both = large > 2 * small
        sample = objective.subsample(small if both else large, self.seed)
        guess, factor = _first_fit(sample, w, recorder)
        if guess is None:
            return None
        if both and objective.size > settings.many_weights and objective.shape[0] == 1:
            # Where columns do not depend on each other the Hessian of more rows costs more than it tells.
            rows = int(settings.start_fraction * objective.n_rows)
            e = _to_sampling_error(objective.subsample(max(large, rows), self.seed), guess.w, factor, recorder)
            guess = sample.evaluate(e.w, order=2)
            both, factor = oas_shrinkage(guess, sample) < settings.independent_shrinkage, shrunk_factor(guess, sample)
        if both:
            sample = objective.subsample(large, self.seed)
            guess = _to_sampling_error(sample, guess.w, factor, recorder)
        if guess.hessian is None:
            guess = sample.evaluate(guess.w, order=2)
            factor = shrunk_factor(guess, sample)
        return Start(guess.w, sample, guess, factor)

    def _start_by_batches(
        self, objective: Subsampled, w: Array, small: int, large: int, recorder: Recorder
    ) -> Start | None:
        """Return a start from a subsample and similar batches of rows or, if worthwhile, from all rows."""
        sample = objective.subsample(small, self.seed)
        guess, factor = _first_fit(sample, w, recorder)
        if guess is None:
            return None
        schedule = BatchSchedule.growing(sample.sampling_fraction, large / objective.n_rows)
        start = progressive_batches(objective, schedule, Start(guess.w, sample, guess, factor))
        if start is None:
            return None
        recorder.add_subsample(start.guess, f"progressive batches of {start.sample.n_rows:,} rows")
        if self.polish:  # all digits take a Hessian of all rows anyway
            return start
        fraction = start.sample.sampling_fraction
        whole = BatchSchedule.whole_pass(objective.n_rows, objective.size, fraction, policy.POLICY)
        further = None if whole is None else progressive_batches(objective, whole, start)
        if further is None:
            return start
        recorder.add_subsample(further.guess, "progressive batches of all rows")
        return further

    def _start_by_gradients(self, objective: Subsampled, w: Array, recorder: Recorder) -> Start | None:
        """Return a subsample, its minimiser to within the sampling error, and a diagonal preconditioner.

        This is possible if columns are nearly independent, so that gradients alone get far below the sampling error in
        a few steps. Otherwise return None.
        """
        settings = policy.POLICY
        at_once, in_time, own_steps = settings.easy_iterations
        sample = objective.subsample(start_sizes(objective.n_rows, objective.shape, settings)[0], self.seed)
        diagonal = KroneckerSumPreconditioner(*sample.column_curvature())
        pairs: Pairs = []
        guess = _to_sampling_error(sample, w, diagonal, recorder, steps=in_time, pairs=pairs)
        if diagonal.norm(guess.gradient) > sampling_error(sample):
            return None
        if len(pairs) > at_once:
            # The subsample's own optimum is no better than that; how soon it is found tells of its columns.
            part = settings.own_optimum
            own = _to_sampling_error(sample, guess.w, diagonal, recorder, part=part, steps=own_steps, pairs=pairs)
            if diagonal.norm(own.gradient) > part * sampling_error(sample):
                return None
        for rows in start_sizes(objective.n_rows, objective.shape, settings)[1:]:
            guess = _to_sampling_error(objective.subsample(rows, self.seed), guess.w, diagonal, recorder)
        return Start(guess.w, sample, guess, diagonal)

    def _new_certificate(self, objective: Subsampled, e: ObjectiveValue, tol: float) -> SubsampleCertificate:
        """Return the preconditioner and certificate from the larger subsample's Hessian at a point."""
        sample = objective.subsample(self._sizes(objective)[1], self.seed)
        guess = sample.evaluate(e.w, order=2)
        return _certificate(objective, Start(e.w, sample, guess, shrunk_factor(guess, sample)), tol)

    def _sizes(self, objective: Subsampled) -> tuple[int, int]:
        small, large = subsample_sizes(objective.n_rows, objective.shape, policy.POLICY, lazy=self.lazy)
        return small, self.drawn or large


def _first_fit(sample: Subsample, w: Array, recorder: Recorder) -> tuple[ObjectiveValue | None, SpdFactor]:
    """Return the first subsample's minimiser and a preconditioner, or None if it has no minimiser."""
    if sample.size > policy.POLICY.many_weights and sample.has_prior:
        # Many weights make a Hessian costly, and that at the start will do for gradients to go by.
        factor = shrunk_factor(sample.evaluate(w, order=2), sample)
        return _to_sampling_error(sample, w, factor, recorder), factor
    newton = Newton(watch_divergence=not sample.has_prior, stop=sampling_error(sample))
    result = newton.minimise(sample, w, tol=1e-8, max_iter=policy.POLICY.sample_iterations)
    recorder.add_subsample(result.final, f"Newton on {sample.n_rows:,} rows")
    lost = result.diverging or not np.isfinite(result.final.value)
    return None if lost else result.final, shrunk_factor(result.final, sample)


def _certificate(objective: Subsampled, start: Start, tol: float) -> SubsampleCertificate:
    return SubsampleCertificate(
        objective=objective, sample=start.sample, guess=start.guess, preconditioner=start.preconditioner, tol=tol
    )


def _misleads(start: Start, objective: Subsampled, w: Array) -> bool:
    """Whether a subsample's minimiser is worse than the start, because a few rows outside it dominate."""
    value = objective.evaluate(start.x).value
    return bool(value > policy.POLICY.misleading * start.guess.value and value > start.sample.evaluate(w).value)


def shrunk_factor(e: ObjectiveValue, sample: Subsample) -> SpdFactor:
    """Factor a subsample's Hessian as a preconditioner, with its correlations shrunk by their noise.

    Correlations between the classes of a softmax are not noise.
    """
    if sample.n_rows >= policy.POLICY.noisy_rows_per_weight * sample.size or sample.shape[0] > 1:
        return factor_spd(e.dense_hessian, tol=0.0)
    R, d = _correlations(e.dense_hessian)
    R *= 1.0 - oas_shrinkage(e, sample)
    np.einsum("ii->i", R)[:] = 1.0
    return replace(factor_spd(R, tol=0.0), d=d)


def oas_shrinkage(e: ObjectiveValue, sample: Subsample) -> float:
    """Return the share of a subsample's correlations that is noise, from 0 to 1 (oracle approximating shrinkage).

    Scaled to unit diagonal, a matrix of P weights from n rows has total noise P²/n; the excess is signal (Chen et al.,
    2010). With n ≥ 40 P there is little noise.
    """
    n, P = sample.n_rows, sample.size
    R, _ = _correlations(e.dense_hessian)
    square = float(np.vdot(R, R))
    beyond = (n + 1.0 - 2.0 / P) * (square - P)
    noise = (1.0 - 2.0 / P) * square + P**2
    return min(1.0, noise / beyond) if beyond > 0.0 else 1.0


def _correlations(H: Array) -> tuple[Array, Array]:
    d: Array = np.sqrt(np.diag(H))
    return H / d / d[:, None], d


def sampling_error(sample: Subsample) -> float:
    """The tolerance of a search on a subsample, in standard errors of all rows: well below its sampling error."""
    return float(policy.POLICY.sampling_error * np.sqrt(sample.size / sample.sampling_fraction))


def _to_sampling_error(
    sample: Subsample,
    w: Array,
    preconditioner: Preconditioner,
    recorder: Recorder,
    *,
    part: float = 1.0,
    steps: int | None = None,
    pairs: Pairs | None = None,
) -> ObjectiveValue:
    """Search on a subsample no further than (a part of) the sampling error, and return the end."""
    error = part * sampling_error(sample)
    close: Callable[[ObjectiveValue], bool] = lambda e: preconditioner.norm(e.gradient) <= error  # noqa: E731
    e = lbfgs(sample, w, preconditioner, close, steps or policy.POLICY.sample_iterations, pairs=pairs)
    recorder.add_subsample(e, f"L-BFGS on {sample.n_rows:,} rows")
    return e


def _by_one_hessian(
    objective: Subsampled, sample: Subsample, x: Array, recorder: Recorder, tol: float, max_iter: int
) -> SolverResult:
    """Continue from ``x`` by gradients, preconditioned by the Hessian of all rows there.

    If that is slow (weights of rare columns that the subsample did not show), Newton's method finishes.
    """
    e = objective.evaluate(x, order=2)
    factor = e.factor()
    certificate = _certificate(objective, Start(x, sample, replace(e, hessian=None), factor), tol)
    least = float(np.sqrt(factor.smallest_eigenvalue))

    def close(f: ObjectiveValue) -> bool:
        # A certificate needs a step that changes no row's activation by much, too; rare columns have long rows.
        distance = factor.norm(f.gradient) / np.sqrt(sample.sampling_fraction)
        near = 0.5 * distance**2 <= f.allowed_gap(tol)
        return bool(near and 2.0 * distance * objective.self_concordance <= least) and certificate.at(f).converged

    e = lbfgs(objective, x, factor, close, min(policy.POLICY.full_iterations // 3, max_iter), recorder)
    if close(e):
        return recorder.result(e, certificate.at(e))
    newton = Newton(watch_divergence=False, strict=False)
    return continue_with_newton(newton, objective, e.w, recorder, tol, max_iter)


def polished(objective: Subsampled, e: ObjectiveValue, recorder: Recorder, tol: float, max_iter: int) -> SolverResult:
    """Finish with the Hessian of all rows and an unchecked Newton step, or more steps if that is not enough."""
    e = objective.evaluate(e.w, order=2)
    final, certificate = unchecked_newton_step(objective, e, e.factor(), tol)
    # What rounding adds to the gap no further pass takes away: the decrement that the step leaves decides.
    left = policy.POLICY.polish_tolerance * tol
    stepped = final is not e and certificate.converged and certificate.gradient_norm <= left
    if stepped or certificate.gap <= 0.5 * left**2:
        recorder.end_with(e, "Newton")
        return recorder.result(final, certificate)
    return continue_with_newton(Newton(watch_divergence=False), objective, e.w, recorder, tol, max_iter)


def _last_step(objective: Subsampled, factor: SpdFactor, tol: float) -> float:
    """The distance from the optimum, in standard errors, at which an unchecked step is precise enough.

    A step of decrement λ leaves at most about ρλ²/2, usually far less.
    """
    rho = objective.self_concordance / np.sqrt(max(factor.smallest_eigenvalue, 1e-300))
    settings = policy.POLICY
    (least, most), left = settings.polish_distance, settings.polish_tolerance * tol
    return float(np.clip(settings.polish_margin * np.sqrt(2.0 * left / rho), least, most))
