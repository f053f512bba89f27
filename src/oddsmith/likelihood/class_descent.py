"""Descent by columns for more than two classes: the weights of all classes, each zero or a column's together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.cached_property import cached_property
from oddsmith.kernels.columns import ClassModel, MatrixColumns
from oddsmith.kernels.coordinate_descent import Blocks, typical_gain
from oddsmith.kernels.two_classes import times_log
from oddsmith.likelihood.column_descent import INTERCEPT_STEPS, LONGEST_STEP, ColumnDescent, ColumnPoint
from oddsmith.likelihood.dual_correction import DualCorrection
from oddsmith.numerics import EPS, Array, log_softmax
from oddsmith.solvers.proximal_newton import solve_near, steps_along

SWEEPS, ROUNDS = 60, 100
"""Sweeps over the columns before the weights that are not zero are solved for, and how often that is done in a step."""
MOST_SOLVED = 2000  # Weights up to which they are.
TINY = 1e-30


@dataclass(kw_only=True)
class ClassDescent(ColumnDescent):
    """Softmax regression with weights (columns × K) of all classes."""

    @staticmethod
    def arranged(offset: Array) -> Array:
        return np.column_stack([np.zeros(len(offset)), offset])

    @cached_property
    def own(self) -> npt.NDArray[np.bool_]:
        """Which class each row is of (n × K)."""
        return np.asarray(self.t[:, None] == np.arange(self.offset.shape[1]))

    def losses(self, a: Array) -> tuple[float, Array]:
        logs = log_softmax(a)
        return -float(self.s @ logs[self.own]), self.s[:, None] * (np.exp(logs) - self.own)

    def sizes(self, g: Array) -> Array:
        if self.grouped:
            return np.asarray(np.sqrt(np.einsum("jk,jk->j", g, g)))
        return np.asarray(np.maximum(g.max(axis=1, initial=0.0), -g.min(axis=1, initial=0.0)))

    def gradient_sizes(self, u: Array) -> Array:
        if isinstance(self.X, np.ndarray):
            return self.sizes(self.gradient(u))
        return self.all_columns.class_norms(u, grouped=self.grouped)

    def norms(self, w: Array) -> Array:
        return np.asarray(np.linalg.norm(w, axis=1) if self.grouped else np.abs(w).sum(axis=1))

    def entropy(self, theta: Array, shrink: float) -> float:
        c = np.maximum(self.own + shrink * theta / self.s[:, None], 0.0)
        return float(self.s @ times_log(c).sum(axis=1))

    def feasible(self, theta: Array) -> Array:
        p = np.maximum(self.own + theta / self.s[:, None], 0.0)
        p /= p.sum(axis=1, keepdims=True)
        if self.intercept:
            p = _balanced(p, self.s, self.s @ self.own)
        return np.asarray(self.s[:, None] * (p - self.own))

    def corrected(self, at: ColumnPoint, penalty: Array, precision: float) -> Array:
        model = self._model(at.a)
        shift = 0.0 if model.inverse is None else -model.inverse @ model.r.sum(axis=0)
        theta = model.residuals(np.zeros_like(model.p) + shift)
        return self._correction(model, penalty).apply(theta, at.weights_of(self.chosen), precision)

    def at_best_intercepts(self, inner: Array, b: Array, penalty: Array) -> tuple[Array, float, Array, DualCorrection]:
        for _ in range(INTERCEPT_STEPS):
            model = self._model(inner + b)
            slope = model.r.sum(axis=0)
            if model.inverse is None or (np.abs(slope) <= 4.0 * EPS * np.abs(model.r).sum(axis=0)).all():
                break
            b = b - np.clip(model.inverse @ slope, -LONGEST_STEP, LONGEST_STEP)
        return b, self.losses(inner + b)[0], model.r, self._correction(model, penalty)

    def _model(self, a: Array) -> ClassModel:
        """Return the model of the loss at activations, over the working set."""
        return ClassModel.at(
            np.exp(log_softmax(a)), self.own, self.s, self.ridge[self.chosen], intercept=self.intercept
        )

    def _correction(self, model: ClassModel, penalty: Array) -> DualCorrection:
        """Return the conditions of an optimum over the working set, and the Hessian of a model."""
        assert self.columns is not None

        def curved(z: Array) -> Array:
            moved = model.curved(z)
            return moved if model.inverse is None else model.curved(z - model.inverse @ moved.sum(axis=0))

        def diagonal(columns: MatrixColumns) -> Array:
            X = columns.matrix()
            return np.asarray((X * X).T @ (model.s[:, None] * model.p * (1.0 - model.p)))

        return DualCorrection(
            columns=self.columns,
            penalty=penalty[self.chosen][:, None],
            ridge=model.ridge[:, None],
            diagonal=diagonal,
            curved=curved,
            grouped=self.grouped,
        )

    def step(self, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint:
        assert self.columns is not None
        model, some, x = self._model(at.a), penalty[self.chosen], at.weights_of(self.chosen)
        p = model.p
        squares = self.columns.model(self.s, np.zeros(len(some)), centred=False).diagonal
        gain = typical_gain(precision, some, squares * float((p * (1.0 - p)).mean()))
        z, b = np.zeros_like(p), np.zeros(p.shape[1])
        for _ in range(ROUNDS if len(some) else 0):
            done = self.columns.descend_classes(
                model, z, b, x, some, grouped=self.grouped, tol=max(gain, TINY), sweeps=SWEEPS
            )
            if not self.ridge.any():
                x = self._settled(x)
            if done < SWEEPS:
                break
            self._solve_support(model, z, b, x, some)
        if model.inverse is not None:  # to the last digit: the dual asks for it
            shift = -model.inverse @ model.residuals(z).sum(axis=0)
            z, b = z + shift, b + shift
        return self.stepped(at, x, b, z, model.residuals(z), penalty)

    def _solve_support(self, model: ClassModel, z: Array, b: Array, x: Array, penalty: Array) -> None:
        """Solve the model over the weights that are not zero, in place; one that would change its sign becomes zero."""
        assert self.columns is not None
        column, cls = np.nonzero(x)
        K = x.shape[1]
        if not 0 < len(column) <= MOST_SOLVED:
            return
        V = sparse.csc_array(self.columns.matrix())[:, column]
        which = cls
        if model.inverse is not None:
            V = sparse.csc_array(sparse.hstack([V, np.ones((len(z), K))]))
            which = np.concatenate([cls, np.arange(K)])
        H, residuals, m = model.hessian(V, which), model.residuals(z), len(column)
        own, strength, ridge = x[column, cls], penalty[column], model.ridge[column]
        norms = self.norms(x)[column] if self.grouped else np.abs(own)
        unit = own / norms
        slope = np.asarray(V.multiply(residuals[:, which]).sum(axis=0)).ravel()
        slope[:m] += ridge * own + strength * unit
        np.einsum("ii->i", H)[:m] += ridge
        np.einsum("ii->i", H)[m:] += 1e-12 * float(np.diag(H).max())  # intercepts may all move alike
        A = H
        if self.grouped:  # norms bend
            bend = np.where(column[:, None] == column, -np.outer(unit * strength / norms, unit), 0.0)
            A = H.copy()
            A[:m, :m] += bend + np.diag(strength / norms)
        whole = solve_near(A, -slope, flat=True)
        for d, new in self._goals(x, whole, column, cls, penalty):
            change = sparse.csr_array((d, (np.arange(len(d)), which)), shape=(len(d), K))
            moved = np.asarray((V @ change).toarray())
            gain = float((residuals * moved).sum()) + 0.5 * float(d @ (H @ d)) + float(ridge @ (own * d[:m]))
            if gain + float(penalty @ (self.norms(new) - self.norms(x))) < 0.0:
                x[:] = new
                z += moved
                b += d[m:] if model.inverse is not None else 0.0
                return

    def _goals(
        self, x: Array, d: Array, column: npt.NDArray[np.intp], cls: npt.NDArray[np.intp], penalty: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Yield steps along ``d``, with the weights there: where weights change their sign, or groups are near zero."""
        m, whole = len(column), np.zeros_like(x)
        whole[column, cls] = d[:m]
        side = (x + whole) * x
        new = np.where((side.sum(axis=1, keepdims=True) if self.grouped else side) < 0.0, 0.0, x + whole)
        yield np.concatenate([new[column, cls] - x[column, cls], d[m:]]), new
        blocks = Blocks.single(np.repeat(penalty, x.shape[1]))
        if self.grouped:
            blocks = Blocks(np.arange(0, x.size + 1, x.shape[1]), np.arange(x.size), penalty)
        longest = max(float(np.abs(whole).max(initial=0.0)), 1e-300)
        for step in steps_along(x.ravel(), whole.ravel(), blocks):
            share = float(np.abs(step).max(initial=0.0)) / longest
            yield np.concatenate([step.reshape(x.shape)[column, cls], share * d[m:]]), x + step.reshape(x.shape)

    def _settled(self, x: Array) -> Array:
        """Return weights with what all classes share chosen for the least penalty: it changes no probability."""
        strength = np.ones(len(x) if self.grouped else x.size)
        sizes = np.full(len(strength), x.shape[1] if self.grouped else 1)
        place = np.arange(x.size).reshape(x.shape[::-1]).T.ravel() if self.grouped else np.arange(x.size)
        blocks = Blocks(np.concatenate([[0], np.cumsum(sizes)]), place, strength, x.shape[1])
        return np.ascontiguousarray(blocks.settled(x.T.ravel()).reshape(x.shape[::-1]).T)


def _balanced(p: Array, s: Array, total: Array) -> Array:
    """Return probabilities with the class totals given: classes with too much give to those with too little."""
    found = s @ p
    over, under = found > total, found < total
    lacking = np.where(under, total - found, 0.0)
    if not (over.any() and under.any()):
        return p
    kept = np.where(over, p * (total / np.where(found > 0.0, found, 1.0)), p)
    given = (p - kept).sum(axis=1, keepdims=True)
    return np.asarray(kept + given * (lacking / lacking.sum()))
