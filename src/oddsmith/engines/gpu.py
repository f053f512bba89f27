"""The GPU engine: rows on a device are folded where they lie; those that do not fit come in slices, every pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from oddsmith.block import Block
from oddsmith.engines.base import Progress, S, merged
from oddsmith.engines.memory import MemorySource
from oddsmith.kernels.device import curvature as device_kernels
from oddsmith.kernels.device.tensors import has_triton, spread_rows
from oddsmith.kernels.reference import CurvatureParams
from oddsmith.numerics import Array
from oddsmith.rows import DenseRows
from oddsmith.rows.device import DeviceRows, Tensor
from oddsmith.statistic import Shape
from oddsmith.statistics import Curvature

HOST_SLICE_BYTES = 1 << 26
"""Rows that a statistic without a kernel for the device takes at once, in memory."""


class DeviceBlock(NamedTuple):
    """Some rows on the device, with class codes and weights; all of them, or those that ``rows`` names."""

    X: Tensor
    t: Tensor
    s: Tensor | None
    rows: Tensor | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceSource:
    """Rows, class codes and weights as tensors: what `MemorySource` is for arrays.

    ``X`` lies on ``device``; or in memory, and its slices of ``slice_rows`` are copied over in every pass, straight
    from where they are if they are ``registered``. Codes and weights lie on the device in any case. Where ``rows`` are
    given, only the rows that they name count.
    """

    X: Tensor
    t: Tensor
    K: int
    s: Tensor | None = None
    slice_rows: int | None = None
    rows: Tensor | None = None
    registered: bool = False

    transform = None
    form = None
    drawn = None
    is_sparse = False
    has_offset = False
    offset_mean: Array | None = None

    @property
    def device(self) -> Any:
        """Where sums are computed."""
        return self.t.device

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0]) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> Shape:
        return Shape(int(self.X.shape[1]), self.K)

    @property
    def size(self) -> float:
        return float(self.n_rows) * float(self.X.shape[1])

    @property
    def weighted(self) -> bool:
        return self.s is not None

    @property
    def weight(self) -> float:
        """The weight of all rows."""
        if self.s is None:
            return float(self.n_rows)
        return float((self.s if self.rows is None else self.s[self.rows]).sum())

    @property
    def n_present(self) -> int:
        return self.n_rows if self.s is None else int(torch.count_nonzero(self.s))

    def blocks(self) -> Iterator[DeviceBlock]:
        """Yield the rows on the device: all at once, or slices, of which the next is copied while one is summed."""
        if self.slice_rows is None:
            yield DeviceBlock(self.X, self.t, self.s, self.rows)
            return
        edges = [*range(0, self.n_rows, self.slice_rows), self.n_rows]
        ranges = list(pairwise(edges))
        ahead = self._copy(*ranges[0])
        for (start, stop), following in zip(ranges, [*ranges[1:], None], strict=True):
            X = ahead()
            if following is not None:
                ahead = self._copy(*following)
            yield DeviceBlock(X, self.t[start:stop], None if self.s is None else self.s[start:stop])

    def _copy(self, start: int, stop: int) -> Any:
        """Begin to copy some rows to the device; the function returned waits for them."""
        if self.device.type != "cuda":
            return lambda: self.X[start:stop].to(self.device)
        stream = _copy_stream(self.device)
        with torch.cuda.stream(stream):
            part = self.X[start:stop]
            X = (part if self.registered else part.pin_memory()).to(self.device, non_blocking=True)

        def wait() -> Tensor:
            torch.cuda.current_stream(self.device).wait_stream(stream)
            X.record_stream(torch.cuda.current_stream(self.device))
            return X

        return wait

    def spread(self, rows: int, seed: int) -> Tensor:
        """Return about ``rows`` row numbers, one at random from each of equally long stretches of the data."""
        count = min(rows, self.n_rows)
        if self.rows is None and self.X.is_cuda and has_triton(self.X):
            return spread_rows(self.X, count, seed)
        place = self.X.device
        generator = torch.Generator(device=place).manual_seed(seed)
        edges = torch.arange(count + 1, device=place) * self.n_rows // count  # whole numbers: no row is named twice
        start, length = edges[:-1], edges.diff()
        within = (torch.rand(count, generator=generator, dtype=torch.float64, device=place) * length).to(torch.int64)
        places = start + torch.minimum(within, length - 1)
        return places if self.rows is None else self.rows[places]

    def take(self, rows: int, seed: int) -> DeviceBlock:
        """Return about ``rows`` rows from across the data, copied together on the device."""
        chosen = self.spread(rows, seed)
        X, there = self.X[chosen].to(self.device), chosen.to(self.device)
        return DeviceBlock(X, self.t[there], None if self.s is None else self.s[there])

    def subsample(self, rows: int, seed: int) -> DeviceSource:
        """Return a source of about ``rows`` rows from across the data: where they lie, or copied to the device."""
        if self.X.device == self.device:
            return replace(self, rows=self.spread(rows, seed), slice_rows=None)
        part = self.take(rows, seed)
        return DeviceSource(X=part.X, t=part.t, K=self.K, s=part.s)

    def thinned(self, rows: int) -> DeviceSource:
        """Return about ``rows`` rows of a subsample, evenly spread."""
        step = max(1, self.n_rows // max(1, rows))
        if self.rows is not None:
            return replace(self, rows=self.rows[::step].contiguous())
        s = None if self.s is None else self.s[::step].contiguous()
        return replace(self, X=self.X[::step].contiguous(), t=self.t[::step].contiguous(), s=s)

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Return about ``rows`` rows from across the data, in memory."""
        part = self.take(rows, seed)
        s = None if part.s is None else part.s.cpu().numpy()
        return MemorySource(DeviceRows(part.X).concrete().X, part.t.cpu().numpy().astype(np.int32), self.K, s)

    def kept(self) -> DeviceSource:
        """Return the source itself: rows are as they are."""
        return self


