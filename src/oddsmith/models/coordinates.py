"""The frame in which a likelihood is solved: columns centred and scaled, classes contrasted, the data untouched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from oddsmith.design.basis.base import seen_through
from oddsmith.engines import Engine, MemorySource, engine_of
from oddsmith.numerics import EPS, Array
from oddsmith.solvers.truncated import LARGEST_HESSIAN
from oddsmith.statistics import Moments, MomentsParams


@dataclass(frozen=True)
class Coordinates:
    """The frame in which a solver works: centre and scale of columns, class contrasts.

    With K classes, full weights are ``W = contrast @ V`` (K × (K−1) contrasts); against class 0 they are
    ``T V`` with ``T = contrast[1:] − contrast[0]``. ``from_sample`` says that a sample shows every column well.
    ``raw_center`` is the centre of the columns before a linear map made others of them.
    """

    center: Array
    scale: Array
    contrast: Array
    longest: float | None
    from_sample: bool = False
    raw_center: Array | None = None

    @property
    def T(self) -> Array:
        """Contrasts against class 0."""
        return np.ascontiguousarray(self.contrast[1:] - self.contrast[0])

    def to_user(self, x: Array) -> tuple[Array, Array]:
        """Return ``(coef, intercept)`` against class 0, in the user's units."""
        V = self.T @ x.reshape(self.contrast.shape[1], -1)
        W = V[:, 1:] / self.scale
        return W, V[:, 0] - W @ self.center

    def from_user(self, W: Array, b: Array) -> Array:
        """Return solver coordinates of weights against class 0."""
        V = np.column_stack([b + W @ self.center, W * self.scale])
        x: Array = np.asarray(np.linalg.solve(self.T, V), dtype=np.float64).ravel()
        return x

    def rounding_gap(self, x: Array, weight: float, longest: float) -> float:
        """Bound what the rounding of the reported weights can add to the objective."""
        W, b = self.to_user(x)
        shift = np.abs(b) + np.abs(W) @ np.abs(self.center)
        activation = np.sqrt(1.0 + longest) * np.linalg.norm(W * self.scale, axis=1)
        return float(0.25 * weight * (4.0 * EPS) ** 2 * ((shift + activation) ** 2).sum())


LARGE = 1_500_000
FAR = 1e4
TILE_ROWS = 256


def is_small(source: Any) -> bool:
    """Whether a source is so small that a centred and scaled copy of it costs little."""
    plain = isinstance(source, MemorySource) and not source.is_sparse and source.transform is None
    return plain and not is_large(source)


