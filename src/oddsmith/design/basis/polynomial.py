"""All products of columns up to a degree."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from oddsmith.design.basis.base import BASES, LIMIT, Basis, Names, dense_tiles
from oddsmith.design.inputs import ArrayOrCSR
from oddsmith.engines import AnySource, Engine
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array


@BASES.register("polynomial")
class Polynomial(Basis):
    """All monomials ``x_1^{g_1} ⋯ x_D^{g_D}`` of degree 1 … G; no constant, since models have an intercept.

    There are C(D + g − 1, g) monomials of degree g, in the order of scikit-learn's ``PolynomialFeatures``; without
    interactions M = D G. Their number grows fast: 10 columns give 285 monomials of degree 1 to 3, 100 give 176,850.

    Parameters
    ----------
    degree : int
        Maximum degree G, at least 1.
    interactions : bool
        Whether to include products of different columns, or powers only.
    limit : int
        Maximum number of columns; more is an error that states the number.

    Attributes
    ----------
    n_outputs_ : int
        M.

    Notes
    -----
    Nothing is learned from the rows. Cost: one product per output; each degree is computed from the one before. Powers
    of large values may overflow: put `Standardize` first.

    >>> basis = Polynomial(2).fit([[2.0, 3.0]])
    >>> basis.transform([[2.0, 3.0]]).tolist(), basis.get_feature_names_out().tolist()
    ([[2.0, 3.0, 4.0, 6.0, 9.0]], ['x0', 'x1', 'x0^2', 'x0 x1', 'x1^2'])
    """

    n_outputs_: int

    def __init__(self, degree: int = 2, *, interactions: bool = True, limit: int = LIMIT) -> None:
        self.degree, self.interactions, self.limit = degree, interactions, limit

    def check_parameters(self) -> None:
        self._check_whole("degree", 1)
        self._check_flag("interactions")
        self._check_whole("limit", 1)

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        D, G = source.shape.M, int(self.degree)
        # The sum of C(D + g − 1, g) over g = 1 … G.
        columns = comb(D + G, G) - 1 if self.interactions else D * G
        self._check_limit(columns, f"monomials of {D} columns up to degree {G}")
        self.n_outputs_ = columns

    def expand(self, rows: ArrayOrCSR) -> Array:
        Phi = np.empty((rows.shape[0], self.n_outputs_))
        fill = _monomials if self.interactions else _powers
        try:
            with np.errstate(over="raise", under="ignore"):
                for part, X in dense_tiles(rows, self.n_outputs_):
                    fill(X, int(self.degree), Phi[part])
        except FloatingPointError:
            raise InvalidInputError(
                f"A product of degree {self.degree} is more than a float64 can hold. Put Standardize() first."
            ) from None
        return Phi

    def column_names(self, names: Names) -> list[str]:
        D, degrees = len(names), range(1, int(self.degree) + 1)
        if not self.interactions:
            return [_power(names[j], g) for g in degrees for j in range(D)]
        products = (chosen for g in degrees for chosen in combinations_with_replacement(range(D), g))
        return [" ".join(_power(names[j], chosen.count(j)) for j in sorted(set(chosen))) for chosen in products]


def _monomials(X: Array, G: int, Phi: Array) -> None:
    """Write all monomials of degree 1 … G.

    The monomials of a degree are sorted by their first column. So those that begin with ``x_j`` are ``x_j`` times the
    monomials of the previous degree from the first that begins with ``x_j``.
    """
    D = X.shape[1]
    Phi[:, :D] = X
    starts, end = list(range(D)), D
    for _ in range(1, G):
        begin, previous = end, []
        for j in range(D):
            previous.append(end)
            count = begin - starts[j]
            np.multiply(X[:, j : j + 1], Phi[:, starts[j] : begin], out=Phi[:, end : end + count])
            end += count
        starts = previous


def _powers(X: Array, G: int, Phi: Array) -> None:
    """Write the powers 1 … G of all columns."""
    D = X.shape[1]
    Phi[:, :D] = X
    for g in range(1, G):
        np.multiply(X, Phi[:, (g - 1) * D : g * D], out=Phi[:, g * D : (g + 1) * D])


def _power(name: object, g: int) -> str:
    return f"{name}" if g == 1 else f"{name}^{g}"
