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
    kinds: list[Any] = [kernel, given[0].device, warps, *constants.values()]
    for value in given:
        if isinstance(value, torch.Tensor):
            kinds += value.dtype, value.data_ptr() % 16 == 0
        elif isinstance(value, int):
            kinds += value == 1, value % 16 == 0, value.bit_length() > 31
    key = tuple(kinds)
    found = _compiled.get(key)
    if found is not None:
        found[(programs, 1, 1)](*given, *constants.values())
        return
    found = kernel[(programs,)](*given, **constants, num_warps=warps)
    if found is not None and given[0].is_cuda:  # the interpreter compiles nothing
        _compiled[key] = found


def on_device(X: Tensor, shape: int | tuple[int, ...], dtype: Any = torch.float64) -> Tensor:
    """Return zeros where a tensor lies."""
    return torch.zeros(shape, dtype=dtype, device=X.device)


def label_range(y: Tensor) -> tuple[int, int, int, Tensor | None]:
    """Return the least of some whole numbers, the largest, their sum and, by a fused kernel, the last bit of each."""
    if not has_triton(y) or not y.is_contiguous() or len(y) > 1 << 30:
        least, most = (end.to(torch.int64) for end in torch.aminmax(y))
        return *torch.stack([least, most, y.sum(dtype=torch.int64)]).tolist(), None
    from oddsmith.kernels.device.fused import label_tiles

    programs = min(1024, -(-len(y) // 1024))
    bits = torch.empty(len(y), dtype=torch.uint8, device=y.device)
    out = torch.empty((programs, 3), dtype=torch.int64, device=y.device)
    launch(label_tiles, programs, (y, bits, out, len(y)), {"BLOCK": 1024}, 4)
    found = out.cpu().numpy()
    return int(found[:, 0].min()), int(found[:, 1].max()), int(found[:, 2].sum()), bits


def spread_rows(X: Tensor, count: int, seed: int) -> Tensor:
    """Return ``count`` row numbers, one at random from each of equally long stretches of the rows, by one kernel."""
    from oddsmith.kernels.device.fused import spread_tiles

    chosen = torch.empty(count, dtype=torch.int64, device=X.device)
    launch(spread_tiles, -(-count // 1024), (chosen, len(X), count, seed), {"BLOCK": 1024}, 4)
    return chosen


def chunks(n: int, M: int, numbers: int = CHUNK_NUMBERS) -> list[tuple[int, int]]:
    """Return ranges of n rows of M numbers, each of about ``numbers`` numbers.

    >>> chunks(5, 1 << 23)
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, numbers // max(1, M))
    return [(i, min(i + step, n)) for i in range(0, n, step)]


GRAM_ROWS = 4096
"""Rows whose products a Gram matrix sums in float32 on a tensor core, at most; such sums are added apart.

With more rows, rounding would weaken the bound that follows from it; fewer take longer (H200).
"""
GRAM_BATCHES = 256
"""Number of such sums, at most, that are added in float32; the results are added in float64."""


def gram_rounding(rows: int, batches: int) -> float:
    """Return ε of ``|G − Σ BᵀB| ≤ ε d dᵀ``, d² the diagonal, for a Gram matrix of half-precision rows.

    A tensor core adds 16 products to a sum in float32: each of these 17 numbers is truncated to at least two bits more
    than float32 has, and the sum to float32, relative to the largest. Sums on the way are at most ``d_i d_j``.

    >>> round(gram_rounding(4096, 256), 6)
    0.000175
    """
    return -(-rows // 16) * (17 * 2.0**-25 + 2.0**-23) + batches * 2.0**-24


def summed_product(A: Tensor, B: Tensor, C: Tensor | None, wide: Any) -> Tensor:
    """Return ``C + A B``, in the place of C, summed in a wider type than that of the factors if they are narrower."""
    if A.dtype == wide:
        return A @ B if C is None else torch.addmm(C, A, B, out=C)
    return torch.mm(A, B, out_dtype=wide) if C is None else torch.addmm(C, A, B, out_dtype=wide, out=C)


def _batched_product(A: Tensor, B: Tensor, rows: int) -> Tensor:
    """Return ``Aᵀ B`` in float32, from sums over at most ``rows`` rows."""
    batches = len(B) // rows
    edge = batches * rows
    total: Tensor = 0.0
    if batches:
        first, second = (part[:edge].unflatten(0, (batches, rows)) for part in (A, B))
        wider = {} if A.dtype == torch.float32 else {"out_dtype": torch.float32}
        total = torch.bmm(first.transpose(1, 2), second, **wider).sum(dim=0)
    if edge < len(B):
        total = total + summed_product(A[edge:].T, B[edge:], None, torch.float32)
    return total


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
            self.first = self._with(self.first, B[:, : self.half], B[:, : self.half])
        self.last = self._with(self.last, B[:, self.half :], B)

    def _with(self, total: Tensor | None, A: Tensor, B: Tensor) -> Tensor:
        if self.wide == torch.float64:
            return summed_product(A.T, B, total, self.wide)
        product = _batched_product(A, B, GRAM_ROWS)
        return product.to(torch.float64) if total is None else total.add_(product)

    def total(self) -> Tensor:
        """Return the sum, width × width, in float64."""
        assert self.last is not None
        if not self.half:
            return self.last
        above = torch.cat([self.first, self.last[:, : self.half].T], dim=1)
        return torch.cat([above, self.last])
