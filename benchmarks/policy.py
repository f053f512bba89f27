"""How much each threshold of the policy matters: work and time of twenty fits with it halved and doubled.

    python -m benchmarks.policy                      every threshold; some minutes
    python -m benchmarks.policy start_rows batch_start

Work is a count that noise does not touch: numbers read, those of half precision at a third, Hessians by their
products. Cases that change by less than 2% are left out.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith import LogisticRegression
from oddsmith.errors import InvalidInputError
from oddsmith.solvers import policy
from oddsmith.statistics import Curvature

Rows = tuple[Any, np.ndarray]


def table(
    n: int, columns: int, classes: int = 2, *, seed: int, rho: float = 0.0, rate: float = 1.0, dtype: type = float
) -> Rows:
    """Return dense rows with labels from a softmax; ``rho`` correlates columns, whose scales span two decades."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    if rho:
        for j in range(1, columns):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
        X *= np.logspace(-1, 1, columns)
    A = X @ (rng.normal(size=(columns, classes)) / np.sqrt(columns) / X.std(axis=0)[:, None])
    A += rng.gumbel(size=A.shape)
    A[:, 1] += np.log(rate)
    return X.astype(dtype), A.argmax(axis=1)


def sparse_table(n: int, columns: int, density: float, *, seed: int) -> Rows:
    """Return CSR rows with labels from a logistic."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, columns), density=density, format="csr", rng=rng)
    return X, (X @ rng.normal(size=columns) + 0.3 * rng.logistic(size=n) > 0).astype(int)


def factor_table(n: int, levels: int, *, seed: int) -> Rows:
    """Return CSR rows of a factor with rare levels, and four numbers."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, levels, n) ** 2 // levels
    indicators = sparse.csr_array((np.ones(n), (np.arange(n), level)), shape=(n, levels))
    X = sparse.hstack([indicators, sparse.csr_array(rng.normal(size=(n, 4)))], format="csr")
    return X, (X @ rng.normal(size=levels + 4) + rng.logistic(size=n) > 0).astype(int)


def cases() -> dict[str, tuple[Rows, float | None]]:
    """Return rows and prior of each case, by name."""
    return {
        "400 × 6": (table(400, 6, seed=1), 1.0),
        "4,000 × 40": (table(4_000, 40, seed=2), 1.0),
        "4,000 × 40, 5 classes": (table(4_000, 40, 5, seed=3), 1.0),
        "4,000 × 160": (table(4_000, 160, seed=4), 1.0),
        "4,000 × 40 correlated, ML": (table(4_000, 40, seed=5, rho=0.9), None),
        "30,000 × 30": (table(30_000, 30, seed=6), 1.0),
        "100,000 × 10, ML": (table(100_000, 10, seed=7), None),
        "12,000 × 800": (table(12_000, 800, seed=8), 1.0),
        "400,000 × 20": (table(400_000, 20, seed=9), 1.0),
        "400,000 × 20, ML": (table(400_000, 20, seed=10), None),
        "3,000,000 × 8": (table(3_000_000, 8, seed=11), 1.0),
        "200,000 × 100": (table(200_000, 100, seed=12), 1.0),
        "100,000 × 120 correlated": (table(100_000, 120, seed=13, rho=0.9), 1.0),
        "400,000 × 20, a rare class": (table(400_000, 20, seed=14, rate=0.002), 1.0),
        "40,000 × 500": (table(40_000, 500, seed=15), 1.0),
        "60,000 × 30, 10 classes": (table(60_000, 30, 10, seed=16), 1.0),
        "40,000 × 300 correlated": (table(40_000, 300, seed=17, rho=0.9), 1.0),
        "sparse 20,000 × 2,000": (sparse_table(20_000, 2_000, 0.015, seed=18), 1.0),
        "a factor of 400 levels": (factor_table(60_000, 400, seed=19), 1.0),
        "400,000 × 20, float32": (table(400_000, 20, seed=20, dtype=np.float32), 1.0),
    }


@contextmanager
def counted() -> Iterator[list[float]]:
    """Count the work of folds."""
    work, of = [0.0], Curvature.of.__func__  # type: ignore[attr-defined]

    def counting(cls: Any, block: Any, params: Any) -> Any:
        contrasts, columns = params.W.shape
        hessian = contrasts * (columns + 1) * (contrasts + 1) / 30 if params.order >= 2 else 0.0
        work[0] += block.n_rows * (columns + 5) * (0.3 if block.Phi.dtype == np.float16 else 1.0) * (1.0 + hessian)
        return of(cls, block, params)

    Curvature.of = classmethod(counting)  # type: ignore[assignment]
    try:
        yield work
    finally:
        Curvature.of = classmethod(of)  # type: ignore[assignment]


def measure(tables: dict[str, tuple[Rows, float | None]]) -> dict[str, tuple[float, float]]:
    """Return work and least seconds of each case."""
    found = {}
    for name, ((X, y), prior) in tables.items():
        seconds = []
        for _ in range(2):
            with counted() as work:
                began = time.perf_counter()
                LogisticRegression(prior).fit(X, y)
                seconds.append(time.perf_counter() - began)
        found[name] = work[0], min(seconds)
    return found


def changed(value: Any, factor: float) -> Any:
    """Return a threshold times a factor; whole numbers stay whole."""
    if isinstance(value, tuple):
        return tuple(changed(v, factor) for v in value)
    return int(value * factor) if isinstance(value, int) and value * factor >= 1 else value * factor


def main(names: list[str]) -> None:
    """Print what changes with each threshold."""
    warnings.simplefilter("ignore")
    tables, force = cases(), policy.POLICY
    measure(tables)
    before = measure(tables)
    for name in names or [field.name for field in fields(force) if field.name != "large_elements"]:
        for factor in (0.5, 2.0):
            try:
                policy.POLICY = replace(force, **{name: changed(getattr(force, name), factor)})
            except InvalidInputError as error:
                print(f"{name} × {factor:g}: {error}", flush=True)
                continue
            after = measure(tables)
            policy.POLICY = force
            ratios = {case: (after[case][0] / before[case][0], after[case][1] / before[case][1]) for case in tables}
            told = [f"{case}: {w:.2f} (time {t:.2f})" for case, (w, t) in ratios.items() if abs(w - 1.0) > 0.02]
            print(f"{name} × {factor:g}: {'; '.join(told) or 'nothing changes'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
