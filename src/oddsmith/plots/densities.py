"""Densities of one variable: class densities with their posterior, and Laplace's approximation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from oddsmith.data_access.streamed_prediction import columns_of
from oddsmith.design.fitted_basis import input_names
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.inference.laplace import Laplace, laplace
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array
from oddsmith.plots.grid import limits_of, numbers_of, read_columns
from oddsmith.plots.style import INK, QUIET, AxesLike, Display, color_of, legend_above, line_of, plain
from oddsmith.protocols import ClassifierLike, RowsLike

Limits = tuple[float, float] | None


@dataclass(eq=False, kw_only=True)
class ClassDensityDisplay(Display):
    """Bayes' rule: the class densities times their priors, and the resulting posterior.

        p(C_k | x) = p(x | C_k) p(C_k) / Σ_j p(x | C_j) p(C_j)

    Attributes
    ----------
    x : array of length n
    joint, posterior : arrays, n × K
    boundaries : array
        Where the most probable class changes.
    classes : list
    name : str
        Name of the variable.

    Cost: the densities of n points.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [2.0], [4.0]], ["a", "a", "b", "b"])
    >>> display = ClassDensityDisplay.from_estimator(model)
    >>> display.boundaries.round(2).tolist(), bool(np.allclose(display.posterior.sum(axis=1), 1.0))
    ([2.0], True)
    """

    x: Array
    joint: Array
    posterior: Array
    boundaries: Array
    classes: list[Any]
    name: str

    @classmethod
    def from_estimator(
        cls, model: ClassifierLike, X: Any = None, *, limits: Limits = None, resolution: int = 400, ax: AxesLike = None
    ) -> Self:
        """Draw a fitted generative model of one column; limits come from ``X``, or from samples of the model."""
        if not isinstance(model, GaussianClassifier | NaiveBayes):
            raise InvalidTypeError(
                f"{type(model).__name__} has no class densities. Use a generative model, such as GaussianClassifier."
            )
        model._check_fitted()
        names = [str(name) for name in input_names(model)]
        if len(names) != 1:
            raise InvalidInputError(
                f"Densities are drawn over one column, and this model has {len(names)}: fit one to a single column, or "
                "use PosteriorMapDisplay."
            )
        if limits is None:
            seen = read_columns(model.sample(2000, seed=0)[0] if X is None else X, model)
            limits = limits_of(numbers_of(seen[names[0]], names[0]))
        x = np.linspace(*limits, resolution)
        rows: RowsLike = x[:, None]
        if columns_of(model) is not None:
            import pyarrow

            rows = pyarrow.table({names[0]: x})
        joint = np.exp(model.log_density(rows)) * model.class_prior_
        P = np.asarray(model.predict_proba(rows))
        classes = np.asarray(model.classes_).tolist()
        found = {"x": x, "joint": joint, "posterior": P, "boundaries": _crossings(x, P)}
        return cls(**found, classes=classes, name=names[0])._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw densities times priors above, the posterior below; the hatched area is the probability of error."""
        with self._canvas(ax, 2, size=(6.0, 5.0), sharex=True) as (top, below):
            for k, label in enumerate(self.classes):
                top.fill_between(self.x, self.joint[:, k], color=color_of(k), alpha=0.18, linewidth=0)
                top.plot(self.x, self.joint[:, k], **line_of(k, plain(label)))
                below.plot(self.x, self.posterior[:, k], **line_of(k, plain(label)))
            error = self.joint.sum(axis=1) - self.joint.max(axis=1)
            top.fill_between(self.x, error, facecolor="none", edgecolor=QUIET, hatch="////", linewidth=0, label="error")
            for one in (top, below):
                for place in self.boundaries:
                    one.axvline(place, color=INK, lw=0.8, ls=":", zorder=0)
            top.set(ylabel=f"p({plain(self.name)}, class)", ylim=(0.0, None), xlim=(self.x[0], self.x[-1]))
            below.set(xlabel=plain(self.name), ylabel=f"p(class | {plain(self.name)})", ylim=(-0.03, 1.03))
            legend_above(top)
        return self


def _crossings(x: Array, P: Array) -> Array:
    """Return the points where the largest column changes, interpolated."""
    places, best = [], P.argmax(axis=1)
    for i in np.flatnonzero(np.diff(best)):
        gap = P[i : i + 2, best[i]] - P[i : i + 2, best[i + 1]]
        places.append(x[i] + (x[i + 1] - x[i]) * gap[0] / (gap[0] - gap[1]))
    return np.array(places)


@dataclass(eq=False, kw_only=True)
class LaplaceDisplay(Display):
    """A density of one variable and its Laplace approximation, the Gaussian with the same mode and curvature.

    Attributes
    ----------
    x : array of length n
    density, gaussian : arrays of length n
        Both normalised, the density by quadrature.
    approximation : Laplace

    >>> display = LaplaceDisplay.from_density(lambda x: -0.5 * (x - 3.0) ** 2, start=0.0)
    >>> bool(np.allclose(display.density, display.gaussian, atol=1e-3))
    True
    """

    x: Array
    density: Array
    gaussian: Array
    approximation: Laplace
    name: str

    @classmethod
    def from_density(
        cls, log_density: Callable[[float], float], start: float, *, limits: Limits = None, name: str = "x"
    ) -> Self:
        """Approximate ``exp(log_density)``; default limits are four standard deviations from the mode."""
        found = laplace(log_density, start)
        if np.ndim(found.mode):
            raise InvalidInputError("This figure is about one variable: start must be a number.")
        reach = 4.0 * float(np.sqrt(found.covariance))
        low, high = (found.mode - reach, found.mode + reach) if limits is None else limits
        x = np.linspace(low, high, 601)
        values = np.array([log_density(float(v)) for v in x])
        p = np.exp(values - values.max())
        density, gaussian = p / np.trapezoid(p, x), np.exp(found.logpdf(x))
        return cls(x=x, density=density, gaussian=gaussian, approximation=found, name=name)

    @property
    def log_density(self) -> Array:
        """Logarithm of the density, whose expansion gives the Gaussian."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.density))

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw both densities on the left and their negative logarithms (one is a parabola) on the right."""
        with self._canvas(ax, 2, 2, (6.6, 3.2)) as (left, right):
            for k, (label, p) in enumerate((("density", self.density), ("Laplace's Gaussian", self.gaussian))):
                line = line_of(k, label, color=color_of(2 * k))
                left.plot(self.x, p, **line)
                with np.errstate(divide="ignore"):
                    right.plot(self.x, -np.log(p), **line)
            left.fill_between(self.x, self.density, color=color_of(0), alpha=0.15, linewidth=0)
            for one in (left, right):
                one.axvline(self.approximation.mode, color=INK, lw=0.8, ls=":", zorder=0)
                one.set_xlabel(self.name)
            at_mode = -float(np.log(self.gaussian.max()))
            left.set(ylabel=f"p({self.name})", ylim=(0.0, None))
            right.set(ylabel=f"−log p({self.name})", ylim=(at_mode - 0.5, at_mode + 9.0))
            legend_above(left)
        return self
