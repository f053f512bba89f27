"""Blocks of whole rows of a text file, which several threads take in turn."""

from __future__ import annotations

import os
from itertools import count, pairwise
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

BLOCK = 1 << 20  # Bytes that are read at a time, about: they stay in a core's own cache while they are parsed.
MARGIN, LONGEST = 1 << 12, 1 << 16
"""Bytes beyond a block in which its last row is expected to end, and in which it must."""


class RowBlocks(Protocol):
    """Blocks of rows; ``room`` is the size of the buffer that each thread needs."""

    room: int

    def next(self, buffer: bytearray) -> tuple[int, memoryview | None] | None:
        """Return the number of a block and its rows in the buffer (None: a row has no end); None after the last."""

    def close(self) -> None:
        """Close the file."""


class FileBlocks:
    """Blocks between two places of a file, as many for each thread; each is read at its own place.

    Where the line end between two blocks is within quotes, the block before it is not plain.
    """

    def __init__(self, path: str, start: int, size: int, threads: int) -> None:
        parts = threads * max(1, round((size - start) / BLOCK / threads))
        self.places = [start + k * (size - start) // parts for k in range(parts + 1)]
        self.room = max(b - a for a, b in pairwise(self.places)) + LONGEST
        self.number, self.size, self.turn = os.open(path, os.O_RDONLY), size, count()

    def close(self) -> None:
        os.close(self.number)

    def next(self, buffer: bytearray) -> tuple[int, memoryview | None] | None:
        k = next(self.turn)
        return (k, self._rows(k, buffer)) if k + 1 < len(self.places) else None

    def _rows(self, k: int, buffer: bytearray) -> memoryview | None:
        """Return the rows behind the first line end of a block (or its beginning), to that of the row at its end."""
        first, last = self.places[k : k + 2]
        whole, done = k == 0, 0
        for margin in (MARGIN, LONGEST):
            size = min(last + margin, self.size) - first
            with memoryview(buffer) as room:
                while done < size and (more := os.preadv(self.number, [room[done:size]], first + done)):
                    done += more
            if done < size:
                return None
            start = 0 if whole else buffer.find(b"\n", 0, size) + 1
            end = buffer.find(b"\n", last - first, size) + 1 if last < self.size else size
            if first + size == self.size:  # no line end is needed
                start, end = start if start or whole else size, end or size
            if (start or whole) and end:
                return memoryview(buffer)[start:end]
        return None


class StreamBlocks:
    """Blocks of a stream, such as a file that is decompressed: one thread reads while the others parse."""

    def __init__(self, stream: Any, start: int) -> None:
        self.room, self.stream, self.lock, self.rest, self.count, self.ended = BLOCK, stream, Lock(), b"", 0, False
        stream.read(start)

    def close(self) -> None:
        self.stream.close()

    def next(self, buffer: bytearray) -> tuple[int, memoryview | None] | None:
        with self.lock:
            if self.ended:
                return None
            k, done = self.count, len(self.rest)
            buffer[:done] = self.rest
            try:
                with memoryview(buffer) as room:
                    while done < len(room) and (more := self.stream.readinto(room[done:])):
                        done += more
            except (OSError, EOFError, pa.ArrowException):  # whoever reads it again says where
                return k, None
            self.count, self.ended = k + 1, done < len(buffer)
            end = done if self.ended else buffer.rfind(b"\n") + 1
            self.rest = bytes(buffer[end:done])
            return (k, memoryview(buffer)[:end] if end else None) if done else None
