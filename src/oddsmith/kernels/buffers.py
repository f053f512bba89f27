"""Arrays that a pass over the data writes for later passes: an argument of the compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.numerics import Array

NOTHING = np.empty(0)
NO_HALF = np.empty(0, np.uint16)


@dataclass(frozen=True, eq=False)
class RowBuffers:
    """An entry for each row of the data.

    ``curvature`` (N) holds the second derivative of each row's loss, of CSR rows and two classes: an evaluation writes
    it, products with the Hessian read it. ``half`` (N × M) takes the rows in half precision, centred and scaled by the
    roots of ``inverse``, in a pass that looks for the longest row.
    """

    curvature: Array | None = None
    half: npt.NDArray[np.float16] | None = None

    def curvature_of(self, block: Block) -> Array:
        """Return the part of ``curvature`` that belongs to a block, empty where there is none."""
        return NOTHING if self.curvature is None else self.curvature[block.first_row : block.first_row + block.n_rows]

    def half_of(self, block: Block) -> npt.NDArray[np.uint16]:
        """Return the part of ``half`` that belongs to a block, flat and as bits, empty where there is none."""
        if self.half is None:
            return NO_HALF
        return self.half[block.first_row : block.first_row + block.n_rows].reshape(-1).view(np.uint16)


NO_BUFFERS = RowBuffers()
