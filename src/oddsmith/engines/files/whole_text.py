"""A plain CSV file as one table in memory, read on several threads.

The file is read twice, a block at a time: to count its lines, which says where the rows of each block go, and to parse
them into arrays for all rows. Whatever is not plain is left to the reader of pieces, which also places errors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oddsmith.engines.files.plain_text import KINDS, MISSING, number_array, pack_bits, text_array
from oddsmith.engines.files.text import TextTable
from oddsmith.engines.memory import parallel_map
from oddsmith.kernels.native import Kernels, kernels
from oddsmith.kernels.texts import (
    SKIP,
    TEXT,
    WIDTHS,
    CsvArrays,
    CsvReader,
    count_lines,
    csv_arrays,
    present,
    recode_parts,
)

BLOCK = 1 << 20  # Bytes that are read at a time, about: they stay in a core's own cache while they are parsed.
LONGEST = 1 << 16  # Most bytes of the row that a block ends with.


@dataclass(frozen=True)
class _Block:
    """Bytes of a file, the lines that end in them, and where the first of these does."""

    first: int
    size: int
    lines: int
    line_end: int


class _File:
    """A file that several threads read, each at its own places."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        os.close(self.number)

    def read(self, first: int, buffer: memoryview) -> bool:
        """Fill a buffer with the bytes from a place on; False if there are fewer."""
        done = 0
        while done < len(buffer) and (more := os.preadv(self.number, [buffer[done:]], first + done)):
            done += more
        return done == len(buffer)

    def look(self, first: int, last: int, buffer: bytearray) -> _Block | None:
        """Count the lines that end in the bytes between two places; None if they are not plain."""
        size = last - first
        if not self.read(first, memoryview(buffer)[:size]) or buffer.find(b'"', 0, size) >= 0:
            return None
        end = buffer.find(b"\n", 0, min(size, LONGEST))
        return None if end < 0 else _Block(first, size, count_lines(memoryview(buffer)[:size]), end)


def _by_turns(work: Callable[[int, int, bytearray], bool], things: int, size: int, threads: int) -> bool:
    """Call ``work(thing, thread, buffer)`` for each thing, on several threads; False as soon as a call returns that.

    Each thread has one buffer of ``size`` bytes: fresh memory for every call would take longer than what it is for.
    """
    turn, broken = count(), list[int]()

    def take(thread: int) -> None:
        buffer = bytearray(size)
        while not broken and (i := next(turn)) < things:
            if not work(i, thread, buffer):
                broken.append(i)

    for _ in parallel_map(take, range(threads), threads):
        pass
    return not broken


