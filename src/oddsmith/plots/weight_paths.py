"""Paths of a Laplace prior: weights against the scale, cross-validated loss, and stability selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.regularization_path import RegularizationPath
from oddsmith.evaluation.stability import Stability
from oddsmith.numerics import Array
from oddsmith.plots.style import (
    INK,
    QUIET,
    AxesLike,
    Display,
    Look,
    Panel,
    color_of,
    dashes_of,
    figure_of,
    label_rows,
    legend_above,
    marker_of,
    plain,
    shortened,
)

MOST_LABELS = 12  # Maximum number of named lines, those with the largest weights: more do not fit beside the axes.
LINE_HEIGHT = 0.17  # Height of a label in inches.
SCALE = "scale of the Laplace prior"


def _check_path(path: object) -> None:
    if not isinstance(path, RegularizationPath):
        raise InvalidTypeError(f"Expected the result of regularization_path; found a {type(path).__name__}.")


@dataclass(eq=False, kw_only=True)
class WeightPathDisplay(Display):
    """Weights against the scale of a Laplace prior, on a logarithmic axis, with the number of selected columns on top.

    Attributes
    ----------
    scales : array of length n
    weights : array, n × D × panels
        Without the intercept; a panel for each class, a single one for two classes.
    names : list of D names
    panels : list of str
        The class of each panel, empty for two classes.
    n_selected : array of length n
    chosen : dict from choice to scale
        Scales to mark.

    >>> from oddsmith import regularization_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 4))
    >>> path = regularization_path(X, X[:, 0] + rng.logistic(size=100) > 0, n=10)
    >>> WeightPathDisplay.from_path(path, choice="bic").chosen == {"bic": path.best("bic")}
    True
    """

    scales: Array
    weights: Array
    names: list[str]
    panels: list[str]
    n_selected: npt.NDArray[np.intp]
    chosen: dict[str, float]

    @classmethod
    def from_path(cls, path: RegularizationPath, *, choice: Any = None, label: object = None) -> Self:
        """Use the result of `regularization_path`.

        ``choice`` (one or more criteria) marks scales; default: the cross-validation criteria, if available, else
        ``"bic"``. ``label`` is the class to draw if there are more than two; default: all.
        """
        _check_path(path)
        W = path.weights[:, 1:] if path.weights.ndim == 3 else path.weights[:, 1:, None]
        panels = [str(c) for c in path.classes] if W.shape[2] > 1 else [""]
        if label is not None:
            places = np.flatnonzero([c == label for c in path.classes.tolist()])
            if not len(places):
                raise UnknownNameError("class", label, path.classes.tolist())
            if W.shape[2] > 1:
                W, panels = W[:, :, places], [panels[places[0]]]
        if choice is None:
            choice = ["bic"] if path.cv_loss is None else ["min", "1se"]
        choices = [choice] if isinstance(choice, str) else list(choice)
        return cls(
            scales=path.scales,
            weights=W,
            names=[str(name) for name in path.names],
            panels=panels,
            n_selected=path.n_selected,
            chosen={name: path.best(name) for name in choices},
        )

    def plot(self, ax: AxesLike = None, *, labels: int = MOST_LABELS) -> Self:
        """Draw a line for each column that is ever selected; the ``labels`` largest are named at the right end."""
        columns = min(3, len(self.panels))
        rows = -(-len(self.panels) // columns)
        with self._canvas(ax, len(self.panels), columns, size=(1.6 + 4.6 * columns, 0.6 + 3.6 * rows)) as axes:
            for k, one in enumerate(axes):
                self._draw(one, self.weights[:, :, k], labels)
                one.set(xlabel=SCALE, ylabel=f"weight{f', {plain(self.panels[k])}' if self.panels[k] else ''}")
        return self

    def _draw(self, ax: Panel, W: Array, labels: int) -> None:
        last = W[-1]
        ever = np.flatnonzero((W != 0.0).any(axis=0))
        order = ever[np.argsort(-np.abs(W[:, ever]).max(axis=0), kind="stable")]
        named = {int(j): k for k, j in enumerate(order[:labels])}
        ax.axhline(0.0, color=INK, lw=0.6, zorder=0)
        for j in order[::-1]:
            k = named.get(int(j))
            if k is None:
                ax.plot(self.scales, W[:, j], color=QUIET, lw=0.8, alpha=0.6, zorder=1)
            else:
                ax.plot(self.scales, W[:, j], color=color_of(k), ls=dashes_of(k // 8), lw=1.6, zorder=2)
        ax.set(xscale="log", xlim=_ends(self.scales))
        ax.margins(y=0.06)
        for i, (name, scale) in enumerate(self.chosen.items()):
            mark_scale(ax, scale, name, i)
        count_above(ax, self.scales, self.n_selected)
        texts = [shortened(plain(self.names[j]), 22) for j in named]
        label_ends(ax, last[list(named)], texts, [color_of(k) for k in named.values()])


@dataclass(eq=False, kw_only=True)
class CrossValidationDisplay(Display):
    """Cross-validated loss against the scale of a Laplace prior, with a band of one standard error.

    Attributes
    ----------
    scales, loss, error : arrays of length n
    n_selected : array of length n
    chosen : dict from ``"min"`` and ``"1se"`` to scale

    >>> from oddsmith import regularization_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 4))
    >>> path = regularization_path(X, X[:, 0] + rng.logistic(size=100) > 0, n=10, cv=4)
    >>> display = CrossValidationDisplay.from_path(path)
    >>> display.chosen["1se"] <= display.chosen["min"]
    True
    """

    scales: Array
    loss: Array
    error: Array
    n_selected: npt.NDArray[np.intp]
    chosen: dict[str, float]

    @classmethod
    def from_path(cls, path: RegularizationPath) -> Self:
        """Use the result of `regularization_path` with ``cv=``."""
        _check_path(path)
        if path.cv_loss is None or path.cv_error is None:
            raise InvalidInputError("This path was not cross-validated: pass cv= to regularization_path.")
        choices = ("min",) if np.isnan(path.cv_error).any() else ("min", "1se")
        return cls(
            scales=path.scales,
            loss=path.cv_loss,
            error=np.nan_to_num(path.cv_error),
            n_selected=path.n_selected,
            chosen={name: path.best(name) for name in choices},
        )

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the curve, its band, and the two choices."""
        with self._canvas(ax) as (ax,):
            ends = self.loss - self.error, self.loss + self.error
            ax.fill_between(self.scales, *ends, color=color_of(0), alpha=0.16, linewidth=0)
            ax.plot(self.scales, self.loss, color=color_of(0), label="mean over folds ± 1 standard error")
            words = {"min": "smallest loss", "1se": "within one standard error"}
            for i, (name, scale) in enumerate(self.chosen.items()):
                at = np.argmin(np.abs(self.scales - scale))
                height, count = float(self.loss[at]), int(self.n_selected[at])
                ax.axvline(scale, color=color_of(i + 1), lw=1.0, ls=dashes_of(i + 1), zorder=0)
                text = f"{words[name]}: scale {scale:.3g}, {count} column{'' if count == 1 else 's'}"
                look: Look = {"color": color_of(i + 1), "ms": 8, "mec": "white", "zorder": 4}
                ax.plot(scale, height, marker_of(i + 1), label=text, ls="", **look)
            ax.set(xscale="log", xlim=_ends(self.scales), xlabel=SCALE)
            ax.set_ylabel("cross-validated log loss")
            count_above(ax, self.scales, self.n_selected)
            ax.legend(loc="upper right", frameon=True, facecolor="white", edgecolor="none", framealpha=0.9)
        return self


