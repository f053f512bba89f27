"""Arrays that a pass over the data writes for later passes: an argument of the compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.numerics import Array

NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class RowBuffers:
    """An entry for each row of the data.

    ``curvature`` (N) holds the second derivative of each row's loss, of CSR rows and two classes: an evaluation writes
    it, products with the Hessian read it. ``half`` (N × M) takes the rows in half precision, centred and scaled by the
    roots of ``inverse``, in a pass that looks for the longest row.
    """

    curvature: Array | None = None
    half: npt.NDArray[np.float16] | None = None


def row_curvature(buffers: RowBuffers | None, block: Block) -> Array:
    """Return the curvatures that are kept for the rows of a block, empty where there are none."""
    return NOTHING if buffers is None or buffers.curvature is None else buffers.curvature[_rows(block)]


def half_rows(buffers: RowBuffers | None, block: Block) -> npt.NDArray[np.uint16]:
    """Return where the rows of a block go in half precision, flat and as bits, empty where they do not."""
    if buffers is None or buffers.half is None:
        return np.empty(0, np.uint16)
    return buffers.half[_rows(block)].reshape(-1).view(np.uint16)


def _rows(block: Block) -> slice:
    return slice(block.first_row, block.first_row + block.n_rows)
