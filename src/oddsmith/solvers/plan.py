"""Which way a likelihood is fitted, decided before a row is read: facts about the problem → stages with their cost.

``plan(facts, machine)`` is pure: the same facts, machine and policy give the same plan. All thresholds are in `Policy`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from oddsmith.errors import InvalidInputError
from oddsmith.solvers import policy
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS
from oddsmith.solvers.newton import Newton
from oddsmith.solvers.progressive_batching import BatchSchedule
from oddsmith.solvers.subsampled import SubsampledQuasiNewton, subsample_sizes
from oddsmith.solvers.truncated_newton import TruncatedNewton

Storage = Literal["dense", "dense by columns", "sparse", "lazy"]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a problem before it is solved.

    ``elements`` are the numbers that a pass reads (four for each non-zero of sparse rows). ``drawn_rows`` is the size
    of a sample that was drawn from rows which are not in memory. ``sample_shows_columns`` says that a sample of the
    rows shows every column, rare levels included.
    """

    n_rows: int
    n_columns: int
    n_classes: int = 2
    elements: float | None = None
    storage: Storage = "dense"
    itemsize: int = 8
    in_memory: bool = True
    drawn_rows: int | None = None
    sample_shows_columns: bool = True
    weighted: bool = False
    has_offset: bool = False
    has_prior: bool = True
    intercept: bool = True
    link: str = "logit"
    whitened: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Class contrasts × (1 + columns)."""
        return self.n_classes - 1, self.n_columns + 1

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.shape[0] * self.shape[1]

    @property
    def size(self) -> float:
        """Numbers that a pass reads."""
        return float(self.n_rows) * self.n_columns if self.elements is None else self.elements

    @property
    def is_large(self) -> bool:
        """Whether compiled kernels are used."""
        return self.size >= policy.POLICY.compiled_elements

    @property
    def is_small_table(self) -> bool:
        """Whether a centred and scaled copy is kept in memory."""
        return self.in_memory and self.storage in ("dense", "dense by columns") and not self.is_large


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A few rates of the machine: what a plan's cost is computed from."""

    memory: float = 8e9
    cores: int = 2
    bytes_per_second: float = 12e9
    flops_per_core: float = 2e10
    half_precision: bool = True

    @classmethod
    def here(cls, *, half_precision: bool = False) -> Machine:
        """Return this machine, with the memory that is available now."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(memory=_available_memory(), cores=cores, half_precision=half_precision)


@lru_cache(maxsize=1)
def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # a system that does not say
        return 8e9


def _available_memory() -> float:
    """Return the memory that can be had without swapping, in bytes."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return _physical_memory()


@dataclass(frozen=True)
class Stage:
    """A solver on some rows: how many it reads, how often, and what that costs."""

    solver: str
    rows: int
    iterations: float
    seconds: float
    memory: float

    def __str__(self) -> str:
        return f"{self.solver} on {self.rows:,} rows"


