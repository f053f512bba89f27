"""What databases write differently: names, constants, types, dates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import ClassVar

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.registry import Registry

SMALLEST_EXPONENT = -600.0
"""Argument below which exp is replaced by 0: PostgreSQL treats underflow as an error, also in a product of two such
values."""

OPERATIONS = {
    **{"where": "(CASE WHEN {} THEN {} ELSE {} END)", "missing": "({} IS NULL)", "log": "ln({})"},
    **{name: f"{name}({{}})" for name in ("sqrt", "floor", "abs")},
}


class Dialect:
    """SQL as most databases have it; those below say what differs."""

    name = ""
    columns: ClassVar[Mapping[str, str]]
    """How a column is read as a float64, missing where it is NaN ("number"), or as text; "boolean", "date" if other."""
    fence = ""
    """Keeps a database from inlining the columns of a subquery repeatedly."""

    level = "{}"
    """How the strings of a table of values are compared with those of a column."""
    first_level = "{}"
    """How the first of these strings is written, which determines the type of their column."""

    def values(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Return a table of constants as a common table expression.

        >>> DIALECTS["sqlite"].values("l", ["level", "v0"], [["'a'", "1.0e0"], ["'b'", "2.0e0"]])
        "l(level, v0) AS (VALUES ('a', 1.0e0), ('b', 2.0e0))"
        """
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"{name}({', '.join(columns)}) AS (VALUES {listed})"

    def key(self, name: str) -> str:
        """Return what is the same for names that the database takes for one: those of Latin letters in either case.

        >>> DIALECTS["sqlite"].key("Äge") == DIALECTS["sqlite"].key("ÄGE"), DIALECTS["postgres"].key("Age")
        (True, 'Age')
        """
        return "".join(letter.lower() if letter.isascii() else letter for letter in name)

    def identifier(self, name: object) -> str:
        """Return a quoted name: whatever it holds, it is a name and nothing else.

        >>> DIALECTS["duckdb"].identifier('x" ; DROP TABLE t; --')
        '"x"" ; DROP TABLE t; --"'
        """
        if not isinstance(name, str):
            raise InvalidTypeError(f"A name in SQL is a str, found {name!r}.")
        if not name:
            raise InvalidInputError("A column or table has the empty name '', which SQL does not allow. Rename it.")
        return _quoted(name, '"', "name")

    def literal(self, value: object) -> str:
        """Return a literal: a number, a boolean or a string.

        >>> DIALECTS["sqlite"].literal("it's"), DIALECTS["sqlite"].literal(3), DIALECTS["sqlite"].literal(-0.1)
        ("'it''s'", '3', '(-0.1e0)')
        """
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        if isinstance(value, float):
            return self.number(value)
        if not isinstance(value, str):
            raise InvalidTypeError(f"A literal in SQL is a number, a boolean or a str, found {value!r}.")
        return _quoted(value, "'", "word")

    def number(self, value: float) -> str:
        """Return a float64 to the last bit. With an exponent it is no decimal number."""
        text = repr(float(value))
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    def column(self, quoted: str, kind: str) -> str:
        """Return a column of the table as a float64, missing where it is NaN; or as text, for ``kind="text"``."""
        return self.columns.get(kind, self.columns["number"]).format(quoted)

    def operation(self, name: str, operands: Sequence[str]) -> str:
        """Return an operation of `FormulaWriter.apply`.

        >>> DIALECTS["duckdb"].operation("+", ["a", "b"]), DIALECTS["duckdb"].operation("log", ["a"])
        ('(a + b)', 'ln(a)')
        """
        if name in ("max", "min"):
            return self.many(name, operands)
        if name == "exp":
            low, zero = self.number(SMALLEST_EXPONENT), self.number(0.0)
            return f"(CASE WHEN {operands[0]} < {low} THEN {zero} ELSE exp({operands[0]}) END)"
        return OPERATIONS.get(name, f"({{}} {name} {{}})").format(*operands)

    def many(self, function: str, parts: Sequence[str]) -> str:
        """Return the largest ("max") or smallest ("min") of numbers."""
        return f"{'GREATEST' if function == 'max' else 'LEAST'}({', '.join(parts)})"


