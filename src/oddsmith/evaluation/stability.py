"""Stability selection: how often columns are selected on random halves of the rows, with an error bound."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemoryEngine, one_blas_thread
from oddsmith.engines.memory import available_cores
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation.regularization_path import read_probe
from oddsmith.likelihood.coordinates import is_large, threads_of
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.sparse_path import scale_path, solve_path
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.prior_selection.sparse_scale import over_rows
from oddsmith.priors import LaplacePrior, checked_scales
from oddsmith.protocols import Indices, Labels
from oddsmith.records import Table

TOL = 1e-5  # Relative gap of the fits: the selected columns hardly depend on more digits, and halves differ far more.
SCALES, PROBED = 30, 6  # Default number of scales of the path, and of halves for finding its end.


@dataclass(frozen=True, kw_only=True, eq=False)
class Stability(Table):
    """The selection frequency of each column; prints the most frequent first.

    Attributes
    ----------
    names : array of D names
    frequency : array of length D
        Share of the subsamples in which the column had a nonzero weight, maximised over the scales.
    path : array, scales × D
        The same at each scale.
    scales : array
    threshold : float
    n_subsamples : int
    mean_selected : float
        Mean number of columns that a subsample selects at any of the scales.
    """

    names: Labels
    frequency: Array
    path: Array
    scales: Array
    threshold: float
    n_subsamples: int
    mean_selected: float

    @property
    def selected(self) -> list[str]:
        """Names of the columns whose frequency is at least the threshold."""
        return [str(name) for name in self.names[self.frequency >= self.threshold]]

    @property
    def false_selections(self) -> float:
        """Bound on the expected number of false selections: ``q² / ((2 threshold − 1) D)``.

        Meinshausen and Bühlmann (2010), theorem 1, with q columns selected on average. It assumes that columns without
        an effect are exchangeable, and that the method is no worse than random guessing. Without these assumptions, the
        same number bounds (for complementary pairs, Shah and Samworth 2013) the expected number of selected columns
        whose selection probability on half of the rows is below ``q / D``.
        """
        return self.mean_selected**2 / ((2.0 * self.threshold - 1.0) * len(self.names))

    @property
    def title(self) -> str:  # type: ignore[override]
        """The line above the table."""
        return (
            f"{len(self.selected)} of {len(self.names):,} columns selected in at least {100 * self.threshold:g}% of "
            f"{self.n_subsamples} halves; at most {self.false_selections:.2g} of them expected to be false"
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per column that was ever selected, the most frequent first."""
        order = np.argsort(-self.frequency, kind="stable")
        order = order[self.frequency[order] > 0.0]
        kept = self.frequency[order] >= self.threshold
        return {
            "column": [str(name) for name in self.names[order]],
            "frequency": self.frequency[order].tolist(),
            "selected": kept.tolist(),
        }


