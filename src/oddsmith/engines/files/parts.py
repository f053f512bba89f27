"""Tables in files as pieces: finding, reading and caching them between passes."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oddsmith import __version__
from oddsmith.engines.arrow_matrix import without_views
from oddsmith.engines.files.block_cache import BlockCache, CacheFolder, MemoryBudget
from oddsmith.engines.files.columnar import ArrowTable, ParquetTable
from oddsmith.engines.files.dialect import TextDialect
from oddsmith.engines.files.engine import FilesEngine, TaskRunner, in_order
from oddsmith.engines.files.paths import InputFile, find
from oddsmith.engines.files.schemas import common_type, key_types, row_bytes, unify
from oddsmith.engines.files.settings import FileSettings, parse_cache, parse_memory
from oddsmith.engines.files.table_file import FileRange, TableFile
from oddsmith.engines.files.text import Expected, TextTable, TypeInferenceError, Types
from oddsmith.engines.memory import available_cores
from oddsmith.engines.partitioned import Piece, check_columns
from oddsmith.engines.scan import comes_from
from oddsmith.engines.text_formats import SAMPLED_ROWS, TextFormat
from oddsmith.errors import InvalidInputError

if TYPE_CHECKING:
    from oddsmith.engines.files.whole_text import WholeText

R = TypeVar("R")
_folder_numbers = count()

Encode = Callable[[Piece], Any]  # Makes a block of a piece.
INDEX = "__index_level_"  # How pandas calls an index without a name in a Parquet file: no column of the table.


@dataclass(frozen=True)
class Task:
    """The unit of work of one thread: a range of rows, or several small ones."""

    number: int
    ranges: tuple[FileRange, ...]

    @property
    def name(self) -> str:
        """The location of the rows."""
        first, last = self.ranges[0].name, self.ranges[-1].name
        return first if len(self.ranges) == 1 else f"{first} to {last}"

    @property
    def nbytes(self) -> int:
        """The approximate memory of the rows."""
        return sum(part.nbytes for part in self.ranges)

    @property
    def is_text(self) -> bool:
        """Whether all rows are text."""
        return all(part.table.is_text for part in self.ranges)

    def place(self, first: int, row: int) -> str:
        """Return the file and line of a row of a text file, counted from the ``first`` row of a piece."""
        rest = first + row
        for part in self.ranges:
            lines = part.table.lines(part) if isinstance(part.table, TextTable) else []
            if rest < len(lines):
                return f"line {lines[rest]}" + (f" of {part.table.file.name!r}" if len(self.ranges) > 1 else "")
            rest -= len(lines)
        return f"row {row}"


@dataclass(kw_only=True)
class _State:
    """State learned and cached during passes: common types, tables, and the blocks of the last encoding."""

    budget: MemoryBudget
    tables: BlockCache
    blocks: BlockCache
    schema: pa.Schema | None = None
    n_tasks: int | None = None
    tasks: tuple[Task, ...] | None = None
    encode: Encode | None = None
    folder: CacheFolder | None = None
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class FileParts:
    """Tables in files, to be folded over piece by piece; see `FileParts.open`.

    Only headers and footers are read until a fold begins. Cached data is removed with the object.
    """

    files: tuple[TableFile, ...]
    columns: tuple[str, ...]
    settings: FileSettings
    _state: _State = field(init=False, compare=False, repr=False)

    @classmethod
    def open(
        cls,
        data: object,
        *,
        memory: str | float = "1GB",
        cache: str | os.PathLike[str] | bool | None = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        format: str | None = None,
        types: Types | None = None,
        piece_rows: int | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
    ) -> FileParts:
        """Find files and learn their columns; ``docs/files.md`` says what can be read.

        ``memory`` limits the bytes for reading, encoding and keeping rows, besides the process's own memory. ``cache``
        is the place for encoded rows that exceed ``memory``: a temporary folder (True), a permanent folder that is
        reused for the same files, columns and model (a path; data that a dataset reads itself, as with a filter, is
        removed from it), none (False), or by default a temporary one for text, which is slow to read.
        ``dtype="float32"`` rounds encoded rows; ``format`` is for files whose names do not show it, ``types`` sets
        Arrow types of CSV columns whose first rows are misleading; ``piece_rows`` is the maximum number of rows of a
        piece. ``encoding``, ``delimiter`` and ``decimal`` of text files are detected if not given.

        >>> import tempfile
        >>> from pyarrow import parquet
        >>> path = f"{tempfile.mkdtemp()}/a.parquet"
        >>> parquet.write_table(pa.table({"x": [1.0, 2.0], "y": ["no", "yes"]}), path)
        >>> parts = FileParts.open(path)
        >>> parts.columns, parts.expected_rows
        (('x', 'y'), 2)
        """
        size, folder = parse_memory(memory), parse_cache(cache)
        settings = FileSettings(memory=size, cache=folder, dtype=dtype, threads=threads, piece_rows=piece_rows)
        if comes_from(data, "pyarrow._dataset", "pyarrow.dataset"):
            from oddsmith.engines.files.datasets import from_dataset

            files, names = from_dataset(data)
            return cls(_share_schemas(files), names, settings)
        dialect = TextDialect(encoding, delimiter, decimal)
        tables = _share_schemas(_share_formats(_open_all(find(data, format), types, dialect)))
        return cls(tables, _column_names(tables), settings)

    def __post_init__(self) -> None:
        # Less than its share is cached where a single reader needs more than its own.
        columnar = (file for file in self.files if isinstance(file, ParquetTable))
        parts = (part for file in columnar for part in file.ranges(self.columns, self.settings.piece))
        overhead = max((part.overhead for part in parts), default=0)
        beyond = max(0, overhead + 3 * self.settings.piece - self.settings.in_flight)
        budget = MemoryBudget(max(0, self.settings.kept - beyond))
        object.__setattr__(self, "_state", _State(budget=budget, tables=BlockCache(budget), blocks=BlockCache(budget)))

    @property
    def engine(self) -> FilesEngine:
        return FilesEngine(self.settings.threads)

    @property
    def memory(self) -> int:
        """Maximum bytes for reading, encoding and keeping rows."""
        return self.settings.memory

    @property
    def expected_rows(self) -> int:
        """The number of rows: exact for Parquet and Arrow files, estimated from the first rows for text."""
        return sum(file.expected_rows for file in self.files)

    @property
    def dtype(self) -> str | None:
        """The requested type of encoded rows, if any."""
        return None if self.settings.dtype is None else str(np.dtype(self.settings.dtype))

    def choose(self, columns: Iterable[str]) -> FileParts:
        """Return the same files with only these columns. Cached data is not shared: choose before a fold."""
        names = tuple(columns)
        check_columns(names, self.columns, "The files have")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"Column {twice!r} is chosen twice.")
        return replace(self, columns=names)

    def with_types(self, types: Expected) -> FileParts:
        r"""Return the same files with columns of text read as these Arrow types or by these formats.

        None stands for a number, or a boolean if the first rows contain booleans. Types given by the user are kept.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
        >>> _ = path.write_text("id,x,z\n007,1,true\n")
        >>> FileParts.open(path).with_types({"id": pa.string(), "x": None, "z": None}).schema.types
        [DataType(string), DataType(double), DataType(bool)]
        """
        files = tuple(file.with_types(types) if isinstance(file, TextTable) else file for file in self.files)
        return replace(self, files=files)

    def with_codes(self, names: Iterable[str]) -> FileParts:
        """Return the same files with these columns, if text, read as dictionary codes.

        >>> import tempfile
        >>> from pyarrow import parquet
        >>> path = f"{tempfile.mkdtemp()}/a.parquet"
        >>> parquet.write_table(pa.table({"x": ["a", "b"], "y": ["no", "yes"]}), path)
        >>> FileParts.open(path).with_codes(["x"]).head().schema.types
        [DictionaryType(dictionary<values=string, indices=int32, ordered=0>), DataType(string)]
        """
        wanted = list(names)
        return replace(self, files=_share_schemas(file.with_codes(wanted) for file in self.files))

    @property
    def formats(self) -> dict[str, TextFormat]:
        """The formats of columns of text that were recognised, by column."""
        texts = (file.formats for file in self.files if isinstance(file, TextTable))
        return {name: one for formats in texts for name, one in formats.items() if name in self.columns}

    @property
    def plain_formats(self) -> dict[str, TextFormat]:
        """The formats of plain dates and numbers in text files, which need no note."""
        texts = (file.plain_formats(file.schema) for file in self.files if isinstance(file, TextTable))
        return {name: one for formats in texts for name, one in formats.items() if name in self.columns}

    @property
    def dialect(self) -> str:
        """A description of unusual encoding, delimiter and decimal separator of text files."""
        found = dict.fromkeys(file.recognised for file in self.files if isinstance(file, TextTable))
        return "; ".join(filter(None, found))

    @property
    def fingerprint(self) -> str | None:
        """A digest of the names, sizes and times of the files, of the columns, and of the split into pieces.

        None if a dataset reads the files (for example with a filter), whose content is unknown.
        """
        if any(file.file.kind == "dataset" for file in self.files):
            return None
        files = [(file.file.name, file.file.size, file.file.time) for file in self.files]
        types = [str(schema) for schema in {id(file.schema): file.schema for file in self.files}.values()]
        types += [str((file.dialect, file.formats)) for file in self.files if isinstance(file, TextTable)]
        cut = (self.settings.piece, self.settings.piece_rows, str(self.settings.dtype))
        return hashlib.sha256(json.dumps([files, types, self.columns, cut]).encode()).hexdigest()

    @property
    def schema(self) -> pa.Schema:
        """The columns and types of every piece; incompatible files are refused here."""
        if self._state.schema is None:
            keys = key_types(file.file.keys for file in self.files)
            schemas = [(file.file.name, file.schema_with(keys)) for file in self.files]
            self._state.schema = unify(schemas, self.columns)
        return self._state.schema

    def tasks(self, *, needed: bool = True) -> Iterator[Task]:
        """Yield the files in tasks, the same every time; small ranges are merged."""
        if self._state.tasks is None and not self._has_text:
            self._state.tasks = tuple(self._cut(needed=needed))
        return self._cut(needed=needed) if self._state.tasks is None else iter(self._state.tasks)

    @property
    def _has_text(self) -> bool:
        return any(file.is_text for file in self.files)

    def _cut(self, *, needed: bool) -> Iterator[Task]:
        group: list[FileRange] = []
        number = total = 0
        for file in self.files:
            size = self.settings.piece // 2 if file.is_text else self.settings.piece
            for part in file.ranges(self.columns, size, needed=needed):
                if group and total + part.nbytes > self.settings.piece:
                    yield Task(number, tuple(group))
                    group, total, number = [], 0, number + 1
                group.append(part)
                total += part.nbytes
        if group:
            yield Task(number, tuple(group))
            number += 1
        self._state.n_tasks = number

    @property
    def expected_tasks(self) -> int:
        """The number of tasks, exact after the first iteration over them."""
        if not self._has_text:
            return sum(1 for _ in self.tasks())
        size = sum(file.file.size for file in self.files)
        return self._state.n_tasks or -(-2 * size // self.settings.piece)

    def cost(self, task: Task) -> int:
        """Return the memory for reading and encoding a task."""
        return 3 * min(task.nbytes, self.settings.piece) + max(part.overhead for part in task.ranges)

    def read(self, task: Task) -> Iterator[pa.Table]:
        """Yield the rows of a task as tables of about the size of a piece."""
        schema = self.schema
        rows = max(1, self.settings.piece // max(1, row_bytes(schema)))
        rows = min(rows, self.settings.piece_rows or rows)
        is_text = all(part.table.is_text for part in task.ranges)
        try:
            tables = (table for part in task.ranges for table in part.table.read(part, schema, rows))
            for table in _regroup(tables, rows):
                yield table
                del table
                # What Arrow keeps for later counts too, as much again as what it uses. Text is read in pieces of one
                # size, for which the same memory is used again and again: to give that back would only take time.
                if not is_text:
                    pa.default_memory_pool().release_unused()
        except TypeInferenceError as error:
            error.number = task.number
            raise

    def head(self) -> pa.Table:
        """Return the first rows: those of the first piece.

        Formats of text are not in it: they are `formats`.
        """
        task = next(self.tasks(), None)
        return self.schema.empty_table() if task is None else next(self.read(task), self.schema.empty_table())

    def read_whole(self) -> WholeText | None:
        r"""Return all rows of one plain text file, read on several threads; None for other files.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
        >>> _ = path.write_text("id,x\n7,1.5\n")
        >>> found = FileParts.open(path).read_whole()
        >>> found is None or found.table.to_pydict()
        {'id': [7], 'x': [1.5]}
        """
        first = self.files[0]
        if len(self.files) > 1 or not isinstance(first, TextTable):
            return None
        from oddsmith.engines.files.whole_text import read_whole

        return read_whole(first, self.columns, self.settings.threads or available_cores())

    def text_sample(self, columns: Sequence[str]) -> pa.Table | None:
        """Return the first rows of the text columns; None if there are none, or for text files, which have formats.

        >>> import tempfile
        >>> from pyarrow import parquet
        >>> path = f"{tempfile.mkdtemp()}/fees.parquet"
        >>> parquet.write_table(pa.table({"x": [1.0], "fee": ["$5"]}), path)
        >>> FileParts.open(path).text_sample(["x", "fee"]).column_names
        ['fee']
        """
        types = {name: self.schema.field(name).type for name in columns}
        are_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        texts = [name for name, type_ in types.items() if any(is_text(type_) for is_text in are_text)]
        if not texts or any(isinstance(file, TextTable) for file in self.files):
            return None
        return without_views(self.choose(texts).head().slice(0, SAMPLED_ROWS))

    def cut(self, task: Task, tables: Iterable[pa.Table], columns: int = 0) -> Iterator[Piece]:
        """Yield pieces of tables, small enough for the limit of a piece with ``columns`` numbers per row."""
        rows = max(1, self.settings.piece // max(1, 8 * columns))
        first = number = 0
        for table in tables:
            for start in range(0, table.num_rows, rows):
                some = table.slice(start, rows)
                last = first + some.num_rows
                whole = first == 0 and some.num_rows == table.num_rows
                name = task.name if whole else f"{task.name}, rows {first}–{last - 1}"
                place = partial(task.place, first) if task.is_text else None
                yield Piece(some, number=(task.number << 20) + number, name=name, place=place)
                first, number = last, number + 1

    def with_wider_types(self, function: Callable[[TaskRunner], R], threads: int | None = None) -> R:
        """Return ``function(run_tasks)``; it is called again whenever text needs wider types."""
        threads = threads or self.settings.threads or available_cores()

        def run_tasks(work: Callable[[Task], Any], tasks: Iterable[Task]) -> Generator[Any, None, None]:
            return in_order(work, tasks, threads, self.cost, self.settings.in_flight)

        while True:
            try:
                return function(run_tasks)
            except TypeInferenceError as error:
                self._widen(error.number, run_tasks)

    def _widen(self, number: int, run_tasks: TaskRunner) -> None:
        """Infer wider types from the text of a task and all after it."""
        before = {field.name: field.type for field in self.schema}

        def infer(task: Task) -> tuple[Types, str]:
            types: Types = before
            for part in task.ranges:
                types = part.table.infer(part, types) if isinstance(part.table, TextTable) else types
            return types, task.name

        types = dict(before)
        for found, name in run_tasks(infer, (task for task in self.tasks() if task.number >= number)):
            for column, type_ in found.items():
                both = common_type(types[column], type_)
                if both is None:
                    raise InvalidInputError(
                        f"Column {column!r} holds {type_} values in {name}, but {types[column]} values before. Pass "
                        "types= with a type that holds both."
                    )
                types[column] = both
        self.forget()
        self._state.schema = pa.schema(list(types.items()))

    def cached_blocks(self, encode: Encode, columns: int, *, costly: bool = False) -> BlockCache:
        """Return the cache of blocks encoded by ``encode``; blocks of other encodings are discarded.

        Blocks that are ``costly`` to compute, such as those of text, go to a folder when memory is full.
        """
        state = self._state
        with state.lock:
            if state.encode is not encode:
                state.blocks.close()
                state.encode, state.blocks = encode, self._new_block_cache(encode, columns, costly)
            return state.blocks

    def _new_block_cache(self, encode: Encode, columns: int, costly: bool) -> BlockCache:
        cache, state = self.settings.cache, self._state
        costly = costly or self._has_text
        if cache is False or (cache == "auto" and not costly):
            return BlockCache(state.budget)
        path = cache if isinstance(cache, str) and cache != "auto" else None
        fingerprint = None if path is None else self.fingerprint
        if state.folder is None:
            state.folder = CacheFolder(path, temporary=fingerprint is None)
        if fingerprint is None:
            return BlockCache(state.budget, state.folder, str(next(_folder_numbers)))
        content = f"{__version__} {fingerprint} {columns}".encode() + pickle.dumps(encode)
        name = f"oddsmith-{hashlib.sha256(content).hexdigest()[:24]}"
        return BlockCache(state.budget, state.folder, name, always=True)

    def forget(self) -> None:
        """Discard all cached data, in memory and in a temporary folder."""
        state = self._state
        with state.lock:
            state.tables.close()
            state.blocks.close()
            state.tables, state.blocks, state.encode = BlockCache(state.budget), BlockCache(state.budget), None


def _open_all(files: list[InputFile], types: Types | None, dialect: TextDialect) -> Iterable[TableFile]:
    """Open files, refusing one that lacks a folder key of the others."""
    keys = {key for file in files for key in file.keys}
    for file in files:
        for key in keys - set(file.keys):
            raise InvalidInputError(f"{file.name!r} is not in a folder {key}=…, but other files are. Move it to one.")

    def open_table(file: InputFile) -> TableFile:
        if file.kind == "csv":
            return TextTable.open(file, types, dialect)
        return ParquetTable.open(file) if file.kind == "parquet" else ArrowTable.open(file)

    if len(files) == 1:
        return [open_table(files[0])]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(open_table, files))


def _share_formats(files: Iterable[TableFile]) -> Iterable[TableFile]:
    """Return files with a format detected in one file's column applied to all others in which that column is text."""
    known: dict[str, TextFormat] = {}
    for file in files:
        known = {**(file.formats if isinstance(file, TextTable) else {}), **known}
    if not known:
        return files
    return [file.with_known_formats(known) if isinstance(file, TextTable) else file for file in files]


def _column_names(files: Iterable[TableFile]) -> tuple[str, ...]:
    """Return the columns that some file has, and the keys."""
    names: dict[str, None] = {}
    for schema in {id(file.schema): file.schema for file in files}.values():
        names |= dict.fromkeys(name for name in schema.names if not name.startswith(INDEX))
    return tuple(names | dict.fromkeys(key for file in files for key in file.file.keys))


def _share_schemas(files: Iterable[TableFile]) -> tuple[TableFile, ...]:
    """Return files that share equal schema objects, so that many files are quick to compare."""
    known: dict[pa.Schema, pa.Schema] = {}
    return tuple(replace(file, schema=known.setdefault(file.schema, file.schema)) for file in files)


def _regroup(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield tables of ``rows`` rows each (except the last), joined and split from the given ones."""
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
