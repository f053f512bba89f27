"""A plain CSV file as one table in memory, read on several threads.

Blocks of the file are parsed into arrays for all rows: the lines of the blocks before say where the rows of a block go.
Whatever is not plain is left to the reader of pieces, which also places errors.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from threading import Condition
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from oddsmith.engines.files.dialect import open_text
from oddsmith.engines.files.plain_text import KINDS, MISSING, MISSING_WORDS, number_array, pack_bits, text_array
from oddsmith.engines.files.row_blocks import FileBlocks, RowBlocks, StreamBlocks
from oddsmith.engines.files.text import TextTable
from oddsmith.engines.memory import parallel_map
from oddsmith.engines.text_formats import TextFormat
from oddsmith.kernels.native import Kernels, kernels
from oddsmith.kernels.texts import (
    SKIP,
    TEXT,
    WIDTHS,
    CsvArrays,
    CsvReader,
    count_codes,
    count_lines,
    csv_arrays,
    present,
    recode_parts,
)

FEW = 500  # Levels up to which Python sorts them faster than Arrow.
KEY_BYTES = 8  # Texts up to this length are sorted as numbers.
TRUE, FALSE = (pa.array(words) for words in (csv.ConvertOptions().true_values, csv.ConvertOptions().false_values))
SPARE, FEWEST_ROWS = 1.1, 100  # Rows for which there is room at first: so many times those expected, and some more.


@dataclass(frozen=True, kw_only=True)
class WholeText:
    """The columns of a file, and of those with levels the rows without one, then those of each level."""

    table: pa.Table
    counts: dict[str, npt.NDArray[np.int64]]

    def complete(self, names: Iterable[str], threads: int) -> WholeText:
        """Return the rows without missing values in some columns; all of them if none is without."""
        every = self.table.column_names
        holes = {name: self.table[name].chunk(0) for name in names if self.table[name].null_count}
        work = parallel_map(_is_present, list(holes.values()), threads)
        kept = np.flatnonzero(np.logical_and.reduce(list(work))) if holes else np.empty(0)
        if not len(kept):
            return self

        def some(name: str) -> _Column:
            column = self.table[name].chunk(0)
            if name in self.counts:
                codes = _raw(column.indices)[kept]
                return _coded(codes, column.dictionary, count_codes(codes, len(column.dictionary)))
            if (column.null_count and name not in holes) or pa.types.is_boolean(column.type):
                return _Column(column.take(pa.array(kept)))
            return _Column(number_array(_raw(column)[kept], None, column.type))

        return WholeText.of(dict(zip(every, parallel_map(some, every, threads), strict=True)))

    @classmethod
    def of(cls, columns: Mapping[str, _Column]) -> WholeText:
        """Return columns as a table."""
        counts = {name: column.counts for name, column in columns.items() if column.counts is not None}
        return cls(table=pa.table({name: column.array for name, column in columns.items()}), counts=counts)


def read_whole(table: TextTable, columns: Sequence[str], threads: int) -> WholeText | None:
    r"""Return columns of a plain CSV file, texts as codes of sorted levels; None if it is not plain.

    >>> import pathlib, tempfile
    >>> from oddsmith.engines.files.paths import find
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("x,y\n1,b\n2,a\n2,b\n")
    >>> found = read_whole(TextTable.open(find(path)[0]).with_codes(["y"]), ["x", "y"], 2)
    >>> found is None or (found.table["y"].to_pylist(), found.counts["y"].tolist())
    (['b', 'a', 'b'], [0, 1, 2])
    """
    native, kinds = kernels(), _kinds(table, columns)
    if native is None or kinds is None or table.file.size <= table.start or sys.platform == "win32":  # no preadv there
        return None
    table.file.check_unchanged()
    parsed = _Parsed(native, table, kinds, threads)
    complete = parsed.read()
    table.file.check_unchanged()
    if not complete:
        return None
    # Few levels are merged on one thread, since Python runs on no more; then columns are made, the longest first.
    levels = {name: parsed.levels(name) for name in columns}
    few = {name: parsed.merged(name) for name, count in levels.items() if 0 < count <= FEW}
    order = sorted(columns, key=lambda name: -levels[name])
    work = parallel_map(lambda name: parsed.column(name, few.get(name) or parsed.merged(name)), order, threads)
    made = dict(zip(order, work, strict=True))
    found = {name: column for name in columns if (column := made[name]) is not None}
    return None if len(found) < len(columns) else WholeText.of(found)


def _kinds(table: TextTable, columns: Sequence[str]) -> list[int] | None:
    """Return the kinds of all columns of a file, None where only Arrow reads it."""
    wanted = set(columns)
    if not table.is_plain or wanted - set(table.schema.names):
        return None
    known = {**KINDS, pa.bool_(): TEXT}
    kinds = [
        SKIP if field.name not in wanted else TEXT if field.name in table.formats else known.get(field.type)
        for field in table.schema
    ]
    return [kind for kind in kinds if kind is not None] if None not in kinds else None


@dataclass(frozen=True)
class _Column:
    array: pa.Array
    counts: npt.NDArray[np.int64] | None = None


class _Parsed:
    """The columns of all rows, parsed into one array each, a block at a time by whichever thread is free.

    A thread counts the lines of its block before it parses them, so that the next block knows where its rows go.
    """

    def __init__(self, native: Kernels, table: TextTable, kinds: list[int], threads: int) -> None:
        self.native, self.table, self.kinds, self.threads = native, table, kinds, threads
        self.readers: dict[int, CsvReader] = {}  # by thread
        self.arrays: CsvArrays = []
        self.rows: list[int] = []
        self.reader_of: dict[int, int] = {}  # by block
        self.broken: str | None = None
        self.state = Condition()

    def read(self) -> bool:
        """Parse all blocks; False if one is not plain."""
        for room in self._rooms():
            self.rows, self.arrays, self.broken = [0], csv_arrays(self.kinds, room), None
            # All made here: threads that make arrays at the same time wait for each other.
            self.readers = {k: CsvReader(self.native, self.table.signs, self.kinds) for k in range(self.threads)}
            with closing(self._blocks()) as blocks:
                take = partial(self._take, blocks, room)
                deque(parallel_map(take, range(self.threads), self.threads), maxlen=0)
            if self.broken != "room":
                break
        self.arrays = [None if values is None else values[: self.rows[-1]] for values in self.arrays]
        return self.broken is None and len(self.rows) > 1

    def _rooms(self) -> tuple[int, ...]:
        """Return the rows for which to make room at first, and if these are too few."""
        rows = round(SPARE * self.table.expected_rows) + FEWEST_ROWS
        if self.table.is_sequential:  # of unknown size: with more than twice as many, it may not fit into memory
            return (2 * rows,)
        most = (self.table.file.size - self.table.start) // len(self.kinds) + 1  # a row has a byte for each column
        return min(most, rows), most

    def _blocks(self) -> RowBlocks:
        file, start = self.table.file, self.table.start
        if self.table.is_sequential:
            return StreamBlocks(open_text(file.path, self.table.dialect), start)
        return FileBlocks(file.path, start, file.size, self.threads)

    def _take(self, blocks: RowBlocks, room: int, thread: int) -> None:
        """Parse blocks until none is left, or one fails."""
        reader = self.readers[thread]
        # One buffer for all: fresh memory for every block would take longer than what it is for.
        buffer = bytearray(blocks.room)
        try:
            while not self.broken and (block := blocks.next(buffer)):
                i, text = block
                self.reader_of[i] = thread
                lines = count_rows(text) if text is not None else 0
                if not self._place(i, lines, room):
                    return
                arrays = [None if values is None else values[slice(*self.rows[i : i + 2])] for values in self.arrays]
                if text is None or reader.read(text, arrays) != lines:
                    self._stop("text")
        except BaseException:
            self._stop("error")  # or others would wait for ever
            raise

    def _place(self, block: int, lines: int, room: int) -> bool:
        """Say where the rows of the block after this one begin; False if there is no room, or another block failed."""
        with self.state:
            self.state.wait_for(lambda: self.broken or len(self.rows) > block)
            if self.broken:
                return False
            self.rows.append(self.rows[block] + lines)
            self.state.notify_all()
        if self.rows[block + 1] > room:
            self._stop("room")
        return not self.broken

    def _stop(self, why: str) -> None:
        with self.state:
            self.broken = self.broken or why
            self.state.notify_all()

    def levels(self, name: str) -> int:
        """Return the number of different texts in a column, some of them counted twice; 0 for numbers."""
        column = self.table.schema.names.index(name)
        return sum(len(one.levels(column)[0]) for one in self.readers.values()) if self.kinds[column] == TEXT else 0

    def merged(self, name: str) -> tuple[pa.Array, list[npt.NDArray[np.int32]]] | None:
        """Return the levels of a column in order, and where those of each reader are; None if it has none in UTF-8.

        Texts with a format and booleans become values, in any order.
        """
        column = self.table.schema.names.index(name)
        if self.kinds[column] != TEXT:
            return None
        found = [text_array(*self.readers[k].levels(column)) for k in range(self.threads)]
        levels = [one for one in found if one is not None]
        if len(levels) < len(found):
            return None
        format_, type_ = self.table.formats.get(name), self.table.schema.types[column]
        return _in_order(levels) if format_ is None and not pa.types.is_boolean(type_) else _values(levels, format_)

    def column(self, name: str, levels: tuple[pa.Array, list[npt.NDArray[np.int32]]] | None) -> _Column | None:
        """Return a column, given its levels; None if its texts are not UTF-8."""
        column = self.table.schema.names.index(name)
        values = self.arrays[column]
        assert values is not None
        if self.kinds[column] != TEXT:
            missing = any(one.misses(column) for one in self.readers.values())
            return _Column(number_array(values, present(values) if missing else None, self.table.schema.types[column]))
        return None if levels is None else self._codes(values, *levels)

    def _codes(self, codes: npt.NDArray[np.int32], known: pa.Array, places: list[npt.NDArray[np.int32]]) -> _Column:
        """Return texts as codes of the ``known`` levels; ``places`` are those of each reader's."""
        width: Any = next(kind for kind in WIDTHS if len(known) <= np.iinfo(kind).max)
        narrow = np.empty(len(codes), dtype=width)
        each = [places[self.reader_of[block]] for block in range(len(self.rows) - 1)]
        if not pa.types.is_string(known.type):
            recode_parts(codes, self.rows, each, narrow)
            return _Column(known.take(pa.array(narrow)))
        counts = recode_parts(codes, self.rows, each, narrow, len(known))
        return _coded(narrow, known, counts)


