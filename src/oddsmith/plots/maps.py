"""Maps over two columns: decision regions, class posteriors, and the uncertainty of the predictive distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidTypeError, UnknownNameError
from oddsmith.evaluation.model_output import class_codes
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.numerics import Array
from oddsmith.plots.grid import Plane, PlaneDisplay
from oddsmith.plots.style import INK, QUIET, AxesLike, Look, color_of, figure_legend, legend_above, plain, shortened
from oddsmith.protocols import ClassifierLike, Indices, ProbabilisticClassifierLike

MEASURES = {
    "std": "standard deviation of the probability",
    "ignorance": "ignorance (nats)",
    "noise": "noise (nats)",
    "entropy": "entropy (nats)",
}


@dataclass(eq=False, kw_only=True)
class DecisionRegionDisplay(PlaneDisplay):
    """The predicted class over the plane of two columns.

    Attributes
    ----------
    x, y : arrays of length n and m
        The grid.
    regions : array, m × n
        Class code at each point: ``classes[regions[i, j]]`` is the prediction at ``(x[j], y[i])``.
    lead : array, m × n × K
        Value of each class minus the largest other value: its zeros are the boundary.
    classes, names : lists
        The labels; the names of the two columns.
    points, codes : arrays, N × 2 and N, or None
        The samples and their classes.
    ambiguous : array of bool, m × n, or None
        Where `OneVsRest` or `OneVsOne` have no unique class.

    Cost: one prediction for each of m · n points.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> display = DecisionRegionDisplay.from_estimator(GaussianClassifier("spherical").fit(X, y), X, y)
    >>> display.class_at(0, 0), display.class_at(3, 3)
    ('a', 'b')
    """

    regions: Indices
    lead: Array
    ambiguous: npt.NDArray[np.bool_] | None = None

    @classmethod
    def _predictions(cls, model: ClassifierLike, plane: Plane) -> dict[str, Any]:
        classes = np.asarray(model.classes_)
        codes = class_codes(np.asarray(model.predict(plane.rows)), classes)
        lead = _lead(model, plane.rows, codes, len(classes)).reshape(*plane.shape, -1)
        unclear = None
        if isinstance(model, OneVsRest | OneVsOne):
            unclear = np.asarray(model.ambiguous(plane.rows)).reshape(plane.shape)
        return {"regions": codes.reshape(plane.shape), "lead": lead, "ambiguous": unclear}

    def class_at(self, x: float, y: float) -> Any:
        """Return the class of the grid point nearest to ``(x, y)``."""
        return self.classes[self.regions[np.abs(self.y - y).argmin(), np.abs(self.x - x).argmin()]]

    def plot(self, ax: AxesLike = None, *, samples: bool = True, legend: bool = True, title: str = "") -> Self:
        """Draw the regions in light colours, their boundaries, the samples, and the area without a unique class."""
        with self._canvas(ax) as (ax,):
            for k in range(len(self.classes)):
                if (self.regions == k).any():
                    lead = self.lead[:, :, k]
                    ax.contourf(self.x, self.y, lead, levels=[0.0, lead.max() + 1.0], colors=[color_of(k)], alpha=0.22)
                    if lead.min() < 0.0 < lead.max():
                        ax.contour(self.x, self.y, lead, levels=[0.0], colors=[INK], linewidths=1.1)
            unclear = 1.0 * self.ambiguous if self.ambiguous is not None and self.ambiguous.any() else None
            if unclear is not None:
                ax.contourf(self.x, self.y, unclear, levels=[0.5, 1.5], colors="white", alpha=0.8, zorder=2.4)
                ax.contourf(self.x, self.y, unclear, levels=[0.5, 1.5], colors="none", hatches=["////"], zorder=2.5)
            if not self._scatter(ax, samples):
                for k, label in enumerate(self.classes):
                    ax.fill([], [], color=color_of(k), alpha=0.4, label=plain(label))
            self._set_axes(ax)
            if title:
                ax.set_title(title)
            if legend and unclear is not None:
                ax.plot([], [], marker="s", ls="", mfc="none", mec=QUIET, label="no unique class (hatched)")
            if legend:
                legend_above(ax)
        return self


def _lead(model: ClassifierLike, rows: object, codes: Indices, K: int) -> Array:
    """Return the lead of each class, from the model's values if these determine predictions, else +1 and −1."""
    values = np.full((len(codes), K), np.nan)
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            found = np.asarray(getattr(model, method)(rows), dtype=np.float64)
            values = np.column_stack([-found, found]) if found.ndim == 1 else found
            break
    picked, lead = (np.arange(len(codes)), codes), np.full((len(codes), K), -1.0)
    lead[picked] = 1.0
    if values.shape == (len(codes), K) and np.isfinite(values).all():
        others = values.copy()
        others[picked] = -np.inf
        gap = values[picked] - others.max(axis=1)
        if (gap >= -1e-9 * np.abs(values).max(initial=1.0)).all():  # the largest value does decide
            lead = values - values[picked][:, None]
            lead[picked] = gap
    return lead


