"""Run a peer on a case in a process of its own, with a limit on each single fit, and keep what it reports."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import store
from .peers.base import Peer
from .problem import Facts

START_SECONDS = 180.0
"""How long loading, importing and warming up may take."""


@dataclass(frozen=True)
class Limits:
    """How often and how long: timings per setting; seconds per fit, for the ladder, to wait for quiet."""

    repeats: int = 3
    fit_seconds: float = 120.0
    ladder_seconds: float = 120.0
    patience: float = 30.0


def measure(peer: Peer, key: str, facts: Facts, limits: Limits) -> dict[str, Any]:
    """Return the run's record: its fits, or why there are none."""
    run: dict[str, Any] = {"note": peer.note, "target": peer.target, "fits": [], "reason": None}
    reason = peer.missing() or _refusal(peer, facts)
    if reason:
        return {**run, "status": "skipped", "reason": reason}
    return run | _supervised(peer, key, limits)


def printed_records(module: str, arguments: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """Run a module of the benchmarks in a process of its own, and yield the records that it prints in this time.

    A last record says what went wrong, if anything did.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=store.HERE.parent, timeout=seconds, check=False
        )
        text, problem = done.stdout, (done.stderr.strip().splitlines() or ["was killed"])[-1] if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        text, problem = (late.stdout or b"").decode(), f"stopped after {seconds:g} s"
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
    if problem:
        yield {"problem": problem[:200]}


def _refusal(peer: Peer, facts: Facts) -> str | None:
    answer = peer.supports(facts)
    if answer is True:
        return None
    return answer or "not supported"


def _supervised(peer: Peer, key: str, limits: Limits) -> dict[str, Any]:
    """Start the worker, follow its events, and stop it when one fit takes too long."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "benchmarks.worker", "--case", key, "--peer", peer.name]
    command += ["--repeats", str(limits.repeats), "--budget", str(limits.ladder_seconds)]
    command += ["--patience", str(limits.patience), "--events", str(writer)]
    process = subprocess.Popen(
        command,
        pass_fds=(writer,),
        cwd=store.HERE.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    try:
        return _follow(reader, process, limits)
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def _follow(reader: int, process: subprocess.Popen[bytes], limits: Limits) -> dict[str, Any]:
    run: dict[str, Any] = {"status": "done", "fits": []}
    deadline = time.monotonic() + START_SECONDS
    late = f"loading and warming up took over {START_SECONDS:g} s"
    pending = b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return run | {"status": "stopped", "reason": late}
        data = os.read(reader, 65536)
        if not data:
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            kind = event.pop("event")
            deadline = time.monotonic() + START_SECONDS
            if kind == "start":
                deadline = time.monotonic() + limits.fit_seconds
                late = f"a fit at tolerance {event['tol']} took over {limits.fit_seconds:g} s"
            elif kind == "fit":
                run["fits"].append(event)
            elif kind == "failed":
                run |= {"status": "failed", "reason": event["reason"]}
            else:
                run |= event
    code = process.wait()
    if code:
        run |= {"status": "failed", "reason": f"the process ended with code {code}, maybe out of memory"}
    return run
