"""Finding the width of a prior: by the evidence, by leave-one-out, by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.engines import one_blas_thread
from oddsmith.errors import (
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    SeparationWarning,
    UnknownNameError,
)
from oddsmith.inference.leave_one_out import leave_one_out
from oddsmith.inference.left_out import LeftOut, LeftOutParams
from oddsmith.inference.widths import Local, Selection, lowest, with_slope
from oddsmith.models.bench import NEAR, Bench
from oddsmith.models.coordinates import is_large
from oddsmith.models.cross_validation import by_cross_validation, folds, path_solver
from oddsmith.models.likelihood import Problem, _start
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import WIDTHS, GaussianPrior, as_prior
from oddsmith.records import Table
from oddsmith.solvers.base import Evaluation
from oddsmith.solvers.truncated import LARGEST_HESSIAN
from oddsmith.statistics import LeverageParams, LeverageSlope, ScoreScatter

GRID = 20
STEPS = 60
Start = tuple[Array, Array]


def choose_width(problem: Problem, seed: int | None) -> tuple[Selection, Start | None]:
    """Return the selection that a prior with a name for its scale asks for, and weights near the optimum if known."""
    prior = problem.prior
    assert prior is not None
    _check(problem, prior)
    bench = Bench.of(problem, prior)
    if prior.scale == "evidence":
        selection, x = by_evidence(bench)
    elif prior.scale == "loo":
        selection, x = by_leave_one_out(bench, _grid(prior, bench))
    else:
        return by_cross_validation(bench, _grid(prior, bench), folds(problem, prior.cv, seed)), None
    return selection, bench.coordinates.to_user(x)


def by_evidence(bench: Bench) -> tuple[Selection, Array]:
    """Maximise the Laplace evidence over the widths.

    Each iteration
      1. takes the Hessian at the weights (one pass) and the slope of its determinant (one more, or a sample of it),
      2. maximises the evidence of the quadratic model over the widths, no pass needed,
      3. stops when the model is exact there: nothing is gained, or the weights hardly move,
      4. else moves the weights as the model says; if the evidence fell, goes half-way back.

    The end is a stationary point of the evidence itself: there the model's derivative is exact.
    """
    log_alpha = bench.typical_precisions()
    e = bench.first_fit(log_alpha)
    bounds = bench.local(e, log_alpha).bounds()
    records: list[tuple[float, Array]] = []
    best: tuple[float, Array, Local] | None = None
    # Where a pass costs nothing, all digits; else as many as the evidence itself can tell apart.
    enough, near, reach = (2e-5, NEAR, 7.0) if is_large(bench.objective.source) else (1e-10, 0.0, 7.0)
    for _ in range(STEPS):
        local = bench.local(e, log_alpha)
        local = with_slope(local, _slope(bench, e, local, log_alpha))  # 1
        value = local.evidence(log_alpha)[0]
        records.append((value, np.exp(-0.5 * log_alpha)))
        if best is not None and value < best[0] - 1e-6 * (1.0 + abs(value)):  # 4
            log_alpha, local, reach = 0.5 * (best[1] + log_alpha), best[2], max(0.5 * reach, 0.1)
        else:
            best = (value, log_alpha, local)
            found, gain = local.best(log_alpha, reach, bounds)  # 2
            moved, log_alpha = np.abs(found - log_alpha).max(), found
            if gain < enough or (near > 0 and local.distance(log_alpha) < near) or moved < 1e-6:  # 3
                break
        e = bench.at(log_alpha).evaluate(bench.whole(local.x + local.step(log_alpha)), order=2)
    else:  # the last move was never held against the evidence itself: what was, counts
        assert best is not None
        _, log_alpha, local = best
        _warn_of_no_end(bench, log_alpha)
    selection = _by_evidence(bench, records, local, log_alpha, bounds)
    return selection, bench.whole(local.x + local.step(log_alpha))


def _warn_of_no_end(bench: Bench, log_alpha: Array) -> None:
    widths = np.atleast_1d(bench.concrete(log_alpha)[1])
    warnings.warn(
        f"The evidence still rises after {STEPS} steps, as it does where the classes are (almost) separated: the width "
        f"{', '.join(f'{w:.3g}' for w in widths)} is the best one met, not the maximum. Give a number.",
        ConvergenceWarning,
        stacklevel=7,
    )


def _by_evidence(
    bench: Bench, records: list[tuple[float, Array]], local: Local, log_alpha: Array, bounds: tuple[Array, Array]
) -> Selection:
    prior, width = bench.concrete(log_alpha)
    value = local.evidence(log_alpha)[0]
    records = [*records, (value, np.exp(-0.5 * log_alpha))]
    table: dict[str, list[Any]] = {"iteration": list(range(len(records)))}
    for g in range(len(log_alpha)):
        table["width" if bench.names is None else f"width[{_label(bench, g)}]"] = [float(w[g]) for _, w in records]
    table["log_evidence"] = [value for value, _ in records]
    widest = log_alpha <= bounds[0] + 0.1
    if widest.any():
        names = "" if bench.names is None else f" of {_label(bench, int(np.argmax(widest)))!r}"
        warnings.warn(
            f"The evidence rises with the width{names} without a maximum, as it does where the classes are separated: "
            f"{float(np.atleast_1d(width)[np.argmax(widest)]):.3g} is the largest that was tried. Give a number.",
            SeparationWarning,
            stacklevel=7,
        )
    edge = bool(widest.any() or (log_alpha >= bounds[1] - 0.1).any())
    return Selection("evidence", prior, width, bench.names, table, edge)


def _label(bench: Bench, g: int) -> str:
    assert bench.names is not None
    return " ".join(bench.names[g])


def _slope(bench: Bench, e: Evaluation, local: Local, log_alpha: Array) -> Array:
    """Return ``∂/∂x ½ log det H`` over the weights estimated: one pass; with a link, two for each width."""
    factor = local.factor(log_alpha)
    kept = np.flatnonzero(bench.objective.free.ravel())
    if bench.problem.link is None:
        S = np.zeros((e.w.size, e.w.size))
        S[np.ix_(kept, kept)] = factor.solve(np.eye(len(kept)))
        source, share = bench.sample()
        slope = bench.objective.engine.fold(LeverageSlope, source, LeverageParams(bench.params(e.w), S)).slope
        return np.asarray(slope.ravel()[kept]) / share
    # The observed curvature of a link has no slope in closed form: it is measured along the directions that matter.
    Q = local.precision(log_alpha)
    D = np.stack([np.where(local.group == g, Q * (local.x - local.mean), 0.0) for g in range(len(local.sizes))])
    D = factor.solve(np.ascontiguousarray(D.T)).T
    length = np.sqrt(((D @ (local.H + np.diag(Q))) * D).sum(axis=1))
    D = D[length > 0] / length[length > 0, None]
    change = np.empty(len(D))
    for g, d in enumerate(D):
        ends = [_half_log_det(bench, bench.whole(local.x + step * d), log_alpha) for step in (1e-3, -1e-3)]
        change[g] = (ends[0] - ends[1]) / 2e-3
    return np.asarray(np.linalg.lstsq(D, change, rcond=None)[0])


def _half_log_det(bench: Bench, w: Array, log_alpha: Array) -> float:
    H = bench.at(log_alpha).evaluate(w, order=2).hessian
    assert H is not None
    kept = np.flatnonzero(bench.objective.free.ravel())
    return 0.5 * factor_spd(H[np.ix_(kept, kept)], tol=0.0).log_det()


def by_leave_one_out(bench: Bench, widths: Array) -> tuple[Selection, Array]:
    """Minimise the approximate leave-one-out loss over the widths.

    With fewer than fifty rows for each weight: along a warm-started path of fits, leave rows out at each width, with
    all digits near the best one. With more:
      1. Fit at a middle width: the quadratic model there gives the loss of all rows at every width.
      2. Add what leaving rows out adds to it, at all widths in one pass over the rows, or over a sample. It changes
         with the Hessian, and the Hessian with the weights: that slope is summed on the way.
      3. Go to the minimum with a new Hessian, until the weights hardly move.
    """
    grid = np.log(widths)
    if 50 * int(bench.objective.free.sum()) < bench.objective.weight:
        loss, error, local, log_width = _by_model(bench, grid)
    else:
        curves, _ = _exact_curves(bench, widths, one_step=True)
        k = int(np.argmin(curves["loo"]))
        near = slice(max(0, k - 2), k + 3)
        closer, local = _exact_curves(bench, widths[near])
        loss, error = np.array(curves["loo"]), np.array(curves["loo_error"])
        loss[near], error[near] = closer["loo"], closer["loo_error"]
        log_width = lowest(grid, loss)[0]
    goal = np.array([-2.0 * log_width])
    prior, width = bench.concrete(goal)
    table = {"width": widths.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    at_edge = len(grid) > 1 and bool(np.isclose(log_width, [grid[0], grid[-1]], atol=1e-9).any())
    return Selection("loo", prior, width, None, table, at_edge), bench.whole(local.x + local.step(goal))


def _by_model(bench: Bench, grid: Array) -> tuple[Array, Array, Local, float]:
    """Return the curve with its standard errors, the quadratic model near its minimum, and where that is."""
    at = np.array([-2.0 * np.log(bench.typical())])
    local = bench.local(bench.first_fit(at), at)  # 1
    source, share = bench.sample()
    for _ in range(8):
        sums = _left_out(bench, local, float(at[0]), grid, source)  # 2
        X = local.path(float(at[0]), -2.0 * grid)[0]
        added = (sums.loss - sums.fitted) / share + (X - local.x) @ _added_slope(bench, local, at)
        loss = (local.losses(X) + added) / bench.objective.weight
        log_width = lowest(grid, loss)[0]
        if bench.is_near(local, log_width):
            break
        local, at = bench.moved(local, log_width)  # 3
    return loss, sums.error(share), local, log_width


def _added_slope(bench: Bench, local: Local, log_alpha: Array) -> Array:
    """Return the slope of what leaving rows out adds, through the Hessian: that of ``tr(H⁻¹ Σ g gᵀ)`` with g held.

    It is ``−tr(S ∂H)`` with the sandwich ``S = H⁻¹ (Σ g gᵀ) H⁻¹``.
    """
    source, share = bench.sample()
    at, fold = bench.params(bench.whole(local.x)), bench.objective.engine.fold
    kept = np.flatnonzero(bench.objective.free.ravel())
    half = local.factor(log_alpha).solve(fold(ScoreScatter, source, at).meat[np.ix_(kept, kept)] / share)
    S = np.zeros((bench.objective.size, bench.objective.size))
    S[np.ix_(kept, kept)] = local.factor(log_alpha).solve(np.ascontiguousarray(half.T))
    slope = fold(LeverageSlope, source, LeverageParams(at, S)).slope.ravel()[kept]
    return -2.0 / share * np.asarray(slope)


def _exact_curves(bench: Bench, widths: Array, *, one_step: bool = False) -> tuple[dict[str, list[float]], Local]:
    """Return evidence and leave-one-out loss at each width, each at its own optimum; and the model at the best."""
    result: dict[str, list[float]] = {"log_evidence": [], "loo": [], "loo_error": []}
    local: Local | None = None
    best: Local | None = None
    for log_width in np.log(widths):
        at = np.array([-2.0 * log_width])
        objective = bench.at(at)
        x = _start(bench.problem, objective) if local is None else bench.whole(local.x + local.step(at))
        x = path_solver(bench).minimise(objective, x, tol=1e-8, max_iter=bench.problem.max_iter).w
        local = bench.local(objective.evaluate(x, order=2), at)
        S = np.zeros((objective.size, objective.size))
        kept = np.flatnonzero(objective.free.ravel())
        S[np.ix_(kept, kept)] = local.factor(at).solve(np.eye(len(kept)))
        out = leave_one_out(objective.source, bench.params(x), S, len(kept), objective.penalty, one_step=one_step)
        best = local if best is None or out.log_loss < min(result["loo"]) else best
        for name, value in zip(result, (local.evidence(at)[0], out.log_loss, out.std_error), strict=True):
            result[name].append(float(value))
    assert best is not None
    return result, best


def _left_out(bench: Bench, local: Local, log_alpha: float, log_widths: Array, source: Any = None) -> LeftOut:
    """Return the sums of leave-one-out losses at some widths, over all rows or some."""
    o = bench.objective
    X, V, factors = local.path(log_alpha, -2.0 * log_widths)
    kept = np.flatnonzero(o.free.ravel())
    weights, basis = np.zeros((len(X), o.size)), np.zeros((o.size, V.shape[1]))
    weights[:, kept], basis[kept] = X, V
    params = LeftOutParams(bench.params(np.zeros(o.size)), weights.reshape(-1, *o.shape), basis, factors)
    rows = o.source if source is None else source
    sums: LeftOut = o.engine.fold(LeftOut, rows, params)  # type: ignore[type-var]
    return sums


def _check(problem: Problem, prior: GaussianPrior) -> None:
    """Refuse what cannot be asked for, before the data is touched."""
    if prior.scale not in WIDTHS:
        raise UnknownNameError("way to find the scale of a GaussianPrior", prior.scale, WIDTHS)
    if prior.covariance is not None:
        raise InvalidInputError(
            f"A GaussianPrior has a covariance or scale={prior.scale!r}, not both: a covariance has a width already."
        )
    if prior.groups is not None and prior.scale != "evidence":
        raise InvalidInputError(
            f"groups= is for scale='evidence'; with scale={prior.scale!r} there is one width. Leave groups out."
        )
    if problem.jeffreys:
        raise InvalidInputError("The width of a GaussianPrior beside Jeffreys' prior cannot be found: give a number.")
    if problem.link is not None and not np.isinf(problem.link.domain).all():
        raise InvalidInputError(f"The width cannot be found for link={problem.link.name!r}: give a number.")
    alone = _alone(problem) if prior.scale == "loo" else None
    if alone is not None:
        raise InvalidInputError(
            f"scale='loo' leaves out rows one by one, and row {alone} is the only one of its class: without it there "
            "is no fit. Use scale='evidence'."
        )
    size = (problem.K - 1) * (problem.M + 1)
    if prior.scale != "cv" and size > LARGEST_HESSIAN:
        raise InvalidInputError(
            f"scale={prior.scale!r} needs the Hessian of all {size} weights, and the limit is {LARGEST_HESSIAN}. Use "
            "scale='cv', or fewer columns."
        )


def _alone(problem: Problem) -> int | None:
    """Return a row that is the only one of its class, if there is one and nothing holds the intercept then."""
    s, t = problem.source.s, problem.source.t
    counts = np.bincount(t if s is None else t[s > 0], minlength=problem.K)
    if not problem.intercept or counts.min() > 1:
        return None
    single = t == int(np.argmin(counts))
    return int(np.argmax(single if s is None else single & (s > 0)))


def _grid(prior: GaussianPrior, bench: Bench) -> Array:
    """Return the widths to try."""
    if prior.scales is None:
        return bench.typical() * np.logspace(-2.0, 2.0, GRID)
    try:
        widths = np.atleast_1d(np.asarray(prior.scales, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidTypeError(f"scales must be a list of numbers, found {prior.scales!r}.") from None
    if widths.ndim != 1 or not len(widths) or not (np.isfinite(widths).all() and (widths > 0).all()):
        raise InvalidInputError(f"scales must be a list of positive numbers, found {prior.scales!r}.")
    return np.unique(widths)


@dataclass(frozen=True)
class WidthComparison(Table):
    """The three ways to find the width of a prior, side by side.

    Attributes
    ----------
    selections : dict
        Method → `Selection`.
    curve : dict
        Columns for a plot, one entry for each width tried: ``width``, ``log_evidence``, ``loo`` and ``cv`` (mean log
        loss of a row), ``loo_error`` and ``cv_error`` (standard errors).
    """

    selections: dict[str, Selection]
    curve: dict[str, list[float]]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per method: its width, and every criterion there, interpolated between the widths tried.

        NaN where the width lies beyond all of these, as that of the evidence may.
        """
        at = np.log([float(s.width) for s in self.selections.values()])
        table: dict[str, list[Any]] = {"method": list(self.selections), "width": np.exp(at).tolist()}
        tried = np.log(self.curve["width"])
        outside = (at < tried[0] - 1e-9) | (at > tried[-1] + 1e-9)
        for name in ("log_evidence", "loo", "cv"):
            table[name] = np.where(outside, np.nan, np.interp(at, tried, self.curve[name])).tolist()
        return table


