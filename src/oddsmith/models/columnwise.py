"""Naive Bayes from sums to densities: which family each column has, what its parameters are, and their product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
CODES = ("auto", "integer", *FAMILIES)
BY_KIND = {"boolean": "bernoulli", "integer": "integer", "float": "gaussian", "text": "categorical"}
DISPERSION = (0.5, 2.0)
"""Counts whose variance within classes is this many times their mean are taken for Poisson counts."""

TILE_ELEMENTS = 1 << 17


@dataclass(frozen=True)
class Plan:
    """How each column is read: its family (``"integer"``: decided when the sums are known), its type, its levels.

    ``names`` is None for columns without names, ``codes`` are places in `CODES`, ``levels`` has the categorical columns
    by number.
    """

    names: tuple[str, ...] | None
    codes: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.str_]
    levels: dict[int, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.codes)

    def family(self, j: int) -> str:
        """Return the family of a column."""
        return CODES[self.codes[j]]

    def name(self, j: int) -> str:
        """Return the name of a column, ``x0``, ``x1`` … where there are none."""
        return f"x{j}" if self.names is None else self.names[j]

    def all_names(self) -> list[str]:
        """Return the names of all columns."""
        return [self.name(j) for j in range(len(self))]

    def columns(self, *families: str) -> Indices:
        """Return the columns of some families."""
        return np.flatnonzero(np.isin(self.codes, [CODES.index(family) for family in families]))

    @property
    def moments(self) -> Indices:
        """The columns whose moments are taken."""
        return self.columns("gaussian", "integer")

    @property
    def sums(self) -> Indices:
        """The columns whose values are added up."""
        return self.columns("bernoulli", "poisson", "multinomial", "integer")


def make_plan(columns: Columns, features: Any) -> Plan:
    """Return the family of each column: as ``features`` says, by type where it says nothing.

    >>> columns = Columns(("age", "red"), np.array(["float", "boolean"]), np.zeros((2, 2)))
    >>> plan = make_plan(columns, {"age": "poisson"})
    >>> plan.family(0), plan.family(1)
    ('poisson', 'bernoulli')
    """
    D = len(columns.kinds)
    chosen = np.full(D, CODES.index("auto"), dtype=np.uint8)
    if isinstance(features, str):
        _check_family(features, None)
        chosen[:] = CODES.index(features)
    elif isinstance(features, Mapping):
        for key, family in features.items():
            j = _index(columns, key)
            _check_family(family, columns.name(j))
            chosen[j] = CODES.index(family)
    elif isinstance(features, list | tuple | np.ndarray):
        if len(features) != D:
            raise InvalidInputError(f"features lists {len(features)} families, and there are {D} columns.")
        for j, family in enumerate(features):
            _check_family(family, columns.name(j))
            chosen[j] = CODES.index(family)
    else:
        raise InvalidTypeError(
            "features must be 'auto', a family, a list of families or a mapping from column to family, found "
            f"{features!r}."
        )
    auto = chosen == CODES.index("auto")
    if auto.any():
        for kind, family in BY_KIND.items():
            chosen[auto & (columns.kinds == kind)] = CODES.index(family)
    return Plan(columns.names, chosen, columns.kinds, {})


def _check_family(family: Any, column: str | None) -> None:
    if family != "auto" and family not in FAMILIES:
        raise UnknownNameError("family" + (f" for column {column!r}:" if column else ""), family, ["auto", *FAMILIES])


def more_rows(plan: Plan, columns: Columns) -> Plan:
    """Return the plan for more rows of the same columns; whole numbers that turn out to be floats are Gaussian."""
    codes = plan.codes.copy()
    codes[(codes == CODES.index("integer")) & (columns.kinds == "float")] = CODES.index("gaussian")
    return replace(plan, codes=codes)


def _index(columns: Columns, key: Any) -> int:
    D = len(columns.kinds)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and -D <= key < D:
        return int(key) % D
    names = [columns.name(j) for j in range(D)]
    if key in names:
        return names.index(key)
    raise UnknownNameError("column in features:", key, names)


def encode(columns: Columns, plan: Plan, *, extend: bool) -> tuple[Any, Plan, dict[str, list[Any]]]:
    """Return the rows as numbers, the plan with its levels, and the values that are none of the known levels.

    With ``extend`` such values become new levels, otherwise they are missing.
    """
    categorical = plan.columns("categorical")
    if columns.rows is not None and not len(categorical):
        return columns.rows, plan, {}
    if sparse.issparse(columns.rows):
        raise InvalidTypeError(
            f"Column {plan.name(int(categorical[0]))!r} is categorical, but the zeros of a sparse matrix are no "
            "categories. Pass a dense array or a table."
        )
    rows, levels, unknown = np.empty((columns.n_rows, len(plan)), order="F"), dict(plan.levels), {}
    for j in range(len(plan)):
        if plan.family(j) != "categorical":
            rows[:, j] = columns.numbers(j)
            continue
        values, codes = columns.categories(j)
        if extend:
            levels[j] = _union(levels.get(j, ()), values)
        rows[:, j], strange = _code(values, codes, levels[j])
        if strange:
            unknown[plan.name(j)] = strange
    return rows, replace(plan, levels=levels), unknown


def _code(values: list[Any], codes: Array, levels: tuple[Any, ...]) -> tuple[Array, list[Any]]:
    """Return the number of the level of each row (NaN: missing or unknown), and the unknown values that occur."""
    place = {level: float(i) for i, level in enumerate(levels)}
    table = np.array([place.get(value, np.nan) for value in values] or [np.nan])
    missing = np.isnan(codes)
    if not missing.any():
        inside = codes.astype(np.intp)
        used, coded = np.bincount(inside), table[inside]
    else:
        inside = np.where(missing, 0.0, codes).astype(np.intp)
        used, coded = np.bincount(inside[~missing]), np.where(missing, np.nan, table[inside])
    return coded, [values[i] for i in np.flatnonzero(used) if np.isnan(table[i])]


def _union(a: tuple[Any, ...], b: Any) -> tuple[Any, ...]:
    values = {value for value in (*a, *b) if value is not None}
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def params_of(plan: Plan, K: int, *, large: bool = False) -> FeaturesParams:
    """Return which columns are summed how."""
    levels = tuple((int(j), len(plan.levels[int(j)])) for j in plan.columns("categorical"))
    watched = {
        NEGATIVE: plan.columns("poisson", "multinomial", "integer"),
        FRACTIONAL: plan.columns("poisson", "integer"),
        NOT_BINARY: plan.columns("bernoulli", "integer"),
    }
    watch = tuple(mark for mark, columns in watched.items() if len(columns))
    return FeaturesParams(K, _listed(plan.moments, plan), _listed(plan.sums, plan), levels, watch, large)


def _listed(columns: Indices, plan: Plan) -> Sequence[int]:
    return range(len(plan)) if len(columns) == len(plan) else tuple(columns.tolist())


def check_domain(stat: Features, plan: Plan, rows: Any) -> None:
    """Refuse values that a family does not have, by the name of the column and the first such row."""
    codes = plan.codes[plan.sums]
    refused = (
        ("bernoulli", NOT_BINARY, "values other than 0 and 1", "0, 1, or truth values"),
        ("poisson", NEGATIVE, "negative values", "counts 0, 1, 2 …"),
        ("poisson", FRACTIONAL, "values that are not whole numbers", "counts 0, 1, 2 …"),
        ("multinomial", NEGATIVE, "negative values", "counts of zero or more"),
    )
    for family, mark, found, expected in refused:
        bad = (codes == CODES.index(family)) & (stat.outside[mark] > 0)
        if not bad.any():
            continue
        j = int(plan.sums[np.argmax(bad)])
        values = rows[:, [j]]
        values = np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64).ravel()
        with np.errstate(invalid="ignore"):
            tests = (values < 0, values != np.floor(values), (values != 0) & (values != 1))
        row = int(np.argmax(tests[mark] & ~np.isnan(values)))
        raise InvalidInputError(
            f"Column {plan.name(j)!r} has {found}, the first in row {row} ({values[row]:g}); the {family} family takes "
            f"{expected}. Correct them, or choose another family: features={{{plan.name(j)!r}: 'gaussian'}}."
        )


def is_inside(rows: Any, plan: Plan) -> bool:
    """Whether all values are such as their families have, or missing."""
    for family in ("bernoulli", "poisson", "multinomial"):
        columns = plan.columns(family)
        if not len(columns):
            continue
        part = _select(rows, columns)
        x = part.data if sparse.issparse(part) else part
        if family == "bernoulli":
            ok = (x == 0.0) | (x == 1.0)
        else:
            ok = x >= 0.0 if family == "multinomial" else (x >= 0.0) & (x == np.floor(x))
        if not (ok.all() or (ok | np.isnan(x)).all()):
            return False
    return True


# --------------------------------------------------------------------------------------------- merging


def join_plans(a: Plan, b: Plan) -> Plan:
    """Return the plan of both parts of the data: all levels, whole numbers and fractions together as Gaussian."""
    codes = a.codes.copy()
    for j in np.flatnonzero(a.codes != b.codes):
        one, other = a.family(int(j)), b.family(int(j))
        if {one, other} != {"gaussian", "integer"}:
            name = a.name(int(j))
            raise InvalidInputError(
                f"Column {name!r} is {one} in one part and {other} in the other. Name its family in features, such as "
                f"features={{{name!r}: {one!r}}}, when fitting both."
            )
        codes[j] = CODES.index("gaussian")
    levels = {j: _union(a.levels[j], b.levels[j]) for j in a.levels}
    return replace(a, codes=codes, levels=levels)


def recast(stat: Features, plan: Plan, to: Plan) -> Features:
    """Return the statistic that the same rows have under the plan ``to``, which has the levels of ``plan`` and more."""
    sums = np.searchsorted(plan.sums, to.sums)
    parts, start = [np.zeros((len(stat.weight), 0))], 0
    for j in to.columns("categorical"):
        old, new = plan.levels[int(j)], to.levels[int(j)]
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
    whole = plan.columns("integer")
    outside = stat.outside[:, np.searchsorted(plan.sums, whole)]
    inside = np.searchsorted(plan.moments, whole)
    level = (stat.observed * stat.mean)[:, inside].sum(axis=0)
    spread = stat.scatter[:, inside].sum(axis=0)
    low, high = DISPERSION
    counts = (outside[NEGATIVE] == 0) & (outside[FRACTIONAL] == 0) & (low * level <= spread) & (spread <= high * level)
    bernoulli, poisson, gaussian = (CODES.index(family) for family in ("bernoulli", "poisson", "gaussian"))
    codes = plan.codes.copy()
    codes[whole] = np.where(outside[NOT_BINARY] == 0, bernoulli, np.where(counts, poisson, gaussian))
    return replace(plan, codes=codes)


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
        columns = resolved.columns(family)
        if len(columns):
            parts.append(fit(stat, plan, columns, smoothing, classes))
    return NaiveDensities(tuple(parts), resolved)


def _names(plan: Plan, columns: Indices, classes: npt.NDArray[Any]) -> Names:
    return Names(np.array([plan.name(int(j)) for j in columns], dtype=object), classes)


def _gaussian(
    stat: Features, plan: Plan, columns: Indices, smoothing: Smoothing, classes: npt.NDArray[Any]
) -> GaussianColumns:
    inside = np.searchsorted(plan.moments, columns)
    part = replace(stat, **{name: getattr(stat, name)[:, inside] for name in ("observed", "mean", "scatter")})
    names = _names(plan, columns, classes)
    check_observed(part.observed, names)
    observed, mean = part.observed, part.mean
    grand = (observed * mean).sum(axis=0) / observed.sum(axis=0)
    spread = (part.scatter + observed * (mean - grand) ** 2).sum(axis=0) / observed.sum(axis=0)
    variance = part.scatter / observed + smoothing.variance * spread.max()
    check_variances(variance, part, names)
    return GaussianColumns(columns, mean, variance)


def _sums(stat: Features, plan: Plan, columns: Indices) -> tuple[Array, Array]:
    """Return ``seen`` and ``total`` of some columns."""
    inside = np.searchsorted(plan.sums, columns)
    return stat.seen[:, inside], stat.total[:, inside]


def _check_seen(seen: Array, smoothing: Smoothing, plan: Plan, columns: Indices, classes: npt.NDArray[Any]) -> None:
    if smoothing.additive == 0:
        check_observed(seen, _names(plan, columns, classes))


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
            f"Column {plan.name(j)!r} has missing values, and the multinomial family is fitted to complete counts. "
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
    sizes = [len(plan.levels[int(j)]) for j in columns]
    starts = np.cumsum([0, *sizes])
    counts = [stat.count[:, a:b] for a, b in pairwise(starts)]
    seen = np.column_stack([count.sum(axis=1) for count in counts])
    _check_seen(np.where(np.array(sizes) > 0, seen, 0.0), smoothing, plan, columns, classes)
    for j, size in zip(columns, sizes, strict=True):
        if not size:
            raise InvalidInputError(f"Column {plan.name(int(j))!r} is missing in every row. Leave it out.")
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
        columns = [_as_fitted(X[:, j], j, self.plan) for j in range(len(self.plan))]
        types = {x.dtype if isinstance(x, np.ndarray) else None for x in columns}
        return np.column_stack(columns) if len(types) == 1 and None not in types else columns


def _as_fitted(x: Array, j: int, plan: Plan) -> Any:
    """Return sampled values in the type that the column was fitted in, if its family has such values."""
    family, kind = plan.family(j), plan.kinds[j]
    if family == "categorical":
        return [plan.levels[j][int(i)] for i in x]
    if family != "gaussian" and kind in ("boolean", "integer"):
        return x.astype(np.bool_ if kind == "boolean" else np.int64)
    return x


def _select(X: Any, columns: Indices) -> Any:
    return X if len(columns) == X.shape[1] else X[:, columns]


def _tiles(rows: Any) -> Iterator[Any]:
    """Yield slices of rows: all of a sparse matrix, pieces that fit into the cache of an array."""
    if sparse.issparse(rows):
        yield rows
        return
    step = max(64, TILE_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        yield rows[start : start + step]
