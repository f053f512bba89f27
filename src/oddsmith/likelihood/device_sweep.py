"""Fits on a device along a list of prior scales: each starts from the one before, and is certified by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from oddsmith.engines.gpu import DeviceSource
from oddsmith.kernels.device.tensors import chunks
from oddsmith.likelihood.device_objective import DeviceObjective
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.records import Certificate
from oddsmith.rows.device import Tensor
from oddsmith.solvers.device_quasi_newton import TensorRecorder
from oddsmith.solvers.device_softmax import SoftmaxOnTensors


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """A scale, its weights (K × M) and intercepts (K) in the user's units, on the device, and their certificate."""

    scale: float
    W: Tensor
    b: Tensor
    certificate: Certificate


def sweep_scales(problem: Problem, scales: Sequence[float]) -> Iterator[SweepPoint]:
    """Yield softmax fits with Gaussian priors of the scales, in their order."""
    problem = replace(problem, prior=GaussianPrior(scale=1.0))
    objective = make_objective(problem)[0]
    assert isinstance(objective, DeviceObjective)
    unit, solver = objective.on_device(), SoftmaxOnTensors()
    x = objective.to_tensor(np.zeros(objective.size))
    odds = np.log(np.maximum(problem.class_weight, 0.5))
    x.reshape(unit.shape)[:, 0] = torch.as_tensor(odds - odds.mean())
    preconditioner = None
    for scale in scales:
        f, recorder = replace(unit, Q=unit.Q / scale**2), TensorRecorder(objective, "mixed-precision refinement")
        before = f.state.passes
        if preconditioner is None:
            preconditioner, x = solver.start(f, x, recorder)
        preconditioner.q = float(f.Q[1:].mean())
        e, certificate = solver.refine(f, x, preconditioner, recorder, problem.tol, problem.max_iter)
        x = e.w
        W = x.reshape(unit.shape)[:, 1:] / unit.scale
        b = x.reshape(unit.shape)[:, 0] - W @ unit.center
        yield SweepPoint(scale, W, b, replace(certificate, passes=f.state.passes - before))


def held_out_scores(source: DeviceSource, rows: Tensor, W: Tensor, b: Tensor) -> tuple[Array, float]:
    """Return the log loss of each of some rows, and the share of them whose class is the most probable one."""
    losses, hits = [], 0.0
    for start, stop in chunks(len(rows), max(W.shape), 1 << 24):
        chosen = rows[start:stop]
        t = source.t[chosen.to(source.device)].to(torch.int64)
        A = source.X[chosen].to(source.device).to(torch.float32) @ W.to(torch.float32).T + b.to(torch.float32)
        losses.append(torch.nn.functional.cross_entropy(A, t, reduction="none"))
        hits += float((A.argmax(dim=1) == t).sum())
    return np.asarray(torch.cat(losses).cpu().numpy(), dtype=np.float64), hits / len(rows)
