"""Covariances of estimates: from the information, robust (sandwich, clusters), and with a large factor eliminated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.bordered import BorderedFactor
from oddsmith.design.inputs import as_table
from oddsmith.engines import MemorySource, one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.fit_record import FitRecord, each_tile
from oddsmith.inference.laplace import Seed, standard_normals
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.losses import curvatures
from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.protocols import Indices
from oddsmith.rows import Rows
from oddsmith.statistics import ScoreScatter
from oddsmith.statistics.rowwise import WeightPoint, variances

NAMES = ("information", "observed", "sandwich", "cluster")
FACTORS = {"sandwich": ("HC0", "HC1", "HC2", "HC3"), "cluster": ("CR1", "CR0", "CR1S")}
"""Small-sample corrections of the robust covariances, the default first."""
LEVERAGES = ("HC2", "HC3")  # Corrections by the leverage of each row.


@dataclass(frozen=True)
class CovarianceKind:
    """Which covariance is asked for: ``name``, its small-sample factor, and the clusters (codes) if there are any."""

    name: str
    factor: str = ""
    codes: Indices | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether it takes another pass over the rows."""
        return self.name in FACTORS

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return 0 if self.codes is None else int(self.codes.max()) + 1

    @property
    def remark(self) -> str:
        """The text for the footer of a table."""
        return {
            "information": "standard errors from the expected information",
            "observed": "standard errors from the observed information",
            "sandwich": f"robust standard errors ({self.factor} sandwich)",
            "cluster": f"cluster-robust standard errors of {self.n_clusters} clusters ({self.factor})",
        }[self.name]


def read_covariance(covariance: object) -> CovarianceKind:
    """Read ``"information"``, ``"sandwich"``, ``("sandwich", "HC3")``, ``("cluster", ids)`` or with a factor."""
    parts = covariance if isinstance(covariance, tuple) else (covariance,)
    name = parts[0] if parts and isinstance(parts[0], str) else repr(covariance)
    if name not in NAMES:
        raise UnknownNameError("covariance", name, NAMES)
    known, needed = FACTORS.get(name, ()), 2 if name == "cluster" else 1
    if not needed <= len(parts) <= needed + bool(known):
        raise InvalidTypeError(
            "covariance must be 'information', 'observed', 'sandwich', ('sandwich', 'HC3') or ('cluster', ids), ids "
            "holding the cluster of each row or naming a column of X; found a "
            f"{type(covariance).__name__} of {len(parts)}, {name!r} first."
        )
    if not known:
        return CovarianceKind(name)
    factor = parts[needed] if len(parts) > needed else known[0]
    if factor not in known:
        raise UnknownNameError("sandwich" if name == "sandwich" else "factor for clusters", factor, known)
    return CovarianceKind(name, factor, _codes(parts[1]) if name == "cluster" else None)


def names_clusters(covariance: object) -> TypeGuard[tuple[str, str]]:
    """Whether clusters are asked for by the name of a column."""
    is_cluster = isinstance(covariance, tuple) and len(covariance) > 1 and covariance[0] == "cluster"
    return is_cluster and isinstance(covariance[1], str)  # type: ignore[index]


def name_clusters(covariance: tuple[str, str], X: object) -> tuple[object, ...]:
    """Return ``("cluster", ids)`` with the values of the column of the table ``X`` that ``ids`` names.

    >>> import pyarrow
    >>> name_clusters(("cluster", "ward"), pyarrow.table({"age": [40, 50], "ward": ["a", "b"]}))
    ('cluster', array(['a', 'b'], dtype=object))
    """
    table = None if X is None else as_table(X)
    if table is None:
        raise InvalidInputError(
            f"The clusters are given as column {covariance[1]!r}, but there is no table to take it from. Pass the "
            "table of the fit as X, or the cluster of each row in place of the name."
        )
    if covariance[1] not in table.columns:
        raise UnknownNameError("column for the clusters", covariance[1], table.columns)
    ids = np.asarray(table.get_column(covariance[1]).to_list(), dtype=object)
    return (covariance[0], ids, *covariance[2:])


