"""The Spark engine: rows leave Spark once, executors compute statistics, and only sums are transferred.

Transferring rows from Java to Python costs far more than summing them. So the first pass writes the Arrow batches of
each partition to a file on its executor's disk, and puts a *token*, the name of that file, into Spark's cache. Every
fold is a map over the tokens, which Spark schedules where they are cached, next to the files; encoded blocks are stored
beside them and memory-mapped. If a token is lost with its executor, Spark recomputes it from the plan, including the
file. If the plan consists of Parquet files only, a token names row groups, and tasks read those (`spark_files`).

The result of a partition carries its number and row count. Each must arrive once, with the original number of rows, so
a task that ran twice, or a plan that gives different rows when it runs again, never counts a row twice or not at all.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard
from uuid import uuid4
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oddsmith.engines import spark_tasks as tasks
from oddsmith.engines.base import ENGINES, Progress, S, merged
from oddsmith.engines.partitioned import Job, PartedSource, Piece, as_it_is, check_columns
from oddsmith.engines.scan import SAMPLE_BYTES, comes_from, explaining, offers
from oddsmith.engines.spark_tasks import RESULT, TOKEN, Store
from oddsmith.engines.text_formats import SAMPLED_ROWS
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task: TypeAlias = Callable[[tasks.Batches], Any]  # From the Arrow batches of a partition to those that come back.
MOST_RESULTS = 32
"""Maximum number of statistics returned to the driver; with more partitions, tasks merge neighbours first."""
PLAIN = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
    *("string", "varchar", "char", "date", "timestamp"),
)
"""Prefixes of the supported type names."""


def is_spark(data: object) -> TypeGuard[DataFrame]:
    """Return whether ``data`` is a Spark DataFrame, without importing Spark.

    >>> is_spark(np.eye(2))
    False
    """
    return comes_from(data, "pyspark") and offers(data, "mapInArrow")


@dataclass(kw_only=True)
class _CachedFrame:
    """The cached data of a fit: the frame of its passes, rows by partition, the encoding, and who reads files."""

    frame: DataFrame | None = None
    rows: dict[int, int] = field(default_factory=dict)
    reads_files: bool = False
    encode: Callable[[Piece], Any] | None = None
    encoding: str = ""
    finalizer: finalize[..., _CachedFrame] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkParts:
    """The partitions of a Spark DataFrame; their Arrow batches are the pieces; see `SparkParts.open`.

    Nothing is computed before a fold.
    """

    frame: DataFrame
    cache: str | bool | None = None
    dtype: str | None = None
    persisted: bool = False
    direct: bool | None = None
    memory: ClassVar[int] = SAMPLE_BYTES
    key: str = field(default_factory=lambda: f"oddsmith-{uuid4().hex}")
    _cached: _CachedFrame = field(default_factory=_CachedFrame, repr=False)

    @classmethod
    def open(
        cls,
        frame: object,
        *,
        cache: str | Path | bool | None = None,
        dtype: str | None = None,
        direct: bool | None = None,
    ) -> SparkParts:
        """Return the pieces of a Spark DataFrame, whose plan must give the same rows each time it runs.

        ``cache`` is a folder on the executors for the rows, by default Spark's own, which Spark removes at the end;
        with False, no files are written: the frame is persisted, unless it already is, and its rows are transferred in
        each pass. ``dtype="float32"`` halves the encoded blocks. If a frame consists of Parquet files only, local or
        mounted on all executors, the tasks read them directly, several times faster, unless ``direct`` is False.
        """
        if not is_spark(frame):
            raise InvalidTypeError(f"Found a {type(frame).__name__} where a Spark DataFrame was expected.")
        if frame.isStreaming:
            raise InvalidInputError(
                "This Spark DataFrame is a stream, but a fit reads the rows several times. Write the stream to a "
                "table, or fit each batch in foreachBatch."
            )
        names = frame.columns
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"Two columns have the name {twice!r}. Give every column a unique name.")
        level = frame.storageLevel
        folder = cache if cache is None or cache is False else None if cache is True else str(cache)
        persisted = bool(level.useMemory or level.useDisk)
        return cls(frame=frame, cache=folder, dtype=dtype, persisted=persisted, direct=direct)

    @property
    def engine(self) -> SparkEngine:
        return SparkEngine()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    @property
    def expected_rows(self) -> int:
        """The number of rows; reads them now if the first fold has not."""
        return sum(self._rows().values())

    def choose(self, columns: Iterable[str]) -> SparkParts:
        wanted = tuple(columns)
        if wanted == self.columns:
            return self
        check_columns(wanted, self.columns, "The Spark DataFrame has")
        chosen = self.frame.select(["`" + name.replace("`", "``") + "`" for name in wanted])
        return replace(self, frame=chosen, key=f"oddsmith-{uuid4().hex}", _cached=_CachedFrame())

    def text_sample(self, columns: Sequence[str]) -> Any:
        """Return the first rows of the text columns, None if there are none."""
        texts = [name for name, kind in self.frame.dtypes if kind == "string" and name in columns]
        if not texts:
            return None
        rows = self.choose(texts).frame.limit(SAMPLED_ROWS).collect()
        return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(texts)})

    def release(self) -> None:
        """Release the data on the executors; also happens when the parts are garbage-collected."""
        self._cached.frame = None
        if self._cached.finalizer is not None and (pending := self._cached.finalizer.detach()):
            _uncache(*pending[2])

    @property
    def _store(self) -> Store:
        return Store(self.cache, self.key)

    def _rows(self) -> dict[int, int]:
        """Return the number of rows of each non-empty partition, caching them first."""
        cached = self._cached
        if cached.frame is None:
            with explaining(_explain):
                cached.frame, cached.rows = self._cache_frame()
        return cached.rows

    def _cache_frame(self) -> tuple[DataFrame, dict[int, int]]:
        """Return the cached frame of the passes, and the rows of each partition."""
        for column in self.frame.schema.fields:
            if not column.dataType.typeName().startswith(PLAIN):
                raise InvalidInputError(
                    f"Column {column.name!r} has the Spark type {column.dataType.simpleString()}; expected numbers, "
                    "text, dates or booleans. Leave it out, or extract columns from it with select()."
                )
        rows = _with_safe_names(self.frame)
        level = import_module("pyspark").StorageLevel.MEMORY_AND_DISK
        files = ()
        if self.direct is not False:
            files = import_module("oddsmith.engines.spark_files").file_partitions(self.frame)
        self._cached.reads_files = bool(files)
        stores = self.cache is not False
        if files:
            counts = tuple(part.rows for part in files)
            task: Task = partial(tasks.assign_files, tuple(map(pickle.dumps, files)), counts)
            frame = self.frame.sparkSession.range(0, len(files), 1, len(files)).mapInArrow(task, TOKEN).persist(level)
        elif stores:
            frame = rows.mapInArrow(partial(tasks.store_rows, self._store, self.columns), TOKEN).persist(level)
        else:
            frame = rows if self.persisted else rows.persist(level)
        # In a thread: objects may be collected in the middle of a call to Java.
        uncached = (frame, self._store if stores else None, self.persisted and not files)
        self._cached.finalizer = finalize(self._cached, _uncache_in_a_thread, *uncached)
        self._cached.finalizer.atexit = False
        if files:
            return frame, dict(enumerate(counts))
        if stores:
            found = frame.select("part", "rows").collect()
        else:
            found = frame.groupBy(import_module("pyspark.sql.functions").spark_partition_id()).count().collect()
        return frame, {part: count for part, count in sorted(found) if count}

    def _fold(self, job: Job[S]) -> list[S]:
        """Return the statistics of all partitions, or of runs of neighbours, in order."""
        rows, cached = self._rows(), self._cached
        width = -(-(max(rows, default=0) + 1) // MOST_RESULTS)
        expected: Counter[int] = Counter()
        for part, count in rows.items():
            expected[part // width] += count
        if job.encode is not as_it_is and cached.encode is not job.encode:
            cached.encode, cached.encoding = job.encode, uuid4().hex
        if self.cache is False and not cached.reads_files:
            task: Task = partial(tasks.fold_rows, self.columns, job)
        else:
            encoding = "" if self.cache is False or job.encode is as_it_is else cached.encoding
            task = partial(tasks.fold_stored, self._store, job, encoding)
        found: dict[int, Any] = {}
        for attempt in range(3):
            if attempt == 2:  # a file is gone with its executor or its disk, though its token is not
                self.release()
                if self._rows() != rows:
                    raise _changed("The frame", sum(rows.values()), self.expected_rows)
            with explaining(_explain):
                missing = sorted(expected.keys() - found.keys()) if attempt else None
                results = _collect(cached.frame, task, width, missing)
            found |= _checked(results, expected)
            if len(found) == len(expected):
                return [found[number] for number in sorted(found)]
        raise OddsmithError(
            "Rows cached on an executor are missing. Pass cache=False, so that Spark transfers them in each pass."
        )


@ENGINES.register("spark")
@dataclass(frozen=True)
class SparkEngine:
    """Folds over the partitions of a Spark DataFrame, on its executors.

    1. The rows are transferred to Python once, and stored in files on the executors' disks.
    2. Encoded blocks are computed once for a fit and stored beside them.
    3. The job (statistic, parameters) is sent with the stage, once to each executor; the statistic of a partition is
       computed where its file is; beyond 32 partitions, tasks merge neighbours; the driver merges in order.

    The merge order depends only on the number of partitions. Cost of a pass: one Spark job whose tasks each read their
    part of the stored blocks, at memory speed if they are cached by the system.
    """

    name: str = "spark"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        parts: SparkParts = source.parts
        try:
            found = parts._fold(source.job(statistic, params))
            return merged(found, lambda: statistic.zero(source.shape, params), progress, len(found))
        except BaseException:
            parts.release()
            raise


def apply(
    frame: DataFrame, function: Callable[[Any], Any], names: str | Sequence[str], dtype: npt.DTypeLike
) -> DataFrame:
    """Return a Spark DataFrame with added columns, a lazy function of its rows, one batch at a time.

    ``function`` maps rows (an Arrow table) to n or n × K values; ``names`` are the names of the columns.
    """
    types = import_module("pyspark.sql.types")
    added = [names] if isinstance(names, str) else list(names)
    for name in added:
        if name in frame.columns:
            raise InvalidInputError(
                f"The Spark DataFrame already has a column {name!r}, which is the name of a prediction column. Rename "
                "or drop it first."
            )
    kind = {"f": "double", "i": "bigint", "u": "bigint", "b": "boolean"}.get(np.dtype(dtype).kind, "string")
    fields = [types.StructField(name, types._parse_datatype_string(kind)) for name in added]
    task = partial(tasks.add_columns, tuple(frame.columns), function, tuple(added), kind)
    return _with_safe_names(frame).mapInArrow(task, types.StructType([*frame.schema.fields, *fields]))


def _collect(frame: DataFrame | None, task: Task, width: int, numbers: list[int] | None) -> list[Any]:
    """Run a task over the partitions of a frame, or over some runs of ``width`` neighbours; return the results."""
    assert frame is not None
    number = f"int(part / {width})"
    if numbers is not None:
        frame = frame.where(f"{number} in ({', '.join(map(str, numbers))})")
    results = frame.mapInArrow(task, RESULT)
    if width > 1:
        by_number = import_module("pyspark.sql.functions").expr(number)
        results = results.repartition(MOST_RESULTS, by_number).sortWithinPartitions("part")
        results = results.mapInArrow(partial(tasks.merge_results, width), RESULT)
    return sorted(results.collect(), key=lambda row: row[0])


def _checked(results: list[Any], expected: dict[int, int]) -> dict[int, Any]:
    """Return the results by number, if each arrived once with the expected number of rows."""
    found: dict[int, Any] = {}
    for number, rows, state in results:
        result = None if state is None else tasks.load_result(bytes(state))
        if rows != expected.get(number) or number in found:
            raise _changed(f"Partition {number}", expected.get(number, 0), rows)
        if state is not None:
            found[number] = result
    return found


def _changed(what: str, before: int, now: int) -> InvalidInputError:
    return InvalidInputError(
        f"{what} had {before} rows when it was first read and has {now} now: its plan gives different rows each "
        "time. Write the DataFrame to a table or checkpoint() it, and fit that; or set the random seeds in it."
    )


def _with_safe_names(frame: DataFrame) -> DataFrame:
    """Return a frame with names that Spark can map: it interprets a dot as a path. Tasks know the original names."""
    odd = any("." in name or "`" in name for name in frame.columns)
    return frame.toDF(*[f"column_{i}" for i in range(len(frame.columns))]) if odd else frame


def _uncache_in_a_thread(*arguments: object) -> None:
    Thread(target=_uncache, args=arguments, daemon=True).start()


def _uncache(frame: DataFrame, store: Store | None, persisted: bool) -> None:
    """Remove the files, and the frame from Spark's cache; an ended session has already done so."""
    with suppress(Exception):
        if store is not None:
            frame.mapInArrow(partial(tasks.remove_stored, store), TOKEN).collect()
        if store is not None or not persisted:
            frame.unpersist()


def _explain(error: Exception) -> OddsmithError | None:
    """Raise a helpful error in place of Spark's."""
    text = str(error)
    if "No module named" in text:
        module = text.partition("No module named ")[2].split()[0].strip("'\"")
        return OddsmithError(
            f"The Python of Spark's executors has no module {module!r}. Install oddsmith[spark] there, or set the "
            "environment variable PYSPARK_PYTHON to a Python that has it before creating the session."
        )
    if unread := re.search(r"error while reading file (\S+?)\.?\s", text):
        return InvalidInputError(
            f"{unread[1]} cannot be read by Spark. Nothing was fitted. Write the file again, or leave it out."
        )
    if "No space left on device" in text:
        return OddsmithError(
            "The disk of an executor is full. Choose a folder on a larger disk with cache='/folder', or pass "
            "cache=False, so that Spark transfers the rows in each pass."
        )
    return None
