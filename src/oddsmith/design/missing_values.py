"""Missing values of a table: the rows without any, and the sentences that refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.frame import Frame
from oddsmith.errors import InvalidInputError

MISSING_REMEDIES = {
    "error": "this design takes complete rows only. Use Design(missing='drop') or Design(missing='indicator'), or fill "
    "them first.",
    "drop": "rows with missing values were left out of the fit, so nothing is known about them. Remove these "
    "rows, or fit with missing='indicator'.",
    "indicator": "had none in the fit, so nothing is known about them. Fill them first, or fit with rows that have "
    "some.",
}
"""Why missing values are refused, and what to do, by the design's policy."""


CHUNK_ROWS = 1 << 14  # Rows that are looked at at a time, to save memory.
LEAST_KEPT = 0.2  # Share of the rows up to which they are copied: that takes little memory.


def complete_rows(frame: Frame, *, empty_ok: bool = False) -> npt.NDArray[np.bool_] | None:
    """Return which rows have no missing values, None if all have none.

    Columns, or rows, of nothing but missing values are refused unless they may be there (``empty_ok``).
    """
    complete = np.ones(frame.n_rows, dtype=bool)
    for name in filter(lambda name: not frame.is_complete(name), frame.columns):
        if frame.kinds[name] == "empty" and not empty_ok:
            raise empty_error(name)
        complete &= ~frame.missing(name)
    if complete.all():
        return None
    if not complete.any() and not empty_ok:
        most = max(frame.columns, key=lambda name: frame.missing(name).sum())
        raise InvalidInputError(
            f"Every row has a missing value (most often in column {most!r}), so missing='drop' leaves none. Leave "
            "that column out, or use missing='indicator'."
        )
    return complete


def can_stay(frame: Frame, complete: npt.NDArray[np.bool_]) -> bool:
    """Whether rows that are dropped can stay with weight 0: they are not most rows, and have no infinite numbers."""
    if np.count_nonzero(complete) <= LEAST_KEPT * frame.n_rows:
        return False
    names = [name for name, kind in frame.kinds.items() if kind == "number" and name in frame.columns]
    for start in range(0, frame.n_rows, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        dropped = ~complete[rows]
        if dropped.any() and any(np.isinf(frame.numbers(name, rows)[dropped]).any() for name in names):
            return False
    return True


def has_missing(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None = None) -> bool:
    """Whether a number (NaN) or a code (−1) is missing, in a row that is not ``absent``.

    >>> has_missing(np.array([0, -1])), has_missing(np.array([0.0, np.nan]), np.array([False, True]))
    (True, False)
    """
    for start in range(0, len(values), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        missing = np.isnan(values[rows]) if values.dtype.kind == "f" else values[rows] < 0
        if (missing if absent is None else missing & ~absent[rows]).any():
            return True
    return False


def first_number(values: npt.NDArray[Any]) -> float:
    """Return the first number that is not missing."""
    parts = (values[start : start + CHUNK_ROWS] for start in range(0, len(values), CHUNK_ROWS))
    return next(float(part[~np.isnan(part)][0]) for part in parts if not np.isnan(part).all())


def missing_error(name: str, frame: Frame, policy: str) -> InvalidInputError:
    """Return the error that says how many values of a column are missing, and what to do under a design's policy."""
    missing = frame.missing(name)
    first, count = int(np.argmax(missing)), int(missing.sum())
    return InvalidInputError(
        f"Column {name!r} has {count} missing value{'s' * (count > 1)} (NaN), the first in row {first}, and "
        f"{MISSING_REMEDIES[policy]}",
        row=first,
    )


def empty_error(name: str) -> InvalidInputError:
    """Return the error about a column without any value."""
    return InvalidInputError(f"Column {name!r} is missing in every row of the fit. Leave it out.")
