"""What inference is worth and what it costs: coverage of intervals, passes and seconds. Prints one table for each.

python -m benchmarks.inference            # all of it, some minutes
python -m benchmarks.inference coverage   # or: cost, separation
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

from oddsmith import JeffreysPrior, LogisticRegression, detect_separation
from oddsmith.likelihood.objective import FoldObjective

SIMULATIONS = 2000


def draw(rng: np.random.Generator, X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return class codes drawn from a softmax with weights ``W`` (K−1 × (1 + columns)), against class 0."""
    A = np.column_stack([np.zeros(len(X)), np.column_stack([np.ones(len(X)), X]) @ W.T])
    P = np.exp(A - A.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    return (rng.random(len(X))[:, None] > np.cumsum(P, axis=1)[:, :-1]).sum(axis=1)


PROBLEMS: dict[str, tuple[int, np.ndarray]] = {
    "N = 50, two classes": (50, np.array([[0.2, 0.8, -0.5]])),
    "N = 200, two classes": (200, np.array([[-0.5, 0.6, -0.3, 0.2]])),
    "N = 1000, rare class": (1000, np.array([[-2.5, 0.5, -0.5]])),
    "N = 300, three classes": (300, np.array([[0.3, 0.6, -0.4], [-0.3, 0.2, 0.5]])),
}


def coverage(simulations: int = SIMULATIONS) -> None:
    """Print how often 95% intervals hold the weights that made the data."""
    print(f"{simulations} simulations; the share of 95% intervals that hold the true weight, each weight on its own")
    for name, (n, W) in PROBLEMS.items():
        held: dict[str, list[np.ndarray]] = {"wald": [], "sandwich": [], "profile": [], "firth profile": []}
        separated = 0
        for i in range(simulations):
            rng = np.random.default_rng(i)
            X = rng.normal(size=(n, W.shape[1] - 1))
            y = draw(rng, X, W)
            if len(set(y.tolist())) <= len(W):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = LogisticRegression(reference=0 if len(W) > 1 else None).fit(X, y)
            separated += not model.certificate_.optimum_exists
            tables: dict[str, Any] = {
                "wald": model.summary(),
                "sandwich": model.summary(X, y, covariance="sandwich"),
                "profile": model.summary(X, y, intervals="profile"),
            }
            if n == 50:
                firth = LogisticRegression(JeffreysPrior()).fit(X, y)
                tables["firth profile"] = firth.summary(X, y, intervals="profile")
            for kind, table in tables.items():
                held[kind].append((table.lower <= W.ravel()) & (W.ravel() <= table.upper))
        print(f"\n{name} ({separated} samples separated)")
        for kind, hits in held.items():
            if hits:
                shares = np.mean(hits, axis=0)
                print(f"  {kind:<14} " + "  ".join(f"{share:.4f}" for share in shares) + f"   mean {shares.mean():.4f}")


def counted(work: Any) -> tuple[float, int]:
    """Return seconds and passes over the data that some work takes."""
    passes = 0
    fold = FoldObjective._fold

    def count(self: FoldObjective, *arguments: Any) -> Any:
        nonlocal passes
        passes += 1
        return fold(self, *arguments)

    FoldObjective._fold = count  # type: ignore[method-assign]
    began = time.perf_counter()
    try:
        work()
    finally:
        FoldObjective._fold = fold  # type: ignore[method-assign]
    return time.perf_counter() - began, passes


def cost() -> None:
    """Print what a fit costs, and what inference adds."""
    rng = np.random.default_rng(0)
    for n, d in ((100_000, 20), (1_000_000, 50)):
        X = rng.normal(size=(n, d))
        y = draw(rng, X, np.concatenate([[-0.5], rng.normal(size=d) * 2.0 / np.sqrt(d)])[None, :])
        LogisticRegression().fit(X[:1000], y[:1000])
        model = LogisticRegression()
        seconds, passes = counted(lambda: model.fit(X, y))  # noqa: B023
        print(f"\n{n:,} × {d}: a fit takes {seconds:.2f} s and {passes} passes")
        work = {
            "summary()": lambda: model.summary(),  # noqa: B023
            "sandwich": lambda: model.summary(X, y, covariance="sandwich"),  # noqa: B023
            "diagnostics": lambda: model.diagnostics(X, y),  # noqa: B023
            "marginal effects": lambda: model.marginal_effects(X),  # noqa: B023
        }
        if n <= 100_000:
            work["profile intervals"] = lambda: model.summary(X, y, intervals="profile")  # noqa: B023
            work["drop_one"] = lambda: model.drop_one(X, y)  # noqa: B023
        for name, task in work.items():
            tracemalloc.start()
            more, again = counted(task)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            print(
                f"  {name:<18} {more:7.2f} s ({more / seconds:5.1f} fits), {again} passes of the likelihood, "
                f"{peak / 2**20:.1f} MiB above the data"
            )


def separation() -> None:
    """Print how long the diagnosis of separation takes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10_000, 20))
    a = X @ rng.normal(size=20)
    complete = (a > 0).astype(int)
    none = (a + rng.logistic(size=len(a)) > 0).astype(int)
    nearly = complete.copy()
    nearly[np.argsort(np.abs(a))[5000:5005]] ^= 1
    three = np.digitize(a, np.quantile(a, [0.3, 0.6]))
    dummy = X.copy()
    dummy[:, 0] = (np.arange(len(X)) % 200 == 0) & (none == 1)
    cases = {
        "none": (X, none),
        "none, five rows on the wrong side": (X, nearly),
        "complete": (X, complete),
        "quasi-complete (a dummy)": (dummy, none),
        "three classes in order": (X, three),
    }
    print("\ndetect_separation, 10,000 × 20")
    for name, (rows, y) in cases.items():
        began = time.perf_counter()
        found = detect_separation(rows, y)
        print(f"  {name:<34} {time.perf_counter() - began:6.2f} s  {found.kind}, {len(found.infinite)} infinite")


if __name__ == "__main__":
    tasks = {"coverage": coverage, "cost": cost, "separation": separation}
    for task in sys.argv[1:] or list(tasks):
        tasks[task]()
