"""Warnings about categories before a fit: columns with very many levels, or with a new value in every row."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from oddsmith.errors import LevelsWarning, caller_level

MANY = 100  # Number of levels above which a column is named in a warning.
FEW_ROWS = 20  # Rows below which values may all differ by chance.


def describe_ids(name: str, levels: int, rows: float) -> str:
    """Return the message about a column with a new value in every row, empty for others.

    >>> describe_ids("name", 30, 30)
    "Column 'name' has 30 different values in 30 rows: it is an ID, or a number that was not recognised. Leave it out, \
or write its numbers plainly."
    >>> describe_ids("race", 3, 30)
    ''
    """
    if levels < max(FEW_ROWS, 0.95 * rows):
        return ""
    return (
        f"Column {name!r} has {levels:,} different values in {round(rows):,} rows: it is an ID, or a number that was "
        "not recognised. Leave it out, or write its numbers plainly."
    )


def describe_many(columns: Iterable[tuple[str, int]]) -> str:
    """Return the message about columns with more than `MANY` levels; empty if there are none.

    >>> describe_many([("dest", 105), ("race", 3)])
    "Column 'dest' has 105 levels, and each has its own weight. Join rare levels, use a prior, or leave it out."
    """
    many = sorted(((name, n) for name, n in columns if n > MANY), key=lambda column: -column[1])
    if not many:
        return ""
    more = f" and {len(many) - 6} more columns" if len(many) > 6 else ""
    remedy = "and each has its own weight. Join rare levels, use a prior, or leave"
    if len(many) == 1:
        return f"Column {many[0][0]!r} has {many[0][1]:,} levels, {remedy} it out."
    listed = ", ".join(f"{name!r} ({n:,})" for name, n in many[:6])
    return f"Columns {listed}{more} have many levels, {remedy} them out."


def warn_of_levels(columns: Iterable[tuple[str, int, float]]) -> None:
    """Warn about categories with too many levels."""
    found = [(name, levels, describe_ids(name, levels, rows)) for name, levels, rows in columns]
    texts = [text for _, _, text in found if text]
    texts.append(describe_many((name, levels) for name, levels, text in found if not text))
    for text in filter(None, texts):
        warnings.warn(text, LevelsWarning, stacklevel=caller_level())
