"""Tables and queries of SQLite, DuckDB and PostgreSQL, opened for reading only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from oddsmith.cli.files import Types
from oddsmith.errors import InvalidInputError, UnknownNameError, import_extra
from oddsmith.export.sql_dialects import DIALECTS

POSTGRES = ("postgresql://", "postgres://")
ROWS = 1 << 16
QUERY = re.compile(r"\s*(select|with|values|from|table)\s", re.IGNORECASE)


def batches(kind: str, place: str, what: str, types: Types | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a table or query, some at a time."""
    return {"sqlite": _sqlite, "duckdb": _duckdb, "postgres": _postgres}[kind](place, what, types)


def choose(what: str, tables: Mapping[str, Sequence[str]]) -> str:
    """Return the query for what was asked for: a table by name, a query, or nothing, if there is one table only.

    ``tables`` has the parts of the name of each table.

    >>> tables = {"orders": ["orders"]}
    >>> choose("orders", tables), choose("", tables), choose("SELECT 1", tables)
    ('SELECT * FROM "orders"', 'SELECT * FROM "orders"', 'SELECT 1')
    """
    if not what and len(tables) == 1:
        what = next(iter(tables))
    if what in tables:
        return f"SELECT * FROM {'.'.join(map(DIALECTS['sqlite'].identifier, tables[what]))}"
    if QUERY.match(what):
        return what.rstrip().rstrip(";")
    if not what:
        raise InvalidInputError(
            f"The database has {len(tables)} tables ({', '.join(map(repr, tables)) or 'none'}). Say which: "
            "shop.db::orders, or a query: 'shop.db::SELECT …'."
        )
    raise UnknownNameError("table", what, tables)


def _sqlite(place: str, what: str, types: Types | None) -> Iterator[pa.Table]:
    with closing(sqlite3.connect(f"{Path(place).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
            cursor = connection.execute(choose(what, {name: [name] for (name,) in found}))
            names = [column[0] for column in cursor.description]
            yield from _from_rows(lambda: cursor.fetchmany(ROWS), names, types)
        except sqlite3.Error as error:
            raise InvalidInputError(f"SQLite refuses {what or place!r}: {error}.") from error


def _duckdb(place: str, what: str, types: Types | None) -> Iterator[pa.Table]:
    duckdb = import_extra("duckdb", "Reading a DuckDB database", "duckdb")
    try:
        with closing(duckdb.connect(place, read_only=True)) as connection:
            # A query reads this database, and no other file.
            connection.execute("SET enable_external_access = false")
            found = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
            result = connection.sql(choose(what, {name: [name] for (name,) in found}))
            names = ("to_arrow_reader", "fetch_arrow_reader")  # of later and of earlier versions
            reader = getattr(result, next(name for name in names if name in dir(result)))(ROWS)
            yield reader.schema.empty_table()
            yield from (pa.Table.from_batches([batch]) for batch in reader)
    except duckdb.Error as error:
        raise InvalidInputError(f"DuckDB refuses {what or place!r}: {str(error).splitlines()[0]}.") from error


def _postgres(place: str, what: str, types: Types | None) -> Iterator[pa.Table]:
    psycopg = import_extra("psycopg", "Reading PostgreSQL", "postgres")
    try:
        with psycopg.connect(place) as connection:
            connection.read_only = True
            found = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 2, 1"
            ).fetchall()
            tables = {name if schema == "public" else f"{schema}.{name}": (schema, name) for schema, name in found}
            query = choose(what, tables)
            with connection.cursor("oddsmith") as cursor:  # with a name it stays on the server
                cursor.execute(query)
                names = [column.name for column in cursor.description or ()]
                yield from _from_rows(lambda: cursor.fetchmany(ROWS), names, types)
    except psycopg.Error as error:
        raise InvalidInputError(f"PostgreSQL refuses: {str(error).splitlines()[0]}.") from error


def _from_rows(fetch: Callable[[], Sequence[Any]], names: list[str], types: Types | None) -> Iterator[pa.Table]:
    """Yield tables of fetched rows; a column that a database leaves without type has that of its values."""
    rows, first = fetch(), True
    while rows or first:
        columns = zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)
        known = {name: type_ for name, type_ in (types or {}).items() if isinstance(type_, pa.DataType)}
        arrays = [_array(list(column), name, known.get(name)) for name, column in columns]
        yield pa.Table.from_arrays(arrays, names=names)
        rows, first = fetch(), False


def _array(values: list[Any], name: str, type_: pa.DataType | None) -> pa.Array:
    try:
        if type_ is not None and pa.types.is_floating(type_):  # decimals, too
            values = [None if value is None else float(value) for value in values]
        return pa.array(values, type=type_, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Column {name!r} holds values of incompatible types ({str(error).rstrip('.')}). Convert them in a query."
        ) from None
