"""Columns of texts that stay in their library: Arrow arrays are made of some rows at a time, to save memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oddsmith.kernels.texts import TextBuffers, are_ascending
from oddsmith.protocols import Indices

PIECE_ROWS = 1 << 15


class TextColumn:
    """A column of texts, like an Arrow array of strings.

    >>> import polars
    >>> texts = TextColumn(nw.from_native(polars.Series(["b", None, "a"]), series_only=True))
    >>> len(texts), texts.is_null().tolist(), [len(piece) for piece in texts.pieces()]
    (3, [False, True, False], [3])
    """

    def __init__(self, column: nw.Series[Any]) -> None:
        self.column = column

    @classmethod
    def of(cls, column: nw.Series[Any]) -> TextColumn | None:
        """Return a column if it holds texts, and some that are not missing, which in objects is no matter of type."""
        if column.dtype != nw.String:
            return None
        plain = column.implementation.is_pandas_like() and column.to_native().dtype == object
        return None if plain and column.null_count() == len(column) else cls(column)

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, rows: slice) -> TextColumn:
        return TextColumn(self.column[rows])

    def take(self, rows: Indices) -> TextColumn:
        """Return some rows."""
        return TextColumn(self.column[rows])

    def is_null(self) -> npt.NDArray[np.bool_]:
        """Return which texts are missing."""
        return np.asarray(self.column.is_null().to_numpy(), dtype=bool)

    def to_pylist(self) -> list[str | None]:
        """Return the texts, None where one is missing."""
        return [None if text != text else text for text in self.column.to_list()]

    def pieces(self) -> Iterator[pa.Array]:
        """Yield Arrow arrays of strings: those that there are, or of some rows at a time."""
        native, kind = self.column.to_native(), self.column.implementation
        if kind.is_pyarrow():
            yield from native.chunks
        elif kind.is_pandas_like() and native.dtype != object and "python" not in repr(native.dtype):
            yield from _chunks(self.column.to_arrow())
        else:
            for start in range(0, len(self.column), PIECE_ROWS):
                for chunk in _chunks(self.column[start : start + PIECE_ROWS].to_arrow()):
                    yield chunk if not pa.types.is_null(chunk.type) else chunk.cast(pa.string())

    def whole(self) -> pa.Array:
        """Return all texts as one Arrow array."""
        pieces = [piece.cast(pa.large_string()) for piece in self.pieces()]
        return pa.concat_arrays(pieces) if pieces else pa.array([], pa.large_string())


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return array.chunks if isinstance(array, pa.ChunkedArray) else [array]


def text_buffers(array: pa.Array) -> TextBuffers:
    """Return where the texts of an Arrow array of strings lie.

    >>> text_buffers(pa.array(["a", "bc"])).offsets.tolist()
    [0, 1, 3]
    """
    valid, offsets, data = array.buffers()
    kind, n, first = np.int64 if pa.types.is_large_string(array.type) else np.int32, len(array), array.offset
    none = np.zeros(first + 1, dtype=kind)  # an array without rows may lack its buffers
    return TextBuffers(
        n=n,
        offsets=(none if offsets is None or not offsets.size else np.frombuffer(offsets, kind))[first : first + n + 1],
        data=np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, np.uint8),
        valid=None if valid is None or not array.null_count else np.frombuffer(valid, np.uint8),
        first=first,
    )


def are_sorted(texts: pa.Array) -> bool:
    """Whether each text comes after the one before in the order of their bytes, which is that of Python's strings.

    >>> are_sorted(pa.array(["a", "b", "π"])), are_sorted(pa.array(["a", "a"]))
    (True, False)
    """
    plain = pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)
    found = are_ascending(text_buffers(texts)) if plain else None  # functions of Arrow take half a megabyte
    return bool(pc.all(pc.less(texts[:-1], texts[1:])).as_py() is not False) if found is None else found
