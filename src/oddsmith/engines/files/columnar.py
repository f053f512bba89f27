"""Parquet and Arrow files, read by row groups and record batches, only the columns needed, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from oddsmith.engines.arrow_matrix import copy_numbers
from oddsmith.engines.files.paths import InputFile
from oddsmith.engines.files.schemas import as_codes, row_bytes, text_columns
from oddsmith.engines.files.table_file import FileRange, TableFile, reading
from oddsmith.errors import InvalidInputError

BUFFER = 1 << 16  # Bytes of each column that are read from disk at a time.
PAGE, DICTIONARY = 1 << 19, 3 << 19
"""Memory for decoding a Parquet column: a page and buffers, and its dictionary if it has one."""


@dataclass(frozen=True, kw_only=True)
class ParquetTable(TableFile):
    """A Parquet file: the number of rows of each row group, and the memory for decoding each column.

    Text columns in ``coded`` are read as dictionary codes, as most files store them.
    """

    groups: tuple[int, ...]
    decoders: Mapping[str, int] = field(repr=False)
    coded: frozenset[str] = frozenset()
    units = "row group", "row groups"

    @classmethod
    def open(cls, file: InputFile) -> ParquetTable:
        """Read the footer."""
        with reading(repr(file.name)):
            footer = _footer(file.path, file.size, file.time)
            groups = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            schema = footer.schema.to_arrow_schema().remove_metadata()
            return cls(file=file, schema=schema, expected_rows=sum(groups), groups=groups, decoders=_decoders(footer))

    def with_codes(self, names: Iterable[str]) -> ParquetTable:
        coded = frozenset(text_columns(self.schema, names))
        return replace(self, schema=as_codes(self.schema, coded), coded=coded)

    def ranges(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[FileRange]:
        there = set(self.schema.names)  # made anew by each call of `names`
        width = row_bytes(pa.schema([self.schema.field(name) for name in names if name in there]))
        decoders = sum(self.decoders.get(name, 0) for name in names)

        def group_range(first: int, last: int, total: int) -> FileRange:
            # Column after column needs memory for all rows, some rows of all columns for as many decoders.
            beyond = max(0, total - nbytes)
            by_column, overhead = beyond <= decoders, min(beyond, decoders)
            return FileRange(table=self, first=first, last=last, nbytes=total, overhead=overhead, by_column=by_column)

        first, total = 0, 0
        for i, rows in enumerate(self.groups):
            if total and total + rows * width > nbytes:
                yield group_range(first, i, total)
                first, total = i, 0
            total += rows * width
        if self.groups:
            yield group_range(first, len(self.groups), total)

    def _tables(self, part: FileRange, names: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield at most ``rows`` rows at a time, and check that all arrived."""
        groups = list(range(part.first, part.last))
        expected, seen = sum(self.groups[part.first : part.last]), 0
        footer = _footer(self.file.path, self.file.size, self.file.time)
        # No reading ahead: the bytes of whole column chunks would be in memory at once.
        options = {"buffer_size": BUFFER, "pre_buffer": False, "page_checksum_verification": True}
        coded = [name for name in names if name in self.coded]
        with parquet.ParquetFile(self.file.path, metadata=footer, read_dictionary=coded, **options) as reader:
            if part.by_column and names:
                tables = _read_columns(reader, groups, names, expected, rows)
            else:
                batches = reader.iter_batches(rows, groups, names, use_threads=False)
                tables = (pa.Table.from_batches([batch]) for batch in batches)
            for table in tables:
                seen += table.num_rows
                yield table
        if seen != expected:
            raise InvalidInputError(
                f"{part.name} has {seen} rows, but its footer says {expected}. The file is damaged."
            )


