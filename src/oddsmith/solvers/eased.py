"""Gradients first, Newton's method last: for many weights, of which a Hessian takes as long as many gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.numerics import Array, factor_spd
from oddsmith.solvers.base import Evaluation, Recorder, SolverResult
from oddsmith.solvers.lbfgs import Columnwise, Metric, descend
from oddsmith.solvers.newton import Newton, go_on

STEPS = 40
NEAR = 1e-5
"""Standard errors from the optimum, about, where one Newton step gives all digits."""
SLOW = (4, 0.2)
"""So many steps that leave more than this of the gradient call for a better metric."""
HESSIANS = 6
FAR_OFF = 0.1


@dataclass(frozen=True)
class Eased:
    """L-BFGS with the columns' own curvature as its metric, then with Hessians, as few as will do.

      1. Where columns hardly depend on each other, it comes to the optimum with gradients alone.
      2. Where it goes slowly, the Hessian there is the metric from then on, until that is worn, too.
      3. Newton's method adds the last digits and the certificate.

    Cost: a pass a step, and a few Hessians of O(P²) numbers.
    """

    watch_divergence: bool = True
    name: str = "auto"

    def minimise(self, objective: Any, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser with its certificate."""
        recorder, start = Recorder(objective), w
        metric: Metric = Columnwise(*objective.column_curvature())
        e: Evaluation | None = None
        for _ in range(HESSIANS):
            steps = min(STEPS, max_iter // 2 - len(recorder.records))
            if steps < 1:
                break
            f, near = _search(objective, w, metric, steps - 1, recorder)  # 1
            w = f.w
            if near:
                break
            if e is not None and not _holds(e, f, metric):
                w = start
                break
            e = objective.evaluate(w, order=2)  # 2
            assert e is not None and e.hessian is not None
            metric = factor_spd(e.hessian, tol=0.0)
        newton = Newton(watch_divergence=self.watch_divergence)
        return go_on(newton, objective, w, recorder, tol, max(1, max_iter - len(recorder.records)))  # 3


def _search(objective: Any, w: Array, metric: Metric, steps: int, recorder: Recorder) -> tuple[Evaluation, bool]:
    """Go on while that is fast; return the end, and whether it is near the optimum."""
    norms: list[float] = []
    few, left = SLOW

    def enough(e: Evaluation) -> bool:
        norms.append(metric.norm(e.gradient))
        return norms[-1] <= NEAR or (len(norms) > few and norms[-1] > left * norms[-1 - few])

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a step too long is shortened
        e = descend(objective, w, metric, enough, steps, recorder)
    return e, norms[-1] <= NEAR


def _holds(e: Evaluation, f: Evaluation, metric: Metric) -> bool:
    """Whether the objective fell from e to f about as the Hessian at e said.

    Where it did not (a few rows of enormous values, whose probabilities are 0 or 1 but for a narrow strip), Newton's
    steps from the start, where all rows have curvature, are the surest.
    """
    said = 0.5 * metric.norm(e.gradient) ** 2
    return bool(FAR_OFF * (e.value - f.value) <= said <= (e.value - f.value) / FAR_OFF)
