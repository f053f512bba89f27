"""A likelihood whose rows lie on a device: the same objective, and those of the solvers that work there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from oddsmith.engines.gpu import DeviceSource
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.device.softmax import SoftmaxPoint, class_curvature, class_moments, column_gram, softmax_sums
from oddsmith.likelihood.device_logistic import DeviceLogistic
from oddsmith.likelihood.objective import FoldObjective, ObjectiveState
from oddsmith.rows.device import Tensor
from oddsmith.solvers.base import ObjectiveValue


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceObjective(FoldObjective):
    """A `FoldObjective` over a `DeviceSource`, which can be had as an objective of the solvers there."""

    contrast: np.ndarray[Any, Any] | None = None

    def on_device(self) -> DeviceLogistic | TensorObjective:
        """Return the objective of two classes, or of several, on the device; passes are counted here."""
        assert isinstance(self.source, DeviceSource)
        if self.shape[0] == 1:
            return DeviceLogistic(
                source=self.source,
                center=self.center,
                scale=self.scale,
                penalty=self.penalty,
                free=self.free[0].astype(np.float64),
                weight=self.weight,
                state=self.state,
            )
        assert self.penalty is not None
        if self.penalty.Q.ndim > 1:
            raise InvalidInputError(
                "A GaussianPrior with a covariance matrix is fitted on the CPU if classes are several: pass the rows "
                "as an array in memory, without device=."
            )
        return TensorObjective(
            source=self.source,
            center=self._there(self.center),
            scale=self._there(self.scale),
            Q=self._there(self.penalty.Q),
            mean=self.to_tensor(self.penalty.mean).reshape(-1, self.shape[1]),
            free=self._there(self.free[0]),
            weight=self.weight,
            state=self.state,
        )

    def _there(self, values: np.ndarray[Any, Any]) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64), device=self.source.device)  # type: ignore[union-attr]

    def to_tensor(self, x: np.ndarray[Any, Any]) -> Tensor:
        """Return solver coordinates as weights of all classes, on the device."""
        assert self.contrast is not None
        return (self._there(self.contrast) @ self._there(x.reshape(self.shape))).ravel()

    def from_tensor(self, e: ObjectiveValue) -> ObjectiveValue:
        """Return an evaluation on the device in solver coordinates, as arrays."""
        assert self.contrast is not None
        contrast = self._there(self.contrast)

        def here(values: Tensor) -> np.ndarray[Any, Any]:
            return np.asarray((contrast.T @ values.reshape(len(contrast), -1)).ravel().cpu().numpy())

        return replace(e, w=here(e.w), gradient=here(e.gradient), hessian=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorObjective:
    """``f(x) = Σ s ℓ / fraction + ½ Σ (x − mean)ᵀ Q (x − mean)`` of several classes, of tensors on a device.

    x has K rows of P = 1 + M entries, whose sum over the classes does not matter to the loss. ``precision`` is that of
    `softmax_sums`: 2 is float64.
    """

    source: DeviceSource
    center: Tensor
    scale: Tensor
    Q: Tensor
    mean: Tensor
    free: Tensor
    weight: float
    fraction: float = 1.0
    precision: int = 2
    state: ObjectiveState = field(default_factory=ObjectiveState)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Classes × (1 + columns)."""
        return int(self.mean.shape[0]), int(self.mean.shape[1])

    def precise(self, precision: int) -> TensorObjective:
        """Return the same objective in another precision; both count their passes together."""
        return replace(self, precision=precision)

    def subsample(self, rows: int, seed: int) -> TensorObjective:
        """Return the objective over about ``rows`` rows from across the data, scaled up to all."""
        source = self.source.subsample(rows, seed)
        fraction = source.weight / self.weight
        return replace(self, source=source, fraction=fraction, state=ObjectiveState(), precision=2)

    def evaluate(self, w: Tensor, order: int = 1) -> ObjectiveValue:
        """Return value and gradient at ``w``: one pass, and one wait for the device."""
        x, at = w.reshape(self.shape), self._at(w)
        self.state.passes += 1
        parts = [softmax_sums(*block, at, precision=self.precision) for block in self.source.blocks()]
        loss, g = sum(part[0] for part in parts), sum(part[1] for part in parts)
        delta = x - self.mean
        slope = delta * self.Q
        gradient = (g / self.fraction + slope) * self.free
        numbers = torch.stack([loss / self.fraction, 0.5 * (delta * slope).sum()]).tolist()
        return ObjectiveValue(w=w, value=sum(numbers), log_likelihood=-numbers[0], gradient=gradient.ravel())

    def _at(self, w: Tensor) -> SoftmaxPoint:
        """Return a point as the kernels take it."""
        x = w.reshape(self.shape)
        return SoftmaxPoint(x[:, 1:], x[:, 0].contiguous(), self.center, 1.0 / self.scale)

    def class_moments(self, w: Tensor, V: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``Σ h``, ``Σ h u`` and ``Σ h u²`` of each class, with ``h = p (1 − p)`` and ``u = Vᵀ z``: one pass."""
        at = self._at(w)
        parts = [class_moments(*block, at, V) for block in self.source.blocks()]
        return tuple(sum(part) / self.fraction for part in zip(*parts, strict=True))

    def class_curvature(self, w: Tensor) -> Tensor:
        """Return the Hessian between the intercepts of all classes, K × K, in this precision; each row counts once."""
        at, exact = self._at(w), self.precision == 2
        return sum(class_curvature(*block, at, exact=exact) for block in self.source.blocks())

    def column_gram(self) -> Tensor:
        """Return ``Σ s z zᵀ`` of the scaled columns, M × M, to three digits: a pass."""
        inverse = 1.0 / self.scale
        return sum(column_gram(*block, self.center, inverse) for block in self.source.blocks()) / self.fraction
