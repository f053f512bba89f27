"""Whole numbers beyond 2⁵³, which float64 rounds: most often they are IDs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.inputs import as_table
from oddsmith.errors import FormatWarning, InvalidInputError, caller_level

EXACT = 2**53  # All whole numbers up to here are float64 numbers.
WIDE = (nw.Int64, nw.UInt64, nw.Int128, nw.UInt128)  # Types that hold larger ones.


def first_rounded(values: npt.NDArray[Any]) -> int | None:
    """Return the first whole number that float64 cannot hold, None if there is none.

    >>> first_rounded(np.array([7, 2**60, 2**60 + 1])), first_rounded(np.array([7, 2**60]))
    (1152921504606846977, None)
    """
    if values.dtype.kind == "O":
        whole = (value for value in values.ravel().tolist() if type(value) is int and abs(value) > EXACT)
        return next((value for value in whole if int(float(value)) != value), None)
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return None
    if values.max() <= EXACT and values.min() >= -EXACT:
        return None
    large = values[(values > EXACT) | (values < -EXACT)]
    # A number is an odd number times a power of two, its lowest bit; it is exact if the odd number is below 2⁵³.
    odd = np.abs(large.astype(np.float64) / (large & -large).astype(np.float64))
    rounded = large[odd >= EXACT]
    return int(rounded[0]) if len(rounded) else None


def rounded_column(column: nw.Series[Any]) -> int | None:
    """Return the first whole number of a column that float64 cannot hold, None if there is none.

    >>> import polars
    >>> rounded_column(nw.from_native(polars.Series([2**53 + 1, None]), series_only=True))
    9007199254740993
    """
    if column.dtype == nw.Object:
        return first_rounded(np.array(column.to_list(), dtype=object))
    if column.dtype not in WIDE:
        return None
    least, most = column.min(), column.max()
    if not isinstance(least, int | np.integer) or (least >= -EXACT and most <= EXACT):  # no values, or small ones
        return None
    values = column.drop_nulls().to_numpy()
    return first_rounded(values if values.dtype.kind in "iu" else np.array(column.drop_nulls().to_list()))


def rounded_columns(X: Any) -> dict[Any, int]:
    """Return the columns of a table or an array with whole numbers that float64 cannot hold, and the first of each.

    >>> rounded_columns([[0.5, 2**53 + 1], [1.5, 3]])
    {1: 9007199254740993}
    """
    table = as_table(X)
    found: dict[Any, int | None]
    if table is not None:
        found = {column.name: rounded_column(column) for column in table.iter_columns()}
    elif sparse.issparse(X):
        found = {} if X.dtype.kind not in "iuO" or first_rounded(X.tocoo().data) is None else _by_position(X.tocsc())
    else:
        array = np.asarray(X)
        if isinstance(X, list | tuple) and array.dtype.kind == "f" and np.abs(array).max(initial=0.0) >= EXACT:
            array = np.array(X, dtype=object)  # whole numbers beside fractions
        found = {} if array.ndim != 2 or first_rounded(array) is None else _by_position(array)
    return {name: value for name, value in found.items() if value is not None}


def _by_position(X: Any) -> dict[Any, int | None]:
    columns = (X[:, [j]] for j in range(X.shape[1]))
    return {j: first_rounded(x.data if sparse.issparse(x) else x) for j, x in enumerate(columns)}


def warn_of_rounding(names: Iterable[Any]) -> None:
    """Warn about columns with whole numbers that float64 rounds."""
    listed = list(map(repr, names))
    if not listed:
        return
    more = f" and {len(listed) - 6} more columns" if len(listed) > 6 else ""
    what = f"Column {listed[0]} holds" if len(listed) == 1 else f"Columns {', '.join(listed[:6])}{more} hold"
    it, a = ("it is an ID", "it") if len(listed) == 1 else ("they are IDs", "them")
    warnings.warn(
        f"{what} whole numbers beyond 2⁵³, which are rounded to the nearest float64: differences of a few units are "
        f"lost. If {it}, leave {a} out; otherwise subtract a constant first, or convert {a} to text for levels.",
        FormatWarning,
        stacklevel=caller_level(),
    )


def refuse_rounded_levels(name: str, value: int | None) -> None:
    """Refuse whole numbers as levels if float64 rounds them, since different levels would become one."""
    if value is not None:
        raise InvalidInputError(
            f"Column {name!r} holds whole numbers beyond 2⁵³, such as {value}, as levels. As float64 numbers, "
            "different levels would become one. Convert the column to text."
        )
