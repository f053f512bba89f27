"""Texts as codes: a code for each different text, in the order in which they first occur."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.native import CsvColumn, CsvProblem, Kernels, TextLevelTable, TextsProblem, address, kernels

WIDTHS = (np.int8, np.int16, np.int32)
"""Types of codes, from the narrowest."""
FIRST_BYTES, FIRST_LEVELS = 1 << 11, 127
SLOTS = ((1 << 12, 8), (1 << 14, 4))
"""Slots of each level: few levels have them in abundance, so that almost all are found in the first (flights: −6%)."""
SKIP, WHOLE, DECIMAL, TEXT, DAYS, TIMES = range(6)
"""Kinds of columns of delimited text; `time_kind` has those from TIMES on."""
UNITS = ("s", "ms", "us", "ns")
"""Units of times, each with three digits more than the one before."""
DONE, MORE_LEVELS = range(2)
"""How the kernel of delimited text ends: all read, or room is missing; else it gives up."""
CHUNK = 1 << 17  # Codes that are counted at a time, to save memory.
WINDOW = 1 << 14  # Bytes of delimited text that the kernel reads at a time: no field is longer.


@dataclass(frozen=True, kw_only=True)
class TextBuffers:
    """Where ``n`` texts lie, as Arrow stores them: ``offsets`` of 32 or 64 bits, bytes, bits of those that are there.

    ``valid`` begins ``first`` bits before the first text; None if no text is missing.
    """

    n: int
    offsets: npt.NDArray[Any]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.uint8] | None = None
    first: int = 0


@dataclass(frozen=True, kw_only=True)
class TextCodes:
    """The code of each text (−1: missing), and the different texts: where they end in ``data``, and their counts."""

    codes: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]
    missing: int = 0


class LevelRoom:
    """Room for the different texts that a kernel finds, which grows."""

    def __init__(self, levels: TextLevelTable) -> None:
        self.levels = levels
        self.ends, self.data = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint8)
        self.slots = np.zeros((0, 2), dtype=np.int64)
        self.grow(FIRST_LEVELS)

    @property
    def used(self) -> int:
        """Bytes of the texts so far."""
        return int(self.ends[self.levels.levels - 1]) if self.levels.levels else 0

    def grow(self, most: int, length: int = 0) -> None:
        """Make room for ``most`` texts, the next of which has the given length."""
        levels, used, known = self.levels, self.used, int(self.levels.levels)
        ends = np.zeros(most, dtype=np.int64)
        ends[:known] = self.ends[:known]
        room = max(FIRST_BYTES, len(self.data))
        while used + length > room // 2:
            room *= 4
        data = np.zeros(room, dtype=np.uint8)
        data[:used] = self.data[:used]
        self.ends, self.data = ends, data
        slots = 1 << int(next((each for few, each in SLOTS if most <= few), 2) * most).bit_length()
        self.slots = np.empty((slots, 2), dtype=np.int64)
        levels.most, levels.ends, levels.bytes, levels.room = most, address(ends), address(data), room
        levels.slots, levels.slots_less_one, levels.filled = address(self.slots), slots - 1, False

    def codes(self, codes: npt.NDArray[Any], counts: npt.NDArray[np.int64], missing: int = 0) -> TextCodes:
        """Return the codes of texts with the levels found."""
        n = int(self.levels.levels)
        data = self.data[: self.used]
        return TextCodes(codes=codes, ends=self.ends[:n], data=data, counts=counts[:n], missing=missing)


def encode_texts(texts: TextBuffers) -> TextCodes | None:
    """Return texts as codes; None without compiled kernels.

    >>> texts = TextBuffers(n=3, offsets=np.array([0, 1, 3, 4], dtype=np.int32), data=np.frombuffer(b"abba", np.uint8))
    >>> found = encode_texts(texts)
    >>> found is None or (found.codes.tolist(), found.counts.tolist(), found.data.tobytes())
    ([0, 1, 0], [2, 1], b'abb')
    """
    return encode_pieces([texts], texts.n)


def are_ascending(texts: TextBuffers) -> bool | None:
    """Whether each text comes after the one before in the order of their bytes; None without kernels.

    >>> texts = TextBuffers(n=2, offsets=np.array([0, 1, 3], dtype=np.int32), data=np.frombuffer(b"abb", np.uint8))
    >>> are_ascending(texts) in (True, None)
    True
    """
    native, found = kernels(), ctypes.c_int64()
    if native is None or texts.valid is not None:
        return None
    native("ascending", texts.n, address(texts.offsets), texts.offsets.itemsize == 8, address(texts.data), found)
    return bool(found.value)


def encode_pieces(pieces: Iterable[TextBuffers], n: int) -> TextCodes | None:
    """As `encode_texts`, for ``n`` texts that lie in several places, and are made one piece after another."""
    native = kernels()
    return None if native is None else _encode(native, pieces, n)


def _encode(native: Kernels, pieces: Iterable[TextBuffers], n: int) -> TextCodes:
    problem, begin = TextsProblem(), 0
    room, widths = LevelRoom(problem.levels), [np.dtype(width) for width in WIDTHS]
    codes: npt.NDArray[Any] = np.empty(n, dtype=widths[0])
    counts = np.zeros(FIRST_LEVELS, dtype=np.int64)
    for texts in pieces:
        problem.n, problem.offsets, problem.wide = texts.n, address(texts.offsets), texts.offsets.itemsize == 8
        problem.data, problem.size = address(texts.data), len(texts.data)
        problem.valid, problem.first, problem.next = address(texts.valid), texts.first, 0
        while True:
            problem.codes, problem.width, problem.counts = address(codes[begin:]), codes.itemsize, address(counts)
            native("texts", problem)
            row, known = problem.next, int(problem.levels.levels)
            if row == texts.n:
                break
            if known >= _largest(widths[0]):  # wider codes
                widths.pop(0)
                wider = np.empty(n, dtype=widths[0])
                wider[: begin + row] = codes[: begin + row]
                codes = wider
            most = min(4 * known + FIRST_LEVELS, known + n - begin - row, _largest(widths[0]))
            room.grow(most, int(texts.offsets[row + 1] - texts.offsets[row]))
            counts = np.concatenate([counts[:known], np.zeros(most - known, dtype=np.int64)])
        begin += texts.n
    return room.codes(codes, counts, problem.missing)


def _largest(dtype: np.dtype[Any]) -> int:
    """The most levels that codes of a type have."""
    return int(2 ** (8 * dtype.itemsize - 1) - 1)


def count_lines(text: bytes | bytearray | memoryview) -> int:
    r"""Return the number of line ends in text: line feeds, or carriage returns if there is none.

    >>> count_lines(b"a\r\nb\r\n"), count_lines(b"a\rb")
    (2, 1)
    """
    native = kernels()
    if native is None or len(text) < WINDOW:
        return bytes(text).count(b"\n") or bytes(text).count(b"\r")
    whole = np.frombuffer(text, np.uint8)
    problem = CsvProblem(text=address(whole), size=len(text))
    native("csv", problem)
    return int(problem.rows)


@dataclass(frozen=True, kw_only=True)
class CsvValues:
    """The values of a column of delimited text: numbers (``valid``: 0 where one is missing), or texts as codes."""

    values: npt.NDArray[Any] | TextCodes
    valid: npt.NDArray[np.bool_] | None = None


CsvArrays = Sequence[npt.NDArray[Any] | None]
"""For each column the array for its values; None: skipped."""


def time_kind(unit: str, *, zoned: bool) -> int:
    """Return the kind of columns of times in a unit, with time zones or without."""
    return TIMES + 2 * UNITS.index(unit) + zoned


class CsvReader:
    """Reads plain delimited texts, one after another: each different text of a column keeps its code.

    ``signs`` are the delimiter and the decimal sign, a point or a comma.
    """

    def __init__(self, native: Kernels, signs: str, kinds: Sequence[int]) -> None:
        self.native, self.signs, self.kinds = native, signs, kinds
        self.columns, self.rooms = (CsvColumn * len(kinds))(), {}
        for j, kind in enumerate(kinds):
            self.columns[j].kind = kind
            if kind == TEXT:
                levels = TextLevelTable()
                self.columns[j].levels = ctypes.addressof(levels)
                self.rooms[j] = LevelRoom(levels)

    def read(self, text: bytes | bytearray | memoryview, arrays: CsvArrays) -> int | None:
        """Write the values of a text into arrays that have room for them; return the number of rows.

        None if the text is not plain, or has more rows than there is room for.
        """
        whole = np.frombuffer(text, np.uint8)
        problem = CsvProblem(text=address(whole), size=len(whole))
        problem.delimiter, problem.point = map(ord, self.signs)
        problem.columns, problem.count = ctypes.addressof(self.columns), len(self.kinds)
        problem.room = min((len(values) for values in arrays if values is not None), default=len(whole))
        for column, values in zip(self.columns, arrays, strict=True):
            column.values = address(values)
        while True:
            self.native("csv", problem)
            if problem.status != MORE_LEVELS:
                return int(problem.rows) if problem.status == DONE else None
            room = self.rooms[problem.column]
            known = int(room.levels.levels)  # few at first: each time the window is read again
            room.grow((8 if known <= SLOTS[0][0] else 2) * known + FIRST_LEVELS, WINDOW)

    def levels(self, column: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return where the different texts of a column end in bytes, and these bytes."""
        room = self.rooms[column]
        return room.ends[: int(room.levels.levels)], room.data[: room.used]

    def misses(self, column: int) -> bool:
        """Whether a number of a column was missing."""
        return bool(self.columns[column].missing)


