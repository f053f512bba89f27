"""Which files are meant, and what is in them: the same rows from every format, or an error that names the file."""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, dataset, feather, ipc, parquet
from tests.engines.files_cases import read, see

from oddsmith.engines.files import FileParts
from oddsmith.engines.files import settings as sizes
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.testing import lay_out_files

N = 500


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": pa.array(rng.normal(size=N), mask=rng.random(N) < 0.1),
            "n": rng.integers(-5, 5, N),
            "word": pa.array(rng.choice(["a", "b", "ü"], N), mask=rng.random(N) < 0.1),
            "flag": rng.random(N) < 0.5,
            "day": pa.array([datetime.date(2024, 1, 1 + i % 28) for i in range(N)]),
        }
    )


def write_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=37)


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "t.parquet": lambda table, path: parquet.write_table(table, path, row_group_size=60),
    "t.csv": csv.write_csv,
    "t.arrow": lambda table, path: feather.write_feather(table, path, chunksize=41, compression="uncompressed"),
    "t.feather": lambda table, path: feather.write_feather(table, path, chunksize=41, compression="zstd"),
    "t.ipc": write_stream,
}


@pytest.mark.parametrize("piece", [1 << 10, 1 << 23])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(
    name: str, piece: int, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "PIECE", piece)
    WRITERS[name](table, tmp_path / name)
    parts = FileParts.open(tmp_path / name)
    assert parts.columns == tuple(table.column_names)
    seen = see(parts)
    assert pa.concat_tables(seen.tables).equals(table)
    assert (len(seen.tables) > 5) == (piece < 1 << 20)
    assert list(seen.numbers) == sorted(set(seen.numbers)) and len(set(seen.names)) == len(seen.names)
    assert see(parts).names == seen.names
    assert read(tmp_path / name, ["day", "x"]).equals(table.select(["day", "x"]))
    if not name.endswith((".csv", ".ipc")):
        assert parts.expected_rows == N


