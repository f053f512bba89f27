"""Rows on Spark, for tests of the Spark engine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pytest
from narwhals.typing import IntoDataFrame

from oddsmith.block import Block
from oddsmith.engines.partitioned import PartedSource, Piece
from oddsmith.engines.spark import SparkParts
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import as_rows
from oddsmith.testing.sources import as_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Java starts sooner: what runs for a moment is hardly compiled, and the classes of Spark are not verified.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


def why_no_spark() -> str:
    """Return what Spark lacks on this machine, in a sentence; nothing if it can be used."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'oddsmith[spark]'."
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java, and there is none: install a Java runtime (Debian: default-jre-headless)."
    return ""


def marks_of_spark() -> list[pytest.MarkDecorator]:
    """Return the marks of a module of tests on Spark, or skip it."""
    if missing := why_no_spark():
        pytest.skip(missing, allow_module_level=True)
    ignored = ("ignore:PySpark does not yet fully support pandas:FutureWarning", "ignore::ResourceWarning")
    return [pytest.mark.filterwarnings(text) for text in ignored]


def spark_session() -> SparkSession:
    """Return the active Spark session, or a small quiet one of two cores in which a task may fail three times."""
    sessions: type[SparkSession] = import_module("pyspark.sql").SparkSession
    # The executors' Python is this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.extraJavaOptions": QUICK,
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

    parts = SparkParts.open(lay_out_spark(as_columns(X, t, s, offset), rows))
    return PartedSource(parts, as_block, n_rows=len(X), M=M, K=K)
