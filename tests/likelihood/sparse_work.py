"""Paths of sparse weights, with the work of each: steps, sweeps, working sets, passes, and the gap at each scale.

    PYTHONPATH=src python -m tests.likelihood.sparse_work

writes ``sparse_work.json`` anew. Do so only where a change is meant to change the work of paths.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tests.likelihood.traces import thin
from tests.traces import rows, under

from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.likelihood.class_descent import ClassDescent
from oddsmith.likelihood.gram_model import GramModel
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.sparse_path import SparsePath, solve_path
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.likelihood.two_class_descent import TwoClassDescent
from oddsmith.solvers.proximal_newton import ProximalNewton

PLACE = Path(__file__).with_name("sparse_work.json")
COLUMNS = {"sparse_hessian": 0}  # many columns are solved by columns
SETS = {"sparse_hessian": 0, "sparse_products": 0.0}
HESSIAN = {"sparse_products": 0.0}  # one Hessian for several steps


def path(data: Any, n: int = 6, tol: float = 1e-5, scales: Any = None, given: Any = None, **prior: Any) -> SparsePath:
    model = LogisticRegression(LaplacePrior(1.0, **prior))
    s, offset = given if given is not None else (None, None)
    problem = model._problem(*data, s, offset, {}, reset=True)[1]
    return solve_path(problem, scales, n, tol=tol)


def weights(n: int) -> tuple[Any, Any]:
    return np.arange(n) % 3 + 0.5, np.linspace(-1.0, 1.0, n)


def stored(data: Any) -> Any:
    return sparse.csr_array(data[0]), data[1]


def on_sets(fit: Callable[[], SparsePath]) -> SparsePath:
    """Solve on working sets of columns."""
    by_columns = SparseProblem.by_columns
    SparseProblem.by_columns = False  # type: ignore[method-assign,assignment]
    try:
        return under(SETS, fit)
    finally:
        SparseProblem.by_columns = by_columns  # type: ignore[method-assign]


SPREAD, SHORT = np.geomspace(0.02, 2.0, 5), np.geomspace(0.03, 0.3, 4)
PATHS: dict[str, Callable[[], SparsePath]] = {
    "all columns": lambda: path(rows(150, 12, along=0.5)),
    "all columns, three classes": lambda: path(rows(150, 8, 3, along=0.5)),
    "all columns, weights": lambda: path(rows(150, 8), given=weights(150)),
    "all columns, elastic net": lambda: path(
        rows(150, 8, along=0.8), gaussian=0.7, factors=[0.0, 1, 1, 2, 1, 1, 1, 0.5]
    ),
    "all columns, groups": lambda: path(rows(160, 8, along=0.5), groups=[[0, 1, 2], [3, 4]]),
    "all columns, groups of classes": lambda: path(rows(150, 8, 3), groups="class"),
    "all columns, one Hessian": lambda: under(HESSIAN, lambda: path(rows(300, 12, along=0.8), n=12)),
    "all columns, one Hessian, strong": lambda: under(
        HESSIAN, lambda: path(rows(300, 12, along=0.9, size=4.0), scales=SPREAD)
    ),
    "all columns, three classes, one Hessian": lambda: under(HESSIAN, lambda: path(rows(300, 6, 3, along=0.5))),
    "by columns": lambda: under(COLUMNS, lambda: path(rows(80, 120))),
    "by columns, few scales": lambda: under(COLUMNS, lambda: path(rows(80, 120), scales=np.array([0.05, 0.5, 5.0]))),
    "by columns, correlated": lambda: under(COLUMNS, lambda: path(rows(100, 60, along=0.95), tol=1e-8)),
    "by columns, weights": lambda: under(COLUMNS, lambda: path(rows(80, 60), given=weights(80))),
    "by columns, sparse": lambda: under(COLUMNS, lambda: path(thin(120, 150), tol=1e-7)),
    "by columns, sparse, strong": lambda: under(COLUMNS, lambda: path(thin(120, 150), tol=1e-8, scales=SPREAD)),
    "by columns, elastic net": lambda: under(
        COLUMNS, lambda: path(rows(80, 60, along=0.8), gaussian=0.7, factors=np.tile([1.0, 2.0], 30))
    ),
    "by columns, three classes": lambda: under(COLUMNS, lambda: path(rows(90, 60, 3), scales=SHORT)),
    "by columns, three classes, sparse": lambda: under(
        COLUMNS, lambda: path(stored(rows(90, 60, 3)), tol=1e-7, scales=SHORT)
    ),
    "by columns, three classes, strong": lambda: under(
        COLUMNS, lambda: path(rows(90, 40, 3, along=0.9), scales=SPREAD)
    ),
    "by columns, three classes, groups": lambda: under(
        COLUMNS, lambda: path(rows(90, 60, 3), groups="class", scales=SHORT)
    ),
    "by columns, three classes, elastic net": lambda: under(COLUMNS, lambda: path(rows(90, 40, 3), gaussian=0.5)),
    "working sets": lambda: on_sets(lambda: path(rows(80, 60, along=0.5))),
    "working sets, three classes": lambda: on_sets(lambda: path(rows(90, 40, 3), groups="class")),
    "working sets, groups": lambda: on_sets(lambda: path(rows(80, 60), groups=[[k, k + 1] for k in range(0, 60, 2)])),
    "working sets, sparse": lambda: on_sets(lambda: path(thin(120, 80), tol=1e-7)),
}


@contextmanager
def work_noted() -> Iterator[Counter[str]]:
    """Count the steps, sweeps and passes of paths."""
    found: Counter[str] = Counter()
    before: list[tuple[Any, str, Any]] = []

    def watch(kind: Any, name: str, note: Callable[..., None]) -> None:
        inner = getattr(kind, name)
        before.append((kind, name, inner))

        def noted(self: Any, *given: Any, **more: Any) -> Any:
            result = inner(self, *given, **more)
            note(self, result, *given, **more)
            return result

        setattr(kind, name, noted)

    def step(self: Any, result: Any, at: Any, penalty: Any, precision: float) -> None:
        found.update(
            {"steps": 1, "columns in steps": len(self.chosen), "digits of steps": round(-10 * np.log10(precision))}
        )

    watch(TwoClassDescent, "step", step)
    watch(ClassDescent, "step", step)
    for kind in (TwoClassDescent, ClassDescent):
        watch(kind, "_look_at_all", lambda self, result, *given: found.update({"looks at all columns": 1}))
    watch(MatrixColumns, "descend", lambda self, result, *given, **more: found.update({"sweeps": int(result[1])}))
    watch(GramModel, "move_to", lambda self, result, *given: found.update({"products formed": 1}))
    watch(
        FoldObjective,
        "fold",
        lambda self, result, statistic, params: found.update(
            {f"passes for {statistic.__name__.replace('Own', 'Curvature')}": 1}
        ),
    )
    watch(
        ProximalNewton,
        "minimise",
        lambda self, result, *given: found.update({"iterations": result.iterations, "solves": 1}),
    )
    try:
        yield found
    finally:
        for kind, name, inner in reversed(before):
            setattr(kind, name, inner)


def work(name: str) -> dict[str, Any]:
    """Return the work of a path, and what it found at each scale."""
    with warnings.catch_warnings(), work_noted() as found:
        warnings.simplefilter("ignore")
        result = PATHS[name]()
    return {
        "work": dict(sorted(found.items())),
        "passes": result.passes,
        "scales": [float(f"{scale:.6g}") for scale in result.scales],
        "objective": [float(f"{value:.7g}") for value in result.objective],
        "not zero": [int(np.count_nonzero(point.toarray()[:, 1:])) for point in result.points],
        "gap": [float(f"{gap:.2g}") for gap in result.gap],
    }


if __name__ == "__main__":
    written = [f"{json.dumps(name)}: {json.dumps(work(name))}" for name in PATHS]
    PLACE.write_text("{\n" + ",\n".join(written) + "\n}\n", encoding="utf-8")
