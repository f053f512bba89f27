"""Steps on subsamples and on all rows that a device takes by itself: their results are read afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from oddsmith.kernels.device.logistic import gram_fits, logistic_gram
from oddsmith.kernels.device.steps import LOGGED, complete_hessian, newton_system, take_step
from oddsmith.kernels.device.tensors import GRAM_BATCHES, GRAM_ROWS, gram_rounding
from oddsmith.likelihood.device_logistic import NEAR_CENTER, Begun, DeviceLogistic
from oddsmith.numerics import Array
from oddsmith.rows.device import Tensor
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.tensor_factor import AnyFactor, ShiftedFactor, SmallFactor, TensorFactor

MOST_STEPS = 16
"""Most steps from one point."""
SPLIT = 0.02
"""Share of a Hessian in half precision that is given up for a bound of the rounding of its rows."""
SHIFT = 0.02
"""Part of its diagonal that is taken off it, to bound its smallest eigenvalue."""
LONGEST = 1e9
"""Square of the longest row, times its weight, up to which no number in half precision is out of range."""
MOST_CHANGE = 8.0
"""Logarithm of a change of curvature from which a bound is of no use."""


@dataclass(kw_only=True)
class DeviceIterate:
    """A point on the device, which steps on parts of the rows move, and then passes over all rows."""

    f: DeviceLogistic
    at: Tensor
    known: Tensor
    before: Tensor
    log: Tensor
    factor: Any = field(default=None, init=False)
    curved: Any = field(default=None, init=False)
    bound: Any = field(default=None, init=False)
    steps: int = field(default=0, init=False)
    last: DeviceLogistic | None = field(default=None, init=False)
    passes: list[tuple[Tensor, Tensor]] = field(default_factory=list, init=False)
    exact: bool = field(default=False, init=False)
    log_copy: Any = field(default=None, init=False)

    @classmethod
    def from_point(cls, f: DeviceLogistic, x: Array) -> DeviceIterate | None:
        """Return an iterate at a point; None where a prior has a covariance matrix, or a weight may not move."""
        if (f.penalty is not None and f.penalty.Q.ndim > 1) or not f.free.all():
            return None
        P = f.size
        mean, Q = (np.zeros(P), np.zeros(P)) if f.penalty is None else (f.penalty.mean.ravel(), f.penalty.Q)
        start = f.vectors_at(x)[0]
        room = np.zeros(5 * P + 1 + MOST_STEPS * LOGGED)
        there = f.to_device(np.concatenate([start, mean, Q, x, room]))  # one copy for all
        at, known, before, log = there.split([len(start), 2 * P, 6 * P + 1, MOST_STEPS * LOGGED])
        return cls(f=f, at=at, known=known, before=before, log=log.view(MOST_STEPS, LOGGED))

    @property
    def bounds_curvature(self) -> bool:
        """Whether a subsample's Hessian in half precision can bound that of all rows: float32 must hold the rows."""
        return bool(self.f.source.X.dtype != torch.float64)

    def newton_step(self, part: DeviceLogistic, *, last: bool = False) -> None:
        """Take a Newton step on a part of the rows; if it is the ``last``, its Hessian becomes a bound of all rows'."""
        P, each, rounding = self.f.size, 1.0 / part.fraction, gram_rounding(GRAM_ROWS, GRAM_BATCHES)
        if gram_fits(part.source.X):
            (block,) = part.source.blocks()
            sums, G, rounding = logistic_gram(block.X, block.t, block.s, self.at, block.rows)
            H, g = newton_system(G, self.known[P:], self.at[3 * P - 1 : 4 * P - 1], each)
        else:
            sums, G = part._hessian(self.at, exact=False)
            H, g = complete_hessian(G, self.known[P:], each), self._gradient(sums, each, centred=True)
        done = _record_event(self.f.device)
        self.factor, self.curved = TensorFactor.of(H), (G, part)
        if last and self.bounds_curvature:
            with _on_second_stream(self.f.device, done):
                self.bound = _shifted_factor(G, part.n_rows, self.known[P:], rounding)
        self._take_step(part, sums, g, paired=False, fresh=True)

    def lbfgs_step(self, part: DeviceLogistic) -> None:
        """Take a step of L-BFGS on a part of the rows, with the last Hessian."""
        (block,) = part.source.blocks()
        self._lbfgs_step(part, part._sums(block, self.at, exact=False))

    def _lbfgs_step(self, part: DeviceLogistic, sums: Tensor) -> None:
        """Take a step of L-BFGS with the last Hessian from sums over a part of the rows, or all."""
        g = self._gradient(sums, 1.0 / part.fraction, centred=part.centred)
        self._take_step(part, sums, g, paired=self.last is part)

    def _take_step(self, part: DeviceLogistic, sums: Tensor, g: Tensor, *, paired: bool, fresh: bool = False) -> None:
        p, info, log = self.factor.solve(g), self.factor.info, self.log[self.steps]
        each, asked = 1.0 / part.fraction, {"paired": paired, "fresh": fresh}
        take_step(sums, p, g, info, self.at, self.known, self.before, log, each, **asked)
        self.steps, self.last = self.steps + 1, part

    def _gradient(self, sums: Tensor, each: float, *, centred: bool) -> Tensor:
        P = self.f.size
        center, _, slope, factors = self.at[P + 1 :].split([P - 1, P - 1, P, P])
        g = torch.addcmul(slope, sums[2 : P + 2], factors, value=each)
        if not centred:
            g[1:].addcmul_(center * factors[1:], sums[2], value=-each)
        return g

    def begin_pass(self, *, exact: bool = False, compare: bool = False) -> None:
        """Let the device sum all rows, after a step with the sums of the last pass; nothing waits for it.

        With ``compare``, it also finds how much larger a row's curvature was at the point of the last Hessian.
        """
        f, P = self.f, self.f.size
        if self.passes:
            self._lbfgs_step(f, self.passes[-1][1])
        else:
            self.log_copy = _copy_async(self.log[: self.steps])
        longest = not self.passes and f.state.max_row_norm2 is None
        sums = f.sum_rows(self.at, exact=exact, longest=longest, moved=self.before[5 * P :] if compare else None)
        self.passes.append((self.before[:P].clone(), sums))
        self.exact = exact

    def read_log(self) -> Array:
        """Return the log of the steps on subsamples; it waits for them, and not for a pass behind them."""
        log: Array = self.log_copy()
        return log

    def count_passes(self) -> None:
        """Count the passes, whose steps are not taken."""
        self.f.state.passes += len(self.passes)

    def evaluations(self) -> Iterator[tuple[ObjectiveValue, ShiftedFactor | None]]:
        """Yield the evaluation of every pass; with the last one, the bound of its curvature if there is one."""
        f, P = self.f, self.f.size
        bounded = self.bound is not None and self.exact
        parts = [part for x, sums in self.passes for part in (x, sums[: P + 2])]
        if bounded:
            _wait_for_second_stream(f.device)
            factor, least = self.bound
            g = self._gradient(self.passes[-1][1], 1.0, centred=f.centred)
            parts += [self.before[4 * P : 5 * P], factor.squared_norm(g, least), self.passes[-2][1][P + 2 :]]
        found = torch.cat(parts).cpu().numpy()
        count = len(self.passes) * (2 * P + 2)
        places, rest = found[:count].reshape(-1, 2 * P + 2), found[count:]
        for k, (x, sums) in enumerate(zip(places[:, :P], places[:, P:], strict=True)):
            value, slope = (0.0, np.zeros(P)) if f.penalty is None else f.penalty.at(x[None])
            f.state.passes += 1
            e = f._evaluation(Begun(x, value, slope.ravel(), self.at, None, None, f.centred), sums)
            last = bounded and k == len(places) - 1
            yield e, self._bound(places[k - 1 : k + 1, :P], rest[:P], *rest[P:]) if last else None

    def _bound(
        self, places: Array, curved: Array, square: float, info: float, least: float, ratio: float = math.inf
    ) -> ShiftedFactor | None:
        """Return the bound of the curvature at the last of two places by that of the subsample at another point.

        A row's curvature changes by at most the exponential of the change of its activation. At the place before, where
        it was compared, no row's was less than that at the other point over ``ratio``, but for the rounding.
        """
        P, longest = self.f.size, self.f.state.max_row_norm2 or math.inf
        before, x = places
        length = math.sqrt(longest) + NEAR_CENTER * math.sqrt(P)
        norms = [float(np.linalg.norm(step)) for step in (x, x - curved, x - before)]
        rounding = 2.0**-22 * (P + 4) * length * (norms[0] + norms[1])
        far, near = (math.sqrt(1.0 + longest) * norm for norm in norms[1:])
        s = self.f.source.s
        heaviest = 1.0 if s is None else max(1.0, float(s.max()))
        if not (heaviest * (1.0 + longest) < LONGEST and ratio > 0.0 and rounding < 1.0):
            return None
        change = rounding + min(far, near + math.log(ratio))
        if change > MOST_CHANGE:
            return None
        ratio = math.exp(max(0.0, change))  # the prior counts in full, at most
        return ShiftedFactor(SHIFT, P, np.array([square * ratio, info, least / ratio]))

    def final_factor(self) -> AnyFactor:
        """Return the last factor, where the solver works with it."""
        if not self.f.few:
            factor: AnyFactor = self.factor
            return factor
        G, part = self.curved
        return SmallFactor.of(complete_hessian(G, self.known[self.f.size :], 1.0 / part.fraction).cpu().numpy())


