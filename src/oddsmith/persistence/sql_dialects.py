"""What DuckDB, PostgreSQL and SQLite write differently: names, constants, types, dates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.registry import Registry


class Dialect(ABC):
    """SQL as most databases have it; those below say what differs."""

    name = ""
    fence = ""
    """Keeps a database from writing the columns of a subquery into the query around it, again and again."""

    def key(self, name: str) -> str:
        """Return what is the same for names that the database takes for one: those of Latin letters in either case.

        >>> DIALECTS["sqlite"].key("Äge") == DIALECTS["sqlite"].key("ÄGE"), DIALECTS["postgres"].key("Age")
        (True, 'Age')
        """
        return "".join(letter.lower() if letter.isascii() else letter for letter in name)

    def identifier(self, name: Any) -> str:
        """Return a quoted name: whatever it holds, it is a name and nothing else.

        >>> DIALECTS["duckdb"].identifier('x" ; DROP TABLE t; --')
        '"x"" ; DROP TABLE t; --"'
        """
        if not isinstance(name, str):
            raise InvalidTypeError(f"A name in SQL is a str, found {name!r}.")
        if not name:
            raise InvalidInputError("A column or table has the empty name '', which SQL cannot say. Give it another.")
        _check_text(name, "name")
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: Any) -> str:
        """Return a constant: a number, a truth value or words.

        >>> DIALECTS["sqlite"].literal("it's"), DIALECTS["sqlite"].literal(3), DIALECTS["sqlite"].literal(-0.1)
        ("'it''s'", '3', '(-0.1e0)')
        """
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        if isinstance(value, float):
            return self.number(value)
        _check_text(value, "word")
        return "'" + str(value).replace("'", "''") + "'"

    def number(self, value: float) -> str:
        """Return a float64 to the last bit. With an exponent it is no decimal number."""
        text = repr(float(value))
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    @abstractmethod
    def column(self, quoted: str, kind: str) -> str:
        """Return a column of the table as a float64, missing where it is NaN; or as text, for ``kind="text"``."""

    def many(self, function: str, parts: list[str]) -> str:
        """Return the largest ("max") or smallest ("min") of numbers."""
        return f"{'GREATEST' if function == 'max' else 'LEAST'}({', '.join(parts)})"


class DuckDB(Dialect):
    """DuckDB 1.0 and later."""

    name = "duckdb"

    def column(self, quoted: str, kind: str) -> str:
        """Cast; dates count microseconds."""
        if kind == "text":
            return f'(CAST({quoted} AS VARCHAR) COLLATE "binary")'
        if kind == "date":
            return f"(epoch_us({quoted}) / 86400000000e0)"
        return f"NULLIF(CAST({quoted} AS DOUBLE), CAST('NaN' AS DOUBLE))"


class Postgres(Dialect):
    """PostgreSQL 12 and later."""

    name = "postgres"
    fence = " OFFSET 0"

    def key(self, name: str) -> str:
        """Return the name: quoted, each is another."""
        return name

    def identifier(self, name: Any) -> str:
        """Return a quoted name of 63 bytes at most: PostgreSQL would cut off the rest, and read another column."""
        quoted = super().identifier(name)
        if len(name.encode()) > 63:
            raise InvalidInputError(f"PostgreSQL has names of 63 bytes at most, found {name!r}. Rename it.")
        return quoted

    def literal(self, value: Any) -> str:
        """Return a constant; backslashes are themselves, whatever ``standard_conforming_strings`` says."""
        text = super().literal(value)
        return "E" + text.replace("\\", "\\\\") if isinstance(value, str) and "\\" in value else text

    def number(self, value: float) -> str:
        """Return a float8: a bare number would be a decimal of any length."""
        return f"'{float(value)!r}'::float8"

    def column(self, quoted: str, kind: str) -> str:
        """Cast; dates have their epoch in seconds."""
        if kind == "text":
            return f'(CAST({quoted} AS TEXT) COLLATE "C")'
        if kind == "boolean":
            return f"(CASE WHEN {quoted} THEN {self.number(1)} WHEN NOT {quoted} THEN {self.number(0)} END)"
        if kind == "date":
            return f"(CAST(EXTRACT(EPOCH FROM {quoted}) AS float8) / {self.number(86400)})"
        return f"NULLIF(CAST({quoted} AS float8), 'NaN'::float8)"


class SQLite(Dialect):
    """SQLite 3.35 and later, with its mathematical functions."""

    name = "sqlite"
    fence = " LIMIT -1 OFFSET 0"

    def column(self, quoted: str, kind: str) -> str:
        """Take values by the type that each has: a cast would read words as zero."""
        if kind == "text":
            return f"(CAST({quoted} AS TEXT) || '')"  # no longer a column, so its collation is gone
        if kind == "date":
            days = f"round((julianday({quoted}) - 2440587.5e0) * 86400000e0) / 86400000e0"
            return f"(CASE WHEN typeof({quoted}) = 'text' THEN {days} END)"
        return f"(CASE WHEN typeof({quoted}) IN ('integer', 'real') THEN CAST({quoted} AS REAL) END)"

    def many(self, function: str, parts: list[str]) -> str:
        """Return the largest or smallest; of one argument they would be an aggregate."""
        return f"{function}({', '.join(parts)})" if len(parts) > 1 else parts[0]


def _check_text(text: Any, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidTypeError(f"A {what} in SQL is a number, a truth value or a str, found {text!r}.")
    try:
        bad = "\x00" in text or not text.encode()
    except UnicodeEncodeError:
        bad = True
    if bad and text:
        raise InvalidInputError(
            f"The {what} {text!r} holds a character that databases do not take (NUL, or half of a surrogate pair)."
        )


DIALECTS: Registry[Dialect] = Registry("dialect of SQL")
for _dialect in (DuckDB(), Postgres(), SQLite()):
    DIALECTS.register(_dialect.name)(_dialect)
