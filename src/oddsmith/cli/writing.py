"""Tables written to CSV, Parquet, Arrow or JSON lines some rows at a time, whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from oddsmith.cli.output import plain
from oddsmith.errors import InvalidInputError, UnknownNameError

FORMATS = ("arrow", "csv", "jsonl", "parquet")


class JsonLines:
    """Writes an object for each row, one a line."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write_table(self, table: Any) -> None:
        """Write some rows."""
        for row in table.to_pylist():
            self.file.write(json.dumps(plain(row), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        """Nothing ends such a file."""


class TableWriter:
    """Writes tables of one schema, that of the first, one after the other."""

    def __init__(self, file: Any, kind: str) -> None:
        self.file, self.kind, self.rows = file, kind, 0
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Write some rows."""
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table.cast(self._writer_schema))
        self.rows += table.num_rows

    def close(self) -> None:
        """Write what ends the file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Any) -> Any:
        self._writer_schema = schema
        if self.kind == "parquet":
            from pyarrow import parquet

            return parquet.ParquetWriter(self.file, schema)
        if self.kind == "arrow":
            import pyarrow as pa

            return pa.ipc.new_file(self.file, schema)
        if self.kind == "jsonl":
            return JsonLines(self.file)
        from pyarrow import csv

        return csv.CSVWriter(self.file, schema, write_options=csv.WriteOptions(quoting_style="needed"))


@contextmanager
def table_writer(path: str | None, as_json: bool = False) -> Iterator[TableWriter]:
    """Yield a writer; the file has its name only once all is written.

    No path, or ``-``, is standard output: CSV, or JSON lines.
    """
    if path is None or path == "-":
        sys.stdout.flush()
        writer = TableWriter(sys.stdout.buffer, "jsonl" if as_json else "csv")
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    kind = Path(path).suffix.lower().removeprefix(".")
    kind = {"pq": "parquet", "feather": "arrow", "ipc": "arrow", "ndjson": "jsonl"}.get(kind, kind)
    if kind not in FORMATS:
        raise UnknownNameError(f"format of {path!r}:", kind, FORMATS)
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} to. Make it first."
        )
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            writer = TableWriter(file, kind)
            yield writer
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
