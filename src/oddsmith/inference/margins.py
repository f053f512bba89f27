"""Marginal effects: how the probability of a class moves with a column, with errors by the delta method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.inference.tables import ReportTable
from oddsmith.kernels.rowwise import At, Tile
from oddsmith.links import LINKS
from oddsmith.numerics import Array, log_normaliser


@dataclass(frozen=True)
class MarginalEffects(ReportTable):
    """The effect of each column on the probability of each class (of the second, where there are two).

    Columns ``class`` (more than two), ``term``, ``kind`` (``"slope"``, or ``"difference"`` between 1 and 0),
    ``effect``, ``std_error``, ``z``, ``p_value``, ``lower``, ``upper``; each is an attribute too.
    """

    columns: Mapping[str, Any]
    at: str
    level: float = 0.95

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "columns" or name not in self.columns:
            raise AttributeError(name)
        return np.asarray(self.columns[name])

    def _header(self, name: str) -> str:
        if name in ("lower", "upper"):
            return f"{50 * (1 + self.level * (-1 if name == 'lower' else 1)):.4g}%"
        return {"term": "", "p_value": "p"}.get(name, super()._header(name))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {name: np.asarray(values).tolist() for name, values in self.columns.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the effects are taken."""
        return (f"effects on the probability, {self.at}; errors by the delta method",)


@dataclass(frozen=True)
class Effects:
    """Effects of M columns on the probability of one class, and their derivatives in the solver's weights (M × CP)."""

    value: Array
    jacobian: Array

    def errors(self, V: Array, kept: npt.NDArray[np.intp]) -> Array:
        """Return the standard errors if the weights that were estimated have covariance ``V``."""
        J = self.jacobian[:, kept]
        variance: Array = ((J @ V) * J).sum(axis=1)
        return np.sqrt(np.maximum(variance, 0.0))


def effects(tiles: Iterable[Tile], at: At, discrete: Mapping[int, list[int]], k: int) -> Effects:
    """Return the effects averaged over rows: of a slope ``∂y_k/∂φ_j``, of a 0/1 column ``y_k(1) − y_k(0)``.

    With D = ∂y_k/∂a and E = ∂²y_k/∂a², both averaged (E times z), a slope is ``Σ_c D_c w_cj`` and its derivative in
    the weights ``Σ_c E_cl w_cj z + D_l e_j``. One pass; memory O(K M (K + M)), none of it N, and less than the
    covariance of the weights has. ``discrete`` has for each 0/1 column those of its category (itself among them): a row
    that is given one level has no other. ``k`` is the class (for two classes 0: there is one probability).
    """
    C, P = at.x.shape
    w = (at.T @ at.x)[:, 1:] / at.scale
    D, E, weight = np.zeros(C), np.zeros((C, C, P)), 0.0
    change, moved = np.zeros(len(discrete)), np.zeros((len(discrete), C, P))
    for tile in tiles:
        s = tile.s
        weight += float(s.sum())
        D += s @ _slope(tile.A, at, k)
        E += _curvature(tile.A, tile.Z, s, at, k)
        for i, (j, levels) in enumerate(discrete.items()):
            phi = tile.Z[:, 1 + np.array(levels)] * at.scale[levels] + at.center[levels]
            for value, sign in ((1.0, 1.0), (0.0, -1.0)):
                there = np.where(np.array(levels) == j, value, 0.0)
                A = tile.A + (there - phi) @ w[:, levels].T
                change[i] += sign * float(s @ _probability(A, at)[:, k])
                slope = _slope(A, at, k) * (sign * s)[:, None]
                part = slope.T @ tile.Z
                scaled = (there - at.center[levels]) / at.scale[levels]
                part[:, 1 + np.array(levels)] = np.outer(slope.sum(axis=0), scaled)
                moved[i] += part
    D, E = D / weight, E / weight
    effect = D @ w
    J = np.einsum("clp,cj->jlp", E, w, optimize=True)
    for j in range(w.shape[1]):
        J[j, :, 1 + j] += D / at.scale[j]
    columns = list(discrete)
    effect[columns], J[columns] = change / weight, moved / weight
    J = np.einsum("jlp,lm->jmp", J, at.T, optimize=True)
    return Effects(effect, J.reshape(w.shape[1], C * P))


def _probability(A: Array, at: At) -> Array:
    """Return the probabilities that effects are about, n × K (n × 1 for two classes)."""
    if A.shape[1] > 1:
        P: Array = log_normaliser(A)[1]
        return P
    return LINKS["logit" if at.link is None else at.link.name].inverse(A)


def _slope(A: Array, at: At, k: int) -> Array:
    """Return ``∂y_k/∂a_c``, n × C: for softmax ``y_k (δ_kc − y_c)``."""
    if A.shape[1] == 1:
        return LINKS["logit" if at.link is None else at.link.name].derivative(A)
    Y = _probability(A, at)
    slope: Array = Y[:, [k]] * ((np.arange(1, Y.shape[1]) == k) - Y[:, 1:])
    return slope


def _curvature(A: Array, Z: Array, s: Array, at: At, k: int) -> Array:
    """Return ``Σ_n s_n ∂²y_k/∂a_c∂a_l z_n``, C × C × P.

    For softmax the second derivative is ``y_k (2 y_c y_l − δ_cl y_c − δ_kc y_l − δ_kl y_c + δ_kc δ_kl)``, whose parts
    are summed as products of matrices, so that no row has a C × C matrix of its own.
    """
    C, P = A.shape[1], Z.shape[1]
    if C == 1:
        second = LINKS["logit" if at.link is None else at.link.name].second_derivative(A)
        return np.asarray(((s[:, None] * second).T @ Z)[None])
    Y = _probability(A, at)
    weight, Y = (s * Y[:, k])[:, None] * Z, np.ascontiguousarray(Y[:, 1:])
    E = np.stack([2.0 * ((Y * weight[:, [p]]).T @ Y) for p in range(P)], axis=2)
    total = Y.T @ weight
    diagonal = np.arange(C)
    E[diagonal, diagonal] -= total
    if k > 0:
        E[k - 1] -= total
        E[:, k - 1] -= total
        E[k - 1, k - 1] += weight.sum(axis=0)
    return E
