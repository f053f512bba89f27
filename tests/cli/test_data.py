"""DATA is the same table wherever it lies: files of every format, folders, globs, databases, standard input."""

import gzip
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from oddsmith.cli.data import open_data
from oddsmith.cli.model_spec import read_call, split_list
from oddsmith.data import DATASETS, load_dataset
from oddsmith.errors import InvalidInputError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_jsonl(table: Any, path: str) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_stream(table: Any, path: str) -> None:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_gzip(table: Any, path: str) -> None:
    with gzip.open(path, "wb") as file:
        csv.write_csv(table, file)


def write_sqlite(table: Any, path: str) -> None:
    with sqlite3.connect(path) as connection:
        columns = ", ".join(f'"{name}"' for name in table.column_names)
        connection.execute(f"CREATE TABLE penguins ({columns})")
        rows = zip(*table.to_pydict().values(), strict=True)
        connection.executemany(f"INSERT INTO penguins VALUES ({', '.join('?' * table.num_columns)})", rows)
    connection.close()


def write_duckdb(table: Any, path: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB databases are read by the package duckdb")
    with duckdb.connect(path) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE penguins AS SELECT * FROM given")


def write_delimited(delimiter: str) -> Callable[[Any, str], None]:
    return lambda table, path: csv.write_csv(table, path, csv.WriteOptions(delimiter=delimiter))


WRITERS: dict[str, Callable[[Any, str], None]] = {
    "a.csv": csv.write_csv,
    "a.tsv": write_delimited("\t"),
    "semicolons.csv": write_delimited(";"),
    "a.csv.gz": write_gzip,
    "a.parquet": parquet.write_table,
    "a.arrow": lambda table, path: feather.write_feather(table, path, compression="uncompressed"),
    "a.stream.arrow": write_stream,
    "a.jsonl": write_jsonl,
    "a.db": write_sqlite,
    "a.duckdb": write_duckdb,
    "without_suffix": csv.write_csv,
    "parquet_without_suffix": parquet.write_table,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_holds_the_same_table(name: str) -> None:
    expected = load_dataset("penguins")
    WRITERS[name](expected, name)
    data = open_data(name)
    assert data.table().to_pydict() == expected.to_pydict()
    assert pa.concat_tables(data.batches(), promote_options="permissive").to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.stream.arrow", "a.jsonl"])
def test_standard_input_is_known_by_its_first_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_dataset("penguins")
    WRITERS[name](expected, name)
    for read in (
        lambda data: data.table(),
        lambda data: pa.concat_tables(data.batches(), promote_options="permissive"),
    ):
        with open(name) as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert read(open_data("-")).to_pydict() == expected.to_pydict()


def test_folders_and_globs_are_one_table() -> None:
    expected = load_dataset("penguins")
    Path("parts/more").mkdir(parents=True)
    csv.write_csv(expected.slice(0, 100), "parts/1.csv")
    parquet.write_table(expected.slice(100, 100), "parts/2.parquet")
    write_jsonl(expected.slice(200), "parts/more/3.jsonl")
    Path("parts/README.md").write_text("no data")
    for name in ("parts", "parts/**/*[0-9].*"):
        assert open_data(name).table().to_pydict() == expected.to_pydict()
    csv.write_csv(expected.drop_columns(["sex"]), "parts/4.csv")
    with pytest.raises(InvalidInputError, match="'sex' is in one of them only"):
        open_data("parts").table()
    with pytest.raises(InvalidInputError, match="holds no files"):
        open_data("parts/*.xlsx").table()


@pytest.mark.parametrize("name", ["a.db", "a.duckdb"])
def test_queries_and_tables_with_odd_names(name: str) -> None:
    WRITERS[name](load_dataset("penguins"), name)
    assert open_data(f"{name}::penguins").table().num_rows == 344
    query = "SELECT species, year FROM penguins WHERE year > 2008;"
    assert set(open_data(f"{name}::{query}").table()["year"].to_pylist()) == {2009}
    odd = 'select "x"; DROP TABLE penguins; --'
    if name == "a.db":
        with sqlite3.connect(name) as connection:
            connection.execute('ALTER TABLE penguins RENAME TO "{}"'.format(odd.replace('"', '""')))
        connection.close()
        assert open_data(f"{name}::{odd}").table().num_rows == 344


def test_postgresql_tables_and_queries() -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL is read by the package psycopg")
    from tests.export.databases import HOW, open_database, postgres_programs

    if postgres_programs() is None:
        pytest.skip(HOW)
    expected = load_dataset("penguins")
    with open_database("postgres") as database:
        database.store('odd."name', polars.from_arrow(expected))
        database.run("CREATE TABLE decimals AS SELECT 0.1 AS x, 'a' AS y UNION ALL SELECT NULL, 'b'")
        place = f"postgresql://tester@/postgres?host={database.connection.info.host}"
        found = open_data(f'{place}::odd."name').table()
        assert found.drop_columns(["the key"]).to_pydict() == expected.to_pydict()
        query = 'SELECT species, year FROM "odd.""name" WHERE year > 2008'
        assert set(open_data(f"{place}::{query}").table()["year"].to_pylist()) == {2009}
        (batch,) = open_data(f"{place}::decimals").batches({"x": pa.float64()})
        assert batch["x"].to_pylist() == [0.1, None]
        with pytest.raises(InvalidInputError, match="The database has 2 tables"):
            open_data(place).table()
        with pytest.raises(InvalidInputError, match="PostgreSQL refuses"):
            open_data(f"{place}::WITH x AS (DELETE FROM decimals RETURNING *) SELECT * FROM x").table()


def test_a_duckdb_query_reads_no_other_file() -> None:
    write_duckdb(load_dataset("penguins"), "a.duckdb")
    Path("secret.csv").write_text("a\n1\n")
    with pytest.raises(InvalidInputError, match="DuckDB refuses"):
        open_data("a.duckdb::SELECT * FROM read_csv('secret.csv')").table()


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    found = r"needs the package psycopg, which is not installed.*oddsmith\[postgres\]"
    with pytest.raises(InvalidInputError, match=found):
        open_data("postgresql://localhost/shop::orders").table()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    Path("a.duckdb").write_bytes(b"12345678DUCK")
    found = r"needs the package duckdb, which is not installed.*oddsmith\[duckdb\]"
    with pytest.raises(InvalidInputError, match=found):
        open_data("a.duckdb::orders").table()


@pytest.mark.parametrize("name", DATASETS)
def test_bundled_tables_are_as_described(name: str) -> None:
    about, table = DATASETS[name], load_dataset(name)
    assert (table.num_rows, table.num_columns) == (about.rows, about.columns)
    assert len(table[about.target].unique()) == about.classes
    readme = Path(sys.modules["oddsmith.data"].__file__ or "").with_name("README.md").read_text()
    assert name in readme and "Licence" in readme


def test_a_file_is_preferred_to_a_bundled_table_of_its_name() -> None:
    Path("iris").write_text("a,y\n1,b\n")
    assert open_data("iris").table().column_names == ["a", "y"]


@pytest.mark.parametrize(
    ("types", "content"),
    [
        (pa.string(), "x\n1\n2\n"),  # what was a word in the fit is a word again, whatever it looks like
        (pa.float64(), "x\n1\n2\n"),
        (None, "x\n1\n2\n"),
        (None, "x\ntrue\nfalse\n"),
    ],
)
def test_a_stream_has_the_types_that_a_model_expects(types: Any, content: str) -> None:
    Path("a.csv").write_text(content)
    found = [batch.schema.field("x").type for batch in open_data("a.csv").batches({"x": types})]
    expected = types or (pa.bool_() if "true" in content else pa.float64())
    assert found and set(found) == {expected}


def test_whole_numbers_first_and_fractions_later(monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli import files

    monkeypatch.setattr(files, "BYTES", 1024)
    values = np.concatenate([np.arange(5000), np.arange(5000) + 0.5])
    Path("a.csv").write_text("x\n" + "\n".join(map(repr, values.tolist())).replace(".0\n", "\n") + "\n")
    found = np.concatenate([batch["x"].to_numpy() for batch in open_data("a.csv").batches({"x": None})])
    assert (found == values).all()


@pytest.mark.parametrize(
    "text", ["f(x)", "f(*[1])", "f(**{})", "f(1", "f)", "", "1", "f(lambda: 0)", "f(a.b)", "f()(1)"]
)
def test_only_literals_are_read(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_call(text, "basis")


def test_lists_split_outside_brackets_and_quotes() -> None:
    assert split_list("a, b(1, [2, 3]), c('x,y', \"(\")") == ["a", "b(1, [2, 3])", "c('x,y', \"(\")"]


def test_command_line_is_found_after_installation() -> None:
    beside = Path(sys.executable).with_name("oddsmith")
    assert beside.exists() or shutil.which("oddsmith")
