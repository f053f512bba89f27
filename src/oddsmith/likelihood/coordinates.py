"""The coordinates of a solver: centred and scaled columns that are independent, and class contrasts; data unchanged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from oddsmith.bordered import BorderedDiagonal, dependent_columns
from oddsmith.design.basis.base import seen_through
from oddsmith.engines import AnySource, Engine, MemorySource, engine_of, is_device_source
from oddsmith.engines.memory import in_slices
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.rows.split import TableForm
from oddsmith.solvers import policy
from oddsmith.statistics import CurvatureDiagonal, CurvatureParams, Moments, MomentsParams

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective

OF_COLUMNS = MomentsParams(1, "diagonal")
FEW_CLASSES = 32  # Number of classes up to which contrasts are kept.


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """The coordinates of a solver: centre and scale of columns, class contrasts.

    With K classes, full weights are ``W = contrast @ V`` (K × (K−1) contrasts); against class 0 they are ``T V`` with
    ``T = contrast[1:] − contrast[0]``. ``from_sample`` says whether a sample shows every column well. ``raw_center`` is
    the centre of the columns before a linear map of them.
    """

    center: Array
    scale: Array
    contrast: Array
    longest: float | None = None
    from_sample: bool = False
    raw_center: Array | None = None

    @property
    def T(self) -> Array:
        """Contrasts against class 0."""
        return np.ascontiguousarray(self.contrast[1:] - self.contrast[0])

    def to_user(self, x: Array) -> tuple[Array, Array]:
        """Return ``(coef, intercept)`` against class 0, in the user's units."""
        V = x.reshape(self.contrast.shape[1], -1)
        if len(self.contrast) > 2 or self.contrast[1, 0] - self.contrast[0, 0] != 1.0:
            V = self.T @ V
        W = V[:, 1:] / self.scale
        return W, V[:, 0] - W @ self.center

    def from_user(self, W: Array, b: Array) -> Array:
        """Return solver coordinates of weights against class 0."""
        V = np.column_stack([b + W @ self.center, W * self.scale])
        x: Array = np.asarray(np.linalg.solve(self.T, V), dtype=np.float64).ravel()
        return x

    def rounding_gap(
        self, x: Array, weight: float, longest: float, reported: tuple[Array, Array] | None = None
    ) -> float:
        """Bound the effect of rounding the ``reported`` weights, which are those of ``x``, on the objective."""
        W, b = self.to_user(x) if reported is None else reported
        U = W * self.scale
        shift = np.abs(b) + np.abs(W) @ np.abs(self.center)
        total = shift + np.sqrt((1.0 + longest) * np.einsum("km,km->k", U, U))  # and the activations
        return float(0.25 * weight * (4.0 * EPS) ** 2 * (total @ total))


def is_large(source: AnySource) -> bool:
    """Whether a source has so many elements that a fit starts on a sample."""
    return bool(source.size >= policy.POLICY.large_elements)


def shifted(source: AnySource, shift: Array) -> AnySource:
    """Return CSR rows with some columns shifted by a constant; these columns have no zero entries.

    >>> source = MemorySource(sparse.csr_array([[1e9, 0.0], [1e9 + 2.0, 1.0]]), np.zeros(2, dtype=np.int32), K=1)
    >>> shifted(source, np.array([1e9, 0.0])).X.toarray().tolist()
    [[0.0, 0.0], [2.0, 1.0]]
    """
    if isinstance(source, MemorySource) and source.transform is None:
        return replace(source, X=Shift(shift)(source.X))
    moved: AnySource = seen_through(source, Shift(shift), source.shape.M)
    return moved


