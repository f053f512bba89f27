"""CSV files, split at row ends into byte ranges that threads read independently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedIOBase
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from pyarrow import csv

from oddsmith.engines.files import formats
from oddsmith.engines.files.dialect import (
    SEPARATOR_LINE,
    UTF8,
    TextDialect,
    find_decimal,
    has_fractions,
    open_text,
    read_chunks,
)
from oddsmith.engines.files.formats import is_compressed
from oddsmith.engines.files.lines import Lines
from oddsmith.engines.files.paths import InputFile
from oddsmith.engines.files.plain_text import guess_types, read_plain, split_plain
from oddsmith.engines.files.schemas import as_codes, check_unique, common_type, conform, refine_type, text_columns
from oddsmith.engines.files.table_file import FileRange, TableFile, reading
from oddsmith.engines.text_formats import TextFormat, find_format
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.texts import count_lines

HEAD = 1 << 20  # Maximum size of the header in bytes.
SHORT_HEADER = 1 << 14  # Bytes in which the header is sought first, since quotes in all bytes take a while to find.
SAMPLE = 1 << 18  # Bytes of rows from which the types of columns are first inferred.
BLOCK = 1 << 20  # Bytes that Arrow's reader processes at a time, within a core's own cache.
MARGIN = 1 << 16  # Bytes read beyond the nominal end of a range, to find the end of its last row.
THREADED, MOST = 1 << 25, (1 << 31) - 1
"""Size from which several threads read one text, and the maximum that Arrow accepts at a time."""
LONGEST = 1 << 26  # Maximum bytes of one row.
TRIES = 2  # Texts of a file that the kernel for plain text may fail to read before it is no longer tried.
BOM = b"\xef\xbb\xbf"
NOT_UTF8 = (
    "holds text that is not UTF-8, unlike the beginning of the file. Pass its encoding, such as encoding='latin-1', or "
    "save it as UTF-8 ('CSV UTF-8' in Excel)."
)

Text: TypeAlias = bytes | bytearray
Types: TypeAlias = Mapping[str, pa.DataType]
Expected: TypeAlias = Mapping[str, pa.DataType | TextFormat | None]
"""Expected types of columns: see `FileParts.with_types`."""


class TypeInferenceError(Exception):
    """A range has values outside the types inferred so far, which wider types may hold; ``number`` is its task."""

    number = 0


@dataclass(frozen=True, kw_only=True)
class TextTable(TableFile):
    """A CSV file: the names and types inferred from its beginning, and the starts of its rows.

    ``formats`` maps columns to recognised text formats (such as money). ``starts`` holds the first byte and line of
    each range once the file has been split, so that later passes can read ranges in any order. ``not_plain`` has the
    sizes of texts that only Arrow reads. ``sample`` are the first rows while formats are sought; if it
    ``has_spread_sample``, then with some from later places.
    """

    dialect: TextDialect
    start: int
    start_line: int
    fixed: frozenset[str] = frozenset()
    formats: Mapping[str, TextFormat] = field(default_factory=dict)
    starts: list[tuple[int, int]] = field(default_factory=list, compare=False)
    not_plain: list[int] = field(default_factory=list, compare=False, repr=False)
    given: TextDialect = field(default_factory=TextDialect)
    sample: pa.Table | None = field(default=None, compare=False, repr=False)
    has_spread_sample: bool = field(default=False, compare=False, repr=False)
    is_text: ClassVar[bool] = True

    @classmethod
    def open(cls, file: InputFile, types: Types | None = None, dialect: TextDialect | None = None) -> TextTable:
        """Read the header, and infer types and formats of the columns from the first rows (but those in ``types``)."""
        with reading(repr(file.name)), pa.input_stream(file.path) as stream:
            head = read_bytes(stream, HEAD)
        chunks = read_chunks(file.path, file.size, len(head))
        found = (dialect or TextDialect()).found_in(head, chunks, complete=len(head) < HEAD)
        if found.is_sequential:
            with reading(repr(file.name)), open_text(file.path, found) as stream:
                head, chunks = read_bytes(stream, HEAD), []
        table = cls.from_head(file, head, types, found, chunks)
        table = table.with_formats([] if table.has_spread_sample else chunks)
        return replace(table, given=dialect or TextDialect())

    @classmethod
    def from_head(
        cls,
        file: InputFile,
        head: Text,
        types: Types | None = None,
        dialect: TextDialect | None = None,
        chunks: Iterable[Text] = (),
    ) -> TextTable:
        """Return the table whose first `HEAD` bytes (all, if it has fewer) are given, and some ``chunks`` of others."""
        formats.check_text(file.name, head[:8])
        complete = len(head) < HEAD
        dialect = (dialect or TextDialect()).found_in(head, complete=complete)
        begin = len(BOM) if head.startswith(BOM) else 0
        while head[begin : begin + 1] in (b"\r", b"\n"):
            begin += 1
        if excel := SEPARATOR_LINE.match(head):
            begin = excel.end()
        text = head[begin:] if begin else head
        if not text:
            raise InvalidInputError(f"{file.name!r} cannot be read as CSV: it is empty. It needs a header at least.")
        delimiter = dialect.delimiter or ","
        first = Lines.of(text[:SHORT_HEADER], delimiter).next_row(1)
        first = Lines.of(text, delimiter).next_row(1, at_end=complete) if first is None else first
        if first is None and not complete:
            raise InvalidInputError(
                f"{file.name!r} has a first line of over {HEAD} bytes. Is it a table with a header?"
            )
        first = len(text) if first is None else first
        line = 1 + count_lines(head[: begin + first])
        empty: dict[str, Any] = {"file": file, "schema": pa.schema([]), "expected_rows": 0}
        table = cls(**empty, dialect=dialect, start=begin + first, start_line=line)
        names = table._names(text[:first])
        check_unique(names, repr(file.name))
        table = replace(table, schema=pa.schema([(name, pa.null()) for name in names]))
        rows = text[first:] if complete and len(text) < SAMPLE else text[first : first + SAMPLE]
        if not complete or len(text) >= SAMPLE:
            rows = rows[: Lines.of(rows, delimiter).last_row()]
        given = {name: type_ for name, type_ in (types or {}).items() if name in names}
        spread: Text = b"".join([rows, *whole_rows(chunks)])
        table, sample = table._plain_sample(spread, names, given) if len(spread) > len(rows) else (table, None)
        if sample is None:
            spread, (table, sample) = rows, table._plain_sample(rows, names, given)
        sample, dialect = sample or table.convert(rows, line, names, given), table.dialect
        if dialect.decimal is None and (sign := find_decimal(sample)):
            table = replace(table, dialect=replace(dialect, decimal=sign))
            if sign == ",":
                spread, sample = rows, table.convert(rows, line, names, given)
        # By the length of the first rows; compressed text is about four times as long.
        size = 4 * file.size if is_compressed(file.path) else file.size
        row_bytes = len(spread) / sample.num_rows if sample.num_rows else float(max(1, len(rows)))
        expected = max(0, round((size - table.start) / row_bytes))
        schema = pa.schema([(one.name, as_text(one.type)) for one in sample.schema])
        table = replace(table, schema=schema, expected_rows=expected, fixed=frozenset(given), sample=sample)
        return replace(table, has_spread_sample=spread is not rows)

    def _plain_sample(self, rows: Text, names: list[str], given: Types) -> tuple[TextTable, pa.Table | None]:
        """Return the first rows, text as codes, if the kernel for plain text reads them; else None.

        If it reads them only with decimal commas, which they must show, the table has these.
        """
        if self.dialect.encoding not in (*UTF8, None) or given or not rows:
            return self, None
        if types := guess_types(rows, self.signs, names):
            return self, read_plain(rows, self.signs, names, types)
        if self.dialect.decimal is not None or self.delimiter == ",":
            return self, None
        comma = replace(self, dialect=replace(self.dialect, decimal=","))
        types = guess_types(rows, comma.signs, names)
        sample = None if types is None else read_plain(rows, comma.signs, names, types)
        return (comma, sample) if sample is not None and has_fractions(sample) else (self, None)

    def _names(self, header: Text) -> list[str]:
        """Return the names in the header; Arrow reads all but a plain one."""
        plain = header.rstrip(b"\r\n")
        if plain and plain.isascii() and not any(sign in plain for sign in (b"\r", b"\n", b"\0")):
            names = split_plain(plain.decode(), self.delimiter)
            if names:
                return names
        try:
            return list(self._parse(header + b"\n", 1, {}, None).column_names)
        except UnicodeDecodeError:
            raise self._error(f"its header {NOT_UTF8}") from None

    def with_formats(self, chunks: Iterable[Text] = ()) -> TextTable:
        """Return the table with the formats of columns of text, as its first rows and ``chunks`` of bytes show them."""
        sample = self.sample
        if sample is None:
            return self
        types = {one.name: one.type for one in sample.schema if pa.types.is_string(as_text(one.type))}
        open_ = {name: type_ for name, type_ in types.items() if name not in self.fixed}
        tables = [sample, *(self._some_rows(chunks, open_) if open_ else ())]
        found = {}
        for name, type_ in open_.items():
            column = pa.chunked_array([chunk for rows in tables for chunk in rows[name].chunks], type_)
            format_ = find_format(column, self.dialect.decimal)
            if format_ is not None:
                found[name] = format_
        return self._with({field.name: field.type for field in self.schema}, found)

    def with_known_formats(self, formats_: Mapping[str, TextFormat]) -> TextTable:
        """Return the table with the formats that other files have, for columns that are text here and have none."""
        own = {one.name: one.type for one in self.schema}
        texts = {name for name, type_ in own.items() if pa.types.is_string(type_)} - self.fixed - self.formats.keys()
        found = {**self.formats, **{name: one for name, one in formats_.items() if name in texts}}
        return self._with(own, found)

    def plain_formats(self, schema: pa.Schema) -> dict[str, TextFormat]:
        """Return the formats that Arrow reads itself: dates, and numbers of a file with decimal commas.

        A model stores them with the recognised formats, to read later text in the same way.
        """
        found = {}
        for name, type_ in zip(schema.names, schema.types, strict=True):
            if self.dialect.decimal == "," and (pa.types.is_floating(type_) or pa.types.is_integer(type_)):
                found[name] = TextFormat(kind="number", decimal=",", example="1,5")
            elif pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.unit != "ns"):
                zone = pa.types.is_timestamp(type_) and type_.tz
                found[name] = TextFormat(kind="date", pattern="ISO Z" if zone else "ISO", example="2026-01-31")
        return {name: one for name, one in found.items() if name not in self.formats}

    def _with(self, types: Types, formats_: Mapping[str, TextFormat]) -> TextTable:
        schema = pa.schema([(name, formats_[name].type if name in formats_ else t) for name, t in types.items()])
        return replace(self, schema=schema, formats=formats_, sample=None)

    def _some_rows(self, chunks: Iterable[Text], types: Types) -> list[pa.Table]:
        """Return columns of text of the whole rows in chunks of bytes, without chunks that cannot be cut."""
        texts = whole_rows(chunks)
        plain = not any(b'"' in text for text in texts)
        rows = []
        for text in [b"".join(texts)] if plain and texts else texts:
            with suppress(InvalidInputError):  # cut within a quoted field, or invalid: reading all of it reports it
                rows.append(self._parse(text, 1, types, list(types)))
        return rows

    def with_types(self, types: Expected) -> TextTable:
        """Return the file with columns read as these types, or by these formats (None: see `FileParts.with_types`)."""
        known = (types.keys() & set(self.schema.names)) - self.fixed
        decimal = self.given.decimal  # what was said about this file, not about those of the fit
        given = {name: one.with_decimal(decimal) for name in known if isinstance(one := types[name], TextFormat)}
        expected = {name: given[name].type if name in given else types[name] for name in known}
        own = {field.name: field.type for field in self.schema}
        refined = {name: refine_type(expected[name], type_) if name in known else type_ for name, type_ in own.items()}
        # The types that a model expects take precedence over those inferred from the file.
        formats_ = {name: one for name, one in self.formats.items() if one.type == refined[name] or name not in known}
        formats_ = {name: one for name, one in formats_.items() if name not in known or one.kind != "levels"} | given
        return replace(self._with(refined, formats_), fixed=self.fixed.union(known))

    def with_codes(self, names: Iterable[str]) -> TextTable:
        coded = [name for name in text_columns(self.schema, names) if name not in self.formats]
        return replace(self, schema=as_codes(self.schema, coded))

    def ranges(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[FileRange]:
        """Yield ranges that begin and end with a row.

        The first time, the file is read here, in order, to find the starts of rows; later, ranges are read on demand. A
        compressed file is read here every time, if its rows are ``needed``.
        """
        if self.starts and not (needed and self.is_sequential):
            for (first, line), (last, _) in pairwise(self.starts):
                yield FileRange(table=self, first=first, last=last, nbytes=last - first, line=line)
            return
        starts = []
        self.file.check_unchanged()
        with reading(repr(self.file.name)), open_text(self.file.path, self.dialect) as stream:
            read_bytes(stream, self.start)
            for each in self.cut(stream, nbytes):
                starts.append((each.first, each.line))
                yield each
        self.file.check_unchanged()
        self.starts[:] = [*starts, (each.last, 0)] if starts else [(self.start, 0)]

    def cut(self, stream: BufferedIOBase, nbytes: int, begun: Text = b"") -> Iterator[FileRange]:
        """Yield the rows in a stream in ranges, cut at the first end of a row after ``nbytes``, without a copy.

        The stream stands behind the header, and behind the bytes in ``begun``.
        """
        rest, at_end, first, line = bytearray(begun), False, self.start, self.start_line
        while rest or not at_end:
            text, cut = rest, None
            want = nbytes + MARGIN
            while cut is None:
                if not at_end and len(text) < want:
                    text = read_bytes(stream, want, text)
                    at_end = len(text) < want
                lines = Lines.of(text, self.delimiter)
                cut = lines.next_row(nbytes, at_end=at_end) if len(text) > nbytes else None
                if cut is None and at_end:
                    cut = len(text)
                if cut is None and want > LONGEST + nbytes:
                    raise self._error(
                        f"the row that begins in line {line + count_lines(text[: lines.last_row()])} has no end in "
                        f"{LONGEST} bytes. Is a closing quote mark missing there?"
                    )
                want *= 2
            rest = text[cut:]
            del text[cut:], lines
            if text:
                last, next_line = first + len(text), line + count_lines(text)
                yield FileRange(table=self, first=first, last=last, nbytes=len(text), text=text, line=line)
                first, line = last, next_line
            del text

    def read(self, part: FileRange, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a range as one table; values that need wider types raise `TypeInferenceError`."""
        names = [name for name in schema.names if name not in self.file.keys]
        types = {name: schema.field(name).type for name in names}
        table = self.convert(self._text(part), part.line, names, types, widen=True)
        yield conform(table, schema, self.file.keys)

    def infer(self, part: FileRange, types: Types) -> Types:
        """Return types that also hold the values of a range; raise an error that names a value of another kind."""
        text, names = self._text(part), [name for name in types if name not in self.file.keys]
        fixed = {name: types[name] for name in names if name in self.fixed}
        found = self.convert(text, part.line, names, fixed).schema
        wider = {name: common_type(types[name], found.field(name).type) for name in names}
        for name in names:
            if wider[name] is None:
                # A column with text and numbers is text. Otherwise this reports the invalid value and its line.
                self.convert(text, part.line, [name], {name: types[name]})
        return {name: type_ if wider.get(name) is None else wider[name] for name, type_ in types.items()}

    @property
    def recognised(self) -> str:
        """A description of the unusual properties that were detected, not given."""
        return str(self.dialect.without(self.given))

    @property
    def delimiter(self) -> str:
        """The field delimiter."""
        return self.dialect.delimiter or ","

    @property
    def signs(self) -> str:
        """The delimiter and the decimal sign."""
        return self.delimiter + (self.dialect.decimal or ".")

    @property
    def is_plain(self) -> bool:
        """Whether the kernel for plain text may read the file: UTF-8."""
        utf8 = self.dialect.encoding in (*UTF8, None)
        tried = len(self.not_plain) < TRIES
        return tried and utf8 and not self.file.keys

    @property
    def is_sequential(self) -> bool:
        """Whether the file can only be read from its beginning."""
        return is_compressed(self.file.path) or self.dialect.is_sequential

    def lines(self, part: FileRange) -> list[int]:
        """Return the number of the line in which each row of a range begins."""
        return formats.row_lines(self.dialect.recode(self._text(part)), self.delimiter, part.line)

    def location(self, first: int, last: int) -> str:
        return f"{self.file.name!r}, bytes {first}–{last}"

    def _text(self, part: FileRange) -> Text:
        if part.text is not None:
            return part.text
        self.file.check_unchanged()
        with reading(part.name), open_text(self.file.path, self.dialect) as stream:
            if self.is_sequential:  # cached rows were lost: read all rows before them again
                for start in range(0, part.first, BLOCK):
                    read_bytes(stream, min(BLOCK, part.first - start))
            else:
                stream.seek(part.first)
            text = read_bytes(stream, part.last - part.first)
        self.file.check_unchanged()
        return text

    def convert(self, text: Text, line: int, names: list[str], types: Types, *, widen: bool = False) -> pa.Table:
        """Return the named columns of the rows from a line on; one without a type in ``types`` gets one that fits.

        A value that breaks the format of its column is an error, with its line.
        """
        own = {name: self.formats[name] for name in names if name in self.formats}
        own = {name: format_ for name, format_ in own.items() if types.get(name, format_.type) == format_.type}
        types = {**types, **{name: format_.type for name, format_ in own.items()}}
        if not text[:64].strip(b"\r\n") and not text.strip(b"\r\n"):
            return pa.schema([(name, types.get(name, pa.null())) for name in names]).empty_table()
        table = self._parse(text, line, {**types, **dict.fromkeys(own, pa.string())}, names, widen=widen)
        for column in table.schema:
            if pa.types.is_binary(column.type):
                raise self._error(f"column {column.name!r} {NOT_UTF8}")
        for name, format_ in own.items():
            values, broken = format_.parse(table[name])
            if broken is not None:
                rows = formats.numbered_rows(self.dialect.recode(text), self.delimiter, line)
                where = formats.line_of(rows, self.schema.names.index(name), broken)
                raise self._error(f"{format_.describe_error(name, broken, where)}{_other_decimal(format_, broken)}")
            table = table.set_column(names.index(name), name, values)
        return table

    def _parse(self, text: Text, line: int, types: Types, names: list[str] | None, *, widen: bool = False) -> pa.Table:
        try:
            text = self.dialect.recode(text)
        except UnicodeDecodeError as error:
            raise self._error(f"it is not {self.dialect.encoding} text ({error.reason}). Pass its encoding.") from None
        plain = self._read_plain(text, types, names)
        if plain is not None:
            return plain
        quoted = b'"' in text
        splitting = csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=quoted)
        conversion = csv.ConvertOptions(column_types=types, strings_can_be_null=True, include_columns=names)
        conversion.decimal_point = self.dialect.decimal or "."
        whole = min(len(text) + 1, MOST)
        sizes = [whole] if quoted else [BLOCK, whole]
        options = csv.ReadOptions(use_threads=whole > THREADED, column_names=self.schema.names)
        while True:
            options.block_size = sizes.pop(0)
            try:
                return csv.read_csv(pa.BufferReader(text), options, splitting, conversion)
            except pa.ArrowInvalid as error:
                why = str(error).strip()
                if "straddl" in why and sizes:
                    continue
                if widen and "conversion error" in why:
                    raise TypeInferenceError from error
                raise self._error(self._explain(text, line, why)) from error

    def _read_plain(self, text: Text, types: Types, names: list[str] | None) -> pa.Table | None:
        """Return the rows by the kernel for plain text, None where it cannot read them; it is not tried for ever."""
        known = names is not None and all(name in types for name in names)
        if not known or names is None or len(self.not_plain) >= TRIES:
            return None
        table = read_plain(text, self.signs, self.schema.names, {name: types[name] for name in names})
        if table is None:
            self.not_plain.append(len(text))
        return table

    def _error(self, why: str) -> InvalidInputError:
        return InvalidInputError(f"{self.file.name!r} cannot be read as CSV: {why}")

    def _explain(self, text: Text, line: int, why: str) -> str:
        header = self.schema.names
        if "UTF8" in why:
            place = re.search(r"column #(\d+)", why)
            return f"{f'column {header[int(place[1])]!r}' if place and header else 'it'} {NOT_UTF8}"
        rows = partial(formats.numbered_rows, text if header else b"", self.delimiter, line)
        known = formats.describe_bad_value(rows(), header, why) or formats.describe_bad_line(rows(), header)
        return known or f"{why.splitlines()[0].rstrip('.')}."


