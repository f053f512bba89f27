"""CSV files: cut into ranges of bytes at the ends of rows, each of which any thread can read by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyarrow import csv

from oddsmith.engines.files.columnar import with_keys
from oddsmith.engines.files.extents import Extent, named
from oddsmith.engines.files.finding import Found
from oddsmith.engines.files.formats import bad_value, broken_line, csv_lines, delimiter_of, is_compressed
from oddsmith.engines.files.lines import Lines
from oddsmith.engines.files.schemas import common, fitted
from oddsmith.errors import InvalidInputError

HEAD = 1 << 20
"""Bytes in which the header has to end."""
SAMPLE = 1 << 18
"""Bytes of rows from which the types of columns are first learned."""
BLOCK = 1 << 20
"""Bytes that the reader of Arrow takes at a time: what stays in a core's own cache."""
MARGIN = 1 << 16
"""Bytes that are read beyond where a range should end, to find the end of its last row."""
LONGEST = 1 << 26
"""Bytes that one row may have."""
Text = bytes | bytearray
BOM = b"\xef\xbb\xbf"


class WiderError(Exception):
    """A range has values that the types learned so far do not hold, and wider types may; ``number``: of its task."""

    number = 0


@dataclass(frozen=True)
class TextTable:
    """A CSV file: the names and types that its beginning shows, and where its rows begin.

    ``starts`` is filled when the file is cut for the first time, so that later passes can read ranges in any order.
    """

    found: Found
    schema: Any
    delimiter: str
    start: int
    row_bytes: float
    fixed: frozenset[str] = frozenset()
    starts: list[int] = field(default_factory=list, compare=False)
    is_text: bool = True

    @classmethod
    def open(cls, found: Found, types: dict[str, Any] | None = None) -> TextTable:
        """Read the header, and learn the types of the columns from the first rows (but those in ``types``)."""
        with named(repr(found.name)), pa.input_stream(found.path) as stream:
            head = _read(stream, HEAD)
            whole = len(head) < HEAD
        begin = len(BOM) if head.startswith(BOM) else 0
        while head[begin : begin + 1] in (b"\n", b"\r"):
            begin += 1
        text = head[begin:]
        if not text:
            raise InvalidInputError(f"{found.name!r} cannot be read as CSV: it is empty. It needs a header at least.")
        delimiter = delimiter_of(text)
        first = Lines.of(text, delimiter).next_row(1, at_end=whole)
        if first is None and not whole:
            raise InvalidInputError(
                f"{found.name!r} has a first line of over {HEAD} bytes. Is it a table with a header?"
            )
        first = len(text) if first is None else first
        with named(repr(found.name)):
            names = _parse(text[:first] + b"\n", [], delimiter, HEAD, {}, None).column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"{found.name!r} has two columns of the name {twice!r}. Give each its own name.")
        bare = cls(found, pa.schema([(name, pa.null()) for name in names]), delimiter, begin + first, 1.0)
        rows = text[first:] if whole and len(text) < SAMPLE else _whole_rows(text[first : first + SAMPLE], delimiter)
        given = {name: kind for name, kind in (types or {}).items() if name in names}
        seen = bare._convert(rows, begin + first, names, given)
        each = len(rows) / seen.num_rows if seen.num_rows else float(max(1, len(rows)))
        return cls(found, seen.schema, delimiter, begin + first, each, frozenset(given))

    @property
    def expected_rows(self) -> int:
        """The number of rows, by the length of the first ones; compressed text is about four times as long."""
        size = 4 * self.found.size if is_compressed(self.found.path) else self.found.size
        return max(0, round((size - self.start) / self.row_bytes))

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield ranges of about ``nbytes`` bytes that begin and end with a row.

        The first time the file is read here, in order, to find where rows begin; then ranges are read by those who
        need them. A compressed file is read here every time, if its rows are ``needed``.
        """
        if self.starts and not (needed and is_compressed(self.found.path)):
            for first, last in pairwise(self.starts):
                yield Extent(self, first, last, last - first)
            return
        starts = [self.start]
        self.found.check_same()
        with named(repr(self.found.name)), pa.input_stream(self.found.path) as stream:
            _read(stream, self.start)
            for text in self._ranges(stream, nbytes):
                starts.append(starts[-1] + len(text))
                yield Extent(self, starts[-2], starts[-1], len(text), text=text)
        self.found.check_same()
        self.starts[:] = starts

    def _ranges(self, stream: Any, nbytes: int) -> Iterator[bytearray]:
        """Yield the text in ranges, cut at the first end of a row after ``nbytes``, without a copy."""
        rest, at_end, done = bytearray(), False, self.start
        while rest or not at_end:
            text, cut = rest, None
            want = nbytes + MARGIN
            while cut is None:
                if not at_end:
                    text = _filled(stream, text, want)
                    at_end = len(text) < want
                lines = Lines.of(text, self.delimiter)
                cut = lines.next_row(nbytes, at_end=at_end) if len(text) > nbytes else None
                if cut is None and at_end:
                    cut = len(text)
                if cut is None and want > LONGEST + nbytes:
                    raise self._error(
                        f"the row that begins in line {self._line(done + lines.last_row())} has no end in {LONGEST} "
                        "bytes. Is a closing quote mark missing there?"
                    )
                want *= 2
            rest, done = text[cut:], done + cut
            del text[cut:], lines
            if text:
                yield text
                del text

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows of a range as one table; values that need wider types raise `WiderError`."""
        names = [name for name in schema.names if name not in self.found.keys]
        types = {name: schema.field(name).type for name in names}
        table = self._convert(self._text(extent), extent.first, names, types, widen=True)
        yield fitted(with_keys(table, self.found, schema), schema)

    def learn(self, extent: Extent, schema: Any) -> Any:
        """Return a schema that holds the values of a range too, or say which value is of another kind."""
        names = [name for name in schema.names if name not in self.found.keys]
        text = self._text(extent)
        fixed = {name: schema.field(name).type for name in names if name in self.fixed}
        found = self._convert(text, extent.first, names, fixed).schema
        for name in names:
            place = schema.get_field_index(name)
            before = schema.field(place).type
            both = common(before, found.field(name).type)
            if both is None:
                # Numbers among words are words. If it is the other way round, this says which value in which line.
                self._convert(text, extent.first, [name], {name: before})
            schema = schema.set(place, pa.field(name, before if both is None else both))
        return schema

    def where(self, first: int, last: int) -> str:
        """Return the name of the file and the range."""
        return f"{self.found.name!r}, bytes {first}–{last}"

    def _text(self, extent: Extent) -> Text:
        if extent.text is not None:
            return extent.text
        self.found.check_same()
        with named(extent.name), pa.input_stream(self.found.path) as stream:
            if is_compressed(self.found.path):  # kept rows were lost: the way to them is through all before
                for start in range(0, extent.first, BLOCK):
                    _read(stream, min(BLOCK, extent.first - start))
            else:
                stream.seek(extent.first)
            text = _read(stream, extent.last - extent.first)
        self.found.check_same()
        return text

    def _convert(self, text: Text, first: int, names: list[str], types: dict[str, Any], *, widen: bool = False) -> Any:
        """Return the named columns of some rows; those that have no type in ``types`` get the one that fits them."""
        if not text[:64].strip(b"\r\n") and not text.strip(b"\r\n"):
            return pa.schema([(name, types.get(name, pa.null())) for name in names]).empty_table()
        whole = len(text) + 1
        try:
            try:
                table = _parse(text, self.schema.names, self.delimiter, whole if b'"' in text else BLOCK, types, names)
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error):
                    raise
                table = _parse(text, self.schema.names, self.delimiter, whole, types, names)
        except pa.ArrowInvalid as error:
            why = str(error).strip()
            if widen and "conversion error" in why:
                raise WiderError from error
            raise self._error(self._explain(text, first, why)) from error
        for column in table.schema:
            if pa.types.is_binary(column.type):
                raise self._error(f"column {column.name!r} holds text that is not UTF-8. Save it in that encoding.")
        return table

    def _error(self, why: str) -> InvalidInputError:
        return InvalidInputError(f"{self.found.name!r} cannot be read as CSV: {why}")

    def _explain(self, text: Text, first: int, why: str) -> str:
        header = self.schema.names
        before = self._line(first) - 1

        def lines() -> Iterator[tuple[int, list[str]]]:
            return ((before + number, row) for number, row in csv_lines(bytes(text), self.delimiter))

        if "UTF8" in why:
            place = re.search(r"column #(\d+)", why)
            where = f"column {header[int(place[1])]!r}" if place else "it"
            return f"{where} holds text that is not UTF-8. Save it in that encoding."
        return bad_value(lines(), header, why) or broken_line(lines(), header) or f"{why.splitlines()[0].rstrip('.')}."

    def _line(self, place: int) -> int:
        """Return the number of the line at a place in the file."""
        line, place = 1, max(0, place)
        with pa.input_stream(self.found.path) as stream:
            while place > 0 and (text := stream.read(min(place, BLOCK))):
                line += text.count(b"\n") or text.count(b"\r")
                place -= len(text)
        return line


def _read(stream: Any, count: int) -> bytes:
    """Return so many bytes, fewer at the end only: a stream that decompresses may give fewer at a time."""
    parts = []
    while count > 0 and (text := stream.read(count)):
        parts.append(text)
        count -= len(text)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _filled(stream: Any, begun: bytearray, count: int) -> bytearray:
    """Return ``count`` bytes that begin with those that have been read, fewer at the end of the stream."""
    text = bytearray(count)
    text[: len(begun)] = begun
    done = len(begun)
    with memoryview(text) as all_of_it:
        while done < count and (more := stream.readinto(all_of_it[done:])):
            done += more
    del text[done:]
    return text


def _whole_rows(text: bytes, delimiter: str) -> bytes:
    return text[: Lines.of(text, delimiter).last_row()]


def _parse(text: Text, header: list[str], delimiter: str, size: int, types: dict[str, Any], names: Any) -> Any:
    reading = csv.ReadOptions(use_threads=False, block_size=size, column_names=header)
    splitting = csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in text)
    conversion = csv.ConvertOptions(column_types=types, strings_can_be_null=True, include_columns=names)
    return csv.read_csv(pa.BufferReader(text), reading, splitting, conversion)
