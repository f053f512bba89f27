"""The laws of storages."""

from __future__ import annotations

import numpy as np

from oddsmith.numerics import EPS, Array
from oddsmith.rows import Rows

SAFETY = 64.0


def check_rows(storage: type[Rows], *, seed: int = 0) -> None:
    """Check a storage of rows against the laws at the top of ``oddsmith/rows/base.py``.

    On tables of several shapes, without rows, with columns far from zero and with zeros: each method gives the result
    of the dense matrix; slices, selected rows and selected columns are storages; centred rows are the rows minus their
    centre; ranges cover every row once; and nothing is written to the data.

    >>> from oddsmith.rows import DenseRows
    >>> check_rows(DenseRows)
    """
    rng = np.random.default_rng(seed)
    for n, M in ((7, 3), (1, 1), (0, 2), (300, 45), (600, 2)):
        for mean, holes in ((0.0, 0.7), (100.0, 0.0), (0.0, 1.0)):
            X = np.where(rng.random((n, M)) < holes, 0.0, mean + rng.normal(size=(n, M)))
            rows = storage.example(X)
            Z = rows.dense()
            before = Z.copy()
            label = f"{storage.__name__}, {n} × {M}, mean {mean}, zeros {holes}"
            assert rows.shape == Z.shape == (n, M), f"{label}: shape {rows.shape}, expected {(n, M)}."
            _check_verbs(label, rows, Z, rng)
            start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
            _check_verbs(f"{label}, rows {start} to {stop}", rows.slice(start, stop), Z[start:stop], rng)
            chosen = rng.integers(0, n, 5) if n else np.arange(0)
            _check_verbs(f"{label}, chosen rows", rows.take(chosen), Z[chosen], rng)
            some = list(range(0, M, 2))
            _check_verbs(f"{label}, columns {some}", rows.columns(some), Z[:, some], rng)
            center = rng.normal(size=M) + mean
            _check_verbs(f"{label}, centred", rows.centred(center), Z - center, rng, spread=np.abs(Z).max(initial=1.0))
            covered = [i for a, b in rows.slices() for i in range(a, b)]
            assert covered == list(range(n)), f"{label}: the ranges {rows.slices()} are not the {n} rows."
            assert np.array_equal(rows.dense(), before), f"{label}: a verb wrote to the data."


def _check_verbs(label: str, rows: Rows, Z: Array, rng: np.random.Generator, *, spread: float = 1.0) -> None:
    n, M = Z.shape
    W, R, h, scale = (np.asarray(rng.uniform(0.5, 2.0, size=size)) for size in ((M, 2), (n, 2), n, M))
    W, R, h = W - 1.2, R - 1.3, h - 1.1
    pairs = {
        "dense": (rows.dense(), Z, np.abs(Z)),
        "concrete": (rows.concrete().dense(), Z, np.abs(Z)),
        "activations": (rows.activations(W), Z @ W, np.abs(Z) @ np.abs(W)),
        "gradient": (rows.gradient(R), Z.T @ R, np.abs(Z).T @ np.abs(R)),
        "gradient of a vector": (rows.gradient(h), Z.T @ h, np.abs(Z).T @ np.abs(h)),
        "gram": (rows.gram(h), (Z.T * h) @ Z, (np.abs(Z).T * np.abs(h)) @ np.abs(Z)),
        "gram of positive weights": (rows.gram(h**2), (Z.T * h**2) @ Z, (np.abs(Z).T * h**2) @ np.abs(Z)),
        "squares": (rows.squares(R**2), (Z**2).T @ R**2, (Z**2).T @ R**2),
        "row_norms": (rows.row_norms(scale), ((Z / scale) ** 2).sum(axis=1), ((Z / scale) ** 2).sum(axis=1)),
    }
    for verb, (found, expected, size) in pairs.items():
        assert found.shape == expected.shape, f"{label}: {verb} has shape {found.shape}, expected {expected.shape}."
        allowed = SAFETY * EPS * spread**2 * (size + (n + M) * spread**2)
        off = np.abs(found - expected)
        assert np.all(off <= allowed), f"{label}: {verb} is off by {off.max():.3g}, allowed {allowed.max():.3g}."
