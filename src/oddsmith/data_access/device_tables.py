"""Parquet files and Arrow tables as arrays in memory, on their way to a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array


def is_table(X: object) -> bool:
    """Whether rows are a Parquet file or a folder of them, or an Arrow table.

    >>> is_table("rows.parquet"), is_table(np.eye(2))
    (True, False)
    """
    return isinstance(X, str | Path) or type(X).__module__.partition(".")[0] == "pyarrow"


def arrays_of_table(X: Any, y: object, sample_weight: object = None) -> tuple[Array, Any, Any, list[str]]:
    """Return the rows of a table as one array, labels and weights (named, or beside it), and the names of the columns.

    A file is read a row group at a time into the array: beside it a row group is in memory. Columns are numbers;
    float32 and float16 stay what they are if all columns are.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    data = ds.dataset(X if not isinstance(X, str | Path) else str(X)) if not isinstance(X, pa.Table) else X
    named = [name for name in (y, sample_weight) if isinstance(name, str)]
    for name in named:
        if name not in data.schema.names:
            raise InvalidInputError(f"The table has no column {name!r}; it has {data.schema.names[:12]}.")
    fields = [field for field in data.schema if field.name not in named]
    for field in fields:
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)):
            raise InvalidInputError(
                f"Column {field.name!r} is of type {field.type}, and a fit on a device takes columns of numbers. Leave "
                "it out, or fit on the CPU: without device=."
            )
    kinds = {np.dtype(field.type.to_pandas_dtype()) for field in fields}
    kind: Any = np.result_type(*kinds) if all(k.kind == "f" for k in kinds) else np.dtype(np.float64)
    n = data.num_rows if isinstance(data, pa.Table) else data.count_rows()
    rows = np.empty((n, len(fields)), dtype=kind)
    kept: dict[str, list[Any]] = {name: [] for name in named}
    start = 0
    for batch in data.to_batches():
        part = rows[start : start + batch.num_rows]
        columns = np.stack([batch.column(f.name).to_numpy(zero_copy_only=False) for f in fields], dtype=kind)
        for first in range(0, len(part), 4096):  # what is turned round stays in the cache
            part[first : first + 4096] = columns[:, first : first + 4096].T
        for name, values in kept.items():
            values.append(batch.column(name).to_numpy(zero_copy_only=False))
        start += batch.num_rows
    found = {name: np.concatenate(values) for name, values in kept.items()}
    labels = found[y] if isinstance(y, str) else y
    weights = found[sample_weight] if isinstance(sample_weight, str) else sample_weight
    return rows, labels, weights, [field.name for field in fields]
