"""The Spark engine: rows leave Spark once, none counts twice, and what goes wrong is said in a sentence."""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark import lay_out_spark, marks_of_spark, spark_session, spark_source

from oddsmith.block import Block
from oddsmith.engines import MemoryEngine, MemorySource, PartedSource, Piece, spark
from oddsmith.engines.scan import explaining
from oddsmith.engines.spark import SparkEngine, SparkParts, apply, is_spark
from oddsmith.engines.spark_tasks import put, take
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics import Counts, Moments, MomentsParams
from oddsmith.testing.folds import _Nearness, _same_bits

pytestmark = marks_of_spark()

N, M, ROWS = 1200, 3, 300
PARTS = 4


@pytest.fixture(scope="module")
def session() -> Any:
    from pyspark import cloudpickle

    # Executors cannot import the tests: what they define travels whole.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return spark_session()


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    t = rng.integers(0, 2, N).astype(np.int32)
    return {"X": rng.normal(size=(N, M)), "t": t, "K": 2, "s": rng.uniform(0.5, 2.0, N)}


def moments(source: PartedSource) -> Moments:
    return SparkEngine().fold(Moments, source, MomentsParams(1, "full"))


def same_bits(a: Any, b: Any) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)


@dataclass(frozen=True)
class Together:
    """Several statistics in one pass."""

    parts: tuple[Any, ...]

    @classmethod
    def zero(cls, shape: Shape, params: Any) -> "Together":
        return cls(tuple(statistic.zero(shape, given) for statistic, given in params))

    @classmethod
    def of(cls, block: Block, params: Any) -> "Together":
        return cls(tuple(statistic.of(block, given) for statistic, given in params))

    def merge(self, other: Any) -> "Together":
        return Together(tuple(one.merge(two) for one, two in zip(self.parts, other.parts, strict=True)))


