"""Checks of a table before a fit: columns that are probably not what they seem."""

from __future__ import annotations

import re
import shlex
import warnings
from typing import TYPE_CHECKING

from oddsmith.design.level_checks import FEW_LEVELS, describe_ids, describe_many, describe_numbers, not_numbers
from oddsmith.design.text_columns import attached_note, find_formats, read_as_text
from oddsmith.errors import FormatWarning, InvalidInputError, LevelsWarning, OddsmithWarning

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 20  # Maximum distinct numbers of a target, and rows below which numbers may all differ by chance.
DATE = re.compile(r"\s*\d{1,4}([./-])\d{1,2}\1\d{1,4}\b.*")
SHORT_YEAR = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{2}\b.*")
ID_NAME = re.compile(
    r"(?i)(unnamed.*|index|id|.*[_ .-]id|row_?(names?|num(ber)?s?|id)?|no|nr|key|uuid|guid)|.*[a-z](ID|Id)"
)
TRUTH = {
    **dict.fromkeys(("1", "yes", "y", "true", "t", "on"), "yes"),
    **dict.fromkeys(("0", "no", "n", "false", "f", "off"), "no"),
}
COUNTED = 100  # Rows from which consecutive integers count as row numbers.
SAMPLE = 1000  # Rows of a numeric column that are checked before all of them.


def check_columns(table: pa.Table, target: str | None, name: str, formula: str | None = None) -> None:
    """Report how text was read; warn about columns that look like IDs, numbers or dates, and about an odd target.

    With a formula, only its columns are checked. Cost: one pass over each column of text or integers.

    >>> import pyarrow as pa
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     check_columns(pa.table({"id": [f"c{i}" for i in range(30)], "y": ["no", "yes"] * 15}), "y", "a.csv")
    >>> print(caught[0].message)
    Column 'id' has 30 different values in 30 rows: it is an ID, or a number that was not recognised. Leave it out, or \
write its numbers plainly.
    """
    import pyarrow as pa

    if not table.num_rows:
        raise InvalidInputError(f"{name!r} has no rows, only the names of columns.")
    if note := attached_note(table):
        warnings.warn(note, FormatWarning, stacklevel=2)
    if target is not None and target not in table.column_names:
        return  # whoever reads it refuses that
    formats = {} if read_as_text(table) else find_formats(table, target)  # which the fit reports
    levels = []
    for column in table.column_names:
        if formula is not None and column not in formula and column != target:
            continue
        values, type_ = table[column], table.schema.field(column).type
        text, kind = None, OddsmithWarning
        if column == target:
            text = _check_target(column, values)
        elif pa.types.is_string(type_) and (column not in formats or formats[column].kind == "levels"):
            texts = values.drop_null().unique()
            text, kind = _check_texts(column, texts.to_pylist(), len(values) - values.null_count)
            levels.append((column, 0 if text else len(texts)))
        elif pa.types.is_integer(type_):
            text = _check_numbers(column, values)
        if text:
            warnings.warn(text, kind, stacklevel=2)
    if many := describe_many(levels):
        warnings.warn(many, LevelsWarning, stacklevel=2)


def _check_texts(name: str, texts: list[str], rows: int) -> tuple[str | None, type[OddsmithWarning]]:
    dates = [text for text in texts if DATE.fullmatch(text)]
    if 2 * len(dates) > len(texts):
        return (
            f"Column {name!r} holds text that looks like dates, such as {dates[0]!r}, but {_not_dates(texts, dates)}. "
            f"So each of the {len(texts)} values gets its own weight. Write all of them as 2026-01-31 to get one "
            "weight for the time."
        ), OddsmithWarning
    bare = _bare(texts)
    others = sorted(not_numbers(texts))
    if len(others) == len(texts) > FEW_LEVELS and not not_numbers(bare):
        return describe_numbers(name, len(texts), f"{others[0]!r} is not a number"), LevelsWarning
    if len(texts) > FEW_LEVELS and 2 * len(others) < len(texts):
        odd = f"{others[0]!r} is not a number" if others else _unlike_numbers(texts)
        return describe_numbers(name, len(texts), odd), LevelsWarning
    alike = _alike(texts) if len(texts) <= SAMPLE else None
    if alike is not None:
        return (
            f"Column {name!r} has {alike[0]!r} and {alike[1]!r} as two levels. If they are the same, use one spelling.",
            OddsmithWarning,
        )
    return describe_ids(name, len(texts), rows) or None, LevelsWarning


