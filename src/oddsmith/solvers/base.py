"""The inputs and outputs of solvers, which know nothing about data.

Every solver takes an `Objective`. Optional capabilities of an objective are separate protocols, which a solver names in
its signature: `ColumnCurvature`, `CurvatureBound`, `Subsampled`, `LowPrecision`, `Stochastic`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import BorderedDiagonal, BorderedFactor
from oddsmith.cached_property import cached_property
from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.records import TRACE_COLUMNS, WEIGHTS, Certificate, Trace, records_weights
from oddsmith.registry import Registry

if TYPE_CHECKING:
    from oddsmith.kernels.newton import NewtonSteps
    from oddsmith.solvers.certificate import InverseBound

Factor = SpdFactor | BorderedFactor  # A factor of a Hessian.


@dataclass(frozen=True, kw_only=True)
class ObjectiveValue:
    """The objective at the point ``w``: value, log likelihood, gradient, and the Hessian if requested.

    ``rounding`` bounds the rounding error of a gradient entry here, in addition to the objective's own.
    """

    w: Array
    value: float
    log_likelihood: float
    gradient: Array
    hessian: Array | BorderedDiagonal | None = None
    rounding: float = 0.0

    @cached_property
    def gradient_norm(self) -> float:
        """The norm of the gradient."""
        return math.sqrt(float(self.gradient @ self.gradient))

    def factor(self) -> Factor:
        """Return the factor of the Hessian, which must have been requested."""
        return self._factor

    @cached_property
    def _factor(self) -> Factor:
        assert self.hessian is not None
        if not isinstance(self.hessian, BorderedDiagonal):
            return factor_spd(self.hessian, tol=0.0)
        from oddsmith.kernels.table import border_gram

        return self.hessian.factor(gram=border_gram())

    def with_factor(self, factor: Factor, step: Array) -> ObjectiveValue:
        """Return the same evaluation with the factor of its Hessian, and the solution of that for the gradient."""
        vars(self).update(_factor=factor, newton_step=step)
        return self

    @cached_property
    def newton_step(self) -> Array:
        """The inverse Hessian, which must have been requested, times the gradient."""
        return self._factor.solve(self.gradient)

    def decrement(self, factor: Preconditioner) -> float:
        """Return the norm of the gradient under a factor of a Hessian; that of the last factor is kept."""
        known: tuple[Preconditioner, float] | None = vars(self).get("_decrement")
        if known is None or known[0] is not factor:
            known = factor, factor.norm(self.gradient)
            vars(self).update(_decrement=known)
        return known[1]

    @property
    def dense_hessian(self) -> Array:
        """The Hessian as an array, which must have been requested."""
        assert self.hessian is not None
        return self.hessian.toarray() if isinstance(self.hessian, BorderedDiagonal) else self.hessian

    def allowed_gap(self, tol: float) -> float:
        """Return the gap that a relative tolerance allows."""
        return tol * max(1.0, abs(self.value))


@dataclass(frozen=True)
class DecrementBound:
    """Newton decrement λ and self-concordance constant ρ: together they bound the distance from the optimum.

    ``exact`` is false when these are estimates rather than bounds.
    """

    decrement: float
    rho: float
    exact: bool


class Solves(Protocol):
    """A matrix that supports linear solves: a Hessian's factor, or an approximation."""

    def solve(self, b: Array, /) -> Array:
        """Return ``A⁻¹ b``."""


class Preconditioner(Solves, Protocol):
    """A positive definite matrix close to a Hessian."""

    def norm(self, b: Array, /) -> float:
        """Return ``sqrt(bᵀ A⁻¹ b)``."""


class Evaluates(Protocol):
    """A function with its gradient, as L-BFGS requires."""

    def evaluate(self, w: Array, order: int = 1) -> ObjectiveValue:
        """Return value and gradient (``order=1``) or these and the Hessian (``order=2``)."""


class HessianProducts(Protocol):
    """Products with a Hessian that is never formed, as conjugate gradients require."""

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return the Hessian at ``w`` times ``v``."""


class Objective(HessianProducts, Protocol):
    """A smooth convex function to minimise, prior included."""

    @property
    def size(self) -> int:
        """Number of coordinates, C · P."""

    @property
    def shape(self) -> tuple[int, int]:
        """Class contrasts × (1 + columns), C × P; the intercept comes first."""

    @property
    def weight(self) -> float:
        """Total weight of the rows: dividing by it gives the mean objective of lectures."""

    @property
    def has_prior(self) -> bool:
        """Whether it includes a prior, so that an optimum exists."""

    @property
    def canonical(self) -> bool:
        """Whether observed and expected Hessian are the same; else ``evaluate`` takes ``expected=True``."""

    @property
    def self_concordance(self) -> float:
        """Self-concordance constant: |third derivative along d| ≤ constant · ‖d‖ · second; infinite if unbounded."""

    @property
    def rounding(self) -> float:
        """Bound of the rounding error of an entry of the gradient."""

    @property
    def passes(self) -> int:
        """Passes over the data so far."""

    def evaluate(self, w: Array, order: int = 1, *, expected: bool = False) -> ObjectiveValue:
        """Return value and gradient (``order=1``) or these and the Hessian (``order=2``)."""

    def log_likelihood(self, w: Array, value: float) -> float:
        """Return the log likelihood at ``w``, where the objective is ``value``."""

    def preconditioner(self, w: Array) -> Preconditioner:
        """Return the Hessian's diagonal at ``w`` with the intercepts eliminated."""

    def decrement_bound(self, e: ObjectiveValue) -> DecrementBound:
        """Return a bound of the decrement at ``e`` without forming the Hessian."""


