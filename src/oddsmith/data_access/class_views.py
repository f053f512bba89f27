"""Two-class views of data in pieces: the same pieces with different labels, encoded once for all views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from oddsmith.block import Block
from oddsmith.data_access.training_stream import Stream, may_sample, read_stream
from oddsmith.design.basis.base import Composed
from oddsmith.design.fitted_basis import has_basis, learn_basis
from oddsmith.design.inputs import feature_names, learned_design
from oddsmith.engines import Engine, PartedSource, Piece, Progress
from oddsmith.engines.base import S
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels

Sides = tuple[tuple[int], tuple[int, ...]]
"""The code of the class that is 1 in a two-class problem, and those of the classes that are 0."""


@dataclass(frozen=True, eq=False)
class BinaryView:
    """A piece as numbers, with label 1 for the classes ``positive`` and 0 for ``negative``; other rows are left out.

    >>> block = Block(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 2], dtype=np.int32))
    >>> piece = BinaryView(lambda piece: block, None, (2,), (0,))(Piece(None))
    >>> piece.rows.tolist(), piece.y.tolist()
    ([[1.0], [3.0]], [0, 1])
    """

    encode: Callable[[Piece], Block]
    transform: Callable[[Any], Any] | None
    positive: tuple[int, ...]
    negative: tuple[int, ...]

    def __call__(self, piece: Piece) -> Piece:
        block = self.encode(piece)
        chosen = np.flatnonzero(np.isin(block.t, (*self.positive, *self.negative)))
        whole = len(chosen) == len(block.t)
        rows = block.X if whole else block.X[chosen]
        y = np.isin(block.t[chosen], self.positive).astype(np.int64)
        s = None if block.s is None else block.s[chosen]
        rows = rows if self.transform is None else self.transform(rows)
        return Piece(rows, y, s=s, number=piece.number, name=piece.name)


@dataclass(frozen=True)
class _ViewParts:
    """Pieces as a view shows them, arrays without column names, and the engine that folds over them."""

    parts: Wrapped
    view: Callable[[Piece], Piece]
    encoders: dict[int, Composed] = field(default_factory=dict)
    columns: None = None

    @property
    def expected_rows(self) -> int:
        return self.parts.expected_rows

    @property
    def draws(self) -> bool:
        return may_sample(self.parts)

    @property
    def engine(self) -> Engine:
        return self

    @property
    def name(self) -> str:
        return self.parts.engine.name

    def choose(self, columns: Iterable[str]) -> _ViewParts:
        return self

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        # The same encoder for the same encode: engines keep blocks by it.
        encode = self.encoders.setdefault(id(source.encode), Composed(self.view, source.encode))
        inside = replace(source, parts=self.parts, encode=encode)
        return self.parts.engine.fold(statistic, inside, params, progress=progress)


def fit_views(
    reduction: BaseEstimator, stream: Stream, model: BaseEstimator
) -> tuple[Labels, Array, list[BaseEstimator]]:
    """Fit a copy of ``model`` to each two-class problem in a stream; return classes, their shares and the models."""
    if vars(model).get("design", False) is not None:
        raise InvalidInputError(
            f"{type(reduction).__name__} takes data in pieces only with a model that does so and has design=None, "
            f"such as LogisticRegression(); found {model!r}. Read the table into memory first."
        )
    data = read_stream(reduction, None, stream, reset=True)
    weight, source = data.class_weight, learn_basis(reduction, data.source)
    assert weight is not None and isinstance(source, PartedSource)  # from the first pass
    names = None if learned_design(reduction) is not None or has_basis(reduction) else feature_names(reduction)
    fitted = []
    for positive, negative in reduction._sides(len(data.classes)):
        view = BinaryView(source.encode, source.transform, positive, negative)
        part = clone(model).fit(_ViewParts(source.parts, view))
        if names is not None:
            part.feature_names_in_ = names
        fitted.append(part)
    return data.classes, weight / weight.sum(), fitted
