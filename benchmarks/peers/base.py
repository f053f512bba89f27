"""What an adapter is: a name, what it supports, a fit, and a note on anything a reader should know."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

from ..problem import Facts, Matrix

DECADES: tuple[float | None, ...] = tuple(10.0**-k for k in range(2, 11))
"""Tolerances from 1e-2 to 1e-10: the fastest that is accurate enough is the one that is reported."""

SUM_DECADES: tuple[float | None, ...] = tuple(10.0**-k for k in range(-3, 9))
"""From 1e3 to 1e-8, for those whose tolerance bounds the gradient of the sum over rows, not of the mean."""

PEER_TARGET = 1e-6
OWN_TARGET = 1e-8


class Peer:
    """One library with one solver. An adapter imports its library inside `fit`, never before."""

    name: str
    module: str
    distribution: str
    note: str = ""
    ladder: tuple[float | None, ...] = DECADES
    target: float = PEER_TARGET

    def missing(self) -> str | None:
        """Why the library cannot be imported here, or None."""
        return None if importlib.util.find_spec(self.module) else f"{self.distribution} is not installed"

    def version(self) -> str:
        """The installed version."""
        return importlib.metadata.version(self.distribution)

    def supports(self, facts: Facts) -> bool | str:
        """True, or the reason why this peer does not fit the case's model."""
        return True

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit and return ``coef`` and ``intercept`` of the summed objective with prior σ."""
        raise NotImplementedError


def only_binary(facts: Facts) -> bool | str:
    """True for two classes, else the reason."""
    return True if facts.classes == 2 else "two classes only"


def binary_with_prior(facts: Facts) -> bool | str:
    """True for two classes with a prior, else the reason."""
    return "no maximum likelihood" if facts.sigma is None else only_binary(facts)
