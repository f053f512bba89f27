"""Discriminant functions against the bare Gram product and scikit-learn, all measured in one run.

    python -m benchmarks.discriminant                     # 1,000,000 × 20, rows around zero
    python -m benchmarks.discriminant --shift 10          # rows ten standard deviations away from it
    python -m benchmarks.discriminant --classes 5 --rows 200000

A fold of these models costs about one product XᵀX, which is the yardstick: no more than twice its time is the aim.
Contestants take turns, and the fastest of the repeats counts, because other programs only ever add time. The
processor time of all threads stands beside it: that is what is left to compare on a machine that is busy.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Perceptron, RidgeClassifier

from oddsmith import FisherDiscriminant, LeastSquaresClassifier, PerceptronClassifier
from oddsmith.engines import MemoryEngine, MemorySource, one_blas_thread
from oddsmith.statistics import Gram

Contest = dict[str, Callable[[], Any]]


def gaussian_classes(rows: int, columns: int, classes: int, shift: float) -> tuple[Any, Any]:
    """Overlapping Gaussian classes of one covariance, as many rows as asked for."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    means = rng.normal(size=(classes, columns)) / np.sqrt(columns)
    X = rng.normal(size=(rows, columns))
    X += means[y] + shift
    return X, y


def separable_classes(rows: int, columns: int) -> tuple[Any, Any]:
    """Two classes with a gap between them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, columns))
    a = X @ rng.normal(size=columns)
    wide = np.abs(a) > 0.3
    return X[wide], (a > 0)[wide]


def fastest(contest: Contest, repeats: int) -> dict[str, tuple[float, float]]:
    """Seconds by the clock and by the processor of each one's fastest repeat; in each round everyone has a turn."""
    best = dict.fromkeys(contest, (np.inf, np.inf))
    for _ in range(repeats):
        for name, run in contest.items():
            clock, processor = time.perf_counter(), time.process_time()
            run()
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            best[name] = (min(best[name][0], clock), min(best[name][1], processor))
    return best


def closed_forms(X: Any, y: Any) -> Contest:
    source = MemorySource(X, y.astype(np.int32), int(y.max()) + 1)

    def fold() -> Any:
        with one_blas_thread():
            return MemoryEngine().fold(Gram, source, source.shape)

    return {
        "bare Gram product (NumPy)": lambda: X.T @ X,
        "oddsmith fold of the Gram matrix": fold,
        "oddsmith LeastSquaresClassifier": lambda: LeastSquaresClassifier().fit(X, y),
        "oddsmith FisherDiscriminant": lambda: FisherDiscriminant().fit(X, y),
        "scikit-learn RidgeClassifier(cholesky)": lambda: RidgeClassifier(alpha=1e-6, solver="cholesky").fit(X, y),
        "scikit-learn LDA(lsqr)": lambda: LinearDiscriminantAnalysis(solver="lsqr").fit(X, y),
        "scikit-learn LDA(svd)": lambda: LinearDiscriminantAnalysis(solver="svd").fit(X, y),
    }


def perceptrons(X: Any, y: Any) -> tuple[Contest, int]:
    """Both perceptrons for as many epochs as ours needs to converge."""
    model = PerceptronClassifier().fit(X, y)
    assert model.converged_
    return {
        "oddsmith PerceptronClassifier": lambda: PerceptronClassifier().fit(X, y),
        "scikit-learn Perceptron": lambda: Perceptron(max_iter=model.n_iter_, tol=None).fit(X, y),
    }, model.n_iter_


def show(title: str, seconds: dict[str, tuple[float, float]]) -> None:
    clock, processor = next(iter(seconds.values()))
    print(f"\n{title}\n{'':42}{'clock, s':>10}{'ratio':>8}{'processor, s':>15}{'ratio':>8}")
    for name, (a, b) in seconds.items():
        print(f"{name:42}{a:10.4f}{a / clock:8.2f}{b:15.4f}{b / processor:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--shift", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    size = f"{options.rows:,} × {options.columns}"
    X, y = gaussian_classes(options.rows, options.columns, options.classes, options.shift)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = fastest(closed_forms(X, y), options.repeats)
        show(f"{size}, {options.classes} classes, mean {options.shift:g}: fastest of {options.repeats}", seconds)
        X, y = separable_classes(options.rows, options.columns)
        contest, epochs = perceptrons(X, y)
        seconds = fastest(contest, min(3, options.repeats))
    show(f"{len(X):,} × {options.columns}, two separable classes, {epochs} epochs", seconds)


if __name__ == "__main__":
    main()