@pytest.mark.parametrize(("n", "K"), [(0, 2), (400, 2), (1500, 3)])
def test_every_statistic_equals_that_of_the_memory_engine(session: Any, n: int, K: int) -> None:
    """What `check_engine` asks, of all statistics in one pass: a pass of Spark takes its time, however small."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, M)) * [1.0, 1e3, 1e-3] + 10.0
    given = X, rng.integers(0, K, n).astype(np.int32), K, rng.uniform(0.0, 2.0, n), rng.normal(size=(n, K - 1))
    params = [(s, p) for _, s in STATISTICS.items() for p in s.example_params(Shape(M, K), rng)]
    source = spark_source(*given, rows=1000)
    found = SparkEngine().fold(Together, source, params)
    again = SparkEngine().fold(Together, source, params)
    for (statistic, p), one, two in zip(params, found.parts, again.parts, strict=True):
        near = _Nearness(statistic, Block(*given[:2], *given[3:]), K, p)
        near.compare(statistic.__name__, one, MemoryEngine(1).fold(statistic, MemorySource(*given), p))
        _same_bits(statistic.__name__, two, one)


def test_neighbours_that_tasks_merge_give_the_same_sums(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = MemoryEngine().fold(Moments, MemorySource(**arrays()), MomentsParams(1, "full"))
    monkeypatch.setattr(spark, "MOST_RESULTS", 2)
    calls: list[tuple[int, int]] = []
    source = spark_source(**arrays(), rows=250)
    params = MomentsParams(1, "full")
    found = SparkEngine().fold(Moments, source, params, progress=lambda *at: calls.append(at))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=1e-12)
    assert calls == [(1, 2), (2, 2)]
    assert same_bits(found, moments(source))


@dataclass(frozen=True)
class Noting:
    """Passes batches, or pieces, on, and adds a line to a file for each call."""

    path: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        self.note()
        yield from batches

    def note(self) -> None:
        with open(self.path, "a") as file:
            file.write("once\n")

    def times(self) -> int:
        return len(Path(self.path).read_text().splitlines())


@dataclass(frozen=True)
class NotingEncode:
    """Encodes a piece, and notes it."""

    inner: Callable[[Piece], Block]
    noting: Noting

    def __call__(self, piece: Piece) -> Block:
        self.noting.note()
        return self.inner(piece)


def with_plan(source: PartedSource, function: Any, **options: Any) -> PartedSource:
    """The same source with a function of batches in its plan."""
    frame = source.parts.frame
    return PartedSource(
        SparkParts.open(frame.mapInArrow(function, frame.schema), **options), source.encode, N, M=M, K=2
    )


def test_rows_leave_spark_once_and_are_encoded_once_for_a_fit(session: Any, tmp_path: Path) -> None:
    reading, encoding = Noting(str(tmp_path / "read")), Noting(str(tmp_path / "encoded"))
    source = with_plan(spark_source(**arrays(), rows=ROWS), reading)
    fit = PartedSource(source.parts, NotingEncode(source.encode, encoding), N, M=M, K=2)
    assert source.parts.expected_rows == N
    folds = [moments(fit) for _ in range(3)]
    assert all(same_bits(fold, folds[0]) for fold in folds)
    assert (reading.times(), encoding.times()) == (PARTS, PARTS)
    # Another fit of the same parts encodes in its own way, from the rows that are there.
    again = PartedSource(source.parts, NotingEncode(source.encode, encoding), N, M=M, K=2)
    assert same_bits(moments(again), folds[0])
    assert (reading.times(), encoding.times()) == (PARTS, 2 * PARTS)


def test_without_a_cache_rows_are_persisted_and_handed_over_in_each_pass(session: Any, tmp_path: Path) -> None:
    reading = Noting(str(tmp_path / "read"))
    kept, streamed = (with_plan(spark_source(**arrays(), rows=ROWS), reading, cache=how) for how in (None, False))
    assert streamed.parts.expected_rows == N
    first = moments(streamed)
    assert reading.times() == PARTS
    np.testing.assert_allclose(first.mean, moments(kept).mean, rtol=1e-12)
    assert len(session.sparkContext._jsc.getPersistentRDDs()) == 2
    for source in (kept, streamed):
        source.parts.release()
    assert len(session.sparkContext._jsc.getPersistentRDDs()) == 0


def test_what_the_user_persisted_stays_so(session: Any) -> None:
    source = spark_source(**arrays(), rows=ROWS)
    mine = source.parts.frame.persist()
    parts = SparkParts.open(mine, cache=False)
    assert parts.choose(["x0"]).expected_rows == N
    parts.release()
    assert mine.storageLevel.useMemory
    mine.unpersist()


def attempt() -> int:
    from pyspark import TaskContext

    return int(TaskContext.get().attemptNumber())


@dataclass(frozen=True)
class Dying:
    """Kills the process it runs in at the first two attempts of a task, in the middle of its rows."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if attempt() < 2:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DyingCounts(Counts):
    """Counts, in a process that dies at the first two attempts."""

    @classmethod
    def of(cls, block: Block, params: Any) -> Any:
        if attempt() < 2:
            os.kill(os.getpid(), signal.SIGKILL)
        counts = Counts.of(block, params)
        return cls(counts.rows, counts.weight)

    def merge(self, other: Any) -> Any:
        return type(self)(self.rows + other.rows, self.weight + other.weight)


def test_a_task_that_fails_twice_counts_every_row_once(session: Any) -> None:
    calm = spark_source(**arrays(), rows=N)
    expected = SparkEngine().fold(Counts, calm, calm.shape)
    rough = with_plan(calm, Dying())
    found = SparkEngine().fold(DyingCounts, rough, rough.shape)
    assert found.rows == expected.rows == N
    assert np.array_equal(found.weight, expected.weight)
    assert same_bits(moments(rough), moments(calm))


def test_rows_whose_files_are_gone_are_read_again(session: Any, tmp_path: Path) -> None:
    source = spark_source(**arrays(), rows=ROWS)
    source = PartedSource(SparkParts.open(source.parts.frame, cache=tmp_path), source.encode, N, M=M, K=2)
    expected = moments(source)
    for half in (False, True):
        files = sorted((tmp_path / source.parts.key).iterdir())
        assert len(files) == 2 * PARTS
        for path in files[: PARTS if half else None]:
            path.unlink()
        assert same_bits(moments(source), expected)