@pytest.mark.parametrize("format", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_pieces_have_the_rows_that_were_asked_for(format: str, rows: int, table: pa.Table, tmp_path: Path) -> None:
    seen = see(FileParts.open(lay_out_files(table, rows, tmp_path, format), piece_rows=rows))
    assert max(part.num_rows for part in seen.tables) <= rows
    assert pa.concat_tables(seen.tables).equals(table)


def test_names_of_pieces_say_where_they_are(table: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=400)
    seen = see(FileParts.open(tmp_path / "a.parquet", piece_rows=400))
    assert seen.names == ("'a.parquet', row groups 0–1", "'a.parquet', row groups 0–1, rows 400–499")
    csv.write_csv(table, tmp_path / "b.csv")
    size = (tmp_path / "b.csv").stat().st_size
    assert see(FileParts.open(tmp_path / "b.csv")).names[0].endswith(f"–{size}")


def test_folders_globs_and_lists_name_their_files_in_order(table: pa.Table, tmp_path: Path) -> None:
    for i, name in enumerate(["b.parquet", "a.csv", "deep/c.arrow", "_temporary/d.parquet", ".hidden/e.parquet"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        WRITERS[f"t{Path(name).suffix}"](table.slice(100 * i, 100), tmp_path / name)
    for name in ("_SUCCESS", ".crc", "_metadata"):
        (tmp_path / name).write_bytes(b"")
    a, b, c = (table.slice(start, 100) for start in (100, 0, 200))
    assert read(tmp_path).equals(pa.concat_tables([a, b, c]))
    assert read(str(tmp_path / "*.parquet")).equals(b)
    assert read(str(tmp_path / "**" / "*.arrow")).equals(c)
    assert read([tmp_path / "b.parquet", tmp_path / "a.csv"]).equals(pa.concat_tables([b, a]))


def test_keys_of_folders_become_columns(table: pa.Table, tmp_path: Path) -> None:
    expected = []
    for year, kind, start in ((2023, "a b", 0), (2024, None, 200), (2024, "7", 400)):
        place = tmp_path / f"year={year}" / f"kind={'__HIVE_DEFAULT_PARTITION__' if kind is None else kind}"
        place.mkdir(parents=True)
        part = table.slice(start, 100)
        parquet.write_table(part, place / "p.parquet")
        expected += [(year, kind)] * part.num_rows
    found = read(tmp_path, ["kind", "x", "year"])
    assert sorted(map(str, zip(*(found[key].to_pylist() for key in ("year", "kind")), strict=True))) == sorted(
        map(str, expected)
    )
    assert found.schema.field("year").type == pa.int64()
    assert read(tmp_path, ["year"]).num_rows == 300
    assert set(read(str(tmp_path / "year=*"), ["year"])["year"].to_pylist()) == {2023, 2024}
    WRITERS["t.parquet"](table, tmp_path / "loose.parquet")
    with pytest.raises(InvalidInputError, match=r"'loose.parquet' is not in a folder (year|kind)="):
        read(tmp_path)


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv"])
def test_datasets_of_pyarrow(format: str, table: pa.Table, tmp_path: Path) -> None:
    partitioning = dataset.partitioning(pa.schema([("n", pa.int64())]), flavor="hive")
    dataset.write_dataset(table, tmp_path, format=format, partitioning=partitioning)
    data = dataset.dataset(tmp_path, format=format, partitioning=partitioning)
    names = ["x", "n", "word"]
    order = [(name, "ascending") for name in names]
    table = table if format != "csv" else data.to_table()  # in which a missing word is an empty one
    assert read(data, names).sort_by(order).equals(table.select(names).sort_by(order))
    condition = dataset.field("n") > 0
    assert (
        read(data.filter(condition), names).sort_by(order).equals(table.filter(condition).select(names).sort_by(order))
    )
    assert read(dataset.dataset(table)).equals(table)
    few = pa.schema([("x", pa.float32()), ("other", pa.int8())])  # cast, and filled with missing values
    found = read(dataset.dataset(tmp_path, schema=few, format=format))
    assert found.schema == few and found.num_rows == N and found["other"].null_count == N


def test_numbers_of_several_widths_become_the_widest(tmp_path: Path) -> None:
    for i, kind in enumerate([pa.int8(), pa.int32(), pa.float32(), pa.int64(), pa.null()]):
        values = [None, None] if kind == pa.null() else [1, 2**53 + 1 if kind == pa.int64() else 3]
        parquet.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / f"{i}.parquet")
    found = read(tmp_path)["x"]
    assert found.type == pa.float64() and found.to_pylist() == [1, 3, 1, 3, 1, 3, 1, 2.0**53, None, None]
    assert read([tmp_path / "0.parquet", tmp_path / "1.parquet"])["x"].type == pa.int32()


def test_words_and_dictionaries_of_words_are_words(tmp_path: Path) -> None:
    words = pa.array(["a", "b"])
    parquet.write_table(pa.table({"x": words.dictionary_encode()}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"x": words}), tmp_path / "1.parquet")
    assert read(tmp_path)["x"].to_pylist() == ["a", "b", "a", "b"]


def test_words_against_numbers_name_both_files(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "one.parquet")
    parquet.write_table(pa.table({"x": ["a"], "y": [2]}), tmp_path / "two.parquet")
    with pytest.raises(InvalidInputError, match=r"'x' holds text .* 'two.parquet', and numbers .* 'one.parquet'"):
        read(tmp_path)
    assert read(tmp_path, ["y"])["y"].to_pylist() == [1, 2]


def test_a_column_that_one_file_lacks_names_that_file(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "one.parquet")
    parquet.write_table(pa.table({"y": [2]}), tmp_path / "two.parquet")
    with pytest.raises(InvalidInputError, match=r"'two.parquet' has no column 'x'"):
        read(tmp_path)
    assert read(tmp_path, ["y"])["y"].to_pylist() == [1, 2]
    with pytest.raises(InvalidInputError, match="There is no column 'z'"):
        read(tmp_path, ["z"])
    with pytest.raises(InvalidInputError, match="'y' is chosen twice"):
        read(tmp_path, ["y", "y"])


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": [1, 2]}, index=[5, 7]).to_parquet(tmp_path / "a.parquet")
    assert FileParts.open(tmp_path).columns == ("x",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("nowhere.csv", "There is no file or folder 'nowhere.csv'"),
        ("*.parquet", r"No files were found in '\*.parquet'"),
        ([], "the list is empty"),
        ("empty", "No files were found in 'empty'"),
        ("notes", "'notes/notes.md' has no known extension"),
        ("rows.jsonl", "'rows.jsonl' has the format jsonl"),
        (["a.csv", "./a.csv"], "'./a.csv' is named twice"),
    ],
    ids=str,
)
def test_what_cannot_be_found_is_an_error(
    data: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("a.csv", "x\n1\n"), ("notes/notes.md", "no table"), ("rows.jsonl", '{"x": 1}')):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    Path("empty").mkdir()
    with pytest.raises(InvalidInputError, match=words):
        FileParts.open(data)


