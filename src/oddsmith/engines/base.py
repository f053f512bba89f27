"""The contract of engines and of the sources that they fold over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

from oddsmith.numerics import Array
from oddsmith.registry import Registry
from oddsmith.statistic import Shape, Statistic

S = TypeVar("S", bound=Statistic)
EngineSource: TypeAlias = Any  # What an engine folds over: each has a kind of `Source` of its own.
Progress = Callable[[int, int], None]  # Called with (blocks done, blocks in all) after each block.


class Source(Protocol):
    """Rows to fold over: their number, shape, and other facts known in advance."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_present(self) -> int:
        """Number of rows of positive weight."""

    @property
    def shape(self) -> Shape:
        """Columns after the transform, and classes."""

    @property
    def size(self) -> float:
        """Number of elements; a nonzero of sparse rows counts as four, its cost."""

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are CSR: the rows are CSR and no transform makes them dense."""

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""

    @property
    def offset_mean(self) -> Array | None:
        """The weighted mean of the offsets, None without offsets."""

    @property
    def has_offset(self) -> bool:
        """Whether rows have offsets."""


def is_device_source(source: object) -> bool:
    """Whether a source's rows are summed on a device, checked by name to avoid importing PyTorch.

    >>> is_device_source(None)
    False
    """
    return type(source).__name__ == "DeviceSource"


class Engine(Protocol):
    """Folds a statistic over a source; knows nothing about models.

    The merge order depends only on the source, so the same source gives bit-identical results on any number of threads
    or workers.
    """

    @property
    def name(self) -> str:
        """The registered name."""

    def fold(self, statistic: type[S], source: EngineSource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the merge of ``statistic.of(block, params)`` over all blocks of ``source``."""


ENGINES: Registry[Callable[[], Engine]] = Registry("engine")


def merged(parts: Iterable[S], zero: Callable[[], S], progress: Progress | None = None, count: int = 0) -> S:
    """Return the merge of ``count`` statistics in order, ``zero()`` if there are none."""
    total: S | None = None
    for done, part in enumerate(parts, 1):
        total = part if total is None else total.merge(part)
        if progress is not None:
            progress(done, count)
    return zero() if total is None else total
