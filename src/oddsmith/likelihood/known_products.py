"""Products of residuals with all columns, of which those are known without reading a column that cannot matter."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.native import ColumnsProblem, Kernels, KnownProblem, address, addresses, kernels
from oddsmith.kernels.packed_columns import STORED, Team, team_address
from oddsmith.likelihood.gram_model import LowPrecisionColumns
from oddsmith.numerics import EPS, Array

KEPT = 5  # Residuals whose products with all columns are kept.
Sizes = tuple[float, float]  # The Euclidean norm of a vector, and its largest entry.
ALIKE = 1e-10  # What known residuals, relative to their size, may lack to be combinations of each other.
MOST_READ = 0.5  # The share of the entries up to which columns are read one by one, against those of all others.


@dataclass(kw_only=True)
class KnownProducts:
    """Residuals ``theta`` met before, with their products ``g`` with all ``columns``.

    New residuals are nearly a combination of them. By the norm of a column and of what is left of the residuals, its
    product is at most that far from the combination of the known products: by the Euclidean norms, or for short columns
    by the sum of their sizes and the largest of what is left.

    >>> known = KnownProducts.of(MatrixColumns.of(np.array([[3.0, 0.1], [4.0, 0.1]])), 2)
    >>> sizes = known.sizes(np.array([1.0, 0.0]), np.ones(2), np.zeros(0, dtype=np.intp), np.zeros(0))
    >>> sizes.tolist()
    [3.0, 0.1]
    """

    columns: MatrixColumns | LowPrecisionColumns
    norms: Array
    sums: Array
    lengths: npt.NDArray[np.int64]
    rounding: float
    theta: Array
    g: Array
    team: Team | None = None
    oldest: int = 0

    @classmethod
    def of(
        cls, columns: MatrixColumns | LowPrecisionColumns, n: int, seen: tuple[Array, Array] | None = None
    ) -> KnownProducts:
        """Return those of columns of n rows, of which none is known but those ``seen``."""
        if isinstance(columns, MatrixColumns):
            (norms, sums), rounding = columns.norms(), n * EPS
        else:
            norms, rounding = columns.norms, columns.rounding
            sums = np.full(len(norms), np.inf)
        u, g = (np.zeros((0, n)), np.zeros((0, len(norms)))) if seen is None else (seen[0][None], seen[1][None])
        return cls(columns=columns, norms=norms, sums=sums, lengths=columns.lengths, rounding=rounding, theta=u, g=g)

    def with_products(self, u: Array, g: Array) -> KnownProducts:
        """Return the same with the products ``g`` of all columns with ``u`` besides."""
        return replace(self, theta=np.vstack([self.theta, u])[-KEPT:], g=np.vstack([self.g, g])[-KEPT:], oldest=0)

    def copy(self) -> KnownProducts:
        """Return the same with arrays of its own: those of the residuals known are written to."""
        return replace(self, theta=self.theta.copy(), g=self.g.copy())

    def _keep(self, u: Array, g: Array) -> None:
        """Keep the products of all columns with ``u``, in place of the oldest residuals if there are many."""
        if len(self.theta) < KEPT:
            self.theta, self.g = np.vstack([self.theta, u]), np.vstack([self.g, g])
        else:
            self.theta[self.oldest], self.g[self.oldest] = u, g
            self.oldest = (self.oldest + 1) % KEPT
        vars(self).pop("nearest", None)

    def sizes(self, u: Array, limit: Array, chosen: npt.NDArray[np.intp], products: Array) -> Array:
        """Return the size of each product with ``u``: exact if it may be above ``limit``, an estimate of it elsewhere.

        ``products`` are those of the columns ``chosen``, which are known.
        """
        A, (inverse, lengths) = self.theta, self.nearest
        share = inverse @ (A @ u)
        rest = u - share @ A
        size = float(np.sqrt(u @ u))
        rounding = self.rounding * (float(np.abs(share) @ lengths) + size)
        near, whole = (
            (length + rounding, float(max(v.max(), -v.min())) + rounding)
            for v, length in ((rest, float(np.sqrt(rest @ rest))), (u, size))
        )
        native = kernels()
        if native is None:
            estimate, everything = self._estimate(u, share, near, whole, limit, chosen, products)
        else:
            estimate, everything = self._estimate_in_kernel(native, u, share, near, whole, limit, chosen, products)
        if everything:
            self._keep(u, estimate)
        return np.abs(estimate)

    @cached_property
    def nearest(self) -> tuple[Array, Array]:
        """The inverse of the products of the known residuals with each other, for least squares, and their norms.

        A little is added to the diagonal, so that there is one. What a combination lacks is measured, whatever it is.
        """
        gram = self.theta @ self.theta.T
        squares = np.diag(gram)
        inverse = np.asarray(np.linalg.inv(gram + np.diag(ALIKE * squares + np.finfo(float).tiny)), dtype=np.float64)
        return inverse, np.sqrt(squares)

    def _bound(self, sizes: Sizes) -> Array:
        """Return the largest size of the product of each column with a vector of these sizes."""
        return np.minimum(sizes[0] * self.norms, np.where(np.isinf(self.sums), np.inf, sizes[1] * self.sums))

    def _estimate(
        self,
        u: Array,
        share: Array,
        near: Sizes,
        whole: Sizes,
        limit: Array,
        chosen: npt.NDArray[np.intp],
        products: Array,
    ) -> tuple[Array, bool]:
        """Return the products, and whether all columns were read: the definition."""
        estimate, most = share @ self.g, self._bound(whole)
        known = np.abs(estimate) + self._bound(near) <= limit
        estimate = np.where(known, estimate, np.clip(estimate, -most, most))
        doubtful = ~(known | (most <= limit))
        doubtful[chosen] = False
        which = np.flatnonzero(doubtful)
        outside = self.lengths.sum() - self.lengths[chosen].sum()
        everything = not len(share) or bool(self.lengths[which].sum() > MOST_READ * outside)
        if everything:
            which = np.delete(np.arange(len(self.norms)), chosen)
        estimate[which], estimate[chosen] = self.columns.some_dots(u, which), products
        return estimate, everything

    def _estimate_in_kernel(
        self,
        native: Kernels,
        u: Array,
        share: Array,
        near: Sizes,
        whole: Sizes,
        limit: Array,
        chosen: npt.NDArray[np.intp],
        products: Array,
    ) -> tuple[Array, bool]:
        mark, estimate = np.zeros(len(self.norms), dtype=np.int8), np.empty(len(self.norms))
        u, limit, products = (np.ascontiguousarray(v, dtype=np.float64) for v in (u, limit, products))
        places = chosen.astype(np.int64, copy=False)
        fields = addresses(shares=share, g=self.g, norms=self.norms, sums=self.sums, limit=limit, products=products)
        fields |= addresses(chosen=places, mark=mark, estimate=estimate)
        if isinstance(self.columns, MatrixColumns):
            columns = self.columns.problem(v=address(u))
        else:
            rows, low = self.columns.rows, u.astype(np.float32)
            columns = ColumnsProblem(n=rows.shape[1], count=len(rows))
            fields |= addresses(low=rows, low_v=low, units=self.columns.units)
            fields |= {"stored": STORED.index(rows.dtype)}
        problem = KnownProblem(
            columns=columns,
            known=len(share),
            chosen_count=len(places),
            euclidean=near[0],
            largest=near[1],
            euclidean_all=whole[0],
            largest_all=whole[1],
            most_read=MOST_READ,
            team=team_address(self.team),
            **fields,
        )
        native("known_products", ctypes.byref(problem))
        return estimate, bool(problem.everything)
