"""The choice of algorithm for a likelihood, before a row is read: facts about the problem → stages with their cost.

``plan(facts, machine, policy)`` is pure. All thresholds are in `Policy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oddsmith.errors import InvalidInputError
from oddsmith.solvers import policy as in_force
from oddsmith.solvers.base import Solver
from oddsmith.solvers.batch_schedule import BatchSchedule
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.newton import Newton
from oddsmith.solvers.policy import Policy
from oddsmith.solvers.subsampled import SubsampledQuasiNewton, start_alone_rows, start_sizes, subsample_sizes
from oddsmith.solvers.truncated_newton import RowSpaceNewton, TruncatedNewton


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A solver on some rows: how many it reads, how often, and at what cost."""

    solver: str
    rows: int
    iterations: float
    seconds: float
    memory: float

    def __str__(self) -> str:
        about = "about " if self.solver == "progressive batches" else ""
        return f"{self.solver} on {about}{self.rows:,} rows"


@dataclass(frozen=True)
class Plan:
    """The stages of a fit, the reason for them, and the solver that runs them.

    >>> print(plan(Facts(n_rows=569, n_columns=30), Machine()))
    Newton on 569 rows, since a Hessian of 31 weights costs little; expected: 7 passes, 2 ms, 0.1 MB above the data.
    """

    stages: tuple[Stage, ...]
    reason: str
    passes: float
    solver: Solver[Any] = field(repr=False, compare=False)

    @property
    def seconds(self) -> float:
        """Expected time, within a factor of two."""
        return Machine.fit_seconds + sum(stage.seconds for stage in self.stages)

    @property
    def memory(self) -> float:
        """Expected peak memory besides the data, in bytes."""
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
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"


def plan(facts: Facts, machine: Machine, policy: Policy | None = None) -> Plan:
    """Return the stages for fitting a likelihood, with their cost.

    A plan that exceeds the machine's memory is replaced by one that forms no Hessian; if that does not fit either, it
    is refused. ``policy=None`` is the current policy.
    """
    planner = Planner(facts, machine, policy or in_force.POLICY)
    chosen = planner.choose()
    if chosen.memory > machine.memory:
        chosen = planner.truncated_newton("since a Hessian would not fit into memory")
    if chosen.memory > machine.memory:
        raise InvalidInputError(
            f"A fit of {facts.n_weights:,} weights needs about {chosen.memory / 1e6:,.1f} MB besides the data, but "
            f"only {machine.memory / 1e6:,.1f} MB of memory are available. Use fewer columns or levels."
        )
    return chosen


NAMES = {
    "newton": ("Newton", 7.0),
    "truncated-newton": ("truncated Newton", 40.0),
    "row-space": ("Newton in the row space", 4.0),
    "gradient": ("gradient descent", 20.0),
    "sgd": ("SGD", 30.0),
    "lbfgs": ("L-BFGS and Newton", 20.0),
    "subsampled": ("subsampled quasi-Newton", 10.0),
    "firth": ("Fisher scoring", 20.0),
    "proximal-newton": ("proximal Newton", 8.0),
}
"""Registered name of a solver → name of its stage, and expected number of iterations."""
FORM_HESSIANS = frozenset({"newton", "lbfgs", "subsampled", "firth"})
"""Solvers that form the Hessian of all weights, whatever their number."""


def plan_for(solver: Solver[Any], facts: Facts, machine: Machine, reason: str = "as asked for") -> Plan:
    """Return the plan of one solver on all rows; refuse it if the Hessian exceeds the machine's memory."""
    planner = Planner(facts, machine, in_force.POLICY)
    if facts.eliminated and solver.name == "newton":
        table = planner.table()
        return Plan(table.stages[-1:], reason, table.passes, solver)
    name, iterations = NAMES.get(solver.name, (str(solver.name), 20.0))
    many = facts.n_weights > planner.policy.largest_hessian
    forms_hessian = solver.name in FORM_HESSIANS if many else solver.name != "sgd"
    stage = planner.stage(name, facts.n_rows, iterations, hessians=8.0 if forms_hessian else 0.0)
    needed = stage.memory + (8.0 * machine.cores * facts.n_weights**2 if forms_hessian else 0.0)  # a sum per thread
    if many and needed > machine.memory:
        raise InvalidInputError(
            f"solver={solver.name!r} forms a Hessian of {facts.n_weights:,} weights, which needs about "
            f"{needed / 1e6:,.0f} MB, but only {machine.memory / 1e6:,.0f} MB of memory are available. Use "
            "solver='auto' or solver='truncated-newton', which form none, or fewer columns or levels."
        )
    return Plan((stage,), reason, iterations, solver)


