"""Scores as functions of sums over rows, so that resampling them costs a product.

Every score here is a function of a few additive sums: the mean of a loss, the frequencies in the bins of a
reliability diagram, the ranks behind an AUC, the estimating equation of a calibration slope. Rows are summed in groups
once; the bootstrap draws groups and adds their sums up, for all replicates in one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import rankdata

from oddsmith.decision.calibration import LinearMap, fit_linear, influence
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation.reading import TINY, Answers
from oddsmith.numerics import Array

Groups = npt.NDArray[np.intp]
Sums = dict[str, Array]
Formula = Callable[[Sums], Array]


@dataclass(frozen=True)
class Score:
    """A score, and how it follows from sums (R × … → R).

    Attributes
    ----------
    interval : str
        What the interval is made by.
    most : float
        The largest value that the score can have.
    gaps : function of sums, optional
        Weights and differences (R × cells each) of a score ``Σ weight · |difference|^power``.
    power : int
    """

    name: str
    formula: Formula
    interval: str = "bootstrap"
    most: float = np.inf
    gaps: Callable[[Sums], tuple[Array, Array]] | None = None
    power: int = 1


class Collector:
    """Sums over groups of rows, filled score by score."""

    def __init__(self, group: Groups, n_groups: int) -> None:
        self.group = group
        self.n_groups = n_groups
        self.sums: Sums = {}
        self.add("n", np.ones(len(group)))

    def add(self, name: str, *columns: Array) -> None:
        """Sum columns (length N each) within the groups: n_groups × columns."""
        parts = [np.bincount(self.group, weights=c, minlength=self.n_groups) for c in columns]
        self.sums[name] = np.column_stack(parts)

    def add_cells(self, name: str, cell: npt.NDArray[np.intp], n_cells: int, *columns: Array) -> None:
        """Sum columns within groups and cells (bins, say): n_groups × (columns · n_cells)."""
        index, size = self.group * n_cells + cell, self.n_groups * n_cells
        parts = [np.bincount(index, weights=c, minlength=size).reshape(self.n_groups, n_cells) for c in columns]
        self.sums[name] = np.hstack(parts)


def mean_of(name: str) -> Formula:
    """Return the mean of a column."""
    return lambda sums: sums[name][:, 0] / sums["n"][:, 0]


# ------------------------------------------------------------------------------------------------ rank scores


def add_auc(answers: Answers, collector: Collector) -> Score:
    """Area under the ROC curve; for more than two classes the mean of those of each class against the rest.

    With placement values (the share of the other side that a row is on the right side of), AUC is the mean over the
    positive rows and also over the negative ones, and a resampled AUC is to first order the sum of both resampled means
    less the AUC (DeLong). It is resampled on the scale of its log odds, so that it stays below 1.
    """
    assert answers.values is not None
    present = [k for k in answers.positives if 0 < np.count_nonzero(answers.t == k) < len(answers.t)]
    areas = []
    for k in present:
        positive = answers.t == k
        place = placements(answers.values[:, k], positive)
        collector.add(f"auc{k}", positive * place, ~positive * place, positive * 1.0, ~positive * 1.0)
        areas.append(float(place[positive].mean()))
    return auc_score(present, areas)


def auc_score(present: list[int], areas: list[float]) -> Score:
    """The mean of the areas of classes, from the sums of their placement values."""
    area = float(np.mean(areas)) if areas else np.nan

    def formula(sums: Sums) -> Array:
        total = np.zeros(len(sums["n"]))
        for k, a in zip(present, areas, strict=True):
            up, down, n1, n0 = sums[f"auc{k}"].T
            with np.errstate(divide="ignore", invalid="ignore"):
                total += up / n1 + down / n0 - a
        if not 0.0 < area < 1.0:
            return np.full(len(total), area)
        return np.asarray(expit(logit(area) + (total / len(present) - area) / (area * (1.0 - area))))

    return Score("auc", formula)


def placements(values: Array, positive: npt.NDArray[np.bool_]) -> Array:
    """Return for each row the share of the other side that it is on the right side of; ties count one half.

    >>> placements(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True])).tolist()
    [1.0, 0.75, 0.75, 1.0]
    """
    ranks = rankdata(values)
    place = np.empty(len(values))
    n1 = int(positive.sum())
    place[positive] = (ranks[positive] - rankdata(values[positive])) / (len(values) - n1)
    place[~positive] = 1.0 - (ranks[~positive] - rankdata(values[~positive])) / n1
    return place


# ----------------------------------------------------------------------------------------- binned calibration


def check_bins(bins: Any) -> int:
    """Return a checked number of bins.

    >>> check_bins(10)
    10
    """
    if isinstance(bins, bool) or not (isinstance(bins, int | np.integer) and bins >= 1):
        raise InvalidInputError(f"bins must be a whole number of at least 1, found {bins!r}.")
    return int(bins)


def bin_of(p: Array, bins: int) -> npt.NDArray[np.intp]:
    """Return the bin of each probability: bins of about the same number of rows, equal probabilities in one bin.

    >>> bin_of(np.array([0.1, 0.2, 0.2, 0.2, 0.8, 0.9]), 2).tolist()
    [0, 1, 1, 1, 1, 1]
    """
    edges = np.unique(np.quantile(p, np.arange(1, bins) / bins, method="higher"))
    return np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]


def add_bins(answers: Answers, collector: Collector, bins: int) -> list[Score]:
    """Calibration error and the parts of the Brier score, by bins of each class's probabilities.

    calibration error    mean over classes of Σ_b n_b/N |p̄_b − t̄_b|
    reliability          Σ over classes of Σ_b n_b/N (p̄_b − t̄_b)²
    uncertainty          Σ over classes of t̄ (1 − t̄)
    resolution           what is left: Brier score = reliability − resolution + uncertainty, exactly (it has in
                         it what probabilities tell apart within the bins)
    """
    assert answers.P is not None
    classes = answers.positives
    for k in classes:
        p = answers.P[:, k]
        cell = bin_of(p, bins)
        own = (answers.t == k) * 1.0
        collector.add_cells(f"bins{k}", cell, int(cell.max()) + 1, np.ones(len(p)), p, own)
    return bin_scores(classes, answers.K)


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

    return [
        Score("calibration_error", calibration_error, "inverted bootstrap", gaps=mean_gaps),
        Score("brier_reliability", reliability, "inverted bootstrap", gaps=gaps, power=2),
        Score("brier_resolution", resolution, "centred bootstrap"),
        Score("brier_uncertainty", uncertainty, "reflected bootstrap", 0.25 if K == 2 else 1.0 - 1.0 / K),
    ]


# --------------------------------------------------------------------------------------- logistic calibration


def add_calibration(answers: Answers, collector: Collector) -> list[Score]:
    """Calibration slope and intercepts: the logistic recalibration of the labels on the log probabilities.

    Two classes: ``glm(t ~ logit(p))``. More: one slope, and an intercept for each class, which sum to zero. Replicates
    take the estimate to first order, by what each row moves it by. Classes without rows are left out.
    """
    assert answers.P is not None
    present = np.flatnonzero(np.bincount(answers.t, minlength=answers.K))
    A, T = calibration_inputs(answers, present)
    found = fit_linear(A, T) if len(present) > 1 else LinearMap(np.nan, np.full(1, np.nan))
    theta = np.append(found.slope, found.shift)
    moves = influence(A, T, found) if np.isfinite(theta).all() else np.zeros((len(A), len(theta)))
    theta, moves = against_first(theta, moves)
    collector.add("calibration", *moves.T)
    return calibration_scores(theta, [answers.classes.tolist()[k] for k in present], len(answers.t))


def calibration_inputs(answers: Answers, present: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the log probabilities of classes, and 1 for that of each row, 0 for others."""
    assert answers.P is not None
    return np.log(np.maximum(answers.P[:, present], TINY)), (answers.t[:, None] == present) * 1.0


def calibration_scores(theta: Array, labels: list[Any], n: int) -> list[Score]:
    """Slope and intercepts, from the sums of what the ``n`` rows move them by."""
    names = ["calibration_slope"]
    names += ["calibration_intercept"] if len(labels) == 2 else [f"calibration_intercept[{c}]" for c in labels]

    def part(j: int) -> Formula:
        def formula(sums: Sums) -> Array:
            whole = n / sums["n"][:, 0]
            return np.asarray(theta[j] + sums["calibration"][:, j] * whole)

        return formula

    return [Score(name, part(j)) for j, name in enumerate(names)]


def against_first(theta: Array, moves: Array) -> tuple[Array, Array]:
    """Return (slope, intercepts), and what moves them, with one intercept for two classes.

    >>> against_first(np.array([1.0, -0.5, 0.5]), np.zeros((1, 3)))[0].tolist()
    [1.0, 1.0]
    """
    if len(theta) != 3:
        return theta, moves
    difference = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 1.0]])
    with np.errstate(invalid="ignore"):
        return np.append(theta[0], theta[2] - theta[1]), moves @ difference.T
