"""Scores as functions of sums over rows, so that resampling them costs a product.

Every score here is a function of a few additive sums: the mean of a loss, the frequencies in the bins of a
reliability diagram, the ranks behind an AUC, the estimating equation of a calibration slope. Rows are summed in groups
once; the bootstrap draws groups and adds their sums up, for all replicates in one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from oddsmith.decision.actions import REJECT, decide_by
from oddsmith.decision.calibration import LinearMap, fit_linear, influence, root_mean_square
from oddsmith.decision.loss import LossMatrix, RejectLike, read_reject
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation.model_output import TINY, ModelOutput
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import Indices

LEAST_SPREAD = 1e-6
"""Standard deviation of log probabilities below which their slope is meaningless: with a million rows, its standard
error exceeds a thousand."""

Sums = dict[str, Array]
Formula = Callable[[Sums], Array]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score as a function of sums (R × … → R), and what its interval is made by.

    ``most`` is the largest value that it can have, ``error`` its standard error where there is a formula. A score
    ``Σ weight · |difference|^power`` has ``gaps``, a function that returns weights and differences, R × cells each.
    """

    name: str
    formula: Formula
    interval: str = "bootstrap"
    most: float = np.inf
    error: float = np.nan
    gaps: Callable[[Sums], tuple[Array, Array]] | None = None
    power: int = 1


class Collector:
    """Sums over groups of rows, filled score by score."""

    def __init__(self, group: Indices, n_groups: int) -> None:
        self.group, self.n_groups = group, n_groups
        self.sums: Sums = {}
        self.add("n", np.ones(len(group)))

    def add(self, name: str, *columns: Array, cell: Indices | int = 0, n_cells: int = 1) -> None:
        """Sum columns (length N each) within groups and cells (such as bins): n_groups × (columns · n_cells)."""
        index, size = self.group * n_cells + cell, self.n_groups * n_cells
        parts = [np.bincount(index, weights=c, minlength=size).reshape(self.n_groups, n_cells) for c in columns]
        self.sums[name] = np.hstack(parts)


def mean_of(name: str) -> Formula:
    """Return the mean of a column."""
    return lambda sums: sums[name][:, 0] / sums["n"][:, 0]


MEANS = (
    *(Score(name=name, formula=mean_of(name), interval="Wilson") for name in ("accuracy", "rejected")),
    *(Score(name=name, formula=mean_of(name)) for name in ("log_loss", "brier", "expected_cost", "realised_cost")),
)
"""The scores that are means over rows, of what `add_losses` and `add_costs` sum."""


def add_losses(output: ModelOutput, collector: Collector) -> None:
    """Sum right predictions, and the losses of probabilities."""
    collector.add("accuracy", (output.t == output.predicted) * 1.0)
    if output.P is not None:
        collector.add("log_loss", log_losses(output))
        collector.add("brier", brier_losses(output))


def log_losses(output: ModelOutput) -> Array:
    """Return −log p of each row's own class."""
    return np.asarray(-np.log(output.own))


def brier_losses(output: ModelOutput) -> Array:
    """Return each row's Brier score: Σ_k (p_k − t_k)², half of it for two classes."""
    assert output.P is not None
    if output.K == 2:
        return np.asarray((output.P[:, 1] - (output.t == 1)) ** 2)
    own = output.P[np.arange(len(output.t)), output.t]
    return np.asarray((output.P**2).sum(axis=1) - 2.0 * own + 1.0)


def add_costs(output: ModelOutput, collector: Collector, loss: LossMatrix, reject: RejectLike) -> Indices:
    """Sum what the model's decisions cost: as it expects, and on these rows.

    Returns the number of rows by true class (rows) and decision (columns, see `decision_labels`).
    """
    assert output.P is not None
    P = output.P
    actions = decide_by(P, loss, reject)
    expected, realised = np.empty(len(P)), np.empty(len(P))
    counts = np.zeros((output.K, len(decision_labels(loss, reject))), dtype=np.intp)
    for a, action in enumerate(loss.actions.tolist()):
        chosen = actions == action
        counts[:, a] = np.bincount(output.t[chosen], minlength=output.K)
        expected[chosen] = P[chosen] @ loss.values[:, a]
        realised[chosen] = loss.values[output.t[chosen], a]
    if reject is not None:
        cost, out = read_reject(reject, loss.classes), actions == REJECT
        expected[out], realised[out] = P[out] @ cost, cost[output.t[out]]
        counts[:, -1] = np.bincount(output.t[out], minlength=output.K)
        collector.add("rejected", out * 1.0)
    collector.add("expected_cost", expected)
    collector.add("realised_cost", realised)
    return counts


def decision_labels(loss: LossMatrix, reject: RejectLike) -> list[Any]:
    """Return what can be decided: the actions of a loss, and `REJECT` last where rows may be rejected."""
    return [*loss.actions.tolist(), *([] if reject is None else [REJECT])]


