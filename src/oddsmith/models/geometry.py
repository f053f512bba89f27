"""The geometry of linear models: decision values, boundary hyperplanes, signed distances."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.records import Boundary


def pairwise(coef: Array, intercept: Array, classes: npt.NDArray[Any]) -> tuple[Array, Array, list[Any]]:
    """Return the weights, intercepts and class pairs of the hyperplanes between classes.

    Two classes have one hyperplane; K > 2 have one for each pair (i, j), i < j, positive towards j.
    """
    if len(coef) == 1:
        return coef, intercept, [(classes[0], classes[1])]
    i, j = np.array(list(combinations(range(len(classes)), 2))).T
    pairs = [(classes[a], classes[b]) for a, b in zip(i, j, strict=True)]
    return coef[j] - coef[i], intercept[j] - intercept[i], pairs


class LinearGeometry:
    """A mixin for models with ``coef_``, ``intercept_`` and ``classes_``."""

    coef_: Array
    intercept_: Array
    classes_: npt.NDArray[Any]

    @property
    def boundary_(self) -> Boundary:
        """The decision boundary: unit normals, offsets and the origin's distance (−w₀/‖w‖), a hyperplane a pair."""
        W, b, pairs = pairwise(self.coef_, self.intercept_, self.classes_)
        length = np.linalg.norm(W, axis=1)
        length = np.where(length > 0, length, np.nan)
        normal, offset = W / length[:, None], b / length
        if len(pairs) == 1:
            return Boundary(pairs, normal[0], float(offset[0]), float(-offset[0]))
        return Boundary(pairs, normal, offset, -offset)

    def _distance(self, rows: Any) -> Array:
        W, b, pairs = pairwise(self.coef_, self.intercept_, self.classes_)
        length = np.linalg.norm(W, axis=1)
        d = (rows @ W.T + b) / np.where(length > 0, length, np.nan)
        result: Array = d[:, 0] if len(pairs) == 1 else d
        return result
