"""From the columns of a table to the terms of a model: which terms a column has, and which are indicators of levels."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np
import numpy.typing as npt

from oddsmith.design.basis.expansion import Expansion
from oddsmith.design.fitted_basis import input_names, learned_basis
from oddsmith.design.inputs import dense, learned_design, read_rows
from oddsmith.design.levels import MISSING, Category
from oddsmith.design.terms import Factor
from oddsmith.inference.fit_record import expression_of
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array

MOST_INPUTS = 200  # Columns up to which it is tried out which basis functions depend on which of them.
TRIED_ROWS = 256


def column_terms(model: Classifier, rows: object) -> dict[str, list[int]]:
    """Return the terms that depend on each column of the table, by their places.

    All levels of a category belong to it, and so do its missing values, powers, splines and products with others.

    >>> from oddsmith import LogisticRegression, Polynomial
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> column_terms(LogisticRegression(1.0, basis=Polynomial(2)).fit(X, X[:, 0] > 0), X)
    {'x0': [0, 2, 3], 'x1': [1, 3, 4]}
    """
    inputs, basis = _inputs(model), learned_basis(model)
    if basis is None:
        return inputs
    if basis.n_inputs > MOST_INPUTS:
        return {}
    depends = _dependence(basis, dense(read_rows(model, rows, reset=False)[:TRIED_ROWS]).astype(np.float64))
    return {column: np.flatnonzero(depends[:, places].any(axis=1)).tolist() for column, places in inputs.items()}


def _inputs(model: Classifier) -> dict[str, list[int]]:
    """Return the places of each column among those that come in, or that a design makes of a table."""
    design = learned_design(model)
    if design is None:
        return {str(name): [j] for j, name in enumerate(input_names(model))}
    found: dict[str, list[int]] = {}
    start = 0
    for term in design.terms_:
        for name in {name for factor in term.factors for name in expression_of(factor).columns}:
            found.setdefault(name, []).extend(range(start, start + term.width))
        start += term.width
    return {str(name): found[name] for name in design.feature_names_in_ if name in found}


def _dependence(basis: Expansion, Z: Array) -> npt.NDArray[np.bool_]:
    """Return which outputs of the basis change (outputs × inputs) if the values of one input are exchanged."""
    before = dense(basis(Z))
    changed = np.zeros((basis.n_outputs, basis.n_inputs), dtype=bool)
    for j in range(basis.n_inputs):
        other = Z.copy()
        other[:, j] = np.roll(Z[:, j], 1)
        changed[:, j] = (dense(basis(other)) != before).any(axis=0)
    return changed


def indicator_texts(model: Classifier) -> dict[str, str]:
    """Return what a 0/1 term compares, by its name: a level with the reference, or missing values with others.

    >>> import polars
    >>> from oddsmith import LogisticRegression
    >>> table = polars.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "race": ["black", "white", "black", "white"]})
    >>> indicator_texts(LogisticRegression(1.0).fit(table, [0, 0, 1, 1]))
    {'race[white]': 'white instead of black'}
    """
    design = learned_design(model)
    if design is None:
        return {}
    texts: dict[str, str] = {}
    for term in design.terms_:
        if len(term.factors) == 1:
            compared = _compared(term.factors[0], design.kinds_, design.categories_)
            texts |= {name: text for name, text in zip(term.names, compared, strict=False) if text}
        elif all(factor.what != "numbers" for factor in term.factors):
            texts |= dict.fromkeys(term.names, "both levels together")
    return texts


def _compared(factor: Factor, kinds: dict[str, str], categories: dict[str, Category]) -> Iterable[str]:
    """Return what each column of a factor compares, empty for numbers."""
    if factor.what == "indicator":
        return ["missing instead of its mean"]
    expression = expression_of(factor)
    if factor.what == "numbers":
        is_boolean = kinds.get(expression.column or "") == "boolean"
        return ["true instead of false"] if is_boolean else []
    category = categories.get(expression.category or expression.column or "")
    if category is None or factor.full:
        return repeat("this level")
    shown = [MISSING if level is None else str(level) for level in category.levels]
    return [f"{shown[i]} instead of {shown[category.reference]}" for i in category.columns(full=False)]
