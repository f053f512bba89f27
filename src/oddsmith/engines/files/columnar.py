"""Parquet and Arrow files: row groups and record batches, only the columns that are needed, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from oddsmith.engines.files.extents import Extent, named
from oddsmith.engines.files.finding import Found
from oddsmith.engines.files.schemas import fitted
from oddsmith.engines.packing import copy_numbers
from oddsmith.errors import InvalidInputError

BUFFER = 1 << 16
"""Bytes of each column that are read from disk at a time."""
PAGE, DICTIONARY = 1 << 19, 3 << 19
"""Bytes that a column of Parquet takes while it is decoded: a page and buffers, and its dictionary if it has one."""


def row_bytes(schema: Any) -> int:
    """Return about how much memory a row takes.

    >>> row_bytes(pa.schema([("a", pa.float64()), ("b", pa.string())]))
    40
    """
    total = 0
    for kind in schema.types:
        try:
            total += max(1, kind.bit_width // 8)
        except ValueError:  # words, lists: no fixed width
            total += 32
    return total


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file: its row groups, each with the number of rows."""

    found: Found
    schema: Any
    groups: tuple[int, ...]
    decoders: Mapping[str, int] = field(default_factory=dict, repr=False)
    is_text: bool = False

    @classmethod
    def open(cls, found: Found) -> ParquetTable:
        """Read the footer."""
        with named(repr(found.name)):
            footer = _footer(found.path, found.size, found.time)
            groups = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            return cls(found, footer.schema.to_arrow_schema().remove_metadata(), groups, _decoders(footer))

    @property
    def expected_rows(self) -> int:
        """The number of rows."""
        return sum(self.groups)

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield row groups, small ones put together."""
        width = row_bytes(pa.schema([self.schema.field(name) for name in names if name in self.schema.names]))
        decoders = sum(self.decoders.get(name, 0) for name in names)

        def extent(first: int, last: int, total: int) -> Extent:
            # Column after column needs memory for all rows, some rows of all columns for as many decoders.
            beyond = max(0, total - nbytes)
            return Extent(self, first, last, total, min(beyond, decoders), by_column=beyond <= decoders)

        first, total = 0, 0
        for i, rows in enumerate(self.groups):
            if total and total + rows * width > nbytes:
                yield extent(first, i, total)
                first, total = i, 0
            total += rows * width
        if self.groups:
            yield extent(first, len(self.groups), total)

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows of some row groups, no more than ``rows`` at a time, and check that all have come."""
        self.found.check_same()
        own = [field.name for field in schema if field.name not in self.found.keys]
        expected, seen = sum(self.groups[extent.first : extent.last]), 0
        with named(extent.name):
            footer = _footer(self.found.path, self.found.size, self.found.time)
            # No reading ahead: the bytes of whole column chunks would be in memory at once.
            reader = parquet.ParquetFile(
                self.found.path,
                metadata=footer,
                buffer_size=BUFFER,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            with reader:
                groups = list(range(extent.first, extent.last))
                if extent.by_column and own:
                    tables = _by_column(reader, groups, own, expected, rows)
                else:
                    tables = map(_table, reader.iter_batches(rows, groups, own, use_threads=False))
                for table in tables:
                    seen += table.num_rows
                    yield fitted(with_keys(table, self.found, schema), schema)
        if seen != expected:
            raise InvalidInputError(f"{extent.name} has {seen} rows, and its footer says {expected}. It is damaged.")
        self.found.check_same()

    def where(self, first: int, last: int) -> str:
        """Return the name of the file and its row groups."""
        groups = f"row group {first}" if last - first == 1 else f"row groups {first}–{last - 1}"
        return f"{self.found.name!r}, {groups}"


def _by_column(reader: Any, groups: list[int], names: list[str], n: int, rows: int) -> Iterator[Any]:
    """Yield tables of so many rows of row groups with ``n``, read column after column.

    Those of numbers go into one array for each table right after they were decoded, from the cache of the core: so they
    are the columns of a matrix already when they are encoded.
    """
    starts = range(0, max(1, n), rows)
    types = reader.schema_arrow
    count = sum(pa.types.is_float64(types.field(name).type) for name in names)
    matrices = [np.empty((count, min(rows, n - start))) for start in starts]
    tables: list[list[Any]] = [[] for _ in starts]
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


def _table(batch: Any) -> Any:
    return pa.Table.from_batches([batch])


def _decoders(footer: Any) -> dict[str, int]:
    """Return about how much memory each column takes while it is decoded, beside its values."""
    found: dict[str, int] = {}
    if footer.num_row_groups:
        group = footer.row_group(0)
        for column in map(group.column, range(group.num_columns)):
            most = PAGE + (DICTIONARY if column.has_dictionary_page else 0)
            name = column.path_in_schema.partition(".")[0]
            found[name] = found.get(name, 0) + min(most, 2 * column.total_uncompressed_size)
    return found


@lru_cache(maxsize=8)
def _footer(path: str, size: int, time: int) -> Any:
    return parquet.read_metadata(path)


@dataclass(frozen=True)
class ArrowTable:
    """An Arrow file (IPC, Feather) with record batches that can be read in any order."""

    found: Found
    schema: Any
    batches: int
    expected_rows: int
    is_text: bool = False

    @classmethod
    def open(cls, found: Found) -> ArrowTable | ArrowStream:
        """Read the schema and the number of batches; a stream has to be read from its beginning."""
        with named(repr(found.name)), pa.OSFile(found.path) as file:
            start = file.read(6)
            file.seek(max(0, found.size - 4))
            end = file.read(4)
            file.seek(0)
            if start != b"ARROW1":
                if end != b"\0\0\0\0":
                    raise InvalidInputError(f"{found.name!r} is an Arrow stream that breaks off. Write it again.")
                with pa.ipc.open_stream(file) as stream:
                    return ArrowStream(found, stream.schema.remove_metadata())
            with pa.ipc.open_file(file) as reader:
                schema, batches = reader.schema.remove_metadata(), reader.num_record_batches
            from pyarrow import dataset

            return cls(found, schema, batches, dataset.dataset(found.path, format="ipc").count_rows())

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield record batches, small ones put together."""
        each = max(1, self.expected_rows * row_bytes(self.schema) // max(1, self.batches))
        step = max(1, nbytes // each)
        for first in range(0, self.batches, step):
            last = min(first + step, self.batches)
            yield Extent(self, first, last, each * (last - first))

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows of some record batches."""
        self.found.check_same()
        own = sorted(self.schema.get_field_index(f.name) for f in schema if f.name not in self.found.keys)
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=own)
        # A batch that is larger than what is read at a time stays on disk: only the rows in use are in memory.
        large = self.expected_rows > 4 * rows * max(1, self.batches)
        with named(extent.name), (pa.memory_map if large else pa.OSFile)(self.found.path) as file:
            reader = pa.ipc.open_file(file, options=options)
            for i in range(extent.first, extent.last):
                table = pa.Table.from_batches([reader.get_batch(i)])
                for start in range(0, max(1, table.num_rows), rows):
                    yield fitted(with_keys(table.slice(start, rows), self.found, schema), schema)
        self.found.check_same()

    def where(self, first: int, last: int) -> str:
        """Return the name of the file and its record batches."""
        batches = f"record batch {first}" if last - first == 1 else f"record batches {first}–{last - 1}"
        return f"{self.found.name!r}, {batches}"


