"""The files engine: reads, encodes and sums pieces on all cores, a bounded number at a time, in a fixed order."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oddsmith.engines.base import ENGINES, Progress
from oddsmith.engines.memory import _pool, available_cores
from oddsmith.engines.parted import Job, PartedSource, as_it_is
from oddsmith.errors import OddsmithError, OddsmithWarning
from oddsmith.statistic import Statistic

if TYPE_CHECKING:
    from oddsmith.engines.files.parts import FileParts, Task

S = TypeVar("S", bound=Statistic)
T = TypeVar("T")
R = TypeVar("R")
Spread = Callable[[Callable[..., Any], Iterable[Any]], Generator[Any, None, None]]
"""Maps a function over tasks, on several threads, in order."""


def in_order(
    work: Callable[[T], R], things: Iterable[T], threads: int, cost: Callable[[T], int], room: int
) -> Generator[R, None, None]:
    """Yield ``work(thing)`` for each thing, in their order, on several threads.

    Things that are worked on, or are done and wait for their turn, cost no more than ``room`` together (but one is
    always worked on) and are no more than twice the threads. Whatever ends this early, what has not begun never does.

    >>> list(in_order(lambda x: x * x, range(5), 2, lambda x: 1, 3))
    [0, 1, 4, 9, 16]
    """
    if threads == 1:
        yield from map(work, things)
        return
    flying: deque[tuple[Future[R], int]] = deque()
    spent = 0
    try:
        for thing in things:
            price = cost(thing)
            while flying and (len(flying) >= 2 * threads or spent + price > room):
                yield flying[0][0].result()
                spent -= flying.popleft()[1]
            if not flying and 2 * price > room:
                yield work(thing)  # no other beside it: a thread of its own would only take memory of its own
                continue
            flying.append((_pool(threads).submit(work, thing), price))
            spent += price
            del thing  # its bytes are the worker's now
        while flying:
            yield flying[0][0].result()
            spent -= flying.popleft()[1]
    finally:
        for future, _ in flying:
            future.cancel()


@ENGINES.register("files")
@dataclass(frozen=True)
class FilesEngine:
    """Folds over `FileParts` on ``threads`` threads (default: the cores this process may use).

    Tasks (row groups, record batches, ranges of bytes) and the order in which their statistics are merged depend on the
    files and on ``memory`` alone: the same bits on any number of threads, and whatever is kept.

    Cost of a pass: one read of what is not kept. Memory: see `oddsmith.engines.files.settings.Settings`.

    >>> import numpy as np
    >>> from oddsmith.statistics import Counts
    >>> from oddsmith.testing import files_source
    >>> source = files_source(np.eye(3), np.array([0, 1, 1]), K=2)
    >>> FilesEngine().fold(Counts, source, source.shape).weight.tolist()
    [1.0, 2.0]
    """

    threads: int | None = None
    name: str = "files"

    def fold(self, statistic: type[S], source: PartedSource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the merge of the statistics of all pieces, in the order of the files and of the rows in them."""
        from oddsmith.engines.files.text import WiderError

        parts: FileParts = source.parts
        threads = self.threads or parts.settings.threads or available_cores()
        told = 0

        def tell(done: int, total: int) -> None:
            # A pass that has to begin again, with wider types, is silent as far as it had come.
            nonlocal told
            if progress is not None and done > told:
                told = done
                progress(done, total)

        def spread(work: Callable[[Task], Any], tasks: Iterable[Task]) -> Generator[Any, None, None]:
            return in_order(work, tasks, threads, parts.cost, parts.settings.in_flight)

        while True:
            try:
                result = _Pass(parts, source, source.job(statistic, params)).run(spread, tell)
                break
            except WiderError as wider:
                parts.widen(wider.number, spread)
        if (trouble := parts.trouble) is not None:
            warnings.warn(trouble, OddsmithWarning, stacklevel=2)
        return statistic.zero(source.shape, params) if result is None else result


@dataclass
class _Pass(Generic[S]):
    """One pass over all tasks."""

    parts: FileParts
    source: PartedSource
    job: Job[S]
    stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.raw = self.source.encode is as_it_is
        wide = not self.raw and not getattr(self.source, "encodes_sparse", False)
        self.columns = self.source.shape.M if wide else 0
        self.tables = self.parts.kept_tables
        self.blocks = None if self.raw else self.parts.kept_blocks(self.source.encode, self.columns)

    def run(self, spread: Spread, tell: Progress) -> S | None:
        """Return the merged statistic, None if there are no rows."""
        parts, result = self.parts, None
        expected = parts.expected_tasks
        needed = not all(self._has(i) for i in range(expected)) or not expected
        results = spread(self._of, parts.tasks(needed=needed))
        try:
            done = 0
            for part in results:
                if done:
                    tell(done, max(expected, done + 1))  # only the last one knows that it is
                done += 1
                if part is not None:
                    result = part if result is None else result.merge(part)
            if done:
                tell(done, done)
        finally:
            self.stopped.set()
            results.close()
        return result

    def _has(self, number: int) -> bool:
        return self.tables.has(number) or (self.blocks is not None and self.blocks.has(number))

    def _of(self, task: Task) -> S | None:
        try:
            return self._total(task)
        except OddsmithError:
            # Of small files and row groups that were put together, the error is to name the one at fault.
            single = [one for extent in task.extents for one in extent.singly()]
            for extent in single if len(single) > 1 else ():
                alone = replace(task, extents=(extent,))
                for piece in self.parts.cut(alone, self.parts.read(alone), self.columns):
                    self.job(piece)
            raise

    def _total(self, task: Task) -> S | None:
        total: S | None = None
        for block in self._blocks(task):
            part = self.job.of(block)
            total = part if total is None else total.merge(part)
            if self.stopped.is_set():
                break
        return total

    def _blocks(self, task: Task) -> Iterator[Any]:
        from oddsmith.engines.files.keeping import Shelf

        if self.blocks is None:
            yield from self.parts.cut(task, self._tables(task))
            return
        kept = self.blocks.get(task.number)
        if kept is not None:
            yield from kept
            return
        # Tables make room for the blocks that are made of them, and stay if the blocks cannot.
        tables = self.tables.pop(task.number)
        shelf, done = Shelf(self.blocks, task.number), False
        try:
            for piece in self.parts.cut(task, self.parts.read(task) if tables is None else tables, self.columns):
                block = self.job.encode(piece)
                shelf.add(block)
                yield block
            done = True
        finally:
            if not done:
                shelf.abandon()
        if not shelf.finish() and tables is not None:
            shelf = Shelf(self.tables, task.number)
            for table in tables:
                shelf.add(table)
            shelf.finish()

    def _tables(self, task: Task) -> Iterator[Any]:
        from oddsmith.engines.files.keeping import Shelf

        kept = self.tables.get(task.number)
        if kept is not None:
            yield from kept
            return
        shelf, done = Shelf(self.tables, task.number), False
        try:
            for table in self.parts.read(task):
                shelf.add(table)
                yield table
            done = True
        finally:
            if not done:
                shelf.abandon()
        shelf.finish()