def add_auc(output: ModelOutput) -> Score:
    """Area under the ROC curve; for more than two classes the mean of those of each class against the rest.

    With placement values (the share of the other side that a row is on the right side of), AUC is the mean over the
    positive rows and also over the negative ones; their variances give its standard error (DeLong).
    """
    present, areas, influence = [], [], np.zeros(len(output.t))
    for k, positive, place in class_placements(output):
        area = float(place[positive].mean())
        for side in (positive, ~positive):
            influence[side] += side_influence(place[side] - area, int(side.sum()))
        present.append(k)
        areas.append(area)
    return auc_score(areas, influence / max(1, len(present)))


def side_influence(difference: Array, n: float) -> Array:
    """Return what rows, or sums of rows, move an AUC by: ``difference`` of placements, of a side with ``n`` rows."""
    return np.asarray(difference / np.sqrt(n * max(n - 1.0, 1.0)))


def auc_of(output: ModelOutput) -> float:
    """Return the mean over classes of the AUC against the rest."""
    areas = [place[positive].mean() for _, positive, place in class_placements(output)]
    return float(np.mean(areas)) if areas else np.nan


def class_placements(output: ModelOutput) -> Iterator[tuple[int, npt.NDArray[np.bool_], Array]]:
    """Yield every class that some but not all rows are of, which these are, and the placement values of the rows."""
    assert output.values is not None
    for k in output.positives:
        positive = output.t == k
        if positive.any() and not positive.all():
            yield k, positive, placements(output.values[:, k], positive)


def add_placements(collector: Collector, k: int, own: npt.NDArray[np.bool_], up: Array, down: Array) -> None:
    """Sum the placement values of class ``k``: ``up`` are those of its own rows, ``down`` those of the others."""
    inside = own.astype(np.float64)
    collector.add(f"auc{k}", inside * up, (1.0 - inside) * down, inside, 1.0 - inside)


def auc_score(areas: list[float], influence: Array) -> Score:
    """The mean of the areas of classes; ``influence`` is what each row, or group of rows, moves it by."""
    area = float(np.mean(areas)) if areas else np.nan
    error = float(np.sqrt(influence @ influence))
    return Score(name="auc", formula=lambda sums: np.full(len(sums["n"]), area), interval="DeLong", error=error)


def group_influence(sums: Sums, areas: dict[int, float]) -> Array:
    """Return what each group of rows moves the AUC by, from the sums of `add_placements`."""
    total = np.zeros(len(sums["n"]))
    for k, area in areas.items():
        up, down, n1, n0 = sums[f"auc{k}"].T
        for place, n in ((up, n1), (down, n0)):
            total += side_influence(place - area * n, float(n.sum()))
    return total / max(1, len(areas))


def placements(values: Array, positive: npt.NDArray[np.bool_]) -> Array:
    """Return for each row the share of the other side that it is on the right side of; ties count one half."""
    ranks = rankdata(values)
    place = np.empty(len(values))
    n1 = int(positive.sum())
    place[positive] = (ranks[positive] - rankdata(values[positive])) / (len(values) - n1)
    place[~positive] = 1.0 - (ranks[~positive] - rankdata(values[~positive])) / n1
    return place


def check_bins(bins: object) -> int:
    """Return a checked number of bins."""
    if isinstance(bins, bool) or not (isinstance(bins, int | np.integer) and bins >= 1):
        raise InvalidInputError(f"bins must be a whole number of at least 1, found {bins!r}.")
    return int(bins)


def bin_of(p: Array, bins: int) -> Indices:
    """Return the bin of each probability: bins of about the same number of rows, equal probabilities in one bin."""
    edges = np.unique(np.quantile(p, np.arange(1, bins) / bins, method="higher"))
    return np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]


def add_bins(output: ModelOutput, collector: Collector, bins: int) -> list[Score]:
    """Calibration error and the parts of the Brier score, by bins of each class's probabilities.

    calibration error    mean over classes of Σ_b n_b/N |p̄_b − t̄_b|
    reliability          Σ over classes of Σ_b n_b/N (p̄_b − t̄_b)²
    uncertainty          Σ over classes of t̄ (1 − t̄)
    resolution           what is left: Brier score = reliability − resolution + uncertainty, exactly (it has in
                         it what probabilities tell apart within the bins)
    """
    assert output.P is not None
    for k in output.positives:
        cell = bin_of(output.P[:, k], bins)
        add_cells(collector, output, k, cell, int(cell.max()) + 1)
    return bin_scores(output.positives, output.K)


