"""Fits whose every pass is known: what each reads, in which order, and how the gradient falls.

    PYTHONPATH=src python -m tests.solvers.traces

writes ``traces.json`` anew. Do so only where a change is meant to change the passes of fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tests.traces import Fit, fit, rows, under, write

from oddsmith import GaussianPrior
from oddsmith.solvers import SGD, Gradient
from oddsmith.solvers.subsampled import SubsampledQuasiNewton
from oddsmith.solvers.table_newton import TableNewton

PLACE = Path(__file__).with_name("traces.json")


def heavy(n: int, D: int) -> tuple[Any, Any]:
    """Return rows with some that are very long."""
    X, y = rows(n, D)
    return X * np.exp(1.5 * np.abs(np.random.default_rng(0).normal(size=(n, 1)))), y


def rare(n: int, D: int) -> tuple[Any, Any]:
    """Return columns of which the last is not zero in four rows."""
    X, y = rows(n, D)
    X[:, -1] = 0.0
    X[[3, n // 2, n // 2 + 1, n - 2], -1] = 1.0
    return X, y


def few(n: int, D: int) -> tuple[Any, Any]:
    """Return sparse rows."""
    X, y = rows(n, D, size=3.0)
    return sparse.csr_array(np.where(np.abs(X) > 2.0, X, 0.0)), y


def levels(n: int, K: int) -> tuple[Any, Any]:
    """Return a table with a factor of so many levels and two numbers."""
    import pandas

    rng = np.random.default_rng(K)
    codes = np.minimum(rng.integers(0, K, n), rng.integers(0, K, n))
    x = rng.normal(size=(n, 2))
    a = rng.normal(size=K)[codes] + x @ [0.5, -0.3]
    names = np.array([f"N{k:04}" for k in range(K)])
    return pandas.DataFrame({"x": x[:, 0], "z": x[:, 1], "who": names[codes]}), (a + rng.logistic(size=n) > 0) * 1


def separated(n: int, D: int) -> tuple[Any, Any]:
    X, _ = rows(n, D)
    return X, (X[:, 0] + X[:, 1] > 0) * 1


def shown_late(n: int, D: int) -> tuple[Any, Any]:
    """Return rows of which a few, that no subsample shows, outweigh the others."""
    X, y = rows(n, D)
    X[7] = 3e4
    y[7] = 1 - (X[:100] @ np.ones(D) @ (y[:100] - 0.5) > 0)
    return X, y


SAMPLED = {"small_rows": (5000, 5000)}
HALF = {"kernel_gradient_elements": 0.0}
SMALL = {"subsample_elements": 40_000, "subsample_rows_per_weight": 90}
FITS: dict[str, Fit] = {
    "Newton": lambda: fit(rows(300, 3)),
    "Newton, maximum likelihood": lambda: fit(rows(300, 3, size=4.0), None),
    "Newton, three classes": lambda: fit(rows(300, 3, 3), None),
    "Newton, probit": lambda: fit(rows(300, 3, size=3.0), None, link="probit"),
    "Newton, cauchit": lambda: fit(rows(300, 3, size=5.0), None, link="cauchit"),
    "Newton, log": lambda: fit(rows(300, 2, size=0.2), None, link="log"),
    "Newton, separated": lambda: fit(separated(200, 3), None),
    "Newton, long rows": lambda: fit(heavy(300, 6), None),
    "gradients": lambda: fit(rows(300, 3), solver="gradient"),
    "gradients, correlated": lambda: fit(rows(300, 6, along=0.5, size=2.0), solver="gradient", tol=1e-6),
    "gradients, given steps": lambda: fit(rows(300, 3), solver=Gradient(step_size=0.7), max_iter=12),
    "stochastic gradients": lambda: fit(rows(300, 3), solver=SGD(epochs=5, seed=1)),
    "stochastic gradients, own steps": lambda: fit(
        rows(300, 3), solver=SGD(epochs=4, step_size=0.3, decay=50.0, power=0.6, seed=1)
    ),
    "truncated Newton": lambda: fit(rows(400, 30, along=0.5), None, solver="truncated-newton", tol=1e-5),
    "truncated Newton, separated": lambda: fit(separated(200, 3), None, solver="truncated-newton"),
    "sparse rows": lambda: fit(few(600, 450), 3.0),
    "sparse rows, wide prior": lambda: fit(few(2000, 450), 30.0),
    "many columns": lambda: fit(rows(1000, 100)),
    "many columns, correlated": lambda: fit(rows(1200, 100, along=0.95, size=3.0), 10.0),
    "many columns, maximum likelihood": lambda: fit(rows(3000, 60, along=0.5), None),
    "many columns, long rows": lambda: fit(heavy(1500, 90), 5.0),
    "many columns, Hessian not formed": lambda: fit(rows(900, 500)),
    "many columns, Hessian not formed, correlated": lambda: fit(rows(900, 500, along=0.9, size=2.0), 5.0),
    "a column on each scale": lambda: fit(
        rows(1200, 80, along=0.3), GaussianPrior(covariance=np.geomspace(1e-3, 1e3, 80))
    ),
    "many weights of five classes": lambda: fit(rows(2000, 30, 5)),
    "levels": lambda: fit(levels(4000, 300)),
    "levels, long table": lambda: fit(levels(400_000, 120)),
    "levels, long table, maximum likelihood": lambda: fit(levels(400_000, 120), None),
    "subsample": lambda: under(SAMPLED, lambda: fit(rows(10_000, 20))),
    "subsample, maximum likelihood": lambda: under(SAMPLED, lambda: fit(rows(30_000, 30, size=2.0), None)),
    "subsample, three classes": lambda: fit(rows(30_000, 8, 3), None),
    "subsample as the start": lambda: under(SAMPLED, lambda: fit(rare(6000, 12), None)),
    "subsample as the start, one Hessian": lambda: fit(rare(24_000, 64)),
    "subsample misleads": lambda: under(SAMPLED, lambda: fit(shown_late(20_000, 6))),
    "two subsamples": lambda: fit((lambda X, y: (np.asfortranarray(X), y))(*rows(80_000, 20, along=0.5))),
    "two subsamples of many columns": lambda: under(
        HALF, lambda: fit((lambda X, y: (X.astype(np.float32), y))(*rows(16_000, 160, along=0.6)))
    ),
    "two subsamples of independent columns": lambda: under(
        HALF, lambda: fit((lambda X, y: (X.astype(np.float32), y))(*rows(16_000, 170)))
    ),
    "two subsamples of nearly independent columns": lambda: fit(
        (lambda X, y: (X.astype(np.float32), y))(*rows(36_000, 160, along=0.2))
    ),
    "two subsamples, a costly Hessian": lambda: under(
        {"hessian_flops": 15e9, "start_rows": 500},
        lambda: fit((lambda X, y: (X.astype(np.float32), y))(*rows(36_000, 160, along=0.2))),
    ),
    "batches": lambda: fit(rows(80_000, 20)),
    "batches, maximum likelihood": lambda: fit(rows(80_000, 20, along=0.3, size=2.0), None),
    "batches of all rows": lambda: fit(rows(800_000, 2)),
    "batches, long rows": lambda: fit(heavy(80_000, 20)),
    "small subsample": lambda: under(SMALL, lambda: fit(rows(80_000, 20, along=0.3))),
    "small subsample, correlated": lambda: under(SMALL, lambda: fit(rows(80_000, 20, along=0.9, size=3.0), 10.0)),
    "small subsample, long rows": lambda: under(SMALL, lambda: fit(heavy(80_000, 20), 3.0)),
    "small subsample, maximum likelihood": lambda: under(SMALL, lambda: fit(rows(80_000, 20, size=3.0), None)),
    "small batches": lambda: under(
        {"subsample_elements": 200_000, "start_rows": 200}, lambda: fit(rows(160_000, 10, along=0.5, size=2.0))
    ),
    "half precision": lambda: under(HALF, lambda: fit(rows(12_000, 160))),
    "half precision, correlated": lambda: under(HALF, lambda: fit(rows(12_000, 160, along=0.8))),
    "half precision, three classes": lambda: fit(rows(20_000, 80, 3)),
    "half precision, its own optimum": lambda: under(HALF, lambda: fit(rows(12_000, 160, along=0.3, size=4.0))),
    "half precision, somewhat correlated": lambda: under(HALF, lambda: fit(rows(12_000, 160, along=0.5))),
    "half precision, more correlated": lambda: under(HALF, lambda: fit(rows(12_000, 160, along=0.65, size=4.0))),
    "many columns, six Hessians": lambda: under(
        {"kernel_hessians": 0}, lambda: fit(rows(900, 480, along=0.95, size=5.0), 30.0)
    ),
    "one Hessian, too many gradients": lambda: fit(
        rows(6000, 60, along=0.5, size=8.0),
        3.0,
        solver=SubsampledQuasiNewton(polish=False, representative=False, one_hessian=True),
    ),
    "one Hessian asked for": lambda: fit(
        rows(6000, 60, along=0.5),
        solver=SubsampledQuasiNewton(polish=False, representative=False, one_hessian=True),
    ),
    "subsample asked for, no polish": lambda: fit(
        rows(6000, 60, along=0.5, size=2.0), solver=SubsampledQuasiNewton(polish=False)
    ),
    "Hessian first": lambda: fit(rows(2000, 30, along=0.9, size=2.0), solver=TableNewton()),
    "Hessian first, all digits": lambda: fit(
        rows(2000, 30, along=0.9, size=2.0), None, solver=TableNewton(strict=True)
    ),
}


if __name__ == "__main__":
    write(FITS, PLACE)
