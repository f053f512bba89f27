"""Subsampled quasi-Newton on a device: vectors and matrices stay there, and a few numbers come back for each pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from oddsmith.cached_property import cached_property
from oddsmith.numerics import EPS, Array
from oddsmith.records import WEIGHTS, Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import LowPrecision, ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.certificate import gap_bound
from oddsmith.solvers.device import device_sizes
from oddsmith.solvers.lbfgs import two_loop
from oddsmith.solvers.newton import Newton, continue_with_newton
from oddsmith.solvers.subsampled import polished


class Tensors(Protocol):
    """An objective whose weights, gradients and Hessians are tensors; see `likelihood.device_objective`."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def fraction(self) -> float:
        """The share of all rows' weight that these have."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of weights × (1 + columns)."""

    def tensors(self, w: Any) -> tuple[tuple[Any, Any], Any]:
        """Return loss and penalty, and the gradient, without waiting for the device."""

    def precise(self, exact: bool) -> Tensors:
        """Return the same objective in float64, or in lower precision."""

    def subsample(self, rows: int, seed: int) -> Tensors:
        """Return the objective over about so many rows, scaled up to all."""

    def design(self) -> NewtonSteps:
        """Return a subsample for Newton steps."""

    def certifying(self) -> NewtonSteps:
        """Return a subsample for certificates."""


class NewtonSteps(Protocol):
    """A subsample on which Newton steps wait for nothing."""

    def newton_step(self, x: Any, *, search: bool = False) -> tuple[Any, Any, Any]:
        """Return the point after a step; squared decrement, squared gradient norm and value; and the Hessian."""

    @property
    def fraction(self) -> float:
        """The share of all rows' weight that these have."""

    def lower_hessian(self, x: Any) -> Any:
        """Return a lower bound of the Hessian of all rows: each of these counts once."""


class OnDevice(LowPrecision, Protocol):
    """An objective whose rows lie on a device."""

    def on_device(self) -> Tensors:
        """Return it as an objective of tensors."""

    def to_tensor(self, x: Array) -> Any:
        """Return weights as a tensor."""

    def from_tensor(self, e: ObjectiveValue) -> ObjectiveValue:
        """Return an evaluation of tensors as one of arrays."""


@dataclass(frozen=True)
class TensorFactor:
    """A Cholesky factor on the device: ``A = D L Lᵀ D``, D the root of the diagonal."""

    L: Any
    d: Any
    scaled: Any

    @classmethod
    def of(cls, H: Any) -> TensorFactor | None:
        """Return the factor of a matrix, None if it is not positive definite."""
        d = H.diagonal().clamp(min=1e-300).sqrt()
        R = H / d / d[:, None]
        L, info = torch.linalg.cholesky_ex(R)
        return cls(L, d, R) if int(info) == 0 and bool(torch.isfinite(L[-1, -1])) else None

    def solve(self, b: Any) -> Any:
        return torch.cholesky_solve((b / self.d)[:, None], self.L)[:, 0] / self.d

    def square_root(self, b: Any) -> Any:
        """Return ``sqrt(bᵀ A⁻¹ b)`` on the device."""
        half = torch.linalg.solve_triangular(self.L, (b / self.d)[:, None], upper=False)
        return (half * half).sum().sqrt()

    def norm(self, b: Any) -> float:
        return float(self.square_root(b))

    @cached_property
    def eigenvalues(self) -> tuple[float, float]:
        """A lower bound of the smallest eigenvalue, and about the largest.

        A guess by a few steps of inverse iteration is put to the test: A less 0.7 of it has a factor, too. Where it
        fails, 1 / trace(A⁻¹) will do.
        """
        generator = torch.Generator(device=self.d.device).manual_seed(0)
        v = torch.randn(len(self.d), dtype=torch.float64, device=self.d.device, generator=generator)
        u = v = v / v.norm()
        for _ in range(policy.POLICY.inverse_iterations):
            v, u = self.solve(v), self.d * (self.scaled @ (self.d * u))
            smallest, largest = v.norm(), u.norm()
            v, u = v / smallest, u / largest
        most, least = float(largest), 0.7 / float(smallest)
        shifted = self.scaled - torch.diag(least / self.d**2)
        safe = least - len(self.d) ** 2 * EPS * float(self.d.max()) ** 2
        if safe > 0.5 * least and int(torch.linalg.cholesky_ex(shifted)[1]) == 0:
            return safe, most
        return self.trace_bound, most

    @cached_property
    def trace_bound(self) -> float:
        """A simple bound of the smallest eigenvalue, 1 / trace(A⁻¹)."""
        unit = torch.eye(len(self.d), dtype=torch.float64, device=self.d.device)
        inverse = torch.linalg.solve_triangular(self.L, unit, upper=False) / self.d
        return 1.0 / float((inverse * inverse).sum())


