"""Links between an activation and the probability of the second of two classes.

Each link is one registered class: the inverse link ``y = f(a)``, its first and second derivative, and the
logarithms of ``y`` and ``1 − y``, stable in both tails.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from oddsmith.numerics import Array, log1pexp, sigmoid
from oddsmith.registry import Registry


class Link(Protocol):
    """What a link gives; all functions are elementwise."""

    name: str

    def link(self, y: Array) -> Array:
        """Return the activation at which the probability is ``y``."""
        ...

    def inverse(self, a: Array) -> Array:
        """Return the probability ``y = f(a)``."""
        ...

    def derivative(self, a: Array) -> Array:
        """Return ``f′(a)``."""
        ...

    def second_derivative(self, a: Array) -> Array:
        """Return ``f″(a)``."""
        ...

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        """Return ``log f(a)`` and ``log(1 − f(a))``."""
        ...


LINKS: Registry[Link] = Registry("link")


class Logit:
    """The logistic sigmoid, ``σ(a) = 1 / (1 + exp(−a))``, with ``σ(−a) = 1 − σ(a)`` and ``σ′ = σ(1 − σ)``.

    >>> LINKS["logit"].inverse(np.array([0.0])).tolist()
    [0.5]
    """

    name = "logit"

    def link(self, y: Array) -> Array:
        """Return ``log(y / (1 − y))``."""
        result: Array = np.log(y) - np.log1p(-y)
        return result

    def inverse(self, a: Array) -> Array:
        """Return ``σ(a)``."""
        result: Array = sigmoid(a)
        return result

    def derivative(self, a: Array) -> Array:
        """Return ``σ(a) σ(−a)``."""
        result: Array = sigmoid(a) * sigmoid(-a)
        return result

    def second_derivative(self, a: Array) -> Array:
        """Return ``σ(a) σ(−a) (σ(−a) − σ(a))``."""
        result: Array = sigmoid(a) * sigmoid(-a) * (sigmoid(-a) - sigmoid(a))
        return result

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        """Return ``−log(1 + exp(−a))`` and ``−log(1 + exp(a))``."""
        return -log1pexp(-a), -log1pexp(a)


LINKS.register("logit")(Logit())
