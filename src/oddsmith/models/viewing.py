"""Two-class problems within data in pieces: the same pieces, seen with other labels, encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from oddsmith.design.labels import Labels
from oddsmith.engines import Engine, PartedSource, Parts, Piece, Progress
from oddsmith.errors import InvalidInputError
from oddsmith.models.expanding import has_basis, learn_basis
from oddsmith.models.streaming import Stream, read_stream
from oddsmith.numerics import Array

Sides = tuple[tuple[int], tuple[int, ...]]
"""The code of the class that is 1 in a two-class problem, and those of the classes that are 0."""


@dataclass(frozen=True, eq=False)
class TwoClasses:
    """A piece as numbers, with label 1 for the classes ``positive`` and 0 for ``negative``; other rows are left out.

    >>> from oddsmith.block import Block
    >>> block = Block(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 2], dtype=np.int32))
    >>> piece = TwoClasses(lambda piece: block, None, (2,), (0,))(Piece(None))
    >>> piece.rows.tolist(), piece.y.tolist()
    ([[1.0], [3.0]], [0, 1])
    """

    encode: Callable[[Piece], Any]
    transform: Callable[[Any], Any] | None
    positive: tuple[int, ...]
    negative: tuple[int, ...]

    def __call__(self, piece: Piece) -> Piece:
        """Return the piece of the two-class problem."""
        block = self.encode(piece)
        chosen = np.flatnonzero(np.isin(block.t, (*self.positive, *self.negative)))
        whole = len(chosen) == len(block.t)
        rows = block.Phi if whole else block.Phi[chosen]
        y = np.isin(block.t if whole else block.t[chosen], self.positive).astype(np.int64)
        s = None if block.s is None else block.s[chosen]
        rows = rows if self.transform is None else self.transform(rows)
        return Piece(rows, y, s, number=piece.number, name=piece.name)


@dataclass(frozen=True, eq=False)
class After:
    """One function of a piece after another."""

    first: Callable[[Piece], Piece]
    then: Callable[[Piece], Any]

    def __call__(self, piece: Piece) -> Any:
        """Return what both make of a piece."""
        return self.then(self.first(piece))


@dataclass(frozen=True)
class Viewed:
    """Pieces as a view shows them: arrays without names, to those who fold over them."""

    parts: Parts
    view: Callable[[Piece], Piece]
    made: dict[int, tuple[Any, After]] = field(default_factory=dict)
    columns: None = None

    @property
    def expected_rows(self) -> int:
        """The number of rows of all pieces."""
        return self.parts.expected_rows

    @property
    def draws(self) -> bool:
        """Whether rows may be drawn from the pieces."""
        return bool(getattr(getattr(self.parts, "innermost", self.parts), "draws", True))

    @property
    def engine(self) -> Engine:
        """The engine of the pieces, after the view."""
        return ViewEngine(self)

    def choose(self, columns: Iterable[str]) -> Viewed:
        """Return the same: there are no columns to choose from."""
        return self

    def after(self, encode: Callable[[Piece], Any]) -> After:
        """Return ``encode`` after the view: the same object for the same ``encode``, by which engines keep blocks."""
        return self.made.setdefault(id(encode), (encode, After(self.view, encode)))[1]


@dataclass(frozen=True)
class ViewEngine:
    """Folds over the pieces that a view shows."""

    viewed: Viewed

    @property
    def name(self) -> str:
        """The name of the engine inside."""
        return self.viewed.parts.engine.name

    def fold(self, statistic: Any, source: PartedSource, params: Any, *, progress: Progress | None = None) -> Any:
        """Fold over the pieces, each seen through the view."""
        inside = replace(source, parts=self.viewed.parts, encode=self.viewed.after(source.encode))
        return self.viewed.parts.engine.fold(statistic, inside, params, progress=progress)


def fit_views(reduction: Any, stream: Stream, model: Any) -> tuple[Labels, Array, list[Any]]:
    """Survey a stream, fit a copy of ``model`` to each two-class problem in it; return classes, shares and models."""
    if getattr(model, "design", False) is not None:
        raise InvalidInputError(
            f"{type(reduction).__name__} takes data in pieces for parts that do so and have design=None, such as "
            f"LogisticRegression(); found {model!r}. Read the table into memory first."
        )
    read = read_stream(reduction, None, stream, reset=True)
    source = learn_basis(reduction, read.source)
    named = not hasattr(reduction, "design_") and not has_basis(reduction)
    fitted = []
    for positive, negative in reduction._sides(len(read.classes)):
        view = TwoClasses(source.encode, source.transform, positive, negative)
        part = clone(model).fit(Viewed(source.parts, view))
        if named and hasattr(reduction, "feature_names_in_"):
            part.feature_names_in_ = reduction.feature_names_in_
        fitted.append(part)
    return read.classes, read.weight / read.weight.sum(), fitted