def stability(
    X: Any,
    y: Any = None,
    *,
    scale: float | None = None,
    scales: npt.ArrayLike | None = None,
    n: int = 100,
    threshold: float = 0.75,
    prior: LaplacePrior | None = None,
    sample_weight: object = None,
    offset: object = None,
    model: LogisticRegression | None = None,
    seed: int | None = 0,
    **more: Any,
) -> Stability:
    """Fit a `LaplacePrior` to random halves of the rows, and count how often each column is selected.

    The halves form complementary pairs, stratified by class: n/2 times, the rows are split in two and both halves are
    fitted. A half selects a column if its weight is nonzero at any of the scales.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in ``LogisticRegression.fit``, with rows in memory.
    scale, scales : float, list of floats
        One scale, or several. Scales refer to all rows: a half is fitted with twice the scale, so that the penalty has
        the same strength relative to the rows. Default: a path from the smallest useful scale to the largest at which
        the bound on false selections is at most 1.
    n : int
        Number of halves, even.
    threshold : float
        Share of the halves (above ½) that must select a column; 0.6 to 0.9 are usual.
    prior : LaplacePrior
        Supplies groups, factors and a Gaussian part; its scale is ignored.
    model, more
        As in `regularization_path`.
    seed : int
        Random seed of the halves.

    Cost: a path of a few scales for each half.

    References
    ----------
    N. Meinshausen and P. Bühlmann, Stability selection, JRSS B 72 (2010); R. Shah and R. Samworth, Variable selection
    with error control, JRSS B 75 (2013).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 30))
    >>> y = X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0
    >>> found = stability(X, y, n=40)
    >>> found.selected, found.false_selections <= 1
    (['x0', 'x1'], True)
    """
    _check(n, threshold, scale, scales)
    probe, how = read_probe(model, prior, more)
    _, problem = probe._problem(X, y, sample_weight, offset, how, reset=True)
    with one_blas_thread(problem.largest_matrix):
        halves = _halves(problem, n // 2, seed)
        if scale is None and scales is None:
            most = float(np.sqrt((2.0 * threshold - 1.0) * problem.M))
            found = _few_scales(problem, halves[:PROBED], most)
            chosen = _selections(problem, halves, 2.0 * found)
            kept = _bounded(chosen, most)
            found, chosen = found[:kept], chosen[:, :kept]
        else:
            found = checked_scales(scales if scale is None else [scale])  # type: ignore[arg-type]
            chosen = _selections(problem, halves, 2.0 * found)
    counts = chosen.mean(axis=0)
    ever = chosen.any(axis=1)
    return Stability(
        names=np.asarray(probe._names(), dtype=object),
        frequency=ever.mean(axis=0),
        path=counts,
        scales=found,
        threshold=float(threshold),
        n_subsamples=len(halves),
        mean_selected=float(ever.sum(axis=1).mean()),
    )


def _check(n: object, threshold: object, scale: float | None, scales: npt.ArrayLike | None) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2 or n % 2:
        raise InvalidInputError(f"n must be an even number of halves of at least 2, found {n!r}.")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not 0.5 < threshold <= 1.0:
        raise InvalidInputError(f"threshold must be above 0.5 and at most 1, found {threshold!r}.")
    if scale is not None and scales is not None:
        raise InvalidInputError("Give scale or scales, not both.")
    if scale is not None:
        checked_scales([scale])


def _halves(problem: Problem, pairs: int, seed: int | None) -> list[Indices]:
    """Return complementary halves of the rows, with half of each class in each."""
    source, rng = problem.memory_source, np.random.default_rng(seed)
    present = np.ones(source.n_rows, dtype=bool) if source.s is None else source.s > 0
    classes = [np.flatnonzero((source.t == k) & present) for k in range(source.K)]
    if min(map(len, classes)) < 2:
        k = int(np.argmin([len(rows) for rows in classes]))
        raise InvalidInputError(f"Class number {k} has a single row, and each half needs one. Use more rows.")
    halves: list[Indices] = []
    for _ in range(pairs):
        first = []
        for i, rows in enumerate(classes):
            mixed = rng.permutation(rows)
            first.append(mixed[: (len(mixed) + i % 2) // 2])  # an odd row goes to either half
        chosen = np.sort(np.concatenate(first))
        rest = np.setdiff1d(np.flatnonzero(present), chosen)
        halves += [chosen, rest]
    return halves


def _few_scales(problem: Problem, halves: Sequence[Indices], most: float) -> Array:
    """Return ascending scales up to the first at which halves select more than the allowed mean number of columns."""
    stated = SparseProblem.of(problem)
    scales = scale_path(stated.smallest_scale(stated.null_point()), SCALES)
    for end in (6, 12, 24, SCALES):  # large scales cost most, and are seldom needed
        kept = _bounded(_selections(problem, halves, 2.0 * scales[:end]), most)
        if kept < end:
            return scales[: kept + 1]
    return scales


def _bounded(chosen: npt.NDArray[np.bool_], most: float) -> int:
    """Return the number of scales (at least one) at which a half selects at most the allowed mean number of columns."""
    within = np.logical_or.accumulate(chosen, axis=1).sum(axis=2).mean(axis=0) <= most
    return max(1, int(np.argmin(within)) if not within.all() else len(within))


def _selections(problem: Problem, halves: Sequence[Indices], scales: Array) -> npt.NDArray[np.bool_]:
    """Return which columns each half selects at each scale: halves × scales × D."""
    source = problem.memory_source
    threads = 1 if is_large(source) else min(threads_of(problem.engine) or available_cores(), len(halves))
    inside = problem if threads == 1 else replace(problem, engine=MemoryEngine(1))

    def one(rows: Indices) -> npt.NDArray[np.bool_]:
        path = solve_path(over_rows(inside, source.take(rows)), scales, tol=TOL, tight=False)
        return np.asarray((path.weights[:, :, 1:] != 0.0).any(axis=1))

    with ThreadPoolExecutor(threads) as pool:
        return np.array(list(pool.map(one, halves)))
