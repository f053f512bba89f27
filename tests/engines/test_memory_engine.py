"""The memory engine: views of the user's arrays, blocks by size alone, progress, forks."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import ThreadpoolController, threadpool_limits

from oddsmith import LogisticRegression
from oddsmith.engines import MemoryEngine, MemorySource, one_blas_thread
from oddsmith.engines.blas_threads import BLAS_ALONE_NUMBERS, BlasLibrary, _all_libraries, blas_libraries
from oddsmith.engines.memory import _pool, parallel_map
from oddsmith.statistics import Counts, Moments, MomentsParams


def source(n: int = 1000, M: int = 3, **options: Any) -> MemorySource:
    rng = np.random.default_rng(0)
    return MemorySource(rng.normal(size=(n, M)), rng.integers(0, 2, n).astype(np.int32), 2, **options)


@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, np.float32, sparse.csr_array])
def test_a_block_is_a_view_of_the_rows(form: Any) -> None:
    X = form(np.random.default_rng(0).normal(size=(100, 3)))
    s, offset = np.ones(100), np.zeros((100, 1))
    rows = MemorySource(X, np.zeros(100, dtype=np.int32), 2, s, offset)
    block = rows.block(20, 50)
    held, given = (block.X.data, X.data) if sparse.issparse(X) else (block.X, X)
    assert np.shares_memory(held, given)
    assert np.shares_memory(block.s, s) and np.shares_memory(block.offset, offset)
    assert (block.n_rows, block.first_row) == (30, 20)
    dense = X.toarray() if sparse.issparse(X) else X
    np.testing.assert_array_equal(block.X.toarray() if sparse.issparse(X) else block.X, dense[20:50])
    if sparse.issparse(X):
        block.X.check_format(full_check=True)
        np.testing.assert_allclose(block.X @ np.ones(3), dense[20:50].sum(axis=1))


@pytest.mark.parametrize("n", [1, 2, 999, 1000, 1001, 123_457])
@pytest.mark.parametrize("step", [1, 7, 1000, 10**9])
def test_slices_cover_every_row_once_in_equal_parts(n: int, step: int) -> None:
    rows = MemorySource(np.empty((n, 1)), np.zeros(n, dtype=np.int32), 2, slice_rows=step)
    slices = rows.slices()
    assert slices[0][0] == 0 and slices[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(slices))
    lengths = np.array([stop - start for start, stop in slices])
    assert lengths.max() <= step and lengths.max() - lengths.min() <= 1


def test_no_rows_fold_to_zero() -> None:
    empty = source(0)
    assert MemoryEngine().fold(Counts, empty, empty.shape).rows == 0


def test_progress_is_told_after_each_block() -> None:
    calls: list[tuple[int, int]] = []
    rows = source(slice_rows=100)
    MemoryEngine(threads=2).fold(Counts, rows, rows.shape, progress=lambda *at: calls.append(at))
    assert calls == [(i, 10) for i in range(1, 11)]


def test_an_error_in_a_block_comes_out() -> None:
    def broken(rows: Any) -> Any:
        raise RuntimeError("no such rows")

    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="no such rows"):
            MemoryEngine(threads).fold(Moments, source(slice_rows=100, transform=broken), MomentsParams(2))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_after_an_error_no_more_is_begun(threads: int) -> None:
    begun: list[int] = []

    def work(i: int) -> int:
        begun.append(i)
        if i == 7:
            raise RuntimeError("no seventh")
        time.sleep(0.002)
        return i

    taken = parallel_map(work, range(500), threads)
    with pytest.raises(RuntimeError, match="no seventh"):
        list(taken)
    time.sleep(0.02)
    assert len(begun) < 50


def test_results_that_nobody_waits_for_are_not_made() -> None:
    begun: list[int] = []
    taken = parallel_map(lambda i: begun.append(i) or time.sleep(0.002), range(500), 2)
    next(taken)
    taken.close()
    time.sleep(0.02)
    assert len(begun) < 50


def test_threads_that_are_busy_with_other_things_are_not_waited_for() -> None:
    """A fold within a fold finds no thread free: the one that asks does all the work."""
    inner = lambda i: list(parallel_map(abs, [-i, i], 2))  # noqa: E731
    assert list(parallel_map(inner, range(20), 2)) == [[i, i] for i in range(20)]


def test_a_helper_that_never_began_does_not_keep_the_rows() -> None:
    release, rows = threading.Event(), np.zeros(10)
    busy = [_pool(2).submit(release.wait, 10) for _ in range(2)]
    try:
        assert list(parallel_map(lambda i, rows=rows: rows[i], range(10), 2)) == [0.0] * 10
        assert list(parallel_map(np.sum, [rows, rows], 2)) == [0.0, 0.0]
        gone = weakref.ref(rows)
        del rows
        assert gone() is None
    finally:
        release.set()
        for future in busy:
            future.result()


def test_rows_that_were_sliced_do_not_make_a_pickle_larger() -> None:
    X = sparse.random(2000, 50, density=0.2, format="csr", random_state=0)
    rows = MemorySource(sparse.csr_array(X), np.zeros(2000, dtype=np.int32), 1, slice_rows=500)
    before = len(pickle.dumps(rows))
    MemoryEngine().fold(Moments, rows, MomentsParams(1, "diagonal"))
    assert len(pickle.dumps(rows)) < before + 1000


def test_a_transform_is_applied_a_slice_at_a_time() -> None:
    seen: list[int] = []

    def squares(rows: np.ndarray) -> np.ndarray:
        seen.append(len(rows))
        return np.column_stack([rows, rows**2])

    rows = source(slice_rows=100, transform=squares, M=6)
    moments = MemoryEngine(threads=1).fold(Moments, rows, MomentsParams(1, "diagonal"))
    assert seen == [100] * 10
    np.testing.assert_allclose(moments.mean[0], np.column_stack([rows.X, rows.X**2]).mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_taken_rows_are_those_asked_for(form: Any) -> None:
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(50, 3)), rng.integers(0, 2, 50).astype(np.int32)
    some = MemorySource(form(X), t, 2, np.arange(50.0)).take(np.array([4, 9, 40]))
    taken = some.X.toarray() if sparse.issparse(some.X) else some.X
    np.testing.assert_array_equal(taken, X[[4, 9, 40]])
    assert some.s.tolist() == [4.0, 9.0, 40.0] and some.t.tolist() == t[[4, 9, 40]].tolist()


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked on Windows")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_fold_after_its_parent_did() -> None:
    """The child inherits the pool of threads, but none of the threads."""
    rows = source(slice_rows=100)
    expected = MemoryEngine(threads=2).fold(Counts, rows, rows.shape).weight
    child = os.fork()
    if child == 0:
        found = MemoryEngine(threads=2).fold(Counts, rows, rows.shape).weight
        os._exit(0 if np.array_equal(found, expected) else 1)
    for _ in range(300):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


INTERRUPTED = """
    import threading

    import numpy as np

    from oddsmith.engines import MemoryEngine, MemorySource
    from oddsmith.statistics import Counts

    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    threading.Thread.start = interrupted
    rows = MemorySource(np.zeros((400, 1)), np.zeros(400, dtype=np.int32), K=1, slice_rows=100)
    MemoryEngine(threads=2).fold(Counts, rows, rows.shape)
