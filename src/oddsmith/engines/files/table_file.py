"""The interface of table files, and ranges of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from oddsmith.engines.files.paths import InputFile
from oddsmith.engines.files.schemas import conform, row_bytes
from oddsmith.errors import InvalidInputError, InvalidTypeError


@dataclass(frozen=True, kw_only=True)
class FileRange:
    """Consecutive rows of one file: row groups, record batches, or bytes of text.

    ``first`` to ``last`` are their numbers. ``nbytes`` is the approximate memory of their columns, ``overhead`` the
    memory for reading besides a piece of them. For a CSV, ``line`` is the first line number, and ``text`` the bytes if
    already read.
    """

    table: TableFile
    first: int
    last: int
    nbytes: int
    overhead: int = 0
    by_column: bool = False
    text: bytes | bytearray | None = None
    line: int = 1

    @property
    def name(self) -> str:
        """The location of the rows, for error messages."""
        return self.table.location(self.first, self.last)

    def split(self) -> Iterator[FileRange]:
        """Yield its row groups or record batches one by one; text has none."""
        if self.table.is_text:
            yield self
        else:
            yield from (replace(self, first=i, last=i + 1) for i in range(self.first, self.last))


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A file with a table: its columns, and the number of rows, as far as it is known without reading them.

    ``is_text`` says that reading is slow, so that caching is worthwhile. ``units`` names one and several parts of the
    file in error messages.
    """

    file: InputFile
    schema: pa.Schema
    expected_rows: int
    is_text: ClassVar[bool] = False
    units: ClassVar[tuple[str, str] | None] = None

    def with_codes(self, names: Iterable[str]) -> TableFile:
        """Return the file with these columns, if text, read as dictionary codes; by default unchanged."""
        return self

    def schema_with(self, keys: Mapping[str, pa.DataType]) -> pa.Schema:
        """Return the columns, those of the folder keys with the types given."""
        if not self.file.keys:
            return self.schema
        own = [field for field in self.schema if field.name not in keys]
        return pa.schema([*own, *(pa.field(key, keys[key]) for key in self.file.keys)])

    def ranges(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[FileRange]:
        """Yield the rows in ranges of about ``nbytes``, the same every time; by default all in one.

        Ranges that are not ``needed`` are counted, not read.
        """
        yield FileRange(table=self, first=0, last=1, nbytes=self.expected_rows * row_bytes(self.schema))

    def read(self, part: FileRange, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a range as tables of the schema, about ``rows`` rows at a time."""
        self.file.check_unchanged()
        names = [name for name in schema.names if name not in self.file.keys]
        with reading(part.name):
            for table in self._tables(part, names, rows):
                yield conform(table, schema, self.file.keys)
        self.file.check_unchanged()

    def _tables(self, part: FileRange, names: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a range with at least the named columns."""
        raise InvalidTypeError(
            f"{type(self).__name__} has no way to read rows. A format of files defines _tables(part, names, rows), "
            "which yields the rows of a range as Arrow tables; see engines/files/columnar.py."
        )

    def location(self, first: int, last: int) -> str:
        """Return the name of a range: the file and the numbers of its parts, if it has several."""
        if self.units is None:
            return repr(self.file.name)
        one, several = self.units
        return f"{self.file.name!r}, " + (f"{one} {first}" if last - first == 1 else f"{several} {first}–{last - 1}")


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Add the file and its part to an error from Arrow."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InvalidInputError(
            f"{where} cannot be read: {why}. Nothing was fitted. Write the file again, or leave it out."
        ) from error
