"""What DuckDB, PostgreSQL and SQLite write differently: names, constants, types, dates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.registry import Registry

SMALLEST_EXPONENT = -600.0
"""Below it exp is 0: PostgreSQL takes a result that is too small for an error, and so is a product of two such."""

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
    """Keeps a database from writing the columns of a subquery into the query around it, again and again."""

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
            raise InvalidInputError("A column or table has the empty name '', which SQL cannot say. Give it another.")
        return _quoted(name, '"', "name")

    def literal(self, value: object) -> str:
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
        if not isinstance(value, str):
            raise InvalidTypeError(f"A word in SQL is a number, a truth value or a str, found {value!r}.")
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

    def key(self, name: str) -> str:
        return name  # quoted, each is another

    def identifier(self, name: object) -> str:
        quoted = super().identifier(name)
        if len(str(name).encode()) > 63:  # PostgreSQL would cut off the rest, and read another column
            raise InvalidInputError(f"PostgreSQL has names of 63 bytes at most, found {name!r}. Rename it.")
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


def _quoted(text: str, mark: str, what: str) -> str:
    if re.search("[\x00\ud800-\udfff]", text):
        raise InvalidInputError(
            f"The {what} {text!r} holds a character that databases do not take (NUL, or half of a surrogate pair)."
        )
    return mark + text.replace(mark, 2 * mark) + mark


DIALECTS: Registry[Dialect] = Registry("dialect of SQL")
for _dialect in (DuckDB(), Postgres(), SQLite()):
    DIALECTS.register(_dialect.name)(_dialect)
