"""Folds over files: the same sums whatever is kept, wherever, on any number of threads; and a bound on memory."""

import gc
import gzip
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy import sparse
from tests.engines.files_cases import Seen, see

from oddsmith import GaussianClassifier, LogisticRegression
from oddsmith.block import Block
from oddsmith.engines import FilesEngine, PartedSource
from oddsmith.engines.files import FileParts
from oddsmith.engines.files import block_cache as keeping
from oddsmith.engines.files import settings as sizes
from oddsmith.engines.files.block_cache import BlockCache, CacheFolder, CacheWriter, MemoryBudget
from oddsmith.engines.files.blocks import BlockWriter, read_blocks
from oddsmith.engines.files.columnar import ParquetTable
from oddsmith.engines.files.table_file import FileRange
from oddsmith.engines.files.text import TextTable
from oddsmith.engines.partitioned import as_it_is
from oddsmith.errors import InvalidInputError, OddsmithWarning
from oddsmith.statistics import Counts, Moments, MomentsParams
from oddsmith.testing import check_engine, files_source

N = 3000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows."""
    monkeypatch.setattr(sizes, "PIECE", 4096)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was read."""
    names: list[str] = []
    for kind in (ParquetTable, TextTable):

        def read(self: Any, part: FileRange, schema: Any, rows: int, inner: Any = kind.read) -> Iterator[Any]:
            names.append(part.name)
            yield from inner(self, part, schema, rows)

        monkeypatch.setattr(kind, "read", read)
    return names


def source(format: str = "parquet", **how: Any) -> PartedSource:
    rng = np.random.default_rng(0)
    t = rng.integers(0, 3, N).astype(np.int32)
    X = rng.normal(size=(N, 4)) + t[:, None]
    return files_source(X, t, 3, rng.uniform(0.5, 2.0, N), rows=100, format=format, **how)


def sums(source: PartedSource, threads: int = 2) -> Any:
    return FilesEngine(threads).fold(Moments, source, MomentsParams(3, "full"))


def same(found: Any, expected: Any) -> None:
    for name in found.__dataclass_fields__:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize(
    ("threads", "format", "how"),
    [(1, "parquet", {}), (3, "csv", {"cache": True}), (3, "arrow", {"memory": "20MB"})],
    ids=["parquet", "csv", "arrow"],
)
def test_it_agrees_with_the_memory_engine(threads: int, format: str, how: dict[str, Any]) -> None:
    check_engine(FilesEngine(threads), partial(files_source, format=format, **how))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("format", ["parquet", "csv", "arrow"])
def test_what_is_kept_and_how_many_threads_there_are_changes_no_bit(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = sums(source(format), threads=1)
    assert expected.weight.sum() > N / 2
    ways = [(2, 0, False), (5, 0, True), (5, 20_000, tmp_path / "one"), (2, 20_000, True), (3, 10**9, False)]
    for threads, room, cache in [*ways, (5, 10**9, tmp_path / "two")]:
        monkeypatch.setattr(sizes.FileSettings, "kept", room)
        data = source(format, cache=cache)
        see(data.parts)
        for _ in range(3):
            same(sums(data, threads), expected)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_what_fits_is_read_once(format: str, reads: list[str]) -> None:
    data = source(format)
    see(data.parts)
    once = len(reads)
    assert once > 5
    for _ in range(3):
        sums(data)
    assert len(reads) == once
    sums(replace(data, encode=replace(data.encode)))  # type: ignore[type-var]
    assert len(reads) == 2 * once  # another encoding, and the tables made room for the blocks of the first


@pytest.mark.usefixtures("small")
def test_some_of_it_is_kept_if_not_all_fits(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes.FileSettings, "kept", 60_000)
    data = source()
    see(data.parts)
    once = len(reads)
    sums(data)
    sums(data)
    assert once < len(reads) < 3 * once
    assert data.parts._state.budget.left >= 0
    data.parts.forget()
    assert data.parts._state.budget.left == 60_000


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("format", "cache", "passes"), [("csv", None, 2), ("csv", False, 4), ("parquet", None, 4)])
def test_text_that_does_not_fit_is_read_twice_and_then_from_a_cache(
    format: str, cache: Any, passes: int, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes.FileSettings, "kept", 0)
    data = source(format, cache=cache)
    see(data.parts)
    once = len(reads)
    for _ in range(3):
        sums(data)
    assert len(reads) == passes * once


