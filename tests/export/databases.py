"""Real databases for tests: a table goes in, the rows of a query come out."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

KEY = "the key"
TYPES = {
    "duckdb": {"number": "DOUBLE", "boolean": "BOOLEAN", "date": "TIMESTAMP", "category": "VARCHAR"},
    "postgres": {"number": "float8", "boolean": "boolean", "date": "timestamp", "category": "text"},
    "sqlite": {"number": "REAL", "boolean": "INTEGER", "date": "TEXT", "category": "TEXT"},
}
HOW = "install Debian's package postgresql (apt-get install postgresql), or put initdb and pg_ctl on the PATH"


class Database:
    """A connection to one of the three, with the name of its dialect."""

    def __init__(self, dialect: str, connection: Any) -> None:
        self.dialect, self.connection = dialect, connection

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(query.encode() if self.dialect == "postgres" else query)
            return cursor.fetchall() if cursor.description else []
        finally:
            cursor.close()

    def store(self, name: str, table: pl.DataFrame) -> None:
        """Make a table, with a key that numbers its rows."""
        kinds = [_kind(dtype) for dtype in table.dtypes]
        types = ["INTEGER", *(TYPES[self.dialect][kind] for kind in kinds)]
        columns = ", ".join(f"{quote(c)} {t}" for c, t in zip([KEY, *table.columns], types, strict=True))
        self.run(f"DROP TABLE IF EXISTS {quote(name)}")
        self.run(f"CREATE TABLE {quote(name)} ({columns})")
        mark = "%s" if self.dialect == "postgres" else "?"
        insert = f"INSERT INTO {quote(name).replace('%', '%%')} VALUES ({', '.join([mark] * len(types))})"
        rows = [(i, *map(self._value, row)) for i, row in enumerate(table.iter_rows())]
        cursor = self.connection.cursor()
        cursor.executemany(insert, rows)
        cursor.close()

    def _value(self, value: Any) -> Any:
        if self.dialect == "sqlite" and isinstance(value, date | datetime):
            return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
        return value

    def predict(self, model: Any, name: str, **options: Any) -> dict[str, list[Any]]:
        """Return the columns of the model's query, rows in the order of the key."""
        query = model.to_sql(name, self.dialect, keep=[KEY], **options)
        cursor = self.connection.cursor()
        cursor.execute(query.encode() if self.dialect == "postgres" else query)
        names = [column[0] for column in cursor.description]
        rows = sorted(cursor.fetchall())
        cursor.close()
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def quote(name: str) -> str:
    """Return a quoted name, written apart from the library's own."""
    return '"' + name.replace('"', '""') + '"'


def _kind(dtype: Any) -> str:
    if dtype == pl.Boolean:
        return "boolean"
    if dtype.is_temporal():
        return "date"
    return "number" if dtype.is_numeric() else "category"


@contextmanager
def open_database(dialect: str) -> Iterator[Database]:
    """Open an empty database; PostgreSQL starts a server of its own, in a folder that goes away with it."""
    if dialect == "duckdb":
        with duckdb.connect(config={"threads": 1}) as connection:
            yield Database(dialect, connection)
    elif dialect == "sqlite":
        connection = sqlite3.connect(":memory:")
        yield Database(dialect, connection)
        connection.close()
    else:
        with _server() as folder:
            import psycopg

            with psycopg.connect(host=folder, user="tester", dbname="postgres", autocommit=True) as connection:
                yield Database(dialect, connection)


def postgres_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, if there is one."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@contextmanager
def _server() -> Iterator[str]:
    programs = postgres_programs()
    assert programs is not None, HOW
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        user = getpass.getuser()
        if os.getuid() == 0:  # the server refuses to be run by root
            user = "postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody"
            shutil.chown(folder, user)

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", f"{folder}/data", *arguments]
            options: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid} if os.getuid() == 0 else {}
            done = subprocess.run(
                command, cwd=folder, timeout=60, check=False, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr

        run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        settings = f"-c listen_addresses='' -k {folder} -c fsync=off -c shared_buffers=16MB -c max_connections=5"
        run("pg_ctl", "-w", "-o", settings, "-l", f"{folder}/log", "start")
        try:
            yield folder
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
