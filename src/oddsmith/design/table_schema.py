"""The schema of part of a table: kinds of columns and their summaries, which merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oddsmith.design.formula import Formula
from oddsmith.design.frame import KIND_WORDS
from oddsmith.design.levels import ColumnSummary
from oddsmith.errors import InvalidTypeError

Summaries = dict[tuple[str, bool], ColumnSummary]
"""Summaries of columns, by name and by whether their levels were counted."""


@dataclass(frozen=True)
class TableSchema:
    """The kinds of the columns of some rows, and their summaries.

    >>> import polars
    >>> from oddsmith import Design
    >>> one, two = (Design().look(polars.DataFrame({"x": x})) for x in (["a", "b"], ["c"]))
    >>> both = one.merge(two)
    >>> both.kinds, both.seen["x", True].levels
    ({'x': 'category'}, ('a', 'b', 'c'))
    """

    kinds: dict[str, str]
    seen: Summaries

    def merge(self, other: TableSchema) -> TableSchema:
        """Return what both parts hold."""
        kinds = join_kinds(self.kinds, other.kinds)
        seen: Summaries = {}
        for name, levels in dict.fromkeys([*self.seen, *other.seen]):
            levels = levels or (name, True) in self.seen or (name, True) in other.seen
            # A column of nothing but missing values has no levels and no numbers: its summary serves as both.
            parts = [part.seen.get((name, levels)) or part.seen.get((name, not levels)) for part in (self, other)]
            known = [part for part in parts if part is not None]
            seen[name, levels] = known[0] if len(known) == 1 else known[0].merge(known[1])
        return TableSchema(kinds, seen)

    @property
    def is_plain(self) -> bool:
        """Whether the columns hold nothing but numbers and truth values, so that no design is needed."""
        return not {"category", "date"} & set(self.kinds.values())


def join_kinds(earlier: dict[str, str], kinds: dict[str, str]) -> dict[str, str]:
    """Return the kinds of columns in two parts of a table; a part without values has any kind."""
    joined = {}
    for name, kind in kinds.items():
        before = earlier.get(name, "empty")
        if "empty" not in (before, kind) and before != kind:
            raise InvalidTypeError(
                f"Column {name!r} holds {KIND_WORDS[before]} in one part of the table and {KIND_WORDS[kind]} in "
                "another. Make them alike."
            )
        joined[name] = kind if before == "empty" else before
    return joined


def uses(formula: Formula, kinds: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the columns of a formula, and whether each is used for its levels."""
    for term in formula.terms:
        for factor in term:
            if factor.category is not None:
                yield factor.category, True
            elif factor.column is not None:
                yield factor.column, kinds[factor.column] == "category"
            else:
                yield from ((name, False) for name in factor.columns)
