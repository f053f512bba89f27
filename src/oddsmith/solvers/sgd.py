"""Stochastic gradient descent, one row per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.solvers.base import SOLVERS, Recorder, SolverResult, Stochastic
from oddsmith.solvers.truncated_newton import certified


@SOLVERS.register("sgd")
@dataclass(frozen=True, kw_only=True)
class SGD:
    """Stochastic gradient descent on the mean objective, one row per step, with averaged weights.

    In each epoch, over the rows in random order, step number τ
      1. takes the gradient of one row and its share of the prior's gradient,
      2. moves by the step size η_τ = ``step_size`` / (1 + τ / ``decay``)^``power``,
      3. averages the weights of the second half of the run (Polyak and Ruppert).

    ``step_size=None`` takes 1 / (mean squared length of a scaled row); ``decay=None`` is one epoch. The
    number of epochs is ``epochs``, at most the model's ``max_iter``. The certificate bounds the remaining gap.
    """

    step_size: float | None = None
    decay: float | None = None
    power: float = 0.75
    epochs: int = 30
    seed: int | None = None
    name: str = "sgd"

    def __post_init__(self) -> None:
        if self.step_size is not None and not self.step_size > 0:
            raise InvalidInputError(f"step_size must be a positive number, found {self.step_size!r}.")
        if self.epochs < 1:
            raise InvalidInputError(f"epochs must be at least 1, found {self.epochs!r}.")

    def minimise(self, objective: Stochastic, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "SGD")
        rng = np.random.default_rng(self.seed)
        epochs = min(self.epochs, max_iter)
        recorder.add(objective.evaluate(w), 0.0)
        average, averaged = w, 0
        tau = 0
        for epoch in range(epochs):
            w, mean = objective.sgd_epoch(w, rng, self.steps(objective, tau))
            tau += objective.n_rows
            if epoch >= epochs // 2:  # 3
                averaged += 1
                average = average + (mean - average) / averaged
            point = average if averaged else w
            recorder.add(objective.evaluate(point), float(self.steps(objective, tau)[-1]))
        return certified(objective, objective.evaluate(average), recorder, tol)

    def steps(self, objective: Stochastic, tau: int, decay: float | None = None) -> Array:
        """Return the step sizes of the epoch that begins at step ``tau``; ``decay`` is the default if unset."""
        first = self.step_size or 1.0 / objective.mean_square
        number = tau + np.arange(objective.n_rows)
        result: Array = first / (1.0 + number / (self.decay or decay or float(objective.n_rows))) ** self.power
        return result
