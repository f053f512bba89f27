"""Fits to files that are read in pieces."""

from __future__ import annotations

from typing import Any

from oddsmith.cli.data import Data
from oddsmith.cli.making import check_column
from oddsmith.errors import InvalidInputError, NeedsMemoryError


def fit_pieces(
    estimator: Any, data: Data, target: str | None, weights: str | None, ignore: list[str], how: dict[str, Any]
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
        raise KeyboardInterrupt(_how_to_go_on(how["resume"])) from None
    return _rows(estimator, weights) or int(pieces.expected_rows)


def check_whole(how: dict[str, Any]) -> None:
    """Refuse options for reading in pieces beside a report, which is about all rows."""
    option = next((name for name, value in how.items() if value is not None), None)
    if option is not None:
        raise InvalidInputError(
            f"A report goes through all rows in memory, so --{option} has no use beside --report. Leave one of them "
            "out; 'oddsmith report MODEL DATA' writes the page later, about a part of the rows that fits."
        )


def _how_to_go_on(resume: str | None) -> str:
    if resume is None:
        return "Nothing was written. With --resume FILE a fit to files goes on where it was interrupted."
    return f"No model was written. The passes so far are in {resume}: the same command goes on from there."


def _rows(model: Any, weights: str | None) -> int:
    """Return how many rows a model has seen, 0 if it keeps neither their number nor their unweighted sum."""
    from oddsmith.models.saving import provenance

    seen = provenance(model)
    return int(seen["rows"] or (seen["weight"] if weights is None else 0) or 0)
