"""Fits to files that are read in pieces."""

from __future__ import annotations

from typing import Any

from oddsmith.cli.data import InputData
from oddsmith.cli.model_spec import check_column
from oddsmith.errors import InvalidInputError, NeedsMemoryError
from oddsmith.models.base import Classifier
from oddsmith.persistence.model_file import provenance


def fit_pieces(
    estimator: Classifier,
    data: InputData,
    target: str | None,
    weights: str | None,
    ignore: list[str],
    how: dict[str, Any],
) -> int | None:
    """Fit to files in pieces and return how many rows they have; None if they are to be read whole.

    That is what small files are, and large ones for a model that needs all rows in memory, unless ``how`` says how
    pieces are to be read.
    """
    pieces = data.pieces(**how)
    if pieces is None:
        return None
    for name, option in ((target, "--target"), (weights, "--weights"), *((name, "--ignore") for name in ignore)):
        if name is not None:
            check_column(pieces.columns, name, option)
    if ignore:
        pieces = pieces.choose([name for name in pieces.columns if name not in ignore])
    try:
        estimator.fit(pieces, target, **({} if weights is None else {"sample_weight": weights}))
    except NeedsMemoryError:
        if data.keyed or any(value is not None for value in how.values()):
            raise
        return None
    except KeyboardInterrupt:
        text = "Nothing was written. With --resume FILE a fit to files goes on where it was interrupted."
        if how["resume"] is not None:
            text = (
                f"No model was written. The passes so far are in {how['resume']}: the same command goes on from there."
            )
        raise KeyboardInterrupt(text) from None
    seen = provenance(estimator)  # models keep the number of rows, or their total weight, or neither
    return int(seen["rows"] or (seen["weight"] if weights is None else 0) or pieces.expected_rows)


def check_whole(how: dict[str, Any]) -> None:
    """Refuse options for reading in pieces beside a report, which is about all rows."""
    option = next((name for name, value in how.items() if value is not None), None)
    if option is not None:
        raise InvalidInputError(
            f"A report goes through all rows in memory, so --{option} has no use beside --report. Leave one of them "
            "out; 'oddsmith report MODEL DATA' writes the page later, about a part of the rows that fits."
        )
