"""Seeded synthetic tables, built a chunk of rows at a time so that only the result fills memory.

Every chunk draws from a random stream of its own, derived from the seed and the chunk's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.special import expit

from .problem import Problem

CHUNK_ROWS = 100_000

Floats = NDArray[np.float64]
Transform = Callable[[Floats], Floats]


def chunks(rows: int, seed: int) -> Iterator[tuple[slice, np.random.Generator]]:
    """Yield the slices that cover ``rows``, each with its own random stream."""
    starts = range(0, rows, CHUNK_ROWS)
    streams = np.random.SeedSequence(seed).spawn(len(starts))
    for start, stream in zip(starts, streams, strict=True):
        yield slice(start, min(start + CHUNK_ROWS, rows)), np.random.default_rng(stream)


def identity(z: Floats) -> Floats:
    """Leave independent standard normal columns as they are."""
    return z


def correlated(columns: int, rho: float, decades: float) -> Transform:
    """Make neighbouring columns correlated (AR(1) with ``rho``), on scales spread over ``decades``."""
    scales = np.random.default_rng(columns).permutation(np.logspace(-decades / 2, decades / 2, columns))

    def transform(z: Floats) -> Floats:
        x = z.copy()
        for j in range(1, columns):
            x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * z[:, j]
        return np.asarray(x * scales)

    return transform


def ill_conditioned(columns: int, condition: float) -> Transform:
    """Stretch, then rotate, so that the table has about the given condition number.

    The rotation matters: no scaling of single columns can undo the stretch.
    """
    stretch = np.logspace(0.5, -0.5, columns) ** np.log10(condition)
    rotation, _ = np.linalg.qr(np.random.default_rng(columns).standard_normal((columns, columns)))

    def transform(z: Floats) -> Floats:
        return np.asarray((z * stretch) @ rotation)

    return transform


def binary(
    rows: int,
    columns: int,
    *,
    seed: int,
    sigma: float | None = 1.0,
    dtype: DTypeLike = np.float64,
    rate: float | None = None,
    transform: Transform = identity,
    by_label: bool = False,
) -> Problem:
    """Dense two-class data whose true log odds are linear with a standard deviation near 1.5.

    Labels depend on the columns before ``transform``, so that every transform leaves the task as hard.
    ``rate`` is the share of positive rows where it is small (the mean of exp(a) for normal a), else about 0.6.
    ``by_label`` puts all rows of class 0 before those of class 1.
    """
    w = 1.5 * np.random.default_rng(seed).standard_normal(columns) / np.sqrt(columns)
    intercept = 0.5 if rate is None else np.log(rate) - w @ w / 2
    X = np.empty((rows, columns), dtype=dtype)
    y = np.empty(rows, dtype=np.int64)
    for part, stream in chunks(rows, seed):
        z = stream.standard_normal((part.stop - part.start, columns))
        y[part] = stream.random(len(z)) < expit(z @ w + intercept)
        X[part] = transform(z)
    if by_label:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    return Problem(X, y, sigma)


def softmax(
    rows: int, columns: int, classes: int, *, seed: int, sigma: float = 1.0, transform: Transform = identity
) -> Problem:
    """Dense data of several classes, labels drawn from a softmax model by Gumbel's trick before ``transform``."""
    W = 1.5 * np.random.default_rng(seed).standard_normal((columns, classes)) / np.sqrt(columns)
    X = np.empty((rows, columns))
    y = np.empty(rows, dtype=np.int64)
    for part, stream in chunks(rows, seed):
        z = stream.standard_normal((part.stop - part.start, columns))
        y[part] = np.argmax(z @ W + stream.gumbel(size=(len(z), classes)), axis=1)
        X[part] = transform(z)
    return Problem(X, y, sigma)


def first_distinct(drawn: NDArray[np.int64], keep: int) -> NDArray[np.bool_]:
    """Mark in each row the first ``keep`` distinct values, in the order in which they were drawn."""
    order = np.argsort(drawn, axis=1, kind="stable")
    ranked = np.take_along_axis(drawn, order, axis=1)
    fresh = np.ones_like(ranked, dtype=bool)
    fresh[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    marked = np.empty_like(fresh)
    np.put_along_axis(marked, order, fresh, axis=1)
    return marked & (np.cumsum(marked, axis=1) <= keep)


def zipf(rows: int, columns: int, nonzeros: int, *, seed: int, sigma: float = 1.0) -> Problem:
    """Sparse two-class data whose column frequencies fall off like Zipf's law, as words do.

    A row holds ``nonzeros`` distinct columns (a few less where the draw ran out) with log-normal values.
    """
    fixed = np.random.default_rng(seed)
    frequency = 1.0 / (np.arange(columns) + 10.0) ** 1.1
    cumulative = np.cumsum(frequency / frequency.sum())
    w = 0.3 * fixed.standard_normal(columns)
    parts: list[sparse.csr_matrix] = []
    y = np.empty(rows, dtype=np.int64)
    for part, stream in chunks(rows, seed):
        n = part.stop - part.start
        drawn = np.searchsorted(cumulative, stream.random((n, 3 * nonzeros))).clip(max=columns - 1)
        marked = first_distinct(drawn, nonzeros)
        indptr = np.concatenate([[0], np.cumsum(marked.sum(axis=1))])
        values = stream.lognormal(0.0, 0.25, size=indptr[-1])
        block = sparse.csr_matrix((values, drawn[marked].astype(np.int32), indptr), shape=(n, columns))
        block.sort_indices()
        a = block @ w
        y[part] = stream.random(n) < expit(a - w[:20].sum() * 0.5)
        parts.append(block)
    return Problem(sparse.vstack(parts, format="csr"), y, sigma)
