"""Softmax regression with a prior on a device: a search in half precision, corrected and certified in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
import torch

from oddsmith.numerics import EPS, Array
from oddsmith.records import WEIGHTS, Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import Evaluates, ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.certificate import certificate_of_gap, gap_bound
from oddsmith.solvers.device_quasi_newton import DeviceSubsample, OnDevice
from oddsmith.solvers.lbfgs import Pairs, add_pair, two_loop
from oddsmith.solvers.mixed_precision import ShiftedObjective


class ClassTensors(DeviceSubsample, Protocol):
    """An objective of tensors with a row of weights for each of K classes; see `likelihood.device_objective`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Classes × (1 + columns)."""

    @property
    def Q(self) -> Any:
        """The prior's precision of each column, 0 for the intercept."""

    @property
    def state(self) -> Any:
        """The count of passes."""

    def precise(self, precision: int) -> ClassTensors:
        """Return the same objective in float64 (2), in half precision with weights in two parts (1), or in one (0)."""

    def subsample(self, rows: int, seed: int) -> ClassTensors:
        """Return the objective over about ``rows`` rows, scaled up to all."""

    def evaluate(self, w: Any, order: int = 1) -> ObjectiveValue:
        """Return value and gradient."""

    def class_curvature(self, w: Any) -> Any:
        """Return the Hessian between the intercepts, K × K; each row counts once."""

    def class_moments(self, w: Any, V: Any) -> tuple[Any, Any, Any]:
        """Return curvature, mean and squares of the rows of each class, along each of some directions."""

    def column_gram(self) -> Any:
        """Return ``Σ z zᵀ`` of the scaled columns."""


class TensorRecorder(Recorder):
    """A recorder of evaluations on a device: weights are fetched only where the trace keeps them."""

    def add(self, e: ObjectiveValue, step_size: float, *more: object) -> None:
        super().add(self._kept(e), step_size, *more)

    def add_subsample(self, e: ObjectiveValue, stage: str) -> None:
        super().add_subsample(self._kept(e), stage)

    def _kept(self, e: ObjectiveValue) -> ObjectiveValue:
        return self.objective.from_tensor(e) if WEIGHTS in self.columns else e  # type: ignore[attr-defined]


def lbfgs_by_slopes(
    objective: Evaluates,
    e: ObjectiveValue,
    preconditioner: ClassPreconditioner,
    close: Callable[[ObjectiveValue], bool],
    max_iter: int,
    pairs: Pairs,
) -> ObjectiveValue:
    """Return the end of L-BFGS whose line search goes by slopes: near an optimum values are rounded long before them.

    As `lbfgs`, from the evaluation ``e``; but a step that goes too far, so that the slope at its end is as steep the
    other way, is shortened to where the secant of the slopes is zero; one at which the objective is much larger is
    quartered.
    """
    memory, overshoot = policy.POLICY.softmax_memory, policy.POLICY.softmax_overshoot
    for _ in range(max_iter):
        if close(e):
            break
        p = two_loop(e.gradient, pairs, preconditioner.solve, preconditioner.norm)
        slope = float(p @ e.gradient)
        if not slope > 0.0:
            break
        step = 1.0
        f = objective.evaluate(e.w - p)
        for _ in range(policy.POLICY.halvings):
            end = float(p @ f.gradient)
            if not (math.isfinite(f.value) and f.value <= e.value + 1e-3 * abs(e.value)):
                step *= 0.25
            elif end < -overshoot * slope:
                step *= slope / (slope - end)
            else:
                break
            f = objective.evaluate(e.w - step * p)
        if not (math.isfinite(f.value) and f.value <= e.value + 1e-3 * abs(e.value)):
            break
        add_pair(pairs, f.w - e.w, f.gradient - e.gradient, memory)
        e = f
    return e


class ClassPreconditioner:
    """Each class's own Hessian, nearly: the rows that count for it have a mean m, and independent columns around that.

    With ``h = p (1 − p)`` and ``u = Vᵀz`` along the eigenvectors V of the columns (one eigenproblem for all classes), a
    class has ``Σ h [(b + mᵀv)² + Σ_j c_j v_j²] + prior``, which is solved with intercept and columns apart. Steps sum
    to zero over the classes, as gradients do: along the sum there is no curvature but the prior's.
    """

    def __init__(self, f: ClassTensors, G: Any) -> None:
        """Take the eigenvectors of the columns from their Gram matrix, and curvatures from rows of an objective."""
        self.f, q = f, f.Q[1:]
        self.q = float(q.mean())
        self.root = (q / self.q).sqrt()
        values, self.vectors = torch.linalg.eigh(G / self.root / self.root[:, None])
        self.largest = float(values[-1])

    def at(self, w: Any) -> None:
        """Take the curvature at ``w``."""
        own, first, second = self.f.class_moments(w, self.vectors / self.root[:, None])
        self.own = own.clamp(min=max(1e-3 * float(own.mean()), 1e-9 * self.f.weight))[:, None]
        self.mean = first / self.own
        self.diagonal = (second - first * self.mean).clamp(min=0.0) + self.q

    def with_scale(self, q: Any) -> None:
        """Take another precision of the prior, in the same ratios between the columns."""
        self.q = float(q.mean())

    @property
    def coupling(self) -> float:
        """A bound of ``½ λ_max(Q^-½ Σ z zᵀ Q^-½)``: G has three digits."""
        return 0.55 * self.largest / self.q

    def solve(self, b: Any) -> Any:
        R = b.reshape(len(self.own), -1)
        inner = ((R[:, 1:] / self.root) @ self.vectors - self.mean * R[:, :1]) / self.diagonal
        outer = R[:, :1] / self.own - (self.mean * inner).sum(dim=1, keepdim=True)
        p = torch.cat([outer, inner @ self.vectors.T / self.root], dim=1)
        return (p - p.mean(dim=0)).ravel()

    def norm(self, b: Any) -> float:
        return math.sqrt(max(float(b @ self.solve(b)), 1e-300))


