"""Maps over two columns: the posterior of each class, and how sure the predictive distribution is of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.plots.grid import make_plane
from oddsmith.plots.style import Display, figure_legend, legend_above, plain, scatter_classes, shortened

MEASURES = {
    "std": "standard deviation of the probability",
    "ignorance": "ignorance (nats)",
    "noise": "noise (nats)",
    "entropy": "entropy (nats)",
}


@dataclass(eq=False)
class PosteriorMapDisplay(Display):
    """The posterior probability of each class over the plane of two columns: white is 1, black is 0.

    Attributes
    ----------
    x, y : arrays of length n and m
        The grid.
    proba : array, m × n × K
    classes, names : lists
        The labels; the names of the two columns.
    points, codes : arrays, N × 2 and N, or None
        The samples and their classes.

    Cost: one prediction for each of m · n points.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> display = PosteriorMapDisplay.from_estimator(GaussianClassifier("spherical").fit(X, y), X, y)
    >>> display.proba.shape, bool(display.proba[0, 0, 0] > display.proba[-1, -1, 0])
    ((150, 150, 2), True)
    """

    x: Array
    y: Array
    proba: Array
    classes: list[Any]
    names: tuple[str, str]
    points: Array | None = None
    codes: npt.NDArray[np.intp] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        columns: Any = None,
        at: Any = None,
        limits: Any = None,
        resolution: int = 150,
    ) -> Self:
        """Ask a fitted probabilistic classifier about a grid of points; arguments as in `DecisionRegionDisplay`."""
        if not hasattr(model, "predict_proba"):
            raise InvalidTypeError(
                f"{type(model).__name__} has no probabilities to map. Use DecisionRegionDisplay, or recalibrate(model, "
                "X, y) to give it some."
            )
        plane = make_plane(model, X, y, columns=columns, at=at, limits=limits, resolution=resolution)
        P = np.asarray(model.predict_proba(plane.rows), dtype=np.float64).reshape(*plane.shape, -1)
        points = None if plane.codes is None else plane.points
        return cls(plane.x, plane.y, P, np.asarray(model.classes_).tolist(), plane.names, points, plane.codes)

    @property
    def sharpness(self) -> float:
        """Mean length of the gradient of the probabilities, a side of the map being of length one."""
        m, n = self.proba.shape[:2]
        down, along = np.gradient(self.proba, 1.0 / (m - 1), 1.0 / (n - 1), axis=(0, 1))
        return float(np.hypot(down, along).mean())

    def plot(self, ax: Any = None, *, label: Any = None, samples: bool = True) -> Self:
        """Draw a panel for each class (of two, for the second; with ``label``, for that one alone)."""
        if label is not None and label not in self.classes:
            raise UnknownNameError("class", label, self.classes)
        K = len(self.classes)
        shown = [self.classes.index(label)] if label is not None else [1] if K == 2 else list(range(K))
        columns = 2 if len(shown) == 4 else min(len(shown), 3)
        rows = -(-len(shown) // columns)
        size = (6.0, 4.2) if len(shown) == 1 else (2.1 * columns + 0.9, 2.3 * rows + 0.6)
        with self._canvas(ax, len(shown), columns, size, sharex=True, sharey=True) as axes:
            for place, (one, k) in enumerate(zip(axes, shown, strict=True)):
                image = one.pcolormesh(
                    self.x, self.y, self.proba[:, :, k], cmap="gray", vmin=0, vmax=1, shading="gouraud", rasterized=True
                )
                if samples and self.points is not None and self.codes is not None:
                    scatter_classes(one, self.points, self.codes, self.classes, s=9, linewidths=0.35)
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


@dataclass(eq=False)
class UncertaintyMapDisplay(Display):
    """How uncertain the predictive distribution is over the plane of two columns, with its contours.

    Attributes
    ----------
    x, y : arrays of length n and m
        The grid.
    mean : array, m × n × K
        Class probabilities with the weights integrated out.
    measures : dict of arrays, m × n
        ``std`` (of the probability of the second class; the largest, for more), ``entropy``, ``noise``, ``ignorance``.
    classes, names, points, codes
        As in `PosteriorMapDisplay`.

    Cost: one `predictive` of m · n points; for more than two classes thousands of softmaxes each.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> display = UncertaintyMapDisplay.from_estimator(LogisticRegression(prior=1.0).fit(X, y), X, y, resolution=20)
    >>> sorted(display.measures), display.mean.shape
    (['entropy', 'ignorance', 'noise', 'std'], (20, 20, 2))
    """

    x: Array
    y: Array
    mean: Array
    measures: dict[str, Array]
    classes: list[Any]
    names: tuple[str, str]
    points: Array | None = None
    codes: npt.NDArray[np.intp] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        columns: Any = None,
        at: Any = None,
        limits: Any = None,
        resolution: int = 80,
    ) -> Self:
        """Ask a fitted Bayesian classifier about a grid of points; arguments as in `DecisionRegionDisplay`."""
        if not hasattr(model, "predictive"):
            raise InvalidTypeError(
                f"{type(model).__name__} has no predictive(X), whose uncertainty this map shows. Use "
                "LogisticRegression(prior=…), or PosteriorMapDisplay."
            )
        plane = make_plane(model, X, y, columns=columns, at=at, limits=limits, resolution=resolution)
        found = model.predictive(plane.rows)
        std = found.std[:, 1] if len(found.classes) == 2 else found.std.max(axis=1)
        measures = {"std": std, **{name: getattr(found, name) for name in ("ignorance", "noise", "entropy")}}
        return cls(
            plane.x,
            plane.y,
            found.mean.reshape(*plane.shape, -1),
            {name: np.asarray(values).reshape(plane.shape) for name, values in measures.items()},
            list(found.classes),
            plane.names,
            None if plane.codes is None else plane.points,
            plane.codes,
        )

    def plot(self, ax: Any = None, *, measure: str = "std", samples: bool = True, colorbar: bool = True) -> Self:
        """Draw a measure of uncertainty (bright is uncertain); for two classes with contours of the mean."""
        if measure not in MEASURES:
            raise UnknownNameError("measure", measure, MEASURES)
        with self._canvas(ax, size=(6.0, 4.4)) as (ax,):
            values = self.measures[measure]
            image = ax.contourf(self.x, self.y, values, levels=14, cmap="cividis")
            if len(self.classes) == 2:
                lines = ax.contour(
                    self.x,
                    self.y,
                    self.mean[:, :, 1],
                    levels=[0.1, 0.25, 0.5, 0.75, 0.9],
                    colors="white",
                    linewidths=1.0,
                )
                ax.clabel(lines, fmt="%g", fontsize=8)
            if samples and self.points is not None and self.codes is not None:
                scatter_classes(ax, self.points, self.codes, self.classes, linewidths=0.7)
                legend_above(ax)
            ax.set(xlabel=plain(self.names[0]), ylabel=plain(self.names[1]))
            ax.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))
            if colorbar:
                bar = self.figure_.colorbar(image, ax=ax, fraction=0.05, pad=0.02, label=MEASURES[measure])
                bar.ax.tick_params(labelsize=9)
        return self
