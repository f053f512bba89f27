"""Naive Bayes from sums to densities: which family each column has, what its parameters are, and their product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.densities import families
from oddsmith.densities.class_sums import Folded
from oddsmith.densities.covariance_checks import Names, check_present, check_variances
from oddsmith.densities.rows import RowMatrix, dense, select, stored, tiles
from oddsmith.design.columns import Columns
from oddsmith.design.fitted_basis import whole
from oddsmith.design.levels import in_order
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.statistics import Features, FeaturesParams
from oddsmith.statistics.features import FRACTIONAL, NEGATIVE, NOT_BINARY

FAMILIES = ("bernoulli", "categorical", "gaussian", "multinomial", "poisson")
CODES = ("auto", "integer", *FAMILIES)
BY_KIND = {"boolean": "bernoulli", "integer": "integer", "float": "gaussian", "date": "gaussian", "text": "categorical"}
DISPERSION = (0.5, 2.0)  # Range of the ratio of within-class variance to mean for which counts are treated as Poisson.

DOMAINS: tuple[tuple[str, int, Callable[[Array], npt.NDArray[np.bool_]], str, str], ...] = (
    ("bernoulli", NOT_BINARY, lambda x: (x != 0) & (x != 1), "values other than 0 and 1", "0, 1, or booleans"),
    ("poisson", NEGATIVE, lambda x: x < 0, "negative values", "counts 0, 1, 2 …"),
    ("poisson", FRACTIONAL, lambda x: x != np.floor(x), "values that are not whole numbers", "counts 0, 1, 2 …"),
    ("multinomial", NEGATIVE, lambda x: x < 0, "negative values", "counts of zero or more"),
)
"""Invalid values by family: the row of ``Features.outside`` that counts them, a test, what is found, what is
expected."""


@dataclass(frozen=True)
class ColumnPlan:
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


def make_column_plan(columns: Columns, features: object) -> ColumnPlan:
    """Return the family of each column: as ``features`` says, by type where it says nothing.

    >>> columns = Columns(("age", "red"), np.array(["float", "boolean"]), np.zeros((2, 2)))
    >>> plan = make_column_plan(columns, {"age": "poisson"})
    >>> plan.family(0), plan.family(1)
    ('poisson', 'bernoulli')
    """
    D = len(columns.kinds)
    chosen = np.full(D, CODES.index("auto"), dtype=np.uint8)
    if isinstance(features, str):
        chosen[:] = _family_code(features, None)
    elif isinstance(features, Mapping):
        for key, family in features.items():
            j = _index(columns, key)
            chosen[j] = _family_code(family, columns.name(j))
    elif isinstance(features, list | tuple | np.ndarray):
        if len(features) != D:
            raise InvalidInputError(f"features lists {len(features)} families, but there are {D} columns.")
        chosen[:] = [_family_code(family, columns.name(j)) for j, family in enumerate(features)]
    else:
        raise InvalidTypeError(
            "features must be 'auto', a family, a list of families or a mapping from column to family, found "
            f"{features!r}."
        )
    auto = chosen == CODES.index("auto")
    for kind, family in BY_KIND.items():
        chosen[auto & (columns.kinds == kind)] = CODES.index(family)
    return ColumnPlan(columns.names, chosen, columns.kinds, {})


def _family_code(family: object, column: str | None) -> int:
    if isinstance(family, str) and family in ("auto", *FAMILIES):
        return CODES.index(family)
    raise UnknownNameError("family" + (f" for column {column!r}:" if column else ""), family, ["auto", *FAMILIES])


def more_rows(plan: ColumnPlan, columns: Columns) -> ColumnPlan:
    """Return the plan for more rows of the same columns; whole numbers that turn out to be floats are Gaussian."""
    codes = plan.codes.copy()
    codes[(codes == CODES.index("integer")) & (columns.kinds == "float")] = CODES.index("gaussian")
    return replace(plan, codes=codes)


def _index(columns: Columns, key: object) -> int:
    D = len(columns.kinds)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and -D <= key < D:
        return int(key) % D
    names = [columns.name(j) for j in range(D)]
    if isinstance(key, str) and key in names:
        return names.index(key)
    raise UnknownNameError("column in features:", key, names)


def encode(columns: Columns, plan: ColumnPlan, *, extend: bool) -> tuple[RowMatrix, ColumnPlan, dict[str, list[Any]]]:
    """Return the rows as numbers, the plan with its levels, and the values that are none of the known levels.

    With ``extend`` such values become new levels, otherwise they are missing.
    """
    categorical = plan.columns("categorical")
    if columns.rows is not None and not len(categorical):
        return columns.rows, plan, {}
    if sparse.issparse(columns.rows):
        raise InvalidTypeError(
            f"Column {plan.name(categorical[0])!r} is categorical, which a sparse matrix does not support. Pass a "
            "dense array or a table."
        )
    if columns.rows is not None:  # functions of a basis are made once for all columns
        columns = replace(columns, rows=whole(columns.rows))
    rows, levels, unknown = np.empty((columns.n_rows, len(plan)), order="F"), dict(plan.levels), {}
    for j in range(len(plan)):
        if plan.family(j) != "categorical":
            rows[:, j] = columns.numbers(j)
            continue
        values, codes = columns.categories(j)
        if extend:
            levels[j] = _union(levels.get(j, ()), values)
        rows[:, j], new = _code(values, codes, levels[j])
        if new:
            unknown[plan.name(j)] = new
    return rows, replace(plan, levels=levels), unknown


def _code(values: list[Any], codes: Array, levels: tuple[Any, ...]) -> tuple[Array, list[Any]]:
    """Return the number of the level of each row (NaN: missing or unknown), and the unknown values that occur."""
    place = {level: float(i) for i, level in enumerate(levels)}
    table = np.array([place.get(value, np.nan) for value in values] or [np.nan])
    missing = np.isnan(codes)
    inside = (np.where(missing, 0.0, codes) if missing.any() else codes).astype(np.intp)
    coded, used = table[inside], np.bincount(inside[~missing])
    coded[missing] = np.nan
    return coded, [values[i] for i in np.flatnonzero(used) if np.isnan(table[i])]


def _union(a: Iterable[Any], b: Iterable[Any]) -> tuple[Any, ...]:
    return in_order({value for value in (*a, *b) if value is not None}, None)


def params_of(plan: ColumnPlan, K: int) -> FeaturesParams:
    """Return which columns are summed how."""
    levels = tuple((int(j), len(plan.levels[j])) for j in plan.columns("categorical"))
    watched = {
        NEGATIVE: plan.columns("poisson", "multinomial", "integer"),
        FRACTIONAL: plan.columns("poisson", "integer"),
        NOT_BINARY: plan.columns("bernoulli", "integer"),
    }
    watch = tuple(mark for mark, columns in watched.items() if len(columns))
    moments, sums = (
        range(len(plan)) if len(columns) == len(plan) else tuple(columns.tolist())
        for columns in (plan.moments, plan.sums)
    )
    return FeaturesParams(K=K, moments=moments, sums=sums, levels=levels, watch=watch)


def check_domain(rows: RowMatrix, plan: ColumnPlan, outside: Array | None = None) -> None:
    """Refuse values that a family does not have, by the name of the column and the first such row.

    ``outside`` is the weight of such values in a `Features` statistic of the rows; None: they are looked for.
    """
    for family, mark, is_outside, found, expected in DOMAINS:
        columns = plan.columns(family)
        if outside is not None:
            columns = columns[outside[mark, np.searchsorted(plan.sums, columns)] > 0]
        if not len(columns):
            continue
        X = whole(rows)
        values = stored(select(X, columns))
        bad = is_outside(values)
        if not (bad.any() and (bad & ~np.isnan(values)).any()):
            continue
        for j in columns:
            values = dense(X[:, [j]]).ravel()
            bad = is_outside(values) & ~np.isnan(values)
            if bad.any():
                row, name = int(np.argmax(bad)), plan.name(j)
                raise InvalidInputError(
                    f"Column {name!r} has {found}, the first in row {row} ({values[row]:g}); the {family} family takes "
                    f"{expected}. Correct them, or choose another family: features={{{name!r}: 'gaussian'}}."
                )


def join_column_plans(a: ColumnPlan, b: ColumnPlan) -> ColumnPlan:
    """Return the plan of both parts of the data: all levels, whole numbers and fractions together as Gaussian."""
    codes = a.codes.copy()
    for j in np.flatnonzero(a.codes != b.codes).tolist():
        one, other, name = a.family(j), b.family(j), a.name(j)
        if {one, other} != {"gaussian", "integer"}:
            raise InvalidInputError(
                f"Column {name!r} is {one} in one part and {other} in the other. Name its family in features, such as "
                f"features={{{name!r}: {one!r}}}, when fitting both."
            )
        codes[j] = CODES.index("gaussian")
    levels = {j: _union(a.levels[j], b.levels[j]) for j in a.levels}
    return replace(a, codes=codes, levels=levels)


def recast(stat: Features, plan: ColumnPlan, to: ColumnPlan) -> Features:
    """Return the statistic that the same rows have under the plan ``to``, which has the levels of ``plan`` and more."""
    sums = np.searchsorted(plan.sums, to.sums)
    parts, start = [np.zeros((len(stat.weight), 0))], 0
    for j in to.columns("categorical"):
        old, new = plan.levels[j], to.levels[j]
        count = np.zeros((len(stat.weight), len(new)))
        count[:, [new.index(level) for level in old]] = stat.count[:, start : start + len(old)]
        parts.append(count)
        start += len(old)
    summed = {name: getattr(stat, name)[:, sums] for name in ("seen", "total", "outside")}
    return replace(stat, **summed, count=np.concatenate(parts, axis=1))


def resolve(stat: Features, plan: ColumnPlan) -> ColumnPlan:
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


def estimate(folded: Folded, smoothing: float, variance_smoothing: float) -> NaiveDensities:
    """Return the densities, family by family.

    ``smoothing`` is added to every count; ``variance_smoothing`` times the largest column variance to every variance.
    """
    resolved = resolve(folded.statistic, folded.plan)
    parts = [
        fit(_FamilySums(folded=folded, columns=columns, alpha=smoothing, variance_smoothing=variance_smoothing))
        for family, fit in _ESTIMATORS.items()
        if len(columns := resolved.columns(family))
    ]
    return NaiveDensities(tuple(parts), resolved)


@dataclass(frozen=True, kw_only=True)
class _FamilySums:
    """The sums of the columns of one family, and how its counts (by ``alpha``) and variances are smoothed."""

    folded: Folded
    columns: Indices
    alpha: float
    variance_smoothing: float

    @property
    def stat(self) -> Features:
        stat: Features = self.folded.statistic
        return stat

    @property
    def names(self) -> Names:
        return Names([self.folded.plan.name(j) for j in self.columns], self.folded.classes)

    def of(self, field: str, summed: Indices) -> Array:
        """Return a field of the statistic for these columns, which are among the columns ``summed`` in it."""
        return np.asarray(getattr(self.stat, field)[:, np.searchsorted(summed, self.columns)])

    def counts(self) -> tuple[Array, Array]:
        plan = self.folded.plan
        return self.of("seen", plan.sums), self.of("total", plan.sums)

    def check_seen(self, seen: Array) -> None:
        """Refuse columns that are missing in every row of a class, unless smoothing makes up for it."""
        if self.alpha == 0:
            check_present(seen, self.names)


def _gaussian(sums: _FamilySums) -> families.GaussianColumns:
    moments = {name: sums.of(name, sums.folded.plan.moments) for name in ("observed", "mean", "scatter")}
    observed, mean, scatter = moments.values()
    check_present(observed, sums.names)
    grand_mean = (observed * mean).sum(axis=0) / observed.sum(axis=0)
    spread = (scatter + observed * (mean - grand_mean) ** 2).sum(axis=0) / observed.sum(axis=0)
    variance = scatter / observed + sums.variance_smoothing * spread.max()
    check_variances(variance, replace(sums.stat, **moments), sums.names)
    return families.GaussianColumns(sums.columns, mean, variance)


def _bernoulli(sums: _FamilySums) -> families.BernoulliColumns:
    (seen, total), alpha = sums.counts(), sums.alpha
    sums.check_seen(seen)
    whole = seen + 2.0 * alpha
    return families.BernoulliColumns(sums.columns, (total + alpha) / whole, (seen - total + alpha) / whole)


def _poisson(sums: _FamilySums) -> families.PoissonColumns:
    (seen, total), alpha = sums.counts(), sums.alpha
    sums.check_seen(seen)
    # As if each class had been seen in so many more rows with the mean of the column, itself kept off zero.
    level = (total.sum(axis=0) + 1.0) / (seen.sum(axis=0) + 1.0)
    return families.PoissonColumns(sums.columns, (total + alpha * level) / (seen + alpha))


def _multinomial(sums: _FamilySums) -> families.MultinomialColumns:
    (seen, total), weight = sums.counts(), sums.stat.weight
    if not np.allclose(seen, weight[:, None], rtol=1e-9):
        j = sums.columns[np.argmin((seen / weight[:, None]).min(axis=0))]
        raise InvalidInputError(
            f"Column {sums.folded.plan.name(j)!r} has missing values, and the multinomial family is fitted to complete "
            "counts. Fill them (with 0, if nothing was counted), drop these rows, or use the poisson family. (At "
            "prediction they are fine.)"
        )
    smoothed = total + sums.alpha
    of_class = smoothed.sum(axis=1)
    if (of_class <= 0).any():
        label = sums.folded.classes.tolist()[int(np.argmin(of_class))]
        raise InvalidInputError(
            f"All counts of class {label!r} are zero, so its shares are unknown. Use smoothing > 0."
        )
    return families.MultinomialColumns(sums.columns, smoothed / of_class[:, None], float(total.sum() / weight.sum()))


def _categorical(sums: _FamilySums) -> families.CategoricalColumns:
    sizes = [len(sums.folded.plan.levels[j]) for j in sums.columns]
    counts = np.split(sums.stat.count, np.cumsum(sizes)[:-1], axis=1)
    sums.check_seen(np.column_stack([count.sum(axis=1) for count in counts]))
    if 0 in sizes:
        name = sums.folded.plan.name(sums.columns[sizes.index(0)])
        raise InvalidInputError(f"Column {name!r} is missing in every row of the fit. Leave it out.")
    smoothed = [count + sums.alpha for count in counts]
    return families.CategoricalColumns(sums.columns, tuple(n / n.sum(axis=1, keepdims=True) for n in smoothed))


_ESTIMATORS: dict[str, Callable[[_FamilySums], families.Family]] = {
    "gaussian": _gaussian,
    "bernoulli": _bernoulli,
    "poisson": _poisson,
    "multinomial": _multinomial,
    "categorical": _categorical,
}


@dataclass(frozen=True)
class NaiveDensities:
    """The product of the densities of all columns, independent within a class."""

    parts: tuple[families.Family, ...]
    plan: ColumnPlan

    @property
    def n_parameters(self) -> int:
        """Parameters of all columns."""
        return sum(part.n_parameters for part in self.parts)

    def log_density(self, rows: RowMatrix, *, normalised: bool = True) -> Array:
        """Return ``log p(x | C_k)``, N × K; missing values are integrated out."""
        pieces = [rows] if sparse.issparse(rows) else [rows[part] for part in tiles(rows)]
        sums = [
            sum(part.log_density(select(X, part.columns), normalised=normalised) for part in self.parts) for X in pieces
        ]
        return np.concatenate(sums)

    def activations(self, rows: RowMatrix) -> Array:
        """Return the log densities up to a term that is the same for all classes."""
        return self.log_density(rows, normalised=False)

    def sample(self, t: Indices, rng: np.random.Generator) -> Array | list[npt.NDArray[Any] | list[Any]]:
        """Draw rows of the classes ``t``: an array if all columns are of one type, else a list of columns."""
        X = np.empty((len(t), len(self.plan)))
        for part in self.parts:
            X[:, part.columns] = part.sample(t, rng)
        columns = [_as_fitted(X[:, j], j, self.plan) for j in range(len(self.plan))]
        types = {x.dtype if isinstance(x, np.ndarray) else None for x in columns}
        return np.column_stack(columns) if len(types) == 1 and None not in types else columns


def _as_fitted(x: Array, j: int, plan: ColumnPlan) -> npt.NDArray[Any] | list[Any]:
    """Return sampled values in the type that the column was fitted in, if its family has such values."""
    family, kind = plan.family(j), plan.kinds[j]
    if family == "categorical":
        return [plan.levels[j][int(i)] for i in x]
    if family != "gaussian" and kind in ("boolean", "integer"):
        return x.astype(np.bool_ if kind == "boolean" else np.int64)
    return x
