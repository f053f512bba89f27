"""Fitted models from files, and the columns that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oddsmith.cli.data import Data
from oddsmith.cli.files import DATE
from oddsmith.design.inputs import Encoded
from oddsmith.engines.files.formats import format_of
from oddsmith.errors import ModelFileError
from oddsmith.models.answering import columns_of, expected_types, inputs


def load_model(path: str) -> Any:
    """Return the model in a file."""
    from oddsmith.models.saving import load

    try:
        return load(path)
    except ModelFileError as error:
        if format_of(path) is None:
            raise
        raise ModelFileError(f"{error} The model comes first, and then the data.") from error


def batches(model: Any, data: Data, kept: Sequence[str] | None) -> Iterator[tuple[Any, Any]]:
    """Yield some rows at a time, as they are and as the model reads them; at least once, perhaps without rows.

    Beside the columns of the model only those ``kept`` need be read; None: all.
    """
    names, types = columns_of(model), expected_types(model)
    wanted = None if names is None or kept is None else dict.fromkeys([*kept, *names])
    if names is not None and types is not None:
        types = {**dict.fromkeys(names, DATE), **types}  # what is no number, truth value or word is a date
    for table in data.batches(types, wanted):
        rows = inputs(model, table, repr(data.name))
        if len(table) and getattr(model, "design_", None) is not None:
            rows = Encoded(model.design_.transform(rows))  # once, whatever the model is asked
        yield table, rows
