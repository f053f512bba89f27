"""The progress of a fit: the trace of its log likelihood, and the paths of optimisers over contours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.plots.style import INK, AxesLike, Display, color_of, legend_above, line_of, mark_of, named, plain
from oddsmith.protocols import ClassifierLike
from oddsmith.solvers.general import Optimum

Path = Optimum | npt.ArrayLike  # What an optimiser returned, or the points that it visited.

AXIS = {
    "iteration": "iteration",
    "passes": "passes over the data",
    "seconds": "seconds",
    "log_likelihood": "log likelihood",
    "objective": "objective",
    "gradient_norm": "norm of the gradient",
    "step_size": "step size",
}


@dataclass(eq=False)
class TraceDisplay(Display):
    """A column of the trace of one or more fits, against iterations, passes or seconds.

    Attributes
    ----------
    traces : dict from name to dict of arrays
        The columns of each trace.

    >>> from oddsmith import LogisticRegression
    >>> model = LogisticRegression(prior=1.0, solver="newton").fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> display = TraceDisplay.from_estimator(model)
    >>> bool((np.diff(display.traces["LogisticRegression"]["log_likelihood"]) > 0).all())
    True
    """

    traces: dict[str, dict[str, Array]]

    @classmethod
    def from_estimator(cls, models: ClassifierLike | Mapping[str, ClassifierLike], *, ax: AxesLike = None) -> Self:
        """Draw the traces of a fitted model, or of several, ``{name: model}``."""
        traces = {}
        for name, model in named(models).items():
            if not hasattr(model, "trace_"):
                raise InvalidTypeError(
                    f"{name!r} has no trace_: it is not fitted, or its fit has a closed form without iterations."
                )
            traces[name] = {c: np.asarray(v) for c, v in model.trace_.to_dict().items() if c in AXIS}
        return cls(traces)._drawn(ax)

    def plot(
        self,
        ax: AxesLike = None,
        *,
        what: str = "log_likelihood",
        over: str = "iteration",
        gap: bool = False,
        legend: bool = True,
    ) -> Self:
        """Draw column ``what`` against ``over``; ``gap`` shows the distance from the best value on a log scale."""
        for name, columns in self.traces.items():
            for wanted in (what, over):
                if wanted not in columns:
                    raise UnknownNameError(f"column in the trace of {name!r}", wanted, columns)
        with self._canvas(ax) as (ax,):
            ends = [columns[what] for columns in self.traces.values()]
            best = max(v.max() for v in ends) if ends[0][-1] >= ends[0][0] else min(v.min() for v in ends)
            for k, (name, columns) in enumerate(self.traces.items()):
                values = columns[what]
                if gap:
                    # What is left at the end is rounding: a log scale has no place for zero.
                    values = np.where(values == best, np.nan, np.abs(values - best))
                mark = mark_of(k, 5, markevery=max(1, len(values) // 12))
                ax.plot(columns[over], values, **line_of(k, plain(name), **mark))
            ax.set(xlabel=AXIS[over], ylabel=f"distance from the best {AXIS[what]}" if gap else AXIS[what])
            if gap:
                ax.set_yscale("log")
            if legend and len(self.traces) > 1:
                legend_above(ax)
        return self


@dataclass(eq=False, kw_only=True)
class PathDisplay(Display):
    """The paths of optimisers over the contours of a function of two variables.

    Attributes
    ----------
    x, y : arrays of length n and m
        The grid.
    values : array, m × n
        The function.
    paths : dict from name to array, points × 2
        Every point visited.
    optimum : array of length 2 or None
        The point where the paths should end; None takes the end of the last path.

    Cost: m · n calls of the function.

    >>> from oddsmith import newton_raphson
    >>> A = np.diag([1.0, 9.0])
    >>> f, g, H = lambda x: 0.5 * x @ A @ x, lambda x: A @ x, lambda x: A
    >>> display = PathDisplay.from_paths(f, newton_raphson(f, g, H, [3.0, 1.0]))
    >>> {name: len(path) for name, path in display.paths.items()}
    {'Optimum': 2}
    """

    x: Array
    y: Array
    values: Array
    paths: dict[str, Array]
    names: tuple[str, str]
    optimum: Array | None = None

    @classmethod
    def from_paths(
        cls,
        function: Callable[[Array], float],
        paths: Path | Mapping[str, Path],
        *,
        names: tuple[str, str] = ("w₁", "w₂"),
        limits: npt.ArrayLike | None = None,
        optimum: npt.ArrayLike | None = None,
        resolution: int = 80,
    ) -> Self:
        """Use results of `newton_raphson` or `gradient_descent` (or arrays of points), ``{name: result}``.

        A cross marks the ``optimum`` or, by default, the end of the last path.
        """
        found = {}
        for name, p in named(paths).items():
            path = found[name] = np.asarray(p.path if isinstance(p, Optimum) else p, dtype=np.float64)
            if path.ndim != 2 or path.shape[1] != 2 or not np.isfinite(path).all():
                raise InvalidInputError(
                    f"The path {name!r} has shape {path.shape}; expected finite values of shape points × 2."
                )
        if limits is None:
            visited = np.vstack(list(found.values()))
            low, high = visited.min(axis=0), visited.max(axis=0)
            pad = 0.15 * max(float((high - low).max()), 1e-6)
            limits = np.column_stack([low - pad, high + pad])
        x, y = (np.linspace(low, high, resolution) for low, high in np.asarray(limits))
        values = np.array([[float(function(np.array([a, b]))) for a in x] for b in y])
        at = None if optimum is None else np.asarray(optimum, dtype=np.float64)
        return cls(x=x, y=y, values=values, paths=found, names=names, optimum=at)

    def plot(self, ax: AxesLike = None, *, levels: int = 14) -> Self:
        """Draw contours, closer near the minimum, and the paths with a marker at each step."""
        with self._canvas(ax, size=(6.0, 4.2)) as (ax,):
            # Distances from the minimum that grow as squares: even rings around a quadratic's minimum.
            low, high = float(self.values.min()), float(self.values.max())
            rings = low + (high - low) * (np.arange(1, levels + 1) / levels) ** 2
            ax.contour(self.x, self.y, self.values, levels=rings, colors="#AAAAAA", linewidths=0.7)
            for k, (name, path) in enumerate(self.paths.items()):
                steps = len(path) - 1
                label = f"{plain(name)}: {steps} step{'' if steps == 1 else 's'}"
                mark = mark_of(k, 5 if steps < 40 else 3, mew=0.5)
                ax.plot(path[:, 0], path[:, 1], **line_of(k, label, color=color_of(2 * k), lw=1.2, **mark))
            paths = list(self.paths.values())
            first, start = paths[0], paths[0][0]
            end = paths[-1][-1] if self.optimum is None else self.optimum
            ax.plot(*start, marker="o", ms=8, mfc="none", mec=INK, ls="")
            ax.plot(*end, marker="+", ms=11, mew=1.6, mec=INK, ls="")
            down = len(first) > 1 and first[1][1] > start[1]  # away from the path
            ax.annotate("start", start, xytext=(0, -17 if down else 10), textcoords="offset points", ha="center")
            ax.set(xlabel=self.names[0], ylabel=self.names[1])
            ax.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))
            legend_above(ax)
        return self