@dataclass(frozen=True)
class Shift:
    """Shifts the stored entries of CSR rows by column; can be sent to workers."""

    shift: Array

    keeps_sparse = True

    def __call__(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return the shifted rows."""
        data = rows.data - self.shift[rows.indices]
        return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def threads_of(engine: Engine) -> int | None:
    """Return the number of threads set for an engine, None for its default."""
    threads: int | None = getattr(engine, "threads", None)  # clusters have their own
    return threads


def has_sample(source: AnySource) -> bool:
    """Whether a sample of the rows costs much less than a pass over all of them."""
    return is_large(source) if isinstance(source, MemorySource) else source.drawn is not None


def find_coordinates(
    engine: Engine, source: AnySource, contrast: Array, *, centred: bool, whitening: Array | None = None
) -> Coordinates:
    """Learn centre and scale of the columns by one cheap fold; without ``centred`` the centre is zero.

    For large data, a sample determines them (approximate values suffice), unless it shows too little of a column.
    """
    if whitening is not None:
        return _whitened_coordinates(engine, source, contrast, whitening, centred)
    if is_device_source(source):
        from oddsmith.likelihood.device_coordinates import column_moments

        center, scale = _spread(*column_moments(source), centred)  # type: ignore[arg-type]
        return Coordinates(center=center, scale=scale, contrast=contrast, from_sample=True)
    M = source.shape.M
    if source.form is not None:
        return _table_coordinates(engine, source, source.form, contrast, centred)
    if is_large(source) and source.is_sparse and M > policy.POLICY.largest_hessian:
        # Wide sparse rows stay as they are: the preconditioner knows the size of every column.
        return Coordinates(center=np.zeros(M), scale=np.ones(M), contrast=contrast)
    part = _coordinate_sample(source)
    if part is not None:
        engine, source = engine_of(part, threads_of(engine)), part
    center, scale = _spread(*_column_moments(engine, source), centred)
    shown = part is not None or _is_shown(source)
    return Coordinates(center=center, scale=scale, contrast=contrast, from_sample=shown)


def _coordinate_sample(source: AnySource) -> MemorySource | None:
    """Return a sample of large data that shows every column, None if there is none."""
    settings = policy.POLICY
    if not has_sample(source) or source.n_rows <= 4 * settings.coordinate_rows or source.weighted:
        return None
    most = settings.coordinate_rows
    rows = max(most // 2, min(most, settings.coordinate_elements // source.shape.M))
    # Those that were drawn are there already: all of them say more about a rare level than a few.
    part = source.sample(rows if isinstance(source, MemorySource) else source.n_rows, seed=2)
    return part if _seen_enough(part) else None


def _whitened_coordinates(
    engine: Engine, source: AnySource, contrast: Array, whitening: Array, centred: bool
) -> Coordinates:
    """Return coordinates for columns that are linear combinations of the source's: centred, not scaled.

    Rows of whitened kernels have norm at most 1, and so has their mean, the centre.
    """
    part = source if source.weighted or not has_sample(source) else source.sample(policy.POLICY.coordinate_rows, seed=2)
    inside = engine if part is source else engine_of(part, threads_of(engine))
    raw = _column_moments(inside, part)[0] if centred else np.zeros(len(whitening))
    center = raw @ whitening
    return Coordinates(
        center=center,
        scale=np.ones(whitening.shape[1]),
        contrast=contrast,
        longest=float(1.0 + np.linalg.norm(center)) ** 2,
        from_sample=True,
        raw_center=raw,
    )


def _column_moments(engine: Engine, source: AnySource) -> tuple[Array, Array]:
    """Return mean and variance of the columns, by a fold."""
    if isinstance(source, MemorySource) and source.transform is None and not source.is_sparse:
        source = in_slices(source, 1) if source.size <= policy.POLICY.one_thread_elements else source
    moments = engine.fold(Moments, source, OF_COLUMNS)
    return moments.mean[0], moments.scatter[0] / moments.weight[0]


def _table_coordinates(
    engine: Engine, source: AnySource, form: TableForm, contrast: Array, centred: bool
) -> Coordinates:
    """Return the coordinates of a table: numbers centred and scaled, factors as they are.

    So a row has one entry in the columns of a factor. Of several classes these are scaled, too: the preconditioner of
    gradients expects unit spread.
    """
    factors, M, binary = form.factor_columns, form.M, len(contrast) == 2
    if binary and factors.all():
        return Coordinates(center=np.zeros(M), scale=np.ones(M), contrast=contrast)
    if binary and isinstance(source, MemorySource):
        rows, form = _numbers_alone(source.X)
        mean, spread = _spread(*_table_moments(engine, replace(source, X=rows), form), centred)
        center, scale = np.zeros(M), np.ones(1 + M)[1:]  # after that of the intercept
        center[~factors], scale[~factors] = mean, spread
        return Coordinates(center=center, scale=scale, contrast=contrast)
    center, scale = _spread(*_table_moments(engine, source, form), centred)
    center[factors] = 0.0
    if binary:
        scale[factors] = 1.0
    return Coordinates(center=center, scale=scale, contrast=contrast)


def _numbers_alone(rows: SplitRows) -> tuple[SplitRows, TableForm]:
    """Return the rows without their factors."""
    numbers = SplitRows(tuple(part for part in rows.parts if not isinstance(part, CodeRows)))
    return numbers, numbers.form


def _table_moments(engine: Engine, source: AnySource, form: TableForm) -> tuple[Array, Array]:
    """Return the mean and variance of the columns of a table by one fold at zero weights.

    With an offset, they are those of weighted rows, which work as well. If no row is available to locate a column,
    another fold is needed.
    """
    M, numbers = form.M, ~form.factor_columns
    near = np.zeros(M)
    rows = source if isinstance(source, MemorySource) else source.drawn
    if rows is not None:
        near[numbers] = _first_means(rows.X.slice(0, min(64, rows.n_rows)))
    if isinstance(source, MemorySource):
        from oddsmith.likelihood.table_sums import in_few_slices

        source = in_few_slices(replace(source, K=2, offset=None), 0.0)  # at weights of zero, classes do not matter
    for last in (True,) if rows is not None or not numbers.any() else (False, True):
        at = CurvatureParams(W=np.zeros((source.K - 1, M)), b=np.zeros(source.K - 1), center=near)
        sums = engine.fold(CurvatureDiagonal, source, at)
        weight = sums.diagonal[0, 0]
        shift = sums.cross[0, 1:] / weight
        if not last:
            near = np.where(numbers, shift, 0.0)
    return near + shift, np.maximum(sums.diagonal[0, 1:] / weight - shift**2, 0.0)


def _first_means(rows: SplitRows) -> Array:
    """Return the means of the columns that are no factor's; those of factors take much memory."""
    parts = [part.dense().mean(axis=0) for part in rows.parts if not isinstance(part, CodeRows)]
    return np.concatenate([np.zeros(0), *parts])


def _is_shown(source: AnySource) -> bool:
    """Whether a sample shows every column of a table that is too small for sampled coordinates."""
    if not isinstance(source, MemorySource) or source.is_sparse or source.transform is not None or source.weighted:
        return False
    settings = policy.POLICY
    many = source.n_rows > 4 * settings.coordinate_rows and is_large(source)
    if many or source.n_rows < (settings.coordinate_rows if is_large(source) else settings.small_rows[source.K > 2]):
        return False  # a sample has no part in the fit, or was drawn before
    return _seen_enough(source.sample(policy.POLICY.coordinate_rows // 4, seed=2))


def _seen_enough(part: MemorySource) -> bool:
    """Whether no column of the sample is nearly constant (fewer than eight rows differ from its commonest value)."""
    if part.is_sparse:
        return False
    rows = part.block(0, part.n_rows).X
    middle = np.median(rows[:33], axis=0)
    seen = np.zeros(len(middle), dtype=np.intp)
    for start in range(0, len(rows), 256):  # most columns show themselves at once
        seen += np.count_nonzero(rows[start : start + 256] != middle, axis=0)
        if (seen >= policy.POLICY.shown_rows).all():
            return True
    return False


def _spread(mean: Array, variance: Array, centred: bool) -> tuple[Array, Array]:
    """Return centre and scale; without centring, the scale is the root mean square."""
    if not centred:
        variance, mean = variance + mean**2, np.zeros_like(mean)
    spread = np.sqrt(variance)
    if isnan(spread.sum()):
        spread[np.isnan(spread) & np.isfinite(mean)] = np.inf  # squares beyond the range of floating-point numbers
    # Rounding leaves a trace of spread in a constant column of large value: that is no spread.
    still = ~(spread > 4.0 * EPS * np.abs(mean))
    if still.any():
        spread[still] = 1.0
    return mean, spread


def _contrast(K: int, reference: int | None) -> Array:
    if reference is not None:
        return np.insert(np.eye(K - 1), reference, 0.0, axis=0)
    helmert: Array = linalg.helmert(K).T
    return helmert


_kept_contrast = lru_cache(maxsize=16)(_contrast)  # to make one takes as long as a pass over few rows


def make_contrast(K: int, reference: int | None) -> Array:
    """Return the K × (K−1) matrix that turns free weights into weights of all classes.

    With a reference, its row is zero; without one, the columns are orthonormal and sum to zero.

    >>> make_contrast(3, 0).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> bool(np.allclose(make_contrast(3, None).sum(axis=0), 0.0))
    True
    """
    return _kept_contrast(K, reference).copy(order="K") if K <= FEW_CLASSES else _contrast(K, reference)


def solver_gradient(G: Array, T: Array, unit: Array | None, whitening: Array | None) -> Array:
    """Return ``Tᵀ G / unit``: a gradient of the kernels (K − 1 × P) in solver coordinates (C × P).

    The result is in the place of G if possible: nobody else holds it.
    """
    G = T.T @ G if len(G) > 1 else G
    if whitening is not None:
        G = np.column_stack([G[:, 0], G[:, 1:] @ whitening])
    G = G if G.flags.writeable else G.copy()
    if unit is not None:
        G /= unit
    return G


def solver_hessian(
    H: Array | BorderedDiagonal, T: Array, unit: Array | None, whitening: Array | None
) -> Array | BorderedDiagonal:
    """Return ``(T ⊗ 1/unit)ᵀ H (T ⊗ 1/unit)``: a Hessian of the kernels in solver coordinates."""
    if isinstance(H, BorderedDiagonal):
        return H if unit is None else H.rescaled(unit)
    R, C = T.shape
    if whitening is not None:
        B = linalg.block_diag(1.0, whitening)
        H = np.asarray(np.einsum("ipjq,pr,qs->irjs", H.reshape(R, len(B), R, len(B)), B, B, optimize=True))
        H = np.ascontiguousarray(H.reshape(R * B.shape[1], -1), dtype=np.float64)
    P = len(H) // R
    if C > 1:
        H = (T.T @ H.reshape(R, P * R * P)).reshape(C * P, R * P)
        H = (T.T @ np.ascontiguousarray(H.T).reshape(R, P * C * P)).reshape(C * P, C * P)
    if unit is None:
        return H
    units = np.tile(unit, C)
    products = np.outer(units, units)
    return np.divide(H, products, out=products)


def independent_columns(objective: FoldObjective, x: Array, sample_rows: int | None = None) -> FoldObjective:
    """Return the objective with columns set aside that depend on earlier ones, as R does.

    Columns that are independent on a sample of (at least) ``sample_rows`` are so on all of them; only otherwise all are
    asked.
    """
    if sample_rows is not None:
        rows, each = policy.POLICY.start_rows, policy.POLICY.start_rows_per_weight[0]
        part = objective.subsample(max(rows, each * objective.size, sample_rows), seed=1)
        if independent_columns(part, x) is part:
            return objective
    # Not the observed Hessian: with the log link one class has none.
    H = objective.evaluate(x, order=2, expected=not objective.canonical).dense_hessian
    P = objective.shape[1]
    # One class's block suffices: its columns depend on each other exactly as the data's do.
    block = H[:P, :P].copy()
    if objective.source.is_sparse:
        # Sparse rows are centred in the sums: what cancels there to less than its rounding is nothing.
        rounding = 64.0 * EPS * block[0, 0] * np.append(0.0, (objective.center / objective.scale) ** 2)
        constant = np.diag(block) <= rounding
        block[constant] = block[:, constant] = 0.0
    kept = factor_spd(block).kept
    return objective if kept.all() else objective.restricted(objective.free & kept)


def independent_levels(objective: FoldObjective, x: Array) -> FoldObjective:
    """Return the objective of a table with columns set aside that depend on earlier ones, as R does.

    Eliminating a factor finds how many combinations of columns vanish, and which; of each the last column is set aside.
    """
    e = objective.evaluate(x, order=2, expected=not objective.canonical)
    H = e.hessian
    assert isinstance(H, BorderedDiagonal)
    free = objective.free.copy()
    free[0, H.start : H.stop] &= H.d > 0.0
    free[0, [j for j, _ in dependent_columns(H.vanishing_combinations())]] = False
    return objective if np.array_equal(free, objective.free) else objective.restricted(free)
