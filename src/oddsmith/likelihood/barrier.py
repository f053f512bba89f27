"""Fits with links of bounded domain (log, identity): every probability stays inside (0, 1).

A Newton step that leaves the domain has an infinite loss and is shortened. If that stalls, or the start is outside, a
barrier method is used:

  1. a start inside the domain, from a linear program if the usual one is outside;
  2. Newton on the loss plus ``mu Σ_n s_n b(a_n)``, the barrier ``b = −log`` of the distances from the ends, for
     decreasing ``mu``, each from the last optimum;
  3. Newton without the barrier. If that does not converge, the optimum lies on the boundary, where the likelihood still
     rises: there is none inside.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import optimize

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.fit import InfeasibleStartError, LikelihoodFit, fit_likelihood
from oddsmith.likelihood.problem import Problem
from oddsmith.links import Link
from oddsmith.numerics import Array

BARRIERS = 10.0 ** -np.arange(0, 11)
LARGEST_PROGRAM = 20_000_000


class Barrier:
    """A link with log probabilities minus ``mu`` times the barrier; its other functions are unchanged.

    >>> from oddsmith.links import LINKS
    >>> Barrier(LINKS["log"], 1.0).log_probability(np.array([-1.0]))[0].tolist()
    [-1.0]
    """

    def __init__(self, inner: Link, mu: float) -> None:
        self.inner, self.mu = inner, mu
        self.name, self.domain, self.convex = inner.name, inner.domain, inner.convex
        self.link, self.inverse = inner.link, inner.inverse
        self.derivative, self.second_derivative = inner.derivative, inner.second_derivative

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        """Return both log probabilities minus the barrier."""
        inside, ends = self._ends(a)
        log_distance = sum(np.log(d) for d, _ in ends)
        p, q = self.inner.log_probability(a)
        return np.where(inside, p + self.mu * log_distance, p), np.where(inside, q + self.mu * log_distance, q)

    def score(self, a: Array) -> tuple[Array, Array]:
        """Return the slopes of both."""
        slope = self.mu * sum(sign / d for d, sign in self._ends(a)[1])
        p, q = self.inner.score(a)
        return p + slope, q + slope

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        """Return the second derivatives of both."""
        curvature = self.mu * sum(-1.0 / d**2 for d, _ in self._ends(a)[1])
        p, q = self.inner.score_derivative(a)
        return p + curvature, q + curvature

    def _ends(self, a: Array) -> tuple[npt.NDArray[np.bool_], list[tuple[Array, float]]]:
        """Return which rows are inside, and for each finite end the distance to it and the sign of its slope."""
        low, high = self.inner.domain
        inside = (a > low) & (a < high)
        ends = [(a - low, 1.0)] if np.isfinite(low) else []
        ends += [(high - a, -1.0)] if np.isfinite(high) else []
        return inside, [(np.where(inside, d, 1.0), sign) for d, sign in ends]


def fit_bounded(problem: Problem) -> LikelihoodFit:
    """Fit with a link of bounded domain: directly if that works, otherwise with a barrier."""
    link, start = problem.link, None
    assert link is not None
    try:
        fit = fit_likelihood(problem)
        if fit.certificate.converged:
            return fit
    except InfeasibleStartError:
        start = feasible_start(problem)  # 1
    for mu in BARRIERS:  # 2
        fit = fit_likelihood(replace(problem, link=Barrier(link, float(mu)), start=start, solver="newton"))
        start = (fit.coef, fit.intercept)
    fit = fit_likelihood(replace(problem, start=start))  # 3
    if not fit.certificate.converged:
        low, high = link.domain
        raise InvalidInputError(
            f"link={link.name!r} has no optimum with every activation inside ({low:g}, {high:g}): the likelihood still "
            "rises where the probability of a row reaches an end of (0, 1). Use another link ('logit', say), a "
            "prior, or fewer columns."
        )
    return fit


def feasible_start(problem: Problem) -> tuple[Array, Array]:
    """Return weights with all activations as far inside the domain as a linear program brings them.

    Maximise m ≤ 1 such that ``low + m ≤ b + wᵀφ + offset ≤ high − m`` for every row.
    """
    assert problem.link is not None
    source = problem.memory_source
    block = source.block(0, source.n_rows)
    if block.n_rows * block.n_columns > LARGEST_PROGRAM:
        raise InvalidInputError(
            f"The fit through link={problem.link.name!r} needs a start inside its domain, and {block.n_rows} × "
            f"{block.n_columns} numbers are too many to look for one. Add an intercept, or leave the offset out."
        )
    inside = np.ones(block.n_rows, dtype=bool) if block.s is None else block.s > 0
    rows = block.Phi.dense()[inside]
    scale = np.abs(rows).max(axis=0, initial=0.0)
    scale[scale == 0.0] = 1.0
    Z = np.column_stack([np.full(len(rows), float(problem.intercept)), rows / scale])
    shift = np.zeros(len(Z)) if block.offset is None else block.offset[inside, 0]
    ones = np.ones((len(Z), 1))
    low, high = problem.link.domain
    sides = [(np.hstack([Z, ones]), high - shift)] if np.isfinite(high) else []
    sides += [(np.hstack([-Z, ones]), shift - low)] if np.isfinite(low) else []
    A, limit = np.vstack([side for side, _ in sides]), np.concatenate([bound for _, bound in sides])
    cost = np.zeros(A.shape[1])
    cost[-1] = -1.0
    found = optimize.linprog(cost, A_ub=A, b_ub=limit, bounds=[(None, None)] * (A.shape[1] - 1) + [(None, 1.0)])
    if found.x is None or found.x[-1] <= 0.0:
        raise InvalidInputError(
            f"No weights give every row an activation inside ({low:g}, {high:g}), as link={problem.link.name!r} needs. "
            "Add an intercept, leave the offset out, or use another link ('logit', say)."
        )
    return found.x[None, 1:-1] / scale, found.x[:1].copy()