def read_whole(table: TextTable, columns: Sequence[str], threads: int) -> pa.Table | None:
    r"""Return columns of a plain CSV file, texts as codes of sorted levels; None if it is not plain.

    >>> import pathlib, tempfile
    >>> from oddsmith.engines.files.paths import find
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("x,y\n1,b\n2,a\n")
    >>> found = read_whole(TextTable.open(find(path)[0]).with_codes(["y"]), ["x", "y"], 2)
    >>> found is None or (found["x"].to_pylist(), found["y"].to_pylist())
    ([1, 2], ['b', 'a'])
    """
    native, kinds = kernels(), _kinds(table, columns)
    start, size = table.start, table.file.size
    if native is None or kinds is None or size <= start or sys.platform == "win32":  # no preadv there
        return None
    table.file.check_unchanged()
    with closing(_File(table.file.path)) as file:
        parts = max(1, round((size - start) / BLOCK))
        places = [start + k * (size - start) // parts for k in range(parts + 1)]
        blocks: list[_Block | None] = [None] * parts

        def look(i: int, thread: int, buffer: bytearray) -> bool:
            blocks[i] = file.look(places[i], places[i + 1], buffer)
            return blocks[i] is not None

        if not _by_turns(look, parts, -(-(size - start) // parts), threads):
            return None
        parsed = _Parsed(native, file, [block for block in blocks if block], table.delimiter, kinds)
        complete = parsed.read(threads)
    table.file.check_unchanged()
    if not complete:
        return None
    types = {field.name: field.type for field in table.schema}
    made = list(parallel_map(lambda name: parsed.array(table.schema.names.index(name), types[name]), columns, threads))
    return None if any(array is None for array in made) else pa.table(dict(zip(columns, made, strict=True)))


def _kinds(table: TextTable, columns: Sequence[str]) -> list[int] | None:
    """Return the kinds of all columns of a file, None where only Arrow reads it."""
    wanted = set(columns)
    if not table.is_plain or table.formats.keys() & wanted or wanted - set(table.schema.names):
        return None
    kinds = [KINDS.get(field.type) if field.name in wanted else SKIP for field in table.schema]
    return [kind for kind in kinds if kind is not None] if None not in kinds else None


class _Parsed:
    """The columns of all rows, parsed into one array each."""

    def __init__(self, native: Kernels, file: _File, blocks: list[_Block], delimiter: str, kinds: list[int]) -> None:
        self.native, self.file, self.blocks, self.delimiter, self.kinds = native, file, blocks, delimiter, kinds
        last, tail = blocks[-1], bytearray(1)
        self.end = last.first + last.size
        file.read(self.end - 1, memoryview(tail))
        lines = np.cumsum([0, *(block.lines for block in blocks)])
        # The rows of a block begin behind its first line end: those before belong to the block before.
        self.rows = [0, *(lines[1:-1] + 1).tolist(), int(lines[-1]) + (tail != b"\n")]
        self.bytes = [blocks[0].first, *(block.first + block.line_end + 1 for block in blocks[1:]), self.end]
        self.arrays: CsvArrays = csv_arrays(kinds, self.rows[-1])
        self.readers: list[CsvReader] = []
        self.reader_of = [0] * len(blocks)

    def read(self, threads: int) -> bool:
        """Parse all blocks; False if one is not plain."""
        self.readers = [CsvReader(self.native, self.delimiter, self.kinds) for _ in range(threads)]
        return _by_turns(self._parse, len(self.blocks), max(b - a for a, b in pairwise(self.bytes)), threads)

    def _parse(self, i: int, thread: int, buffer: bytearray) -> bool:
        self.reader_of[i] = thread
        (first, last), (start, stop) = self.bytes[i : i + 2], self.rows[i : i + 2]
        text = memoryview(buffer)[: last - first]
        arrays = [None if values is None else values[start:stop] for values in self.arrays]
        return self.file.read(first, text) and self.readers[thread].read(text, arrays) == stop - start

    def array(self, column: int, type_: pa.DataType) -> pa.Array | None:
        """Return a column as an Arrow array; None if its texts are not UTF-8."""
        values = self.arrays[column]
        assert values is not None
        if self.kinds[column] != TEXT:
            missing = any(one.misses(column) for one in self.readers)
            return number_array(values, present(values) if missing else None, type_)
        found = [text_array(*reader.levels(column)) for reader in self.readers]
        levels = [one for one in found if one is not None]
        return None if len(levels) < len(found) else self._codes(values, levels)

    def _codes(self, codes: npt.NDArray[np.int32], levels: list[pa.Array]) -> pa.DictionaryArray:
        """Return texts as codes of all levels in order; ``levels`` are those of each reader."""
        every = pa.concat_arrays(levels)
        known = pc.unique(every)
        absent = pc.is_in(known, value_set=MISSING)
        missing = absent.true_count > 0
        known = known.filter(pc.invert(absent)) if missing else known
        known = known.take(pc.sort_indices(known))
        place = pc.index_in(every, value_set=known)
        places = np.asarray(place.fill_null(-1), dtype=np.int32)
        starts = np.cumsum([0, *map(len, levels)])
        own = [np.ascontiguousarray(places[a:b]) for a, b in pairwise(starts)]
        width: Any = next(kind for kind in WIDTHS if len(known) <= np.iinfo(kind).max)
        narrow = np.empty(len(codes), dtype=width)
        recode_parts(codes, self.rows, [own[reader] for reader in self.reader_of], narrow)
        valid = pack_bits(narrow >= 0) if missing else None
        indices = pa.Array.from_buffers(pa.from_numpy_dtype(width), len(narrow), [valid, pa.py_buffer(narrow)])
        return pa.DictionaryArray.from_arrays(indices, known)
