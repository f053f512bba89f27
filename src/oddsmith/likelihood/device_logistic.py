"""The likelihood of two classes over rows on a device: vectors are arrays in memory, rows and matrices lie there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from oddsmith.cached_property import cached_property
from oddsmith.engines.gpu import DeviceBlock, DeviceSource
from oddsmith.kernels.device.logistic import logistic_sums, take_off_center
from oddsmith.kernels.device.tensors import GRAM_BATCHES, GRAM_ROWS, TensorGram, chunks
from oddsmith.likelihood.objective import ObjectiveState
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.rows.device import Tensor
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.tensor_factor import AnyFactor, SmallFactor, TensorFactor

NEAR_CENTER = 8.0
"""How far, in units of their spread, columns may be from zero so that their centre is taken off sums, not rows."""
COPIED_BYTES = 1 << 29
"""Rows of a subsample that are copied to the device, if the others stay in memory."""
GRAM_BYTES = (1 << 27, 1 << 28)
"""Rows of a chunk on the way to a Hessian, at least and at most: between these, a tenth of all rows."""


class Begun(NamedTuple):
    """An evaluation that the device works on: where, penalty and its gradient, the vectors there, the sums to come.

    Of many weights, the gradient is computed there, too.
    """

    x: Array
    penalty: float
    slope: Array
    at: Tensor
    sums: Any = None
    gradient: Any = None
    centred: bool = True


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

    def iterate(self, x: Array) -> Any:
        """Return an iterate at a point that the device moves by itself; None if it cannot."""
        from oddsmith.likelihood.device_iterate import DeviceIterate

        return DeviceIterate.from_point(self, x)

    @property
    def room(self) -> int | None:
        """How many rows of a subsample there is room for on the device: None where they lie there already."""
        X = self.source.X
        return None if X.device == self.device else max(8 * self.size, COPIED_BYTES // (X.shape[1] * X.element_size()))

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
        return self.end(self.begin(x, exact=exact), factor)

    def begin(self, x: Array, *, exact: bool = False) -> Begun:
        """Let the device evaluate value and gradient; nothing waits for it."""
        here = self._upload(x)
        sums = self.sum_rows(here.at, exact=exact, longest=self.state.max_row_norm2 is None)
        self.state.passes += 1
        return self._begun(here, sums, centred=self.centred)

    def sum_rows(self, at: Tensor, *, exact: bool, longest: bool, moved: Tensor | None = None) -> Tensor:
        """Return the sums over all rows, as `logistic_sums` does; nothing waits for them."""
        sums = None
        for block in self.source.blocks():
            part = self._sums(block, at, exact=exact, longest=longest, moved=moved)
            sums = part if sums is None else _added(sums, part, self.size)
        return sums

    def _begun(self, here: Begun, sums: Tensor, *, centred: bool) -> Begun:
        """Return an evaluation whose sums the device computes, of many weights with the gradient that they give."""
        P, g = self.size, None
        if not self.few:
            center, _, slope, factors = here.at[P + 1 :].split([P - 1, P - 1, P, P])
            g = torch.addcmul(slope, sums[2:], factors)
            if not centred:
                g[1:].addcmul_(center * factors[1:], sums[2], value=-1.0)
        return here._replace(sums=sums, gradient=g, centred=centred)

    def end(self, begun: Begun, factor: AnyFactor) -> tuple[ObjectiveValue, Array]:
        """Return value and gradient, and the step that a factor gives; NaN if that is not of a definite matrix."""
        P = self.size
        if isinstance(factor, SmallFactor):
            e = self._evaluation(begun, begun.sums.cpu().numpy())
            return e, factor.solve(e.gradient)
        numbers = torch.cat([begun.sums, factor.solve(begun.gradient), factor.info]).cpu().numpy()
        step = numbers[P + 2 : -1] if numbers[-1] == 0.0 else np.full(P, np.nan)
        return self._evaluation(begun, numbers[: P + 2]), step

    def solve(self, factor: AnyFactor, g: Array) -> Array:
        """Return the step that a factor gives."""
        return factor.solve(g) if isinstance(factor, SmallFactor) else factor.solve(self.to_device(g)).cpu().numpy()

    def newton(self, x: Array) -> tuple[ObjectiveValue, Array, AnyFactor]:
        """Return value and gradient, the Newton step and the factor of the Hessian, which is in half precision.

        The step is NaN where the Hessian is not positive definite.
        """
        here = self._upload(x)
        sums, H = self._hessian(here.at, exact=False)
        factor = SmallFactor.of(self._complete(H.cpu().numpy())) if self.few else self._factor(H)
        return *self.end(self._begun(here, sums, centred=True), factor), factor

    def lower_hessian(self, x: Array) -> Tensor:
        """Return a lower bound of the Hessian of all rows, in float64: each of these counts once, the prior in full.

        Nothing waits for it.
        """
        once = replace(self, fraction=1.0)
        return once._complete_there(once._hessian(once._upload(x).at, exact=True)[1])

    def _factor(self, gram: Tensor) -> TensorFactor:
        return TensorFactor.of(self._complete_there(gram))

    def _complete(self, gram: Array) -> Array:
        """Return the Hessian of rows whose Gram matrix is given, the intercept last, in memory."""
        P, M, each = self.size, self.size - 1, 1.0 / self.fraction
        H = np.empty((P, P))
        np.multiply(gram[:M, :M], each, out=H[1:, 1:])
        H[0, 0], H[0, 1:] = gram[M, M] * each, gram[M, :M] * each
        H[1:, 0] = H[0, 1:]
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
        """Return a vector on the device; nothing waits for it."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)

    def _upload(self, x: Array) -> Begun:
        """Copy weights in user units, and vectors that turn sums into a gradient, to the device at once."""
        at, value, slope = self.vectors_at(x)
        return Begun(x, value, slope, self.to_device(at))

    def vectors_at(self, x: Array) -> tuple[Array, float, Array]:
        """Return what `_vectors` describes at a point, the penalty and its gradient."""
        P, at = self.size, self._vectors.copy()
        value, slope = (0.0, np.zeros(P)) if self.penalty is None else self.penalty.at(x[None])
        slope = self.free * slope.ravel()
        w = np.multiply(x[1:], at[2 * P : 3 * P - 1], out=at[2 : P + 1])
        at[0], at[1] = x[0], x[0] - w @ self.center
        at[-2 * P : -P] = slope
        return at, value, slope

    @cached_property
    def _vectors(self) -> Array:
        """Intercepts and weights (zero here), centre, inverse scale, the penalty's gradient (zero here) and factors."""
        P, inverse = self.size, 1.0 / self.scale
        factors = np.append(1.0, inverse) * self.free / self.fraction
        return np.concatenate([np.zeros(P + 1), self.center, inverse, np.zeros(P), factors])

    @cached_property
    def centred(self) -> bool:
        """Whether the centre of columns is taken off the rows, and not off the sums."""
        return bool((np.abs(self.center) > NEAR_CENTER * self.scale).any())

    def _sums(
        self, block: DeviceBlock, at: Tensor, *, exact: bool, longest: bool = False, B: Any = None, moved: Any = None
    ) -> Tensor:
        centred = self.centred or B is not None
        return logistic_sums(
            block.X, block.t, block.s, at,
            exact=exact, longest=longest, centred=centred, rows=block.rows, B=B, moved=moved,
        )  # fmt: skip

    def _evaluation(self, begun: Begun, sums: Array) -> ObjectiveValue:
        """Return the evaluation that sums give."""
        if not begun.centred:
            take_off_center(sums, self.center, float(np.linalg.norm(self.center / self.scale)))
        if self.state.max_row_norm2 is None:
            self.state.max_row_norm2 = float(sums[1]) * (1.0 + 1e-5)  # it was summed in float32
        loss, factors = float(sums[0]) / self.fraction, self._vectors[-self.size :]
        g = begun.slope + factors * sums[2:]
        return ObjectiveValue(w=begun.x, value=loss + begun.penalty, log_likelihood=-loss, gradient=g)

    def _hessian(self, at: Tensor, *, exact: bool) -> tuple[Tensor, Tensor]:
        """Return the sums, and the Gram matrix of the rows times the roots of their curvatures."""
        wide = torch.float64 if exact else torch.float32
        kind = torch.float16 if self.device.type == "cuda" and not exact else wide
        width = -(-self.size // 8) * 8  # what tensor cores read at full speed
        (least, most), X = GRAM_BYTES, self.source.X
        bound = min(most, max(least, X.numel() * X.element_size() // 10))
        sums, gram, batches = None, TensorGram(width, wide), bound // (width * (8 if exact else 2) * GRAM_ROWS)
        for block in self._chunks(max(1, min(batches, GRAM_BATCHES)) * GRAM_ROWS):
            n = len(block.X) if block.rows is None else len(block.rows)
            B = torch.empty((n, width), dtype=kind, device=self.device)
            part = self._sums(block, at, exact=exact, B=B)
            sums = part if sums is None else sums + part
            gram.add(B)
            del B  # the next chunk takes its place
        return sums, gram.total()

    def _chunks(self, rows: int) -> Iterator[DeviceBlock]:
        """Yield the rows of a subsample, about ``rows`` at a time."""
        for block in self.source.blocks():
            for start, stop in chunks(len(block.X) if block.rows is None else len(block.rows), 1, rows):
                if block.rows is not None:
                    yield block._replace(rows=block.rows[start:stop])
                    continue
                s = None if block.s is None else block.s[start:stop]
                yield DeviceBlock(block.X[start:stop], block.t[start:stop], s)


def _added(sums: Tensor, part: Tensor, P: int) -> Tensor:
    """Return the sums of two sets of rows, and the larger ones of the numbers that are maxima."""
    total = sums + part
    total[1] = torch.maximum(sums[1], part[1])
    total[P + 2 :] = torch.maximum(sums[P + 2 :], part[P + 2 :])
    return total
