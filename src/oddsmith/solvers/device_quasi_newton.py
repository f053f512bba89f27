"""Subsampled quasi-Newton on a device: rows and matrices stay there, vectors come back once for each pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.numerics import Array
from oddsmith.records import WEIGHTS, Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import LowPrecision, ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.certificate import certificate_of_gap, gap_bound
from oddsmith.solvers.device import device_sizes
from oddsmith.solvers.lbfgs import Pairs, two_loop
from oddsmith.solvers.newton import Newton, continue_with_newton
from oddsmith.solvers.subsampled import polished
from oddsmith.solvers.tensor_factor import AnyFactor, ShiftedFactor


class DeviceSubsample(Protocol):
    """An objective over rows on a device, or a subsample of them."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def weight(self) -> float:
        """The weight of all rows."""

    @property
    def fraction(self) -> float:
        """The share of it that these rows have."""


class DevicePasses(DeviceSubsample, Protocol):
    """An objective of two classes; see `likelihood.device_logistic`."""

    @property
    def size(self) -> int:
        """Number of weights."""

    def iterate(self, x: Array) -> Any:
        """Return an iterate at a point that the device moves by itself; None if it cannot."""

    @property
    def room(self) -> int | None:
        """How many rows of a subsample there is room for, if they are copied to the device."""

    def subsample(self, rows: int, seed: int) -> DevicePasses:
        """Return the objective over about ``rows`` rows, scaled up to all."""

    def thinned(self, rows: int) -> DevicePasses:
        """Return the objective over about ``rows`` rows of a subsample, scaled up to all."""

    def evaluate(self, x: Array, factor: AnyFactor, *, exact: bool = False) -> tuple[ObjectiveValue, Array]:
        """Return value and gradient, and the step that a factor gives."""

    def begin(self, x: Array, *, exact: bool = False) -> Any:
        """Let the device evaluate value and gradient; nothing waits for it."""

    def end(self, begun: Any, factor: AnyFactor) -> tuple[ObjectiveValue, Array]:
        """Return what was begun: value and gradient, and the step that a factor gives."""

    def newton(self, x: Array) -> tuple[ObjectiveValue, Array, AnyFactor]:
        """Return value and gradient, the Newton step and the factor of the Hessian, nearly."""

    def solve(self, factor: AnyFactor, g: Array) -> Array:
        """Return the step that a factor gives."""

    def lower_hessian(self, x: Array) -> Any:
        """Return a lower bound of the Hessian of all rows, on the device: each of these counts once."""

    @property
    def few(self) -> bool:
        """Whether matrices are factored in memory."""

    def to_device(self, values: Array) -> Any:
        """Return a vector on the device."""


class OnDevice(LowPrecision, Protocol):
    """An objective whose rows lie on a device."""

    def on_device(self) -> Any:
        """Return it as an objective of the solvers there."""


class DeviceStart(NamedTuple):
    """Passes over all rows from about the minimiser over a subsample, the factor of its Hessian, and what they gave."""

    evaluations: list[ObjectiveValue]
    factor: Callable[[], AnyFactor]
    certified: bool


class Ahead(NamedTuple):
    """The curvature of some rows at a point, which the device works on; of many weights, with its first shift."""

    x: Array
    rows: int
    H: Any
    first: ShiftedFactor | None


