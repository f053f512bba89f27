"""The cases: a name, a sentence, and how to build the data; the growth curves are cases too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from . import datasets, generators
from .problem import Problem

QUICK_DIVISOR = 50


@dataclass(frozen=True)
class Case:
    """One table to fit. ``build(rows)`` makes it; ``rows`` None means that its size is its own."""

    name: str
    title: str
    build: Callable[[int | None], Problem]
    rows: int | None = None
    growth: tuple[str, int] | None = None
    quick: bool = False

    @property
    def key(self) -> str:
        """The name under which the data and the results are kept."""
        return f"{self.name}-quick" if self.quick else self.name

    def problem(self) -> Problem:
        """Build the data."""
        return self.build(self.rows)

    def shrunk(self) -> Case:
        """The same case with a fiftieth of the rows, for a smoke test."""
        rows = None if self.rows is None else max(2_000, self.rows // QUICK_DIVISOR)
        return Case(self.name, self.title, self.build, rows, self.growth, quick=True)


def _binary(name: str, title: str, rows: int, columns: int, **options: object) -> Case:
    def build(n: int | None) -> Problem:
        return generators.binary(n or rows, columns, **{"seed": 1, **options})  # type: ignore[arg-type]

    return Case(name, title, build, rows)


def _bundled(name: str, title: str) -> Case:
    return Case(name.replace("_", "-"), title, lambda _: datasets.bundled(name))


def _flights(name: str, title: str, *, dense: bool, standardise: bool) -> Case:
    def build(n: int | None) -> Problem:
        return datasets.flights(dense=dense, standardise=standardise, rows=n)

    return Case(name, title, build, rows=336_776)


def _softmax(rows: int | None, *, columns: int, classes: int) -> Problem:
    return generators.softmax(rows or 200_000, columns, classes, seed=6)


def _zipf(rows: int | None, *, columns: int, nonzeros: int) -> Problem:
    return generators.zipf(rows or 300_000, columns, nonzeros, seed=7)


_MILLION = 1_000_000
_single = np.float32

MAIN: tuple[Case, ...] = (
    _binary("dense-20", "tall", _MILLION, 20),
    _binary("dense-100", "tall, wider", 500_000, 100),
    _binary("dense-500", "wide", 100_000, 500),
    _binary(
        "correlated",
        "neighbouring columns correlated (ρ = 0.9), scales over two decades",
        400_000,
        120,
        transform=generators.correlated(120, 0.9, 2.0),
    ),
    _binary("dense-20-float32", "tall, single precision", _MILLION, 20, dtype=_single),
    Case("softmax-10", "ten classes", partial(_softmax, columns=50, classes=10), 200_000),
    Case("sparse-zipf", "sparse, heavy-tailed column frequency", partial(_zipf, columns=100_000, nonzeros=60), 300_000),
    Case("sparse-words", "sparse, of a small vocabulary", partial(_zipf, columns=2_000, nonzeros=30), 20_000),
    _binary("wide", "dense, few rows for each column", 12_000, 800),
    _binary("middling", "dense, a table of middling size", 30_000, 30),
    _flights("flights-sparse", "flights, sparse", dense=False, standardise=True),
    _flights("flights-dense", "flights, dense", dense=True, standardise=True),
    _flights("flights-raw", "flights, dense, numbers in their own units", dense=True, standardise=False),
    _bundled("iris", "iris"),
    _bundled("breast_cancer", "breast cancer, own units"),
    _bundled("digits", "digits"),
    _binary(
        "ill-conditioned",
        "condition number 10⁶, rotated",
        200_000,
        50,
        transform=generators.ill_conditioned(50, 1e6),
    ),
    _binary("imbalanced", "about one row in 1,000 is positive", _MILLION, 20, rate=0.001),
    _binary("sorted", "tall, rows sorted by label", _MILLION, 20, by_label=True),
    _binary("sorted-float32", "the same, single precision", _MILLION, 20, by_label=True, dtype=_single),
    _binary("dense-20-ml", "tall, maximum likelihood", _MILLION, 20, sigma=None),
)


def _grow_rows(n: int) -> Case:
    case = _binary(f"growth-n-{n}", f"{n:,} rows of 20 columns", n, 20)
    return Case(case.name, case.title, case.build, n, growth=("N", n))


def _grow_columns(d: int) -> Case:
    case = _binary(f"growth-d-{d}", f"50,000 rows of {d:,} columns", 50_000, d)
    return Case(case.name, case.title, case.build, 50_000, growth=("D", d))


def _grow_classes(k: int) -> Case:
    build = partial(_softmax, columns=20, classes=k)
    return Case(f"growth-k-{k}", f"100,000 rows of 20 columns, {k} classes", build, 100_000, growth=("K", k))


GROWTH: tuple[Case, ...] = (
    *(_grow_rows(n) for n in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)),
    *(_grow_columns(d) for d in (10, 30, 100, 300, 1_000)),
    *(_grow_classes(k) for k in (2, 5, 10, 20, 50)),
)

CASES: dict[str, Case] = {case.name: case for case in (*MAIN, *GROWTH)}
