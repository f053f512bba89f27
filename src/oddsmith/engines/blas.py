"""One BLAS thread while a fit runs: slices of the data are the threads, and bits must not depend on their number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_running: list[Any] = []


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread; the last of several fits that overlap gives the user's setting back.

    The solve belongs inside, too: threads that wake up for small matrices cost more than a pass over the data.

    >>> with one_blas_thread():
    ...     pass
    """
    with _lock:
        limiter = None if _running else _controller().limit(limits=1, user_api="blas")
        _running.append(limiter)
    try:
        yield
    finally:
        with _lock:
            first = _running[0]
            _running.pop()
            if not _running:
                first.restore_original_limits()
