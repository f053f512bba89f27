"""The number of threads of BLAS during a fit."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.linalg import _umath_linalg
from scipy.linalg import _flapack

BLAS_ALONE_NUMBERS = 4096
"""Largest matrix that BLAS processes on one thread anyway: OpenBLAS uses threads for matrix-vector products from 9,216
numbers on, and for matrix products from 262,144 multiplications on."""
NAMES = (
    ("scipy_openblas_{}_num_threads64_", "get", "set"),
    ("scipy_openblas_{}_num_threads", "get", "set"),
    ("openblas_{}_num_threads64_", "get", "set"),
    ("openblas_{}_num_threads", "get", "set"),
    ("MKL_{}_Threads", "Get_Max", "Set_Num"),
    ("bli_thread_{}_num_threads", "get", "set"),
)


@dataclass(frozen=True)
class BlasLibrary:
    """A BLAS library of this process, by the functions that get and set its number of threads."""

    get_threads: Callable[[], int]
    set_threads: Callable[[int], None]


@lru_cache(maxsize=1)
def blas_libraries() -> tuple[BlasLibrary, ...]:
    """Return the BLAS libraries of NumPy and SciPy.

    Their functions are found through the extension modules that are linked to them, in a fraction of the time that
    threadpoolctl takes to look at every library of the process; it is asked where that does not work.
    """
    found: dict[int, BlasLibrary] = {}
    for module in (_umath_linalg, _flapack):
        library = _linked_library(str(module.__file__))
        if library is None:
            return _all_libraries()
        found.setdefault(*library)
    return tuple(found.values())


def _linked_library(path: str) -> tuple[int, BlasLibrary] | None:
    """Return the library that the module at ``path`` is linked to, with the address of its function, if it is known."""
    with suppress(OSError):
        module = ctypes.CDLL(path)
        for name, get, set_ in NAMES:
            with suppress(AttributeError):
                getter, setter = module[name.format(get)], module[name.format(set_)]
                return ctypes.cast(setter, ctypes.c_void_p).value or 0, BlasLibrary(getter, setter)
    return None


def _all_libraries() -> tuple[BlasLibrary, ...]:
    from threadpoolctl import LibController, ThreadpoolController

    def setter(library: LibController) -> Callable[[int], None]:
        def set_threads(threads: int) -> None:
            with suppress(AttributeError):  # from version 3.7 on only the thread that came first is obeyed
                library.clear_controlling_thread(force=True)
            library.set_num_threads(threads)

        return set_threads

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(BlasLibrary(library.get_num_threads, setter(library)) for library in libraries)


Setting = list[int] | None  # The threads of each library before a limit; None inside another limit.
_lock = Lock()
_settings: list[Setting] = []
_inherited: list[Setting] = []  # The setting at the time of a fork, if a fit runs in the parent.


def one_blas_thread(numbers: float = np.inf) -> AbstractContextManager[None]:
    """Limit BLAS to one thread during a fit; the last of several overlapping fits restores the user's setting.

    Threads work on slices of the data, and results must not depend on their number. The limit includes the solve:
    waking threads for small matrices costs more than a pass over the data. If the largest matrix has few ``numbers``,
    BLAS uses one thread anyway and is not looked up.
    """
    return nullcontext() if numbers <= BLAS_ALONE_NUMBERS else _limited()


@contextmanager
def _limited() -> Iterator[None]:
    with _lock:
        setting = _inherited.pop() if _inherited else None
        if setting is None and not _settings:
            setting = [library.get_threads() for library in blas_libraries()]
            _set_threads([1] * len(setting))
        _settings.append(setting)
    try:
        yield
    finally:
        with _lock:
            first = _settings[0]
            _settings.pop()
            if not _settings and first is not None:
                _set_threads(first)


def _set_threads(threads: list[int]) -> None:
    for library, number in zip(blas_libraries(), threads, strict=True):
        library.set_threads(number)


def _start_anew() -> None:
    """Reset the lock and the running fits inherited by a forked child."""
    global _lock
    _lock = Lock()
    _inherited[:] = [setting for setting in _settings if setting is not None][:1]
    _settings.clear()


if os.name == "posix":
    os.register_at_fork(after_in_child=_start_anew)
