"""The machine in words, the speed of its memory, and how much of it this process holds."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

READ_THREADS = 2
READ_TRIES = 9
QUIET_WINDOW = 0.3
DISTURBED = 0.15
"""The share of the machine that others may take before a timing counts as disturbed."""


def in_words() -> str:
    """Cores, memory, kind of CPU, operating system and Python; nothing that names the machine."""
    cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kind = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    cpu = kind.group(1).strip() if kind else platform.machine()
    return f"{cores} cores ({cpu}), {memory:.0f} GiB memory, {platform.system()}, Python {platform.python_version()}"


def read_seconds(arrays: Sequence[NDArray[Any]]) -> float:
    """Seconds for one streaming read of the arrays on two threads; the least of several tries.

    A maximum over each half is the cheapest reduction NumPy has, and it lets the other thread run.
    """
    flat = [a.reshape(-1) for a in arrays]
    halves = [part for a in flat for part in np.array_split(a, READ_THREADS)]
    best = float("inf")
    with ThreadPoolExecutor(READ_THREADS) as pool:
        for _ in range(READ_TRIES):
            start = time.perf_counter()
            list(pool.map(np.max, halves))
            best = min(best, time.perf_counter() - start)
    return best


class Disturbance:
    """Adds up, over several stretches of time, which share of the machine other processes took.

    Linux counts the seconds that all cores were busy; what this process did not use, another did.
    """

    def __init__(self) -> None:
        self._elsewhere = 0.0
        self._capacity = 0.0

    def __enter__(self) -> Disturbance:
        self._start = time.perf_counter(), self._counters()
        return self

    def __exit__(self, *_: object) -> None:
        start, elsewhere = self._start
        self._elsewhere += self._counters() - elsewhere
        self._capacity += (time.perf_counter() - start) * (os.cpu_count() or 1)

    def _counters(self) -> float:
        user, nice, system, _, _, *others = Path("/proc/stat").read_text().split()[1:9]
        busy = sum(int(ticks) for ticks in (user, nice, system, *others)) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4])

    @property
    def share(self) -> float:
        """From 0, undisturbed, to 1."""
        return min(1.0, max(0.0, self._elsewhere / self._capacity)) if self._capacity else 0.0


def await_quiet(patience: float) -> float:
    """Wait until others leave the machine alone, for ``patience`` seconds at most; return what is left of them."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with Disturbance() as disturbance:
            time.sleep(QUIET_WINDOW)
        if disturbance.share < DISTURBED:
            break
    return max(0.0, until - time.monotonic())


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def resident_bytes() -> int:
    """What this process holds in memory now."""
    return _status("VmRSS")


def forget_peak() -> None:
    """Let the peak start anew from what is held now (Linux only)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most that this process has held since the last `forget_peak`."""
    return _status("VmHWM")
