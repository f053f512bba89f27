"""Covariances of Gaussian classes: shrinkage, and errors that name the columns of a singular one."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.bordered import BorderedDiagonal, dependent_columns
from oddsmith.cached_property import cached_property
from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array, SpdFactor, factor_spd
from oddsmith.protocols import Indices, Labels
from oddsmith.statistics import Features, Moments

Mask = npt.NDArray[np.bool_]

SINGULAR_BELOW = 1e-11
"""A column depends on earlier ones if they leave less than this share of its variance unexplained."""

MOST_NUMBERS, MOST_OTHERS = 64, 1024
"""Columns of numbers, and all columns, beside a factor whose dependence is found by counts: others take long."""
VANISHES = 1e-11  # A combination of columns of unit mean square is constant if rows differ by less than this.
LIKELY = 1e-8  # Share of a diagonal below which a combination of columns may vanish: the rows decide.
REFINEMENTS = 3  # Of combinations that vanish up to rounding.
LEAST_PART = 1e-5  # A column that is named as dependent makes up at least this share of the combination.
DEPENDS_ABOVE = 1e-6  # A column is named as part of a linear combination if it makes up more than this share of it.


@dataclass(frozen=True)
class Names:
    """Columns and classes by name, for messages."""

    columns: Labels | list[str]
    classes: Labels

    def column(self, j: int) -> str:
        """Return the name of a column, quoted."""
        return repr(str(self.columns[j]))

    def list(self, columns: Indices) -> str:
        """Return up to eight names of columns, quoted."""
        shown = ", ".join(self.column(int(j)) for j in columns[:8])
        return shown + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")

    def of_classes(self, members: Indices) -> str:
        """Return ``class 'a'`` or ``classes 'a', 'b'``."""
        labels = [repr(self.classes.tolist()[k]) for k in members]
        shown = ", ".join(labels[:8]) + (" …" if len(labels) > 8 else "")
        return f"class {shown}" if len(labels) == 1 else f"classes {shown}"

    def inside(self, preposition: str, members: Indices) -> str:
        """Return where something holds, such as ``" in class 'a'"``; nothing if it holds in all classes."""
        return "" if len(members) == len(self.classes) else f" {preposition} {self.of_classes(members)}"


def check_shrinkage(shrinkage: float | str) -> None:
    """Raise unless shrinkage is a number from 0 to 1 or ``"oas"``."""
    number = isinstance(shrinkage, Real) and not isinstance(shrinkage, bool)
    if shrinkage != "oas" and not (number and 0.0 <= float(shrinkage) <= 1.0):
        raise InvalidInputError(f"shrinkage must be a number from 0 to 1 or 'oas', found {shrinkage!r}.")


def shrink(S: Array, shrinkage: float | str, n: float) -> tuple[Array, float]:
    """Return ``(1 − ρ) S + ρ (tr S / D) I`` and ρ, for a covariance or a diagonal of one.

    ``"oas"`` is the oracle approximating shrinkage of a covariance from ``n`` rows:
    ρ = min(1, (m + μ²) / ((n + 1)(m − μ²/D))) with m the mean square of the entries of S and μ = tr S / D.

    >>> S, share = shrink(np.diag([1.0, 3.0]), 0.5, 10.0)
    >>> S.tolist(), share
    ([[1.5, 0.0], [0.0, 2.5]], 0.5)
    """
    diagonal = S if S.ndim == 1 else np.diag(S)
    D, level = len(diagonal), float(diagonal.mean())
    if shrinkage == "oas":
        # In units of the level, so that squares of tiny or huge variances stay in range.
        square = float(((S / level) ** 2).sum()) / D**2 if level > 0 else 0.0
        excess = (n + 1.0) * (square - 1.0 / D)
        share = min(1.0, (square + 1.0) / excess) if excess > 0 else 1.0
    else:
        share = float(shrinkage)
    if share == 0.0:
        return S, 0.0
    shrunk = (1.0 - share) * S
    shrunk += share * level if S.ndim == 1 else share * level * np.eye(D)
    return shrunk, share


def check_full(S: Array, shares: Array, moments: Moments, names: Names, *, set_aside: bool) -> Mask:
    """Refuse singular covariances with an error that names the columns; return the columns in use.

    With ``set_aside`` (one covariance for all classes), columns that are constant within the classes, or undetermined
    because there are fewer rows than columns, are left out instead.
    """
    kept = np.ones(S.shape[1], dtype=bool)
    for g in np.unique(moments.group):
        group = _GroupCovariance(S[g], np.flatnonzero(moments.group == g), moments, names)
        if shares[g] > 0:
            if group.constant.all():
                raise _no_variance(group.constant, group.members, moments.mean, names)
        elif group.constant.any() or not group.factor.kept.all():
            if not set_aside:
                raise group.singular_error()
            kept &= group.usable_columns()
    if not kept.any():
        raise _no_variance(~kept, np.arange(len(moments.weight)), moments.mean, names)
    return kept


@dataclass(frozen=True)
class _GroupCovariance:
    """The covariance of the classes that share it, and which of its columns are constant or depend on others.

    ``S`` may be its diagonal alone, as long as nobody asks for its factor.
    """

    S: Array
    members: Indices
    moments: Moments
    names: Names

    @cached_property
    def constant(self) -> Mask:
        """Columns without spread; rounding leaves a trace of it in a constant column of large value."""
        largest = np.abs(self.moments.mean[self.members]).max(axis=0)
        return np.asarray(np.sqrt(self.variance) <= 4.0 * EPS * largest)

    @property
    def variance(self) -> Array:
        """The variance of each column."""
        return self.S if self.S.ndim == 1 else self.S.diagonal()

    @cached_property
    def varying(self) -> Indices:
        return np.flatnonzero(~self.constant)

    @cached_property
    def factor(self) -> SpdFactor:
        """The Cholesky factor of the varying columns, those that depend on earlier ones set aside."""
        return factor_spd(self.S[np.ix_(self.varying, self.varying)], tol=SINGULAR_BELOW)

    @property
    def rows(self) -> float:
        return float(self.moments.weight[self.members].sum())

    @property
    def too_few_rows(self) -> bool:
        return self.rows - len(self.members) < len(self.varying)

    def refuse_constant(self) -> None:
        """Raise if a column has one value in all rows."""
        mean = self.moments.mean[self.members]
        everywhere = self.constant & (np.ptp(mean, axis=0) <= 8.0 * EPS * np.abs(mean).max(axis=0))
        if everywhere.any():
            raise _no_variance(everywhere, self.members, self.moments.mean, self.names)

    def usable_columns(self) -> Mask:
        """Return the columns in use once the others are set aside; refuse what more rows would not repair."""
        self.refuse_constant()
        if not self.factor.kept.all() and not self.too_few_rows:
            raise self.dependence_error()
        usable = ~self.constant
        usable[self.varying] = self.factor.kept
        return usable

    def singular_error(self) -> InvalidInputError:
        """Return the error that says why the covariance is singular."""
        D, rows = len(self.constant), self.rows
        needed = D + len(self.members)
        if rows < needed and (self.too_few_rows or self.constant.any()):
            count = f"{rows:g} row" + ("" if rows == 1 else "s")
            have = "has" if len(self.members) == 1 else "have together"
            who = self.names.of_classes(self.members)
            return InvalidInputError(
                f"{who[0].upper()}{who[1:]} {have} {count}, too few for a covariance of {D} columns (at least {needed} "
                "are needed). Use shrinkage ('oas', or a number such as 0.1), share the covariance with other classes "
                "(covariance='shared', or a mapping from class to group), or covariance='diagonal'."
            )
        if self.constant.any():
            return _no_variance(self.constant, self.members, self.moments.mean, self.names)
        return self.dependence_error()

    def dependence_error(self) -> InvalidInputError:
        """Return the error that says of the first dependent column which others it is a combination of."""
        dependent = np.flatnonzero(~self.factor.kept)
        S = self.S[np.ix_(self.varying, self.varying)]
        first = dependent[0]
        part = np.abs(self.factor.solve(S[:, first])) * np.sqrt(np.diag(S) / S[first, first])
        return self.combination_error(self.varying[part > DEPENDS_ABOVE], self.varying[dependent])

    def combination_error(self, others: Indices, out: Indices) -> InvalidInputError:
        """Return the error that says that the first of the columns ``out`` is a combination of ``others``."""
        names = self.names
        more = "" if len(out) == 1 else f" (and {names.list(out[1:])} of others)"
        return InvalidInputError(
            f"The covariance{names.inside('of', self.members)} is singular: column {names.column(out[0])} is a linear "
            f"combination of {names.list(others)}{more}. Leave {'it' if len(out) == 1 else 'them'} out, or use "
            "shrinkage ('oas', or a number such as 0.1)."
        )


def check_levels(
    source: MemorySource, moments: Moments, levels: tuple[int, int], names: Names, *, set_aside: bool
) -> None:
    """Refuse singular covariances of sparse rows by counts, as `check_full` would after it has formed them.

    ``moments`` are diagonal, and ``levels`` are the columns of a factor (from, to). A covariance is singular exactly if
      1. a column is constant in all of its classes: for a level, one that is absent from them (or has all of their
         rows); a shared covariance sets aside those that differ between classes;
      2. a combination of columns is constant in each of its classes. The columns and the indicators of the classes then
         depend on each other; the levels exclude each other, so that their block of the sums of products is diagonal,
         and eliminating it finds the combinations (see `BorderedDiagonal`).
    What is found in 2 is verified on the rows; if that leaves a doubt, nothing is refused here.
    """
    members = moments.group
    for g in np.unique(members):
        inside = np.flatnonzero(members == g)
        total = moments.weight[inside].sum()
        group = _GroupCovariance(moments.scatter[inside].sum(axis=0) / max(total, 1.0), inside, moments, names)
        if set_aside:
            group.refuse_constant()
        elif group.constant.any() or (group.too_few_rows and source.s is None):  # 1
            raise group.singular_error()
        if group.too_few_rows:
            return  # the factor says which columns these rows determine
        found = _dependent_levels(source, group, levels)  # 2
        if found is not None:
            raise group.combination_error(*found)


def _dependent_levels(
    source: MemorySource, group: _GroupCovariance, levels: tuple[int, int]
) -> tuple[Indices, Indices] | None:
    """Return the columns that the first dependent one is a combination of, and all dependent ones; None if none is."""
    X, t = sparse.csr_array(source.X), source.t
    there = np.isin(t, group.members) & (True if source.s is None else source.s > 0)
    X, t = (X, t) if there.all() else (X[there], t[there])
    first, last = np.searchsorted(group.varying, levels)
    classes = sparse.csr_array((np.ones(len(t)), (np.arange(len(t)), np.searchsorted(group.members, t))))
    X = sparse.csc_array(X[:, group.varying], dtype=np.float64)
    often = np.flatnonzero(np.diff(X.indptr) > 0.5 * len(t))
    often = often[(often < first) | (often >= last)]
    if first == last or len(often) > MOST_NUMBERS or X.shape[1] - (last - first) > MOST_OTHERS:
        return None
    center = np.zeros(X.shape[1])
    center[often] = X[:, often].mean(axis=0)
    X[:, often] = X[:, often].toarray() - center[often]  # or squares of numbers far from zero would lose digits
    size = np.sqrt((X * X).mean(axis=0))
    X.data /= np.repeat(size, np.diff(X.indptr))
    X = sparse.csr_array(X)
    E, others = X[:, first:last], sparse.csr_array(sparse.hstack([classes, X[:, :first], X[:, last:]], format="csr"))
    if np.diff(E.indptr).max(initial=0) > 1:
        return None  # the levels do not exclude each other
    start = classes.shape[1] + int(first)
    d = np.bincount(E.indices, E.data**2, minlength=E.shape[1]).astype(np.float64)
    H = BorderedDiagonal(A=(others.T @ others).toarray(), B=(E.T @ others).toarray(), d=d, start=start)
    N, factor = H.vanishing_combinations(LIKELY), H.factor(tol=LIKELY)
    for _ in range(REFINEMENTS):
        activations = others @ H.rest(N) + E @ N[H.start : H.stop]
        if np.abs(activations).max(initial=0.0) <= VANISHES * np.abs(N).max(initial=0.0):
            break
        N -= factor.solve(H.join(others.T @ activations, E.T @ activations))
    else:
        return None
    if not N.shape[1]:
        return None
    found = list(dependent_columns(N))
    # In units of standard deviations, as those of `dependence_error`.
    units = np.append(np.zeros(classes.shape[1]), np.sqrt(group.variance[group.varying]) / size)
    columns = [j - classes.shape[1] for j, _ in found[::-1]]
    v = np.abs(found[-1][1] * units) / units[found[-1][0]]
    if any(np.abs(v).max() * LEAST_PART > np.abs(v[j]) for j, v in found):
        return None
    v[found[-1][0]] = 0.0
    return group.varying[np.flatnonzero(v[classes.shape[1] :] > DEPENDS_ABOVE)], group.varying[columns]


def _no_variance(constant: Mask, members: Indices, mean: Array, names: Names) -> InvalidInputError:
    columns = np.flatnonzero(constant)
    j, k = columns[0], members[0]
    if len(columns) == mean.shape[1] > 1 and len(members) < len(names.classes):
        return InvalidInputError(
            f"All rows of {names.of_classes(members)} are the same, so no column varies there. Add rows, or share "
            "the covariance with other classes (covariance='shared', or a mapping from class to group)."
        )
    one = len(columns) == 1
    what = f"Column {names.list(columns)} has" if one else f"Columns {names.list(columns)} have"
    return InvalidInputError(
        f"{what} zero variance{names.inside('in', members)} (the value of {names.column(j)} is {mean[k, j]:g} there), "
        f"which no density has. Leave {'it' if one else 'them'} out, or use shrinkage ('oas', or a number such as 0.1)."
    )


def check_variances(variance: Array, stat: Features, names: Names) -> None:
    """Refuse a variance of zero (classes or one shared row × columns), naming the column and the class."""
    shared = len(variance) < len(stat.mean)
    largest = np.abs(stat.mean).max(axis=0, keepdims=True) if shared else np.abs(stat.mean)
    constant = np.sqrt(variance) <= 4.0 * EPS * largest
    if not constant.any():
        return
    g, j = np.argwhere(constant)[0]
    if not shared and stat.observed[g, j] <= 1.0:
        raise InvalidInputError(
            f"Class {names.classes.tolist()[g]!r} has {stat.observed[g, j]:g} row with a value in column "
            f"{names.column(j)}, and a variance needs two. Add rows, use shrinkage ('oas', or a number such as 0.1), "
            "or covariance='shared'."
        )
    members = np.arange(len(stat.mean)) if shared else np.array([g])
    raise _no_variance(constant[g], members, stat.mean, names)


def check_present(observed: Array, names: Names) -> None:
    """Refuse a column that is missing in every row of a class."""
    if (observed > 0).all():
        return
    k, j = np.argwhere(observed <= 0)[0]
    raise InvalidInputError(
        f"Column {names.column(j)} is missing in every row of class {names.classes.tolist()[k]!r}, so nothing is known "
        "about it there. Leave the column out, or add rows that have it."
    )
