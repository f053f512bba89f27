"""The likelihood of two classes over rows on a device: vectors are arrays in memory, rows and matrices lie there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from oddsmith.cached_property import cached_property
from oddsmith.engines.gpu import DeviceBlock, DeviceSource
from oddsmith.kernels.device.logistic import logistic_sums
from oddsmith.kernels.device.tensors import chunks, summed_product
from oddsmith.likelihood.objective import ObjectiveState
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.rows.device import Tensor
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.tensor_factor import AnyFactor, SmallFactor, TensorFactor

NEAR_CENTER = 8.0
"""How far, in units of their spread, columns may be from zero so that their centre is taken off sums, not rows."""
GRAM_BYTES = 1 << 27
"""Rows of a chunk on the way to a Hessian."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceLogistic:
    """``f(x) = Σ s ℓ / fraction`` and the prior's penalty; see `QuasiNewtonOnTensors`.

    An evaluation is one pass, and waits for the device once: gradient and quasi-Newton step come back together.
    """

    source: DeviceSource
    center: Array
    scale: Array
    penalty: Quadratic | None
    free: Array
    weight: float
    fraction: float = 1.0
    state: ObjectiveState = field(default_factory=ObjectiveState)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.free)

    @property
    def device(self) -> Any:
        """Where sums are computed."""
        return self.source.device

    def subsample(self, rows: int, seed: int) -> DeviceLogistic:
        """Return the objective over about ``rows`` rows from across the data, scaled up to all."""
        return self._over(self.source.subsample(rows, seed))

    def thinned(self, rows: int) -> DeviceLogistic:
        """Return the objective over about ``rows`` rows of a subsample, scaled up to all."""
        return self._over(self.source.thinned(rows))

    def _over(self, source: DeviceSource) -> DeviceLogistic:
        state = ObjectiveState(max_row_norm2=0.0)
        return replace(self, source=source, fraction=source.weight / self.weight, state=state)

    @property
    def few(self) -> bool:
        """Whether matrices are so small that they are factored faster in memory than on the device."""
        return self.size <= policy.POLICY.many_weights

    def evaluate(self, x: Array, factor: AnyFactor, *, exact: bool = False) -> tuple[ObjectiveValue, Array]:
        """Return value and gradient, and the step that a factor gives: one pass, in float64 or float32."""
        longest, at, sums = self.state.max_row_norm2 is None, self._upload(x), None
        for block in self.source.blocks():
            sums = _added(sums, self._sums(block, at, exact=exact, longest=longest))
        self.state.passes += 1
        return self._fetch(x, at, sums, factor)

    def newton(self, x: Array) -> tuple[ObjectiveValue, Array, AnyFactor]:
        """Return value and gradient, the Newton step and the factor of the Hessian, which is in half precision.

        The step is NaN where the Hessian is not positive definite.
        """
        at = self._upload(x)
        sums, H = self._hessian(at, exact=False)
        if self.few:
            numbers = torch.cat([sums, H.ravel()]).cpu().numpy()
            small = SmallFactor.of(self._complete(numbers[len(sums) :].reshape(H.shape)))
            return *self._evaluation(x, numbers[: len(sums)], small), small
        factor = TensorFactor.of(self._complete_there(H))
        return *self._fetch(x, at, sums, factor), factor

    def lower_hessian(self, x: Array) -> Array | Tensor:
        """Return a lower bound of the Hessian of all rows, in float64: each of these counts once, the prior in full."""
        once = replace(self, fraction=1.0)
        H = once._hessian(self._upload(x), exact=True)[1]
        return once._complete(H.cpu().numpy()) if self.few else once._complete_there(H)

    def _complete(self, gram: Array) -> Array:
        """Return the Hessian of rows whose Gram matrix is given, the intercept last, in memory."""
        P, M = self.size, self.size - 1
        H = np.empty((P, P))
        H[0, 0], H[0, 1:], H[1:, 0], H[1:, 1:] = gram[M, M], gram[M, :M], gram[M, :M], gram[:M, :M]
        H /= self.fraction
        if self.penalty is not None:
            self.penalty.add_to(H, 1, P)
        if not self.free.all():
            H = H * self.free * self.free[:, None] + np.diag((1.0 - self.free) * max(1.0, self.weight))
        return H

    def _complete_there(self, gram: Tensor) -> Tensor:
        """The same on the device."""
        P, Q = self.size, self.to_device(np.zeros(self.size) if self.penalty is None else self.penalty.Q)
        gram = torch.roll(gram[:P, :P], (1, 1), (0, 1))
        H = torch.add(Q if Q.ndim == 2 else torch.diag(Q), gram, alpha=1.0 / self.fraction)
        if not self.free.all():
            free = self.to_device(self.free)
            H = H * free * free[:, None] + torch.diag((1.0 - free) * max(1.0, self.weight))
        return H

    def to_device(self, values: Array) -> Tensor:
        """Return a vector on the device."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _upload(self, x: Array) -> Tensor:
        """Return weights in user units, and vectors that turn sums into a gradient, by one copy to the device."""
        inverse = 1.0 / self.scale
        w = x[1:] * inverse
        b = [x[0], x[0] - w @ self.center]
        return self.to_device(np.concatenate([b, w, self.center, inverse, *self._slope(x)]))

    def _slope(self, x: Array) -> tuple[Array, Array]:
        """Return the gradient of the penalty, and the factors that sums are multiplied by."""
        slope = 0.0 if self.penalty is None else self.penalty.at(x[None])[1][0]
        return self.free * slope, np.append(1.0, 1.0 / self.scale) * self.free / self.fraction

    @cached_property
    def centred(self) -> bool:
        """Whether the centre of columns is taken off the rows, and not off the sums."""
        return bool((np.abs(self.center) > NEAR_CENTER * self.scale).any())

    def _sums(self, block: DeviceBlock, at: Tensor, *, exact: bool, longest: bool = False, B: Any = None) -> Tensor:
        M, centred = self.size - 1, self.centred or B is not None
        centred_b, b, w, center, inverse, _ = at.split([1, 1, M, M, M, 2 * M + 2])
        b = centred_b if centred else b
        return logistic_sums(
            block.X, block.t, block.s, w, b, center, inverse,
            exact=exact, longest=longest, centred=centred, rows=block.rows, B=B,
        )  # fmt: skip

    def _fetch(self, x: Array, at: Tensor, sums: Any, factor: AnyFactor) -> tuple[ObjectiveValue, Array]:
        """Return the evaluation and the step; NaN where the factor is not that of a definite matrix."""
        P = self.size
        if isinstance(factor, SmallFactor):
            return self._evaluation(x, sums.cpu().numpy(), factor)
        g = torch.addcmul(at[-2 * P : -P], sums[2:], at[-P:])
        numbers = torch.cat([sums, factor.solve(g), factor.info]).cpu().numpy()
        step = numbers[P + 2 : -1]
        return self._evaluation(x, numbers[: P + 2], None)[0], step if numbers[-1] == 0.0 else np.full(P, np.nan)

    def _evaluation(self, x: Array, sums: Array, factor: SmallFactor | None) -> tuple[ObjectiveValue, Array]:
        """Return the evaluation that sums give, and the step that a factor in memory gives."""
        loss, (slope, factors) = float(sums[0]) / self.fraction, self._slope(x)
        if self.state.max_row_norm2 is None:
            self.state.max_row_norm2 = float(sums[1]) * (1.0 + 1e-5)  # it was summed in float32
        g = slope + factors * sums[2:]
        value = loss if self.penalty is None else loss + self.penalty.value(x[None])
        e = ObjectiveValue(w=x, value=value, log_likelihood=-loss, gradient=g)
        return e, g if factor is None else factor.solve(g)

    def _hessian(self, at: Tensor, *, exact: bool) -> tuple[Tensor, Tensor]:
        """Return the sums, and the Gram matrix of the rows times the roots of their curvatures."""
        wide = torch.float64 if exact else torch.float32
        kind = torch.float16 if self.device.type == "cuda" and not exact else wide
        width = -(-self.size // 8) * 8  # what tensor cores read at full speed
        sums, H = None, None
        for block in self._chunks(GRAM_BYTES // (width * (8 if exact else 2))):
            n = len(block.X) if block.rows is None else len(block.rows)
            B = torch.empty((n, width), dtype=kind, device=self.device)
            sums = _added(sums, self._sums(block, at, exact=exact, B=B))
            H = summed_product(B.T, B, H, wide)
        return sums, H

    def _chunks(self, rows: int) -> Iterator[DeviceBlock]:
        """Yield the rows of a subsample, about so many at once."""
        for block in self.source.blocks():
            for start, stop in chunks(len(block.X) if block.rows is None else len(block.rows), 1, rows):
                if block.rows is not None:
                    yield block._replace(rows=block.rows[start:stop])
                    continue
                s = None if block.s is None else block.s[start:stop]
                yield DeviceBlock(block.X[start:stop], block.t[start:stop], s)


def _added(sums: Tensor | None, part: Tensor) -> Tensor:
    """Return the sums of two sets of rows, and the longer one's longest row."""
    if sums is None:
        return part
    total = sums + part
    total[1] = torch.maximum(sums[1], part[1])
    return total
