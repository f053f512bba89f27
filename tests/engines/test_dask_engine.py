"""The Dask engine: every row once and in order, blocks kept and let go of, lost workers, lazy results."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from oddsmith import errors
from oddsmith.block import Block
from oddsmith.engines import DaskEngine, DaskParts, PartedSource, Piece
from oddsmith.engines.dask import _ClusterScheduler, _LocalScheduler, _scheduler, _settled
from oddsmith.engines.dask_collections import apply, is_dask
from oddsmith.engines.partitioned import as_it_is
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics import Counts, Curvature, CurvatureParams
from oddsmith.testing import dask_source, lay_out_dask
from oddsmith.testing.folds import _same_bits

# Workers cannot import this file by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N, M = 96, 3
CURVATURE = CurvatureParams(W=np.full((1, M), 0.1), b=np.zeros(1), center=np.zeros(M))


@pytest.fixture
def both(dask_client: Any) -> Any:
    """Two workers that are there, whatever the test before did to them."""
    dask_client.wait_for_workers(2, timeout=60)
    assert held(dask_client) == 0
    return dask_client


@dataclass(frozen=True)
class Rows:
    """All rows, in the order in which they were merged, and the numbers of the pieces that they came in."""

    values: tuple[Any, ...]
    numbers: tuple[int, ...]

    @classmethod
    def zero(cls, shape: Shape, params: Any) -> "Rows":
        return cls((), ())

    @classmethod
    def of(cls, piece: Piece, params: Any) -> "Rows":
        columns = [np.asarray(piece.rows), *(np.asarray(v) for v in (piece.y, piece.s, piece.offset) if v is not None)]
        return cls(tuple(map(tuple, np.column_stack(columns).tolist())), (piece.number,))

    def merge(self, other: "Rows") -> "Rows":
        return Rows(self.values + other.values, self.numbers + other.numbers)


def collected(parts: DaskParts) -> Rows:
    return parts.engine.fold(Rows, PartedSource(parts), None)  # type: ignore[type-var]


def arrays(n: int = N, K: int = 2) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(n, M)) + 3.0, rng.integers(0, K, n).astype(np.int32)
    return X, t, K, rng.uniform(0.0, 2.0, n), rng.normal(size=(n, K - 1))


def held(client: Any) -> int:
    """How many results the workers hold, once what was let go of is gone."""
    for _ in range(100):
        count = sum(client.run(lambda dask_worker: len(dask_worker.data)).values())
        if count == 0:
            break
        time.sleep(0.05)
    return int(count)


def counting(calls: list[int], then: Callable[[Piece], Any] | None = None) -> Callable[[Piece], Block]:
    """An ``encode`` that notes the numbers of the pieces it was given."""

    def encode(piece: Piece) -> Block:
        calls.append(piece.number)
        if then is not None:
            then(piece)
        return Block(piece.rows, piece.y, piece.s, piece.offset)

    return encode


def on(client: Any, source: PartedSource, encode: Callable[[Piece], Any] | None = None) -> PartedSource:
    parts = replace(source.parts, client=client)
    return replace(source, parts=parts, encode=encode or source.encode)


# Rows


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_every_row_comes_once_and_in_order_from_chunks_of_any_size(chunks: list[int]) -> None:
    n = sum(chunks)
    values = np.arange(n, dtype=float)
    X = da.from_array(np.column_stack([values, -values]), chunks=(tuple(chunks), 1))
    y = da.from_array(values + 0.5, chunks=max(1, n))
    found = collected(DaskParts.open(X, y, offset=da.stack([y, -y], axis=1)))
    assert found.numbers == tuple(range(len(chunks) if n else 1))
    assert found.values == tuple((v, -v, v + 0.5, v + 0.5, -v - 0.5) for v in values)


def test_a_filter_leaves_chunks_of_unknown_size_and_no_row_is_lost() -> None:
    X, t, *_ = arrays()
    lazy, y = da.from_array(X, chunks=(10, 2)), da.from_array(t, chunks=10)
    some = lazy[:, 0] > 3.0
    parts = DaskParts.open(lazy[some], y[some])
    assert np.isnan(parts.data.chunks[0]).all()
    assert collected(parts).values == tuple(map(tuple, np.column_stack([X, t])[X[:, 0] > 3.0].tolist()))


def test_a_frame_with_labels_beside_it_comes_whole() -> None:
    X, t, *_ = arrays()
    table = lay_out_dask(pd.DataFrame(X, columns=list("abc")).assign(t=t), 7)
    for y in (table["t"], table["t"].to_dask_array()):
        parts = DaskParts.open(table, y=y).choose(["b", "a"])
        assert parts.columns == ("b", "a")
        assert collected(parts).values == tuple(map(tuple, np.column_stack([X[:, 1], X[:, 0], t]).tolist()))


def test_only_chosen_columns_are_read() -> None:
    asked: list[Any] = []

    def read(start: int, columns: Any = None) -> Any:
        asked.append(columns)
        table = pd.DataFrame({"a": [start, start + 1], "b": [0.5, 1.5], "c": ["x", "y"]})
        return table if columns is None else table[columns]

    lazy = dd.from_map(read, [0, 2, 4], meta=read(0))
    for beside, expected in ((None, 2), (lazy["a"], 3)):
        asked.clear()
        assert len(collected(DaskParts.open(lazy, y=beside).choose(["b"])).values[0]) == expected - 1
        assert {tuple(columns) for columns in asked} == {("b",), ("a",)} if beside is not None else {("b",)}


def test_partitions_that_dask_would_read_together_stay_beside_their_labels(tmp_path: Any) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 30))).rename(columns=str)
    for i in range(12):
        table.iloc[5 * i : 5 * i + 5].to_parquet(tmp_path / f"{i:02}.parquet")
    lazy = dd.read_parquet(tmp_path)
    assert len(lazy["0"].to_delayed()) < 12
    for parts in (DaskParts.open(lazy, y=lazy["0"]), DaskParts.open(lazy).choose(["1", "2", "0"])):
        found = collected(parts.choose(["1", "2"]) if parts.y is not None else parts)
        assert found.values == tuple(map(tuple, table[["1", "2", "0"]].to_numpy().tolist()))


def test_sizes_are_known_where_dask_knows_them_and_else_those_of_one_partition(both: Any) -> None:
    whole = da.ones((60, 2), chunks=(10, 1))
    assert DaskParts.open(whole).columns is None
    assert DaskParts.open(whole).expected_rows == 60
    unknown = whole[whole[:, 0] > 0.0]
    for client in (None, both):
        assert DaskParts.open(unknown, client=client).expected_rows == 60
        assert DaskParts.open(frame(70, 10), client=client).expected_rows == 70
    assert DaskParts.open(frame(40, 10)).expected_rows == 0


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a lazy value": (lambda: DaskParts.open(dask.delayed(1)), "DataFrame or Array, found a Delayed"),
    "a column": (lambda: DaskParts.open(frame(4, 2)["a"]), "DataFrame or Array, found a Series"),
    "lazy labels": (lambda: DaskParts.open(da.ones((3, 1)), y=dask.delayed(1)), "y is a Delayed"),
    "an array": (lambda: DaskParts.open(np.eye(2)), "DataFrame or Array, found a ndarray"),
    "one dimension": (lambda: DaskParts.open(da.ones(3)), "has 1 dimensions, expected 2"),
    "names that are numbers": (lambda: DaskParts.open(lay_out_dask(pd.DataFrame(np.eye(2)), 1)), "columns=str"),
    "labels in memory": (lambda: DaskParts.open(da.ones((3, 1)), y=np.ones(3)), "y is a ndarray.*from_array"),
    "fewer labels": (lambda: DaskParts.open(da.ones((3, 1)), y=da.ones(2)), "3 rows but 2 entries of y"),
    "other partitions": (
        lambda: DaskParts.open(frame(4, 2), s=frame(4, 1)["a"]),
        "sample_weight has 4 partitions, but the rows have 2",
    ),
    "another data type": (lambda: DaskParts.open(da.ones((3, 1)), dtype="int8"), "dtype must be 'float32'"),
    "a client of another kind": (lambda: DaskParts.open(da.ones((3, 1)), client="tcp://"), "client is a str"),
    "columns of an array": (lambda: DaskParts.open(da.ones((3, 1))).choose(["a"]), "has no named columns"),
    "a column that is not there": (lambda: DaskParts.open(frame(4, 2)).choose(["z"]), "no column 'z'.*'a', 'b'"),
}


def frame(n: int, rows: int) -> Any:
    return lay_out_dask(pd.DataFrame({"a": np.arange(n), "b": 1.0}), rows)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_folded_over_is_refused_in_a_sentence(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        make()


def test_partitions_cut_at_other_rows_are_refused() -> None:
    table = dd.from_pandas(pd.DataFrame({"a": range(10)}), npartitions=2)
    y = dd.from_pandas(pd.Series(range(10)), npartitions=2).repartition(divisions=(0, 3, 9))
    with pytest.raises(InvalidInputError, match="The partitions of y differ from those of the table"):
        DaskParts.open(table, y=y)
    # Where divisions are not known it is found out by the rows themselves.
    parts = DaskParts.open(table.clear_divisions(), y=y.clear_divisions())
    with pytest.raises(InvalidInputError, match=r"partition \d of 2 there are 5 rows and [37] entries of y"):
        collected(parts)


def test_labels_of_other_rows_are_refused_by_their_index() -> None:
    table = pd.DataFrame({"a": np.arange(10.0)}, index=np.arange(10) + 100)
    y = pd.Series(np.arange(10.0), index=table.index[::-1])
    rows, labels = lay_out_dask(table, 5), lay_out_dask(y.to_frame("y"), 5)["y"]
    with pytest.raises(
        InvalidInputError, match=r"partition \d of 2 the index of y differs from that of the rows.*to_dask_array"
    ):
        collected(DaskParts.open(rows, y=labels))
    found = collected(DaskParts.open(rows, y=labels.to_dask_array()))
    assert found.values == tuple((v, v) for v in np.arange(10.0))


# Folds


@pytest.mark.parametrize("name", list(STATISTICS))
def test_workers_and_threads_give_the_same_bits_and_again(name: str, both: Any) -> None:
    source = dask_source(*arrays(), rows=7)
    far, statistic = on(both, source), STATISTICS[name]
    params = statistic.example_params(Shape(M, 2), np.random.default_rng(0))[0]
    here = DaskEngine().fold(statistic, source, params)
    for _ in range(2):
        _same_bits(name, far.parts.engine.fold(statistic, far, params), here)


@pytest.mark.parametrize("size", [1, 100_000])
def test_small_jobs_go_out_with_each_task_and_large_ones_once(size: int, both: Any) -> None:
    source = on(both, dask_source(*arrays(), rows=7))
    params = replace(CURVATURE, V=np.zeros((1, size)))  # which this statistic passes over
    assert isinstance(_scheduler(both).broadcast(params), bytes) == (size == 1)
    expected = DaskEngine().fold(Curvature, on(None, source), params)
    for _ in range(2):
        _same_bits(f"params of {size} numbers", source.parts.engine.fold(Curvature, source, params), expected)
    source.parts.release()


def off_by_a_byte(array: np.ndarray) -> np.ndarray:
    """A copy at an address at which no array of its type would be made."""
    room = np.zeros(array.nbytes + 1, dtype=np.uint8)
    copy = room[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_arrays_that_came_to_odd_addresses_are_settled(form: Callable[[Any], Any]) -> None:
    X, t, _, s, offset = arrays(20)
    Phi = form(np.where(X > 3.0, X, 0.0))
    plain = Block(Phi, t, s, offset)
    assert _settled(plain) is plain
    odd: Any = off_by_a_byte(Phi) if isinstance(Phi, np.ndarray) else Phi.copy()
    if sparse.issparse(odd):
        odd.data = off_by_a_byte(odd.data)
    block = _settled(Block(odd, off_by_a_byte(t), s, offset))
    held = block.X.data if block.is_sparse else block.X
    assert held.flags.aligned and block.t.flags.aligned
    _same_bits("settled", Curvature.of(block, CURVATURE), Curvature.of(plain, CURVATURE))


@pytest.mark.parametrize("place", ["threads", "workers"])
def test_blocks_are_encoded_once_for_an_encode_and_released(place: str, both: Any, tmp_path: Any) -> None:
    def note(piece: Piece) -> None:
        with open(tmp_path / f"{piece.number}", "a") as file:
            file.write("x")

    def noted() -> list[int]:
        return sorted(int(path.name) for path in tmp_path.iterdir() for _ in path.read_text())

    source = on(both if place == "workers" else None, dask_source(*arrays(), rows=10), counting([], note))
    params = CURVATURE
    first = source.parts.engine.fold(Curvature, source, params)
    for _ in range(3):
        _same_bits("again", source.parts.engine.fold(Curvature, source, params), first)
    assert noted() == list(range(10))
    other = on(source.parts.client, source, counting([], note))
    assert other.parts._persisted is source.parts._persisted
    _same_bits("another encode", other.parts.engine.fold(Curvature, other, params), first)
    assert noted() == sorted([*range(10), *range(10)])
    assert len(source.parts._persisted.blocks) == 10
    source.parts.release()
    assert not source.parts._persisted.blocks and held(both) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_blocks_that_do_not_fit_are_made_again_to_the_same_bits(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    source = on(None, dask_source(*arrays(), rows=10), counting(calls))
    expected = DaskEngine().fold(Curvature, source, CURVATURE)
    source.parts.release()
    calls.clear()
    whole = N * (8 * (M + 2) + 4)
    monkeypatch.setattr(_LocalScheduler, "free_bytes", lambda self: share * whole + 1)
    for _ in range(3):
        _same_bits("kept in part", DaskEngine().fold(Curvature, source, CURVATURE), expected)
    kept = round(10 * share)
    assert len(source.parts._persisted.blocks) == kept
    assert len(calls) == kept + 3 * (10 - kept)


def test_room_is_half_of_what_workers_have_free(both: Any) -> None:
    limits = [worker["memory_limit"] for worker in both.scheduler_info(n_workers=-1)["workers"].values()]
    assert 0.9 * 0.5 * sum(limits) < _ClusterScheduler(both).free_bytes() <= 0.5 * sum(limits)


@pytest.mark.parametrize("place", ["threads", "workers"])
def test_progress_counts_partitions(place: str, both: Any) -> None:
    source = on(both if place == "workers" else None, dask_source(*arrays(), rows=10))
    for encode in (source.encode, as_it_is):
        calls: list[tuple[int, int]] = []
        statistic, params = (Curvature, CURVATURE) if encode is not as_it_is else (Rows, None)
        some = on(source.parts.client, source, encode)
        some.parts.engine.fold(statistic, some, params, progress=lambda *now, calls=calls: calls.append(now))
        assert calls == [(i, 10) for i in range(1, 11)]


@pytest.mark.parametrize("place", ["threads", "workers"])
def test_an_error_of_ours_comes_back_as_it_is_and_nothing_stays(place: str, both: Any) -> None:
    def refuse(piece: Piece) -> None:
        if piece.number == 5:
            raise InvalidInputError(f"Column 'a' has a hole in {piece.name}.")

    source = on(both if place == "workers" else None, dask_source(*arrays(), rows=10), counting([], refuse))
    with pytest.raises(InvalidInputError, match=r"^Column 'a' has a hole in partition 5 of 10\.$"):
        source.parts.engine.fold(Curvature, source, CURVATURE)
    assert not source.parts._persisted.blocks and held(both) == 0


def test_every_error_of_ours_survives_the_way_back() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.OddsmithError)
    ]
    assert len(kinds) > 5
    for kind in kinds:
        error = kind("solver", "newtn", ["newton"]) if kind is errors.UnknownNameError else kind("a sentence")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error)


@pytest.mark.parametrize("place", ["threads", "workers"])
def test_an_interrupt_stops_the_pass_and_lets_go_of_the_blocks(place: str, both: Any) -> None:
    source = on(both if place == "workers" else None, dask_source(*arrays(), rows=4))

    def interrupted(done: int, of: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        source.parts.engine.fold(Curvature, source, CURVATURE, progress=interrupted)
    assert not source.parts._persisted.blocks and held(both) == 0


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")  # an older Dask asks whether that is meant
def test_the_users_choice_of_scheduler_is_heard(both: Any) -> None:
    assert isinstance(_scheduler(both), _ClusterScheduler)
    assert isinstance(_scheduler(None), _LocalScheduler)
    with both.as_current():
        assert _scheduler(None) == _ClusterScheduler(both)
        with dask.config.set(scheduler="synchronous"):
            assert isinstance(_scheduler(None), _LocalScheduler)
    main, threads = threading.get_ident(), set()
    source = on(None, dask_source(*arrays(), rows=10), counting([], lambda piece: threads.add(threading.get_ident())))
    with dask.config.set(scheduler="synchronous"):
        DaskEngine().fold(Curvature, source, CURVATURE)
    assert threads == {main}


def test_partitions_that_change_between_passes_are_refused() -> None:
    times: list[int] = []

    def shrinking(number: int) -> Any:
        times.append(number)
        return pd.DataFrame({"a": np.arange(9.0 if len(times) > 4 else 10.0)})

    def encode(piece: Piece) -> Block:
        return Block(piece.rows.to_numpy(), np.zeros(len(piece.rows), dtype=np.int32))

    parts = DaskParts.open(dd.from_map(shrinking, range(4), meta=pd.DataFrame({"a": [0.0]})))
    assert len(collected(parts).values) == 40
    source = PartedSource(parts, encode, 40, M=1, K=2)
    with pytest.raises(InvalidInputError, match="read 36 rows, but the first one 40"):
        parts.engine.fold(Counts, source, source.shape)
    assert len(collected(parts).values) == 36  # a first pass again


# Workers that are lost


def slowly(piece: Piece) -> None:
    time.sleep(0.1)


def pids(client: Any) -> dict[str, int]:
    return dict(client.run(os.getpid))


@pytest.mark.parametrize("when", ["in the pass that encodes", "in a later pass"])
def test_a_killed_worker_changes_no_bit(when: str, both: Any) -> None:
    calls: list[int] = []
    here = on(None, dask_source(*arrays(), rows=8), counting(calls))
    expected = DaskEngine().fold(Curvature, here, CURVATURE)
    source = on(both, dask_source(*arrays(), rows=8), counting([], slowly))
    victim = sorted(pids(both).values())[0]
    killed: list[int] = []

    def kill(done: int, of: int) -> None:
        if not killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    engine = source.parts.engine
    if when == "in a later pass":
        engine.fold(Curvature, source, CURVATURE)
    found = [engine.fold(Curvature, source, CURVATURE, progress=kill) for _ in range(3)]
    assert killed and victim not in pids(both).values()
    for each in found:
        _same_bits("after a worker was killed", each, expected)
    assert found[0].rows == np.count_nonzero(arrays()[3])


def test_a_partition_that_kills_every_worker_is_given_up_with_a_sentence(both: Any) -> None:
    def die(piece: Piece) -> None:
        if piece.number == 1:
            os._exit(1)

    async def forgive(dask_scheduler: Any, failures: int) -> None:
        dask_scheduler.allowed_failures = failures

    both.run_on_scheduler(forgive, failures=0)
    source = on(both, dask_source(*arrays(), rows=48), counting([], die))
    try:
        with pytest.raises(InvalidInputError, match="smaller partitions, or give the workers more memory"):
            source.parts.engine.fold(Curvature, source, CURVATURE)
    finally:
        both.run_on_scheduler(forgive, failures=3)


def test_a_worker_that_returns_late_counts_no_row_twice(both: Any) -> None:
    """It is stopped in mid-pass and given up, its partitions are made elsewhere, then it goes on with its own.

    The last test with workers: one that was given up does not join again, and is not replaced.
    """
    source = on(both, dask_source(*arrays(), rows=8), counting([], slowly))
    address, late = sorted(pids(both).items())[0]

    async def give_up(dask_scheduler: Any) -> None:
        await dask_scheduler.remove_worker(address, stimulus_id="test", close=False)

    events: list[str] = []
    # On a busy machine the other worker may wait for what the stopped one holds.
    resume = threading.Timer(20.0, os.kill, (late, signal.SIGCONT))

    def progress(done: int, of: int) -> None:
        if done == 2:
            os.kill(late, signal.SIGSTOP)
            resume.start()
            both.run_on_scheduler(give_up)
            events.append("given up")
        if done == of - 3:
            os.kill(late, signal.SIGCONT)
            events.append("back")

    weight, rows = [], []
    for _ in range(3):
        counts = source.parts.engine.fold(Counts, source, source.shape, progress=progress if not events else None)
        weight.append(counts.weight.tolist())
        rows.append(counts.rows)
    resume.cancel()
    assert events == ["given up", "back"]
    _, t, _, s, _ = arrays()
    assert rows == [np.count_nonzero(s)] * 3
    np.testing.assert_allclose(weight, [np.bincount(t, s)] * 3, rtol=1e-12)


# Lazy results


def both_columns(rows: Any) -> np.ndarray:
    values = np.asarray(rows, dtype=float)
    return np.column_stack([values.sum(axis=1), -values.sum(axis=1)])


def words(rows: Any) -> np.ndarray:
    return np.where(np.asarray(rows, dtype=float).sum(axis=1) > 9.0, "many", "few").astype(object)


@pytest.mark.parametrize("chunks", [(1, 1), (7, 2), (N, 3)])
def test_functions_of_an_array_are_lazy_arrays(chunks: tuple[int, int]) -> None:
    X = arrays()[0]
    lazy = da.from_array(X, chunks=chunks)
    two, one = apply(lazy, both_columns, ("p", "q"), np.float64), apply(lazy, words, None, object)
    assert is_dask(two) and two.shape == (N, 2) and two.dtype == np.float64
    assert is_dask(one) and one.shape == (N,) and one.dtype == object
    np.testing.assert_array_equal(two.compute(), both_columns(X))
    np.testing.assert_array_equal(one.compute(), words(X))
    some = apply(lazy[lazy[:, 0] > 3.0], both_columns, ("p", "q"), np.float64)
    np.testing.assert_array_equal(some.compute(), both_columns(X[X[:, 0] > 3.0]))


def test_functions_of_a_frame_are_lazy_columns_beside_it() -> None:
    calls: list[int] = []
    table = pd.DataFrame(arrays()[0], columns=list("abc"), index=np.arange(N) * 3)
    lazy = lay_out_dask(table, 10)

    def noted(rows: Any) -> np.ndarray:
        calls.append(len(rows))
        return both_columns(rows)

    two, one = apply(lazy, noted, ("p", "q"), np.float64), apply(lazy, words, "word", object)
    assert not calls and list(two.columns) == ["p", "q"] and one.name == "word"
    found = two.compute()
    assert sorted(calls) == [6] + [10] * 9
    np.testing.assert_array_equal(found.to_numpy(), both_columns(table))
    np.testing.assert_array_equal(found.index, table.index)
    assert one.compute().tolist() == words(table).tolist()
    # A partition that a filter left empty has nothing to predict.
    none = apply(lazy[lazy["a"] > 1e6], noted, ("p", "q"), np.float64).compute()
    assert none.shape == (0, 2) and len(calls) == 10
    joined = lazy.assign(p=two["p"]).compute()
    np.testing.assert_array_equal(joined["p"], both_columns(table)[:, 0])


# Without Dask


def test_without_dask_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['dask'] = None\n"
        "from oddsmith.engines import DaskParts\n"
        "try:\n    DaskParts.open([])\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "pip install 'oddsmith[dask]'" in done.stdout, done.stderr
