"""One reading of files that is no fold: what is made of each piece comes out in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from oddsmith.engines.base import Progress
from oddsmith.engines.files.engine import in_order
from oddsmith.engines.files.extents import TableFile
from oddsmith.engines.files.parts import FileParts, Task
from oddsmith.engines.files.text import TextTable, WiderError
from oddsmith.engines.memory import available_cores
from oddsmith.engines.parted import Piece

R = TypeVar("R")
T = TypeVar("T")


def typed(parts: FileParts, types: Mapping[str, Any]) -> FileParts:
    r"""Return the same files with columns of text read as these Arrow types; those that the user gave stay.

    None stands for a number, or a truth value where the first rows have such.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("id,x,z\n007,1,true\n")
    >>> typed(FileParts.open(path), {"id": pa.string(), "x": None, "z": None}).schema.types
    [DataType(string), DataType(double), DataType(bool)]
    """

    def retyped(file: TableFile) -> TableFile:
        if not isinstance(file, TextTable):
            return file
        schema, known = file.schema, [name for name in types if name in file.schema.names and name not in file.fixed]
        for name in known:
            place = schema.get_field_index(name)
            usual = pa.bool_() if pa.types.is_boolean(schema.field(place).type) else pa.float64()
            schema = schema.set(place, pa.field(name, types[name] or usual))
        return replace(file, schema=schema, fixed=file.fixed.union(known))

    return replace(parts, files=tuple(map(retyped, parts.files))).choose(parts.columns)


def read_once(
    parts: FileParts, work: Callable[[Piece], T], use: Callable[[Iterator[T]], R], progress: Progress | None = None
) -> R:
    """Return ``use(things)``, where things are ``work(piece)`` for each piece, in order, made on all cores.

    ``use`` is called again, with things from the first one on, if text turns out to need wider types than its first
    rows showed. Memory: what a few pieces take, see `Settings`; nothing is kept.
    """
    threads = parts.settings.threads or available_cores()

    def spread(function: Callable[[Task], Any], tasks: Iterable[Task]) -> Generator[Any, None, None]:
        return in_order(function, tasks, threads, parts.cost, parts.settings.in_flight)

    def of(task: Task) -> list[T]:
        return [work(piece) for piece in parts.cut(task, parts.read(task))]

    def things() -> Generator[T, None, None]:
        expected, done = parts.expected_tasks, 0
        made = spread(of, parts.tasks())
        try:
            for done, some in enumerate(made, 1):
                yield from some
                if progress is not None:
                    progress(done, max(done, expected))
            if progress is not None and done < expected:
                progress(done, done)  # of text the number is a guess
        finally:
            made.close()

    while True:
        some = things()
        try:
            return use(some)
        except WiderError as wider:
            parts.widen(wider.number, spread)
        finally:
            some.close()
