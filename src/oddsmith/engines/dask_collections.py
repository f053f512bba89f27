"""Dask DataFrames and Arrays: which of them can be folded over, and functions of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError, InvalidTypeError


def is_dask(data: Any) -> bool:
    """Return whether ``data`` is a Dask collection, without importing Dask.

    >>> is_dask(np.eye(2))
    False
    """
    return hasattr(data, "__dask_graph__") and type(data).__module__.partition(".")[0] in ("dask", "dask_expr")


def apply(data: Any, function: Callable[[Any], Any], names: str | Sequence[str] | None, dtype: Any) -> Any:
    """Return ``function`` of the rows of a Dask collection, lazily, a partition at a time.

    Parameters
    ----------
    data : Dask DataFrame or Array
        The rows.
    function : callable
        From the rows of a partition (a pandas DataFrame or an array) to n values, or n × K of them.
    names : str, sequence of str or None
        A sequence names K columns: the result is a DataFrame, or an Array of K columns. Otherwise it is a Series of
        that name, or an Array of one dimension.
    dtype : data type
        That of the values.

    >>> import dask.array as da
    >>> apply(da.ones((4, 3), chunks=(2, 2)), lambda rows: rows.sum(axis=1), None, float).compute().tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    data = checked_rows(data)
    several = names is not None and not isinstance(names, str)
    if is_frame(data):
        pandas = import_module("pandas")
        meta = (
            pandas.DataFrame({name: pandas.Series(dtype=dtype) for name in names or ()})
            if several
            else pandas.Series(dtype=dtype, name=names)
        )
        meta.index = data._meta.index[:0]
        return data.map_partitions(partial(_beside, function, meta), meta=meta, enforce_metadata=False)
    if several:
        chunks = (data.chunks[0], (len(names or ()),))
        return data.map_blocks(function, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))
    return data.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))


def _beside(function: Callable[[Any], Any], meta: Any, rows: Any) -> Any:
    """Return the values of ``function`` in the form of ``meta``, under the index of the rows."""
    if len(rows) == 0:
        return meta.set_axis(rows.index)
    values = function(rows)
    form = {"name": meta.name} if meta.ndim == 1 else {"columns": meta.columns}
    result = type(meta)(np.asarray(values), index=rows.index, **form)
    return result.astype(meta.dtype if meta.ndim == 1 else meta.dtypes)


def checked_rows(data: Any) -> Any:
    """Return a DataFrame, or an Array in chunks of whole rows; anything else is refused."""
    if not is_dask(data) or not (is_frame(data) or _is_array(data)):
        raise InvalidTypeError(f"Expected a Dask DataFrame or Array, found a {type(data).__name__}.")
    if is_frame(data):
        odd = [name for name in data.columns if not isinstance(name, str)]
        if odd:
            raise InvalidInputError(
                f"Columns have names that are not text: {odd[:5]}. Give them some: data.rename(columns=str)."
            )
        return data
    if data.ndim != 2:
        raise InvalidInputError(f"The Dask Array has {data.ndim} dimensions, expected 2: rows × columns.")
    return _whole_rows(data)


def aligned(name: str, part: Any, data: Any) -> Any:
    """Return labels, weights or offsets in pieces beside those of the rows."""
    if part is None:
        return None
    if not is_dask(part) or not (_is_array(part) or hasattr(type(part), "divisions")):
        example = "" if is_frame(data) else f", for example dask.array.from_array({name}, chunks=X.chunks[0])"
        raise InvalidTypeError(
            f"{name} is a {type(part).__name__}, and the rows are a Dask {type(data).__name__}. Pass a Dask Series or "
            f"Array cut at the same rows{example}; or make it a column of a table, and pass its name."
        )
    if _is_array(part):
        part = _whole_rows(part)
        known = not is_frame(data) and not np.isnan([*data.chunks[0], *part.chunks[0]]).any()
        if known and part.shape[0] == data.shape[0]:
            return part.rechunk({0: data.chunks[0]})
        if known:
            raise InvalidInputError(f"There are {data.shape[0]} rows and {part.shape[0]} entries of {name}.")
    elif is_frame(data) and data.known_divisions and part.known_divisions and data.divisions != part.divisions:
        raise InvalidInputError(
            f"{name} is cut at other rows than the table: its divisions differ. Repartition it, "
            f"{name}.repartition(divisions=table.divisions), or make it a column of the table."
        )
    pieces, here = part.npartitions, data.npartitions
    if pieces != here:
        raise InvalidInputError(
            f"{name} has {pieces} partitions and the rows have {here}. Cut both at the same rows (rechunk, "
            "repartition; compute_chunk_sizes() where sizes are unknown), or make it a column of the table."
        )
    return part


def _whole_rows(array: Any) -> Any:
    """Return an array in chunks of whole rows; no rows are one chunk, since Dask does not cut them again."""
    array = array.blocks[:1] if array.shape[0] == 0 else array
    return array.rechunk({1: -1}) if array.ndim > 1 and array.numblocks[1] > 1 else array


def is_frame(data: Any) -> bool:
    """Return whether a collection has named columns."""
    # Asked of the type: a lazy value that may be anything says that it has every attribute.
    return hasattr(type(data), "map_partitions") and hasattr(type(data), "columns") and data.ndim == 2


def _is_array(data: Any) -> bool:
    return hasattr(type(data), "rechunk")


def partitions(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the lazy partitions of collections that lie side by side, in order; None beside a part that is None.

    Dask reads small partitions of few columns several at a time, which would move the cuts of one part and not of
    another: where parts lie side by side, columns are still chosen in the files, but cuts stay.
    """
    alone = sum(part is not None for part in parts) == 1
    lists = [
        None
        if part is None
        else np.ravel(part.to_delayed() if alone or not hasattr(part, "expr") else _as_cut(part)).tolist()
        for part in parts
    ]
    count = max(len(some) for some in lists if some is not None)
    return list(zip(*([None] * count if some is None else some for some in lists), strict=True))


def _as_cut(frame: Any) -> list[Any]:
    """Return the partitions of a frame with its columns chosen in the files, and nothing else optimised."""
    frame = type(frame)(frame.expr.simplify())
    layer = f"cut-{frame._name}"
    high_level = import_module("dask.highlevelgraph").HighLevelGraph
    graph = high_level.from_collections(layer, frame.__dask_graph__(), dependencies=())
    delayed = import_module("dask.delayed").Delayed
    return [delayed(key, graph, layer=layer) for key in frame.__dask_keys__()]


def dask_package() -> Any:
    """Return the package dask; without it, an error that names the extra to install."""
    try:
        return import_module("dask")
    except ImportError:
        raise InvalidInputError(
            "Dask data needs the package dask, which is not installed: pip install 'oddsmith[dask]'."
        ) from None
