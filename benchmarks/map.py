"""The map of sizes: oddsmith against every library that counts, for N × D × K, well conditioned and hard.

It is called so:

    python -m benchmarks.map                            every cell that was not measured yet, then summary and picture
    python -m benchmarks.map --cells small --minutes 30 tables of up to 100,000 numbers, for half an hour at most
    python -m benchmarks.map --cell 4000x40x2-hard      one cell of any size, measured again
    python -m benchmarks.map --cell 4000x40x2-hard --quick   only the fastest peers, at the settings kept; keeps nothing
    python -m benchmarks.map --refine                   the same for all cells; keeps our times, and the peers' if less
    python -m benchmarks.map --report                   summary and picture from what was kept

A cell is measured in three steps, in one run: (1) oddsmith at tol = 1e-12 gives the optimum f*, checked by the
harness's own Newton method where that is cheap; (2) each peer climbs its ladder of tolerances to the loosest at which
(f − f*) / f* ≤ 1e-6, f being the exact sum (`objective`); (3) oddsmith, at its default tol of 1e-8, and the peers
near the fastest one are timed in turn, in several rounds, and the least time of each counts. Every
library has a process of its own that stays, so that all are warm.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import generators, machine, map_picture, store
from .cases import CASES, Case
from .map_worker import TooLongError, Worker
from .peers import PEERS, SUBJECT
from .peers.base import DECADES, OWN_TARGET, PEER_TARGET
from .problem import Facts, Problem
from .worker import FAR

RESULTS = store.RESULTS / "map.jsonl"
ROWS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
COLUMNS = (3, 10, 30, 100, 300, 1_000)
KINDS = ("well", "hard")
COARSE_ROWS, COARSE_COLUMNS = ROWS[1::2][:4], COLUMNS[1::2]
MOST_CLASS_NUMBERS = 5e8
"""The largest N · D · K of a cell with more than two classes."""
ROWS_PER_CLASS = 30

SIZES = {"small": (0.0, 1e5), "middle": (1e5, 1e6), "large": (1e6, math.inf), "all": (0.0, math.inf)}
HOPELESS = 20.0
"""A peer this many times slower than the fastest is stopped, and left out of the next larger cells."""
NOT_NOISE = 0.05
"""Seconds below which a disturbance by other processes may be all of it."""
NOT_OVERHEAD = 0.25
"""Seconds below which that says little about larger cells: it may be the overhead of a call."""
LOOSE = (1.0, 0.1, *DECADES)
FIT_SECONDS = 30.0
LEAST_LIMIT = 1.0
CLOSE = 3.0
"""Peers that take up to this many times as long as the fastest one, at first sight, are timed in turn with it."""
REFERENCE_TOL = 1e-12
CHEAP_POLISH = 2e9
QUICK_PEERS = 3
KEEP_BYTES = 2e8
"""Above this a library lets go of the data while others have their turn."""


@dataclass(frozen=True)
class Cell:
    """``rows`` × ``columns`` × ``classes``; hard: columns correlated (ρ = 0.9), scales over two decades."""

    rows: int
    columns: int
    classes: int
    kind: str

    @property
    def name(self) -> str:
        """As on the command line: 4000x40x2-hard."""
        return f"{self.rows}x{self.columns}x{self.classes}-{self.kind}"

    @property
    def numbers(self) -> int:
        """N · D."""
        return self.rows * self.columns

    @property
    def cheap(self) -> bool:
        """Whether the harness's own Newton method takes no more than a second or two."""
        return self.rows * (self.columns * self.classes) ** 2 <= CHEAP_POLISH

    def smaller(self) -> Iterator[str]:
        """The names of the neighbouring cells with fewer rows or fewer columns."""
        for rows in [n for n in ROWS if n < self.rows][-2:]:
            yield Cell(rows, self.columns, self.classes, self.kind).name
        for columns in [d for d in COLUMNS if d < self.columns][-2:]:
            yield Cell(self.rows, columns, self.classes, self.kind).name

    def case(self) -> Case:
        """The data, as a case of the harness."""

        def build(_: int | None) -> Problem:
            hard = generators.correlated(self.columns, 0.9, 2.0) if self.kind == "hard" else generators.identity
            if self.classes == 2:
                return generators.binary(self.rows, self.columns, seed=1, transform=hard)
            return generators.softmax(self.rows, self.columns, self.classes, seed=6, transform=hard)

        return Case(f"map-{self.name}", self.name, build)


