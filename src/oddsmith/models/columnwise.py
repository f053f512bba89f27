"""Naive Bayes from sums to densities: which family each column has, what its parameters are, and their product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.columns import Columns
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.models.families import (
    BernoulliColumns,
    CategoricalColumns,
    GaussianColumns,
    MultinomialColumns,
    PoissonColumns,
)
from oddsmith.models.singular import Names, check_observed, check_variances
from oddsmith.numerics import Array
from oddsmith.statistics import Features, FeaturesParams
from oddsmith.statistics.features import FRACTIONAL, NEGATIVE, NOT_BINARY

Indices = npt.NDArray[np.intp]

FAMILIES = ("bernoulli", "categorical", "gaussian", "multinomial", "poisson")
BY_KIND = {"boolean": "bernoulli", "integer": "integer", "float": "gaussian", "text": "categorical"}
DISPERSION = (0.5, 2.0)
"""Counts whose variance within classes is this many times their mean are taken for Poisson counts."""

TILE_ELEMENTS = 1 << 17


@dataclass(frozen=True)
class Column:
    """A column's name, its family (``"integer"``: decided when the sums are known), its type, its levels if any."""

    name: str
    family: str
    kind: str
    levels: tuple[Any, ...] = ()


Plan = tuple[Column, ...]


def make_plan(columns: Columns, features: Any) -> Plan:
    """Return the family of each column: as ``features`` says, by type where it says nothing.

    >>> columns = Columns(["age", "red"], ["float", "boolean"], np.zeros((2, 2)))
    >>> [column.family for column in make_plan(columns, {"age": "poisson"})]
    ['poisson', 'bernoulli']
    """
    chosen = dict.fromkeys(range(len(columns.names)), "auto")
    if isinstance(features, str):
        chosen = dict.fromkeys(chosen, features)
    elif isinstance(features, Mapping):
        for key, family in features.items():
            chosen[_index(columns.names, key)] = family
    elif isinstance(features, list | tuple | np.ndarray):
        if len(features) != len(chosen):
            raise InvalidInputError(f"features lists {len(features)} families, and there are {len(chosen)} columns.")
        chosen = dict(enumerate(features))
    else:
        raise InvalidTypeError(
            "features must be 'auto', a family, a list of families or a mapping from column to family, found "
            f"{features!r}."
        )
    plan = []
    for j, (name, kind) in enumerate(zip(columns.names, columns.kinds, strict=True)):
        family = chosen[j]
        if family != "auto" and family not in FAMILIES:
            raise UnknownNameError(f"family for column {name!r}:", family, ["auto", *FAMILIES])
        plan.append(Column(name, BY_KIND[kind] if family == "auto" else family, kind))
    return tuple(plan)


def more_rows(plan: Plan, columns: Columns) -> Plan:
    """Return the plan for more rows of the same columns; whole numbers that turn out to be floats are Gaussian."""
    return tuple(
        replace(column, family="gaussian") if column.family == "integer" and kind == "float" else column
        for column, kind in zip(plan, columns.kinds, strict=True)
    )


def _index(names: list[str], key: Any) -> int:
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and -len(names) <= key < len(names):
        return int(key) % len(names)
    if key in names:
        return names.index(key)
    raise UnknownNameError("column in features:", key, names)


def encode(columns: Columns, plan: Plan, *, extend: bool) -> tuple[Any, Plan, dict[str, list[Any]]]:
    """Return the rows as numbers, the plan with its levels, and the values that are none of the known levels.

    With ``extend`` such values become new levels, otherwise they are missing.
    """
    categorical = [j for j, column in enumerate(plan) if column.family == "categorical"]
    if columns.rows is not None and not categorical:
        return columns.rows, plan, {}
    if sparse.issparse(columns.rows):
        raise InvalidTypeError(
            f"Column {plan[categorical[0]].name!r} is categorical, but the zeros of a sparse matrix are no "
            "categories. Pass a dense array or a table."
        )
    coded, unknown, rows = list(plan), {}, np.empty((columns.n_rows, len(plan)))
    for j, column in enumerate(plan):
        if column.family != "categorical":
            rows[:, j] = columns.numbers(j)
            continue
        values, codes = columns.categories(j)
        levels = column.levels
        if extend:
            levels = _union(levels, values)
            coded[j] = replace(column, levels=levels)
        place = {level: float(i) for i, level in enumerate(levels)}
        there = ~np.isnan(codes)
        table = np.array([place.get(value, np.nan) for value in values] or [np.nan])
        rows[:, j] = np.where(there, table[np.where(there, codes, 0.0).astype(np.intp)], np.nan)
        used = set(np.unique(codes[there]).astype(int).tolist())
        strange = [value for i, value in enumerate(values) if value not in place and i in used]
        if strange:
            unknown[column.name] = strange
    return rows, tuple(coded), unknown


