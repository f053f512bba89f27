"""One peer on one case in a fresh process, told off by `measure`: loads, warms up, fits, reports.

Each event is one line of JSON on the file descriptor given, so that nothing a library prints can get in between,
and so that what was measured is known even when the process has to be stopped.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import machine, store
from .objective import as_weights, objective
from .peers import PEERS
from .peers.base import Peer
from .problem import Problem, Weights

WARM_UP_ROWS = 20_000
"""Enough that a library which compiles its kernels only for larger data compiles them in the warm-up."""

ENOUGH_SECONDS = 0.5
"""Fits shorter than this are repeated until they add up to it, for a steady minimum."""

MOST_REPEATS = 50

FAR = 1e4
"""A gap this many times the target does not close with the next tolerance: it falls at most as its square."""


@dataclass(frozen=True)
class Timing:
    """One fit: its seconds, the share of the machine that others took meanwhile, its weights."""

    seconds: float
    others: float
    weights: Weights


@dataclass
class Run:
    """A peer on a problem; ``patience`` is how long it may still wait for the machine to be quiet."""

    peer: Peer
    problem: Problem
    best: float | None
    repeats: int
    budget: float
    patience: float
    send: Callable[..., None]

    def climb(self) -> None:
        """Climb the peer's ladder of tolerances until its weights are near enough to the best known.

        Each step
          1. fits once, timed, and evaluates the weights exactly,
          2. if they are near enough, fits again for the minimum time and stops,
          3. stops too when the ladder has taken more than the budget,
          4. skips a tolerance when the gap is still very far off.

        Memory is the peak above what was held before the first fit, as a library may keep what it was given.
        """
        started = time.perf_counter()
        held = machine.resident_bytes()
        rung = 0
        while rung < len(self.peer.ladder):
            tol = self.peer.ladder[rung]
            machine.forget_peak()
            first = self.timed(tol)  # 1
            memory = max(0, machine.peak_bytes() - held)
            value = objective(self.problem, first.weights)
            gap = math.inf if self.best is None else (value - self.best) / abs(self.best)
            near = gap <= self.peer.target
            timings = [first, *(self.again(tol, first.seconds) if near else [])]  # 2
            times, others = [t.seconds for t in timings], [round(t.others, 2) for t in timings]
            self.send(event="fit", tol=tol, seconds=times, others=others, objective=value, memory=memory)
            if near or time.perf_counter() - started > self.budget:  # 3
                break
            rung += 2 if FAR * self.peer.target < gap < math.inf else 1  # 4

    def again(self, tol: float | None, spent: float) -> Iterator[Timing]:
        """Repeat a fit, at quiet moments while patience lasts."""
        for done in range(1, MOST_REPEATS):
            if done >= self.repeats and spent >= ENOUGH_SECONDS:
                break
            self.send(event="waiting")
            self.patience = machine.await_quiet(self.patience)
            timing = self.timed(tol)
            spent += timing.seconds
            yield timing

    def timed(self, tol: float | None) -> Timing:
        """Fit once."""
        gc.collect()
        self.send(event="start", tol=tol)
        with machine.Disturbance() as disturbance:
            start = time.perf_counter()
            weights = self.peer.fit(self.problem.X, self.problem.y, self.problem.sigma, tol)
            seconds = time.perf_counter() - start
        return Timing(seconds, disturbance.share, as_weights(*weights))


def main() -> None:
    """Read the arguments, run, and turn any error of the library into an event."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--patience", type=float, required=True)
    parser.add_argument("--events", type=int, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with os.fdopen(arguments.events, "w", buffering=1) as events:

        def send(**event: Any) -> None:
            events.write(json.dumps(event) + "\n")

        peer = PEERS[arguments.peer]
        problem = store.load(arguments.case)
        try:
            small = problem.sample(WARM_UP_ROWS)
            peer.fit(small.X, small.y, small.sigma, peer.ladder[0])
            send(event="ready", read_seconds=machine.read_seconds(problem.arrays), version=peer.version())
            best = store.best_known(arguments.case)
            limits = arguments.repeats, arguments.budget, arguments.patience
            Run(peer, problem, best, *limits, send).climb()
        except Exception as error:
            send(event="failed", reason=f"{type(error).__name__}: {error}"[:300])


if __name__ == "__main__":
    main()
