"""Tables in files: CSV, Parquet, Arrow and JSON lines, whole or some rows at a time, each broken line by its number."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from oddsmith.design.text_columns import attach
from oddsmith.engines.arrow_matrix import without_views
from oddsmith.engines.files import formats as csv_formats
from oddsmith.engines.files.dialect import Recoded, TextDialect, read_chunks
from oddsmith.engines.files.parts import INDEX
from oddsmith.engines.files.paths import InputFile
from oddsmith.engines.files.text import HEAD, TextTable, read_bytes
from oddsmith.engines.text_formats import TextFormat, find_format
from oddsmith.errors import InvalidInputError

ROWS = 1 << 16  # Rows of a batch.
BYTES = 1 << 20  # Bytes of a batch of text.
File: TypeAlias = str | bytes | io.BufferedIOBase  # A path, the bytes of a file, or a file that is open and read once.
Types: TypeAlias = Mapping[str, pa.DataType | TextFormat | None]
"""Arrow types or formats of text by column, None for a number or a boolean."""
Wanted: TypeAlias = Collection[str] | None
ANY = TextDialect()  # The dialect of a text file of which nothing is known.


def read_table(file: File, kind: str, name: str, types: Types | None = None, dialect: TextDialect = ANY) -> pa.Table:
    """Return the whole table in a file; columns of text have what they were recognised as, and say so.

    One in which a value breaks the format of the others is left as text.
    """
    with _explained(file, kind, name):
        if kind == "csv":
            stream, table, rows = _open_csv(file, name, types, dialect)
            content = rows + stream.read()
            whole = table.convert(content, table.start_line, table.schema.names, _fixed_types(table))
            return _recognised(whole, table)
        return pa.concat_tables(batches(file, kind, name, types), promote_options="permissive")


def _recognised(whole: pa.Table, table: TextTable) -> pa.Table:
    found, plain = dict(table.formats), table.plain_formats(whole.schema)
    for name, type_ in zip(whole.column_names, whole.schema.types, strict=True):
        if not pa.types.is_string(type_) or name in table.fixed or name in found:
            continue
        format_ = find_format(whole[name], table.dialect.decimal)
        values, broken = (None, "") if format_ is None else format_.parse(whole[name])
        if format_ is not None and broken is None:
            found[name] = format_
            whole = whole.set_column(whole.column_names.index(name), name, values)
    return attach(whole, found, plain, table.recognised)


def line_of_row(file: str, kind: str, row: int, dialect: TextDialect = ANY) -> str | None:
    """Return in which line of a text file a row is, None if it has fewer rows or is not text."""
    if kind not in ("csv", "jsonl"):
        return None
    if kind == "jsonl":
        with io.BufferedReader(_open_stream(file)) as lines:
            numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    else:
        stream, table, rows = _open_csv(file, file, None, dialect)
        text = table.dialect.recode(rows + stream.read())
        numbers = csv_formats.row_lines(text, table.delimiter, table.start_line)
    return f"line {numbers[row]}" if row < len(numbers) else None


def batches(
    file: File, kind: str, name: str, types: Types | None = None, wanted: Wanted = None, dialect: TextDialect = ANY
) -> Iterator[pa.Table]:
    """Yield the table in a file some rows at a time; at least one part, perhaps empty.

    Where that saves work only the ``wanted`` columns are read, if they are all there.
    """
    readers = {"parquet": _parquet_batches, "arrow": _arrow_batches, "jsonl": _json_batches}
    with _explained(file, kind, name):
        if kind == "csv":
            yield from _csv_batches(file, name, types, wanted, dialect)
        else:
            yield from map(_plain, readers[kind](file, types, wanted))


def _open_csv(
    file: File, name: str, types: Types | None, dialect: TextDialect
) -> tuple[io.BufferedIOBase, TextTable, bytearray]:
    """Return a stream that stands behind its head, the table that the head shows, and the rows in the head."""
    stream = _open_stream(file)
    head = read_bytes(stream, HEAD)
    path = file if isinstance(file, str) else ""
    chunks = read_chunks(path, os.path.getsize(path), len(head)) if path else ()
    found = dialect.found_in(head, chunks, complete=len(head) < HEAD)
    if found.is_sequential:
        recoded = Recoded(io.BytesIO(bytes(head) + stream.read()), found.encoding or "utf-16")
        stream = io.BufferedReader(recoded)
        head = read_bytes(stream, HEAD)
    source = InputFile(path=path, kind="csv", name=name, size=0, time=0)
    table = TextTable.from_head(source, head, dialect=found)
    table = replace(table, given=dialect)
    table = table if types is None else table.with_formats().with_types(types)
    return stream, table, head[table.start :]


def _fixed_types(table: TextTable) -> dict[str, pa.DataType]:
    return {name: table.schema.field(name).type for name in table.fixed}


def _csv_batches(
    file: File, name: str, types: Types | None, wanted: Wanted, dialect: TextDialect = ANY
) -> Iterator[pa.Table]:
    stream, table, rows = _open_csv(file, name, types, dialect)
    names = table.schema.names
    if types is not None:
        # Columns that no model reads are read as the text that they are (007 is no 7), or, if not wanted, not at all.
        table = table.with_types(dict.fromkeys(names, pa.string()))
        names = _chosen(names, wanted) or names
    fixed = {name: type_ for name, type_ in _fixed_types(table).items() if name in names}
    batch = None
    for part in table.cut(stream, BYTES, rows):
        batch = table.convert(part.text or b"", part.line, names, fixed)
        fixed = dict(zip(names, batch.schema.types, strict=True))  # the first rows say what the others are
        yield batch
    if batch is None:
        yield table.convert(b"", table.start_line, names, fixed)


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without string views, and without the index of pandas, which is no column."""
    index = [name for name in table.column_names if name.startswith(INDEX)]
    return without_views(table.drop_columns(index) if index else table)


