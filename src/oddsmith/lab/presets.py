"""Points to begin with: the examples of the lectures, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oddsmith.numerics import Array
from oddsmith.protocols import Indices

Draw = Callable[[np.random.Generator, int, float], tuple[Array, Indices]]


@dataclass(frozen=True)
class Preset:
    """A way to draw points: ``draw(rng, n, noise)`` returns rows and codes of classes; ``title`` is for people."""

    title: str
    draw: Draw


def blobs(centres: Array, spread: float | Array = 0.9) -> Draw:
    """Return a way to draw Gaussian classes around centres; ``spread`` is a deviation, or one matrix for all.

    >>> X, t = blobs(np.array([[0.0, 0.0], [5.0, 5.0]]))(np.random.default_rng(0), 6, 0.0)
    >>> X[3].tolist(), t.tolist()
    ([5.0, 5.0], [0, 0, 0, 1, 1, 1])
    """
    K, D = centres.shape

    def draw(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
        t = np.sort(np.arange(n) % K)
        steps = rng.normal(size=(n, D))
        return centres[t] + noise * (steps @ np.atleast_2d(spread) if np.ndim(spread) else steps * spread), t

    return draw


def _separate(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    t = np.sort(np.arange(n) % 2)
    spread = np.array([[1.6, 0.5], [0.5, 0.8]])[t]
    return np.array([[-0.3, 0.0], [1.0, 0.6]])[t] + noise * spread * rng.normal(size=(n, 2)), t


def _ring(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    t = np.sort(np.arange(n) % 2)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(t == 1, 2.7, 0.5) + noise * 0.45 * rng.normal(size=n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), t


def _humps(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    t = np.sort(np.arange(n) % 2)
    side = np.where(np.arange(n) % 4 < 2, -2.1, 2.1)
    centre = np.where(t[:, None] == 1, 0.0, np.column_stack([side, 0.4 * side]))
    return centre + noise * 0.65 * rng.normal(size=(n, 2)), t


def _outliers(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    far = n // 8
    X, t = blobs(np.array([[-1.2, 1.2], [1.2, -1.2]]), 0.8)(rng, n - far, noise)
    added = np.array([5.5, -7.0]) + noise * 0.5 * rng.normal(size=(far, 2))
    return np.vstack([X, added]), np.append(t, np.ones(far, dtype=t.dtype))


def _crossed(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    corner = np.array([[-1.5, -1.5], [1.5, 1.5], [-1.5, 1.5], [1.5, -1.5]])
    which = np.sort(np.arange(n) % 4)
    return corner[which] + noise * 0.7 * rng.normal(size=(n, 2)), which // 2


def _overlapping(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    t = np.sort(np.arange(n) % 2)
    return np.where(t[:, None] == 1, 0.5, -0.5) + noise * 1.4 * rng.normal(size=(n, 2)), t


def _scaled(rng: np.random.Generator, n: int, noise: float) -> tuple[Array, Indices]:
    X, t = blobs(np.array([[-1.0, -0.5], [1.0, 0.6]]), 0.9)(rng, n, noise)
    return X * [1.0, 12.0] + [0.0, 30.0], t


SHARED = np.array([[0.95, 0.35], [0.35, 0.7]])
PRESETS = {
    "gaussians": Preset("Two Gaussians, one covariance", blobs(np.array([[-1.1, -0.6], [1.1, 0.7]]), SHARED)),
    "separate": Preset("Two Gaussians, two covariances", _separate),
    "three": Preset("Three classes", blobs(np.array([[-1.8, -1.0], [1.8, -1.0], [0.0, 1.7]]))),
    "four": Preset("Four classes", blobs(np.array([[-2.0, 1.5], [2.0, 2.0], [1.5, -2.0], [-1.5, -1.8]]))),
    "row": Preset("Three classes in a row", blobs(np.array([[-2.6, -1.2], [0.0, 0.0], [2.6, 1.2]]), 0.6)),
    "ring": Preset("Inner and outer ring", _ring),
    "humps": Preset("Two humps", _humps),
    "crossed": Preset("Crossed corners", _crossed),
    "outliers": Preset("Outliers that turn least squares", _outliers),
    "separable": Preset("Separable", blobs(np.array([[-1.7, -1.1], [1.7, 1.1]]), 0.5)),
    "scaled": Preset("Columns in other units", _scaled),
    "overlapping": Preset("Mixed and overlapping", _overlapping),
    "line": Preset("One dimension", blobs(np.array([[-1.2], [1.2]]), 1.1)),
    "line-separable": Preset("One dimension, separable", blobs(np.array([[-2.0], [2.0]]), 0.6)),
    "empty": Preset("No points", lambda rng, n, noise: (np.empty((0, 2)), np.empty(0, dtype=np.int64))),
}
"""By name. The classes are codes from 0."""


def draw_points(name: str, n: int, noise: float, seed: int) -> tuple[Array, Indices]:
    """Return the rows and classes of a preset, rounded to four decimals so that they can be written down.

    >>> X, t = draw_points("three", 30, 1.0, 0)
    >>> X.shape, np.bincount(t).tolist()
    ((30, 2), [10, 10, 10])
    """
    X, t = PRESETS[name].draw(np.random.default_rng(seed), n, noise)
    return np.round(X, 4), t