def _union(a: tuple[Any, ...], b: Any) -> tuple[Any, ...]:
    values = {value for value in (*a, *b) if value is not None}
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def params_of(plan: Plan, K: int) -> FeaturesParams:
    """Return which columns are summed how."""
    moments, sums = columns_in(plan, "gaussian", "integer"), sum_columns(plan)
    levels = [(int(j), len(plan[j].levels)) for j in columns_in(plan, "categorical")]
    return FeaturesParams(K, tuple(moments.tolist()), tuple(sums.tolist()), tuple(levels))


def columns_in(plan: Plan, *families: str) -> Indices:
    """Return the columns of some families."""
    return np.array([j for j, column in enumerate(plan) if column.family in families], dtype=np.intp)


def sum_columns(plan: Plan) -> Indices:
    """Return the columns whose values are added up."""
    return columns_in(plan, "bernoulli", "poisson", "multinomial", "integer")


def check_domain(stat: Features, plan: Plan, rows: Any) -> None:
    """Refuse values that a family does not have, by the name of the column and the first such row."""
    refused = {
        "bernoulli": (NOT_BINARY, "values other than 0 and 1", "0, 1, or truth values"),
        "poisson": (FRACTIONAL, "values that are not whole numbers", "counts 0, 1, 2 …"),
        "multinomial": (NEGATIVE, "negative values", "counts of zero or more"),
    }
    for i, j in enumerate(sum_columns(plan)):
        family = plan[j].family
        if family == "integer":
            continue
        mark, found, expected = refused[family]
        if family == "poisson" and stat.outside[NEGATIVE, i] > 0:
            mark, found = NEGATIVE, "negative values"
        if stat.outside[mark, i] > 0:
            values = rows[:, [j]]
            values = np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64).ravel()
            with np.errstate(invalid="ignore"):
                tests = (values < 0, values != np.floor(values), (values != 0) & (values != 1))
            row = int(np.argmax(tests[mark] & ~np.isnan(values)))
            raise InvalidInputError(
                f"Column {plan[j].name!r} has {found}, the first in row {row} ({values[row]:g}); the {family} family "
                f"takes {expected}. Correct them, or choose another family: features={{{plan[j].name!r}: 'gaussian'}}."
            )


# --------------------------------------------------------------------------------------------- merging


def join_plans(a: Plan, b: Plan) -> Plan:
    """Return the plan of both parts of the data: all levels, whole numbers and fractions together as Gaussian."""
    joined = []
    for one, other in zip(a, b, strict=True):
        family = one.family
        if other.family != family:
            if {family, other.family} != {"gaussian", "integer"}:
                raise InvalidInputError(
                    f"Column {one.name!r} is {family} in one part and {other.family} in the other. Name its family in "
                    f"features, such as features={{{one.name!r}: {family!r}}}, when fitting both."
                )
            family = "gaussian"
        joined.append(Column(one.name, family, one.kind, _union(one.levels, other.levels)))
    return tuple(joined)


def recast(stat: Features, plan: Plan, to: Plan) -> Features:
    """Return the statistic that the same rows have under the plan ``to``, which has the levels of ``plan`` and more."""
    had, kept = sum_columns(plan).tolist(), sum_columns(to).tolist()
    sums = [had.index(j) for j in kept]
    parts, start = [np.zeros((len(stat.weight), 0))], 0
    for j in columns_in(to, "categorical"):
        old, new = plan[j].levels, to[j].levels
        count = np.zeros((len(stat.weight), len(new)))
        count[:, [new.index(level) for level in old]] = stat.count[:, start : start + len(old)]
        parts.append(count)
        start += len(old)
    return replace(
        stat,
        seen=stat.seen[:, sums],
        total=stat.total[:, sums],
        outside=stat.outside[:, sums],
        count=np.concatenate(parts, axis=1),
    )


