"""Rows that lie in pieces elsewhere: in files, on the workers of a cluster, at other sites.

A piece (some rows of a table, wherever it came from) is turned into what a statistic takes by ``encode``, where the
piece is: what travels there is a `Job`, what comes back is a statistic. So an engine for pieces is a way of calling
``job(piece)`` for each of them and of merging what comes back in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from oddsmith.engines.base import Engine
from oddsmith.engines.memory import MemorySource
from oddsmith.numerics import Array
from oddsmith.rows import LazyRows
from oddsmith.statistic import Shape, Statistic

S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class Piece:
    """Some rows as they come: a table (Arrow, pandas, polars) or an array.

    ``y``, ``s`` and ``offset`` are labels, weights and offsets where these do not stand in columns of the table.
    ``number`` is the same for the same piece in every pass; ``name`` says where it is, for those who read an error.

    >>> import numpy as np
    >>> Piece(np.eye(2), number=3, name="b.parquet, row group 0").name
    'b.parquet, row group 0'
    """

    rows: Any
    y: Any = None
    s: Any = None
    offset: Any = None
    number: int = 0
    name: str = ""


class Parts(Protocol):
    """Data in pieces, and the engine that folds over them. A model asks for no more than this."""

    @property
    def engine(self) -> Engine:
        """The engine that knows these pieces."""
        ...

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, None for arrays, which have none."""
        ...

    @property
    def expected_rows(self) -> int:
        """The number of rows as far as it is known without reading them; it need not be exact."""
        ...

    def choose(self, columns: Iterable[str]) -> Parts:
        """Return the same pieces with only these columns read, in this order; one that is not there is an error."""
        ...


def as_it_is(piece: Piece) -> Piece:
    """Return the piece itself: what statistics of raw tables take."""
    return piece


@dataclass(frozen=True)
class Job(Generic[S]):
    """A statistic and how to make what it takes of a piece: all that travels to where the piece is. It can be pickled.

    Engines that keep encoded blocks call ``encode`` once and ``of`` in every pass; others call the job itself.
    """

    statistic: type[S]
    params: Any
    encode: Callable[[Piece], Any]
    transform: Callable[[Any], Any] | None = None
    M: int = 0

    def __call__(self, piece: Piece) -> S:
        """Return the statistic of a piece."""
        return self.of(self.encode(piece))

    def of(self, block: Any) -> S:
        """Return the statistic of an encoded piece."""
        if self.transform is not None:
            block = replace(block, Phi=LazyRows(block.Phi, self.transform, self.M))
        return self.statistic.of(block, self.params)


@dataclass(frozen=True)
class PartedSource:
    """Pieces that are encoded where they are: what `MemorySource` is for arrays.

    ``n_rows`` rows (``n_present`` of positive weight) of M columns and K classes. ``drawn`` holds a uniform sample of
    the encoded rows, on which a fit can begin. ``transform`` (a basis, say) makes the rows ``Phi`` of a block.
    """

    parts: Any
    encode: Callable[[Piece], Any] = as_it_is
    n_rows: int = 0
    M: int = 0
    K: int = 0
    n_present: int = 0
    encodes_sparse: bool = False
    weighted: bool = False
    offset_mean: Array | None = None
    drawn: MemorySource | None = None
    transform: Callable[[Any], Any] | None = None

    @property
    def shape(self) -> Shape:
        """Columns after the transform, and classes."""
        return Shape(self.M, self.K)

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are CSR: the encoded rows are, and no transform makes them dense."""
        return self.encodes_sparse and (self.transform is None or getattr(self.transform, "keeps_sparse", False))

    @property
    def has_offset(self) -> bool:
        """Whether rows have offsets."""
        return self.offset_mean is not None

    @property
    def size(self) -> float:
        """Number of elements, those of sparse rows counted as the four that they cost."""
        if self.is_sparse and self.drawn is not None and self.drawn.n_rows:
            return float(4.0 * self.drawn.X.nnz * self.n_rows / self.drawn.n_rows)
        return float(self.n_rows) * self.M

    def job(self, statistic: type[S], params: Any) -> Job[S]:
        """Return what is to be done with each piece."""
        return Job(statistic, params, self.encode, self.transform, self.M)

    def kept(self) -> PartedSource:
        """Return the source itself: blocks are kept by the engine, before the transform."""
        return self

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Return about ``rows`` of the rows drawn, all if they are no more."""
        assert self.drawn is not None
        drawn = replace(self.drawn, transform=self.transform, M=self.M)
        return drawn.sample(min(rows, drawn.n_rows), seed)


def merged(parts: Iterable[S], zero: Callable[[], S]) -> S:
    """Return the merge of statistics in the order that they come in, ``zero()`` where there are none."""
    total: S | None = None
    for part in parts:
        total = part if total is None else total.merge(part)
    return zero() if total is None else total
