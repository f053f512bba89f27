"""Formula functions that learn parameters from their column.

Each has a classmethod ``learn(x, s)``, which returns the function learned from values and weights; calling it with
values returns one or more columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from oddsmith.design.basis.spline import Spline
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array

MOST_DEGREE = 20
Knots = int | list[float]


@dataclass(frozen=True)
class Center:
    """``x − mean``, with the mean of the training rows.

    >>> Center.learn(np.array([1.0, 3.0]), np.ones(2))(np.array([5.0])).tolist()
    [3.0]
    """

    mean: float

    @classmethod
    def learn(cls, x: Array, s: Array) -> Center:
        return cls(float(s @ x / s.sum()))

    def __call__(self, x: Array) -> Array:
        return x - self.mean


@dataclass(frozen=True)
class Scale:
    """``(x − mean) / sd``, with the standard deviation of a sample (N − 1), as R's ``scale``.

    >>> Scale.learn(np.array([1.0, 2.0, 3.0]), np.ones(3))(np.array([4.0])).tolist()
    [2.0]
    """

    mean: float
    sd: float

    @classmethod
    def learn(cls, x: Array, s: Array) -> Scale:
        mean = Center.learn(x, s).mean
        variance = float(s @ (x - mean) ** 2) / max(float(s.sum()) - 1.0, np.finfo(np.float64).tiny)
        if not variance > 0:
            raise InvalidInputError("it does not vary, so it has no scale")
        return cls(mean, float(np.sqrt(variance)))

    def __call__(self, x: Array) -> Array:
        return (x - self.mean) / self.sd


@dataclass(frozen=True)
class Poly:
    """Orthogonal polynomials of degrees 1 to d on the values of the fit, as R's ``poly(x, d)``.

    With weights s: ``p_k = (x − a_k) p_{k−1} − (n_{k−1} / n_{k−2}) p_{k−2}``, ``a_k = Σ s x p²_{k−1} / n_{k−1}``,
    ``n_k = Σ s p_k²``; the columns are ``p_k / √n_k``.

    >>> poly = Poly.learn(np.array([1.0, 2.0, 3.0]), np.ones(3), degree=2)
    >>> poly(np.array([1.0, 2.0, 3.0])).round(4).tolist()
    [[-0.7071, 0.4082], [0.0, -0.8165], [0.7071, 0.4082]]
    """

    center: tuple[float, ...]
    norm: tuple[float, ...]

    @classmethod
    def learn(cls, x: Array, s: Array, degree: int = 1) -> Poly:
        if not 1 <= degree <= MOST_DEGREE:
            raise InvalidInputError(f"its degree must be from 1 to {MOST_DEGREE}, found {degree}")
        if len(np.unique(x[s > 0])) <= degree:
            raise InvalidInputError(f"degree {degree} needs more than {degree} different values")
        center, norm = [float(s @ x / s.sum())], [float(s.sum())]
        before, now = np.zeros_like(x), np.ones_like(x)
        for k in range(degree):
            ratio = norm[-1] / norm[-2] if k else 0.0
            before, now = now, (x - center[-1]) * now - ratio * before
            norm.append(float(s @ now**2))
            center.append(float(s @ (x * now**2)) / norm[-1])
        return cls(tuple(center[:-1]), tuple(norm))

    def __call__(self, x: Array) -> Array:
        columns, before, now = [], np.zeros_like(x), np.ones_like(x)
        for k, center in enumerate(self.center):
            ratio = self.norm[k] / self.norm[k - 1] if k else 0.0
            before, now = now, (x - center) * now - ratio * before
            columns.append(now / np.sqrt(self.norm[k + 1]))
        return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class Splines:
    """A fitted `Spline` of one column.

    >>> splines = Splines.learn(np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4), knots=3)
    >>> splines(np.array([1.5])).shape
    (1, 2)
    """

    basis: Spline

    @classmethod
    def learn(
        cls, x: Array, s: Array, knots: Knots = 5, degree: int = 3, natural: bool = True, periodic: bool = False
    ) -> Splines:
        basis = Spline(knots, degree, natural=natural, periodic=periodic)
        basis.check_parameters()
        basis.n_features_in_ = 1
        source = MemorySource(x[:, None], np.zeros(len(x), dtype=np.int32), 1, None if (s == 1.0).all() else s)
        basis.learn(source, MemoryEngine(), np.array(["x"], dtype=object))
        return cls(basis)

    def __eq__(self, other: object) -> bool:
        # Knots say it all: the options are in the text of the formula.
        return isinstance(other, Splines) and np.array_equal(self.basis.knots_, other.basis.knots_)

    def __hash__(self) -> int:
        return hash(self.basis.knots_[0].tobytes())

    def __call__(self, x: Array) -> Array:
        return self.basis.expand(x[:, None])


def natural(x: Array, s: Array, df: int = 1) -> Splines:
    """Return natural splines with ``df`` columns, as R's ``ns(x, df)``."""
    if df < 1:
        raise InvalidInputError(f"df must be at least 1, found {df}")
    return Splines.learn(x, s, knots=df + 1)


def bsplines(x: Array, s: Array, df: int = 3, degree: int = 3) -> Splines:
    """Return B-splines with ``df`` columns, as R's ``bs(x, df, degree)``."""
    if not 1 <= degree <= df:
        raise InvalidInputError(f"df must be at least the degree, found df={df} and degree={degree}")
    return Splines.learn(x, s, knots=df - degree + 2, degree=degree, natural=False)


LEARNED: dict[str, Callable[..., Any]] = {
    **{"center": Center.learn, "scale": Scale.learn, "poly": Poly.learn},
    **{"spline": Splines.learn, "ns": natural, "bs": bsplines},
}
"""Names of the functions in a formula."""

OPTIONS = {name: tuple(signature(learn).parameters)[2:] for name, learn in LEARNED.items()}
"""Their options, which may be given by position or by name."""

PLAIN: dict[str, Callable[..., Any]] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "I": np.asarray}
"""Functions without learned parameters."""
