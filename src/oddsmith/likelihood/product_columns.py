"""Columns of which products ``Σ_n h_n x_nj x_nk`` are formed, and of which more are taken in: dense or sparse ones."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.native import ProductsProblem, address, addresses, kernels
from oddsmith.kernels.packed_columns import MORE_ROWS, Packed, Places, Single, Team, form_products, padded
from oddsmith.numerics import Array

COPIED_AT_ONCE = 64  # Columns of products that are copied at a time.
ENTER, MULTIPLY = range(2)  # Tasks of the kernel.
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
    """Dense columns that a team of threads may read together."""

    team: Team | None = None

    @property
    def packed(self) -> Packed:
        """The same for the kernel."""
        return Packed(self.data[: self.count * self.n].reshape(self.count, self.n), self.team)

    def dots(self, u: Array) -> Array:
        return self.packed.dots(u)

    def activations(self, x: Array) -> Array:
        return self.packed.activations(x)


@dataclass(kw_only=True)
class DenseProductColumns:
    """Dense columns with room for more: ``packed`` as they are, ``scaled`` less their mean and times √h (``root``)."""

    X: npt.NDArray[np.float64]
    team: Team | None = None
    count: int = 0
    packed: Array = field(init=False)
    scaled: Single = field(init=False)
    root: Array = field(init=False)

    def __post_init__(self) -> None:
        self.packed, self.root = np.empty((0, len(self.X))), np.ones(len(self.X))
        self.scaled = np.empty((0, padded(len(self.X))), dtype=np.float32)

    @property
    def columns(self) -> PackedColumns:
        """The columns, without a copy."""
        data = self.packed[: self.count].reshape(-1)
        return PackedColumns(n=len(self.X), count=self.count, data=data, team=self.team)

    def add(self, new: Places) -> None:
        """Take in further columns of the matrix."""
        k, m = self.count, self.count + len(new)
        if m > len(self.packed):
            room = min(max(ROOM // len(self.X), 2 * m), self.X.shape[1])
            packed = np.empty((room, len(self.X)))
            scaled = np.empty((room + MORE_ROWS, self.scaled.shape[1]), dtype=np.float32)
            packed[:k], scaled[:k] = self.packed[:k], self.scaled[:k]
            self.packed, self.scaled = packed, scaled
        for place, column in enumerate(new, start=k):
            self.packed[place] = self.X[:, column]
        self.count = m

    def form(self, G: Single, h: Array, first: int, *, centred: bool) -> Array:
        """Write the products of the columns from the ``first`` on with all into G; return their means."""
        self.root = np.sqrt(h)
        data = self.packed[: self.count]
        return form_products(data, h, self.scaled, G, first, centred=centred, team=self.team)

    def centred_dots(self, u: Array, mean: Array) -> Array:
        """Return the products of ``u`` with the columns less their ``mean``, in single precision."""
        return Packed(self.scaled[: self.count, : len(self.X)], self.team).dots(u / self.root)

    def centred_activations(self, x: Array, mean: Array) -> Array:
        """Return the sum of ``x`` times the columns less their ``mean``, in single precision."""
        return Packed(self.scaled[: self.count, : len(self.X)], self.team).activations(x) / self.root


@dataclass(kw_only=True)
class SparseProductColumns:
    """Columns of a sparse matrix, and for the kernel also by rows: ``entries``, with room for whole rows.

    ``starts`` is where the entries of each row begin, given by `row_starts`.
    """

    X: MatrixColumns
    starts: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    indices: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    data: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.lengths = np.zeros(self.X.n, dtype=np.int32)
        self.entries = np.empty(2 * len(self.X.data), dtype=np.int32)  # a place and a value in single precision each

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
        if total > len(self.data):
            data, indices = np.empty(2 * total), np.empty(2 * total, dtype=np.int32)
            data[:used], indices[:used] = self.data[:used], self.indices[:used]
            self.data, self.indices = data, indices
        self.indptr = np.concatenate([self.indptr, ends])
        native, which = kernels(), new.astype(np.int64, copy=False)
        if native is None:
            taken = np.arange(used, total) + np.repeat(starts + lengths - ends, lengths)
            self.data[used:total], self.indices[used:total] = self.X.data[taken], self.X.indices[taken]
        else:
            source = self.X.problem(which=address(which))
            native("products", ctypes.byref(self._problem(first, all=ctypes.addressof(source))), ENTER)

    def _problem(self, first: int, **more: Any) -> ProductsProblem:
        own = addresses(data=self.data, indices=self.indices, indptr=self.indptr)
        own |= addresses(starts=self.starts, lengths=self.lengths, entries=self.entries)
        return ProductsProblem(count=len(self.indptr) - 1, first=first, **own, **more)

    def form(self, G: Single, h: Array, first: int, *, centred: bool) -> Array:
        """Write the products of the columns from the ``first`` on with all into G; return all their means."""
        dots = self.columns.dots(h)
        mean = dots / h.sum() if centred else np.zeros_like(dots)
        m, native = len(self.indptr) - 1, kernels()
        if native is None:
            X = sparse.csc_array(self.columns.matrix())
            some = X[:, first:].multiply(h[:, None]).T @ X
            G[first:m, :m] = some.toarray() - h.sum() * np.outer(mean[first:], mean)
        else:
            how = {"stride": G.strides[0] // G.itemsize, "total": float(h.sum()), **addresses(h=h, mean=mean, G=G)}
            native("products", ctypes.byref(self._problem(first, **how)), MULTIPLY)
        for start in range(first, m, COPIED_AT_ONCE):
            stop = min(start + COPIED_AT_ONCE, m)
            G[:start, start:stop] = G[start:stop, :start].T
            own = G[start:stop, start:stop]
            own[...] = np.tril(own) + np.tril(own, -1).T
        return mean[first:]

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
