"""Steps on subsamples, of many weights, that a device takes by itself: they are known, and judged, afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from oddsmith.kernels.device.steps import LOGGED, complete_hessian, take_step
from oddsmith.likelihood.device_logistic import Begun, DeviceLogistic
from oddsmith.numerics import Array
from oddsmith.rows.device import Tensor
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.tensor_factor import AnyFactor, TensorFactor

MOST_STEPS = 16
"""Steps of a walk at most."""


@dataclass(kw_only=True)
class DeviceWalk:
    """A point on the device, which steps on parts of the rows move: a pass over all rows ends the walk."""

    f: DeviceLogistic
    at: Tensor
    known: Tensor
    before: Tensor
    log: Tensor
    factor: Any = None
    steps: int = field(default=0, init=False)
    last: DeviceLogistic | None = field(default=None, init=False)

    @classmethod
    def from_point(cls, f: DeviceLogistic, x: Array) -> DeviceWalk | None:
        """Return a walk from a point; None where weights are few, a prior has a covariance matrix, or one may not move.

        Few weights are solved for in memory, which takes fewer calls.
        """
        if f.few or (f.penalty is not None and f.penalty.Q.ndim > 1) or not f.free.all():
            return None
        P = f.size
        mean, Q = (np.zeros(P), np.zeros(P)) if f.penalty is None else (f.penalty.mean.ravel(), f.penalty.Q)
        both = f.to_device(np.concatenate([mean, Q, x, np.zeros(3 * P)]))
        log = torch.empty((MOST_STEPS, LOGGED), dtype=torch.float64, device=f.device)
        return cls(f=f, at=f._upload(x).at, known=both[: 2 * P], before=both[2 * P :], log=log)

    def newton(self, part: DeviceLogistic) -> None:
        """Take a Newton step on a part of the rows."""
        sums, G = part._hessian(self.at, exact=False)
        self.factor = TensorFactor.of(complete_hessian(G, self.known[self.f.size :], 1.0 / part.fraction))
        self._step(part, sums, centred=True, paired=False)

    def step(self, part: DeviceLogistic) -> None:
        """Take a step of L-BFGS on a part of the rows, with the last Hessian."""
        (block,) = part.source.blocks()
        sums = part._sums(block, self.at, exact=False)
        self._step(part, sums, centred=part.centred, paired=self.last is part)

    def _step(self, part: DeviceLogistic, sums: Tensor, *, centred: bool, paired: bool) -> None:
        g, each = self._gradient(sums, 1.0 / part.fraction, centred=centred), 1.0 / part.fraction
        log, info = self.log[self.steps], self.factor.info
        take_step(sums, self.factor.solve(g), g, info, self.at, self.known, self.before, log, each, paired=paired)
        self.steps, self.last = self.steps + 1, part

    def _gradient(self, sums: Tensor, each: float, *, centred: bool) -> Tensor:
        P = self.f.size
        center, _, slope, factors = self.at[P + 1 :].split([P - 1, P - 1, P, P])
        g = torch.addcmul(slope, sums[2:], factors, value=each)
        if not centred:
            g[1:].addcmul_(center * factors[1:], sums[2], value=-each)
        return g

    def end(self) -> tuple[ObjectiveValue, Array, AnyFactor, Array]:
        """Return the evaluation of all rows at the end, the last factor's solution, that factor, and the steps."""
        f, P = self.f, self.f.size
        begun = f.begin(self.before[:P], self.at)
        found = [self.before[:P], begun.sums, self.log[: self.steps].ravel(), self.factor.solve(begun.gradient)]
        x, sums, log, p = np.split(torch.cat(found).cpu().numpy(), np.cumsum([P, P + 2, LOGGED * self.steps]))
        value, slope = (0.0, np.zeros(P)) if f.penalty is None else f.penalty.at(x[None])
        e = f._evaluation(Begun(x, value, slope.ravel(), self.at, None, None, f.centred), sums)
        return e, p, self.factor, log.reshape(self.steps, LOGGED)
