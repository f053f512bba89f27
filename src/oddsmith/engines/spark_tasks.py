"""What Spark's tasks do for a fold: each is called with the Arrow batches of a partition, on an executor.

Rows are kept as pieces in a file, encoded blocks in another beside it. What comes back is a small row: the number of a
partition, how many rows it has, and its statistic, as bytes.
"""

from __future__ import annotations

import gc
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from oddsmith.engines.blas import one_blas_thread
from oddsmith.engines.parted import Job, Piece, as_it_is, merged
from oddsmith.engines.shelf import put, take
from oddsmith.errors import OddsmithError

TOKEN = "part int, rows bigint, name string, unit binary"
"""The row that stands for a partition: the name of what is kept of it, and the files that it is read from, if any."""
ANSWER = "part int, rows bigint, state binary"
"""The row that a partition answers with."""
MANY_OBJECTS = 20_000
"""Beyond so many a collection of garbage takes longer than a small task."""


@dataclass
class _Counted:
    """Batches, and how many rows of them have been taken."""

    batches: Iterable[Any]
    rows: int = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


@dataclass(frozen=True)
class Keep:
    """Writes the pieces of a partition to a file; gives back its token."""

    names: tuple[str, ...]
    cache: str | bool | None
    key: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the token of a partition that has rows."""
        part, counted = _part(), _Counted(batches)
        path = _folder(self.cache, self.key) / f"{part}-{uuid4().hex}"  # two attempts at a task never share a file
        put(path, _pieces(part, counted, self.names))
        if counted.rows:
            yield _record(part=part, rows=counted.rows, name=path.name, unit=None)
        else:
            path.unlink()


@dataclass(frozen=True)
class GiveOut:
    """Gives each partition its unit of files."""

    units: tuple[bytes, ...]
    rows: tuple[int, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the token of a partition."""
        for row in _rows_of(batches):
            part = row["id"]
            yield _record(part=part, rows=self.rows[part], name=str(part), unit=self.units[part])


@dataclass(frozen=True)
class SumKept:
    """Makes the statistic of a partition from what is kept of it; from a unit of files, if nothing is.

    Of a partition that has no unit, and whose file is not on this machine, there is no statistic.
    """

    cache: str | bool | None
    key: str
    job: Job[Any]
    encoding: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield an answer for each token."""
        for token in _rows_of(batches):
            path = _folder(self.cache, self.key) / token["name"]
            there = token["unit"] is not None or path.exists()
            state = _told(partial(self._sum, path), token) if there else None
            yield _record(part=token["part"], rows=token["rows"], state=state)

    def _sum(self, path: Path, token: dict[str, Any]) -> Any:
        def pieces() -> Iterator[Piece]:
            return take(path) if token["unit"] is None else pickle.loads(token["unit"]).pieces(token["part"])

        if not self.encoding:
            return _sum(self.job, pieces())
        blocks = path.with_name(f"{path.name}.{self.encoding}")
        if not blocks.exists():
            for old in path.parent.glob(f"{path.name}.*"):
                if not old.name.startswith(blocks.name):  # another attempt at this task may be writing these
                    old.unlink(missing_ok=True)
            put(blocks, map(self.job.encode, pieces()))
        # Read back even if just made: sums can depend on where in memory an array begins.
        return _sum(replace(self.job, encode=as_it_is), take(blocks))


@dataclass(frozen=True)
class SumRows:
    """Makes the statistic of a partition from the rows that Spark hands over."""

    names: tuple[str, ...]
    job: Job[Any]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the answer of a partition that has rows."""
        part, pieces = _part(), _Counted(batches)
        state = _told(lambda some: _sum(self.job, some), _pieces(part, pieces, self.names))
        if pieces.rows:
            yield _record(part=part, rows=pieces.rows, state=state)


