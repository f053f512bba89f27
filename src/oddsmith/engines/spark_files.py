"""Spark DataFrames that consist of Parquet files only: tasks read the files, and no row goes through Java.

Transferring a row from Java to Python costs many times its decoding from Parquet. If the optimised plan is only a scan
of (some columns of) Parquet files, local or mounted, the driver reads their footers and assigns partitions of row
groups. Spark still schedules the tasks and retries failed ones.

All other cases are left to Spark: other plans, formats, file systems and types, files whose columns differ from those
of the DataFrame, and settings that change how Spark reads files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.types as is_

from oddsmith.engines.files.columnar import ParquetTable
from oddsmith.engines.files.paths import InputFile, stat
from oddsmith.engines.files.schemas import row_bytes
from oddsmith.engines.files.table_file import FileRange
from oddsmith.engines.partitioned import Piece
from oddsmith.errors import OddsmithError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JavaObject: TypeAlias = Any  # An object of Spark's Java.
PIECE = 1 << 25  # Bytes of decoded columns that are read, encoded and summed at a time.
LARGEST = 1 << 28  # Bytes of a partition, unless one row group has more.
TYPES = {
    **{"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()},
    **{"float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()},
}
"""Types that every reader interprets in the same way. Dates, times and decimals have several encodings."""
CATALYST, DATASOURCES = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.execution.datasources"
SCAN = {
    "relation": f"{DATASOURCES}.HadoopFsRelation",
    "fileFormat": f"{DATASOURCES}.parquet.ParquetFileFormat",
    "location": f"{DATASOURCES}.InMemoryFileIndex",
}
OPTIONS = {"path", "paths", "basepath", "mergeschema", "pathglobfilter", "recursivefilelookup"}
"""Scan options that select files but do not change how they are read."""
SETTINGS = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
"""Settings with which Spark would skip files, or match columns by something other than their names."""
ENCRYPTION = "parquet.crypto.factory.class"  # A setting with which Spark may read what is encrypted.


@dataclass(frozen=True)
class FilePartition:
    """The input of one task: row groups of neighbouring files, which must be unchanged since they were listed."""

    schema: pa.Schema
    ranges: tuple[FileRange, ...]
    rows: int

    def pieces(self, part: int) -> Iterator[Piece]:
        """Read the rows; an error names a file that is unreadable or has changed."""
        number, size = part << 32, max(1, PIECE // row_bytes(self.schema))
        for each in self.ranges:
            for rows in each.table.read(each, self.schema, size):
                if rows.num_rows:
                    yield Piece(rows, number=number, name=each.name)
                    number += 1


def file_partitions(frame: DataFrame) -> tuple[FilePartition, ...]:
    """Return a DataFrame as partitions of Parquet files; none if it is anything more."""
    schema = _schema(frame)
    files = _files(frame, schema.names) if schema is not None and hasattr(frame, "_jdf") else ()
    if not files:
        return ()
    try:
        with ThreadPoolExecutor(8) as threads:
            tables = list(threads.map(ParquetTable.open, files))
    except OddsmithError:
        return ()  # damaged or encrypted: Spark may read it, or says why not
    if not all(_has_columns(table.schema, schema) for table in tables):
        return ()
    total = row_bytes(schema) * sum(table.expected_rows for table in tables)
    size = min(max(total // (4 * frame.sparkSession.sparkContext.defaultParallelism), PIECE), LARGEST)
    return tuple(_partition(tables, schema, size))


def _partition(tables: list[ParquetTable], schema: pa.Schema, size: int) -> Iterator[FilePartition]:
    """Yield runs of row groups of about ``size`` bytes."""
    run: list[FileRange] = []
    rows = nbytes = 0
    for table in tables:
        light = replace(table, schema=pa.schema([]), decoders={})  # it travels
        for part in table.ranges(tuple(schema.names), PIECE):
            count = sum(table.groups[part.first : part.last])
            if run and count and nbytes + part.nbytes > size:
                yield FilePartition(schema, tuple(run), rows)
                run, rows, nbytes = [], 0, 0
            if count:
                run.append(replace(part, table=light))
                rows, nbytes = rows + count, nbytes + part.nbytes
    if run:
        yield FilePartition(schema, tuple(run), rows)


def _schema(frame: DataFrame) -> pa.Schema | None:
    """Return the Arrow schema of a frame, None if one of its types is unsupported."""
    types = [(column.name, TYPES.get(column.dataType.simpleString())) for column in frame.schema.fields]
    return pa.schema(types) if types and all(type_ is not None for _, type_ in types) else None


def _files(frame: DataFrame, names: list[str]) -> tuple[InputFile, ...]:
    """Return the files that the plan scans, sorted by name; none if it does anything else with them."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    if _class(plan) == f"{CATALYST}.plans.logical.Project":
        chosen = plan.projectList()
        kinds = {_class(chosen.apply(i)) for i in range(chosen.size())}
        if kinds != {f"{CATALYST}.expressions.AttributeReference"}:
            return ()
        plan = plan.child()
    if _class(plan) != f"{DATASOURCES}.LogicalRelation" or _class(plan.relation()) != SCAN["relation"]:
        return ()
    relation = plan.relation()
    if any(_class(getattr(relation, part)()) != SCAN[part] for part in ("fileFormat", "location")):
        return ()
    options = relation.options().keySet().mkString("\n").lower().split()
    if not OPTIONS.issuperset(options) or not _reads_as_usual(frame.sparkSession):
        return ()
    # Keys of folders are no columns of the files; where both have one, Spark takes the key.
    own = set(relation.dataSchema().fieldNames()) - set(relation.partitionSchema().fieldNames())
    if not own.issuperset(names):
        return ()
    return _present(list(relation.location().inputFiles()), relation.location().sizeInBytes())


def _reads_as_usual(session: SparkSession) -> bool:
    """Return whether no setting of Spark or Hadoop changes which rows Spark reads from a file."""
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    encrypted = session.conf.get(ENCRYPTION, None) is not None or hadoop.get(ENCRYPTION) is not None
    return not encrypted and all(str(session.conf.get(name, "false")).lower() == "false" for name in SETTINGS)


def _class(java_object: JavaObject) -> str:
    return str(java_object.getClass().getName())


def _present(addresses: list[str], size: int) -> tuple[InputFile, ...]:
    """Return the files at the given URLs; none unless all are local, unique, and of the size that Spark knows."""
    if not addresses or any(urlsplit(one).scheme != "file" for one in addresses):
        return ()
    paths = sorted(unquote(urlsplit(one).path) for one in addresses)
    root = os.path.commonpath(map(os.path.dirname, paths))
    try:
        files = tuple(stat(path, "parquet", os.path.relpath(path, root), {}) for path in paths)
    except OSError:
        return ()
    alike = len(set(map(os.path.realpath, paths))) == len(paths) and sum(file.size for file in files) == size
    return files if alike and all(file.size for file in files) else ()


def _has_columns(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Return whether a file has each column exactly once, ignoring case, with the expected type."""
    names = [name.lower() for name in found.names]
    return all(
        names.count(column.name.lower()) == 1
        and column.name in found.names
        and _plain(found.field(column.name).type) == column.type
        for column in wanted
    )


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values that Parquet holds, whatever Arrow made of them."""
    if is_.is_dictionary(type_):
        type_ = type_.value_type
    return pa.string() if is_.is_large_string(type_) else type_