def compare_widths(
    X: Any, y: Any, *, model: Any = None, scales: Any = None, cv: Any = 5, sample_weight: Any = None, offset: Any = None
) -> WidthComparison:
    """Find the width of a Gaussian prior by evidence, leave-one-out and cross-validation, and return all three.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in ``LogisticRegression.fit``.
    model : LogisticRegression, optional
        Everything but its prior's width is taken from it.
    scales, cv
        As in `GaussianPrior`.

    Cost: a path of fits over the widths, and one more for each fold.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> comparison = compare_widths((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> list(comparison.selections), [round(s.width, 1) for s in comparison.selections.values()]
    (['evidence', 'loo', 'cv'], [1.4, 0.8, 0.8])
    """
    from sklearn.base import clone

    from oddsmith.models.logistic import LogisticRegression

    probe = LogisticRegression() if model is None else clone(model)
    if not isinstance(probe, LogisticRegression):
        raise InvalidTypeError(f"compare_widths is for LogisticRegression and ProbitRegression, found {probe!r}.")
    given = as_prior(probe.prior) or GaussianPrior(scale=1.0)
    if given.covariance is not None:
        raise InvalidInputError("compare_widths finds one width, and the model's prior has a covariance: give a scale.")
    probe.set_params(prior=GaussianPrior(scale="loo", mean=given.mean, space=given.space, scales=scales, cv=cv))
    probe._check_parameters()
    _, problem = probe._problem(X, y, sample_weight, offset, reset=True)
    prior = problem.prior
    assert prior is not None
    _check(problem, prior)
    with one_blas_thread():
        bench = Bench.of(problem, prior)
        widths = _grid(prior, bench)
        by_cv = by_cross_validation(bench, widths, folds(problem, cv, probe.seed))
        selections = {"evidence": by_evidence(bench)[0], "loo": by_leave_one_out(bench, widths)[0], "cv": by_cv}
        curve = {"width": widths.tolist(), **_exact_curves(bench, widths)[0]}
    curve |= {"cv": by_cv.table["log_loss"], "cv_error": by_cv.table["std_error"]}
    return WidthComparison(selections, curve)
