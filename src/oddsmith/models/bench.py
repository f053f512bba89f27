"""An objective whose prior can be exchanged: what every way of finding a width works on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.basis.base import seen_through
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.widths import Local
from oddsmith.kernels.rowwise import At
from oddsmith.models.coordinates import Coordinates, is_large
from oddsmith.models.likelihood import Problem, _choose, _start, make_objective
from oddsmith.models.objective import FoldObjective
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior, Quadratic
from oddsmith.solvers import Newton
from oddsmith.solvers.base import Evaluation

SAMPLE_ROWS = 10_000
"""Rows that are enough for sums of second order."""
NEAR = 0.05
"""Standard errors per weight within which the quadratic model of a likelihood is as good as the likelihood."""


@dataclass(frozen=True)
class Bench:
    """An objective in its coordinates whose prior can be exchanged: ``Q = alpha_group · q``."""

    problem: Problem
    prior: GaussianPrior
    objective: FoldObjective
    coordinates: Coordinates
    unit: Quadratic
    group: npt.NDArray[np.intp]
    names: tuple[tuple[str, ...], ...] | None

    @classmethod
    def of(cls, problem: Problem, prior: GaussianPrior) -> Bench:
        """Return it with the prior of width 1."""
        if problem.mix is not None:  # what is said of single rows needs them as the weights see them
            mixed = seen_through(problem.source, partial(_times, problem.mix), problem.M)
            problem = replace(problem, source=mixed, mix=None)
        unit = GaussianPrior(scale=1.0, mean=prior.mean, space=prior.space)
        objective, coordinates, _ = make_objective(replace(problem, prior=unit))
        assert objective.penalty is not None
        group, names = column_groups(prior, problem.names())
        return cls(problem, prior, objective, coordinates, objective.penalty, np.append(0, group), names)

    def at(self, log_alpha: Array) -> FoldObjective:
        """Return the objective with a prior of these precisions."""
        return self.with_prior(self.objective, log_alpha)

    def with_prior(self, objective: FoldObjective, log_alpha: Array) -> FoldObjective:
        """Return an objective of other rows with a prior of these precisions."""
        alpha = np.where(self.unit.Q > 0, np.exp(log_alpha)[self.group], 0.0)
        return replace(objective, penalty=Quadratic(self.unit.mean, self.unit.Q * alpha), _last=None)

    def typical(self) -> float:
        """Return the width at which a weight moves the activation by about one."""
        return float(np.exp(-np.log(self.coordinates.scale).mean()))

    def typical_precisions(self) -> Array:
        """Return the log precision of each group at which its weights move the activation by about one."""
        group, log_scale = self.group[1:], np.log(self.coordinates.scale)
        result: Array = 2.0 * np.bincount(group, log_scale) / np.bincount(group)
        return result

    def first_fit(self, log_alpha: Array) -> Evaluation:
        """Return the objective at its optimum, by the solver of the problem, to a few digits."""
        objective = self.at(log_alpha)
        solver = _choose(replace(self.problem, prior=GaussianPrior(scale=1.0)), self.coordinates)
        result = solver.minimise(objective, _start(self.problem, objective), tol=1e-4, max_iter=self.problem.max_iter)
        return objective.evaluate(result.w, order=2)

    def local(self, e: Evaluation, log_alpha: Array) -> Local:
        """Return the quadratic model of the likelihood at an evaluation of the objective with these precisions."""
        assert e.hessian is not None
        kept = np.flatnonzero(self.objective.free.ravel())
        C = self.objective.shape[0]
        q, mean, group = np.tile(self.unit.Q, C)[kept], self.unit.mean.ravel()[kept], np.tile(self.group, C)[kept]
        Q = np.where(q > 0, np.exp(log_alpha)[group] * q, 0.0)
        H = e.hessian[np.ix_(kept, kept)] - np.diag(Q)
        x = e.w[kept]
        return Local(x, mean, e.log_likelihood, e.gradient[kept] - Q * (x - mean), H, q, group, np.zeros(len(x)))

    def sample(self) -> tuple[Any, float]:
        """Return the rows, or some of them if they are many, and their share."""
        source = self.objective.source
        if not is_large(source) or source.n_rows <= 2 * SAMPLE_ROWS:
            return source, 1.0
        part = source.sample(SAMPLE_ROWS, seed=3)
        weight = float(part.n_rows if part.s is None else part.s.sum())
        return part, weight / self.objective.weight

    def is_near(self, local: Local, log_width: float) -> bool:
        """Whether the weights at another width are so near that the quadratic model is exact there."""
        return local.distance(np.array([-2.0 * log_width])) < NEAR

    def moved(self, local: Local, log_width: float) -> tuple[Local, Array]:
        """Return the quadratic model at another width: one pass if this model knows where that is, else a few."""
        at = np.array([-2.0 * log_width])
        newton, start = Newton(watch_divergence=False, strict=False), self.whole(local.x + local.step(at))
        found = newton.minimise(self.at(at), start, tol=1e-8, max_iter=self.problem.max_iter)
        return self.local(found.final, at), at

    def whole(self, x: Array) -> Array:
        """Return estimated weights with zeros for the others."""
        result = np.zeros(self.objective.size)
        result[self.objective.free.ravel()] = x
        return result

    def params(self, x: Array) -> At:
        """Return weights for what is said of single rows."""
        o = self.objective
        return At(x.reshape(o.shape), o.center, o.scale, o.T, o.link)

    def concrete(self, log_alpha: Array) -> tuple[GaussianPrior, Any]:
        """Return the prior with the width that was found, and the width."""
        width = np.exp(-0.5 * log_alpha)
        if self.names is None:
            return GaussianPrior(scale=float(width[0]), mean=self.prior.mean, space=self.prior.space), float(width[0])
        return GaussianPrior(covariance=width[self.group[1:]] ** 2, mean=self.prior.mean), width


def _times(mix: Array, rows: Array) -> Array:
    return rows @ mix


def column_groups(prior: GaussianPrior, names: Any) -> tuple[npt.NDArray[np.intp], tuple[tuple[str, ...], ...] | None]:
    """Return the group of each column, and the names of the columns of each group."""
    columns = [str(name) for name in names]
    M = len(columns)
    if prior.groups is None:
        return np.zeros(M, dtype=np.intp), None
    if isinstance(prior.groups, str):
        if prior.groups != "each":
            raise UnknownNameError("way to group the columns", prior.groups, ["each"])
        return np.arange(M), tuple((name,) for name in columns)
    if not np.iterable(prior.groups):
        raise InvalidTypeError(f"groups must be 'each' or a list of lists of columns, found {prior.groups!r}.")
    group = np.full(M, -1, dtype=np.intp)
    groups = list(prior.groups)
    for g, members in enumerate(groups):
        for member in members if np.iterable(members) and not isinstance(members, str) else [members]:
            j = _column(member, columns)
            if group[j] >= 0:
                raise InvalidInputError(f"Column {columns[j]!r} is in two groups; each column has one width.")
            group[j] = g
    empty = set(range(len(groups))) - set(group.tolist())
    if empty:
        raise InvalidInputError(f"Group {min(empty)} has no columns.")
    group[group < 0] = group.max() + 1
    return group, tuple(tuple(np.array(columns)[group == g].tolist()) for g in range(group.max() + 1))


def _column(member: Any, columns: list[str]) -> int:
    if isinstance(member, int | np.integer) and not isinstance(member, bool):
        if not 0 <= member < len(columns):
            raise InvalidInputError(f"groups= names column {member}; there are columns 0 to {len(columns) - 1}.")
        return int(member)
    if member not in columns:
        raise UnknownNameError("column in groups=", member, columns)
    return columns.index(member)
