"""MODEL and DATA on the command line: files, folders, globs, databases, standard input, bundled tables."""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oddsmith.cli import databases, files
from oddsmith.cli.files import Types, Wanted
from oddsmith.data import DATASETS, dataset_path
from oddsmith.engines.files import formats
from oddsmith.engines.files.dialect import TextDialect
from oddsmith.engines.files.schemas import check_unique
from oddsmith.errors import InvalidInputError, ModelFileError, did_you_mean

if TYPE_CHECKING:
    from oddsmith.models.base import Classifier

HOW = (
    "DATA is a CSV, Parquet, Arrow or JSON-lines file, a folder or glob of them, a database table or query "
    "(shop.db::orders, 'shop.duckdb::SELECT …', postgresql://host/shop::orders), - for standard input, or a bundled "
    "data set"
)
DATABASES = ("sqlite", "duckdb")
LARGE = 100_000_000  # File size in bytes above which files are read in pieces.


@dataclass(frozen=True, kw_only=True)
class InputData:
    """Rows of a table, read at once or in batches.

    ``read`` returns the whole table, by default from ``stream``. ``path`` is the input for `oddsmith.scan`, None if it
    cannot be read in pieces; ``size`` is the total size of the ``files``, and ``keyed`` says that folders are named
    ``key=value``, which only `oddsmith.scan` reads. ``dialect`` is the given dialect of text files; ``place`` returns
    the line of a row in a text file.
    """

    name: str
    stream: Callable[[Types | None, Wanted], Iterator[pa.Table]]
    read: Callable[[Types | None], pa.Table] | None = None
    path: str | list[str] | None = None
    size: int = 0
    keyed: bool = False
    dialect: TextDialect = files.ANY
    place: Callable[[int], str | None] | None = None
    files: tuple[str, ...] = ()

    def pieces(self, **how: str | None) -> Any:
        """Return the data in pieces if it is large or ``how`` has values, else None."""
        given = {name: value for name, value in how.items() if value is not None}
        if self.path is None and given:
            raise InvalidInputError(
                f"{self.name!r} cannot be read in pieces, so --{next(iter(given))} has no effect. It is for CSV, "
                "Parquet and Arrow files."
            )
        if self.path is None or not (given or self.keyed or self.size > LARGE):
            return None
        from oddsmith.engines.scan import scan

        spoken = {name: value for name, value in vars(self.dialect).items() if value is not None}
        return scan(self.path, progress=True, **given, **spoken)

    @contextmanager
    def locating(self, rows: int | Sequence[int] | None = 0) -> Iterator[None]:
        """Add the line of the file to errors about a row.

        ``rows`` is the number of the first row processed, or the numbers of all.
        """
        try:
            yield
        except InvalidInputError as error:
            if error.row is None or self.place is None:
                raise
            row = error.row + (rows or 0) if isinstance(rows, int | None) else rows[error.row]
            place = self.place(row)
            if place is None:
                raise
            raise error.at(place) from None

    def table(self, types: Types | None = None) -> pa.Table:
        """Return all rows."""
        if self.read is not None:
            return self._checked(self.read(types))
        return self._checked(pa.concat_tables(self.stream(types, None), promote_options="permissive"))

    def batches(self, types: Types | None = None, wanted: Wanted = None) -> Iterator[pa.Table]:
        """Yield rows in batches; columns in ``types`` have these types in formats without types.

        Columns that are not ``wanted`` may be left out.
        """
        return map(self._checked, self.stream(types, wanted))

    def _checked(self, table: pa.Table) -> pa.Table:
        check_unique(table.column_names, repr(self.name))
        return table


def open_data(text: str | Sequence[str], dialect: TextDialect = files.ANY) -> InputData:
    """Return the data that DATA names; raise an error that says what is possible. Several names must be files.

    >>> open_data("penguins").table().num_rows
    344
    """
    if not isinstance(text, str):
        if len(text) == 1:
            return open_data(text[0], dialect)
        other = next((name for name in text if not os.path.isfile(name)), None)
        if other is not None:
            raise InvalidInputError(
                f"{other!r} is not a file. Several names in DATA must all be files; give a folder, a quoted glob, a "
                f"database or a bundled data set on its own."
            )
        return _files(f"{text[0]} and {len(text) - 1} more", list(text), dialect)
    if text == "-":
        return _standard_input(dialect)
    if os.path.isdir(text):
        every = sorted(str(file) for file in Path(text).rglob("*") if file.is_file())
        found = [path for path in every if formats.format_of(os.path.basename(path))]
        keyed = any("=" in step for path in found for step in Path(path).relative_to(text).parts[:-1])
        return _files(text, found, dialect, text if keyed else None)
    place, separator, what = (text, "", "") if os.path.exists(text) else text.partition("::")
    if place.startswith(databases.POSTGRES):
        return _database(text, "postgres", place, what)
    if os.path.exists(place) and not os.path.isdir(place):
        kind = _detect_format(place)
        if separator and kind not in DATABASES:
            raise InvalidInputError(f"{place!r} is not an SQLite or DuckDB database, so it has no table {what!r}.")
        return _database(text, kind, place, what) if kind in DATABASES else _files(text, [text], dialect)
    if text in DATASETS:
        return _files(text, [str(dataset_path(text))], dialect)
    if any(sign in text for sign in "*?["):
        return _files(text, sorted(path for path in glob.glob(text, recursive=True) if os.path.isfile(path)), dialect)
    folder = Path(text).parent
    hint = did_you_mean(text, [*DATASETS, *(folder.iterdir() if folder.is_dir() else ())])
    raise InvalidInputError(f"There is no file, folder or data set {text!r}.{hint} {HOW} ({', '.join(DATASETS)}).")


