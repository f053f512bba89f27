"""The one command: measure, keep the numbers, print and write the table.

It is called so:

    python -m benchmarks                       every case, every library
    python -m benchmarks --case dense-20 --peer oddsmith --peer "glum irls-ls"
    python -m benchmarks --quick               a fiftieth of the rows, as a smoke test
    python -m benchmarks growth                the growth curves and their picture
    python -m benchmarks report                the table from the numbers already kept

Results stay in `benchmarks/results`, one file a case; a peer measured again replaces its own entry only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from . import growth, report, store
from .cases import CASES, GROWTH, MAIN, Case
from .measure import Limits, measure
from .peers import PEERS

PAGE = store.HERE / "RESULTS.md"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("run", "growth", "report"), default="run")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="only this library; may be repeated")
    parser.add_argument("--repeats", type=int, default=3, help="timings per setting, the least of which counts")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one fit may take")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for a quiet machine, per run")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows, one timing, 20 seconds a fit")
    return parser.parse_args(arguments)


def measure_all(cases: Sequence[Case], peers: Sequence[str], limits: Limits, console: Console) -> None:
    """Measure every pair, one after another, and keep each result at once."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=len(cases) * len(peers))
        for case in cases:
            progress.update(task, description=f"{case.key}: data and optimum")
            facts = store.prepare(case)
            for name in peers:
                progress.update(task, description=f"{case.key}: {name}")
                run = measure(PEERS[name], case.key, facts, limits)
                store.record(case.key, name, run)
                progress.advance(task)
                console.print(f"{case.key:>20}  {name:<28} {_in_short(run)}", highlight=False)


def _in_short(run: dict[str, object]) -> str:
    fits = run["fits"]
    assert isinstance(fits, list)
    if not fits:
        return f"{run['status']}: {run['reason']}"
    last = fits[-1]
    extra = f" ({run['reason']})" if run["reason"] else ""
    return f"{min(last['seconds']):.4f} s at {last['tol']}, f = {last['objective']:.10g}{extra}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    options = parse(arguments)
    console = Console(width=max(150, Console().width))
    default = GROWTH if options.what == "growth" else MAIN
    cases = [CASES[name] for name in options.case] if options.case else list(default)
    peers = options.peer or list(growth.PEERS if options.what == "growth" else PEERS)
    limits = Limits(options.repeats, options.limit, options.limit, options.patience)
    if options.quick:
        cases, limits = [case.shrunk() for case in cases], Limits(1, 20.0, 20.0, 0.0)
    if options.what != "report":
        measure_all(cases, peers, limits, console)
    if options.what == "growth" and not options.quick:
        console.print(f"drew {growth.draw().relative_to(store.HERE.parent)}")
    if not options.quick:
        PAGE.write_text(report.page([*MAIN, *GROWTH]))
    console.print(Markdown(report.page(cases)))


if __name__ == "__main__":
    main()