@dataclass(frozen=True)
class Merge:
    """Merges the answers of ``width`` neighbours, which come in order; without one of them there is no answer."""

    width: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield an answer for each run of neighbours."""
        for unit, group in groupby(_rows_of(batches), lambda row: row["part"] // self.width):
            answers = list(group)
            missing = any(row["state"] is None for row in answers)
            state = None if missing else _told(_merged_states, [row["state"] for row in answers])
            yield _record(part=unit, rows=sum(row["rows"] for row in answers), state=state)


@dataclass(frozen=True)
class Drop:
    """Removes all that is kept under a key, on the machines that tokens lead to."""

    cache: str | bool | None
    key: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield nothing."""
        for _ in _rows_of(batches):
            shutil.rmtree(_folder(self.cache, self.key), ignore_errors=True)
        return iter(())


@dataclass(frozen=True)
class Apply:
    """Adds columns to each batch."""

    names: tuple[str, ...]
    function: Callable[[Any], Any]
    added: tuple[str, ...]
    kind: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches with the columns added."""
        arrow = import_module("pyarrow")
        to = {"double": arrow.float64(), "bigint": arrow.int64(), "boolean": arrow.bool_(), "string": arrow.string()}
        for batch in batches:
            columns: list[Any] = [[]] * len(self.added)
            if batch.num_rows:
                with one_blas_thread():
                    values = np.asarray(self.function(_table(batch, self.names)))
                columns = list(values.reshape(batch.num_rows, -1).T)
            if self.kind == "string":
                columns = [[None if one is None else str(one) for one in column] for column in columns]
            made = [arrow.array(column, to[self.kind]) for column in columns]
            yield arrow.RecordBatch.from_arrays([*batch.columns, *made], names=[*self.names, *self.added])


@dataclass(frozen=True)
class _Refusal:
    """An error of ours on its way to the driver: Spark would try again, and lose its type."""

    kind: type[OddsmithError]
    text: str


def _part() -> int:
    number: int = import_module("pyspark").TaskContext.get().partitionId()
    return number


def _folder(cache: str | bool | None, key: str) -> Path:
    return Path(cache if isinstance(cache, str) else import_module("pyspark").SparkFiles.getRootDirectory(), key)


def _table(batch: Any, names: tuple[str, ...]) -> Any:
    """Return a batch as a table with its names, its decimals as floating-point numbers."""
    arrow = import_module("pyarrow")
    table = arrow.Table.from_batches([batch]).rename_columns(list(names))
    for i, column in enumerate(table.schema):
        if arrow.types.is_decimal(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(arrow.float64()))
    return table


def _pieces(part: int, batches: Iterable[Any], names: tuple[str, ...]) -> Iterator[Piece]:
    first = 0
    for number, batch in enumerate(batch for batch in batches if batch.num_rows):
        name = f"partition {part}, rows {first} to {first + batch.num_rows - 1}"
        yield Piece(_table(batch, names), number=(part << 32) + number, name=name)
        first += batch.num_rows


def _rows_of(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    return (row for batch in batches for row in batch.to_pylist())


def _record(**values: Any) -> Any:
    """Return a batch of one row."""
    arrow = import_module("pyarrow")
    types = {"part": arrow.int32(), "rows": arrow.int64(), "name": arrow.string()}
    columns = {name: arrow.array([value], types.get(name, arrow.binary())) for name, value in values.items()}
    return arrow.RecordBatch.from_pydict(columns)


def _sum(job: Job[Any], pieces: Iterable[Any]) -> Any:
    with one_blas_thread():
        total = merged(map(job, pieces), lambda: None)
    _settle()
    return total


def _settle() -> None:
    """Set aside what is loaded, once there is much: Spark collects garbage after each task, among all there is."""
    if len(gc.get_objects(generation=2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


def _merged_states(states: list[bytes]) -> Any:
    return merged(map(opened, states), lambda: None)


def _told(function: Callable[[Any], Any], argument: Any) -> bytes:
    """Return what a function gives, or an error of ours that it raises, as bytes."""
    try:
        answer = function(argument)
    except OddsmithError as error:
        answer = _Refusal(type(error), str(error))
    # Statistics that a user defines in a notebook have no module to be found in.
    told: bytes = import_module("pyspark.cloudpickle").dumps(answer)
    return told


def opened(state: bytes) -> Any:
    """Return the statistic that a task answered with, or raise the error."""
    answer = pickle.loads(state)
    if isinstance(answer, _Refusal):
        raise answer.kind.__new__(answer.kind, answer.text)
    return answer