def test_what_is_no_path_is_an_error() -> None:
    with pytest.raises(InvalidTypeError, match="found a int"):
        FileParts.open(7)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"memory": "much"}, "memory='much' is not a number of bytes"),
        ({"memory": "1KB"}, "memory='1KB' is too little"),
        ({"dtype": "int8"}, "dtype='int8' is unknown"),
        ({"cache": 7}, "cache=7 is unknown"),
        ({"threads": 0}, "threads=0 is not positive"),
        ({"format": "xls"}, "Unknown format 'xls'"),
    ],
    ids=str,
)
def test_settings_that_mean_nothing_are_errors(how: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(InvalidInputError, match=words):
        FileParts.open(tmp_path, **how)


def test_format_says_what_a_name_does_not(table: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(table, tmp_path / "data.bin")
    csv.write_csv(table, tmp_path / "data.dat")
    assert read(tmp_path / "data.bin").equals(table)  # by its first bytes
    assert read(tmp_path / "data.dat", format="csv").equals(table)


def test_files_without_rows_are_fine(table: pa.Table, tmp_path: Path) -> None:
    parquet.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    parquet.write_table(table, tmp_path / "b.parquet")
    csv.write_csv(table.slice(0, 0), tmp_path / "c.csv")
    feather.write_feather(table.slice(0, 0), tmp_path / "d.arrow")
    assert read(tmp_path).equals(table)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97])
def test_a_truncated_file_is_an_error_that_names_it(name: str, share: float, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](table, path)
    content = path.read_bytes()
    if name == "t.csv":
        content = content.rstrip(b"\n").rpartition(b",")[0]  # text that ends in the middle of a row
        content = content if share else b""
    else:
        content = content[: int(share * len(content))]
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=rf"'{name}'"):
        read(path)


def test_a_damaged_page_names_file_and_row_group(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=4000), "y": rng.integers(0, 2, 4000)})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path, row_group_size=1000, compression="zstd", write_page_checksum=True)
    place = parquet.read_metadata(path).row_group(2).column(0).data_page_offset + 200
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidInputError, match=r"'a.parquet', row group 2 cannot be read: .* Nothing was fitted"):
        read_groups(path)
    assert read_groups(path, ["y"])["y"].to_pylist() == table["y"].to_pylist()


def read_groups(path: Path, columns: Any = None) -> pa.Table:
    """Read with each row group by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "PIECE", 16_000)
        return read(path, columns)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.ipc"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_file_is_a_table_or_an_error_that_names_it(name: str, data: Any, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](pa.table({"x": [1.0, 2.0, 3.0] * 50, "w": ["a", "bc", None] * 50}), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        assert isinstance(read(path), pa.Table)
    except OddsmithError as error:
        assert name in str(error)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_changes_between_passes_is_an_error(
    name: str, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes.FileSettings, "kept", 0)
    path = tmp_path / name
    WRITERS[name](table, path)
    parts = FileParts.open(path)
    see(parts)
    time.sleep(0.01)
    WRITERS[name](table.slice(0, 90), path)
    with pytest.raises(InvalidInputError, match=rf"'{name}' has changed since it was opened"):
        see(parts)
    os.remove(path)
    with pytest.raises(InvalidInputError, match=rf"'{name}' was deleted"):
        see(parts)


def test_many_small_files_are_read_together(table: pa.Table, tmp_path: Path) -> None:
    for i in range(50):
        parquet.write_table(table.slice(10 * i, 10), tmp_path / f"{i:02}.parquet")
    seen = see(FileParts.open(tmp_path))
    assert len(seen.tables) == 1 and seen.tables[0].equals(table)
    assert seen.names == ("'00.parquet', row group 0 to '49.parquet', row group 0",)
    (tmp_path / "31.parquet").write_bytes((tmp_path / "31.parquet").read_bytes()[:-40])
    with pytest.raises(InvalidInputError, match=r"'31.parquet'"):
        read(tmp_path)
