"""Formulas as one SELECT: columns with names of their own, step by step, in subqueries that follow on one another.

Every expression knows the step whose columns it needs. What is given a name is computed in the next one, so that
nothing is written twice, however often it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.export.formulas import FormulaWriter
from oddsmith.export.sql_dialects import DIALECTS, Dialect
from oddsmith.numerics import Array

CONSTANT = -1  # The step of what needs no column; 0 is that of the columns of the table.
LONGEST_CONSTANT = 60  # Letters of a constant that is written where it is used: a formula of one would nest too deep.
MOST_NAMES = 1600  # Columns that a SELECT may have in every database.
MANY_LEVELS = 50  # Levels of a column from which their weights stand in a table that is joined, not in a CASE.


class SqlExpression(NamedTuple):
    """An expression: its text, the step whose columns it needs, and, for 0/1 columns, what equals which constant."""

    text: str
    step: int
    subject: str = ""
    value: str = ""


SqlColumns = tuple[SqlExpression, ...]


@dataclass(frozen=True, kw_only=True)
class LevelTable:
    """Numbers for the levels of a column, ``subject``: a row for each level, a column for each weighted sum of them.

    ``texts`` says that the levels are words.
    """

    name: str
    subject: str
    texts: bool
    rows: dict[str, dict[int, str]] = field(default_factory=dict)
    """The numbers of each level, by the number of the sum."""
    sums: list[tuple[tuple[str, str], ...]] = field(default_factory=list)

    def column(self, pairs: tuple[tuple[str, str], ...]) -> str:
        """Return the name of the column with these pairs of a level and its number, added if it is not there."""
        if pairs not in self.sums:
            for level, number in pairs:
                self.rows.setdefault(level, {}).setdefault(len(self.sums), number)
            self.sums.append(pairs)
        return f"{self.name}.v{self.sums.index(pairs)}"

    @property
    def start(self) -> str:
        """What the text of a column of this table begins with."""
        return f"COALESCE({self.name}."

    def is_read(self, step: dict[str, str]) -> bool:
        """Whether a column of a step is one of this table."""
        return any(text.startswith(self.start) for text in step.values())

    def key(self, dialect: Dialect) -> str:
        """Return the column of levels as it is compared with those of the rows."""
        return (dialect.level if self.texts else "{}").format(f"{self.name}.level")

    def write(self, dialect: Dialect) -> str:
        """Return the table as a common table expression."""
        names = ["level", *(f"v{k}" for k in range(len(self.sums)))]
        rows = [[level, *(found.get(k, "NULL") for k in range(len(self.sums)))] for level, found in self.rows.items()]
        if self.texts:
            rows[0][0] = dialect.first_level.format(rows[0][0])
        return dialect.values(self.name, names, rows)


class SqlWriter(FormulaWriter[SqlColumns]):
    """A `FormulaWriter` of SQL: columns are tuples of expressions.

    >>> w = SqlWriter("duckdb")
    >>> w.affine(w.constant(1.0), np.array([[2.0]]))[0].text
    '(2.0e0 * 1.0e0)'
    """

    highest = float(np.finfo(np.float64).max)
    smallest = float(np.finfo(np.float64).tiny)
    far = 1e100

    def __init__(self, dialect: str) -> None:
        self.dialect: Dialect = DIALECTS[dialect]
        self.read: dict[str, str] = {}
        """The columns that the formulas read, and how they are quoted."""
        self._keys: dict[str, str] = {}
        self.results: dict[str, SqlExpression] = {}
        """What the query gives, by the name of the column."""
        self._steps: list[dict[str, str]] = [{}]
        self._named: dict[SqlExpression, SqlExpression] = {}
        self._required: list[SqlExpression] = []
        self._tables: dict[tuple[int, str], LevelTable] = {}
        self._texts: set[str] = set()

    def _source(self, name: str) -> str:
        if name not in self.read:
            same = self._keys.setdefault(self.dialect.key(name), name)
            if same != name:
                raise InvalidInputError(
                    f"Columns {same!r} and {name!r} have the same name in {self.dialect.name}, which "
                    "ignores case. Rename one of them before the fit."
                )
            self.read[name] = self.dialect.identifier(name)
        # With the table before it, a name that is not there is an error everywhere (to SQLite it would be a word).
        return f"t.{self.read[name]}"

    def number(self, name: str, kind: str = "number") -> SqlColumns:
        return self.let((SqlExpression(self.dialect.column(self._source(name), kind), 0),))

    def category(self, name: str, levels: Sequence[Any], kind: str) -> tuple[SqlColumns, SqlColumns]:
        words = any(isinstance(level, str) for level in levels)
        (column,) = self.let((SqlExpression(self.dialect.column(self._source(name), "text" if words else kind), 0),))
        missing = self.apply("missing", (column,))
        self._texts |= {column.text} if words else set()

        def indicator(level: Any) -> SqlExpression:
            if level is None:
                return self.indicator(missing)[0]
            value = self.dialect.literal(str(level) if words else float(level))
            (test,) = self.indicator((SqlExpression(f"({column.text} = {value})", column.step),))
            return test._replace(subject=column.text, value=value)

        return tuple(map(indicator, levels)), missing

    def constant(self, *values: float) -> SqlColumns:
        return tuple(SqlExpression(self.dialect.number(value), CONSTANT) for value in values)

    def width(self, x: SqlColumns) -> int:
        return len(x)

    def join(self, *parts: SqlColumns) -> SqlColumns:
        return tuple(column for part in parts for column in part)

    def pick(self, x: SqlColumns, which: Sequence[int]) -> SqlColumns:
        return tuple(x[i] for i in which)

    def affine(self, x: SqlColumns, W: Array, b: Array | None = None) -> SqlColumns:
        sums = []
        for row, constant in zip(W, np.zeros(len(W)) if b is None else b, strict=True):
            inside = np.flatnonzero(row)
            terms = self._terms([(float(row[j]), x[j]) for j in inside])
            if constant != 0.0 or not terms:
                terms.append(SqlExpression(self.dialect.number(float(constant)), CONSTANT))
            sums.append(SqlExpression(_chain("+", [term.text for term in terms]), _step(terms)))
        return tuple(sums)

    def _terms(self, weighted: list[tuple[float, SqlExpression]]) -> list[SqlExpression]:
        """Return the terms of a sum; the levels of a column are one of them, a CASE or a column of their table."""
        terms: list[SqlExpression] = []
        cases: dict[tuple[int, str], list[tuple[str, str]]] = {}
        for weight, column in weighted:
            if column.subject:
                cases.setdefault((column.step, column.subject), []).append((column.value, self.dialect.number(weight)))
            elif weight == 1.0:
                terms.append(column)
            else:
                terms.append(SqlExpression(f"({self.dialect.number(weight)} * {column.text})", column.step))
        return terms + [self._levels(*where, tuple(pairs)) for where, pairs in cases.items()]

    def _levels(self, step: int, subject: str, pairs: tuple[tuple[str, str], ...]) -> SqlExpression:
        """Return the number of a row's level, 0 where it has none of these."""
        zero = self.dialect.number(0.0)
        if len(pairs) < MANY_LEVELS:
            whens = " ".join(f"WHEN {level} THEN {number}" for level, number in pairs)
            return SqlExpression(f"(CASE {subject} {whens} ELSE {zero} END)", step)
        texts = subject in self._texts
        table = self._tables.setdefault(
            (step, subject), LevelTable(name=f"levels{len(self._tables)}", subject=subject, texts=texts)
        )
        return self._name(SqlExpression(f"COALESCE({table.column(pairs)}, {zero})", step))

    def apply(self, operation: str, *operands: SqlColumns) -> SqlColumns:
        if operation == "exp":  # its operand is written twice
            operands = tuple(map(self.let, operands))
        width = max(map(len, operands))
        rows = zip(*(x * width if len(x) == 1 else x for x in operands), strict=True)
        write = self.dialect.operation
        return tuple(SqlExpression(write(operation, [x.text for x in row]), _step(row)) for row in rows)

    def largest(self, x: SqlColumns) -> SqlColumns:
        return (SqlExpression(self.dialect.operation("max", [a.text for a in x]), _step(x)),)

    def require(self, condition: SqlColumns) -> None:
        self._required += [c for c in condition if c not in self._required]

    def let(self, x: SqlColumns) -> SqlColumns:
        return tuple(self._name(column) for column in x)

    def _name(self, column: SqlExpression) -> SqlExpression:
        plain = column.step == CONSTANT and len(column.text) <= LONGEST_CONSTANT
        if plain or column.subject or column.text.isidentifier():
            return column  # levels are compared where they are used
        if column not in self._named:
            step = max(column.step, 0)
            if step == len(self._steps):
                self._steps.append({})
            name = f"c{len(self._named)}"
            self._steps[step][name] = column.text
            self._named[column] = SqlExpression(name, step + 1)
        return self._named[column]

    def piecewise(self, x: SqlColumns, knots: Array, origins: Array, C: Array) -> SqlColumns:
        ((at, step, *_),) = x
        number, columns = self.dialect.number, []
        for pieces in np.moveaxis(C, 2, 0):  # (degree + 1) × pieces of a column
            cases = []
            for i, origin in enumerate(origins):
                *rest, value = [number(c) for c in np.trim_zeros(pieces[:, i], "b")] or [number(0.0)]
                for c in reversed(rest):
                    value = f"({value} * ({at} - {number(origin)}) + {c})"
                cases.append(value)
            whens = " ".join(f"WHEN {at} < {number(k)} THEN {v}" for k, v in zip(knots, cases[:-1], strict=True))
            columns.append(SqlExpression(f"(CASE {whens} ELSE {cases[-1]} END)", step))
        return tuple(columns)

    def labels(self, tests: Sequence[SqlExpression], values: Sequence[object], otherwise: object) -> SqlExpression:
        """Return a CASE whose values are labels: the first whose test holds."""
        literal = self.dialect.literal
        whens = " ".join(f"WHEN {t.text} THEN {literal(v)}" for t, v in zip(tests, values, strict=True))
        text = f"CASE {whens} ELSE {literal(otherwise)} END" if whens else literal(otherwise)
        return SqlExpression(f"({text})", _step(tests))

    def select(self, table: str | Sequence[str], keep: Sequence[str] | None) -> str:
        """Return the query: the columns kept as they are, then the results, NULL in rows that have none."""
        kept, quote = list(self.read) if keep is None else list(keep), self.dialect.identifier
        self._check_names(kept)
        path = list(table) if isinstance(table, list | tuple) and table else [table]
        form = "{}"
        if self._required:
            whole = SqlExpression(_chain("AND", [c.text for c in self._required]), _step(self._required))
            form = f"CASE WHEN {self._name(whole).text} THEN {{}} END"
        columns = [f"k{i} AS {quote(name)}" for i, name in enumerate(kept)]
        columns += [f"{form.format(result.text)} AS {quote(name)}" for name, result in self.results.items()]
        used, steps, source = self._used(columns), [], f"{'.'.join(map(quote, path))} AS t"
        used[0] = {**{f"k{i}": f"t.{quote(name)}" for i, name in enumerate(kept)}, **used[0]}
        prefix, tables = _unlike(path[-1], "step"), _unlike(path[-1], "levels")
        if sum(map(len, used.values())) > MOST_NAMES:
            raise InvalidInputError(
                f"The query would have {sum(map(len, used.values()))} intermediate columns, but databases allow at "
                f"most {MOST_NAMES}. Keep fewer columns (keep=[…]), use a smaller basis, or use model.to_onnx()."
            )
        for i, (number, step) in enumerate(used.items()):
            joins = ""
            for levels in [one for (at, _), one in self._tables.items() if at == number and one.is_read(step)]:
                named = replace(levels, name=levels.name.replace("levels", tables))
                steps.append(named.write(self.dialect))
                joins += f"\n  LEFT JOIN {named.name} ON {named.subject} = {named.key(self.dialect)}"
                step = {name: text.replace(levels.start, named.start, 1) for name, text in step.items()}
            listed = [*([f"{source}.*"] if i else []), *(f"{text} AS {name}" for name, text in step.items())]
            inner = ",\n    ".join(listed or ["1 AS one"])
            steps.append(f"{prefix}{i} AS (\n  SELECT\n    {inner}\n  FROM {source}{joins}{self.dialect.fence}\n)")
            source = f"{prefix}{i}"
        return f"WITH {', '.join(steps)}\nSELECT\n  " + ",\n  ".join(columns) + f"\nFROM {source}"

    def _used(self, texts: list[str]) -> dict[int, dict[str, str]]:
        """Return the steps with the columns that something after them needs; the first is there in any case."""
        needed, steps = _names(texts), {}
        for number in reversed(range(len(self._steps))):
            kept = {name: text for name, text in self._steps[number].items() if name in needed}
            needed |= _names(kept.values())
            for (at, subject), table in self._tables.items():
                needed |= _names([subject]) if at == number and table.is_read(kept) else set()
            if kept or not number:
                steps[number] = kept
        return dict(reversed(steps.items()))

    def _check_names(self, kept: list[str]) -> None:
        taken: set[str] = set()
        for name in [*kept, *self.results]:
            key = self.dialect.key(name)
            if key in taken:
                raise InvalidInputError(
                    f"The query would have two columns called {name!r}. Choose the columns of the table with "
                    "keep=[…], or rename that column or class."
                )
            taken.add(key)


def _step(expressions: Iterable[SqlExpression]) -> int:
    """Return the step whose columns some expressions need together."""
    return max((expression.step for expression in expressions), default=CONSTANT)


def _names(texts: Iterable[str]) -> set[str]:
    """Return all that looks like a name of ours; a word that does costs a column, not a result."""
    return {name for text in texts for name in re.findall(r"\bc\d+\b", text)}


def _unlike(name: object, prefix: str) -> str:
    """Return a beginning of names that the name of a table does not have."""
    while str(name).casefold().startswith(prefix):
        prefix += "_"
    return prefix


def _chain(sign: str, terms: list[str]) -> str:
    """Return terms joined by an operator, in groups of eight: a long chain nests deeper than databases allow."""
    while len(terms) > 1:
        terms = [f"({f' {sign} '.join(terms[i : i + 8])})" for i in range(0, len(terms), 8)]
    return terms[0]
