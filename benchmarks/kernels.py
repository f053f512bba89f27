"""Kernel logistic regression: landmarks on many rows against scikit-learn's Nystroem, and every row of 2,000.

    python -m benchmarks.kernels                  # 300 landmarks, 200,000 × 10
    python -m benchmarks.kernels --rows 50000

Both sides have the same landmarks, width and prior (in function space: C is the variance), and take turns
in one process; the fastest of the repeats counts. Memory is the peak above the data, of a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression as SklearnLogistic

from oddsmith import GaussianKernel, GaussianPrior, LogisticRegression

WIDTH = 3.0


def curved_classes(rows: int, seed: int) -> tuple[Any, Any]:
    """Two classes with a curved boundary in ten columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 10))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 - 0.5
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(int)


def ours(X: Any, y: Any, landmarks: Any) -> Callable[[Any], Any]:
    """Fit and return the function that predicts."""
    prior = GaussianPrior(scale=1.0, space="function")
    return LogisticRegression(prior=prior, basis=GaussianKernel(WIDTH, landmarks=landmarks)).fit(X, y).predict


def theirs(X: Any, y: Any, landmarks: Any) -> Callable[[Any], Any]:
    """The same in scikit-learn: its map has the landmarks if it is fitted to nothing else."""
    features = Nystroem(gamma=1.0 / (2.0 * WIDTH**2), n_components=len(landmarks)).fit(landmarks)
    model = SklearnLogistic(C=1.0, max_iter=1000).fit(features.transform(X), y)
    return lambda rows: model.predict(features.transform(rows))


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_memory(rows: int, landmarks: int) -> None:
    """Print the most memory that a first fit in this process takes above the data, in MB."""
    X, y = curved_classes(rows, 0)
    before, most, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            most[0] = max(most[0], resident())

    thread = threading.Thread(target=watch)
    thread.start()
    ours(X, y, X[:landmarks])
    done.set()
    thread.join()
    print(f"peak above the data: {(most[0] - before) / 1e6:.0f} MB")


def main() -> None:
    """Run the contest and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--landmarks", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="measure the memory of one fit only")
    options = parser.parse_args()
    if options.memory:
        return peak_memory(options.rows, options.landmarks)
    warnings.simplefilter("ignore")
    X, y = curved_classes(options.rows, 0)
    fresh, truth = curved_classes(50_000, 1)
    best: dict[str, float] = {}
    accuracy: dict[str, float] = {}
    for _ in range(options.repeats):
        for name, fit in (("oddsmith", ours), ("scikit-learn", theirs)):
            began = time.perf_counter()
            predict = fit(X, y, X[: options.landmarks])
            best[name] = min(best.get(name, np.inf), time.perf_counter() - began)
            accuracy[name] = float((predict(fresh) == truth).mean())
    for name, seconds in best.items():
        print(f"{name:>13}  {seconds:7.2f} s  accuracy on new rows {accuracy[name]:.4f}")
    print(f"        ratio  {best['scikit-learn'] / best['oddsmith']:7.2f}")
    sizes = ["--rows", str(options.rows), "--landmarks", str(options.landmarks)]
    subprocess.run([sys.executable, "-m", "benchmarks.kernels", "--memory", *sizes], check=True)
    X, y = make_moons(2000, noise=0.25, random_state=0)
    for prior in (1.0, GaussianPrior(scale=1.0, space="function")):
        began = time.perf_counter()
        c = LogisticRegression(prior=prior, basis=GaussianKernel(0.5)).fit(X, y).certificate_
        print(
            f"every one of 2,000 rows, prior={prior}: {time.perf_counter() - began:.2f} s, {c.converged=}, {c.gap=:.1e}"
        )
    return None


if __name__ == "__main__":
    main()
