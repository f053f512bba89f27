"""Covariances of Gaussian classes: shrinking them, and saying by name why one is singular."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array, SpdFactor, factor_spd
from oddsmith.statistics import Features, Moments

Mask = npt.NDArray[np.bool_]

SINGULAR_BELOW = 1e-11
"""A column depends on earlier ones if they leave less than this share of its variance unexplained."""

DEPENDS_ABOVE = 1e-6
"""A column is named as part of a linear combination if it makes up more than this share of it."""


@dataclass(frozen=True)
class Names:
    """Columns and classes by name, for messages."""

    columns: npt.NDArray[Any]
    classes: npt.NDArray[Any]

    def column(self, j: int) -> str:
        """Return the name of a column, quoted."""
        return repr(str(self.columns[j]))

    def list(self, columns: npt.NDArray[np.intp]) -> str:
        """Return up to eight names of columns, quoted."""
        shown = ", ".join(self.column(int(j)) for j in columns[:8])
        return shown + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")

    def of_classes(self, members: npt.NDArray[np.intp]) -> str:
        """Return ``class 'a'`` or ``classes 'a', 'b'``."""
        labels = [repr(self.classes.tolist()[k]) for k in members]
        shown = ", ".join(labels[:8]) + (" …" if len(labels) > 8 else "")
        return f"class {shown}" if len(labels) == 1 else f"classes {shown}"


def shrink(S: Array, shrinkage: Any, n: float) -> tuple[Array, float]:
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
        square = float((S**2).sum() / level**2) / D**2 if level > 0 else 0.0
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
    """Refuse singular covariances by the names of their columns; return the columns in use.

    With ``set_aside`` (one covariance for all classes), columns without spread inside the classes, and those that
    fewer rows than columns leave undetermined, are not in use, instead of refused.
    """
    kept = np.ones(S.shape[1], dtype=bool)
    for g in np.unique(moments.group):
        members = np.flatnonzero(moments.group == g)
        largest = np.abs(moments.mean[members]).max(axis=0)
        # Rounding leaves a trace of spread in a constant column of large value: that is no spread.
        still = np.sqrt(np.diag(S[g])) <= 4.0 * EPS * largest
        if shares[g] > 0:
            if still.all():
                raise _no_variance(np.flatnonzero(still), members, moments.mean, names)
            continue
        moving = np.flatnonzero(~still)
        factor = factor_spd(S[g][np.ix_(moving, moving)], tol=SINGULAR_BELOW)
        if len(moving) == len(still) and factor.kept.all():
            continue
        rows = float(moments.weight[members].sum())
        few = rows - len(members) < len(moving)
        if not set_aside:
            raise _singular(still, few, rows, members, moments.mean, S[g], moving, factor, names)
        level = moments.mean[members]
        constant = still & (np.ptp(level, axis=0) <= 8.0 * EPS * largest)
        if constant.any():
            raise _no_variance(np.flatnonzero(constant), members, moments.mean, names)
        if not factor.kept.all() and not few:
            raise _dependent(S[g], moving, factor, members, names)
        kept[still] = False
        kept[moving[~factor.kept]] = False
    if not kept.any():
        raise _no_variance(np.flatnonzero(~kept), np.arange(len(moments.weight)), moments.mean, names)
    return kept


def _singular(
    still: Mask,
    few: bool,
    rows: float,
    members: npt.NDArray[np.intp],
    mean: Array,
    S: Array,
    moving: npt.NDArray[np.intp],
    factor: SpdFactor,
    names: Names,
) -> InvalidInputError:
    needed = len(still) + len(members)
    if rows < needed and (few or still.any()):
        count = f"{rows:g} row" + ("" if rows == 1 else "s")
        have = "has" if len(members) == 1 else "have together"
        who = names.of_classes(members)
        return InvalidInputError(
            f"{who[0].upper()}{who[1:]} {have} {count}, too few for a covariance of {len(still)} columns (at least "
            f"{needed} are needed). Use shrinkage ('oas', or a number such as 0.1), share the covariance with other "
            "classes (covariance='shared', or a mapping from class to group), or covariance='diagonal'."
        )
    if still.any():
        return _no_variance(np.flatnonzero(still), members, mean, names)
    return _dependent(S, moving, factor, members, names)


def _no_variance(
    columns: npt.NDArray[np.intp], members: npt.NDArray[np.intp], mean: Array, names: Names
) -> InvalidInputError:
    j, k = int(columns[0]), int(members[0])
    if len(columns) == mean.shape[1] > 1 and len(members) < len(names.classes):
        return InvalidInputError(
            f"All rows of {names.of_classes(members)} are the same, so no column varies there. Add rows, or share "
            "the covariance with other classes (covariance='shared', or a mapping from class to group)."
        )
    inside = "" if len(members) == len(names.classes) else f" in {names.of_classes(members)}"
    one = len(columns) == 1
    what = f"Column {names.list(columns)} has" if one else f"Columns {names.list(columns)} have"
    return InvalidInputError(
        f"{what} zero variance{inside} (the value of {names.column(j)} is {mean[k, j]:g} there), which no density has. "
        f"Leave {'it' if one else 'them'} out, or use shrinkage ('oas', or a number such as 0.1)."
    )


def _dependent(
    S: Array, moving: npt.NDArray[np.intp], factor: SpdFactor, members: npt.NDArray[np.intp], names: Names
) -> InvalidInputError:
    """Say of the first dependent column which others it is a combination of."""
    out = moving[~factor.kept]
    first = int(np.flatnonzero(~factor.kept)[0])
    inside = S[np.ix_(moving, moving)]
    coefficients = factor.solve(inside[:, first])
    part = np.abs(coefficients) * np.sqrt(np.diag(inside) / inside[first, first])
    others = moving[part > DEPENDS_ABOVE]
    where = "" if len(members) == len(names.classes) else f" of {names.of_classes(members)}"
    more = "" if len(out) == 1 else f" (and {names.list(out[1:])} of others)"
    return InvalidInputError(
        f"The covariance{where} is singular: column {names.column(int(out[0]))} is a linear combination of "
        f"{names.list(others)}{more}. Leave {'it' if len(out) == 1 else 'them'} out, or use shrinkage ('oas', or a "
        "number such as 0.1)."
    )


def check_variances(variance: Array, stat: Features, names: Names) -> None:
    """Refuse a variance of zero (classes or one shared row × columns), naming the column and the class."""
    shared = len(variance) < len(stat.mean)
    largest = np.abs(stat.mean).max(axis=0, keepdims=True) if shared else np.abs(stat.mean)
    still = np.sqrt(variance) <= 4.0 * EPS * largest
    if not still.any():
        return
    g, j = (int(i) for i in np.argwhere(still)[0])
    members = np.arange(len(stat.mean)) if shared else np.array([g])
    if not shared and stat.observed[g, j] <= 1.0:
        raise InvalidInputError(
            f"Class {names.classes.tolist()[g]!r} has {stat.observed[g, j]:g} row with a value in column "
            f"{names.column(j)}, and a variance needs two. Add rows, use shrinkage ('oas', or a number such as 0.1), "
            "or covariance='shared'."
        )
    raise _no_variance(np.flatnonzero(still[g]), members, stat.mean, names)


def check_observed(observed: Array, names: Names) -> None:
    """Refuse a column that is missing in every row of a class."""
    if (observed > 0).all():
        return
    k, j = (int(i) for i in np.argwhere(observed <= 0)[0])
    raise InvalidInputError(
        f"Column {names.column(j)} is missing in every row of class {names.classes.tolist()[k]!r}, so nothing is known "
        "about it there. Leave the column out, or add rows that have it."
    )
