"""Formats of table files by name and first bytes, the delimiter of a CSV, and descriptions of invalid lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from oddsmith.errors import InvalidInputError

FORMATS = {
    **dict.fromkeys(("csv", "tsv", "txt"), "csv"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("arrow", "feather", "ipc"), "arrow"),
    **dict.fromkeys(("jsonl", "ndjson", "json"), "jsonl"),
}
SIGNATURES = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow", b"SQLite format 3\0": "sqlite"}
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # First bytes of Excel and zip files.
COMPRESSIONS = {b"\x1f\x8b\x08": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst", b"\x04\x22\x4d\x18": "lz4"}
PAGES = (b"<html", b"<!doc", b"<?xml", b"<table")  # First bytes of what some programs export as a spreadsheet.
COMPRESSED = ("gz", "bz2", "zst", "lz4")
DELIMITERS = ("\t", ";", "|")

FIRST_LINE = re.compile(rb"[^\r\n]*")
QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')
BAD_VALUE = re.compile(r"column #(\d+): .*conversion error to (\w+)[^:]*: invalid value '(.*)'", re.DOTALL)
EXPECTED = {
    **{"double": "a number", "int64": "a whole number", "bool": "a boolean"},
    **dict.fromkeys(("timestamp", "date32"), "a date such as 2026-01-31"),
}


def format_of(name: str) -> str | None:
    """Return the format from the name of a file, or None.

    >>> format_of("a.csv.gz"), format_of("a.parquet"), format_of("m.odds")
    ('csv', 'parquet', None)
    """
    parts = name.lower().split(".")[1:]
    if parts and parts[-1] in COMPRESSED:
        parts.pop()
    return FORMATS.get(parts[-1]) if parts else None


def check_text(name: str, start: bytes | bytearray) -> None:
    """Refuse a file that begins like an Excel workbook, a compressed file or a web page where a CSV is expected."""
    kind = next((kind for first, kind in COMPRESSIONS.items() if start.startswith(first)), None)
    if kind is not None and not is_compressed(name):
        raise InvalidInputError(f"{name!r} is compressed, not a CSV. Add .{kind} to its name, or unpack it.")
    if bytes(start.strip()).lower().startswith(PAGES):
        raise InvalidInputError(
            f"{name!r} is a page of HTML or XML, not a CSV. Open it in a spreadsheet and save it as CSV."
        )
    if start.startswith(WORKBOOKS):
        raise InvalidInputError(
            f"{name!r} is an Excel workbook or a zip archive, not a CSV. Save the sheet as CSV, or unpack it."
        )


def is_compressed(name: str) -> bool:
    """Whether the name of a file shows that it is compressed.

    >>> is_compressed("a.csv.gz"), is_compressed("a.csv")
    (True, False)
    """
    return name.lower().rpartition(".")[2] in COMPRESSED


def sniff(start: bytes) -> str:
    """Return the format of a file that begins with these bytes; CSV by default.

    >>> sniff(b"PAR1"), sniff(b"a,b")
    ('parquet', 'csv')
    """
    for signature, kind in SIGNATURES.items():
        if start.startswith(signature):
            return kind
    if start[8:12] == b"DUCK":
        return "duckdb"
    return "jsonl" if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "csv"


def delimiter_of(head: bytes | bytearray) -> str:
    r"""Return the field delimiter: a comma or, if the header has none, a tab, semicolon or bar.

    >>> delimiter_of(b"a;b\n1;2\n")
    ';'
    """
    header = bytes(FIRST_LINE.match(head)[0])  # type: ignore[index]
    between = QUOTED.sub("", header.decode("utf-8-sig", errors="replace"))
    return next((sign for sign in (",", *DELIMITERS) if sign in between), ",")


def numbered_rows(text: bytes | bytearray, delimiter: str, line: int = 1) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the fields of each row of a CSV with its first line number; fields may span several lines.

    >>> list(numbered_rows(b'a,b\n"1\n2",3\n4,5\n', ","))
    [(1, ['a', 'b']), (2, ['1\n2', '3']), (4, ['4', '5'])]
    """
    with io.TextIOWrapper(io.BytesIO(text), encoding="utf-8-sig", errors="replace", newline="") as lines:
        reader = csv.reader(lines, delimiter=delimiter)
        before = 0
        with suppress(csv.Error):  # a field beyond all bounds, say: nothing more can be said about such a file
            for row in reader:
                yield line + before, row
                before = reader.line_num


def row_lines(text: bytes | bytearray, delimiter: str, line: int = 1) -> list[int]:
    r"""Return the line number at which each row of a CSV begins; empty lines are not rows.

    >>> row_lines(b'a\n\n"1\n2"\n3\n', ",")
    [1, 3, 5]
    """
    return [number for number, row in numbered_rows(text, delimiter, line) if row]


def describe_bad_line(rows: Iterable[tuple[int, list[str]]], header: list[str]) -> str:
    """Describe the first line whose number of fields differs from the header, if any.

    >>> describe_bad_line([(2, ["1"])], ["a", "b"])
    'line 2 has 1 field, but the header has 2 (a, b). Correct that line.'
    """
    shown = f"{', '.join(header[:4])}{', …' if len(header) > 4 else ''}"
    for number, row in rows:
        if row and len(row) != len(header):
            found = f"{len(row)} field{'s' * (len(row) > 1)}"
            remedy = "Correct that line." if len(header) > 1 else "Delete titles above the names of the columns."
            return f"line {number} has {found}, but the header has {len(header)} ({shown}). {remedy}"
    return ""


def line_of(rows: Iterable[tuple[int, list[str]]], place: int, value: str) -> str:
    """Return the first line that contains a value, as text.

    >>> line_of([(2, ["1", "x"]), (3, ["2", "y"])], 1, "y")
    'line 3'
    """
    return next((f"line {number}" for number, row in rows if len(row) > place and row[place] == value), "a line")


def describe_bad_value(rows: Iterable[tuple[int, list[str]]], header: list[str], why: str) -> str:
    """Return the column and line of a value of the wrong type, if that is the error ``why``.

    >>> why = "In CSV column #1: CSV conversion error to double: invalid value 'x'"
    >>> describe_bad_value([(2, ["1", "x"])], ["a", "b"], why)
    "column 'b' holds 'x' in line 2, where a number is expected."
    """
    found = BAD_VALUE.search(why)
    if found is None:
        return ""
    place, kind, value = int(found[1]), found[2], found[3]
    where = line_of(rows, place, value)
    column = header[place] if place < len(header) else place
    return f"column {column!r} holds {value!r} in {where}, where {EXPECTED.get(kind, kind)} is expected."
