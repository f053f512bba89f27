"""Tables and arrays put where an engine finds them: in files, on Dask, on Spark."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from narwhals.typing import IntoDataFrame
from pyarrow import csv, ipc, parquet

from oddsmith.block import Block
from oddsmith.engines.dask import DaskParts
from oddsmith.engines.dask_collections import Collection
from oddsmith.engines.files import FileParts
from oddsmith.engines.partitioned import PartedSource, Piece
from oddsmith.engines.spark import SparkParts
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import as_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    """Return arrays as a source of the Dask engine, in partitions of ``rows`` rows: what `check_engine` asks for.

    >>> source = dask_source(np.eye(3), np.array([0, 1, 1], dtype=np.int32), 2, rows=2)
    >>> source.n_rows, len(source.parts.pieces)
    (3, 2)
    """
    data, *beside = (None if part is None else lay_out_dask(part, rows) for part in (X, t, s, offset))
    return PartedSource(DaskParts.open(data, *beside), _arrays_as_block, n_rows=len(X), M=X.shape[1], K=K)


def _arrays_as_block(piece: Piece) -> Block:
    return Block(piece.rows, piece.y, piece.s, piece.offset)


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
    folder = tempfile.mkdtemp()
    parts = FileParts.open(lay_out_files(_table(X, t, s, offset), rows, folder, format), piece_rows=rows, **how)
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    encode = TableEncoding(X.shape[1], 0 if offset is None else offset.shape[1], s is not None)
    return PartedSource(parts, encode, n_rows=len(X), M=X.shape[1], K=K)


def _table(X: Array, t: Labels, s: Array | None, offset: Array | None) -> pa.Table:
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
            return np.array([piece.rows.column(f"{letter}{j}").to_numpy() for j in range(count)], dtype=float).T

        s = piece.rows.column("s").to_numpy() if self.weighted else None
        t = piece.rows.column("t").to_numpy().astype(np.int32)
        return Block(as_rows(columns("x", self.M)), t, s, columns("o", self.C) if self.C else None)


def why_no_spark() -> str:
    """Return what Spark lacks on this machine, in a sentence; nothing if it can be used."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'oddsmith[spark]'."
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java, and there is none: install a Java runtime (Debian: default-jre-headless)."
    return ""


def spark_session() -> SparkSession:
    """Return the active Spark session, or a small quiet one of two cores in which a task may fail three times."""
    sessions: type[SparkSession] = import_module("pyspark.sql").SparkSession
    # The executors' Python is this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        # Compiling what runs for a moment takes longer than running it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.python.daemon.module": "oddsmith.engines.spark_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return sessions.getActiveSession() or sessions.builder.master("local[2,4]").config(map=settings).getOrCreate()


def lay_out_spark(table: IntoDataFrame, rows: int) -> DataFrame:
    """Return a table of any library as a Spark DataFrame of partitions of ``rows`` rows, in order.

    The plan gives the same rows whenever it is run.
    """
    session = spark_session()
    arrow = nw.from_native(table, eager_only=True).to_arrow()
    schema = import_module("pyspark.sql.pandas.types").from_arrow_schema(arrow.schema)
    count = max(1, -(-arrow.num_rows // rows))

    # Functions in functions, since those of a module are imported with it, on every executor.
    def slices(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from arrow.slice(number * rows, rows).combine_chunks().to_batches()

    return session.range(0, count, 1, count).mapInArrow(slices, schema)


def spark_source(
    X: Array, t: Labels, K: int, s: Array | None = None, offset: Array | None = None, rows: int = 200
) -> PartedSource:
    """Return arrays as a source of the Spark engine, in partitions of ``rows`` rows: what `check_engine` asks for."""
    M, C, weighted = X.shape[1], 0 if offset is None else offset.shape[1], s is not None

    def as_block(piece: Piece) -> Block:
        def column(name: str) -> Any:
            return piece.rows.column(name).to_numpy()

        Phi = np.column_stack([column(f"x{j}") for j in range(M)])
        offsets = np.column_stack([column(f"o{j}") for j in range(C)]) if C else None
        return Block(as_rows(Phi), column("t"), column("s") if weighted else None, offsets)

    parts = SparkParts.open(lay_out_spark(_table(X, t, s, offset), rows))
    return PartedSource(parts, as_block, n_rows=len(X), M=M, K=K)
