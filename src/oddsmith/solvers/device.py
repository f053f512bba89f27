"""The solvers of fits on a device as records: what they do is imported, with PyTorch, when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.base import SolverResult

if TYPE_CHECKING:
    from oddsmith.solvers.device_quasi_newton import OnDevice


def device_sizes(n_rows: int, P: int, settings: policy.Policy) -> tuple[int, int]:
    """Return how many rows the smaller and the larger subsample have, of two classes.

    The larger one takes no more memory than a few hundredths of the rows, and a little.

    >>> device_sizes(20_000_000, 101, policy.POLICY)
    (5050, 396039)
    """
    wide = P > settings.many_weights
    few, many = settings.device_rows_per_weight[wide], settings.device_large_rows_per_weight
    most = int(settings.device_sample_share[wide] * n_rows) + settings.device_sample_numbers // P
    return few * P, max(few * P, min(n_rows // 4, most, max(many * P, settings.device_elements // P)))


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