@dataclass(kw_only=True)
class TensorCertificate:
    """Certifies points with the curvature of subsampled rows alone: other rows can only add to it."""

    objective: OnDevice
    design: NewtonSteps
    tol: float
    last: tuple[ObjectiveValue, Certificate] | None = field(default=None, init=False)

    @property
    def fraction(self) -> float:
        """The share of all rows' weight that the subsample has."""
        return self.design.fraction

    def at(self, e: ObjectiveValue) -> Certificate:
        """Return the certificate of a point: a Hessian of the subsample, no pass."""
        if self.last is None or self.last[0] is not e:
            self.last = e, self._certify(e)
        return self.last[1]

    def _certify(self, e: ObjectiveValue) -> Certificate:
        factor, limit = TensorFactor.of(self.design.lower_hessian(e.w)), e.allowed_gap(self.tol)
        gap = np.inf if factor is None else self._gap(e, factor, factor.trace_bound)
        if factor is not None and gap > limit and 0.5 * factor.norm(e.gradient) ** 2 <= limit:
            gap = self._gap(e, factor, factor.eigenvalues[0])
        return Certificate(
            converged=bool(gap <= limit),
            gap=gap,
            gradient_norm=math.sqrt(float(e.gradient @ e.gradient)),
            condition=np.nan,
            passes=self.objective.passes,
            rigorous=True,
        )

    def _gap(self, e: ObjectiveValue, factor: TensorFactor, smallest: float) -> float:
        noise = self.objective.rounding * math.sqrt(len(e.w) / smallest)
        return gap_bound(factor.norm(e.gradient) + noise, self.objective.self_concordance / math.sqrt(smallest))