@dataclass(frozen=True)
class Changing:
    """Loses a row whenever it is run again."""

    path: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.slice(1) if os.path.exists(self.path) else batch


def test_a_plan_that_gives_other_rows_each_time_is_refused(session: Any, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    source = with_plan(spark_source(**arrays(), rows=ROWS), Changing(str(lost)), cache=tmp_path)
    moments(source)
    lost.touch()
    for path in (tmp_path / source.parts.key).iterdir():
        path.unlink()
    with pytest.raises(InvalidInputError, match=r"had 1200 rows when it was first read and has 1196 now"):
        moments(source)


def test_files_are_removed_on_release_and_when_nobody_holds_the_parts(session: Any, tmp_path: Path) -> None:
    for by_hand in (True, False):
        source = spark_source(**arrays(), rows=ROWS)
        source = PartedSource(SparkParts.open(source.parts.frame, cache=tmp_path), source.encode, N, M=M, K=2)
        first = moments(source)
        assert len(list(tmp_path.iterdir())) == 1
        if by_hand:
            source.parts.release()
            assert not list(tmp_path.iterdir())
            assert same_bits(moments(source), first)  # what was let go can be held again
            source.parts.release()
            source.parts.release()
        else:
            del source
            gc.collect()
        until = time.monotonic() + 30
        while list(tmp_path.iterdir()) and time.monotonic() < until:
            assert not by_hand
            time.sleep(0.05)
        assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class Refusing:
    def __call__(self, piece: Piece) -> Block:
        raise InvalidInputError(f"{piece.name}: no such thing.")


@pytest.mark.parametrize(("cache", "most"), [(None, 2), (False, 32)])
def test_an_error_of_ours_comes_out_as_it_is_and_is_not_tried_again(
    session: Any, cache: Any, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "MOST_RESULTS", most)
    source = with_plan(spark_source(**arrays(), rows=ROWS), Noting(os.devnull), cache=cache)
    source = PartedSource(source.parts, Refusing(), N, M=M, K=2)
    with pytest.raises(InvalidInputError, match=r"^partition 0, rows 0 to 299: no such thing"):
        moments(source)


def test_only_the_columns_chosen_leave_spark(session: Any) -> None:
    table = pa.table({"a": [1.0, 2.0], "b": ["x", None], "n": [Decimal("1.5"), None], "list": [[1], [2]]})
    parts = SparkParts.open(lay_out_spark(table, 1).toDF("a.b", "c`d", "n", "list"))
    assert parts.columns == ("a.b", "c`d", "n", "list")
    chosen = parts.choose(["n", "c`d", "a.b"])
    assert chosen.columns == ("n", "c`d", "a.b") and chosen.choose(("n", "c`d", "a.b")) is chosen
    survey = SparkEngine().fold(Tables, PartedSource(chosen), None)
    assert survey.tables == (
        (0, "partition 0, rows 0 to 0", {"n": [1.5], "c`d": ["x"], "a.b": [1.0]}),
        (1 << 32, "partition 1, rows 0 to 0", {"n": [None], "c`d": [None], "a.b": [2.0]}),
    )
    added = apply(chosen.frame, lambda rows: rows.column("a.b").to_numpy() + 1.0, "more", float)
    assert added.columns == ["n", "c`d", "a.b", "more"] and [row.more for row in added.collect()] == [2.0, 3.0]
    with pytest.raises(InvalidInputError, match=r"Column 'list' has the Spark type array<"):
        SparkEngine().fold(Tables, PartedSource(parts), None)
    with pytest.raises(InvalidInputError, match=r"There is no column 'e'. The Spark DataFrame has: 'a.b',"):
        parts.choose(["e"])


@dataclass(frozen=True)
class Tables:
    """All rows, as they come."""

    tables: tuple[Any, ...] = ()

    @classmethod
    def zero(cls, shape: Any, params: Any) -> "Tables":
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: Any) -> "Tables":
        return cls(((piece.number, piece.name, piece.rows.to_pydict()),))

    def merge(self, other: "Tables") -> "Tables":
        return Tables(self.tables + other.tables)


