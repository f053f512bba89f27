"""The files engine: reads, encodes and sums pieces on all cores, a limited number at a time, in a fixed order."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oddsmith.engines.base import ENGINES, Progress, S
from oddsmith.engines.memory import _pool
from oddsmith.engines.partitioned import Job, PartedSource, Piece, as_it_is
from oddsmith.errors import OddsmithError, OddsmithWarning

if TYPE_CHECKING:
    from oddsmith.engines.files.block_cache import BlockCache
    from oddsmith.engines.files.parts import FileParts, Task

T = TypeVar("T")
R = TypeVar("R")
TaskRunner = Callable[[Callable[..., Any], Iterable[Any]], Generator[Any, None, None]]
"""Maps a function over tasks, on several threads, in order."""


def in_order(
    work: Callable[[T], R], things: Iterable[T], threads: int, cost: Callable[[T], int], budget: int
) -> Generator[R, None, None]:
    """Yield ``work(item)`` for each item, in order, on several threads.

    Items in progress, or done and waiting for their turn, cost at most ``budget`` together (but one is always in
    progress) and number at most twice the threads. If this ends early, items that have not started never do.

    >>> list(in_order(lambda x: x * x, range(5), 2, lambda x: 1, 3))
    [0, 1, 4, 9, 16]
    """
    if threads == 1:
        yield from map(work, things)
        return
    in_flight: deque[tuple[Future[R], int]] = deque()
    spent = 0
    try:
        for thing in things:
            thing_cost = cost(thing)
            while in_flight and (len(in_flight) >= 2 * threads or spent + thing_cost > budget):
                yield in_flight[0][0].result()
                spent -= in_flight.popleft()[1]
            if not in_flight and 2 * thing_cost > budget:
                yield work(thing)  # a single thread: another one would only take memory
                continue
            in_flight.append((_pool(threads).submit(work, thing), thing_cost))
            spent += thing_cost
            del thing  # the worker owns its bytes now
        while in_flight:
            yield in_flight[0][0].result()
            spent -= in_flight.popleft()[1]
    finally:
        for future, _ in in_flight:
            future.cancel()


@ENGINES.register("files")
@dataclass(frozen=True)
class FilesEngine:
    """Folds over `FileParts` on ``threads`` threads (default: the cores this process may use).

    Tasks (row groups, record batches, ranges of bytes) and the merge order depend only on the files and on ``memory``:
    results are bit-identical on any number of threads, whatever is cached.

    Cost of a pass: one read of the data not cached. Memory: see `oddsmith.engines.files.settings.FileSettings`.

    >>> import numpy as np
    >>> from oddsmith.statistics import Counts
    >>> from oddsmith.testing import files_source
    >>> source = files_source(np.eye(3), np.array([0, 1, 1]), K=2)
    >>> FilesEngine().fold(Counts, source, source.shape).weight.tolist()
    [1.0, 2.0]
    """

    threads: int | None = None
    name: str = "files"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        parts: FileParts = source.parts
        reported = 0

        def report(done: int, total: int) -> None:
            # A pass that restarts with wider types reports no progress until it is where it was.
            nonlocal reported
            if progress is not None and done > reported:
                reported = done
                progress(done, total)

        result = parts.with_wider_types(
            lambda run: _Pass(parts, source, source.job(statistic, params)).run(run, report), self.threads
        )
        folder = parts._state.folder
        if folder is not None and folder.failure is not None and not folder.failure_reported:
            folder.failure_reported = True
            warnings.warn(folder.failure, OddsmithWarning, stacklevel=2)
        return statistic.zero(source.shape, params) if result is None else result


@dataclass
class _Pass(Generic[S]):
    """One pass over all tasks."""

    parts: FileParts
    source: PartedSource
    job: Job[S]
    stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        raw = self.source.encode is as_it_is
        coded = self.source.form is not None
        self.columns = 0 if raw or coded or self.source.encodes_sparse else self.source.shape.M
        self.tables = self.parts._state.tables
        self.blocks = None if raw else self.parts.cached_blocks(self.source.encode, self.columns, costly=coded)

    def run(self, run_tasks: TaskRunner, report: Progress) -> S | None:
        """Return the merged statistic, None if there are no rows."""
        result, expected, done = None, self.parts.expected_tasks, 0
        caches = [self.tables] if self.blocks is None else [self.tables, self.blocks]
        needed = not expected or not all(any(cache.has(i) for cache in caches) for i in range(expected))
        with closing(run_tasks(self._of, self.parts.tasks(needed=needed))) as results:
            try:
                for part in results:
                    if done:
                        report(done, max(expected, done + 1))  # only the last task knows that it is the last
                    done += 1
                    if part is not None:
                        result = part if result is None else result.merge(part)
            finally:
                self.stopped.set()
        if done:
            report(done, done)
        return result

    def _of(self, task: Task) -> S | None:
        total: S | None = None
        try:
            for block in self._blocks(task):
                part = self.job.of(block)
                total = part if total is None else total.merge(part)
                if self.stopped.is_set():
                    break
            return total
        except OddsmithError:
            # If small files or row groups were merged, the error must name the one at fault.
            single = [one for part in task.ranges for one in part.split()]
            for each in single if len(single) > 1 else ():
                alone = replace(task, ranges=(each,))
                for piece in self.parts.cut(alone, self.parts.read(alone), self.columns):
                    self.job(piece)
            raise

    def _blocks(self, task: Task) -> Iterator[Any]:
        if self.blocks is None:
            tables = self.tables.get(task.number)
            yield from self.parts.cut(task, self._caching(self.tables, task, self.parts.read(task), tables))
            return
        blocks = self.blocks.get(task.number)
        # Encoded blocks replace their tables in the cache; tables stay if the blocks do not fit.
        tables = None if blocks is not None else self.tables.pop(task.number)
        pieces = self.parts.cut(task, self.parts.read(task) if tables is None else tables, self.columns)
        yield from self._caching(self.blocks, task, map(self.job.encode, pieces), blocks)
        if tables is not None and not self.blocks.has(task.number):
            for _ in self._caching(self.tables, task, tables):
                pass

    def _caching(
        self, cache: BlockCache, task: Task, things: Iterable[R], cached: Iterable[R] | None = None
    ) -> Iterator[R]:
        """Yield the cached data of a task; otherwise compute it, and cache it when complete."""
        from oddsmith.engines.files.block_cache import CacheWriter

        if cached is not None:
            yield from cached
            return
        writer = CacheWriter(cache, task.number)
        try:
            for thing in things:
                writer.add(thing)
                yield thing
        except BaseException:  # of the reader, or of whoever stops reading
            writer.abandon()
            raise
        writer.finish()


def read_once(
    parts: FileParts, work: Callable[[Piece], T], use: Callable[[Iterator[T]], R], progress: Progress | None = None
) -> R:
    """Return ``use(results)``, where results are ``work(piece)`` for each piece, in order, computed on all cores.

    This is not a fold: nothing is kept. ``use`` is called again, from the first result on, if text needs wider types
    than its first rows showed.
    """

    def process(task: Task) -> list[T]:
        return [work(piece) for piece in parts.cut(task, parts.read(task))]

    def results(run_tasks: TaskRunner) -> Generator[T, None, None]:
        expected, done = parts.expected_tasks, 0
        with closing(run_tasks(process, parts.tasks())) as batches:
            for done, batch in enumerate(batches, 1):
                yield from batch
                if progress is not None:
                    progress(done, max(done, expected))
            if progress is not None and done < expected:
                progress(done, done)  # for text, the number is an estimate

    def attempt(run_tasks: TaskRunner) -> R:
        with closing(results(run_tasks)) as generator:
            return use(generator)

    return parts.with_wider_types(attempt)
