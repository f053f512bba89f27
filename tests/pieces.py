"""Rows in pieces that lie in memory: the smallest engine there is; and a table whose models engines must agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from oddsmith.block import Block
from oddsmith.engines.base import merged
from oddsmith.engines.partitioned import PartedSource, Piece


@dataclass
class ListEngine:
    """Folds a list of pieces; ``before`` is called with the number of each fold before it begins."""

    before: Callable[[int], None] | None = None
    name: str = "list"
    folds: list[str] = field(default_factory=list)

    def fold(self, statistic: Any, source: PartedSource, params: Any, *, progress: Any = None) -> Any:
        if self.before is not None:
            self.before(len(self.folds))
        self.folds.append(statistic.__name__)
        job = source.job(statistic, params)
        return merged(map(job, source.parts.pieces), lambda: statistic.zero(source.shape, params))


@dataclass(frozen=True)
class ListParts:
    """Pieces in memory."""

    pieces: tuple[Piece, ...]
    engine: ListEngine = field(default_factory=ListEngine)
    columns: tuple[str, ...] | None = None
    fingerprint: str | None = None

    @property
    def expected_rows(self) -> int:
        return sum(len(piece.rows) for piece in self.pieces)

    def choose(self, columns: Iterable[str]) -> ListParts:
        names = tuple(columns)
        pieces = tuple(replace(piece, rows=piece.rows.select(list(names))) for piece in self.pieces)
        return replace(self, pieces=pieces, columns=names)


def as_block(piece: Piece) -> Block:
    """The encoding of pieces that are arrays with class codes."""
    return Block(np.asarray(piece.rows), np.asarray(piece.y), piece.s, piece.offset)


def source_of(parts: Any, M: int, K: int) -> PartedSource:
    return PartedSource(parts, as_block, parts.expected_rows, M=M, K=K, n_present=parts.expected_rows)


def cut(X: Any, t: Any, edges: Iterable[int]) -> tuple[Piece, ...]:
    """The rows of arrays in pieces that begin at ``edges``."""
    ends = [0, *edges, len(t)]
    return tuple(Piece(X[i:j], t[i:j], number=n) for n, (i, j) in enumerate(pairwise(ends)))


def table(n: int, K: int) -> pd.DataFrame:
    """Columns of different units and a category, and classes that overlap."""
    rng = np.random.default_rng(K)
    t = rng.integers(0, K, n)
    X = (rng.normal(size=(n, 3)) + 0.8 * np.eye(3)[t]) * [1.0, 100.0, 0.01] + [0.0, 1e3, 0.0]
    return pd.DataFrame(X, columns=["mass", "height", "width"]).assign(
        site=np.array(["hill", "lake", "moor"])[rng.integers(0, 3, n)],
        weight=rng.integers(1, 3, n).astype(float),
        kind=np.array(["ash", "birch", "cedar"])[t],
    )


def assert_same_model(found: Any, expected: Any, X: Any) -> None:
    assert found.classes_.tolist() == expected.classes_.tolist()
    names = ("coef_", "intercept_", "log_likelihood_", "means_", "covariance_", "priors_")
    for name in (name for name in names if hasattr(expected, name)):
        value = np.asarray(getattr(expected, name))
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-10, atol=1e-10 * np.abs(value).max())
    value = expected.decision_function(X)
    np.testing.assert_allclose(found.decision_function(X), value, rtol=1e-10, atol=1e-10 * np.abs(value).max())
