"""Messages of likelihood fits: early stops, aliased columns, separated classes, activations outside a domain."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.errors import OddsmithWarning
from oddsmith.links import Link
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.solvers.sgd import SGD

if TYPE_CHECKING:
    from oddsmith.likelihood.separation import Separation


LARGEST_CONDITION = 1e12  # Condition number of a Hessian from which a direction may be lost in rounding.
MOST_WEIGHTS = 1000  # Weights up to which the eigenvectors of a Hessian are found for a message: half a second.
LARGE_ENTRY = 0.1  # Entry of an eigenvector, relative to the largest, from which a column belongs to the direction.


def dependent_columns(H: Array | None, shape: tuple[int, int], names: list[str]) -> list[str]:
    """Return the columns whose combination has nearly no curvature, by the Hessian of a fit; none if all have enough.

    >>> dependent_columns(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]), (1, 3), ["a", "b"])
    ['a', 'b']
    """
    if H is None or len(H) > MOST_WEIGHTS or not np.isfinite(H).all():
        return []
    values, vectors = np.linalg.eigh(H)
    if values[0] * LARGEST_CONDITION > values[-1]:
        return []
    size = np.abs(vectors[:, 0]).reshape(shape).max(axis=0)
    return [name for name, entry in zip(names, size[1:], strict=True) if entry >= LARGE_ENTRY * size.max()]


def remedy(solver: object, max_iter: int, n_iter: int, dependent: list[str] | None = None) -> str:
    """Return the advice for a fit that stopped early, after ``n_iter`` iterations of at most ``max_iter``.

    ``dependent`` are the columns that are nearly linear combinations of each other, if any.
    """
    if dependent and n_iter < max_iter:
        return (
            f"{column_list(dependent)} are linear combinations of each other, but for rounding, and the prior is too "
            "weak for columns of this size: float64 cannot hold the curvature that would determine their separate "
            "weights and certify the optimum. Leave all but one out, use a prior with a smaller scale, or give the "
            "columns in larger units."
        )
    if solver == "sgd" or isinstance(solver, SGD):
        return "Give it more epochs, solver=oddsmith.solvers.SGD(epochs=…), raise tol, or use solver='newton'."
    if n_iter < max_iter and solver in ("auto", "newton"):
        return (
            "More iterations would not help: rounding hides what is left to gain. Use a prior with a smaller scale, "
            "standardise the columns (basis=Standardize()), or raise tol."
        )
    return f"Raise max_iter={max_iter} or tol" + ("." if solver == "newton" else ", or use solver='newton'.")


def column_list(names: list[str]) -> str:
    """Return names of columns for a sentence, the first eight of many."""
    shown = ", ".join(repr(name) for name in names[:8])
    return f"Column{'' if len(names) == 1 else 's'} {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def separation_message(verdict: Separation, classes: Labels) -> str:
    """Return the message about separated classes: how, by which columns, and what to do."""
    how = "completely" if verdict.kind == "complete" else "quasi-completely"
    parts: list[str] = []
    labels = classes.tolist()
    infinite = {term: sign for term, sign in verdict.infinite.items() if verdict.explains(term)}
    for term, sign in (infinite or verdict.infinite).items():
        if len(classes) == 2:
            if term != "(intercept)":
                parts.append(f"{term!r} (towards {labels[1 if sign > 0 else 0]!r})")
        elif term[1] != "(intercept)":
            parts.append(f"{term[1]!r} (class {term[0]!r}, {'+' if sign > 0 else '−'}∞)")
    shown = ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
    if len(parts) > 8 and len(classes) == 2:
        shown = _levels_by_column(list(infinite or verdict.infinite)) or shown
    leak = f"{verdict.question} " if verdict.alone else ""
    return (
        f"{leak}The classes are {how} separated by {shown or 'the intercept'}: the likelihood has no maximum, so the "
        "weights shown are those at which the fit stopped. Use prior=JeffreysPrior() for finite estimates with valid "
        "intervals, or a GaussianPrior, or leave these columns out."
    )


def _levels_by_column(terms: list[str]) -> str:
    """Describe the levels by column among many terms; empty if some term is not a level.

    >>> _levels_by_column(["city[Bern]", "city[Oslo]", "day[1]", "(intercept)"])
    "2 levels of 'city' (such as 'Bern') and 1 level of 'day' (such as '1')"
    """
    levels: dict[str, list[str]] = {}
    for term in terms:
        column, bracket, level = str(term).partition("[")
        if not bracket and term != "(intercept)":
            return ""
        if bracket:
            levels.setdefault(column, []).append(level.removesuffix("]"))
    most = sorted(levels.items(), key=lambda item: -len(item[1]))
    shown = [
        f"{len(found):,} level{'' if len(found) == 1 else 's'} of {column!r} (such as {found[0]!r})"
        for column, found in most[:8]
    ]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def aliased_message(aliased: list[str]) -> str:
    """Return the message about aliased columns.

    >>> aliased_message(["double"])
    "Column 'double' is a linear combination of earlier columns (or constant): set aside with weight 0, as in \
aliased_. Leave it out, or use a prior."
    """
    one = len(aliased) == 1
    levels = any(name.endswith("]") for name in aliased)  # a level is not left out by itself
    what = "the columns that they come from" if levels else "it" if one else "them"
    return (
        f"{column_list(aliased)} {'is a linear combination' if one else 'are linear combinations'} of earlier columns "
        f"(or constant): set aside with weight 0, as in aliased_. Leave {f'out {what}' if levels else f'{what} out'}, "
        "or use a prior."
    )


def link_log_proba(link: Link, a: Array) -> Array:
    """Return the log probabilities of both classes, N × 2, and warn about activations outside the domain.

    Outside the domain, one of the classes is certain.

    >>> from oddsmith.links import LINKS
    >>> np.exp(link_log_proba(LINKS["identity"], np.array([0.0, 0.25, 1.0]))).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    """
    low, high = link.domain
    p, q = link.log_probability(a)
    outside = (a < low) | (a > high)
    if outside.any():
        n = int(outside.sum())
        warnings.warn(
            f"{n} row{'' if n == 1 else 's'}, the first number {int(np.argmax(outside))}, "
            f"{'has an activation' if n == 1 else 'have activations'} outside ({low:g}, {high:g}), where "
            f"link={link.name!r} gives probabilities: they are set to the nearer of 0 and 1. Such rows are unlike "
            "those of the fit; a link such as 'logit' has probabilities everywhere.",
            OddsmithWarning,
            stacklevel=4,
        )
    return np.column_stack([np.where(a <= low, 0.0, q), np.where(a >= high, 0.0, p)])
