"""A likelihood as the function that a solver sees: folds of `Curvature` with the prior added.

Solvers work in coordinates in which columns are centred and scaled: for each of the C class contrasts the
vector ``x = (b_c, u·scale)`` with ``a = b_c + uᵀ(φ − center)``. The user's data is never touched: a block is
centred tile by tile as it is read, and the scale acts on sums of size M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.bordered import VANISHES, BorderedDiagonal
from oddsmith.cached_property import cached_property
from oddsmith.engines import AnySource, Engine, MemorySource, Progress, engine_of
from oddsmith.engines.memory import RunSource, in_slices
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.newton import NewtonSteps
from oddsmith.kernels.reference import RowBuffers
from oddsmith.kernels.table import room_by_place
from oddsmith.likelihood.coordinates import solver_gradient, solver_hessian, threads_of
from oddsmith.likelihood.fused_newton import fused_steps
from oddsmith.links import Link
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.priors import Quadratic
from oddsmith.solvers import policy
from oddsmith.solvers.base import DecrementBound, ObjectiveValue, Preconditioner, Subsample, TableSample
from oddsmith.solvers.certificate import InverseBound
from oddsmith.solvers.lbfgs import Distance
from oddsmith.solvers.truncated_newton import conjugate_gradients
from oddsmith.statistic import Statistic
from oddsmith.statistics import Curvature, CurvatureParams, CurvatureProduct, OwnProduct

if TYPE_CHECKING:
    from oddsmith.kernels.lbfgs import LbfgsPoints
    from oddsmith.kernels.table import Cells
    from oddsmith.likelihood.implicit_hessian import ImplicitHessian

S = TypeVar("S", bound=Statistic)


@dataclass(kw_only=True)
class ObjectiveState:
    """What an objective finds out on the way: passes so far, the last evaluation, the longest scaled row (squared).

    ``cells`` say where the rows of the Hessian of a factor that is eliminated are not zero; ``find_cells`` waits for
    those that are being found. ``by_levels`` sums some of its levels at a time, where all would take much memory;
    ``level_squares`` are the rows of the levels of each factor, times their weights.
    """

    passes: int = 0
    last: ObjectiveValue | None = None
    max_row_norm2: float | None = None
    cells: Cells | None = None
    by_levels: Engine | None = None
    find_cells: Callable[[], Cells] | None = None
    level_squares: list[Array] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldObjective:
    """``f(x) = Σ s ℓ + penalty``, evaluated by one fold an evaluation.

    ``T`` (K − 1 × C) turns solver contrasts into contrasts against class 0; ``free`` (C × P) marks the
    coordinates that may move (no intercept, aliased columns: fixed at 0). A subsample of the rows is scaled up to
    all of them by 1 / ``sampling_fraction``. ``explain`` is called when sums are not finite, to raise what it finds in
    the data. ``link`` is that of two classes, None for the logit. With ``whitening`` (M′ × M) the columns are
    ``φ = φ′ whitening`` of the source's φ′, and ``center`` is that of φ′. ``buffers`` are passed to the kernels.
    ``eliminated`` are the columns (from, to) of a factor whose block of the Hessian is kept as a diagonal.
    """

    engine: Engine
    source: AnySource | RunSource
    center: Array
    scale: Array
    T: Array
    penalty: Quadratic | None
    free: npt.NDArray[np.bool_]
    weight: float
    class_weight: Array
    explain: Callable[[], None] | None = None
    progress: Progress | None = None
    link: Link | None = None
    whitening: Array | None = None
    sampling_fraction: float = 1.0
    buffers: RowBuffers | None = None
    eliminated: tuple[int, int] | None = None
    state: ObjectiveState = field(default_factory=ObjectiveState)

    @property
    def size(self) -> int:
        return int(self.free.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.free.shape[0], self.free.shape[1]

    @property
    def n_rows(self) -> int:
        return int(self.source.n_rows)

    @property
    def memory_source(self) -> MemorySource:
        """The rows, where they must be in memory."""
        assert isinstance(self.source, MemorySource)
        return self.source

    @property
    def passes(self) -> int:
        return self.state.passes

    @property
    def longest_row(self) -> float | None:
        """The largest squared norm of a scaled row, None where it is not known."""
        return self.state.max_row_norm2

    def count_pass(self) -> None:
        self.state.passes += 1

    @property
    def has_prior(self) -> bool:
        return self.penalty is not None

    @property
    def self_concordance(self) -> float:
        """The constant of self-concordance: the longest row, and √2 between two softmax classes.

        Other links than the logit have none.
        """
        if self.link is not None or self.state.max_row_norm2 is None:
            return np.inf
        return float(np.sqrt((1.0 + self.state.max_row_norm2) * (2.0 if self.shape[0] > 1 else 1.0)))

    @property
    def rounding(self) -> float:
        """Bound on the rounding of a gradient entry: columns have unit spread, residuals are at most one."""
        return 8.0 * EPS * self.weight

    @property
    def mean_square(self) -> float:
        return float(self.free[0].sum())

    @property
    def convex(self) -> bool:
        """Whether the Hessian is never indefinite; where it may be, the expected one can take its place."""
        return self.link is None or self.link.convex

    @property
    def canonical(self) -> bool:
        """Whether observed and expected Hessian are the same."""
        return self.link is None

    @cached_property
    def all_free(self) -> bool:
        """Whether every coordinate may move."""
        return bool(self.free.all())

    @cached_property
    def _unit(self) -> Array | None:
        """The scale of a whole row of weights, or None where all is in unit scale already."""
        if (self.scale == 1.0).all():
            return None
        whole = self.scale.base  # a table's scales lie after that of the intercept
        if isinstance(whole, np.ndarray) and whole.shape == (len(self.scale) + 1,):  # or any other view of as many
            return whole if whole[0] == 1.0 and np.array_equal(whole[1:], self.scale) else np.append(1.0, self.scale)
        return np.concatenate([[1.0], self.scale])

    def over(self, source: AnySource | RunSource, sampling_fraction: float = 1.0) -> FoldObjective:
        """Return the same objective over other rows, scaled up to all; what is known of these rows is left behind."""
        engine = self.engine if isinstance(source, RunSource) else engine_of(source, self.threads)
        part = replace(self, engine=engine, source=source, state=ObjectiveState(max_row_norm2=0.0))
        return replace(part, sampling_fraction=sampling_fraction, progress=None)

    def restricted(self, free: npt.NDArray[np.bool_]) -> FoldObjective:
        """Return the same objective with fewer coordinates that may move."""
        return replace(self, free=free, state=replace(self.state, last=None))

    def with_penalty(self, penalty: Quadratic | None) -> FoldObjective:
        """Return the same objective under another prior; both count their passes."""
        return replace(self, penalty=penalty, state=replace(self.state, last=None))

    def with_row_curvature(self) -> FoldObjective:
        """Return the same objective with a buffer for the curvature of each row, so that products need not find it."""
        buffers = RowBuffers(curvature=np.zeros(self.n_rows))
        return replace(self, buffers=buffers, state=replace(self.state, last=None))

    @property
    def threads(self) -> int | None:
        """Threads of the engine, None for its own choice."""
        return threads_of(self.engine)

    def fixed(self, x: Array) -> Array:
        """Return weights (C × P) with those at zero that may not move."""
        X = x.reshape(self.shape)
        return X if self.all_free else np.where(self.free, X, 0.0)

    def raw(self, x: Array) -> tuple[Array, Array]:
        """Return ``(W, b)``: weights against class 0 on centred columns, for the kernels."""
        if self.shape[0] > 1:
            in_parts = isinstance(self.source, MemorySource) and self.source.form is not None
            X = np.matmul(self.T, self.fixed(x), out=room_by_place(len(self.T), self.shape[1]) if in_parts else None)
        else:  # one array, as the kernel of tables reads it
            X = np.append(x, 0.0)[None, :-1]
            if not self.all_free:
                X[~self.free] = 0.0
        W = X[:, 1:]
        if self._unit is not None:
            W /= self.scale
        return W if self.whitening is None else W @ self.whitening.T, X[:, 0].copy()

    def evaluate(self, w: Array, order: int = 1, *, expected: bool = False) -> ObjectiveValue:
        """Return value, gradient and (``order=2``) Hessian at ``w``: one pass.

        ``expected`` gives the Hessian that is expected under the model, where a link makes the two differ.
        """
        last = None if expected else self.state.last
        if last is not None and (order < 2 or last.hessian is not None) and (last.w is w or (last.w == w).all()):
            return last
        if not expected:
            last = self.state.last = None  # its Hessian makes room
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._sums(w, order, expected)
        g = solver_gradient(sums.gradient, self.T, self._unit, self.whitening)
        H = None if sums.hessian is None else solver_hessian(sums.hessian, self.T, self._unit, self.whitening)
        value, rounding = sums.value, 0.0
        if self.penalty is not None:
            X = w.reshape(self.shape)
            loss, slope = self.penalty.at(X)
            value, rounding = value + loss, self.penalty.rounding(X)
            g += slope
            if isinstance(H, BorderedDiagonal):
                H = H.plus_diagonal(self.penalty.diagonal(1)[0])
            elif H is not None:
                self.penalty.add_to(H, *self.shape)
        if not self.all_free:
            g[~self.free] = 0.0
            if isinstance(H, BorderedDiagonal):
                H = H.fix(~self.free[0], max(1.0, self.weight))
            elif H is not None:
                self.fix(H, max(1.0, self.weight))
        e = ObjectiveValue(
            w=w, value=value, log_likelihood=-sums.value, gradient=g.ravel(), hessian=H, rounding=rounding
        )
        if not expected:
            self.state.last = e
        return e

    def newton_steps(self, w: Array, steps: int, small: float) -> NewtonSteps | None:
        """Take plain Newton steps in one call of a kernel, where that is possible."""
        return fused_steps(self, w, steps, small)

    def lbfgs_points(
        self, w: Array, distance: Distance, steps: int, stall: tuple[int, float], *, hessian: bool = False
    ) -> tuple[ObjectiveValue, LbfgsPoints] | None:
        """Run L-BFGS in one call of a kernel, where that is possible."""
        from oddsmith.likelihood.fused_lbfgs import fused_points

        return fused_points(self, w, distance, steps, stall, hessian=hessian)

    def fix(self, H: Array, diagonal: float) -> None:
        """Clear the rows and columns of fixed coordinates, but for the diagonal."""
        fixed = ~self.free.ravel()
        H[fixed] = 0.0
        H[:, fixed] = 0.0
        H[fixed, fixed] = diagonal

    def _sums(self, w: Array, order: int, expected: bool) -> Curvature:
        packs = self.buffers is not None and self.buffers.half is not None
        inverse = self.scale**-2.0 if packs or self.state.max_row_norm2 is None else None
        at = self._at(w, order, inverse, expected=expected)
        sums = self.fold(Curvature, at) if self.eliminated is None else self._table_sums(at)
        if sums.rows != self.source.n_present:
            raise InvalidInputError(
                f"This pass over the data read {sums.rows} rows, but the first one {self.source.n_present}: the data "
                "has changed. Fit again when it is complete."
            )
        if inverse is not None:
            self.state.max_row_norm2 = sums.longest
        if self.explain is not None and not np.isfinite(sums.gradient).all():
            self.explain()
        if self.sampling_fraction == 1.0:
            return sums
        m = 1.0 / self.sampling_fraction
        hessian = sums.hessian
        if hessian is not None:  # a dense one where it is, to save memory
            hessian = np.multiply(hessian, m, out=hessian) if isinstance(hessian, np.ndarray) else hessian * m
        return replace(sums, value=sums.value * m, gradient=sums.gradient * m, hessian=hessian)

    @cached_property
    def _has_cells(self) -> bool:
        """Whether the block between the factor eliminated and all else is summed where it is not zero."""
        if self.eliminated is None:
            return False
        from oddsmith.likelihood.table_sums import has_cells

        return has_cells(self)

    def _table_sums(self, at: CurvatureParams) -> Curvature:
        from oddsmith.likelihood.table_sums import table_sums

        return table_sums(self, at)

    def hessian_product(self, w: Array, v: Array) -> Array:
        """Return the Hessian at ``w`` times ``v``: one pass, no matrix."""
        self._fill_row_curvature(w)
        statistic = OwnProduct if isinstance(self.source, MemorySource) else CurvatureProduct
        product = self.fold(statistic, self._at(w).towards(*self.raw(v))).product
        result = np.divide(g := solver_gradient(product, self.T, self._unit, self.whitening), self.sampling_fraction, g)
        if self.penalty is not None:
            result += self.penalty.apply(v.reshape(self.shape))
        np.copyto(result, v.reshape(self.shape), where=~self.free)
        return result.ravel()

    def _fill_row_curvature(self, w: Array) -> None:
        """Make sure that the curvatures in the buffer are those at ``w``: an evaluation writes them."""
        filled = self.buffers is None or self.buffers.curvature is None
        if not filled and (self.state.last is None or not np.array_equal(self.state.last.w, w)):
            self.evaluate(w)

    def preconditioner(self, w: Array) -> Preconditioner:
        """Return about the Hessian, in a form that is quickly solved: see `approximate_hessian`."""
        from oddsmith.likelihood.approximate_hessian import preconditioner

        return preconditioner(self, w)

    def log_likelihood(self, w: Array, value: float) -> float:
        return -value if self.penalty is None else self.penalty.value(w.reshape(self.shape)) - value

    def decrement_bound(self, e: ObjectiveValue) -> DecrementBound:
        """Bound the decrement without the Hessian, or estimate it where nothing bounds the Hessian from below."""
        bound = self.inverse_bound(e)
        if bound is not None:
            return DecrementBound(bound.norm(e.gradient), bound.rho, exact=True)
        settings = policy.POLICY
        residual, products = settings.bound_residual, settings.bound_products
        p = conjugate_gradients(self, e, self.preconditioner(e.w), residual, products)
        return DecrementBound(float(np.sqrt(max(float(p @ e.gradient), 0.0))), 0.0, exact=False)

    def inverse_bound(self, e: ObjectiveValue, preconditioner: Preconditioner | None = None) -> InverseBound | None:
        """Return a bound of the inverse Hessian at ``e`` from the prior, None without one (at most C passes)."""
        from oddsmith.likelihood.curvature_bounds import inverse_bound

        return inverse_bound(self, e, preconditioner)

    def in_row_space(self) -> tuple[FoldObjective, Callable[[Array], Array]] | None:
        """Return the objective over combinations of the rows, where that is possible."""
        from oddsmith.likelihood.row_space import over_row_space

        return over_row_space(self)

    def subsample(self, rows: int, seed: int) -> FoldObjective:
        """Return the same objective over about ``rows`` rows from across the whole data, scaled up to all."""
        assert not isinstance(self.source, RunSource)
        part = self.source.sample(rows, seed)
        weight = float(part.n_rows) if part.s is None else float(part.s.sum())
        return self.over(part, weight / self.weight)

    def table_sample(self, rows: int, seed: int) -> TableSample:
        """Return about ``rows`` rows of a table."""
        from oddsmith.likelihood.table_sums import table_sample

        return table_sample(self, rows, seed)

    def sample_step(self, H: Array, e: ObjectiveValue, whole: Subsample | None) -> Array:
        """Return about the step of Newton's method, from the Hessian H of a sample without the columns eliminated."""
        from oddsmith.likelihood.table_sums import sample_step

        return sample_step(self, H, e, whole)

    def batches(self, ends: Sequence[float]) -> Iterator[FoldObjective]:
        """Yield the same objective over disjoint runs of rows, each scaled up to all; ``ends`` are fractions."""
        for part in self.memory_source.parts(ends):
            yield self.over(part, part.n_present / self.weight)

    def low_precision(self, w: Array) -> tuple[FoldObjective, ObjectiveValue]:
        """Return nearly the same objective over a copy of the rows in half precision, and the evaluation at ``w``.

        The evaluation is exact, and the pass that makes it packs the copy. A pass over the copy takes a third of the
        time, and the optimum there is some ten-thousandth of a standard error away.
        """
        self.state.last = None  # the pass must be made
        half = np.empty(self.memory_source.X.shape, dtype=np.float16)
        e = replace(self, buffers=RowBuffers(half=half)).evaluate(w)
        low = self.over(replace(self.memory_source, X=half))
        center, scale = np.zeros_like(self.center), np.ones_like(self.scale)
        return replace(low, engine=self.engine, center=center, scale=scale, explain=None), e

    def column_curvature(self) -> tuple[Array, Array]:
        """Return what the Hessian nearly is where columns do not depend on each other and weights are near zero."""
        from oddsmith.likelihood.approximate_hessian import column_curvature

        return column_curvature(self)

    def hessian_lower_bound(self, e: ObjectiveValue) -> Array:
        """Return a lower bound of the Hessian of all rows: the subsampled rows count once, and the prior in full."""
        H: Array = e.dense_hessian * self.sampling_fraction
        if self.penalty is not None:
            H += (1.0 - self.sampling_fraction) * self.prior_hessian()
        return H

    def prior_hessian(self) -> Array:
        """Return the Hessian of the penalty alone."""
        H = np.zeros((self.size, self.size))
        if self.penalty is not None:
            self.penalty.add_to(H, *self.shape)
        self.fix(H, 0.0)
        return H

    def eigenvalue_bound(self, H: Array | BorderedDiagonal) -> float:
        """Return a simple bound of the smallest eigenvalue of a Hessian, its prior included, 0 where there is none."""
        from oddsmith.likelihood.curvature_bounds import eigenvalue_bound

        return eigenvalue_bound(self, H)

    def implicit_lower_bound(self, e: ObjectiveValue) -> ImplicitHessian | None:
        """Return the curvature at ``e`` of a subsample's rows, each counted once, with the prior in full, or None."""
        from oddsmith.likelihood.curvature_bounds import implicit_lower_bound

        return implicit_lower_bound(self, e)

    def activation_change(self, step: Array, bound: float, enough: float = 0.0) -> float:
        """Return by how much a step changes the activations of a row against each other, ``bound`` at most."""
        from oddsmith.likelihood.curvature_bounds import activation_change

        return activation_change(self, step, bound, enough)

    def observed_part(self, w: Array) -> FoldObjective:
        """Return the objective with the weights held where they are that these rows do not determine.

        Of a column that is constant here, or depends on others, the optimum would have any weight, however large.
        """
        H = self.evaluate(w, order=2, expected=not self.canonical).hessian
        assert H is not None
        kept = (H.factor(tol=VANISHES) if isinstance(H, BorderedDiagonal) else factor_spd(H)).kept
        return self if kept.all() else self.restricted(self.free & kept.reshape(self.free.shape))

    def sgd_epoch(
        self, w: Array, rng: np.random.Generator, steps: Array, total: float | None = None
    ) -> tuple[Array, Array]:
        """Return the weights after one epoch over the rows in random order, and the mean of the iterates."""
        from oddsmith.likelihood.stochastic import sgd_epoch

        return sgd_epoch(self, w, rng, steps, total)

    def fold(self, statistic: type[S], params: object) -> S:
        """Return the fold of a statistic over the rows: one pass."""
        self.state.passes += 1
        hessian = params if isinstance(params, CurvatureParams) and params.order >= 2 else None
        if hessian is not None and hessian.cells is not None and self.state.by_levels is not None:
            return self.state.by_levels.fold(statistic, self.source, params, progress=self.progress)
        source, engine = self.gradient_source if hessian is None else self._hessian_source, self.engine
        if issubclass(statistic, Curvature) and isinstance(source, MemorySource) and source.form is not None:
            from oddsmith.likelihood.table_sums import PassEngine

            engine = PassEngine(self.threads)
        return engine.fold(statistic, source, params, progress=self.progress)

    @cached_property
    def gradient_source(self) -> AnySource | RunSource:
        """The rows, those of a table in few slices."""
        if not isinstance(self.source, MemorySource) or self.source.form is None:
            return self.source
        from oddsmith.likelihood.table_sums import in_few_slices

        return in_few_slices(self.source, 0.0)

    @cached_property
    def _hessian_source(self) -> AnySource | RunSource:
        """The rows in more slices, where only a Hessian is work enough for several threads."""
        source, products = self.source, self.n_rows * float(self.size) ** 2
        if isinstance(source, MemorySource) and source.form is not None:
            from oddsmith.likelihood.table_sums import hessian_bytes, in_few_slices

            return in_few_slices(source, hessian_bytes(self))
        few = products <= policy.POLICY.one_thread_products
        if few or not isinstance(source, MemorySource) or source.transform is not None:
            return source
        whole = source.slice_rows is None and source.size <= policy.POLICY.one_thread_elements
        if source.slice_rows != source.n_rows and not (whole and len(source.slices()) == 1):
            return source
        return in_slices(self.memory_source, policy.POLICY.small_slices)

    def _at(self, w: Array, order: int = 1, inverse: Array | None = None, *, expected: bool = False) -> CurvatureParams:
        """Return the weights as the kernels take them."""
        W, b = self.raw(w)
        return CurvatureParams(
            W=W,
            b=b,
            center=self.center,
            order=order,
            inverse=inverse,
            link=self.link,
            expected=expected,
            buffers=self.buffers,
            eliminated=self.eliminated,
        )