"""


def test_a_process_ends_that_is_interrupted_while_its_threads_start() -> None:
    """A thread that runs, and that its pool has not yet noted, would be waited for without end."""
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # A helper that outlives the interrupt may complain last.
    assert ended.returncode != 0 and "KeyboardInterrupt" in ended.stderr.splitlines()


def blas_threads() -> set[int]:
    return {found["num_threads"] for found in ThreadpoolController().info() if found["user_api"] == "blas"}


@pytest.mark.parametrize(("numbers", "threads"), [(BLAS_ALONE_NUMBERS, 2), (BLAS_ALONE_NUMBERS + 1, 1), (np.inf, 1)])
def test_blas_is_held_at_one_thread_for_matrices_that_it_would_share_out(numbers: float, threads: int) -> None:
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread(numbers):
            assert blas_threads() == {threads}
        assert blas_threads() == {2}


@pytest.mark.parametrize(("n", "M", "K"), [(BLAS_ALONE_NUMBERS, 1, 2), (BLAS_ALONE_NUMBERS // 5, 5, 10), (132, 31, 2)])
def test_bits_of_small_fits_do_not_depend_on_the_threads_of_blas(n: int, M: int, K: int) -> None:
    X, y = np.random.default_rng(0).normal(size=(n, M)), np.arange(n) % K
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            model = LogisticRegression(prior=1.0).fit(X, y)
            found.append((model.coef_.tobytes(), model.intercept_.tobytes(), model.certificate_.gap))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("find", [blas_libraries.__wrapped__, _all_libraries])
def test_threads_of_blas_are_those_that_threadpoolctl_sees(find: Callable[[], tuple[BlasLibrary, ...]]) -> None:
    with threadpool_limits(2, user_api="blas"):
        libraries = find()
        assert [library.get_threads() for library in libraries] == [2] * len(libraries) != []
        for library in libraries:
            library.set_threads(1)
        assert blas_threads() == {1}