def test_no_rows_fold_to_zero(session: Any) -> None:
    parts = SparkParts.open(lay_out_spark(pa.table({"x": pa.array([], pa.float64())}), 5))
    assert parts.expected_rows == 0
    assert SparkEngine().fold(Tables, PartedSource(parts), None) == Tables()


def test_what_cannot_be_read_is_refused(session: Any) -> None:
    with pytest.raises(InvalidTypeError, match="Found a ndarray where a Spark DataFrame was expected"):
        SparkParts.open(np.eye(2))
    assert not is_spark(np.eye(2)) and is_spark(session.range(1))
    frame = session.range(3)
    with pytest.raises(InvalidInputError, match="Two columns have the name 'id'"):
        SparkParts.open(frame.join(frame.withColumnRenamed("id", "other"), how="cross").toDF("id", "id"))
    stream = session.readStream.format("rate").load()
    with pytest.raises(InvalidInputError, match="is a stream"):
        SparkParts.open(stream)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'\n at java", r"executors has no module 'pyarrow'\. Install"),
        ("Encountered error while reading file file:///a.parquet. Details: x", r"^file:///a.parquet cannot be read by"),
        ("OSError: [Errno 28] No space left on device", r"disk of an executor is full\. .* cache=False"),
    ],
)
def test_what_spark_says_in_a_page_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(OddsmithError, match=sentence), explaining(spark._explain):
        raise RuntimeError(text)


def test_columns_are_added_lazily(session: Any, tmp_path: Path) -> None:
    table = pa.table({"word": ["a", None, "c"], "x": [1.0, 2.0, None]})
    noting = Noting(str(tmp_path / "called"))

    def halves(rows: pa.Table) -> Any:
        noting.note()
        x = rows.column("x").to_numpy()
        return np.column_stack([x / 2, x * 2])

    frame = apply(lay_out_spark(table, 2), halves, ["half", "twice"], float)
    assert not Path(noting.path).exists()
    assert frame.columns == ["word", "x", "half", "twice"]
    found = [row.asDict() for row in frame.collect()]
    assert [row["word"] for row in found] == ["a", None, "c"]
    assert [row["half"] for row in found][:2] == [0.5, 1.0] and np.isnan(found[2]["twice"])
    for values, dtype, kind in (
        (["p", None, "r"], object, "string"),
        ([True, False, True], bool, "boolean"),
        ([3, 1, 2], np.int32, "bigint"),
    ):
        one = apply(lay_out_spark(table, 3), lambda rows, values=values: np.array(values), "found", dtype)
        assert dict(one.dtypes)["found"] == kind
        assert [row.found for row in one.collect()] == values
    with pytest.raises(InvalidInputError, match="already has a column 'x'"):
        apply(frame, halves, "x", float)


def test_a_shelf_holds_things_whole_or_not_at_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((0, 3), (5, 2), (1,), (0,))]
    things = [np.asfortranarray(arrays[1]), arrays, pa.table({"a": ["x", None], "b": [1, 2]}), {"plain": 1}, arrays[3]]
    assert put(tmp_path / "a", things) == len(things)
    back = list(take(tmp_path / "a"))
    assert np.array_equal(back[0], arrays[1]) and back[0].flags.f_contiguous and not back[0].flags.writeable
    assert all(np.array_equal(x, y) and x.ctypes.data % 64 == 0 for x, y in zip(back[1], arrays, strict=True) if x.size)
    assert back[2].equals(things[2]) and back[3] == {"plain": 1} and back[4].shape == (0,)

    def failing() -> Iterator[Any]:
        yield arrays[1]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        put(tmp_path / "b", failing())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
