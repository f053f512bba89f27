"""Standardisation: numeric columns with mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.basis.base import BASES, Basis, Names
from oddsmith.design.inputs import ArrayOrCSR
from oddsmith.engines import AnySource, Engine
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import Indices
from oddsmith.statistics import Moments, MomentsParams

NUMBER, PRODUCT, INDICATOR = 0, 1, 2
"""Kinds of design columns: a number, a number times 0/1 columns, or a 0/1 column of a level."""

FILLED = 20_000_000  # Maximum number of zeros of a sparse matrix that centring may fill in: 240 MB.
SAME = 64.0 * EPS  # Standard deviation, as a share of the mean, below which a column's values differ by rounding only.


@BASES.register("standardize")
class Standardize(Basis):
    """Centre and scale each numeric column: ``φ_j = (x_j − mean_j) / sd_j``, M = D.

    ``sd² = Σ s (x − mean)² / Σ s``, the maximum likelihood estimate. A constant column has scale 1 and becomes 0.

    In a model that reads a table, the 0/1 columns for levels (``race[black]``) and missing values (``age[missing]``)
    stay unchanged, whether rows are dense or sparse, so that their weights compare a level with the reference. The
    product of such a column and a number (``race[black]:age``) is scaled but not centred. Booleans count as the numbers
    0 and 1 and are scaled, as is every column of an array or matrix.

    Parameters
    ----------
    center : bool
        Whether to subtract the mean. This fills in the zeros of a sparse matrix: a matrix of more than 20 million cells
        needs ``center=False``.
    scale : bool
        Whether to divide numeric columns by their standard deviation.

    Attributes
    ----------
    mean_, scale_ : arrays of length D
        The subtracted means (0 without ``center``), and the divisors (1 without ``scale``).

    Notes
    -----
    Cost: one pass to learn, O(D) memory.

    >>> Standardize().fit_transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    mean_: Array
    scale_: Array
    keeps_sparse = True
    made: npt.NDArray[np.int8] | None = None

    def __init__(self, center: bool = True, scale: bool = True) -> None:
        self.center = center
        self.scale = scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def check_parameters(self) -> None:
        self._check_flag("center")
        self._check_flag("scale")

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        made = np.zeros(source.shape.M, dtype=np.int8) if self.made is None else self.made
        centred = np.full(len(made), bool(self.center)) & (made == NUMBER)
        # The numbers of a table are stored one by one, sparse or not: only a matrix is filled in.
        cells = source.n_rows * int(centred.sum())
        if source.is_sparse and self.made is None and cells > FILLED:
            raise InvalidInputError(
                f"Standardize(center=True) would fill in the zeros of a sparse matrix: {cells:,} numbers. Use "
                "Standardize(center=False), which keeps it sparse."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            moments = engine.fold(Moments, source, MomentsParams(1, "diagonal"))
            sd = np.sqrt(moments.scatter[0] / moments.weight[0])
        mean = moments.mean[0]
        if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
            bad = names[int(np.argmin(np.isfinite(mean) & np.isfinite(sd)))]
            raise InvalidInputError(f"The squares of column {str(bad)!r} are more than a float64 can hold: rescale it.")
        self.mean_ = np.where(centred, mean, 0.0)
        # Dense rows are summed about one of them, sparse ones about zero, with as many roundings as there are rows.
        noise = max(SAME, EPS * source.n_rows) if source.is_sparse else SAME
        varies = (sd > noise * np.abs(mean)) & (made != INDICATOR)
        self.scale_ = np.where(varies, sd, 1.0) if self.scale else np.ones_like(sd)

    def expand(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        if isinstance(rows, np.ndarray):
            Phi: Array = np.subtract(rows, self.mean_, dtype=np.float64)
            Phi /= self.scale_
            return Phi
        scaled = rows.astype(np.float64, copy=True)
        scaled.data /= self.scale_[rows.indices]
        filled = np.flatnonzero(self.mean_)
        return _fill_columns(scaled, filled, -self.mean_[filled] / self.scale_[filled]) if len(filled) else scaled

    def column_names(self, names: Names) -> list[str]:
        return [str(name) for name in names]


def _fill_columns(rows: sparse.csr_array, columns: Indices, shift: Array) -> sparse.csr_array:
    """Return CSR rows with a number added to every entry of some columns, zeros included."""
    n, M = rows.shape
    values = rows[:, columns].toarray() + shift
    stays = np.ones(M, dtype=bool)
    stays[columns] = False
    kept = stays[rows.indices]
    counts = np.bincount(np.repeat(np.arange(n), np.diff(rows.indptr))[kept], minlength=n)
    rest = sparse.csr_array((rows.data[kept], rows.indices[kept], np.append(0, np.cumsum(counts))), shape=(n, M))
    places = np.tile(np.arange(len(columns)), n)
    full = sparse.csr_array((values.ravel(), places, np.arange(n + 1) * len(columns)), shape=values.shape)
    both = sparse.hstack([rest, full], format="csr")
    where = np.append(np.arange(M), columns).astype(rows.indices.dtype)[both.indices]
    result = sparse.csr_array((both.data, where, both.indptr), shape=(n, M))
    result.sort_indices()
    return result
