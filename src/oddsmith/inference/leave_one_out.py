"""Leave-one-out from one fit: what each row's prediction would be without it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemorySource, one_blas_thread
from oddsmith.errors import SeparationWarning
from oddsmith.inference.fit_record import FitRecord, each_tile
from oddsmith.inference.leave_out_refinement import INFLUENTIAL, MOST_WORK, LeaveOutObjective, minimise_each
from oddsmith.inference.leave_out_step import curvatures, leave_out
from oddsmith.inference.posterior import laplace_posterior
from oddsmith.kernels.rowwise import WeightPoint, tiles
from oddsmith.links import Link, probabilities
from oddsmith.losses import row_losses
from oddsmith.numerics import Array, log_normaliser, sigmoid
from oddsmith.priors import Quadratic
from oddsmith.records import Table


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut(Table):
    """Every row as predicted by the fit of all others.

    Attributes
    ----------
    proba : array, N × K
        Probability of each class without the row itself (one unit of its weight). NaN where the leverage is 1:
        without such a row there is no fit.
    log_loss : float
        Mean of ``−log proba`` of the row's own class, weighted.
    leverage : array of length N
        The row's share in its own prediction, 0 … 1 for rows of weight one. Their sum is the effective number of
        weights.
    influence : array of length N
        Cook's distance: how far one Newton step without the row moves the weights, squared, in the metric of the
        Hessian, per weight.
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
        """Return one row per row: the loss without it, leverage, influence."""
        return {
            "row": list(range(len(self.loss))),
            "loss": self.loss.tolist(),
            "leverage": self.leverage.tolist(),
            "influence": self.influence.tolist(),
        }

    def __str__(self) -> str:
        most = int(np.nanargmax(self.influence))
        return (
            f"leave-one-out log loss {self.log_loss:.6g} ± {self.std_error:.2g} over {len(self.loss)} rows; "
            f"effective weights {self.leverage.sum():.4g}; "
            f"most influential row {most} ({self.influence[most]:.3g})"
        )


def leave_one_out(
    source: MemorySource,
    at: WeightPoint,
    S: Array,
    n_weights: int,
    penalty: Quadratic | None = None,
    *,
    one_step: bool = False,
) -> LeaveOneOut:
    """Leave out every row of a source, from weights ``at`` with the inverse Hessian ``S`` (CP × CP) of all rows.

    1. One Newton step for each row, in closed form: one pass, O(N C² M²), a tile of rows at a time.
    2. Rows that move the weights farther than such a step can be trusted are followed by a few gradient steps, all of
       them at once: a pass each. Where rows are many for each weight there are none; with ``one_step`` none but those
       that have no such step.
    """
    A, leverage, influence, possible = _one_step(source, at, S)  # 1
    # With a prior, or a link that is not convex, a row without which these weights are no minimum leaves another one.
    elsewhere = penalty is not None or (at.link is not None and not at.link.convex)
    reach = np.where(possible, 0.0 if one_step else influence, np.inf if elsewhere else 0.0)
    far = np.flatnonzero(reach > INFLUENTIAL)
    most = int(MOST_WORK / (source.n_rows * at.x.size)) + 1
    far = np.sort(far[np.argsort(-reach[far])][:most])
    if len(far):  # 2
        A[far] = _refined(source, at, S, penalty, far)
    t, s = source.t, np.ones(source.n_rows) if source.s is None else source.s
    loss, proba = row_losses(A, t, at.link).value, _proba(A, at.link)
    loss[proba[np.arange(len(t)), t] == 1.0] = 0.0  # beyond the domain of a link one class is certain
    log_loss = float(np.average(loss[s > 0], weights=s[s > 0]))
    variance = float(np.average((loss[s > 0] - log_loss) ** 2, weights=s[s > 0]))
    error = float(np.sqrt(variance / s.sum()))
    return LeaveOneOut(
        proba=proba, log_loss=log_loss, leverage=leverage, influence=influence / n_weights, loss=loss, std_error=error
    )


def _one_step(source: MemorySource, at: WeightPoint, S: Array) -> tuple[Array, Array, Array, npt.NDArray[np.bool_]]:
    parts: list[tuple[Any, ...]] = []
    for tile in each_tile(source, at):
        change, leverage, influence, possible = leave_out(row_losses(tile.A, tile.t, at.link), tile.spread(S), tile.s)
        A = tile.A + np.where(possible[:, None], change, np.nan)
        parts.append((A, leverage, np.where(possible, influence, np.nan), possible))
    A, leverage, influence, possible = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return A, leverage, influence, possible


def _refined(
    source: MemorySource, at: WeightPoint, S: Array, penalty: Quadratic | None, rows: npt.NDArray[np.intp]
) -> Array:
    """Return the activations of rows without themselves."""
    C, P = at.x.shape
    own = list(tiles(source.take(rows).block(0, len(rows)), at))
    Z, A, B = (np.concatenate(c) for c in zip(*((tile.Z, tile.A, tile.spread(S)) for tile in own), strict=True))
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


def _proba(A: Array, link: Link | None) -> Array:
    if A.shape[1] > 1:
        return np.asarray(log_normaliser(A)[1])
    a = A[:, 0]
    if link is None:
        return np.column_stack([sigmoid(-a), sigmoid(a)])
    return np.column_stack(probabilities(link, a))


def leave_rows_out(fit: FitRecord) -> LeaveOneOut:
    """Leave out every row of a fit, and warn of rows without which there is none."""
    posterior = laplace_posterior(fit)
    with one_blas_thread():
        fit.state.require_same_rows(-sum(tile.loss for tile in fit.tiles()))
        source, S = fit.problem.memory_source, posterior.solver_covariance
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
