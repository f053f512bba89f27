"""Marginal effects of columns on class probabilities, with delta-method standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.design.class_weight import read_weights
from oddsmith.design.inputs import read_offset
from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.covariance import CovarianceKind, covariance
from oddsmith.inference.fit_record import FitRecord, each_tile, expression_of, standard_errors
from oddsmith.inference.summary import wald_columns
from oddsmith.inference.tables import ColumnTable
from oddsmith.likelihood.separation import DesignRows
from oddsmith.links import LINKS, Link
from oddsmith.numerics import Array, log_normaliser
from oddsmith.statistics.rowwise import Tile, WeightPoint

PLACES = ("average", "mean", "median", "zero")


@dataclass(frozen=True, repr=False)
class MarginalEffects(ColumnTable):
    """The effect of each column on the probability of each class (for two classes, of the second).

    The columns are ``class`` (for more than two), ``term``, ``kind`` (``"slope"``, or ``"difference"`` between 1 and
    0), ``effect``, ``std_error``, ``z``, ``p_value``, ``lower``, ``upper``; each is also an attribute.
    """

    columns: Mapping[str, Any]
    at: str
    level: float = 0.95

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"effects on the probability, {self.at}; standard errors by the delta method",)


def marginal_effects(
    fit: FitRecord,
    rows: DesignRows,
    *,
    kind: CovarianceKind,
    sample_weight: object,
    offset: object,
    at: object,
    discrete: object,
    level: float,
) -> MarginalEffects:
    """Return marginal effects; see ``LogisticRegression.marginal_effects``."""
    if fit.basis is not None:
        raise InvalidInputError(
            "marginal_effects is about columns that enter the model as they are, and this model sees them through "
            f"basis={fit.basis!r}, where one column moves several weights. Compare predict_proba of changed rows."
        )
    state, names, K = fit.state, list(fit.names), len(fit.classes)
    V = covariance(fit, kind)
    s = read_weights(sample_weight, rows.shape[0])
    shift = read_offset(offset, rows.shape[0], K)
    which = _discrete(discrete, rows, fit)
    if isinstance(at, str) and at == "average":
        text = "averaged over the rows"
        source = MemorySource(rows, np.zeros(rows.shape[0], dtype=np.int32), K, s, shift)
    else:
        row, text = _evaluation_row(at, rows, s, fit)
        if shift is not None:
            shift = np.average(shift, axis=0, weights=s)[None, :]
        source = MemorySource(row[None, :], np.zeros(1, dtype=np.int32), K, None, shift)
    R, M = 1 if K == 2 else K, len(names)
    value, error = np.empty((R, M)), np.empty((R, M))
    for k in range(R):  # class by class: the derivatives of all at once would take K times the memory
        value[k], J = effects(each_tile(source, fit.at), fit.at, which, k)
        error[k] = standard_errors(J[:, state.kept], V)
    if fit.separation is not None and fit.separation.kind == "complete":
        error[:] = np.inf  # no weight has an estimate
    aliased = ~state.free[:, 1:].any(axis=0)
    value[:, aliased] = error[:, aliased] = np.nan
    wald = wald_columns(value.ravel(), error.ravel(), level)
    labels = {} if R == 1 else {"class": [label for label in fit.classes for _ in range(M)]}
    kinds = ["difference" if j in which else "slope" for j in range(M)]
    columns = {**labels, "term": names * R, "kind": kinds * R, "effect": wald.pop("estimate"), **wald}
    return MarginalEffects(columns, text, level)


def effects(tiles: Iterable[Tile], at: WeightPoint, discrete: Mapping[int, list[int]], k: int) -> tuple[Array, Array]:
    """Return the mean effects of M columns over rows, and their derivatives in the solver's weights, M × CP.

    An effect is a slope ``∂y_k/∂φ_j``, or of a 0/1 column ``y_k(1) − y_k(0)``. With D = ∂y_k/∂a and E = ∂²y_k/∂a², both
    averaged (E times z), a slope is ``Σ_c D_c w_cj`` and its derivative in the weights ``Σ_c E_cl w_cj z + D_l e_j``.
    ``discrete`` lists for each 0/1 column all columns of its category: setting one level clears the others. ``k`` is
    the class (0 for two classes, which have one probability). One pass; memory O(K M (K + M)).
    """
    C, P = at.x.shape
    link = LINKS["logit"] if at.link is None else at.link
    w = (at.T @ at.x)[:, 1:] / at.scale
    D, E, weight = np.zeros(C), np.zeros((C, C, P)), 0.0
    change, moved = np.zeros(len(discrete)), np.zeros((len(discrete), C, P))
    for tile in tiles:
        s = tile.s
        weight += float(s.sum())
        D += s @ _slope(tile.A, link, k)
        E += _curvature(tile.A, tile.Z, s, link, k)
        for i, (j, levels) in enumerate(discrete.items()):
            phi = tile.Z[:, 1 + np.array(levels)] * at.scale[levels] + at.center[levels]
            for value, sign in ((1.0, 1.0), (0.0, -1.0)):
                there = np.where(np.array(levels) == j, value, 0.0)
                A = tile.A + (there - phi) @ w[:, levels].T
                change[i] += sign * float(s @ _probability(A, link)[:, k])
                slope = _slope(A, link, k) * (sign * s)[:, None]
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
    return effect, J.reshape(w.shape[1], C * P)


def _probability(A: Array, link: Link) -> Array:
    """Return the probabilities whose effects are computed, n × K (n × 1 for two classes)."""
    return np.asarray(log_normaliser(A)[1]) if A.shape[1] > 1 else link.inverse(A)


def _slope(A: Array, link: Link, k: int) -> Array:
    """Return ``∂y_k/∂a_c``, n × C: for softmax ``y_k (δ_kc − y_c)``."""
    if A.shape[1] == 1:
        return link.derivative(A)
    Y = _probability(A, link)
    return np.asarray(Y[:, [k]] * ((np.arange(1, Y.shape[1]) == k) - Y[:, 1:]))


def _curvature(A: Array, Z: Array, s: Array, link: Link, k: int) -> Array:
    """Return ``Σ_n s_n ∂²y_k/∂a_c∂a_l z_n``, C × C × P.

    For softmax the second derivative is ``y_k (2 y_c y_l − δ_cl y_c − δ_kc y_l − δ_kl y_c + δ_kc δ_kl)``, whose parts
    are summed as matrix products, without a C × C matrix for each row.
    """
    C, P = A.shape[1], Z.shape[1]
    if C == 1:
        return np.asarray(((s[:, None] * link.second_derivative(A)).T @ Z)[None])
    Y = _probability(A, link)
    weight, Y = (s * Y[:, k])[:, None] * Z, np.ascontiguousarray(Y[:, 1:])
    E = np.stack([2.0 * ((Y * weight[:, [p]]).T @ Y) for p in range(P)], axis=2)
    total = Y.T @ weight
    E[np.arange(C), np.arange(C)] -= total
    if k > 0:
        E[k - 1] -= total
        E[:, k - 1] -= total
        E[k - 1, k - 1] += weight.sum(axis=0)
    return E


def _categories(fit: FitRecord) -> dict[int, list[int]]:
    """Return the columns of all levels for each column of a category; refuse designs that use a column twice."""
    used: set[str] = set()
    levels: dict[int, list[int]] = {}
    for start, term in fit.places_of_terms:
        own = [factor for factor in term.factors if factor.what != "indicator"]
        columns = {name for factor in own for name in expression_of(factor).columns}
        is_category = len(own) == 1 and own[0].what == "levels"
        if columns & used or len(columns) > 1 or (own[0].full if is_category else term.width > 1):
            raise InvalidInputError(
                f"marginal_effects is about columns that move one weight each, or are a category beside a constant; "
                f"{term.names[0]!r} is of a column in several terms, of several columns, or one of all levels. Compare "
                "predict_proba of changed rows."
            )
        used |= columns
        if is_category:
            places = list(range(start, start + term.width))
            levels |= dict.fromkeys(places, places)
    return levels


def _discrete(discrete: object, rows: DesignRows, fit: FitRecord) -> dict[int, list[int]]:
    """Return the columns treated as 0/1, each with all columns of its category."""
    levels = _categories(fit)
    if discrete is False:
        return {}
    chosen = binary = [j for j in range(len(fit.names)) if j in levels or _is_binary(_column(rows, j))]
    if not isinstance(discrete, str) or discrete != "auto":
        if isinstance(discrete, str) or not isinstance(discrete, Iterable):
            raise InvalidInputError(f"discrete must be 'auto', False or a list of columns, found {discrete!r}.")
        chosen = [fit.column(name) for name in discrete]
        for j in chosen:
            if j not in binary:
                name = fit.names[j]
                raise InvalidInputError(
                    f"Column {name!r} holds values other than 0 and 1, so it has no discrete difference."
                )
    return {j: levels.get(j, [j]) for j in chosen}


def _column(rows: DesignRows, j: int) -> Array:
    column = rows[:, j] if isinstance(rows, np.ndarray) else rows[:, [j]].toarray()[:, 0]
    return np.asarray(column, dtype=np.float64)


def _is_binary(column: Array) -> bool:
    ones = column == 1.0
    return bool(ones.any() and not ones.all() and np.all(ones | (column == 0.0)))


def _evaluation_row(at: object, rows: DesignRows, s: Array | None, fit: FitRecord) -> tuple[Array, str]:
    """Return the row at which effects are evaluated, and its description."""
    M = len(fit.names)
    mean = np.array([np.average(_column(rows, j), weights=s) for j in range(M)])
    if isinstance(at, Mapping):
        for name, value in at.items():
            j = fit.column(name)
            try:
                mean[j] = float(value)
            except (TypeError, ValueError):
                mean[j] = np.nan
            if not np.isfinite(mean[j]):
                raise InvalidInputError(
                    f"at={{…}} must hold a finite number for each column, found {value!r} for {name!r}."
                )
        return mean, f"at {', '.join(f'{k} = {float(v):g}' for k, v in at.items())}, other columns at their mean"
    if at == "mean":
        return mean, "at the mean of the columns"
    if at == "median":
        inside = slice(None) if s is None else s > 0
        return np.array([np.median(_column(rows, j)[inside]) for j in range(M)]), "at the median of the columns"
    if at == "zero":
        return np.zeros(M), "at zero"
    raise UnknownNameError("place", at, PLACES)