def _codes(ids: object) -> Indices:
    values = np.asarray(ids)
    if values.ndim != 1:
        raise InvalidInputError(f"The clusters have shape {values.shape}; expected one identifier per row.")
    missing = values.dtype.kind == "f" and np.isnan(values).any()
    if missing or (values.dtype.kind == "O" and any(v is None or v != v for v in values.tolist())):
        raise InvalidInputError("The clusters contain missing values: every row needs a cluster.")
    different, codes = np.unique(values, return_inverse=True)
    if len(different) < 2:
        raise InvalidInputError("All rows are in one cluster, and cluster-robust standard errors need at least two.")
    return codes.astype(np.intp)


def covariance(fit: FitRecord, kind: CovarianceKind) -> Array:
    """Return the covariance of the solver's estimated weights; robust kinds take one pass over the rows of the fit."""
    state = fit.state
    with one_blas_thread():
        bread = factor_spd(state.objective_hessian(expected=kind.name != "observed"), tol=0.0)
        if not kind.needs_rows:
            V = bread.solve(np.eye(len(state.kept)))
            return (V + V.T) / 2.0
        if kind.factor in LEVERAGES:
            V = bread.solve(np.eye(len(state.kept)))
            meat, value = leverage_scatter(fit, (V + V.T) / 2.0, kind.factor)
            clusters = 0
        elif kind.codes is None:
            sums = fit.problem.engine.fold(ScoreScatter, fit.problem.source, fit.at)
            meat, value, clusters = sums.meat, sums.value, 0
        else:
            meat, value, clusters = cluster_scatter(fit.problem.memory_source, fit.at, kind.codes)
        state.require_same_rows(-value)
        n, kept = float(state.class_weight.sum()), state.kept
        return sandwich(bread, meat[np.ix_(kept, kept)], kind, n=n, k=len(kept), clusters=clusters)


def leverage_scatter(fit: FitRecord, V: Array, factor: str) -> tuple[Array, float]:
    """Return ``Σ s g gᵀ`` of scores corrected by leverages, and ``Σ s ℓ``; ``V`` is the inverse information.

    A row's score is ``r ⊗ z`` with the residuals r of its contrasts, and its hat matrix is ``h = V(a) B`` with the
    variance B of its activations. HC3 takes ``(I − h)⁻¹ r``, by how much the weights change without the row; HC2 (two
    classes) takes ``r / √(1 − h)``. A row of weight 2 counts as two rows, each with the leverage of one.
    """
    state = fit.state
    S = np.zeros((state.x.size, state.x.size))
    S[np.ix_(state.kept, state.kept)] = V
    if factor == "HC2" and state.K > 2:
        raise InvalidInputError("The correction HC2 is for two classes. Use ('sandwich', 'HC3').")
    meat, value = np.zeros_like(S), 0.0
    for tile in fit.tiles():
        C = tile.A.shape[1]
        left = np.eye(C) - curvatures(tile.rows) @ tile.spread(S)
        r = tile.rows.gradient
        r = np.asarray(r / np.sqrt(left[:, 0]) if factor == "HC2" else np.linalg.solve(left, r[:, :, None])[:, :, 0])
        G = ((r @ fit.at.T)[:, :, None] * tile.Z[:, None, :]).reshape(len(r), -1) * np.sqrt(tile.s)[:, None]
        meat += G.T @ G
        value += tile.loss
    return meat, value


def cluster_scatter(source: MemorySource, at: WeightPoint, codes: Indices) -> tuple[Array, float, int]:
    """Return ``Σ_g G_g G_gᵀ`` with ``G_g = Σ s · score`` over the rows of cluster g, ``Σ s ℓ``, and how many clusters.

    One pass; memory O(clusters × CP). Clusters whose rows all have weight 0 do not count.
    """
    if len(codes) != source.n_rows:
        raise InvalidInputError(
            f"{len(codes)} clusters were given for {source.n_rows} rows; every row needs a cluster."
        )
    n, value = int(codes.max()) + 1, 0.0
    sums, weight = np.zeros((n, at.x.size)), np.zeros(n)
    for tile in each_tile(source, at):
        inside = codes[tile.start : tile.start + len(tile.Z)]
        np.add.at(sums, inside, tile.scores() * tile.s[:, None])
        np.add.at(weight, inside, tile.s)
        value += tile.loss
    meat: Array = sums.T @ sums
    return meat, value, int(np.count_nonzero(weight))


