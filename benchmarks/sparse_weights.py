"""Paths of the lasso: ``python -m benchmarks.sparse_weights [CASE …]``.

    wide      2,000 × 10,000, neighbouring columns correlated
    tall      300,000 × 100, neighbouring columns correlated
    sparse    20,000 × 50,000, 80 non-zeros a row, heavy-tailed columns
    softmax   4,500 × 130,000, sparse, 20 classes: the shape of 20 newsgroups
    cv        50,000 × 200, five folds of the whole path
    files     62,500,000 × 40 in Parquet files (20 GB): passes of the path against those of one fit with a Gaussian prior

The objective is one, ``Σ_n loss_n + Σ_j |w_j| / scale`` with a free intercept, at 50 scales from the smallest useful one,
below which all weights are zero, to a hundred times it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from .generators import chunks, zipf

Floats = NDArray[np.float64]
POINTS = 50
FOLDS = 5


@dataclass(frozen=True)
class Data:
    """A table (dense in Fortran order, or CSC), labels 0 … K − 1, and the scales of the path, ascending."""

    X: Any
    y: NDArray[np.int64]
    scales: Floats

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def smallest_scale(X: Any, y: NDArray[np.int64]) -> float:
    """The scale below which all weights are zero: ``1 / max |Xᵀ (Y − mean of Y)|``."""
    Y = (y[:, None] == np.arange(int(y.max()) + 1)).astype(np.float64)
    return 1.0 / float(np.abs(X.T @ (Y - Y.mean(axis=0))).max())


def path_scales(X: Any, y: NDArray[np.int64], points: int = POINTS) -> Floats:
    """Scales from the smallest useful one to a hundred times it, in equal ratios."""
    return smallest_scale(X, y) * np.geomspace(1.0, 100.0, points)


def correlated_neighbours(rows: int, columns: int, *, rho: float, active: int, seed: int) -> Data:
    """Standardised columns, each correlated with the one before; ``active`` of them matter, spread evenly.

    Columns are standardised exactly, because some libraries always penalise them so.
    """
    X = np.empty((rows, columns), order="F")
    a, y = np.empty(rows), np.empty(rows, dtype=np.int64)
    w = np.zeros(columns)
    where = np.linspace(0, columns - 1, active).astype(int)
    w[where] = np.random.default_rng(seed).choice([-1.0, 1.0], active) * np.geomspace(1.0, 0.1, active)
    for part, stream in chunks(rows, seed):
        z = stream.standard_normal((part.stop - part.start, columns))
        for j in range(1, columns):
            z[:, j] = rho * z[:, j - 1] + np.sqrt(1.0 - rho**2) * z[:, j]
        a[part] = z @ w
        y[part] = stream.random(len(z)) < expit(a[part] + 0.3)
        X[part] = z
    X -= X.mean(axis=0)
    X /= np.sqrt(np.mean(X**2, axis=0))
    return Data(X, y, path_scales(X, y))


def heavy_tailed(rows: int, columns: int, nonzeros: int, *, seed: int) -> Data:
    """Sparse rows whose column frequencies fall off like Zipf's law."""
    problem = zipf(rows, columns, nonzeros, seed=seed)
    X = problem.X.tocsc()
    X.sort_indices()
    return Data(X, problem.y, path_scales(X, problem.y))


def newsgroups(rows: int, columns: int, classes: int, *, seed: int) -> Data:
    """Documents as counts of words, each row of length 1: Zipf's law over all words, and some words of a class's own.

    A document has about 160 distinct words, of which one in eight comes from the 400 words of its class.
    """
    rng = np.random.default_rng(seed)
    share = np.cumsum(1.0 / (np.arange(columns) + 20.0) ** 1.05)
    topics = [rng.choice(np.arange(50, columns // 4), 400, replace=False) for _ in range(classes)]
    within = np.cumsum(1.0 / (np.arange(400) + 5.0))
    y = np.sort(rng.integers(classes, size=rows))
    rng.shuffle(y)
    lengths = np.clip(rng.lognormal(5.2, 0.6, size=rows), 20, 3_000).astype(int)
    row = np.repeat(np.arange(rows), lengths)
    word = np.searchsorted(share, rng.random(len(row)) * share[-1])
    own = rng.random(len(row)) < 0.125
    pick = np.searchsorted(within, rng.random(int(own.sum())) * within[-1])
    word[own] = np.stack(topics)[y[row[own]], pick]
    X = sparse.csr_matrix((np.ones(len(row)), (row, word)), shape=(rows, columns))
    X.sum_duplicates()
    lengths_of_rows = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sparse.csc_matrix(sparse.diags(1.0 / lengths_of_rows) @ X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    X.sort_indices()
    return Data(X, y.astype(np.int64), path_scales(X, y))


def make(case: str, share: float = 1.0) -> Data:
    """Build the table of a case, or of a share of its rows."""
    if case == "wide":
        return correlated_neighbours(int(2_000 * share), 10_000, rho=0.5, active=30, seed=1)
    if case == "tall":
        return correlated_neighbours(int(300_000 * share), 100, rho=0.5, active=20, seed=2)
    if case == "sparse":
        return heavy_tailed(int(20_000 * share), 50_000, 80, seed=3)
    if case == "softmax":
        return newsgroups(int(4_500 * share), 130_000, 20, seed=4)
    return correlated_neighbours(int(50_000 * share), 200, rho=0.5, active=20, seed=5)


def folds(rows: int) -> NDArray[np.int64]:
    """The fold of each row, the same for all libraries."""
    return np.asarray(np.random.default_rng(0).permutation(rows) % FOLDS)


def write_files(folder: Path, gigabytes: float = 20.0, columns: int = 40, files: int = 40) -> int:
    """Write Parquet files with columns x0 … and y, of so many bytes as numbers; return the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rows = int(gigabytes * 1e9 / 8 / columns / files)
    w = np.zeros(columns)
    w[::4] = np.random.default_rng(6).normal(size=len(w[::4])) / 2
    for number, stream in enumerate(np.random.SeedSequence(6).spawn(files)):
        rng = np.random.default_rng(stream)
        X = rng.standard_normal((columns, rows))
        for j in range(1, columns):
            X[j] = 0.5 * X[j - 1] + np.sqrt(0.75) * X[j]
        y = (rng.random(rows) < expit(w @ X + 0.3)).astype(np.int64)
        table = pa.table({**{f"x{j}": X[j] for j in range(columns)}, "y": y})
        # Random doubles do not compress: plain pages are read as fast as the disk gives them.
        pq.write_table(table, folder / f"part-{number:03}.parquet", compression="none", use_dictionary=["y"])
    return rows * files
