"""Tables in files: CSV, Parquet, Arrow and JSON lines, whole or some rows at a time, each broken line by its number."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import csv

from oddsmith.engines.files.formats import (
    BAD_LINE,
    bad_value,
    broken_line,
    csv_lines,
    dialect,
    peek,
)
from oddsmith.errors import InvalidInputError

ROWS = 1 << 16
"""Rows of a batch."""
BYTES = 1 << 20
"""Bytes of a batch of text."""
DATE = pa.timestamp("us")
"""The type of dates and times, unless a CSV begins with days alone, or with a zone or more digits."""

Types = Mapping[str, Any]
"""Arrow types by column, None for a number or a truth value."""
Wanted = Collection[str] | None


def read_table(file: Any, kind: str, name: str, types: Types | None = None) -> Any:
    """Return the whole table in a file (a path, or something to read bytes from)."""
    with _problems(file, kind, name):
        if kind == "csv":
            stream, head = peek(file)
            splitting = dialect(head)
            conversion = _conversion(head, splitting, types)
            return _all_text(csv.read_csv(stream, parse_options=splitting, convert_options=conversion))
        tables = list(batches(file, kind, name, types))
        return pa.concat_tables(tables, promote_options="permissive")


def batches(file: Any, kind: str, name: str, types: Types | None = None, wanted: Wanted = None) -> Iterator[Any]:
    """Yield the table in a file some rows at a time; at least one part, perhaps empty.

    Where that saves work only the ``wanted`` columns are read, if they are all there.
    """
    readers = {"csv": _csv_batches, "parquet": _parquet_batches, "arrow": _arrow_batches, "jsonl": _json_batches}
    with _problems(file, kind, name):
        yield from readers[kind](file, types, wanted)


def _csv_batches(file: Any, types: Types | None, wanted: Wanted) -> Iterator[Any]:
    stream, head = peek(file)
    splitting = dialect(head)
    reading = csv.ReadOptions(block_size=BYTES, use_threads=False)  # one after the other, rows have numbers
    conversion = _conversion(head, splitting, types)
    if types is not None:
        _copy_others(conversion, head, splitting, wanted)
    with csv.open_csv(stream, reading, splitting, conversion) as reader:
        yield _all_text(reader.schema.empty_table())
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _parquet_batches(file: Any, types: Types | None, wanted: Wanted) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(_seekable(file)) as reader:
        yield reader.schema_arrow.empty_table()
        columns = _chosen(reader.schema_arrow.names, wanted)
        for batch in reader.iter_batches(batch_size=ROWS, columns=columns):
            yield pa.Table.from_batches([batch])


def _arrow_batches(file: Any, types: Types | None, wanted: Wanted) -> Iterator[Any]:
    data = _seekable(file)
    source = pa.memory_map(data) if isinstance(data, str) else pa.PythonFile(data, "r")
    with source:
        start = source.read(6)
        source.seek(0)
        if start == b"ARROW1":
            reader = pa.ipc.open_file(source)
            found = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = pa.ipc.open_stream(source)
            found = iter(reader)
        yield reader.schema.empty_table()
        for batch in found:
            for first in range(0, batch.num_rows, ROWS):
                yield pa.Table.from_batches([batch.slice(first, ROWS)])


def _json_batches(file: Any, types: Types | None, wanted: Wanted) -> Iterator[Any]:
    from pyarrow import json as arrow_json

    stream, _ = peek(file)
    rest = b""
    parsing = arrow_json.ParseOptions()
    if types is not None:
        schema = pa.schema([(name, kind) for name, kind in types.items() if kind is not None])
        parsing = arrow_json.ParseOptions(explicit_schema=schema)
        yield schema.empty_table()
    while chunk := stream.read(BYTES):
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        if lines.strip():
            yield arrow_json.read_json(io.BytesIO(lines), parse_options=parsing)
    if rest.strip():
        yield arrow_json.read_json(io.BytesIO(rest), parse_options=parsing)


def _conversion(head: bytes, dialect: Any, types: Types | None) -> Any:
    """Return how a CSV is converted; which sort of number, truth value or date there is, the first rows say."""
    options = csv.ConvertOptions(strings_can_be_null=True)
    if types is None:
        return options
    seen = {field.name: field.type for field in _first_rows(head, dialect)}
    options.column_types = {name: _type(kind, seen.get(name, pa.null())) for name, kind in types.items()}
    return options


def _type(kind: Any, seen: Any) -> Any:
    """Return the type to read a column as, from what is known about it and the type that its first rows have."""
    if kind is None:
        return pa.bool_() if pa.types.is_boolean(seen) else pa.float64()
    if kind == DATE and pa.types.is_date32(seen):
        return seen
    if kind == DATE and pa.types.is_timestamp(seen):
        return pa.timestamp("ns" if seen.unit == "ns" else DATE.unit, seen.tz)
    return kind


def _copy_others(conversion: Any, head: bytes, dialect: Any, wanted: Wanted) -> None:
    """Read columns that no model reads as the text that they are (007 is no 7), or, if not wanted, not at all."""
    names = _first_rows(head, dialect).names
    known = conversion.column_types
    conversion.column_types = {**{name: pa.string() for name in names if name not in known}, **known}
    conversion.include_columns = _chosen(names, wanted) or []


def _chosen(names: list[str], wanted: Wanted) -> list[str] | None:
    """Return the columns to read; None for all, also if one is missing or there twice, which is then found out."""
    return list(wanted) if wanted and set(wanted) <= set(names) and len(set(names)) == len(names) else None


def _first_rows(head: bytes, dialect: Any) -> Any:
    """Return names and types of the columns, as far as the first rows tell."""
    whole = head[: head.rfind(b"\n") + 1] or head
    one_by_one = csv.ReadOptions(use_threads=False)  # so that rows have numbers
    return csv.read_csv(io.BytesIO(whole), one_by_one, dialect).schema


def _all_text(table: Any) -> Any:
    """Return a table from a CSV, in which a column of bytes is text in another encoding."""
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise pa.ArrowInvalid("invalid UTF8 data")
    return table


def _seekable(file: Any) -> Any:
    if isinstance(file, bytes):
        return io.BytesIO(file)
    return file if isinstance(file, str) else io.BytesIO(file.read())


@contextmanager
def _problems(file: Any, kind: str, name: str) -> Iterator[None]:
    """Say in a sentence what is wrong with a file, and in which line."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, pa.ArrowException):
            raise
        why = _explain(file, kind, str(error).strip().splitlines()[0])
        raise InvalidInputError(f"{name!r} cannot be read as {kind.upper()}: {why}") from error


