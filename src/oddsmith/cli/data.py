"""What DATA means on the command line: files, folders, globs, databases, standard input, bundled tables."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddsmith.cli import databases, files
from oddsmith.data import DATASETS, dataset_path
from oddsmith.engines.files import formats
from oddsmith.errors import InvalidInputError

HOW = (
    "DATA is a CSV, Parquet, Arrow or JSON-lines file, a folder or glob of them, a database table or query "
    "(shop.db::orders, 'shop.duckdb::SELECT …', postgresql://host/shop::orders), - for standard input, or a bundled "
    "data set"
)


WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How the files of Excel begin, and those of zip."""
LARGE = 100_000_000
"""Bytes of files above which they are read in pieces."""


@dataclass(frozen=True)
class Data:
    """A place where rows are: read whole, or some rows at a time.

    ``place`` is what `oddsmith.scan` opens in pieces, None if it cannot; ``size`` the bytes of the files there, and
    ``keyed`` whether folders there are called ``key=value``, which only that reads.
    """

    name: str
    read: Callable[[files.Types | None], Any]
    stream: Callable[[files.Types | None, files.Wanted], Iterator[Any]]
    place: str | list[str] | None = None
    size: int = 0
    keyed: bool = False

    def pieces(self, **how: Any) -> Any:
        """Return the data in pieces, if it is large or if that is asked for (``how`` has values), else None."""
        given = {name: value for name, value in how.items() if value is not None}
        if self.place is None:
            if given:
                raise InvalidInputError(
                    f"{self.name!r} cannot be read in pieces, so --{next(iter(given))} has no use. That is for CSV, "
                    "Parquet and Arrow files."
                )
            return None
        if not given and not self.keyed and self.size <= LARGE:
            return None
        from oddsmith.engines.scan import scan

        return scan(self.place, progress=True, **given)

    def table(self, types: files.Types | None = None) -> Any:
        """Return all rows (Arrow)."""
        return _named(self.read(types), self.name)

    def batches(self, types: files.Types | None = None, wanted: files.Wanted = None) -> Iterator[Any]:
        """Yield rows, some at a time; columns in ``types`` are read as these where a format leaves types open.

        Columns that are not ``wanted`` may be left out.
        """
        for batch in self.stream(types, wanted):
            yield _named(batch, self.name)


def open_data(text: str | Sequence[str]) -> Data:
    """Return the data that DATA names, or say what was looked for; several names are those of files.

    >>> open_data("penguins").table().num_rows
    344
    """
    if not isinstance(text, str):
        return open_data(text[0]) if len(text) == 1 else _several(text)
    if text == "-":
        return _standard_input()
    if os.path.isdir(text):
        found = _folder(text)
        keyed = any("=" in step for path in found for step in Path(path).relative_to(text).parts[:-1])
        return _files(text, found, text if keyed else None)
    if os.path.exists(text):
        return _file(text)
    place, separator, what = text.partition("::")
    if place.startswith(databases.POSTGRES):
        return _database(text, "postgres", place, what)
    if separator and os.path.isfile(place):
        kind = _sniffed(place)
        if kind not in ("sqlite", "duckdb"):
            raise InvalidInputError(f"{place!r} is no database of SQLite or DuckDB, so it has no table {what!r}.")
        return _database(text, kind, place, what)
    if text in DATASETS:
        return _files(text, [str(dataset_path(text))])
    if any(sign in text for sign in "*?["):
        return _files(text, sorted(path for path in glob.glob(text, recursive=True) if os.path.isfile(path)))
    raise InvalidInputError(
        f"There is no file, folder or data set {text!r}.{_hint(text)} {HOW} ({', '.join(DATASETS)})."
    )


def check_apart(path: str | None, *read: str) -> None:
    """Refuse to write over a file that is read."""
    for name in read:
        if path is not None and os.path.isfile(name) and os.path.exists(path) and os.path.samefile(name, path):
            raise InvalidInputError(f"{path!r} is what is read, and would be lost. Write to another file.")