def whole_rows(chunks: Iterable[Text]) -> list[Text]:
    """Return the text between the first and the last line end of each chunk, unless it is empty."""
    texts = [chunk[chunk.find(b"\n") + 1 : chunk.rfind(b"\n") + 1] for chunk in chunks]
    return [text for text in texts if text]


def as_text(type_: pa.DataType) -> pa.DataType:
    """Return the type of text for codes of it, others as they are."""
    return pa.string() if pa.types.is_dictionary(type_) else type_


def read_bytes(stream: BufferedIOBase, count: int, begun: Text = b"") -> bytearray:
    """Return ``count`` bytes that begin with those already read; fewer only at the end of the stream."""
    text = bytearray(count)
    text[: len(begun)] = begun
    done = len(begun)
    with memoryview(text) as buffer:
        while done < count and (more := stream.readinto(buffer[done:])):  # one that decompresses may give fewer
            done += more
    del text[done:]
    return text


def _other_decimal(format_: TextFormat, text: str) -> str:
    """Return the advice for a number that is written with the other decimal sign; empty for other texts."""
    other = {",": ".", ".": ","}[format_.decimal]
    changed = format_.with_decimal(other)
    if changed is format_ or changed.parse(pa.array([text]))[1] is not None:
        return ""
    return f" If this file has {other!r} as its decimal sign, pass decimal={other!r}."
