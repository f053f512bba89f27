"""Fitted models from files, and the columns that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from oddsmith.cli.data import InputData
from oddsmith.data_access.streamed_prediction import columns_of, expected_types, model_inputs
from oddsmith.design.inputs import Encoded
from oddsmith.engines.files.formats import format_of
from oddsmith.engines.files.schemas import DATE
from oddsmith.errors import ModelFileError

if TYPE_CHECKING:
    from oddsmith.models.base import Classifier


def load_model(path: str) -> Classifier:
    """Return the model in a file."""
    from oddsmith.persistence.model_file import load

    try:
        model: Classifier = load(path)
    except ModelFileError as error:
        if format_of(path) is None:
            raise
        raise ModelFileError(f"{error} The model comes first, and then the data.") from error
    return model


def batches(model: Classifier, data: InputData, kept: Sequence[str] | None) -> Iterator[tuple[Any, Any]]:
    """Yield some rows at a time, as they are and as the model reads them; at least once, perhaps without rows.

    Beside the columns of the model only those ``kept`` need be read; None: all.
    """
    names, types = columns_of(model), expected_types(model)
    wanted = None if names is None or kept is None else dict.fromkeys([*kept, *names])
    if names is not None and types is not None:
        types = {**dict.fromkeys(names, DATE), **types}  # what is no number, truth value or word is a date
    design = getattr(model, "design_", None)
    for table in data.batches(types, wanted):
        rows = model_inputs(model, table, repr(data.name))
        if len(table) and design is not None:
            rows = Encoded(design.transform(rows))  # once, whatever the model is asked
        yield table, rows