def check_output(path: str | None, *read: str) -> None:
    """Refuse an unwritable path, or an input file, before the work starts."""
    if path is None:
        return
    if not Path(path).resolve().parent.is_dir():
        raise InvalidInputError(f"The folder of {path!r} does not exist. Create it first.")
    if any(os.path.isfile(name) and os.path.exists(path) and os.path.samefile(name, path) for name in read):
        raise InvalidInputError(f"{path!r} is the input, and would be overwritten. Write to another file.")


def check_column(names: Collection[str], name: str, what: str) -> None:
    """Refuse a column that does not exist; the error lists those that do."""
    if name not in names:
        hint = did_you_mean(name, names)
        if "," in name and {part.strip() for part in name.split(",")} <= set(names):
            hint = f" Give {what} again for each column."
        if sum(other[:1].isdigit() for other in names) > 1:
            hint += " The first line must hold the names of the columns."
        if len(names) == 1:
            hint += " If fields are separated by another sign than commas, pass --delimiter."
        raise InvalidInputError(
            f"There is no column {name!r} for {what}.{hint} The columns are: {', '.join(map(repr, names))}."
        )


def load_model(path: str) -> Classifier:
    """Return the model in a file."""
    from oddsmith.persistence.model_file import load

    try:
        model: Classifier = load(path)
    except ModelFileError as error:
        if formats.format_of(path) is None:
            raise
        raise ModelFileError(f"{error} The model comes first, and then the data.") from error
    return model


def _detect_format(path: str) -> str:
    """Return the format of a file by its name or first bytes; refuse an Excel workbook."""
    with open(path, "rb") as file:
        start = file.read(64)
    kind = formats.format_of(os.path.basename(path)) or formats.sniff(start)
    if kind == "csv":
        formats.check_text(path, start)
    return kind


def _files(name: str, paths: list[str], dialect: TextDialect, keyed: str | None = None) -> InputData:
    if not paths:
        raise InvalidInputError(f"{name!r} holds no files that can be read: {', '.join(formats.FORMATS)} are known.")
    kinds = [_detect_format(path) for path in paths]

    def read(types: Types | None) -> pa.Table:
        tables = [files.read_table(path, kind, path, types, dialect) for path, kind in zip(paths, kinds, strict=True)]
        for path, table in zip(paths, tables, strict=True):
            if odd := sorted(set(tables[0].column_names) ^ set(table.column_names)):
                raise InvalidInputError(
                    f"{paths[0]!r} and {path!r} have different columns: {odd[0]!r} is in one of them only."
                )
        try:
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(f"The files of {name!r} have columns of different types: {error}.") from None

    def stream(types: Types | None, wanted: Wanted) -> Iterator[pa.Table]:
        for path, kind in zip(paths, kinds, strict=True):
            yield from files.batches(path, kind, path, types, wanted, dialect)

    def place(row: int) -> str | None:
        return files.line_of_row(paths[0], kinds[0], row, dialect) if len(paths) == 1 else None

    path = (keyed or paths) if set(kinds) <= {"csv", "parquet", "arrow"} else None
    size = sum(map(os.path.getsize, paths))
    facts: Any = {"path": path, "size": size, "keyed": keyed is not None, "place": place, "files": tuple(paths)}
    return InputData(name=name, stream=stream, read=read, dialect=dialect, **facts)


def _standard_input(dialect: TextDialect) -> InputData:
    name = "standard input"

    def stream(types: Types | None, wanted: Wanted) -> Iterator[pa.Table]:
        raw = sys.stdin.buffer
        file = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
        yield from files.batches(file, formats.sniff(file.peek(64)[:64]), name, types, wanted, dialect)

    def read(types: Types | None) -> pa.Table:
        content = sys.stdin.buffer.read()
        return files.read_table(content, formats.sniff(content[:64]), name, types, dialect)

    return InputData(name=name, stream=stream, read=read, dialect=dialect)


def _database(name: str, kind: str, place: str, what: str) -> InputData:
    files = (place,) if kind in DATABASES else ()
    return InputData(name=name, stream=lambda types, wanted: databases.batches(kind, place, what, types), files=files)
