"""Leave-one-out from one fit: the prediction for each row without that row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.engines import MemorySource, one_blas_thread
from oddsmith.errors import SeparationWarning
from oddsmith.inference.covariance import EliminatedCovariance
from oddsmith.inference.fit_record import FitRecord, each_tile
from oddsmith.inference.posterior import laplace_posterior
from oddsmith.links import Link, probabilities
from oddsmith.losses import RowLosses, curvatures, row_losses
from oddsmith.numerics import Array, log_normaliser, sigmoid
from oddsmith.priors import Quadratic
from oddsmith.protocols import Indices
from oddsmith.records import Table
from oddsmith.solvers.lbfgs import two_loop
from oddsmith.statistic import Shape
from oddsmith.statistics.rowwise import Tile, WeightPoint, tiles

INFLUENTIAL = 0.05
"""Squared distance that the weights move, in standard errors, from which one Newton step is not enough."""
MOST_WORK = 2e8  # Rows × left-out rows × weights of one evaluation, at most.
EVALUATIONS = 50
MEMORY = 12  # Memory of L-BFGS.
CHUNK = 1 << 21
ELIMINATED_ROWS = 1 << 14  # Rows processed together for a table with an eliminated factor.


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut(Table):
    """Predictions for every row from a fit to all others.

    Attributes
    ----------
    proba : array, N × K
        Probability of each class without the row itself (one unit of its weight). NaN if the leverage is 1: without
        that row there is no fit.
    log_loss : float
        Mean of ``−log proba`` of the row's own class, weighted.
    leverage : array of length N
        The row's share in its own prediction, 0 … 1 for rows of weight one. The sum is the effective number of weights.
    influence : array of length N
        Cook's distance: the squared distance by which one Newton step without the row moves the weights, in the metric
        of the Hessian, per weight.
    loss : array of length N
        ``−log proba`` of the row's own class.
    std_error : float
        Standard error of ``log_loss``.
    """

    proba: Array
    log_loss: float
    leverage: Array
    influence: Array
    loss: Array
    std_error: float

    def to_dict(self) -> dict[str, list[Any]]:
        columns = {"loss": self.loss, "leverage": self.leverage, "influence": self.influence}
        return {"row": list(range(len(self.loss))), **{name: values.tolist() for name, values in columns.items()}}

    def __str__(self) -> str:
        most = int(np.nanargmax(self.influence))
        return (
            f"leave-one-out log loss {self.log_loss:.6g} ± {self.std_error:.2g} over {len(self.loss)} rows; effective "
            f"weights {self.leverage.sum():.4g}; most influential row {most} ({self.influence[most]:.3g})"
        )


def leave_out(rows: RowLosses, B: Array, s: Array) -> tuple[Array, Array, Array, npt.NDArray[np.bool_]]:
    """Return the change of a row's activation when left out (n × C), its leverage, its influence, and if it can be.

    With B the variance of the row's activations (n × C × C) under the inverse Hessian of all rows, g and R the gradient
    and curvature of its loss, and ``v = (I − s R B)⁻¹ s g``,

        Δa = B v,    leverage = s tr(R B),    influence = vᵀ B v,

    where the influence is the squared distance that the weights move in the metric of the Hessian. One unit of weight
    is left out (or all, if less): a row of weight 2 counts twice, and its copy stays. A leverage of 1 means that only
    this row determines some weight: it cannot be left out, and v is s g.
    """
    g, C, out = rows.gradient, rows.gradient.shape[1], np.minimum(s, 1.0)
    if C == 1:
        b, r = B[:, 0, 0], rows.curvature(0, 0)
        left = 1.0 - out * r * b
        possible = left > 1e-9
        v: Array = out * g[:, 0] / np.where(possible, left, 1.0)
        return (b * v)[:, None], s * r * b, b * v * v, possible
    R = curvatures(rows)
    left = np.eye(C) - out[:, None, None] * (R @ B)
    possible = np.linalg.det(left) > 1e-9
    left[~possible] = np.eye(C)
    v = np.asarray(np.linalg.solve(left, (out[:, None] * g)[:, :, None])[:, :, 0], dtype=np.float64)
    change = np.einsum("njk,nk->nj", B, v)
    return change, s * np.einsum("njk,njk->n", R, B), (v * change).sum(axis=1), possible


@dataclass(frozen=True)
class LeaveOutLossesParams:
    """L sets of weights, and the inverse Hessian at each in one common basis.

    ``at.x`` is not used; ``X`` is L × C × P. The inverse Hessian of set l is ``Σ_i shrink_li v_i v_iᵀ``, the v_i being
    columns of ``V`` (CP × F).
    """

    at: WeightPoint
    X: Array
    V: Array
    shrink: Array


@dataclass(frozen=True)
class LeaveOutLosses:
    """``loss_l = Σ s ℓ₋ₙ``, the loss of each row without itself at each of L sets of weights; ``square_l = Σ s ℓ₋ₙ²``.

    ``fitted_l = Σ s ℓ`` is the loss with all rows. One pass serves all sets: rows are turned once into the basis in
    which every Hessian is diagonal. It is folded like a statistic but not registered as one: rows of weight below one
    are left out entirely, so two half rows do not equal one row.
    """

    weight: float
    loss: Array
    square: Array
    fitted: Array

    @classmethod
    def zero(cls, shape: Shape, params: LeaveOutLossesParams) -> LeaveOutLosses:
        return cls(0.0, *np.zeros((3, len(params.X))))

    @classmethod
    def of(cls, block: Block, params: LeaveOutLossesParams) -> LeaveOutLosses:
        _, C, P = params.X.shape
        result = cls.zero(Shape(P - 1, C + 1), params)
        # Contrasts become activations against class 0.
        V = np.einsum("jk,kpf->jpf", params.at.T, params.V.reshape(C, P, -1))
        X = np.einsum("jk,lkp->ljp", params.at.T, params.X)
        for tile in tiles(block, replace(params.at, x=params.X[0])):
            out, fitted = (np.where(tile.s > 0, loss, 0.0) for loss in _losses(tile, X, V, params))
            result = result.merge(cls(float(tile.s.sum()), out @ tile.s, (out * out) @ tile.s, fitted @ tile.s))
        return result

    def error(self, share: float = 1.0) -> Array:
        """Return the standard errors of the mean losses over all rows."""
        mean = self.loss / self.weight
        variance = np.maximum(self.square / self.weight - mean * mean, 0.0)
        return np.asarray(np.sqrt(variance / self.weight * share))

    def merge(self, other: LeaveOutLosses) -> LeaveOutLosses:
        sums = (self.loss + other.loss, self.square + other.square, self.fitted + other.fitted)
        return LeaveOutLosses(self.weight + other.weight, *sums)


def _losses(tile: Tile, X: Array, V: Array, params: LeaveOutLossesParams) -> tuple[Array, Array]:
    """Return the loss of each row when left out, and when not, both L × n."""
    L, C, _ = X.shape
    n = len(tile.Z)
    # What is not the weights' (the offset) is the same for all sets; the sets follow on one another.
    rest = tile.A - tile.Z @ X[0].T
    A = np.concatenate([tile.Z @ W.T + rest for W in X])
    turned = [tile.Z @ V[j] for j in range(C)]
    B = np.empty((L * n, C, C))
    for j in range(C):
        for k in range(j, C):
            B[:, j, k] = B[:, k, j] = (params.shrink @ (turned[j] * turned[k]).T).ravel()
    t, s = np.tile(tile.t, L), np.tile(tile.s, L)
    rows = row_losses(A, t, tile.at.link)
    change, *_ = leave_out(rows, B, s)
    return row_losses(A + change, t, tile.at.link).value.reshape(L, n), rows.value.reshape(L, n)


def leave_one_out(
    source: MemorySource,
    at: WeightPoint,
    S: Array | EliminatedCovariance,
    n_weights: int,
    penalty: Quadratic | None = None,
    *,
    one_step: bool = False,
) -> LeaveOneOut:
    """Leave out every row of a source, from weights ``at`` with the inverse Hessian ``S`` (CP × CP) of all rows.

    1. Take one Newton step for each row, in closed form: one pass, O(N C² M²), a tile of rows at a time.
    2. Rows with too much influence for a single step get a few gradient steps, all rows together, one pass each. With
       many rows per weight there are none; with ``one_step``, only rows without a Newton step.
    """
    parts = []
    for A, B, t, s in _spreads(source, at, S):  # 1
        parts.append((A, *leave_out(row_losses(A, t, at.link), B, s)))
    A, change, leverage, influence, possible = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    A, influence = A + np.where(possible[:, None], change, np.nan), np.where(possible, influence, np.nan)
    # With a prior, or a link that is not convex, a row without which these weights are no minimum leaves another one.
    elsewhere = penalty is not None or (at.link is not None and not at.link.convex)
    reach = np.where(possible, 0.0 if one_step else influence, np.inf if elsewhere else 0.0)
    far = np.flatnonzero(reach > INFLUENTIAL)
    least = (
        0 if isinstance(S, EliminatedCovariance) else 1
    )  # of many levels the rows would be made dense for one of them
    most = int(MOST_WORK / (source.n_rows * at.x.size)) + least
    far = np.sort(far[np.argsort(-reach[far])][:most])
    if len(far):  # 2
        A[far] = _refined(source, at, S, penalty, far)
    t, s = source.t, np.ones(source.n_rows) if source.s is None else source.s
    loss, proba = row_losses(A, t, at.link).value, _proba(A, at.link)
    loss[proba[np.arange(len(t)), t] == 1.0] = 0.0  # beyond the domain of a link one class is certain
    with np.errstate(over="ignore", invalid="ignore"):  # a row may cost more than any number, and a fit have no weight
        log_loss = float(np.average(loss[s > 0], weights=s[s > 0]))
        variance = float(np.average((loss[s > 0] - log_loss) ** 2, weights=s[s > 0]))
        error, influence = float(np.sqrt(variance / s.sum())), influence / n_weights
    return LeaveOneOut(
        proba=proba, log_loss=log_loss, leverage=leverage, influence=influence, loss=loss, std_error=error
    )


def _spreads(
    source: MemorySource, at: WeightPoint, S: Array | EliminatedCovariance
) -> Iterator[tuple[Array, Array, npt.NDArray[np.int32], Array]]:
    """Yield activations, their covariances, classes and weights, some rows at a time."""
    if not isinstance(S, EliminatedCovariance):
        yield from ((tile.A, tile.spread(S), tile.t, tile.s) for tile in each_tile(source, at))
        return
    for start in range(0, source.n_rows, ELIMINATED_ROWS):
        block = source.block(start, min(start + ELIMINATED_ROWS, source.n_rows))
        A = S.activations(block.Phi)
        yield A if block.offset is None else A + block.offset, S.spread(block.Phi), block.t, block.weights()


def _loss(source: MemorySource, at: WeightPoint, S: EliminatedCovariance) -> float:
    """Return minus the log likelihood of the rows."""
    block = source.block(0, source.n_rows)
    A = S.activations(block.Phi)
    loss = row_losses(A if block.offset is None else A + block.offset, block.t, at.link).value
    s = block.weights()
    return float(np.where(s > 0, loss, 0.0) @ s)


def _refined(
    source: MemorySource,
    at: WeightPoint,
    S: Array | EliminatedCovariance,
    penalty: Quadratic | None,
    rows: npt.NDArray[np.intp],
) -> Array:
    """Return the activations of rows without themselves."""
    (C, P), some = at.x.shape, source.take(rows)
    Z, A = (np.concatenate(c) for c in zip(*((tile.Z, tile.A) for tile in each_tile(some, at)), strict=True))
    B = np.concatenate([spread for _, spread, _, _ in _spreads(some, at, S)])
    out = np.ones(len(rows)) if source.s is None else np.minimum(source.s[rows], 1.0)
    loss = row_losses(A, source.t[rows], at.link)
    R = out[:, None, None] * curvatures(loss)
    left = np.eye(C) - R @ B
    possible = np.linalg.det(left) > 1e-9
    left[~possible], R[~possible] = np.eye(C), 0.0
    K = np.linalg.solve(left, R)
    X = minimise_each(LeaveOutObjective(source=source, at=at, penalty=penalty, S=S, rows=rows, Z=Z, out=out, K=K))
    W = np.einsum("jk,mkp->mjp", at.T, X.reshape(len(rows), C, P))
    return np.asarray(np.einsum("mcp,mp->mc", W, Z) + A - Z @ (at.T @ at.x).T)


@dataclass(frozen=True, kw_only=True)
class LeaveOutObjective:
    """The objective without one row, for m rows at once: weights are m × CP in the solver's coordinates.

    ``rows`` are their numbers, ``Z`` (m × P) their values and ``out`` the weight left out; ``S`` is the inverse Hessian
    of all rows, and ``K`` (m × C × C) is ``(I − s R B)⁻¹ s R``, its change without the row (0 if it would be singular).
    """

    source: MemorySource
    at: WeightPoint
    penalty: Quadratic | None
    S: Array | EliminatedCovariance
    rows: Indices
    Z: Array
    out: Array
    K: Array

    def take(self, some: npt.NDArray[np.bool_]) -> LeaveOutObjective:
        """Return the objectives of some of the rows."""
        return replace(self, rows=self.rows[some], Z=self.Z[some], out=self.out[some], K=self.K[some])

    def evaluate(self, X: Array) -> tuple[Array, Array]:
        """Return values (m) and gradients (m × CP), in one pass over the rows; they may be infinite far out."""
        m, (C, P) = len(X), self.at.x.shape
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
        free = self.S.free if isinstance(self.S, EliminatedCovariance) else np.diag(self.S) > 0
        return value, G.reshape(m, -1) * free

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
        whole = self._inverse(G)
        a = np.einsum("jk,mkp,mp->mj", self.at.T, whole.reshape(-1, C, P), self.Z)
        back = np.einsum("jk,mj,mp->mkp", self.at.T, np.einsum("mjk,mk->mj", self.K, a), self.Z)
        return np.asarray(whole + self._inverse(back.reshape(len(G), -1)))

    def _inverse(self, G: Array) -> Array:
        """Return ``H⁻¹ g`` for each row of G, H being the Hessian of all rows."""
        return self.S.solve(G) if isinstance(self.S, EliminatedCovariance) else G @ self.S


@np.errstate(over="ignore", invalid="ignore")  # a step too long has infinite loss, and is not taken
def minimise_each(objective: LeaveOutObjective) -> Array:
    """Return the weights without each row (m × CP), starting from the fit to all rows.

    Runs L-BFGS for all rows at once, with the Hessian without the row as initial matrix: the first step is Newton's,
    halved until the objective falls. Each evaluation is one pass over the rows for all unconverged problems.
    """
    X = np.repeat(objective.at.x.reshape(1, -1), len(objective.rows), axis=0)
    result, left, step = X.copy(), np.arange(len(X)), np.ones(len(X))
    value, G = objective.evaluate(X)
    pairs: list[tuple[Array, Array, Array]] = []
    for _ in range(EVALUATIONS):
        D = two_loop(G, pairs, objective.solve, dot=_row_products)
        slope = (D * G).sum(axis=1)
        on = ~(slope < 1e-8)
        result[left] = X
        if not on.any():
            return result
        objective, pairs = objective.take(on), [(dx[on], dg[on], c[on]) for dx, dg, c in pairs[-MEMORY:]]
        left, step, X, value, G, D, slope = (every[on] for every in (left, step, X, value, G, D, slope))
        moved = X - step[:, None] * D
        new_value, new_G = objective.evaluate(moved)
        falls = new_value <= value - 1e-4 * step * slope + 1e-12 * np.abs(value)
        dx, dg = np.where(falls[:, None], moved - X, 0.0), np.where(falls[:, None], new_G - G, 0.0)
        curvature = _row_products(dx, dg)
        pairs.append((dx, dg, np.where(curvature > 0, curvature, np.inf)))  # without curvature it counts for nothing
        X, G = np.where(falls[:, None], moved, X), np.where(falls[:, None], new_G, G)
        value, step = np.where(falls, new_value, value), np.where(falls, 1.0, 0.5 * step)
    result[left] = X
    return result


def _row_products(A: Array, B: Array) -> Array:
    return np.asarray((A * B).sum(axis=1, keepdims=True))


def _proba(A: Array, link: Link | None) -> Array:
    if A.shape[1] > 1:
        return np.asarray(log_normaliser(A)[1])
    return np.column_stack([sigmoid(-A), sigmoid(A)] if link is None else probabilities(link, A[:, 0]))


def leave_rows_out(fit: FitRecord) -> LeaveOneOut:
    """Leave out every row of a fit, and warn about rows without which there is no fit."""
    posterior, eliminated = laplace_posterior(fit), EliminatedCovariance.of(fit.state)
    with one_blas_thread():
        source = fit.problem.memory_source
        if eliminated is None:
            fit.state.require_same_rows(-sum(tile.loss for tile in fit.tiles()))
        else:
            fit.state.require_same_rows(-_loss(source, posterior.at, eliminated))
        S = posterior.solver_covariance if eliminated is None else eliminated
        result = leave_one_out(source, posterior.at, S, posterior.size, fit.state.penalty)
    determining = np.flatnonzero(np.isnan(result.loss))
    if len(determining):
        others = f" (or {len(determining) - 1} more)" if len(determining) > 1 else ""
        warnings.warn(
            f"Without row {int(determining[0])}{others} there is no fit: it alone determines a weight. Its prediction "
            "is NaN. Use a prior.",
            SeparationWarning,
            stacklevel=3,
        )
    return result
