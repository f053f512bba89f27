"""The rows of a design in parts: columns of numbers where they lie, categories as codes.

A term is a product of factors. Levels alone, levels of several categories, and levels times a number have one entry in
a row, so a code for each row holds them; numbers are arrays of their own; what is left is a sparse part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.terms import Factor, Term, Values, encode
from oddsmith.protocols import Indices
from oddsmith.rows import CodeRows, ColumnRows, Rows, SparseRows, SplitRows
from oddsmith.rows.codes import narrowest
from oddsmith.rows.split import TableForm

Levels = Callable[[Factor], CodeRows]
"""The rows of the 0/1 columns of a category."""
Numbers = Callable[[Factor], list[npt.NDArray[Any]]]
"""The columns of numbers of a factor."""


def is_coded(term: Term) -> bool:
    """Whether a code for each row holds a term: levels, and numbers of one column each beside them."""
    others = [factor for factor in term.factors if factor.what != "levels"]
    return len(others) < len(term.factors) and all(len(factor.names) == 1 for factor in others)


def split_form(terms: Sequence[Term]) -> TableForm:
    """Return the form of the rows of all terms."""
    *starts, M = np.cumsum([0, *(term.width for term in terms)]).tolist()
    coded = [(first, term) for first, term in zip(starts, terms, strict=True) if is_coded(term)]
    products = [(first, term) for first, term in coded if any(factor.what != "levels" for factor in term.factors)]
    codes = sum(narrowest(np.empty(0, dtype=np.int64), term.width).itemsize for _, term in coded)
    numbers = sum(max(1, term.entries) for term in terms if not is_coded(term)) + len(products)
    return TableForm(
        M=M,
        factors=tuple((first, first + term.width) for first, term in coded),
        entries=float(sum(max(1, term.entries) for term in terms)),
        row_bytes=8 * numbers + codes,
        products=tuple((first, first + term.width) for first, term in products),
    )


def split_rows(terms: Sequence[Term], n_rows: int, levels: Levels, numbers: Numbers, values: Values) -> SplitRows:
    """Return the rows of all terms; ``values`` are those of `encode`, for terms that are neither codes nor numbers."""
    parts: list[Rows] = []
    for term in terms:
        category = [factor for factor in term.factors if factor.what == "levels"]
        others = [factor for factor in term.factors if factor.what != "levels"]
        if not category and len(others) == 1:
            parts.append(ColumnRows(tuple(numbers(others[0])), n_rows))
        elif is_coded(term):
            x = None
            for factor in others:
                (column,) = numbers(factor)
                x = np.asarray(column, dtype=np.float64) if x is None else x * column
            parts.append(_codes(category, levels, x))
        else:
            parts.append(SparseRows(encode([term], values, n_rows, as_csr=True)))
    return SplitRows(tuple(_joined(parts, n_rows)))


def _codes(category: list[Factor], levels: Levels, x: npt.NDArray[np.float64] | None) -> CodeRows:
    if len(category) == 1:
        return replace(levels(category[0]), x=x)
    stride, at, present = 1, None, None
    for factor in category:
        places = levels(factor).places()
        there = places >= 0
        at = stride * places if at is None else at + stride * places
        present = there if present is None else present & there
        stride *= len(factor.names)
    assert at is not None and present is not None
    combined: Indices = np.where(present, at, -1)
    return CodeRows(narrowest(combined, stride), stride, x=x)


def _joined(parts: list[Rows], n_rows: int) -> list[Rows]:
    """Return the parts with neighbouring columns of numbers as one."""
    joined: list[Rows] = []
    for is_columns, some in groupby(parts, lambda part: isinstance(part, ColumnRows)):
        if is_columns:
            arrays = tuple(array for part in some if isinstance(part, ColumnRows) for array in part.arrays)
            joined.append(ColumnRows(arrays, n_rows))
        else:
            joined.extend(some)
    return joined
