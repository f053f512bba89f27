"""Marginal effects and diagnostics of a fitted model: what single rows say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.inputs import read_offset, read_weights
from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.margins import MarginalEffects, effects
from oddsmith.inference.residuals import Diagnostics, diagnose
from oddsmith.inference.sandwich import CovarianceKind
from oddsmith.inference.summary import wald_columns
from oddsmith.kernels.rowwise import At, Tile, tiles
from oddsmith.models.learned import Learned
from oddsmith.models.likelihood import Problem
from oddsmith.models.profiling import check_rows
from oddsmith.numerics import Array

PLACES = ("average", "mean", "median", "zero")


def each_tile(source: Any, at: At) -> Iterator[Tile]:
    """Yield the rows of a source, tile by tile."""
    for start, stop in source.slices():
        yield from tiles(source.block(start, stop), at)


def diagnostics(model: Any, learned: Learned, problem: Problem) -> Diagnostics:
    """Return the diagnostics of the rows of a fit; see ``LogisticRegression.diagnostics``."""
    S = np.zeros((learned.x.size, learned.x.size))
    kept = learned.kept
    S[np.ix_(kept, kept)] = model._covariance(learned, CovarianceKind("information"), None)
    found = diagnose(each_tile(problem.source, model._at(learned)), S, len(kept))
    check_rows(learned, -0.5 * float(found.deviance @ found.deviance))
    return found


def marginal_effects(
    model: Any,
    learned: Learned,
    V: Array,
    X: Any,
    sample_weight: Any,
    offset: Any,
    at: Any,
    discrete: Any,
    level: float,
) -> MarginalEffects:
    """Return marginal effects; see ``LogisticRegression.marginal_effects``."""
    if getattr(model, "basis", None) is not None:
        raise InvalidInputError(
            "marginal_effects is about columns that enter the model as they are, and this model sees them through "
            f"basis={model.basis!r}, where one column moves several weights. Compare predict_proba of changed rows."
        )
    names = [str(name) for name in model._names()]
    rows = model._rows(X)
    s = read_weights(sample_weight, rows.shape[0])
    shift = read_offset(offset, rows.shape[0], learned.K)
    which = _discrete(discrete, rows, names, _categories(getattr(model, "design_", None), names))
    where = model._at(learned)
    if at == "average":
        text = "averaged over the rows"
        source = MemorySource(rows, np.zeros(rows.shape[0], dtype=np.int32), learned.K, s, shift)
    else:
        row, text = _place(at, rows, s, names)
        if shift is not None:
            shift = np.average(shift, axis=0, weights=s)[None, :]
        source = MemorySource(row[None, :], np.zeros(1, dtype=np.int32), learned.K, None, shift)
    R, M = 1 if learned.K == 2 else learned.K, len(names)
    value, error = np.empty((R, M)), np.empty((R, M))
    for k in range(R):  # class by class: the derivatives of all at once would take K times the memory
        found = effects(each_tile(source, where), where, which, k)
        value[k], error[k] = found.value, found.errors(V, learned.kept)
    if model._separation is not None and model._separation.kind == "complete":
        error[:] = np.inf  # no weight has an estimate
    aliased = ~learned.free[:, 1:].any(axis=0)
    value[:, aliased] = error[:, aliased] = np.nan
    wald = wald_columns(value.ravel(), error.ravel(), level)
    labels = {} if R == 1 else {"class": [label for label in model.classes_.tolist() for _ in range(M)]}
    kinds = ["difference" if j in which else "slope" for j in range(M)]
    columns = {**labels, "term": names * R, "kind": kinds * R, "effect": wald.pop("estimate"), **wald}
    return MarginalEffects(columns, text, level)


def _categories(design: Any, names: list[str]) -> dict[int, list[int]]:
    """Return for each column of a category those of all its levels, and refuse designs that use a column twice."""
    if design is None or design.get_feature_names_out().tolist() != names:
        return {}
    used: set[str] = set()
    levels: dict[int, list[int]] = {}
    for term in design.terms_:
        own = [factor for factor in term.factors if factor.what != "indicator"]
        columns = {str(name) for factor in own for name in getattr(factor.of, "columns", (factor.of,))}
        is_category = len(own) == 1 and own[0].what == "levels"
        if columns & used or len(columns) > 1 or (own[0].full if is_category else term.width > 1):
            raise InvalidInputError(
                f"marginal_effects is about columns that move one weight each, or are a category beside a constant; "
                f"{term.names[0]!r} is of a column in several terms, of several columns, or one of all levels. Compare "
                "predict_proba of changed rows."
            )
        used |= columns
        if is_category:
            places = [names.index(name) for name in term.names]
            levels |= dict.fromkeys(places, places)
    return levels


def _discrete(discrete: Any, rows: Any, names: list[str], levels: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the columns that are taken as 0/1, each with those of its category."""
    if discrete is False:
        return {}
    binary = [j for j in range(len(names)) if j in levels or _is_binary(_column(rows, j))]
    if isinstance(discrete, str) and discrete == "auto":
        return {j: levels.get(j, [j]) for j in binary}
    if isinstance(discrete, bool | str) or not np.iterable(discrete):
        raise InvalidInputError(f"discrete must be 'auto', False or a list of columns, found {discrete!r}.")
    for name in discrete:
        if str(name) not in names:
            raise UnknownNameError("column", name, names)
        if names.index(str(name)) not in binary:
            raise InvalidInputError(f"Column {name!r} holds other values than 0 and 1: it is no difference of two.")
    places = [names.index(str(name)) for name in discrete]
    return {j: levels.get(j, [j]) for j in places}


def _column(rows: Any, j: int) -> Array:
    column = rows[:, [j]].toarray()[:, 0] if sparse.issparse(rows) else rows[:, j]
    return np.asarray(column, dtype=np.float64)


def _is_binary(column: Array) -> bool:
    ones = column == 1.0
    return bool(ones.any() and not ones.all() and np.all(ones | (column == 0.0)))


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InvalidInputError(f"at={{…}} must hold a finite number for each column, found {value!r} for {name!r}.")
    return number


def _place(at: Any, rows: Any, s: npt.NDArray[np.float64] | None, names: list[str]) -> tuple[Array, str]:
    """Return the row at which effects are taken, and the words for it."""
    mean = np.array([np.average(_column(rows, j), weights=s) for j in range(len(names))])
    if isinstance(at, Mapping):
        row = mean
        for name, value in at.items():
            if str(name) not in names:
                raise UnknownNameError("column", name, names)
            row[names.index(str(name))] = _number(name, value)
        return row, f"at {', '.join(f'{k} = {float(v):g}' for k, v in at.items())}, other columns at their mean"
    if at == "mean":
        return mean, "at the mean of the columns"
    if at == "median":
        inside = slice(None) if s is None else s > 0
        return np.array(
            [np.median(_column(rows, j)[inside]) for j in range(len(names))]
        ), "at the median of the columns"
    if at == "zero":
        return np.zeros(len(names)), "at zero"
    raise UnknownNameError("place", at, PLACES)
