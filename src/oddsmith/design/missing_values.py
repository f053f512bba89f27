"""Missing values of a table: the rows without any, and the sentences that refuse them."""

from __future__ import annotations

import numpy as np

from oddsmith.design.frame import Frame
from oddsmith.errors import InvalidInputError
from oddsmith.protocols import Indices

MISSING_REMEDIES = {
    "error": "this design takes complete rows only. Use Design(missing='drop') or Design(missing='indicator'), or fill "
    "them first.",
    "drop": "rows with missing values were left out of the fit, so nothing is known about them. Remove these "
    "rows, or fit with missing='indicator'.",
    "indicator": "had none in the fit, so nothing is known about them. Fill them first, or fit with rows that have "
    "some.",
}
"""Why missing values are refused, and what to do, by the design's policy."""


def complete_rows(frame: Frame, *, empty_ok: bool = False) -> Indices | None:
    """Return the numbers of the rows without missing values, None if that is all of them.

    Columns, or rows, of nothing but missing values are refused unless they may be there (``empty_ok``).
    """
    complete = np.ones(frame.n_rows, dtype=bool)
    for name in frame.columns:
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
    return np.flatnonzero(complete)


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