# ------------------------------------------------------------------------------------------ estimation


def resolve(stat: Features, plan: Plan) -> Plan:
    """Decide about whole numbers: 0 and 1 only, counts as Poisson counts are, or numbers like any other."""
    moments, sums = columns_in(plan, "gaussian", "integer").tolist(), sum_columns(plan).tolist()
    resolved = list(plan)
    for j in columns_in(plan, "integer"):
        outside, m = stat.outside[:, sums.index(j)], moments.index(j)
        family = "gaussian"
        if outside[NOT_BINARY] == 0:
            family = "bernoulli"
        elif outside[NEGATIVE] == 0 and outside[FRACTIONAL] == 0:
            level = float(stat.observed[:, m] @ stat.mean[:, m])
            low, high = DISPERSION
            if low * level <= float(stat.scatter[:, m].sum()) <= high * level:
                family = "poisson"
        resolved[j] = replace(plan[j], family=family)
    return tuple(resolved)


@dataclass(frozen=True)
class Smoothing:
    """``additive`` is added to every count; ``variance`` times the largest variance of a column to every variance."""

    additive: float
    variance: float


def estimate(stat: Features, plan: Plan, smoothing: Smoothing, classes: npt.NDArray[Any]) -> NaiveDensities:
    """Return the densities, family by family."""
    resolved = resolve(stat, plan)
    parts: list[Any] = []
    for family, fit in _ESTIMATORS.items():
        columns = columns_in(resolved, family)
        if len(columns):
            parts.append(fit(stat, plan, columns, smoothing, classes))
    return NaiveDensities(tuple(parts), resolved)


