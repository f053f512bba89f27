"""One library in a process that stays: fits what `benchmarks.map` asks for, one line of JSON for each.

A request names the case, the tolerance and how many seconds to repeat a fit for; the answer holds the least time and
the exact objective. The library is imported and warmed up once, and each case is read once.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import time
import warnings
from typing import Any

from . import machine, store
from .objective import as_weights, objective
from .peers import PEERS
from .peers.base import Peer
from .problem import Problem

WARM_UP_ROWS = 2_000
MOST_REPEATS = 200
SHORT_SECONDS = 0.5
START_SECONDS = 180.0
"""How long importing, reading the data and warming up may take."""


class TooLongError(RuntimeError):
    """A fit took longer than it was allowed to."""


class Worker:
    """The process of one library, as its driver sees it. It starts with the first request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: subprocess.Popen[bytes] | None = None

    def fit(self, key: str, tol: float | None, *, repeat_seconds: float, limit: float) -> dict[str, Any]:
        """Fit; return ``seconds``, ``objective`` and ``others``, or ``error``. Raise `TooLongError` after ``limit``."""
        self._send(key=key, tol=tol, repeat_seconds=repeat_seconds)
        allowed = {"start": START_SECONDS, "ready": limit, "fitted": START_SECONDS + repeat_seconds}
        event = "start"
        while event in allowed:
            answer = self._answer(allowed[event])
            event = answer["event"]
        return answer

    def drop(self) -> None:
        """Let go of the data."""
        if self._process:
            self._send(key=None)

    def stop(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.wait()
            os.close(self._reader)
            self._process = None

    def _send(self, **request: Any) -> None:
        if self._process is None:
            self._reader, writer = os.pipe()
            self._pending = b""
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.map_worker", self.name, str(writer)],
                pass_fds=(writer,),
                cwd=store.HERE.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            os.close(writer)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the next answer says so

    def _answer(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.stop()
                raise TooLongError(f"over {seconds:.3g} s")
            data = os.read(self._reader, 65536)
            if not data:
                self.stop()
                raise TooLongError("the process died, maybe out of memory")
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return dict(json.loads(line))


def fit(peer: Peer, problem: Problem, tol: float | None) -> tuple[float, Any]:
    """Fit once; return the seconds and the weights."""
    start = time.perf_counter()
    weights = peer.fit(problem.X, problem.y, problem.sigma, tol)
    return time.perf_counter() - start, weights


def serve(peer: Peer, events: Any) -> None:
    """Answer requests until the input ends: "ready", "fitted" and "done", or "failed"."""

    def send(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")

    loaded, problem, warm = None, None, False
    for line in sys.stdin:
        request = json.loads(line)
        if request["key"] != loaded:
            loaded, problem = request["key"], None
            gc.collect()
            problem = store.load(loaded) if loaded else None
        if problem is None:
            continue
        try:
            if not warm:
                peer.fit(*_sample(problem), peer.ladder[0])
                warm = True
            send(event="ready")
            gc.collect()
            gc.disable()
            with machine.Disturbance() as disturbance:
                seconds, weights = fit(peer, problem, request["tol"])
                send(event="fitted", seconds=seconds)
                times = [seconds]
                while len(times) < MOST_REPEATS and (sum(times) < request["repeat_seconds"] or _doubtful(times)):
                    times.append(fit(peer, problem, request["tol"])[0])
            value = objective(problem, as_weights(*weights))
            send(event="done", seconds=min(times), others=round(disturbance.share, 2), objective=value)
        except Exception as error:
            send(event="failed", error=f"{type(error).__name__}: {error}"[:200])
        finally:
            gc.enable()


def _doubtful(times: list[float]) -> bool:
    """Whether a first fit that was short may have been disturbed: two more tell."""
    return len(times) < 3 and sum(times) < SHORT_SECONDS


def _sample(problem: Problem) -> tuple[Any, Any, float | None]:
    small = problem.sample(WARM_UP_ROWS)
    return small.X, small.y, small.sigma


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with os.fdopen(int(sys.argv[2]), "w", buffering=1) as stream:
        serve(PEERS[sys.argv[1]], stream)
