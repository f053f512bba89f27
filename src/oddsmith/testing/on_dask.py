"""Data put where the Dask engine finds it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from narwhals.typing import IntoDataFrame

from oddsmith.block import Block
from oddsmith.engines.dask import DaskParts
from oddsmith.engines.dask_collections import Collection
from oddsmith.engines.partitioned import PartedSource, Piece
from oddsmith.numerics import Array
from oddsmith.protocols import Labels


def lay_out_dask(table: IntoDataFrame | npt.NDArray[Any], rows: int) -> Collection:
    """Return a table or an array as a Dask DataFrame or Array of partitions of ``rows`` rows.

    >>> lay_out_dask(np.eye(5), 2).chunks[0]
    (2, 2, 1)
    """
    if isinstance(table, np.ndarray):
        chunks = (min(rows, max(1, len(table))), *table.shape[1:])
        return import_module("dask.array").from_array(table, chunks=chunks)
    delayed = import_module("dask").delayed
    frame = nw.from_native(table, eager_only=True).to_pandas()
    parts = [frame.iloc[i : i + rows] for i in range(0, max(1, len(frame)), rows)]
    return import_module("dask.dataframe").from_delayed([delayed(part) for part in parts], meta=frame.iloc[:0])


def dask_source(
    X: Array, t: Labels, K: int, s: Array | None = None, offset: Array | None = None, rows: int = 200
) -> PartedSource:
    """Return arrays as a source of the Dask engine, in partitions of ``rows`` rows: what `check_engine` asks for.

    >>> source = dask_source(np.eye(3), np.array([0, 1, 1], dtype=np.int32), 2, rows=2)
    >>> source.n_rows, len(source.parts.pieces)
    (3, 2)
    """
    data, *beside = (None if part is None else lay_out_dask(part, rows) for part in (X, t, s, offset))
    return PartedSource(DaskParts.open(data, *beside), _block, n_rows=len(X), M=X.shape[1], K=K)


def _block(piece: Piece) -> Block:
    return Block(piece.rows, piece.y, piece.s, piece.offset)
