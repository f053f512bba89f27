"""A cache for later passes: tables, then their encoded blocks, in memory or on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from threading import Lock
from typing import Any

from oddsmith.block import Block
from oddsmith.engines.files.blocks import BlockWriter, nbytes, read_blocks

SPARE = 1 << 30  # Bytes that a cache leaves free on its disk.


class MemoryBudget:
    """A number of bytes that several threads take and give back.

    >>> budget = MemoryBudget(10)
    >>> budget.take(8), budget.take(8), budget.left
    (True, False, 2)
    """

    def __init__(self, size: int) -> None:
        self.left = size
        self._lock = Lock()

    def take(self, size: int) -> bool:
        """Take bytes if that many are left."""
        with self._lock:
            enough = size <= self.left
            self.left -= size if enough else 0
            return enough

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.left += size


class CacheFolder:
    """A folder for blocks: ``path`` or, if temporary, a subfolder of it that is removed with its owner.

    ``failure`` is the reason why nothing more is written there.
    """

    def __init__(self, path: str | None, *, temporary: bool) -> None:
        self.path, self.temporary = None if temporary else path, temporary
        self._parent = path
        self.failure: str | None = None
        self.failure_reported = False
        self._lock = Lock()

    def subfolder(self, name: str) -> str:
        """Return a subfolder, created on first use."""
        with self._lock:
            if self.path is None:
                if self._parent is not None:
                    os.makedirs(self._parent, exist_ok=True)
                self.path = tempfile.mkdtemp(prefix="oddsmith-", dir=self._parent)
                weakref.finalize(self, _remove, self.path, os.getpid())
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        return path

    def fail(self, error: OSError) -> None:
        """Record that nothing more can be written."""
        path = self.path or self._parent or tempfile.gettempdir()
        self.failure = self.failure or (
            f"Encoded rows could not be cached in {path!r} ({error.strerror or error}): they are read and encoded "
            "again in each pass. Free some space, or pass cache= with a folder on another disk."
        )


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # a forked child must not remove what its parent reads
        shutil.rmtree(path, ignore_errors=True)


class BlockCache:
    """The cached data of tasks by number: tables, or the blocks of one encoding.

    It is in memory while the budget lasts, then in a folder, if there is one (``always``: in the folder as well from
    the start).
    """

    def __init__(
        self, budget: MemoryBudget, folder: CacheFolder | None = None, name: str = "", *, always: bool = False
    ) -> None:
        self.budget, self.folder, self.name, self.always = budget, folder, name, always
        self._in_memory: dict[int, tuple[Sequence[Any], int]] = {}
        self.on_disk: set[int] = set()
        self._lock = Lock()
        self._closed = False

    def get(self, number: int) -> Sequence[Any] | None:
        """Return the cached data of a task, or None."""
        cached = self._in_memory.get(number)
        if cached is not None:
            return cached[0]
        return read_blocks(self.path(number)) if self.has(number) else None

    def has(self, number: int) -> bool:
        """Whether a task is cached; a permanent folder may contain it from an earlier run."""
        known = number in self._in_memory or number in self.on_disk
        return known or (self.always and os.path.exists(self.path(number)))

    def pop(self, number: int) -> Sequence[Any] | None:
        """Return the data of a task in memory, and remove it from the cache."""
        with self._lock:
            things, size = self._in_memory.pop(number, (None, 0))
        self.budget.give(size)
        return things

    def keep(self, number: int, things: Sequence[Any], size: int) -> None:
        """Cache objects in memory whose size is already taken from the budget."""
        with self._lock:
            if not self._closed and number not in self._in_memory:
                self._in_memory[number] = (things, size)
                return
        self.budget.give(size)

    def path(self, number: int) -> str:
        """Return the path of a task on disk."""
        assert self.folder is not None
        return os.path.join(self.folder.subfolder(self.name), f"{number:06}.blocks")

    def close(self) -> None:
        """Give all memory back, and remove a temporary folder."""
        with self._lock:
            self._closed = True
            size = sum(size for _, size in self._in_memory.values())
            self._in_memory.clear()
        self.budget.give(size)
        if self.folder is not None and self.folder.temporary and self.on_disk:
            shutil.rmtree(self.folder.subfolder(self.name), ignore_errors=True)
        self.on_disk.clear()


class CacheWriter:
    """Collects the data of one task; caches it when complete, or not at all."""

    def __init__(self, cache: BlockCache, number: int) -> None:
        self._cache, self._number = cache, number
        self._things: list[object] | None = []
        self._size = 0
        self._writer: BlockWriter | None = None
        if cache.always:
            self._write([])

    def add(self, thing: object) -> None:
        """Add one object."""
        if self._things is not None:
            size = nbytes(thing)
            if self._cache.budget.take(size):
                self._things.append(thing)
                self._size += size
            else:  # on disk from now on, if there is a folder
                self._cache.budget.give(self._size)
                things, self._things = self._things, None
                if self._writer is None:
                    self._write(things)
        if self._writer is not None:
            self._write([thing])

    def finish(self) -> None:
        """Cache the collected data."""
        if self._writer is not None:
            try:
                self._writer.finish()
                self._cache.on_disk.add(self._number)
            except OSError as error:
                self._fail(error)
        if self._things is not None:
            self._cache.keep(self._number, tuple(self._things), self._size)

    def abandon(self) -> None:
        """Cache nothing."""
        self._discard_file()
        if self._things is not None:
            self._cache.budget.give(self._size)

    def _write(self, things: Sequence[object]) -> None:
        folder = self._cache.folder
        # The failure may be another thread's: this file is incomplete. Only blocks can be written.
        if folder is None or folder.failure or not all(type(thing) is Block for thing in things):
            self._discard_file()
            return
        try:
            if self._writer is None:
                path = self._cache.path(self._number)
                if shutil.disk_usage(os.path.dirname(path)).free < SPARE:
                    raise OSError(f"less than {SPARE >> 20} MiB are free")
                self._writer = BlockWriter(path, durable=not folder.temporary)
            for thing in things:
                assert isinstance(thing, Block)
                self._writer.add(thing)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        assert self._cache.folder is not None
        self._cache.folder.fail(error)
        self._discard_file()

    def _discard_file(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        self._writer = None
