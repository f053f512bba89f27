"""Some columns of rows, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.design.inputs import ArrayOrCSR


@dataclass(frozen=True)
class TakeColumns:
    """Some columns of rows; it travels to where rows are.

    >>> TakeColumns(np.array([1]))(np.array([[1.0, 2.0]])).tolist()
    [[2.0]]
    """

    which: npt.NDArray[np.intp]

    keeps_sparse = True

    def __call__(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        """Return the columns of the rows."""
        return rows[:, self.which]
