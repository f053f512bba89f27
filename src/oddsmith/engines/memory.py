"""The memory engine: folds over row slices of arrays on all cores, without a copy."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from threading import Barrier, Thread
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.cached_property import cached_property
from oddsmith.engines.base import ENGINES, Progress, S, merged
from oddsmith.rows import LazyRows, RunRows, SplitRows, as_rows
from oddsmith.rows.runs import run_values
from oddsmith.rows.split import TableForm
from oddsmith.statistic import Shape

T = TypeVar("T")
R = TypeVar("R")
SLICE_BYTES = 1 << 24
SMALL_BYTES = 1 << 21
"""Up to this size, rows form one slice, because threads would cost more than they save; larger ones form at least
eight."""
WIDE = 512  # Bytes of a slice of sparse rows for each column, at least: or the sums would be as large as the rows.
MADE_BYTES = 1 << 22  # A slice of rows that a transform makes takes no more than this.
STRETCHES, RUNS_BYTES = 61, 1 << 20
"""Number of segments for sampling rows (a prime, to avoid periods of the table); up to this many bytes, one thread
copies all."""
SPREAD_ROWS = 1 << 12  # Rows of a sample that are chosen at a time.
KEPT_BYTES = 1 << 25  # Transformed rows up to this size are made once and kept for the length of a fit.


def keeps_sparse(transform: Callable[[Any], Any] | None) -> bool:
    """Whether CSR rows stay CSR rows under a transform."""
    return transform is None or getattr(transform, "keeps_sparse", False)


@dataclass(frozen=True, kw_only=True)
class MemorySource:
    """Arrays that are already checked: rows, class codes, weights, offsets.

    ``transform`` (such as a basis) maps a slice of ``X`` to the rows ``Phi`` of a block. ``given`` is a sparse matrix
    by rows, and the same by columns, as the caller had it. ``was_read`` says that the rows come from files, whose
    reading took more memory than their sums will.

    >>> source = MemorySource(np.eye(3), np.array([0, 1, 1], dtype=np.int32), K=2)
    >>> source.n_rows, source.shape
    (3, Shape(M=3, K=2))
    """

    X: Any = field(kw_only=False)
    t: npt.NDArray[np.signedinteger[Any]] = field(kw_only=False)
    K: int = field(kw_only=False)
    s: npt.NDArray[Any] | None = field(default=None, kw_only=False)
    offset: npt.NDArray[np.float64] | None = field(default=None, kw_only=False)
    transform: Callable[[Any], Any] | None = None
    M: int | None = None
    slice_rows: int | None = None
    given: tuple[Any, Any] | None = None
    was_read: bool = False
    _blocks: dict[tuple[int, int], Block] = field(default_factory=dict, repr=False, compare=False, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_blocks": {}}  # pickling views would copy them

    @cached_property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def shape(self) -> Shape:
        return Shape(int(self.X.shape[1]) if self.M is None else self.M, self.K)

    @cached_property
    def is_sparse(self) -> bool:
        dense = isinstance(self.X, np.ndarray)  # asked for first: it takes less time
        return not dense and sparse.issparse(self.X) and keeps_sparse(self.transform)

    def by_columns(self) -> Any:
        """Return the rows of a sparse matrix in CSC form.

        >>> MemorySource(sparse.csr_array(np.eye(2)), np.array([0, 1], dtype=np.int32), K=2).by_columns().format
        'csc'
        """
        known = self.given is not None and self.given[0] is self.X
        return self.given[1] if self.given is not None and known else self.X.tocsc()

    @cached_property
    def form(self) -> TableForm | None:
        """The columns of a table in parts; None for other rows."""
        return self.X.form if isinstance(self.X, SplitRows) else None

    @cached_property
    def size(self) -> float:
        if isinstance(self.X, SplitRows):
            return self.n_rows * self.X.entries
        return 4.0 * self.X.nnz if self.is_sparse else float(self.n_rows) * self.shape.M

    @property
    def weighted(self) -> bool:
        return self.s is not None

    @property
    def n_present(self) -> int:
        return self.n_rows if self.s is None else int(np.count_nonzero(self.s))

    @property
    def has_offset(self) -> bool:
        return self.offset is not None

    @property
    def offset_mean(self) -> npt.NDArray[np.float64] | None:
        return None if self.offset is None else np.asarray(np.average(self.offset, axis=0, weights=self.s))

    def kept(self) -> MemorySource:
        """Return the source with its transformed rows computed once and kept, if there are few enough.

        >>> source = MemorySource(np.eye(2), np.array([0, 1], dtype=np.int32), K=2, transform=lambda rows: 2.0 * rows)
        >>> source.kept().X.tolist()
        [[2.0, 0.0], [0.0, 2.0]]
        """
        if self.transform is None:
            return self
        size = 12 * self.X.nnz if self.is_sparse else 8 * self.n_rows * self.shape.M
        if size > KEPT_BYTES:
            return self
        return replace(self, X=self.transform(self.X), transform=None, M=None)

    def slices(self) -> list[tuple[int, int]]:
        """Return the row ranges of the blocks, which depend only on the size of the data, never on threads."""
        return list(self._slices)

    @cached_property
    def _slices(self) -> list[tuple[int, int]]:
        n = self.n_rows
        width = self.X.row_bytes if isinstance(self.X, SplitRows) else 8 * self.X.shape[1]
        small = n <= 512 or (self.transform is None and n * width <= SMALL_BYTES)
        if small if self.slice_rows is None else n <= self.slice_rows:
            return [(0, n)]
        each = max(1, self._row_bytes())
        most = max(SLICE_BYTES, WIDE * self.shape.M if self.is_sparse else 0) if self.transform is None else MADE_BYTES
        step = self.slice_rows or max(
            512, min(most, n * each if n * each <= SMALL_BYTES else -(-n * each // 8)) // each
        )
        if isinstance(self.X, SplitRows) and self.slice_rows is None:
            step = max(step, min(most // each, -(-n // 8)))  # eight slices, not nine
        # Equal slices, so that the last one is not a sliver, and as many for each of two, four or eight threads.
        count = max(1, -(-n // step))
        if self.slice_rows is None and count > 4:
            count = -(-count // 8) * 8
        edges = [n * i // count for i in range(count + 1)]
        return list(pairwise(edges))

    def _row_bytes(self) -> int:
        if isinstance(self.X, SplitRows):
            return self.X.row_bytes
        if self.is_sparse:
            return int(12 * self.X.nnz // max(1, self.n_rows))
        return (2 if self.X.dtype == np.float16 else 8) * max(self.shape.M, int(self.X.shape[1]))

    @property
    def row_storage(self) -> type[object]:
        """The type of storage that blocks have."""
        return type(self.block(0, 0).Phi)

    def block(self, start: int, stop: int) -> Block:
        """Return the rows from ``start`` to ``stop`` as views of the arrays, cached to keep small passes short."""
        if (start, stop) not in self._blocks:
            self._blocks[start, stop] = self._block(start, stop)
        return self._blocks[start, stop]

    def _block(self, start: int, stop: int) -> Block:
        rows = as_rows(self.X).slice(start, stop)
        return Block(
            rows if self.transform is None else LazyRows(rows, self.transform, self.shape.M),
            self.t[start:stop],
            None if self.s is None else self.s[start:stop],
            None if self.offset is None else self.offset[start:stop],
            start,
        )

    def spread(self, rows: int, seed: int) -> npt.NDArray[np.intp]:
        """Return about ``rows`` row numbers, one at random from each of equally long segments of the data.

        Rows of weight 0 are skipped.
        """
        n = self.n_present
        count, rng = min(rows, n), np.random.default_rng(seed)
        chosen = np.empty(count, dtype=np.intp)
        for start in range(0, count, SPREAD_ROWS):  # some at a time, to save memory
            edges = np.arange(start, min(start + SPREAD_ROWS, count) + 1) * n // count
            jitter = rng.random(len(edges) - 1)
            chosen[start : start + SPREAD_ROWS] = edges[:-1] + (jitter * np.diff(edges)).astype(np.intp)
        return chosen if self.s is None or n == self.n_rows else _nonzero_rows(self.s, chosen)

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Return a source of about ``rows`` rows from across the data, copied unless it is all rows.

        >>> source = MemorySource(np.arange(6.0)[:, None], np.zeros(6, dtype=np.int32), K=1)
        >>> source.sample(2, seed=0).n_rows, source.sample(6, seed=0).X is source.X
        (2, True)
        """
        if rows >= self.n_rows == self.n_present:
            return replace(self, slice_rows=self._sample_slice(self.n_rows)).kept()
        return self.take(self.spread(rows, seed))

    def take(
        self, rows: npt.NDArray[np.intp], room: npt.NDArray[Any] | None = None, *, as_stored: bool = False
    ) -> MemorySource:
        """Return a source of the given rows, copied (into ``room``, if given and suitable).

        Those of an array are in C order, unless they lie ``as_stored``.
        """
        if isinstance(self.X, SplitRows):
            X: Any = self.X.take(rows)
        elif as_stored and isinstance(self.X, np.ndarray) and self.X.flags.f_contiguous:
            X = _take_rows(self.X.T, rows, axis=1).T
        else:
            X = self.X[rows] if sparse.issparse(self.X) else _take_rows(self.X, rows, room)
        s = None if self.s is None else self.s[rows]
        offset = None if self.offset is None else self.offset[rows]
        some = replace(self, X=X, t=self.t[rows], s=s, offset=offset, slice_rows=self._sample_slice(len(rows)))
        return some.kept()

    def parts(self, ends: Sequence[float]) -> Iterator[RunSource]:
        """Yield C-ordered rows in parts, each with a run from every segment, by the shares at which they end.

        >>> source = MemorySource(np.zeros((124, 1)), np.zeros(124, dtype=np.int32), K=1)
        >>> [part.runs()[:2] for part in source.parts((0.5, 1.0))]
        [[(0, 1), (2, 3)], [(1, 2), (3, 4)]]
        """
        apart, first = self.n_rows // STRETCHES, 0
        for end in ends:
            last = round(apart * end)
            yield RunSource(source=self, first=first, last=last, apart=apart, whole=end == 1.0)
            first = last

    def _sample_slice(self, rows: int) -> int:
        """The number of rows in a slice of a sample: eight slices are enough, fewer if each is very short."""
        columns = int(self.X.entries) if isinstance(self.X, SplitRows) else self.shape.M
        each = 8 * columns * max(1, self.K - 1) ** 2
        return max(512, -(-rows // 8), SMALL_BYTES // max(1, each))


def in_slices(source: MemorySource, count: int) -> MemorySource:
    """Return a source that is folded in ``count`` slices.

    >>> source = MemorySource(np.eye(3), np.zeros(3, dtype=np.int32), K=1)
    >>> in_slices(source, 2).slices()
    [(0, 1), (1, 3)]
    """
    if count == 1 and source.slice_rows is None and len(source.slices()) == 1:
        return source
    return replace(source, slice_rows=max(1, -(-source.n_rows // count)))


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """The rows from ``first`` to ``last`` of each of many segments of a source; with ``whole``, also those after them.

    >>> source = MemorySource(np.zeros((124, 1)), np.zeros(124, dtype=np.int32), K=1)
    >>> RunSource(source=source, first=1, last=2, apart=2, whole=True).n_present
    63
    """

    source: MemorySource
    first: int
    last: int
    apart: int
    whole: bool

    @property
    def n_rows(self) -> int:
        return sum(stop - start for start, stop in self.runs())

    n_present = n_rows  # none of them has a weight
    is_sparse = False

    @property
    def shape(self) -> Shape:
        return self.source.shape

    def _rest(self) -> list[tuple[int, int]]:
        """The rows outside all segments."""
        rest = STRETCHES * self.apart, self.source.n_rows
        return [rest] if self.whole and rest[0] < rest[1] else []

    def _runs(self) -> list[tuple[int, int]]:
        starts = range(self.first, STRETCHES * self.apart, self.apart) if self.first < self.last else []
        return [(start, start + self.last - self.first) for start in starts]

    def runs(self) -> list[tuple[int, int]]:
        """Return the ranges of contiguous rows."""
        return [*self._runs(), *self._rest()]

    def slices(self) -> list[tuple[int, int]]:
        """Return the row ranges of the blocks: from the first of several runs to the last."""
        runs = self._runs()
        size = len(runs) * (self.last - self.first) * self.source._row_bytes()
        count = next((count for count in (1, 2, 4, 8, 16) if size <= count * RUNS_BYTES), 32)
        edges = [len(runs) * i // count for i in range(count + 1)]
        return [*((runs[a][0], runs[b - 1][1]) for a, b in pairwise(edges) if a < b), *self._rest()]

    def block(self, start: int, stop: int) -> Block:
        """Return some runs of the source as one block."""
        if start >= STRETCHES * self.apart:
            return self.source.block(start, stop)
        length, offset = self.last - self.first, self.source.offset
        return Block(
            RunRows(self.source.X[start:stop], length, self.apart),
            run_values(self.source.t[start:stop], length, self.apart),
            None,
            None if offset is None else run_values(offset[start:stop], length, self.apart),
            start,
        )


def _nonzero_rows(s: npt.NDArray[Any], ranks: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return ``flatnonzero(s)[ranks]`` for ranks in order, a part of the rows at a time.

    >>> _nonzero_rows(np.array([0.0, 2.0, 0.0, 1.0]), np.array([0, 1])).tolist()
    [1, 3]
    """
    found, before, done = np.empty_like(ranks), 0, 0
    for start in range(0, len(s), SPREAD_ROWS):
        present = np.flatnonzero(s[start : start + SPREAD_ROWS])
        end = int(np.searchsorted(ranks, before + len(present)))
        found[done:end] = start + present[ranks[done:end] - before]
        before, done = before + len(present), end
    return found


def _take_rows(
    X: npt.NDArray[Any], rows: npt.NDArray[np.intp], room: npt.NDArray[Any] | None = None, *, axis: int = 0
) -> npt.NDArray[Any]:
    """Return rows of an array, in C order, copied by all cores if they are many; or columns, with ``axis=1``.

    >>> _take_rows(np.eye(3), np.array([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    shape = (len(rows), *X.shape[1:]) if axis == 0 else (len(X), len(rows))
    taken = np.empty(shape, dtype=X.dtype) if room is None else room[: len(rows)]
    parts = available_cores() if taken.nbytes > SMALL_BYTES else 1
    edges = [len(taken) * i // parts for i in range(parts + 1)]

    def copy(ends: tuple[int, int]) -> None:
        some = rows[slice(*ends)]
        if axis == 1:
            X[slice(*ends)].take(rows, axis=1, out=taken[slice(*ends)], mode="clip")
        elif X.flags.c_contiguous:  # Every number is that of a row: "clip" only spares a second buffer.
            X.take(some, axis=0, out=taken[slice(*ends)], mode="clip")
        elif not X.flags.f_contiguous:  # of which "take" would copy all
            taken[slice(*ends)] = X[some]
        else:  # a few columns at a time stay in the cache
            for first in range(0, X.shape[1], 8):
                columns = slice(first, first + 8)
                taken[slice(*ends), columns] = X.T[columns].take(some, axis=1, mode="clip").T

    deque(parallel_map(copy, list(pairwise(edges)), parts), maxlen=0)
    return taken


@ENGINES.register("memory")
@dataclass(frozen=True)
class MemoryEngine:
    """Folds slices of arrays on ``threads`` threads (default: the cores this process may use).

    The slices and their merge order depend only on the data, so results are bit-identical on any number of threads.

    >>> from oddsmith.statistics import Counts
    >>> source = MemorySource(np.eye(3), np.array([0, 1, 1], dtype=np.int32), K=2)
    >>> MemoryEngine().fold(Counts, source, source.shape).weight.tolist()
    [1.0, 2.0]
    """

    threads: int | None = None
    name: str = "memory"

    def fold(self, statistic: type[S], source: MemorySource, params: Any, *, progress: Progress | None = None) -> S:
        slices = source.slices()
        if len(slices) == 1 and progress is None:
            return statistic.of(source.block(*slices[0]), params)

        def of_slice(rows: tuple[int, int]) -> S:
            return statistic.of(source.block(*rows), params)

        parts = parallel_map(of_slice, slices, self.threads or available_cores())
        return merged(parts, lambda: statistic.zero(source.shape, params), progress, len(slices))


def parallel_map(work: Callable[[T], R], things: Sequence[T], threads: int) -> Iterator[R]:
    """Yield the results for all items in order, computed on several threads, including this one.

    >>> list(parallel_map(abs, [3, -2, -1], threads=2))
    [3, 2, 1]
    """
    threads = min(threads, len(things))
    if threads <= 1:
        yield from map(work, things)
        return
    done: dict[int, R] = {}
    waiting = iter(range(len(things)))
    job = [lambda i: work(things[i])]  # emptied at the end: a helper that never started must not keep the rows alive

    def take() -> None:
        try:
            for i in waiting:
                done[i] = job[0](i)
        finally:  # after an error, stop the others
            deque(waiting, maxlen=0)

    helpers = [_pool(threads).submit(take) for _ in range(threads - 1)]
    try:
        for k in range(len(things)):
            while k not in done:
                i = next(waiting, None)
                if i is None:  # a helper has it, unless it was stopped by an error; one that never began has nothing
                    for helper in helpers:
                        if not helper.cancel():
                            helper.result()
                else:
                    done[i] = job[0](i)
            yield done.pop(k)
    finally:
        deque(waiting, maxlen=0)
        for helper in helpers:
            if not helper.cancel():
                helper.exception()  # it is at its last thing, if at any
        job.clear()


def assisted(work: Callable[[], None], help_it: Callable[[], None], threads: int) -> None:
    """Work on this thread, while others run ``help_it``, which must end soon after the work has, and cannot fail.

    A helper that has not begun by then never does. One that has is not waited for: it holds all that it looks at.
    """
    helpers = [_pool(threads).submit(help_it) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.cancel()


def in_background(work: Callable[[], R], threads: int) -> Callable[[], R]:
    """Start work on another thread, if there is one; return a function that waits for its result.

    >>> in_background(lambda: 2 + 2, threads=2)()
    4
    """
    if threads <= 1:
        return work
    started = _pool(threads).submit(work)
    # One that has not begun is done here: threads of the pool may wait for each other.
    return lambda: work() if started.cancel() else started.result()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    with suppress(AttributeError):  # not every system has it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool with all of its threads started.

    They are started from another thread, which Ctrl-C cannot interrupt. In the main thread, an interrupt could leave a
    started thread unknown to the pool, which would keep the process from ending.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="oddsmith")

    def start() -> None:
        here = Barrier(threads)
        for _ in range(threads):
            pool.submit(here.wait, 10)  # each takes a thread of its own: none comes back before the last is there

    starter = Thread(target=start)
    starter.start()
    starter.join()
    return pool


if os.name == "posix":
    os.register_at_fork(after_in_child=_pool.cache_clear)