def _raw(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of an array as they are stored, those of missing values too."""
    kind: Any = {"date32[day]": np.int32}.get(str(array.type), np.int64)
    kind = kind if pa.types.is_temporal(array.type) else array.type.to_pandas_dtype()
    return np.frombuffer(array.buffers()[1], kind, len(array))


def _is_present(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are not missing, of numbers and codes by the sign that stands for missing ones."""
    if isinstance(array, pa.DictionaryArray):
        found: npt.NDArray[np.bool_] = _raw(array.indices) >= 0
        return found
    return present(_raw(array)) if array.type in (pa.float64(), pa.int64()) else np.asarray(array.is_valid())


def _coded(codes: npt.NDArray[Any], levels: pa.Array, counts: npt.NDArray[np.int64]) -> _Column:
    valid = pack_bits(codes >= 0) if counts[0] else None
    indices = pa.Array.from_buffers(pa.from_numpy_dtype(codes.dtype), len(codes), [valid, pa.py_buffer(codes)])
    return _Column(pa.DictionaryArray.from_arrays(indices, levels, safe=False), counts)


def _values(levels: list[pa.Array], format_: TextFormat | None) -> tuple[pa.Array, list[npt.NDArray[np.int32]]] | None:
    """Return the values of texts by their format (None: booleans), and where those of each array are.

    Those of a format of levels are texts in order, others are not sorted. None if a text breaks the format.
    """
    texts = pc.if_else(pc.is_in(joined := pa.concat_arrays(levels), value_set=MISSING), None, joined)
    values, broken = _booleans(texts) if format_ is None else format_.parse(texts)
    if broken is not None or (pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py() is False):
        return None
    parts = list(pairwise(np.cumsum([0, *map(len, levels)], dtype=np.int32)))
    if not pa.types.is_string(values.type):
        return values, [np.arange(a, b, dtype=np.int32) for a, b in parts]
    if pc.any(pc.is_in(values.drop_null(), value_set=MISSING)).as_py():  # but for blanks around it
        return None
    filled = values.fill_null("")
    return _in_order([filled.slice(a, b - a) for a, b in parts])


def _booleans(texts: pa.Array) -> tuple[pa.Array, str | None]:
    """Return the booleans that Arrow reads in texts, and one that it does not read."""
    true, false = pc.is_in(texts, value_set=TRUE), pc.is_in(texts, value_set=FALSE)
    values = pc.if_else(true, True, pc.if_else(false, False, None))
    broken = texts.filter(pc.and_(values.is_null(), texts.is_valid()))
    return values, broken[0].as_py() if len(broken) else None


def _in_order(levels: list[pa.Array]) -> tuple[pa.Array, list[npt.NDArray[np.int32]]]:
    """Return all levels in order but those that are missing values, and where those of each array are among them."""
    if sum(map(len, levels)) <= FEW:
        texts = [one.to_pylist() for one in levels]
        ordered = sorted(set(chain.from_iterable(texts)) - MISSING_WORDS)
        place = {text: i for i, text in enumerate(ordered)}
        found = [np.array([place.get(text, -1) for text in some], dtype=np.int32) for some in texts]
        return pa.array(ordered, pa.string()), found
    known, places = _sorted_levels(pa.concat_arrays(levels))
    absent = np.asarray(pc.is_in(known, value_set=MISSING))
    if absent.any():
        known, left = known.filter(pa.array(~absent)), np.where(absent, -1, np.cumsum(~absent) - 1)
        places = left.astype(np.int32)[places]
    starts = np.cumsum([0, *map(len, levels)])
    return known, [places[a:b] for a, b in pairwise(starts)]


def _sorted_levels(levels: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the different texts in order, and the place of each text among them."""
    keys = _keys(levels)
    if keys is None:
        known = pc.unique(levels)
        known = known.take(pc.sort_indices(known))
        return known, np.asarray(pc.index_in(levels, value_set=known), dtype=np.int32)
    order = np.argsort(keys)  # equal keys in any order; a stable sort takes seven times as long
    ordered = keys[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    places = np.empty(len(keys), dtype=np.int32)
    places[order] = np.cumsum(new) - 1
    return levels.take(pa.array(order[new])), places


def _keys(levels: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return texts as numbers in the same order; None if one is longer than eight bytes, or has a zero byte.

    Numbers are sorted in a third of the time that Arrow takes (8,000 texts: 0.5 ms, 1.5 ms).

    >>> [hex(key) for key in _keys(pa.array(["b", "ab", ""])).tolist()]
    ['0x6200000000000000', '0x6162000000000000', '0x0']
    """
    _, offsets, data = levels.buffers()
    ends = np.frombuffer(offsets, np.int32, len(levels) + 1, 4 * levels.offset).astype(np.intp)
    lengths = np.diff(ends)
    text = np.zeros(ends[-1] + KEY_BYTES, dtype=np.uint8)
    text[: ends[-1]] = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
    if lengths.max(initial=0) > KEY_BYTES or not text[ends[0] : ends[-1]].all():
        return None
    words = np.lib.stride_tricks.sliding_window_view(text, KEY_BYTES)[ends[:-1]].view(">u8")[:, 0].astype(np.uint64)
    beyond = (8 * (KEY_BYTES - lengths)).astype(np.uint64)  # bits of the texts that follow; 64 shift nothing
    found: npt.NDArray[np.uint64] = np.where(lengths > 0, words >> beyond << beyond, np.uint64(0))
    return found


def count_rows(text: memoryview) -> int:
    """Return the number of rows in text, the last of which may lack its line end."""
    return count_lines(text) + (text[-1] != ord("\n")) if len(text) else 0
