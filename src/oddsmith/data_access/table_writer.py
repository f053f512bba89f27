"""Writing of tables to CSV, Parquet, Arrow or JSON lines, some rows at a time, completely or not at all."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from oddsmith.errors import InvalidInputError, UnknownNameError

FORMATS = ("arrow", "csv", "jsonl", "parquet")
OTHER_NAMES = {"pq": "parquet", "feather": "arrow", "ipc": "arrow", "ndjson": "jsonl"}
FORMULA, SIGNED = r"^[=@+\t\r-]", r"^[+-][\d\s.,()/%-]*$"
"""First characters of text that a spreadsheet runs as a formula, and a pattern of signed numbers, which are allowed."""
FILE_ROWS = 10_000_000  # Default number of rows per file in a folder.


def plain(value: object) -> Any:
    """Return a value as plain JSON: NumPy numbers as numbers, NaN as null, infinities as strings.

    >>> plain({"a": float("nan"), "b": [float("inf"), 1]})
    {'a': None, 'b': ['Infinity', 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def without_formulas(table: pa.Table) -> pa.Table:
    """Return a table in which no text and no column name is a spreadsheet formula.

    Text that begins with ``=``, ``@``, a tab or a carriage return, or with ``+`` or ``-`` without being a number, gets
    a leading apostrophe.

    >>> without_formulas(pa.table({"a": ["=1+1", "-5", "-cmd|x", "b"]}))["a"].to_pylist()
    ["'=1+1", '-5', "'-cmd|x", 'b']
    """
    import pyarrow.compute as pc

    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            is_formula = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, SIGNED))
            if pc.any(is_formula).as_py():
                column = pc.if_else(is_formula, pc.binary_join_element_wise("'", column, ""), column)
        columns.append(column)
    names = [
        f"'{name}" if re.search(FORMULA, name) and not re.search(SIGNED, name) else name for name in table.column_names
    ]
    return pa.table(columns, names=names)


class _JsonLines:
    """Writes one JSON object per line for each row."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write_table(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self.file.write(json.dumps(plain(row), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        """Do nothing: the file needs no end."""


class TableWriter:
    """Writes tables with the schema of the first; in a CSV, formulas are escaped (``escape``)."""

    def __init__(self, file: BinaryIO, kind: str, *, escape: bool = True) -> None:
        self.file, self.kind, self.rows, self.files = file, kind, 0, 1
        self.escape = escape and kind == "csv"
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        table = without_formulas(table) if self.escape else table
        if self._writer is None:
            self._schema, self._writer = table.schema, self._open(table.schema)
        self._writer.write_table(table.cast(self._schema))
        self.rows += table.num_rows

    def close(self) -> None:
        """Write the end of the file."""
        if self._writer is not None:
            self._writer.close()

    def finish(self, *, whole: bool = True) -> None:
        """Close the file: completed and flushed to disk or, with ``whole=False``, unfinished."""
        if whole:
            self.close()
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.close()

    def _open(self, schema: pa.Schema) -> Any:
        from pyarrow import csv, ipc, parquet

        if self.kind == "csv":
            return csv.CSVWriter(self.file, schema, write_options=csv.WriteOptions(quoting_style="needed"))
        if self.kind == "jsonl":
            return _JsonLines(self.file)
        return (parquet.ParquetWriter if self.kind == "parquet" else ipc.new_file)(self.file, schema)


class FolderWriter:
    """Writes tables to files in a new folder, with a maximum number of rows per file."""

    def __init__(self, folder: Path, kind: str, file_rows: int, *, escape: bool = True) -> None:
        self.folder, self.kind, self.file_rows, self.escape = folder, kind, file_rows, escape
        self.rows = self.files = 0
        self._writer: TableWriter | None = None
        folder.mkdir()

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        while table.num_rows:
            if self._writer is None or self._writer.rows >= self.file_rows:
                self.finish()
                file = open(self.folder / f"part-{self.files:05}.{self.kind}", "xb")
                self._writer = TableWriter(file, self.kind, escape=self.escape)
                self.files += 1
            some = table.slice(0, self.file_rows - self._writer.rows)
            self._writer.write(some)
            self.rows += some.num_rows
            table = table.slice(some.num_rows)

    def finish(self, *, whole: bool = True) -> None:
        """Close the last file."""
        if self._writer is not None:
            self._writer.finish(whole=whole)


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str | None:
    """Return the format from the name of a file, None for a folder.

    >>> format_of("a.pq"), format_of("predictions")
    ('parquet', None)
    """
    suffix = Path(path).suffix.lower().removeprefix(".") if given is None else given
    kind = OTHER_NAMES.get(suffix, suffix)
    if kind and kind not in FORMATS:
        raise UnknownNameError(f"format of {os.fspath(path)!r}:", kind, FORMATS)
    return kind or None


@contextmanager
def write_tables(
    path: str | os.PathLike[str], format: str | None = None, file_rows: int = FILE_ROWS, *, escape: bool = True
) -> Iterator[TableWriter | FolderWriter]:
    """Yield a writer of tables; the file or folder gets its name only when everything is written.

    A name without an extension is a folder, with Parquet files unless ``format`` is given. With ``escape``, text in a
    CSV that a spreadsheet would run as a formula gets a leading apostrophe.

    >>> import tempfile, pyarrow as pa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_tables(f"{folder}/a.csv") as writer:
    ...         writer.write(pa.table({"x": [1, 2]}))
    ...     Path(folder, "a.csv").read_text().split()
    ['"x"', '1', '2']
    """
    target, by_name = Path(os.path.realpath(path)), format_of(path)
    kind = by_name if format is None else format_of(path, format)
    if not target.parent.is_dir():
        where = str(target.parent)
        raise InvalidInputError(f"The folder {where!r} for {target.name!r} does not exist. Create it first.")
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}.tmp")
    if by_name is None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(
            f"{target.name!r} already exists, and predictions are written to a new folder. Choose another name, or "
            "remove it first; for a file, use an extension such as .parquet or .csv."
        )
    if by_name is not None and target.is_dir():
        raise InvalidInputError(f"{os.fspath(path)!r} is a folder, but the output is a file. Choose another name.")
    writer: TableWriter | FolderWriter | None = None
    try:  # from the first moment at which there is a file that Ctrl-C must not leave behind
        if by_name is None:
            writer = FolderWriter(temporary, kind or "parquet", file_rows, escape=escape)
        else:
            writer = TableWriter(open(temporary, "xb"), kind or by_name, escape=escape)
        yield writer
        writer.finish()
        if target.is_dir():
            target.rmdir()
        os.replace(temporary, target)
    except BaseException:
        if writer is not None:
            writer.finish(whole=False)
        shutil.rmtree(temporary, ignore_errors=True) if by_name is None else temporary.unlink(missing_ok=True)
        raise
