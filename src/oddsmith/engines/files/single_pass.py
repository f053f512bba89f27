"""One reading of files that is no fold: what is made of each piece comes out in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from oddsmith.engines.base import Progress
from oddsmith.engines.files.engine import TaskRunner
from oddsmith.engines.files.parts import FileParts, Task
from oddsmith.engines.files.text import TextTable
from oddsmith.engines.partitioned import Piece

R = TypeVar("R")
T = TypeVar("T")


def typed(parts: FileParts, types: Mapping[str, pa.DataType | None]) -> FileParts:
    r"""Return the same files with columns of text read as these Arrow types; those that the user gave stay.

    None stands for a number, or a truth value where the first rows have such.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = path.write_text("id,x,z\n007,1,true\n")
    >>> typed(FileParts.open(path), {"id": pa.string(), "x": None, "z": None}).schema.types
    [DataType(string), DataType(double), DataType(bool)]
    """
    files = tuple(file.with_types(types) if isinstance(file, TextTable) else file for file in parts.files)
    return replace(parts, files=files)


def read_once(
    parts: FileParts, work: Callable[[Piece], T], use: Callable[[Iterator[T]], R], progress: Progress | None = None
) -> R:
    """Return ``use(results)``, where results are ``work(piece)`` for each piece, in order, made on all cores.

    ``use`` is called again, with results from the first one on, if text turns out to need wider types than its first
    rows showed. Memory: what a few pieces take, see `Settings`; nothing is kept.
    """

    def process(task: Task) -> list[T]:
        return [work(piece) for piece in parts.cut(task, parts.read(task))]

    def results(run_tasks: TaskRunner) -> Generator[T, None, None]:
        expected, done = parts.expected_tasks, 0
        with closing(run_tasks(process, parts.tasks())) as batches:
            for done, batch in enumerate(batches, 1):
                yield from batch
                if progress is not None:
                    progress(done, max(done, expected))
            if progress is not None and done < expected:
                progress(done, done)  # of text the number is a guess

    def attempt(run_tasks: TaskRunner) -> R:
        with closing(results(run_tasks)) as generator:
            return use(generator)

    return parts.with_wider_types(attempt)
