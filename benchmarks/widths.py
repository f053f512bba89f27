"""Widths of priors: what finding one costs, and how right it is. ``python -m benchmarks.widths [part …]``.

Parts: ``cost`` (evidence and leave-one-out in single fits, at 200,000 × 50), ``cv`` (against scikit-learn's
``LogisticRegressionCV`` at the same widths and folds), ``loo`` (approximate leave-one-out against N refits on five real
data sets, at 20 widths), ``known`` (widths that the data was made with), ``few`` (predictions from few rows with the
weights integrated out). ``--quick`` takes smaller data and fewer repeats.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from oddsmith import GaussianPrior, LogisticRegression


def rows(N: int, D: int, seed: int = 0, width: float = 0.3) -> tuple[Any, Any]:
    """Rows and labels of a known logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, (X @ rng.normal(size=D) * width + 0.5 + rng.logistic(size=N) > 0).astype(int)


def interleaved(functions: dict[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The median time of each, taken in turns, so that a busy moment of the machine meets all of them; and results."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    results = {name: function() for name, function in functions.items()}  # compile, warm up
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            results[name] = function()
            times[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in times.items()}, results


def cost(quick: bool) -> None:
    """Print the cost of finding a width in single fits."""
    X, y = rows(100_000 if quick else 200_000, 50)
    priors: dict[str, Any] = {"fit": 1.0}
    priors |= {how: GaussianPrior(scale=how) for how in ("evidence", "loo")}
    times, models = interleaved(
        {name: lambda prior=prior: LogisticRegression(prior).fit(X, y) for name, prior in priors.items()},
        5 if quick else 15,
    )
    print(f"cost at {X.shape[0]} × {X.shape[1]}")
    for name, seconds in times.items():
        width = models[name].prior_.scale
        print(f"  {name:9} {1e3 * seconds:7.1f} ms  {seconds / times['fit']:5.2f} fits  width {width:.4g}")


def cv(quick: bool) -> None:
    """Print the time of cross-validation and of scikit-learn's, 20 widths and 5 folds."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    widths = np.logspace(-2.0, 2.0, 20)
    for N, D in ((20_000, 20),) if quick else ((2_000, 20), (20_000, 50), (200_000, 50)):
        X, y = rows(N, D)
        splits = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        prior = GaussianPrior(scale="cv", scales=widths, cv=splits)
        how = {"Cs": widths**2, "cv": splits, "scoring": "neg_log_loss", "n_jobs": -1}

        def peer(X: Any = X, y: Any = y, how: dict[str, Any] = how) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return LogisticRegressionCV(**how).fit(X, y)

        functions = {"own": lambda X=X, y=y, prior=prior: LogisticRegression(prior).fit(X, y), "scikit-learn": peer}
        times, models = interleaved(functions, 1 if quick or N > 100_000 else 3)
        ratio = times["scikit-learn"] / times["own"]
        both = f"{times['own']:.2f} s, scikit-learn {times['scikit-learn']:.2f} s"
        print(f"cv at {N} × {D}: {both}, {ratio:.1f} times as long")
        found = [models["own"].prior_.scale, float(np.sqrt(np.ravel(models["scikit-learn"].C_)[0]))]
        k, j = (int(np.argmin(abs(widths - width))) for width in found)
        print(f"  widths {found[0]:.3g} and {found[1]:.3g}: {abs(k - j)} steps apart")


def real(quick: bool) -> dict[str, tuple[Any, Any]]:
    """Five real data sets, columns standardised."""
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from tests.reference_data import cases

    tables = {name: (load(return_X_y=True)) for name, load in (("iris", load_iris), ("wine", load_wine))}
    for name in ("pima", "birthwt", "infert"):
        case = cases(f"glm_{name}")[0]
        tables[name] = (case.X, np.unique(case.y, return_inverse=True)[1])
    if not quick:
        tables["breast cancer"] = load_breast_cancer(return_X_y=True)
    return {name: ((X - X.mean(axis=0)) / X.std(axis=0), y) for name, (X, y) in tables.items()}


def exact_loss(X: Any, y: Any, width: float) -> float:
    """The leave-one-out loss by N refits."""
    index, total = np.arange(len(y)), 0.0
    model = LogisticRegression(width, warm_start=True).fit(X, y)
    start = {name: getattr(model, name) for name in ("coef_", "intercept_")}
    for n in index:
        vars(model).update(start)
        P = model.fit(X[index != n], y[index != n]).predict_proba(X[[n]])
        total -= float(np.log(P[0, y[n]]))
    return total / len(y)


def loo(quick: bool) -> None:
    """Print approximate against exact leave-one-out."""
    for name, (X, y) in real(quick).items():
        grid = np.logspace(-1.5, 1.0, 20)
        approximate = [LogisticRegression(w).fit(X, y).leave_one_out(X, y).log_loss for w in grid]
        k = int(np.argmin(approximate))
        near = range(max(0, k - 3), min(20, k + 4))
        exact = {j: exact_loss(X, y, grid[j]) for j in near}
        best = min(exact, key=exact.__getitem__)
        off = approximate[k] / exact[k] - 1.0
        print(f"loo {name:14} {X.shape}: {100 * off:+.2f}% at width {grid[k]:.3g}, {abs(best - k)} steps from the best")


def known(quick: bool) -> None:
    """Print the widths that the evidence finds where the true one is known."""
    for width in (0.2, 0.7, 2.0):
        ratios = []
        for seed in range(20):
            X, y = rows(1000, 20, seed, width)
            ratios.append(LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y).prior_.scale / width)
        logs = np.log(ratios)
        print(
            f"known width {width}: found / true {np.exp(logs.mean()):.3f} on average, spread {np.exp(logs.std()):.3f}"
        )


def few(quick: bool) -> None:
    """Print the log loss on fresh rows of predictive, plug-in and maximum likelihood, 50 problems of 30 rows."""
    losses: dict[str, list[float]] = {"predictive": [], "most probable weights": [], "maximum likelihood": []}
    for seed in range(50):
        X, y = rows(5030, 5, seed, 1.0)
        fresh = slice(30, None)
        model = LogisticRegression(GaussianPrior(covariance=np.full(6, 1.0))).fit(X[:30], y[:30])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # separated
            likelihood = LogisticRegression().fit(X[:30], y[:30])
        found = (model.predictive(X[fresh]).mean, model.predict_proba(X[fresh]), likelihood.predict_proba(X[fresh]))
        for name, P in zip(losses, found, strict=True):
            losses[name].append(float(-np.log(np.maximum(P[np.arange(5000), y[fresh]], 1e-15)).mean()))
    for name, values in losses.items():
        print(f"few rows: {name:22} {np.mean(values):.4f} ± {np.std(values) / np.sqrt(50):.4f}")


PARTS = {"cost": cost, "cv": cv, "loo": loo, "known": known, "few": few}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"There is no part {sorted(unknown)[0]!r}.")
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
