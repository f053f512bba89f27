"""The family of objectives that differ in the precisions of their prior."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oddsmith.bordered import BorderedDiagonal
from oddsmith.cached_property import cached_property
from oddsmith.design.basis.base import seen_through
from oddsmith.engines import AnySource
from oddsmith.engines.memory import RunSource
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.likelihood.coordinates import Coordinates, is_large
from oddsmith.likelihood.fit import make_objective, make_plan, start_weights
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.prior_selection.quadratic_model import QuadraticModel
from oddsmith.priors import GaussianPrior, Quadratic
from oddsmith.protocols import Indices
from oddsmith.solvers import policy
from oddsmith.solvers.base import Factor, ObjectiveValue
from oddsmith.statistics.rowwise import WeightPoint

SAMPLE_ROWS = 10_000
"""Rows for sums of second order: of 100,000 × 20 they gave the scale of all to 1e-5 (evidence) and 1e-3 (loo)."""
NEAR = 0.05
"""Standard errors per weight within which a quadratic model serves: 100,000 × 20 gave the same six digits with 0."""


@dataclass(frozen=True, kw_only=True)
class PriorFamily:
    """Objectives over the same rows with the priors ``Q = alpha_group · q``, in fixed coordinates."""

    problem: Problem
    prior: GaussianPrior
    objective: FoldObjective
    coordinates: Coordinates
    group: Indices
    names: tuple[tuple[str, ...], ...] | None

    @classmethod
    def of(cls, problem: Problem, prior: GaussianPrior) -> PriorFamily:
        """Return the family of a problem; its unit prior has scale 1."""
        if problem.whitening is not None:  # what is said of single rows needs them as the weights see them
            mixed = seen_through(problem.source, partial(_times, problem.whitening), problem.M)
            problem = replace(problem, source=mixed, whitening=None)
        unit = GaussianPrior(scale=1.0, mean=prior.mean, space=prior.space)
        many = (problem.K - 1) * (problem.M + 1) > policy.POLICY.largest_hessian
        objective, coordinates, _ = make_objective(replace(problem, prior=unit), eliminate=many)
        group, names = column_groups(prior, problem.names())
        group = np.append(0, group)
        return cls(problem=problem, prior=prior, objective=objective, coordinates=coordinates, group=group, names=names)

    @property
    def unit(self) -> Quadratic:
        """The prior of scale 1."""
        assert self.objective.penalty is not None
        return self.objective.penalty

    @property
    def forms_hessian(self) -> bool:
        """Whether the Hessian is formed: there are few weights, or a factor is eliminated."""
        return self.objective.eliminated is not None or self.objective.size <= policy.POLICY.largest_hessian

    def at(self, log_alpha: Array, objective: FoldObjective | None = None) -> FoldObjective:
        """Return the objective (or that of other rows) with a prior of these precisions."""
        alpha = np.where(self.unit.Q > 0, np.exp(log_alpha)[self.group], 0.0)
        penalty = Quadratic(self.unit.mean, self.unit.Q * alpha)
        return (self.objective if objective is None else objective).with_penalty(penalty)

    def typical_scale(self) -> float:
        """Return the scale at which a weight moves the activation by about one."""
        return float(np.exp(-np.log(self.coordinates.scale).mean()))

    def typical_precisions(self) -> Array:
        """Return the log precision of each group at which its weights move the activation by about one.

        The levels of a category do so in their own rows, however few these are.
        """
        group, names = self.group[1:], self.problem.names()
        spread = np.where(["[" in str(name) for name in names], 0.0, np.log(self.coordinates.scale))
        return np.asarray(2.0 * np.bincount(group, spread) / np.bincount(group))

    def solver(self) -> Any:
        """Return the solver that suits the problem with a prior."""
        return make_plan(replace(self.problem, prior=GaussianPrior(scale=1.0)), self.coordinates).solver

    def first_fit(self, log_alpha: Array) -> ObjectiveValue:
        """Return the objective at its optimum, by the solver of the problem, to a few digits."""
        objective, max_iter = self.at(log_alpha), self.problem.max_iter
        start = start_weights(self.problem, objective)
        e = objective.evaluate(self.solver().minimise(objective, start, tol=1e-4, max_iter=max_iter).w, order=2)
        self.objective.state.cells = objective.state.cells  # which later ones share
        objective.state.last = None  # nor do they keep this Hessian
        return e

    def quadratic_model(self, e: ObjectiveValue, log_alpha: Array) -> QuadraticModel:
        """Return the quadratic model of the likelihood at an evaluation of the objective with these precisions."""
        kept, C = self.kept, self.objective.shape[0]
        q, mean, group = np.tile(self.unit.Q, C)[kept], self.unit.mean.ravel()[kept], np.tile(self.group, C)[kept]
        Q = np.where(q > 0, np.exp(log_alpha)[group] * q, 0.0)
        x, H = e.w[kept], self._likelihood_hessian(e, Q)
        g = e.gradient[kept] - Q * (x - mean)
        return QuadraticModel(
            x=x, mean=mean, log_likelihood=e.log_likelihood, gradient=g, H=H, q=q, group=group, slope=np.zeros_like(x)
        )

    def _likelihood_hessian(self, e: ObjectiveValue, Q: Array) -> Array | BorderedDiagonal:
        """Return the Hessian of the objective less the prior's, over the weights estimated."""
        if not isinstance(e.hessian, BorderedDiagonal):
            return e.dense_hessian[np.ix_(self.kept, self.kept)] - np.diag(Q)
        H = e.hessian.plus_diagonal(-Q)
        if not self.problem.intercept:  # it counts as a flat weight: with this diagonal it adds nothing to the evidence
            H.A[0, 0] = 2.0 * np.pi
        return H

    @property
    def source(self) -> AnySource:
        """The rows as the objective reads them."""
        assert not isinstance(self.objective.source, RunSource)
        return self.objective.source

    def sample(self) -> tuple[AnySource, float]:
        """Return the rows, or some of them if they are many, and their share."""
        source = self.source
        if not is_large(source) or source.n_rows <= 2 * SAMPLE_ROWS:
            return source, 1.0
        part = source.sample(SAMPLE_ROWS, seed=3)
        weight = float(part.n_rows if part.s is None else part.s.sum())
        return part, weight / self.objective.weight

    @cached_property
    def kept(self) -> Indices:
        """Places of the weights that are estimated; all where a factor is eliminated."""
        eliminated = self.objective.eliminated is not None
        return np.arange(self.objective.size) if eliminated else np.flatnonzero(self.objective.free.ravel())

    def inverse(self, factor: Factor, right: Array | None = None) -> Array:
        """Return the inverse of a factored Hessian, times ``right`` if given, with zeros for the other weights."""
        S = np.zeros((self.objective.size, self.objective.size))
        S[np.ix_(self.kept, self.kept)] = factor.solve(np.eye(len(self.kept)) if right is None else right)
        return S

    def embed(self, x: Array) -> Array:
        """Return estimated weights with zeros for the others."""
        result = np.zeros(self.objective.size)
        result[self.kept] = x
        return result

    def moved(self, quadratic: QuadraticModel, log_alpha: Array) -> Array:
        """Return the most probable weights at other precisions by a quadratic model."""
        return self.embed(quadratic.x + quadratic.step(log_alpha))

    def weight_point(self, x: Array) -> WeightPoint:
        """Return the weights as statistics over rows take them."""
        o = self.objective
        return WeightPoint(x=x.reshape(o.shape), center=o.center, scale=o.scale, T=o.T, link=o.link)

    def prior_at(self, log_alpha: Array) -> tuple[GaussianPrior, Any]:
        """Return the prior with these precisions, and its scale."""
        scale = np.exp(-0.5 * log_alpha)
        if self.names is None:
            return GaussianPrior(scale=float(scale[0]), mean=self.prior.mean, space=self.prior.space), float(scale[0])
        return GaussianPrior(covariance=scale[self.group[1:]] ** 2, mean=self.prior.mean), scale