def plan_sparse(facts: Facts, machine: Machine, sample: int | None) -> Plan:
    """Return the plan of a fit with a LaplacePrior: on a ``sample`` of the rows, if there is one, then on all."""
    planner = Planner(facts, machine, in_force.POLICY)
    rows, weights, name = facts.n_rows, facts.n_weights, NAMES["proximal-newton"][0]
    solver = Newton(name="proximal-newton")  # only the name is used: the fit has its own algorithm
    if weights > planner.policy.sparse_hessian:
        stage = planner.stage(f"{name} on working sets of columns", rows, 30)
        return Plan((stage,), f"since most of {weights:,} weights will be zero", 30, solver)
    if sample is None:
        stage = planner.stage(name, rows, 8, hessians=8)
        return Plan((stage,), f"since a Hessian of {weights:,} weights costs little", 8, solver)
    stages = planner.stage(name, sample, 8, hessians=8), planner.stage(name, rows, 6)
    return Plan(stages, "since the sample's Hessian is near that of all rows", 6, solver)


def rough_hessian_passes(n: int, C: int, P: int, policy: Policy) -> float:
    """Return what a Hessian in single precision costs, with its factors, in passes for the gradient."""
    return (P / (2.0 * C) + P**2 / (6.0 * max(1, n))) / policy.kernel_hessian_rate


