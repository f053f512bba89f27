"""Forest plots: weights with their intervals, and comparisons of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.evaluation.comparison import NOISE, Comparison, compare
from oddsmith.inference.fit_record import INTERCEPT
from oddsmith.inference.summary import Summary
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.plots.style import (
    QUIET,
    AxesLike,
    Display,
    Look,
    Panel,
    color_of,
    label_rows,
    legend_above,
    marker_of,
    plain,
)
from oddsmith.protocols import ClassifierLike

VERDICTS = {"best": (0, "o"), "within noise": (1, "s"), "worse": (2, "^")}
WORDS = {"log_loss": "log loss", "brier": "Brier score", "error": "share of errors"}


@dataclass(eq=False, kw_only=True)
class CoefficientDisplay(Display):
    """Estimates with intervals, one line per term; an infinite interval ends in an arrow.

    Attributes
    ----------
    terms : list of str
    classes : list, one entry per row, or None
        The class of each weight, for more than two classes.
    estimate, lower, upper : arrays
        NaN for aliased terms.
    level : float
        Level of the intervals.
    kind : str
        "confidence" or "credible".

    >>> from oddsmith import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1])
    >>> display = CoefficientDisplay.from_estimator(model)
    >>> display.terms, display.estimate.round(3).tolist()
    (['x0'], [1.214])
    """

    terms: list[str]
    classes: list[Any] | None
    estimate: Array
    lower: Array
    upper: Array
    level: float
    kind: str

    @classmethod
    def from_estimator(
        cls,
        model: ClassifierLike,
        X: Any = None,
        y: Any = None,
        *,
        intercept: bool = False,
        ax: AxesLike = None,
        **options: Any,
    ) -> Self:
        """Draw the summary of a fitted model; ``options`` go to ``model.summary`` (``level``, ``intervals``, …)."""
        if not isinstance(model, LogisticRegression):
            raise InvalidTypeError(
                f"{type(model).__name__} has no summary() with estimates and intervals. Use "
                "LogisticRegression or ProbitRegression."
            )
        return cls.from_summary(model.summary(X, y, **options), intercept=intercept)._drawn(ax)

    @classmethod
    def from_summary(cls, summary: Summary, *, intercept: bool = False) -> Self:
        """Use an existing summary."""
        if not summary.has_errors:
            raise InvalidInputError(f"This summary has no intervals to draw ({summary.remarks[0]}).")
        table = summary.to_dict()
        kept = [i for i, term in enumerate(table["term"]) if intercept or term != INTERCEPT]
        if not kept:
            raise InvalidInputError("The model has only an intercept: pass intercept=True to draw it.")
        prefix = "credible_" if summary.is_posterior else ""
        names = {"estimate": "estimate", "lower": f"{prefix}lower", "upper": f"{prefix}upper"}
        return cls(
            terms=[str(table["term"][i]) for i in kept],
            classes=[table["class"][i] for i in kept] if "class" in table else None,
            level=summary.level,
            kind="credible" if summary.is_posterior else "confidence",
            **{name: np.asarray(table[column], dtype=np.float64)[kept] for name, column in names.items()},
        )

    def plot(self, ax: AxesLike = None, *, sort: bool = False, odds_ratio: bool = False) -> Self:
        """Draw the terms from top to bottom; ``odds_ratio`` shows exp(weight) on a log scale."""
        terms = list(dict.fromkeys(self.terms))
        groups = [None] if self.classes is None else list(dict.fromkeys(self.classes))
        if sort:
            size = np.abs(np.nan_to_num(self.estimate))
            terms.sort(key=lambda term: -max(e for other, e in zip(self.terms, size, strict=True) if other == term))
        place = {term: -i for i, term in enumerate(terms)}
        height = max(2.2, 0.9 + (0.24 + 0.1 * (len(groups) - 1)) * len(terms))
        ends = np.concatenate([[0.0], self.estimate, self.lower, self.upper])
        ends = ends[np.isfinite(ends)]
        pad = 0.05 * max(float(ends.max() - ends.min()), 1e-12)
        low, high = float(ends.min()) - pad, float(ends.max()) + pad
        with self._canvas(ax, size=(6.0, min(height, 12.0))) as (ax,):
            ax.axvline(0.0, color=QUIET, lw=0.8, zorder=0)
            for k, group in enumerate(groups):
                rows = [i for i in range(len(self.terms)) if self.classes is None or self.classes[i] == group]
                shift = min(0.22, 0.8 / len(groups)) * ((len(groups) - 1) / 2 - k)
                where = np.array([place[self.terms[i]] for i in rows]) + shift
                self._draw(ax, rows, where, k, "" if group is None else plain(group), low, high)
            label_rows(ax, list(place.values()), terms)
            what = f"{'odds ratio' if odds_ratio else 'weight'} with {100 * self.level:g}% {self.kind} interval"
            ax.set(xlim=(low, high), ylim=(0.3 - len(terms), 0.7), xlabel=what)
            if odds_ratio:
                _as_odds(ax, low, high)
            if len(groups) > 1:
                legend_above(ax)
        return self

    def _draw(self, ax: Panel, rows: list[int], where: Array, k: int, label: str, low: float, high: float) -> None:
        lower, upper = np.maximum(self.lower[rows], low), np.minimum(self.upper[rows], high)
        color = color_of(k)
        ax.hlines(where, lower, upper, color=color, lw=1.6)
        ax.plot(self.estimate[rows], where, marker_of(k), color=color, ms=6, mec="white", mew=0.6, label=label)
        for ends, side, arrow in ((self.lower[rows], low, "<"), (self.upper[rows], high, ">")):
            away = np.isinf(ends)
            if away.any():
                ax.plot(np.full(away.sum(), side), where[away], arrow, color=color, ms=6, clip_on=False)


def _as_odds(ax: Panel, low: float, high: float) -> None:
    """Label the axis of weights with odds ratios: 1, 2, 5, 10 … if these fit, else powers of ten."""
    powers = 10.0 ** np.arange(-300, 301)
    fine = np.ravel(powers[:, None] * np.array([1.0, 2.0, 5.0]))
    for ticks in (fine, *(powers[np.arange(-300, 301) % step == 0] for step in (1, 2, 5, 10, 50))):
        inside = ticks[(np.log(ticks) >= low) & (np.log(ticks) <= high)]
        if len(inside) <= 11:
            break
    ax.set_xticks(np.log(inside), [f"{t:g}" for t in inside])


@dataclass(eq=False, kw_only=True)
class ComparisonDisplay(Display):
    """The difference of each model's score from the best, with its interval and a verdict.

    Attributes
    ----------
    models, verdicts : lists of str, the best first
    difference, std_error : arrays
        Difference of the score from the best model's on the same rows, and its standard error; NaN if unavailable.
    accuracy : array
    by : str
        The score compared.

    >>> from sklearn.datasets import load_iris
    >>> from oddsmith import GaussianClassifier, NaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> display = ComparisonDisplay.from_models({"shared": GaussianClassifier(), "naive": NaiveBayes()}, X, y)
    >>> display.models, display.verdicts
    (['shared', 'naive'], ['best', 'worse'])
    """

    models: list[str]
    verdicts: list[str]
    difference: Array
    std_error: Array
    accuracy: Array
    by: str

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> Self:
        """Use the result of `compare`."""
        table = comparison.to_dict()
        columns = {name: np.asarray(table[name], dtype=np.float64) for name in ("difference", "std_error", "accuracy")}
        return cls(models=list(table["model"]), verdicts=list(table["verdict"]), by=comparison.by, **columns)

    @classmethod
    def from_models(cls, models: object, X: Any, y: Any, *, ax: AxesLike = None, **options: Any) -> Self:
        """Compare models and draw the result; arguments as in `compare`."""
        return cls.from_comparison(compare(models, X, y, **options))._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the models from top to bottom, the best first, with their accuracies."""
        place = -np.arange(len(self.models), dtype=np.float64)
        with self._canvas(ax, size=(6.4, 1.3 + 0.3 * len(self.models))) as (ax,):
            ax.axvline(0.0, color=QUIET, lw=0.8, zorder=0)
            for verdict, (k, marker) in VERDICTS.items():
                own = [i for i, found in enumerate(self.verdicts) if found == verdict]
                if own:
                    look: Look = {"ms": 6, "mec": "white", "mew": 0.6, "elinewidth": 1.4, "color": color_of(k)}
                    half = NOISE * self.std_error[own]
                    ax.errorbar(self.difference[own], place[own], xerr=half, fmt=marker, label=verdict, **look)
            side: Look = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 9}
            for i in np.flatnonzero(~np.isfinite(self.difference)):
                ax.text(0.99, place[i], self.verdicts[i], ha="right", color=QUIET, **side)
            for at, value in zip(place, self.accuracy, strict=True):
                ax.text(1.02, at, "" if np.isnan(value) else f"{100 * value:.1f}%", **side)
            ax.text(1.02, 0.75, "accuracy", color=QUIET, **side)
            label_rows(ax, place, self.models)
            score = WORDS.get(self.by, self.by)
            ax.set(ylim=(place[-1] - 0.6, 0.6), xlabel=f"{score} per row, relative to the best model")
            legend_above(ax)
        return self