@dataclass(kw_only=True)
class TensorCertificate:
    """Certifies points with the curvature of subsampled rows alone: other rows can only add to it."""

    objective: OnDevice
    sample: DevicePasses
    tol: float
    ahead: Ahead | None = field(default=None, init=False)
    last: tuple[ObjectiveValue, Certificate] | None = field(default=None, init=False)

    def rows_for(self, decrement: float, e: ObjectiveValue, spare: float = 1.0) -> int | None:
        """Return the number of rows that certify a point near e with this decrement, None if there are not enough.

        If there are enough, the number is multiplied by ``spare``.
        """
        settings, f = policy.POLICY, self.sample
        least, most = (rows * f.size for rows in settings.device_certificate_rows[not f.few])
        share = settings.device_certificate_margin * decrement**2 / (2.0 * e.allowed_gap(self.tol))
        rows, most = share * f.n_rows / f.fraction, min(most, f.n_rows)
        return None if rows > most else int(min(most, max(spare * rows, least)))

    def passes_for(self, value: float) -> int:
        """Return how many passes are likely to end with a point that the Hessian of the subsample certifies, or 1.

        The first is at about the minimiser over the subsample; each takes off what the Hessian is right about.
        ``value`` is about the objective there.
        """
        settings, f = policy.POLICY, self.sample
        others = max(0.0, 1.0 - f.fraction)
        error = math.sqrt(f.size * others / f.fraction)
        for passes in range(2, settings.device_passes + 1):
            error *= settings.device_gain * math.sqrt(f.size * others / f.n_rows)
            if settings.device_certificate_margin * error**2 / (2.0 * f.fraction) <= self.tol * value:
                return passes
        return 1

    def begin(self, x: Array, g: Any, rows: int) -> Ahead:
        """Let the device compute the curvature of some rows at a point with gradient g there, likely a certified one.

        Of few weights, matrices are factored in memory, where the gradient is.
        """
        H = self.sample.thinned(rows).lower_hessian(x)
        first = None if self.sample.few else ShiftedFactor.of(H, policy.POLICY.device_shifts[0], g)
        self.ahead = Ahead(x, rows, H, first)
        return self.ahead

    def at(self, e: ObjectiveValue, rows: int | None = None) -> Certificate:
        """Return the certificate of a point: a Hessian of the subsample, no pass.

        It is that of ``rows`` rows (by default, as many as may be) unless that of others was begun, and certifies.
        """
        if self.last is not None and self.last[0] is e:
            return self.last[1]
        if rows is None:
            rows = policy.POLICY.device_certificate_rows[not self.sample.few][1] * self.sample.size
        begun = self.ahead if self.ahead is not None and self.ahead.x is e.w else None
        found = None if begun is None else self._certify(e, begun)
        if begun is None or found is None or (not found.converged and rows > begun.rows):
            found = self._certify(e, self.begin(e.w, self._gradient(e), rows))
        self.last = e, found
        return found

    def accept(self, e: ObjectiveValue, known: ShiftedFactor) -> bool:
        """Whether a bound of the curvature that is known already certifies a point."""
        found = self._certificate(e, self._gap(*known.bound()))
        if found.converged:
            self.last = e, found
        return found.converged

    def _gradient(self, e: ObjectiveValue) -> Any:
        """Return the gradient where matrices are factored."""
        return e.gradient if self.sample.few else self.sample.to_device(e.gradient)

    def _certify(self, e: ObjectiveValue, begun: Ahead) -> Certificate:
        """Bound the gap by the Hessian H less θ of its diagonal, for smaller and smaller θ, until one is good enough.

        A larger θ bounds the rounding and the self-concordance constant better, a smaller one the decrement.
        """
        settings, limit, gap = policy.POLICY, e.allowed_gap(self.tol), np.inf
        H = begun.H.cpu().numpy() if self.sample.few else begun.H
        for k, theta in enumerate(settings.device_shifts):
            known = begun.first if k == 0 else None
            square, smallest = (known or ShiftedFactor.of(H, theta, self._gradient(e))).bound()
            gap = min(gap, self._gap(square, smallest))
            if gap <= limit or (smallest > 0.0 and 0.5 * square > limit):
                break
        return self._certificate(e, gap)

    def _gap(self, square: float, smallest: float) -> float:
        """Return the bound of the gap from the square of the decrement and the smallest eigenvalue; 0 if unknown."""
        if not smallest > 0.0:
            return np.inf
        noise = self.objective.rounding * math.sqrt(self.sample.size / smallest)
        rho = self.objective.self_concordance / math.sqrt(smallest)
        return gap_bound(math.sqrt(square) + noise, rho)

    def _certificate(self, e: ObjectiveValue, gap: float) -> Certificate:
        return certificate_of_gap(gap, e, self.tol, self.objective.passes)


