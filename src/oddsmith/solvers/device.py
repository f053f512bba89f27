"""The solvers of fits on a device as records: what they do is imported, with PyTorch, when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SolverResult

if TYPE_CHECKING:
    from oddsmith.solvers.device_quasi_newton import OnDevice


def device_sizes(n_rows: int, P: int, settings: policy.Policy, room: int | None = None) -> tuple[int, ...]:
    """Return how many rows the subsamples have, of two classes: each takes off what the one before is wrong by.

    ``room`` is how many rows there is room for, if rows of a subsample are copied to the device.

    >>> device_sizes(20_000_000, 101, policy.POLICY), device_sizes(30_000, 2000, policy.POLICY)
    ((50500, 502493, 5000000), (16000,))
    """
    most = max(n_rows // 4, min(n_rows, settings.device_least_rows_per_weight * P))
    most = most if room is None else min(most, room)
    least, enough = settings.device_rows_per_weight[P > settings.many_weights]
    few = min(most, max(least * P, min(enough * P, most // 10)))
    share, halved = settings.device_share
    many = min(most, max(few, min(settings.device_many_rows * P, int(n_rows * share / (1.0 + P / halved)))))
    return tuple(dict.fromkeys((few, int((few * many) ** 0.5), many)))


@dataclass(frozen=True, kw_only=True)
class DeviceQuasiNewton:
    """Newton on subsamples, then quasi-Newton iterations on all rows, of two classes: see `QuasiNewtonOnTensors`."""

    polish: bool = True
    seed: int = 0
    name: str = "device"

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        from oddsmith.solvers.device_quasi_newton import QuasiNewtonOnTensors

        solver = QuasiNewtonOnTensors(polish=self.polish, seed=self.seed)
        return solver.minimise(objective, w, tol=tol, max_iter=max_iter)


@dataclass(frozen=True, kw_only=True)
class DeviceSoftmax:
    """L-BFGS in half precision, corrected by gradients in float64, of several classes: see `SoftmaxOnTensors`."""

    seed: int = 0
    name: str = "device-softmax"

    def minimise(self, objective: OnDevice, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        from oddsmith.solvers.device_softmax import SoftmaxOnTensors

        return SoftmaxOnTensors(seed=self.seed).minimise(objective, w, tol=tol, max_iter=max_iter)
