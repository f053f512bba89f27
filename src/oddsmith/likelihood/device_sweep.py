"""Fits on a device along a list of prior scales: each starts from those before, and is certified by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from oddsmith.engines.gpu import DeviceSource
from oddsmith.kernels.device.tensors import chunks
from oddsmith.likelihood.device_objective import DeviceObjective, TensorObjective
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.records import Certificate
from oddsmith.rows.device import Tensor
from oddsmith.solvers.device_softmax import SoftmaxOnTensors, TensorRecorder
from oddsmith.solvers.lbfgs import Pairs


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """A scale, its weights (K × M) and intercepts (K) in the user's units, on the device, and their certificate."""

    scale: float
    W: Tensor
    b: Tensor
    certificate: Certificate


def sweep_scales(problem: Problem, scales: Sequence[float]) -> Iterator[SweepPoint]:
    """Yield softmax fits with Gaussian priors of the scales, in their order.

    Weights are extrapolated along the logarithm of the scale from the last fits. The difference between gradients in
    half precision and in float64 is taken over from one fit to the next, and so are the pairs of L-BFGS: a change of
    the prior changes both by what is known.
    """
    problem = replace(problem, prior=GaussianPrior(scale=1.0))
    objective = make_objective(problem)[0]
    assert isinstance(objective, DeviceObjective)
    unit, solver = objective.on_device(), SoftmaxOnTensors()
    assert isinstance(unit, TensorObjective)
    x = objective.to_tensor(np.zeros(objective.size))
    odds = np.log(np.maximum(problem.class_weight, 0.5))
    x.reshape(unit.shape)[:, 0] = torch.as_tensor(odds - odds.mean())
    preconditioner, sample, slope, path = None, None, None, Path()
    pairs: Pairs = []
    Q = unit.Q
    for scale in scales:
        f, recorder = replace(unit, Q=unit.Q / scale**2), TensorRecorder(objective, "mixed-precision refinement")
        pairs, Q = _with_prior(pairs, f.Q - Q, unit.shape), f.Q
        before = f.state.passes
        if preconditioner is None:
            preconditioner, sample, x = solver.start(f, x, recorder)
        else:
            x = path.ahead(math.log(scale))
        assert sample is not None
        preconditioner.with_scale(f.Q[1:])
        e, certificate = solver.refine(
            f, x, preconditioner, sample, recorder,
            tol=problem.tol, max_iter=problem.max_iter, slope=slope, pairs=pairs,
        )  # fmt: skip
        path.add(math.log(scale), e.w)
        slope = e.gradient - f.precise(1).evaluate(e.w).gradient
        W = e.w.reshape(unit.shape)[:, 1:] / unit.scale
        b = e.w.reshape(unit.shape)[:, 0] - W @ unit.center
        yield SweepPoint(scale, W, b, replace(certificate, passes=f.state.passes - before))


def _with_prior(pairs: Pairs, change: Tensor, shape: tuple[int, int]) -> Pairs:
    """Return the pairs of L-BFGS after a change of the prior's precision, if that leaves of them more than rounding."""
    changed: Pairs = []
    for dx, dg, curvature in pairs:
        more = (dx.reshape(shape) * change).ravel()
        after = float(curvature) + float(dx @ more)
        if after > 0.05 * float(curvature):
            changed.append((dx, dg + more, after))
    return changed


class Path:
    """The last points of a path of solutions: the next is guessed by the polynomial through them."""

    def __init__(self) -> None:
        self.points: list[tuple[float, Tensor]] = []

    def add(self, place: float, x: Tensor) -> None:
        """Add a solution; one that is not ahead of the last begins anew."""
        places = [p for p, _ in self.points]
        if len(places) >= 2 and (place - places[-1]) * (places[-1] - places[-2]) <= 0.0:
            self.points = self.points[-1:]
        self.points = [*self.points[-2:], (place, x)]

    def ahead(self, place: float) -> Tensor:
        """Return the guess: near the last points that of all of them, else the last."""
        places = [p for p, _ in self.points]
        last = self.points[-1][1]
        step = 0.0 if len(places) < 2 else places[-1] - places[-2]
        if step == 0.0 or not 0.0 < (place - places[-1]) / step <= 1.5 or abs(place - places[-1]) > 0.7:
            return last
        guess = torch.zeros_like(last)
        for k, (own, x) in enumerate(self.points):
            others = [p for j, p in enumerate(places) if j != k]
            guess += math.prod((place - p) / (own - p) for p in others) * x
        return guess


def held_out_scores(source: DeviceSource, rows: Tensor, W: Tensor, b: Tensor) -> tuple[Array, float]:
    """Return the log loss of each of some rows, and the share of them whose class is the most probable one."""
    losses, hits = [], torch.zeros((), dtype=torch.float64, device=source.device)
    for start, stop in chunks(len(rows), max(W.shape), 1 << 24):
        chosen = rows[start:stop]
        t = source.t[chosen.to(source.device)].to(torch.int64)
        A = source.X[chosen].to(source.device).to(torch.float32) @ W.to(torch.float32).T + b.to(torch.float32)
        losses.append(torch.nn.functional.cross_entropy(A, t, reduction="none"))
        hits += (A.argmax(dim=1) == t).sum()
    return np.asarray(torch.cat(losses).cpu().numpy(), dtype=np.float64), float(hits) / len(rows)
