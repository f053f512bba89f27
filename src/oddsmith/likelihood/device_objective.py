"""A likelihood whose rows lie on a device: the same objective, and one of tensors for the solvers that work there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from oddsmith.engines.gpu import DeviceSource
from oddsmith.kernels.device.curvature import hessian, longest_row
from oddsmith.kernels.device.logistic import logistic_sums
from oddsmith.kernels.device.softmax import class_curvature, class_moments, packed, softmax_sums
from oddsmith.kernels.device.tensors import split_parts, split_product
from oddsmith.likelihood.objective import FoldObjective, ObjectiveState
from oddsmith.rows.device import Tensor
from oddsmith.solvers import policy
from oddsmith.solvers.base import ObjectiveValue


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceObjective(FoldObjective):
    """A `FoldObjective` over a `DeviceSource`, which can be had as an objective of tensors."""

    contrast: np.ndarray[Any, Any] | None = None

    def on_device(self) -> TensorObjective:
        """Return the objective with weights, gradients and Hessians as tensors; passes are counted here."""
        assert isinstance(self.source, DeviceSource) and self.contrast is not None
        device, several = self.source.device, self.shape[0] > 1

        def there(values: Any) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64), device=device)

        P = self.shape[1]
        mean = np.zeros(self.shape) if self.penalty is None else self.penalty.mean
        return TensorObjective(
            source=self.source,
            center=there(self.center),
            scale=there(self.scale),
            Q=there(np.zeros(P) if self.penalty is None else self.penalty.Q),
            mean=there(self.contrast @ mean if several else mean),
            free=torch.as_tensor(self.free[0].astype(np.float64), device=device),
            weight=self.weight,
            state=self.state,
        )

    def to_tensor(self, x: np.ndarray[Any, Any]) -> Tensor:
        """Return solver coordinates as weights on the device: of two classes the same, of more one row a class."""
        assert isinstance(self.source, DeviceSource) and self.contrast is not None
        W = self.contrast @ x.reshape(self.shape) if self.shape[0] > 1 else x
        return torch.as_tensor(W, device=self.source.device).ravel()

    def from_tensor(self, e: ObjectiveValue) -> ObjectiveValue:
        """Return an evaluation on the device in solver coordinates, as arrays."""
        assert self.contrast is not None

        def here(values: Tensor) -> np.ndarray[Any, Any]:
            if self.shape[0] == 1:
                return np.asarray(values.cpu().numpy())
            contrast = torch.as_tensor(self.contrast, device=values.device)
            return np.asarray((contrast.T @ values.reshape(len(contrast), -1)).ravel().cpu().numpy())

        return replace(e, w=here(e.w), gradient=here(e.gradient), hessian=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorObjective:
    """``f(x) = Σ s ℓ / fraction + ½ Σ (x − mean)ᵀ Q (x − mean)`` of tensors on a device.

    Of two classes x has P = 1 + M entries; of K > 2 it has K rows of P, whose sum over the classes does not matter to
    the loss. ``exact`` evaluations are in float64; others read and multiply in lower precision, and sum in float64.
    """

    source: DeviceSource
    center: Tensor
    scale: Tensor
    Q: Tensor
    mean: Tensor
    free: Tensor
    weight: float
    fraction: float = 1.0
    exact: bool = True
    state: ObjectiveState = field(default_factory=ObjectiveState)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of weights (one for two classes, else one a class) × (1 + columns)."""
        return int(self.mean.shape[0]), int(self.mean.shape[1])

    @property
    def max_row_norm2(self) -> float:
        """The longest scaled row, squared, without the intercept; found in the first pass, or now."""
        if self.state.max_row_norm2 is None:
            inverse = self.scale**-2.0
            longest = [longest_row(block.X, block.s, self.center, inverse) for block in self.source.blocks()]
            self.state.max_row_norm2 = max(longest)
        return self.state.max_row_norm2

    def precise(self, exact: bool) -> TensorObjective:
        """Return the same objective in float64, or in lower precision; both count their passes together."""
        return replace(self, exact=exact)

    def subsample(self, rows: int, seed: int) -> TensorObjective:
        """Return the objective over about ``rows`` rows from across the data, scaled up to all."""
        part = self.source.take(rows, seed)
        weight = float(part.X.shape[0]) if part.s is None else float(part.s.sum())
        source = DeviceSource(X=part.X, t=part.t, K=self.source.K, s=part.s)
        state = ObjectiveState(max_row_norm2=0.0)
        return replace(self, source=source, fraction=weight / self.weight, state=state, exact=True)

    def evaluate(self, w: Tensor, order: int = 1) -> ObjectiveValue:
        """Return value and gradient at ``w``: one pass, and one wait for the device."""
        numbers, gradient = self.tensors(w)
        loss, penalty = torch.stack(numbers).tolist()
        return ObjectiveValue(w=w, value=loss + penalty, log_likelihood=-loss, gradient=gradient)

    def tensors(self, w: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Return loss and penalty, and the gradient, on the device: nothing waits for them."""
        x = w.reshape(self.shape)
        self.state.passes += 1
        loss, g = self._sums(x)
        delta = x - self.mean
        slope = delta * self.Q
        gradient = (g / self.fraction + slope) * self.free
        return (loss / self.fraction, 0.5 * (delta * slope).sum()), gradient.ravel()

    def _sums(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and gradient, summed over the rows."""
        if self.shape[0] > 1:
            parts = [
                softmax_sums(
                    block.X,
                    block.t,
                    block.s,
                    x[:, 1:],
                    x[:, 0].contiguous(),
                    self.center,
                    1.0 / self.scale,
                    exact=self.exact,
                )
                for block in self.source.blocks()
            ]
            return sum(p[0] for p in parts), sum(p[1] for p in parts)
        w, b = x[0, 1:] / self.scale, x[0, :1].contiguous()
        inverse = self.scale**-2.0 if self.state.max_row_norm2 is None else None
        sums = None
        for block in self.source.blocks():
            part = logistic_sums(block.X, block.t, block.s, w, b, self.center, inverse, exact=self.exact)
            if sums is not None:
                part = torch.cat([(sums + part)[:1], torch.maximum(sums, part)[1:2], (sums + part)[2:]])
            sums = part
        assert sums is not None
        if inverse is not None:
            self.state.max_row_norm2 = float(sums[1]) * (1.0 + 1e-5)  # it was summed in float32
        return sums[0], torch.cat([sums[2:3], sums[3:] / self.scale])[None]

    def certifying(self) -> TensorDesign:
        """Return the rows of a subsample as a matrix in float64."""
        return self.design(exact=True)

    def design(self, *, exact: bool = False) -> TensorDesign:
        """Return the rows of a subsample as a matrix, for searches of two classes."""
        (block,) = self.source.blocks()
        half = torch.float16 if block.X.is_cuda else torch.float32
        narrow = exact or self.shape[1] <= policy.POLICY.many_weights
        kind = torch.float64 if narrow else half
        aligned = -(-self.shape[1] // 8) * 8  # what tensor cores read at full speed
        all_free = bool((self.free == 1.0).all())
        Q = self.Q if all_free else self.Q * self.free + (1.0 - self.free) * max(1.0, self.weight)
        return TensorDesign(
            Z=packed(block.X, self.center, 1.0 / self.scale, kind, ones=True, width=None if narrow else aligned),
            y=block.t.to(torch.float64),
            s=block.s,
            Q=Q,
            prior=torch.diag(Q),
            mean=self.mean[0],
            free=None if all_free else self.free,
            fraction=self.fraction,
        )

    def class_moments(self, w: Tensor, V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``Σ h``, ``Σ h u`` and ``Σ h u²`` of each class, with ``h = p (1 − p)`` and ``u = Vᵀ z``: one pass."""
        x, inverse = w.reshape(self.shape), 1.0 / self.scale
        parts = [
            class_moments(block.X, block.s, x[:, 1:], x[:, 0], self.center, inverse, V)
            for block in self.source.blocks()
        ]
        return tuple(sum(part) / self.fraction for part in zip(*parts, strict=True))

    def class_curvature(self, w: Tensor) -> Tensor:
        """Return the Hessian between the intercepts of all classes, K × K, in the precision of the objective."""
        x = w.reshape(self.shape)
        inverse = 1.0 / self.scale
        B = sum(
            class_curvature(block.X, block.s, x[:, 1:], x[:, 0], self.center, inverse, exact=self.exact)
            for block in self.source.blocks()
        )
        return B / self.fraction

    def column_gram(self) -> Tensor:
        """Return ``Σ z zᵀ / fraction`` of the scaled columns, M × M."""
        zero = torch.zeros((1, len(self.center)), dtype=torch.float64, device=self.center.device)
        inverse = 1.0 / self.scale
        gram = sum(hessian(block.X, block.s, zero, zero[0, :1], self.center, inverse) for block in self.source.blocks())
        return 4.0 * gram[1:, 1:] / self.fraction

    def squares(self) -> Tensor:
        """Return ``Σ s z²`` of the scaled columns, M: one pass."""
        total = torch.zeros_like(self.center)
        for block in self.source.blocks():
            for start in range(0, len(block.X), 1 << 13):
                z = (block.X[start : start + (1 << 13)].to(torch.float64) - self.center) / self.scale
                s = 1.0 if block.s is None else block.s[start : start + (1 << 13), None]
                total += (s * z * z).sum(dim=0)
        return total


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorDesign:
    """Rows of a subsample, two classes, as one matrix ``Z`` with a column of ones: Newton steps that wait for nothing.

    Of few columns it is in float64; of many in half precision, with vectors in two parts of it, as a start needs it.
    """

    Z: Tensor
    y: Tensor
    s: Tensor | None
    Q: Tensor
    prior: Tensor
    mean: Tensor
    free: Tensor | None
    fraction: float

    def newton_step(self, x: Tensor, *, search: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return the point after a Newton step, three numbers, and the Hessian before it; all stay on the device.

        The numbers are the squared decrement, the gradient's squared norm and the value, all before the step. With
        ``search`` the best of a few shorter steps is taken.
        """
        a = self.times(x)
        p = torch.sigmoid(a)
        r, h = p - self.y, torch.addcmul(p, p, p, value=-1.0)
        loss = torch.nn.functional.softplus(a) - self.y * a
        if self.s is not None:
            r, h, loss = r * self.s, h * self.s, loss * self.s
        delta = x - self.mean
        slope = delta * self.Q
        g = self._transposed(r) / self.fraction + slope
        g = g if self.free is None else g * self.free
        H = self._gram(h)
        d = torch.cholesky_solve(g[:, None], torch.linalg.cholesky_ex(H)[0])[:, 0]
        numbers = torch.stack([g @ d, g @ g, loss.sum() / self.fraction + 0.5 * (delta @ slope)])
        return x - (d * self._best(a, x, d) if search else d), numbers, H

    def lower_hessian(self, x: Tensor) -> Tensor:
        """Return a lower bound of the Hessian of all rows at ``x``: each of these counts once, the prior in full."""
        p = torch.sigmoid(self.times(x))
        h = torch.addcmul(p, p, p, value=-1.0)
        return replace(self, fraction=1.0)._gram(h if self.s is None else h * self.s)

    def times(self, x: Tensor) -> Tensor:
        """Return ``Z x``."""
        if self.Z.dtype == x.dtype:
            return self.Z @ x
        x = torch.nn.functional.pad(x, (0, self.Z.shape[1] - len(x)))
        both = torch.stack(split_parts(x, self.Z.dtype), dim=1)
        return split_product(self.Z, both, None, torch.float32).sum(dim=1).to(torch.float64)

    def _transposed(self, r: Tensor) -> Tensor:
        """Return ``Zᵀ r``."""
        if self.Z.dtype == r.dtype:
            return r @ self.Z
        both = torch.stack(split_parts(r * 1024.0, self.Z.dtype))
        product = split_product(both, self.Z, None, torch.float32).sum(dim=0).to(torch.float64)
        return product[: len(self.Q)] / 1024.0

    def _gram(self, h: Tensor) -> Tensor:
        """Return ``Zᵀ diag(h) Z / fraction`` and the prior: in float64, or by tensor cores in half precision."""
        if self.Z.dtype == h.dtype:
            H = torch.addmm(self.prior, self.Z.T, self.Z * h[:, None], alpha=1.0 / self.fraction)
        else:
            B = self.Z * h.sqrt()[:, None].to(self.Z.dtype)
            H = split_product(B.T, B, None, torch.float32)[: len(self.Q), : len(self.Q)]
            H = H.to(torch.float64) / self.fraction + self.prior
        if self.free is not None:
            H = H * self.free * self.free[:, None]
            H.diagonal().add_((1.0 - self.free) * self.Q)
        return H

    def _best(self, a: Tensor, x: Tensor, d: Tensor) -> Tensor:
        """Return the step along ``−d`` at which the objective is least, of a few."""
        steps = torch.tensor([1.0, 0.5, 0.2, 0.05], dtype=torch.float64, device=x.device)
        A = a[:, None] - self.times(d)[:, None] * steps
        loss = torch.nn.functional.softplus(A) - self.y[:, None] * A
        losses = loss.sum(dim=0) if self.s is None else self.s @ loss
        delta = (x - self.mean)[:, None] - d[:, None] * steps
        values = losses / self.fraction + 0.5 * (self.Q @ (delta * delta))
        return steps[torch.argmin(torch.nan_to_num(values, nan=torch.inf))]
