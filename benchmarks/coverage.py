"""How often the intervals of ``evaluate`` hold the truth: ``python -m benchmarks.coverage``.

Rows come from a known model, and are judged by probabilities that are off in a known way, so that every score has a
true value: from the map itself (calibration slope and intercept), else from four million rows. An interval of level
0.95 should hold it in 93 to 97 of 100 repeats; ``--check`` ends with an error where one does not. Where the truth is
the least or largest value that there is (no calibration error at all, classes of equal shares), an interval can only
be wrong on one side, and holds it more often.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.evaluation import evaluate
from oddsmith.evaluation.sums import bin_of
from oddsmith.numerics import softmax

# The least calibration error and the largest uncertainty that there can be, by number of classes.
EDGES = {
    "calibration_error": {2: 0.0, 3: 0.0},
    "brier_reliability": {2: 0.0, 3: 0.0},
    "brier_uncertainty": {2: 0.25, 3: 2 / 3},
}
LOSS = {2: [[0, 1], [5, 0]], 3: [[0, 1, 2], [4, 0, 1], [2, 2, 0]]}


@dataclass
class Stated:
    """A model that states the softmax of slope · activations + shift, whatever the truth."""

    slope: float
    shift: Any

    @property
    def classes_(self) -> Any:
        return np.arange(len(self.shift))

    def predict_proba(self, A: Any) -> Any:
        return softmax(self.slope * A + self.shift)

    def predict(self, A: Any) -> Any:
        return self.predict_proba(A).argmax(axis=1)


def draw(n: int, K: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Activations, whose softmax the labels follow, and labels."""
    A = 1.5 * rng.normal(size=(n, K))
    return A, (A + rng.gumbel(size=A.shape)).argmax(axis=1)


def truth(model: Stated, K: int, rows: int) -> dict[str, float]:
    """The value of each score for very many rows."""
    A, t = draw(rows, K, np.random.default_rng(123))
    found = evaluate(model, A, t, LOSS[K], reject=0.5, replicates=100)
    values = {name: estimate.value for name, estimate in found.scores.items()}
    shift = -np.asarray(model.shift) / model.slope
    values["calibration_slope"] = 1.0 / model.slope
    values |= bin_truth(model, A)
    if K == 2:
        values["calibration_intercept"] = float(shift[1] - shift[0])
    else:
        values |= {f"calibration_intercept[{k}]": float(shift[k] - shift.mean()) for k in range(K)}
    return values


def bin_truth(model: Stated, A: Any) -> dict[str, float]:
    """Calibration error and reliability, from the true probabilities in place of labels."""
    P, Q = model.predict_proba(A), softmax(A)
    classes = [1] if P.shape[1] == 2 else range(P.shape[1])
    error = reliability = 0.0
    for k in classes:
        cell = bin_of(P[:, k], 10)
        n = np.bincount(cell)
        gap = np.bincount(cell, weights=P[:, k] - Q[:, k]) / n
        error += float(n @ np.abs(gap)) / len(P) / len(classes)
        reliability += float(n @ gap**2) / len(P)
    return {"calibration_error": error, "brier_reliability": reliability}


def coverage(model: Stated, K: int, n: int, repeats: int, true: dict[str, float]) -> dict[str, float]:
    """The share of repeats in which each interval holds the truth."""
    rng = np.random.default_rng([K, n])
    held = dict.fromkeys(true, 0)
    for repeat in range(repeats):
        A, t = draw(n, K, rng)
        found = evaluate(model, A, t, LOSS[K], reject=0.5, replicates=1000, seed=repeat)
        for name, value in true.items():
            low, high = found.interval(name)
            held[name] += low <= value <= high
    return {name: count / repeats for name, count in held.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 6000], help="rows of a repeat; 6000: by groups")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--truth", type=int, default=4_000_000, help="rows that the true values are taken from")
    parser.add_argument("--check", action="store_true", help="end with an error outside 93 to 97 of 100")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    missed = []
    for K in given.classes:
        shift = np.array([0.3, -0.3, 0.0][:K])
        for slope, what in ((1.3, "off"), (1.0, "calibrated")):
            model = Stated(slope, shift if what == "off" else 0.0 * shift)
            true = truth(model, K, given.truth)
            for n in given.rows:
                found = coverage(model, K, n, given.repeats, true)
                print(f"\n{K} classes, {what}, {n} rows, {given.repeats} repeats")
                for name, share in found.items():
                    at_edge = name in EDGES and abs(true[name] - EDGES[name][K]) < 1e-5
                    out = not 0.93 <= share <= (1.0 if at_edge else 0.97)
                    missed += [f"{name} ({K}, {what}, {n})"] if out else []
                    print(f"  {name:26} {true[name]:10.5f}  {100 * share:5.1f} %{' <' if out else ''}", flush=True)
    if missed:
        print("\nOutside 93 to 97: " + ", ".join(missed))
    return int(bool(missed) and given.check)


if __name__ == "__main__":
    sys.exit(main())
