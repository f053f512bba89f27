"""Terms of a design: products of factors, each some columns of numbers or the 0/1 columns of a category.

A row has a few entries that are not zero, whatever the number of levels. So a block of rows is made as the list of
these entries, and written into an array or a CSR matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.numerics import Array

Indices = npt.NDArray[np.intp]

BLOCK_ROWS = 1 << 16
MANY_LEVELS = 20
"""A category with more levels makes the design sparse."""
LOW_DENSITY = 0.1
"""A design of which a smaller share is not zero is sparse."""


@dataclass(frozen=True)
class Factor:
    """One factor of a term: what it is (``"numbers"``, ``"levels"`` or ``"indicator"``), of what, and its columns.

    ``of`` is an expression, or the name of a column; ``full`` says that every level has a column.
    """

    what: str
    of: Any
    names: tuple[str, ...]
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
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        combinations = product(*(factor.names for factor in reversed(self.factors)))
        return tuple(":".join(reversed(names)) for names in combinations)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(np.prod([len(factor.names) for factor in self.factors], dtype=np.int64))

    @property
    def entries(self) -> int:
        """The most entries of a row that are not zero."""
        return int(np.prod([len(f.names) for f in self.factors if f.what != "levels"], dtype=np.int64))


def is_sparse(terms: Sequence[Term]) -> bool:
    """Whether a design is better kept as the entries that are not zero.

    >>> is_sparse([Term((Factor("levels", "city", tuple(map(str, range(500)))),))])
    True
    """
    sizes = [len(factor.names) for term in terms for factor in term.factors if factor.what == "levels"]
    width = sum(term.width for term in terms)
    return max(sizes, default=0) >= MANY_LEVELS or sum(term.entries for term in terms) < LOW_DENSITY * width


def contrasts(terms: Sequence[Sequence[Any]], categories: set[Any], *, intercept: bool) -> list[list[bool]]:
    """Return, for each factor of each term, whether all levels get a column; by R's rule.

    A category is coded without its reference if the term without it is in an earlier term (or nothing, which is in the
    constant); else with all levels. Without a constant, the first category of all has all levels.

    >>> contrasts([["f"], ["x", "f"]], {"f"}, intercept=True)
    [[False], [False, True]]
    """
    full = []
    for i, term in enumerate(terms):
        rests = [set(term) - {factor} for factor in term]
        full.append(
            [
                factor in categories and bool(rest) and not any(rest <= set(earlier) for earlier in terms[:i])
                for factor, rest in zip(term, rests, strict=True)
            ]
        )
    if not intercept:
        first = next(((i, j) for i, term in enumerate(terms) for j, f in enumerate(term) if f in categories), None)
        if first is not None:
            full[first[0]][first[1]] = True
    return full


Values = Callable[[Factor, slice], Array]
"""The values of a factor in some rows: n × w numbers, or the place of each row's level (n; −1: the reference)."""


def encode(terms: Sequence[Term], values: Values, n_rows: int, *, as_csr: bool) -> Any:
    """Return all columns of all terms, N × M, as an array or a CSR matrix; made a block of rows at a time."""
    M = sum(term.width for term in terms)
    starts = np.cumsum([0, *(term.width for term in terms)])
    blocks = [slice(start, min(start + BLOCK_ROWS, n_rows)) for start in range(0, n_rows, BLOCK_ROWS)]
    made = ([_entries(term, int(at), values, rows) for term, at in zip(terms, starts, strict=False)] for rows in blocks)
    if as_csr:
        return _csr([_compressed(parts) for parts in made], n_rows, M)
    Phi = np.zeros((n_rows, M))
    for rows, parts in zip(blocks, made, strict=True):
        for where, value in parts:
            _write(Phi[rows], where, value)
    return Phi


def _entries(term: Term, start: int, values: Values, rows: slice) -> tuple[Indices, Array]:
    """Return the columns and values of the entries of a term, n × p each; a column −1 has no entry."""
    n = rows.stop - rows.start
    stride, at, there = 1, np.full(n, start, dtype=np.intp), np.ones(n, dtype=bool)
    offsets, value = np.zeros(1, dtype=np.intp), np.ones((n, 1))
    for factor in term.factors:
        found = values(factor, rows)
        if factor.what == "levels":
            there &= found >= 0
            at += stride * found.astype(np.intp)
        else:
            # Columns in ascending order: those of this factor are further apart than all before.
            offsets = (offsets + stride * np.arange(found.shape[1])[:, None]).ravel()
            value = (found[:, :, None] * value[:, None, :]).reshape(n, -1)
        stride *= len(factor.names)
    return np.where(there[:, None], at[:, None] + offsets, -1), value


def _write(Phi: Array, where: Indices, value: Array) -> None:
    there = where[:, 0] >= 0
    if there.all():
        np.put_along_axis(Phi, where, value, axis=1)
    else:
        inside = np.flatnonzero(there)
        Phi[inside[:, None], where[inside]] = value[inside]


def _compressed(parts: list[tuple[Indices, Array]]) -> tuple[Array, npt.NDArray[np.int32], Indices]:
    """Return data, columns and the number of entries of each row."""
    where = np.concatenate([where for where, _ in parts], axis=1)
    value = np.concatenate([value for _, value in parts], axis=1)
    there = (where >= 0) & (value != 0.0)
    return value[there], where[there].astype(np.int32), there.sum(axis=1)


def _csr(blocks: list[tuple[Array, npt.NDArray[np.int32], Indices]], n_rows: int, M: int) -> Any:
    data = np.concatenate([np.zeros(0), *(block[0] for block in blocks)])
    columns = np.concatenate([np.zeros(0, dtype=np.int32), *(block[1] for block in blocks)])
    counts = np.concatenate([np.zeros(1, dtype=np.intp), *(block[2] for block in blocks)])
    rows = np.cumsum(counts)
    rows = rows.astype(np.int32) if rows[-1] < 2**31 else rows
    X = sparse.csr_array((data, columns, rows), shape=(n_rows, M))
    X.has_canonical_format = True
    return X
