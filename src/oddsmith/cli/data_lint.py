"""Checks of a table before a fit: columns that are probably not what their owner thinks."""

from __future__ import annotations

import re
import shlex
import warnings
from typing import TYPE_CHECKING

from oddsmith.errors import InvalidInputError, OddsmithWarning

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 20
"""Different words that no column is suspected for, and different numbers that a class may have."""
SOME = 10
"""Different words of a column that may all be numbers but one: 1, 2, 3 and "more"."""
NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)*|[.,]\d+)([eE][-+]?\d+)?\s*")
DATE = re.compile(r"\s*\d{1,4}([./-])\d{1,2}\1\d{1,4}\b.*")


def check_columns(table: pa.Table, target: str | None, name: str, formula: str | None = None) -> None:
    """Warn of text columns that look like ids, numbers or dates, and of a target that does not look like classes.

    With a formula only the columns in it matter. Cost: one pass over each column of words.

    >>> import pyarrow as pa
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     check_columns(pa.table({"id": [f"c{i}" for i in range(30)], "y": ["no", "yes"] * 15}), "y", "a.csv")
    >>> print(caught[0].message)
    Column 'id' holds 30 different words in 30 rows, each of which would have a weight. If they are the names of rows, \
use --ignore id.
    """
    import pyarrow as pa

    if not table.num_rows:
        raise InvalidInputError(f"{name!r} has no rows, only the names of columns.")
    if target is not None and target not in table.column_names:
        return  # whoever reads it refuses that
    for column in table.column_names:
        text = None
        if column == target:
            text = _check_target(column, table[column])
        elif pa.types.is_string(table.schema.field(column).type) and (formula is None or column in formula):
            text = _check_words(column, table[column])
        if text:
            warnings.warn(text, OddsmithWarning, stacklevel=2)


def _check_words(name: str, column: pa.ChunkedArray) -> str | None:
    words = column.drop_null().unique().to_pylist()
    dates = [word for word in words if DATE.fullmatch(word)]
    if 2 * len(dates) > len(words):
        return (
            f"Column {name!r} holds words that look like dates, such as {dates[0]!r}, and each of the {len(words)} has "
            "a weight of its own. Write all of them as 2026-01-31 to have one weight for the time, or use "
            f"--ignore {shlex.quote(name)}."
        )
    others = [word for word in words if not NUMBER.fullmatch(word)]
    commas = [word for word in words if "," in word]
    if len(words) > SOME and 2 * len(others) < len(words) and (others or commas):
        return (
            f"Column {name!r} holds words, though most look like numbers: {(others or commas)[0]!r} is none, so each "
            f"of the {len(words)} has a weight of its own. Leave missing values empty, and write decimals with a point."
        )
    if len(words) > max(MANY, len(column) / 2):
        return (
            f"Column {name!r} holds {len(words)} different words in {len(column)} rows, each of which would have a "
            f"weight. If they are the names of rows, use --ignore {shlex.quote(name)}."
        )
    return None


def _check_target(name: str, column: pa.ChunkedArray) -> str | None:
    labels = column.drop_null().unique().to_pylist()
    alike: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str) and alike.setdefault(label.strip().casefold(), label) != label:
            first = alike[label.strip().casefold()]
            return (
                f"Column {name!r}, the target, has {first!r} and {label!r} as two classes. If they are one, write "
                "them alike."
            )
    if len(labels) > MANY and not isinstance(labels[0], str):
        return (
            f"Column {name!r}, the target, holds {len(labels)} different numbers, each of which is a class. To "
            "predict a number as such is not what oddsmith does; cut it into a few ranges first."
        )
    return None
