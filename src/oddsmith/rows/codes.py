"""A factor as the code of each row's level: its 0/1 columns are never made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.base import STORAGES, Rows
from oddsmith.rows.sparse import CentredRows, SparseRows

CODES = (np.int8, np.int16, np.int32)
"""Types of codes, from the narrowest."""


@STORAGES.register("codes")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CodeRows(Rows):
    """``φ_nj = x_n [code_n is the level of column j]``: a column for each level but the one ``dropped``.

    Codes are 0 … ``levels`` − 1, and −1 for a row that has no level. ``x`` are numbers that stand in the level's column
    (a product of a factor and a number), ones if it is None. Levels in another order than the columns have
    ``level_columns``, the column of each (−1: none), of ``n_columns`` in all: codes of a table are read as they are.
    ``missing`` is then the column of rows that have no level, −1 for none.
    Verbs gather and scatter: time in proportion to the rows, however many levels there are.

    >>> CodeRows(np.array([0, 2, 1], dtype=np.int8), 3, dropped=0).dense().tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """

    codes: npt.NDArray[Any] = field(kw_only=False)
    levels: int = field(kw_only=False)
    dropped: int | None = None
    x: Array | None = None
    level_columns: npt.NDArray[np.int32] | None = None
    n_columns: int = 0
    missing: int = -1
    counts: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    """The rows without a level, then those of each level, if they are known."""
    entries: npt.NDArray[np.int32] = field(init=False, repr=False)
    """The column of each entry of a table by code + 1, −1 where it has none."""

    def __post_init__(self) -> None:
        check_codes(self.codes, self.levels, "A factor")
        entries = np.empty(self.levels + 1, dtype=np.int32)
        entries[0] = self.missing
        if self.level_columns is not None:
            entries[1:] = self.level_columns
            object.__setattr__(self, "level_columns", entries[1:])
        else:
            entries[1:] = np.arange(self.levels)
            if self.dropped is not None:
                entries[self.dropped + 1] = -1
                entries[self.dropped + 2 :] -= 1
        object.__setattr__(self, "entries", entries)

    @property
    def shape(self) -> tuple[int, int]:
        if self.level_columns is not None:
            return len(self.codes), self.n_columns
        return len(self.codes), self.levels - (self.dropped is not None)

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.codes.itemsize + (0 if self.x is None else self.x.itemsize)

    def places(self) -> Indices:
        """Return the column of each row's level, −1 where it has none."""
        return np.asarray(self.entries[self.codes.astype(np.intp) + 1], dtype=np.intp)

    def table(self, w: Array) -> Array:
        """Return ``w`` (M, or M × C) as a table by code + 1: 0 where an entry has no column."""
        return np.concatenate([w, np.zeros((1, *w.shape[1:]))])[self.entries]

    def by_column(self, table: Array) -> Array:
        """Return a table by code + 1 as one number for each column (M)."""
        entries, columns = self.entries, np.zeros(self.shape[1])
        there = entries >= 0
        columns[entries[there]] = table[there]
        return columns

    def activations(self, W: Array) -> Array:
        A = np.asarray(self.table(np.asarray(W, dtype=np.float64))[self.codes.astype(np.intp) + 1])
        return A if self.x is None else A * self.x[:, None]

    def gradient(self, R: Array) -> Array:
        R = R if self.x is None else R * (self.x if R.ndim == 1 else self.x[:, None])
        if R.ndim == 1:
            return self._sums(R)
        return np.stack([self._sums(r) for r in R.T], axis=1) if R.shape[1] else np.zeros((self.shape[1], 0))

    def _sums(self, r: Array) -> Array:
        sums = np.bincount(self.codes.astype(np.intp) + 1, weights=r, minlength=self.levels + 1)
        return self.by_column(sums.astype(np.float64))

    def gram(self, h: Array) -> Array:
        return np.diag(self.squares(h[:, None])[:, 0])

    def squares(self, R: Array) -> Array:
        return self.gradient(R if self.x is None else R * self.x[:, None])

    def row_norms(self, scale: Array) -> Array:
        q = self.table(scale**-2.0)[self.codes.astype(np.intp) + 1]
        return np.asarray(q if self.x is None else q * self.x**2)

    def take(self, rows: Indices) -> CodeRows:
        return self._part(self.codes[rows], None if self.x is None else self.x[rows])

    def slice(self, start: int, stop: int) -> CodeRows:
        return self._part(self.codes[start:stop], None if self.x is None else self.x[start:stop])

    def _part(self, codes: npt.NDArray[Any], x: Array | None) -> CodeRows:
        """Return some rows, whose codes need no second check."""
        part = object.__new__(CodeRows)
        for name, value in (("codes", codes), ("x", x), ("counts", None)):
            object.__setattr__(part, name, value)
        for name in ("levels", "dropped", "level_columns", "n_columns", "missing", "entries"):
            object.__setattr__(part, name, getattr(self, name))
        return part

    def centred(self, center: Array) -> Rows:
        return CentredRows(self, center) if center.any() else self

    def columns(self, which: Sequence[int]) -> SparseRows:
        return self.concrete().columns(which)

    def dense(self, start: int = 0, stop: int | None = None) -> Array:
        return self.slice(start, self.shape[0] if stop is None else stop).concrete().dense()

    def concrete(self) -> SparseRows:
        n, M = self.shape
        places = self.places()
        there = places >= 0
        indptr = np.concatenate([[0], np.cumsum(there)]).astype(np.int32)
        data = np.ones(int(indptr[-1])) if self.x is None else np.asarray(self.x[there], dtype=np.float64)
        X = sparse.csr_array((data, places[there].astype(np.int32), indptr), shape=(n, M))
        X.has_canonical_format = True
        return SparseRows(X)

    @classmethod
    def example(cls, X: Array) -> CodeRows:
        """Return rows with a level by the largest number, and that number in its column."""
        n, M = X.shape
        places = np.argmax(np.abs(X), axis=1) if M else np.full(n, -1)
        x = X[np.arange(n), places] if M else np.zeros(n)
        levels = np.arange(M - 1, -1, -1, dtype=np.int32)  # in reverse order
        codes = np.where(places < 0, -1, M - 1 - places).astype(np.int16)
        return cls(codes, M, x=np.ascontiguousarray(x, dtype=np.float64), level_columns=levels, n_columns=M)


def narrowest(codes: npt.NDArray[Any], levels: int) -> npt.NDArray[Any]:
    """Return codes in the narrowest type that has room for all levels.

    >>> narrowest(np.array([0, 5]), 6).dtype
    dtype('int8')
    """
    dtype = next((dtype for dtype in CODES if levels <= np.iinfo(dtype).max), None)
    if dtype is None:
        raise InvalidInputError(f"A factor has at most {np.iinfo(np.int32).max} levels, found {levels}.")
    return codes.astype(dtype, copy=False)


def check_codes(codes: npt.NDArray[Any], levels: int, what: str) -> None:
    """Refuse codes that are out of range, saying of ``what``.

    >>> check_codes(np.array([0, 3]), 2, "Column 'race'")
    Traceback (most recent call last):
    oddsmith.errors.InvalidInputError: Column 'race' has 2 levels, so codes are −1 (missing) to 1; found 3.
    """
    least, most = (int(codes.min()), int(codes.max())) if len(codes) else (-1, -1)
    if least < -1 or most >= levels:
        raise InvalidInputError(
            f"{what} has {levels} levels, so codes are −1 (missing) to {levels - 1}; found "
            f"{least if least < -1 else most}."
        )