def _several(texts: Sequence[str]) -> Data:
    for text in texts:
        if not os.path.isfile(text):
            raise InvalidInputError(
                f"{text!r} is no file. Several names of DATA are those of files; name a folder, a glob in quotes, a "
                "database or a bundled data set alone."
            )
    return _files(f"{texts[0]} and {len(texts) - 1} more", list(texts))


def _hint(text: str) -> str:
    from difflib import get_close_matches

    folder = Path(text).parent
    beside = [str(path) for path in folder.iterdir()] if folder.is_dir() else []
    close = get_close_matches(text, [*DATASETS, *beside], n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _file(path: str) -> Data:
    kind = formats.format_of(os.path.basename(path)) or _sniffed(path)
    return _database(path, kind, path, "") if kind in ("sqlite", "duckdb") else _files(path, [path])


def _sniffed(path: str) -> str:
    with open(path, "rb") as file:
        return formats.sniff(file.read(64))


def _check_no_workbook(path: str, kind: str) -> None:
    if kind == "csv":
        with open(path, "rb") as file:
            if file.read(8).startswith(WORKBOOKS):
                raise InvalidInputError(
                    f"{path!r} is an Excel workbook or a zip archive, and no CSV. Save the sheet as CSV, or unpack it."
                )


def _folder(path: str) -> list[str]:
    return sorted(str(file) for file in Path(path).rglob("*") if file.is_file() and formats.format_of(file.name))


def _files(name: str, paths: list[str], keyed: str | None = None) -> Data:
    if not paths:
        raise InvalidInputError(f"{name!r} holds no files that can be read: {', '.join(formats.FORMATS)} are known.")
    kinds = [formats.format_of(os.path.basename(path)) or _sniffed(path) for path in paths]
    for path, kind in zip(paths, kinds, strict=True):
        _check_no_workbook(path, kind)

    def read(types: files.Types | None) -> Any:
        import pyarrow as pa

        tables = [files.read_table(path, kind, path, types) for path, kind in zip(paths, kinds, strict=True)]
        for path, table in zip(paths, tables, strict=True):
            _check_same(tables[0].column_names, table.column_names, paths[0], path)
        try:
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(f"The files of {name!r} have columns of different types: {error}.") from None

    def stream(types: files.Types | None, wanted: files.Wanted) -> Iterator[Any]:
        for path, kind in zip(paths, kinds, strict=True):
            yield from files.batches(path, kind, path, types, wanted)

    place = (keyed or paths) if set(kinds) <= {"csv", "parquet", "arrow"} else None
    return Data(name, read, stream, place, sum(map(os.path.getsize, paths)), keyed is not None)


def _standard_input() -> Data:
    name = "standard input"

    def stream(types: files.Types | None, wanted: files.Wanted) -> Iterator[Any]:
        import io

        raw = sys.stdin.buffer
        file = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
        yield from files.batches(file, formats.sniff(file.peek(64)[:64]), name, types, wanted)

    def read(types: files.Types | None) -> Any:
        content = sys.stdin.buffer.read()
        return files.read_table(content, formats.sniff(content[:64]), name, types)

    return Data(name, read, stream)


def _database(name: str, kind: str, place: str, what: str) -> Data:
    def stream(types: files.Types | None, wanted: files.Wanted) -> Iterator[Any]:
        return databases.batches(kind, place, what, types)

    def read(types: files.Types | None) -> Any:
        import pyarrow as pa

        return pa.concat_tables(list(stream(types, None)), promote_options="permissive")

    return Data(name, read, stream)


def _named(table: Any, name: str) -> Any:
    """Return the table if every column has a name of its own, or say which has not."""
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise InvalidInputError(f"{name!r} has two columns of the name {twice!r}. Give every column a name of its own.")
    return table


def _check_same(first: list[str], other: list[str], one: str, two: str) -> None:
    if set(first) != set(other):
        odd = sorted(set(first) ^ set(other))[0]
        raise InvalidInputError(f"{one!r} and {two!r} have different columns: {odd!r} is in one of them only.")