@pytest.mark.usefixtures("small")
def test_a_temporary_cache_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes.FileSettings, "kept", 0)
    data = source("csv")
    monkeypatch.setattr(keeping.tempfile, "mkdtemp", lambda **how: os.makedirs(tmp_path / "c") or str(tmp_path / "c"))
    sums(data)
    assert len(list(tmp_path.glob("c/*/*.blocks"))) > 5
    sums(replace(data, encode=replace(data.encode)))  # type: ignore[type-var]
    assert len(list(tmp_path.glob("c/*"))) == 1
    del data
    gc.collect()
    assert not (tmp_path / "c").exists()


@pytest.mark.usefixtures("small")
def test_a_cache_in_a_folder_serves_again_until_the_files_change(tmp_path: Path, reads: list[str]) -> None:
    data, cache = source("csv"), tmp_path / "cache"
    place = os.path.dirname(data.parts.files[0].file.path)

    def again() -> Any:
        return sums(replace(data, parts=FileParts.open(place, piece_rows=100, cache=cache)))

    expected = again()
    once = len(reads)
    same(again(), expected)
    assert len(reads) == once
    torn = next(cache.glob("*/*.blocks"))
    torn.write_bytes(torn.read_bytes()[:-9])
    same(again(), expected)
    assert len(reads) == once + 1  # what is not whole is made again
    same(again(), expected)
    assert len(reads) == once + 1
    time.sleep(0.01)
    os.utime(data.parts.files[0].file.path)
    same(again(), expected)
    assert len(reads) == 2 * once + 1


@pytest.mark.usefixtures("small")
def test_compressed_text_is_unpacked_again_only_for_rows_that_are_lost(tmp_path: Path, reads: list[str]) -> None:
    rows = "".join(f"{i},{i % 7}\n" for i in range(3000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"a,b\n{rows}".encode()))
    parts = FileParts.open(tmp_path / "t.csv.gz")
    whole = pa.concat_tables(see(parts).tables)
    once = len(reads)
    assert pa.concat_tables(see(parts).tables).equals(whole) and len(reads) == once
    lost = list(parts.tasks(needed=False))
    assert len(lost) > 5 and all(part.text is None for task in lost for part in task.ranges)
    assert pa.concat_tables([table for task in lost for table in parts.read(task)]).equals(whole)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_files_are_cut_once_unless_they_are_text(kind: str) -> None:
    parts = source(kind).parts
    first, second = (list(parts.tasks(needed=needed)) for needed in (True, False))
    assert [(part.first, part.last) for task in first for part in task.ranges] == [
        (part.first, part.last) for task in second for part in task.ranges
    ]
    assert all(one is two for one, two in zip(first, second, strict=True)) == (kind != "csv")
    assert next(parts.choose(parts.columns[:2]).tasks()) is not first[0]


def test_a_file_is_cut_with_one_look_at_its_column_names(tmp_path: Path) -> None:
    class Counting:
        looks = 0

        def __init__(self, schema: pa.Schema) -> None:
            self.field, self._names = schema.field, schema.names

        @property
        def names(self) -> list[str]:
            Counting.looks += 1
            return self._names

    parquet.write_table(pa.table({f"x{j}": [1.0, 2.0] for j in range(50)}), tmp_path / "a.parquet")
    parts = FileParts.open(tmp_path / "a.parquet")
    (table,) = parts.files
    assert len(list(replace(table, schema=Counting(table.schema)).ranges(parts.columns, 1000))) == 1
    assert Counting.looks == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("where", ["first", "later"])
def test_a_full_disk_is_a_warning_and_changes_no_sum(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes.FileSettings, "kept", 0)
    data = source("csv")
    expected = sums(data)
    data = source("csv")
    if where == "first":
        monkeypatch.setattr(keeping, "SPARE", 1 << 60)
    else:
        put, count = BlockWriter.add, iter(range(10**6))

        def add(self: BlockWriter, block: Block) -> None:
            if next(count) > 9:
                raise OSError(28, "No space left on device")
            put(self, block)

        monkeypatch.setattr(BlockWriter, "add", add)
    with pytest.warns(OddsmithWarning, match=r"could not be cached .* Free some space, or pass cache="):
        same(sums(data), expected)
    same(sums(data), expected)  # said once


