"""The rows of a design in parts: columns of numbers where they lie, categories as codes.

A term is a product of factors. Levels alone, levels of several categories, and levels times a number have one entry in
a row, so a code for each row holds them; numbers are arrays of their own; what is left is a sparse part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from math import nan, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.frame import Coded, Frame
from oddsmith.design.missing_values import first_number, has_missing, missing_error
from oddsmith.design.terms import Factor, Term, Values, encode
from oddsmith.numerics import Array
from oddsmith.rows import CodeRows, ColumnRows, Rows, SparseRows, SplitRows
from oddsmith.rows.codes import narrowest
from oddsmith.rows.split import TableForm

if TYPE_CHECKING:
    from oddsmith.design.table import Design

Levels = Callable[[Factor], CodeRows]
"""The rows of the 0/1 columns of a category."""
Numbers = Callable[[Factor], ColumnRows]
"""The columns of numbers of a factor."""
CHUNK_ROWS = 1 << 14  # Rows whose levels are combined at a time, to save memory.


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
            parts.append(numbers(others[0]))
        elif is_coded(term):
            x = None
            for factor in others:
                (column,) = numbers(factor).filled().arrays
                x = np.asarray(column, dtype=np.float64) if x is None else x * column
            parts.append(_codes(category, levels, x))
        else:
            parts.append(SparseRows(encode([term], values, n_rows, as_csr=True)))
    return SplitRows(tuple(_joined(parts, n_rows)))


def _codes(category: list[Factor], levels: Levels, x: npt.NDArray[np.float64] | None) -> CodeRows:
    if len(category) == 1:
        return replace(levels(category[0]), x=x)
    rows, levels_in_all = [levels(factor) for factor in category], prod(len(factor.names) for factor in category)
    n = rows[0].shape[0]
    codes = np.empty(n, dtype=narrowest(np.empty(0, dtype=np.int64), levels_in_all).dtype)
    for start in range(0, n, CHUNK_ROWS):
        stop, stride = min(start + CHUNK_ROWS, n), 1
        at, present = np.zeros(stop - start, dtype=np.intp), np.ones(stop - start, dtype=bool)
        for part, factor in zip(rows, category, strict=True):
            places = part.slice(start, stop).places()
            at += stride * places
            present &= places >= 0
            stride *= len(factor.names)
        codes[start:stop] = np.where(present, at, -1)
    return CodeRows(codes, levels_in_all, x=x)


def _joined(parts: list[Rows], n_rows: int) -> list[Rows]:
    """Return the parts with neighbouring columns of numbers as one."""
    joined: list[Rows] = []
    for is_columns, some in groupby(parts, lambda part: isinstance(part, ColumnRows)):
        if is_columns:
            columns = [part for part in some if isinstance(part, ColumnRows)]
            fills = tuple(fill for part in columns for fill in part.fills or (nan,) * len(part.arrays))
            arrays = tuple(array for part in columns for array in part.arrays)
            joined.append(ColumnRows(arrays, n_rows, () if np.isnan(fills).all() else fills))
        else:
            joined.extend(some)
    return joined


def _has_missing_codes(coded: Coded, but: npt.NDArray[np.bool_] | None) -> bool:
    """Whether rows have no level, but those left out; codes may have been counted."""
    if coded.counts is not None and not coded.counts[0]:
        return False
    return has_missing(coded.codes, but)


def split_frame(design: Design, frame: Frame, s: Array | None) -> SplitRows:
    """Return the rows of a table in parts: numbers in place, categories as codes; rows of weight 0 may miss values."""
    absent = None if s is None else s == 0
    dropped = absent if design.missing == "drop" else None
    known: dict[tuple[str, bool], CodeRows] = {}

    def levels(factor: Factor) -> CodeRows:
        use, category = (factor.of, factor.full), design.categories_[factor.of]
        if use not in known:
            coded = frame.coded(factor.of)
            if not category.has_missing and _has_missing_codes(coded, dropped):
                raise missing_error(category.name, frame, design.missing)
            known[use] = category.code_rows(coded, design.unseen, absent, full=factor.full)
        return known[use]

    def numbers(factor: Factor) -> ColumnRows:
        n = frame.n_rows
        if factor.what == "indicator":
            return ColumnRows((frame.missing(factor.of),), n)
        column = factor.of.column
        if column is not None:
            array = frame.array(column)
            if column in frame.finite or array.dtype.kind != "f" or not has_missing(array):
                return ColumnRows((array,), n)
            if column in design.fills_:
                return ColumnRows((array,), n, (design.fills_[column],))
            if dropped is not None and not has_missing(array, dropped):
                return ColumnRows((array,), n, (first_number(array),))
        return ColumnRows(tuple(np.ascontiguousarray(design.values(frame, factor, slice(0, n)).T)), n)

    def values(factor: Factor, rows: slice) -> Any:
        if factor.what != "levels":
            return design.values(frame, factor, rows)
        return levels(factor).slice(rows.start, min(rows.stop, frame.n_rows)).places()

    return split_rows(design.terms_, frame.n_rows, levels, numbers, values)
