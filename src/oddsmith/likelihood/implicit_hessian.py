"""A Hessian in terms of its rows, for a few products that are cheaper than forming it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddsmith.engines.memory import MemorySource, parallel_map
from oddsmith.kernels.curvature import curvature_root
from oddsmith.numerics import Array
from oddsmith.solvers.certificate import InverseBound
from oddsmith.statistics import CurvatureParams


@dataclass(frozen=True)
class ImplicitHessian:
    """``H = Σ D BᵀB D + diag(prior)`` for two classes: ``parts`` B of rows √h (1, z), D = 1 / ``unit``.

    >>> rows = ImplicitHessian([np.array([[1.0, 2.0]])], np.ones(2), np.array([0.0, 1.0]), threads=1)
    >>> rows.hessian_product(np.zeros(2), np.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """

    parts: list[Array]
    unit: Array
    prior: Array
    threads: int

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return H v; the point of evaluation is fixed."""
        scaled = v / self.unit
        products = parallel_map(lambda B: (B @ scaled) @ B, self.parts, self.threads)
        product: Array = np.sum([*products], axis=0) / self.unit + self.prior * v
        return product

    def inverse_bound(self, self_concordance: float, rounding: float) -> InverseBound | None:
        """Return a bound of the inverse from the prior, the intercept eliminated."""
        column = self.hessian_product(self.unit, np.eye(1, len(self.unit))[0])
        if not (column[0] > 0.0 and self.prior[1:].min(initial=np.inf) > 0.0):
            return None
        return InverseBound.eliminating(column[None, None], self.prior[1:], self_concordance, rounding)


def curvature_roots(source: MemorySource, W: Array, b: Array, center: Array, threads: int) -> list[Array]:
    """Return the rows √h (1, z) of dense rows and two classes, slice by slice."""
    at = CurvatureParams(W=W, b=b, center=center)

    def roots(rows: tuple[int, int]) -> Array:
        return curvature_root(source.block(*rows), at)

    return [*parallel_map(roots, source.slices(), threads)]
