"""Rows that lie on a device: a tensor of PyTorch, or what DLPack or ``__cuda_array_interface__`` makes one of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import Rows
from oddsmith.rows.dense import DenseRows

Tensor: TypeAlias = Any  # A torch tensor; the package is optional, and has no types where it is missing.
CPU = 1  # The number of the CPU among DLPack's devices.


def is_on_device(X: object) -> bool:
    """Whether rows are a tensor, or an array of another library that lies on a device.

    >>> is_on_device(np.eye(2)), is_on_device([[1.0]])
    (False, False)
    """
    if isinstance(X, np.ndarray | list | tuple | str):
        return False
    if type(X).__module__.partition(".")[0] == "torch" or hasattr(X, "__cuda_array_interface__"):
        return True
    place = getattr(X, "__dlpack_device__", None)
    return place is not None and int(place()[0]) != CPU


def import_torch() -> Any:
    """Return PyTorch, or say what is missing."""
    try:
        import torch
    except ImportError as error:
        raise InvalidInputError(
            "Fits on a GPU need PyTorch, which is not installed: pip install 'oddsmith[gpu]'. Without it, leave out "
            "device=, and everything runs on the CPU."
        ) from error
    return torch


def as_tensor(X: Any, device: object = None) -> Tensor:
    """Return rows or labels as a tensor: where they lie, without a copy; or on a ``device``."""
    torch = import_torch()
    if not isinstance(X, torch.Tensor):
        if is_on_device(X):
            X = torch.from_dlpack(X) if hasattr(X, "__dlpack__") else torch.as_tensor(X)
        else:
            X = torch.from_numpy(np.ascontiguousarray(X))
    if device is None:
        return X.detach()
    return X.detach().to(checked_device(device))


def in_memory(values: Any) -> Any:
    """Return rows, labels or weights that lie on a device as an array in memory; anything else as it is.

    >>> in_memory([1, 2])
    [1, 2]
    """
    if values is None or not is_on_device(values):
        return values
    tensor = as_tensor(values)
    return tensor.to(import_torch().float32 if str(tensor.dtype) == "torch.bfloat16" else tensor.dtype).cpu().numpy()


def checked_device(device: object) -> Any:
    """Return a device of PyTorch that is there, or say that it is not."""
    torch = import_torch()
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"device must be 'cuda', 'cuda:1' or the like, found {device!r}.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(
            f"device={device!r} asks for a GPU, and PyTorch {torch.__version__} sees none: leave out device= to fit on "
            "the CPU, or install a build of PyTorch for this machine's GPU (pytorch.org/get-started)."
        )
    if found.type == "mps":
        raise InvalidInputError(
            "device='mps' has no numbers of 64 bits, in which certificates are computed. Leave out device=, and the "
            "fit runs on the CPU."
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows(Rows):
    """A tensor of n rows and M columns: verbs take and return arrays in memory, and sum in float64 on the device."""

    X: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers; bfloat16, which NumPy lacks, counts as float32."""
        name = str(self.X.dtype).removeprefix("torch.")
        return np.dtype("float32" if name == "bfloat16" else name)

    def _wide(self) -> Tensor:
        return self.X.to(import_torch().float64)

    def _there(self, values: Array | Indices) -> Tensor:
        return import_torch().as_tensor(np.ascontiguousarray(values), device=self.X.device)

    def activations(self, W: Array) -> Array:
        return np.asarray((self._wide() @ self._there(W)).cpu().numpy())

    def gradient(self, R: Array) -> Array:
        return np.asarray((self._wide().T @ self._there(R)).cpu().numpy())

    def gram(self, h: Array) -> Array:
        Z = self._wide()
        return np.asarray((Z.T @ (Z * self._there(h)[:, None])).cpu().numpy())

    def squares(self, R: Array) -> Array:
        Z = self._wide()
        return np.asarray(((Z * Z).T @ self._there(R)).cpu().numpy())

    def row_norms(self, scale: Array) -> Array:
        Z = self._wide() / self._there(scale)
        return np.asarray((Z * Z).sum(dim=1).cpu().numpy())

    def take(self, rows: Indices) -> DeviceRows:
        return DeviceRows(self.X[self._there(rows)])

    def slice(self, start: int, stop: int) -> DeviceRows:
        return DeviceRows(self.X[start:stop])

    def centred(self, center: Array) -> DeviceRows:
        """Return a centred copy in float64: call it on a slice."""
        return DeviceRows(self._wide() - self._there(center))

    def columns(self, which: Sequence[int]) -> DeviceRows:
        return DeviceRows(self.X[:, list(which)])

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return np.asarray(DeviceRows(self.X[start:stop])._wide().cpu().numpy())

    def concrete(self) -> DenseRows:
        """Return a copy in memory, of the same type."""
        return DenseRows(self.X.to(getattr(import_torch(), self.dtype.name)).cpu().numpy())

    @classmethod
    def example(cls, X: Array) -> DeviceRows:
        return cls(as_tensor(X))