def _read_columns(
    reader: parquet.ParquetFile, groups: list[int], names: list[str], n: int, rows: int
) -> Iterator[pa.Table]:
    """Yield tables of a given number of rows from row groups with ``n`` rows, read column by column.

    Numeric columns are copied into one array per table right after decoding, while they are in the core's cache, so
    that they already form a matrix when they are encoded.
    """
    starts = range(0, max(1, n), rows)
    types = reader.schema_arrow
    count = sum(pa.types.is_float64(types.field(name).type) for name in names)
    matrices = [np.empty((count, min(rows, n - start))) for start in starts]
    tables: list[list[pa.Array]] = [[] for _ in starts]
    k = 0
    for name in names:
        column = reader.read_row_groups(groups, [name], use_threads=False).column(0)
        packed = pa.types.is_float64(column.type) and not column.null_count and len(column) == n
        for start, matrix, table in zip(starts, matrices, tables, strict=True):
            some = column.slice(start, rows)
            if packed:
                copy_numbers(some, matrix[k])
                some = pa.array(matrix[k])
            table.append(some)
        k += packed
    del matrices
    while tables:
        yield pa.Table.from_arrays(tables.pop(0), names)


def _decoders(footer: parquet.FileMetaData) -> dict[str, int]:
    """Return the approximate memory for decoding each column, besides its values."""
    found: dict[str, int] = {}
    if footer.num_row_groups:
        group = footer.row_group(0)
        for column in map(group.column, range(group.num_columns)):
            most = PAGE + (DICTIONARY if column.has_dictionary_page else 0)
            name = column.path_in_schema.partition(".")[0]
            found[name] = found.get(name, 0) + min(most, 2 * column.total_uncompressed_size)
    return found


def _cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch.slice(start, rows)]) for start in range(0, max(1, batch.num_rows), rows))


@lru_cache(maxsize=8)
def _footer(path: str, size: int, time: int) -> parquet.FileMetaData:
    return parquet.read_metadata(path)


@dataclass(frozen=True, kw_only=True)
class ArrowTable(TableFile):
    """An Arrow file (IPC, Feather) with record batches that can be read in any order."""

    batches: int
    units = "record batch", "record batches"

    @classmethod
    def open(cls, file: InputFile) -> ArrowTable | ArrowStream:
        """Read the schema and the number of batches; a stream must be read from its beginning."""
        with reading(repr(file.name)), pa.OSFile(file.path) as opened:
            start = opened.read(6)
            opened.seek(max(0, file.size - 4))
            end = opened.read(4)
            opened.seek(0)
            if start != b"ARROW1":
                if end != b"\0\0\0\0":
                    raise InvalidInputError(f"{file.name!r} is a truncated Arrow stream. Write it again.")
                with pa.ipc.open_stream(opened) as stream:
                    schema = stream.schema.remove_metadata()
                    guess = file.size // max(1, row_bytes(schema))
                    return ArrowStream(file=file, schema=schema, expected_rows=guess)
            from pyarrow import dataset

            with pa.ipc.open_file(opened) as reader:
                rows = dataset.dataset(file.path, format="ipc").count_rows()
                schema = reader.schema.remove_metadata()
                return cls(file=file, schema=schema, expected_rows=rows, batches=reader.num_record_batches)

    def ranges(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[FileRange]:
        each = max(1, self.expected_rows * row_bytes(self.schema) // max(1, self.batches))
        step = max(1, nbytes // each)
        for first in range(0, self.batches, step):
            last = min(first + step, self.batches)
            yield FileRange(table=self, first=first, last=last, nbytes=each * (last - first))

    def _tables(self, part: FileRange, names: list[str], rows: int) -> Iterator[pa.Table]:
        fields = sorted(map(self.schema.get_field_index, names))
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        # A batch that is larger than what is read at a time stays on disk: only the rows in use are in memory.
        large = self.expected_rows > 4 * rows * max(1, self.batches)
        with (pa.memory_map if large else pa.OSFile)(self.file.path) as file:
            reader = pa.ipc.open_file(file, options=options)
            for batch in map(reader.get_batch, range(part.first, part.last)):
                yield from _cut(batch, rows)


@dataclass(frozen=True, kw_only=True)
class ArrowStream(TableFile):
    """An Arrow stream: record batches, read from the beginning; the number of rows is an estimate."""

    def _tables(self, part: FileRange, names: list[str], rows: int) -> Iterator[pa.Table]:
        with pa.OSFile(self.file.path) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield from _cut(batch, rows)
            if file.read(1):
                raise InvalidInputError(f"{part.name} has data after the end of its stream. The file is damaged.")