@dataclass(frozen=True, kw_only=True)
class QuasiNewtonOnTensors:
    """Newton on subsamples, then quasi-Newton iterations on all rows, all on the device (two classes).

      1. Newton on a small subsample (gradients with one Hessian, if weights are many); then on a larger one, each no
         further than its sampling error.
      2. L-BFGS on all rows with the larger one's Hessian, a pass an iteration, in float32 until the next point is
         likely to be certified.
      3. From there on in float64, until the certificate is within ``tol``.
      4. With ``polish`` a Newton step with the Hessian of all rows gives all digits.

    Cost: three to five passes; memory O(P²) and the subsample, on the device.
    """

    polish: bool = True
    seed: int = 0

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = TensorRecorder(objective, "L-BFGS on all rows")
        f, x = objective.on_device(), objective.to_tensor(w)
        start = self._start(f, x, recorder)  # 1
        if start is None:
            newton = Newton(watch_divergence=not objective.has_prior)
            return continue_with_newton(newton, objective, w, recorder, tol, max_iter)
        design, x, factor = start
        certificate = TensorCertificate(objective=objective, design=design, tol=tol)
        e = self._on_all_rows(f, x, factor, certificate, recorder, max_iter)
        final = objective.from_tensor(e)
        if self.polish:
            return polished(objective, final, recorder, tol, max_iter)  # 4
        if certificate.at(e).converged or len(recorder.records) >= max_iter:
            return recorder.result(final, certificate.at(e))
        newton = Newton(watch_divergence=False, strict=False)
        return continue_with_newton(newton, objective, final.w, recorder, tol, max_iter - len(recorder.records))

    def _start(self, f: Tensors, x: Any, recorder: Recorder) -> tuple[NewtonSteps, Any, TensorFactor] | None:
        """Return the larger subsample, about its minimiser, and the factor of its Hessian; None if it has none."""
        settings, sizes = policy.POLICY, device_sizes(f.n_rows, f.shape[1], policy.POLICY)
        for rows in sizes:
            sample = f.subsample(rows, self.seed)
            design, error = sample.design(), settings.sampling_error * math.sqrt(f.shape[1] / sample.fraction)
            near = max(error, min(10.0 * error, 0.1 / sample.fraction**0.5))
            before, search, previous = math.inf, False, x
            for _ in range(settings.sample_iterations):
                here = x
                x, numbers, H = design.newton_step(here, search=search)
                square, norm2, value = numbers.tolist()
                decrement = math.sqrt(max(square, 0.0))
                if not search and not decrement < before:  # a step went too far: from here on the best of several
                    x, search, before = previous, True, math.inf
                    continue
                if not decrement > near:  # Newton's method squares the error: after this step it is far within
                    break
                before, previous = decrement, here
            if not math.isfinite(decrement) or decrement > 10.0 * error:
                return None
            recorder.add_subsample(
                ObjectiveValue(w=x, value=value, log_likelihood=np.nan, gradient=np.array([math.sqrt(norm2)])),
                f"Newton on {sample.n_rows:,} rows",
            )
        factor = TensorFactor.of(H)
        if f.shape[1] > settings.many_weights:  # a Hessian in float64 is costly: that of fewer rows must do
            del sample, design  # their rows make room
            design = f.subsample(min(rows, settings.device_certificate_rows * f.shape[1]), self.seed + 1).certifying()
        return None if factor is None else (design, x, factor)

    def _on_all_rows(
        self,
        f: Tensors,
        x: Any,
        factor: TensorFactor,
        certificate: TensorCertificate,
        recorder: Recorder,
        max_iter: int,
    ) -> ObjectiveValue:
        """Return the end of L-BFGS on all rows (steps 2 and 3); an iteration waits for the device once."""
        settings, tol = policy.POLICY, certificate.tol
        gain = 1.5 * math.sqrt(f.shape[1] / device_sizes(f.n_rows, f.shape[1], settings)[1])
        objective, exact, before = f.precise(False), False, None
        pairs: list[Any] = []
        for _ in range(min(settings.full_iterations, max_iter) + 1):
            value, g = objective.tensors(x)
            p = factor.solve(g)
            numbers = torch.stack([*value, g @ p]).tolist()
            e = ObjectiveValue(w=x, value=sum(numbers[:2]), log_likelihood=-numbers[0], gradient=g)
            if before is not None and not e.value <= before.value + 1e-7 * abs(before.value):
                x = before.w + 0.25 * (x - before.w)  # the step went too far
                continue
            recorder.add(e, 1.0)
            needed, decrement = (
                math.sqrt(2.0 * e.allowed_gap(tol) * certificate.fraction),
                math.sqrt(max(numbers[2], 0)),
            )
            if exact and decrement <= 1.2 * needed and certificate.at(e).converged:
                break
            if not math.isfinite(numbers[2]):
                break
            if not exact and decrement * gain <= needed:  # the next point is likely to be certified
                exact, objective = True, f.precise(True)
            if before is not None:
                dx, dg = x - before.w, g - before.gradient
                pairs.append((dx, dg, dx @ dg))
                p = two_loop(g, pairs[-settings.memory :], factor.solve, factor.square_root)
            before, x = e, x - p
        return before if before is not None and not math.isfinite(e.value) else e


class TensorRecorder(Recorder):
    """A recorder of evaluations on a device: weights are fetched only where the trace keeps them."""

    def add(self, e: ObjectiveValue, step_size: float, *more: object) -> None:
        kept = WEIGHTS in self.columns and torch.is_tensor(e.w)
        super().add(self.objective.from_tensor(e) if kept else e, step_size, *more)  # type: ignore[attr-defined]

    def add_subsample(self, e: ObjectiveValue, stage: str) -> None:
        kept = WEIGHTS in self.columns and torch.is_tensor(e.w)
        super().add_subsample(self.objective.from_tensor(e) if kept else e, stage)  # type: ignore[attr-defined]
