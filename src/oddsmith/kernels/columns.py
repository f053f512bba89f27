"""Sums over the columns of a matrix, and coordinate descent by columns."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.kernels.native import ClassesProblem, ColumnsProblem, address, addresses, kernels
from oddsmith.numerics import EPS, Array

DESCEND, SUMS, DOTS, ACTIVATIONS = range(4)
CHUNK = 1024  # Rows of a sparse matrix that are made dense at a time.


@dataclass(frozen=True)
class ColumnModel:
    """A least-squares model of a loss by the columns: curvatures ``h`` of the rows, with what follows from them.

    ``mean`` and ``diagonal`` are those of the columns under h, a ridge included in the diagonal.
    """

    h: Array
    mean: Array
    diagonal: Array
    ridge: Array

    @property
    def total(self) -> float:
        """The sum of the curvatures."""
        return float(self.h.sum())


@dataclass(frozen=True, kw_only=True)
class ClassModel:
    """A model of a softmax loss: probabilities ``p`` and residuals ``r`` (n × C), weights ``s`` of rows, a ridge.

    ``inverse`` is that of the curvature of the intercepts, None if there are none.
    """

    p: Array
    r: Array
    s: Array
    ridge: Array
    inverse: Array | None = None

    @classmethod
    def at(cls, p: Array, own: npt.NDArray[np.bool_], s: Array, ridge: Array, *, intercept: bool) -> ClassModel:
        """Return the model at probabilities ``p``; ``own`` marks the class of each row."""
        weighted = p * s[:, None]
        H = np.diag(weighted.sum(axis=0)) - weighted.T @ p
        inverse = _inverse_of_differences(H) if intercept else None
        return cls(p=p, r=weighted - s[:, None] * own, s=s, ridge=ridge, inverse=inverse)

    def hessian(self, V: sparse.csc_array, classes: npt.NDArray[np.intp]) -> Array:
        """Return the curvature between columns of V, each of which moves the activation of one of ``classes``."""
        H, rows = np.zeros((V.shape[1], V.shape[1])), sparse.csr_array(V)
        number = np.repeat(np.arange(len(self.s)), np.diff(rows.indptr))
        p, data = self.p[number, classes[rows.indices]], rows.data * np.sqrt(self.s)[number]
        whole, root = (
            sparse.csr_array((data * each, rows.indices, rows.indptr), rows.shape) for each in (p, np.sqrt(p))
        )
        each = [np.flatnonzero(classes == k) for k in np.unique(classes)]
        for start in range(0, len(self.s), CHUNK):
            part = slice(start, start + CHUNK)
            B, own = whole[part].toarray(), root[part].toarray()
            H -= B.T @ B
            for same in each:
                H[np.ix_(same, same)] += own[:, same].T @ own[:, same]
        return H

    def residuals(self, z: Array) -> Array:
        """Return the model's residuals where the activations have changed by ``z``."""
        return np.asarray(self.r + self.curved(z))

    def curved(self, z: Array) -> Array:
        """Return how residuals change with the activations."""
        Z: Array = z - (self.p * z).sum(axis=1, keepdims=True)
        return np.asarray(self.s[:, None] * self.p * Z)


