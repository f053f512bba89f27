"""Diagnostics of individual rows: residuals, leverage and Cook's distance."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from oddsmith.engines import one_blas_thread
from oddsmith.inference.covariance import CovarianceKind, covariance
from oddsmith.inference.fit_record import FitRecord
from oddsmith.losses import curvatures
from oddsmith.numerics import Array
from oddsmith.records import Table
from oddsmith.statistics.rowwise import Tile


@dataclass(frozen=True, kw_only=True)
class Diagnostics(Table):
    """Diagnostics of each row, with R's definitions (dispersion 1) for two classes.

    Attributes
    ----------
    fitted : array
        Probability of the second class; N × K for more than two.
    pearson : array
        ``√s (t − y) / √(y(1 − y))``, t being 0 or 1; N × K for more than two classes, each against the rest.
    deviance : array of length N
        ``±√(2 s ℓ)`` with the sign of t − y and the row's loss ℓ = −log p(t); positive for more than two classes.
    leverage : array of length N
        The diagonal of the hat matrix, summed over the contrasts; its sum is the number of weights.
    standardized_pearson, standardized_deviance : array
        Divided by √(1 − leverage).
    cooks_distance : array of length N
        ``Δᵀ I Δ / k``, with Δ the change of the k weights in one Newton step when the row is left out.

    Rows of weight 0 have leverage and residuals 0. Printing shows the five rows with the largest Cook's distance; a
    notebook shows the first ten rows.
    """

    most_rows: ClassVar[int] = 10
    fitted: Array
    pearson: Array
    deviance: Array
    leverage: Array
    standardized_pearson: Array
    standardized_deviance: Array
    cooks_distance: Array

    def __len__(self) -> int:
        return len(self.leverage)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per row of the data; fields with a column per class are numbered."""
        result: dict[str, list[Any]] = {}
        for name in (field.name for field in fields(self)):
            values = getattr(self, name)
            for k, column in enumerate(values.T if values.ndim == 2 else [values]):
                result[name if values.ndim == 1 else f"{name}_{k}"] = column.tolist()
        return result

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        most = np.argsort(-self.cooks_distance, kind="stable")[:5]
        cooks, leverage = self.cooks_distance, self.leverage
        text = f"leverage up to {leverage.max(initial=0.0):.4g}, Cook's distance up to {cooks.max(initial=0.0):.4g}"
        rows = (
            f"  row {i}: Cook's distance {cooks[i]:.4g}, leverage {leverage[i]:.4g}, deviance residual "
            f"{self.deviance[i]:.4g}"
            for i in most
        )
        return "\n".join([f"{len(self)} rows: {text}", *rows])


def diagnostics(fit: FitRecord) -> Diagnostics:
    """Return the diagnostics of the rows of a fit; see ``LogisticRegression.diagnostics``."""
    state, kept = fit.state, fit.state.kept
    with one_blas_thread():
        S = np.zeros((state.x.size, state.x.size))
        S[np.ix_(kept, kept)] = covariance(fit, CovarianceKind("information"))
        parts = [_diagnose(tile, S, len(kept)) for tile in fit.tiles()]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    found = Diagnostics(**{field.name: column for field, column in zip(fields(Diagnostics), columns, strict=True)})
    state.require_same_rows(-0.5 * float(found.deviance @ found.deviance))
    return found


@np.errstate(divide="ignore", invalid="ignore")  # a row of leverage 1 has no standardised residual
def _diagnose(tile: Tile, S: Array, k: int) -> tuple[Array, ...]:
    """Return the columns of some rows; ``S`` (CP × CP) is the inverse information and ``k`` its rank."""
    C, s, rows, P = tile.A.shape[1], tile.s, tile.rows, tile.P
    B, V, r = tile.spread(S), curvatures(rows), -rows.gradient
    hat = s[:, None, None] * (V @ B)
    leverage = np.trace(hat, axis1=1, axis2=2)
    deviance, shrink = np.sqrt(2.0 * s * rows.value), np.sqrt(1.0 - leverage / C)
    if C == 1:
        # score / √information is (t − y) / √(y(1 − y)) for every link, and does not cancel.
        pearson = np.where(s > 0, np.sqrt(s) * r[:, 0] / np.sqrt(V[:, 0, 0]), 0.0)
        cooks = (pearson / (1.0 - leverage)) ** 2 * leverage / k
        deviance = np.where(tile.t == 1, deviance, -deviance)
        return P[:, 1], pearson, deviance, leverage, pearson / shrink, deviance / shrink, cooks
    hit = tile.t[:, None] == np.arange(C + 1)
    pearson = np.sqrt(s)[:, None] * (hit - P) / np.sqrt(P * (1.0 - P))
    # Without the row the information is I − s V ⊗ zzᵀ; by Woodbury its solution of s r ⊗ z is S Z q.
    q = np.linalg.solve(np.eye(C) - hat, (s[:, None] * r)[:, :, None])[:, :, 0]
    cooks = np.einsum("nj,njk,nk->n", q, B, q) / k
    return P, pearson, deviance, leverage, pearson / shrink[:, None], deviance / shrink, cooks
