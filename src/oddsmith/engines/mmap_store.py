"""Objects in a local file, one after another, with arrays that are memory-mapped when read, never copied.

A file is written completely or not at all. It is only for this machine and this run: the process that wrote it reads
it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from typing import Any, BinaryIO

LINE = 64  # Arrays begin at multiples of this, as compiled code likes it; and sums have the same bits at every reading.


def put(path: Path, things: Iterable[Any]) -> int:
    """Write objects to a file, one at a time, and return their number; the file appears when it is complete.

    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     put(Path(folder, "a"), [np.eye(2), "b"]), list(take(Path(folder, "a")))
    (2, [array([[1., 0.], [0., 1.]]), 'b'])
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            index = [_append(file, thing) for thing in things]
            end = file.tell()
            pickle.dump(index, file)
            file.write(end.to_bytes(8, "little"))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return len(index)


def take(path: Path) -> Iterator[Any]:
    """Yield the objects in a file; their arrays are read-only views of it."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        for head, start, spans in pickle.load(file):
            length = spans[-1][1] if spans else 0
            view = memoryview(mmap(file.fileno(), length, access=ACCESS_READ, offset=start) if length else b"")
            yield pickle.loads(head, buffers=[view[i:j] for i, j in spans])


def _append(file: BinaryIO, thing: object) -> tuple[bytes, int, list[tuple[int, int]]]:
    """Write the arrays of an object; return the rest of it, their start, and the offset of each."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
    start = _pad(file, ALLOCATIONGRANULARITY)
    spans = []
    for array in arrays:
        first = _pad(file, LINE) - start
        spans.append((first, first + file.write(array.raw())))
    return head, start, spans


def _pad(file: BinaryIO, step: int) -> int:
    """Fill up to the next multiple of ``step`` and return it."""
    file.write(bytes(-file.tell() % step))
    return file.tell()
