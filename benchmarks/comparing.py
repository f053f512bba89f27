"""Every family on four tables, one broken model among them: ``python -m benchmarks.comparing``.

What ``compare("all", X, y)`` prints, and what it takes beyond the fits and predictions of the single folds: the aim is
no more than 1.3 times their sum. ``--check`` ends with an error where it takes more, or names no winner.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits

from oddsmith import compare
from oddsmith.demo import penguins
from oddsmith.evaluation.comparison import default_models

PROMISED = 1.3


class Broken(ClassifierMixin, BaseEstimator):
    """A classifier that cannot be fitted."""

    def fit(self, X: Any, y: Any) -> Broken:
        raise RuntimeError("broken on purpose")

    def predict(self, X: Any) -> Any:
        raise RuntimeError("never fitted")


def large(rows: int) -> tuple[Any, Any]:
    """A table of twenty columns and two classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 20))
    return X, (0.5 * X @ rng.normal(size=20) + rng.logistic(size=rows) > 0).astype(int)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000, help="rows of the large table")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="end with an error above the promised factor")
    given = parser.parse_args()
    tables = {
        "penguins": penguins(),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
        f"{given.rows:,} rows": large(given.rows),
    }
    compare("all", *tables["penguins"])  # what is loaded at the first call is no part of a comparison
    missed = []
    for name, (X, y) in tables.items():
        models = {**default_models(len(np.unique(y))), "broken": Broken()}
        start = time.perf_counter()
        found = compare(models, X, y, given.folds)
        seconds = time.perf_counter() - start
        fits = sum(found.columns["fit_seconds"]) + sum(found.columns["predict_seconds"])
        print(f"\n{name}: {seconds:.2f} s, {seconds / fits:.2f} times the fits and predictions\n{found}", flush=True)
        if seconds > PROMISED * fits or found.best is None or found.columns["verdict"][-1] != "failed":
            missed.append(name)
    if missed:
        print("\nNot as promised: " + ", ".join(missed), file=sys.stderr)
    return int(bool(missed) and given.check)


if __name__ == "__main__":
    sys.exit(main())