@dataclass
class Steps:
    """Steps of L-BFGS with the factor of a Hessian: solutions are linear in gradients, so one a pass will do."""

    factor: AnyFactor
    pairs: Pairs = field(default_factory=list)
    last: tuple[Array, Array] | None = None

    def direction(self, x: Array, g: Array, p: Array) -> Array:
        """Return the direction at a point with gradient g, where ``p`` is the factor's solution for it."""
        both = np.stack([g, p])
        if self.last is not None:
            dx, change = x - self.last[0], both - self.last[1]
            curvature = float(dx @ change[0])
            if curvature > 0.0:
                self.pairs = [*self.pairs[1 - policy.POLICY.memory :], (dx, change, curvature)]
        self.last = x, both
        return two_loop(both, self.pairs, lambda q: q[1], lambda q: math.sqrt(float(q[0] @ q[1])), _dot)


def _dot(a: Array, b: Array) -> float:
    """Return the product of two vectors, of which one may have its solution beside it."""
    return float((a[0] if a.ndim == 2 else a) @ (b[0] if b.ndim == 2 else b))


@dataclass(frozen=True, kw_only=True)
class QuasiNewtonOnTensors:
    """Newton on subsamples, then quasi-Newton iterations on all rows (two classes).

      1. A Newton step on a small subsample, on a larger and on a still larger one; if weights are many, L-BFGS with the
         first Hessian on the second. The device takes these steps by itself. Where one is not good enough, all are
         taken again from memory, with line searches.
      2. L-BFGS on all rows with the largest one's Hessian, a pass an iteration, in float32 until the next point is
         likely to be certified. As many passes as that is likely to take follow on step 1 without a wait.
      3. From there on in float64, until the certificate is within ``tol``: by the same Hessian, if rows have lost
         little of their curvature since, else by that of other rows.
      4. With ``polish`` a Newton step with the Hessian of all rows gives all digits.

    Cost: two to five passes; memory O(P²) on the device and a chunk of rows in half precision.
    """

    polish: bool = True
    seed: int = 0

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "L-BFGS on all rows")
        f: DevicePasses = objective.on_device()
        sizes = device_sizes(f.n_rows, f.size, policy.POLICY, f.room)
        sample = f.subsample(sizes[-1], self.seed)
        certificate = TensorCertificate(objective=objective, sample=sample, tol=tol)
        start = self._subsampled_steps(f, certificate, sizes, w, recorder) or self._start(
            f, sample, sizes, w, recorder
        )  # 1
        if start is None:
            newton = Newton(watch_divergence=not objective.has_prior)
            return continue_with_newton(newton, objective, w, recorder, tol, max_iter)
        e = start.evaluations[-1] if start.certified else self._on_all_rows(f, start, certificate, recorder, max_iter)
        if self.polish:
            return polished(objective, e, recorder, tol, max_iter)  # 4
        if certificate.at(e).converged or len(recorder.records) >= max_iter:
            return recorder.result(e, certificate.at(e))
        newton = Newton(watch_divergence=False, strict=False)
        return continue_with_newton(newton, objective, e.w, recorder, tol, max_iter - len(recorder.records))

    def _subsampled_steps(
        self, f: DevicePasses, certificate: TensorCertificate, sizes: tuple[int, ...], x: Array, recorder: Recorder
    ) -> DeviceStart | None:
        """As `_start`, by steps whose number is fixed beforehand; None unless each of them was good enough.

        The first pass begins before the steps on subsamples are judged. If all were good, it is followed by as many as
        are likely to end with a certificate.
        """
        sample, iterate = certificate.sample, None if WEIGHTS in recorder.columns else f.iterate(x)
        if iterate is None:
            return None
        parts, ends = self._descend(iterate, sample, sizes)
        passes = certificate.passes_for(0.5 * sample.weight) if iterate.bounds_curvature else 1
        iterate.begin_pass(compare=passes == 2 and not f.few)
        log = iterate.read_log()
        if not self._good(parts, ends, log):
            iterate.count_passes()
            return None
        for part, end in zip(parts, ends, strict=True):
            loss, penalty, square = log[end - 1, :3].tolist()
            at = ObjectiveValue(w=x, value=loss + penalty, log_likelihood=-loss, gradient=np.array([math.sqrt(square)]))
            recorder.add_subsample(at, f"Newton on {part.n_rows:,} rows")
        for k in range(1, passes):
            iterate.begin_pass(exact=k == passes - 1, compare=k == passes - 2 and not f.few)
        return self._judged(iterate, certificate, recorder)

    @staticmethod
    def _descend(iterate: Any, sample: DevicePasses, sizes: tuple[int, ...]) -> tuple[list[DevicePasses], list[int]]:
        """Take the steps on subsamples; return these, and how many steps there were at the end of each."""
        parts, ends = [], []
        for k, rows in enumerate(sizes):
            parts.append(sample if rows == sizes[-1] else sample.thinned(rows))
            takes = [partial(iterate.newton_step, last=rows == sizes[-1])]
            if k == 0 and (sample.few or len(sizes) == 1):
                takes *= 2 if len(sizes) > 1 else 3  # the weights that the first gives are too small
            elif not sample.few and 0 < k < len(sizes) - 1:
                takes = [iterate.lbfgs_step, iterate.lbfgs_step]  # a Hessian would cost more
            for take in takes:
                take(parts[-1])
            ends.append(iterate.steps)
        return parts, ends

    @staticmethod
    def _judged(iterate: Any, certificate: TensorCertificate, recorder: Recorder) -> DeviceStart | None:
        """Return the passes of an iterate up to the first that led up, or None if there is none."""
        found: list[ObjectiveValue] = []
        certified = False
        for e, known in iterate.evaluations():
            if not math.isfinite(e.value) or (found and e.value > found[-1].value + 1e-7 * abs(found[-1].value)):
                break
            recorder.add(e, 1.0)
            found.append(e)
            certified = known is not None and certificate.accept(e, known)
        return DeviceStart(found, iterate.final_factor, certified) if found else None

    @staticmethod
    def _good(parts: list[DevicePasses], ends: list[int], log: Array) -> bool:
        """Whether the steps of an iterate led down, and ended about where `_on_sample` would.

        Whether the first ones did is seen by the decrement on the second subsample.
        """
        if not np.isfinite(log).all() or log[:, -1].any() or not (log[:, 3:5] > 0.0).all():
            return False
        settings, begin = policy.POLICY, 0
        for k, (f, end) in enumerate(zip(parts, ends, strict=True)):
            values, decrement = log[begin:end, :2].sum(axis=1), math.sqrt(log[end - 1, 3])
            error = settings.device_sampling_error * math.sqrt(f.size / f.fraction)
            ahead = settings.device_contraction * decrement**2 / math.sqrt(f.weight)
            most = 1.0 if k == 0 else settings.device_known_error
            stepped = end - begin > 1 and (k > 0 or len(parts) == 1)
            near = decrement <= most * error if stepped else min(ahead, decrement) <= error
            near = near or (k == 0 and len(parts) > 1)
            if (np.diff(values) > 1e-6 * np.abs(values[1:])).any() or not near:
                return False
            begin = end
        return True

    def _start(
        self, f: DevicePasses, sample: DevicePasses, sizes: tuple[int, ...], x: Array, recorder: Recorder
    ) -> DeviceStart | None:
        """Return an evaluation of all rows about as near as a subsample can tell; None if a search fails."""
        found: tuple[Array, AnyFactor] | None = None
        for k, rows in enumerate(sizes):
            part = sample if rows == sizes[-1] else sample.thinned(rows)
            known = found[1] if found is not None and not sample.few and rows != sizes[-1] else None
            found = self._on_sample(part, x if found is None else found[0], recorder, known, first=k == 0)
            if found is None:
                return None
        assert found is not None
        x, factor = found
        e = f.evaluate(x, factor)[0]
        recorder.add(e, 1.0)
        return DeviceStart([e], lambda: factor, certified=False)

    def _on_sample(
        self, f: DevicePasses, x: Array, recorder: Recorder, known: AnyFactor | None, *, first: bool
    ) -> tuple[Array, AnyFactor] | None:
        """Return about the minimiser over a subsample, and the factor of the last Hessian on the way.

        A step that leads up is shortened. Of many weights a Hessian serves several steps, as long as these do, and on
        the subsample that follows: a ``known`` factor. Only on the first subsample a Newton step is checked: on others
        one ends near enough, mostly.
        """
        settings = policy.POLICY
        error = settings.device_sampling_error * math.sqrt(f.size / f.fraction)
        steps, before, decrement = None if known is None else Steps(known), None, math.inf
        for _ in range(settings.sample_iterations):
            earlier, kept = decrement, steps is not None and not f.few
            if steps is None or not kept:
                e, p, factor = f.newton(x)
                steps = Steps(factor)
            else:
                e, p = f.evaluate(x, steps.factor)
            if not np.isfinite(p).all():
                return None
            if before is not None and not e.value <= before.value + 1e-6 * abs(before.value):
                x = before.w + 0.25 * (x - before.w)
                continue
            decrement = math.sqrt(max(float(e.gradient @ p), 0.0))
            before, x = e, x - steps.direction(x, e.gradient, p)
            # Newton's method squares the error; a Hessian of another point only takes a part off it.
            ahead = settings.device_contraction * decrement**2 / math.sqrt(f.weight)
            near = (
                decrement <= settings.device_known_error * error if known is not None else ahead <= error and not kept
            )
            if decrement <= error or (near and not first):
                recorder.add_subsample(e, f"Newton on {f.n_rows:,} rows")
                return x, steps.factor
            if kept and decrement > 0.5 * earlier:
                steps = None
        return None

    def _on_all_rows(
        self, f: DevicePasses, start: DeviceStart, certificate: TensorCertificate, recorder: Recorder, max_iter: int
    ) -> ObjectiveValue:
        """Return the end of L-BFGS on all rows from the passes at hand (steps 2 and 3)."""
        settings, factor = policy.POLICY, start.factor()
        gain = 1.5 * math.sqrt(f.size / certificate.sample.n_rows)
        steps, decrement = Steps(factor), math.inf
        for e in start.evaluations[:-1]:
            p = f.solve(factor, e.gradient)
            steps.direction(e.w, e.gradient, p)
            decrement = math.sqrt(max(float(e.gradient @ p), 0.0))
        e = before = start.evaluations[-1]
        p = f.solve(factor, e.gradient)
        exact, rows, most = len(start.evaluations) > 1, None, min(settings.full_iterations, max_iter)
        for k in range(most + 1):
            if e.value <= before.value + 1e-7 * abs(before.value):
                recorder.add(e, 1.0)
                earlier, square = decrement, float(e.gradient @ p)
                decrement = math.sqrt(max(square, 0.0))
                needed = certificate.rows_for(decrement, e)
                if not math.isfinite(square) or (exact and needed and certificate.at(e, needed).converged):
                    break
                likely = decrement * (gain if math.isinf(earlier) else max(0.3 * gain, decrement / earlier))
                rows = certificate.rows_for(likely, e, 2.5 if f.few else 1.0)  # of few weights, more cost little
                exact = exact or certificate.rows_for(0.5 * likely, e) is not None  # the next point may be certified
                before, x = e, e.w - steps.direction(e.w, e.gradient, p)
            else:
                x = before.w + 0.25 * (e.w - before.w)  # the step went too far
            if k == most:
                break
            begun = f.begin(x, exact=exact)
            if rows is not None:
                certificate.begin(x, begun.gradient, rows)  # behind the pass, which is waited for next
            e, p = f.end(begun, factor)
        return e if e.value <= before.value + 1e-7 * abs(before.value) else before
