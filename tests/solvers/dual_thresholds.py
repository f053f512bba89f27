"""What the thresholds of sparse descents decide: when they end, and when and how residuals are corrected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks
from oddsmith.likelihood.column_descent import ColumnDescent, ColumnPoint
from oddsmith.likelihood.dual_correction import DualCorrection
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.solvers import proximal_newton
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.proximal_newton import Ending, SparsePenalty


def corrects(columns: float, gap: float = 2.0) -> bool:
    """Whether residuals of a thousand rows are corrected at a gap where the objective is 1 from its optimum."""
    called: list[bool] = []
    stub: Any = SimpleNamespace(
        columns=MatrixColumns.of(np.zeros((1000, 1))),
        chosen=np.arange(int(columns)),
        _divergence=lambda at: 1.0,
        frugal=False,
    )
    stub.corrected = lambda at, penalty, precision: called.append(True) or at.theta
    stub.feasible, stub.sizes, stub.gap = lambda theta: theta, np.abs, lambda *given: gap
    stub.ridge = penalty = np.ones(int(columns))
    numbers = {"x": np.zeros(0), "b": np.zeros(1), "a": np.zeros(1000), "theta": np.zeros(1000), "sizes": np.zeros(0)}
    at = ColumnPoint(columns=np.zeros(0, dtype=np.intp), value=1e3, loss=1.0, gap=gap, **numbers)
    ColumnDescent._tightened(stub, at, penalty)
    return bool(called)


def corrections(weights: int) -> int:
    """Count changes of the residuals that change nothing, by a Hessian of no known diagonal."""
    ridge, changes = np.geomspace(1.0, 1e12, weights), [0]

    def curved(z: Any) -> Any:
        changes[0] += 1
        return 0.0 * z

    DualCorrection(
        columns=MatrixColumns.of(np.ones((2, weights))),
        penalty=np.ones(weights),
        ridge=ridge,
        diagonal=lambda columns: 1e12 - ridge,
        curved=curved,
    ).apply(np.ones(2), np.ones(weights), 1e-300)
    return changes[0]


def falls_back(columns: int) -> bool:
    """Whether a Hessian over so many columns is formed where their products in single precision do not suffice."""
    point = SimpleNamespace(columns=np.arange(columns), gap=1.0, value=0.0, steps=99)
    descent, called = SimpleNamespace(threaded=True, rough=True, solve=lambda *at, **how: point), []
    stated: Any = SimpleNamespace(
        point=point,
        accurate=False,
        column_descent=lambda: descent,
        objective=SimpleNamespace(evaluate=lambda w: None),
        _evaluation=lambda point: SimpleNamespace(w=None),
        penalty_at=lambda scale, e: None,
        _solve_working_set=lambda *at: called.append(at) or SimpleNamespace(gap=2.0),
    )
    SparseProblem.step_columns(stated, 1.0, tol=1e-8, max_iter=9, before=1.0)
    return bool(called)


def curvature_rows(n: int) -> int:
    """Return the rows of the Hessian by which residuals of n rows are moved, for ten weights."""
    source = MemorySource(np.zeros((2, 1)), np.array([0, 1], dtype=np.int32), K=2)
    rows: Any = SimpleNamespace(n_rows=n, size=10, source=source, subsample=lambda rows, seed: rows)
    return int(SparseProblem._some_rows(SimpleNamespace(objective=rows)))  # type: ignore[arg-type,call-overload]


def ending(far: float = 0.0) -> Ending:
    """Return the end of a descent whose Hessian is at weights that are so far away."""
    result = Ending(objective=SimpleNamespace(self_concordance=1.0), penalty=None)  # type: ignore[arg-type]
    result.at = ObjectiveValue(w=np.array([far]), value=0.0, log_likelihood=0.0, gradient=np.zeros(1))
    return result


def is_near(far: float) -> bool:
    """Whether residuals are moved by a Hessian at weights so far away."""
    return ending(far)._is_near(ending().at)  # type: ignore[arg-type]


def stops(gap: float, last: float = np.inf, left: float = 0.0) -> bool:
    """Whether a descent stops at a gap after another one."""
    found = ending()
    found.last = last
    return found.reached(gap, left)


def last_steps() -> int:
    """Count the steps of a descent whose gap falls all the time."""
    found, count = ending(), 0
    while not found.reached(10.0 ** -(count + 1), 0.0):
        count += 1
    return count


def is_accurate(gain: float) -> bool:
    """Whether weights are accurate that can gain so much, whatever the objective is, or their own size."""
    penalty, step = SparsePenalty(Blocks.single(np.ones(1)), np.zeros(1), 0.0), np.sqrt(2.0 * gain)
    found = {
        proximal_newton.is_accurate(np.eye(1), np.array([x - step * scale]), np.array([x]), penalty, value)
        for x, value, scale in ((0.0, 1.0, 1.0), (2.0, 1.0, 1.0), (2.0**-6, 1.0, 2.0**-6.5), (0.0, 100.0, 10.0))
    }
    assert len(found) == 1
    return found.pop()


def refinements() -> int:
    """Count the refinements of a model each of which leaves a tenth of what is missed."""
    count = [0]

    def minimise(H: Any, r: Any, x: Any, blocks: Any, *, tol: float, rounds: int) -> Any:
        count[0] += 1
        return x

    blocks = Blocks.single(np.ones(1))
    penalty: Any = SimpleNamespace(blocks=blocks)
    e = ObjectiveValue(w=np.zeros(1), value=0.0, log_likelihood=0.0, gradient=np.zeros(1))
    before = proximal_newton.minimise_model, proximal_newton.violation
    proximal_newton.minimise_model = minimise  # type: ignore[assignment]
    proximal_newton.violation = lambda *given: 0.1 ** count[0]  # type: ignore[assignment]
    try:
        proximal_newton.model_minimum(np.eye(1), e, penalty)
    finally:
        proximal_newton.minimise_model, proximal_newton.violation = before
    return count[0]
