"""Spark DataFrames that are Parquet files: tasks read them, and what comes out is what Spark hands over."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import marks_of_spark, spark_session

from oddsmith import LogisticRegression, scan
from oddsmith.engines import PartedSource, Piece, spark_files
from oddsmith.engines.spark import SparkEngine, SparkParts
from oddsmith.engines.spark_files import file_partitions
from oddsmith.errors import InvalidInputError

pytestmark = marks_of_spark()

N, FILES, GROUP = 300, 3, 60
UNITS = FILES * -(-(N // FILES) // GROUP)


@pytest.fixture(scope="module")
def session() -> Any:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return spark_session()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of several row groups, each of which is a unit."""
    monkeypatch.setattr(spark_files, "PIECE", 960)
    monkeypatch.setattr(spark_files, "LARGEST", 960)
    monkeypatch.setattr(spark_files, "row_bytes", lambda schema: 960 // GROUP)
    monkeypatch.setattr("oddsmith.engines.files.columnar.row_bytes", lambda schema: 960 // GROUP)
    folder = tmp_path / "50% of rows"
    folder.mkdir()
    write(folder)
    return folder


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    t = rng.integers(0, 2, N)
    holes = rng.random(N) < 0.1
    return pa.table(
        {
            "mass": rng.normal(size=N) + t,
            "height": pa.array(rng.integers(0, 9, N), pa.int16()),
            "width": pa.array(rng.normal(size=N).astype(np.float32)),
            "site": np.array(["hill", "lake", "moor"])[rng.integers(0, 3, N)],
            "wet": pa.array(rng.random(N) < 0.5),
            "kind": np.array(["ash", "birch"])[t],
            "gap": pa.array(rng.normal(size=N), mask=holes),
            "word": pa.array(["a"] * N, mask=holes),
            "day": pa.array(np.arange(N), pa.timestamp("us")),
        }
    )


def write(folder: Path) -> None:
    table = rows()
    for i in range(FILES):
        part = table.slice(i * N // FILES, N // FILES)
        if i == 1:  # Spark sees words in both
            part = part.set_column(part.schema.get_field_index("site"), "site", part["site"].dictionary_encode())
        pq.write_table(part, folder / f"part {i}.parquet", row_group_size=GROUP, write_page_checksum=True)


@dataclass(frozen=True)
class Rows:
    """All rows, as they come, and from where; the process dies twice of the piece that params name."""

    names: tuple[str, ...] = ()
    rows: tuple[Any, ...] = ()

    @classmethod
    def zero(cls, shape: Any, params: Any) -> "Rows":
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: Any) -> "Rows":
        if piece.name == params:
            from pyspark import TaskContext

            if TaskContext.get().attemptNumber() < 2:
                os.kill(os.getpid(), signal.SIGKILL)
        types = tuple(map(str, piece.rows.schema.types))
        return cls((piece.name,), tuple((types, *row.values()) for row in piece.rows.to_pylist()))

    def merge(self, other: "Rows") -> "Rows":
        return Rows(self.names + other.names, self.rows + other.rows)


PLAIN = ["gap", "word", "mass", "height", "width", "site", "wet"]


def every_row(parts: SparkParts, params: Any = None) -> Rows:
    return SparkEngine().fold(Rows, PartedSource(parts), params)


def test_tasks_read_the_rows_that_spark_would_hand_over(session: Any, folder: Path) -> None:
    frame = session.read.parquet(str(folder))
    direct = SparkParts.open(frame).choose(PLAIN)
    assert direct.expected_rows == N and direct._cached.reads_files
    found = every_row(direct, "'part 1.parquet', row group 0")  # whose task fails twice
    handed = SparkParts.open(frame, direct=False).choose(PLAIN)
    expected = every_row(handed)
    assert not handed._cached.reads_files
    assert len(found.rows) == N and sorted(map(repr, found.rows)) == sorted(map(repr, expected.rows))
    assert len(found.names) == UNITS and found.names[:2] == (
        "'part 0.parquet', row group 0",
        "'part 0.parquet', row group 1",
    )


def test_a_model_is_that_of_memory_and_its_blocks_are_made_once(session: Any, folder: Path, tmp_path: Path) -> None:
    columns = ["mass", "height", "width", "site", "wet", "kind"]
    frame = session.read.parquet(str(folder)).select(columns)
    memory = LogisticRegression(1.0).fit(rows().select(columns[:-1]), rows()["kind"].to_numpy(zero_copy_only=False))
    cache = tmp_path / "cache"
    fits = [LogisticRegression(1.0).fit(scan(frame, cache=where), y="kind") for where in (cache, False)]
    for fit in fits:
        np.testing.assert_allclose(fit.coef_, memory.coef_, rtol=1e-10)
        assert np.array_equal(fit.coef_, fits[0].coef_) and fit.summary().n_rows == N
    parts = SparkParts.open(frame, cache=cache)
    source = PartedSource(parts, Encode(), N, M=1, K=2)
    first = SparkEngine().fold(Rows, source, None)
    kept = sorted((cache / parts.key).iterdir())
    assert len(kept) == UNITS
    kept[0].unlink()
    assert SparkEngine().fold(Rows, source, None) == first
    assert sorted((cache / parts.key).iterdir()) == kept
    parts.release()
    assert not (cache / parts.key).exists()


@dataclass(frozen=True)
class Encode:
    """Keeps a piece as it is."""

    def __call__(self, piece: Piece) -> Piece:
        return piece


def test_only_what_is_nothing_but_plain_columns_of_files_is_read_by_tasks(session: Any, folder: Path) -> None:
    read, path = session.read, str(folder)
    frame = read.parquet(path)
    some = frame.select("mass", "kind")
    frame.select("mass", "height").write.partitionBy("height").parquet(f"{path}/../by height")
    keyed = read.parquet(f"{path}/../by height")
    some.write.orc(f"{path}/../orc")
    frame.createOrReplaceTempView("trees")
    direct = {
        "some": some,
        "view": session.sql("select kind, mass from trees"),
        "glob": read.parquet(f"{path}/*[01].parquet").select("kind"),
        "without its keys": keyed.select("mass"),
        "merged": read.option("mergeSchema", True).parquet(path).select("mass"),
    }
    assert all(file_partitions(one) for one in direct.values())
    assert sum(unit.rows for unit in file_partitions(direct["glob"])) == 2 * N // FILES
    persisted = frame.select("width").persist()
    indirect = {
        "a time": frame,
        "filter": some.where("mass > 0"),
        "new column": some.withColumn("twice", some.mass * 2),
        "renamed": some.withColumnRenamed("mass", "m"),
        "join": some.join(frame.select("kind").distinct(), "kind"),
        "union": some.union(some),
        "limit": some.limit(7),
        "sample": some.sample(0.5, seed=1),
        "sorted": some.orderBy("mass"),
        "repartitioned": some.repartition(2),
        "persisted": persisted,
        "twice": read.parquet(path, path).select("mass"),
        "with its keys": keyed,
        "other format": read.orc(f"{path}/../orc"),
        "other type": read.schema("height int").parquet(path),
        "other case": read.schema("MASS double").parquet(path),
        "column that is not there": read.schema("mass double, depth double").parquet(path),
        "option": read.option("ignoreCorruptFiles", True).parquet(path).select("mass"),
        "in memory": session.range(3),
    }
    assert [name for name, one in indirect.items() if file_partitions(one)] == []
    persisted.unpersist()
    for setting in ("spark.sql.files.ignoreMissingFiles", "parquet.crypto.factory.class"):
        session.conf.set(setting, "true")
        assert not file_partitions(some)
        session.conf.unset(setting)
    assert file_partitions(some)


def test_a_column_that_one_file_lacks_is_left_to_spark(session: Any, folder: Path) -> None:
    path = folder / "part 2.parquet"
    pq.write_table(pq.read_table(path).drop_columns("width"), path)
    parts = SparkParts.open(session.read.parquet(str(folder))).choose(["width"])
    found = every_row(parts)
    assert not parts._cached.reads_files
    assert sum(row[1] is None for row in found.rows) == N // FILES


def test_a_file_that_is_damaged_or_changes_is_named(session: Any, folder: Path) -> None:
    frame = session.read.parquet(str(folder)).select("mass", "kind")
    parts = SparkParts.open(frame, cache=False)
    every_row(parts)
    path = folder / "part 1.parquet"
    sound = path.read_bytes()
    start = pq.read_metadata(path).row_group(1).column(0).data_page_offset + 60
    path.write_bytes(sound[:start] + bytes(byte ^ 255 for byte in sound[start : start + 20]) + sound[start + 20 :])
    with pytest.raises(InvalidInputError, match=r"'part 1.parquet' has changed since it was opened"):
        every_row(parts)
    with pytest.raises(
        InvalidInputError, match=r"^'part 1.parquet', row group 1 cannot be read: .* Nothing was fitted"
    ):
        LogisticRegression().fit(frame, y="kind")
    path.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(InvalidInputError, match=r"part%201.parquet cannot be read by Spark"):
        LogisticRegression().fit(frame, y="kind")
