"""Contiguous Arrow columns as the rows of a matrix, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.numerics import Array

if TYPE_CHECKING:
    import pyarrow as pa

ALIGNED = 16  # Alignment of NumPy arrays, in bytes.


def copy_numbers(column: pa.ChunkedArray, place: Array) -> None:
    """Copy a column of numbers without nulls into an array, chunk by chunk.

    >>> import pyarrow as pa
    >>> place = np.empty(3)
    >>> copy_numbers(pa.chunked_array([[1, 2], [3]]), place)
    >>> place.tolist()
    [1.0, 2.0, 3.0]
    """
    start = 0
    for chunk in column.chunks:
        place[start : start + len(chunk)] = chunk.to_numpy()
        start += len(chunk)


def without_views(table: pa.Table) -> pa.Table:
    """Return a table whose texts are no string views, which Arrow cannot take rows of.

    >>> import pyarrow as pa
    >>> without_views(pa.table({"a": pa.array(["x"], pa.string_view())})).schema.types
    [DataType(large_string)]
    """
    import pyarrow as pa

    for i, type_ in enumerate(table.schema.types):
        coded = pa.types.is_dictionary(type_)
        if pa.types.is_string_view(type_.value_type if coded else type_):
            text = pa.large_string()
            plain = pa.dictionary(type_.index_type, text, type_.ordered) if coded else text
            table = table.set_column(i, table.schema.field(i).with_type(plain), table.column(i).cast(plain))
    return table


class _Rows:
    """Memory of several Arrow arrays; a matrix over it keeps all of them alive."""

    def __init__(self, held: Sequence[pa.Array], address: int, stride: int) -> None:
        self.held = held
        layout = {"shape": (len(held), len(held[0])), "strides": (stride, 8), "data": (address, False)}
        self.__array_interface__ = {"version": 3, "typestr": "<f8", **layout}


def matrix_of(columns: Sequence[pa.ChunkedArray]) -> Array | None:
    """Return Arrow columns (float64) as the rows of a matrix if they are contiguous in memory, else None.

    >>> import pyarrow as pa
    >>> columns = [pa.chunked_array([row]) for row in np.arange(6.0).reshape(2, 3)]
    >>> matrix_of(columns).tolist(), matrix_of(columns[::-1])
    ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], None)
    """
    import pyarrow.types as is_

    whole = (c.num_chunks == 1 and not c.null_count and is_.is_float64(c.type) and len(c) > 0 for c in columns)
    if not columns or not all(whole):
        return None
    chunks = [column.chunk(0) for column in columns]
    places = [chunk.buffers()[1].address + 8 * chunk.offset for chunk in chunks]
    if places[0] % ALIGNED:  # NumPy would add them up in another order
        return None
    stride = places[1] - places[0] if len(places) > 1 else 8 * len(chunks[0])
    if stride < 8 * len(chunks[0]) or any(b - a != stride for a, b in pairwise(places)):
        return None
    matrix: Array = np.asarray(_Rows(chunks, places[0], stride))
    return matrix
