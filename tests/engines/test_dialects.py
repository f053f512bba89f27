"""The dialect of a text file: encoding, delimiter and decimal separator are found in its bytes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oddsmith.engines.files import FileParts
from oddsmith.engines.files import dialect as dialect_module
from oddsmith.engines.files import settings as sizes
from oddsmith.engines.files import text as text_module
from oddsmith.errors import InvalidInputError

GERMAN = "Stadt;Größe;Umsatz;Zahl;Datum\n" + "".join(
    f"{('Köln', 'München')[i % 2]};{i},5;{1 + i % 9}.{100 + i},25;{i};{1 + i % 28:02}.01.2024\n" for i in range(400)
)


def rows_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    parts = FileParts.open(path, **options)
    return [row for task in parts.tasks() for table in parts.read(task) for row in table.to_pylist()]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_a_spreadsheet_export_is_read_in_any_encoding(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "PIECE", 2000)
    path = tmp_path / "t.csv"
    path.write_bytes(GERMAN.encode(encoding))
    parts = FileParts.open(path)
    assert [str(t) for t in parts.schema.types] == ["string", "double", "double", "int64", "timestamp[us]"]
    rows = [row for task in parts.tasks() for table in parts.read(task) for row in table.to_pylist()]
    assert len(rows) == 400 and len(list(parts.tasks())) > 4, "ranges are recoded by themselves"
    assert rows[41]["Stadt"] == "München" and rows[41]["Größe"] == 41.5 and rows[41]["Umsatz"] == 6141.25
    again = [row for task in parts.tasks() for table in parts.read(task) for row in table.to_pylist()]
    assert rows == again
    words = ["semicolons between fields", "decimal commas"]
    assert all(word in parts.dialect for word in words) and ("1252" in parts.dialect) == (encoding[:2] in ("la", "cp"))


def test_bytes_of_another_encoding_are_found_behind_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "HEAD", 1 << 12)
    monkeypatch.setattr(text_module, "SAMPLE", 1 << 10)
    monkeypatch.setattr(dialect_module, "CHUNK", 1 << 10)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"x,1\n" * 9000 + "é,2\n".encode("latin-1"))
    assert FileParts.open(path).files[0].dialect.encoding == "cp1252"
    assert rows_of(path)[-1] == {"a": "é", "b": 2}


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("a;b, net;y\n1;2;3\n4;5;6\n", ";"),
        ("a,b;c,y\n1,2,3\n4,5,6\n", ","),
        ('a|"b,c"|y\n1|2,5|3\n', "|"),
        ("a\tb\ty\n1,5\t2\t3\n", "\t"),
    ],
)
def test_the_delimiter_is_that_which_cuts_all_rows_alike(content: str, delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content)
    assert FileParts.open(tmp_path / "t.csv").files[0].delimiter == delimiter


def test_what_is_given_counts_for_more_than_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "1,234;2.345\n" * 9)
    assert rows_of(path)[0] == {"a": 1234.0, "b": 2.345}
    assert rows_of(path, decimal=",")[0] == {"a": 1.234, "b": 2345.0}
    assert rows_of(path, decimal=".", delimiter="|")[0] == {"a;b": "1,234;2.345"}
    assert rows_of(path, types={"a": pa.string()})[0]["a"] == "1,234"
    path.write_bytes("a\nŁ\nB\n".encode("cp1250"))
    assert rows_of(path, encoding="cp1250")[0] == {"a": "Ł"} and rows_of(path)[0] == {"a": "£"}


@pytest.mark.parametrize("wrong", [{"encoding": "klingon"}, {"delimiter": "::"}, {"decimal": "'"}], ids=str)
def test_a_dialect_that_there_is_not_is_refused(wrong: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        FileParts.open(tmp_path / "t.csv", **wrong)


def test_points_that_are_decimal_keep_commas_from_being_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n" + "1,5;0.25\n" * 9)
    rows = rows_of(tmp_path / "t.csv")
    assert rows[0] == {"a": 1.5, "b": 0.25}, "each column has its own sign where they differ"


def test_files_share_what_one_of_them_shows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d\n" + "1/2/2024\n" * 5)
    (tmp_path / "b.csv").write_text("d\n" + "31/1/2024\n" * 5)
    days = [row["d"].day for row in rows_of(tmp_path)]
    assert days == [1] * 5 + [31] * 5


def test_a_value_that_breaks_its_format_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('p,q\n"$1,000",a\n\n"$2","b\nc"\n$3,d\n' + "$4,e\n" * 1_500 + "ask us,f\n" + "$4,e\n" * 3_500)
    with pytest.raises(InvalidInputError, match="column 'p' holds 'ask us' in line 1507, where money such as"):
        rows_of(path)