def add_cells(collector: Collector, output: ModelOutput, k: int, cell: Indices, n_cells: int) -> None:
    """Sum rows, probabilities and frequencies of class ``k`` in cells."""
    assert output.P is not None
    p = output.P[:, k]
    collector.add(f"bins{k}", np.ones(len(p)), p, (output.t == k) * 1.0, cell=cell, n_cells=n_cells)


def bin_scores(classes: list[int], K: int) -> list[Score]:
    """The scores of `add_bins`, from the sums within the bins of each class."""

    def gaps(sums: Sums) -> tuple[Array, Array]:
        cells = [np.split(sums[f"bins{k}"], 3, axis=1) for k in classes]
        n, p, t = (np.hstack(parts) for parts in zip(*cells, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            return n / sums["n"], np.where(n > 0, (p - t) / n, 0.0)

    def mean_gaps(sums: Sums) -> tuple[Array, Array]:
        share, gap = gaps(sums)
        return share / len(classes), gap

    def calibration_error(sums: Sums) -> Array:
        share, gap = mean_gaps(sums)
        return np.asarray((share * np.abs(gap)).sum(axis=1))

    def reliability(sums: Sums) -> Array:
        share, gap = gaps(sums)
        return np.asarray((share * gap**2).sum(axis=1))

    def uncertainty(sums: Sums) -> Array:
        shares = [np.split(sums[f"bins{k}"], 3, axis=1)[2].sum(axis=1) / sums["n"][:, 0] for k in classes]
        return np.asarray(np.sum([q * (1.0 - q) for q in shares], axis=0))

    def resolution(sums: Sums) -> Array:
        return reliability(sums) + uncertainty(sums) - mean_of("brier")(sums)

    most, inverted, shifted = 0.25 if K == 2 else 1.0 - 1.0 / K, "bootstrap test", "bootstrap, shifted"
    return [
        Score(name="calibration_error", formula=calibration_error, interval=inverted, gaps=mean_gaps),
        Score(name="brier_reliability", formula=reliability, interval=inverted, gaps=gaps, power=2),
        Score(name="brier_resolution", formula=resolution, interval=shifted),
        Score(name="brier_uncertainty", formula=uncertainty, interval=shifted, most=most),
    ]


def add_calibration(output: ModelOutput, collector: Collector) -> list[Score]:
    """Calibration slope and intercepts: the logistic recalibration of the labels on the log probabilities.

    Two classes: ``glm(t ~ logit(p))``. More: one slope, and an intercept for each class, which sum to zero. Replicates
    take the estimate to first order, by what each row moves it by. Classes without rows are left out. Probabilities
    that are the same for all rows have no slope.
    """
    assert output.P is not None
    present = np.flatnonzero(np.bincount(output.t, minlength=output.K))
    A, T = calibration_inputs(output, present, least_probability(output.P))
    Z = A - A.mean(axis=1, keepdims=True)
    unknown = LinearMap(np.nan, np.full(len(present), np.nan))
    found = unknown if len(present) < 2 or root_mean_square(Z - Z.mean(axis=0)) <= LEAST_SPREAD else fit_linear(A, T)
    theta = np.append(found.slope, found.shift)
    moves = influence(A, T, found) if np.isfinite(theta).all() else np.zeros((len(A), len(theta)))
    theta, moves = against_first(theta, moves)
    collector.add("calibration", *moves.T)
    return calibration_scores(theta, [output.classes.tolist()[k] for k in present], len(output.t))


def calibration_inputs(output: ModelOutput, present: Indices, zero: float) -> tuple[Array, Array]:
    """Return the log probabilities of classes, and 1 for that of each row, 0 for others; ``zero`` is for exact ones."""
    assert output.P is not None
    return np.log(np.maximum(output.P[:, present], zero)), (output.t[:, None] == present) * 1.0


def least_probability(P: Array) -> float:
    """Return what takes the place of an exact zero: 2e-16, as in the log loss, or the smallest other probability."""
    return max(TINY, float(P[P > 0].min(initial=EPS)))


def calibration_scores(theta: Array, labels: list[Any], n: int) -> list[Score]:
    """Slope and intercepts, from the sums of what the ``n`` rows move them by."""
    names = ["calibration_slope"]
    names += ["calibration_intercept"] if len(labels) == 2 else [f"calibration_intercept[{c}]" for c in labels]

    def part(j: int) -> Formula:
        return lambda sums: theta[j] + sums["calibration"][:, j] * (n / sums["n"][:, 0])

    return [Score(name=name, formula=part(j)) for j, name in enumerate(names)]


def against_first(theta: Array, moves: Array) -> tuple[Array, Array]:
    """Return (slope, intercepts), and what moves them, with one intercept for two classes."""
    if len(theta) != 3:
        return theta, moves
    difference = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 1.0]])
    with np.errstate(invalid="ignore"):
        return np.append(theta[0], theta[2] - theta[1]), moves @ difference.T
