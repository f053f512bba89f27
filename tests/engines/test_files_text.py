"""CSV files, cut anywhere: the rows and types that Arrow's reader finds in the whole, or an error with a line."""

import gzip
import io
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv
from tests.engines.files_cases import read, see

from oddsmith.engines.files import FileParts
from oddsmith.engines.files import settings as sizes
from oddsmith.engines.files import text as text_module
from oddsmith.engines.files.lines import Lines
from oddsmith.errors import InvalidInputError, OddsmithError

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
WORDS = csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()}, strings_can_be_null=True)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a few bytes."""
    monkeypatch.setattr(sizes, "PIECE", 32)
    monkeypatch.setattr(text_module, "MARGIN", 3)


def whole(content: bytes, names: list[str], newlines: bool = True) -> list[Any] | None:
    """What Arrow's reader finds in all bytes at once: rows, or None where it finds an error."""
    if not content:
        return []
    options = csv.ReadOptions(column_names=names, use_threads=False)
    words = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    try:
        found = csv.read_csv(io.BytesIO(content), options, csv.ParseOptions(newlines_in_values=newlines), words)
    except pa.ArrowInvalid as error:
        return [] if "Empty CSV" in str(error) else None
    return found.to_pylist()


@given(
    st.text(st.sampled_from('ab,"\n\r'), min_size=1, max_size=40).map(str.encode),
    st.integers(1, 40),
    st.sampled_from([["a"], ["a", "b"]]),
)
def test_a_cut_at_the_next_row_changes_no_row(content: bytes, target: int, names: list[str]) -> None:
    rows = whole(content, names)
    cut = Lines.of(content, ",").next_row(min(target, len(content)), at_end=True)
    cut = len(content) if cut is None else cut
    assert cut >= min(target, len(content))
    if rows is not None:
        assert [whole(content[:cut], names), whole(content[cut:], names)].count(None) == 0
        assert (whole(content[:cut], names) or []) + (whole(content[cut:], names) or []) == rows


