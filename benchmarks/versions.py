"""Two versions of oddsmith in turn on the cases of this folder: least time of each, and how far weights differ.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.versions /tmp/before/src src --case dense-20 --repeats 15

Both stay in memory, and fits alternate, so that both see the same weather.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .cases import CASES


class Version:
    """A process that fits one case with one version of the source."""

    def __init__(self, source: Path, data: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(Path(__file__).parents[1])])}
        command = [sys.executable, "-m", "benchmarks.versions", "--worker", str(data)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def ask(self) -> dict[str, Any]:
        """Fit once; return the seconds, the weights and the passes."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"fit\n")
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)  # from our own process

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def work(data: Path) -> None:
    """Fit the case as often as asked."""
    from oddsmith import LogisticRegression

    problem = pickle.loads(data.read_bytes())  # written by `compare`
    for _ in sys.stdin:
        began = time.perf_counter()
        model = LogisticRegression(prior=problem.sigma).fit(problem.X, problem.y)
        seconds = time.perf_counter() - began
        weights = np.column_stack([model.intercept_, model.coef_])
        answer = {"seconds": seconds, "weights": weights, "passes": model.certificate_.passes}
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def compare(name: str, sources: list[Path], repeats: int) -> str:
    """Return a line for one case."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "problem")
        data.write_bytes(pickle.dumps(CASES[name].problem(), protocol=5))
        versions = [Version(source, data) for source in sources]
        answers = [[version.ask() for version in versions] for _ in range(repeats + 1)][1:]
        for version in versions:
            version.close()
    old, new = ([answer[k] for answer in answers] for k in (0, 1))
    seconds = [min(a["seconds"] for a in side) for side in (old, new)]
    scale = np.abs(old[0]["weights"]).max()
    difference = np.abs(new[0]["weights"] - old[0]["weights"]).max() / scale
    times = f"{1e3 * seconds[0]:9.2f} {1e3 * seconds[1]:9.2f} ms, ratio {seconds[1] / seconds[0]:.3f}"
    return f"{name:20} {times}, weights differ by {difference:.1e}, passes {old[0]['passes']} and {new[0]['passes']}"


def main() -> None:
    """Compare two versions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path, help="the folders that hold the package, old and new")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker)
        return
    if len(options.sources) != 2:
        parser.error("give two folders, the old version's and the new one's")
    for name in options.case or CASES:
        print(compare(name, [source.resolve() for source in options.sources], options.repeats), flush=True)


if __name__ == "__main__":
    main()
