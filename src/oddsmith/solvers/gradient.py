"""Batch gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SOLVERS, Objective, ObjectiveValue, Recorder, SolverResult
from oddsmith.solvers.certificate import certify
from oddsmith.solvers.line_search import backtrack
from oddsmith.solvers.truncated_newton import certified


@SOLVERS.register("gradient")
@dataclass(frozen=True)
class Gradient:
    """Batch gradient descent, w ← w − η g.

    Each iteration
      1. evaluates value and gradient g (one pass over the data),
      2. chooses the step η: the given ``step_size`` (of the mean objective, as in lectures), or the secant
         (Barzilai–Borwein) step shortened until the objective falls below its recent maximum,
      3. stops when the certificate, computed each time the gradient has fallen tenfold, is within ``tol``.

    A model passes it centred and scaled columns and starts at the null model, so the units of columns do not matter.
    `oddsmith.lectures.algorithms.batch_gradient` is the textbook version.

    >>> Gradient(step_size=0.1)
    Gradient(step_size=0.1, memory=8, name='gradient')
    """

    step_size: float | None = None
    memory: int = 8
    name: str = "gradient"

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise InvalidInputError(f"step_size must be a positive number, found {self.step_size!r}.")

    def minimise(self, objective: Objective, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "gradient descent")
        e = objective.evaluate(w)  # 1
        eta = 1.0 / max(float(np.linalg.norm(e.gradient)), EPS)
        asked, recent, step = np.inf, [e.value], 0.0
        while True:
            recorder.add(e, step)
            norm = float(np.linalg.norm(e.gradient))
            if norm <= 0.1 * asked:  # 3
                asked = norm
                if self._close_enough(objective, e, tol):
                    break
            if len(recorder.records) > max_iter:
                break
            if self.step_size is not None:  # 2
                step = self.step_size
                f = objective.evaluate(e.w - step / objective.weight * e.gradient)
            else:
                moved = _descend(objective, e, eta, max(recent[-self.memory :]))
                if moved is None:
                    break
                f, step = moved
            if not np.isfinite(f.value):
                break
            eta = _secant(e, f)
            recent.append(f.value)
            e = f
        return certified(objective, e, recorder, tol)

    @staticmethod
    def _close_enough(objective: Objective, e: ObjectiveValue, tol: float) -> bool:
        if e.w.size > policy.POLICY.largest_hessian:
            return certify(objective, e, tol).converged
        certificate = certify(objective, objective.evaluate(e.w, order=2), tol)
        return float(np.sqrt(2.0 * certificate.gap)) <= max(tol, 1e-7)


def _secant(e: ObjectiveValue, f: ObjectiveValue) -> float:
    """Return the step that the change of the gradient between two points suggests."""
    dw, dg = f.w - e.w, f.gradient - e.gradient
    along = float(dw @ dg)
    return float(dw @ dw) / along if along > 0 else 1.0 / max(float(np.linalg.norm(f.gradient)), EPS)


def _descend(
    objective: Objective, e: ObjectiveValue, eta: float, reference: float
) -> tuple[ObjectiveValue, float] | None:
    """Return the point of the longest step up to ``eta`` that falls enough below ``reference``, and the step."""
    slope, noise = float(e.gradient @ e.gradient), 8.0 * EPS * abs(e.value)

    def falls(f: ObjectiveValue, step: float) -> bool:
        return bool(np.isfinite(f.value) and f.value <= reference - policy.POLICY.armijo * step * slope + noise)

    return backtrack(lambda step: objective.evaluate(e.w - step * e.gradient), falls, eta, smallest=eta * 2.0**-60)