@pytest.mark.usefixtures("tiny")
@SAME_FOLDER
@given(
    rows=st.lists(st.tuples(*[st.text(st.sampled_from('xy1,";\n\ré '), max_size=9)] * 2), max_size=25),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.booleans(),
    last=st.booleans(),
)
def test_rows_in_ranges_of_a_few_bytes_are_those_of_the_whole(
    rows: list[tuple[str, str]], end: str, bom: bool, last: bool, tmp_path: Path
) -> None:
    def field(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if re.search('[,"\n\r]', value) or not value else value

    lines = ["a,b", *(f"{field(a)},{field(b)}" for a, b in rows)]
    content = ("\ufeff" if bom else "") + end.join(lines) + (end if last or not rows else "")
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    expected = csv.read_csv(path, csv.ReadOptions(use_threads=False), csv.ParseOptions(newlines_in_values=True), WORDS)
    found = read(path, types={"a": pa.string(), "b": pa.string()})
    assert found.to_pylist() == expected.to_pylist()
    zipped = tmp_path / "t.csv.gz"
    zipped.write_bytes(gzip.compress(content.encode()))
    assert read(zipped, types={"a": pa.string(), "b": pa.string()}).equals(found)


@pytest.mark.usefixtures("tiny")
@SAME_FOLDER
@given(
    content=st.one_of(
        st.text(st.sampled_from('ab1.,;\t"\n\r \x00é'), max_size=80).map(str.encode), st.binary(max_size=80)
    )
)
def test_any_bytes_are_the_rows_of_the_whole_or_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    try:
        parts = FileParts.open(path)
        found = see(parts)
    except OddsmithError as error:
        assert "t.csv" in str(error)
        return
    if parts.formats:  # others are held against their own rules
        return
    rows = [row for table in found.tables for row in table.to_pylist()]
    dialect = parts.files[0].dialect
    splitting = csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
    conversion = csv.ConvertOptions(column_types=parts.schema, strings_can_be_null=True)
    conversion.decimal_point = dialect.decimal or "."
    try:
        text = content.decode("utf-16").encode() if dialect.is_sequential else dialect.recode(content)
        expected = csv.read_csv(io.BytesIO(text), csv.ReadOptions(use_threads=False), splitting, conversion)
    except pa.ArrowInvalid as error:
        assert "Empty CSV" in str(error) and not rows
        return
    assert rows == expected.to_pylist()


COLUMNS = {
    "whole numbers": ["1", "2", "", "3"] * 20,
    "a fraction later": ["1"] * 60 + ["2.5"],
    "empty at first": [""] * 60 + ["7"],
    "empty, then words": [""] * 60 + ["x"],
    "words that begin with numbers": ["x", *["1"] * 60],
    "a moment among days": ["2024-01-01"] * 60 + ["2024-01-02 10:00:00"],
    "truth": ["true", "false"] * 30,
    "beyond 64 bits": ["1"] * 60 + ["123456789012345678901234567890"],
    "nothing": [""] * 60,
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_types_are_those_that_the_whole_has(
    name: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "SAMPLE", 30)
    monkeypatch.setattr(sizes, "PIECE", 64)
    content = "k,v\n" + "".join(f"{i},{value}\n" for i, value in enumerate(COLUMNS[name]))
    path = tmp_path / f"t.{ending}"
    path.write_bytes(gzip.compress(content.encode()) if ending.endswith("gz") else content.encode())
    calls: list[tuple[int, int]] = []
    parts = FileParts.open(path)
    seen = see(parts, progress=lambda *at: calls.append(at))
    found = pa.concat_tables(seen.tables)
    expected = csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    assert found.cast(expected.schema).equals(expected.combine_chunks()) or found.to_pylist() == expected.to_pylist()
    assert found.schema.field("v").type == expected.schema.field("v").type
    assert len(seen.tables) > 5 and {table.schema for table in seen.tables} == {parts.schema}
    done = [at for at, _ in calls]
    assert done == sorted(set(done)) and calls[-1][0] == calls[-1][1]


def test_a_word_among_numbers_is_an_error_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "SAMPLE", 30)
    monkeypatch.setattr(sizes, "PIECE", 64)
    lines = ["a,b", *(f"{i},{i}" for i in range(200)), "7,oops", "8,8", ""]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(InvalidInputError, match=r"'t.csv'.*column 'b' holds 'oops' in line 202, where a whole number"):
        read(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv", ["a"]).num_rows == 202  # not read, no trouble
    assert read(tmp_path / "t.csv", types={"b": pa.string()})["b"].to_pylist()[200] == "oops"
    with pytest.raises(InvalidInputError, match=r"column 'b' holds 'oops' in line 202, where a number"):
        read(tmp_path / "t.csv", types={"b": pa.float64()})


@pytest.mark.parametrize("line", ["1,2,3", "1"])
def test_a_line_of_another_length_is_an_error_with_its_number(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "SAMPLE", 30)
    monkeypatch.setattr(sizes, "PIECE", 64)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 300 + f"{line}\n" + "1,2\n" * 10)
    with pytest.raises(InvalidInputError, match=rf"'t.csv'.*line 302 has {len(line.split(','))} field"):
        read(tmp_path / "t.csv")


def test_a_quote_that_is_never_closed_is_an_error_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "SAMPLE", 30)
    monkeypatch.setattr(text_module, "LONGEST", 4096)
    monkeypatch.setattr(text_module, "MARGIN", 64)
    monkeypatch.setattr(sizes, "PIECE", 1024)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 300 + '1,"2\n' + "1,2\n" * 9000)
    with pytest.raises(InvalidInputError, match=r"'t.csv'.*begins in line 302 .*closing quote"):
        read(tmp_path / "t.csv")


def test_long_rows_fit_into_no_range_and_are_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "BLOCK", 256)
    monkeypatch.setattr(text_module, "MARGIN", 16)
    monkeypatch.setattr(sizes, "PIECE", 64)
    table = pa.table({"a": [1, 2, 3], "b": ["x" * 1000, "y", "z" * 3000]})
    csv.write_csv(table, tmp_path / "t.csv", csv.WriteOptions(quoting_style="none"))
    assert read(tmp_path / "t.csv").equals(table)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"a,b\n\xff\xfe,1\n", "column 'a' holds text that is not UTF-8"),
        (b"a,b\xff\n1,1\n", "header holds text that is not UTF-8"),
    ],
    ids=str,
)
def test_text_that_is_no_table_is_an_error(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=words):
        read(tmp_path / "t.csv", encoding="utf-8")


def test_text_that_turns_out_not_to_be_utf8_later_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "SAMPLE", 8)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"x,1\n" * 9 + b"\xff,1\n")
    with pytest.raises(InvalidInputError, match="column 'a' holds text that is not UTF-8"):
        read(tmp_path / "t.csv", encoding="utf-8")


def test_a_truncated_compressed_file_is_an_error(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, 3 * i % 7919) for i in range(300_000)))
    (tmp_path / "t.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InvalidInputError, match=r"'t.csv.gz' cannot be read"):
        read(tmp_path / "t.csv.gz")


def test_the_delimiter_is_that_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2,5\n")
    assert read(tmp_path / "t.tsv").to_pylist() == [{"a": 1, "b": "2,5"}]


def test_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b")
    parts = FileParts.open(tmp_path)
    assert parts.columns == ("a", "b") and parts.expected_rows == 0 and not see(parts).tables


def test_expected_rows_of_text_are_near(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i},{i / 7:.6f}\n" for i in range(100_000)))
    assert abs(FileParts.open(tmp_path).expected_rows - 100_000) < 10_000
