"""The Spark tasks of a fold: each is called with the Arrow batches of a partition, on an executor.

Rows are stored as pieces in a file, encoded blocks in another beside it. The result is one small row: the number of a
partition, its row count, and its statistic as bytes. A token represents a partition: the name of its stored data, and
the files from which it is read, if any.

A file is written completely or not at all. It is only for this machine and this run: the process that wrote it reads
it, and arrays in it are memory-mapped, never copied.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias
from uuid import uuid4

import numpy as np

from oddsmith.engines.base import merged
from oddsmith.engines.blas_threads import one_blas_thread
from oddsmith.engines.partitioned import Job, Piece, as_it_is
from oddsmith.errors import OddsmithError

if TYPE_CHECKING:
    import pyarrow as pa


Batches: TypeAlias = "Iterable[pa.RecordBatch]"
TOKEN = "part int, rows bigint, name string, files binary"  # The columns of a token.
RESULT = "part int, rows bigint, state binary"  # The columns of a partition's result.
MANY_OBJECTS = 20_000  # Number of objects from which garbage collection takes longer than a small task.


@dataclass(frozen=True)
class Store:
    """A folder on each executor for the data stored under a key; by default in Spark's own folder."""

    cache: str | bool | None
    key: str

    @property
    def folder(self) -> Path:
        """The folder on this machine."""
        root = self.cache if isinstance(self.cache, str) else import_module("pyspark").SparkFiles.getRootDirectory()
        return Path(root, self.key)


@dataclass
class _Counted:
    """Batches, with a count of the rows consumed."""

    batches: Batches
    rows: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


