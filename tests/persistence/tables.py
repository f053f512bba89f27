"""Rows and labels for tests of exports, as tables and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from oddsmith.data import load_dataset


def as_polars(X: Any) -> pl.DataFrame:
    """Return rows of any kind as a table, with the names that a model gives to columns without."""
    if isinstance(X, pl.DataFrame):
        return X
    if hasattr(X, "columns"):
        return pl.from_pandas(X)
    rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return pl.DataFrame({f"x{j}": rows[:, j].astype(np.float64) for j in range(rows.shape[1])})


def penguins() -> tuple[pl.DataFrame, Any]:
    """Return the bundled penguins, with their missing values, and their species."""
    table = pl.from_arrow(load_dataset("penguins"))
    assert isinstance(table, pl.DataFrame)
    return table.drop("species"), table["species"].to_numpy()


def exported(labels: Any) -> list[Any]:
    """Return labels as an export has them: numbers and booleans themselves, all else as words."""
    kind = labels.dtype.kind
    if kind == "S":
        return [label.decode() for label in labels.tolist()]
    return labels.astype(str).tolist() if kind in "mM" else labels.tolist()
