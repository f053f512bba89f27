"""Models that merge exactly, fitted piece by piece: one pass, and nothing needs to be known of the data before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
from sklearn.base import clone

from oddsmith.design.inputs import as_table
from oddsmith.design.survey import Roles, at, opened, some_weights
from oddsmith.engines import PartedSource, Piece
from oddsmith.errors import InvalidInputError
from oddsmith.models.streaming import Stream, find_roles
from oddsmith.statistic import Shape


@dataclass(frozen=True)
class ShardParams:
    """The model to fit to each piece, and the roles of the columns."""

    model: Any
    roles: Roles


@dataclass(frozen=True)
class Shard:
    """A model of some rows, None for no rows; a statistic of raw tables, since such models merge.

    >>> import numpy as np
    >>> from oddsmith import NaiveBayes
    >>> pieces = [Piece(np.array([[0.0], [1.0]]), ["a", "a"]), Piece(np.array([[4.0], [5.0]]), ["b", "b"])]
    >>> one, two = (Shard.of(piece, ShardParams(NaiveBayes(), Roles())) for piece in pieces)
    >>> one.merge(two).model.predict([[4.0]]).tolist()
    ['b']
    """

    model: Any = None

    @classmethod
    def zero(cls, shape: Shape, params: ShardParams) -> Shard:
        """Return the shard of no rows."""
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: ShardParams) -> Shard:
        """Return the model of a piece."""
        roles = params.roles
        with at(piece):
            piece = opened(piece)
            rows, labels = roles.rows(piece), roles.column(piece, "y")
            n = len(rows) if as_table(rows) is not None else int(rows.shape[0])
            if not n:
                return cls()
            if labels is None:
                raise InvalidInputError("This classifier requires y to be passed, but the target y is None.")
            s = some_weights(roles.numbers(piece, "weight"), n)
            if s is not None and not s.any():
                return cls()
            y = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
            return cls(clone(params.model).partial_fit(nw.to_native(rows, pass_through=True), y, sample_weight=s))

    def merge(self, other: Shard) -> Shard:
        """Return the model of the rows of both."""
        if self.model is None or other.model is None:
            return other if self.model is None else self
        return Shard(self.model.merge(other.model))


def fit_shards(model: Any, stream: Stream) -> Any:
    """Return the model of all pieces of a stream: one pass."""
    roles = find_roles(stream)
    parts = stream.parts if roles.features is None else stream.parts.choose((*roles.features, *roles.names))
    params = ShardParams(clone(model).set_params(threads=1), roles)
    shard: Shard = stream.engine.fold(Shard, PartedSource(parts), params)
    if shard.model is None:
        raise InvalidInputError("The data has 0 rows (of positive weight): found array with 0 sample(s).")
    return shard.model
