"""Finding the width of a prior: by the evidence, by leave-one-out, by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemoryEngine
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.left_out import LeftOut, LeftOutParams
from oddsmith.inference.widths import Local, Selection, lowest, one_standard_error, with_slope
from oddsmith.kernels.rowwise import At
from oddsmith.models.coordinates import Coordinates, is_large
from oddsmith.models.likelihood import Problem, _choose, _start, make_objective
from oddsmith.models.objective import FoldObjective
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import WIDTHS, GaussianPrior, Quadratic
from oddsmith.solvers import Newton
from oddsmith.solvers.base import Evaluation
from oddsmith.solvers.truncated import LARGEST_HESSIAN
from oddsmith.statistics import LeverageParams, LeverageSlope

GRID = 20
SAMPLE_ROWS = 20_000
"""Rows on which the first look at a leave-one-out curve is taken."""
Start = tuple[Array, Array]


def choose_width(problem: Problem, seed: int | None) -> tuple[Selection, Start]:
    """Return the selection that a prior with a name for its scale asks for, and weights to start the fit from."""
    prior = problem.prior
    assert prior is not None
    _check(problem, prior)
    bench = Bench.of(problem, prior)
    if prior.scale == "evidence":
        selection, x = by_evidence(bench)
    elif prior.scale == "loo":
        selection, x = by_leave_one_out(bench, _grid(prior, bench))
    else:
        selection, x = by_cross_validation(bench, _grid(prior, bench), folds(problem, prior.cv, seed))
    return selection, bench.coordinates.to_user(x)


@dataclass(frozen=True)
class Bench:
    """An objective in its coordinates whose prior can be exchanged: ``Q = alpha_group · q``."""

    problem: Problem
    prior: GaussianPrior
    objective: FoldObjective
    coordinates: Coordinates
    unit: Quadratic
    group: npt.NDArray[np.intp]
    names: tuple[tuple[str, ...], ...] | None

    @classmethod
    def of(cls, problem: Problem, prior: GaussianPrior) -> Bench:
        """Return it with the prior of width 1."""
        unit = GaussianPrior(scale=1.0, mean=prior.mean, space=prior.space)
        objective, coordinates, _ = make_objective(replace(problem, prior=unit))
        assert objective.penalty is not None
        group, names = _groups(prior, problem.names)
        return cls(problem, prior, objective, coordinates, objective.penalty, np.append(0, group), names)

    def at(self, log_alpha: Array, **changes: Any) -> FoldObjective:
        """Return the objective with a prior of these precisions."""
        alpha = np.where(self.unit.Q > 0, np.exp(log_alpha)[self.group], 0.0)
        penalty = Quadratic(self.unit.mean, self.unit.Q * alpha)
        return replace(self.objective, penalty=penalty, _last=None, **changes)

    def typical(self) -> float:
        """Return the width at which a weight moves the activation by about one."""
        return float(np.exp(-np.log(self.coordinates.scale).mean()))

    def first_fit(self, log_alpha: Array) -> Evaluation:
        """Return the objective at its optimum, by the solver of the problem, to a few digits."""
        objective = self.at(log_alpha)
        solver = _choose(replace(self.problem, prior=GaussianPrior(scale=1.0)), self.coordinates)
        result = solver.minimise(objective, _start(self.problem, objective), tol=1e-4, max_iter=self.problem.max_iter)
        return objective.evaluate(result.w, order=2)

    def local(self, e: Evaluation, log_alpha: Array) -> Local:
        """Return the quadratic model of the likelihood at an evaluation."""
        assert e.hessian is not None
        kept = np.flatnonzero(self.objective.free.ravel())
        C = self.objective.shape[0]
        q, mean, group = np.tile(self.unit.Q, C)[kept], self.unit.mean.ravel()[kept], np.tile(self.group, C)[kept]
        Q = np.where(q > 0, np.exp(log_alpha)[group] * q, 0.0)
        H = e.hessian[np.ix_(kept, kept)] - np.diag(Q)
        x = e.w[kept]
        return Local(x, mean, e.log_likelihood, e.gradient[kept] - Q * (x - mean), H, q, group, np.zeros(len(x)))

    def whole(self, x: Array) -> Array:
        """Return estimated weights with zeros for the others."""
        result = np.zeros(self.objective.size)
        result[self.objective.free.ravel()] = x
        return result

    def params(self, x: Array) -> At:
        """Return weights for what is said of single rows."""
        o = self.objective
        return At(x.reshape(o.shape), o.center, o.scale, o.T, o.link)

    def concrete(self, log_alpha: Array) -> tuple[GaussianPrior, Any]:
        """Return the prior with the width that was found, and the width."""
        width = np.exp(-0.5 * log_alpha)
        if self.names is None:
            return GaussianPrior(scale=float(width[0]), mean=self.prior.mean, space=self.prior.space), float(width[0])
        return GaussianPrior(covariance=width[self.group[1:]] ** 2, mean=self.prior.mean), width


def by_evidence(bench: Bench) -> tuple[Selection, Array]:
    """Maximise the Laplace evidence over the widths.

    Each iteration
      1. takes the Hessian at the weights (one pass) and the slope of its determinant (one more),
      2. maximises the evidence of the quadratic model over the widths, no pass needed,
      3. stops when nothing is gained, else moves the weights as the model says; if the evidence fell, half-way back.

    The end is a stationary point of the evidence itself: there the model's derivative is exact.
    """
    G = int(bench.group.max()) + 1
    log_alpha = np.full(G, -2.0 * np.log(bench.typical()))
    e = bench.first_fit(log_alpha)
    records: list[tuple[float, Array]] = []
    best: tuple[float, Array, Local] | None = None
    reach = 7.0
    for iteration in range(60):
        local = bench.local(e, log_alpha)
        if iteration:
            local = with_slope(local, _slope(bench, e, local, log_alpha))  # 1
        value = local.evidence(log_alpha)[0]
        records.append((value, np.exp(-0.5 * log_alpha)))
        if best is not None and value < best[0] - 1e-6 * (1.0 + abs(value)) and iteration > 1:
            log_alpha, local = 0.5 * (best[1] + log_alpha), best[2]
            reach = max(0.5 * reach, 0.1)
        else:
            best = (value, log_alpha, local) if iteration else None
            found, gain = local.best(log_alpha, reach)  # 2
            if iteration and (gain < 1e-6 or np.abs(found - log_alpha).max() < 1e-4):  # 3
                log_alpha = found
                break
            log_alpha = found
        e = bench.at(log_alpha).evaluate(bench.whole(local.x + local.step(log_alpha)), order=2)
    low, high = local.bounds()
    prior, width = bench.concrete(log_alpha)
    table: dict[str, list[Any]] = {"iteration": list(range(len(records)))}
    for g in range(G):
        table["width" if G == 1 else f"width[{_label(bench, g)}]"] = [float(w[g]) for _, w in records]
    table["log_evidence"] = [value for value, _ in records]
    edge = bool((log_alpha >= high - 0.1).any() or (log_alpha <= low + 0.1).any())
    selection = Selection("evidence", prior, width, bench.names, table, edge)
    return selection, bench.whole(local.x + local.step(log_alpha))


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
        o = bench.objective
        slope = o.engine.fold(LeverageSlope, o.source, LeverageParams(bench.params(e.w), S)).slope
        return np.asarray(slope.ravel()[kept])
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

    1. Fit at a middle width; move to the width of the largest evidence, by the quadratic model.
    2. Look at all widths (one pass, over a sample of the rows if they are many).
    3. Go to the best one, take the Hessian there, and look at widths nearby, until the best one stays.
    """
    log_alpha = np.array([-2.0 * np.log(bench.typical())])
    local = bench.local(bench.first_fit(log_alpha), log_alpha)  # 1
    grid = np.log(np.sort(widths))
    at, _ = local.best(log_alpha, 7.0)
    at = np.clip(at, -2.0 * grid[-1], -2.0 * grid[0])
    e = bench.at(at).evaluate(bench.whole(local.x + local.step(at)), order=2)
    local = bench.local(e, at)
    look, edge = grid, False
    curve: dict[float, tuple[float, float]] = {}
    step = float(np.diff(grid).mean()) if len(grid) > 1 else 0.0
    for round_ in range(6):
        loss, error = _left_out(bench, local, float(at[0]), look, sample=round_ == 0)  # 2
        curve |= dict(zip(look.tolist(), zip(loss.tolist(), error.tolist(), strict=True), strict=True))
        log_width, edge = lowest(look, loss)
        log_width = float(np.clip(log_width, grid[0], grid[-1]))
        moved = abs(-2.0 * log_width - at[0])
        at_new = np.array([-2.0 * log_width])
        if round_ and (moved < 0.1 * max(step, 0.1) or len(grid) == 1):
            at = at_new
            break
        e = bench.at(at_new).evaluate(bench.whole(local.x + local.step(at_new)), order=2)  # 3
        local, at = bench.local(e, at_new), at_new
        look = np.unique(np.clip(log_width + step * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), grid[0], grid[-1]))
    prior, width = bench.concrete(at)
    points = sorted(curve)
    table = {
        "width": [float(np.exp(p)) for p in points],
        "log_loss": [curve[p][0] for p in points],
        "std_error": [curve[p][1] for p in points],
    }
    at_edge = bool(edge and (np.isclose(-0.5 * at[0], grid[0]) or np.isclose(-0.5 * at[0], grid[-1])))
    return Selection("loo", prior, width, None, table, at_edge), bench.whole(local.x + local.step(at))