class DuckDB(Dialect):
    """DuckDB 1.0 and later."""

    name = "duckdb"
    columns: ClassVar = {
        "text": '(CAST({0} AS VARCHAR) COLLATE "binary")',
        "date": "(epoch_us({0}) / 86400000000e0)",
        "number": "NULLIF(CAST({0} AS DOUBLE), CAST('NaN' AS DOUBLE))",
    }


class Postgres(Dialect):
    """PostgreSQL 12 and later."""

    name = "postgres"
    columns: ClassVar = {
        "text": '(CAST({0} AS TEXT) COLLATE "C")',
        "boolean": "(CASE WHEN {0} THEN '1.0'::float8 WHEN NOT {0} THEN '0.0'::float8 END)",
        "date": "(CAST(EXTRACT(EPOCH FROM {0}) AS float8) / '86400.0'::float8)",
        "number": "NULLIF(CAST({0} AS float8), 'NaN'::float8)",
    }
    fence = " OFFSET 0"
    level = '({} COLLATE "C")'

    def key(self, name: str) -> str:
        return name  # quoted, each is another

    def identifier(self, name: object) -> str:
        quoted = super().identifier(name)
        if len(str(name).encode()) > 63:  # PostgreSQL would cut off the rest, and read another column
            raise InvalidInputError(f"PostgreSQL allows names of at most 63 bytes, found {name!r}. Rename it.")
        return quoted

    def literal(self, value: object) -> str:
        text = super().literal(value)
        # Backslashes are themselves, whatever ``standard_conforming_strings`` says.
        return "E" + text.replace("\\", "\\\\") if isinstance(value, str) and "\\" in value else text

    def number(self, value: float) -> str:
        return f"'{float(value)!r}'::float8"  # a bare number would be a decimal of any length


class SQLite(Dialect):
    """SQLite 3.35 and later, with its mathematical functions."""

    name = "sqlite"
    fence = " LIMIT -1 OFFSET 0"

    # Values are taken by the type that each has: a cast would read words as zero. An expression has no collation.
    columns: ClassVar = {
        "text": "(CAST({0} AS TEXT) || '')",
        "date": "(CASE WHEN typeof({0}) = 'text' THEN "
        "round((julianday({0}) - 2440587.5e0) * 86400000e0) / 86400000e0 END)",
        "number": "(CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END)",
    }

    def many(self, function: str, parts: Sequence[str]) -> str:
        # Of one argument they would be an aggregate.
        return f"{function}({', '.join(parts)})" if len(parts) > 1 else parts[0]


