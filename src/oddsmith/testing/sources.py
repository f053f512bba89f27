"""Tables and arrays laid out for an engine: in pieces, in files, on Dask."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from narwhals.typing import IntoDataFrame
from pyarrow import csv, ipc, parquet

from oddsmith.block import Block
from oddsmith.design.inputs import as_table
from oddsmith.engines import PartedSource, Piece, Progress
from oddsmith.engines.base import merged
from oddsmith.engines.dask import DaskParts
from oddsmith.engines.dask_collections import Collection
from oddsmith.engines.files import FileParts
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import as_rows
from oddsmith.statistic import Statistic

S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class CutEngine:
    """Folds over the pieces of a `Cut`, one after the other."""

    name: str = "cut"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        """Return the merge of the statistics of all pieces."""
        job, pieces = source.job(statistic, params), list(source.parts.pieces())

        def parts() -> Iterator[S]:
            for done, piece in enumerate(pieces, 1):
                yield job(piece)
                if progress is not None:
                    progress(done, len(pieces))

        return merged(parts(), lambda: statistic.zero(source.shape, params))


@dataclass(frozen=True)
class Cut:
    """A table (pandas, polars, Arrow) in pieces of a given number of rows, like data outside memory.

    >>> import polars
    >>> from oddsmith import LogisticRegression
    >>> table = polars.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "b", "a", "b"]})
    >>> whole, pieces = (LogisticRegression().fit(data, y="y") for data in (table, Cut(table, 3)))
    >>> bool(abs(whole.coef_ - pieces.coef_).max() < 1e-12)
    True
    """

    table: Any
    rows: int
    chosen: tuple[str, ...] | None = None

    @property
    def engine(self) -> CutEngine:
        """The engine."""
        return CutEngine()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.chosen or tuple(as_table(self.table).columns)  # type: ignore[union-attr]

    @property
    def expected_rows(self) -> int:
        """The number of rows."""
        return len(as_table(self.table))  # type: ignore[arg-type]

    def choose(self, columns: Iterable[str]) -> Cut:
        """Return the same with these columns."""
        return replace(self, chosen=tuple(columns))

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces."""
        table = as_table(self.table).select(self.columns)  # type: ignore[union-attr]
        for number, start in enumerate(range(0, len(table), self.rows)):
            yield Piece(table[start : start + self.rows].to_native(), number=number, name=f"piece {number}")


def lay_out_dask(table: IntoDataFrame | npt.NDArray[Any], rows: int) -> Collection:
    """Return a table or an array as a Dask DataFrame or Array of partitions of ``rows`` rows.

    >>> lay_out_dask(np.eye(5), 2).chunks[0]
    (2, 2, 1)
    """
    if isinstance(table, np.ndarray):
        chunks = (min(rows, max(1, len(table))), *table.shape[1:])
        return import_module("dask.array").from_array(table, chunks=chunks)
    delayed = import_module("dask").delayed
    frame = nw.from_native(table, eager_only=True).to_pandas()
    parts = [frame.iloc[i : i + rows] for i in range(0, max(1, len(frame)), rows)]
    return import_module("dask.dataframe").from_delayed([delayed(part) for part in parts], meta=frame.iloc[:0])


def dask_source(
    X: Array, t: Labels, K: int, s: Array | None = None, offset: Array | None = None, rows: int = 200
) -> PartedSource:
    """Return arrays as a source of the Dask engine, in partitions of ``rows`` rows, for `check_engine`.

    >>> source = dask_source(np.eye(3), np.array([0, 1, 1], dtype=np.int32), 2, rows=2)
    >>> source.n_rows, len(source.parts.pieces)
    (3, 2)
    """
    data, *beside = (None if part is None else lay_out_dask(part, rows) for part in (X, t, s, offset))
    return PartedSource(DaskParts.open(data, *beside), _arrays_as_block, n_rows=len(X), M=X.shape[1], K=K)


def _arrays_as_block(piece: Piece) -> Block:
    return Block(as_rows(cast("Array", piece.rows)), piece.y, piece.s, piece.offset)


def lay_out_files(table: IntoDataFrame, rows: int, folder: str | os.PathLike[str], format: str = "parquet") -> str:
    """Write a table of any library as a folder of two files with row groups of ``rows`` rows, and return its path.

    ``format`` is "parquet", "csv" or "arrow"; CSV files have no groups. Read it with ``piece_rows=rows``, or small
    groups are merged.

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
    """Return arrays as a source of the files engine, in pieces of ``rows`` rows, for `check_engine`.

    The files are temporary: they are removed with the source.

    >>> source = files_source(np.eye(3), np.array([0, 1, 1], dtype=np.int32), 2, rows=2)
    >>> source.n_rows, source.parts.columns
    (3, ('x0', 'x1', 'x2', 't'))
    """
    folder = tempfile.mkdtemp()
    parts = FileParts.open(lay_out_files(as_columns(X, t, s, offset), rows, folder, format), piece_rows=rows, **how)
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    encode = TableEncoding(X.shape[1], 0 if offset is None else offset.shape[1], s is not None)
    return PartedSource(parts, encode, n_rows=len(X), M=X.shape[1], K=K)


def as_columns(X: Array, t: Labels, s: Array | None, offset: Array | None) -> pa.Table:
    """Return arrays as a table with the columns x0, x1, …, t, s and o0, o1, and so on."""
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"t": t} | ({} if s is None else {"s": s})
    return pa.table(columns | {f"o{j}": column for j, column in enumerate([] if offset is None else offset.T)})


@dataclass(frozen=True)
class TableEncoding:
    """The encoding of tables that were made of arrays."""

    M: int
    C: int
    weighted: bool

    def __call__(self, piece: Piece) -> Block:
        def columns(letter: str, count: int) -> Array:
            return np.array([piece.rows[f"{letter}{j}"].to_numpy() for j in range(count)], dtype=np.float64).T

        s = piece.rows["s"].to_numpy() if self.weighted else None
        t = piece.rows["t"].to_numpy().astype(np.int32)
        return Block(as_rows(columns("x", self.M)), t, s, columns("o", self.C) if self.C else None)
