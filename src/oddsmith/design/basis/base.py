"""The base class of bases: a scikit-learn transformer around a few functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from oddsmith.block import Block
from oddsmith.design.inputs import (
    ArrayOrCSR,
    check_finite,
    check_fitted,
    dense,
    feature_names,
    read_rows,
    restored_on_error,
)
from oddsmith.engines import AnySource, Engine, MemoryEngine, MemorySource, one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.numerics import Array
from oddsmith.registry import Registry
from oddsmith.statistic import Shape

Names = npt.NDArray[Any]
B = TypeVar("B", bound="Basis")
S = TypeVar("S", bound=AnySource)

BASES: Registry[type[Any]] = Registry("basis")

LIMIT = 10_000  # Default limit of the number of columns of an expansion.
TILE_ELEMENTS = 1 << 16  # Numbers processed at a time, so that they stay in the cache.


class Basis(TransformerMixin, BaseEstimator):
    """A scikit-learn transformer from rows ``x`` (N × D) to rows ``φ(x)`` (N × M, float64).

    A subclass stores its arguments in ``__init__`` and defines

    * ``check_parameters()``: refuse bad arguments, before the data is touched;
    * ``learn(source, engine, names)``: set the attributes that end in ``_``, by folds over the source;
    * ``expand(rows)``: ``φ`` of checked rows, each row independently; it changes no state, so threads can share it;
    * ``column_names(names)``: the names of the outputs, from those of the inputs.

    ``keeps_sparse`` says whether CSR rows come out as CSR rows; otherwise they come out dense.

    >>> from oddsmith import Standardize
    >>> isinstance(Standardize(), Basis)
    True
    """

    n_features_in_: int
    keeps_sparse = False

    def check_parameters(self) -> None:
        """Refuse bad arguments."""

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        """Learn from the rows of a source, whose columns have the given names."""
        raise TypeError(f"{type(self).__name__} must define learn().")

    def expand(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        """Return ``φ`` of some rows (dense, or CSR if the basis supports it)."""
        raise TypeError(f"{type(self).__name__} must define expand().")

    def column_names(self, names: Names) -> list[str]:
        """Return the names of the outputs."""
        raise TypeError(f"{type(self).__name__} must define column_names().")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self: B, X: Any, y: Any = None) -> B:
        """Learn from rows ``X`` (array, sparse matrix or table); ``y`` is not used."""
        with restored_on_error(self):
            self.check_parameters()
            rows = read_rows(self, X, reset=True)
            check_finite(rows, feature_names(self))
            source = MemorySource(rows, np.broadcast_to(np.int32(0), rows.shape[0]), K=1)
            with one_blas_thread():
                self.learn(source, MemoryEngine(), np.array(_check_feature_names_in(self), dtype=object))
        return self

    def transform(self, X: Any) -> ArrayOrCSR:
        """Return ``φ`` of each row of ``X``, N × M."""
        check_fitted(self, "fit(X)")
        rows = read_rows(self, X, reset=False)
        check_finite(rows, feature_names(self))
        return self.expand(rows)

    def get_feature_names_out(self, input_features: object = None) -> Names:
        """Return the names of the outputs, from those of the inputs (default: the names seen in ``fit``)."""
        check_fitted(self, "fit(X)")
        with as_input_errors():
            names = _check_feature_names_in(self, input_features)
        return np.array(self.column_names(names), dtype=object)

    def _check_whole(self, name: str, least: int) -> int:
        """Return an argument, which must be a whole number of at least ``least``."""
        value = getattr(self, name)
        what = f"{name} of {type(self).__name__} must be a whole number of at least {least}, found {value!r}."
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise (InvalidInputError if isinstance(value, Real) else InvalidTypeError)(what)
        if value < least:
            raise InvalidInputError(what)
        return int(value)

    def _check_flag(self, name: str) -> None:
        """Refuse an argument that is not a boolean."""
        value = getattr(self, name)
        if not isinstance(value, bool | np.bool_):
            raise InvalidTypeError(f"{name} of {type(self).__name__} must be True or False, found {value!r}.")

    def _check_limit(self, columns: int, why: str) -> None:
        """Refuse to make more columns than ``limit``, with the count."""
        limit = self._check_whole("limit", 1)
        if columns > limit:
            raise InvalidInputError(
                f"{type(self).__name__} would make {columns:,} columns ({why}); the limit is {limit:,}. Choose fewer, "
                f"or allow them with limit={columns}."
            )


def dense_tiles(rows: ArrayOrCSR, columns: int) -> Iterator[tuple[slice, Array]]:
    """Yield the rows as float64 arrays, in tiles such that ``columns`` numbers per row fit into the cache."""
    n, step = rows.shape[0], max(16, TILE_ELEMENTS // max(1, columns, rows.shape[1]))
    for part in (slice(start, min(start + step, n)) for start in range(0, n, step)):
        yield part, np.asarray(dense(rows[part]), dtype=np.float64)


@dataclass(frozen=True)
class Composed:
    """A composition of functions that, unlike a lambda, can be pickled and sent to workers."""

    first: Callable[[Any], Any]
    second: Callable[[Any], Any]

    def __call__(self, argument: object) -> Any:
        return self.second(self.first(argument))


def seen_through(source: S, function: Callable[[Any], Any], columns: int) -> S:
    """Return the source with a function applied to its rows, one slice at a time."""
    after = function if source.transform is None else Composed(source.transform, function)
    return replace(source, transform=after, M=columns)


@dataclass(frozen=True)
class AllRows:
    """All rows of positive weight, in order, for bases that need them: a kernel at every row, a transformer.

    It is not a registered statistic, because the order of its parts matters.

    >>> block = Block(np.array([[1.0], [2.0]]), np.zeros(2, dtype=np.int32), s=np.array([0.0, 1.0]))
    >>> AllRows.of(block, None).joined(1).tolist()
    [[2.0]]
    """

    parts: tuple[ArrayOrCSR, ...]

    @classmethod
    def zero(cls, shape: Shape, params: None) -> AllRows:
        return cls(())

    @classmethod
    def of(cls, block: Block, params: None) -> AllRows:
        return cls((block.X if block.s is None else block.X[block.s > 0],))

    def merge(self, other: AllRows) -> AllRows:
        return AllRows(self.parts + other.parts)

    def joined(self, M: int) -> ArrayOrCSR:
        """Return one array of float64, or one CSR matrix."""
        if self.parts and all(sparse.issparse(part) for part in self.parts):
            return sparse.vstack(self.parts, format="csr", dtype=np.float64)
        return np.concatenate([np.empty((0, M)), *self.parts], dtype=np.float64)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[None]:
        return [None]
