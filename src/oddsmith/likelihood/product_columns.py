"""Columns of which products ``Σ_n h_n x_nj x_nk`` are formed, and of which more are taken in: dense or sparse ones."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.kernels.columns import ColumnModel, MatrixColumns
from oddsmith.kernels.native import ColumnsProblem, ProductsProblem, address, addresses, kernels
from oddsmith.kernels.packed_columns import (
    MORE_ROWS,
    Packed,
    Places,
    Single,
    Team,
    form_products,
    padded,
    team_address,
)
from oddsmith.numerics import Array

ENTER, MULTIPLY = range(2)  # Tasks of the kernel.
ROW_PARTS = 4  # Parts of the rows that threads share, as in columns.h.
ROOM = 2**23  # Numbers in columns for which there is room at first.


class ProductColumns(Protocol):
    """Some columns of a matrix, in the order in which they were added."""

    @property
    def columns(self) -> MatrixColumns:
        """The columns, without a copy."""

    def add(self, new: Places) -> None:
        """Take in further columns of the matrix."""

    def form(self, G: Single, h: Array, first: int, *, centred: bool) -> Array:
        """Write the products of the columns under ``h``, from the ``first`` on with all, into G; return their means.

        Columns are less their means if ``centred``; these are zero otherwise.
        """

    def centred_dots(self, u: Array, mean: Array) -> Array:
        """Return the products of ``u`` with the columns less their ``mean``, nearly."""

    def centred_activations(self, x: Array, mean: Array) -> Array:
        """Return the sum of ``x`` times the columns less their ``mean``, nearly."""


@dataclass(frozen=True, kw_only=True)
class PackedColumns(MatrixColumns):
    """Some of the dense columns in ``data``, those at the ``places``; a team of threads may read them together."""

    places: Places
    team: Team | None = None

    @property
    def packed(self) -> Packed:
        """All columns in ``data`` for the kernel."""
        return Packed(self.data.reshape(-1, self.n), self.team)

    def matrix(self) -> Array:
        return self.packed.rows[self.places].T

    def dots(self, u: Array) -> Array:
        return self.packed.dots(u, self.places)

    def activations(self, x: Array) -> Array:
        return self.packed.activations(x, self.places)

    def model(self, h: Array, ridge: Array, *, centred: bool = True) -> ColumnModel:
        return MatrixColumns.of(self.matrix()).model(h, ridge, centred=centred)

    def problem(self, **fields: float | int | None) -> ColumnsProblem:
        return super().problem(**{"which": address(self.places), **fields})


@dataclass(kw_only=True)
class DenseProductColumns:
    """Dense columns with room for more: ``scaled`` are those at the ``places`` of ``rows``, less their mean, times √h.

    Columns that follow each other in memory are read where they are; others are copied to ``rows`` as they are added.
    """

    X: npt.NDArray[np.float64]
    team: Team | None = None
    rows: Array = field(init=False)
    places: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    scaled: Single = field(init=False)
    root: Array = field(init=False)

    def __post_init__(self) -> None:
        self.rows = self.X.T if self.in_place else np.empty((0, len(self.X)))
        self.root, self.scaled = np.ones(len(self.X)), np.empty((0, padded(len(self.X))), dtype=np.float32)

    @property
    def in_place(self) -> bool:
        """Whether the numbers of each column follow each other."""
        return self.X.flags.f_contiguous and self.X.dtype == np.float64

    @property
    def columns(self) -> PackedColumns:
        """The columns, without a copy."""
        n, count = len(self.X), len(self.places)
        return PackedColumns(n=n, count=count, data=self.rows.reshape(-1), places=self.places, team=self.team)

    def add(self, new: Places) -> None:
        """Take in further columns of the matrix."""
        k, m, n = len(self.places), len(self.places) + len(new), len(self.X)
        room = min(max(ROOM // n, 2 * m), self.X.shape[1])
        if m + MORE_ROWS > len(self.scaled):
            scaled = np.empty((room + MORE_ROWS, self.scaled.shape[1]), dtype=np.float32)
            scaled[:k] = self.scaled[:k]
            self.scaled = scaled
        if not self.in_place:
            if m > len(self.rows):
                rows = np.empty((room, n))
                rows[:k] = self.rows[:k]
                self.rows = rows
            for place, column in enumerate(new, start=k):
                self.rows[place] = self.X[:, column]
        self.places = np.concatenate([self.places, new if self.in_place else np.arange(k, m)])

    def form(self, G: Single, h: Array, first: int, *, centred: bool) -> Array:
        """Write the products of the columns from the ``first`` on with all into G; return their means."""
        self.root = np.sqrt(h)
        return form_products(self.rows, self.places, h, self.scaled, G, first, centred=centred, team=self.team)

    @property
    def _scaled(self) -> Packed:
        return Packed(self.scaled[: len(self.places), : len(self.X)], self.team)

    def centred_dots(self, u: Array, mean: Array) -> Array:
        """Return the products of ``u`` with the columns less their ``mean``, in single precision."""
        return self._scaled.dots(u / self.root)

    def centred_activations(self, x: Array, mean: Array) -> Array:
        """Return the sum of ``x`` times the columns less their ``mean``, in single precision."""
        return self._scaled.activations(x) / self.root


@dataclass(kw_only=True)
class SparseProductColumns:
    """Columns of a sparse matrix, and for the kernel also by rows: ``entries``, with room for whole rows.

    ``starts`` is where the entries of each row begin, given by `row_starts`; ``splits`` where those of each part of the
    rows begin in each column.
    """

    X: MatrixColumns
    starts: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    splits: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, ROW_PARTS + 1), dtype=np.int64))
    mean: Array = field(default_factory=lambda: np.zeros(0))
    team: Team | None = None

    def __post_init__(self) -> None:
        self.lengths = np.zeros(self.X.n, dtype=np.int32)
        room = len(self.X.data)  # memory is taken where it is written to
        self.entries = np.empty(2 * room, dtype=np.int32)  # a place and a value in single precision each
        self.indices, self.data = np.empty(room, dtype=np.int32), np.empty(room)

    @property
    def columns(self) -> MatrixColumns:
        """The columns, without a copy."""
        count = len(self.indptr) - 1
        return MatrixColumns(n=self.X.n, count=count, data=self.data, indices=self.indices, indptr=self.indptr)

    def add(self, new: Places) -> None:
        """Take in further columns of the matrix."""
        assert self.X.indptr is not None and self.X.indices is not None
        used, first, starts = int(self.indptr[-1]), len(self.indptr) - 1, self.X.indptr[new]
        lengths = self.X.indptr[new + 1] - starts
        ends = used + np.cumsum(lengths)
        total = int(ends[-1])
        self.indptr = np.concatenate([self.indptr, ends])
        self.splits = np.concatenate([self.splits, np.empty((len(new), ROW_PARTS + 1), dtype=np.int64)])
        native, which = kernels(), new.astype(np.int64, copy=False)
        if native is None:
            taken = np.arange(used, total) + np.repeat(starts + lengths - ends, lengths)
            self.data[used:total], self.indices[used:total] = self.X.data[taken], self.X.indices[taken]
        else:
            source = self.X.problem(which=address(which))
            native("products", ctypes.byref(self._problem(first, all=ctypes.addressof(source))), ENTER)

    def _problem(self, first: int, **more: Any) -> ProductsProblem:
        own = addresses(data=self.data, indices=self.indices, indptr=self.indptr)
        own |= addresses(starts=self.starts, lengths=self.lengths, entries=self.entries, splits=self.splits)
        count = len(self.indptr) - 1
        return ProductsProblem(count=count, first=first, team=team_address(self.team), **own, **more)

    def form(self, G: Single, h: Array, first: int, *, centred: bool) -> Array:
        """Write the products of the columns from the ``first`` on with all into G; return their means."""
        m, native, total = len(self.indptr) - 1, kernels(), float(h.sum())
        new = self.columns.some_dots(h, np.arange(first, m)) / total if centred else np.zeros(m - first)
        mean = self.mean = np.concatenate([self.mean[:first], new])
        if native is None:
            X = sparse.csc_array(self.columns.matrix())
            some = X[:, first:].multiply(h[:, None]).T @ X
            G[first:m, :m] = some.toarray() - total * np.outer(new, mean)
            G[:first, first:m] = G[first:m, :first].T
        else:
            how = {"stride": G.strides[0] // G.itemsize, "total": total, **addresses(h=h, mean=mean, G=G)}
            native("products", ctypes.byref(self._problem(first, **how)), MULTIPLY)
        return new

    def centred_dots(self, u: Array, mean: Array) -> Array:
        """Return the products of ``u`` with the columns less their ``mean``."""
        return self.columns.dots(u) - mean * float(u.sum())

    def centred_activations(self, x: Array, mean: Array) -> Array:
        """Return the sum of ``x`` times the columns less their ``mean``."""
        return self.columns.activations(x) - float(mean @ x)


def row_starts(X: MatrixColumns) -> npt.NDArray[np.int64]:
    """Return where the entries of each row begin, if those of one row follow those of another.

    >>> row_starts(MatrixColumns.of(sparse.csc_array(np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 3.0]])))).tolist()
    [0, 2, 2]
    """
    assert X.indices is not None
    lengths, native = np.zeros(X.n, dtype=np.int64), kernels()
    if native is None:
        lengths += np.bincount(X.indices, minlength=X.n)
    else:
        native("row_lengths", ctypes.byref(X.problem()), address(lengths))
    return np.cumsum(lengths) - lengths
