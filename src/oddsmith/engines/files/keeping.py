"""What stays between passes: tables as they were read, then the blocks made of them, in memory or on disk."""

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

SPARE = 1 << 30
"""Bytes that a cache leaves free on its disk."""


class Room:
    """So many bytes, taken and given back by several threads.

    >>> room = Room(10)
    >>> room.take(8), room.take(8), room.left
    (True, False, 2)
    """

    def __init__(self, size: int) -> None:
        self.left = size
        self._lock = Lock()

    def take(self, size: int) -> bool:
        """Take bytes if that many are left."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.left += size


class Disk:
    """A folder for blocks: ``path``, or, if it is temporary, one in there that is removed with its owner.

    ``trouble`` says why it is no longer used.
    """

    def __init__(self, path: str | None, *, temporary: bool) -> None:
        self.path, self.temporary = None if temporary else path, temporary
        self._within = path
        self.trouble: str | None = None
        self.told = False
        self._lock = Lock()

    def folder(self, name: str) -> str:
        """Return a folder in it, made when it is first asked for."""
        with self._lock:
            if self.path is None:
                if self._within is not None:
                    os.makedirs(self._within, exist_ok=True)
                self.path = tempfile.mkdtemp(prefix="oddsmith-", dir=self._within)
                weakref.finalize(self, _remove, self.path, os.getpid())
        place = os.path.join(self.path, name)
        os.makedirs(place, exist_ok=True)
        return place

    def writer(self, path: str) -> BlockWriter:
        """Return a writer, if the disk has room."""
        if shutil.disk_usage(os.path.dirname(path)).free < SPARE:
            raise OSError(f"less than {SPARE >> 20} MiB are free")
        return BlockWriter(path, durable=not self.temporary)

    def fail(self, error: OSError) -> None:
        """Note that nothing more can be written."""
        place = self.path or self._within or tempfile.gettempdir()
        self.trouble = self.trouble or (
            f"Encoded rows could not be cached in {place!r} ({error.strerror or error}): "
            "those that are not are read and encoded again in each pass. Free some room, or pass cache= with the "
            "path of a folder on another disk."
        )


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # a forked child must not remove what its parent reads
        shutil.rmtree(path, ignore_errors=True)


class Chapter:
    """What is kept of tasks under their numbers: tables, or the blocks of one encoding.

    In memory as long as there is room; then on ``disk``, if there is one (``always``: there as well from the start).
    """

    def __init__(self, room: Room, disk: Disk | None = None, folder: str = "", *, always: bool = False) -> None:
        self.room, self.disk, self.folder, self.always = room, disk, folder, always
        self._kept: dict[int, tuple[Sequence[Any], int]] = {}
        self._stored: set[int] = set()
        self._lock = Lock()
        self._closed = False

    def get(self, number: int) -> Sequence[Any] | None:
        """Return what is kept of a task, None if nothing is."""
        kept = self._kept.get(number)
        if kept is not None:
            return kept[0]
        return read_blocks(self.path(number)) if self.has(number) else None

    def has(self, number: int) -> bool:
        """Whether a task is kept; a folder that stays may hold it since another day."""
        known = number in self._kept or number in self._stored
        return known or (self.always and os.path.exists(self.path(number)))

    def pop(self, number: int) -> Sequence[Any] | None:
        """Return what is kept in memory of a task, and keep it no longer."""
        with self._lock:
            things, size = self._kept.pop(number, (None, 0))
        self.room.give(size)
        return things

    def keep(self, number: int, things: Sequence[Any], size: int) -> None:
        """Keep what has taken its room already."""
        with self._lock:
            if not self._closed and number not in self._kept:
                self._kept[number] = (things, size)
                return
        self.room.give(size)

    def path(self, number: int) -> str:
        """Return where a task is on disk."""
        assert self.disk is not None
        return os.path.join(self.disk.folder(self.folder), f"{number:06}.blocks")

    def stored(self, number: int) -> None:
        """Note that a task is on disk."""
        self._stored.add(number)

    def close(self) -> None:
        """Give all room back; what a temporary cache holds is removed."""
        with self._lock:
            self._closed = True
            size = sum(size for _, size in self._kept.values())
            self._kept.clear()
        self.room.give(size)
        if self.disk is not None and self.disk.temporary and self._stored:
            shutil.rmtree(self.disk.folder(self.folder), ignore_errors=True)
        self._stored.clear()


class Shelf:
    """Takes what is made of one task, thing after thing; kept when all of it has come, or not at all."""

    def __init__(self, chapter: Chapter, number: int) -> None:
        self._chapter, self._number = chapter, number
        self._things: list[Any] = []
        self._size = 0
        self._in_memory = True
        self._writer: BlockWriter | None = None
        if chapter.always:
            self._write([])

    def add(self, thing: Any) -> None:
        """Take one more thing."""
        if self._in_memory:
            size = nbytes(thing)
            if self._chapter.room.take(size):
                self._things.append(thing)
                self._size += size
            else:
                self._leave_memory()
        if self._writer is not None:
            self._write([thing])

    def finish(self) -> bool:
        """Keep what has come, and say whether it could be kept."""
        if self._writer is not None:
            try:
                self._writer.finish()
                self._chapter.stored(self._number)
            except OSError as error:
                self._give_up(error)
        if self._in_memory:
            self._chapter.keep(self._number, tuple(self._things), self._size)
        return self._in_memory or self._writer is not None

    def abandon(self) -> None:
        """Keep nothing."""
        if self._writer is not None:
            self._writer.abandon()
        if self._in_memory:
            self._chapter.room.give(self._size)

    def _leave_memory(self) -> None:
        """Move what has come so far to the disk, if there is one."""
        self._in_memory = False
        self._chapter.room.give(self._size)
        things, self._things = self._things, []
        if self._writer is None:
            self._write(things)

    def _write(self, things: Sequence[Any]) -> None:
        disk = self._chapter.disk
        if disk is None or disk.trouble:  # perhaps since another thread's: what this one has begun is not whole
            self._no_writer()
            return
        if not all(type(thing) is Block for thing in things):  # of another kind: not known how to be written
            self._no_writer()
            return
        try:
            if self._writer is None:
                self._writer = disk.writer(self._chapter.path(self._number))
            for thing in things:
                self._writer.add(thing)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        disk = self._chapter.disk
        assert disk is not None
        disk.fail(error)
        self._no_writer()

    def _no_writer(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        self._writer = None
