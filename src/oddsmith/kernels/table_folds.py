"""What folds over tables ask of the kernels beyond `curvature`: cells, passes made ready, blocks of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal
from oddsmith.kernels import native, table_losses
from oddsmith.kernels.curvature import kernels_for, row_curvature
from oddsmith.kernels.reference import CurvatureParams
from oddsmith.kernels.table import Cells, Layout, TableKernel
from oddsmith.kernels.table_passes import LevelSums, LogisticPass
from oddsmith.numerics import Array
from oddsmith.rows import SplitRows


def has_cells(block: Block, at: CurvatureParams) -> bool:
    """Whether a kernel sums over such rows by `Cells`."""
    kernels = kernels_for(block, at)
    return kernels is not None and isinstance(block.Phi, SplitRows) and at.link is None and at.eliminated is not None


def level_sums(block: Block, at: CurvatureParams, ranges: list[tuple[int, int]]) -> LevelSums:
    """Return sums by ranges of levels of the factor eliminated, over rows that `has_cells`."""
    kernels = kernels_for(block, at)
    assert kernels is not None
    return LevelSums.of(kernels, block, at, ranges, row_curvature(block, at))


def passes_over(block: Block, at: CurvatureParams, slices: Sequence[tuple[int, int]]) -> list[LogisticPass] | None:
    """Return a pass over each slice of a table of two classes, ready for any thread; None if no kernel reads it."""
    kernels = kernels_for(block, at)
    if kernels is None or at.link is not None or len(at.b) > 1 or not isinstance(block.Phi, SplitRows):
        return None
    return LogisticPass.over(kernels, block, at, row_curvature(block, at), slices)


def find_cells(block: Block, columns: tuple[int, int]) -> npt.NDArray[np.uint64]:
    """Return the words of the cells that occur in a block, for the factor of some ``columns``."""
    return _table_kernel(block).find_cells(columns)


def count_cells(block: Block, columns: tuple[int, int], words: npt.NDArray[np.uint64]) -> Cells:
    """Return the cells of the given words."""
    return _table_kernel(block).count_cells(columns, words)


def _table_kernel(block: Block) -> TableKernel:
    kernels = native.kernels()
    assert kernels is not None
    nothing = np.broadcast_to(0.0, block.n_columns)  # which the layout keeps: it takes no memory
    return TableKernel(kernels, Layout.of(block), nothing)


def class_hessians(
    block: Block, at: CurvatureParams, columns: tuple[int, int], *, common: bool
) -> tuple[Array, list[BorderedDiagonal]] | None:
    """As `table_losses.class_hessians`; None if no kernel sums over such rows."""
    kernels = kernels_for(block, at)
    if kernels is None or not isinstance(block.Phi, SplitRows):
        return None
    return table_losses.class_hessians(kernels, block, at, columns, common=common)


def widest_in_table(
    block: Block, slices: Sequence[tuple[int, int]], W: Array, b: Array, center: Array
) -> list[Callable[[], float]] | None:
    """Return what finds the widest activation in each slice of a table of two classes; None if no kernel reads it."""
    kernels = kernels_for(block, CurvatureParams(W=W, b=b, center=center))
    if kernels is None or not isinstance(block.Phi, SplitRows) or len(b) > 1:
        return None
    found = TableKernel(kernels, Layout.of(block), center)
    return [found.widest(W[0], float(b[0]), rows) for rows in slices]
