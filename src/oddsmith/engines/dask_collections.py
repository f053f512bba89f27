"""Dask DataFrames and Arrays: which of them can be folded over, and functions of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.engines.scan import comes_from, offers
from oddsmith.errors import InvalidInputError, InvalidTypeError, import_extra

Collection: TypeAlias = Any  # A Dask DataFrame, Series or Array.
Lazy: TypeAlias = Any  # A value of Dask that is not computed yet.
Client: TypeAlias = Any  # A ``distributed.Client``.
Table: TypeAlias = Any  # A DataFrame or Series of pandas.


def is_dask(data: object) -> bool:
    """Return whether ``data`` is a Dask collection, without importing Dask.

    >>> is_dask(np.eye(2))
    False
    """
    return comes_from(data, "dask", "dask_expr") and offers(data, "__dask_graph__")


def apply(
    data: object, function: Callable[[Any], Any], names: str | Sequence[str] | None, dtype: npt.DTypeLike
) -> Collection:
    """Return ``function`` of the rows of a Dask collection, lazily, a partition at a time.

    ``function`` maps the rows of a partition (a pandas DataFrame or an array) to n or n × K values. With a sequence of
    ``names`` the result is a DataFrame, or an Array of K columns; with a name or None, a Series of that name, or a
    one-dimensional Array.

    >>> import dask.array as da
    >>> apply(da.ones((4, 3), chunks=(2, 2)), lambda rows: rows.sum(axis=1), None, float).compute().tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    rows = checked_rows(data)
    columns = None if names is None or isinstance(names, str) else list(names)
    if is_frame(rows):
        pandas = import_module("pandas")
        series = pandas.Series(dtype=dtype)
        meta = series.rename(names) if columns is None else pandas.DataFrame(dict.fromkeys(columns, series))
        meta.index = rows._meta.index[:0]
        return rows.map_partitions(partial(_with_index, function, meta), meta=meta, enforce_metadata=False)
    if columns is None:
        return rows.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (rows.chunks[0], (len(columns),))
    return rows.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def _with_index(function: Callable[[Table], Any], meta: Table, rows: Table) -> Table:
    """Return the values of ``function`` in the form of ``meta``, under the index of the rows."""
    if len(rows) == 0:
        return meta.set_axis(rows.index)
    labels = {"name": meta.name} if meta.ndim == 1 else {"columns": meta.columns}
    result = type(meta)(np.asarray(function(rows)), index=rows.index, **labels)
    return result.astype(meta.dtype if meta.ndim == 1 else meta.dtypes)


def checked_rows(data: Collection) -> Collection:
    """Return a DataFrame, or an Array in chunks of whole rows; anything else is refused."""
    if not is_dask(data) or not (is_frame(data) or _is_array(data)):
        raise InvalidTypeError(f"Expected a Dask DataFrame or Array, found a {type(data).__name__}.")
    if not is_frame(data):
        if data.ndim != 2:
            raise InvalidInputError(f"The Dask Array has {data.ndim} dimensions, expected 2: rows × columns.")
        return _whole_rows(data)
    if odd := [name for name in data.columns if not isinstance(name, str)]:
        raise InvalidInputError(
            f"Column names must be strings, found {odd[:5]}. Rename them: data.rename(columns=str)."
        )
    return data


def aligned(name: str, part: Collection | None, data: Collection) -> Collection | None:
    """Return labels, weights or offsets in pieces aligned with those of the rows."""
    if part is None:
        return None
    if not is_dask(part) or not (_is_array(part) or offers(part, "divisions")):
        example = "" if is_frame(data) else f", for example dask.array.from_array({name}, chunks=X.chunks[0])"
        raise InvalidTypeError(
            f"{name} is a {type(part).__name__}, but the rows are a Dask {type(data).__name__}. Pass a Dask Series or "
            f"Array with the same partitions{example}; or make it a column of the table, and pass its name."
        )
    if _is_array(part):
        part = _whole_rows(part)
        known = not is_frame(data) and not np.isnan([*data.chunks[0], *part.chunks[0]]).any()
        if known and part.shape[0] == data.shape[0]:
            return part.rechunk({0: data.chunks[0]})
        if known:
            raise InvalidInputError(f"There are {data.shape[0]} rows but {part.shape[0]} entries of {name}.")
    elif is_frame(data) and data.known_divisions and part.known_divisions and data.divisions != part.divisions:
        raise InvalidInputError(
            f"The partitions of {name} differ from those of the table (other divisions). Repartition it, "
            f"{name}.repartition(divisions=table.divisions), or make it a column of the table."
        )
    pieces, here = part.npartitions, data.npartitions
    if pieces != here:
        raise InvalidInputError(
            f"{name} has {pieces} partitions, but the rows have {here}. Give both the same partitions (rechunk, "
            "repartition; compute_chunk_sizes() if sizes are unknown), or make it a column of the table."
        )
    return part


def _whole_rows(array: Collection) -> Collection:
    """Return an array in chunks of whole rows; an empty array is one chunk, since Dask cannot rechunk it."""
    array = array.blocks[:1] if array.shape[0] == 0 else array
    return array.rechunk({1: -1}) if array.ndim > 1 and array.numblocks[1] > 1 else array


def is_frame(data: Collection) -> bool:
    """Return whether a collection has named columns."""
    return offers(data, "map_partitions", "columns") and data.ndim == 2


def _is_array(data: Collection) -> bool:
    return offers(data, "rechunk")


def partitions(parts: Sequence[Collection | None]) -> list[tuple[Lazy | None, ...]]:
    """Return the lazy partitions of aligned collections, in order; None for a collection that is None.

    Dask fuses small partitions of few columns, which would misalign collections: for aligned collections, columns are
    still selected in the files, but partitions stay.
    """
    alone = sum(part is not None for part in parts) == 1
    lists = [
        [] if part is None else part.to_delayed() if alone or not offers(part, "expr") else _as_cut(part)
        for part in parts
    ]
    flat = [np.ravel(some).tolist() for some in lists]
    count = max(map(len, flat))
    return list(zip(*(some or [None] * count for some in flat), strict=True))


def _as_cut(frame: Collection) -> list[Lazy]:
    """Return the partitions of a frame with columns selected in the files, and no other optimisation."""
    frame = type(frame)(frame.expr.simplify())
    layer = f"cut-{frame._name}"
    high_level = import_module("dask.highlevelgraph").HighLevelGraph
    graph = high_level.from_collections(layer, frame.__dask_graph__(), dependencies=())
    delayed = import_module("dask.delayed").Delayed
    return [delayed(key, graph, layer=layer) for key in frame.__dask_keys__()]


def dask_package() -> Any:
    """Return the package dask."""
    return import_extra("dask", "Dask data", "dask")