def _gaussian(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> GaussianColumns:
    inside = np.searchsorted(columns_in(plan, "gaussian", "integer"), columns)
    part = replace(stat, **{name: getattr(stat, name)[:, inside] for name in ("observed", "mean", "scatter")})
    names = Names(np.array([plan[j].name for j in columns], dtype=object), classes)
    check_observed(part.observed, names)
    observed, mean = part.observed, part.mean
    grand = (observed * mean).sum(axis=0) / observed.sum(axis=0)
    spread = (part.scatter + observed * (mean - grand) ** 2).sum(axis=0) / observed.sum(axis=0)
    variance = part.scatter / observed + smoothing.variance * spread.max()
    check_variances(variance, part, names)
    return GaussianColumns(columns, mean, variance)


def _sums(stat: Features, plan: Plan, columns: Indices) -> tuple[Array, Array]:
    """Return ``seen`` and ``total`` of some columns."""
    inside = np.searchsorted(sum_columns(plan), columns)
    return stat.seen[:, inside], stat.total[:, inside]


def _check_seen(seen: Array, smoothing: Smoothing, plan: Plan, columns: Indices, classes: npt.NDArray[Any]) -> None:
    if smoothing.additive == 0:
        check_observed(seen, Names(np.array([plan[j].name for j in columns], dtype=object), classes))


def _bernoulli(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> BernoulliColumns:
    seen, total = _sums(stat, plan, columns)
    _check_seen(seen, smoothing, plan, columns, classes)
    whole = seen + 2.0 * smoothing.additive
    return BernoulliColumns(columns, (total + smoothing.additive) / whole, (seen - total + smoothing.additive) / whole)


def _poisson(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> PoissonColumns:
    seen, total = _sums(stat, plan, columns)
    _check_seen(seen, smoothing, plan, columns, classes)
    # As if each class had been seen in so many more rows with the mean of the column, itself kept off zero.
    level = (total.sum(axis=0) + 1.0) / (seen.sum(axis=0) + 1.0)
    return PoissonColumns(columns, (total + smoothing.additive * level) / (seen + smoothing.additive))


def _multinomial(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> MultinomialColumns:
    seen, total = _sums(stat, plan, columns)
    if not np.allclose(seen, stat.weight[:, None], rtol=1e-9):
        j = int(columns[np.argmin((seen / stat.weight[:, None]).min(axis=0))])
        raise InvalidInputError(
            f"Column {plan[j].name!r} has missing values, and the multinomial family is fitted to complete counts. "
            "Fill them (with 0, if nothing was counted), drop these rows, or use the poisson family. (At prediction "
            "they are fine.)"
        )
    smoothed = total + smoothing.additive
    sums = smoothed.sum(axis=1)
    if (sums <= 0).any():
        label = classes.tolist()[int(np.argmin(sums))]
        raise InvalidInputError(
            f"All counts of class {label!r} are zero, so its shares are unknown. Use smoothing > 0."
        )
    return MultinomialColumns(columns, smoothed / sums[:, None], float(total.sum() / stat.weight.sum()))


def _categorical(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> CategoricalColumns:
    sizes = [len(plan[j].levels) for j in columns_in(plan, "categorical")]
    starts = np.cumsum([0, *sizes])
    counts = [stat.count[:, a:b] for a, b in pairwise(starts)]
    seen = np.column_stack([count.sum(axis=1) for count in counts])
    _check_seen(np.where(np.array(sizes) > 0, seen, 0.0), smoothing, plan, columns, classes)
    for j, size in zip(columns, sizes, strict=True):
        if not size:
            raise InvalidInputError(f"Column {plan[j].name!r} is missing in every row. Leave it out.")
    smoothed = [count + smoothing.additive for count in counts]
    return CategoricalColumns(columns, tuple(count / count.sum(axis=1, keepdims=True) for count in smoothed))


_ESTIMATORS: dict[str, Any] = {
    "gaussian": _gaussian,
    "bernoulli": _bernoulli,
    "poisson": _poisson,
    "multinomial": _multinomial,
    "categorical": _categorical,
}


# ------------------------------------------------------------------------------------------- densities


@dataclass(frozen=True)
class NaiveDensities:
    """The product of the densities of all columns, independent within a class."""

    parts: tuple[Any, ...]
    plan: Plan

    @property
    def n_parameters(self) -> int:
        """Parameters of all columns."""
        return sum(part.n_parameters for part in self.parts)

    def log_density(self, rows: Any) -> Array:
        """Return ``log p(x | C_k)``, N × K; missing values are integrated out."""
        return self._sum(rows, normalised=True)

    def activations(self, rows: Any) -> Array:
        """Return the log densities up to a term that is the same for all classes."""
        return self._sum(rows, normalised=False)

    def _sum(self, rows: Any, *, normalised: bool) -> Array:
        tiles = [
            sum(part.log_density(_select(X, part.columns), normalised=normalised) for part in self.parts)
            for X in _tiles(rows)
        ]
        return np.concatenate(tiles)

    def sample(self, t: Indices, rng: np.random.Generator) -> Any:
        """Draw rows of the classes ``t``: an array if all columns are of one type, else a list of columns."""
        X = np.empty((len(t), len(self.plan)))
        for part in self.parts:
            X[:, part.columns] = part.sample(t, rng)
        columns = [_as_fitted(x, column) for x, column in zip(X.T, self.plan, strict=True)]
        types = {x.dtype if isinstance(x, np.ndarray) else None for x in columns}
        return np.column_stack(columns) if len(types) == 1 and None not in types else columns


def _as_fitted(x: Array, column: Column) -> Any:
    """Return sampled values in the type that the column was fitted in, if its family has such values."""
    if column.family == "categorical":
        return [column.levels[int(i)] for i in x]
    if column.family != "gaussian" and column.kind in ("boolean", "integer"):
        return x.astype(np.bool_ if column.kind == "boolean" else np.int64)
    return x


def _select(X: Any, columns: Indices) -> Any:
    return X if len(columns) == X.shape[1] else X[:, columns]


def _tiles(rows: Any) -> Iterator[Any]:
    """Yield slices of rows: all of a sparse matrix, pieces that fit into the cache of an array."""
    step = max(64, TILE_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        yield rows[start : start + step]
