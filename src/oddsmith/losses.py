"""Per-row loss, gradient and curvature in the activation: the definition of a likelihood.

For a row with activations ``a`` (C of them, the classes 1 … C against class 0) and class code ``t`` a loss
gives ``ℓ = −log p(t | a)``, ``∂ℓ/∂a`` and ``∂²ℓ/∂a∂aᵀ``. Written against the array API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.links import Link
from oddsmith.numerics import Array, log_normaliser, namespace

Codes = npt.NDArray[np.integer[Any]]  # Class codes of rows.


@dataclass(frozen=True)
class RowLosses(ABC):
    """The losses of some rows: ``value`` (length n), and ``gradient``, their derivatives in the activations (n × C)."""

    value: Array
    gradient: Array

    @abstractmethod
    def curvature(self, j: int, k: int) -> Array:
        """Return ``∂²ℓ/∂a_j∂a_k`` for each row (length n)."""


@dataclass(frozen=True)
class BinaryRows(RowLosses):
    """Losses of two classes, with their second derivatives."""

    second: Array

    def curvature(self, j: int, k: int) -> Array:
        return self.second


@dataclass(frozen=True)
class SoftmaxRows(RowLosses):
    """Losses of several classes, with the probability of each (n × K)."""

    P: Array

    @cached_property
    def others(self) -> Array:
        """1 − P, without cancellation."""
        # 1 − p is summed from the other classes: subtracting from one would lose the small ones.
        return self.P @ _all_but_one(namespace(self.P), self.P.shape[1], self.P.dtype)

    def curvature(self, j: int, k: int) -> Array:
        p = self.P[:, j + 1]
        return p * self.others[:, j + 1] if j == k else -p * self.P[:, k + 1]


@lru_cache(maxsize=2)
def _all_but_one(xp: ModuleType, K: int, dtype: object) -> Array:
    result: Array = xp.ones((K, K), dtype=dtype) - xp.eye(K, dtype=dtype)
    return result


def row_losses(A: Array, t: Codes, link: Link | None = None, *, expected: bool = False) -> RowLosses:
    """Return the losses of rows with activations ``A`` (n × C) and class codes ``t``.

    The link None is the logit for two classes and softmax for more. ``expected`` as in `link_rows`.

    >>> row_losses(np.zeros((1, 1)), np.array([1])).value.round(4).tolist()
    [0.6931]
    >>> row_losses(np.zeros((1, 2)), np.array([1])).value.round(4).tolist()
    [1.0986]
    """
    if link is not None:
        return link_rows(A, t, link, expected=expected)
    return logistic_rows(A, t) if A.shape[1] == 1 else softmax_rows(A, t)


def logistic_rows(A: Array, t: Codes) -> RowLosses:
    """Two classes: ``ℓ = log(1 + eᵃ) − t a``, ``ℓ′ = σ(a) − t``, ``ℓ″ = σ(a) σ(−a)``.

    >>> rows = logistic_rows(np.array([[0.0], [2.0]]), np.array([1, 0]))
    >>> rows.value.round(4).tolist(), rows.gradient.round(4).tolist()
    ([0.6931, 2.1269], [[-0.5], [0.8808]])
    """
    xp = namespace(A)
    a = A[:, 0]
    sign = xp.where(t == 1, 1.0, -1.0)
    # In the margin m = ±a all comes from one exponential, and nothing cancels for rows that are fitted well:
    # ℓ = log(1 + e⁻ᵐ), ℓ′ = ∓σ(−m), ℓ″ = σ(m) σ(−m).
    m = sign * a
    e = xp.exp(-xp.abs(m))
    d = 1.0 / (1.0 + e)
    miss = xp.where(m >= 0, e * d, d)
    value = xp.log1p(e) - xp.minimum(m, 0.0)
    return BinaryRows(value, (-sign * miss)[:, None], e * d * d)


def link_rows(A: Array, t: Codes, link: Link, *, expected: bool = False) -> RowLosses:
    """Two classes through any link ``f``: ``ℓ = −log f(a)`` or ``−log(1 − f(a))``, with its two derivatives.

    ``expected`` replaces the observed curvature by its expectation under the model, ``f′² / (f (1 − f))``, which is
    never negative. A row whose activation is outside the link's domain has infinite loss.

    >>> from oddsmith.links import LINKS
    >>> rows = link_rows(np.array([[0.0], [2.0]]), np.array([1, 0]), LINKS["logit"])
    >>> rows.value.round(4).tolist(), rows.gradient.round(4).tolist()
    ([0.6931, 2.1269], [[-0.5], [0.8808]])
    """
    a, hit = A[:, 0], t == 1
    if expected:
        # E[score²] = f (f′/f)² + (1 − f) (f′/(1 − f))² = (f′/f) (f′/(1 − f)); a barrier before a link is no part of it.
        p, q = getattr(link, "inner", link).score(a)
        second = -p * q
    else:
        second = -np.where(hit, *link.score_derivative(a))
    return BinaryRows(-np.where(hit, *link.log_probability(a)), -np.where(hit, *link.score(a))[:, None], second)


def softmax_rows(A: Array, t: Codes) -> RowLosses:
    """K classes: ``ℓ = log Σ_j exp a_j − a_t``, ``∂ℓ/∂a_k = y_k − 1[t = k]``, ``∂²ℓ = y_k (1[j = k] − y_j)``.

    >>> rows = softmax_rows(np.zeros((1, 2)), np.array([2]))
    >>> rows.value.round(4).tolist(), rows.gradient.round(4).tolist()
    ([1.0986], [[0.3333, -0.6667]])
    """
    xp = namespace(A)
    log_total, P = log_normaliser(A)
    hit = t[:, None] == xp.arange(P.shape[1])
    # −log p of a row that is fitted well comes from the other classes: no cancellation.
    others = xp.sum(xp.where(hit, 0.0, P), axis=1, keepdims=True)
    near = others[:, 0]
    value = log_total - xp.sum(xp.where(hit[:, 1:], A, 0.0), axis=1)
    value = xp.where(near < 0.5, -xp.log1p(-xp.minimum(near, 0.5)), value)
    return SoftmaxRows(value, xp.where(hit, -others, P)[:, 1:], P)


def curvatures(rows: RowLosses) -> Array:
    """Return the curvature of each row's loss between its activations, n × C × C."""
    C = rows.gradient.shape[1]
    return np.stack([np.stack([rows.curvature(j, k) for k in range(C)], axis=-1) for j in range(C)], axis=1)
