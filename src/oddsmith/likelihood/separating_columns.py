"""Columns that separate the classes by themselves, which usually contain the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.likelihood.separation import DesignRows
from oddsmith.numerics import Array

ROWS_OF_LEVEL = 5  # Rows for each level below which levels of one class each are no news: an id has such, too.


def separating_columns(
    rows: DesignRows,
    t: npt.NDArray[np.int32],
    K: int,
    terms: Sequence[str],
    levels: Mapping[str, Sequence[int]] | None = None,
) -> tuple[str, ...]:
    """Return the columns that each determine every row's class.

    A numeric column does if its ranges in the classes do not overlap; a category (``levels`` maps its name to its 0/1
    columns) if each level occurs in one class only. Cost: one pass.

    >>> rows, t = np.array([[1.0, 5.0], [2.0, 4.0], [7.0, 4.0], [8.0, 5.0]]), np.array([0, 0, 1, 1], dtype=np.int32)
    >>> separating_columns(rows, t, 2, ["affairs", "age"])
    ('affairs',)
    """
    low, high = _ranges(rows, t, K)
    order = np.argsort(low, axis=0)
    low, high = np.take_along_axis(low, order, 0), np.take_along_axis(high, order, 0)
    apart = (high[:-1] < low[1:]).all(axis=0)
    found = [terms[j] for j in np.flatnonzero(apart).tolist()]
    for name, columns in (levels or {}).items():
        if ROWS_OF_LEVEL * (len(columns) + 1) <= len(t) and _is_pure(rows[:, list(columns)], t, K):
            found.append(name)
    return tuple(found)


def _ranges(rows: DesignRows, t: npt.NDArray[np.int32], K: int) -> tuple[Array, Array]:
    """Return the least and the largest value of each column in each class, K × M."""
    parts = [rows[t == k] for k in range(K)]
    least, most = ([_extreme(part, which) for part in parts] for which in ("min", "max"))
    return np.array(least), np.array(most)


def _extreme(part: DesignRows, which: str) -> Array:
    found = getattr(part, which)(axis=0)
    return np.asarray(found.toarray() if sparse.issparse(found) else found, dtype=np.float64).ravel()


def _is_pure(indicators: DesignRows, t: npt.NDArray[np.int32], K: int) -> bool:
    """Whether each level, the reference among them, occurs in one class only."""
    counts = np.array([np.asarray(indicators[t == k].sum(axis=0)).ravel() for k in range(K)])
    reference = np.bincount(t, minlength=K) - counts.sum(axis=1)
    together = np.column_stack([counts, reference])
    return bool(((together > 0).sum(axis=0) <= 1).all())
