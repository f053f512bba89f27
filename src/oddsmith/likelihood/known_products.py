"""Products of residuals with all columns, of which those are known without reading a column that cannot matter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.columns import MatrixColumns
from oddsmith.numerics import EPS, Array

KEPT = 3  # Residuals whose products with all columns are kept.
MOST_READ = 0.5  # The share of the entries up to which columns are read one by one, against those of all others.


@dataclass(kw_only=True)
class KnownProducts:
    """Residuals ``theta`` met before, with their products ``g`` with all ``columns``.

    New residuals are nearly a combination of them. By the norm of a column and of what is left of the residuals, its
    product is at most that far from the combination of the known products.

    >>> known = KnownProducts.of(MatrixColumns.of(np.array([[3.0, 0.1], [4.0, 0.1]])))
    >>> sizes = known.sizes(np.array([1.0, 0.0]), np.ones(2), np.zeros(0, dtype=np.intp), np.zeros(0))
    >>> sizes.tolist()
    [3.0, 0.1]
    """

    columns: MatrixColumns
    norms: Array
    lengths: npt.NDArray[np.int64]
    theta: Array
    g: Array

    @classmethod
    def of(cls, columns: MatrixColumns) -> KnownProducts:
        """Return those of columns whose norms are summed first."""
        squares = columns.model(np.ones(columns.n), np.zeros(columns.count), centred=False).diagonal
        none = {"theta": np.zeros((0, columns.n)), "g": np.zeros((0, columns.count))}
        return cls(columns=columns, norms=np.sqrt(squares) * (1.0 + 1e-12), lengths=columns.lengths, **none)

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
        rounding = self.columns.n * EPS * float(np.abs(share) @ np.linalg.norm(A, axis=1) + np.linalg.norm(u))
        doubtful = ~(np.abs(estimate) + (left + rounding) * self.norms <= limit)
        doubtful[chosen] = False
        which = np.flatnonzero(doubtful)
        outside = self.lengths.sum() - self.lengths[chosen].sum()
        everything = not len(A) or self.lengths[which].sum() > MOST_READ * outside
        if everything:
            which = np.delete(np.arange(self.columns.count), chosen)
        estimate[which], estimate[chosen] = self.columns.some_dots(u, which), products
        if everything:
            self.theta, self.g = np.vstack([A, u])[-KEPT:], np.vstack([self.g, estimate])[-KEPT:]
        return np.abs(estimate)
