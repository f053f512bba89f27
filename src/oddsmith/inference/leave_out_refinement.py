"""Leave-one-out for influential rows, where one Newton step is too far: L-BFGS for many rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemorySource
from oddsmith.inference.fit_record import each_tile
from oddsmith.kernels.rowwise import Tile, WeightPoint
from oddsmith.losses import row_losses
from oddsmith.numerics import Array
from oddsmith.priors import Quadratic
from oddsmith.protocols import Indices

INFLUENTIAL = 0.05
"""Squared distance that the weights move, in standard errors, from which on one Newton step is not trusted."""
MOST_WORK = 2e8
"""Rows × left-out rows × weights of one evaluation, at most."""
EVALUATIONS = 50
MEMORY = 12
"""Steps that a direction remembers."""
CHUNK = 1 << 21


@dataclass(frozen=True, kw_only=True)
class LeaveOutObjective:
    """The objective without one row, for m rows at once: weights are m × CP in the solver's coordinates.

    ``rows`` are their numbers, ``Z`` (m × P) and ``out`` (the weight left out) their own data; ``S`` is the inverse
    Hessian of all rows, and ``K`` (m × C × C) is ``(I − s R B)⁻¹ s R``, by which a row's absence changes it (0 where
    that would leave no inverse).
    """

    source: MemorySource
    at: WeightPoint
    penalty: Quadratic | None
    S: Array
    rows: Indices
    Z: Array
    out: Array
    K: Array

    def take(self, some: npt.NDArray[np.bool_]) -> LeaveOutObjective:
        """Return the objectives of some of the rows."""
        return replace(self, rows=self.rows[some], Z=self.Z[some], out=self.out[some], K=self.K[some])

    def evaluate(self, X: Array) -> tuple[Array, Array]:
        """Return values (m) and gradients (m × CP): one pass over the rows for all. Far off they may be infinite."""
        m = len(X)
        C, P = self.at.x.shape
        W = np.einsum("jk,mkp->mjp", self.at.T, X.reshape(m, C, P))
        value, G = np.zeros(m), np.zeros((m, C, P))
        for tile in each_tile(self.source, self.at):
            rest = tile.A - tile.Z @ (self.at.T @ self.at.x).T
            for part in np.array_split(np.arange(m), max(1, m * C * len(tile.Z) // CHUNK)):
                self._add(tile, rest, W, part, value, G)
        G = np.einsum("jk,mjp->mkp", self.at.T, G)
        if self.penalty is not None:
            lost, slopes = zip(*map(self.penalty.at, X.reshape(m, C, P)), strict=True)
            value += np.array(lost)
            G += np.array(slopes)
        return value, G.reshape(m, -1) * (np.diag(self.S) > 0)

    def _add(self, tile: Tile, rest: Array, W: Array, part: Indices, value: Array, G: Array) -> None:
        n, (k, C) = len(tile.Z), (len(part), W.shape[1])
        A = (tile.Z @ W[part].reshape(k * C, -1).T).reshape(n, k, C) + rest[:, None, :]
        rows = row_losses(A.reshape(n * k, C), np.repeat(tile.t, k), self.at.link)
        # A row is left out before the sum, not taken from it: its loss can be larger than all others' digits.
        weight = np.repeat(tile.s[:, None], k, axis=1)
        own = self.rows[part] - tile.start
        here = np.flatnonzero((own >= 0) & (own < n))
        weight[own[here], here] -= self.out[part][here]
        there = weight > 0
        value[part] += (weight * np.where(there, rows.value.reshape(n, k), 0.0)).sum(axis=0)
        gradient = np.where(there[:, :, None], rows.gradient.reshape(n, k, C), 0.0) * weight[:, :, None]
        G[part] += (gradient.reshape(n, k * C).T @ tile.Z).reshape(k, C, -1)

    def solve(self, G: Array) -> Array:
        """Return ``H₋ₙ⁻¹ g`` for each row, H₋ₙ being the Hessian without it at the weights of all rows."""
        C, P = self.at.x.shape
        whole = G @ self.S
        a = np.einsum("jk,mkp,mp->mj", self.at.T, whole.reshape(-1, C, P), self.Z)
        back = np.einsum("jk,mj,mp->mkp", self.at.T, np.einsum("mjk,mk->mj", self.K, a), self.Z)
        return np.asarray(whole + back.reshape(len(G), -1) @ self.S)


def minimise_each(objective: LeaveOutObjective) -> Array:
    """Return the weights without each row (m × CP), from those of all rows on.

    L-BFGS for all rows at once, with the Hessian without the row as the first guess: its first step is Newton's, halved
    until the objective falls. Each evaluation is one pass over the rows, for those that have not arrived.
    """
    result = np.repeat(objective.at.x.reshape(1, -1), len(objective.rows), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long has infinite loss, and is not taken
        for left, X in _iterate(objective, result):
            result[left] = X
    return result


def _iterate(objective: LeaveOutObjective, X: Array) -> Iterator[tuple[Indices, Array]]:
    """Yield places of rows and the weights without them, as they converge."""
    left, step = np.arange(len(X)), np.ones(len(X))
    value, G = objective.evaluate(X)
    pairs: list[tuple[Array, Array, Array]] = []
    for _ in range(EVALUATIONS):
        D = _two_loop(G, pairs, objective)
        slope = (D * G).sum(axis=1)
        on = ~(slope < 1e-8)
        yield left[~on], X[~on]
        if not on.any():
            return
        objective, pairs = objective.take(on), [(dx[on], dg[on], rho[on]) for dx, dg, rho in pairs[-MEMORY:]]
        left, step, X, value, G, D, slope = (every[on] for every in (left, step, X, value, G, D, slope))
        moved = X - step[:, None] * D
        new_value, new_G = objective.evaluate(moved)
        falls = new_value <= value - 1e-4 * step * slope + 1e-12 * np.abs(value)
        dx, dg = np.where(falls[:, None], moved - X, 0.0), np.where(falls[:, None], new_G - G, 0.0)
        curvature = (dx * dg).sum(axis=1)
        pairs.append((dx, dg, np.where(curvature > 0, 1.0 / np.where(curvature > 0, curvature, 1.0), 0.0)))
        X, G = np.where(falls[:, None], moved, X), np.where(falls[:, None], new_G, G)
        value, step = np.where(falls, new_value, value), np.where(falls, 1.0, 0.5 * step)
    yield left, X


def _two_loop(G: Array, pairs: list[tuple[Array, Array, Array]], objective: LeaveOutObjective) -> Array:
    """Return the L-BFGS directions of all rows; a pair with a factor of 0 counts for nothing."""
    Q, alphas = G.copy(), []
    for dx, dg, rho in reversed(pairs):
        alpha = rho * (dx * Q).sum(axis=1)
        Q -= alpha[:, None] * dg
        alphas.append(alpha)
    D = objective.solve(Q)
    for (dx, dg, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        D += dx * (alpha - rho * (dg * D).sum(axis=1))[:, None]
    return D
