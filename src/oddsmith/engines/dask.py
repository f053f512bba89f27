"""The Dask engine: workers compute the statistics of their partitions, and only sums are transferred.

A pass is one graph: a task for each partition computes its statistic, tasks above merge sixteen neighbours at a time,
and the root is returned. The merge tree depends only on the number of partitions, so the same data gives bit-identical
results, whichever worker computes them and in whatever order. A task that ran twice, because its worker was lost or
seemed to be, is still one value in the graph: no row can count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter, methodcaller
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.cached_property import cached_property
from oddsmith.engines.base import ENGINES, Progress, S, merged
from oddsmith.engines.blas_threads import one_blas_thread
from oddsmith.engines.dask_collections import Client, Collection, Lazy, aligned, checked_rows, dask_package, is_frame
from oddsmith.engines.dask_collections import partitions as list_partitions
from oddsmith.engines.files.blocks import nbytes
from oddsmith.engines.partitioned import PartedSource, Piece, as_it_is, check_columns
from oddsmith.engines.scan import SAMPLE_BYTES, explaining, offers
from oddsmith.engines.text_formats import SAMPLED_ROWS
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.rows import SplitRows

Fields: TypeAlias = Any
"""The computed fields of a `Piece`: a pandas table or an array, its labels, weights and offsets, number and name."""
FAN_IN = 16  # Statistics that one task merges.
SMALL_BYTES = 1 << 14  # What is no larger than this goes out with each task: fetching it from another would take longer
KEPT_SHARE = 0.5  # The share of memory that encoded blocks may take; workers begin to spill at 0.6.


@dataclass
class _PersistedBlocks:
    """Encoded blocks of one ``encode`` that stay on the workers during a fit, by partition; rows of the first pass."""

    rows: int | None = None
    encode: Callable[[Piece], Any] | None = None
    scheduler: _Scheduler | None = None
    blocks: dict[int, Lazy] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DaskParts:
    """The partitions of a Dask DataFrame, or the row chunks of a Dask Array, as pieces; see `DaskParts.open`.

    Nothing is computed before a fold.
    """

    data: Collection
    y: Collection | None = None
    s: Collection | None = None
    offset: Collection | None = None
    client: Client | None = None
    dtype: str | None = None
    memory: ClassVar[int] = SAMPLE_BYTES
    _persisted: _PersistedBlocks = field(default_factory=_PersistedBlocks, compare=False, repr=False)

    @classmethod
    def open(
        cls,
        data: object,
        y: Collection | None = None,
        s: Collection | None = None,
        offset: Collection | None = None,
        client: Client | None = None,
        dtype: str | None = None,
    ) -> DaskParts:
        """Return the pieces of a Dask DataFrame or Array; column chunks are joined.

        Chunk sizes may be unknown. ``y``, ``s`` and ``offset`` (Series or Arrays) are labels, weights and offsets
        outside the table, with the same partitions. ``client`` defaults to the current one or, without one, to Dask's
        threads. ``dtype`` is the type of the encoded blocks on the workers: float32 halves their memory.

        >>> import dask.array as da
        >>> parts = DaskParts.open(da.ones((6, 2), chunks=(2, 1)), y=da.zeros(6, chunks=3))
        >>> len(parts.pieces), parts.expected_rows
        (3, 6)
        """
        dask_package()
        if client is not None and not offers(client, "scheduler_info"):
            raise InvalidTypeError(f"client is a {type(client).__name__}, expected a distributed.Client or None.")
        if dtype not in (None, "float32", "float64"):
            raise InvalidInputError(f"dtype must be 'float32', 'float64' or None, found {dtype!r}.")
        rows = checked_rows(data)
        y, s, offset = aligned("y", y, rows), aligned("sample_weight", s, rows), aligned("offset", offset, rows)
        return cls(data=rows, y=y, s=s, offset=offset, client=client, dtype=dtype)

    @property
    def engine(self) -> DaskEngine:
        return DaskEngine(self.client)

    @property
    def columns(self) -> tuple[str, ...] | None:
        return tuple(self.data.columns) if is_frame(self.data) else None

    @cached_property
    def expected_rows(self) -> int:
        """The number of rows; if Dask does not know it, the rows of one partition (which is read) times their number.

        This keeps the sample drawn in the first pass from containing everything. For up to four partitions it may: 0.
        """
        if not is_frame(self.data) and not np.isnan(self.data.chunks[0]).any():
            return int(sum(self.data.chunks[0]))
        count = len(self.pieces)
        if count <= 4:
            return 0
        shape = _lazy(attrgetter("shape"))(self.pieces[count // 2][0])
        return count * int(_scheduler(self.client).compute([shape], shape, None)[0])

    @cached_property
    def pieces(self) -> list[tuple[Any, ...]]:
        """The lazy fields of each `Piece`, in order."""
        found = list_partitions((self.data, self.y, self.s, self.offset))
        return [(*some, i, f"partition {i} of {len(found)}") for i, some in enumerate(found)]

    def choose(self, columns: Iterable[str]) -> DaskParts:
        """Return the same pieces with only these columns read.

        >>> import dask.dataframe as dd, pandas as pd
        >>> table = dd.from_pandas(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), npartitions=2)
        >>> DaskParts.open(table).choose(["b"]).columns
        ('b',)
        """
        wanted, known = list(columns), self.columns
        if known is None:
            raise InvalidInputError(
                f"A Dask Array has no named columns, so {wanted} cannot be chosen. Pass a DataFrame."
            )
        check_columns(wanted, known, "The table has")
        return replace(self, data=self.data[wanted], _persisted=_PersistedBlocks())

    def text_sample(self, columns: Sequence[str]) -> Any:
        """Return the first rows of the text columns, from the first partition; None if there are none."""
        if not is_frame(self.data):
            return None
        texts = [name for name in columns if str(self.data.dtypes[name]) in ("object", "str", "string")]
        first = self.data[texts].partitions[0] if texts else None
        return None if first is None else first.map_partitions(methodcaller("head", SAMPLED_ROWS)).compute()

    def release(self) -> None:
        """Release the blocks on the workers; also happens when the parts are garbage-collected."""
        persisted = self._persisted
        if persisted.scheduler is not None:
            persisted.scheduler.release(list(persisted.blocks.values()))
        persisted.encode, persisted.scheduler, persisted.blocks = None, None, {}


@ENGINES.register("dask")
@dataclass(frozen=True)
class DaskEngine:
    """Folds over Dask partitions, on the workers of a ``distributed`` client or on Dask's threads.

    1. The job (statistic, parameters) is sent once, as a task from which workers fetch it, or with each task if small.
    2. Encoded blocks are computed once for a fit and stay on the workers, as many as fit into half of their memory; the
       others are computed again in each pass.
    3. Each partition's statistic is computed where the partition is; neighbours are merged in a tree of fixed shape.

    A lost worker costs time: the graph recomputes its values. Cost of a pass: one small task for each partition and one
    for every fifteen of them; the statistic is sent log₁₆ of their number times.

    >>> import dask.array as da
    >>> from oddsmith.statistics import Counts
    >>> parts = DaskParts.open(da.zeros((4, 1), chunks=2), y=da.from_array(np.array([0, 1, 1, 1]), chunks=2))
    >>> source = PartedSource(parts, lambda piece: Block(piece.rows, piece.y), n_rows=4, M=1, K=2)
    >>> DaskEngine().fold(Counts, source, source.shape).weight.tolist()
    [1.0, 3.0]
    """

    client: Client | None = None
    name: str = "dask"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        parts: DaskParts = source.parts
        scheduler = _scheduler(self.client)
        job = source.job(statistic, params)
        try:
            with explaining(_explain):
                blocks = _persist_blocks(parts, source, scheduler)
                sent = scheduler.broadcast(job if len(blocks) < len(parts.pieces) else replace(job, encode=as_it_is))
                of_block, of_piece = _lazy(_of_block), _lazy(_of_piece)
                leaves = [
                    of_block(sent, blocks[i]) if i in blocks else of_piece(sent, *piece)
                    for i, piece in enumerate(parts.pieces)
                ]
                total = scheduler.compute(leaves, _merge_tree(leaves), progress)
            before = parts._persisted.rows
            if before is not None and total.rows != before and source.encode is not as_it_is:
                raise InvalidInputError(
                    f"This pass over the Dask data read {total.rows} rows, but the first one {before}: its "
                    "partitions change between computations. Fit again when the files are complete, or persist the "
                    "data first."
                )
            parts._persisted.rows = total.rows
        except BaseException:
            parts.release()
            raise
        result: S = total.content
        return result


@dataclass(frozen=True)
class _LocalScheduler:
    """Computes graphs on Dask's threads in this process, or on the configured scheduler."""

    def free_bytes(self) -> float:
        """Return the number of bytes available for blocks."""
        try:
            return KEPT_SHARE * float(import_module("psutil").virtual_memory().available)
        except ImportError:
            return float(1 << 30)

    def broadcast(self, content: object) -> Lazy | bytes:
        """Return a lazy `_Payload` of an object that is sent once, or its bytes."""
        # Not traversed: Dask would look for lazy values in every field of a record.
        return dask_package().delayed(_Payload(content), pure=False, traverse=False)

    def persist(self, lazy: list[Lazy]) -> tuple[Lazy, ...]:
        """Return the same lazy values, computed and kept."""
        return tuple(dask_package().persist(*lazy, optimize_graph=False))

    def release(self, persisted: list[Lazy]) -> None:
        """Release kept values; here, only the caller holds references."""

    def compute(self, leaves: list[Lazy], total: Lazy, progress: Progress | None) -> Any:
        """Return the value of ``total``, reporting how many of the ``leaves`` below it are done."""
        keys, done = {leaf.key for leaf in leaves}, 0

        def report(key: Hashable, *_: object) -> None:
            nonlocal done
            if key in keys and progress is not None:
                done += 1
                progress(done, len(keys))

        with import_module("dask.callbacks").Callback(posttask=report):
            return dask_package().compute(total, optimize_graph=False)[0]


