"""Diagnostics of individual rows: residuals against fitted probabilities, and influence against leverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from oddsmith.design.inputs import as_table, split_target
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.model_output import class_codes
from oddsmith.evaluation.sums import bin_of
from oddsmith.inference.residuals import Diagnostics
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.plots.style import INK, QUIET, AxesLike, Display, Look, color_of, legend_above, marker_of, plain, thinned
from oddsmith.protocols import ClassifierLike, Indices


def _diagnose(model: ClassifierLike, X: Any, y: Any, rows: dict[str, Any]) -> Diagnostics:
    if not isinstance(model, LogisticRegression):
        raise InvalidTypeError(
            f"{type(model).__name__} has no diagnostics(X, y). Use LogisticRegression or ProbitRegression."
        )
    return model.diagnostics(X, y, **rows)


def row_names(X: object, numbers: Sequence[int]) -> list[Any]:
    """Return the names of rows: the pandas index, else their numbers."""
    table = as_table(X)
    index = None if table is None else nw.maybe_get_index(table)
    return list(numbers if index is None else index)


@dataclass(eq=False, kw_only=True)
class ResidualDisplay(Display):
    """Residuals against the fitted probability, and their means in bins, which are near zero if the model fits.

    Attributes
    ----------
    fitted, residual : arrays of length N
        Probability of the chosen class; ``t − y``, divided by √(y (1 − y)).
    codes : array of length N
        1 for rows of that class, else 0.
    middle, mean, limit : arrays, one entry for each bin
        Mean fitted probability, mean of ``t − y``, and two standard errors of that mean under the model.
    classes : list
        Labels of codes 0 and 1.

    Cost: one pass.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
    >>> display = ResidualDisplay.from_estimator(LogisticRegression().fit(X, y), X, y, bins=2)
    >>> bool((np.abs(display.mean) < display.limit).all()), len(display.residual)
    (True, 6)
    """

    fitted: Array
    residual: Array
    codes: Indices
    middle: Array
    mean: Array
    limit: Array
    classes: list[str]

    @classmethod
    def from_estimator(
        cls,
        model: ClassifierLike,
        X: Any,
        y: Any,
        *,
        label: object = None,
        bins: int | None = None,
        ax: AxesLike = None,
        **rows: ArrayLike,
    ) -> Self:
        """Draw the diagnostics of a fit from its training rows; ``label`` names the class if there are more than two.

        There are about √N bins unless ``bins`` is given. ``rows``: ``sample_weight`` and ``offset`` of the fit.
        """
        found = _diagnose(model, X, y, rows)
        labels = np.asarray(model.classes_).tolist()
        if label is None and len(labels) > 2:
            raise InvalidInputError(f"There are {len(labels)} classes. Choose one with label=… from {labels[:8]}.")
        if label is not None and label not in labels:
            raise UnknownNameError("class", label, labels)
        k = 1 if label is None else labels.index(label)
        t = class_codes(split_target(X, y)[1], np.asarray(model.classes_)) == k
        P, r = found.fitted, found.pearson
        fitted, residual = (P[:, k], r[:, k]) if P.ndim == 2 else (P, r) if k == 1 else (1.0 - P, -r)
        cell = bin_of(fitted, int(np.clip(np.sqrt(len(t)), 2, 40)) if bins is None else bins)
        count = np.bincount(cell)
        middle, mean = (np.bincount(cell, weights=values) / count for values in (fitted, t - fitted))
        limit = 2.0 * np.sqrt(np.bincount(cell, weights=fitted * (1.0 - fitted))) / count
        classes = [str(labels[1 - k]) if len(labels) == 2 else f"not {labels[k]}", str(labels[k])]
        bin_means = {"middle": middle, "mean": mean, "limit": limit}
        shown = cls(fitted=fitted, residual=residual, codes=t.astype(np.intp), classes=classes, **bin_means)
        return shown._drawn(ax)

    def plot(self, ax: AxesLike = None, *, legend: bool = True) -> Self:
        """Draw individual rows above, and the means of bins with two standard errors below."""
        with self._canvas(ax, 2, size=(6.0, 5.0), sharex=True) as (top, below):
            shown = thinned(len(self.codes))
            for k, label in enumerate(self.classes):
                own = shown[self.codes[shown] == k]
                dots: Look = {"s": 14, "c": color_of(k), "marker": marker_of(k), "alpha": 0.7, "linewidths": 0}
                top.scatter(self.fitted[own], self.residual[own], label=plain(label), **dots)
            band: Look = {"color": QUIET, "alpha": 0.2, "linewidth": 0, "label": "two standard errors"}
            below.fill_between(self.middle, -self.limit, self.limit, **band)
            line: Look = {"color": color_of(2), "ms": 5, "lw": 1.0, "mec": "white", "label": "mean of a bin"}
            below.plot(self.middle, self.mean, "D-", **line)
            for one in (top, below):
                one.axhline(0.0, color=INK, lw=0.8, zorder=0)
            top.set(ylabel="Pearson residual")
            what = f"fitted probability of {plain(self.classes[1])}"
            below.set(ylabel="mean of t − y", xlim=(-0.02, 1.02), xlabel=what)
            if legend:
                legend_above(top)
                legend_above(below)
        return self


@dataclass(eq=False, kw_only=True)
class InfluenceDisplay(Display):
    """Residual against leverage with Cook's distance: influential rows are far out on both axes.

    Attributes
    ----------
    leverage, residual, cooks_distance : arrays of length N
        The residuals are standardised Pearson residuals (deviance residuals for more than two classes).
    n_weights : float
        Number of weights, the sum of the leverages.
    codes : array of length N
    classes : list
    rows : list
        Names of the rows.

    Cost: one pass.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
    >>> display = InfluenceDisplay.from_estimator(LogisticRegression().fit(X, y), X, y)
    >>> round(display.n_weights, 6), display.most(1)
    (2.0, [2])
    """

    leverage: Array
    residual: Array
    cooks_distance: Array
    n_weights: float
    codes: Indices
    classes: list[Any]
    rows: Sequence[Any]
    what: str = "standardised Pearson residual"

    @classmethod
    def from_estimator(cls, model: ClassifierLike, X: Any, y: Any, *, ax: AxesLike = None, **rows: ArrayLike) -> Self:
        """Draw the diagnostics of a fit from its training rows, named by the table's index or by number."""
        return cls.computed(model, X, y, **rows)._drawn(ax)

    @classmethod
    def computed(cls, model: ClassifierLike, X: Any, y: Any, **rows: ArrayLike) -> Self:
        """Compute the diagnostics of a fit from its training rows, without drawing."""
        found, classes = _diagnose(model, X, y, rows), np.asarray(model.classes_)
        two = found.standardized_pearson.ndim == 1
        return cls(
            leverage=found.leverage,
            residual=found.standardized_pearson if two else found.standardized_deviance,
            cooks_distance=found.cooks_distance,
            n_weights=float(found.leverage.sum()),
            codes=class_codes(split_target(X, y)[1], classes),
            classes=classes.tolist(),
            rows=row_names(X, range(len(found))),
            what="standardised Pearson residual" if two else "standardised deviance residual",
        )

    def most(self, n: int) -> list[Any]:
        """Return the names of the n most influential rows."""
        return [self.rows[i] for i in self._order()[:n]]

    def _order(self) -> Indices:
        return np.argsort(-np.nan_to_num(self.cooks_distance), kind="stable")

    def plot(self, ax: AxesLike = None, *, annotate: int = 3) -> Self:
        """Draw rows with an area proportional to Cook's distance, and name the most influential ones."""
        from matplotlib.collections import PathCollection

        with self._canvas(ax) as (ax,):
            largest = max(float(np.nanmax(self.cooks_distance)), 1e-300)
            area = 10.0 + 240.0 * np.nan_to_num(self.cooks_distance) / largest
            shown = thinned(len(self.codes), keep=self._order()[:100])
            for k, label in enumerate(self.classes):
                own = shown[self.codes[shown] == k]
                look: Look = {"c": color_of(k), "marker": marker_of(k), "alpha": 0.65, "ec": "white", "lw": 0.6}
                ax.scatter(self.leverage[own], self.residual[own], s=area[own], label=plain(label), **look)
            ax.margins(0.09)
            self._draw_contours()
            ax.axhline(0.0, color=INK, lw=0.8, zorder=0)
            near: Look = {"textcoords": "offset points", "fontsize": 9, "va": "center"}
            for i in self._order()[:annotate]:
                place, away = (self.leverage[i], self.residual[i]), (9, 5 if self.residual[i] >= 0 else -5)
                ax.annotate(plain(self.rows[i]), place, away, **near)
            ax.set(xlabel="leverage", ylabel=self.what)
            for handle in legend_above(ax).legend_handles:
                if isinstance(handle, PathCollection):
                    handle.set_sizes([30.0])
        return self

    def _draw_contours(self) -> None:
        """Draw lines of equal Cook's distance, r² h / ((1 − h) k)."""
        ax = self.ax_
        left, right = max(ax.get_xlim()[0], 0.0), min(ax.get_xlim()[1], 0.999)
        ends, drawn = ax.get_ylim(), []
        h = np.linspace(max(left, 1e-4 * right), right, 200)
        line: Look = {"color": QUIET, "lw": 0.8, "ls": "--"}
        for level in (0.1, 0.5, 1.0):
            r = np.sqrt(level * self.n_weights * (1.0 - h) / h)
            if r.min() < max(map(abs, ends)):
                drawn.append(f"{level:g}")
                for side in (-1.0, 1.0):
                    ax.plot(h, side * r, zorder=0, **line)
        if drawn:
            ax.plot([], [], label=f"Cook's distance {', '.join(drawn)}", **line)
        ax.set(xlim=(left, right), ylim=ends)