def _copy_async(values: Tensor) -> Callable[[], Array]:
    """Begin to copy numbers to memory; the function returned waits for them, and for nothing that was begun later."""
    if not values.is_cuda:
        kept: Array = values.clone().numpy()
        return lambda: kept
    here = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    here.copy_(values, non_blocking=True)
    event = torch.cuda.Event()
    event.record()

    def wait() -> Array:
        event.synchronize()
        return np.array(here.numpy())

    return wait


@lru_cache(maxsize=8)
def _second_stream(device: Any) -> Any:
    return torch.cuda.Stream(device)


def _record_event(device: Any) -> Any:
    """Return an event after what was begun so far."""
    return torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None


@contextmanager
def _on_second_stream(device: Any, event: Any) -> Iterator[None]:
    """Let the device work on what follows beside what was begun after an event, until `_wait_for_second_stream`."""
    if device.type != "cuda":
        yield
        return
    stream = _second_stream(device)
    stream.wait_event(event)
    with torch.cuda.stream(stream):
        yield


def _wait_for_second_stream(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.current_stream(device).wait_stream(_second_stream(device))


def _shifted_factor(G: Tensor, rows: int, Q: Tensor, epsilon: float) -> tuple[TensorFactor, Tensor]:
    """Return the factor of a matrix below the curvature of a subsample, which ``G`` is up to rounding, with the prior.

    The rows B are known as ``B̂ = B + F``, where ``|F| ≤ u |B̂| + 2⁻²⁴``, and their Gram matrix up to ``ε d dᵀ``, d² its
    diagonal. With P columns, ``‖F x‖ ≤ φ ‖d x‖`` where ``φ = u √P + 2⁻²⁴ √(n Σ d⁻²)``, and for any η

        ``‖B x‖² ≥ (1 − η) ‖B̂ x‖² − (1/η − 1) φ² ‖d x‖²,   ‖B̂ x‖² ≥ xᵀ G x − ε P ‖d x‖²``.

    The least entry of the diagonal comes with it.
    """
    P, u, eta = len(Q), 1.02 * 2.0**-11, SPLIT
    H = complete_hessian(G, Q, 1.0 - eta)
    squares = torch.roll(G.diagonal()[:P], 1)
    phi = (squares.reciprocal().sum() * rows).sqrt() * 2.0**-24 + u * math.sqrt(P)
    kappa = (phi * phi * (1.0 / eta - 1.0) + (1.0 - eta) * epsilon * P) / (1.0 - epsilon)
    diagonal = H.diagonal() - kappa * squares
    H.diagonal().copy_((1.0 - SHIFT) * diagonal)
    return TensorFactor.of(H), diagonal.min()