@dataclass(frozen=True)
class _ClusterScheduler:
    """Computes graphs on the workers of a client, as `_LocalScheduler` does in this process."""

    client: Client

    def free_bytes(self) -> float:
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        shares = (
            KEPT_SHARE * (one["memory_limit"] or np.inf) - one["metrics"].get("managed_bytes", 0) for one in workers
        )
        return float(sum(max(0.0, share) for share in shares))

    def broadcast(self, content: object) -> Lazy | bytes:
        data: bytes = import_module("cloudpickle").dumps(content, protocol=5)
        # As bytes in a task, not scattered: a task can be run again when the worker that holds its result is lost.
        return data if len(data) <= SMALL_BYTES else _lazy(_unpickle)(data)

    def persist(self, lazy: list[Lazy]) -> tuple[Lazy, ...]:
        return tuple(self.client.persist(lazy, optimize_graph=False))

    def release(self, persisted: list[Lazy]) -> None:
        # Even if somebody (a traceback, say) still refers to it. A client that is closed has let go already.
        with suppress(Exception):
            self.client.cancel(import_module("distributed").futures_of(persisted))

    def compute(self, leaves: list[Lazy], total: Lazy, progress: Progress | None) -> Any:
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


_Scheduler: TypeAlias = _LocalScheduler | _ClusterScheduler


