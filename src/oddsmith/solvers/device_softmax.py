"""Softmax regression with a prior on a device: a search in half precision, corrected and certified in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from oddsmith.numerics import EPS, Array
from oddsmith.records import Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import Evaluates, ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.certificate import gap_bound
from oddsmith.solvers.device_quasi_newton import OnDevice, TensorRecorder, Tensors
from oddsmith.solvers.lbfgs import Pairs, add_pair, two_loop
from oddsmith.solvers.mixed_precision import ShiftedObjective


class ClassTensors(Tensors, Protocol):
    """An objective of tensors with a row of weights for each of K classes."""

    @property
    def Q(self) -> Any:
        """The prior's precision of each column, 0 for the intercept."""

    def evaluate(self, w: Any, order: int = 1) -> ObjectiveValue:
        """Return value and gradient."""

    def class_curvature(self, w: Any) -> Any:
        """Return the Hessian between the intercepts, K × K."""

    def class_moments(self, w: Any, V: Any) -> tuple[Any, Any, Any]:
        """Return curvature, mean and squares of the rows of each class, along each of some directions."""

    def column_gram(self) -> Any:
        """Return ``Σ z zᵀ`` of the scaled columns."""

    def squares(self) -> Any:
        """Return ``Σ z²`` of the scaled columns."""


def lbfgs_by_slopes(
    objective: Evaluates,
    x: Any,
    preconditioner: ClassPreconditioner,
    close: Callable[[ObjectiveValue], bool],
    max_iter: int,
    pairs: Pairs,
) -> ObjectiveValue:
    """Return the end of L-BFGS whose line search goes by slopes: near an optimum values are rounded long before them.

    As `lbfgs`, but a step that goes too far, so that the slope at its end is as steep the other way, is shortened to
    where the secant of the slopes is zero; one at which the objective is much larger is halved.
    """
    memory, overshoot = policy.POLICY.softmax_memory, policy.POLICY.softmax_overshoot
    e = objective.evaluate(x)
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
        add_pair(pairs, f.w - e.w, f.gradient - e.gradient, memory)
        e = f
    return e


class ClassPreconditioner:
    """Each class's own Hessian, nearly: the rows that count for it have a mean m, and independent columns around that.

    With ``h = p (1 − p)`` and ``u = Vᵀz`` along the eigenvectors V of the columns (one eigenproblem for all classes), a
    class has ``Σ h [(b + mᵀv)² + Σ_j c_j v_j²] + prior``, which is solved with intercept and columns apart. Steps sum
    to zero over the classes, as gradients do: along the sum there is no curvature but the prior's.
    """

    def __init__(self, G: Any, q: Any) -> None:
        self.q = float(q.mean())
        self.root = (q / self.q).sqrt()
        self.vectors = torch.linalg.eigh(G / self.root / self.root[:, None])[1]

    def at(self, f: ClassTensors, w: Any) -> None:
        """Take the curvature at ``w``: about a pass."""
        own, first, second = f.class_moments(w, self.vectors / self.root[:, None])
        self.own = own.clamp(min=1e-3 * float(own.mean()))[:, None]
        self.mean = first / self.own
        self.diagonal = (second - first * self.mean).clamp(min=0.0) + self.q

    def solve(self, b: Any) -> Any:
        R = b.reshape(len(self.own), -1)
        inner = ((R[:, 1:] / self.root) @ self.vectors - self.mean * R[:, :1]) / self.diagonal
        outer = R[:, :1] / self.own - (self.mean * inner).sum(dim=1, keepdim=True)
        p = torch.cat([outer, inner @ self.vectors.T / self.root], dim=1)
        return (p - p.mean(dim=0)).ravel()

    def norm(self, b: Any) -> float:
        return math.sqrt(max(float(b @ self.solve(b)), 0.0))


