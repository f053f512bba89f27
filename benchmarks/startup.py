"""The whole process, import included: start Python, import, read .npy files, fit; oddsmith and scikit-learn in turn.

    python -m benchmarks.startup                measure, print, draw results/startup.png
    python -m benchmarks.startup --rounds 9     more rounds; the least of each counts

On a *fresh* machine every cache folder is empty and no bytecode is there; on a *used* one a process has run before.
What the operating system keeps of the files in memory is warm in both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, generators, machine, store

KEPT = store.RESULTS / "startup.json"
PICTURE = store.RESULTS / "startup.png"
IMPORTS = {
    "oddsmith": "from oddsmith import LogisticRegression; model = LogisticRegression(prior=1.0)",
    "scikit-learn": "from sklearn.linear_model import LogisticRegression; model = LogisticRegression(C=1.0)",
}
TABLES = {"iris": "iris, 150 × 4, 3 classes", "tall": "1,000,000 × 20, 2 classes"}
STATES = {"fresh": "fresh machine", "used": "used machine"}
PARTS = {"start": "Python", "import": "import", "load": "read .npy", "fit": "fit"}
CACHES = ("HOME", "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
"""What decides where a process looks for caches; all are one empty folder on a fresh machine."""

SCRIPT = """
import time
times = [time.perf_counter()]
{imports}
times.append(time.perf_counter())
import numpy as np
X, y = np.load("X.npy"), np.load("y.npy")
times.append(time.perf_counter())
model.fit(X, y)
times.append(time.perf_counter())
model.fit(X, y)
times.append(time.perf_counter())
print([b - a for a, b in zip(times, times[1:])])
"""


def save_tables(folder: Path) -> None:
    """Write the tables to read."""
    for name, problem in (("iris", datasets.bundled("iris")), ("tall", generators.binary(1_000_000, 20, seed=1))):
        (folder / name).mkdir()
        np.save(folder / name / "X.npy", problem.X)
        np.save(folder / name / "y.npy", problem.y)


def run(library: str, table: Path, caches: Path) -> dict[str, float]:
    """Run one process; return the seconds of each part, and of a second fit, which is no part of the whole."""
    environment = os.environ | dict.fromkeys(CACHES, str(caches))
    script = SCRIPT.format(imports=IMPORTS[library])
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, cwd=table, capture_output=True, check=True
    )
    taken = time.perf_counter() - start
    *seconds, second = json.loads(done.stdout)
    parts = dict(zip(("import", "load", "fit"), seconds, strict=True))
    return {"start": taken - sum(seconds) - second, **parts, "second": second}


def whole(seconds: dict[str, float]) -> float:
    """The seconds of the whole process, up to the end of the first fit."""
    return sum(seconds[part] for part in PARTS)


def written(folder: Path) -> dict[str, int]:
    """The files in a cache folder, bytecode aside, counted by their ending."""
    return Counter(f.suffix or f.name for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc")


def measure(rounds: int) -> dict[str, Any]:
    """Run all pairs in turn, ``rounds`` times; keep the quickest process of each."""
    best: dict[str, dict[str, float]] = {}
    left: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_tables(folder)
        for turn in range(rounds):
            for table in TABLES:
                for library in IMPORTS:
                    caches = folder / f"caches-{library}-{table}-{turn}"
                    caches.mkdir()
                    for state in STATES:  # the second process finds what the first one left
                        found = run(library, folder / table, caches)
                        key = f"{table} {state} {library}"
                        best[key] = min(best.get(key, found), found, key=whole)
                    left[library] = written(caches)
    return {"machine": machine.in_words(), "rounds": rounds, "seconds": best, "written": left}


def in_words(kept: dict[str, Any]) -> str:
    """A line for each process, and the ratio of each pair."""
    lines = [f"least of {kept['rounds']} processes each; {kept['machine']}"]
    for table, title in TABLES.items():
        for state in STATES:
            found = [kept["seconds"][f"{table} {state} {library}"] for library in IMPORTS]
            for library, parts in zip(IMPORTS, found, strict=True):
                shares = ", ".join(f"{label} {parts[part]:.3f}" for part, label in PARTS.items())
                lines.append(
                    f"{title}, {STATES[state]}: {library:<12} {whole(parts):.3f} s ({shares}); "
                    f"first fit {parts['fit'] / parts['second']:.2f} of the second"
                )
            ours, theirs = map(whole, found)
            lines.append(f"    oddsmith takes {ours / theirs:.2f} of scikit-learn's time")
    lines += [
        f"{library} left in the cache folders, bytecode aside: {files}" for library, files in kept["written"].items()
    ]
    return "\n".join(lines)


def draw(kept: dict[str, Any], path: Path = PICTURE) -> Path:
    """A panel for each table, a bar for each process, its parts in their order."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(TABLES), figsize=(12, 2.9), layout="constrained")
    figure.set_facecolor("white")
    colours = dict(zip(PARTS, ("0.75", "#7fb3d9", "#e6b35c", "#1b4f8a"), strict=True))
    bars = [(state, library) for state in STATES for library in IMPORTS]
    for axis, (table, title) in zip(panels, TABLES.items(), strict=True):
        for place, (state, library) in enumerate(bars):
            y, end = place + 0.5 * (place > 1), 0.0
            seconds = kept["seconds"][f"{table} {state} {library}"]
            for part, words in PARTS.items():
                label = words if place == 0 and axis is panels[0] else None
                axis.barh(y, seconds[part], left=end, color=colours[part], label=label)
                end += seconds[part]
            axis.text(
                end, y, f" {end:.2f} s", va="center", fontsize=9, weight="bold" if library == "oddsmith" else None
            )
        axis.set_yticks([0, 1, 2.5, 3.5], [f"{library}, {state}" for state, library in bars])
        axis.invert_yaxis()
        axis.set(title=title, xlabel="seconds")
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(PARTS), frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind, the quickest of which counts")
    parser.add_argument("--report", action="store_true", help="measure nothing: print and draw what was kept")
    options = parser.parse_args(arguments)
    if not options.report:
        KEPT.write_text(json.dumps(measure(options.rounds), indent=1) + "\n")
    kept = json.loads(KEPT.read_text())
    print(in_words(kept))
    print(f"drew {draw(kept).relative_to(store.HERE.parent)}")


if __name__ == "__main__":
    main()