def _bare(texts: list[str]) -> list[str]:
    """Return texts without the signs that a spreadsheet puts before a number, and without a unit that all have.

    >>> _bare(['="26"', '="9"']), _bare(["12.5 kg", "9 kg"]), _bare(["5 kg", "7 m"])
    (['26', '9'], ['12.5', '9'], ['5 kg', '7 m'])
    """
    ends = {re.sub(r"^.*\d", "", text.strip()) for text in texts}
    unit = ends.pop() if len(ends) == 1 else ""
    return [text.strip().removesuffix(unit).lstrip("='\"") for text in texts]


def _not_dates(texts: list[str], dates: list[str]) -> str:
    """Return why a column of dates in text is not one.

    >>> _not_dates(["1.2.24", "3.4.25"], ["1.2.24", "3.4.25"])
    'the years have two digits'
    """
    other = next((text for text in texts if text not in dates), None)
    if other is not None:
        return f"{other!r} does not"
    if all(map(SHORT_YEAR.fullmatch, dates)):
        return "the years have two digits"
    return "they are not written in the same way, or day and month are ambiguous"


def _unlike_numbers(texts: list[str]) -> str:
    """Return which two numbers show that a column of them has no format.

    >>> _unlike_numbers(["1.5", "2.25", "3,75"])
    "'1.5' and '3,75' are not written in the same way"
    """
    marks = {re.sub(r"[\d\s+-]", "", text): text for text in reversed(texts)}
    shown = [marks[mark] for mark in sorted(marks, key=lambda mark: (not mark, texts.index(marks[mark])))]
    return f"{' and '.join(map(repr, shown[:2])) if shown[1:] else 'they'} are not written in the same way"


def _check_numbers(name: str, column: pa.ChunkedArray) -> str | None:
    """Return the message about integers that are all distinct and consecutive, or named like an ID."""
    import pyarrow.compute as pc

    n = len(column)
    if n < MANY or column.null_count or pc.count_distinct(column.slice(0, SAMPLE)).as_py() < min(n, SAMPLE):
        return None
    bounds = pc.min_max(column)
    consecutive = n >= COUNTED and bounds["max"].as_py() - bounds["min"].as_py() == n - 1
    named = not name.strip() or ID_NAME.fullmatch(name.strip())
    if not (consecutive or named) or pc.count_distinct(column).as_py() < n:
        return None
    what = f"Column {name!r}" if name.strip() else "A column without a name"
    how = "counts the rows" if consecutive else f"has {n:,} different whole numbers in {n:,} rows"
    return f"{what} {how}: it looks like an ID or an index. Exclude it with --ignore {shlex.quote(name)}."


def _alike(labels: list[str]) -> tuple[str, str] | None:
    """Return two texts that differ in case or in the spaces around them only, or are two ways to write yes or no.

    >>> _alike(["red", "blue", "Red "]), _alike(["1", "no", "0"]), _alike(["yes", "no"])
    (('red', 'Red '), ('no', '0'), None)
    """
    seen: dict[str, str] = {}
    folded = [label.strip().casefold() for label in labels]
    meanings = TRUTH if TRUTH.keys() >= set(folded) else {}
    for label, text in zip(labels, folded, strict=True):
        first = seen.setdefault(meanings.get(text, text), label)
        if first != label:
            return first, label
    return None


def _check_target(name: str, column: pa.ChunkedArray) -> str | None:
    labels = column.drop_null().unique().to_pylist()
    alike = _alike([label for label in labels if isinstance(label, str)])
    if alike is not None:
        return (
            f"Column {name!r}, the target, has {alike[0]!r} and {alike[1]!r} as two classes. If they are the same, "
            f"use one spelling."
        )
    if len(labels) > MANY and not isinstance(labels[0], str):
        return (
            f"Column {name!r}, the target, holds {len(labels)} different numbers, each of which is a class. oddsmith "
            f"does not predict numbers as such; cut the column into a few ranges first."
        )
    return None
