"""What a plan is made from: the facts about a problem, and the rates of the machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Storage = Literal["dense", "dense by columns", "sparse", "lazy", "table", "device"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts known about a problem before it is solved.

    ``elements`` counts the numbers that a pass reads (four for each nonzero of sparse rows). ``drawn_rows`` is the size
    of a sample drawn from rows that are not in memory. ``sample_shows_columns`` says whether every column, rare levels
    included, is nonzero in a sample of the rows. ``eliminated`` is the number of levels of a factor whose block of the
    Hessian is diagonal.
    """

    n_rows: int
    n_columns: int
    n_classes: int = 2
    elements: float | None = None
    storage: Storage = "dense"
    itemsize: int = 8
    in_memory: bool = True
    drawn_rows: int | None = None
    sample_shows_columns: bool = True
    weighted: bool = False
    has_offset: bool = False
    has_prior: bool = True
    intercept: bool = True
    link: str = "logit"
    whitened: bool = False
    eliminated: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Class contrasts × (1 + columns)."""
        return self.n_classes - 1, self.n_columns + 1

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.shape[0] * self.shape[1]

    @property
    def size(self) -> float:
        """Number of elements that a pass reads."""
        return float(self.n_rows) * self.n_columns if self.elements is None else self.elements


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Throughputs of the machine for estimating the cost of a plan, measured on two cores of a server.

    Links other than the logit are evaluated in NumPy, slower than the compiled kernels by the given factor;
    ``fit_seconds`` and ``pass_seconds`` are the overheads of a fit and a pass.
    """

    memory: float = 8e9
    cores: int = 2
    bytes_per_second: float = 25e9
    flops_per_core: float = 2e10
    activations_per_core: float = 1.2e8
    scattered_per_core: float = 1e9
    link_slowdown: float = 30.0
    fit_seconds: float = 1e-3
    pass_seconds: float = 1.5e-4
    half_precision: bool = True

    @classmethod
    def here(cls, *, half_precision: bool = False) -> Machine:
        """Return this machine, with the currently available memory."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(memory=_available_memory(int(time.monotonic())), cores=cores, half_precision=half_precision)


@lru_cache(maxsize=1)
def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # the system does not provide it
        return 8e9


@lru_cache(maxsize=1)
def _available_memory(second: int) -> float:
    """Return the memory available without swapping, in bytes, for the machine and its container, if any.

    The lookup is cached for a ``second``: it takes as long as several iterations on a small table.
    """
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            free = next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return _physical_memory()
    try:
        limit, used = (float(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return free
    return min(free, max(0.0, limit - used))
