"""Rows that lie in pieces elsewhere: in files, on the workers of a cluster, at other sites.

A piece (some rows of a table, wherever it came from) is turned into what a statistic takes by ``encode``, where the
piece is: what travels there is a `Job`, what comes back is a statistic. So an engine for pieces is a way of calling
``job(piece)`` for each of them and of merging what comes back in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, runtime_checkable

from oddsmith.engines.base import Engine, S
from oddsmith.engines.memory import MemorySource, keeps_sparse
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.rows import LazyRows
from oddsmith.rows.split import TableForm
from oddsmith.statistic import Shape


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some rows as they come: a table (Arrow, pandas, polars) or an array.

    ``y``, ``s`` and ``offset`` are labels, weights and offsets where these do not stand in columns of the table.
    ``number`` is the same for the same piece in every pass; ``name`` says where it is, for those who read an error, and
    ``place`` where one of its rows is (in which line of a text), if that is known.

    >>> import numpy as np
    >>> Piece(np.eye(2), number=3, name="b.parquet, row group 0").name
    'b.parquet, row group 0'
    """

    rows: Any = field(kw_only=False)
    y: Any = field(default=None, kw_only=False)
    s: Any = None
    offset: Any = None
    number: int = 0
    name: str = ""
    place: Callable[[int], str] | None = None


@runtime_checkable
class Parts(Protocol):
    """Data in pieces, and the engine that folds over them. A model asks for no more than this."""

    @property
    def engine(self) -> Engine:
        """The engine that folds over these pieces."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, None for arrays, which have none."""

    @property
    def expected_rows(self) -> int:
        """The number of rows as far as it is known without reading them; it need not be exact."""

    def choose(self, columns: Iterable[str]) -> Parts:
        """Return the same pieces with only these columns read, in this order; one that is not there is an error."""


def check_columns(names: Iterable[str], known: Sequence[str], who: str) -> None:
    """Refuse names that are no columns of the data; ``who`` has the known ones."""
    for name in names:
        if name not in known:
            raise InvalidInputError(f"There is no column {name!r}. {who}: {', '.join(map(repr, known))}.")


def as_it_is(piece: Piece) -> Piece:
    """Return the piece itself: what statistics of raw tables take."""
    return piece


@dataclass(frozen=True, kw_only=True)
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
        return self.of(self.encode(piece))

    def of(self, block: Any) -> S:
        """Return the statistic of an encoded piece."""
        if self.transform is not None:
            block = replace(block, Phi=LazyRows(block.Phi, self.transform, self.M))
        return self.statistic.of(block, self.params)


@dataclass(frozen=True, kw_only=True)
class PartedSource:
    """Pieces that are encoded where they are: what `MemorySource` is for arrays.

    ``n_rows`` rows (``n_present`` of positive weight) of M columns and K classes. ``drawn`` holds a uniform sample of
    the encoded rows, on which a fit can begin. ``transform`` (a basis, say) makes the rows ``Phi`` of a block. Tables
    whose blocks have categories as codes have a ``form``.
    """

    parts: Any = field(kw_only=False)
    encode: Callable[[Piece], Any] = field(default=as_it_is, kw_only=False)
    n_rows: int = field(default=0, kw_only=False)
    M: int = 0
    K: int = 0
    n_present: int = 0
    encodes_sparse: bool = False
    weighted: bool = False
    offset_mean: Array | None = None
    drawn: MemorySource | None = None
    transform: Callable[[Any], Any] | None = None
    form: TableForm | None = None

    @property
    def shape(self) -> Shape:
        return Shape(self.M, self.K)

    @property
    def is_sparse(self) -> bool:
        return self.encodes_sparse and keeps_sparse(self.transform)

    @property
    def has_offset(self) -> bool:
        return self.offset_mean is not None

    @property
    def size(self) -> float:
        if self.form is not None:
            return self.n_rows * self.form.entries
        if self.is_sparse and self.drawn is not None and self.drawn.n_rows:
            return float(4.0 * self.drawn.X.nnz * self.n_rows / self.drawn.n_rows)
        return float(self.n_rows) * self.M

    def job(self, statistic: type[S], params: Any) -> Job[S]:
        """Return what is to be done with each piece."""
        return Job(statistic=statistic, params=params, encode=self.encode, transform=self.transform, M=self.M)

    def kept(self) -> PartedSource:
        """Return the source itself: blocks are kept by the engine, before the transform."""
        return self

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Return about ``rows`` of the rows drawn, all if they are no more."""
        assert self.drawn is not None
        drawn = replace(self.drawn, transform=self.transform, M=self.M)
        return drawn.sample(min(rows, drawn.n_rows), seed)


AnySource = MemorySource | PartedSource
"""Rows that a model can be fitted to: in memory, or in pieces."""