def standardised(source: MemorySource, center: Array, scale: Array, slices: int = 1) -> MemorySource:
    """Return a copy of a source, centred and scaled, in so many slices, for plain array operations.

    Columns are in one piece: weights of rows reach them fast.

    >>> source = MemorySource(np.array([[1.0], [3.0]]), np.zeros(2, dtype=np.int32), K=1)
    >>> standardised(source, np.array([2.0]), np.array([0.5])).X.tolist()
    [[-2.0], [2.0]]
    """
    rows = np.empty(source.X.shape, order="F")
    for start in range(0, len(rows), TILE_ROWS):  # the nearest way from rows to columns
        part = slice(start, start + TILE_ROWS)
        rows[part] = (source.X[part] - center) / scale
    return replace(source, X=rows, slice_rows=max(1, -(-len(rows) // slices)))


def is_large(source: Any) -> bool:
    """Whether a source has so many elements that compiled kernels pay for being loaded."""
    return bool(source.size >= LARGE)


def made_dense(source: Any) -> Any:
    """Return a source of CSR rows as one of dense rows."""
    if isinstance(source, MemorySource):
        return replace(source, X=source.X.toarray())
    return seen_through(source, _dense, source.M)


def _dense(rows: Any) -> Array:
    return rows.toarray()  # type: ignore[no-any-return]


def has_sample(source: Any) -> bool:
    """Whether a sample of the rows can be had for much less than a pass over all of them."""
    return is_large(source) if isinstance(source, MemorySource) else source.drawn is not None


def find_coordinates(
    engine: Engine, source: Any, contrast: Array, *, intercept: bool, center: bool = True, mix: Array | None = None
) -> Coordinates:
    """Learn centre and scale of the columns by one cheap fold.

    Of large data a sample gives them (any near ones will do), unless it saw too little of a column.
    """
    if mix is not None:
        return _mixed_coordinates(engine, source, contrast, mix, intercept and center)
    M = source.shape.M
    if is_large(source) and source.is_sparse and M > LARGEST_HESSIAN:
        # Wide sparse rows stay as they are: the preconditioner knows the size of every column.
        return Coordinates(np.zeros(M), np.ones(M), contrast, None)
    if has_sample(source) and source.n_rows > 4 * COORDINATE_ROWS and not source.weighted:
        # Those that were drawn are there already: all of them say more about a rare level than a few.
        rows = max(COORDINATE_ROWS // 2, min(COORDINATE_ROWS, COORDINATE_NUMBERS // M))
        part = source.sample(rows if isinstance(source, MemorySource) else source.n_rows, seed=2)
        if _seen_enough(part):
            inside = engine_of(part, getattr(engine, "threads", None))
            mean, scale = _spread(*_column_moments(inside, part), intercept and center)
            return Coordinates(mean, scale, contrast, None, from_sample=True)
    mean, scale = _spread(*_column_moments(engine, source), intercept and center)
    return Coordinates(mean, scale, contrast, None, _is_shown(source))  # the first pass finds the reach


def _mixed_coordinates(engine: Engine, source: Any, contrast: Array, mix: Array, centred: bool) -> Coordinates:
    """Return coordinates for columns that are linear combinations of the source's: centred, not scaled.

    Whitened kernels have rows no longer than 1, and the centre is a mean of such.
    """
    part = source if source.weighted or not has_sample(source) else source.sample(COORDINATE_ROWS, seed=2)
    inside = engine if part is source else engine_of(part, getattr(engine, "threads", None))
    raw = _column_moments(inside, part)[0] if centred else np.zeros(len(mix))
    center = raw @ mix
    longest = float(1.0 + np.linalg.norm(center)) ** 2
    return Coordinates(center, np.ones(mix.shape[1]), contrast, longest, from_sample=True, raw_center=raw)


def _column_moments(engine: Engine, source: Any) -> tuple[Array, Array]:
    """Return mean and variance of the columns: by a fold, or of few dense rows at once."""
    if not is_small(source):
        moments = engine.fold(Moments, source, MomentsParams(1, "diagonal", large=is_large(source)))
        return moments.mean[0], moments.scatter[0] / moments.weight[0]
    X, s = source.X, np.ones(source.n_rows) if source.s is None else source.s
    if source.n_present < source.n_rows:  # a row that does not count may hold anything
        X, s = X[s > 0], s[s > 0]
    base, step = X[0].astype(np.float64), max(256, MOMENT_NUMBERS // max(1, X.shape[1]))
    tiles = [slice(k, k + step) for k in range(0, len(X), step)]
    weight = s.sum()
    mean = base + sum(s[rows] @ (X[rows] - base) for rows in tiles) / weight
    return mean, sum(s[rows] @ (X[rows] - mean) ** 2 for rows in tiles) / weight


MOMENT_NUMBERS = 1 << 15
COORDINATE_ROWS = 4000
COORDINATE_NUMBERS = 400_000
"""Rows of a sample that gives centre and scale, and their numbers; of many columns half as many rows will do."""


def _is_shown(source: Any) -> bool:
    """Whether a sample of a table that is too small for one to give its coordinates shows every column."""
    if not isinstance(source, MemorySource) or source.is_sparse or source.transform is not None or source.weighted:
        return False
    if source.n_rows < COORDINATE_ROWS or (source.n_rows > 4 * COORDINATE_ROWS and not is_small(source)):
        return False
    return _seen_enough(source.sample(COORDINATE_ROWS // 4, seed=2))


def _seen_enough(part: Any) -> bool:
    """Whether no column of the sample is nearly constant: fewer than eight rows away from its commonest value."""
    if part.is_sparse:
        return False
    rows = part.block(0, part.n_rows).Phi
    middle = np.median(rows[:33], axis=0)
    seen = np.zeros(len(middle), dtype=np.intp)
    for start in range(0, len(rows), 256):  # most columns show themselves at once
        seen += np.count_nonzero(rows[start : start + 256] != middle, axis=0)
        if (seen >= 8).all():
            return True
    return False


def _spread(mean: Array, variance: Array, centred: bool) -> tuple[Array, Array]:
    """Return centre and scale; without centring the scale is about zero."""
    if not centred:
        variance, mean = variance + mean**2, np.zeros_like(mean)
    spread = np.sqrt(variance)
    # Rounding leaves a trace of spread in a constant column of large value: that is no spread.
    spread[spread <= 4.0 * EPS * np.abs(mean)] = 0.0
    return mean, np.where(spread > 0, spread, 1.0)


def make_contrast(K: int, reference: int | None) -> Array:
    """Return the K × (K−1) matrix that turns free weights into weights of all classes.

    With a reference its row is zero; without one the columns are orthonormal and sum to zero.

    >>> make_contrast(3, 0).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> bool(np.allclose(make_contrast(3, None).sum(axis=0), 0.0))
    True
    """
    if reference is not None:
        return np.insert(np.eye(K - 1), reference, 0.0, axis=0)
    helmert: Array = linalg.helmert(K).T
    return helmert
