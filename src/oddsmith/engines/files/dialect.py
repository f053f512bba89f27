"""The dialect of a text file: its encoding, delimiter and decimal separator, given or detected."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from oddsmith.engines.files.formats import DELIMITERS, delimiter_of, is_compressed
from oddsmith.engines.text_formats import FEWEST, are_numbers, decimal_sign, sample_texts
from oddsmith.errors import InvalidInputError

CHUNKS, CHUNK = 4, 1 << 15
"""Number of places sampled in a file besides its beginning, and the bytes at each."""
ROWS = 50
"""Rows for detecting the delimiter."""
UTF8 = ("utf-8", "utf-8-sig")
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by the first bytes of a file."""
SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*sep=([!-~\t])[\r\n]+", re.IGNORECASE)
"""A first line that names the delimiter to Excel."""
WORDS = {"\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
NAMES = {"cp1252": "Windows-1252 (Latin-1)", "iso8859-1": "Latin-1"}


@dataclass(frozen=True)
class TextDialect:
    r"""Encoding, delimiter and decimal separator of a text file; None for those still to be detected.

    >>> TextDialect(delimiter="tab", encoding="Latin1")
    TextDialect(encoding='iso8859-1', delimiter='\t', decimal=None)
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)
            except LookupError:
                raise InvalidInputError(
                    f"Unknown encoding {self.encoding!r}. Pass 'utf-8', 'latin-1', 'cp1252', 'utf-16' or another that "
                    "Python knows."
                ) from None
        delimiter = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(self.delimiter or "", self.delimiter)
        object.__setattr__(self, "delimiter", delimiter)
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
            raise InvalidInputError(
                f"delimiter={delimiter!r} is not a delimiter. Pass one character, such as ';', or 'tab'."
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidInputError(f"decimal={self.decimal!r} is unknown. Pass '.' or ','.")

    @property
    def is_sequential(self) -> bool:
        """Whether the file is recoded as it is read, so that it is read from its beginning."""
        return (self.encoding or "").startswith(("utf-16", "utf-32"))

    def found_in(self, head: bytes | bytearray, chunks: Iterable[bytes] = (), *, complete: bool = False) -> TextDialect:
        """Return the dialect with the encoding and delimiter detected from the first bytes and some others of a file.

        ``complete`` says that the first bytes are the whole file.
        """
        if self.encoding and self.delimiter:
            return self
        encoding = self.encoding or _encoding_of(head, chunks, complete)
        text = head.decode(encoding, errors="replace").encode() if encoding not in UTF8 else head
        excel = SEPARATOR_LINE.match(text)
        delimiter = self.delimiter or (_delimiter_of(text) if excel is None else excel[1].decode())
        return replace(self, encoding=encoding, delimiter=delimiter)

    def without(self, given: TextDialect) -> TextDialect:
        """Return the detected properties that were not given.

        >>> str(TextDialect("utf-8", ";", ",").without(TextDialect(delimiter=";")))
        'decimal commas'
        """
        return TextDialect(
            *(None if known else own for own, known in zip(vars(self).values(), vars(given).values(), strict=True))
        )

    def recode(self, text: bytes | bytearray) -> bytes | bytearray:
        """Return text as UTF-8, without a copy if it already is; UTF-16 was converted while reading."""
        if self.encoding is None or self.encoding in UTF8 or self.is_sequential or text.isascii():
            return text
        return bytes(text).decode(self.encoding).encode()

    def __str__(self) -> str:
        """A description of unusual properties; empty for a standard file.

        >>> str(TextDialect("cp1252", ";", ",")), str(TextDialect("utf-8", ",", "."))
        ('Windows-1252 (Latin-1) text, semicolons between fields, decimal commas', '')
        """
        encoding = "" if self.encoding in (*UTF8, None) else f"{NAMES.get(self.encoding, self.encoding.upper())} text"
        delimiter = f"{WORDS.get(self.delimiter or '', repr(self.delimiter))} between fields"
        parts = (encoding, "" if self.delimiter in (",", "\t", None) else delimiter)
        return ", ".join(filter(None, (*parts, "decimal commas" if self.decimal == "," else "")))


def find_decimal(table: pa.Table) -> str | None:
    """Return the decimal separator of a table that Arrow read with points, if its columns show one.

    Text such as ``1,5`` shows a comma; parsed fractions show a point, unless all have three digits.

    >>> find_decimal(pa.table({"a": ["1,5", "2,25", "3"], "b": [1.234, 5.678, 9.012]}))
    ','
    """
    signs: set[str | None] = set()
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            signs.add(_sign_in(column))
        elif pa.types.is_floating(column.type):
            signs.add("." if _has_point(column.slice(0, 200).to_pylist()) else None)
    signs.discard(None)
    return signs.pop() if len(signs) == 1 else None


def has_fractions(table: pa.Table) -> bool:
    """Whether a table shows that its numbers were read with the right decimal sign: see `find_decimal`."""
    columns = [column for column in table.columns if pa.types.is_floating(column.type)]
    first = [column.drop_null().slice(0, 200).to_pylist() for column in columns]
    return any(len(values) >= FEWEST and _has_point(values) for values in first)


def _sign_in(column: pa.ChunkedArray) -> str | None:
    """Return the decimal separator of a column of text, None if it holds other text, too few values, or either sign."""
    first = [text for text in column.slice(0, FEWEST).to_pylist() if text is not None]
    if first and not are_numbers(first):  # nor is the column
        return None
    texts = sample_texts(column)
    return decimal_sign(list(texts)) if texts.total() >= FEWEST else None


def _has_point(values: list[float | None]) -> bool:
    """Whether numbers read with decimal points are not groups of three digits: 1.234 may be a thousand."""
    parts: list[float] = []
    for value in values:
        part = 0.0 if value is None else abs(value)
        if not (part < 1e15 and part % 1.0):
            continue
        if part < 1.0 or part >= 1000.0 or round(part, 3) != part:
            return True
        parts.append(part)
    return len(parts) >= 5 and all(round(part, 2) == part for part in parts)


def read_chunks(path: str, size: int, start: int) -> list[bytes]:
    """Return bytes at some places of a file after ``start``; none for a compressed file."""
    if is_compressed(path) or size <= start + CHUNK:
        return []
    with open(path, "rb") as file:
        chunks = []
        for k in range(1, CHUNKS + 1):
            file.seek(min(start + k * (size - start) // CHUNKS, size) - CHUNK)
            chunks.append(file.read(CHUNK))
    return chunks


def open_text(path: str, dialect: TextDialect) -> Any:
    """Return a stream of the bytes of a file, decompressed according to its name, with UTF-16 converted to UTF-8."""
    stream = pa.input_stream(os.fspath(path))
    return io.BufferedReader(Recoded(stream, dialect.encoding or "utf-8")) if dialect.is_sequential else stream


class Recoded(io.RawIOBase):
    """A stream of text in another encoding, as UTF-8."""

    def __init__(self, stream: Any, encoding: str) -> None:
        super().__init__()
        self.stream, self.decoder, self.rest = stream, codecs.getincrementaldecoder(encoding)(), b""

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Put the next bytes into a buffer, and return how many there are."""
        while not self.rest:
            raw = self.stream.read(1 << 16)
            self.rest = self.decoder.decode(raw, final=not raw).encode()
            if not raw:
                break
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def close(self) -> None:
        """Close the stream beneath, too."""
        if not self.closed:
            self.stream.close()
        super().close()


def _encoding_of(head: bytes | bytearray, chunks: Iterable[bytes], complete: bool) -> str:
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    # The first letters of a header, in UTF-16 without a mark, have a zero byte each.
    even, odd = bytes(head[:32:2]), bytes(head[1:32:2])
    if odd and 0 in (*even, *odd) and not (any(even) and any(odd)):
        return "utf-16-le" if any(even) else "utf-16-be"
    if _is_utf8(head, cut=not complete) and all(_is_utf8(part[_start(part) :]) for part in chunks):
        return "utf-8"
    with suppress(UnicodeDecodeError):
        for part in (head, *chunks):
            bytes(part).decode("cp1252")
        return "cp1252"
    return "iso8859-1"


def _start(text: bytes) -> int:
    """Return where the first character begins in bytes that may begin within one."""
    return next((i for i, byte in enumerate(text[:4]) if byte & 0xC0 != 0x80), 0)


def _is_utf8(text: bytes | bytearray, *, cut: bool = True) -> bool:
    """Whether some bytes, which may be ``cut`` within a character, are UTF-8."""
    if text.isascii():
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(bytes(text), final=not cut)
    except UnicodeDecodeError:
        return False
    return True


def _delimiter_of(head: bytes | bytearray) -> str:
    """Return the delimiter that splits most of the first rows into as many fields as the header (more than one)."""
    text = head[: 1 << 16].decode("utf-8-sig", errors="replace").lstrip("\r\n")
    if len(head) > 1 << 16:
        text = text.rpartition("\n")[0] or text
    first = text.split("\n", 2 * ROWS)[:-1]
    if '"' not in text and sum(1 for line in first if line.strip("\r")) >= ROWS:  # no more of it is looked at
        text = "\n".join(first)
    best, most = delimiter_of(head), 0.0
    for sign in (best, *(sign for sign in (",", *DELIMITERS) if sign != best)):
        with suppress(csv.Error):
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=sign)
            rows = [row for row, _ in zip((row for row in reader if row), range(ROWS), strict=False)]
            share = sum(len(row) == len(rows[0]) for row in rows) / len(rows) if rows and len(rows[0]) > 1 else 0.0
            if share > most:
                best, most = sign, share
            if most == 1.0:
                break
    return best
