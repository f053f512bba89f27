"""Columns beside those that a model says, and rows drawn from it, as tables to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oddsmith.cli.making import check_column
from oddsmith.errors import InvalidInputError


def beside(table: Any, kept: Sequence[str], said: Any) -> Any:
    """Return kept columns of a table with what was said about its rows at their right."""
    for name in kept:
        check_column(table, name, "--keep")
        if name in said.column_names:
            raise InvalidInputError(
                f"DATA has a column {name!r}, and so has what is written. Leave it out of --keep, or rename it."
            )
    return pa.table({**{name: table[name] for name in kept}, **{name: said[name] for name in said.column_names}})


def drawn(model: Any, n: int, target: str, seed: int) -> Any:
    """Return n rows and their classes from a generative model.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> drawn(model, 3, "class", 0).column_names
    ['x0', 'class']
    """
    if not hasattr(model, "sample"):
        raise InvalidInputError(
            f"{type(model).__name__} says how classes depend on columns, not how columns are spread: nothing can be "
            "drawn from it. Fit --model gaussian or naive-bayes for that."
        )
    rows, labels = model.sample(n, seed=seed)
    if isinstance(rows, np.ndarray):
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(rows.shape[1])])
        table = pa.table({str(name): rows[:, j] for j, name in enumerate(names)})
    else:
        import narwhals as nw

        table = nw.from_native(rows, eager_only=True).to_arrow()
    return beside(table, table.column_names, pa.table({target: pa.array(labels.tolist())}))