def sandwich(bread: SpdFactor, meat: Array, kind: CovarianceKind, *, n: float, k: int, clusters: int = 0) -> Array:
    """Return ``factor · I⁻¹ M I⁻¹`` from the factor of the information ``I``, in the same coordinates.

    ``n`` is the total weight of the rows, ``k`` the number of weights estimated.

    | kind | factor | equal to (R, package sandwich) |
    |---|---|---|
    | HC0 | 1 | ``vcovHC(type = "HC0")`` |
    | HC1 | n / (n − k) | ``vcovHC(type = "HC1")`` |
    | HC2, HC3 | 1 (scores by `leverage_scatter`) | ``vcovHC(type = "HC2")``, ``vcovHC(type = "HC3")`` |
    | CR0 | 1 | ``vcovCL(type = "HC0", cadjust = FALSE)`` |
    | CR1 | G / (G − 1) | ``vcovCL(type = "HC0")`` |
    | CR1S | G / (G − 1) · (n − 1) / (n − k) | ``vcovCL(type = "HC1")`` |
    """
    factor = 1.0
    if kind.factor in ("HC1", "CR1S") and n <= k:
        raise InvalidInputError(f"The factor {kind.factor} needs more rows than weights: found {n:g} and {k}.")
    if kind.factor == "HC1":
        factor = n / (n - k)
    if kind.factor in ("CR1", "CR1S"):
        if clusters < 2:
            raise InvalidInputError("Cluster-robust standard errors need at least two clusters of positive weight.")
        factor = clusters / (clusters - 1.0)
    if kind.factor == "CR1S":
        factor *= (n - 1.0) / (n - k)
    half = bread.solve(bread.solve(meat).T)
    return np.asarray(factor * (half + half.T) / 2.0)


@dataclass(frozen=True, eq=False)
class EliminatedCovariance:
    """The inverse Hessian of two classes over a table whose largest factor is eliminated.

    It is never formed: the Schur complement of the other weights gives the variance of single rows, and draws.
    """

    state: FittedState
    factor: BorderedFactor

    @classmethod
    def of(cls, state: FittedState) -> EliminatedCovariance | None:
        """Return the covariance of a fit whose only Hessian has a factor eliminated, None for other fits."""
        eliminated = state.hessian is None and state.bordered is not None
        return cls(state, state.bordered_factor) if eliminated else None

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        """Which weights were estimated."""
        return np.asarray(self.state.free[0])

    def solve(self, G: Array) -> Array:
        """Return the covariance times each row of ``G``, n × P."""
        return np.where(self.free, self.factor.solve(np.where(self.free, G, 0.0).T).T, 0.0)

    def activations(self, rows: Rows) -> Array:
        """Return the activation of each row, n × 1, without the offset."""
        w = self.state.weights()
        return rows.activations(w[:, 1:].T) + w[:, 0]

    def spread(self, rows: Rows) -> Array:
        """Return the variance of each row's activation, n × 1 × 1. Cost: O(R²) a row, R weights outside the factor."""
        c = self.state.coordinates
        return variances(rows, self.factor, c.center, c.scale, self.free)[:, None, None]

    def sample(self, n: int, seed: Seed) -> Array:
        """Return ``n`` draws of the weights less their mean, in the solver's coordinates, n × P."""
        H, schur = self.factor.H, self.factor.schur
        z = standard_normals(n, H.shape[0], seed)
        rest = linalg.solve_triangular(schur.L, H.rest(z.T), lower=True, trans=1).T / schur.d
        root = np.where(self.factor.there, np.sqrt(np.where(self.factor.there, H.d, 1.0)), np.inf)
        levels = z[:, H.start : H.stop] / root - rest @ self.factor.G.T
        return np.where(self.free, H.join(rest.T, levels.T).T, 0.0)

    def log_det(self) -> float:
        """Return the log determinant of the Hessian over the weights that were estimated."""
        fixed = self.factor.H.diagonal()[~self.free]
        return self.factor.log_det() - float(np.log(fixed).sum())
