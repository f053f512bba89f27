"""The weights of a fit as they are reported: class after class, term after term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.models.learned import Learned
from oddsmith.numerics import Array

INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Weights:
    """The reported weights as a list: classes (for K > 2), terms, estimates, the way there from the solver's weights.

    ``J`` is reported × (weights estimated); ``shown`` marks those that a table shows: no reference class, and an
    intercept only if there is one. Aliased ones have a row of zeros in ``J``. ``zero`` are the (class, term) of the
    reference class.
    """

    classes: list[Any] | None
    terms: list[str]
    estimate: Array
    J: Array
    aliased: npt.NDArray[np.bool_]
    zero: list[Any]

    @classmethod
    def of(cls, learned: Learned, names: npt.NDArray[Any], labels: list[Any]) -> Weights:
        """Return them for a fit whose columns and classes have these names."""
        W = learned.weights()
        R, P = W.shape
        has_intercept = bool(learned.free[:, 0].any())
        shown = np.ones((R, P), dtype=bool)
        shown[:, 0] = has_intercept
        if R > 1 and learned.reference is not None:
            shown[learned.reference] = False
        inside = shown.ravel()
        terms = [INTERCEPT, *(str(name) for name in names)]
        aliased = np.tile(~learned.free.any(axis=0), R)[inside]
        classes = None if R == 1 else [label for label in labels for _ in terms]
        return cls(
            None if classes is None else [c for c, i in zip(classes, inside, strict=True) if i],
            [term for term, i in zip(terms * R, inside, strict=True) if i],
            W.ravel()[inside],
            learned.jacobian()[inside],
            aliased,
            [] if R == 1 or learned.reference is None else [(labels[learned.reference], term) for term in terms],
        )

    @property
    def labels(self) -> list[Any]:
        """Terms, or pairs (class, term)."""
        return self.terms if self.classes is None else list(zip(self.classes, self.terms, strict=True))

    def errors(self, V: Array) -> Array:
        """Return the standard errors if the solver's weights have covariance ``V``; NaN for aliased ones."""
        variance = ((self.J @ V) * self.J).sum(axis=1)
        return np.where(self.aliased, np.nan, np.sqrt(np.maximum(variance, 0.0)))
