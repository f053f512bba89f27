"""Columns of mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.design.basis.base import BASES, Basis, Names
from oddsmith.design.inputs import ArrayOrCSR
from oddsmith.engines import AnySource, Engine
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array
from oddsmith.statistics import Moments, MomentsParams

SPARSE = (
    "Standardize(center=True) would fill in the zeros of a sparse matrix. Use Standardize(center=False), which keeps "
    "it sparse, or pass a dense array."
)
SAME = 64.0 * EPS
"""Standard deviation, as a share of the mean, below which a column's values differ by rounding only."""


@BASES.register("standardize")
class Standardize(Basis):
    """Centre and scale each column: ``φ_j = (x_j − mean_j) / sd_j``, M = D.

    ``sd² = Σ s (x − mean)² / Σ s``, the maximum likelihood estimate. A column that does not vary has scale 1, so that
    it becomes 0.

    Parameters
    ----------
    center : bool
        Whether the mean is subtracted. Sparse rows would be filled in by that: they need ``center=False``, and
        stay sparse.
    scale : bool
        Whether columns are divided by their standard deviation.

    Attributes
    ----------
    mean_, scale_ : arrays of length D
        What is subtracted (0 without ``center``), and what is divided by (1 without ``scale``).

    Notes
    -----
    Cost: one pass to learn, O(D) memory.

    >>> Standardize().fit_transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    mean_: Array
    scale_: Array
    keeps_sparse = True

    def __init__(self, center: bool = True, scale: bool = True) -> None:
        self.center = center
        self.scale = scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.center
        return tags

    def check_parameters(self) -> None:
        self._check_flag("center")
        self._check_flag("scale")

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        if self.center and source.is_sparse:
            raise InvalidInputError(SPARSE)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = engine.fold(Moments, source, MomentsParams(1, "diagonal"))
            sd = np.sqrt(moments.scatter[0] / moments.weight[0])
        mean = moments.mean[0]
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            bad = names[int(np.argmin(np.isfinite(mean) & np.isfinite(sd)))]
            raise InvalidInputError(f"The squares of column {str(bad)!r} are more than a float64 can hold: rescale it.")
        self.mean_ = mean if self.center else np.zeros_like(mean)
        # Dense rows are summed about one of them, sparse ones about zero, with as many roundings as there are rows.
        noise = max(SAME, EPS * source.n_rows) if source.is_sparse else SAME
        self.scale_ = np.where(sd > noise * np.abs(mean), sd, 1.0) if self.scale else np.ones_like(sd)

    def expand(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        if isinstance(rows, np.ndarray):
            Phi: Array = np.subtract(rows, self.mean_, dtype=np.float64)
            Phi /= self.scale_
            return Phi
        if self.center:
            raise InvalidInputError(SPARSE)
        scaled = rows.astype(np.float64, copy=True)
        scaled.data /= self.scale_[rows.indices]
        return scaled

    def column_names(self, names: Names) -> list[str]:
        return [str(name) for name in names]