@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array], ids=["C", "F", "CSR"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 7])
def test_blocks_come_back_from_a_file_as_they_were(form: Any, dtype: Any, n: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Phi = form(rng.normal(size=(n, 3)).astype(dtype) * (rng.random((n, 3)) < 0.5))
    blocks = [
        Block(Phi, np.arange(n, dtype=np.int32), first_row=5),
        Block(Phi, np.arange(n, dtype=np.int32), rng.random(n), rng.normal(size=(n, 2))),
    ]
    writer = BlockWriter(str(tmp_path / "b"))
    for block in blocks:
        writer.add(block)
    assert read_blocks(str(tmp_path / "b")) is None  # not yet there
    writer.finish()
    found = read_blocks(str(tmp_path / "b"))
    assert found is not None and os.listdir(tmp_path) == ["b"]
    for one, two in zip(found, blocks, strict=True):
        assert one.X.dtype == two.X.dtype and one.X.shape == two.X.shape and one.first_row == two.first_row
        assert abs(one.X - two.X).sum() == 0
        if form is not sparse.csr_array and n:
            assert one.X.flags.f_contiguous == two.X.flags.f_contiguous
        for name in ("t", "s", "offset"):
            assert np.array_equal(getattr(one, name), getattr(two, name)) or getattr(one, name) is None


def test_wide_blocks_are_made_of_fewer_rows() -> None:
    data = source()
    parts = FileParts.open(os.path.dirname(data.parts.files[0].file.path))
    pieces = [piece for task in parts.tasks() for piece in parts.cut(task, parts.read(task), columns=10_000)]
    assert max(piece.rows.num_rows for piece in pieces) * 10_000 * 8 <= parts.settings.piece
    assert sum(piece.rows.num_rows for piece in pieces) == N


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_ends_the_fold_and_leaves_it_usable(threads: int) -> None:
    data = source("csv")
    expected = sums(data)

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    other = source("csv")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            FilesEngine(threads).fold(Moments, other, MomentsParams(3, "full"), progress=interrupt)
    same(sums(other), expected)


class Failing(Seen):
    """A statistic that fails on one piece."""

    @classmethod
    def of(cls, piece: Any, params: Any) -> Seen:
        if piece.number >> 20 == 4:
            raise ZeroDivisionError(piece.name)
        return super().of(piece, params)


@pytest.mark.usefixtures("small")
def test_an_error_in_a_statistic_comes_out_as_it_is() -> None:
    data = source()
    with pytest.raises(ZeroDivisionError, match="row group"):
        FilesEngine(3).fold(Failing, PartedSource(data.parts, as_it_is), None)  # type: ignore[type-var]


def test_every_row_is_counted_once_however_often_it_is_folded() -> None:
    data = source("csv")
    for _ in range(3):
        assert FilesEngine().fold(Counts, replace(data), data.shape).weight.sum() == pytest.approx(
            sums(data).weight.sum()
        )


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("piece_rows", [7, 1000])
def test_models_are_those_of_the_table_in_memory(format: str, piece_rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    t = rng.integers(0, 3, 600)
    colour = np.array(["red", "green", "blue"])[(t + rng.integers(0, 2, 600)) % 3]
    table = pa.table({"x": rng.normal(size=600) + t, "colour": colour, "y": np.array(["a", "b", "c"])[t]})
    path = tmp_path / f"t.{format}"
    (parquet.write_table if format == "parquet" else csv.write_csv)(table, path)
    again = table if format == "parquet" else csv.read_csv(path)
    for model in (LogisticRegression(1.0), GaussianClassifier()):
        expected = type(model)(**model.get_params()).fit(again, y="y").predict_proba(again.select(["x", "colour"]))
        found = model.fit(path, y="y", piece_rows=piece_rows).predict_proba(again.select(["x", "colour"]))
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("column", ["x", "y"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_missing_value_names_its_file_among_many(column: str, format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for i in range(9):
        table = pa.table({"x": rng.normal(size=20), "z": rng.normal(size=20), "y": ["a", "b"] * 10})
        if i == 5:
            gap = pa.array([*table[column].to_pylist()[:-1], None])
            table = table.set_column(table.column_names.index(column), column, gap)
        (parquet.write_table if format == "parquet" else csv.write_csv)(table, tmp_path / f"part-{i}.{format}")
    place = "row 19" if format == "parquet" else "line 21"
    with pytest.raises(InvalidInputError, match=rf"^'part-5.{format}'.* missing value.*first in {place}"):
        LogisticRegression().fit(tmp_path, y="y")


@pytest.mark.parametrize("damaged", [False, True])
def test_small_row_groups_that_are_read_together_are_named_one_by_one(damaged: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = pa.array(rng.normal(size=4000), mask=np.arange(4000) == (-1 if damaged else 2500))
    path = tmp_path / "a.parquet"
    table = pa.table({"x": x, "y": rng.integers(0, 2, 4000)})
    parquet.write_table(table, path, row_group_size=1000, write_page_checksum=True)
    if damaged:
        content = bytearray(path.read_bytes())
        content[parquet.read_metadata(path).row_group(2).column(0).data_page_offset + 200] ^= 255
        path.write_bytes(bytes(content))
    words = "cannot be read" if damaged else "missing value .*first in row 500"
    with pytest.raises(InvalidInputError, match=rf"^'a.parquet', row group 2.* {words}"):
        LogisticRegression().fit(path, y="y")


def test_float32_rows_give_the_sums_of_float32_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3)) + 1e3
    t = rng.integers(0, 2, 500)
    parquet.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": t}), tmp_path / "t.parquet")
    found = GaussianClassifier().fit(tmp_path, y="y", dtype="float32")
    np.testing.assert_allclose(found.means_, GaussianClassifier().fit(X.astype(np.float32), t).means_, rtol=1e-12)


GROWTH = """
    import sys, threading, time
    import numpy as np, pyarrow as pa
    from oddsmith.engines import FilesEngine, PartedSource
    from oddsmith.engines.files import FileParts
    from oddsmith.testing.sources import TableEncoding
    from oddsmith.statistics import Moments, MomentsParams

    def resident():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon"))

    def fold(path):
        parts = FileParts.open(path, memory=sys.argv[2])
        source = PartedSource(parts, TableEncoding(10, 0, False), n_rows=1, M=10, K=2)
        for _ in range(2):
            FilesEngine(2).fold(Moments, source, MomentsParams(2, "full"))

    before, peak, done = [], 0.0, threading.Event()

    def work():
        fold(sys.argv[3])  # what a thread takes to begin with
        before.append(resident())
        fold(sys.argv[1])
        done.set()

    threading.Thread(target=work).start()
    while not done.wait(0.005):
        peak = max(peak, resident()) if before else 0.0
    print(peak - before[0])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_memory_stays_below_the_bound_whatever_the_size(format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 1_500_000 if format == "parquet" else 800_000  # 126 MB and 72 MB
    columns = {f"x{j}": rng.normal(size=n).round(5) for j in range(10)}
    table = pa.table(columns | {"t": rng.integers(0, 2, n).astype(np.int32)})
    write = parquet.write_table if format == "parquet" else csv.write_csv
    write(table, tmp_path / f"large.{format}")
    write(table.slice(0, 20_000), tmp_path / f"small.{format}")
    arguments = [str(tmp_path / f"large.{format}"), "64MB", str(tmp_path / f"small.{format}")]
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(GROWTH), *arguments], capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 64.0


ENDLESS = """
    import sys
    from oddsmith.engines import FilesEngine, PartedSource
    from oddsmith.engines.files import FileParts
    from tests.engines.files_cases import Seen

    parts = FileParts.open(sys.argv[1], memory="20MB")
    print("begins", flush=True)
    while True:
        FilesEngine(3).fold(Seen, PartedSource(parts), None)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_process_at_once(tmp_path: Path) -> None:
    csv.write_csv(pa.table({"x": np.arange(200_000)}), tmp_path / "a.csv")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS), str(tmp_path / "a.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert "KeyboardInterrupt" in errors and process.returncode != 0
    finally:
        process.kill()


def test_a_task_that_is_half_on_a_disk_when_another_finds_it_full_is_not_kept(tmp_path: Path) -> None:
    cache = BlockCache(MemoryBudget(0), CacheFolder(str(tmp_path), temporary=False), "blocks")
    block = Block(np.eye(2), np.zeros(2, dtype=np.int32))
    begun, other = CacheWriter(cache, 0), CacheWriter(cache, 1)
    begun.add(block)
    assert cache.folder is not None
    cache.folder.fail(OSError(28, "No space left on device"))
    for writer in (begun, other):
        writer.add(block)
        writer.finish()
    assert not cache.has(0) and not cache.has(1) and not os.listdir(tmp_path / "blocks")
