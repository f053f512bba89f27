"""Standard normal numbers that every draw from a Gaussian is made of."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.numerics import Array

Seed: TypeAlias = int | np.random.Generator | None


def standard_normals(n: int, D: int, seed: Seed) -> Array:
    """Return n vectors of D standard normal numbers, n × D; an invalid number or seed raises.

    >>> standard_normals(3, 2, seed=0).shape
    (3, 2)
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise InvalidInputError(f"The number of draws must be a whole number of at least 0, found {n!r}.")
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"seed must be None, a whole number or a Generator, found {seed!r}.") from None
    return rng.standard_normal((int(n), D))
