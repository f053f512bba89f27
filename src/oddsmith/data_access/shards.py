"""Fitting of mergeable models piece by piece, in one pass, without prior knowledge of the data."""

from __future__ import annotations

from dataclasses import dataclass

import narwhals as nw
from sklearn.base import BaseEstimator, clone

from oddsmith.data_access.training_stream import Stream, find_roles, learn_formats
from oddsmith.design.data_summary import Roles, locate_errors, some_weights
from oddsmith.design.inputs import as_array
from oddsmith.design.text_columns import keep_formats, learned_formats
from oddsmith.engines import PartedSource, Piece
from oddsmith.errors import InvalidInputError
from oddsmith.statistic import Shape


@dataclass(frozen=True)
class ShardParams:
    """The model to fit to each piece, and the roles of the columns."""

    model: BaseEstimator
    roles: Roles


@dataclass(frozen=True)
class Shard:
    """A model of some rows (None for no rows), which is a statistic of raw tables because such models merge.

    >>> import numpy as np
    >>> from oddsmith import NaiveBayes
    >>> pieces = [Piece(np.array([[0.0], [1.0]]), ["a", "a"]), Piece(np.array([[4.0], [5.0]]), ["b", "b"])]
    >>> one, two = (Shard.of(piece, ShardParams(NaiveBayes(), Roles())) for piece in pieces)
    >>> one.merge(two).model.predict([[4.0]]).tolist()
    ['b']
    """

    model: BaseEstimator | None = None

    @classmethod
    def zero(cls, shape: Shape, params: ShardParams) -> Shard:
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: ShardParams) -> Shard:
        roles = params.roles
        with locate_errors(piece):
            rows = roles.rows(piece)
            n = int(rows.shape[0])
            if not n:
                return cls()
            labels, s = roles.labels(piece, n), some_weights(roles.numbers(piece, "weight"), n)
            if s is not None and not s.any():
                return cls()
            rows = nw.to_native(rows, pass_through=True)
            return cls(clone(params.model).partial_fit(rows, as_array(labels), sample_weight=s))

    def merge(self, other: Shard) -> Shard:
        if self.model is None or other.model is None:
            return other if self.model is None else self
        return Shard(self.model.merge(other.model))


def fit_shards(model: BaseEstimator, stream: Stream) -> BaseEstimator:
    """Return the model of all pieces of a stream: one pass."""
    roles = find_roles(stream)
    parts = roles.select(stream.parts)
    roles = learn_formats(model, parts, roles)
    params = ShardParams(clone(model).set_params(threads=1), roles)
    shard = parts.engine.fold(Shard, PartedSource(parts), params)  # type: ignore[type-var]
    if shard.model is None:
        raise InvalidInputError("The data has 0 rows (of positive weight): found array with 0 sample(s).")
    keep_formats(shard.model, learned_formats(model))
    return shard.model