@dataclass(eq=False, kw_only=True)
class PosteriorMapDisplay(PlaneDisplay):
    """The posterior probability of each class over the plane of two columns: white is 1, black is 0.

    Attributes
    ----------
    proba : array, m × n × K
    x, y, classes, names, points, codes
        As in `DecisionRegionDisplay`.

    Cost: one prediction for each of m · n points.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> display = PosteriorMapDisplay.from_estimator(GaussianClassifier("spherical").fit(X, y), X, y)
    >>> display.proba.shape, bool(display.proba[0, 0, 0] > display.proba[-1, -1, 0])
    ((150, 150, 2), True)
    """

    resolution: ClassVar[int] = 150
    proba: Array

    @classmethod
    def _check(cls, model: ClassifierLike) -> None:
        if not hasattr(model, "predict_proba"):
            raise InvalidTypeError(
                f"{type(model).__name__} has no probabilities to map. Use DecisionRegionDisplay, or recalibrate(model, "
                "X, y) to give it some."
            )

    @classmethod
    def _predictions(cls, model: ClassifierLike, plane: Plane) -> dict[str, Any]:
        P = cast("ProbabilisticClassifierLike", model).predict_proba(plane.rows)
        return {"proba": np.asarray(P, dtype=np.float64).reshape(*plane.shape, -1)}

    @property
    def sharpness(self) -> float:
        """Mean gradient norm of the probabilities, for a map of side length one."""
        m, n = self.proba.shape[:2]
        down, along = np.gradient(self.proba, 1.0 / (m - 1), 1.0 / (n - 1), axis=(0, 1))
        return float(np.hypot(down, along).mean())

    def plot(self, ax: AxesLike = None, *, label: object = None, samples: bool = True) -> Self:
        """Draw a panel for each class (for two classes, the second; with ``label``, only that class)."""
        if label is not None and label not in self.classes:
            raise UnknownNameError("class", label, self.classes)
        K = len(self.classes)
        shown = [self.classes.index(label)] if label is not None else [1] if K == 2 else list(range(K))
        columns = 2 if len(shown) == 4 else min(len(shown), 3)
        size = (6.0, 4.2) if len(shown) == 1 else (2.1 * columns + 0.9, 2.3 * -(-len(shown) // columns) + 0.6)
        with self._canvas(ax, len(shown), columns, size, sharex=True, sharey=True) as axes:
            look: Look = {"cmap": "gray", "vmin": 0, "vmax": 1, "shading": "gouraud", "rasterized": True}
            for place, (one, k) in enumerate(zip(axes, shown, strict=True)):
                image = one.pcolormesh(self.x, self.y, self.proba[:, :, k], **look)
                self._scatter(one, samples, s=9, linewidths=0.35)
                one.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))
                one.set_title(f"p({shortened(plain(self.classes[k]), 18 if len(shown) > 1 else 60)} | x)")
                if ax is not None or place >= len(shown) - columns:
                    one.set_xlabel(plain(self.names[0]))
                    one.tick_params(labelbottom=True)
                if ax is not None or place % columns == 0:
                    one.set_ylabel(plain(self.names[1]))
            if ax is None:
                bar = self.figure_.colorbar(image, ax=axes, fraction=0.05, pad=0.02, ticks=[0, 0.25, 0.5, 0.75, 1])
                bar.set_label("probability")
                bar.ax.tick_params(labelsize=9)
                if samples and self.points is not None:
                    figure_legend(axes[0])
        return self


@dataclass(eq=False, kw_only=True)
class UncertaintyMapDisplay(PlaneDisplay):
    """The uncertainty of the predictive distribution over the plane of two columns, with contours.

    Attributes
    ----------
    mean : array, m × n × K
        Class probabilities with the weights integrated out.
    measures : dict of arrays, m × n
        ``std`` (of the second class's probability; for more classes, the largest), ``entropy``, ``noise``,
        ``ignorance``.
    x, y, classes, names, points, codes
        As in `DecisionRegionDisplay`.

    Cost: one `predictive` of m · n points; with more than two classes, thousands of softmaxes each.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> display = UncertaintyMapDisplay.from_estimator(LogisticRegression(prior=1.0).fit(X, y), X, y, resolution=20)
    >>> sorted(display.measures), display.mean.shape
    (['entropy', 'ignorance', 'noise', 'std'], (20, 20, 2))
    """

    resolution: ClassVar[int] = 80
    mean: Array
    measures: dict[str, Array]

    @classmethod
    def _check(cls, model: ClassifierLike) -> None:
        if not isinstance(model, LogisticRegression):
            raise InvalidTypeError(
                f"{type(model).__name__} has no predictive(X) to map. Use "
                "LogisticRegression(prior=…), or PosteriorMapDisplay."
            )

    @classmethod
    def _predictions(cls, model: ClassifierLike, plane: Plane) -> dict[str, Any]:
        assert isinstance(model, LogisticRegression)
        found = model.predictive(plane.rows)
        std = found.std[:, 1] if len(found.classes) == 2 else found.std.max(axis=1)
        measures = {"std": std, "ignorance": found.ignorance, "noise": found.noise, "entropy": found.entropy}
        grids = {name: np.asarray(values).reshape(plane.shape) for name, values in measures.items()}
        return {"mean": found.mean.reshape(*plane.shape, -1), "measures": grids}

    def plot(self, ax: AxesLike = None, *, measure: str = "std", samples: bool = True, colorbar: bool = True) -> Self:
        """Draw a measure of uncertainty (bright is uncertain), with contours of the mean for two classes."""
        if measure not in MEASURES:
            raise UnknownNameError("measure", measure, MEASURES)
        with self._canvas(ax, size=(6.0, 4.4)) as (ax,):
            image = ax.contourf(self.x, self.y, self.measures[measure], levels=14, cmap="cividis")
            if len(self.classes) == 2:
                levels = [0.1, 0.25, 0.5, 0.75, 0.9]
                lines = ax.contour(self.x, self.y, self.mean[:, :, 1], levels=levels, colors="white", linewidths=1.0)
                ax.clabel(lines, fmt="%g", fontsize=8)
            if self._scatter(ax, samples, linewidths=0.7):
                legend_above(ax)
            self._set_axes(ax)
            if colorbar:
                bar = self.figure_.colorbar(image, ax=ax, fraction=0.05, pad=0.02, label=MEASURES[measure])
                bar.ax.tick_params(labelsize=9)
        return self