@dataclass(frozen=True)
class ArrowStream:
    """An Arrow stream: record batches one after the other, to be read from the beginning."""

    found: Found
    schema: Any
    is_text: bool = False

    @property
    def expected_rows(self) -> int:
        """A guess by the size of the file."""
        return self.found.size // max(1, row_bytes(self.schema))

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield the whole stream."""
        yield Extent(self, 0, 1, self.found.size)

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows of all record batches; a stream that breaks off is an error."""
        self.found.check_same()
        with named(extent.name), pa.OSFile(self.found.path) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, rows):
                    table = pa.Table.from_batches([batch.slice(start, rows)])
                    yield fitted(with_keys(table, self.found, schema), schema)
            if file.read(1):
                raise InvalidInputError(f"{extent.name} goes on after the end of its stream. It is damaged.")
        self.found.check_same()

    def where(self, first: int, last: int) -> str:
        """Return the name of the file."""
        return repr(self.found.name)


def with_keys(table: Any, found: Found, schema: Any) -> Any:
    """Return a table with the keys of its folders as columns."""
    for key, value in found.keys.items():
        place = schema.get_field_index(key)
        if place < 0:
            continue
        type_ = schema.field(place).type
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value).cast(type_)
        column = pa.repeat(scalar, table.num_rows)
        here = table.schema.get_field_index(key)
        table = table.append_column(key, column) if here < 0 else table.set_column(here, key, column)
    return table
