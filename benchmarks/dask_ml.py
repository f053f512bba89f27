"""Against dask-ml on the same Dask: ``python -m benchmarks.dask_ml [--rows N] [--columns D] [--workers W] [--quick]``.

A local cluster of worker processes holds a Dask Array, and each library fits logistic regression to it, in turns. The
fits are those of maximum likelihood: dask-ml penalises its intercept, and the weights of standardised columns, so no
prior is the same on both sides. The gap is that of the log loss over all rows, over the lowest found; a solver of
dask-ml counts if its gap is at most 1e-6. Its ``admm`` and ``proximal_grad`` always penalise: here by next to nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, wait

from oddsmith import LogisticRegression
from oddsmith.engines.memory import available_cores

Fit = Callable[[Any, Any], tuple[np.ndarray, float]]
SOLVERS = ("newton", "lbfgs", "admm", "gradient_descent", "proximal_grad")


@dataclass
class Outcome:
    seconds: float = np.inf
    loss: float = np.inf
    said: str = ""


def rows(N: int, D: int, chunk: int, client: Client) -> tuple[Any, Any]:
    """Rows of a known logistic model with neighbouring columns correlated, held by the workers."""
    rng = da.random.default_rng(0)
    w = np.random.default_rng(1).normal(size=D) / np.sqrt(D)
    Z = rng.normal(size=(N, D), chunks=(chunk, D))
    X = Z + 0.5 * da.roll(Z, 1, axis=1).rechunk((chunk, D))
    y = (X @ w + 0.5 + rng.logistic(size=N, chunks=chunk) > 0).astype(np.int64)
    X, y = client.persist([X, y])
    wait([X, y])
    return X, y


def log_loss(X: Any, y: Any, w: np.ndarray, b: float) -> float:
    """The log loss summed over all rows."""
    a = X @ w + b
    return float(da.logaddexp(0.0, da.where(y == 1, -a, a)).sum().compute())


def ours(X: Any, y: Any) -> tuple[np.ndarray, float]:
    model = LogisticRegression().fit(X, y)
    return model.coef_.ravel(), float(model.intercept_.ravel()[0])


def theirs(solver: str, tol: float, X: Any, y: Any) -> tuple[np.ndarray, float]:
    from dask_ml.linear_model import LogisticRegression as Peer

    options: dict[str, Any] = {"tol": tol, "max_iter": 200}
    if solver == "lbfgs":
        options["penalty"] = None
    elif solver == "admm":
        options |= {"C": 1e10, "solver_kwargs": {"abstol": tol, "reltol": 100.0 * tol}}
    elif solver == "proximal_grad":
        options["C"] = 1e10
    model = Peer(solver=solver, **options).fit(X, y)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def compare(fits: dict[str, Fit], X: Any, y: Any, repeats: int) -> dict[str, Outcome]:
    """Fit in turns and keep the shortest time of each."""
    outcomes = {name: Outcome() for name in fits}
    for _ in range(repeats):
        for name, fit in fits.items():
            outcome = outcomes[name]
            began = time.perf_counter()
            try:
                w, b = fit(X, y)
            except Exception as error:
                outcome.said = f"{type(error).__name__}: {error}".splitlines()[0][:80]
                continue
            outcome.seconds = min(outcome.seconds, time.perf_counter() - began)
            outcome.loss = log_loss(X, y, w, b)
            print(f"  {name:36} {outcome.seconds:8.2f} s  log loss {outcome.loss:.9g}", flush=True)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--chunk", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS[:3]), choices=SOLVERS)
    parser.add_argument("--tol", type=float, nargs="*", default=[1e-4, 1e-8], help="dask-ml's default is 1e-4")
    parser.add_argument("--quick", action="store_true", help="100,000 rows, once")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.chunk, given.repeats = 100_000, 10_000, 1
    with (
        LocalCluster(n_workers=given.workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        X, y = rows(given.rows, given.columns, given.chunk, client)
        fits: dict[str, Fit] = {"oddsmith": ours}
        fits |= {f"dask-ml {how}, tol {tol:g}": partial(theirs, how, tol) for how in given.solvers for tol in given.tol}
        ours(X, y)  # workers compile and load
        outcomes = compare(fits, X, y, given.repeats)
    best = min(outcome.loss for outcome in outcomes.values())
    mine = outcomes["oddsmith"].seconds
    print(f"{given.rows} × {given.columns}, {given.workers} worker processes, chunks of {given.chunk} rows")
    for name, outcome in outcomes.items():
        gap = outcome.loss / best - 1.0
        verdict = outcome.said or ("" if gap <= 1e-6 else "not at the optimum")
        print(f"  {name:36} {outcome.seconds:8.2f} s  gap {gap:8.1e}  {outcome.seconds / mine:6.1f} ×  {verdict}")


if __name__ == "__main__":
    main()