@dataclass(frozen=True, kw_only=True)
class MatrixColumns:
    """Columns of n rows: one after another in ``data``, or in CSC form.

    >>> columns = MatrixColumns.of(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> columns.dots(np.array([1.0, 1.0])).tolist(), columns.activations(np.array([1.0, 0.5])).tolist()
    ([4.0, 6.0], [2.0, 5.0])
    """

    n: int
    count: int
    data: Array
    indices: npt.NDArray[np.int32] | None = None
    indptr: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, X: npt.NDArray[np.float64] | sparse.csc_array) -> MatrixColumns:
        """Return the columns of an array or a CSC matrix, in double precision."""
        n, count = X.shape
        if isinstance(X, np.ndarray):
            return cls(n=n, count=count, data=np.ascontiguousarray(X.T, dtype=np.float64).ravel())
        indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64, copy=False)
        data = np.ascontiguousarray(X.data, dtype=np.float64)
        return cls(n=n, count=count, data=data, indices=indices, indptr=indptr)

    def matrix(self) -> npt.NDArray[np.float64] | sparse.csc_array:
        """Return the columns as a matrix."""
        if self.indices is None:
            return self.data.reshape(self.count, self.n).T
        assert self.indptr is not None
        parts = self.data[: self.indptr[-1]], self.indices[: self.indptr[-1]], self.indptr
        return sparse.csc_array(parts, shape=(self.n, self.count))

    def _dense(self) -> Array:
        X = self.matrix()
        return X if isinstance(X, np.ndarray) else np.asarray(X.toarray())

    def dots(self, u: Array) -> Array:
        """Return ``Xᵀ u``; u may have several columns."""
        native = kernels()
        if native is None or u.ndim > 1:
            return np.asarray(self.matrix().T @ u)
        result = np.zeros(self.count)
        native("columns", ctypes.byref(self.problem(**addresses(v=u, mean=result))), DOTS)
        return result

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of entries of each column."""
        return np.full(self.count, self.n) if self.indptr is None else np.diff(self.indptr)

    def norms(self) -> tuple[Array, Array]:
        """Return the Euclidean norm of each column and the sum of the sizes of its entries, rounded up.

        >>> [
        ...     bool(1.0 <= each[0] / exact < 1.0 + 1e-9)
        ...     for each, exact in zip(MatrixColumns.of(np.array([[3.0], [-4.0]])).norms(), (5.0, 7.0), strict=True)
        ... ]
        [True, True]
        """
        native = kernels()
        if native is None:
            X = abs(self.matrix())
            norms, sums = np.sqrt(np.asarray((X * X).sum(axis=0)).ravel()), np.asarray(X.sum(axis=0)).ravel()
        else:
            norms, sums = np.empty(self.count), np.empty(self.count)
            native("column_norms", ctypes.byref(self.problem()), address(norms), address(sums))
        up = 1.0 + (self.n + 4) * EPS
        return norms * up, sums * up

    def some_dots(self, u: Array, which: npt.NDArray[np.intp]) -> Array:
        """Return the entries ``which`` of ``Xᵀ u``, reading these columns alone.

        >>> MatrixColumns.of(np.array([[1.0, 2.0], [3.0, 4.0]])).some_dots(np.array([1.0, 1.0]), np.array([1])).tolist()
        [6.0]
        """
        native = kernels()
        if native is None:
            return np.asarray(self.matrix()[:, which].T @ u)
        result, places = np.zeros(len(which)), which.astype(np.int64, copy=False)
        problem = self.problem(**addresses(v=u, mean=result, which=places))
        problem.count = len(which)
        native("columns", ctypes.byref(problem), DOTS)
        return result

    def class_norms(self, u: Array, *, grouped: bool) -> Array:
        """Return the largest size in each row of ``Xᵀ u``, or with ``grouped`` its length; u has several columns.

        >>> MatrixColumns.of(np.array([[1.0], [2.0]])).class_norms(np.array([[3.0, 1.0], [0.0, 1.5]]), grouped=True)
        array([5.])
        """
        native = kernels()
        if native is None or self.indices is None:
            g = np.asarray(self.matrix().T @ u)
            return np.asarray(np.sqrt(np.einsum("jk,jk->j", g, g)) if grouped else np.abs(g).max(axis=1, initial=0.0))
        u, norms = np.ascontiguousarray(u), np.empty(self.count)
        problem = ClassesProblem(C=u.shape[1], grouped=int(grouped), r=address(u), **self._fields())
        native("class_norms", ctypes.byref(problem), address(norms))
        return norms

    def activations(self, x: Array) -> Array:
        """Return ``X x``; x may have several columns. Columns of X with a zero in a single one are not read."""
        native = kernels()
        if native is None or x.ndim > 1:
            return np.asarray(self.matrix() @ x)
        result = np.zeros(self.n)
        native("columns", ctypes.byref(self.problem(**addresses(v=result, x=x))), ACTIVATIONS)
        return result

    def model(self, h: Array, ridge: Array, *, centred: bool = True) -> ColumnModel:
        """Return the model of rows with curvatures ``h``: mean (0 unless ``centred``) and diagonal of each column."""
        mean, diagonal, native = np.zeros(self.count), np.zeros(self.count), kernels()
        if native is None:
            X, total = self.matrix(), h.sum()
            first, second = np.asarray(X.T @ h), np.asarray((X * X).T @ h)
            rest = second - first**2 / total
            diagonal, mean = np.where(rest > 1e-12 * second, rest, 0.0) + ridge, first / total
            return _about_zero(ColumnModel(h, mean, diagonal, ridge), centred)
        fields = addresses(h=h, mean=mean, diagonal=diagonal, ridge=ridge)
        native("columns", ctypes.byref(self.problem(total=h.sum(), **fields)), SUMS)
        return _about_zero(ColumnModel(h, mean, diagonal, ridge), centred)

    def descend(
        self, model: ColumnModel, v: Array, x: Array, penalty: Array, *, shift: float, tol: float, sweeps: int
    ) -> tuple[float, int]:
        """Move ``x`` towards the minimum of the model plus ``Σ penalty_j |x_j|``, and the residuals with it.

        The residuals are ``v + h shift`` before and after; return the shift and the number of sweeps.

        >>> columns, v = MatrixColumns.of(np.array([[1.0], [-1.0]])), np.array([-0.5, 0.5])
        >>> x, model = np.zeros(1), columns.model(np.full(2, 0.25), np.zeros(1))
        >>> columns.descend(model, v, x, np.array([0.5]), shift=0.0, tol=0.0, sweeps=9), x.tolist()
        ((0.0, 3), [1.0])
        """
        native = kernels()
        if native is None:
            return self._descend(model, v, x, penalty, shift, tol, sweeps)
        active = np.zeros(self.count, dtype=np.int8)
        fields = addresses(h=model.h, mean=model.mean, diagonal=model.diagonal, ridge=model.ridge)
        fields |= addresses(v=v, penalty=penalty, x=x, active=active)
        problem = self.problem(sweeps=sweeps, total=model.total, shift=shift, tol=tol, **fields)
        native("columns", ctypes.byref(problem), DESCEND)
        return float(problem.shift), int(problem.done)

    def descend_classes(
        self, model: ClassModel, z: Array, b: Array, x: Array, penalty: Array, *, grouped: bool, tol: float, sweeps: int
    ) -> int:
        """Move ``x`` (columns × C) towards the minimum of a softmax model plus a penalty for each weight, or each row.

        ``z`` (n × C) is the change of the activations so far and ``b`` (C) that of the intercepts; both follow. Return
        the number of sweeps.
        """
        native = kernels()
        if native is None:
            return self._descend_classes(model, z, b, x, penalty, grouped, tol, sweeps)
        C, center = model.p.shape[1], (model.p * z).sum(axis=1)
        diagonal, active = np.zeros((self.count, C)), np.zeros(self.count, dtype=np.int8)
        fields = addresses(p=model.p, r=model.r, s=model.s, ridge=model.ridge, inverse=model.inverse)
        fields |= addresses(z=z, b=b, x=x, penalty=penalty, center=center, diagonal=diagonal, active=active)
        problem = ClassesProblem(C=C, sweeps=sweeps, grouped=grouped, tol=tol, **self._fields(), **fields)
        native("classes", ctypes.byref(problem))
        return int(problem.done)

    def _descend_classes(
        self, model: ClassModel, z: Array, b: Array, x: Array, penalty: Array, grouped: bool, tol: float, sweeps: int
    ) -> int:
        """Do the same in NumPy, all columns in turn: the definition."""
        X, C, done = self._dense(), model.p.shape[1], 0
        while done < sweeps:
            most, done = 0.0, done + 1
            if model.inverse is not None:
                slope = model.residuals(z).sum(axis=0)
                step = -model.inverse @ slope
                b += step
                z += step
                most = -float(step @ slope)
            for j in range(self.count):
                column, own, ridge = X[:, j], x[j], model.ridge[j]
                weight = model.s * column**2
                if grouped:
                    d = float((weight @ model.p).max()) + ridge
                    target = own - (column @ model.residuals(z) + ridge * own) / d
                    norm = float(np.linalg.norm(target))
                    step = (target * max(0.0, 1.0 - penalty[j] / (d * norm)) if norm > 0.0 else 0.0 * target) - own
                    own += step
                    z += np.outer(column, step)
                    most = max(most, d * float(step @ step))
                    continue
                for k in range(C):
                    d = float(weight @ (model.p[:, k] * (1.0 - model.p[:, k]))) + ridge
                    goal = (d - ridge) * own[k] - float(column @ model.residuals(z)[:, k])
                    change = float(np.sign(goal)) * max(abs(goal) - penalty[j], 0.0) / d - own[k]
                    own[k] += change
                    z[:, k] += column * change
                    most = max(most, d * change**2)
            if most <= tol:
                break
        return done

    def _fields(self) -> dict[str, int | None]:
        """Return the fields of a problem that hold these columns."""
        return {"n": self.n, "count": self.count, **addresses(data=self.data, indices=self.indices, indptr=self.indptr)}

    def problem(self, **fields: float | int | None) -> ColumnsProblem:
        """Return these columns for a kernel, which reads them while they are alive."""
        return ColumnsProblem(**self._fields(), **fields)

    def _descend(
        self, model: ColumnModel, v: Array, x: Array, penalty: Array, shift: float, tol: float, sweeps: int
    ) -> tuple[float, int]:
        """Do the same in NumPy: the definition."""
        X, total, active = self._dense(), model.total, np.zeros(self.count, dtype=bool)

        def sweep(which: npt.NDArray[np.intp], shift: float) -> tuple[float, float]:
            most = 0.0
            for j in which:
                column = X[:, j]
                d = model.diagonal[j]
                slope = column @ v + shift * model.mean[j] * total + model.ridge[j] * x[j]
                z = d * x[j] - slope
                new = np.sign(z) * max(abs(z) - penalty[j], 0.0) / d
                step, x[j], active[j] = new - x[j], new, new != 0.0
                v[:] += step * model.h * column
                shift -= model.mean[j] * step
                most = max(most, d * step**2)
            return most, shift

        done, present = 0, np.flatnonzero(model.diagonal > 0.0)
        while done < sweeps:
            (gain, shift), done = sweep(present, shift), done + 1
            if gain <= tol:
                break
            while done < sweeps and gain > tol:
                (gain, shift), done = sweep(np.flatnonzero(active), shift), done + 1
        return shift, done


def _inverse_of_differences(H: Array) -> Array:
    """Return the inverse of a curvature of intercepts that may all move alike: it moves none of them so.

    >>> _inverse_of_differences(np.array([[1.0, -1.0], [-1.0, 1.0]])).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    K = len(H)
    alike = np.full((K, K), 1.0 / K)
    inverse = np.linalg.pinv(H + np.trace(H) * alike, hermitian=True)
    return np.asarray(inverse - alike @ inverse - inverse @ alike + alike @ inverse @ alike)


def _about_zero(model: ColumnModel, centred: bool) -> ColumnModel:
    """Return the model of columns that are not centred, unless they are."""
    if centred:
        return model
    return ColumnModel(model.h, np.zeros_like(model.mean), model.diagonal + model.mean**2 * model.total, model.ridge)
