"""Data put where the files engine finds it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.typing import IntoDataFrame
from pyarrow import csv, ipc, parquet

from oddsmith.block import Block
from oddsmith.engines.files import FileParts
from oddsmith.engines.partitioned import PartedSource, Piece
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import as_rows


def lay_out_files(table: IntoDataFrame, rows: int, folder: str | os.PathLike[str], format: str = "parquet") -> str:
    """Write a table of any library as a folder of two files with row groups of ``rows`` rows, and return its path.

    ``format`` is "parquet", "csv" or "arrow"; CSV files have no groups. Read it with ``piece_rows=rows``, or small
    groups are put together.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(os.listdir(lay_out_files(pa.table({"x": [1, 2, 3]}), 1, folder)))
    ['part-0.parquet', 'part-1.parquet']
    """
    arrow = nw.from_native(table, eager_only=True).to_arrow()
    place = os.path.join(folder, "table")
    os.makedirs(place)
    half = (arrow.num_rows + 1) // 2
    for i, part in enumerate((arrow.slice(0, half), arrow.slice(half))):
        path = os.path.join(place, f"part-{i}.{format}")
        if format == "parquet":
            parquet.write_table(part, path, row_group_size=rows)
        elif format == "csv":
            csv.write_csv(part, path)
        else:
            with ipc.new_file(path, part.schema) as writer:
                writer.write_table(part, max_chunksize=rows)
    return place


def files_source(
    X: Array,
    t: Labels,
    K: int,
    s: Array | None = None,
    offset: Array | None = None,
    rows: int = 200,
    format: str = "parquet",
    **how: Any,
) -> PartedSource:
    """Return arrays as a source of the files engine, in pieces of ``rows`` rows: what `check_engine` asks for.

    The files are temporary: they are gone when the source is.

    >>> source = files_source(np.eye(3), np.array([0, 1, 1], dtype=np.int32), 2, rows=2)
    >>> source.n_rows, source.parts.columns
    (3, ('x0', 'x1', 'x2', 't'))
    """
    offsets = [] if offset is None else list(offset.T)
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"t": t} | ({} if s is None else {"s": s})
    table = pa.table(columns | {f"o{j}": column for j, column in enumerate(offsets)})
    folder = tempfile.mkdtemp()
    parts = FileParts.open(lay_out_files(table, rows, folder, format), piece_rows=rows, **how)
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    encode = _AsBlock(X.shape[1], len(offsets), s is not None)
    return PartedSource(parts, encode, n_rows=len(X), M=X.shape[1], K=K)


@dataclass(frozen=True)
class _AsBlock:
    """The encoding of tables that were made of arrays."""

    M: int
    C: int
    weighted: bool

    def __call__(self, piece: Piece) -> Block:
        def columns(letter: str, count: int) -> Array:
            return np.array([piece.rows.column(f"{letter}{j}").to_numpy() for j in range(count)], dtype=float).T

        s = piece.rows.column("s").to_numpy() if self.weighted else None
        t = piece.rows.column("t").to_numpy().astype(np.int32)
        return Block(as_rows(columns("x", self.M)), t, s, columns("o", self.C) if self.C else None)