def register(X: Tensor) -> bool:
    """Pin the pages of rows in memory where they are, as long as the tensor lives; return whether that worked.

    It costs as much as half a pass (24 GB/s, H200), and takes a copy in memory out of every one.
    """
    if X.is_pinned():
        return True
    if not X.is_contiguous():
        return False
    runtime = torch.cuda.cudart()
    if int(runtime.cudaHostRegister(X.data_ptr(), X.numel() * X.element_size(), 0)) != 0:
        return False
    weakref.finalize(X, runtime.cudaHostUnregister, X.data_ptr())
    return True


@lru_cache(maxsize=8)
def _copy_stream(device: Any) -> Any:
    """Return the stream on which rows are copied to a device, the same one in every pass."""
    return torch.cuda.Stream(device)


@dataclass(frozen=True)
class GpuEngine:
    """Folds on a device: a likelihood's sums by kernels there, other statistics over slices copied to memory."""

    threads: int | None = None
    name: str = "gpu"

    def fold(self, statistic: type[S], source: DeviceSource, params: Any, *, progress: Progress | None = None) -> S:
        plain = isinstance(params, CurvatureParams) and params.link is None and params.buffers is None
        zero = partial(statistic.zero, source.shape, params)
        if issubclass(statistic, Curvature) and plain:
            sums: S = merged((_curvature(block, params) for block in source.blocks()), zero, progress, 1)
            return sums
        rows = max(1, HOST_SLICE_BYTES // (8 * max(1, source.shape.M)))
        starts = range(0, source.n_rows, rows)
        parts = (statistic.of(_host_block(source, start, start + rows), params) for start in starts)
        return merged(parts, zero, progress, len(starts))


def _curvature(block: DeviceBlock, params: CurvatureParams) -> Any:
    n = int(block.X.shape[0]) if block.s is None else int(torch.count_nonzero(block.s))
    value, gradient, hessian, longest = device_kernels.curvature(block.X, block.t, block.s, params)
    return Curvature(rows=n, value=value, gradient=gradient, hessian=hessian, longest=longest)


def _host_block(source: DeviceSource, start: int, stop: int) -> Block:
    rows: DenseRows = DeviceRows(source.X[start:stop]).concrete()
    s = None if source.s is None else source.s[start:stop].cpu().numpy()
    return Block(rows, source.t[start:stop].cpu().numpy().astype(np.int32), s, None, start)


def resident(source: DeviceSource) -> DeviceSource:
    """Return the source with its rows copied to the device, slice by slice through pinned memory."""
    if source.slice_rows is None:
        return source
    X = torch.empty(source.X.shape, dtype=source.X.dtype, device=source.device)
    start = 0
    for block in source.blocks():
        X[start : start + len(block.X)] = block.X
        start += len(block.X)
    return replace(source, X=X, slice_rows=None)