@runtime_checkable
class CurvatureBound(Protocol):
    """An objective whose inverse Hessian is bounded by its prior."""

    def inverse_bound(self, e: ObjectiveValue, preconditioner: Preconditioner | None = None) -> InverseBound | None:
        """Return the bound at ``e``, or None."""


@runtime_checkable
class FusedNewton(Protocol):
    """An objective that takes the plain steps of Newton's method faster than by an evaluation each."""

    def newton_steps(self, w: Array, steps: int, small: float) -> NewtonSteps | None:
        """Take up to ``steps`` steps from ``w``, until a decrement of ``small`` is due; None where it cannot."""


@runtime_checkable
class RowSpace(Protocol):
    """An objective whose optimum is a combination of its rows, because a prior shrinks every other direction."""

    def in_row_space(self) -> tuple[Subsample, Callable[[Array], Array]] | None:
        """Return the same objective over combinations of the rows, and their weights in all columns; None if none."""


class ColumnCurvature(Objective, Protocol):
    """An objective that knows its curvature column by column."""

    def column_curvature(self) -> tuple[Array, Array]:
        """Return B (C × C) and d (P) of the Kronecker sum ``B ⊗ 1 + 1 ⊗ diag(d)`` that approximates the Hessian."""


class ImplicitCurvature(HessianProducts, Protocol):
    """A lower bound of the Hessian at one point, as products."""

    def inverse_bound(self, self_concordance: float, rounding: float) -> InverseBound | None:
        """Return a bound of its inverse, or None."""


class Subsample(ColumnCurvature, Protocol):
    """The objective over a part of the rows, scaled up to all of them."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def sampling_fraction(self) -> float:
        """Their share of the weight of all rows."""

    def hessian_lower_bound(self, e: ObjectiveValue) -> Array:
        """Return a lower bound of the Hessian of all rows from one of the subsample: other rows can only add to it."""

    def eigenvalue_bound(self, H: Array | BorderedDiagonal) -> float:
        """Return a lower bound of the smallest eigenvalue of a Hessian from the prior, 0 if there is none."""

    def implicit_lower_bound(self, e: ObjectiveValue) -> ImplicitCurvature | None:
        """Return the same lower bound without forming it, or None."""

    def activation_change(self, step: Array, bound: float, enough: float = 0.0) -> float:
        """Return the largest change of a row's activation differences by a step, at most ``bound``.

        Any bound of it will do that is at most ``enough``.
        """

    def observed_part(self, w: Array) -> Subsample:
        """Return the objective with the weights fixed that these rows do not determine."""


class Subsampled(ColumnCurvature, Protocol):
    """An objective over many rows that supports subsampling."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def subsample(self, rows: int, seed: int) -> Subsample:
        """Return the objective over about ``n_rows`` rows from across the data."""

    def batches(self, ends: Sequence[float]) -> Iterator[Subsample]:
        """Yield the objective over disjoint parts of the rows; ``ends`` are fractions of them."""

    def count_pass(self) -> None:
        """Count the batches as one pass."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSample:
    """Some rows of a table: without the columns eliminated, and ``whole``; ``kept`` are the weights of the former."""

    rest: Subsample
    kept: npt.NDArray[np.bool_]
    whole: Subsample


class TableSampled(Subsample, Protocol):
    """An objective over a table with factors, which supports a start on some rows and without the largest factor."""

    def table_sample(self, rows: int, seed: int) -> TableSample:
        """Return about ``rows`` rows."""

    def sample_step(self, H: Array, e: ObjectiveValue, whole: Subsample | None) -> Array:
        """Return about the step of Newton's method, from the Hessian H of a sample without the columns eliminated.

        ``whole`` is that sample; None if no columns are.
        """


class LowPrecision(Subsampled, Protocol):
    """An objective that supports a copy in half precision."""

    def low_precision(self, w: Array) -> tuple[Objective, ObjectiveValue]:
        """Return nearly the same objective over rows in half precision, and the exact evaluation at ``w``."""


class Stochastic(Objective, Protocol):
    """An objective that supports stochastic gradient steps."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def mean_square(self) -> float:
        """Mean squared length of a scaled row, the intercept included."""

    def sgd_epoch(self, w: Array, rng: np.random.Generator, steps: Array) -> tuple[Array, Array]:
        """Return the weights after an epoch over the rows in random order, and the mean of the iterates."""