@dataclass(frozen=True, kw_only=True)
class SoftmaxOnTensors:
    """L-BFGS in half precision, corrected by gradients in float64, with a certificate from the prior.

      1. The eigenvectors of the columns, and the curvature of each class along them, make the preconditioner.
      2. A search on the subsample, no further than pays.
      3. On all rows in half precision; the difference to the exact gradient is added, and the search goes on, until the
         exact gradient is small enough (`mixed_precision`).
      4. Newton steps for the intercepts alone, which have no prior: they must be at their optimum.
      5. The certificate: with intercepts b′ that are optimal, the loss is convex and the prior Q, so that
         f − f* ≤ ½ Σ g²/Q; what b lacks of b′ is bounded by the Hessian between intercepts.

    Cost: tens of passes in half precision and five to ten in float64.
    """

    seed: int = 0

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = TensorRecorder(objective, "mixed-precision refinement")
        f: Any = objective.on_device()
        x = objective.to_tensor(w)
        preconditioner, x = self.start(f, x, recorder)
        e, certificate = self.refine(f, x, preconditioner, recorder, tol, max_iter)
        return recorder.result(objective.from_tensor(e), replace(certificate, passes=objective.passes))

    def start(self, f: ClassTensors, x: Any, recorder: Recorder) -> tuple[ClassPreconditioner, Any]:
        """Return the preconditioner, and a point from a search on a subsample."""
        settings, (K, P) = policy.POLICY, f.shape
        rows = min(f.n_rows, max(settings.softmax_rows, f.n_rows // 16))
        sample: ClassTensors = f.subsample(rows, self.seed)  # type: ignore[assignment]
        preconditioner = ClassPreconditioner(sample.column_gram(), f.Q[1:])
        preconditioner.at(sample, x)  # 1
        low: Any = sample.precise(False)
        error = settings.sampling_error * math.sqrt(K * P / sample.fraction)

        def close(e: ObjectiveValue) -> bool:
            return preconditioner.norm(e.gradient) <= error

        e = lbfgs_by_slopes(low, x, preconditioner, close, settings.softmax_start_iterations, [])  # 2
        recorder.add_subsample(e, f"L-BFGS on {sample.n_rows:,} rows")
        return preconditioner, e.w

    def refine(
        self,
        f: ClassTensors,
        x: Any,
        preconditioner: ClassPreconditioner,
        recorder: Recorder,
        tol: float,
        max_iter: int,
    ) -> tuple[ObjectiveValue, Certificate]:
        """Return the evaluation near the optimum and its certificate (steps 3 to 5)."""
        settings = policy.POLICY
        low: Any = f.precise(False)
        exact: Any = f.precise(True)
        pairs: Pairs = []
        e = exact.evaluate(x)
        before, steps = math.inf, max_iter
        while True:  # 3
            recorder.add(e, 1.0)
            left, limit = prior_norm(e, f.Q, f.shape), math.sqrt(2.0 * e.allowed_gap(tol))
            if left <= 0.7 * limit or steps <= 0 or left > 0.9 * before:
                break
            preconditioner.at(f, x)
            before, here = left, low.evaluate(x)
            goal = max(0.35 * limit, settings.softmax_progress * left)
            shifted = ShiftedObjective(low, e.gradient - here.gradient)

            def reached(d: ObjectiveValue, goal: float = goal) -> bool:
                return prior_norm(d, f.Q, f.shape) <= goal

            passes = low.state.passes
            d = lbfgs_by_slopes(shifted, x, preconditioner, reached, min(steps, settings.softmax_iterations), pairs)
            steps -= low.state.passes - passes
            x = d.w
            e = exact.evaluate(x)
        return self._with_intercepts(exact, e, recorder, tol)

    def _with_intercepts(
        self, f: Any, e: ObjectiveValue, recorder: Recorder, tol: float
    ) -> tuple[ObjectiveValue, Certificate]:
        """Return the evaluation with the intercepts at their optimum, and the certificate (steps 4 and 5)."""
        K, P = f.shape
        B = f.class_curvature(e.w)
        B = B + float(B.diagonal().mean()) / K  # the sum of all intercepts does not matter: any curvature will do
        smallest = float(torch.linalg.eigvalsh(B)[0])
        moved, squares = 0.0, float((f.squares() / f.Q[1:]).sum())
        for k in range(policy.POLICY.softmax_intercept_steps + 1):
            g = e.gradient.reshape(K, P)[:, 0]
            step = torch.linalg.solve(B, g)
            gap, rest = self._gap(e, f, float(g @ step), smallest, moved, squares)
            if gap <= 1.5 * rest or not math.isfinite(gap) or k == policy.POLICY.softmax_intercept_steps:
                break
            x: Any = e.w.reshape(K, P) + 0.0
            x[:, 0] -= step
            moved += 2.0 * float(step.abs().max())
            e = f.evaluate(x.ravel())
            recorder.add(e, 1.0)
        gap = gap if math.isfinite(gap) else np.inf
        certificate = Certificate(
            converged=bool(gap <= e.allowed_gap(tol)),
            gap=gap,
            gradient_norm=math.sqrt(float(e.gradient @ e.gradient)),
            condition=np.nan,
            passes=0,
            rigorous=True,
        )
        return e, certificate

    @staticmethod
    def _gap(
        e: ObjectiveValue, f: Any, square: float, smallest: float, moved: float, squares: float
    ) -> tuple[float, float]:
        """Return the bound of the gap, and what it would be with intercepts at their optimum.

        ``square`` is g_bᵀ B⁻¹ g_b with the Hessian B between intercepts, of which exp(−``moved``) is left here.
        """
        left = math.exp(-min(moved, 50.0))
        if not smallest > 1e-9 or moved >= 50.0:
            return np.inf, 0.0
        noise = 8.0 * EPS * f.weight * math.sqrt(f.shape[0] / (smallest * left))
        decrement, rho = math.sqrt(max(square, 0.0) / left) + noise, math.sqrt(2.0 / (smallest * left))
        if not decrement * rho < 0.5:
            return np.inf, 0.0
        outer = prior_norm(e, f.Q, f.shape) + 8.0 * EPS * f.weight * math.sqrt(
            f.shape[0] * float((1.0 / f.Q[1:]).sum())
        )
        # The gradient of the other weights changes on the way to b′ by no more than √½ Σ z²/Q times the step's length.
        shift = math.sqrt(0.5 * squares) * decrement / (1.0 - decrement * rho) ** 2
        return gap_bound(decrement, rho) + 0.5 * (outer + shift) ** 2, 0.5 * outer**2


def prior_norm(e: ObjectiveValue, Q: Any, shape: tuple[int, int]) -> float:
    """Return ``sqrt(Σ g²/Q)`` over the weights that have a prior."""
    G = e.gradient.reshape(shape)[:, 1:]
    return math.sqrt(float((G * G / Q[1:]).sum()))
