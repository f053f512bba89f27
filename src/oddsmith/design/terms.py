"""Terms of a design: products of factors, each some columns of numbers or the 0/1 columns of a category.

A row has a few entries that are not zero, whatever the number of levels. So a block of rows is made as the list of
these entries, and written into an array or a CSR matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.inputs import ArrayOrCSR
from oddsmith.design.levels import MISSING, LevelNames
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

BLOCK_ROWS = 1 << 16
MANY_LEVELS = 20  # A category with more levels makes the design sparse.
LOW_DENSITY = 0.1  # A design with a smaller share of nonzeros is sparse.


@dataclass(frozen=True)
class Factor:
    """One factor of a term: what it is (``"numbers"``, ``"levels"`` or ``"indicator"``), of what, and its columns.

    ``of`` is an expression, or the name of a column; ``full`` says that every level has a column.
    """

    what: str
    of: Any
    names: Sequence[str]
    full: bool = False


@dataclass(frozen=True)
class Term:
    """A product of factors: a column for each combination of theirs, the first factor changing fastest, as in R.

    >>> race = Factor("levels", "race", ("race[black]", "race[other]"))
    >>> Term((race, Factor("numbers", "smoke", ("smoke",)))).names
    ('race[black]:smoke', 'race[other]:smoke')
    """

    factors: tuple[Factor, ...]

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""
        if len(self.factors) == 1:
            return self.factors[0].names
        combinations = product(*(factor.names for factor in reversed(self.factors)))
        return tuple(":".join(reversed(names)) for names in combinations)

    @property
    def width(self) -> int:
        """The number of columns."""
        return prod(len(factor.names) for factor in self.factors)

    @property
    def entries(self) -> int:
        """The most entries of a row that are not zero."""
        return prod(len(factor.names) for factor in self.factors if factor.what != "levels")


def is_sparse(terms: Sequence[Term]) -> bool:
    """Whether a design is better kept as the entries that are not zero."""
    sizes = [len(factor.names) for term in terms for factor in term.factors if factor.what == "levels"]
    width = sum(term.width for term in terms)
    return max(sizes, default=0) >= MANY_LEVELS or sum(term.entries for term in terms) < LOW_DENSITY * width


def repeated_name(terms: Sequence[Term]) -> str | None:
    """Return a name that two columns have, None if there is none.

    >>> terms = [Term((Factor("numbers", name, (name,)),)) for name in ("x", "y", "x")]
    >>> repeated_name(terms), repeated_name(terms[:2])
    ('x', None)
    """
    names = [term.names for term in terms]
    if not _differ_by_column(names):
        hashes = np.fromiter((hash(name) for some in names for name in some), dtype=np.int64)  # names take more memory
        found, counts = np.unique(hashes, return_counts=True)
        again = set(found[counts > 1].tolist())
        twice = Counter(name for some in names for name in some if hash(name) in again) if again else Counter[str]()
        return next((name for name, count in twice.items() if count > 1), None)
    return None


def _differ_by_column(names: Sequence[Sequence[str]]) -> bool:
    """Whether names differ because those of their columns do: no column is called like the level of another one.

    Texts that differ have different names, unlike 1 and "1".
    """
    levels = [some.category for some in names if isinstance(some, LevelNames)]
    starts = [f"{category.name}[" for category in levels]
    columns = [*starts, *(name for some in names if not isinstance(some, LevelNames) for name in some)]
    apart = all(name == start or not name.startswith(start) for start in starts for name in columns)
    return apart and len(set(columns)) == len(columns) and all(category.has_texts for category in levels)


def contrasts(terms: Sequence[Sequence[Any]], categories: set[Any], *, intercept: bool) -> list[list[bool]]:
    """Return, for each factor of each term, whether all levels get a column; by R's rule.

    A category is coded without its reference if the term without it is in an earlier term (or nothing, which is in the
    constant); else with all levels. Without a constant, the first category of all has all levels.

    >>> contrasts([["f"], ["x", "f"]], {"f"}, intercept=True)
    [[False], [False, True]]
    """
    full, constant = [], intercept
    for i, term in enumerate(terms):
        full.append([False] * len(term))
        for j, factor in enumerate(term):
            rest = set(term) - {factor}
            if factor in categories:
                alone = bool(rest) and not any(rest <= set(earlier) for earlier in terms[:i])
                full[i][j], constant = alone or not constant, True
    return full


Values = Callable[[Factor, slice], Array]
"""The values of a factor in some rows: n × w numbers, or the place of each row's level (n; −1: the reference)."""


