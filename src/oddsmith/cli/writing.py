"""Where the commands write their tables: to a file, or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from oddsmith.persistence.tables import FolderWriter, TableWriter, write_tables


@contextmanager
def table_writer(path: str | None, as_json: bool = False) -> Iterator[TableWriter | FolderWriter]:
    """Yield a writer; a file, or a folder, has its name only once all is written.

    No path, or ``-``, is standard output: CSV, or JSON lines.
    """
    if path is None or path == "-":
        sys.stdout.flush()
        writer = TableWriter(sys.stdout.buffer, "jsonl" if as_json else "csv")
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    with write_tables(path) as to_file:
        yield to_file