@dataclass(eq=False, kw_only=True)
class StabilityDisplay(Display):
    """Selection frequency of each column on halves of the rows, the most frequent on top, with the threshold.

    Attributes
    ----------
    names : list of str
    frequency : array
    threshold : float
    false_selections : float
        Bound on the expected number of false selections above the threshold.

    >>> from oddsmith import stability
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 4))
    >>> found = stability(X, X[:, 0] + rng.logistic(size=100) > 0, n=10, scale=0.1)
    >>> StabilityDisplay.from_stability(found).names[0]
    'x0'
    """

    names: list[str]
    frequency: Array
    threshold: float
    false_selections: float

    @classmethod
    def from_stability(cls, found: Stability, *, most: int = 20) -> Self:
        """Use the result of `stability`, and draw the ``most`` frequent columns."""
        order = np.argsort(-found.frequency, kind="stable")[:most]
        return cls(
            names=[str(name) for name in found.names[order]],
            frequency=found.frequency[order],
            threshold=found.threshold,
            false_selections=found.false_selections,
        )

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw a bar for each column; selected columns are dark."""
        with self._canvas(ax, size=(6.0, 1.3 + 0.24 * len(self.names))) as (ax,):
            places = np.arange(len(self.names), dtype=np.float64)[::-1]
            colors = [color_of(0) if f >= self.threshold else color_of(5) for f in self.frequency]
            ax.barh(places, self.frequency, color=colors, height=0.7)
            bound = f"at most {self.false_selections:.2g} false selections expected"
            ax.axvline(self.threshold, color=INK, lw=1.0, ls="--", label=f"threshold {self.threshold:g}: {bound}")
            label_rows(ax, places, [shortened(name, 30) for name in self.names])
            ax.set(xlim=(0.0, 1.0), xlabel="share of the halves that select the column", ylim=(-0.7, len(places) - 0.3))
            legend_above(ax)
        return self


def stability(found: Stability, *, most: int = 20, ax: AxesLike = None) -> StabilityDisplay:
    """Draw and return a `StabilityDisplay`: how often columns were selected on halves of the rows."""
    return StabilityDisplay.from_stability(found, most=most).plot(ax)


def path(
    found: RegularizationPath, *, choice: Any = None, label: object = None, ax: AxesLike = None
) -> WeightPathDisplay:
    """Draw and return a `WeightPathDisplay`: the weights of a path."""
    return WeightPathDisplay.from_path(found, choice=choice, label=label).plot(ax)


def cv_curve(found: RegularizationPath, *, ax: AxesLike = None) -> CrossValidationDisplay:
    """Draw and return a `CrossValidationDisplay`: the cross-validated loss of a path."""
    return CrossValidationDisplay.from_path(found).plot(ax)


def mark_scale(ax: Panel, scale: float, name: str, k: int) -> None:
    """Draw a scale as a line with its name."""
    ax.axvline(scale, color=INK, lw=1.0, ls=dashes_of(k + 1), zorder=0)
    text = f"{name}: {scale:.3g}"
    look: Look = {"rotation": 90, "ha": "right", "va": "bottom", "fontsize": 8, "color": INK}
    look["bbox"] = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
    ax.annotate(text, (scale, 0.02), (-2, 0), xycoords=("data", "axes fraction"), textcoords="offset points", **look)


def count_above(ax: Panel, scales: Array, counts: npt.NDArray[np.intp], most: int = 7) -> None:
    """Write the number of selected columns above the axes, at some of the scales."""
    from matplotlib.ticker import NullLocator

    places = np.unique(np.linspace(0, len(scales) - 1, min(most, len(scales))).astype(int))
    above = ax.secondary_xaxis("top")
    above.set_xscale("log")
    above.xaxis.set_minor_locator(NullLocator())
    above.set_xticks(scales[places], [f"{counts[i]:,}" for i in places])
    above.set_xlabel("columns selected", fontsize=9)
    above.tick_params(labelsize=8, length=2.5, width=0.8, color=INK, labelcolor=INK)


def label_ends(ax: Panel, heights: Array, texts: Sequence[str], colors: Sequence[str]) -> None:
    """Name lines at their right end, each label as near to its line as the others allow."""
    if not texts:
        return
    low, high = ax.get_ylim()
    inches = float(ax.get_position().height * figure_of(ax).get_size_inches()[1])
    wanted = (np.asarray(heights) - low) / (high - low)
    for y, text, color, place in zip(heights, texts, colors, spread_apart(wanted, LINE_HEIGHT / inches), strict=True):
        arrow = {"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0.0, 0.5)}
        look: Look = {"va": "center", "fontsize": 8, "color": color, "arrowprops": arrow, "annotation_clip": False}
        units: Look = {"xycoords": ("axes fraction", "data"), "textcoords": "axes fraction"}
        ax.annotate(text, (1.0, y), (1.05, place), **units, **look)


def _ends(scales: Array) -> tuple[float, float]:
    """Return the ends of an axis of scales; one scale is in the middle."""
    return (scales[0], scales[-1]) if len(scales) > 1 else (scales[0] / 2.0, scales[0] * 2.0)


def spread_apart(wanted: Array, distance: float) -> Array:
    """Return positions as near as possible to the given ones (least squares), in order and a distance apart.

    With the distances subtracted this is isotonic regression: positions out of order take their mean.

    >>> spread_apart(np.array([0.0, 0.0, 1.0]), 0.2).round(3).tolist()
    [-0.1, 0.1, 1.0]
    """
    order = np.argsort(wanted, kind="stable")
    steps = distance * np.arange(len(wanted))
    result = np.empty(len(wanted))
    result[order] = isotonic_regression(wanted[order] - steps) + steps
    return result