def store_rows(store: Store, names: tuple[str, ...], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Write the pieces of a partition to a file; yield its token, if it has rows."""
    part, counted = _partition_number(), _Counted(batches)
    path = store.folder / f"{part}-{uuid4().hex}"  # two attempts at a task never share a file
    put(path, _pieces(part, counted, names))
    if counted.rows:
        yield _record(part=part, rows=counted.rows, name=path.name, files=None)
    else:
        path.unlink()


def assign_files(files: tuple[bytes, ...], rows: tuple[int, ...], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the token of a partition read from files."""
    for row in _rows_of(batches):
        part = row["id"]
        yield _record(part=part, rows=rows[part], name=str(part), files=files[part])


def remove_stored(store: Store, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Remove all data stored under a key, on the machines of the tokens."""
    for _ in _rows_of(batches):
        shutil.rmtree(store.folder, ignore_errors=True)
    return iter(())


def fold_stored(store: Store, job: Job[Any], encoding: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the statistic of each token's partition, from its stored data or, if there is none, from files.

    A partition without files whose rows are not stored on this machine yields nothing.
    """
    for token in _rows_of(batches):
        path = store.folder / token["name"]
        found = token["files"] is not None or path.exists()
        state = _dump_result(_fold_token, job, encoding, path, token) if found else None
        yield _record(part=token["part"], rows=token["rows"], state=state)


def _fold_token(job: Job[Any], encoding: str, path: Path, token: dict[str, Any]) -> object:
    def pieces() -> Iterator[Piece]:
        return take(path) if token["files"] is None else pickle.loads(token["files"]).pieces(token["part"])

    if not encoding:
        return _fold(job, pieces())
    blocks = path.with_name(f"{path.name}.{encoding}")
    if not blocks.exists():
        for old in path.parent.glob(f"{path.name}.*"):
            if not old.name.startswith(blocks.name):  # another attempt at this task may be writing these
                old.unlink(missing_ok=True)
        put(blocks, map(job.encode, pieces()))
    # Read back even if just made: sums can depend on where in memory an array begins.
    return _fold(replace(job, encode=as_it_is), take(blocks))


def fold_rows(names: tuple[str, ...], job: Job[Any], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the statistic of a partition from the rows that Spark transfers, if it has any."""
    part, counted = _partition_number(), _Counted(batches)
    state = _dump_result(_fold, job, _pieces(part, counted, names))
    if counted.rows:
        yield _record(part=part, rows=counted.rows, state=state)


def merge_results(width: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Merge the results of ``width`` neighbours, in order; if one is missing, there is no result."""
    for number, group in groupby(_rows_of(batches), lambda row: row["part"] // width):
        results = list(group)
        states = [row["state"] for row in results]
        state = None if None in states else _dump_result(merged, map(load_result, states), lambda: None)
        yield _record(part=number, rows=sum(row["rows"] for row in results), state=state)


def add_columns(
    names: tuple[str, ...], function: Callable[[pa.Table], Any], added: tuple[str, ...], kind: str, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with added columns, of Spark's type ``kind``, computed from the rows."""
    arrow = import_module("pyarrow")
    types = {"double": arrow.float64(), "bigint": arrow.int64(), "boolean": arrow.bool_(), "string": arrow.string()}
    for batch in batches:
        columns: list[Any] = [[]] * len(added)
        if batch.num_rows:
            with one_blas_thread():
                values = np.asarray(function(_table(batch, names)))
            columns = list(values.reshape(batch.num_rows, -1).T)
        if kind == "string":
            columns = [[None if one is None else str(one) for one in column] for column in columns]
        arrays = [arrow.array(column, types[kind]) for column in columns]
        yield arrow.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*names, *added])


def load_result(state: bytes) -> Any:
    """Return the statistic in a task's result, or raise its error."""
    result = pickle.loads(state)
    if isinstance(result, _Refusal):
        raise result.kind.__new__(result.kind, result.text)
    return result


@dataclass(frozen=True)
class _Refusal:
    """One of our errors, sent to the driver as a result: raised, Spark would retry the task and lose the type."""

    kind: type[OddsmithError]
    text: str


def _dump_result(function: Callable[..., object], *arguments: object) -> bytes:
    """Return a function's result, or one of our errors that it raises, as bytes."""
    try:
        result = function(*arguments)
    except OddsmithError as error:
        result = _Refusal(type(error), str(error))
    # Statistics defined in a notebook have no importable module.
    return bytes(import_module("pyspark.cloudpickle").dumps(result))


def _partition_number() -> int:
    return int(import_module("pyspark").TaskContext.get().partitionId())


def _table(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.Table:
    """Return a batch as a table with its names, its decimals as floating-point numbers."""
    arrow = import_module("pyarrow")
    table = arrow.Table.from_batches([batch]).rename_columns(list(names))
    for i, column in enumerate(table.schema):
        if arrow.types.is_decimal(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(arrow.float64()))
    return table


def _pieces(part: int, batches: Batches, names: tuple[str, ...]) -> Iterator[Piece]:
    first = 0
    for number, batch in enumerate(batch for batch in batches if batch.num_rows):
        name = f"partition {part}, rows {first} to {first + batch.num_rows - 1}"
        yield Piece(_table(batch, names), number=(part << 32) + number, name=name)
        first += batch.num_rows


def _rows_of(batches: Batches) -> Iterator[dict[str, Any]]:
    return (row for batch in batches for row in batch.to_pylist())


def _record(**values: object) -> pa.RecordBatch:
    """Return a batch of one row."""
    arrow = import_module("pyarrow")
    types = {"part": arrow.int32(), "rows": arrow.int64(), "name": arrow.string()}
    columns = {name: arrow.array([value], types.get(name, arrow.binary())) for name, value in values.items()}
    return arrow.RecordBatch.from_pydict(columns)


def _fold(job: Job[Any], pieces: Iterable[Piece]) -> object:
    with one_blas_thread():
        total = merged(map(job, pieces), lambda: None)
    # Freeze loaded objects once there are many: Spark collects garbage among all objects after each task.
    if len(gc.get_objects(generation=2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()
    return total


LINE = 64  # Arrays begin at multiples of this, as compiled code likes it; and sums have the same bits at every reading.


def put(path: Path, things: Iterable[Any]) -> int:
    """Write objects to a file, one at a time, and return their number; the file appears when it is complete.

    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     put(Path(folder, "a"), [np.eye(2), "b"]), list(take(Path(folder, "a")))
    (2, [array([[1., 0.], [0., 1.]]), 'b'])
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            index = [_append(file, thing) for thing in things]
            end = file.tell()
            pickle.dump(index, file)
            file.write(end.to_bytes(8, "little"))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return len(index)


def take(path: Path) -> Iterator[Any]:
    """Yield the objects in a file; their arrays are read-only views of it."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        for head, start, spans in pickle.load(file):
            length = spans[-1][1] if spans else 0
            view = memoryview(mmap(file.fileno(), length, access=ACCESS_READ, offset=start) if length else b"")
            yield pickle.loads(head, buffers=[view[i:j] for i, j in spans])


def _append(file: BinaryIO, thing: object) -> tuple[bytes, int, list[tuple[int, int]]]:
    """Write the arrays of an object; return the rest of it, their start, and the offset of each."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
    start = _pad(file, ALLOCATIONGRANULARITY)
    spans = []
    for array in arrays:
        first = _pad(file, LINE) - start
        spans.append((first, first + file.write(array.raw())))
    return head, start, spans


def _pad(file: BinaryIO, step: int) -> int:
    """Fill up to the next multiple of ``step`` and return it."""
    file.write(bytes(-file.tell() % step))
    return file.tell()