def _times(mix: Array, rows: Array) -> Array:
    return rows @ mix


def column_groups(prior: GaussianPrior, names: Iterable[object]) -> tuple[Indices, tuple[tuple[str, ...], ...] | None]:
    """Return the group of each column, and the names of the columns of each group."""
    columns = [str(name) for name in names]
    M = len(columns)
    if prior.groups is None:
        return np.zeros(M, dtype=np.intp), None
    if isinstance(prior.groups, str):
        if prior.groups == "each":
            return np.arange(M), tuple((name,) for name in columns)
        if prior.groups != "factor":
            raise UnknownNameError("grouping of the columns", prior.groups, ["each", "factor"])
        keys = [_without_levels(name) if "[" in name else "" for name in columns]
        order = {key: g for g, key in enumerate(dict.fromkeys(sorted(keys, key=lambda key: key == "")))}
        group = np.array([order[key] for key in keys], dtype=np.intp)  # all numbers come last, as one group
        return group, tuple(tuple(np.array(columns)[group == g].tolist()) for g in range(len(order)))
    if not np.iterable(prior.groups):
        raise InvalidTypeError(
            f"groups must be 'each', 'factor' or a list of lists of columns, found {prior.groups!r}."
        )
    group = np.full(M, -1, dtype=np.intp)
    for g, members in enumerate(prior.groups):
        for member in members if np.iterable(members) and not isinstance(members, str) else [members]:
            j = _column(member, columns)
            if group[j] >= 0:
                raise InvalidInputError(f"Column {columns[j]!r} is in two groups; each column has one scale.")
            group[j] = g
        if g not in group:
            raise InvalidInputError(f"Group {g} has no columns.")
    group[group < 0] = group.max() + 1
    return group, tuple(tuple(np.array(columns)[group == g].tolist()) for g in range(group.max() + 1))


def group_label(names: tuple[str, ...]) -> str:
    """Return the category whose levels a group of columns has, or the names of its columns.

    >>> group_label(("city[b]", "city[c]")), group_label(("u", "v")), group_label(("city[b]:u", "city[c]:u"))
    ('city', 'u v', 'city:u')
    """
    terms = {_without_levels(name) for name in names}
    return terms.pop().replace("[]", "") if len(terms) == 1 and len(names) > 1 else " ".join(names)


def _without_levels(name: str) -> str:
    return re.sub(r"\[.*?\](?=:|$)", "[]", name)


def _column(member: object, columns: list[str]) -> int:
    if isinstance(member, int | np.integer) and not isinstance(member, bool):
        if not 0 <= member < len(columns):
            raise InvalidInputError(f"groups= names column {member}; there are columns 0 to {len(columns) - 1}.")
        return int(member)
    if not isinstance(member, str) or member not in columns:
        raise UnknownNameError("column in groups=", member, columns)
    return columns.index(member)