def _left_out(bench: Bench, local: Local, log_alpha: float, log_widths: Array, *, sample: bool) -> tuple[Array, Array]:
    """Return the mean leave-one-out loss at each width and its standard error."""
    o = bench.objective
    source = o.source
    if sample and is_large(source) and source.n_rows > 2 * SAMPLE_ROWS:
        source = source.take(source.spread(SAMPLE_ROWS, seed=3))
    X, V, factors = local.path(log_alpha, -2.0 * log_widths)
    kept = np.flatnonzero(o.free.ravel())
    weights, basis = np.zeros((len(X), o.size)), np.zeros((o.size, V.shape[1]))
    weights[:, kept], basis[kept] = X, V
    params = LeftOutParams(bench.params(np.zeros(o.size)), weights.reshape(-1, *o.shape), basis, factors)
    sums: LeftOut = o.engine.fold(LeftOut, source, params)  # type: ignore[type-var]
    mean = sums.loss / sums.weight
    variance = np.maximum(sums.square / sums.weight - mean**2, 0.0)
    return mean, np.sqrt(variance / sums.weight)


def by_cross_validation(
    bench: Bench, widths: Array, splits: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]
) -> tuple[Selection, Array]:
    """Minimise the loss of rows left out in folds, along a path of widths from small to large.

    Each fit starts where the quadratic model of the last one puts it. Folds are fitted in parallel if the rows are few;
    of large data the rows of a fold are.
    """
    widths = np.sort(widths)
    many = is_large(bench.objective.source)
    threads = 1 if many else min(bench.problem.engine.threads or available_cores(), len(splits))  # type: ignore[attr-defined]
    engine = bench.problem.engine if many or threads == 1 else MemoryEngine(1)
    with ThreadPoolExecutor(threads) as pool:
        losses = np.array(list(pool.map(lambda split: _path(bench, engine, widths, *split), splits)))
    loss = losses.mean(axis=0)
    error = losses.std(axis=0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.full(len(loss), np.nan)
    k = int(np.argmin(loss))
    at_edge = k in (0, len(loss) - 1) and len(loss) > 1
    if bench.prior.one_standard_error:
        k = one_standard_error(widths, loss, error)
    log_alpha = np.array([-2.0 * np.log(widths[k])])
    prior, width = bench.concrete(log_alpha)
    table = {"width": widths.tolist(), "log_loss": loss.tolist(), "std_error": error.tolist()}
    objective = bench.at(log_alpha)
    result = _solver(bench).minimise(objective, _start(bench.problem, objective), tol=1e-4, max_iter=200)
    return Selection("cv", prior, width, None, table, at_edge), result.w


def _solver(bench: Bench) -> Any:
    if bench.objective.size <= LARGEST_HESSIAN:
        return Newton(watch_divergence=False, strict=False)
    return _choose(replace(bench.problem, prior=GaussianPrior(scale=1.0)), bench.coordinates)


def _path(bench: Bench, engine: Any, widths: Array, train: Any, test: Any) -> Array:
    """Return the mean loss of the test rows at each width, fitted to the training rows."""
    source = bench.objective.source
    inside, outside = source.take(train), source.take(test)
    weight = float(len(train) if inside.s is None else inside.s.sum())
    tested = float(len(test) if outside.s is None else outside.s.sum())
    solver, result = _solver(bench), np.empty(len(widths))
    x: Array | None = None
    local: Local | None = None
    for k, log_alpha in enumerate(-2.0 * np.log(widths)):
        at = np.array([log_alpha])
        objective = bench.at(at, source=inside, weight=weight, engine=engine, passes=0)
        if x is None:
            x = _start(replace(bench.problem, source=inside), objective)
        elif local is not None:
            x = bench.whole(local.x + local.step(at))
        found = solver.minimise(objective, x, tol=1e-6, max_iter=bench.problem.max_iter)
        x = found.w
        local = bench.local(found.final, at) if found.final.hessian is not None else None
        held = replace(objective, source=outside, penalty=None, _last=None)
        result[k] = held.evaluate(x).value / tested
    return result


def folds(problem: Problem, cv: Any, seed: int | None) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return the rows of each fold, (train, test): stratified by class where ``cv`` is a number."""
    source = problem.source
    n = source.n_rows
    if isinstance(cv, bool) or not (isinstance(cv, int | np.integer) or hasattr(cv, "split") or np.iterable(cv)):
        raise InvalidTypeError(f"cv must be a number of folds, a splitter or a list of (train, test); found {cv!r}.")
    if not isinstance(cv, int | np.integer):
        pairs = cv.split(np.zeros((n, 1)), source.t) if hasattr(cv, "split") else cv
        result = [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in pairs]
        if not result or any(not len(a) or not len(b) or max(a.max(), b.max()) >= n for a, b in result):
            raise InvalidInputError(f"cv must give pairs (train, test) of row numbers below {n}, none of them empty.")
        return result
    if not 2 <= cv <= n:
        raise InvalidInputError(f"cv must be a number of folds from 2 to the {n} rows, found {cv!r}.")
    rng = np.random.default_rng(0 if seed is None else seed)
    fold, dealt = np.empty(n, dtype=np.intp), 0
    for code in range(source.K):
        rows = rng.permutation(np.flatnonzero(source.t == code))
        fold[rows] = (np.arange(len(rows)) + dealt) % cv
        dealt += len(rows)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]


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
    size = (problem.K - 1) * (problem.source.shape.M + 1)
    if prior.scale != "cv" and size > LARGEST_HESSIAN:
        raise InvalidInputError(
            f"scale={prior.scale!r} needs the Hessian of all {size} weights, and the limit is {LARGEST_HESSIAN}. Use "
            "scale='cv', or fewer columns."
        )


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


def _groups(prior: GaussianPrior, names: Any) -> tuple[npt.NDArray[np.intp], tuple[tuple[str, ...], ...] | None]:
    """Return the group of each column, and the names of the columns of each group."""
    columns = [str(name) for name in names]
    M = len(columns)
    if prior.groups is None:
        return np.zeros(M, dtype=np.intp), None
    if isinstance(prior.groups, str):
        if prior.groups != "each":
            raise UnknownNameError("way to group the columns", prior.groups, ["each"])
        return np.arange(M), tuple((name,) for name in columns)
    group = np.full(M, -1, dtype=np.intp)
    for g, members in enumerate(prior.groups):
        for member in [members] if isinstance(members, str | int | np.integer) else members:
            j = _column(member, columns)
            if group[j] >= 0:
                raise InvalidInputError(f"Column {columns[j]!r} is in two groups; each column has one width.")
            group[j] = g
    empty = set(range(len(prior.groups))) - set(group.tolist())
    if empty:
        raise InvalidInputError(f"Group {min(empty)} has no columns.")
    group[group < 0] = group.max() + 1
    return group, tuple(tuple(np.array(columns)[group == g].tolist()) for g in range(group.max() + 1))


def _column(member: Any, columns: list[str]) -> int:
    if isinstance(member, int | np.integer) and not isinstance(member, bool):
        if not 0 <= member < len(columns):
            raise InvalidInputError(f"groups= names column {member}; there are columns 0 to {len(columns) - 1}.")
        return int(member)
    if member not in columns:
        raise UnknownNameError("column in groups=", member, columns)
    return columns.index(member)
