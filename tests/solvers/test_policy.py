"""Every threshold of `Policy` is noticed: what a fit does just below it and just above.

A new field without a row here, or a row that does not notice a threshold larger by three tenths, fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from tests.likelihoods import problem
from tests.policies import set_policy
from tests.solvers import dual_thresholds as dual
from tests.solvers.test_plan_thresholds import COSTS, EDGES, MACHINE, SIZES
from tests.solvers.test_traces import EXPECTED
from tests.solvers.traces import FITS
from tests.traces import trace

from oddsmith import GaussianPrior
from oddsmith.engines import MemorySource
from oddsmith.errors import UnavailableError
from oddsmith.likelihood import class_blocks, coordinates
from oddsmith.likelihood.fit import _is_far, eliminated_columns, make_objective
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.fold_batch import FoldBatch, FoldGroup, FoldRows, neighbours
from oddsmith.likelihood.fused_lbfgs import preconditioners, slice_count
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.sparse_batch import advance_together, first_places
from oddsmith.likelihood.sparse_path import has_digits
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.likelihood.table_sums import in_few_slices
from oddsmith.numerics import factor_spd
from oddsmith.rows import CodeRows, ColumnRows, SplitRows
from oddsmith.solvers import (
    batch_schedule,
    diagonal_lbfgs,
    mixed_precision,
    newton,
    policy,
    subsampled,
    table_newton,
)
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.batch_schedule import BatchSchedule
from oddsmith.solvers.device import device_sizes
from oddsmith.solvers.facts import Facts
from oddsmith.solvers.lbfgs import Pairs, add_pair, lbfgs
from oddsmith.solvers.line_search import backtrack, line_search
from oddsmith.solvers.plan import plan, plan_sparse
from oddsmith.solvers.policy import POLICY, Policy
from oddsmith.solvers.preconditioner import KroneckerSumPreconditioner, LevelPreconditioner
from oddsmith.solvers.subsampled import start_sizes, subsample_sizes
from oddsmith.solvers.truncated_newton import TruncatedNewton


def at(value: float = 1.0, gradient: Any = (1.0,), hessian: Any = None, w: Any = None) -> ObjectiveValue:
    g = np.array(gradient, dtype=float)
    where = np.zeros(len(g)) if w is None else np.array(w)
    return ObjectiveValue(w=where, value=value, log_likelihood=0.0, gradient=g, hessian=hessian)


COLUMNS = KroneckerSumPreconditioner(np.eye(1), np.zeros(2))
UNIT = SimpleNamespace(solve=lambda g: g + 0.0, norm=lambda g: float(np.linalg.norm(g)), smallest_eigenvalue=1.0)


def objective(n: int, M: int, X: Any = None, dtype: Any = np.float64) -> Any:
    X = np.random.default_rng(0).normal(size=(n, M)).astype(dtype) if X is None else X
    source = MemorySource(X, (np.arange(n) % 2).astype(np.int32), 2)
    return make_objective(problem(source, None, np.array([n / 2, n / 2]), reference=0))[0]


def coordinate_rows(M: int) -> int:
    X = np.random.default_rng(0).normal(size=(max(16_100, 1_500_000 // M + 1), M)).astype(np.float32)
    part = coordinates._coordinate_sample(MemorySource(X, np.zeros(len(X), dtype=np.int32), 2))
    return 0 if part is None else part.n_rows


def is_shown(rows: int) -> bool:
    X = np.zeros((300, 1))
    X[40 : 40 + rows] = 1.0
    return coordinates._seen_enough(MemorySource(X, np.zeros(300, dtype=np.int32), 2))


def slices_by_room(share: float) -> int:
    """Slices of a table's rows in a pass whose sums take a share of the table's bytes."""
    source = table_objective(5 * 65_536, 3).memory_source
    assert source.form is not None
    return len(in_few_slices(source, share * source.n_rows * source.form.row_bytes).slices())


def slices_of_hessian(n: int) -> int:
    return len(objective(n, 99)._hessian_source.slices())


def steps_taken(M: int, size: float) -> int:
    """Return how many Newton steps a kernel takes on rows that are the better separated, the larger they are."""
    found = objective(500, M)
    x = found.source.X[:, 0]
    found.source.t[:] = size * x + np.random.default_rng(1).logistic(size=500) > 0.0
    steps = found.newton_steps(np.zeros(M + 1), policy.POLICY.fused_steps, 1e-9)
    return 0 if steps is None else len(steps.trace)


def is_rough(M: float) -> bool:
    """Return whether the first Hessians of Newton steps in a kernel may be in single precision."""
    source = MemorySource(np.random.default_rng(0).normal(size=(90, int(M))), (np.arange(90) % 2).astype(np.int32), 2)
    found = make_objective(problem(source, GaussianPrior(1.0), np.array([45.0, 45.0]), reference=0))[0]
    with patch("oddsmith.likelihood.fused_newton.newton_steps", return_value=None) as asked:
        found.newton_steps(np.zeros(int(M) + 1), 8, 1e-9)
    return bool(asked.call_args.kwargs["rough"])


def is_moved(center: float) -> bool:
    x = np.tile([-1.0, 1.0], 50) + center
    return bool(objective(100, 1, sparse.csr_array(x[:, None])).center[0] == 0.0)


def eliminates(levels: int, M: int, prior: Any) -> bool:
    form = SimpleNamespace(products=False, factors=[(0, levels), (levels, levels + 2)])
    return eliminated_columns(SimpleNamespace(source=SimpleNamespace(form=form), K=2, M=M, prior=prior)) is not None  # type: ignore[arg-type]


def eliminates_classes(levels: float) -> bool:
    """Whether the levels of a factor are eliminated for three classes, beside two thousand other columns."""
    n = int(levels)
    form = SimpleNamespace(factors=[(0, n)])
    source = object.__new__(FormSource)
    object.__setattr__(source, "shown", form)
    stub: Any = SimpleNamespace(source=source, shape=(2, n + 2000), whitening=None, penalty=None, T=np.eye(2))
    return class_blocks._columns(stub) is not None


def is_exact(classes: float) -> bool:
    """Whether a preconditioner for a table with that many classes is the Hessian, given room for it."""
    n, rng = 2000, np.random.default_rng(0)
    codes = rng.integers(0, 200, n).astype(np.int16)
    t = rng.integers(0, int(classes), n).astype(np.int32)
    source = MemorySource(
        SplitRows((CodeRows(codes, 200, dropped=0), ColumnRows((rng.normal(size=n),), n))), t, int(classes)
    )
    found = make_objective(problem(source, GaussianPrior(1.0), np.bincount(t).astype(np.float64), reference=0))[0]
    with patch.object(class_blocks, "table_room", return_value=np.inf):
        return isinstance(class_blocks.level_preconditioner(found, np.zeros(found.size)), LevelPreconditioner)


class FormSource(MemorySource):
    """A source of a form without rows."""

    @property
    def form(self) -> Any:
        return self.shown  # type: ignore[attr-defined]


FAR: Any = SimpleNamespace(solve=lambda g: g + 0.0, norm=lambda g: 9.0)


def endless(rise: float = -1.0) -> Any:
    """Return a function that rises by a share of its value at every step, and counts its evaluations."""
    seen: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        seen.append(order)
        return at(1e6 * (1.0 + rise * len(seen)), [1e-3], None, w)

    return SimpleNamespace(evaluate=evaluate, seen=seen, size=1, n_rows=100, sampling_fraction=1.0)


def sample_search(_: float) -> int:
    sample, recorder = endless(), SimpleNamespace(add_subsample=lambda *a: None)
    subsampled._to_sampling_error(sample, np.zeros(1), FAR, recorder)  # type: ignore[arg-type]
    return len(sample.seen)


def half_search(rise: float) -> int:
    found, certificate = endless(rise), SimpleNamespace(preconditioner=FAR)
    mixed_precision._search(found, np.zeros(1), certificate, [], lambda e: 1.0)  # type: ignore[arg-type]
    return len(found.seen)


def pairs_kept(number: float) -> int:
    pairs: Pairs = []
    for k in range(int(number)):
        add_pair(pairs, np.array([1.0 + k]), np.array([1.0]))
    return len(pairs)


def halved(_: float) -> int:
    """Steps of L-BFGS that are all halved until it gives up."""
    taken: list[float] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        # The value falls at half of the step that was tried before.
        fell = len(taken) == 0 or abs(w[0] - taken[-1]) < 0.75
        if fell:
            taken.append(float(w[0]))
        return at(-float(len(taken)) if fell else 1e9, [1.0, 0.0], None, w)

    far = SimpleNamespace(solve=lambda g: g / np.linalg.norm(g), norm=lambda g: 1.0)
    lbfgs(SimpleNamespace(evaluate=evaluate), np.zeros(2), far, lambda e: False, 100)  # type: ignore[arg-type]
    return len(taken) - 1


def accepts(fall: float) -> bool:
    """Whether a step along a slope of one is taken if the value falls by so much."""
    there: Any = SimpleNamespace(evaluate=lambda w, order=1: at(1.0 - fall if w[0] == -1.0 else 2.0, w=w))
    return line_search(there, at(1.0, w=[0.0]), np.array([1.0]), 1.0, order=1) is not None


def trials(_: float) -> int:
    tried: list[float] = []
    backtrack(tried.append, lambda found, step: False)
    return len(tried)


def last_step(change: float) -> bool:
    e = at(1.0, [change], np.eye(1))
    stub = SimpleNamespace(
        self_concordance=1.0, rounding=0.0, passes=1, canonical=True, log_likelihood=lambda w, value: 0.0
    )
    factor = factor_spd(np.eye(1), tol=0.0)
    return newton.Newton()._last_step(stub, e, factor, np.array([change]), 1e-3) is not None  # type: ignore[arg-type]


def predicted(ratio: float) -> bool:
    """Whether a fall of so much times the prediction is believed."""
    e, f = at(10.0, [np.sqrt(2.0)]), at(10.0 - ratio, [0.0])
    return diagonal_lbfgs._predicted(e, f, UNIT)  # type: ignore[arg-type]


def sample_of(n: int, size: int) -> Any:
    return SimpleNamespace(n_rows=n, size=size, shape=(1, size))


def is_shrunk(rows_per_weight: float) -> bool:
    H = np.array([[2.0, 0.5], [0.5, 1.0]])
    found = subsampled.shrunk_factor(at(1.0, [0.0, 0.0], H), sample_of(int(2 * rows_per_weight), 2))
    return bool(abs(found.solve(H[0])[0] - 1.0) > 1e-9)


def misleads(growth: float) -> bool:
    objective, sample = (SimpleNamespace(evaluate=lambda w, v=v: at(v)) for v in (growth, 0.1))
    start = SimpleNamespace(x=np.zeros(1), sample=sample, guess=at(1.0))
    return subsampled._misleads(start, objective, np.zeros(1))  # type: ignore[arg-type]


def gradient_is_alike(multiple: float) -> bool:
    """Whether a squared gradient of so many times what chance explains passes: of 4 weights, halves of the rows."""
    chance = (4 + 6) * (2.0 + 2.0)
    return batch_schedule._gradient_is_alike(at(1.0, np.full(4, np.sqrt(multiple * chance / 4))), UNIT, 0.5, 0.5)  # type: ignore[arg-type]


def curvature_is_alike(ratio: float) -> bool:
    factor = factor_spd(np.eye(2), tol=0.0)
    return batch_schedule._curvature_is_alike(factor, at(1.0, [0.0, 0.0], np.diag([1.0, ratio])))


class StoppedError(Exception):
    """A search asks for a Hessian."""


def gap_distance(_: float) -> list[float]:
    """The distance by the gap (a norm of 0.01 where 0.5 · norm² may be 0.5 · 0.01), and by self-concordance."""
    stubs: Any = [SimpleNamespace(self_concordance=rho, eigenvalue_bound=lambda H: 1.0) for rho in (0.5, 10.0)]
    return [table_newton.gap_distance(stub, at(hessian=np.eye(1)), at(1.0, [0.01]), 1e-2) for stub in stubs]


def order_after_step(change: float) -> int:
    """The order of the evaluation after a step that changes activations by so much; negative: for all digits."""

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        if w[0] != abs(change):
            raise StoppedError(order)
        return at(1.0, w, np.eye(1), w)

    stub: Any = SimpleNamespace(evaluate=evaluate, self_concordance=1.0, passes=0)
    with pytest.raises(StoppedError) as stopped:
        table_newton.TableNewton(strict=change < 0).minimise(stub, np.array([abs(change)]), tol=1e-30, max_iter=9)
    return int(stopped.value.args[0])


def gradients_of_table(_: float) -> int:
    """Gradients of a table after which a Hessian follows, though all steps are short."""
    seen: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        if order > 1 and seen:
            raise StoppedError
        seen.append(order)
        return at(1e3 - len(seen), [1e-3 * 0.5 ** len(seen)], np.eye(1) if order > 1 else None, w)

    stub: Any = SimpleNamespace(evaluate=evaluate, self_concordance=1.0, passes=0)
    with pytest.raises(StoppedError):
        table_newton.TableNewton().minimise(stub, np.array([1e-3]), tol=1e-30, max_iter=200)
    return len(seen) - 1


def table_objective(n: int, levels: int) -> FoldObjective:
    """A table of four numbers and a factor of so many levels."""
    codes, x = (np.arange(n) % levels).astype(np.int16), np.arange(n) / n
    X = SplitRows((ColumnRows((x, x**2, x**3, x**4), n), CodeRows(codes, levels)))
    source = MemorySource(X, (np.arange(n) % 2).astype(np.int32), 2)
    return make_objective(problem(source, None, np.array([n / 2, n / 2]), reference=0), eliminate=True)[0]


def distance_allowed(concordance: float, tol: float) -> float:
    stub: Any = SimpleNamespace(self_concordance=concordance)
    return round(subsampled._last_step(stub, UNIT, tol), 9)  # type: ignore[arg-type]


def cg_residual(left: float, strict: bool = False) -> float:
    """The residual to which a step is solved for: of a diagonal with these squared entries, all but the last."""
    seen = []
    stub: Any = SimpleNamespace(hessian_product=lambda w, v: np.arange(1.0, 41.0) * v)
    free = SimpleNamespace(solve=lambda r: (seen.append(float(r @ r)), r)[1])
    e = at(1.0, np.ones(40))
    TruncatedNewton(strict=strict)._solve(stub, e, free, left, None)  # type: ignore[arg-type]
    return len(seen)


def leads_on(rise: float) -> bool:
    """Whether a step after the certificate is kept although the objective is higher by this share."""
    objective: Any = SimpleNamespace(evaluate=lambda w: at(1.0 + rise, np.zeros(3)))
    recorder: Any = SimpleNamespace(add=lambda *given: None)
    e = at(1.0, np.ones(3))
    return TruncatedNewton(strict=False)._lead_on(objective, [(e, np.ones(3))], UNIT, recorder, 1e-8) is not e  # type: ignore[arg-type]


def change_looked_up(bound: float) -> bool:
    f = objective(50, 2)
    return bool(f.activation_change(np.zeros(3), bound) < bound)


def scales_together(n: int) -> bool:
    """Whether the scales of a path advance together: no step forms a Hessian of its own."""
    stated: Any = SimpleNamespace(n_rows=n, size=100, shape=(1, 100), link=None, whitening=None)
    return advance_together(SparseProblem(problem=None, objective=stated, coordinates=None, unit=None))  # type: ignore[arg-type]


def folds_together(n: int) -> bool:
    """Whether two folds of these rows share their passes."""
    half, other = np.arange(n // 2), np.arange(n // 2, n)
    return FoldRows.of(MemorySource(np.zeros((n, 1)), np.zeros(n, dtype=np.int32), K=1), [(half, other)]) is not None


def hessian_pays(members: int) -> bool:
    """Whether Hessians of five folds over so many of 201 coordinates are formed."""
    batch: Any = SimpleNamespace(folds=range(5), stated=SimpleNamespace(objective=SimpleNamespace(size=201)))
    return FoldBatch._pays(batch, FoldGroup(places=range(1), w=np.zeros(1), H=np.eye(1), members=np.arange(members)))


def has_sample(n: int) -> bool:
    """Whether a fit of 100 weights under a LaplacePrior begins on a sample of these rows."""
    rows: Any = SimpleNamespace(n_rows=n, size=100, subsample=lambda rows, seed: rows)
    given: Any = SimpleNamespace(source=SimpleNamespace(drawn=1, has_offset=False))
    stated = SparseProblem(problem=given, objective=rows, coordinates=None, unit=None)  # type: ignore[arg-type]
    return stated.on_sample() is not None


def products(residual: float, size: int = 700) -> int:
    """Products that a step takes whose equations are badly conditioned."""
    seen: list[int] = []
    stub: Any = SimpleNamespace(hessian_product=lambda w, v: (seen.append(1), np.geomspace(1.0, 1e9, size) * v)[1])
    conjugate = SimpleNamespace(solve=lambda r: r)
    TruncatedNewton(strict=True)._solve(stub, at(1.0, np.ones(size)), conjugate, residual, None)  # type: ignore[arg-type]
    return len(seen)


def products_of_bound(H: Any) -> int:
    """Products for an estimate of the decrement, where nothing bounds the Hessian (a diagonal)."""
    seen: list[int] = []
    stub: Any = SimpleNamespace(
        inverse_bound=lambda e: None, preconditioner=lambda w: SimpleNamespace(solve=lambda r: r)
    )
    stub.hessian_product = lambda w, v: (seen.append(1), H * v)[1]
    FoldObjective.decrement_bound(stub, at(1.0, np.ones(len(H))))
    return len(seen)


def gradients_before_hessian(_: float) -> int:
    """Gradients of a search that goes on well, but slowly."""
    seen: list[int] = []

    def evaluate(w: Any, order: int = 1) -> ObjectiveValue:
        if order > 1:
            raise StoppedError
        seen.append(order)
        return at(1e9 - 1e6 * len(seen), [1e3 * 0.88 ** len(seen), 0.0])

    stub: Any = SimpleNamespace(evaluate=evaluate, size=100_000, shape=(1, 2), passes=0)
    stub.column_curvature = lambda: (np.eye(1), np.zeros(2))
    with pytest.raises(StoppedError):
        diagonal_lbfgs.DiagonalLBFGS().minimise(stub, np.zeros(2), tol=1e-8, max_iter=1000)
    return len(seen)


def has_summary(size: int) -> bool:
    state: Any = SimpleNamespace(x=np.zeros(size), hessian=None, expected=None, kept=[0])
    state.require_memory = lambda most: FittedState.require_memory(state, most)
    state.bordered = SimpleNamespace(toarray=lambda: np.eye(1))
    try:
        return FittedState.objective_hessian(state).shape == (1, 1)
    except UnavailableError:
        return False


def close_to(number: float) -> Any:
    return pytest.approx(number, rel=1e-6)


# Field → what is seen, of a number: just below a threshold, and just above it.
SEEN: dict[str, tuple[Callable[[float], Any], dict[float, Any]]] = {
    "coordinate_elements": (lambda M: coordinate_rows(int(M)), {99: 4000, 130: 3076, 250: 2000}),
    "shown_rows": (lambda rows: is_shown(int(rows)), {7: False, 8: True}),
    "one_thread_products": (lambda n: slices_of_hessian(int(n)), {2000: 1, 2100: 4}),
    "small_slices": (lambda n: slices_of_hessian(int(n)), {2100: 4}),
    "far_center": (is_moved, {0.95e4: False, 1.1e4: True}),
    "eliminated_columns": (lambda M: eliminates(150, int(M), 1.0), {199: False, 200: True}),
    "eliminated_levels": (lambda levels: eliminates(int(levels), 300, 1.0), {99: False, 100: True}),
    "eliminated_elements": (
        lambda levels: eliminates(int(levels), int(levels) + 99, 1.0),
        {99_999: True, 100_001: False},
    ),
    "eliminated_products": (  # with a prior, and (negative) without one
        lambda levels: eliminates(
            int(abs(levels)), int(abs(levels)) + (999 if levels > 0 else 1999), levels > 0 or None
        ),
        {999: True, 1001: False, -2999: True, -3001: False},
    ),
    "largest_summary": (lambda size: has_summary(int(size)), {5000: True, 5001: False}),
    "sparse_hessian": (
        lambda M: plan_sparse(Facts(n_rows=50_000, n_columns=int(M)), MACHINE, None).passes,
        {799: 8, 800: 30},
    ),
    "sparse_rows_per_weight": (lambda n: has_sample(int(n)), {7990: False, 8000: True}),
    "bound_residual": (lambda size: products_of_bound(np.arange(1.0, size + 1.0)), {40: 20, 60: 24, 80: 28, 100: 31}),
    "bound_products": (lambda size: products_of_bound(np.geomspace(1.0, 1e12, int(size))), {1200: 500}),
    "diagonal_iterations": (gradients_before_hessian, {0: 101}),
    "column_stall": (lambda size: diagonal_lbfgs._stall(COLUMNS, int(size))[0], {9: 10}),
    "column_patience": (lambda size: diagonal_lbfgs._stall(COLUMNS, int(size))[1], {100: 60, 400: 120.0, 1000: 150}),
    "diagonal_stall": (lambda size: diagonal_lbfgs._stall(UNIT, int(size))[0], {9: 4}),  # type: ignore[arg-type]
    "diagonal_patience": (lambda size: diagonal_lbfgs._stall(UNIT, int(size))[1], {9: 30, 400: 40.0}),  # type: ignore[arg-type]
    "diagonal_near": (
        lambda g: diagonal_lbfgs._newton_distance(UNIT)(at(1.0, [g])),  # type: ignore[arg-type]
        {0.9e-5: close_to(0.9), 2e-5: close_to(2.0)},
    ),
    "cg_products": (products, {1e-9: 250}),
    "far_factor": (lambda mean: _is_far(np.tile([-1.0, 1.0], 9) + mean), {990.0: False, 1010.0: True}),
    "sample_iterations": (sample_search, {0: 42}),
    "half_iterations": (half_search, {0: 27}),
    "half_rounding": (half_search, {0.95e-7: 27, 1.15e-7: 31}),
    "half_margin": (
        lambda needed: mixed_precision._goal(SimpleNamespace(needed=lambda e: needed), 0.1, at()),  # type: ignore[arg-type]
        {1.0: close_to(0.2), 0.4: close_to(0.1)},
    ),
    "stalled_newton_products": (
        lambda n: type(plan(Facts(n_rows=int(n), n_columns=99), MACHINE).solver.then).__name__,
        {1500: "Newton", 1501: "NoneType"},
    ),
    "fused_slice_elements": (lambda n: slice_count(objective(int(n), 99)), {800: 1, 801: 8}),
    "kernel_hessians": (
        lambda n: preconditioners(SimpleNamespace(shape=(1, 100), n_rows=n, penalty=0.0))[0],  # type: ignore[arg-type]
        {24: 0, 25: 20},
    ),
    "fused_slices": (lambda n: slice_count(objective(int(n), 999)), {255: 1, 256: 8}),
    "rough_weights": (is_rough, {7: False, 8: True}),
    "fused_weights": (lambda M: steps_taken(int(M), 3.0), {63: 7, 64: 0}),
    "newton_digits": (lambda d: newton.Newton()._ends([1.0, d], 1.0, 1e-3, 9), {0.98e-5: True, 1.1e-5: False}),
    "separated_ratios": (
        lambda ratio: newton.looks_separated([ratio ** (0.5 * k) for k in range(6)]),
        {0.14: False, 0.16: True, 0.74: True, 0.8: False},
    ),
    "memory": (pairs_kept, {9: 9, 10: 10, 20: 10}),
    "halvings": (halved, {0: 13}),
    "armijo": (accepts, {0.95e-4: False, 1.1e-4: True}),
    "smallest_step": (trials, {0: 30}),
    "same_activation": (last_step, {0.9e-9: True, 1.1e-9: False}),
    "diagonal_trust": (predicted, {0.09: False, 0.11: True, 9.5: True, 10.5: False}),
    "prior_margin": (
        lambda g: round(diagonal_lbfgs._prior_distance(np.array([0.0, 4.0]), 1e-2, UNIT)(at(1.0, [9.0, g])), 3),
        {1.0: 3535533.906},
    ),
    "noisy_rows_per_weight": (is_shrunk, {39: True, 41: False}),
    "misleading": (misleads, {1.45: False, 1.55: True}),
    "batch_gradient": (gradient_is_alike, {7.9: True, 8.1: False}),
    "batch_curvature": (curvature_is_alike, {0.24: False, 0.26: True, 3.9: True, 4.1: False}),
    "table_margin": (gap_distance, {0: [close_to(0.1), close_to(0.2)]}),
    "class_products": (eliminates_classes, {999: True, 1001: False}),
    "exact_classes": (is_exact, {3: True, 4: False}),
    "table_near": (order_after_step, {0.098: 1, 0.102: 2, -0.0048: 1, -0.0052: 2}),
    "table_steps": (gradients_of_table, {0: 3}),
    "table_room": (slices_by_room, {0.024: 4, 0.026: 2}),
    "table_slice_rows": (
        lambda n: len(table_objective(int(n), 3)._hessian_source.slices()),
        {5 * 65_536 - 1: 4, 5 * 65_536: 5},
    ),
    "polish_distance": (lambda rho: distance_allowed(rho, 1e-8), {1e12: 1e-6, 1e-4: 1e-3}),
    "polish_margin": (lambda rho: distance_allowed(rho, 1e-8), {100.0: close_to(3.13e-6)}),
    "polish_tolerance": (lambda rho: distance_allowed(rho, 1e-8), {100.0: close_to(3.13e-6)}),
    "cg_tolerance": (cg_residual, {1e-9: 16, 0.04: 7, 1.0: 5}),
    "value_rounding": (leads_on, {0.9e-13: True, 1.2e-13: False}),
    "narrow_change": (change_looked_up, {0.19: False, 0.21: True}),
    "sparse_products": (lambda n: scales_together(int(n)), {2999: False, 3001: True}),
    "sparse_stride": (lambda n: first_places(int(n)), {20: [0, 7, 15, 19]}),
    "fold_range_rows": (lambda n: folds_together(int(n)), {1999: False, 2000: True}),
    "fold_group": (lambda far: len(neighbours(np.array([[0.0], [far]]), 1.0)), {0.99: 1, 1.01: 2}),
    "fold_hessian_rounds": (lambda n: hessian_pays(int(n)), {111: True, 112: False}),
    "sparse_tight": (lambda gap: dual.corrects(2000, gap), {4.9: False, 5.1: True}),
    "sparse_slow": (lambda gap: dual.stops(gap, last=1.0), {0.29: False, 0.31: True}),
    "sparse_last_steps": (lambda _: dual.last_steps(), {0: 4}),
    "sparse_refinements": (lambda _: dual.refinements(), {0: 10}),
    "sparse_accuracy": (dual.is_accurate, {0.98e-18: True, 1.1e-18: False}),
    "sparse_curvature_change": (dual.is_near, {0.69: True, 0.71: False}),
    "dual_always": (dual.corrects, {1000: True, 1001: False}),
    "sparse_polish": (lambda n: has_digits(n, 1e-7, quick=True), {1e7: True, 1.01e7: False}),
    "sparse_digits": (lambda tol: has_digits(1e12, tol, quick=True), {1e-8: True, 1.1e-8: False}),
    "dual_corrections": (lambda n: dual.corrections(int(n)) // 201, {700: 4}),
    "sparse_fallback": (lambda n: dual.falls_back(int(n)), {600: True, 601: False}),
    "dual_products": (lambda n: dual.corrections(int(n)), {700: 804}),
    "dual_rows_per_weight": (lambda n: dual.curvature_rows(int(n)), {400: 100, 100_000: 1000}),
    "dual_row_passes": (lambda n: dual.curvature_rows(int(n)), {1000: 200}),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_is_seen_on_both_sides_of_a_threshold(name: str) -> None:
    see, rows = SEEN[name]
    assert {number: see(number) for number in rows} == rows


# Field → fits whose passes tell of it.
TRACES = {
    "easy_iterations": (
        "half precision, its own optimum",
        "half precision, correlated",
        "half precision, more correlated",
    ),
    "own_optimum": ("half precision, its own optimum",),
    "half_hessian_rounding": ("half precision, its own optimum",),
    "near_hessian": ("half precision, somewhat correlated", "half precision, three classes"),
    "diagonal_hessians": ("many columns, six Hessians",),
    "independent_shrinkage": ("two subsamples of nearly independent columns",),
    "full_iterations": ("one Hessian, too many gradients",),
    "coordinate_rows": ("two subsamples",),
    "sampling_error": ("two subsamples of many columns",),
    "near_objective": ("sparse rows, wide prior",),
    "last_residual": ("sparse rows", "sparse rows, wide prior"),
    "last_margin": ("sparse rows", "sparse rows, wide prior"),
}
ELSEWHERE = {name for name in Policy.__dataclass_fields__ if name.startswith("softmax_")}
ELSEWHERE |= {"device_certificate_rows", "device_certificate_margin", "device_sampling_error", "device_known_error"}
ELSEWHERE |= {"device_contraction", "device_shifts", "device_gain", "device_passes"}  # as those above: PyTorch
ELSEWHERE |= {"smallest_step", "cg_products"}  # a power of two; the default of a solver
ELSEWHERE |= {"certificate_margin"}  # as "polish_margin" in what it does: a certificate is tried sooner or later
ELSEWHERE |= {"row_space_margin"}  # digits of the weights, in tests/likelihood/test_row_space.py
ELSEWHERE |= {
    "sparse_rounds",
    "sparse_batch_rounds",
    "sparse_batch_bytes",
    "half_progress",
    "certificate_products",
    "fused_steps",
}  # limits that no fit is known to reach


def scaled(value: Any) -> Iterator[Any]:
    """Yield a threshold with one of its numbers larger by three tenths."""
    if isinstance(value, tuple):
        for k, part in enumerate(value):
            yield from ((*value[:k], more, *value[k + 1 :]) for more in scaled(part))
    else:
        yield type(value)(round(1.3 * value) if isinstance(value, int) else 1.3 * value)


def plans(settings: Policy) -> list[Any]:
    """Return the plans, sizes and schedules of the tables in `test_plan_thresholds`."""
    facts = [{**facts, name: value} for facts, name, *ends, _, _ in EDGES for value in ends] + [row[0] for row in COSTS]
    found: list[Any] = [plan(Facts(**about), MACHINE, settings) for about in facts]
    found += [one.solver for one in found]
    for n, shape, lazy, *_ in SIZES:
        found += [subsample_sizes(n, shape, settings, lazy=lazy), start_sizes(n, shape, settings)]
    for n, P in (
        (20_000_000, 101),
        (40_000, 101),
        (2_000_000, 1001),
        (200_000, 1001),
        (5_000_000, 150),
        (10**9, 1001),
        (5_000_000, 2000),
        (30_000, 2000),
    ):
        found.append(device_sizes(n, P, settings))
    for n, size in (
        (1_670_000, 21),
        (1_700_000, 21),
        (2_000_000, 21),
        (20_000_000, 21),
        (20_000_000, 85),
        (20_000_000, 100),
        (10**8, 40),
    ):
        found.append(BatchSchedule.whole_pass(n, size, 0.01, settings))
    return found


@pytest.mark.parametrize("field", [field.name for field in fields(Policy) if field.name not in ELSEWHERE])
def test_no_threshold_goes_unnoticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = plans(POLICY)
    for value in scaled(getattr(POLICY, field)):
        set_policy(monkeypatch, **{field: value})
        see, rows = SEEN.get(field, (float, {}))
        seen = {number: see(number) for number in rows} != rows
        planned = plans(replace(POLICY, **{field: value})) != here
        assert seen or planned or any(trace(FITS[name]) != EXPECTED[name] for name in TRACES.get(field, ())), value
