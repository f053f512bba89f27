"""A CSV table from the page: its columns, and two of them with the classes as points. It is never written anywhere."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from oddsmith.lab.fields import BadRequestError, Fields, shown
from oddsmith.lab.pane import MOST_CLASSES, MOST_POINTS

MOST_CHARACTERS = 3_000_000
MOST_COLUMNS = 500


def read_csv(text: str) -> pa.Table:
    r"""Return the table that a CSV text holds, with its first line as names.

    >>> read_csv("a,b\n1,2\n3,4\n").column_names
    ['a', 'b']
    """
    try:
        table = csv.read_csv(io.BytesIO(text.encode("utf-8")))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise BadRequestError(f"This is not a CSV table with a header: {str(error).splitlines()[0][:160]}.") from None
    if not table.num_rows:
        raise BadRequestError("The table has a header and no rows.")
    if table.num_columns > MOST_COLUMNS:
        raise BadRequestError(f"The table has {table.num_columns:,} columns; the lab reads at most {MOST_COLUMNS}.")
    if len(set(table.column_names)) < table.num_columns:
        raise BadRequestError("Two columns of the table have the same name. Name each column once.")
    return table


def answer_columns(fields: Fields) -> dict[str, Any]:
    """Return the columns of a CSV text: names, whether they are numbers, and how many values they have."""
    fields.only("text")
    table = read_csv(fields.text("text", MOST_CHARACTERS))
    columns = [
        {"name": name, "numeric": _is_numeric(column), "values": len(column.unique())}
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return {"rows": table.num_rows, "columns": columns}


def answer_table(fields: Fields) -> dict[str, Any]:
    """Return two columns of a CSV text as coordinates, and a third as classes; rows with gaps are left out."""
    fields.only("text", "x", "y", "label")
    table = read_csv(fields.text("text", MOST_CHARACTERS))
    names = [fields.text(axis, 500) for axis in ("x", "y", "label")]
    for name in names:
        if name not in table.column_names:
            known = ", ".join(map(shown, table.column_names[:20]))
            raise BadRequestError(f"The table has no column {shown(name)}. It has {known}.")
    for name in names[:2]:
        if not _is_numeric(table[name]):
            raise BadRequestError(f"Column {shown(name)} does not hold numbers. Choose a numeric one for an axis.")
    chosen = pa.table([table[name] for name in names], names=["x", "y", "label"]).drop_null()
    X = np.column_stack([np.asarray(chosen[axis].to_numpy(), dtype=float) for axis in ("x", "y")])
    labels = np.array([str(label) for label in chosen["label"].to_pylist()], dtype=object)
    kept = np.isfinite(X).all(axis=1) & (np.abs(X) <= 1e6).all(axis=1)
    X, labels = X[kept], labels[kept]
    classes, t = np.unique(labels, return_inverse=True) if len(labels) else (labels, np.empty(0, dtype=int))
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise BadRequestError(
            f"Column {shown(names[2])} has {len(classes):,} different values in complete rows; the lab draws 2 to "
            f"{MOST_CLASSES} classes."
        )
    if len(X) > MOST_POINTS:
        raise BadRequestError(f"The table has {len(X):,} complete rows; the lab draws at most {MOST_POINTS:,} points.")
    return {"X": X, "t": t, "classes": classes, "left_out": table.num_rows - len(X)}


def _is_numeric(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
