"""Decision regions with the samples that they were learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oddsmith.evaluation.model_output import class_codes
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.numerics import Array
from oddsmith.plots.grid import Plane, PlaneDisplay
from oddsmith.plots.style import INK, QUIET, AxesLike, color_of, legend_above, plain
from oddsmith.protocols import ClassifierLike, Indices


@dataclass(eq=False, kw_only=True)
class DecisionRegionDisplay(PlaneDisplay):
    """The class that a model decides for, all over the plane of two columns.

    Attributes
    ----------
    x, y : arrays of length n and m
        The grid.
    regions : array, m × n
        Code of the class at each point: ``classes[regions[i, j]]`` is what the model predicts at ``(x[j], y[i])``.
    lead : array, m × n × K
        By how much the value of each class is above the largest of the others: its zeros are the boundary.
    classes, names : lists
        The labels; the names of the two columns.
    points, codes : arrays, N × 2 and N, or None
        The samples and their classes.
    ambiguous : array of bool, m × n, or None
        Where `OneVsRest` or `OneVsOne` leave no unique class.

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
        """Draw the regions in light colours, their boundary as a line, the samples, and where no class is unique."""
        with self._canvas(ax) as (ax,):
            for k in range(len(self.classes)):
                if (self.regions == k).any():
                    lead = self.lead[:, :, k]
                    ax.contourf(self.x, self.y, lead, levels=[0.0, lead.max() + 1.0], colors=[color_of(k)], alpha=0.22)
                    if lead.min() < 0.0 < lead.max():
                        ax.contour(self.x, self.y, lead, levels=[0.0], colors=[INK], linewidths=1.1)
            if self.ambiguous is not None and self.ambiguous.any():
                unclear = self.ambiguous * 1.0
                ax.contourf(self.x, self.y, unclear, levels=[0.5, 1.5], colors="white", alpha=0.8, zorder=2.4)
                ax.contourf(self.x, self.y, unclear, levels=[0.5, 1.5], colors="none", hatches=["////"], zorder=2.5)
            if not self._scatter(ax, samples):
                for k, label in enumerate(self.classes):
                    ax.fill([], [], color=color_of(k), alpha=0.4, label=plain(label))
            self._set_axes(ax)
            if title:
                ax.set_title(title)
            if legend:
                if self.ambiguous is not None and self.ambiguous.any():
                    ax.plot([], [], marker="s", ls="", mfc="none", mec=QUIET, label="no unique class (hatched)")
                legend_above(ax)
        return self


def _lead(model: ClassifierLike, rows: object, codes: Indices, K: int) -> Array:
    """Return by how much each class leads, from the model's values where these decide, else +1 and −1."""
    values = np.full((len(codes), K), np.nan)
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            found = np.asarray(getattr(model, method)(rows), dtype=np.float64)
            values = np.column_stack([-found, found]) if found.ndim == 1 else found
            break
    picked = np.arange(len(codes)), codes
    if values.shape == (len(codes), K) and np.isfinite(values).all():
        others = values.copy()
        others[picked] = -np.inf
        gap = values[picked] - others.max(axis=1)
        if (gap >= -1e-9 * np.abs(values).max(initial=1.0)).all():  # the largest value does decide
            lead: Array = values - values[picked][:, None]
            lead[picked] = gap
            return lead
    lead = np.full((len(codes), K), -1.0)
    lead[picked] = 1.0
    return lead
