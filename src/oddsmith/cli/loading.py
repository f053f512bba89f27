"""Fitted models from files, and the columns that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from oddsmith.cli.data import Data
from oddsmith.cli.files import Types
from oddsmith.design.inputs import Encoded
from oddsmith.errors import InvalidInputError


def load_model(path: str) -> Any:
    """Return the model in a file."""
    from oddsmith.models.saving import load

    return load(path)


def input_names(model: Any) -> list[str] | None:
    """Return the columns that a model reads; None if it was fitted to rows without names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def expected_types(model: Any) -> Types | None:
    """Return the types of a model's columns, for formats that leave them open: a word in the fit is a word now.

    None stands for a number or a truth value.
    """
    import pyarrow as pa

    names = input_names(model)
    if names is None:
        return None
    known = {
        **{"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()},
        **{"float": pa.float64(), "integer": pa.int64(), "text": pa.string()},
    }
    kinds = _kinds(model)
    if kinds is None:
        return dict.fromkeys(names)
    return {name: known[kind] for name, kind in kinds.items() if kind in known}


def _kinds(model: Any) -> dict[str, str] | None:
    """Return the kinds of columns that a model, or one of those that it is made of, has learned."""
    inner = getattr(model, "_inner", None) or next(iter(getattr(model, "models_", {}).values()), None)
    if getattr(model, "design_", None) is not None:
        return dict(model.design_.kinds_)
    plan = getattr(getattr(model, "_folded", None), "plan", None)
    if plan is not None and plan.names is not None:
        return dict(zip(plan.names, plan.kinds.tolist(), strict=True))
    return None if inner is None else _kinds(inner)


def inputs(model: Any, table: Any, name: str) -> Any:
    """Return the columns of a table that a model reads, in its order; by place, if it knows no names."""
    names = input_names(model)
    if names is None:
        if len(table.column_names) != model.n_features_in_:
            raise InvalidInputError(
                f"The model was fitted to {model.n_features_in_} columns without names, and {name!r} has "
                f"{len(table.column_names)}. Give exactly those, in their order."
            )
        import numpy as np

        return np.column_stack([table[column].to_numpy() for column in table.column_names])
    for column in names:
        if column not in table.column_names:
            raise InvalidInputError(
                f"Column {column!r}, which the model was fitted to, is missing from {name!r}. Its columns are: "
                f"{', '.join(map(repr, table.column_names))}."
            )
    return table.select(names)


def batches(model: Any, data: Data, kept: Sequence[str] | None) -> Iterator[tuple[Any, Any]]:
    """Yield some rows at a time, as they are and as the model reads them; at least once, perhaps without rows.

    Beside the columns of the model only those ``kept`` need be read; None: all.
    """
    names = input_names(model)
    wanted = None if names is None or kept is None else dict.fromkeys([*kept, *names])
    for table in data.batches(expected_types(model), wanted):
        rows = inputs(model, table, data.name)
        if len(table) and getattr(model, "design_", None) is not None:
            rows = Encoded(model.design_.transform(rows))  # once, whatever the model is asked
        yield table, rows