def _scheduler(client: Client | None) -> _Scheduler:
    """Return the cluster of the client, or of Dask's default client; without one, this process."""
    if client is None:
        client = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    if client is None:
        return _LocalScheduler()
    if client.asynchronous:
        raise InvalidInputError(
            "The Dask client is asynchronous, but a fit is synchronous. Create the client with asynchronous=False."
        )
    return _ClusterScheduler(client)


def _persist_blocks(parts: DaskParts, source: PartedSource, scheduler: _Scheduler) -> dict[int, Lazy]:
    """Return lazy encoded blocks kept on the workers, by partition: all of them, or as many as fit."""
    if source.encode is as_it_is:
        return {}
    persisted = parts._persisted
    if persisted.encode is not source.encode or persisted.scheduler != scheduler:
        parts.release()
        count, drawn, row_bytes = len(parts.pieces), source.drawn, 8.0 * (source.M + 2) + 4.0
        if drawn is not None and drawn.n_rows:
            row_bytes = nbytes(Block(drawn.X, drawn.t, drawn.s, drawn.offset)) / drawn.n_rows
        some = int(min(count, count * scheduler.free_bytes() / max(1.0, source.n_rows * row_bytes)))
        # Spread over all pieces, since neighbours often lie on one worker.
        chosen = [piece for i, piece in enumerate(parts.pieces) if (i + 1) * some // count > i * some // count]
        encode, encoded = scheduler.broadcast(source.encode), _lazy(_encoded)
        blocks = scheduler.persist([encoded(encode, *piece) for piece in chosen]) if chosen else ()
        persisted.encode, persisted.scheduler = source.encode, scheduler
        persisted.blocks = {piece[4]: block for piece, block in zip(chosen, blocks, strict=True)}
    return persisted.blocks


@dataclass(frozen=True)
class _Payload:
    """The result of a task, with its number of rows: it reports its size to Dask and is sent as bytes.

    Dask spills objects and places tasks by size. If Dask serialised arrays itself, they could arrive at other memory
    alignments, which changes the last bits of sums and slows compiled code.
    """

    content: Any
    rows: int = 0

    def __sizeof__(self) -> int:
        return 64 + nbytes(self.content)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (import_module("cloudpickle").dumps(self.content, protocol=5), self.rows)


def _unpickle(data: bytes, rows: int = 0) -> _Payload:
    return _Payload(import_module("cloudpickle").loads(data), rows)


def _received(sent: _Payload | bytes) -> Any:
    return (_unpickle(sent) if isinstance(sent, bytes) else sent).content


def _encoded(encode: _Payload | bytes, *piece: Fields) -> _Payload:
    return _Payload(_settled(_received(encode)(_piece(*piece))), int(piece[0].shape[0]))


def _of_block(job: _Payload | bytes, block: _Payload) -> _Payload:
    with one_blas_thread():
        return _Payload(_received(job).of(block.content), block.rows)


def _of_piece(job: _Payload | bytes, *piece: Fields) -> _Payload:
    received = _Payload(_received(job))
    return _of_block(received, _encoded(_Payload(received.content.encode), *piece))


def _piece(rows: Fields, y: Fields, s: Fields, offset: Fields, number: int, name: str) -> Piece:
    """Return a partition with its labels, weights and offsets; refuse any that do not match its rows."""
    for what, part in (("y", y), ("sample_weight", s), ("offset", offset)):
        if part is not None and len(part) != rows.shape[0]:
            raise InvalidInputError(
                f"In {name} there are {rows.shape[0]} rows and {len(part)} entries of {what}. Cut both at the same "
                "rows: rechunk or repartition one like the other, or make it a column of the table."
            )
        if offers(part, "index") and offers(rows, "index") and not part.index.equals(rows.index):
            raise InvalidInputError(
                f"In {name} the index of {what} differs from that of the rows. Join both into one table; or, if the "
                f"order is the same anyway, pass {what}.to_dask_array()."
            )
    return Piece(rows, y, s=s, offset=offset, number=number, name=name)


def _settled(block: object) -> object:
    """Return an encoded block with aligned arrays; a transferred block may not be aligned."""
    if not isinstance(block, Block):
        return block
    if isinstance(block.Phi, SplitRows):
        return block  # compact: its arrays were made here
    Phi = block.X
    arrays = (*((Phi.data, Phi.indices, Phi.indptr) if block.is_sparse else (Phi,)), block.t, block.s, block.offset)
    if all(array is None or array.flags.aligned for array in arrays):
        return block
    aligned: list[Any] = [None if array is None else np.require(array, requirements="A") for array in arrays]
    *parts, t, s, offset = aligned
    Phi = sparse.csr_array(tuple(parts), shape=Phi.shape) if block.is_sparse else parts[0]
    return Block(Phi, t, s, offset, block.first_row)


def _merge_tree(leaves: list[Lazy]) -> Lazy:
    """Return the lazy merge of lazy statistics, `FAN_IN` neighbours at a time."""
    merge = _lazy(_merge)
    while True:
        leaves = [merge(*leaves[i : i + FAN_IN]) for i in range(0, len(leaves), FAN_IN)]
        if len(leaves) == 1:
            return leaves[0]


def _merge(*parts: _Payload) -> _Payload:
    return _Payload(merged((part.content for part in parts), lambda: None), sum(part.rows for part in parts))


def _lazy(function: Callable[..., object]) -> Callable[..., Lazy]:
    delayed: Callable[..., Lazy] = dask_package().delayed(function, pure=False, traverse=False)
    return delayed


def _explain(error: Exception) -> OddsmithError | None:
    """Raise a helpful error in place of Dask's."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        return InvalidInputError(
            "Workers died repeatedly on the same partition, usually for lack of memory. Use smaller partitions, or "
            f"give the workers more memory. Dask says: {error}"
        )
    if "Cancelled" in kind or "Lost" in kind:
        return InvalidInputError(
            "Dask lost rows that it cannot recompute: their only copy was on a lost worker, or the cluster was "
            f"closed. Fit again from the files. Dask says: {error}"
        )
    return None