@dataclass(frozen=True)
class Planner:
    """Chooses the plan for some facts: each condition is a property, each plan a method."""

    facts: Facts
    machine: Machine
    policy: Policy

    def choose(self) -> Plan:
        """Return the plan that suits the facts, whatever memory it takes."""
        facts, weights, flat = self.facts, self.facts.n_weights, not self.facts.has_prior
        if facts.storage == "device":
            return self.on_device()
        if facts.eliminated or self.narrow_table:
            return self.table()
        if self.gradients_first:
            return self.gradients()
        if self.few_rows:
            return self.row_space()
        if weights > self.policy.largest_hessian:
            return self.truncated_newton(f"since a Hessian of {weights:,} weights is not formed")
        if self.wide_and_sparse:
            return self.truncated_newton("since products with sparse rows cost less than a Hessian")
        if facts.drawn_rows is not None:
            # A pass over files is costly: begin on the sample that the first one drew, spend one more on all digits.
            return self.subsampled(polish=True, representative=self.tall and self.drawn_is_representative)
        # A sample pays when it shows every column and is a small part of the rows, yet many for each weight.
        if self.tall and (facts.sample_shows_columns or not flat):
            return self.subsampled(polish=flat, representative=facts.sample_shows_columns)
        if self.tall_enough:
            return self.subsampled(polish=True, representative=self.small_table and facts.sample_shows_columns)
        if self.hessian_dominates:
            n, reason = facts.n_rows, f"since a Hessian of {weights:,} weights costs as much as many gradients"
            if self.gradients_alone:
                kept = self.products < self.policy.deferred_products
                solver = DiagonalLBFGS(watch_divergence=flat, final_hessian=False, keeps_hessian=kept)
                return Plan((self.stage("L-BFGS", n, 25, hessians=float(kept)),), reason, 25 + kept, solver)
            stages = self.stage("L-BFGS", n, 18, hessians=2), self.stage("Newton", n, 2, hessians=2)
            return Plan(stages, reason, 20, DiagonalLBFGS(watch_divergence=flat))
        stage = self.stage("Newton", facts.n_rows, 7, hessians=7)
        return Plan((stage,), f"since a Hessian of {weights:,} weights costs little", 7, Newton(watch_divergence=flat))

    def on_device(self) -> Plan:
        """Return the plan for rows on a device: the device solver if it applies, else Newton's method by folds."""
        from oddsmith.solvers.device import DeviceQuasiNewton, DeviceSoftmax, device_sizes

        facts, flat, n = self.facts, not self.facts.has_prior, self.facts.n_rows
        weights, small = facts.n_weights, self.policy.device_least_rows
        if facts.link != "logit":
            return plan_for(Newton(watch_divergence=flat), facts, self.machine, "since the link is not the logit")
        if facts.n_classes > 2 and not flat:
            stages = (self.stage("L-BFGS", n // 16, 20), self.stage("mixed-precision refinement", n, 40))
            return Plan(stages, "since the rows lie on a device", 45, DeviceSoftmax())
        if facts.n_classes == 2 and n >= max(small, 4 * weights) and weights <= self.policy.largest_hessian:
            first, *others = device_sizes(n, facts.shape[1], self.policy)
            newton = [self.stage("Newton", first, 6, hessians=6)]
            newton += [self.stage("Newton", rows, 1, hessians=1) for rows in others]
            room = 5e8 + 32.0 * float(weights) ** 2  # the rows of a subsample stay where they are, but for a chunk
            newton = [replace(stage, memory=min(stage.memory, room)) for stage in newton]
            reason = f"since the rows lie on a device, with {n // weights:,} of them for each of {weights:,} weights"
            return Plan((*newton, self.stage("L-BFGS", n, 4)), reason, 4, DeviceQuasiNewton(polish=flat))
        if weights > self.policy.largest_hessian:
            return self.truncated_newton(f"since a Hessian of {weights:,} weights is not formed")
        return plan_for(Newton(watch_divergence=flat), facts, self.machine, "since rows are few")

    @property
    def large(self) -> bool:
        """Whether the table is so large that the number of passes should be minimal."""
        return self.facts.size >= self.policy.large_elements

    @property
    def small_table(self) -> bool:
        """Whether the rows are an array in memory, and not large."""
        return self.facts.in_memory and self.facts.storage in ("dense", "dense by columns") and not self.large

    @property
    def drawn_is_representative(self) -> bool:
        """Whether a sample drawn from files shows every column, with enough rows for each weight."""
        rows = self.policy.drawn_rows_per_weight * self.facts.n_weights
        return self.facts.sample_shows_columns and (self.facts.drawn_rows or 0) >= rows

    @property
    def can_subsample(self) -> bool:
        """Whether a subsample is possible and representative of all rows."""
        there = self.facts.in_memory or self.facts.drawn_rows is not None
        return there and not self.facts.has_offset and self.facts.link == "logit"

    @property
    def tall(self) -> bool:
        """Whether there are so many rows that all of them are read only near the optimum.

        A Hessian of all rows is costly with many weights; but a few rows per weight must show every column.
        """
        facts, settings = self.facts, self.policy
        narrow = not facts.has_prior or facts.n_weights <= settings.many_weights or not facts.sample_shows_columns
        rows = (settings.rows_per_weight if narrow else settings.rows_per_weight_wide) * facts.n_weights
        return self.can_subsample and self.large and facts.n_rows >= rows

    @property
    def tall_enough(self) -> bool:
        """Whether a table that is not large has so many rows that a subsample saves passes over all of them."""
        settings, facts = self.policy, self.facts
        rows = max(settings.small_rows[facts.n_classes > 2], settings.small_rows_per_weight * facts.n_weights)
        return self.can_subsample and facts.n_rows >= rows

    @property
    def wide_and_sparse(self) -> bool:
        """Whether rows are sparse with so many weights that Hessian products cost far less than forming the Hessian."""
        facts = self.facts
        plain = facts.has_prior and facts.link == "logit" and facts.in_memory and facts.storage in ("sparse", "table")
        return plain and facts.n_columns > self.policy.sparse_columns

    @property
    def few_rows(self) -> bool:
        """Whether there are so few rows that the optimum is found over combinations of them."""
        facts, settings = self.facts, self.policy
        plain = facts.in_memory and facts.storage in ("dense", "dense by columns") and not facts.whitened
        few = facts.n_rows * facts.shape[0] <= settings.row_space_weights
        wide = facts.n_columns >= settings.row_space_columns * facts.n_rows
        return facts.has_prior and plain and few and wide and self.products > settings.gradient_products

    def row_space(self) -> Plan:
        """Return the plan that finds the optimum over combinations of the rows."""
        facts, n, inside = self.facts, self.facts.n_rows, float(self.facts.n_rows * self.facts.shape[0])
        products = float(n) ** 2 * facts.n_columns + 7.0 * (n * inside**2 + inside**3 / 3.0)
        stage = self.stage("Newton in the row space", n, 3.0)
        seconds = stage.seconds + products / self.machine.flops_per_core
        stage = replace(stage, seconds=seconds, memory=stage.memory + 32.0 * inside**2)
        reason = f"since the optimum is a combination of the rows, fewer than the {facts.n_columns:,} columns"
        return Plan((stage,), reason, 4, RowSpaceNewton())

    @property
    def gradients_first(self) -> bool:
        """Whether a kernel runs L-BFGS on the rows, which ends most fits with a prior before a Hessian pays."""
        facts, settings = self.facts, self.policy
        dense = facts.in_memory and facts.storage in ("dense", "dense by columns") and not facts.whitened
        wide = facts.n_classes == 2 and facts.n_weights > settings.many_weights
        wide = wide and facts.size <= settings.kernel_gradient_elements
        sampled = self.tall_enough or (self.tall and not wide)
        plain = dense and facts.has_prior and facts.link == "logit" and not sampled
        many = facts.n_weights > settings.kernel_gradient_weights and self.products > settings.kernel_gradient_products
        return plain and many and facts.size * facts.shape[0] <= settings.fused_elements

    def gradients(self) -> Plan:
        """Return the plan of L-BFGS in a kernel, with the solver that takes over where it stalls.

        Iterations grow with the columns for each row, up to one, and with the classes.
        """
        facts, settings, n, (C, P) = self.facts, self.policy, self.facts.n_rows, self.facts.shape
        weights, kept = facts.n_weights, self.products < settings.deferred_products
        then: Solver[Any] | None = None
        if self.few_rows:
            then, reason = RowSpaceNewton(), "in the row space"
        elif weights > settings.largest_hessian:
            then, reason = TruncatedNewton(strict=False, watch_divergence=False), "without a Hessian"
        else:
            then = Newton(watch_divergence=False) if self.products <= settings.stalled_newton_products else None
            reason = "with Hessians"
        solver = DiagonalLBFGS(watch_divergence=False, final_hessian=False, keeps_hessian=kept, then=then)
        many, rough = min(1.0, P / max(1, n)) ** 0.7, C == 1 and P <= settings.row_space_columns * n
        iterations = round(8.0 + 20.0 * many) if rough else min(100.0, round((10.0 + 75.0 * many) * (0.75 + 0.25 * C)))
        stage = self.stage("L-BFGS", n, iterations, hessians=float(kept))
        cores = self.machine.cores if facts.size * C > settings.fused_slice_elements else 1
        passes = iterations + rough * (1.0 + 2.0 * many) * rough_hessian_passes(n, C, P, settings)
        seconds = passes * (4.0 * facts.size * C / (self.machine.flops_per_core * cores) + 5e-6)
        hessian = self.stage("L-BFGS", n, 0.0, hessians=float(kept)).seconds
        reason = f"since gradients of {weights:,} weights cost little; if they stall, Newton {reason} follows"
        memory = stage.memory + (8.0 if kept else 4.0) * rough * facts.size + 12.0 * rough * P**2  # copies of the rows
        return Plan((replace(stage, seconds=seconds + hessian, memory=memory),), reason, iterations + kept, solver)

    @property
    def hessian_dominates(self) -> bool:
        """Whether a pass with the Hessian takes as long as several gradient passes, which also reach an optimum."""
        facts, settings, weights = self.facts, self.policy, self.facts.n_weights
        if not facts.in_memory or facts.link != "logit" or weights <= settings.gradient_weights:
            return False
        exists = facts.has_prior or facts.n_rows >= settings.gradient_rows_per_weight * weights
        return exists and self.products > settings.gradient_products

    @property
    def products(self) -> float:
        """Products for a Hessian of all rows."""
        return self.facts.n_rows * float(self.facts.n_weights) ** 2

    @property
    def gradients_alone(self) -> bool:
        """Whether the optimum is found without a Hessian; the prior certifies it."""
        facts = self.facts
        return facts.has_prior and not facts.whitened and self.products >= self.policy.gradients_alone_products

    @property
    def has_batches(self) -> bool:
        """Whether batches from across the rows can be read in place."""
        facts = self.facts
        rows = facts.in_memory and facts.storage == "dense" and not facts.weighted and self.large
        return rows and facts.n_classes == 2 and not facts.whitened and facts.n_weights <= self.policy.many_weights

    @property
    def has_low_precision(self) -> bool:
        """Whether a copy in half precision is possible and worthwhile."""
        facts, settings = self.facts, self.policy
        rows = facts.in_memory and facts.storage == "dense" and facts.itemsize == 8 and self.large
        # Without an intercept columns are not centred: half precision may see their mean alone.
        plain = not facts.weighted and facts.intercept and not facts.whitened and self.machine.half_precision
        wide = facts.n_columns >= settings.half_columns[facts.n_classes > 2] and facts.n_weights > settings.many_weights
        return rows and plain and wide and 2.0 * facts.size <= min(settings.half_bytes, self.machine.memory)

    def table(self) -> Plan:
        """Return the plan for a table with factors: the levels of the largest one are eliminated from the Hessian."""
        facts, levels, settings = self.facts, float(self.facts.eliminated), self.policy
        rest, n, flat = facts.n_weights - levels, facts.n_rows, not facts.has_prior
        reason = f"since a Hessian of {facts.n_weights:,} weights by codes costs little"
        if facts.eliminated:
            reason = f"since the {facts.eliminated:,} levels of the largest factor are eliminated from the Hessian"
        few = facts.size <= settings.one_thread_elements or facts.link != "logit" or not facts.in_memory
        sample = 0 if few or flat or facts.has_offset else int(n * settings.table_sample)
        hessians, passes = (7.0, 7.0) if few else (5.0, 11.0) if flat else (2.0, 4.0)
        stage = self.stage("Newton", n, passes)
        cores = 1 if few else self.machine.cores
        scattered = n * (facts.size / n) ** 2 / (self.machine.scattered_per_core * cores)
        each = scattered + (levels * rest**2 + rest**3) / self.machine.flops_per_core
        memory = stage.memory + 8.0 * 4.0 * (levels * rest + rest**2)
        stage = replace(stage, seconds=stage.seconds + hessians * each, memory=memory)
        if few:
            return Plan((stage,), reason, passes, Newton(watch_divergence=flat))
        from oddsmith.solvers.table_newton import TableNewton

        solver = TableNewton(sample_rows=sample, strict=flat, watch_divergence=flat)
        start = (self.stage("Newton", sample, 5),) if sample else ()
        return Plan((*start, stage), reason, passes, solver)

    @property
    def narrow_table(self) -> bool:
        """Whether the rows are a table of two classes with factors whose full Hessian is formed."""
        facts = self.facts
        whole = facts.in_memory or facts.drawn_rows is None  # a pass over files is costly: begin on the sample
        narrow = facts.n_classes == 2 and facts.n_columns < self.policy.sparse_columns
        return facts.storage == "table" and narrow and whole

    def truncated_newton(self, reason: str) -> Plan:
        """Return the plan that forms no Hessian."""
        flat = not self.facts.has_prior
        stage = self.stage("truncated Newton", self.facts.n_rows, 40)
        return Plan((stage,), reason, 40, TruncatedNewton(strict=flat, watch_divergence=flat))

    def subsampled(self, *, polish: bool, representative: bool) -> Plan:
        """Return the plan that begins on a subsample."""
        facts, n, weights = self.facts, self.facts.n_rows, self.facts.n_weights
        solver = SubsampledQuasiNewton(
            polish=polish,
            representative=representative,
            one_hessian=facts.storage != "sparse" and weights > self.policy.hessian_weights,
            batches=self.has_batches,
            low_precision=representative and not polish and self.has_low_precision,
            lazy=facts.storage == "lazy",
            drawn=facts.drawn_rows,
        )
        if not representative:
            return self._from_start_alone(solver)
        small, large = (min(rows, n) for rows in subsample_sizes(n, facts.shape, self.policy, lazy=solver.lazy))
        if solver.low_precision:
            starts = [self.stage("L-BFGS", rows, 12) for rows in start_sizes(n, facts.shape, self.policy)]
            low = self.stage("mixed-precision refinement", n, 6 if facts.n_classes == 2 else 12)
            low = replace(low, memory=low.memory + 2.0 * facts.size)
            reason = f"since a copy in half precision is read faster and {weights:,} weights need many gradients"
            return Plan((*starts, low), reason, 2, solver)
        stages, passes = self._subsample_stages(solver, small, facts.drawn_rows or large)
        stages.append(self.stage("L-BFGS", n, 3))
        if polish:
            stages.append(self.stage("Newton", n, 1, hessians=1))
        rows_each = f"{n // max(1, weights):,} rows for each of {weights:,} weights"
        return Plan(tuple(stages), f"since with {rows_each} a subsample comes near the optimum", passes, solver)

    def _subsample_stages(self, solver: SubsampledQuasiNewton, small: int, large: int) -> tuple[list[Stage], float]:
        """Return the stages before all rows are read, and the expected passes over all rows."""
        start, n = self.policy.batch_start * small, self.facts.n_rows
        passes = (5.0 if self.small_table else 3.0) + solver.polish
        if solver.batches and large > 2 * start:
            whole = None if solver.polish else BatchSchedule.whole_pass(n, self.facts.n_weights, large / n, self.policy)
            more = large + int(self.policy.batch_excess * large)
            rows, passes = (min(n, more), passes) if whole is None else (n, 2.0)
            batches = self.stage("progressive batches", rows, 1, hessians=1 if whole is None else 0.15)
            return [self.stage("Newton", start, 6, hessians=6), batches], passes
        if large > 2 * small:
            return [self._first_stage(small), self.stage("L-BFGS", large, 5, hessians=1)], passes
        return [self._first_stage(large)], passes

    def _first_stage(self, rows: int) -> Stage:
        """Return the stage on the first subsample; with a prior and many weights, it uses a single Hessian."""
        if self.facts.has_prior and self.facts.n_weights > self.policy.many_weights:
            return self.stage("L-BFGS", rows, 10, hessians=1)
        return self.stage("Newton", rows, 6, hessians=6)

    def _from_start_alone(self, solver: SubsampledQuasiNewton) -> Plan:
        n = self.facts.n_rows
        rows = self.facts.drawn_rows or start_alone_rows(n, self.facts.n_weights, self.policy)
        start = self._first_stage(min(n, rows))
        reason = "since a subsample may not show every column and is the start only"
        if solver.one_hessian and not solver.polish:
            return Plan((start, self.stage("L-BFGS", n, 8, hessians=1)), reason, 9, solver)
        return Plan((start, self.stage("Newton", n, 4, hessians=4)), reason, 4, solver)

    def stage(self, solver: str, rows: int, iterations: float, *, hessians: float = 0.0) -> Stage:
        """Return a stage with its cost: reading, products for the Hessians, and memory."""
        facts, machine, weights = self.facts, self.machine, float(self.facts.n_weights)
        share, classes = rows / max(1, facts.n_rows), facts.n_classes - 1
        cores = 1 if facts.size * classes <= self.policy.one_thread_elements else machine.cores
        fused = facts.link == "logit" and not (facts.storage == "table" and classes > 1)
        activations = rows * classes * (1.0 if fused else machine.link_slowdown)
        reading = 8.0 * facts.size * share / machine.bytes_per_second
        one_pass = reading + activations / (machine.activations_per_core * cores) + machine.pass_seconds
        products = rows * weights**2 * hessians
        seconds = one_pass * iterations + products / (machine.flops_per_core * cores)
        copy = 8.0 * facts.size * share * (rows < facts.n_rows)
        memory = copy + (8.0 * 4.0 * weights**2 if hessians else 8.0 * 12.0 * weights)
        return Stage(solver=solver, rows=rows, iterations=iterations, seconds=seconds, memory=memory)