def cell_named(name: str) -> Cell | Case:
    """Read 4000x40x2-hard, or find a case of `benchmarks.cases` by its name."""
    if name in CASES:
        return CASES[name]
    try:
        sizes, kind = name.split("-")
        rows, columns, classes = (int(size) for size in sizes.split("x"))
    except ValueError:
        kind = ""
    if kind not in KINDS:
        raise SystemExit(f"No cell or case is named {name!r}. A cell is ROWSxCOLUMNSxCLASSES-well or -hard.")
    return Cell(rows, columns, classes, kind)


def grid(largest: float) -> list[Cell]:
    """All cells of at most ``largest`` numbers, from small to large."""
    cells = [Cell(n, d, 2, kind) for n in ROWS for d in COLUMNS for kind in KINDS]
    for classes in (5, 10, 100):
        found = [Cell(n, d, classes, kind) for n in COARSE_ROWS for d in COARSE_COLUMNS for kind in KINDS]
        cells += [c for c in found if c.numbers * classes <= MOST_CLASS_NUMBERS and c.rows >= ROWS_PER_CLASS * classes]
    return sorted((c for c in cells if c.numbers <= largest), key=lambda c: (c.numbers * c.classes, c.classes, c.name))


def kept(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The measured cells by name; a cell measured again has its last record."""
    if not path.exists():
        return {}
    return {record["cell"]: record for record in map(json.loads, path.read_text().splitlines())}


def merged(before: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The record before with our time of ``record``, which is of another version, and its peers' times if less."""
    peers = before["peers"] | {
        name: min(before["peers"][name], peer, key=lambda fit: float(fit["seconds"]))
        for name, peer in record["peers"].items()
        if peer["counts"]
    }
    return before | {"ours": record["ours"], "peers": peers}


class Map:
    """The processes of all libraries, and the records so far."""

    def __init__(self, options: argparse.Namespace, known: dict[str, dict[str, Any]]) -> None:
        peers = [SUBJECT, *(p for p in options.peer or PEERS if p != SUBJECT)]
        self.workers = {name: Worker(name) for name in peers}
        self.rounds, self.patience, self.path, self.known = options.rounds, options.patience, options.results, known

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers.values():
            worker.stop()

    def measure(self, cell: Cell | Case, *, quick: bool = False, keep: bool = True) -> dict[str, Any]:
        """Measure a cell and keep the record; ``quick`` takes the fastest peers of the record before, as set there."""
        case = cell.case() if isinstance(cell, Cell) else cell
        name = cell.name
        facts = store.prepare(case, polish=cell.cheap if isinstance(cell, Cell) else True)
        try:
            turn = Turn(self, case.key, name, facts)
            record = turn.measure(self._settings(cell, facts, quick))
        finally:
            for worker in self.workers.values():
                worker.drop()
            if isinstance(cell, Cell):
                store.discard(case.key)
        if keep:
            self.known[name] = record = merged(self.known.get(name, record), record) if quick else record
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(json.dumps(record) + "\n")
        return record

    def _settings(self, cell: Cell | Case, facts: Facts, quick: bool) -> dict[str, Sequence[float | None] | str]:
        """For each peer the tolerances to try, or the reason why it is left out."""
        peers = [name for name in self.workers if name != SUBJECT]
        before = self.known.get(cell.name, {"peers": {}})["peers"]
        if quick and before:
            best = sorted((p for p in peers if before.get(p, {}).get("counts")), key=lambda p: before[p]["seconds"])
            return {p: (before[p]["tol"],) for p in best[:QUICK_PEERS]}
        found: dict[str, Sequence[float | None] | str] = {}
        for name in peers:
            answer = PEERS[name].missing() or PEERS[name].supports(facts)
            hopeless = [c for c in (cell.smaller() if isinstance(cell, Cell) else ()) if self._hopeless(c, name)]
            if answer is not True:
                found[name] = answer or "not supported"
            elif hopeless:
                found[name] = f"hopeless at {hopeless[0]}"
            else:
                found[name] = LOOSE if PEERS[name].ladder is DECADES else PEERS[name].ladder
        return found

    def _hopeless(self, cell: str, peer: str) -> bool:
        return bool(self.known.get(cell, {"peers": {}})["peers"].get(peer, {}).get("hopeless"))


@dataclass
class Turn:
    """One cell being measured."""

    map: Map
    key: str
    name: str
    facts: Facts

    def measure(self, settings: dict[str, Sequence[float | None] | str]) -> dict[str, Any]:
        """The steps 1, 2 and 3."""
        self.keep = self.facts.bytes <= KEEP_BYTES
        found = self.fit(SUBJECT, REFERENCE_TOL, 0.0)["objective"]  # 1
        self.best = min(found, store.best_known(self.key) or math.inf)
        ours = self.fit(SUBJECT, None, 0.05)
        self.fastest = ours["seconds"]
        peers = {name: self.climb(name, how) for name, how in settings.items()}  # 2
        self.time_in_turn(ours, peers)  # 3
        fastest = min([ours["seconds"], *(p["seconds"] for p in peers.values() if p.get("counts"))])
        for peer in peers.values():
            if "seconds" in peer:
                peer["hopeless"] |= peer["seconds"] > max(NOT_OVERHEAD, HOPELESS * fastest)
        facts = {"rows": self.facts.rows, "columns": self.facts.columns, "classes": self.facts.classes}
        ours["gap"] = self.gap(ours["objective"])
        when = {"time": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine.in_words()}
        return {"cell": self.name, **facts, **when, "optimum": self.best, "ours": ours, "peers": peers}

    def fit(self, name: str, tol: float | None, repeat_seconds: float, limit: float = 600.0) -> dict[str, Any]:
        """Let a library fit; keep only what is of interest."""
        answer = self.map.workers[name].fit(self.key, tol, repeat_seconds=repeat_seconds, limit=limit)
        if "error" in answer and name == SUBJECT:
            raise SystemExit(f"{name} failed on {self.name}: {answer['error']}")
        return {k: v for k, v in answer.items() if k != "event"}

    def gap(self, value: float) -> float:
        """(f − f*) / f*."""
        return (value - self.best) / abs(self.best)

    def climb(self, name: str, ladder: Sequence[float | None] | str) -> dict[str, Any]:
        """Find the loosest tolerance that counts, as `worker.Run.climb` does; stop where it is hopeless."""
        if isinstance(ladder, str):
            return {"status": "left out", "reason": ladder, "hopeless": ladder.startswith("hopeless")}
        found: dict[str, Any] = {"status": "does not count", "counts": False, "hopeless": False}
        rung = 0
        while rung < len(ladder):
            limit = min(FIT_SECONDS, max(LEAST_LIMIT, HOPELESS * self.fastest))
            try:
                answer = self.fit(name, ladder[rung], 0.03, limit)
            except TooLongError as error:
                return found | {"status": "stopped", "reason": str(error), "tol": ladder[rung], "hopeless": True}
            if "error" in answer:
                return found | {"status": "failed", "reason": answer["error"], "tol": ladder[rung]}
            gap = self.gap(answer["objective"])
            found |= {"seconds": answer["seconds"], "others": answer["others"], "gap": gap, "tol": ladder[rung]}
            if gap <= PEER_TARGET:
                found |= {"status": "counts", "counts": True}
                self.fastest = min(self.fastest, answer["seconds"])
                break
            if answer["seconds"] > max(NOT_NOISE, HOPELESS * self.fastest):
                found |= {"status": "stopped", "reason": f"over {HOPELESS:g} times the fastest"}
                break
            rung += 2 if FAR * PEER_TARGET < gap < math.inf else 1
        if not self.keep:
            self.map.workers[name].drop()
        return found

    def time_in_turn(self, ours: dict[str, Any], peers: dict[str, dict[str, Any]]) -> None:
        """Time oddsmith and the peers that are close to the fastest one, several times in turn."""
        counting = {name: p for name, p in peers.items() if p.get("counts")}
        bound = CLOSE * min((p["seconds"] for p in counting.values()), default=0.0)
        close = {name: p for name, p in counting.items() if p["seconds"] <= bound}
        patience = self.map.patience
        for _ in range(self.map.rounds):
            patience = machine.await_quiet(patience)
            for name, entry in ((SUBJECT, ours), *close.items()):
                try:
                    answer = self.fit(name, entry.get("tol"), 0.05)
                except TooLongError:
                    continue
                for what in (
                    "seconds",
                    "others",
                ):  # the share of the machine that other processes took, in the quietest round
                    entry[what] = min(entry[what], answer.get(what, math.inf))


def fastest(record: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The name and the entry of the fastest peer that counts."""
    counting = [(name, p) for name, p in record["peers"].items() if p.get("counts")]
    return min(counting, key=lambda pair: pair[1]["seconds"], default=None)


def ratio(record: dict[str, Any]) -> float | None:
    """The fastest peer's time divided by ours; above 1 oddsmith is ahead."""
    peer = fastest(record)
    return None if peer is None else float(peer[1]["seconds"] / record["ours"]["seconds"])


def disturbed(record: dict[str, Any]) -> bool:
    """Whether other processes took so much of the machine in every round that the ratio is in doubt."""
    peer = fastest(record)
    entries = [record["ours"], *([peer[1]] if peer else [])]
    return any(entry.get("others", 1.0) > machine.DISTURBED for entry in entries)


def in_words(record: dict[str, Any]) -> str:
    """One line for a cell."""
    ours = record["ours"]
    text = f"{record['cell']:<24} oddsmith {1e3 * ours['seconds']:10.3f} ms (gap {max(ours['gap'], 0.0):.0e})"
    peer = fastest(record)
    if peer is None:
        return f"{text}   no peer counts"
    name, entry = peer
    tol = "default" if entry["tol"] is None else f"{entry['tol']:.0e}"
    doubt = " ?" if disturbed(record) else ""
    return f"{text}   {1e3 * entry['seconds']:10.3f} ms {name} (tol {tol})   ratio {ratio(record):.2f}{doubt}"


def summary(records: Sequence[dict[str, Any]]) -> str:
    """How many cells, the lost ones from the worst on, the median, the least from 100,000 numbers on."""
    ratios = {r["cell"]: found for r in records if (found := ratio(r)) is not None}
    if not ratios:
        return "No cell has a peer that counts."
    lost = sorted((r for r in records if ratios.get(r["cell"], 1.0) < 1.0), key=lambda r: ratios[r["cell"]])
    large = {r["cell"]: ratios[r["cell"]] for r in records if r["rows"] * r["columns"] >= 1e5 and r["cell"] in ratios}
    doubtful = sum(disturbed(r) for r in records)
    missed = [r["cell"] for r in records if r["ours"]["gap"] > OWN_TARGET]
    lines = [
        f"{len(records)} cells, {len(lost)} lost, median ratio {statistics.median(ratios.values()):.2f}, "
        f"least {min(ratios.values()):.2f}; from 100,000 numbers on: {len(large)} cells, "
        + (f"median {statistics.median(large.values()):.2f}, least {min(large.values()):.2f}." if large else "none."),
        f"oddsmith is within a gap of {OWN_TARGET:.0e} in all but {len(missed)} cells{': ' if missed else ''}"
        + ", ".join(missed)
        + ".",
        f"{doubtful} cells are in doubt (?): others took over {machine.DISTURBED:.0%} of the machine. Use --refine.",
    ]
    return "\n".join([*lines, *(["", "Lost cells:"] if lost else []), *map(in_words, lost)])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.map", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", choices=sorted(SIZES), default="all", help="by N · D: ≤ 1e5, ≤ 1e6, more, all")
    parser.add_argument("--cell", action="append", help="only this cell, as 4000x40x2-hard, or case; may be repeated")
    parser.add_argument("--largest", type=float, default=2e8, help="the most numbers N · D of a cell")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no cell after this time")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="only this library; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="timings in turn")
    parser.add_argument("--again", action="store_true", help="measure cells again that were measured before")
    parser.add_argument("--quick", action="store_true", help="only the fastest peers as set before; keep nothing")
    parser.add_argument("--refine", action="store_true", help="the same, but keep our times, and the peers' if less")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to wait for a quiet machine, per cell")
    parser.add_argument("--lost", action="store_true", help="only the cells that were lost")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of JSON lines to read and append to")
    parser.add_argument("--report", action="store_true", help="measure nothing: summary and picture of what was kept")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace, known: dict[str, dict[str, Any]]) -> list[Cell | Case]:
    """The cells to measure, in their order."""
    if options.cell:
        return [cell_named(name) for name in options.cell]
    least, most = SIZES[options.cells]
    found = [c for c in grid(options.largest) if least < c.numbers <= most]
    if options.lost:
        return [c for c in found if c.name in known and (ratio(known[c.name]) or 1.0) < 1.0]
    if options.refine:
        return [c for c in found if c.name in known]
    return [c for c in found if options.again or options.quick or c.name not in known]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, sum up, draw."""
    options = parse(arguments)
    known = kept(options.results)
    until = time.monotonic() + 60.0 * options.minutes
    cells: list[Cell | Case] = [] if options.report else chosen(options, known)
    measured = []
    atlas = Map(options, known)
    quick, keep = options.quick or options.refine, not options.quick
    try:
        for cell in cells:
            if time.monotonic() > until:
                break
            measured.append(atlas.measure(cell, quick=quick, keep=keep))
            print(in_words(measured[-1]), flush=True)
    finally:
        atlas.close()
    names = {c.name for c in grid(options.largest)}
    records = measured if options.quick or options.cell else [r for name, r in known.items() if name in names]
    print("\n" + summary(records))
    if not (options.quick or options.cell) and records:
        ratios = {r["cell"]: found for r in records if (found := ratio(r)) is not None}
        print(f"drew {map_picture.draw(records, ratios, options.results.with_suffix('.png'))}")


if __name__ == "__main__":
    main()
