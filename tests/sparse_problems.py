"""Small random problems with Laplace priors, many of them hostile, for tests of certificates and supports."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.sparse_optimum import BlockProblem, block_problem

from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.solvers import policy

KINDS = (
    "plain", "duplicates", "more columns than rows", "separated", "constant columns", "scale",
    "weights and offset", "free columns", "elastic net", "groups",
)  # fmt: skip


WAYS: dict[str, dict[str, Any]] = {
    "all columns": {},
    "by columns": {"sparse_hessian": 0},
    "working sets": {"sparse_hessian": 0},
    "one Hessian": {"sparse_products": 0.0},
    "together": {"sparse_products": 0.0, "sparse_stride": 3, "sparse_rows_per_weight": 5},
}
"""How problems are solved, with the policy that makes a small one go that way."""


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Solve a small problem as a large one would be."""
    before, by_columns = policy.POLICY, SparseProblem.by_columns
    policy.POLICY = replace(before, **WAYS[way])
    if way == "working sets":
        SparseProblem.by_columns = False  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        policy.POLICY, SparseProblem.by_columns = before, by_columns  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomProblem:
    """A table, what is known of its rows, and the arguments of its prior."""

    number: int
    X: Any
    t: Any
    K: int
    rows: dict[str, Any]
    prior: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.number}: {KINDS[self.number % len(KINDS)]}, {self.X.shape}, K = {self.K}, {self.prior}"

    def judged(self) -> BlockProblem:
        rows = {"s": self.rows.get("sample_weight"), "offset": self.rows.get("offset")}
        return block_problem(self.X, self.t, self.K, **rows, **self.prior)


def random_problem(number: int) -> RandomProblem:
    """Build problem ``number``: kinds take turns, and every third problem has three classes."""
    rng = np.random.default_rng([26, number])
    kind, K = KINDS[number % len(KINDS)], 3 if number % 3 == 2 else 2
    N, D = int(rng.integers(14, 30)), int(rng.integers(2, 9))
    if kind == "more columns than rows":
        N, D = int(rng.integers(8, 14)), int(rng.integers(20, 40))
    X = rng.normal(size=(N, D)) * 10.0 ** rng.uniform(-1, 1, size=D if number % 4 == 1 else 1)
    if kind == "duplicates":
        X[:, -1] = X[:, 0]
        X[:, D // 2] = -2.0 * X[:, 0] if number % 20 == 1 else X[:, 0]
    if kind == "constant columns":
        X = np.column_stack([X, rng.normal(size=N), np.ones(N)])
        D += 2
        X[:, 0], X[:, -1] = 0.0, 3.0
    a = X @ rng.normal(size=(D, K)) / np.maximum(np.abs(X).max(), 1e-300)
    t = np.argmax(2.0 * a + (0.0 if kind == "separated" else 1.0) * rng.gumbel(size=(N, K)), axis=1)
    t[: 2 * K] = np.repeat(np.arange(K), 2) if kind != "separated" else t[: 2 * K]
    t[:K] = np.arange(K) if kind == "separated" else t[:K]  # no class is missing
    rows: dict[str, Any] = {}
    if kind == "weights and offset":
        s = rng.uniform(0.2, 3.0, size=N)
        s[2 * K :: 5] = 0.0
        rows = {"sample_weight": s, "offset": rng.normal(size=N if K == 2 else (N, K))}
    Y = np.eye(K)[t]
    smallest = 1.0 / max(float(np.abs(X.T @ (Y - Y.mean(axis=0))).max()), 1e-12)
    decades = rng.choice([-4.0, 3.0, 5.0]) if kind == "scale" else rng.uniform(-0.1, 1.5)
    prior: dict[str, Any] = {"scale": smallest * 10.0**decades, "groups": None, "gaussian": None, "factors": None}
    if kind == "free columns":
        factors = rng.uniform(0.3, 2.0, size=D)
        factors[0] = 0.0
        prior["factors"] = factors
    if kind == "elastic net":
        prior["gaussian"] = float(10.0 ** rng.uniform(-1, 1))
    if kind == "groups":
        cut = max(1, D // 2)
        prior["groups"] = "class" if K > 2 else [list(range(cut)), list(range(cut, D))]
    return RandomProblem(number=number, X=X, t=t, K=K, rows=rows, prior=prior)
