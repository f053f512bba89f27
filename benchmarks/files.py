"""Fits from files larger than memory: throughput and peak memory over the size of the data, and CSV against its reader.

    python -m benchmarks.files parquet --sizes 0.1 0.5 2 8 20 --memory 1GB
    python -m benchmarks.files csv --rows 10000000

Data is made in a temporary folder (``--folder``: on which disk) and removed after. Each fit runs in a process of its
own, so that its peak of resident memory is its own. Sizes are GB of decoded float64 columns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import store

MODELS = ("LogisticRegression", "GaussianClassifier", "NaiveBayes")
COLUMNS = 50
ROWS_A_FILE = 500_000
GROUP = 125_000
RESULTS = store.RESULTS / "files.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["parquet", "csv", "draw", "fit", "read"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 8.0, 20.0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--folder", help="where the data is made")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "fit":
        print(json.dumps(fit(options.data, options.models[0], options.memory)))
        return
    if options.what == "read":
        print(json.dumps(read(options.data)))
        return
    if options.what == "parquet":
        parquet(options)
    elif options.what == "csv":
        text(options)
    if options.what != "csv":
        print(draw())


def parquet(options: argparse.Namespace) -> None:
    """Fit every model to Parquet folders of every size."""
    for size in options.sizes:
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            make_parquet(folder, size)
            for model in options.models:
                record = run("fit", folder, model, options.memory)
                keep("parquet", {"gigabytes": size, "memory": options.memory, **record})
        finally:
            shutil.rmtree(folder)


def text(options: argparse.Namespace) -> None:
    """Fit every model to one CSV file, and read it with pyarrow for comparison."""
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        path = make_csv(folder, options.rows)
        keep("csv", {"rows": options.rows, "bytes": path.stat().st_size, **run("read", path)})
        for model in options.models:
            record = run("fit", path, model, options.memory)
            keep("csv", {"rows": options.rows, "memory": options.memory, **record})
    finally:
        shutil.rmtree(folder)


def make_parquet(folder: Path, gigabytes: float) -> None:
    """Write rows of 50 numbers and a label, whose log odds are linear in them, in files of 200 MB."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    w = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    rows = round(gigabytes * 1e9 / (8 * COLUMNS))
    for i, start in enumerate(range(0, rows, ROWS_A_FILE)):
        X = rng.normal(size=(min(ROWS_A_FILE, rows - start), COLUMNS))
        y = X @ w + rng.logistic(size=len(X)) > 0
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)} | {"y": y.astype(np.int8)}
        parquet.write_table(pa.table(columns), folder / f"part-{i:04}.parquet", row_group_size=GROUP)


def make_csv(folder: Path, rows: int) -> Path:
    """Write rows of eight numbers, a word and a label."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue"])
    path = folder / "table.csv"
    with path.open("wb") as file:
        for start in range(0, rows, ROWS_A_FILE):
            n = min(ROWS_A_FILE, rows - start)
            X = rng.normal(size=(n, 8)).round(5)
            y = X[:, 0] - X[:, 1] + rng.logistic(size=n) > 0
            columns = {f"x{j}": X[:, j] for j in range(8)} | {"c": words[rng.integers(0, 3, n)], "y": y.astype(int)}
            csv.write_csv(pa.table(columns), file, csv.WriteOptions(include_header=start == 0))
    return path


def run(what: str, data: Path, model: str = "", memory: str = "1GB") -> dict[str, Any]:
    """Run a fit or a read in a process of its own, and return its record."""
    command = [sys.executable, "-m", "benchmarks.files", what, "--data", str(data), "--memory", memory]
    command += ["--models", model] if model else []
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=store.HERE.parent)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(data.name, json.dumps(record), flush=True)
    return record


def fit(data: str, name: str, memory: str) -> dict[str, Any]:
    """Fit a model, and return seconds, seconds of each pass, and the peak of resident memory."""
    import oddsmith

    rng = np.random.default_rng(0)
    getattr(oddsmith, name)().fit(rng.normal(size=(99, 2)), np.arange(99) % 2)  # imports
    before = peak()
    ends: list[float] = []
    start = time.perf_counter()

    def progress(done: int, total: int) -> None:
        if done == total:
            ends.append(time.perf_counter())

    model = getattr(oddsmith, name)().fit(data, y="y", memory=memory, progress=progress)
    seconds = time.perf_counter() - start
    passes = [round(end - begin, 3) for begin, end in zip([start, *ends], ends, strict=False)]
    record = {"model": name, "seconds": seconds, "passes": passes, "before_mb": before, "peak_mb": peak()}
    certificate = getattr(model, "certificate_", None)
    return record if certificate is None else {**record, "gap": certificate.gap, "converged": certificate.converged}


def read(data: str) -> dict[str, Any]:
    """Merely read a CSV with pyarrow, on all cores, twice."""
    from pyarrow import csv

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        csv.read_csv(data)
        seconds.append(time.perf_counter() - start)
    return {"model": "pyarrow.csv.read_csv", "seconds": min(seconds), "passes": seconds, "peak_mb": peak()}


def peak() -> float:
    """Return the most memory (MB) that this process has had in RAM."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("VmHWM"))


def keep(kind: str, record: dict[str, Any]) -> None:
    """Add a record to the results; one of the same case takes the place of the earlier one."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"parquet": [], "csv": []}
    case = ("gigabytes", "rows", "memory", "model")
    others = [r for r in results[kind] if any(r.get(key) != record.get(key) for key in case)]
    results[kind] = sorted([*others, record], key=lambda r: (r["model"], r.get("gigabytes", 0)))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def draw(path: Path = store.RESULTS / "files.png") -> Path:
    """Draw throughput and peak memory over the size of the data."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = json.loads(RESULTS.read_text())["parquet"]
    figure, (speed, memory) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for model in sorted({record["model"] for record in records}):
        some = sorted((r for r in records if r["model"] == model), key=lambda r: r["gigabytes"])
        sizes = [r["gigabytes"] for r in some]
        speed.plot(sizes, [r["gigabytes"] * len(r["passes"]) / r["seconds"] for r in some], "o-", ms=4, label=model)
        memory.plot(sizes, [r["peak_mb"] / 1e3 for r in some], "o-", ms=4, label=model)
    speed.set(xscale="log", xlabel="GB of decoded columns", ylabel="GB/s, passes × size ÷ seconds", ylim=(0, None))
    memory.set(xscale="log", xlabel="GB of decoded columns", ylabel="peak resident memory, GB", ylim=(0, None))
    for axis in (speed, memory):
        axis.grid(alpha=0.3, lw=0.5)
    speed.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


if __name__ == "__main__":
    main()
