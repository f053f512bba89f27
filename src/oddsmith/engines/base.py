"""The contract of engines and of the sources that they fold over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from oddsmith.registry import Registry
from oddsmith.statistic import Shape, Statistic

S = TypeVar("S", bound=Statistic)
Progress = Callable[[int, int], None]
"""Called with (blocks done, blocks in all) after each block."""


class Source(Protocol):
    """Rows that can be folded over: how many, of which shape."""

    n_rows: int
    shape: Shape


class Engine(Protocol):
    """Folds a statistic over a source. Knows nothing of models.

    The merge order is fixed by the source alone, so the same source gives the same bits again, on any
    number of threads or workers.
    """

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        ...

    def fold(self, statistic: type[S], source: Any, params: Any, *, progress: Progress | None = None) -> S:
        """Return the merge of ``statistic.of(block, params)`` over all blocks of ``source``."""
        ...


ENGINES: Registry[Callable[[], Engine]] = Registry("engine")
