"""The sums of each class that a generative model keeps, and its solution: class prior and densities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels
from oddsmith.statistics import Features


@dataclass(frozen=True)
class Folded:
    """The data kept by a generative model: the classes, a statistic, and how its columns are read."""

    classes: Labels
    statistic: Any
    plan: Any = None


@dataclass(frozen=True)
class Solution:
    """Class prior and densities.

    Densities have ``log_density(rows)`` (N × K), ``activations(rows)`` (the same up to a term that is the same for all
    classes), ``sample(t, rng)`` and ``n_parameters``.
    """

    prior: Array
    densities: Any


def place(part: Array, where: Indices, K: int) -> Array:
    """Return an array with one row per class: the rows of ``part`` at ``where``, zeros elsewhere.

    >>> place(np.array([[1.0], [2.0]]), np.array([0, 2]), 3).tolist()
    [[1.0], [0.0], [2.0]]
    """
    if len(part) == K:
        return part
    whole = np.zeros((K, *part.shape[1:]))
    whole[where] = part
    return whole


def on_classes(stat: Features, where: Indices, K: int) -> Features:
    """Return the statistic with its classes at ``where`` among K."""
    return replace(stat, **{name: place(part, where, K) for name, part in vars(stat).items() if name != "outside"})
