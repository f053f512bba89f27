"""Rows on Spark, for tests of the Spark engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import narwhals as nw
import numpy as np

from oddsmith.block import Block
from oddsmith.engines.parted import PartedSource, Piece
from oddsmith.engines.spark import SparkParts


def lay_out_spark(table: Any, rows: int, session: Any = None) -> Any:
    """Return a table of any library as a Spark DataFrame of partitions of ``rows`` rows, in order.

    ``session`` is by default the one that is active. The plan gives the same rows whenever it is run.
    """
    session = session or import_module("pyspark.sql").SparkSession.getActiveSession()
    arrow = nw.from_native(table, eager_only=True).to_arrow()
    schema = import_module("pyspark.sql.pandas.types").from_arrow_schema(arrow.schema)
    count = max(1, -(-arrow.num_rows // rows))
    return session.range(0, count, 1, count).mapInArrow(_Slices(arrow, rows), schema)


def spark_source(X: Any, t: Any, K: int, s: Any = None, offset: Any = None, rows: int = 200) -> PartedSource:
    """Return arrays as a source of the Spark engine, in partitions of ``rows`` rows: what `check_engine` asks for."""
    offsets = [] if offset is None else list(offset.T)
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {f"o{j}": o for j, o in enumerate(offsets)}
    table = import_module("pyarrow").table(columns | {"t": t} | ({} if s is None else {"s": s}))
    encode = _AsBlock(X.shape[1], len(offsets), s is not None)
    return PartedSource(SparkParts.open(lay_out_spark(table, rows)), encode, n_rows=len(X), M=X.shape[1], K=K)


@dataclass(frozen=True)
class _Slices:
    """Gives each partition its rows of a table."""

    table: Any
    rows: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.table.slice(number * self.rows, self.rows).combine_chunks().to_batches()


@dataclass(frozen=True)
class _AsBlock:
    """The encoding of tables that were made of arrays."""

    M: int
    C: int
    weighted: bool

    def __call__(self, piece: Piece) -> Block:
        def column(name: str) -> Any:
            return piece.rows.column(name).to_numpy()

        X, offset = (np.column_stack([column(f"{k}{j}") for j in range(n)]) for k, n in (("x", self.M), ("o", self.C)))
        return Block(X, column("t"), column("s") if self.weighted else None, offset)
