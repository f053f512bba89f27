"""The Dask engine: statistics are made where the partitions are, and only sums travel.

A pass is one graph: a task for each partition makes its statistic, tasks above it merge sixteen neighbours at a time,
and the one at the top comes back. Which statistics are merged with which follows from the number of partitions, so
the same data gives the same bits again, whoever computes it and in whatever order. A task that ran twice, because its
worker was lost or only thought to be, is still one value in that graph: no row can count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.engines.base import ENGINES, Progress
from oddsmith.engines.blas import one_blas_thread
from oddsmith.engines.dask_collections import aligned, apply, checked_rows, dask_package, is_dask, is_frame, partitions
from oddsmith.engines.parted import PartedSource, Piece, as_it_is
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.statistic import Statistic

__all__ = ["DaskEngine", "DaskParts", "apply", "is_dask"]

S = TypeVar("S", bound=Statistic)
FAN_IN = 16
"""So many statistics are merged by one task."""
SMALL_BYTES = 1 << 14
"""What is no larger than this goes out with each task: fetching it from another would take longer."""
KEPT_SHARE = 0.5
"""The share of memory that encoded blocks may take; workers begin to spill at 0.6."""
SAMPLE_BYTES = 160_000_000
"""Enough for a start near the optimum. A larger sample would travel longer than the pass that it saves."""


@dataclass
class _Kept:
    """Encoded blocks that stay in a place for the length of a fit: those of one ``encode``, by number.

    ``rows`` is the number of rows that the first pass met.
    """

    rows: int | None = None
    encode: Any = None
    place: Any = None
    blocks: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DaskParts:
    """The partitions of a Dask DataFrame, or the row chunks of a Dask Array, as pieces.

    ``y``, ``s`` and ``offset`` are Dask Series or Arrays whose partitions lie beside those of ``data``. Nothing is
    computed before a fold. Make it by `DaskParts.open`, which checks that the parts belong together.
    """

    data: Any
    y: Any = None
    s: Any = None
    offset: Any = None
    client: Any = None
    dtype: str | None = None
    _kept: _Kept = field(default_factory=_Kept, compare=False, repr=False)

    @classmethod
    def open(
        cls,
        data: Any,
        y: Any = None,
        s: Any = None,
        offset: Any = None,
        client: Any = None,
        dtype: str | None = None,
    ) -> DaskParts:
        """Return the pieces of a Dask DataFrame or Array; columns that are cut into chunks are put together.

        Parameters
        ----------
        data : Dask DataFrame, or Dask Array of two dimensions
            The rows. Chunk sizes may be unknown.
        y, s, offset : Dask Series or Array, optional
            Labels, weights and offsets where they are no columns of ``data``, cut at the same rows.
        client : distributed.Client, optional
            Default: the current one; without one, Dask's own threads.
        dtype : {"float32", "float64"}, optional
            Of the encoded blocks that stay on the workers; float32 takes half their memory.

        >>> import dask.array as da
        >>> parts = DaskParts.open(da.ones((6, 2), chunks=(2, 1)), y=da.zeros(6, chunks=3))
        >>> len(parts.pieces), parts.expected_rows
        (3, 6)
        """
        dask_package()
        if client is not None and not hasattr(client, "scheduler_info"):
            raise InvalidTypeError(f"client is a {type(client).__name__}, expected a distributed.Client or None.")
        if dtype not in (None, "float32", "float64"):
            raise InvalidInputError(f"dtype must be 'float32', 'float64' or None, found {dtype!r}.")
        data = checked_rows(data)
        y, s, offset = aligned("y", y, data), aligned("sample_weight", s, data), aligned("offset", offset, data)
        return cls(data, y, s, offset, client, dtype)

    @property
    def memory(self) -> int:
        """How many bytes the sample that comes to the client may take, with all that is made of it."""
        return SAMPLE_BYTES

    @property
    def engine(self) -> DaskEngine:
        """The engine that folds over these pieces."""
        return DaskEngine(self.client)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of a DataFrame's columns, None for an Array."""
        return tuple(self.data.columns) if is_frame(self.data) else None

    @cached_property
    def expected_rows(self) -> int:
        """The number of rows; where Dask does not know it, that of one partition, which is read, times their number.

        So a sample that is drawn in the first pass is not all that it meets. Up to four partitions it may be: 0.
        """
        if not is_frame(self.data) and not np.isnan(self.data.chunks[0]).any():
            return int(sum(self.data.chunks[0]))
        count = len(self.pieces)
        if count <= 4:
            return 0
        length = _lazy(_length)(self.pieces[count // 2][0])
        return count * int(_place(self.client).compute([length], length, None))

    @cached_property
    def pieces(self) -> list[tuple[Any, ...]]:
        """The lazy fields of each `Piece`, in order."""
        found = partitions((self.data, self.y, self.s, self.offset))
        return [(*some, i, f"partition {i} of {len(found)}") for i, some in enumerate(found)]

    def choose(self, columns: Iterable[str]) -> DaskParts:
        """Return the same pieces with only these columns read, in this order.

        >>> import dask.dataframe as dd, pandas as pd
        >>> table = dd.from_pandas(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), npartitions=2)
        >>> DaskParts.open(table).choose(["b"]).columns
        ('b',)
        """
        wanted = list(columns)
        known = self.columns
        if known is None:
            raise InvalidInputError(
                f"A Dask Array has no named columns, so {wanted} cannot be chosen. Pass a DataFrame."
            )
        for name in wanted:
            if name not in known:
                raise InvalidInputError(f"There is no column {name!r}. The table has: {', '.join(map(repr, known))}.")
        return replace(self, data=self.data[wanted], _kept=_Kept())

    def release(self) -> None:
        """Let go of the blocks kept on the workers. It happens by itself when nobody holds the parts any more."""
        if self._kept.place is not None:
            self._kept.place.release(list(self._kept.blocks.values()))
        self._kept.encode, self._kept.place, self._kept.blocks = None, None, {}


@ENGINES.register("dask")
@dataclass(frozen=True)
class DaskEngine:
    """Folds over Dask partitions, on the workers of a ``distributed`` client or on Dask's threads.

    1. The job (statistic, parameters) goes out once, as a task from which workers fetch it, or with each task if small.
    2. Encoded blocks are made once for a fit and stay on the workers, as many as fit into half of their memory; the
       others are made again in each pass.
    3. Each partition's statistic is made where the partition is; neighbours are merged in a tree of fixed shape.

    A lost worker costs time: what it held is made again from the graph. Cost of a pass: one small task for each
    partition and one for every fifteen of them, the statistic sent log₁₆ of their number times.

    >>> import dask.array as da
    >>> from oddsmith.statistics import Counts
    >>> parts = DaskParts.open(da.zeros((4, 1), chunks=2), y=da.from_array(np.array([0, 1, 1, 1]), chunks=2))
    >>> source = PartedSource(parts, lambda piece: Block(piece.rows, piece.y), n_rows=4, M=1, K=2)
    >>> DaskEngine().fold(Counts, source, source.shape).weight.tolist()
    [1.0, 3.0]
    """

    client: Any = None
    name: str = "dask"

    def fold(self, statistic: type[S], source: PartedSource, params: Any, *, progress: Progress | None = None) -> S:
        """Return the merge of the statistics of all partitions, in the order of their numbers."""
        parts: DaskParts = source.parts
        place = _place(self.client)
        job = source.job(statistic, params)
        try:
            with _sentences():
                kept = _kept_blocks(parts, source, place)
                sent = place.send(job if len(kept) < len(parts.pieces) else replace(job, encode=as_it_is))
                of_kept, of_piece = _lazy(_of_kept), _lazy(_of_piece)
                leaves = [
                    of_kept(sent, kept[i]) if i in kept else of_piece(sent, *piece)
                    for i, piece in enumerate(parts.pieces)
                ]
                total = place.compute(leaves, _tree(leaves), progress)
            _check_rows(parts._kept, total.rows, source.encode is as_it_is)
        except BaseException:
            parts.release()
            raise
        result: S = total.thing
        return result


class _Place(Protocol):
    """Where graphs are computed."""

    def room(self) -> float:
        """Return the number of bytes that blocks may take there."""
        ...

    def send(self, thing: Any) -> Any:
        """Return a lazy `_Carried` of an object that goes there once, or its bytes."""
        ...

    def persist(self, lazy: list[Any]) -> Sequence[Any]:
        """Return the same lazy values, computed and held there."""
        ...

    def release(self, held: list[Any]) -> None:
        """Let go of what is held there, even if somebody (a traceback, say) still refers to it."""
        ...

    def compute(self, leaves: list[Any], total: Any, progress: Progress | None) -> Any:
        """Return the value of ``total``, telling how many of the ``leaves`` below it are done."""
        ...


@dataclass(frozen=True)
class _Local:
    """Dask's threads in this process, or what else the user's configuration names."""

    def room(self) -> float:
        try:
            return KEPT_SHARE * float(import_module("psutil").virtual_memory().available)
        except ImportError:
            return float(1 << 30)

    def send(self, thing: Any) -> Any:
        # Not traversed: Dask would look for lazy values in every field of a record.
        return dask_package().delayed(_Carried(thing), pure=False, traverse=False)

    def persist(self, lazy: list[Any]) -> Sequence[Any]:
        held: Sequence[Any] = dask_package().persist(*lazy, optimize_graph=False)
        return held

    def release(self, held: list[Any]) -> None:
        """Nothing to do: the caller's references are all there are."""

    def compute(self, leaves: list[Any], total: Any, progress: Progress | None) -> Any:
        keys, done = {leaf.key for leaf in leaves}, 0

        def told(key: Any, *_: Any) -> None:
            nonlocal done
            if key in keys and progress is not None:
                done += 1
                progress(done, len(keys))

        with import_module("dask.callbacks").Callback(posttask=told):
            return dask_package().compute(total, optimize_graph=False)[0]


@dataclass(frozen=True)
class _Cluster:
    """The workers of a client."""

    client: Any

    def room(self) -> float:
        free = 0.0
        for worker in self.client.scheduler_info(n_workers=-1)["workers"].values():
            limit = worker["memory_limit"] or np.inf
            free += max(0.0, KEPT_SHARE * limit - worker["metrics"].get("managed_bytes", 0))
        return free

    def send(self, thing: Any) -> Any:
        data = import_module("cloudpickle").dumps(thing, protocol=5)
        # As bytes in a task, not scattered: a task can be run again when the worker that holds its result is lost.
        return data if len(data) <= SMALL_BYTES else _lazy(_arrived)(data)

    def persist(self, lazy: list[Any]) -> Sequence[Any]:
        held: Sequence[Any] = self.client.persist(lazy, optimize_graph=False)
        return held

    def release(self, held: list[Any]) -> None:
        # A client that is closed, or has lost its cluster, has let go already.
        with suppress(Exception):
            self.client.cancel(import_module("distributed").futures_of(held))

    def compute(self, leaves: list[Any], total: Any, progress: Progress | None) -> Any:
        watched = [] if progress is None else leaves
        with dask_package().config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            *below, top = self.client.compute([*watched, total], optimize_graph=False)
        waiting = import_module("distributed").as_completed(below, loop=self.client.loop)
        # From here on nothing but `waiting` holds them: each is let go of once it is merged.
        del below
        try:
            for done, leaf in enumerate(waiting, 1):
                if leaf.status != "finished":
                    leaf.result()
                if progress is not None:
                    progress(done, len(leaves))
            return top.result()
        finally:
            waiting.clear()
            top.release()


def _kept_blocks(parts: DaskParts, source: PartedSource, place: _Place) -> dict[int, Any]:
    """Return lazy encoded blocks that are held where they are, by number: all of them, or as many as there is room."""
    if source.encode is as_it_is:
        return {}
    kept = parts._kept
    if kept.encode is not source.encode or kept.place != place:
        parts.release()
        count = len(parts.pieces)
        some = int(min(count, count * place.room() / max(1.0, source.n_rows * _row_bytes(source))))
        # Spread over all pieces, since neighbours often lie on one worker.
        chosen = [piece for i, piece in enumerate(parts.pieces) if (i + 1) * some // count > i * some // count]
        encode, encoded = place.send(source.encode), _lazy(_encoded)
        blocks = place.persist([encoded(encode, *piece) for piece in chosen]) if chosen else []
        kept.encode, kept.place = source.encode, place
        kept.blocks = {piece[4]: block for piece, block in zip(chosen, blocks, strict=True)}
    return kept.blocks


def _row_bytes(source: PartedSource) -> float:
    """Return how many bytes an encoded row takes: that of the rows drawn, or of dense ones."""
    drawn = source.drawn
    if drawn is None or drawn.n_rows == 0:
        return 8.0 * (source.M + 2) + 4.0
    return _nbytes(Block(drawn.X, drawn.t, drawn.s, drawn.offset)) / drawn.n_rows


@dataclass(frozen=True)
class _Carried:
    """What a task of ours returns: it tells Dask its size, and travels as bytes.

    By their size Dask spills things, and sends tasks to where large ones are. And where Dask carries arrays by
    itself, they arrive at addresses at which sums take another way, to other bits, and compiled code a slower one.
    ``rows`` counts the rows that it was made of.
    """

    thing: Any
    rows: int = 0

    def __sizeof__(self) -> int:
        return _nbytes(self.thing)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (import_module("cloudpickle").dumps(self.thing, protocol=5), self.rows)


def _arrived(data: bytes, rows: int = 0) -> _Carried:
    return _Carried(import_module("cloudpickle").loads(data), rows)


def _nbytes(thing: Any) -> int:
    """Return the bytes of the arrays in a record."""
    if sparse.issparse(thing):
        return _nbytes((thing.data, thing.indices, thing.indptr))
    if is_dataclass(thing) and not isinstance(thing, type):
        thing = [getattr(thing, part.name) for part in fields(thing)]
    if isinstance(thing, list | tuple):
        return sum(map(_nbytes, thing))
    return int(getattr(thing, "nbytes", 64))


def _length(rows: Any) -> int:
    return int(rows.shape[0])


def _opened(sent: _Carried | bytes) -> Any:
    return (_arrived(sent) if isinstance(sent, bytes) else sent).thing


def _encoded(encode: _Carried | bytes, *piece: Any) -> _Carried:
    return _Carried(_settled(_opened(encode)(_piece(*piece))), _length(piece[0]))


def _of_kept(job: _Carried | bytes, block: _Carried) -> _Carried:
    with one_blas_thread():
        return _Carried(_opened(job).of(block.thing), block.rows)


def _of_piece(job: _Carried | bytes, *piece: Any) -> _Carried:
    opened = _Carried(_opened(job))
    return _of_kept(opened, _encoded(_Carried(opened.thing.encode), *piece))


def _piece(rows: Any, y: Any, s: Any, offset: Any, number: int, name: str) -> Piece:
    """Return a partition with what lies beside it, refusing what does not belong to its rows."""
    for what, part in (("y", y), ("sample_weight", s), ("offset", offset)):
        if part is not None and len(part) != rows.shape[0]:
            raise InvalidInputError(
                f"In {name} there are {rows.shape[0]} rows and {len(part)} entries of {what}. Cut both at the same "
                "rows: rechunk or repartition one like the other, or make it a column of the table."
            )
        if hasattr(part, "index") and hasattr(rows, "index") and not part.index.equals(rows.index):
            raise InvalidInputError(
                f"In {name} the index of {what} is not that of the rows. Join both into one table; or, if they are in "
                f"the same order all the same, pass {what}.to_dask_array()."
            )
    return Piece(rows, y, s, offset, number, name)


def _settled(block: Any) -> Any:
    """Return an encoded block whose arrays lie where they should: one that came as it is may have come by the wire."""
    if not isinstance(block, Block):
        return block
    Phi = block.Phi
    parts = (Phi.data, Phi.indices, Phi.indptr) if block.is_sparse else (Phi,)
    if all(part is None or part.flags.aligned for part in (*parts, block.t, block.s, block.offset)):
        return block
    parts = tuple(map(_at_home, parts))
    Phi = sparse.csr_array(parts, shape=Phi.shape) if block.is_sparse else parts[0]
    return Block(Phi, _at_home(block.t), _at_home(block.s), _at_home(block.offset), block.first_row)


def _at_home(array: Any) -> Any:
    return None if array is None else np.require(array, requirements="A")


def _tree(leaves: list[Any]) -> Any:
    """Return the lazy merge of lazy statistics, `FAN_IN` neighbours at a time."""
    merged = _lazy(_merged)
    while True:
        leaves = [merged(*leaves[i : i + FAN_IN]) for i in range(0, len(leaves), FAN_IN)]
        if len(leaves) == 1:
            return leaves[0]


def _merged(first: _Carried, *others: _Carried) -> _Carried:
    total, rows = first.thing, first.rows
    for other in others:
        total, rows = total.merge(other.thing), rows + other.rows
    return _Carried(total, rows)


def _check_rows(kept: _Kept, rows: int, anew: bool) -> None:
    """Refuse a pass that met other rows than the first: a fit to both would be one to neither."""
    if anew or kept.rows is None:
        kept.rows = rows
    elif rows != kept.rows:
        raise InvalidInputError(
            f"This pass over the Dask data met {rows} rows, and the first one {kept.rows}: its partitions change from "
            "one computation to the next. Fit again when the files are complete, or persist the data first."
        )


def _lazy(function: Callable[..., Any]) -> Any:
    return dask_package().delayed(function, pure=False, traverse=False)


def _place(client: Any) -> _Place:
    """Return the cluster of the client, or of the one that Dask would use; without one, this process."""
    if client is None:
        client = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    if client is None:
        return _Local()
    if client.asynchronous:
        raise InvalidInputError("The Dask client is asynchronous, and a fit waits. Make it with asynchronous=False.")
    return _Cluster(client)


@contextmanager
def _sentences() -> Iterator[None]:
    """Say in a sentence what Dask says by the name of a task."""
    try:
        yield
    except OddsmithError:
        raise
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            raise InvalidInputError(
                "Workers died again and again over the same partition, most often for lack of memory. Cut the data "
                f"into smaller partitions, or give the workers more memory. Dask says: {error}"
            ) from error
        if "Cancelled" in kind or "Lost" in kind:
            raise InvalidInputError(
                "Dask lost rows that it cannot make again: their only copy was on a worker that is gone, or the "
                f"cluster was closed. Fit again from the files. Dask says: {error}"
            ) from error
        raise
