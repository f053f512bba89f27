"""Symmetric matrices with a large diagonal block: the Hessian of a model with one large factor.

The levels of a factor exclude each other, so their block is diagonal. With D that block, A the block of all other
coordinates and B the block between them, eliminating the levels leaves the Schur complement ``S = A − Bᵀ D⁻¹ B``, which
has the size of the rest of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.cached_property import cached_property
from oddsmith.numerics import EPS, Array, SpdFactor, add_transpose, factor_spd

T = TypeVar("T", bound=np.generic)
CHUNK = 1 << 14  # Numbers of the block between that are computed at a time.
VANISHES = 1e-11
"""Share of a diagonal below which the remainder is only rounding error."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseBorder:
    """The block between (L × R) where it is not zero: a few whole columns, and some numbers in the others.

    ``numbers`` (L × k) are the columns ``places``; ``data``, ``indices`` and ``indptr`` are all others as a CSR matrix.

    >>> indices, indptr = np.array([2, 1], dtype=np.int32), np.array([0, 1, 2], dtype=np.int32)
    >>> cells = {"data": np.array([3.0, 4.0]), "indices": indices, "indptr": indptr, "columns": 3}
    >>> B = SparseBorder(numbers=np.array([[1.0], [2.0]]), places=np.array([0]), **cells)
    >>> B[:].tolist()
    [[1.0, 0.0, 3.0], [2.0, 4.0, 0.0]]
    """

    numbers: Array
    places: npt.NDArray[np.intp]
    data: Array
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]
    columns: int

    @cached_property
    def _cells(self) -> sparse.csr_array:
        shape = len(self.indptr) - 1, self.columns
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=shape)

    @cached_property
    def _transposed(self) -> sparse.csc_array:
        return self._cells.T

    def __getitem__(self, rows: slice) -> Array:
        ends = self.indptr[slice(rows.start, None if rows.stop is None else rows.stop + 1)]
        B = np.zeros((len(ends) - 1, self.columns))
        B[:, self.places] = self.numbers[rows]
        first = np.repeat(np.arange(len(B)) * self.columns, np.diff(ends))  # of each number's row
        B.reshape(-1)[first + self.indices[ends[0] : ends[-1]]] = self.data[ends[0] : ends[-1]]
        return B

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self.data.dtype

    def astype(self, dtype: type[np.floating[Any]]) -> SparseBorder:
        """Return the block with numbers of a type."""
        return replace(self, numbers=self.numbers.astype(dtype), data=self.data.astype(dtype))

    def absolute_sums(self) -> Array:
        """Return the sum of the absolute values in each column."""
        sums = np.zeros(self.columns)
        for start in range(0, len(self.data), CHUNK):
            part = slice(start, start + CHUNK)
            sums += np.bincount(self.indices[part], np.abs(self.data[part]), self.columns)
        sums[self.places] = [np.abs(column).sum() for column in self.numbers.T]
        return sums

    def __matmul__(self, r: Array) -> Array:
        product = np.asarray(self._cells @ (r := r.astype(self.dtype, copy=False)))
        product += self.numbers @ r[self.places]
        return product

    def transposed_product(self, e: Array) -> Array:
        """Return ``Bᵀ e``."""
        product = np.asarray(self._transposed @ (e := e.astype(self.dtype, copy=False)))
        product[self.places] += self.numbers.T @ e
        return product

    def __add__(self, other: SparseBorder) -> SparseBorder:  # both have the same columns
        return replace(self, numbers=self.numbers + other.numbers, data=self.data + other.data)

    def __mul__(self, m: float) -> SparseBorder:
        return replace(self, numbers=self.numbers * m, data=self.data * m)

    def add(self, other: SparseBorder) -> None:
        """Add another block with the same columns to this one."""
        np.add(self.numbers, other.numbers, out=self.numbers)
        np.add(self.data, other.data, out=self.data)

    def divide(self, r: Array, e: Array) -> None:
        """Divide the columns by ``r`` and the rows by ``e``."""
        np.divide(self.numbers, r[self.places], out=self.numbers)
        if (np.delete(r, self.places) != 1.0).any():
            for start in range(0, len(self.data), CHUNK):
                part = slice(start, start + CHUNK)
                self.data[part] /= r[self.indices[part]]
        if (e != 1.0).any():
            np.divide(self.numbers, e[:, None], out=self.numbers)
            for start in range(0, len(e), CHUNK // 8):
                ends = self.indptr[start : start + CHUNK // 8 + 1]
                self.data[ends[0] : ends[-1]] /= np.repeat(e[start : start + CHUNK // 8], np.diff(ends))

    def clear(self, columns: npt.NDArray[np.bool_], rows: npt.NDArray[np.bool_]) -> None:
        """Set some columns and rows to zero."""
        self.numbers[:, columns[self.places]] = 0.0
        self.numbers[rows] = 0.0
        self.data[columns[self.indices]] = 0.0
        self.data[np.repeat(rows, np.diff(self.indptr))] = 0.0


@dataclass(frozen=True, eq=False)
class ClassBorder:
    """The block between L levels and R other weights for each pair of ``C`` classes: ``pairs[i, j]`` is L × R.

    >>> pairs = {(0, 0): np.array([[1.0, 2.0]]), (0, 1): np.array([[3.0, 4.0]]), (1, 1): np.array([[6.0, 7.0]])}
    >>> B = ClassBorder({**pairs, (1, 0): pairs[0, 1]}, C=2)
    >>> B[:].tolist(), B.product(np.array([1.0, 0.0, 0.0, 1.0])).tolist()
    ([[[1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 6.0, 7.0]]], [[5.0, 10.0]])
    >>> B.round()
    >>> B.transposed_product(np.array([[1.0, 1.0]])).tolist(), B.pairs[1, 0] is B.pairs[0, 1]
    ([4.0, 6.0, 9.0, 11.0], True)
    """

    pairs: dict[tuple[int, int], Any]
    C: int

    def round(self) -> None:
        """Round the blocks to float32 where they are, to save memory; products with them have its digits, too."""
        left = list(self.pairs)
        while left:
            B = self.pairs[left[0]]
            same = [place for place in left if self.pairs[place] is B]  # of both orders of two classes
            self.pairs.update(dict.fromkeys(same, B.astype(np.float32)))
            left = [place for place in left if place not in same]

    def __getitem__(self, rows: slice) -> Array:
        """Return some levels, L × C × CR."""
        each = range(self.C)
        return np.stack([np.concatenate([self.pairs[i, j][rows] for j in each], axis=1) for i in each], axis=1)

    def product(self, y: Array) -> Array:
        """Return ``B y`` (L × C) of weights (CR)."""
        each = list(enumerate(np.split(y.astype(self.pairs[0, 0].dtype), self.C)))
        return np.stack([np.sum([self.pairs[i, j] @ v for j, v in each], axis=0) for i in range(self.C)], axis=1)

    def transposed_product(self, x: Array) -> Array:
        """Return ``Bᵀ x`` (CR) of weights of the levels (L × C)."""
        each = list(enumerate(x.astype(self.pairs[0, 0].dtype).T))
        return np.concatenate(
            [np.sum([_transposed(self.pairs[i, j], v) for i, v in each], axis=0) for j in range(self.C)]
        )


def _transposed(B: Array | SparseBorder, e: Array) -> Array:
    return B.transposed_product(e) if isinstance(B, SparseBorder) else B.T @ e


@dataclass(frozen=True, eq=False, kw_only=True)
class BorderedDiagonal:
    """A symmetric matrix whose coordinates from ``start`` on have a diagonal block.

    ``A`` (R × R) is the block of all other coordinates, ``B`` (L × R) the block between, ``d`` (L) the diagonal. With
    ``floor``, the matrix is known to be at least so much on the diagonal block: ``xᵀHx ≥ floor ‖e‖²`` (a prior).

    >>> H = BorderedDiagonal(A=np.array([[4.0]]), B=np.array([[1.0], [2.0]]), d=np.array([2.0, 5.0]), start=1)
    >>> H.toarray().tolist()
    [[4.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 5.0]]
    """

    A: Array
    B: Array | SparseBorder
    d: Array
    start: int
    floor: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        size = len(self.A) + len(self.d)
        return size, size

    @property
    def stop(self) -> int:
        """The first coordinate after the diagonal block."""
        return self.start + len(self.d)

    def rest(self, v: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return the entries of a vector (or the rows of an array) outside the diagonal block."""
        return np.concatenate([v[: self.start], v[self.stop :]])

    def join(self, rest: npt.NDArray[T], levels: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return the vector with these entries outside and inside the diagonal block."""
        return np.concatenate([rest[: self.start], levels, rest[self.start :]])

    def transposed_product(self, e: Array) -> Array:
        """Return ``Bᵀ e``."""
        return _transposed(self.B, e)

    def add(self, other: BorderedDiagonal) -> None:
        """Add another matrix of the same form to this one where it is: nobody else may hold it."""
        np.add(self.A, other.A, out=self.A)
        np.add(self.d, other.d, out=self.d)
        B: Any = other.B  # both are of one type
        if isinstance(self.B, SparseBorder):
            self.B.add(B)
        else:
            np.add(self.B, B, out=self.B)

    def __add__(self, other: BorderedDiagonal) -> BorderedDiagonal:
        floor = self.floor + other.floor
        B: Any = self.B  # both are of one type
        return replace(self, A=self.A + other.A, B=B + other.B, d=self.d + other.d, floor=floor)

    def __mul__(self, m: float) -> BorderedDiagonal:
        return replace(self, A=self.A * m, B=self.B * m, d=self.d * m, floor=self.floor * m)

    def __matmul__(self, v: Array) -> Array:
        r, e = self.rest(v), v[self.start : self.stop]
        return self.join(self.A @ r + self.transposed_product(e), self.B @ r + (self.d * e.T).T)

    def first_row(self) -> Array:
        """Return the row of the first coordinate outside the diagonal block, which is that of the intercept.

        >>> BorderedDiagonal(
        ...     A=np.array([[4.0]]), B=np.array([[1.0], [2.0]]), d=np.ones(2), start=1
        ... ).first_row().tolist()
        [4.0, 1.0, 2.0]
        """
        if isinstance(self.B, SparseBorder) and len(self.B.places) and self.B.places[0] == 0:
            return self.join(self.A[0], self.B.numbers[:, 0])
        return self.join(self.A[0], self.B @ np.eye(1, len(self.A))[0])

    def diagonal(self) -> Array:
        """Return the diagonal."""
        return self.join(self.A.diagonal(), self.d)

    def scaled(self, unit: Array) -> BorderedDiagonal:
        """Return ``H_jk / (unit_j unit_k)``."""
        return replace(self, A=self.A.copy(), B=self.B * 1.0).rescaled(unit)

    def rescaled(self, unit: Array) -> BorderedDiagonal:
        """As `scaled`, where it is: nobody else may hold the blocks."""
        r, e = self.rest(unit), unit[self.start : self.stop]
        if isinstance(self.B, SparseBorder):
            self.B.divide(r, e)
        else:
            for j in np.flatnonzero(r != 1.0):
                self.B[:, j] /= r[j]
            if (e != 1.0).any():
                np.divide(self.B, e[:, None], out=self.B)
        np.divide(self.A, np.outer(r, r), out=self.A)
        floor = self.floor / float(e.max(initial=1.0)) ** 2
        return replace(self, d=self.d / e**2 if (e != 1.0).any() else self.d, floor=floor)

    def plus_diagonal(self, q: Array) -> BorderedDiagonal:
        """Return ``H + diag(q)``, of a positive semidefinite H."""
        levels = q[self.start : self.stop]
        floor = self.floor + float(levels.min(initial=np.inf)) if len(levels) else 0.0
        A = self.A.copy()
        np.einsum("ii->i", A)[:] += self.rest(q)
        return replace(self, A=A, d=self.d + levels, floor=floor)

    def fix(self, fixed: npt.NDArray[np.bool_], diagonal: float) -> BorderedDiagonal:
        """Return the matrix with the rows and columns of fixed coordinates cleared, except the diagonal.

        This is done where it is: nobody else may hold the blocks.
        """
        r, e = self.rest(fixed), fixed[self.start : self.stop]
        A = np.where(r | r[:, None], 0.0, self.A)
        A[r, r] = diagonal
        if isinstance(self.B, SparseBorder):
            self.B.clear(r, e)
        else:
            self.B[:, r] = 0.0
            self.B[e] = 0.0
        self.d[e] = diagonal
        return replace(self, A=A, floor=min(self.floor, diagonal))

    def toarray(self) -> Array:
        """Return the whole matrix."""
        H = np.zeros(self.shape)
        other = self.rest(np.arange(len(H)))
        inside = np.arange(self.start, self.stop)
        H[np.ix_(other, other)] = self.A
        B = self.B[:]
        H[np.ix_(inside, other)] = B
        H[np.ix_(other, inside)] = B.T
        H[inside, inside] = self.d
        return H

    def vanishing_combinations(self, tol: float = VANISHES) -> Array:
        """Return a basis of the vectors n with H n = 0 (up to rounding, see `factor`), one per column.

        Levels without any rows, whose own column of H is zero, are not listed.
        """
        factor = self.factor(tol=tol)
        aside = np.flatnonzero(~factor.schur.kept)
        found = np.zeros((self.shape[0], len(aside)))
        for v, j in zip(found.T, aside, strict=True):  # one at a time, to save memory
            rest = np.zeros(len(self.A))
            rest[j] = 1.0
            own = self.B @ rest
            own /= factor._d
            rest -= factor.schur.solve(self.A[:, j] - self.transposed_product(own))
            levels = self.B @ rest
            levels /= -factor._d
            v[: self.start], v[self.start : self.stop], v[self.stop :] = rest[: self.start], levels, rest[self.start :]
        return found

    def joint_statistic(self, levels: Array) -> float:
        """Return Wald's statistic ``vᵀ (V_EE)⁻¹ v`` of the diagonal block's weights v, where ``V = H⁻¹``.

        The inverse of that block of V is ``D − B A⁻¹ Bᵀ``: nothing of the size L × L is formed.

        >>> H = BorderedDiagonal(A=np.array([[4.0]]), B=np.array([[2.0]]), d=np.array([5.0]), start=1)
        >>> H.joint_statistic(np.array([1.0]))
        4.0
        """
        u = self.transposed_product(levels)
        return float((self.d * levels**2).sum() - u @ factor_spd(self.A, tol=0.0).solve(u))

    def factor(self, *, tol: float = 0.0, gram: Callable[[SparseBorder, Array], Array] | None = None) -> BorderedFactor:
        """Factor the matrix by eliminating the diagonal block; rows that depend on others are left out.

        With ``tol``, a row of the rest is left out if less than that share of its diagonal remains. ``gram`` returns
        ``Bᵀ diag(q) B`` faster than it is computed here.
        """
        there, S = self.d > 0.0, self.A.copy()
        if gram is not None and isinstance(self.B, SparseBorder):
            S -= gram(self.B, np.divide(1.0, self.d, out=np.zeros_like(self.d), where=there))
        else:
            for rows in self._chunks():
                root, Y = np.sqrt(np.where(there[rows], self.d[rows], np.inf)), self.B[rows]
                Y = np.divide(Y, root[:, None], out=Y if isinstance(self.B, SparseBorder) else None)
                S -= Y.T @ Y
        nothing = S.diagonal() <= tol * self.A.diagonal()
        S[nothing] = 0.0
        S[:, nothing] = 0.0
        add_transpose(S)
        S /= 2.0
        return BorderedFactor(H=self, there=there, schur=factor_spd(S, tol=tol, overwrite=True))

    def _chunks(self) -> list[slice]:
        """Ranges of the diagonal block's coordinates, so that what is computed of ``B`` takes little memory."""
        step = max(1, CHUNK // max(1, len(self.A)))
        return [slice(i, i + step) for i in range(0, len(self.d), step)]


@dataclass(frozen=True, eq=False, kw_only=True)
class BorderedFactor:
    """The factor of a `BorderedDiagonal`: that of the Schur complement, with ``G = D⁻¹ B`` where it is asked for.

    >>> H = BorderedDiagonal(A=np.array([[4.0]]), B=np.array([[1.0], [2.0]]), d=np.array([2.0, 5.0]), start=0)
    >>> H.factor().solve(H @ np.array([1.0, 2.0, 3.0])).round(12).tolist()
    [1.0, 2.0, 3.0]
    """

    H: BorderedDiagonal
    there: npt.NDArray[np.bool_]
    schur: SpdFactor

    @cached_property
    def G(self) -> Array:
        """``D⁻¹ B``, zero where the diagonal is."""
        return self.H.B[:] / self._d[:, None]

    def level_rows(self, levels: sparse.csr_array) -> Array:
        """Return ``levels G`` (n × R) of sparse rows (n × L), without forming G."""
        own = sparse.csr_array(levels * (1.0 / self._d))
        B = self.H.B
        if not isinstance(B, SparseBorder):
            return np.asarray(own @ B)
        found: Array = (own @ B._cells).toarray()
        found[:, B.places] += own @ B.numbers
        return found

    @cached_property
    def _d(self) -> Array:
        return self.H.d if self.there.all() else np.where(self.there, self.H.d, np.inf)

    @cached_property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which rows were kept."""
        return self.H.join(self.schur.kept, self.there)

    @cached_property
    def complete(self) -> bool:
        """Whether no row was left out."""
        return bool(self.there.all()) and self.schur.complete

    def solve(self, b: Array) -> Array:
        """Return ``x`` with ``H x = b`` on the kept rows and zero on the others (``b`` may have columns)."""
        H, x, levels = self.H, b.astype(np.float64), slice(self.H.start, self.H.stop)
        e = x[levels]
        np.divide(e.T, self._d, out=e.T)
        y = self.schur.solve(H.rest(b) - H.transposed_product(e))
        np.subtract(b[levels], H.B @ y, out=e)
        np.divide(e.T, self._d, out=e.T)
        x[: H.start], x[H.stop :] = y[: H.start], y[H.start :]
        return x

    def norm(self, b: Array) -> float:
        """Return ``sqrt(bᵀ H⁻¹ b)`` over the kept rows."""
        H, e = self.H, b[self.H.start : self.H.stop]
        own = e / self._d
        return float(np.hypot(np.sqrt(e @ own), self.schur.norm(H.rest(b) - H.transposed_product(own))))

    def log_det(self) -> float:
        """Return ``log det H`` over the kept rows."""
        return float(np.log(self.H.d[self.there]).sum()) + self.schur.log_det()

    @cached_property
    def _stretch(self) -> float:
        """A bound of ``‖G‖²``."""
        square, longest, columns = 0.0, 0.0, np.zeros(len(self.H.A))
        for rows in self.H._chunks():
            size = np.abs(self.H.B[rows])
            size /= self._d[rows, None]
            square += float(np.vdot(size, size))
            longest = max(longest, float(size.sum(axis=1).max(initial=0.0)))
            columns += size.sum(axis=0)
        return min(square, longest * float(columns.max(initial=0.0)))

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """A lower bound of the smallest eigenvalue on the kept rows.

        With f = e + G r, ``xᵀHx = fᵀDf + rᵀSr`` and ``‖x‖² ≤ 2 ‖f‖² + (1 + 2 ‖G‖²) ‖r‖²``. With a floor q, it is also
        at least any mean of ``q ‖e‖²`` and ``rᵀSr``.
        """
        smallest = float(self.H.d.min(initial=np.inf, where=self.there))
        left = self.schur.smallest_eigenvalue if self.schur.kept.any() else np.inf
        rounding = 4.0 * EPS * float(self.H.A.diagonal().max(initial=0.0)) * len(self.H.A)
        left, q = max(left - rounding, 0.0), self.H.floor - rounding
        if q > 0.0 and self.complete:
            by_floor = q if np.isinf(left) else q * left / (q + left)
            if by_floor >= 0.1 * min(smallest, left):  # the other bound is hardly better
                return float(by_floor)
        return min(0.5 * smallest, left / (1.0 + 2.0 * self._stretch))

    @property
    def condition(self) -> float:
        """A bound of the condition number."""
        H, between = self.H, np.zeros(len(self.H.A))
        if isinstance(H.B, SparseBorder):
            between = H.B.absolute_sums()
        else:
            for rows in H._chunks():
                between += np.abs(H.B[rows]).sum(axis=0)
        largest = np.abs(H.A).sum(axis=1).max(initial=0.0) + between.max(initial=0.0) + H.d.max(initial=0.0)
        smallest = self.smallest_eigenvalue
        return float(largest / smallest) if smallest > 0.0 else np.inf

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of ``H⁻¹`` on the kept rows, zero on the others: L · R² operations, no L × L matrix."""
        R = len(self.H.A)
        inverse = self.schur.solve(np.eye(R))
        levels = np.where(self.there, 1.0 / np.where(self.there, self.H.d, 1.0), 0.0)
        for rows in self.H._chunks():
            G = self.H.B[rows] / self._d[rows, None]
            levels[rows] += ((G @ inverse) * G).sum(axis=1)
        return self.H.join(inverse.diagonal(), levels)


def dependent_columns(N: Array) -> Iterator[tuple[int, Array]]:
    """Yield the last column that each vanishing combination (P × k) involves, and a combination that has 1 there.

    A column depends on earlier ones exactly if it is such a one. That of the last involves none of the others. ``N`` is
    overwritten.

    >>> [(j, v.tolist()) for j, v in dependent_columns(np.array([[1.0, 1.0], [-1.0, 0.0], [-1.0, -1.0]]))]
    [(2, [-1.0, 1.0, 1.0]), (1, [0.0, 1.0, 0.0])]
    """
    N /= np.maximum(N.max(axis=0, initial=0.0), -N.min(axis=0, initial=0.0))
    for j in range(len(N) - 1, -1, -1):
        if not N.shape[1]:
            break
        k = int(np.argmax(np.abs(N[j])))
        if np.abs(N[j, k]) <= 1e-7:
            continue
        pivot, rest = N[:, k] / N[j, k], np.delete(N[j], k)
        for i in range(k + 1, N.shape[1]):  # in place, to save memory
            N[:, i - 1] = N[:, i]
        N = N[:, :-1]
        for i in np.flatnonzero(rest).tolist():
            N[:, i] -= pivot * rest[i]
        yield j, pivot
