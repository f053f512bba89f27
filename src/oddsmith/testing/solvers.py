"""The contract of solvers, on problems whose optimum is known by construction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array, softmax
from oddsmith.priors import GaussianPrior
from oddsmith.solvers.base import Solver

TOLERANCE = 1e-8
FALL = 0.05  # Maximum share of the initial gap that a solver may leave.


class Constructed(NamedTuple):
    """An objective, its minimiser, and what it is."""

    objective: FoldObjective
    optimum: Array
    label: str


def constructed_problems(seed: int = 0) -> Iterator[Constructed]:
    """Yield likelihoods with known optima: every row occurs once for each class, weighted by its probability.

    The gradient of the likelihood is then zero at the weights that gave the probabilities; a Gaussian prior centred at
    these weights does not move the optimum.

    >>> problem = next(constructed_problems())
    >>> bool(np.abs(problem.objective.evaluate(problem.optimum).gradient).max() < 1e-9)
    True
    """
    rng = np.random.default_rng(seed)
    for n, D, K, prior in ((300, 3, 2, True), (300, 3, 2, False), (400, 4, 3, True), (2000, 45, 2, True)):
        X = rng.normal(size=(n, D)) @ (np.eye(D) + 0.3 * rng.normal(size=(D, D)) / np.sqrt(D))
        W, b = rng.normal(size=(K - 1, D)) / np.sqrt(D), 0.3 * rng.normal(size=K - 1)
        A = np.column_stack([np.zeros(n), X @ W.T + b])
        P = softmax(A)
        t = np.repeat(np.arange(K, dtype=np.int32), n)
        source = MemorySource(np.tile(X, (K, 1)), t, K, np.ascontiguousarray(P.T.ravel()))
        problem = Problem(
            engine=MemoryEngine(),
            source=source,
            prior=GaussianPrior(scale=1.0, mean=W if K > 2 else W[0]) if prior else None,
            intercept=True,
            reference=0,
            solver="auto",
            tol=TOLERANCE,
            max_iter=500,
            class_weight=P.sum(axis=0),
        )
        objective, coordinates, _ = make_objective(problem)
        label = f"{n} rows × {D} columns, {K} classes, {'a' if prior else 'no'} prior"
        yield Constructed(objective, coordinates.from_user(W, b), label)


def check_solver(solver: Solver[Any], *, seed: int = 0) -> None:
    """Check a solver against its contract: it comes near the optimum, and its certificate holds.

    On each of `constructed_problems`: the result has finite weights and a lower objective than the start; the certified
    gap is at least the true one; ``converged`` means that the gap is within the tolerance; the trace has a record for
    each iteration, with its stage.

    >>> from oddsmith.solvers import Newton
    >>> check_solver(Newton())
    """
    for objective, optimum, label in constructed_problems(seed):
        what = f"{solver.name} on {label}"
        best, start = objective.evaluate(optimum).value, np.zeros(objective.size)
        first = objective.evaluate(start).value - best
        result = solver.minimise(objective, start, tol=TOLERANCE, max_iter=500)
        assert np.isfinite(result.w).all(), f"{what}: weights {result.w}."
        found, certificate = objective.evaluate(result.w).value - best, result.certificate
        rounding = 1e-12 * abs(best)
        assert found <= FALL * first + rounding, f"{what}: the gap fell from {first:.3g} to {found:.3g} only."
        assert found <= certificate.gap + rounding, f"{what}: a gap of {found:.3g}, certified as {certificate.gap:.3g}."
        near = certificate.gap <= 1.01 * TOLERANCE * max(1.0, abs(best))
        assert near or not certificate.converged, f"{what}: converged at a gap of {certificate.gap:.3g}."
        assert len(result.trace) and all(result.trace.stage), f"{what}: a trace without records or stages."
