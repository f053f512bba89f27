"""Warnings about categories before a fit: very many levels, a new value in every row, numbers read as levels."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence

from oddsmith.engines.text_formats import NUMBER
from oddsmith.errors import LevelsWarning, caller_level

MANY = 100  # Number of levels above which a column is named in a warning.
FEW_ROWS = 20  # Rows below which values may all differ by chance.
FEW_LEVELS = 10  # Levels that may all be numbers but one: 1, 2, 3 and "more".
MOST_READ = 2000  # Levels beyond which nobody reads them: `MANY` says enough.


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


def not_numbers(texts: Collection[str]) -> list[str]:
    """Return the texts that are not written as numbers.

    >>> not_numbers(["12", "3.50", "n/a", "1,200"])
    ['n/a']
    """
    return [text for text in texts if not NUMBER.fullmatch(text.strip())]


def describe_numbers(name: str, levels: int, odd: str) -> str:
    """Return the message about a column of text that holds numbers, most of the time.

    >>> describe_numbers("age", 73, "'-' is not a number")
    "Column 'age' holds text, though most of it looks like numbers: '-' is not a number, so each of the 73 values gets \
its own weight. Leave missing values empty, and write all numbers in the same way."
    """
    return (
        f"Column {name!r} holds text, though most of it looks like numbers: {odd}, so each of the {levels:,} values "
        "gets its own weight. Leave missing values empty, and write all numbers in the same way."
    )


def _describe_strays(name: str, levels: Sequence[object]) -> str:
    """Return the message about numbers that a few other texts turned into levels; empty for other columns."""
    if not FEW_LEVELS < len(levels) <= MOST_READ or not isinstance(levels[0], str):
        return ""
    strays = sorted(not_numbers([str(level) for level in levels]))
    few = 0 < len(strays) <= max(3, len(levels) // 10)
    return describe_numbers(name, len(levels), f"{strays[0]!r} is not a number") if few else ""


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


def warn_of_levels(columns: Iterable[tuple[str, Sequence[object], float]]) -> None:
    """Warn about categories with too many levels, and about numbers among text."""
    texts, others = [], []
    for name, levels, rows in columns:
        text = _describe_strays(name, levels) or describe_ids(name, len(levels), rows)
        if text:
            texts.append(text)
        else:
            others.append((name, len(levels)))
    for text in filter(None, [*texts, describe_many(others)]):
        warnings.warn(text, LevelsWarning, stacklevel=caller_level())
