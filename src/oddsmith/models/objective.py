"""A likelihood as the function that a solver sees: folds of `Curvature` with the prior added.

Solvers work in coordinates in which columns are centred and scaled: for each of the C class contrasts the
vector ``x = (b_c, u·scale)`` with ``a = b_c + uᵀ(φ − center)``. The user's data is never touched: a block is
centred tile by tile as it is read, and the scale acts on sums of size M; of a small table a copy is centred and scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.engines import Engine, MemorySource, engine_of
from oddsmith.engines.memory import Part, available_cores, shared
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.sgd import run_epoch
from oddsmith.links import Link
from oddsmith.models.rows import Rows
from oddsmith.numerics import EPS, Array
from oddsmith.priors import Quadratic
from oddsmith.solvers.base import Curb, Evaluation, Preconditioner
from oddsmith.solvers.certificate import InverseBound
from oddsmith.statistics import Curvature, CurvatureDiagonal, CurvatureParams, CurvatureProduct

DEAR_SIZE = 50
"""With more weights a Hessian takes several times as long as a gradient."""
HALF_COLUMNS = (150, 16)
"""Rows of fewer columns take their time for other things than being read: of two classes, and of more."""
NARROW = 0.2
"""Activations that change by no more than this leave most of the curvature."""
HALF_BYTES = 1 << 28
"""What a copy of the rows in half precision may take."""


@dataclass
class FoldObjective:
    """``f(x) = Σ s ℓ + penalty``, evaluated by one fold an evaluation.

    ``T`` (C × C) turns solver contrasts into contrasts against class 0; ``free`` (C × P) marks the
    coordinates that may move (no intercept, aliased columns: fixed at 0). A ``sample`` of the rows is scaled up to
    all of them by 1 / ``share``. ``longest`` is the squared length of the longest scaled row; where it is not known
    yet, the first pass finds it. ``explain`` is called when sums are not finite, to raise what it finds in the data.
    ``link`` is that of two classes, None for the logit. With ``mix`` (M′ × M) the columns are ``φ = φ′ mix`` of the
    source's φ′, and ``center`` is that of φ′.
    """

    engine: Engine
    source: Any
    center: Array
    scale: Array
    T: Array
    penalty: Quadratic | None
    free: npt.NDArray[np.bool_]
    weight: float
    longest: float | None
    large: bool = False
    explain: Callable[[], None] | None = None
    progress: Any = None
    link: Link | None = None
    mix: Array | None = None
    share: float = 1.0
    passes: int = 0
    _last: Evaluation | None = field(default=None, repr=False)
    _known_free: tuple[Any, bool] = field(default=(None, False), repr=False)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.free.size)

    @property
    def shape(self) -> tuple[int, int]:
        """Contrasts × (1 + columns)."""
        return self.free.shape[0], self.free.shape[1]

    @property
    def reach(self) -> float:
        """The constant of self-concordance: the longest row, and √2 between two softmax classes.

        Other links than the logit have none.
        """
        if self.link is not None:
            return np.inf
        longest = np.inf if self.longest is None else self.longest
        return float(np.sqrt((1.0 + longest) * (2.0 if self.shape[0] > 1 else 1.0)))

    @property
    def rounding(self) -> float:
        """Bound on the rounding of a gradient entry: columns have unit spread, residuals are at most one."""
        return 8.0 * EPS * self.weight

    @property
    def n_rows(self) -> int:
        """Number of rows of the source."""
        return int(self.source.n_rows)

    @property
    def made(self) -> bool:
        """Whether rows are made anew, by basis functions, in every pass."""
        return self.source.transform is not None

    @property
    def mean_square(self) -> float:
        """Mean squared length of a scaled row, the intercept included."""
        return float(self.free[0].sum())

    def raw(self, x: Array) -> tuple[Array, Array]:
        """Return ``(W, b)``: weights against class 0 on centred columns, for the kernels."""
        X = x.reshape(self.shape) if self._all_free else np.where(self.free, x.reshape(self.shape), 0.0)
        X = self.T @ X if len(X) > 1 else X
        W = X[:, 1:] if self._unit is None else X[:, 1:] / self.scale
        return W if self.mix is None else W @ self.mix.T, np.ascontiguousarray(X[:, 0])

    @property
    def _all_free(self) -> bool:
        if self._known_free[0] is not self.free:
            self._known_free = self.free, bool(self.free.all())
        return self._known_free[1]

    @property
    def convex(self) -> bool:
        """Whether the Hessian is never indefinite; where it may be, the expected one can take its place."""
        return self.link is None or self.link.convex

    @property
    def canonical(self) -> bool:
        """Whether observed and expected Hessian are the same."""
        return self.link is None

    def evaluate(self, x: Array, order: int = 1, *, expected: bool = False) -> Evaluation:
        """Return value, gradient and (``order=2``) Hessian at ``x``: one pass.

        ``expected`` gives the Hessian that is expected under the model, where a link makes the two differ.
        """
        last = None if expected else self._last
        if last is not None and (order < 2 or last.hessian is not None) and (last.w == x).all():
            return last
        W, b = self.raw(x)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._sums(W, b, order, expected)
        X = x.reshape(self.shape)
        g = self._to_solver(sums.gradient)
        H = None if sums.hessian is None else self._hessian(sums.hessian)
        value, rounding = sums.value, 0.0
        if self.penalty is not None:
            loss, slope = self.penalty.at(X)
            value, g, rounding = value + loss, g + slope, self.penalty.rounding(X)
            if H is not None:
                self.penalty.add_to(H, *self.shape)
        if not self._all_free:
            g = np.where(self.free, g, 0.0)
            if H is not None:
                fixed = ~self.free.ravel()
                H[fixed] = 0.0
                H[:, fixed] = 0.0
                H[fixed, fixed] = max(1.0, self.weight)
        e = Evaluation(x, value, -sums.value, g.ravel(), H, rounding)
        if not expected:
            self._last = e
        return e

    def _sums(self, W: Array, b: Array, order: int, expected: bool) -> Curvature:
        inverse = None if self.longest is not None else self.scale**-2.0
        params = self._params(W, b, order=order, inverse=inverse, expected=expected)
        sums: Curvature = self._fold(Curvature, params)
        if sums.rows != self.source.n_present:
            raise InvalidInputError(
                f"This pass over the data met {sums.rows} rows, and the first one {self.source.n_present}: it has "
                "changed meanwhile. Fit again when it is complete."
            )
        if inverse is not None:
            self.longest = sums.longest
        if self.explain is not None and not np.isfinite(sums.gradient).all():
            self.explain()
        if self.share == 1.0:
            return sums
        m = 1.0 / self.share
        hessian = None if sums.hessian is None else sums.hessian * m
        return Curvature(sums.rows, sums.value * m, sums.gradient * m, hessian, sums.longest)

    def sample(self, rows: int, seed: int) -> FoldObjective:
        """Return the same objective over about ``rows`` rows from across the whole data, scaled up to all."""
        part = self.source.sample(rows, seed)
        weight = float(part.n_rows) if part.s is None else float(part.s.sum())
        engine = engine_of(part, getattr(self.engine, "threads", None))
        new = replace(self, engine=engine, source=part, share=weight / self.weight, longest=0.0, progress=None)
        return replace(new, passes=0, _last=None)

    @property
    def has_parts(self) -> bool:
        """Whether `parts` from across the rows can be had without a copy: of two classes, in C order."""
        source, plain = self.source, self.link is None and self.mix is None and self.shape[0] == 1
        if not (plain and self.large and isinstance(source, MemorySource)) or source.transform is not None:
            return False
        return not (source.is_sparse or source.weighted) and bool(source.X.flags.c_contiguous)

    def parts(self, ends: Sequence[float]) -> Iterator[FoldObjective]:
        """Yield the same objective over some rows, then others, each scaled up to all; ``ends`` are shares of rows."""
        for part in self.source.parts(ends):
            share = part.n_present / self.weight
            yield replace(self, source=part, share=share, longest=0.0, progress=None, passes=0, _last=None)

    @property
    def dear_hessian(self) -> bool:
        """Whether a pass that forms the Hessian takes many times as long as one for the gradient."""
        return not self.source.is_sparse and self.size > DEAR_SIZE

    @property
    def has_coarse(self) -> bool:
        """Whether passes over a copy of the rows in half precision would pay for making it."""
        source = self.source
        if not (self.large and isinstance(source, MemorySource) and source.transform is None and self.mix is None):
            return False
        if source.is_sparse or source.weighted or self.link is not None:
            return False
        if not (source.X.flags.c_contiguous and source.X.dtype == np.float64 and self.longest is None):
            return False
        if not self._all_free:  # without an intercept columns are not centred: half precision may see their mean alone
            return False
        wide = source.shape.M >= HALF_COLUMNS[min(self.shape[0], 2) - 1] and 2 * source.X.size <= HALF_BYTES
        return wide and bool(import_module("oddsmith.kernels.large").HALVES)

    def column_curvature(self) -> tuple[Array, Array]:
        """Return what the Hessian nearly is where columns do not depend on each other and weights are near zero.

        B (C × C) between the classes, for columns of unit spread, and the diagonal of the prior (P), on the mean over
        classes, that is added to it for each column.
        """
        C, K = self.shape[0], self.source.K
        counts = np.bincount(self.source.t, weights=self.source.s, minlength=K) + 1.0 / K
        p = counts / counts.sum()
        between = -np.outer(p, p)
        np.fill_diagonal(between, p * (p @ (1.0 - np.eye(K))))  # 1 − p would lose the rows of a rare class
        B: Array = self.weight * self.T.T @ between[1:, 1:] @ self.T
        prior = np.zeros(self.shape[1]) if self.penalty is None else self.penalty.diagonal(C).mean(axis=0)
        return B, prior

    def coarsened(self, x: Array) -> tuple[FoldObjective, Evaluation]:
        """Return nearly the same objective over a copy of the rows in half precision, and the evaluation at ``x``.

        The evaluation is exact, and the pass that makes it makes the copy. A pass over the copy takes a third of the
        time, and the optimum there is some ten-thousandth of a standard error away.
        """
        source = self.source
        half = np.empty(source.X.shape, dtype=np.float16)
        self.source = replace(source, half=half)
        try:
            e = self.evaluate(x)
        finally:
            self.source = source
        coarse = replace(
            self,
            source=replace(source, X=half),
            center=np.zeros_like(self.center),
            scale=np.ones_like(self.scale),
            longest=0.0,
            explain=None,
            progress=None,
        )
        return replace(coarse, passes=0, _last=None), e

    def widest_change(self, d: Array, bound: float) -> float:
        """Return by how much a step ``d`` changes the activations of a row against each other, at most.

        It is looked up if the rows are in memory and the ``bound`` is not narrow.
        """
        source, slices = self.source, None
        if isinstance(self.source, Part):
            source, slices = self.source.source, self.source.runs()
        if bound <= NARROW or not isinstance(source, MemorySource):
            return bound
        W, b = self.raw(d)

        def widest_of(rows: tuple[int, int]) -> float:
            A = source.block(*rows).Phi @ W.T + (b - W @ self.center)
            if A.shape[1] == 1:
                return float(np.abs(A).max(initial=0.0))
            return float((A.max(axis=1, initial=0.0) - A.min(axis=1, initial=0.0)).max(initial=0.0))

        threads = getattr(self.engine, "threads", None) or available_cores()
        widest = float(np.max([*shared(widest_of, slices or source.slices(), threads)], initial=0.0))
        rounding = 1e-6 * (1.0 + float((np.abs(W) @ np.abs(self.center)).max(initial=0.0)))  # it is taken off last
        return min(bound, widest + rounding) if np.isfinite(widest) else bound

    def log_likelihood(self, x: Array, value: float) -> float:
        """Return the log likelihood at ``x``, where the objective is ``value``."""
        return -value if self.penalty is None else self.penalty.value(x.reshape(self.shape)) - value

    def least_curvature(self, H: Array) -> float:
        """Return a simple bound of the smallest eigenvalue of a Hessian, its prior included, or 0 where there is none.

        With s and c, the curvature of the intercept and its row, H is at least ``s (b + cᵀw / s)² + Σ q w²``.
        """
        if self.penalty is None or self.penalty.Q.ndim > 1 or self.shape[0] > 1 or not self._all_free:
            return 0.0
        if not H[0, 0] > 0.0:
            return 0.0
        s, v, q = H[0, 0], np.linalg.norm(H[0, 1:]) / H[0, 0], self.penalty.Q[1:].min(initial=np.inf)
        half = 0.5 * (s + s * v**2 + q)
        least = s * q / (half + np.sqrt(max(0.0, half**2 - s * q)))
        return float(least) if np.isfinite(least) else 0.0

    def prior_hessian(self) -> Array:
        """Return the Hessian of the penalty alone."""
        H = np.zeros((self.size, self.size))
        if self.penalty is not None:
            self.penalty.add_to(H, *self.shape)
        fixed = ~self.free.ravel()
        H[fixed] = 0.0
        H[:, fixed] = 0.0
        return H

    def hessian_product(self, x: Array, v: Array) -> Array:
        """Return the Hessian at ``x`` times ``v``: one pass, no matrix."""
        self._remember(x)
        W, b = self.raw(x)
        V, v0 = self.raw(v)
        sums = self._fold(CurvatureProduct, self._params(W, b, V=V, v=v0))
        result = self._to_solver(sums.product) / self.share
        if self.penalty is not None:
            result = result + self.penalty.apply(v.reshape(self.shape))
        return np.where(self.free, result, v.reshape(self.shape)).ravel()

    def _remember(self, x: Array) -> None:
        """See to it that curvatures which rows remember are those at ``x``: they are of the last evaluation."""
        if self.source.memo is not None and (self._last is None or not np.array_equal(self._last.w, x)):
            self.evaluate(x)

    def preconditioner(self, x: Array) -> Preconditioner:
        """Return the diagonal of the Hessian with the intercepts eliminated: one pass.

        The contrasts of a symmetric softmax mix classes; there the mean over them is close enough.
        """
        C, P = self.shape
        if self.mix is not None:
            return Preconditioner.of(np.ones((C, P)), np.zeros((C, P - 1)))
        self._remember(x)
        W, b = self.raw(x)
        sums = self._fold(CurvatureDiagonal, self._params(W, b))
        d, cross = sums.diagonal / self.share, sums.cross[:, 1:] / self.share
        if C > 1 and not np.array_equal(self.T, np.eye(C)):
            d, cross = (np.broadcast_to(part.mean(axis=0), part.shape) for part in (d, cross))
        d = d / np.concatenate([[1.0], self.scale]) ** 2
        if self.penalty is not None:
            d = d + self.penalty.diagonal(C)
        both = self.free[:, 1:] & self.free[:, :1]
        return Preconditioner.of(np.where(self.free, d, 1.0), np.where(both, cross / self.scale, 0.0))

    def curb(self, e: Evaluation) -> Curb:
        """Bound the decrement without the Hessian, or estimate it where nothing bounds the Hessian from below."""
        bound = self.inverse_bound(e)
        return self._estimate(e) if bound is None else Curb(bound.norm(e.gradient), bound.rho, exact=True)

    def inverse_bound(self, e: Evaluation, metric: Preconditioner | None = None) -> InverseBound | None:
        """Return a bound of the inverse Hessian at ``e`` from the prior, the intercepts eliminated (C passes).

        Of two classes the preconditioner there knows all that is needed.
        """
        C, P = self.shape
        if self.penalty is None or self.penalty.Q.ndim == 2:
            return None
        prior = self.penalty.diagonal(C)[:, 1:].ravel()
        columns = np.zeros((C, C, P))
        passes = C if self.free[:, 0].all() else 0
        if passes == 1 and metric is not None and self.mix is None:
            columns[0, 0], passes = np.append(metric.rest[0, 0], metric.cross[0]), 0
        for k in range(passes):
            unit = np.zeros(self.size)
            unit[k * P] = 1.0
            columns[k] = self.hessian_product(e.w, unit).reshape(C, P)
        return InverseBound.eliminating(columns, prior, self.reach, self.rounding + e.rounding)

    def floor(self, e: Evaluation) -> Rows | None:
        """Return the curvature at ``e`` of a sample's rows, each counted once, with the prior in full.

        Other rows can only add to it. Of two classes and dense rows in memory, with a simple prior; else None.
        """
        source, plain = self.source, isinstance(self.source, MemorySource) and self.source.transform is None
        if not plain or source.is_sparse or not self.large or self.link is not None or self.mix is not None:
            return None
        if self.shape[0] > 1 or self.penalty is None or self.penalty.Q.ndim == 2 or not self._all_free:
            return None
        kernel = import_module("oddsmith.kernels.large")
        W, b = self.raw(e.w)

        def root(rows: tuple[int, int]) -> Array:
            return kernel.curvature_root(source.block(*rows), W, b, self.center)  # type: ignore[no-any-return]

        threads = getattr(self.engine, "threads", None) or available_cores()
        unit = np.ones(self.size) if self._unit is None else self._unit
        return Rows([*shared(root, source.slices(), threads)], unit, self.penalty.diagonal(1)[0], threads)

    def _estimate(self, e: Evaluation) -> Curb:
        from oddsmith.solvers.truncated import conjugate_gradients

        p = conjugate_gradients(self, e, self.preconditioner(e.w), 1e-3, 500)
        return Curb(float(np.sqrt(max(float(p @ e.gradient), 0.0))), 0.0, exact=False)

    def sgd_epoch(
        self, x: Array, rng: np.random.Generator, steps: Array, total: float | None = None
    ) -> tuple[Array, Array]:
        """Return the weights after one epoch over the rows in random order, and the mean of the iterates.

        The rows are part of a whole of weight ``total`` (default: they are all of it), over which the prior is spread.
        """
        V = np.array(x.reshape(self.shape))
        C, P = self.shape
        if self.mix is not None:
            raise InvalidInputError(
                "Stochastic gradient descent takes no whitened kernel of this size. Use solver='auto', or whiten=False."
            )
        if self.link is not None:
            raise InvalidInputError(
                f"Stochastic gradient descent is for link='logit', found {self.link.name!r}. Use solver='newton'."
            )
        if self.penalty is not None and self.penalty.Q.ndim == 2:
            raise InvalidInputError(
                "Stochastic gradient descent takes a prior that is independent from weight to weight and leaves the "
                "intercept free: a scale, a variance, or one variance a column. Use solver='newton' for this one."
            )
        decay = np.zeros((C, P)) if self.penalty is None else self.penalty.diagonal(C) / (total or self.weight)
        target = np.zeros((C, P)) if self.penalty is None else self.penalty.mean
        mean, seen = np.zeros((C, P)), 0
        n = self.n_rows
        for start, stop in [(0, n)] if self.source.transform is None else self.source.slices():
            block = self.source.block(start, stop)
            order = rng.permutation(stop - start)
            for part in np.array_split(order, max(1, len(order) * P // 4_000_000)):
                rows = block.Phi[part]
                rows = np.asarray(rows.toarray() if block.is_sparse else rows, dtype=np.float64)
                s = block.weights()[part] * (n / self.weight)
                offset = np.zeros((len(part), C)) if block.offset is None else block.offset[part]
                arguments = (rows, block.t[part], s, offset, self.center, self.scale, self.T)
                some = run_epoch(n, *arguments, decay, target, V, steps[seen : seen + len(part)])
                seen += len(part)
                mean += (some - mean) * (len(part) / seen)
        V[~self.free] = 0.0
        mean[~self.free] = 0.0
        return V.ravel(), mean.ravel()

    def _params(self, W: Array, b: Array, *, order: int = 1, **others: Any) -> CurvatureParams:
        return CurvatureParams(W, b, self.center, order, large=self.large, link=self.link, **others)

    def _fold(self, statistic: Any, params: CurvatureParams) -> Any:
        self.passes += 1
        return self.engine.fold(statistic, self.source, params, progress=self.progress)

    def _to_solver(self, G: Array) -> Array:
        G = self.T.T @ G if len(G) > 1 else G
        if self.mix is not None:
            G = np.column_stack([G[:, 0], G[:, 1:] @ self.mix])
        return G if self._unit is None else G / self._unit

    def _hessian(self, H: Array) -> Array:
        """Return the Hessian in solver coordinates, (T ⊗ 1/scale)ᵀ H (T ⊗ 1/scale)."""
        C, P = self.shape
        if self.mix is not None:
            R = linalg.block_diag(1.0, self.mix)
            H = np.einsum("ipjq,pr,qs->irjs", H.reshape(C, len(R), C, len(R)), R, R, optimize=True)
            H = np.ascontiguousarray(H.reshape(C * P, C * P))
        if C > 1:
            H = (self.T.T @ H.reshape(C, P * C * P)).reshape(C * P, C * P)
            H = (self.T.T @ np.ascontiguousarray(H.T).reshape(C, P * C * P)).reshape(C * P, C * P)
        if self._unit is None:
            return H
        unit = np.tile(self._unit, C)
        return H / unit / unit[:, None]

    @cached_property
    def _unit(self) -> Array | None:
        """The scale of a whole row of weights, or None where all is in unit scale already."""
        return None if (self.scale == 1.0).all() else np.concatenate([[1.0], self.scale])