class Search:
    """Ends a search in low precision at its goal, or where rounding keeps the gradient from getting smaller."""

    def __init__(self, f: ClassTensors, goal: float) -> None:
        self.f, self.goal, self.norms = f, goal, [math.inf]
        self.best: Any = None

    def ends(self, e: ObjectiveValue) -> bool:
        """Whether the search ends here; the best point so far is kept."""
        norm, wait = prior_norm(e, self.f), policy.POLICY.softmax_patience
        if norm < min(self.norms) or self.best is None:
            self.best = e.w
        self.norms.append(norm)
        stalled = len(self.norms) > 2 * wait and min(self.norms[-wait:]) > 0.8 * min(self.norms[:-wait])
        return norm <= self.goal or stalled


@dataclass(frozen=True, kw_only=True)
class SoftmaxOnTensors:
    """L-BFGS in half precision, corrected by gradients in float64, with a certificate from the prior.

      1. The eigenvectors of the columns, and the curvature of each class along them on a subsample, make the
         preconditioner.
      2. A search on the subsample, no further than pays.
      3. On all rows in half precision; the difference to the exact gradient is added, and the search goes on, until the
         exact gradient is small enough (`mixed_precision`).
      4. Newton steps for the intercepts alone, which have no prior: they must be at their optimum.
      5. The certificate: with intercepts b′ that are optimal, the loss is convex and the prior Q, so that
         f − f* ≤ ½ Σ g²/Q; what b lacks of b′ is bounded by the Hessian between intercepts of the subsample, to which
         other rows can only add.

    Cost: tens of passes in half precision and three to five in float64.
    """

    seed: int = 0

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = TensorRecorder(objective, "mixed-precision refinement")
        f, given = objective.on_device(), cast(Any, objective)
        preconditioner, sample, x = self.start(f, given.to_tensor(w), recorder)
        e, certificate = self.refine(f, x, preconditioner, sample, recorder, tol=tol, max_iter=max_iter)
        return recorder.result(given.from_tensor(e), replace(certificate, passes=objective.passes))

    def start(self, f: ClassTensors, x: Any, recorder: Recorder) -> tuple[ClassPreconditioner, ClassTensors, Any]:
        """Return the preconditioner, a subsample, and a point from a search there."""
        settings, (K, P), n = policy.POLICY, f.shape, f.n_rows
        sample = f.subsample(min(n, max(settings.softmax_rows, n // 16)), self.seed)
        rows = min(n, max(settings.softmax_rows, int(settings.softmax_share * n)))
        preconditioner = ClassPreconditioner(f.subsample(rows, self.seed + 1) if rows < n else f, f.column_gram())
        preconditioner.at(x)  # 1
        low = sample.precise(1)
        error = settings.sampling_error * math.sqrt(K * P / sample.fraction)

        def close(e: ObjectiveValue) -> bool:
            return preconditioner.norm(e.gradient) <= error

        e = lbfgs_by_slopes(low, low.evaluate(x), preconditioner, close, settings.softmax_start_iterations, [])  # 2
        recorder.add_subsample(e, f"L-BFGS on {sample.n_rows:,} rows")
        return preconditioner, sample, e.w

    def refine(
        self,
        f: ClassTensors,
        x: Any,
        preconditioner: ClassPreconditioner,
        sample: ClassTensors,
        recorder: Recorder,
        *,
        tol: float,
        max_iter: int,
        slope: Any = None,
        pairs: Pairs | None = None,
    ) -> tuple[ObjectiveValue, Certificate]:
        """Return the evaluation near the optimum and its certificate (steps 3 to 5).

        ``slope`` is the difference to the exact gradient where it is known from a point nearby; ``pairs`` are those of
        L-BFGS that are known, and those found are added to them.
        """
        settings, exact, e = policy.POLICY, f.precise(2), None
        pairs, steps, before, stuck = [] if pairs is None else pairs, max_iter, math.inf, 0
        while True:  # 3
            low = exact if stuck else f.precise(0 if e is None and slope is None else 1)
            here = e if stuck and e is not None else low.evaluate(x)
            shift = e.gradient - here.gradient if e is not None else torch.zeros_like(x) if slope is None else slope
            near = replace(here, value=here.value + float(shift @ x), gradient=here.gradient + shift)
            limit, left = math.sqrt(2.0 * here.allowed_gap(tol)), prior_norm(near, f)
            progress = settings.softmax_progress[e is not None or slope is not None]
            goal = max(settings.softmax_goal * limit, progress * left)
            preconditioner.at(x)

            passes, most = f.state.passes, min(steps, settings.softmax_iterations)
            search = Search(f, goal)
            last = lbfgs_by_slopes(
                ShiftedObjective(cast(Any, low), shift), near, preconditioner, search.ends, most, pairs
            )
            search.ends(last)
            x = search.best
            steps -= f.state.passes - passes
            e = exact.evaluate(x)
            recorder.add(e, 1.0)
            left = prior_norm(e, f)
            stuck += left > 0.9 * before
            if left <= settings.softmax_enough * limit or steps <= 0 or stuck > 1:
                return self._with_intercepts(exact, e, sample, preconditioner.coupling, recorder, tol)
            if left > 0.9 * before:  # rounding has spoilt the search: it goes on in float64
                pairs.clear()
            before = left

    def _with_intercepts(
        self, f: ClassTensors, e: ObjectiveValue, sample: ClassTensors, coupling: float, recorder: Recorder, tol: float
    ) -> tuple[ObjectiveValue, Certificate]:
        """Return the evaluation with the intercepts at their optimum, and the certificate (steps 4 and 5).

        Steps are taken with the Hessian of all rows to three digits, and bounded with that of the subsample.
        """
        (K, P), most = f.shape, policy.POLICY.softmax_intercept_steps
        B, near = _definite(sample.class_curvature(e.w)), None
        smallest, moved = float(torch.linalg.eigvalsh(B)[0]), 0.0
        B = torch.linalg.cholesky(B) if smallest > 1e-9 else B
        best: tuple[float, ObjectiveValue] = math.inf, e
        for k in range(most + 1):
            g = e.gradient.reshape(K, P)[:, 0]
            square = float(g @ torch.cholesky_solve(g[:, None], B)[:, 0])
            gap, rest = self._gap(e, f, square, smallest, moved, coupling)
            if not gap < best[0]:
                break
            best = gap, e
            if gap <= max(1.5 * rest, 0.8 * e.allowed_gap(tol)) or k == most:
                break
            near = _definite(f.precise(1).class_curvature(e.w)) if near is None else near
            step = torch.linalg.solve(near, g)
            x: Any = e.w.reshape(K, P) + 0.0
            x[:, 0] -= step
            moved += 2.0 * float(step.abs().max())
            e = f.evaluate(x.ravel())
            recorder.add(e, 1.0)
        gap, e = best
        return e, certificate_of_gap(gap, e, tol, 0)

    @staticmethod
    def _gap(
        e: ObjectiveValue, f: ClassTensors, square: float, smallest: float, moved: float, coupling: float
    ) -> tuple[float, float]:
        """Return the bound of the gap, and what it would be with intercepts at their optimum.

        ``square`` is g_bᵀ B⁻¹ g_b with a Hessian B between intercepts, of which exp(−``moved``) is left here.
        """
        left = math.exp(-min(moved, 50.0))
        if not smallest > 1e-9 or moved >= 50.0:
            return np.inf, 0.0
        noise = 8.0 * EPS * f.weight * math.sqrt(f.shape[0] / (smallest * left))
        decrement, rho = math.sqrt(max(square, 0.0) / left) + noise, math.sqrt(2.0 / (smallest * left))
        if not decrement * rho < 0.5:
            return np.inf, 0.0
        outer = prior_norm(e, f) + 8.0 * EPS * f.weight * math.sqrt(f.shape[0] * float((1.0 / f.Q[1:]).sum()))
        # The gradient of the other weights changes on the way to b′ by no more than the root of the coupling (the
        # largest curvature of the loss, against the prior's) times the step's length.
        shift = math.sqrt(coupling) * decrement / (1.0 - decrement * rho) ** 2
        return gap_bound(decrement, rho) + 0.5 * (outer + shift) ** 2, 0.5 * outer**2


def _definite(B: Any) -> Any:
    """Return the Hessian between intercepts with curvature along their sum, which does not matter: any will do."""
    return B + float(B.diagonal().mean()) / len(B)


def prior_norm(e: ObjectiveValue, f: ClassTensors) -> float:
    """Return ``sqrt(Σ g²/Q)`` over the weights that have a prior."""
    G = e.gradient.reshape(f.shape)[:, 1:]
    return math.sqrt(float((G * G / f.Q[1:]).sum()))
