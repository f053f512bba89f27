"""Data in pieces outside memory: in files, on the workers of a cluster, at other sites.

Where a piece (some rows of a table) is stored, ``encode`` converts it to the input of a statistic: a `Job` is sent
there, and a statistic comes back. So an engine for pieces calls ``job(piece)`` for each piece and merges the results in
the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, runtime_checkable

from oddsmith.engines.base import Engine, S
from oddsmith.engines.memory import MemorySource, keeps_sparse
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import RowsLike
from oddsmith.rows import LazyRows
from oddsmith.rows.split import TableForm
from oddsmith.statistic import Shape


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some raw rows: a table (Arrow, pandas, polars) or an array.

    ``y``, ``s`` and ``offset`` are labels, weights and offsets that are not columns of the table. ``number`` identifies
    the piece in every pass; ``name`` is its location for error messages, and ``place`` returns the location of one of
    its rows (such as a line number), if known.

    >>> import numpy as np
    >>> Piece(np.eye(2), number=3, name="b.parquet, row group 0").name
    'b.parquet, row group 0'
    """

    rows: RowsLike = field(kw_only=False)
    y: Any = field(default=None, kw_only=False)
    s: Any = None
    offset: Any = None
    number: int = 0
    name: str = ""
    place: Callable[[int], str] | None = None


@runtime_checkable
class Parts(Protocol):
    """Data in pieces and the engine that folds over them: all that a model needs."""

    @property
    def engine(self) -> Engine:
        """The engine that folds over these pieces."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, None for arrays."""

    @property
    def expected_rows(self) -> int:
        """The approximate number of rows, known without reading them."""

    def choose(self, columns: Iterable[str]) -> Parts:
        """Return the same pieces with only these columns, in this order; raise if one does not exist."""


def check_columns(names: Iterable[str], known: Sequence[str], who: str) -> None:
    """Refuse names that are not columns of the data; ``who`` introduces the list of known columns."""
    for name in names:
        if name not in known:
            raise InvalidInputError(f"There is no column {name!r}. {who}: {', '.join(map(repr, known))}.")


def as_it_is(piece: Piece) -> Piece:
    """Return the piece itself, for statistics of raw tables."""
    return piece


@dataclass(frozen=True, kw_only=True)
class Job(Generic[S]):
    """A statistic and the encoding of pieces for it, which is sent to where the pieces are. It can be pickled.

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
    """Pieces that are encoded where they are stored, the counterpart of `MemorySource`.

    It has ``n_rows`` rows (``n_present`` of positive weight) of M columns and K classes. ``drawn`` is a uniform sample
    of the encoded rows, on which a fit can start. ``transform`` (such as a basis) computes the rows ``Phi`` of a block.
    Tables whose blocks have categories as codes have a ``form``.
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
        """Return the job to run on each piece."""
        return Job(statistic=statistic, params=params, encode=self.encode, transform=self.transform, M=self.M)

    def kept(self) -> PartedSource:
        """Return the source itself: the engine keeps blocks before the transform."""
        return self

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Return about ``rows`` of the drawn rows, or all if there are fewer."""
        assert self.drawn is not None
        drawn = replace(self.drawn, transform=self.transform, M=self.M)
        return drawn.sample(min(rows, drawn.n_rows), seed)


AnySource = MemorySource | PartedSource  # Rows that a model can be fitted to: in memory, or in pieces.