def present(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which numbers that a reader wrote are there: NaN and the least whole number stand for missing ones."""
    found: npt.NDArray[np.bool_] = ~np.isnan(values) if values.dtype == float else values != np.iinfo(np.int64).min
    return found


def csv_arrays(kinds: Sequence[int], rows: int) -> CsvArrays:
    """Return arrays for the values of columns: those of numbers in one piece of memory, those of codes in another.

    The system hands out large pieces in large pages, and many small ones at a high price (flights: 10 ms of 19 MB).
    """
    numbers, codes = [kind not in (SKIP, TEXT) for kind in kinds], [kind == TEXT for kind in kinds]
    pieces = iter(np.empty((sum(numbers), rows))), iter(np.empty((sum(codes), rows), dtype=np.int32))
    return [
        next(pieces[0]).view(float if kind == DECIMAL else np.int64) if number else next(pieces[1]) if text else None
        for kind, number, text in zip(kinds, numbers, codes, strict=True)
    ]


def read_csv_text(text: bytes | bytearray, signs: str, kinds: Sequence[int]) -> list[CsvValues | None] | None:
    r"""Return the columns of plain delimited text, None for those to skip; None if it is not plain.

    >>> found = read_csv_text(b"1,0.5,a\n2,,b\n", ",.", [WHOLE, DECIMAL, TEXT])
    >>> found is None or (found[0].values.tolist(), found[1].valid.tolist(), found[2].values.codes.tolist())
    ([1, 2], [True, False], [0, 1])
    """
    native = kernels()
    if native is None:
        return None
    arrays = csv_arrays(kinds, count_lines(text) + 1)
    reader = CsvReader(native, signs, kinds)
    rows = reader.read(text, arrays)
    if rows is None:
        return None
    found: list[CsvValues | None] = []
    for j, values in enumerate(arrays):
        if values is None:
            found.append(None)
        elif kinds[j] == TEXT:
            found.append(CsvValues(values=reader.rooms[j].codes(values[:rows], np.zeros(0, dtype=np.int64))))
        else:
            found.append(CsvValues(values=values[:rows], valid=present(values[:rows]) if reader.misses(j) else None))
    return found


def recode(codes: npt.NDArray[Any], place: npt.NDArray[np.int32], found: npt.NDArray[Any]) -> None:
    """Write ``place[codes]`` into an array; all are of types in `WIDTHS`, and no code is negative.

    >>> found = np.empty(3, dtype=np.int8)
    >>> recode(np.array([1, 0, 1], dtype=np.int32), np.array([5, -1], dtype=np.int32), found)
    >>> found.tolist()
    [-1, 5, -1]
    """
    recode_parts(codes, [0, len(codes)], [place], found)


def recode_parts(
    codes: npt.NDArray[Any],
    rows: Sequence[int],
    places: Sequence[npt.NDArray[np.int32]],
    found: npt.NDArray[Any],
    levels: int | None = None,
) -> npt.NDArray[np.int64]:
    """As `recode`, where part k of the codes, from ``rows[k]`` to ``rows[k + 1]``, has ``places[k]``.

    With ``levels``, return how many new codes are −1, then how many there are of each level.
    """
    native, counts = kernels(), np.zeros(0 if levels is None else levels + 1, dtype=np.int64)
    if native is None or not codes.flags.c_contiguous or codes.dtype not in WIDTHS:
        for place, (a, b) in zip(places, pairwise(rows), strict=True):
            found[a:b] = place[codes[a:b]]
        return counts if levels is None else count_codes(found, levels)
    ends, tables = np.array(rows, dtype=np.int64), np.array([address(place) for place in places], dtype=np.uint64)
    to = address(found), found.itemsize, levels or 0, None if levels is None else address(counts)
    native("recode", len(places), address(ends), address(tables), address(codes), codes.itemsize, *to)
    return counts


def count_codes(codes: npt.NDArray[Any], levels: int) -> npt.NDArray[np.int64]:
    """Return how many codes are −1, then how many there are of each of the ``levels``.

    >>> count_codes(np.array([1, -1, 1], dtype=np.int8), 2).tolist()
    [1, 0, 2]
    """
    native, counts = kernels(), np.zeros(levels + 1, dtype=np.int64)
    if native is None or not codes.flags.c_contiguous or codes.dtype not in WIDTHS:
        for k in range(0, len(codes), CHUNK):
            counts += np.bincount(codes[k : k + CHUNK].astype(np.intp) + 1, minlength=levels + 1)
        return counts
    native("count", len(codes), address(codes), codes.itemsize, levels, address(counts))
    return counts
