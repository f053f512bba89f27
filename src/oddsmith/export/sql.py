"""Formulas as one SELECT: columns with names of their own, step by step, in subqueries that follow on one another.

Every expression knows the step whose columns it needs. What is given a name is computed in the next one, so that
nothing is written twice, however often it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.export.formulas import FormulaWriter
from oddsmith.export.sql_dialects import DIALECTS, Dialect
from oddsmith.numerics import Array

CONSTANT = -1  # The step of what needs no column; 0 is that of the columns of the table.

LONGEST_CONSTANT = 60  # Letters of a constant that is written where it is used: a formula of one would nest too deep.

MOST_NAMES = 1600  # Columns that a SELECT may have in every database.


class SqlExpression(NamedTuple):
    """An expression: its text, the step whose columns it needs, and, for 0/1 columns, what equals which constant."""

    text: str
    step: int
    subject: str = ""
    value: str = ""


SqlColumns = tuple[SqlExpression, ...]


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
        self.results: dict[str, SqlExpression] = {}
        """What the query gives, by the name of the column."""
        self._steps: list[dict[str, str]] = [{}]
        self._named: dict[SqlExpression, SqlExpression] = {}
        self._required: list[SqlExpression] = []

    def _source(self, name: str) -> str:
        if name not in self.read:
            same = [other for other in self.read if self.dialect.key(other) == self.dialect.key(name)]
            if same:
                raise InvalidInputError(
                    f"Columns {same[0]!r} and {name!r} differ in case only, and are one to {self.dialect.name}. "
                    "Rename one of them before the fit."
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
                terms.append(self.dialect.number(float(constant)))
            sums.append(SqlExpression(_chain("+", terms), _step(x[j] for j in inside)))
        return tuple(sums)

    def _terms(self, weighted: list[tuple[float, SqlExpression]]) -> list[str]:
        """Return the terms of a sum; the levels of a column are one of them, a CASE."""
        terms: list[str] = []
        cases: dict[str, list[str]] = {}
        for weight, column in weighted:
            if column.subject:
                cases.setdefault(column.subject, []).append(f"WHEN {column.value} THEN {self.dialect.number(weight)}")
            elif weight == 1.0:
                terms.append(column.text)
            else:
                terms.append(f"({self.dialect.number(weight)} * {column.text})")
        zero = self.dialect.number(0.0)
        return terms + [f"(CASE {subject} {' '.join(whens)} ELSE {zero} END)" for subject, whens in cases.items()]

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
        prefix, steps, source, used = "step", [], f"{'.'.join(map(quote, path))} AS t", self._used(columns)
        used[0] = {**{f"k{i}": f"t.{quote(name)}" for i, name in enumerate(kept)}, **used[0]}
        while str(path[-1]).casefold().startswith(prefix):  # no step has the name of the table
            prefix += "_"
        if sum(map(len, used)) > MOST_NAMES:
            raise InvalidInputError(
                f"The query would have {sum(map(len, used))} columns on its way, and databases take {MOST_NAMES} at "
                "most. Keep fewer, keep=[…]; use a smaller basis; or model.to_onnx()."
            )
        for i, step in enumerate(used):
            listed = [*(["*"] if i else []), *(f"{text} AS {name}" for name, text in step.items())]
            inner = ",\n    ".join(listed or ["1 AS one"])
            steps.append(f"{prefix}{i} AS (\n  SELECT\n    {inner}\n  FROM {source}{self.dialect.fence}\n)")
            source = f"{prefix}{i}"
        return f"WITH {', '.join(steps)}\nSELECT\n  " + ",\n  ".join(columns) + f"\nFROM {source}"

    def _used(self, texts: list[str]) -> list[dict[str, str]]:
        """Return the steps with the columns that something after them needs; the first is there in any case."""
        needed, steps = _names(texts), []
        for step in reversed(self._steps):
            kept = {name: text for name, text in step.items() if name in needed}
            needed |= _names(kept.values())
            steps += [kept] if kept or step is self._steps[0] else []
        return steps[::-1]

    def _check_names(self, kept: list[str]) -> None:
        taken: set[str] = set()
        for name in [*kept, *self.results]:
            key = self.dialect.key(name)
            if key in taken:
                raise InvalidInputError(
                    f"The query would have two columns called {name!r}. Name those of the table to keep, "
                    "keep=[…], without it, or rename that column or class."
                )
            taken.add(key)


def _step(expressions: Iterable[SqlExpression]) -> int:
    """Return the step whose columns some expressions need together."""
    return max((expression.step for expression in expressions), default=CONSTANT)


def _names(texts: Iterable[str]) -> set[str]:
    """Return all that looks like a name of ours; a word that does costs a column, not a result."""
    return {name for text in texts for name in re.findall(r"\bc\d+\b", text)}


def _chain(sign: str, terms: list[str]) -> str:
    """Return terms joined by an operator, in groups of eight: a long chain nests deeper than databases allow."""
    while len(terms) > 1:
        terms = [f"({f' {sign} '.join(terms[i : i + 8])})" for i in range(0, len(terms), 8)]
    return terms[0]
