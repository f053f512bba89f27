"""Fits of every kind of likelihood, with the passes of each and what they find.

    PYTHONPATH=src python -m tests.likelihood.traces

writes ``traces.json`` anew. Do so only where a change is meant to change the passes of fits, or their numbers.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tests.traces import Fit, fit, rows, under, write

from oddsmith import GaussianPrior, JeffreysPrior, LaplacePrior, LogisticRegression
from oddsmith.solvers import SGD

PLACE = Path(__file__).with_name("traces.json")


def moved(data: tuple[Any, Any], scale: float, shift: float) -> tuple[Any, Any]:
    """Return rows in other units."""
    return data[0] * np.geomspace(1.0, scale, data[0].shape[1]) + shift, data[1]


def dependent(n: int) -> tuple[Any, Any]:
    """Return columns of which one is the sum of two others, and one is constant."""
    X, y = rows(n, 4)
    return np.column_stack([X, X[:, 0] + X[:, 1], np.full(n, 7.0)]), y


def thin(n: int, D: int, shift: float = 0.0) -> tuple[Any, Any]:
    """Return sparse rows, the first column far from zero if so asked."""
    X, y = rows(n, D, size=2.0)
    X = np.where(np.abs(X) > 1.2, X, 0.0)
    X[:, 0] += shift
    return sparse.csr_array(X), y


def apart(n: int, D: int, K: int = 2, *, tied: int = 0) -> tuple[Any, Any]:
    """Return classes that a direction separates, but for some rows that lie on the boundary."""
    X, _ = rows(n, D)
    X[:tied] = 0.0
    y = np.clip(np.floor(X[:, 0] + X[:, 1] + 0.5 * K), 0, K - 1).astype(int)
    y[:tied] = np.arange(tied) % K
    return X, y


def table(n: int, K: int, pure: int, classes: int = 2) -> tuple[Any, Any]:
    """Return a table with a factor, some of whose levels have rows of one class."""
    import pandas

    rng = np.random.default_rng([n, K])
    codes, x = rng.integers(0, K, n), rng.normal(size=n)
    y = rng.integers(0, classes, n)
    y[codes < pure] = codes[codes < pure] % classes
    return pandas.DataFrame({"x": x, "who": np.array([f"k{k:03}" for k in range(K)])[codes]}), y


def weighted(data: tuple[Any, Any], prior: Any = None, **how: Any) -> LogisticRegression:
    """Fit with weights of rows, some of them zero, and an offset."""
    n = len(data[1])
    s, offset = np.arange(n) % 3 + 0.25 * (np.arange(n) % 2), np.linspace(-1.0, 1.0, n)
    K = len(np.unique(data[1]))
    offset = offset if K == 2 else np.column_stack([offset * k for k in range(K)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(prior, **how).fit(*data, sample_weight=s, offset=offset)


def again(data: tuple[Any, Any], factor: float) -> LogisticRegression:
    """Fit from the weights of a fit to classes that lie the other way, times a factor."""
    model = LogisticRegression(3.0, warm_start=True).fit(data[0] * factor, data[1])
    return model.fit(*data)


def in_batches(data: tuple[Any, Any], size: int, prior: Any = 1.0) -> LogisticRegression:
    model = LogisticRegression(prior, seed=3)
    for start in range(0, len(data[1]), size):
        model.partial_fit(data[0][start : start + size], data[1][start : start + size], classes=np.unique(data[1]))
    return model


def inside(n: int, D: int, size: float = 0.8) -> tuple[Any, Any]:
    """Return rows whose probabilities are linear, near the ends of their range."""
    rng = np.random.default_rng([n, D])
    X = rng.uniform(-1.0, 1.0, size=(n, D))
    p = 0.5 + 0.5 * size * X @ np.full(D, 1.0 / D)
    return X, (rng.random(n) < p).astype(int)


def lasso(data: tuple[Any, Any], scale: float, **how: Any) -> LogisticRegression:
    return fit(data, LaplacePrior(scale, **how))


FITS: dict[str, Fit] = {
    "two classes": lambda: fit(rows(300, 4), None),
    "two classes, no intercept": lambda: fit(rows(300, 4), 2.0, fit_intercept=False),
    "other units": lambda: fit(moved(rows(300, 4), 1e6, 1e4), None),
    "weights and offset": lambda: weighted(rows(300, 4)),
    "weights and offset, four classes": lambda: weighted(rows(400, 3, 4), 2.0),
    "four classes, a reference": lambda: fit(rows(400, 3, 4), 2.0, reference=2),
    "four classes, maximum likelihood": lambda: fit(rows(400, 3, 4), None),
    "prior on the intercept": lambda: fit(
        moved(rows(300, 2), 10.0, 3.0), GaussianPrior(covariance=[4.0, 1.0, 0.25], mean=[1.0, 0.5, 0.0])
    ),
    "correlated prior": lambda: fit(rows(300, 2), GaussianPrior(covariance=[[1.0, 0.6], [0.6, 2.0]])),
    "correlated prior, truncated Newton": lambda: fit(
        rows(300, 2), GaussianPrior(covariance=[[1.0, 0.6], [0.6, 2.0]]), solver="truncated-newton"
    ),
    "truncated Newton, four classes": lambda: fit(rows(400, 5, 4), 2.0, solver="truncated-newton"),
    "dependent columns": lambda: fit(dependent(200), None),
    "dependent columns, sparse": lambda: fit((lambda X, y: (sparse.csr_array(X), y))(*dependent(200)), None),
    "dependent columns, many rows": lambda: under({"small_rows": (5000, 5000)}, lambda: fit(dependent(6000), None)),
    "sparse": lambda: fit(thin(300, 5), None),
    "sparse, far from zero": lambda: fit(thin(300, 5, 1e6), None),
    "sparse, wide": lambda: fit(thin(400, 500, 3.0), 3.0),
    "warm start": lambda: again(rows(300, 4), 1.1),
    "warm start that misleads": lambda: again(rows(300, 4), -4.0),
    "probit": lambda: fit(rows(300, 3), None, link="probit"),
    "cloglog": lambda: fit(rows(300, 3, size=2.0), None, link="cloglog"),
    "loglog": lambda: fit(rows(300, 3, size=2.0), 2.0, link="loglog"),
    "cauchit": lambda: fit(rows(300, 3, size=2.0), 2.0, link="cauchit"),
    "log": lambda: fit(inside(300, 2), None, link="log"),
    "identity": lambda: fit(inside(300, 2, 0.5), None, link="identity"),
    "identity, near its ends": lambda: fit(inside(300, 2, 0.97), None, link="identity"),
    "identity, no intercept": lambda: fit(
        (lambda X, y: (np.column_stack([X + 1.5, np.full(len(y), 0.3)]), y))(*inside(300, 2, 0.3)),
        *(None,),
        link="identity",
        fit_intercept=False,
    ),
    "Jeffreys": lambda: fit(rows(60, 3), JeffreysPrior()),
    "Jeffreys, few digits": lambda: fit(rows(60, 3), JeffreysPrior(), tol=1.15e-4),
    "Jeffreys, three classes": lambda: fit(rows(90, 2, 3), JeffreysPrior()),
    "Jeffreys, separated": lambda: fit(apart(40, 2), JeffreysPrior()),
    "Jeffreys, probit": lambda: fit(rows(60, 2), JeffreysPrior(), link="probit"),
    "separated": lambda: fit(apart(60, 3), None),
    "separated but for ties": lambda: fit(apart(60, 3, tied=4), None),
    "separated, three classes": lambda: fit(apart(90, 3, 3), None),
    "separated, many rows": lambda: fit(apart(3000, 8), None),
    "separated but for ties, many rows": lambda: fit(apart(3000, 8, tied=6), None),
    "separated, truncated Newton": lambda: fit(apart(60, 3), None, solver="truncated-newton"),
    "separated, prior": lambda: fit(apart(60, 3), 100.0),
    "levels of one class": lambda: fit(table(400, 12, 2), None),
    "levels of one class, large factor": lambda: fit(table(3000, 260, 5), None),
    "levels all of one class": lambda: fit(table(200, 6, 6), None),
    "levels that lack a class": lambda: fit(table(400, 12, 3, 3), None),
    "levels, prior": lambda: fit(table(3000, 260, 5), 1.0),
    "levels, probit": lambda: fit(table(2000, 220, 0), 1.0, link="probit"),
    "partial fits": lambda: in_batches(rows(600, 3), 150),
    "partial fits, three classes": lambda: in_batches(rows(600, 3, 3), 200, None),
    "stochastic gradients, weights": lambda: weighted(rows(300, 3), 1.0, solver=SGD(epochs=3, seed=1)),
    "lasso": lambda: lasso(rows(300, 8), 0.05),
    "lasso, wide": lambda: lasso(rows(120, 1000), 0.1),
    "lasso, wide, other units": lambda: lasso(moved(rows(120, 900), 3.0, 2.0), 0.1),
    "lasso, wide, three classes, other units": lambda: lasso(moved(rows(120, 400, 3), 3.0, 2.0), 0.1),
    "lasso, wide, elastic net": lambda: lasso(moved(rows(120, 900), 3.0, 2.0), 0.1, gaussian=0.5),
    "lasso, sparse": lambda: lasso(thin(200, 900), 0.2),
    "lasso, sparse classes": lambda: lasso(
        (lambda X, y: (sparse.csr_array(X * (np.abs(X) > 1.0)), y))(*rows(200, 400, 3)), 0.2
    ),
    "lasso, three classes": lambda: lasso(rows(300, 8, 3), 0.1),
    "lasso, groups": lambda: lasso(rows(300, 6), 0.05, groups=[[0, 1], [2, 3, 4]]),
    "lasso, columns of all classes": lambda: lasso(rows(300, 6, 3), 0.1, groups="class"),
    "elastic net": lambda: lasso(rows(300, 8, along=0.7), 0.05, gaussian=1.0, factors=[0.0, 1, 1, 1, 2, 2, 1, 1]),
    "lasso, many rows": lambda: lasso(rows(40_000, 50), 0.01),
    "lasso, probit": lambda: fit(rows(300, 6), LaplacePrior(0.05), link="probit"),
}


if __name__ == "__main__":
    write(FITS, PLACE)
