"""What a file is, how a CSV is split, and what is wrong with its lines: for the files engine and the command line."""

from __future__ import annotations

import csv as python_csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import csv

FORMATS = {
    **dict.fromkeys(("csv", "tsv", "txt"), "csv"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("arrow", "feather", "ipc"), "arrow"),
    **dict.fromkeys(("jsonl", "ndjson", "json"), "jsonl"),
}
COMPRESSED = ("gz", "bz2", "zst", "lz4")
DELIMITERS = ("\t", ";", "|")
HEAD = 1 << 16
"""Bytes at the beginning of a file that say how it is split."""

QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')
BAD_LINE = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
BAD_VALUE = re.compile(r"column #(\d+): .*conversion error to (\w+)[^:]*: invalid value '(.*)'", re.DOTALL)
EXPECTED = {
    **{"double": "a number", "int64": "a whole number", "bool": "a truth value"},
    **dict.fromkeys(("timestamp", "date32"), "a date such as 2026-01-31"),
}


def format_of(name: str) -> str | None:
    """Return the format that the name of a file says, None where it says none.

    >>> format_of("a.csv.gz"), format_of("a.parquet"), format_of("m.odds")
    ('csv', 'parquet', None)
    """
    parts = name.lower().split(".")[1:]
    if parts and parts[-1] in COMPRESSED:
        parts.pop()
    return FORMATS.get(parts[-1]) if parts else None


def is_compressed(name: str) -> bool:
    """Whether the name of a file says that it is compressed as a whole.

    >>> is_compressed("a.csv.gz"), is_compressed("a.csv")
    (True, False)
    """
    return name.lower().rpartition(".")[2] in COMPRESSED


def sniff(start: bytes) -> str:
    """Return the format of a file that begins with these bytes; what is nothing else is CSV.

    >>> sniff(b"PAR1"), sniff(b"a,b")
    ('parquet', 'csv')
    """
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if start[8:12] == b"DUCK":
        return "duckdb"
    return "jsonl" if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "csv"


def delimiter_of(head: bytes) -> str:
    r"""Return what fields are split at: commas, or, if the header has none, tabs, semicolons or bars.

    >>> delimiter_of(b"a;b\n1;2\n")
    ';'
    """
    header = head.splitlines()[0] if head.strip() else b""
    between = QUOTED.sub("", header.decode("utf-8-sig", errors="replace"))
    return next((sign for sign in (",", *DELIMITERS) if sign in between), ",")


def dialect(head: bytes) -> Any:
    """Return how a CSV is split; fields have several lines only if there are quotes at its beginning."""
    return csv.ParseOptions(delimiter=delimiter_of(head), newlines_in_values=b'"' in head)


def peek(file: Any) -> tuple[Any, bytes]:
    """Return a stream that decompresses, and how it begins."""
    if isinstance(file, bytes):
        return io.BytesIO(file), file[:HEAD]
    if isinstance(file, str):
        with pa.input_stream(file) as stream:
            head = stream.read(HEAD)
        return pa.input_stream(file), head
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
    return buffered, buffered.peek(HEAD)


def csv_lines(file: str | bytes, delimiter: str | None = None) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the fields of a CSV with the number of the line that they begin in; fields may have several.

    >>> list(csv_lines(b'a,b\n"1\n2",3\n4,5\n'))
    [(1, ['a', 'b']), (2, ['1\n2', '3']), (4, ['4', '5'])]
    """
    stream, head = peek(file)
    with io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", errors="replace", newline="") as text:
        lines = python_csv.reader(text, delimiter=delimiter or delimiter_of(head))
        before = 0
        with suppress(python_csv.Error):  # a field beyond all bounds, say: nothing more can be said about such a file
            for row in lines:
                yield before + 1, row
                before = lines.line_num


def broken_line(lines: Iterator[tuple[int, list[str]]], header: list[str]) -> str:
    """Return what is wrong with the first line that has another number of fields than the header, if one has.

    >>> broken_line(iter([(2, ["1"])]), ["a", "b"])
    'line 2 has 1 fields, and the header has 2 (a, b). Correct that line.'
    """
    shown = f"{', '.join(header[:4])}{', …' if len(header) > 4 else ''}"
    for number, row in lines:
        if row and len(row) != len(header):
            return (
                f"line {number} has {len(row)} fields, and the header has {len(header)} ({shown}). Correct that line."
            )
    return ""


def bad_value(lines: Iterator[tuple[int, list[str]]], header: list[str], why: str) -> str:
    """Return in which column and line a value is that is not of the type expected, if that is ``why``.

    >>> why = "In CSV column #1: CSV conversion error to double: invalid value 'x'"
    >>> bad_value(iter([(2, ["1", "x"])]), ["a", "b"], why)
    "column 'b' holds 'x' in line 2, where a number is expected."
    """
    found = BAD_VALUE.search(why)
    if found is None:
        return ""
    place, kind, value = int(found[1]), found[2], found[3]
    where = next((f"line {number}" for number, row in lines if len(row) > place and row[place] == value), "a line")
    column = header[place] if place < len(header) else place
    return f"column {column!r} holds {value!r} in {where}, where {EXPECTED.get(kind, kind)} is expected."
