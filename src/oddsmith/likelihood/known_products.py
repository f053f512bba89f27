"""Products of residuals with all columns, of which those are known without reading a column that cannot matter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.columns import MatrixColumns
from oddsmith.likelihood.gram_model import LowPrecisionColumns
from oddsmith.numerics import EPS, Array

KEPT = 3  # Residuals whose products with all columns are kept.
MOST_READ = 0.5  # The share of the entries up to which columns are read one by one, against those of all others.


class ReadableColumns(Protocol):
    """Columns of which some are read at a time."""

    def some_dots(self, u: Array, which: npt.NDArray[np.intp]) -> Array:
        """Return the products of the columns ``which`` with ``u``."""


@dataclass(kw_only=True)
class KnownProducts:
    """Residuals ``theta`` met before, with their products ``g`` with all ``columns``.

    New residuals are nearly a combination of them. By the norm of a column and of what is left of the residuals, its
    product is at most that far from the combination of the known products.

    >>> known = KnownProducts.of(MatrixColumns.of(np.array([[3.0, 0.1], [4.0, 0.1]])), 2)
    >>> sizes = known.sizes(np.array([1.0, 0.0]), np.ones(2), np.zeros(0, dtype=np.intp), np.zeros(0))
    >>> sizes.tolist()
    [3.0, 0.1]
    """

    columns: ReadableColumns
    norms: Array
    lengths: npt.NDArray[np.int64]
    rounding: float
    theta: Array
    g: Array

    @classmethod
    def of(
        cls, columns: MatrixColumns | LowPrecisionColumns, n: int, seen: tuple[Array, Array] | None = None
    ) -> KnownProducts:
        """Return those of columns of n rows, of which none is known but those ``seen``."""
        if isinstance(columns, MatrixColumns):
            squares = columns.model(np.ones(n), np.zeros(columns.count), centred=False).diagonal
            norms, rounding = np.sqrt(squares) * (1.0 + 1e-12), n * EPS
        else:
            norms, rounding = columns.norms, columns.rounding
        u, g = (np.zeros((0, n)), np.zeros((0, len(norms)))) if seen is None else (seen[0][None], seen[1][None])
        return cls(columns=columns, norms=norms, lengths=columns.lengths, rounding=rounding, theta=u, g=g)

    def emptied(self) -> KnownProducts:
        """Return the same columns, with no product known."""
        return replace(self, theta=self.theta[:0], g=self.g[:0])

    def sizes(self, u: Array, limit: Array, chosen: npt.NDArray[np.intp], products: Array) -> Array:
        """Return the size of each product with ``u``: exact if it may be above ``limit``, an estimate of it elsewhere.

        ``products`` are those of the columns ``chosen``, which are known.
        """
        A = self.theta
        share = np.linalg.lstsq(A @ A.T, A @ u, rcond=1e-10)[0]
        estimate, left = share @ self.g, float(np.linalg.norm(u - share @ A))
        rounding = self.rounding * float(np.abs(share) @ np.linalg.norm(A, axis=1) + np.linalg.norm(u))
        doubtful = ~(np.abs(estimate) + (left + rounding) * self.norms <= limit)
        doubtful[chosen] = False
        which = np.flatnonzero(doubtful)
        outside = self.lengths.sum() - self.lengths[chosen].sum()
        everything = not len(A) or self.lengths[which].sum() > MOST_READ * outside
        if everything:
            which = np.delete(np.arange(len(self.norms)), chosen)
        estimate[which], estimate[chosen] = self.columns.some_dots(u, which), products
        if everything:
            self.theta, self.g = np.vstack([A, u])[-KEPT:], np.vstack([self.g, estimate])[-KEPT:]
        return np.abs(estimate)
