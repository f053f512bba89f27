"""Selection of the scale of a prior: by the evidence, by leave-one-out, by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.bordered import BorderedFactor
from oddsmith.errors import ConvergenceWarning, InvalidInputError, SeparationWarning, UnknownNameError
from oddsmith.inference.leave_one_out import LeaveOutLosses, LeaveOutLossesParams, leave_one_out
from oddsmith.likelihood.coordinates import is_large
from oddsmith.likelihood.fit import eliminated_columns, start_weights
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array, factor_spd
from oddsmith.prior_selection.cross_validation import by_cross_validation, folds, path_solver
from oddsmith.prior_selection.prior_family import NEAR, PriorFamily, group_label
from oddsmith.prior_selection.quadratic_model import QuadraticModel, Selection, lowest
from oddsmith.priors import SCALE_CRITERIA, GaussianPrior, checked_scales
from oddsmith.solvers import Newton, policy
from oddsmith.statistics import LeverageParams, LeverageSlope, ScoreScatter

GRID = 20  # Scales tried over four decades: neighbours differ by 1.6, and a parabola goes between them.
STEPS = 60  # Iterations at most: where the evidence has a maximum, 3 to 6 were enough.
GAIN = 2e-5  # Log evidence that is not worth a pass: of 100,000 × 20, 0.1 to 1e-8 gave the same scale.
REACH = 7.0  # Log precision that a step may fall by: beyond a scale 33 times as large no quadratic model is trusted.
MODEL_ROWS = 50
"""Rows for each weight from which a quadratic model serves: with 45 its scale was off by 1%, in a tenth of the time."""


def select_prior(problem: Problem, seed: int | None) -> tuple[Selection, tuple[Array, Array] | None]:
    """Return the selection that the prior of a problem names, and weights near the optimum if they are known."""
    prior = problem.prior
    assert prior is not None
    check_selectable(problem, prior)
    family = PriorFamily.of(problem, prior)
    if prior.scale == "evidence":
        selection, x = by_evidence(family)
    elif prior.scale == "loo":
        selection, x = by_leave_one_out(family, scale_grid(prior, family))
    else:
        return by_cross_validation(family, scale_grid(prior, family), folds(problem, prior.cv, seed)), None
    return selection, family.coordinates.to_user(x)


def by_evidence(family: PriorFamily) -> tuple[Selection, Array]:
    """Maximise the Laplace evidence over the scales.

    Each iteration
      1. takes the Hessian at the weights (one pass) and the slope of its determinant (one more, or a sample of it),
      2. maximises the evidence of the quadratic model over the scales, no pass needed,
      3. stops when the model is exact there: nothing is gained, or the weights hardly move,
      4. else moves the weights as the model says; if the evidence fell, goes half-way back.

    The end is a stationary point of the evidence itself: there the model's derivative is exact.
    """
    log_alpha = family.typical_precisions()
    points = [family.first_fit(log_alpha)]  # emptied below, which makes room for the next Hessian
    bounds = family.quadratic_model(points[0], log_alpha).bounds()
    records: list[tuple[float, Array]] = []
    best: tuple[float, Array, Array] | None = None  # not its Hessian, which would take much memory
    # All digits if a pass is cheap; otherwise as many as the evidence can distinguish.
    (enough, near), reach = (GAIN, NEAR) if is_large(family.source) else (1e-10, 0.0), REACH
    for _ in range(STEPS):
        quadratic = family.quadratic_model(points.pop(), log_alpha)
        quadratic = replace(quadratic, slope=_slope(family, quadratic, log_alpha))  # 1
        value = quadratic.evidence(log_alpha)[0]
        records.append((value, np.exp(-0.5 * log_alpha)))
        if best is not None and value < best[0] - 1e-6 * (1.0 + abs(value)):  # 4
            del quadratic
            quadratic = family.quadratic_model(family.at(best[1]).evaluate(best[2], order=2), best[1])
            log_alpha, reach = 0.5 * (best[1] + log_alpha), max(0.5 * reach, 0.1)
        else:
            best = (value, log_alpha, family.embed(quadratic.x))
            found, gain = quadratic.best(log_alpha, reach, bounds)  # 2
            moved, log_alpha = np.abs(found - log_alpha).max(), found
            if gain < enough or (near > 0 and quadratic.distance(log_alpha) < near) or moved < 1e-6:  # 3
                break
        x = family.moved(quadratic, log_alpha)
        del quadratic  # its Hessian makes room
        points = [family.at(log_alpha).evaluate(x, order=2)]
    else:  # the last move was not verified by the evidence itself: use the best verified point
        assert best is not None
        log_alpha = best[1]
        quadratic = family.quadratic_model(family.at(log_alpha).evaluate(best[2], order=2), log_alpha)
        quadratic = replace(quadratic, slope=_slope(family, quadratic, log_alpha))
        scales = [f"{w:.3g}" for w in np.atleast_1d(family.prior_at(log_alpha)[1])]
        more = f" and {len(scales) - 5:,} more" if len(scales) > 5 else ""
        warnings.warn(
            f"The evidence is still rising after {STEPS} steps, which happens if the classes are (almost) separated: "
            f"the best so far, not the maximum, is the scale {', '.join(scales[:5])}{more}. Give a number.",
            ConvergenceWarning,
            stacklevel=6,
        )
    records.append((quadratic.evidence(log_alpha)[0], np.exp(-0.5 * log_alpha)))
    return _trace(family, records, log_alpha, bounds), family.moved(quadratic, log_alpha)


def _trace(
    family: PriorFamily, records: list[tuple[float, Array]], log_alpha: Array, bounds: tuple[Array, Array]
) -> Selection:
    """Return the record of the iterations; warn where the evidence has no maximum."""
    prior, scale = family.prior_at(log_alpha)
    groups = None if family.names is None else [group_label(names) for names in family.names]
    table: dict[str, list[Any]] = {"iteration": list(range(len(records)))}
    for g in range(len(log_alpha)):
        table["width" if groups is None else f"width[{groups[g]}]"] = [float(scales[g]) for _, scales in records]
    table["log_evidence"] = [value for value, _ in records]
    largest = log_alpha <= bounds[0] + 0.1
    if largest.any():
        g = int(np.argmax(largest))
        warnings.warn(
            f"The evidence rises with the scale{'' if groups is None else f' of {groups[g]!r}'} without a maximum, "
            f"which happens if the classes are separated: {float(np.atleast_1d(scale)[g]):.3g} is the largest value "
            "tried. Give a number.",
            SeparationWarning,
            stacklevel=7,
        )
    edge = bool(largest.any() or (log_alpha >= bounds[1] - 0.1).any())
    return Selection(method="evidence", prior=prior, width=scale, groups=family.names, table=table, at_edge=edge)


def _slope(family: PriorFamily, quadratic: QuadraticModel, log_alpha: Array) -> Array:
    """Return ``∂/∂x ½ log det H`` over the weights estimated: one pass; with a link, two for each scale."""
    factor = quadratic.factor(log_alpha)
    if family.problem.link is None:
        source, share = family.sample()
        S = factor if isinstance(factor, BorderedFactor) else family.inverse(factor)
        params = LeverageParams(family.weight_point(family.embed(quadratic.x)), S, family.objective.free[0])
        slope = family.objective.engine.fold(LeverageSlope, source, params).slope
        return np.asarray(slope.ravel()[family.kept]) / share
    # The derivative of a link's observed curvature has no closed form: it is computed by differences.
    Q = quadratic.precision(log_alpha)
    groups = np.arange(len(quadratic.sizes))[:, None]
    D = np.where(quadratic.group == groups, Q * (quadratic.x - quadratic.mean), 0.0)
    D = factor.solve(np.ascontiguousarray(D.T)).T
    length = np.sqrt(((D @ (quadratic.dense + np.diag(Q))) * D).sum(axis=1))
    D = D[length > 0] / length[length > 0, None]
    objective = family.at(log_alpha)

    def half_log_det(x: Array) -> float:
        H = objective.evaluate(family.embed(x), order=2).dense_hessian
        return 0.5 * factor_spd(H[np.ix_(family.kept, family.kept)], tol=0.0).log_det()

    x = quadratic.x
    change = np.array([(half_log_det(x + 1e-3 * d) - half_log_det(x - 1e-3 * d)) / 2e-3 for d in D])
    return np.asarray(np.linalg.lstsq(D, change, rcond=None)[0])


def by_leave_one_out(family: PriorFamily, scales: Array) -> tuple[Selection, Array]:
    """Minimise the approximate leave-one-out loss over the scales.

    With fewer than fifty rows for each weight: along a warm-started path of fits, leave rows out at each scale, with
    all digits near the best one. With more:
      1. Fit at a middle scale: the quadratic model there gives the loss of all rows at every scale.
      2. Add what leaving rows out adds to it, at all scales in one pass over the rows, or over a sample. It changes
         with the Hessian, and the Hessian with the weights: that slope is summed on the way.
      3. Go to the minimum with a new Hessian, until the weights hardly move.
    """
    grid = np.log(scales)
    if MODEL_ROWS * int(family.objective.free.sum()) < family.objective.weight:
        loss, error, quadratic, log_scale = _by_model(family, grid)
    else:
        curves, _ = exact_curves(family, scales, one_step=True)
        k = int(np.argmin(curves["loo"]))
        near = slice(max(0, k - 2), k + 3)
        closer, quadratic = exact_curves(family, scales[near])
        loss, error = np.array(curves["loo"]), np.array(curves["loo_error"])
        loss[near], error[near] = closer["loo"], closer["loo_error"]
        log_scale = lowest(grid, loss)[0]
    goal = np.array([-2.0 * log_scale])
    prior, scale = family.prior_at(goal)
    table = {"width": scales.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    at_edge = len(grid) > 1 and bool(np.isclose(log_scale, [grid[0], grid[-1]], atol=1e-9).any())
    selection = Selection(method="loo", prior=prior, width=scale, table=table, at_edge=at_edge)
    return selection, family.moved(quadratic, goal)


def _by_model(family: PriorFamily, grid: Array) -> tuple[Array, Array, QuadraticModel, float]:
    """Return the curve with its standard errors, the quadratic model near its minimum, and where that is."""
    at = np.array([-2.0 * np.log(family.typical_scale())])
    quadratic = family.quadratic_model(family.first_fit(at), at)  # 1
    (source, share), o = family.sample(), family.objective
    origin = family.weight_point(np.zeros(o.size))
    for _ in range(8):
        X, V, factors = quadratic.path(float(at[0]), -2.0 * grid)
        weights, basis = np.zeros((len(X), o.size)), np.zeros((o.size, V.shape[1]))
        weights[:, family.kept], basis[family.kept] = X, V
        params = LeaveOutLossesParams(origin, weights.reshape(-1, *o.shape), basis, factors)
        sums: LeaveOutLosses = o.engine.fold(LeaveOutLosses, source, params)  # type: ignore[type-var]  # 2
        added = (sums.loss - sums.fitted) / share + (X - quadratic.x) @ _added_slope(family, quadratic, at)
        loss = (quadratic.losses(X) + added) / family.objective.weight
        log_scale = lowest(grid, loss)[0]
        goal = np.array([-2.0 * log_scale])
        if quadratic.distance(goal) < NEAR:
            break
        newton, start = Newton(watch_divergence=False, strict=False), family.moved(quadratic, goal)
        found = newton.minimise(family.at(goal), start, tol=1e-8, max_iter=family.problem.max_iter)  # 3
        quadratic, at = family.quadratic_model(found.final, goal), goal
    return loss, sums.error(share), quadratic, log_scale


def _added_slope(family: PriorFamily, quadratic: QuadraticModel, log_alpha: Array) -> Array:
    """Return the slope of what leaving rows out adds, through the Hessian: that of ``tr(H⁻¹ Σ g gᵀ)`` with g held.

    It is ``−tr(S ∂H)`` with the sandwich ``S = H⁻¹ (Σ g gᵀ) H⁻¹``.
    """
    source, share = family.sample()
    at, fold = family.weight_point(family.embed(quadratic.x)), family.objective.engine.fold
    factor, kept = quadratic.factor(log_alpha), family.kept
    half = factor.solve(fold(ScoreScatter, source, at).meat[np.ix_(kept, kept)] / share)
    S = family.inverse(factor, np.ascontiguousarray(half.T))
    slope = fold(LeverageSlope, source, LeverageParams(at, S)).slope.ravel()[kept]
    return -2.0 / share * np.asarray(slope)


def exact_curves(
    family: PriorFamily, scales: Array, *, one_step: bool = False
) -> tuple[dict[str, list[float]], QuadraticModel]:
    """Return evidence and leave-one-out loss at each scale, each at its own optimum; and the model at the best."""
    result: dict[str, list[float]] = {"log_evidence": [], "loo": [], "loo_error": []}
    quadratic = best = None
    for at in -2.0 * np.log(scales)[:, None]:
        objective = family.at(at)
        x = start_weights(family.problem, objective) if quadratic is None else family.moved(quadratic, at)
        x = path_solver(family).minimise(objective, x, tol=1e-8, max_iter=family.problem.max_iter).w
        quadratic = family.quadratic_model(objective.evaluate(x, order=2), at)
        S, size = family.inverse(quadratic.factor(at)), len(family.kept)
        out = leave_one_out(
            objective.memory_source, family.weight_point(x), S, size, objective.penalty, one_step=one_step
        )
        best = quadratic if best is None or out.log_loss < min(result["loo"]) else best
        for name, value in zip(result, (quadratic.evidence(at)[0], out.log_loss, out.std_error), strict=True):
            result[name].append(float(value))
    assert best is not None
    return result, best


def check_selectable(problem: Problem, prior: GaussianPrior) -> None:
    """Refuse what cannot be selected, before the data is touched."""
    if prior.scale not in SCALE_CRITERIA:
        raise UnknownNameError("criterion for the scale of a GaussianPrior", prior.scale, SCALE_CRITERIA)
    if prior.covariance is not None:
        raise InvalidInputError(
            f"A GaussianPrior has a covariance or scale={prior.scale!r}, not both: a covariance has a scale already."
        )
    if prior.groups is not None and prior.scale != "evidence":
        raise InvalidInputError(
            f"groups= is for scale='evidence'; with scale={prior.scale!r} there is one scale. Leave groups out."
        )
    if problem.jeffreys:
        raise InvalidInputError(
            "The scale of a GaussianPrior combined with Jeffreys' prior cannot be selected: give a number."
        )
    if problem.link is not None and not np.isinf(problem.link.domain).all():
        raise InvalidInputError(f"The scale cannot be selected for link={problem.link.name!r}: give a number.")
    if prior.scale == "loo" and problem.intercept:
        s, t = problem.memory_source.s, problem.memory_source.t
        present = np.ones(len(t), dtype=bool) if s is None else s > 0
        counts = np.bincount(t[present], minlength=problem.K)
        if counts.min() <= 1:
            row = int(np.argmax(present & (t == int(np.argmin(counts)))))
            raise InvalidInputError(
                f"scale='loo' leaves out rows one by one, and row {row} is the only one of its class: without it there "
                "is no fit. Use scale='evidence'."
            )
    size = (problem.K - 1) * (problem.M + 1)
    by_levels = prior.scale == "evidence" and problem.link is None and eliminated_columns(problem) is not None
    if prior.scale != "cv" and size > policy.POLICY.largest_hessian and not by_levels:
        other = "scale='cv'" if prior.groups is None else "scale='cv' without groups"
        raise InvalidInputError(
            f"scale={prior.scale!r} needs the Hessian of all {size} weights, but the limit is "
            f"{policy.POLICY.largest_hessian}. Use {other}, or fewer columns."
        )


def scale_grid(prior: GaussianPrior, family: PriorFamily) -> Array:
    """Return the scales to try."""
    if prior.scales is None:
        return family.typical_scale() * np.logspace(-2.0, 2.0, GRID)
    return checked_scales(prior.scales)
