"""Small helpers around tensors: which device, how many rows at once, what is there to compute with."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any
"""A torch tensor. The package is optional, and carries no types where it is missing."""

CHUNK_NUMBERS = 1 << 24
"""Numbers of a chunk of rows: 64 MB of float32, what a device computes at full speed and its cache nearly holds."""


HALVED_WIDTH = 512
"""Columns from which a Gram matrix is summed in two parts, without the products that symmetry gives."""


@lru_cache(maxsize=1)
def _triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def has_triton(X: Tensor) -> bool:
    """Whether fused kernels run where a tensor lies (on the CPU: in Triton's interpreter, for tests)."""
    return _triton() and (X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1")


_compiled: dict[Any, Any] = {}


def launch(kernel: Any, programs: int, given: tuple[Any, ...], constants: dict[str, Any], warps: int) -> None:
    """Launch a kernel of Triton on tensors and numbers; from the second time on without Triton's own search.

    The search takes two thirds of a launch. Its key is what Triton compiles for: types, alignment and constants.
    """
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    kinds = tuple((value.dtype, value.data_ptr() % 16 == 0) for value in tensors)
    numbers = tuple((v == 1, v % 16 == 0, v.bit_length() > 31) for v in given if isinstance(v, int))
    key = kernel, tensors[0].device, kinds, numbers, tuple(constants.values()), warps
    found = _compiled.get(key)
    if found is not None:
        found[(programs, 1, 1)](*given, *constants.values())
        return
    found = kernel[(programs,)](*given, **constants, num_warps=warps)
    if found is not None and tensors[0].is_cuda:  # the interpreter compiles nothing
        _compiled[key] = found


def on_device(X: Tensor, shape: int | tuple[int, ...], dtype: Any = torch.float64) -> Tensor:
    """Return zeros where a tensor lies."""
    return torch.zeros(shape, dtype=dtype, device=X.device)


def chunks(n: int, M: int, numbers: int = CHUNK_NUMBERS) -> list[tuple[int, int]]:
    """Return ranges of n rows of M numbers, each of about so many numbers.

    >>> chunks(5, 1 << 23)
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, numbers // max(1, M))
    return [(i, min(i + step, n)) for i in range(0, n, step)]


def summed_product(A: Tensor, B: Tensor, C: Tensor | None, wide: Any) -> Tensor:
    """Return ``C + A B``, in the place of C, summed in a wider type than that of the factors if they are narrower."""
    if A.dtype == wide:
        return A @ B if C is None else torch.addmm(C, A, B, out=C)
    return torch.mm(A, B, out_dtype=wide) if C is None else torch.addmm(C, A, B, out_dtype=wide, out=C)


class TensorGram:
    """``Σ BᵀB`` over chunks B of rows: of a wide one three quarters of the products, since the sum is symmetric."""

    def __init__(self, width: int, wide: Any) -> None:
        self.width, self.wide = width, wide
        self.half = 0 if width < HALVED_WIDTH else width // 16 * 8
        self.first: Tensor | None = None
        self.last: Tensor | None = None

    def add(self, B: Tensor) -> None:
        """Add a chunk."""
        if self.half:
            self.first = summed_product(B[:, : self.half].T, B[:, : self.half], self.first, self.wide)
        self.last = summed_product(B[:, self.half :].T, B, self.last, self.wide)

    def total(self) -> Tensor:
        """Return the sum, width × width."""
        assert self.last is not None
        if not self.half:
            return self.last
        above = torch.cat([self.first, self.last[:, : self.half].T], dim=1)
        return torch.cat([above, self.last])
