"""Turn the recorded runs into one Markdown page: who is fastest where, then everything, failures included."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import machine, store
from .cases import Case
from .peers import SUBJECT

SMALL_BYTES = 1_000_000
"""Below this the data sits in a cache, and reads of it say nothing."""

HEADER = """# Results

Made by `python -m benchmarks`. Every library minimises Σ −log p(t | x) + ½ ‖w‖² / σ² with a free intercept, and
its weights are put into that sum by one exact evaluator. *Gap* is (f − best) / |best|, best being the lowest value
known. A peer counts at a gap of 10⁻⁶ or less, oddsmith at 10⁻⁸ or less. A peer's time is that of its loosest
tolerance that counts (of 10⁻² … 10⁻¹⁰, or of 10³ … 10⁻⁸ where it is one on the sum); oddsmith runs with its
defaults. Each run has a process of its own and a warm-up on up to 20,000 rows, so that compilation is not
measured; the time is the least of several. *Reads* is that time divided by the time of one streaming read of the
data. *Memory* is the peak above what was held before the fit. A ratio with a question mark is from a timing during
which other processes took over 15 % of the machine (or it is not known): it is not to be quoted.
"""


@dataclass(frozen=True)
class Result:
    """What one peer achieved on one case."""

    peer: str
    seconds: float | None
    gap: float | None
    tol: float | None
    reads: float | None
    memory: int | None
    counts: bool
    remark: str
    disturbed: bool = False


def best_value(runs: dict[str, dict[str, Any]], optimum: float | None) -> float:
    """The lowest objective over all runs and the harness's own optimum."""
    values = [fit["objective"] for run in runs.values() for fit in run["fits"]]
    return min([v for v in (optimum, *values) if v is not None and math.isfinite(v)], default=math.inf)


def result(peer: str, run: dict[str, Any], best: float, size: int) -> Result:
    """Choose the fastest fit that counts, or else the nearest one."""
    fits = [(min(fit["seconds"]), (fit["objective"] - best) / abs(best), fit) for fit in run["fits"]]
    counting = [entry for entry in fits if entry[1] <= run["target"]]
    remark = "; ".join(text for text in (run["reason"], run["note"]) if text)
    if run["status"] == "skipped":
        remark = run["reason"]
    if not fits:
        return Result(peer, None, None, None, None, None, False, remark)
    seconds, gap, fit = min(counting, key=lambda e: e[0]) if counting else min(fits, key=lambda e: e[1])
    disturbance = _disturbance(fit)
    remark = "; ".join(text for text in (disturbance, remark) if text)
    reads = seconds / run["read_seconds"] if size >= SMALL_BYTES else None
    return Result(peer, seconds, gap, fit["tol"], reads, fit["memory"], bool(counting), remark, bool(disturbance))


def _disturbance(fit: dict[str, Any]) -> str:
    """A remark if others took much of the machine during the quickest timing, where it was long enough to tell."""
    seconds, others = min(zip(fit["seconds"], fit["others"], strict=True), key=lambda pair: pair[0])
    if others is None:
        return "not known how busy the machine was"
    return f"others took {others:.0%} of the machine" if others > machine.DISTURBED and seconds > 0.1 else ""


def results(case: Case) -> list[Result]:
    """All results of a case, those that count first, then by time."""
    runs = store.results(case.key)
    if not runs:
        return []
    facts = store.recorded_facts(case.key)
    best = best_value(runs, store.recorded_optimum(case.key))
    found = [result(peer, run, best, facts.bytes) for peer, run in runs.items()]
    return sorted(found, key=lambda r: (not r.counts, r.seconds is None, r.seconds or 0.0))


def fastest(found: Iterable[Result]) -> Result | None:
    """The fastest peer that counts, oddsmith aside."""
    return min((r for r in found if r.counts and r.peer != SUBJECT), key=lambda r: r.seconds or 0.0, default=None)


def page(cases: Sequence[Case]) -> str:
    """The whole Markdown page."""
    measured = [(case, found) for case in cases if (found := results(case))]
    lines = [HEADER, f"Machine: {machine.in_words()}.", "", *summary(measured)]
    for case, found in measured:
        lines += ["", f"## {case.key}: {case.title}", "", *_heading(case), "", *details(found)]
    return "\n".join(lines) + "\n"


def _heading(case: Case) -> list[str]:
    facts = store.recorded_facts(case.key)
    reads = [run["read_seconds"] for run in store.results(case.key).values() if "read_seconds" in run]
    if not reads or facts.bytes < SMALL_BYTES:
        return [facts.in_words() + "."]
    return [f"{facts.in_words()}; one read takes {1000 * min(reads):.2f} ms at best."]


def summary(measured: Sequence[tuple[Case, Sequence[Result]]]) -> list[str]:
    """One line a case: ours against the fastest peer that counts."""
    head = ("case", "oddsmith s", "gap", "reads", "memory", "fastest peer that counts", "its s", "its gap", "ratio")
    rows = []
    for case, found in measured:
        ours = next((r for r in found if r.peer == SUBJECT), None)
        peer = fastest(found)
        mine = _cells(ours) if ours and ours.seconds is not None else ("–", "–", "–", "–")
        if ours and ours.seconds is not None and not ours.counts:
            mine = (f"{mine[0]} (does not count)", *mine[1:])
        theirs = (peer.peer, _seconds(peer.seconds), _gap(peer.gap)) if peer else ("none", "–", "–")
        ratio = "–"
        if ours and ours.counts and ours.seconds and peer and peer.seconds:
            ratio = f"{peer.seconds / ours.seconds:.1f}×" + (" ?" if ours.disturbed or peer.disturbed else "")
        rows.append((case.key, *mine, *theirs, ratio))
    return _table(head, rows)


def details(found: Sequence[Result]) -> list[str]:
    """Every peer on one case, with the reason where it failed or was skipped."""
    head = ("library", "counts", "seconds", "gap", "reads", "memory", "tolerance", "remark")
    rows = []
    for r in found:
        tol = "default" if r.tol is None and r.seconds is not None else "–" if r.tol is None else f"{r.tol:.0e}"
        rows.append((r.peer, "yes" if r.counts else "no", *_cells(r), tol, r.remark.replace("|", "/")))
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def _cells(r: Result) -> tuple[str, str, str, str]:
    reads = "–" if r.reads is None else f"{r.reads:,.1f}"
    memory = "–" if r.memory is None else f"{r.memory / 2**20:,.0f} MiB"
    return _seconds(r.seconds), _gap(r.gap), reads, memory


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _gap(value: float | None) -> str:
    return "–" if value is None else f"{max(value, 0.0):.0e}" if value > 1e-16 else "0"
