"""Time the fits of generative models against scikit-learn's: ``python -m benchmarks.generative``.

Both sides are timed in turns in one process, all cores, the least of several fits each; a row of the table has our
model, every variant of scikit-learn for the same task, and how many times faster we are than the fastest of them.
Variants that reach the same estimate are marked =; the others solve the same task with another divisor of the
covariance. ``--check`` ends with an error if a factor is below what is promised.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, GaussianNB

from oddsmith import GaussianClassifier, NaiveBayes

SIZES = ((200_000, 50, 10), (1_000_000, 20, 2))
PROMISED = {"shared": 3.0, "separate": 3.0, "gaussian": 1.5, "bernoulli": 1.5}


@dataclass(frozen=True)
class Task:
    """Our model, the variants of theirs, and which rows both are fitted to."""

    ours: Callable[[], Any]
    theirs: dict[str, Callable[[], Any]]
    binary: bool = False


def tasks() -> dict[str, Task]:
    """Return the comparisons by name."""
    qda = {"QDA(svd)": QuadraticDiscriminantAnalysis}
    try:
        QuadraticDiscriminantAnalysis(solver="eigen")
        qda["QDA(eigen)"] = lambda: QuadraticDiscriminantAnalysis(solver="eigen")
    except TypeError:
        pass
    return {
        "shared": Task(
            lambda: GaussianClassifier("shared"),
            {f"LDA({s})": lambda s=s: LinearDiscriminantAnalysis(solver=s) for s in ("lsqr", "svd", "eigen")},
        ),
        "separate": Task(lambda: GaussianClassifier("separate"), qda),
        "gaussian": Task(lambda: NaiveBayes("gaussian"), {"GaussianNB": GaussianNB}),
        "bernoulli": Task(
            lambda: NaiveBayes("bernoulli"),
            {"BernoulliNB": BernoulliNB, "BernoulliNB(binarize=None)": lambda: BernoulliNB(binarize=None)},
            binary=True,
        ),
    }


def rows(n: int, D: int, K: int, *, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of K Gaussian classes (or their signs), and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    X = rng.normal(size=(n, D)) + rng.normal(size=(K, D))[y]
    return (X > 0).astype(np.float64) if binary else X, y


def seconds(fits: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the least time of each fit; they take turns, so that all see the same disturbances."""
    best = dict.fromkeys(fits, np.inf)
    for fit in fits.values():
        fit()
    for _ in range(repeats):
        for name, fit in fits.items():
            gc.collect()
            start = time.perf_counter()
            fit()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def agreement(task: Task, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the largest difference between posteriors of ours and of each variant, on some rows."""
    few = X[:2000]
    ours = task.ours().fit(X, y).predict_proba(few)
    return {name: float(abs(make().fit(X, y).predict_proba(few) - ours).max()) for name, make in task.theirs.items()}


def compare(name: str, task: Task, size: tuple[int, int, int], repeats: int) -> float:
    """Print one line of the table and return our factor over the fastest variant."""
    X, y = rows(*size, binary=task.binary)
    fits = {"oddsmith": lambda: task.ours().fit(X, y)}
    fits |= {variant: lambda make=make: make().fit(X, y) for variant, make in task.theirs.items()}
    best, off = seconds(fits, repeats), agreement(task, X, y)
    fastest = min(best[variant] for variant in task.theirs)
    factor = fastest / best["oddsmith"]
    others = ", ".join(f"{v} {best[v] * 1e3:.0f}{' =' if off[v] < 1e-10 else ''}" for v in task.theirs)
    n, D, K = size
    print(f"| {name} | {n:,} × {D}, {K} | {best['oddsmith'] * 1e3:.1f} | {others} | {factor:.1f} |", flush=True)
    return factor


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="timings of each fit, of which the least counts")
    parser.add_argument("--only", choices=list(tasks()), help="one task instead of all")
    parser.add_argument("--check", action="store_true", help="end with an error below the promised factors")
    given = parser.parse_args()
    print("| task | rows × columns, classes | oddsmith, ms | scikit-learn, ms (=: same posteriors) | times faster |")
    print("|---|---|---|---|---|")
    missed = []
    for name, task in tasks().items():
        if given.only in (None, name):
            for size in SIZES:
                factor = compare(name, task, size, given.repeats)
                if factor < PROMISED[name]:
                    missed.append(f"{name} at {size}: {factor:.2f} of {PROMISED[name]}")
    if given.check and missed:
        print("Below the promise: " + "; ".join(missed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
