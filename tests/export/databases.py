"""Real databases for tests: a table goes in, the rows of a query come out."""

from __future__ import annotations

import getpass
import math
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import time
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
    "mysql": {"number": "DOUBLE", "boolean": "BOOLEAN", "date": "DATETIME(6)", "category": "TEXT"},
    "sqlite": {"number": "REAL", "boolean": "INTEGER", "date": "TEXT", "category": "TEXT"},
}
HOW = {
    "postgres": "install Debian's package postgresql (apt-get install postgresql), or put initdb, pg_ctl on the PATH",
    "mysql": "install Debian's package mariadb-server (apt-get install mariadb-server)",
}
TRANSLATED = ("snowflake", "bigquery")
"""Dialects without a server here: sqlglot reads their queries, and DuckDB runs its translation of them."""


class Database:
    """A connection to a database, with the name of its dialect."""

    def __init__(self, dialect: str, connection: Any) -> None:
        self.dialect, self.connection = dialect, connection

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(query.encode() if self.dialect == "postgres" else query)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def store(self, name: str, table: pl.DataFrame) -> None:
        """Make a table, with a key that numbers its rows."""
        kinds = [_kind(dtype) for dtype in table.dtypes]
        types = ["INTEGER", *(TYPES.get(self.dialect, TYPES["duckdb"])[kind] for kind in kinds)]
        quoted = self.quote(name)
        columns = ", ".join(f"{self.quote(c)} {t}" for c, t in zip([KEY, *table.columns], types, strict=True))
        self.run(f"DROP TABLE IF EXISTS {quoted}")
        self.run(f"CREATE TABLE {quoted} ({columns})")
        mark = "%s" if self.dialect in ("postgres", "mysql") else "?"
        quoted = quoted.replace("%", "%%") if mark == "%s" else quoted
        insert = f"INSERT INTO {quoted} VALUES ({', '.join([mark] * len(types))})"
        rows = [(i, *map(self._value, row)) for i, row in enumerate(table.iter_rows())]
        cursor = self.connection.cursor()
        cursor.executemany(insert, rows)
        cursor.close()

    def _value(self, value: Any) -> Any:
        if self.dialect == "sqlite" and isinstance(value, date | datetime):
            return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
        if self.dialect == "mysql" and isinstance(value, float) and not math.isfinite(value):
            return None  # it has neither NaN nor infinities
        return value

    def quote(self, name: str) -> str:
        """Return a quoted name, written apart from the library's own."""
        mark = "`" if self.dialect == "mysql" else '"'
        return mark + name.replace(mark, 2 * mark) + mark

    def translate(self, query: str) -> str:
        """Return a query of the model's dialect as this database runs it."""
        return query

    def predict(self, model: Any, name: str, **options: Any) -> dict[str, list[Any]]:
        """Return the columns of the model's query, rows in the order of the key."""
        query = self.translate(model.to_sql(name, self.dialect, keep=[KEY], **options))
        cursor = self.connection.cursor()
        cursor.execute(query.encode() if self.dialect == "postgres" else query)
        names = [column[0] for column in cursor.description]
        rows = sorted(cursor.fetchall())
        cursor.close()
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}


class TranslatedDatabase(Database):
    """DuckDB in the place of a database that is not here."""

    def translate(self, query: str) -> str:
        """Return the query in DuckDB's dialect, as sqlglot reads it."""
        import sqlglot

        (statement,) = sqlglot.parse(query, read=self.dialect)
        # DuckDB compares bytes, whatever the name of that collation elsewhere.
        plain = statement.transform(lambda node: node.this if isinstance(node, sqlglot.exp.Collate) else node)
        return str(plain.sql(dialect="duckdb"))


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
    elif dialect in TRANSLATED:
        with duckdb.connect(config={"threads": 1}) as connection:
            yield TranslatedDatabase(dialect, connection)
    elif dialect == "mysql":
        with _mariadb() as socket:
            import pymysql

            connection = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4")
            database = Database(dialect, connection)
            database.run("CREATE DATABASE ours CHARACTER SET utf8mb4")
            database.run("USE ours")
            yield database
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
    assert programs is not None, HOW["postgres"]
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


def missing_server(dialect: str) -> str:
    """Return how to install the server that a dialect needs, nothing if it is there or needs none."""
    there = {"postgres": postgres_programs() is not None, "mysql": _mariadb_programs() is not None}
    return "" if there.get(dialect, True) else HOW[dialect]


def _mariadb_programs() -> tuple[str, str] | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"])
    install, server = (shutil.which(name, path=path) for name in ("mariadb-install-db", "mariadbd"))
    return (install, server) if install and server else None


@contextmanager
def _mariadb() -> Iterator[str]:
    """Start a server in a folder that goes away with it, and yield its socket."""
    programs = _mariadb_programs()
    assert programs is not None, HOW["mysql"]
    with tempfile.TemporaryDirectory(prefix="my", ignore_cleanup_errors=True) as folder:
        user = getpass.getuser()
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "cwd": folder}
        if os.getuid() == 0:
            user = "mysql" if any(entry.pw_name == "mysql" for entry in pwd.getpwall()) else "nobody"
            shutil.chown(folder, user)
            options |= {"user": user, "group": pwd.getpwnam(user).pw_gid}
        where = f"--datadir={folder}/data"
        log = "--innodb-log-file-size=4M"
        start = [
            programs[0],
            "--no-defaults",
            where,
            log,
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
        ]
        done = subprocess.run(start, timeout=120, check=False, stderr=subprocess.PIPE, text=True, **options)
        assert done.returncode == 0, done.stderr
        socket = f"{folder}/socket"
        settings = [
            "--skip-networking",
            "--skip-grant-tables",
            "--character-set-server=utf8mb4",
            "--innodb-buffer-pool-size=16M",
            log,
        ]
        command = [programs[1], "--no-defaults", where, f"--socket={socket}", f"--pid-file={folder}/pid", *settings]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL, **options)
        try:
            for _ in range(600):
                if os.path.exists(socket) or server.poll() is not None:
                    break
                time.sleep(0.05)
            yield socket
        finally:
            server.kill()
            server.wait()
