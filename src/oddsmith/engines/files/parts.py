"""Tables in files as pieces: which there are, how each is read, and what is kept of them between passes."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from oddsmith import __version__
from oddsmith.engines.files.columnar import ArrowTable, ParquetTable, row_bytes
from oddsmith.engines.files.datasets import Scanned, from_dataset, is_dataset
from oddsmith.engines.files.engine import FilesEngine, Spread
from oddsmith.engines.files.extents import Extent, TableFile
from oddsmith.engines.files.finding import Found, find
from oddsmith.engines.files.keeping import Chapter, Disk, Room
from oddsmith.engines.files.schemas import common, key_types, unified
from oddsmith.engines.files.settings import Settings
from oddsmith.engines.files.text import TextTable, WiderError
from oddsmith.engines.parted import Piece
from oddsmith.errors import InvalidInputError

_counter = count()

INDEX = "__index_level_"
"""How pandas calls an index without a name in a Parquet file: no column of the table."""


@dataclass(frozen=True)
class Task:
    """What one thread reads and sums at a time: an extent, or several small ones."""

    number: int
    extents: tuple[Extent, ...]

    @property
    def name(self) -> str:
        """Where the rows are."""
        first, last = self.extents[0].name, self.extents[-1].name
        return first if len(self.extents) == 1 else f"{first} to {last}"

    @property
    def nbytes(self) -> int:
        """About how much memory the rows take."""
        return sum(extent.nbytes for extent in self.extents)


@dataclass
class _State:
    """What is learned and kept on the way: common types, tables, and the blocks of the last encoding."""

    room: Room
    schema: Any = None
    n_tasks: int | None = None
    tables: Chapter = field(init=False)
    blocks: Chapter | None = None
    encode: Any = None
    disk: Disk | None = None
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.tables = Chapter(self.room)


@dataclass(frozen=True)
class FileParts:
    """Tables in files, to be folded over piece by piece; see `FileParts.open`.

    Nothing is read but headers and footers until a fold begins. What is kept between passes goes with the object.
    """

    files: tuple[TableFile, ...]
    columns: tuple[str, ...]
    settings: Settings
    _state: _State = field(compare=False, repr=False)

    @classmethod
    def open(
        cls,
        data: Any,
        *,
        memory: Any = "1GB",
        cache: Any = None,
        dtype: Any = None,
        threads: int | None = None,
        format: str | None = None,
        types: Mapping[str, Any] | None = None,
        piece_rows: int | None = None,
    ) -> FileParts:
        """Find files and learn their columns.

        Parameters
        ----------
        data : path, folder, glob, list of these, or pyarrow.dataset.Dataset
            Parquet, CSV (also compressed) or Arrow files. Folders are read with all that is in them but names that
            begin with a dot or an underscore; ``key=value`` folders give a column ``key``.
        memory : str or int
            Most bytes for reading, encoding and keeping rows, beside what the process takes anyway.
        cache : None, True, False or path
            Where encoded rows go that ``memory`` cannot keep. True: a temporary folder, removed with this object.
            A path: a folder that stays, and is used again for the same files, columns and model (what a dataset reads
            by itself, as with a filter, is removed from it). None: a temporary folder for text, which is slow to read,
            nothing for Parquet and Arrow.
        dtype : "float32", optional
            Round encoded rows to float32: half the memory; sums are still float64.
        threads : int, optional
            Default: the cores that this process may use.
        format : "parquet", "csv" or "arrow", optional
            Where the names of the files do not say it.
        types : mapping, optional
            Arrow types of columns in CSV files, where the first rows mislead: ``{"zip": pyarrow.string()}``.
        piece_rows : int, optional
            Most rows of a piece; default: by its bytes.

        >>> import tempfile
        >>> from pyarrow import parquet
        >>> path = f"{tempfile.mkdtemp()}/a.parquet"
        >>> parquet.write_table(pa.table({"x": [1.0, 2.0], "y": ["no", "yes"]}), path)
        >>> parts = FileParts.open(path)
        >>> parts.columns, parts.expected_rows
        (('x', 'y'), 2)
        """
        settings = Settings.read(memory, cache, dtype, threads, piece_rows)
        if is_dataset(data):
            files, names = _alike(from_dataset(data)), tuple(data.schema.names)
        else:
            files = _alike(_open_all(find(data, format), types))
            names = _names(files)
        return cls(files, names, settings, _State(_room(files, names, settings)))

    @property
    def engine(self) -> FilesEngine:
        """The engine that folds over them."""
        return FilesEngine(self.settings.threads)

    @property
    def memory(self) -> int:
        """Most bytes for reading, encoding and keeping rows."""
        return self.settings.memory

    @property
    def expected_rows(self) -> int:
        """The number of rows: exact for Parquet and Arrow files, by the length of the first ones for text."""
        return sum(file.expected_rows for file in self.files)

    @property
    def dtype(self) -> str | None:
        """The type that encoded rows are rounded to, where one was asked for."""
        return None if self.settings.dtype is None else str(np.dtype(self.settings.dtype))

    def choose(self, columns: Iterable[str]) -> FileParts:
        """Return the same files with only these columns read, in this order.

        What is kept is not shared: choose before the first fold.
        """
        names = tuple(columns)
        for name in names:
            if name not in self.columns:
                raise InvalidInputError(f"There is no column {name!r}. The files have: {_listed(self.columns)}.")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"Column {twice!r} is chosen twice.")
        return replace(self, columns=names, _state=_State(_room(self.files, names, self.settings)))

    @property
    def fingerprint(self) -> str | None:
        """A digest of names, sizes and times of the files, of the columns, and of how rows are cut into pieces.

        None where a dataset reads the files (with a filter, say), and nobody knows what is in it.
        """
        if any(isinstance(file, Scanned) for file in self.files):
            return None
        files = [(file.found.name, file.found.size, file.found.time) for file in self.files]
        types = [str(schema) for schema in {id(file.schema): file.schema for file in self.files}.values()]
        cut = (self.settings.piece, self.settings.piece_rows, str(self.settings.dtype))
        return hashlib.sha256(json.dumps([files, types, self.columns, cut]).encode()).hexdigest()

    @property
    def schema(self) -> Any:
        """The columns and the types that every piece has; files that do not fit together are refused here."""
        if self._state.schema is None:
            keys = key_types(file.found.keys for file in self.files)
            schemas = [(file.found.name, _with_keys(file, keys)) for file in self.files]
            self._state.schema = unified(schemas, self.columns)
        return self._state.schema

    def tasks(self, *, needed: bool = True) -> Iterator[Task]:
        """Yield the files in tasks; small extents are put together. They are the same ones every time."""
        group: list[Extent] = []
        number = total = 0
        for file in self.files:
            size = self.settings.piece // 2 if file.is_text else self.settings.piece
            for extent in file.extents(self.columns, size, needed=needed):
                if group and total + extent.nbytes > self.settings.piece:
                    yield Task(number, tuple(group))
                    group, total, number = [], 0, number + 1
                group.append(extent)
                total += extent.nbytes
        if group:
            yield Task(number, tuple(group))
            number += 1
        self._state.n_tasks = number

    @property
    def expected_tasks(self) -> int:
        """The number of tasks: exact when they have been gone through once."""
        if self._state.n_tasks is None and not any(file.is_text for file in self.files):
            return sum(1 for _ in self.tasks())
        size = sum(file.found.size for file in self.files)
        return self._state.n_tasks or -(-2 * size // self.settings.piece)

    def cost(self, task: Task) -> int:
        """Return how much memory reading and encoding a task may take at a time."""
        return 3 * min(task.nbytes, self.settings.piece) + max(extent.aside for extent in task.extents)

    def read(self, task: Task) -> Iterator[Any]:
        """Yield the rows of a task as tables of about the size of a piece."""
        schema = self.schema
        rows = max(1, self.settings.piece // max(1, row_bytes(schema)))
        rows = min(rows, self.settings.piece_rows or rows)
        is_text = all(extent.file.is_text for extent in task.extents)
        try:
            found = (table for extent in task.extents for table in extent.file.read(extent, schema, rows))
            for table in _gathered(found, rows):
                yield table
                del table
                # What Arrow keeps for later counts too, as much again as what it uses. Text is read in pieces of one
                # size, for which the same memory is used again and again: to give that back would only take time.
                if not is_text:
                    pa.default_memory_pool().release_unused()
        except WiderError as wider:
            wider.number = task.number
            raise

    def cut(self, task: Task, tables: Iterable[Any], columns: int = 0) -> Iterator[Piece]:
        """Yield pieces of tables, so small that their rows fit into a piece when they have ``columns`` numbers each."""
        rows = max(1, self.settings.piece // max(1, 8 * columns))
        first = number = 0
        for table in tables:
            for start in range(0, table.num_rows, rows):
                some = table.slice(start, rows)
                last = first + some.num_rows
                whole = first == 0 and some.num_rows == table.num_rows
                name = task.name if whole else f"{task.name}, rows {first}–{last - 1}"
                yield Piece(some, number=(task.number << 20) + number, name=name)
                first, number = last, number + 1

    def widen(self, number: int, spread: Spread) -> None:
        """Learn wider types from the text of a task and all after it; ``spread`` maps a function over tasks."""
        before = self.schema

        def of(task: Task) -> Any:
            schema = before
            for extent in task.extents:
                if isinstance(extent.file, TextTable):
                    schema = extent.file.learn(extent, schema)
            return schema, task.name

        types = {field.name: field.type for field in before}
        for schema, name in spread(of, (task for task in self.tasks() if task.number >= number)):
            for column in schema:
                both = common(types[column.name], column.type)
                if both is None:
                    raise InvalidInputError(
                        f"Column {column.name!r} holds {column.type} values in {name}, and {types[column.name]} values "
                        "before. Pass types= with the one that holds both."
                    )
                types[column.name] = both
        self.forget()
        self._state.schema = pa.schema(list(types.items()))

    @property
    def kept_tables(self) -> Chapter:
        """What is kept of tables."""
        return self._state.tables

    def kept_blocks(self, encode: Any, columns: int) -> Chapter:
        """Return what is kept of blocks made by ``encode``; those made by another one are forgotten."""
        state = self._state
        with state.lock:
            if state.blocks is None or state.encode is not encode:
                if state.blocks is not None:
                    state.blocks.close()
                state.encode, state.blocks = encode, self._chapter(encode, columns)
            return state.blocks

    def _chapter(self, encode: Any, columns: int) -> Chapter:
        cache = self.settings.cache
        if cache is False or (cache == "auto" and not any(file.is_text for file in self.files)):
            return Chapter(self._state.room)
        place = cache if isinstance(cache, str) and cache != "auto" else None
        fingerprint = None if place is None else self.fingerprint
        lasting = fingerprint is not None
        if self._state.disk is None:
            self._state.disk = Disk(place, temporary=not lasting)
        if lasting:
            what = f"{__version__} {fingerprint} {columns}".encode() + pickle.dumps(encode)
            name = f"oddsmith-{hashlib.sha256(what).hexdigest()[:24]}"
        else:
            name = str(next(_counter))
        return Chapter(self._state.room, self._state.disk, name, always=lasting)

    @property
    def trouble(self) -> str | None:
        """Why the cache is not used any more, said once."""
        disk = self._state.disk
        if disk is None or not disk.trouble or disk.told:
            return None
        disk.told = True
        return disk.trouble

    def forget(self) -> None:
        """Let go of all that is kept, in memory and in a temporary cache."""
        state = self._state
        with state.lock:
            state.tables.close()
            state.tables = Chapter(state.room)
            if state.blocks is not None:
                state.blocks.close()
            state.blocks = state.encode = None


def _open_all(found: list[Found], types: Mapping[str, Any] | None) -> Iterable[TableFile]:
    _check_keys(found)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda file: _open(file, types), found))


def _names(files: Iterable[TableFile]) -> tuple[str, ...]:
    """Return the columns that some file has, and the keys."""
    names: dict[str, None] = {}
    for schema in {id(file.schema): file.schema for file in files}.values():
        names |= dict.fromkeys(name for name in schema.names if not name.startswith(INDEX))
    return tuple(names | dict.fromkeys(key for file in files for key in file.found.keys))


def _open(found: Found, types: Mapping[str, Any] | None) -> TableFile:
    if found.kind == "parquet":
        return ParquetTable.open(found)
    return TextTable.open(found, dict(types or {})) if found.kind == "csv" else ArrowTable.open(found)


def _alike(files: Iterable[TableFile]) -> tuple[TableFile, ...]:
    """Return files with one object for schemas that are equal, so that many files are quick to compare."""
    known: list[Any] = []
    result = []
    for file in files:
        same = next((schema for schema in known if schema.equals(file.schema)), None)
        known += [file.schema] if same is None else []
        result.append(file if same is None else replace(file, schema=same))  # type: ignore[type-var]
    return tuple(result)


def _room(files: Iterable[TableFile], names: tuple[str, ...], settings: Settings) -> Room:
    """Return the room for what is kept: less than its share where a single reader needs more than its own."""
    columnar = (file for file in files if isinstance(file, ParquetTable))
    extents = (extent for file in columnar for extent in file.extents(names, settings.piece))
    aside = max((extent.aside for extent in extents), default=0)
    return Room(max(0, settings.kept - max(0, aside + 3 * settings.piece - settings.in_flight)))


def _check_keys(found: list[Found]) -> None:
    """Refuse a file that lacks a key of the others."""
    keys = {key for file in found for key in file.keys}
    for file in found:
        for key in keys - set(file.keys):
            raise InvalidInputError(f"{file.name!r} lies in no folder {key}=…, and other files do. Give it one.")


def _with_keys(file: TableFile, keys: Mapping[str, Any]) -> Any:
    if not file.found.keys:
        return file.schema
    own = [field for field in file.schema if field.name not in keys]
    return pa.schema([*own, *(pa.field(key, keys[key]) for key in file.found.keys)])


def _gathered(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield tables of ``rows`` rows each but the last, put together and cut from those given."""
    waiting, count = [], 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            whole = waiting[0] if len(waiting) == 1 else pa.concat_tables(waiting)
            for start in range(0, count - rows + 1, rows):
                yield whole.slice(start, rows)
            count %= rows
            waiting = [whole.slice(whole.num_rows - count)] if count else []
    if count:
        yield pa.concat_tables(waiting)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
