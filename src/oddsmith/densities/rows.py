"""Rows as class densities read them: dense or CSR, in tiles that fit into the cache, in slices on several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.fitted_basis import whole
from oddsmith.engines import one_blas_thread
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

SLICE_ELEMENTS = 1 << 20  # Numbers in a slice of rows that one thread predicts at once.
TILE_ELEMENTS = 1 << 17  # Numbers in a tile of rows that stays in the cache.


class RowMatrix(Protocol):
    """What an array, a CSR matrix and expanded rows have in common."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows × columns."""

    def __getitem__(self, which: Any, /) -> Any: ...

    def __matmul__(self, B: Array, /) -> Any: ...

    def sum(self, *, axis: int) -> Any:
        """Return the sums along an axis."""


def stored(rows: RowMatrix) -> Array:
    """Return the values that rows hold: those of an array, the non-zeros of a CSR matrix."""
    matrix: Any = rows
    return np.asarray(matrix.data if sparse.issparse(matrix) else matrix)


def dense(rows: RowMatrix) -> Array:
    """Return rows as an array of float64."""
    matrix: Any = rows
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def select(rows: RowMatrix, columns: Indices) -> RowMatrix:
    """Return some columns, without a copy if they are all there are."""
    selected: RowMatrix = rows if len(columns) == rows.shape[1] else rows[:, columns]
    return selected


def tiles(rows: RowMatrix) -> Iterator[slice]:
    """Yield slices of rows that fit into the cache when dense."""
    step = max(64, TILE_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        yield slice(start, min(start + step, rows.shape[0]))


def by_rows(function: Callable[[RowMatrix], Array], rows: RowMatrix, threads: int | None) -> Array:
    """Return ``function(rows)``, slices of many rows on several threads."""
    n = rows.shape[0]
    elements = len(stored(rows)) if sparse.issparse(rows) else n * rows.shape[1]
    count = min(n, -(-elements // SLICE_ELEMENTS))

    def quiet(some: RowMatrix) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what comes out
            return function(some)

    if count < 2:
        return quiet(whole(rows))
    edges = [n * i // count for i in range(count + 1)]
    with one_blas_thread(), ThreadPoolExecutor(threads or available_cores()) as pool:
        return np.concatenate(list(pool.map(lambda ends: quiet(rows[slice(*ends)]), pairwise(edges))))


def has_missing(rows: RowMatrix, names: Callable[[], npt.NDArray[Any] | list[str]]) -> bool:
    """Return whether there are NaNs among the values; refuse infinity, saying in which column and row."""
    values = stored(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return False
    if np.isinf(values).any():
        raise infinite_error(rows, names())
    return bool(np.isnan(values).any())


def infinite_error(rows: RowMatrix, names: npt.NDArray[Any] | list[str]) -> InvalidInputError:
    """Return the error that names the first column with infinite values, or the largest if sums of them are."""
    rows = whole(rows)
    if sparse.issparse(rows):
        entries = sparse.coo_array(rows)
        cells = np.column_stack([entries.row, entries.col])[np.isinf(entries.data)]
    else:
        cells = np.argwhere(np.isinf(np.asarray(rows)))
    if not len(cells):
        return overflow_error(rows, names)
    column = int(cells[0, 1])
    inside = cells[cells[:, 1] == column, 0]
    count = f"{len(inside)} infinite value{'s' * (len(inside) > 1)}"
    return InvalidInputError(
        f"Input X contains infinity (inf): column {str(names[column])!r} has {count}, the first in row "
        f"{int(inside.min())}. Replace them by finite numbers, or by NaN if they stand for missing values.",
        row=int(inside.min()),
    )


def overflow_error(rows: RowMatrix, names: npt.NDArray[Any] | list[str]) -> InvalidInputError:
    """Return the error that names the column of largest values, whose sums or squares are too large."""
    sizes: Any = abs(whole(rows))
    largest = sizes.max(axis=0).toarray().ravel() if sparse.issparse(sizes) else np.nanmax(sizes, axis=0, initial=0.0)
    j = int(np.argmax(largest))
    return InvalidInputError(
        f"Column {str(names[j])!r} has values up to {largest[j]:.3g}: its sums or squares exceed the range of "
        f"floating point. Divide it by a power of ten."
    )