class MySQL(Dialect):
    """MySQL 8.0.17 and later, MariaDB 10.5 and later."""

    name = "mysql"
    # Bytes are compared, so that neither case nor trailing spaces are lost to a collation.
    columns: ClassVar = {
        "text": "CAST(CONVERT({0} USING utf8mb4) AS BINARY)",
        "date": "(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', {0}) / 86400000000e0)",
        "number": "CAST({0} AS DOUBLE)",
    }
    fence = " LIMIT 18446744073709551615"
    first_level = "CAST({} AS BINARY)"

    def values(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        # MySQL and MariaDB write VALUES differently.
        first, *rest = (f"SELECT {', '.join(row)}" for row in rows)
        return f"{name}({', '.join(columns)}) AS ({' UNION ALL '.join([first, *rest])})"

    def key(self, name: str) -> str:
        # Names are compared without case and without accents.
        letters = unicodedata.normalize("NFKD", name).casefold()
        return "".join(letter for letter in letters if not unicodedata.combining(letter))

    def identifier(self, name: object) -> str:
        super().identifier(name)
        text = str(name)
        if len(text) > 64 or text.endswith(" ") or any(ord(letter) > 0xFFFF for letter in text):
            raise InvalidInputError(
                "MySQL allows names of at most 64 characters, none beyond U+FFFF and no space at the end; found "
                f"{name!r}. Rename it."
            )
        return "`" + text.replace("`", "``") + "`"

    def literal(self, value: object) -> str:
        text = super().literal(value)
        if not isinstance(value, str) or (value.isascii() and "\\" not in value):
            return text
        # As bytes: whatever the connection's character set, and whether backslashes escape or not.
        return f"CONVERT(0x{value.encode().hex()} USING utf8mb4)"


class Snowflake(Dialect):
    """Snowflake. A name that was created without quotes is stored there in capitals."""

    name = "snowflake"
    columns: ClassVar = {
        "text": "COLLATE(CAST({0} AS VARCHAR), 'utf8')",
        "boolean": "(CASE WHEN {0} THEN CAST('1.0' AS FLOAT) WHEN NOT {0} THEN CAST('0.0' AS FLOAT) END)",
        "date": "(CAST(DATE_PART(EPOCH_MICROSECOND, {0}) AS FLOAT) / CAST('86400000000' AS FLOAT))",
        "number": "NULLIF(CAST({0} AS FLOAT), CAST('NaN' AS FLOAT))",
    }

    def key(self, name: str) -> str:
        return name  # quoted, each is another

    def identifier(self, name: object) -> str:
        quoted = super().identifier(name)
        if len(str(name)) > 255:
            raise InvalidInputError(f"Snowflake allows names of at most 255 characters, found {name!r}. Rename it.")
        return quoted

    def literal(self, value: object) -> str:
        text = super().literal(value)
        return text.replace("\\", "\\\\") if isinstance(value, str) else text

    def number(self, value: float) -> str:
        return f"CAST('{float(value)!r}' AS FLOAT)"  # a bare number would be a decimal


class BigQuery(Dialect):
    """BigQuery (GoogleSQL)."""

    name = "bigquery"
    columns: ClassVar = {
        "text": "COLLATE(CAST({0} AS STRING), '')",
        "boolean": "(CASE WHEN {0} THEN 1.0e0 WHEN NOT {0} THEN 0.0e0 END)",
        "date": "(UNIX_MICROS(CAST({0} AS TIMESTAMP)) / 86400000000e0)",
        "number": "(CASE WHEN NOT IS_NAN(CAST({0} AS FLOAT64)) THEN CAST({0} AS FLOAT64) END)",
    }

    def values(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        named = (", ".join(f"{v} AS {column}" for v, column in zip(row, columns, strict=True)) for row in rows)
        return f"{name} AS (SELECT * FROM UNNEST([{', '.join(f'STRUCT({row})' for row in named)}]))"

    refused = re.compile(r"""[!"$()*,./;?@\[\]\\^`{}~\x00-\x1f]""")

    def identifier(self, name: object) -> str:
        super().identifier(name)
        found = self.refused.search(str(name))
        if found or len(str(name)) > 300:
            why = f"and {found.group()!r} is not allowed in them" if found else f"and this one has {len(str(name))}"
            raise InvalidInputError(
                f"BigQuery allows names of at most 300 characters, {why}; found {name!r}. Rename it."
            )
        return f"`{name}`"

    def literal(self, value: object) -> str:
        text = super().literal(value)
        if not isinstance(value, str):
            return text
        return "'" + "".join(_BIGQUERY.get(letter, letter) for letter in value) + "'"


_BIGQUERY = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}


def _quoted(text: str, mark: str, what: str) -> str:
    if re.search("[\x00\ud800-\udfff]", text):
        raise InvalidInputError(
            f"The {what} {text!r} contains a character that databases do not accept (NUL, or an unpaired surrogate)."
        )
    return mark + text.replace(mark, 2 * mark) + mark


DIALECTS: Registry[Dialect] = Registry("dialect of SQL")
for _dialect in (DuckDB(), Postgres(), SQLite(), MySQL(), Snowflake(), BigQuery()):
    DIALECTS.register(_dialect.name)(_dialect)