def _explain(file: Any, kind: str, why: str) -> str:
    if "Empty CSV" in why or "Cannot parse empty" in why:
        return "it is empty."
    if "UTF8" in why or "utf-8" in why:
        return "it holds text that is not UTF-8. Save it in that encoding; Excel calls it CSV UTF-8."
    if isinstance(file, str | bytes) and kind in ("csv", "jsonl"):
        found = _wrong_csv_line(file, why) if kind == "csv" else _broken_json_line(file)
        if found:
            return found
    if line := BAD_LINE.search(why):
        return f"line {line[1]} has {line[3]} fields, and the header has {line[2]}. Correct it."
    return f"{why.removeprefix('CSV parse error: ').rstrip('.')}."


def _wrong_csv_line(file: str | bytes, why: str) -> str:
    lines = csv_lines(file)
    header = next((row for _, row in lines if row), [])
    return bad_value(lines, header, why) or broken_line(lines, header)


def _broken_json_line(file: str | bytes) -> str:
    stream, _ = peek(file)
    with io.BufferedReader(stream) as text:
        for number, line in enumerate(text, 1):
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return f"line {number} is no object such as {{'age': 19, 'smoke': true}}."
            except ValueError as error:
                return f"line {number} is no valid JSON ({error}). Correct that line."
    return ""
