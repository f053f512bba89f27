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
    """Effects (R × M; R = 1 for two classes) and their derivatives in the solver's weights (R × M × CP)."""

    value: Array
    jacobian: Array

    def errors(self, V: Array, kept: npt.NDArray[np.intp]) -> Array:
        """Return the standard errors if the weights that were estimated have covariance ``V``."""
        J = self.jacobian[:, :, kept]
        variance: Array = np.einsum("kjp,pq,kjq->kj", J, V, J, optimize=True)
        return np.sqrt(np.maximum(variance, 0.0))


def effects(tiles: Iterable[Tile], at: At, discrete: list[int]) -> Effects:
    """Return the effects averaged over rows: of a slope ``∂y_k/∂φ_j``, of a 0/1 column ``y_k(1) − y_k(0)``.

    With D = ∂y/∂a and E = ∂²y/∂a², both averaged (E times z), a slope is ``Σ_c D_kc w_cj`` and its derivative in the
    weights ``Σ_c E_kcl w_cj z + D_kl e_j``. So one pass suffices, and memory is O(K³M), none of it N (with J columns
    of 0/1, O(K²MJ)).
    """
    C, P = at.x.shape
    R = 1 if C == 1 else C + 1
    w = (at.T @ at.x)[:, 1:] / at.scale
    D, E, weight = np.zeros((R, C)), np.zeros((R, C, C, P)), 0.0
    change, moved = np.zeros((R, len(discrete))), np.zeros((R, len(discrete), C, P))
    for tile in tiles:
        first, second = _derivatives(tile.A, at)
        s = tile.s
        weight += float(s.sum())
        D += np.einsum("n,nkc->kc", s, first)
        E += np.einsum("nkcl,np->kclp", second * s[:, None, None, None], tile.Z, optimize=True)
        for i, j in enumerate(discrete):
            phi = tile.Z[:, 1 + j] * at.scale[j] + at.center[j]
            for value, sign in ((1.0, 1.0), (0.0, -1.0)):
                A = tile.A + np.outer(value - phi, w[:, j])
                change[:, i] += sign * (s @ _probability(A, at))
                slope = _derivatives(A, at)[0] * (sign * s)[:, None, None]
                part = np.einsum("nkc,np->kcp", slope, tile.Z, optimize=True)
                part[:, :, 1 + j] = slope.sum(axis=0) * ((value - at.center[j]) / at.scale[j])
                moved[:, i] += part
    D, E = D / weight, E / weight
    effect = D @ w
    J = np.einsum("kclp,cj->kjlp", E, w, optimize=True)
    for j in range(w.shape[1]):
        J[:, j, :, 1 + j] += D / at.scale[j]
    effect[:, discrete], J[:, discrete] = change / weight, moved / weight
    J = np.einsum("kjlp,lm->kjmp", J, at.T, optimize=True)
    return Effects(effect, J.reshape(R, w.shape[1], C * P))


def _probability(A: Array, at: At) -> Array:
    """Return the probabilities that effects are about, n × R."""
    if A.shape[1] > 1:
        P: Array = log_normaliser(A)[1]
        return P
    return LINKS["logit" if at.link is None else at.link.name].inverse(A)


def _derivatives(A: Array, at: At) -> tuple[Array, Array]:
    """Return ``∂y_k/∂a_c`` (n × R × C) and ``∂²y_k/∂a_c∂a_l`` (n × R × C × C)."""
    if A.shape[1] == 1:
        link = LINKS["logit" if at.link is None else at.link.name]
        return link.derivative(A)[:, :, None], link.second_derivative(A)[:, :, None, None]
    Y = _probability(A, at)
    C = A.shape[1]
    own = np.vstack([np.zeros((1, C)), np.eye(C)])
    rest = own[None] - Y[:, None, 1:]
    first = Y[:, :, None] * rest
    between = Y[:, 1:, None] * (np.eye(C)[None] - Y[:, None, 1:])
    second = Y[:, :, None, None] * (rest[:, :, :, None] * rest[:, :, None, :] - between[:, None])
    return first, second