def encode(terms: Sequence[Term], values: Values, n_rows: int, *, as_csr: bool, by_column: bool = False) -> ArrayOrCSR:
    """Return all columns, N × M: a CSR matrix, or an array in C order or (``by_column``) Fortran's, written sooner."""
    *starts, M = np.cumsum([0, *(term.width for term in terms)]).tolist()
    blocks = [slice(start, min(start + BLOCK_ROWS, n_rows)) for start in range(0, n_rows, BLOCK_ROWS)]
    if as_csr:
        entries = ([_entries(term, values, rows) for term in terms] for rows in blocks)
        return _csr([_compressed(parts, starts) for parts in entries], n_rows, M)
    Phi = np.zeros((n_rows, M), order="F" if by_column else "C")
    for rows in blocks:
        for term, start in zip(terms, starts, strict=True):
            _write(Phi[rows, start : start + term.width], _entries(term, values, rows))
    return Phi


@dataclass(frozen=True)
class Entries:
    """The entries of a term in n rows: ``value`` (n × p) in the columns ``at + offsets`` of the term.

    ``at`` (n) depends on the levels of a row, and is −1 where it has no entry; None: the term has no levels.
    """

    at: Indices | None
    offsets: Indices
    value: Array


def _entries(term: Term, values: Values, rows: slice) -> Entries:
    n = rows.stop - rows.start
    stride, at, present = 1, None, np.ones(n, dtype=bool)
    offsets, value = np.zeros(1, dtype=np.intp), None
    for factor in term.factors:
        found = values(factor, rows)
        if factor.what == "levels":
            present &= found >= 0
            at = stride * found + (0 if at is None else at)
        else:
            # Columns in ascending order: those of this factor are further apart than all before.
            offsets = (offsets + stride * np.arange(found.shape[1])[:, None]).ravel()
            value = found if value is None else (found[:, :, None] * value[:, None, :]).reshape(n, -1)
        stride *= len(factor.names)
    value = np.ones((n, 1)) if value is None else value
    return Entries(None if at is None else np.where(present, at, -1), offsets, value)


def _write(Phi: Array, entries: Entries) -> None:
    if entries.at is None:
        Phi[:] = entries.value
    elif Phi.shape[1] <= MANY_LEVELS and len(entries.offsets) == 1:
        for j, column in enumerate(Phi.T):
            np.copyto(column, entries.value[:, 0], where=entries.at == j)
    else:
        inside = np.flatnonzero(entries.at >= 0)
        Phi[inside[:, None], entries.at[inside, None] + entries.offsets] = entries.value[inside]


def _compressed(parts: list[Entries], starts: list[int]) -> tuple[Array, npt.NDArray[np.int32], Indices]:
    """Return data, columns and the number of entries of each row."""
    value = np.concatenate([part.value for part in parts], axis=1)
    columns, present = np.empty(value.shape, dtype=np.int32), value != 0.0
    end = 0
    for part, start in zip(parts, starts, strict=True):
        begin, end = end, end + len(part.offsets)
        columns[:, begin:end] = start + part.offsets
        if part.at is not None:
            columns[:, begin:end] += part.at.astype(np.int32)[:, None]
            present[:, begin:end] &= part.at[:, None] >= 0
    return value[present], columns[present], present.sum(axis=1)


def _csr(blocks: list[tuple[Array, npt.NDArray[np.int32], Indices]], n_rows: int, M: int) -> sparse.csr_array:
    nothing = np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.intp)
    data, columns, counts = (np.concatenate(parts) for parts in zip(nothing, *blocks, strict=True))
    rows = np.cumsum(counts)
    X = sparse.csr_array((data, columns, rows.astype(np.int32) if rows[-1] < 2**31 else rows), shape=(n_rows, M))
    X.has_canonical_format = True
    return X


def indicator(name: str) -> Term:
    """Return the 0/1 column that says where a column of numbers is missing."""
    return Term((Factor("indicator", name, (f"{name}[{MISSING}]",)),))