@dataclass(frozen=True, kw_only=True)
class SolverResult:
    """Weights, trace, certificate, and the evaluation at the weights (with its Hessian, if formed).

    ``iterations`` counts iterations on all rows. ``diverging`` says that the iterates diverge, as on separated classes.
    """

    w: Array
    trace: Trace
    certificate: Certificate
    final: ObjectiveValue
    iterations: int
    diverging: bool = False


@dataclass
class Recorder:
    """Collects the trace of a running solver: one record per iteration, with its stage.

    Stages on a part of the rows come first, with one record each.
    """

    objective: Objective
    stage: str
    columns: tuple[str, ...] = TRACE_COLUMNS
    records: list[tuple[Any, ...]] = field(default_factory=list, init=False)
    subsample_records: list[tuple[Any, ...]] = field(default_factory=list, init=False)
    began: float = field(default_factory=time.perf_counter, init=False)
    last: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if records_weights() and WEIGHTS not in self.columns:
            k = len(TRACE_COLUMNS)
            self.columns = (*self.columns[:k], WEIGHTS, *self.columns[k:])

    def add(self, e: ObjectiveValue, step_size: float, *more: object) -> None:
        """Record one iteration, with ``more`` columns if the trace has them; repeated points are recorded once."""
        if self.last is None or self.last is not e.w:
            self.last = e.w
            self.records.append(self._record(e, step_size, self.stage, *more))

    def add_steps(self, steps: NewtonSteps) -> None:
        """Record plain Newton steps, which the objective has counted as passes already."""
        first = self.objective.passes - steps.evaluations + steps.first
        seconds = time.perf_counter() - self.began
        for k, (value, loss, norm, _) in enumerate(steps.trace.tolist()):
            self.records.append((value, -loss, norm, float(k > 0), first + k, seconds, self.stage))

    def add_points(self, trace: Array, evaluations: int, last: Array) -> None:
        """Record the points of a search, whose ``evaluations`` the objective has counted as passes already.

        A row of ``trace``: the objective, the loss, the gradient's norm, the step, the evaluations up to there.
        """
        before, seconds = self.objective.passes - evaluations, time.perf_counter() - self.began
        for value, loss, norm, step, count in trace.tolist():
            self.records.append((value, -loss, norm, step, before + int(count), seconds, self.stage))
        self.last = last

    def end_with(self, e: ObjectiveValue, stage: str) -> None:
        """Record the last iteration, or change the stage of the last record."""
        if self.last is not None and self.last is e.w:
            self.records.pop()
        self.records.append(self._record(e, 1.0, stage))

    def add_subsample(self, e: ObjectiveValue, stage: str) -> None:
        """Record the end of a stage on a part of the rows: its objective estimates that of all rows."""
        self.subsample_records.append(self._record(e, 1.0, stage))

    def _record(self, e: ObjectiveValue, step_size: float, stage: str, *more: object) -> tuple[Any, ...]:
        seconds = time.perf_counter() - self.began
        kept = (e.w.copy(),) if WEIGHTS in self.columns else ()
        record = (
            e.value,
            e.log_likelihood,
            e.gradient_norm,
            step_size,
            self.objective.passes,
            seconds,
            stage,
            *kept,
            *more,
        )
        return record[: len(self.columns) - 1]

    def result(self, e: ObjectiveValue, certificate: Certificate, *, diverging: bool = False) -> SolverResult:
        """Return the result of a solver that ends at ``e``."""
        return SolverResult(
            w=e.w,
            trace=self.trace(),
            certificate=certificate,
            final=e,
            iterations=max(1, len(self.records) - 1),
            diverging=diverging,
        )

    def trace(self) -> Trace:
        """Return the records, numbered."""
        records, count = (*self.subsample_records, *self.records), len(self.columns) - 1
        rows = [(k, *row, *("",) * (count - len(row))) for k, row in enumerate(records)]
        return Trace(tuple(rows), self.columns)


O_contra = TypeVar("O_contra", bound=Objective, contravariant=True)


class Solver(Protocol[O_contra]):
    """A configured method: a frozen record with one function."""

    @property
    def name(self) -> str:
        """The registered name."""

    def minimise(self, objective: O_contra, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the best point found, with its certificate."""


SOLVERS: Registry[type[Any]] = Registry("solver")