def _parquet_batches(file: File, types: Types | None, wanted: Wanted) -> Iterator[pa.Table]:
    from pyarrow import parquet

    with parquet.ParquetFile(_seekable(file)) as reader:
        yield reader.schema_arrow.empty_table()
        columns = _chosen(reader.schema_arrow.names, wanted)
        for batch in reader.iter_batches(batch_size=ROWS, columns=columns):
            yield pa.Table.from_batches([batch])


def _arrow_batches(file: File, types: Types | None, wanted: Wanted) -> Iterator[pa.Table]:
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


def _json_batches(file: File, types: Types | None, wanted: Wanted) -> Iterator[pa.Table]:
    from pyarrow import json as arrow_json

    stream, rest, known = _open_stream(file), b"", pa.schema([])
    if types is not None:
        # What was a number or a date in text may be itself here.
        texts = {name: pa.string() for name, kind in types.items() if isinstance(kind, TextFormat)}
        loose = [name for name, kind in types.items() if isinstance(kind, TextFormat) and kind.kind != "levels"]
        known = pa.schema(
            [(name, texts.get(name, kind)) for name, kind in types.items() if kind is not None and name not in loose]
        )
    parsing = arrow_json.ParseOptions(explicit_schema=known) if types is not None else arrow_json.ParseOptions()
    empty = True
    while chunk := stream.read(BYTES):
        lines, _, rest = (rest + chunk).rpartition(b"\n")
        if lines.strip():
            empty = False
            yield arrow_json.read_json(io.BytesIO(lines), parse_options=parsing)
    if rest.strip():
        yield arrow_json.read_json(io.BytesIO(rest), parse_options=parsing)
    elif empty and types is not None:
        fields = {**dict.fromkeys(types, pa.string()), **{field.name: field.type for field in known}}
        yield pa.schema(list(fields.items())).empty_table()


def _chosen(names: list[str], wanted: Wanted) -> list[str] | None:
    """Return the columns to read; None for all, also if one is missing or there twice, which is then found out."""
    return list(wanted) if wanted and set(wanted) <= set(names) and len(set(names)) == len(names) else None


def _open_stream(file: File) -> io.BufferedIOBase:
    """Return a stream, which decompresses where the name of a file says that it is compressed."""
    if isinstance(file, bytes):
        return io.BytesIO(file)
    stream: io.BufferedIOBase = pa.input_stream(file) if isinstance(file, str) else file
    return stream


def _seekable(file: File) -> str | io.BufferedIOBase:
    return file if isinstance(file, str) else io.BytesIO(file if isinstance(file, bytes) else file.read())


@contextmanager
def _explained(file: File, kind: str, name: str) -> Iterator[None]:
    """Say in a sentence what is wrong with a file, and in which line."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, pa.ArrowException):
            raise
        why = _explain(file, kind, str(error).strip().splitlines()[0])
        raise InvalidInputError(f"{name!r} cannot be read as {kind.upper()}: {why}") from error


def _explain(file: File, kind: str, why: str) -> str:
    if "Cannot parse empty" in why:
        return "it is empty."
    if "UTF8" in why or "utf-8" in why:
        return "it holds text that is not UTF-8. Pass --encoding latin-1, or save it in UTF-8."
    if changed := re.match(r"JSON parse error: Column\(/(.*)\) changed from (\w+) to (\w+)", why):
        name, one, other = changed.groups()
        return f"column {name!r} holds a {one} in one line and a {other} in another. Write all of them in the same way."
    found = _broken_json_line(file) if kind == "jsonl" and isinstance(file, str | bytes) else ""
    return found or f"{why.rstrip('.')}."


def _broken_json_line(file: str | bytes) -> str:
    with io.BufferedReader(_open_stream(file)) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 and line.lstrip(b"\xef\xbb\xbf \t").startswith(b"["):
                return (
                    'it is one array, but every row needs a line of its own, such as {"age": 19, "smoke": true}. '
                    "In pandas, table.to_json(path, orient='records', lines=True) writes that; so does jq -c '.[]'."
                )
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return f'line {number} is not an object such as {{"age": 19, "smoke": true}}.'
            except ValueError as error:
                return f"line {number} is not valid JSON ({error}). Correct that line."
    return ""
