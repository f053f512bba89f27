"""The records that travel between the parts: the data of a case, and the facts about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Matrix: TypeAlias = Any
"""A dense array or a scipy CSR matrix of shape (N, D)."""

Weights = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Problem:
    """Rows ``X`` (N × D), labels ``y`` in 0 … K−1, and the prior's σ (None: maximum likelihood)."""

    X: Matrix
    y: NDArray[np.int64]
    sigma: float | None

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """The arrays that hold ``X``: itself, or the three of a CSR matrix."""
        if sparse.issparse(self.X):
            return [self.X.data, self.X.indices, self.X.indptr]
        return [self.X]

    def facts(self) -> Facts:
        """Describe the data without holding it."""
        return Facts(
            rows=self.X.shape[0],
            columns=self.X.shape[1],
            classes=int(self.y.max()) + 1,
            sparse=sparse.issparse(self.X),
            dtype=str(self.X.dtype),
            sigma=self.sigma,
            bytes=sum(a.nbytes for a in self.arrays),
        )

    def sample(self, rows: int) -> Problem:
        """Take about ``rows`` rows spread over the table, every class in it at least 50 times if it can be."""
        stride = max(1, len(self.y) // rows)
        chosen = [np.arange(0, len(self.y), stride)]
        chosen += [np.flatnonzero(self.y == k)[:50] for k in range(int(self.y.max()) + 1)]
        index = np.unique(np.concatenate(chosen))
        return Problem(self.X[index], self.y[index], self.sigma)


@dataclass(frozen=True)
class Facts:
    """What an adapter may know before it says whether it supports a case."""

    rows: int
    columns: int
    classes: int
    sparse: bool
    dtype: str
    sigma: float | None
    bytes: int

    @property
    def parameters(self) -> int:
        """How many free numbers the model has."""
        return (self.columns + 1) * (1 if self.classes == 2 else self.classes)

    def in_words(self) -> str:
        """One line for a table's heading."""
        kind = "sparse CSR" if self.sparse else "dense"
        prior = "maximum likelihood" if self.sigma is None else f"σ = {self.sigma:g}"
        size = f"{self.bytes / 1e6:,.1f} MB" if self.bytes < 1e8 else f"{self.bytes / 1e6:,.0f} MB"
        return f"{self.rows:,} × {self.columns:,}, {self.classes} classes, {kind} {self.dtype}, {size}, {prior}"
