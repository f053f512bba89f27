"""The Spark engine: rows leave Spark once, statistics are made where they are, and only sums travel.

Handing rows from Spark's Java to Python costs far more than summing them. So the first pass writes the Arrow batches of
each partition to a file on the disk of its executor, and leaves a *token* in Spark's cache: the name of that file.
Every fold is a map over the tokens, which Spark sends to where they are cached, hence to the files; encoded blocks lie
beside them, memory-mapped. A token that is lost with its executor is made again by Spark from the plan, file and all.
Where the plan is nothing but Parquet files, a token names row groups of them, and tasks read those (`spark_files`).

What comes back of a partition carries its number and its rows. Each must come once, with as many rows as at first, so a
task that ran twice, or a plan that gives other rows when it is run again, never counts a row twice or not at all.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar
from uuid import uuid4
from weakref import finalize

import numpy as np

from oddsmith.engines.base import ENGINES, Progress
from oddsmith.engines.parted import Job, PartedSource, as_it_is, merged
from oddsmith.engines.spark_tasks import ANSWER, TOKEN, Apply, Drop, GiveOut, Keep, Merge, SumKept, SumRows, opened
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.statistic import Statistic

S = TypeVar("S", bound=Statistic)
MOST_ANSWERS = 32
"""So many statistics come back to the driver; where there are more partitions, tasks merge neighbours first."""
SAMPLE_BYTES = 160_000_000
"""Enough for a start near the optimum. A larger sample would travel longer than the pass that it saves."""
PLAIN = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
    *("string", "varchar", "char", "date", "timestamp"),
)
"""How the names of types begin whose columns can be read."""


def is_spark(data: Any) -> bool:
    """Return whether ``data`` is a Spark DataFrame, without importing Spark.

    >>> is_spark(np.eye(2))
    False
    """
    return hasattr(data, "mapInArrow") and type(data).__module__.partition(".")[0] == "pyspark"


@dataclass
class _Held:
    """What Spark holds for a fit: the frame that passes run over, the rows of each partition, the present encoding.

    ``reads`` says that tasks read files themselves.
    """

    frame: Any = None
    rows: dict[int, int] = field(default_factory=dict)
    reads: bool = False
    encode: Any = None
    encoding: str = ""
    end: Any = None


@dataclass(frozen=True, eq=False)
class SparkParts:
    """The partitions of a Spark DataFrame; their Arrow batches are the pieces.

    Nothing is computed before a fold. Make it by `SparkParts.open`, which checks the frame.

    ``cache`` is the folder on the executors that rows are kept in (None: the one that Spark has there and removes at
    the end), or False: then the frame is persisted, unless it already is, and its rows are handed over in each pass.
    ``direct`` is None, or False if Spark shall read Parquet files too.
    """

    frame: Any
    cache: str | bool | None = None
    dtype: str | None = None
    persisted: bool = False
    direct: bool | None = None
    key: str = field(default_factory=lambda: f"oddsmith-{uuid4().hex}")
    _held: _Held = field(default_factory=_Held, repr=False)

    @classmethod
    def open(
        cls,
        frame: Any,
        *,
        cache: str | Path | bool | None = None,
        dtype: str | None = None,
        direct: bool | None = None,
    ) -> SparkParts:
        """Return the pieces of a Spark DataFrame.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
            The rows. Its plan should give the same rows whenever it is run: read files or tables, sort before `limit`,
            give seeds to `rand`.
        cache : path or bool, optional
            A folder on the executors for the rows, by default Spark's own; False to keep none there.
        dtype : str, optional
            ``"float32"`` halves the encoded blocks.
        direct : bool, optional
            A frame that is nothing but Parquet files, local or mounted on all executors, is read by the tasks
            themselves, several times faster than Spark hands rows over. False: never.
        """
        if not is_spark(frame):
            raise InvalidTypeError(f"Found a {type(frame).__name__} where a Spark DataFrame was expected.")
        if frame.isStreaming:
            raise InvalidInputError(
                "This Spark DataFrame is a stream, and a fit reads the rows several times. Write the stream to a "
                "table, or fit each batch in foreachBatch."
            )
        names = frame.columns
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"Two columns have the name {twice!r}. Give every column a name of its own.")
        level = frame.storageLevel
        folder = cache if cache is None or cache is False else None if cache is True else str(cache)
        return cls(frame, folder, dtype, bool(level.useMemory or level.useDisk), direct)

    @property
    def engine(self) -> SparkEngine:
        """The engine that folds over these pieces."""
        return SparkEngine()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.frame.columns)

    @property
    def expected_rows(self) -> int:
        """The number of rows; the first fold's reading is done now, if it was not yet."""
        return sum(self._rows().values())

    @property
    def memory(self) -> int:
        """How many bytes the sample that comes to the driver may take, with all that is made of it."""
        return SAMPLE_BYTES

    def choose(self, columns: Iterable[str]) -> SparkParts:
        """Return the same rows with only these columns read, in this order; the others never leave Spark."""
        wanted = tuple(columns)
        if wanted == self.columns:
            return self
        for name in wanted:
            if name not in self.columns:
                known = ", ".join(map(repr, self.columns))
                raise InvalidInputError(f"There is no column {name!r}. The Spark DataFrame has: {known}.")
        chosen = self.frame.select([_quoted(name) for name in wanted])
        return SparkParts(chosen, self.cache, self.dtype, self.persisted, self.direct)

    def release(self) -> None:
        """Let go of what is held on the executors. It happens by itself when nobody holds the parts any more."""
        held = self._held
        held.frame = None
        if held.end is not None and (ending := held.end.detach()):
            _let_go(*ending[2])

    def _rows(self) -> dict[int, int]:
        """Return the number of rows of each partition that has some, holding them first."""
        held = self._held
        if held.frame is None:
            with _sentences():
                held.frame, held.rows = self._hold()
        return held.rows

    def _hold(self) -> tuple[Any, dict[int, int]]:
        """Return the frame that passes run over, made and kept, and the rows of each partition."""
        for column in self.frame.schema.fields:
            _check_type(column)
        rows = _with_safe_names(self.frame)
        storage = import_module("pyspark").StorageLevel.MEMORY_AND_DISK
        units = () if self.direct is False else import_module("oddsmith.engines.spark_files").find_units(self.frame)
        self._held.reads = bool(units)
        drop = None if self.cache is False else Drop(self.cache, self.key)
        if units:
            counts = [unit.rows for unit in units]
            given = GiveOut(tuple(map(pickle.dumps, units)), tuple(counts))
            frame = (
                self.frame.sparkSession.range(0, len(units), 1, len(units)).mapInArrow(given, TOKEN).persist(storage)
            )
        elif drop is not None:
            frame = rows.mapInArrow(Keep(self.columns, self.cache, self.key), TOKEN).persist(storage)
        else:
            frame = rows if self.persisted else rows.persist(storage)
        # In a thread: objects may be collected in the middle of a call to Java.
        self._held.end = finalize(self._held, _in_a_thread, frame, drop, self.persisted and not units)
        self._held.end.atexit = False
        if units:
            return frame, dict(enumerate(counts))
        if drop is not None:
            counts = frame.select("part", "rows").collect()
        else:
            counts = frame.groupBy(import_module("pyspark.sql.functions").spark_partition_id()).count().collect()
        return frame, {part: count for part, count in sorted(counts) if count}

    def _hold_again(self) -> None:
        """Read the frame again: a file is gone with its executor or its disk, though its token is not."""
        before = self._held.rows
        self.release()
        if self._rows() != before:
            raise _changed("The frame", sum(before.values()), self.expected_rows)

    def _answers(self, job: Job[Any]) -> list[Any]:
        """Return the statistics of all partitions, or of runs of neighbours, in order."""
        rows, held = self._rows(), self._held
        width = -(-(max(rows, default=0) + 1) // MOST_ANSWERS)
        due: Counter[int] = Counter()
        for part, count in rows.items():
            due[part // width] += count
        if job.encode is not as_it_is and held.encode is not job.encode:
            held.encode, held.encoding = job.encode, uuid4().hex
        streams = self.cache is False
        encoding = "" if streams or job.encode is as_it_is else held.encoding
        hands = streams and not held.reads
        task = SumRows(self.columns, job) if hands else SumKept(self.cache, self.key, job, encoding)
        found: dict[int, Any] = {}
        for attempt in range(3):
            if attempt == 2:
                self._hold_again()
            with _sentences():
                missing = sorted(due.keys() - found.keys()) if attempt else None
                answers = _collect(held.frame, task, width, missing)
            found |= _checked(answers, due)
            if len(found) == len(due):
                return [found[unit] for unit in sorted(found)]
        raise OddsmithError(
            "Rows that were kept on an executor are not there when they are looked for. Pass cache=False, so that "
            "Spark hands them over in each pass."
        )


@ENGINES.register("spark")
@dataclass(frozen=True)
class SparkEngine:
    """Folds over the partitions of a Spark DataFrame, on its executors.

    1. The rows are handed to Python once, and kept in files on the executors' disks.
    2. Encoded blocks are made once for a fit and kept beside them.
    3. The job (statistic, parameters) goes out with the stage, once to each executor; the statistic of a partition is
       made where its file is; beyond 32 partitions, neighbours are merged by tasks; the driver merges in order.

    Which statistics are merged with which follows from the number of partitions alone. Cost of a pass: one Spark job
    whose tasks each read their part of the kept blocks, at the speed of memory where they are still in it.
    """

    name: str = "spark"

    def fold(self, statistic: type[S], source: PartedSource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the merge of the statistics of all partitions, in the order of their numbers."""
        parts: SparkParts = source.parts

        def answers() -> Iterator[S]:
            found = parts._answers(source.job(statistic, params))
            for done, answer in enumerate(found, 1):
                yield answer
                if progress is not None:
                    progress(done, len(found))

        try:
            return merged(answers(), lambda: statistic.zero(source.shape, params))
        except BaseException:
            parts.release()
            raise


def apply(frame: Any, function: Callable[[Any], Any], names: str | Sequence[str], dtype: Any) -> Any:
    """Return a Spark DataFrame with columns added that are a function of its rows, lazily, a batch at a time.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    function : callable
        From rows (an Arrow table) to n values, or n × K of them.
    names : str or sequence of str
        Of the column, or of the K columns.
    dtype : data type
        That of the values: floats become ``double``, whole numbers ``bigint``, the rest ``boolean`` or ``string``.
    """
    types = import_module("pyspark.sql.types")
    added = [names] if isinstance(names, str) else list(names)
    for name in added:
        if name in frame.columns:
            raise InvalidInputError(
                f"The Spark DataFrame has a column {name!r} already, and predictions are to be added under that name. "
                "Rename or drop that column first."
            )
    kind = {"f": "double", "i": "bigint", "u": "bigint", "b": "boolean"}.get(np.dtype(dtype).kind, "string")
    fields = [types.StructField(name, types._parse_datatype_string(kind)) for name in added]
    task = Apply(tuple(frame.columns), function, tuple(added), kind)
    return _with_safe_names(frame).mapInArrow(task, types.StructType([*frame.schema.fields, *fields]))


def _collect(frame: Any, task: Any, width: int, units: list[int] | None) -> list[Any]:
    """Run a task over the partitions of a frame, or of some units of ``width`` neighbours; return what comes back."""
    unit = f"int(part / {width})"
    if units is not None:
        frame = frame.where(f"{unit} in ({', '.join(map(str, units))})")
    answers = frame.mapInArrow(task, ANSWER)
    if width > 1:
        functions = import_module("pyspark.sql.functions")
        answers = answers.repartition(MOST_ANSWERS, functions.expr(unit)).sortWithinPartitions("part")
        answers = answers.mapInArrow(Merge(width), ANSWER)
    return sorted(answers.collect(), key=lambda row: row[0])


def _checked(answers: list[Any], due: dict[int, int]) -> dict[int, Any]:
    """Return the answers that are there by unit, if each came once and has the rows that are due."""
    found: dict[int, Any] = {}
    for unit, rows, state in answers:
        answer = None if state is None else opened(bytes(state))
        if rows != due.get(unit) or unit in found:
            raise _changed(f"Partition {unit}", due.get(unit, 0), rows)
        if state is not None:
            found[unit] = answer
    return found


def _changed(what: str, before: int, now: int) -> InvalidInputError:
    return InvalidInputError(
        f"{what} had {before} rows when it was first read and has {now} now: its plan gives other rows each time. "
        "Write the DataFrame to a table or checkpoint() it, and fit that; or give seeds to what is random in it."
    )


def _with_safe_names(frame: Any) -> Any:
    """Return a frame that Spark can map: it takes the dot in a name for a path. Tasks know the names."""
    odd = any("." in name or "`" in name for name in frame.columns)
    return frame.toDF(*[f"column_{i}" for i in range(len(frame.columns))]) if odd else frame


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_type(column: Any) -> None:
    """Refuse a column that holds no single values."""
    if not column.dataType.typeName().startswith(PLAIN):
        raise InvalidInputError(
            f"Column {column.name!r} is of Spark's type {column.dataType.simpleString()}, and numbers, words, dates or "
            "truth values were expected. Leave it out, or make columns of what it holds with select()."
        )


def _in_a_thread(*arguments: Any) -> None:
    Thread(target=_let_go, args=arguments, daemon=True).start()


def _let_go(frame: Any, drop: Drop | None, persisted: bool) -> None:
    """Remove files, and the frame from Spark's cache; a session that has ended has done so itself."""
    with suppress(Exception):
        if drop is not None:
            frame.mapInArrow(drop, TOKEN).collect()
        if drop is not None or not persisted:
            frame.unpersist()


@contextmanager
def _sentences() -> Iterator[None]:
    """Say in a sentence what Spark says in a page."""
    try:
        yield
    except OddsmithError:
        raise
    except Exception as error:
        text = str(error)
        if "No module named" in text:
            module = text.partition("No module named ")[2].split()[0].strip("'\"")
            raise OddsmithError(
                f"The Python of Spark's executors has no module {module!r}. Install oddsmith[spark] there, or name a "
                "Python that has it in the environment variable PYSPARK_PYTHON before the session is made."
            ) from error
        if unread := re.search(r"error while reading file (\S+?)\.?\s", text):
            raise InvalidInputError(
                f"{unread[1]} cannot be read by Spark. Nothing was fitted. Write the file again, or leave it out."
            ) from error
        if "No space left on device" in text:
            raise OddsmithError(
                "The disk of an executor is full. Name a folder on a larger one with cache='/folder', or pass "
                "cache=False, so that Spark hands the rows over in each pass."
            ) from error
        raise
