"""Descent by columns for two classes: on the products of the columns where that is faster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.engines.memory import available_cores
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.kernels.coordinate_descent import typical_gain
from oddsmith.kernels.gram_step import GramStep, GramStepResult, ScaledColumns
from oddsmith.kernels.packed_columns import SupportFactor, Team
from oddsmith.kernels.two_classes import logistic_conjugate, logistic_losses
from oddsmith.likelihood.column_descent import INTERCEPT_STEPS, LONGEST_STEP, ColumnDescent, ColumnPoint
from oddsmith.likelihood.dual_correction import DualCorrection
from oddsmith.likelihood.gram_model import GramModel, LowPrecisionColumns
from oddsmith.likelihood.known_products import KnownProducts
from oddsmith.likelihood.product_columns import (
    DenseProductColumns,
    ProductColumns,
    SparseProductColumns,
    row_starts,
)
from oddsmith.numerics import EPS, Array
from oddsmith.solvers.proximal_newton import ROUNDING

TWO_SHARES = (0.72,)  # Where the first of two stretches of a path ends.
SWEEPS = 480  # Sweeps of coordinate descent over the columns of a model, at most.
MOST_PRODUCTS = 3000  # Columns up to which their products are formed.
MOST_ENTERED, PRODUCTS_PER_ENTRY = 2**25, 8
"""Entries of a sparse matrix up to which products are formed, and products for each entry of the columns."""
SETTLED = 1e-4  # The relative gap from which on a second step takes the columns that are not zero as known.
ROUGH_PRECISION = 1e-3  # How far the first step's model may miss the conditions of an optimum.
MOST_UNUSED = 1.5  # Columns are packed again where there are so many times as many as are wanted.
DRIFT, LATE_DRIFT = 0.2, 0.05
"""How far curvatures may be from those of the products, relative to them; the second from the third step on."""
SPARSE_DRIFT, SLOW_SPARSE_DRIFT, LATE_SPARSE_DRIFT = 0.4, 0.2, 0.02
"""The same for sparse columns, whose products take longer against a step; the second where the scale before took more
steps than one."""
LATE = 3  # The same of steps in the kernel, which take the columns that are not zero as known until then.
FLAT = 1e-12  # The least curvature of a row, against that of one half.
LOOKS, MOST_COPIED = 2, 2**27  # Looks at all columns after which they are copied, and numbers up to which they are.


@dataclass(kw_only=True)
class TwoClassDescent(ColumnDescent):
    """Two classes: columns are centred under the curvatures, so that the intercept is at its minimum all the time.

    ``gram`` is the model over the working set, where its columns are not too many; ``low`` are all dense columns in
    single precision, made once they have been looked at several times; ``known`` are products with all columns.
    """

    SHARES: ClassVar[tuple[float, ...]] = (0.5, 0.78)

    gram: GramModel | None = None
    low: LowPrecisionColumns | None = None
    known: KnownProducts | None = None
    starts: npt.NDArray[np.int64] | None = None
    looks: int = 0
    team: Team | None = None

    @property
    def threaded(self) -> bool:
        return isinstance(self.X, np.ndarray)

    @property
    def teamed(self) -> bool:
        """Whether all threads work on each scale of a path: most steps are by the products of columns."""
        return isinstance(self.X, np.ndarray) or (self.plain and self.X.nnz <= MOST_ENTERED)

    @property
    def extrapolates(self) -> bool:
        return self.threaded or (len(self.passed) > 1 and not self.rough)

    @property
    def inexact(self) -> bool:
        return self.gram is not None and not self.threaded

    def shares(self, threads: int) -> tuple[float, ...]:
        return TWO_SHARES if threads == 2 else super().shares(threads)

    def start(self, w: Array, b: Array) -> tuple[ColumnPoint, Array]:
        point, g = super().start(w, b)
        if not isinstance(self.X, np.ndarray) and self.plain:
            self.known = (self.known or KnownProducts.of(self.all_columns, len(self.s))).with_products(point.theta, g)
        return point, g

    def copy(self) -> Self:
        return replace(super().copy(), gram=None, known=self.known and self.known.copy())

    @staticmethod
    def arranged(offset: Array) -> Array:
        return np.ascontiguousarray(offset[:, 0])

    @cached_property
    def sign(self) -> Array:
        """1 for the second class, −1 for the first."""
        return np.where(self.t == 1, 1.0, -1.0)

    def losses(self, a: Array) -> tuple[float, Array]:
        value, r, _ = logistic_losses(a, self.sign, self.s)
        return value, r

    def sizes(self, g: Array) -> Array:
        return np.abs(g)

    def norms(self, w: Array) -> Array:
        return np.abs(w)

    def entropy(self, theta: Array, shrink: float) -> float:
        return logistic_conjugate(theta, self.s, shrink)

    def feasible(self, theta: Array) -> Array:
        wrong = np.clip(-self.sign * theta, 0.0, self.s)
        if self.intercept:  # the class with more is shrunk until both have as much
            both, difference = float(wrong.sum()), float(self.sign @ wrong)
            total = 0.5 * np.maximum([both - difference, both + difference], 0.0)
            shares = np.divide(total.min(), total, out=np.zeros(2), where=total > 0.0)
            wrong *= 0.5 * (shares.sum() + self.sign * (shares[1] - shares[0]))
        return -self.sign * wrong

    def _residuals(self, at: ColumnPoint) -> tuple[Array, Array]:
        """Return the residuals of the rows at a point, and their curvatures."""
        _, r, h = logistic_losses(at.a, self.sign, self.s)
        return r, np.maximum(h, FLAT * self.s)

    def step(self, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint:
        assert self.columns is not None
        if self.gram is not None:
            found = self._step_in_kernel(self.gram, at, penalty, precision) if self.gram.quick else None
            return found or self._step_on_products(self.gram, at, penalty, precision)
        columns, some = self.columns, penalty[self.chosen]
        r, h = self._residuals(at)
        model = columns.model(h, self.ridge[self.chosen], centred=self.intercept)
        shift = -float(r.sum()) / model.total if self.intercept else 0.0
        before = at.weights_of(self.chosen)
        x, v = before.copy(), r.copy()
        gain = typical_gain(precision, some, model.diagonal)
        shift, _ = columns.descend(model, v, x, some, shift=shift, tol=gain, sweeps=SWEEPS)
        change = columns.activations(x - before) + shift
        return self.stepped(at, x, np.asarray(shift), change, v + h * shift, penalty)

    def corrected(self, at: ColumnPoint, penalty: Array, precision: float) -> Array:
        assert self.columns is not None
        r, h = self._residuals(at)
        some, x = penalty[self.chosen], at.weights_of(self.chosen)
        if self.gram is not None and self.gram.h is not None:
            shift = -float(r.sum()) / self.gram.total if self.intercept else 0.0
            return self.gram.corrected(x, r + self.gram.h * shift, some, precision)[1]
        return self._correction(h, penalty).apply(r + self._balancing(r, h), x, precision)

    def at_best_intercepts(self, inner: Array, b: Array, penalty: Array) -> tuple[Array, float, Array, DualCorrection]:
        for _ in range(INTERCEPT_STEPS):
            loss, r, h = logistic_losses(inner + b, self.sign, self.s)
            slope, h = float(r.sum()), np.maximum(h, FLAT * self.s)
            if not self.intercept or abs(slope) <= 4.0 * EPS * float(np.abs(r).sum()):
                break
            b = b - np.clip(slope / float(h.sum()), -LONGEST_STEP, LONGEST_STEP)
        return np.asarray(b), loss, r, self._correction(h, penalty)

    def _correction(self, h: Array, penalty: Array) -> DualCorrection:
        """Return the conditions of an optimum over the working set, and the Hessian under curvatures ``h``."""
        assert self.columns is not None
        total = float(h.sum())

        def curved(z: Array) -> Array:
            return np.asarray(h * (z - (h @ z) / total if self.intercept else z))

        def diagonal(columns: MatrixColumns) -> Array:
            return columns.model(h, np.zeros(columns.count), centred=self.intercept).diagonal

        return DualCorrection(
            columns=self.columns,
            penalty=penalty[self.chosen],
            ridge=self.ridge[self.chosen],
            diagonal=diagonal,
            curved=curved,
        )

    def _balancing(self, r: Array, h: Array) -> Array:
        """Return the change of the residuals that makes their sum zero, with an intercept."""
        return -h * (float(r.sum()) / float(h.sum())) if self.intercept else np.zeros_like(r)

    def choose(self, columns: npt.NDArray[np.intp]) -> None:
        if not self._products_pay(columns):
            self.gram = None
            super().choose(columns)
            return
        if self.gram is None or len(self.gram.chosen) > MOST_UNUSED * len(columns) + 64:
            store, factor = self._product_columns(), SupportFactor(team=self.team)
            self.gram = GramModel(store=store, all_ridge=self.ridge, centred=self.intercept, factor=factor)
            self.gram.quick = True
        self.gram.add(columns)
        self.chosen, self.columns = self.gram.chosen, self.gram.columns

    def _products_pay(self, columns: npt.NDArray[np.intp]) -> bool:
        """Whether descent on the products of the columns is faster than on the columns."""
        if len(columns) > MOST_PRODUCTS:
            return False
        if isinstance(self.X, np.ndarray):
            return True
        entries = int((self.X.indptr[columns + 1] - self.X.indptr[columns]).sum())
        return self.X.nnz <= MOST_ENTERED and len(columns) ** 2 <= PRODUCTS_PER_ENTRY * entries

    def _product_columns(self) -> ProductColumns:
        if isinstance(self.X, np.ndarray):
            return DenseProductColumns(X=self.X, team=self.team)
        if self.starts is None:
            self.starts = row_starts(self.all_columns)
        return SparseProductColumns(X=self.all_columns, starts=self.starts, team=self.team)

    def _look_at_all(self, at: ColumnPoint, penalty: Array) -> None:
        assert self.columns is not None
        self.looks += 1
        if not isinstance(self.X, np.ndarray) and self.plain:
            self.known = self.known or KnownProducts.of(self.all_columns, len(self.s))
            self.known.team = self.team
            at.sizes = self.known.sizes(at.theta, penalty, self.chosen, at.products)
            missing = at.sizes > penalty
            missing[self.chosen] = False
            if missing.any():  # or the gap over the working set is that over all columns
                at.gap = self.gap(at, None, at.sizes, penalty, self.ridge)
            at.gap += ROUNDING * abs(at.value)
            return
        few = not isinstance(self.X, np.ndarray) or self.X.size > MOST_COPIED or self.gram is None
        if few or self.looks < LOOKS or self.ridge.any():
            super()._look_at_all(at, penalty)
            return
        assert isinstance(self.X, np.ndarray)
        if self.low is None or self.known is None:
            self.low = LowPrecisionColumns.of(self.X, threads=self.threads or available_cores(), team=self.team)
            self.known = replace(KnownProducts.of(self.low, len(self.s), self.seen), team=self.team)
        at.sizes = self.known.sizes(at.theta, penalty, self.chosen, at.products)
        doubtful = ~(at.sizes + self.low.error(at.theta) <= penalty)
        doubtful[self.chosen] = False
        at.sizes[doubtful] = np.abs(self.X[:, doubtful].T @ at.theta)
        at.gap = self.gap(at, None, at.sizes, penalty, self.ridge) + ROUNDING * abs(at.value)

    def _step_in_kernel(self, gram: GramModel, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint | None:
        """Return the point after a step as `_step_on_products` takes it, None where that has more to do."""
        assert self.columns is not None
        if gram.h is None:
            gram.move_to(self._residuals(at)[1])
        value = at.loss + self._penalty_at(at, penalty)
        # Sparse columns that were missing join an optimum over the others, and hardly change which of these are zero.
        joined = not self.threaded and len(self.chosen) > len(at.columns)
        settled = 0 < at.steps < LATE and (joined or at.gap <= SETTLED * max(1.0, abs(value)))
        for _ in range(2):
            store, dense, splits = gram.store, None, None
            if isinstance(store, DenseProductColumns):
                dense = ScaledColumns(store.scaled, store.root, gram.factor)
            elif isinstance(store, SparseProductColumns):
                splits = store.splits
            found = GramStep(
                columns=self.columns,
                G=gram.G,
                diagonal=gram.diagonal,
                h=gram.base,
                mean=gram.mean,
                sign=self.sign,
                s=self.s,
                offset=self.offset,
                penalty=penalty[self.chosen],
                ridge=self.ridge[self.chosen],
                intercept=self.intercept,
                dense=dense,
                splits=splits,
                team=self.team,
            ).take(
                at.a,
                at.weights_of(self.chosen),
                float(at.b),
                drift=self._drift(at.steps),
                precision=precision,
                rough=precision if at.steps else max(precision, ROUGH_PRECISION),
                settled=settled,
            )
            if not isinstance(found, np.ndarray):
                break
            gram.move_to(found)
        if not isinstance(found, GramStepResult):
            gram.quick = False
            return None
        gram.scale(found.share)
        new = replace(at, columns=self.chosen, x=found.x, b=np.asarray(found.b), a=found.a, theta=found.theta, steps=0)
        new.value, new.loss, new.gap, new.products = found.value, found.loss, found.gap, found.g
        return new

    def _drift(self, steps: int) -> float:
        """Return how far curvatures may be from those of the products after so many steps."""
        if self.threaded:
            return DRIFT if steps < LATE else LATE_DRIFT
        slow = bool(self.passed) and self.passed[-1][1].steps > 1
        return LATE_SPARSE_DRIFT if steps >= LATE else SLOW_SPARSE_DRIFT if slow else SPARSE_DRIFT

    def _step_on_products(self, gram: GramModel, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint:
        """Return the point after a step by the products of the columns, perhaps under curvatures of another point.

        Residuals follow the step under the model's curvatures. The conditions of an optimum are met by them over the
        columns that are not zero once the model is solved there, whatever its curvatures: so the gap is of the second
        order in the step.
        """
        assert self.columns is not None
        some, ridge = penalty[self.chosen], self.ridge[self.chosen]
        r, h = self._residuals(at)
        if gram.drift(h) > self._drift(at.steps):
            gram.move_to(h)
        else:
            gram.scale(gram.nearest_share(h))
        assert gram.h is not None
        before = at.weights_of(self.chosen)
        shift = -float(r.sum()) / gram.total if self.intercept else 0.0
        x, change, theta = before, np.full_like(r, shift), r + gram.h * shift
        value, best = at.loss + self.penalty(before, penalty), None
        if not (at.steps == 1 and at.gap <= SETTLED * max(1.0, abs(value))):
            exact = precision if at.steps else max(precision, ROUGH_PRECISION)
            x = gram.minimise(gram.slopes(r) + ridge * before, before, some, exact)
            change += gram.moved(x - before)
            theta = r + gram.h * change
            loss, found = self.losses(at.a + change)
            if (reached := loss + self.penalty(x, penalty)) < value:  # residuals there, not those of the model
                value, best = reached, (x, shift)
                more = -float(found.sum()) / gram.total if self.intercept else 0.0
                shift, theta = shift + more, found + gram.h * more
        x, theta = gram.corrected(x, theta, some, precision, rough=x is not before)
        moved = self._moved(at, x, shift - float(gram.mean @ (x - before)))
        if best is not None and self.losses(at.a + moved[1])[0] + self.penalty(x, penalty) > value:
            x, shift = best
            moved = self._moved(at, x, shift - float(gram.mean @ (x - before)))
        return self.stepped(at, x, *moved, theta, penalty)

    def _moved(self, at: ColumnPoint, x: Array, step: float) -> tuple[Array, Array]:
        """Return a step of the intercept, and the change of the activations by it and by the weights ``x``.

        It is that of exact activations: what rounding has added along the path must not count.
        """
        assert self.columns is not None
        return np.asarray(step), self.offset + (at.b + step) + self.columns.activations(x) - at.a
