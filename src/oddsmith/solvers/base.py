"""What a solver sees and what it returns. A solver knows nothing of data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from oddsmith.numerics import EPS, Array
from oddsmith.records import TRACE_COLUMNS, Certificate, Trace
from oddsmith.registry import Registry

LEAST = 1e-6
"""Share of a diagonal that is left when the intercept is eliminated: what is below may be rounding."""


@dataclass(frozen=True)
class Evaluation:
    """The objective at the point ``w``: value, log likelihood, gradient, and the Hessian if it was asked for.

    ``rounding`` is what an entry of the gradient may be off by here, beyond the objective's own.
    """

    w: Array
    value: float
    log_likelihood: float
    gradient: Array
    hessian: Array | None = None
    rounding: float = 0.0


@dataclass(frozen=True)
class Curb:
    """What keeps the optimum near: decrement and the constant ρ of self-concordance.

    ``exact`` is false when these are estimates rather than bounds.
    """

    decrement: float
    rho: float
    exact: bool


class Solves(Protocol):
    """What a Hessian is nearly, and can be solved with."""

    def solve(self, r: Array, /) -> Array:
        """Return the step for a residual."""
        ...


@dataclass(frozen=True)
class Preconditioner:
    """What a Hessian is nearly: its intercepts eliminated, the rest diagonal.

    Weights of columns that are not centred pull at the intercept all together; the ``shift`` (C × M) that each of them
    gives to it, one for one, is taken out of the way. ``rest`` (C × (M + 1)) is the diagonal that is left, with the
    curvature of the intercepts in its first column; ``cross`` (C × M) is the Hessian's row of each intercept.

    >>> diagonal, cross = np.array([[4.0, 9.0]]), np.array([[2.0]])
    >>> Preconditioner.of(diagonal, cross).solve(np.array([6.0, 11.0])).round(12).tolist()
    [1.0, 1.0]
    """

    rest: Array
    shift: Array
    cross: Array

    @classmethod
    def of(cls, diagonal: Array, cross: Array) -> Preconditioner:
        """Return it for a Hessian's diagonal (C × (M + 1)) and its rows of the intercepts (C × M)."""
        diagonal = np.maximum(diagonal, EPS)
        first, others = diagonal[:, :1], diagonal[:, 1:]
        shift = cross / first
        left = np.maximum(others - first * shift**2, LEAST * others)
        return cls(np.concatenate([first, left], axis=1), shift, cross)

    def solve(self, r: Array) -> Array:
        """Return the step for a residual."""
        R = r.reshape(self.rest.shape)
        z = R / self.rest
        z[:, 1:] -= self.shift * R[:, :1] / self.rest[:, 1:]
        z[:, 0] -= (self.shift * z[:, 1:]).sum(axis=1)
        return z.ravel()


class Objective(Protocol):
    """A smooth convex function to be minimised, the prior already in it.

    ``reach`` bounds how fast its curvature can change: along any direction ``d`` the third derivative is at
    most ``reach · ‖d‖`` times the second (0 for a quadratic, infinite when no bound is known). ``rounding``
    bounds the rounding error of an entry of the gradient. ``convex`` says that its Hessian is never indefinite;
    ``canonical`` that observed and expected Hessian are the same, else ``evaluate`` takes ``expected=True``.
    """

    passes: int

    @property
    def convex(self) -> bool:
        """See above."""
        ...

    @property
    def canonical(self) -> bool:
        """See above."""
        ...

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def weight(self) -> float:
        """Total weight of the rows: dividing by it gives the mean objective of lectures."""
        ...

    @property
    def reach(self) -> float:
        """See above."""
        ...

    @property
    def rounding(self) -> float:
        """See above."""
        ...

    def evaluate(self, w: Array, order: int = 1) -> Evaluation:
        """Return value and gradient (``order=1``) or these and the Hessian (``order=2``)."""
        ...

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return the Hessian at ``w`` times ``v`` without forming it."""
        ...

    def preconditioner(self, w: Array) -> Preconditioner:
        """Return what is close to the Hessian and easily solved with."""
        ...

    def curb(self, e: Evaluation) -> Curb:
        """Return what is known of the curvature at ``e`` without forming the Hessian."""
        ...


@dataclass(frozen=True)
class SolverResult:
    """Weights, trace, certificate, and the evaluation at the weights (with its Hessian where one was formed).

    ``diverging`` says that the iterates run away as they do on separated classes.
    """

    w: Array
    trace: Trace
    certificate: Certificate
    final: Evaluation
    diverging: bool = False


@dataclass
class Recorder:
    """Collects the trace of a running solver."""

    objective: Any
    columns: tuple[str, ...] = TRACE_COLUMNS
    records: list[tuple[Any, ...]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    last: Array | None = None

    def add(self, e: Evaluation, step_size: float, *more: Any) -> None:
        """Note one iteration, and ``more`` where there are columns for it; a point that is noted already once."""
        if self.last is not None and self.last is e.w:
            return
        self.last = e.w
        seconds = time.perf_counter() - self.began
        self.records.append(
            (
                len(self.records),
                e.value,
                e.log_likelihood,
                float(np.sqrt(e.gradient @ e.gradient)),
                step_size,
                self.objective.passes,
                seconds,
                *more,
            )[: len(self.columns)]
        )

    def trace(self) -> Trace:
        """Return what was noted."""
        return Trace(tuple(self.records), self.columns)


class Solver(Protocol):
    """A configured method: a frozen record with one function."""

    name: str

    def minimise(self, objective: Any, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        """Return the minimiser as far as it was found, with its certificate."""
        ...


SOLVERS: Registry[type[Any]] = Registry("solver")