@dataclass(frozen=True)
class Plan:
    """The stages of a fit, the reason for them, and the solver that runs them.

    >>> print(plan(Facts(n_rows=569, n_columns=30), Machine()))
    Newton on 569 rows, since a Hessian of 31 weights costs little; expected: 7 passes, 1 ms, 0.1 MB above the data.
    """

    stages: tuple[Stage, ...]
    reason: str
    passes: float
    solver: Any = field(repr=False, compare=False)

    @property
    def seconds(self) -> float:
        """Expected time."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def memory(self) -> float:
        """Expected peak of memory above the data, in bytes."""
        return max(stage.memory for stage in self.stages)

    def __str__(self) -> str:
        stages = ", then ".join(str(stage) for stage in self.stages)
        memory = f"{max(0.1, self.memory / 1e6):,.1f} MB above the data"
        return f"{stages}, {self.reason}; expected: {self.passes:.0f} passes, {_duration(self.seconds)}, {memory}."

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        stages = [{"solver": s.solver, "rows": s.rows, "iterations": s.iterations} for s in self.stages]
        cost = {"passes": self.passes, "seconds": self.seconds, "memory_bytes": self.memory}
        return {"stages": stages, "reason": self.reason, "expected": cost}


def _duration(seconds: float) -> str:
    if seconds < 1.0:
        return f"{max(1.0, 1e3 * seconds):.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"


def plan(facts: Facts, machine: Machine) -> Plan:
    """Return the stages by which a likelihood is fitted, with their cost.

    A plan that would not fit into the machine's memory is replaced by one that forms no Hessian; if that does not fit
    either, it is refused.
    """
    chosen = _choose(facts, machine)
    if chosen.memory > machine.memory:
        chosen = _truncated_newton(facts, machine, "since a Hessian would not fit into memory")
    if chosen.memory > machine.memory:
        raise InvalidInputError(
            f"A fit of {facts.n_weights:,} weights needs about {chosen.memory / 1e6:,.1f} MB above the data, and "
            f"{machine.memory / 1e6:,.1f} MB of memory are available. Use fewer columns or levels."
        )
    return chosen


def plan_for(solver: Any, facts: Facts, machine: Machine) -> Plan:
    """Return the plan of a solver that was asked for by name: one stage."""
    names = {
        "newton": "Newton",
        "truncated-newton": "truncated Newton",
        "gradient": "gradient descent",
        "sgd": "SGD",
        "lbfgs": "L-BFGS and Newton",
        "subsampled": "subsampled quasi-Newton",
    }
    name = names.get(solver.name, str(solver.name))
    forms_hessian = solver.name != "sgd" and facts.n_weights <= policy.POLICY.largest_hessian
    iterations = {"Newton": 8.0, "truncated Newton": 60.0, "SGD": 30.0}.get(name, 40.0)
    stage = _stage(facts, machine, name, facts.n_rows, iterations, hessians=8.0 if forms_hessian else 0.0)
    return Plan((stage,), "as asked for", iterations, solver)


def _choose(facts: Facts, machine: Machine) -> Plan:
    settings, weights, flat = policy.POLICY, facts.n_weights, not facts.has_prior
    if weights > settings.largest_hessian:
        return _truncated_newton(facts, machine, f"since a Hessian of {weights:,} weights is not formed")
    if is_wide_and_sparse(facts):
        return _truncated_newton(facts, machine, "since products with sparse rows cost less than a Hessian")
    tall = _is_tall(facts)
    if facts.drawn_rows is not None:
        # A pass over files is dear: begin on the sample that the first one drew, and spend one more on all digits.
        return _subsampled(facts, machine, polish=True, representative=tall and _drawn_is_representative(facts))
    # A sample pays when it shows every column and is a small part of the rows, yet many for each weight.
    if tall and (facts.sample_shows_columns or not flat):
        return _subsampled(facts, machine, polish=flat, representative=facts.sample_shows_columns)
    if _can_subsample(facts) and facts.n_rows >= max(settings.small_rows, settings.small_rows_per_weight * weights):
        shown = facts.is_small_table and facts.sample_shows_columns
        return _subsampled(facts, machine, polish=True, representative=shown)
    if _hessian_dominates(facts):
        stage = _stage(facts, machine, "L-BFGS", facts.n_rows, 30, hessians=2)
        newton = _stage(facts, machine, "Newton", facts.n_rows, 2, hessians=2)
        reason = f"since a Hessian of {weights:,} weights costs as much as many gradients"
        return Plan((stage, newton), reason, 32, DiagonalLBFGS(watch_divergence=flat))
    stage = _stage(facts, machine, "Newton", facts.n_rows, 7, hessians=7)
    return Plan((stage,), f"since a Hessian of {weights:,} weights costs little", 7, Newton(watch_divergence=flat))


def _drawn_is_representative(facts: Facts) -> bool:
    """Whether a sample that was drawn from files shows every column, with rows enough for each weight."""
    rows = policy.POLICY.drawn_rows_per_weight * facts.n_weights
    return facts.sample_shows_columns and facts.drawn_rows is not None and facts.drawn_rows >= rows


def _can_subsample(facts: Facts) -> bool:
    """Whether a subsample can be had and says something of all rows."""
    there = facts.in_memory or facts.drawn_rows is not None
    return there and not facts.has_offset and facts.link == "logit"


def _is_tall(facts: Facts) -> bool:
    """Whether rows are so many that all of them are read near the optimum only.

    A Hessian of all rows is dear where weights are many; but few rows for each must show every column.
    """
    settings = policy.POLICY
    narrow = not facts.has_prior or facts.n_weights <= settings.many_weights or not facts.sample_shows_columns
    rows = (settings.rows_per_weight if narrow else settings.rows_per_weight_wide) * facts.n_weights
    return _can_subsample(facts) and facts.is_large and facts.n_rows >= rows


def is_wide_and_sparse(facts: Facts) -> bool:
    """Whether rows are sparse and weights so many that products with the Hessian are cheaper by far than to form it."""
    plain = facts.has_prior and facts.link == "logit" and facts.in_memory and facts.storage == "sparse"
    return plain and facts.n_columns > policy.POLICY.sparse_columns


def _hessian_dominates(facts: Facts) -> bool:
    """Whether a pass with the Hessian takes as long as several for the gradient, and those lead to an optimum."""
    settings, weights = policy.POLICY, facts.n_weights
    if not facts.in_memory or facts.link != "logit" or weights <= settings.gradient_weights:
        return False
    exists = facts.has_prior or facts.n_rows >= settings.gradient_rows_per_weight * weights
    return exists and facts.n_rows * float(weights) ** 2 > settings.gradient_products


def _truncated_newton(facts: Facts, machine: Machine, reason: str) -> Plan:
    flat = not facts.has_prior
    stage = _stage(facts, machine, "truncated Newton", facts.n_rows, 60, hessians=0)
    return Plan((stage,), reason, 60, TruncatedNewton(strict=flat, watch_divergence=flat))


def _subsampled(facts: Facts, machine: Machine, *, polish: bool, representative: bool) -> Plan:
    settings = policy.POLICY
    solver = SubsampledQuasiNewton(
        polish=polish,
        representative=representative,
        one_hessian=facts.storage != "sparse" and facts.n_weights > settings.hessian_weights,
        batches=_has_batches(facts),
        low_precision=representative and not polish and _has_low_precision(facts, machine),
        lazy=facts.storage == "lazy",
        drawn=facts.drawn_rows,
    )
    if not representative:
        return _from_start_alone(facts, machine, solver)
    n, weights = facts.n_rows, facts.n_weights
    small, large = (min(rows, n) for rows in subsample_sizes(n, facts.shape, lazy=solver.lazy))
    large = facts.drawn_rows or large
    if solver.low_precision:
        start = _stage(facts, machine, "L-BFGS", small, 12, hessians=0)
        low = _stage(facts, machine, "mixed-precision refinement", n, 6, hessians=0)
        low = replace(low, memory=low.memory + 2.0 * facts.size)
        reason = f"since a copy in half precision is read faster and {weights:,} weights need many gradients"
        return Plan((start, low), reason, 3, solver)
    stages, passes = _subsample_stages(facts, machine, solver, small, large)
    stages.append(_stage(facts, machine, "L-BFGS", n, 3, hessians=0))
    if polish:
        stages.append(_stage(facts, machine, "Newton", n, 1, hessians=1))
    rows_each = f"{n // max(1, weights):,} rows for each of {weights:,} weights"
    reason = f"since with {rows_each} a subsample comes near the optimum"
    return Plan(tuple(stages), reason, passes, solver)


def _subsample_stages(
    facts: Facts, machine: Machine, solver: SubsampledQuasiNewton, small: int, large: int
) -> tuple[list[Stage], float]:
    """Return the stages before all rows are read, and the passes over all rows that are expected."""
    start, n, passes = policy.POLICY.batch_start * small, facts.n_rows, 3.0 + solver.polish
    if solver.batches and large > 2 * start:
        whole = None if solver.polish else BatchSchedule.whole_pass(n, facts.n_weights, large / n)
        rows, passes = (large, passes) if whole is None else (n, 2.0)
        batches = _stage(facts, machine, "progressive batches", rows, 1, hessians=1 if whole is None else 0.15)
        return [_stage(facts, machine, "Newton", start, 6, hessians=6), batches], passes
    if large > 2 * small:
        return [_first_stage(facts, machine, small), _stage(facts, machine, "L-BFGS", large, 5, hessians=1)], passes
    return [_first_stage(facts, machine, large)], passes


def _first_stage(facts: Facts, machine: Machine, rows: int) -> Stage:
    """Return the stage on the first subsample: with a prior and many weights one Hessian must do."""
    if facts.has_prior and facts.n_weights > policy.POLICY.many_weights:
        return _stage(facts, machine, "L-BFGS", rows, 10, hessians=1)
    return _stage(facts, machine, "Newton", rows, 6, hessians=6)


def _from_start_alone(facts: Facts, machine: Machine, solver: SubsampledQuasiNewton) -> Plan:
    rows = min(facts.n_rows, facts.drawn_rows or max(4 * facts.n_weights, facts.n_rows // 16))
    start = _first_stage(facts, machine, rows)
    reason = "since a subsample may not show every column and is the start only"
    if solver.one_hessian and not solver.polish:
        stage = _stage(facts, machine, "L-BFGS", facts.n_rows, 8, hessians=1)
        return Plan((start, stage), reason, 9, solver)
    stage = _stage(facts, machine, "Newton", facts.n_rows, 4, hessians=4)
    return Plan((start, stage), reason, 4, solver)


def _has_batches(facts: Facts) -> bool:
    """Whether batches from across the rows can be read in place."""
    rows = facts.in_memory and facts.storage == "dense" and not facts.weighted and facts.is_large
    return rows and facts.n_classes == 2 and not facts.whitened and facts.n_weights <= policy.POLICY.many_weights


def _has_low_precision(facts: Facts, machine: Machine) -> bool:
    """Whether a copy in half precision can be made, and pays."""
    settings = policy.POLICY
    rows = facts.in_memory and facts.storage == "dense" and facts.itemsize == 8 and facts.is_large
    # Without an intercept columns are not centred: half precision may see their mean alone.
    plain = not facts.weighted and facts.intercept and not facts.whitened
    wide = facts.n_columns >= settings.half_columns[min(facts.n_classes - 1, 2) - 1]
    fits = 2.0 * facts.size <= min(settings.half_bytes, machine.memory)
    return rows and plain and wide and fits and facts.n_weights > settings.many_weights and machine.half_precision


def _stage(facts: Facts, machine: Machine, solver: str, rows: int, iterations: float, *, hessians: float) -> Stage:
    """Return a stage with its cost: reading, products for the Hessians, and the memory of what is formed."""
    share = rows / max(1, facts.n_rows)
    reading = 8.0 * facts.size * share * iterations / machine.bytes_per_second
    products = facts.n_rows * share * float(facts.n_weights) ** 2 * hessians
    seconds = reading + products / (machine.flops_per_core * machine.cores) + 1e-4 * iterations
    copy = 8.0 * facts.size if facts.is_small_table else 8.0 * facts.size * share * (rows < facts.n_rows)
    formed = 8.0 * 4.0 * float(facts.n_weights) ** 2 if hessians else 8.0 * 12.0 * facts.n_weights
    return Stage(solver, rows, iterations, seconds, copy + formed)
