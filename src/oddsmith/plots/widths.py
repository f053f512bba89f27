"""Criteria for the scale of a prior: evidence, leave-one-out, cross-validation, held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.evaluation.probe import Probe
from oddsmith.evaluation.scale_comparison import WidthComparison
from oddsmith.numerics import Array
from oddsmith.plots.style import AxesLike, Display, Panel, color_of, legend_above, line_of, marker_of
from oddsmith.protocols import ClassifierLike

CRITERIA = {
    "log_evidence": "log evidence",
    "loo": "leave-one-out",
    "cv": "cross-validation",
    "held_out": "held-out rows",
}


@dataclass(eq=False)
class WidthDisplay(Display):
    """Criteria for the scale of a Gaussian prior against that scale, with the best of each.

    Attributes
    ----------
    width : array of length n
        The scales.
    criteria : dict from ``"log_evidence"``, ``"loo"``, ``"cv"``, ``"held_out"`` to array of length n
        The log evidence (larger is better) and log losses (smaller is better).
    errors : dict from ``"loo"``, ``"cv"``, ``"held_out"`` to array of length n
        Standard errors.
    chosen : dict from criterion to scale

    >>> from oddsmith import compare_widths
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> display = WidthDisplay.from_comparison(compare_widths(X, X[:, 0] + rng.normal(size=60) > 0))
    >>> sorted(display.chosen)
    ['cv', 'log_evidence', 'loo']
    """

    width: Array
    criteria: dict[str, Array]
    errors: dict[str, Array]
    chosen: dict[str, float]

    @classmethod
    def from_comparison(cls, comparison: WidthComparison) -> Self:
        """Use the result of `compare_widths`."""
        curve = {name: np.asarray(values, dtype=np.float64) for name, values in comparison.curve.items()}
        chosen = {"log_evidence" if m == "evidence" else m: float(s.width) for m, s in comparison.selections.items()}
        errors = {name: curve[f"{name}_error"] for name in ("loo", "cv")}
        criteria = {name: curve[name] for name in CRITERIA if name in curve}
        return cls(curve["width"], criteria, errors, chosen)

    @classmethod
    def from_probe(cls, result: Probe) -> Self:
        """Use the result of `probe`: the log loss of held-out rows against the scale."""
        table = {name: np.asarray(values, dtype=np.float64) for name, values in result.to_dict().items()}
        order = np.argsort(table["scale"])
        scale, loss, error = (table[name][order] for name in ("scale", "log_loss", "std_error"))
        return cls(scale, {"held_out": loss}, {"held_out": error}, {"held_out": result.best_scale})

    @classmethod
    def from_estimator(cls, model: ClassifierLike, *, ax: AxesLike = None) -> Self:
        """Draw the scales that a fit with ``GaussianPrior(scale="loo")`` or ``"cv"`` tried."""
        selection = getattr(model, "selection_", None)
        if selection is None:
            raise InvalidTypeError(
                f"{type(model).__name__} has no selection_: fit it with GaussianPrior(scale='loo') or 'cv', or use "
                "from_comparison(compare_widths(X, y))."
            )
        if selection.method == "evidence":
            raise InvalidInputError(
                "The evidence is maximised without a list of scales. Use from_comparison(compare_widths(X, "
                "y)) for its curve."
            )
        method = selection.method
        width, loss, error = (np.asarray(selection.table[c], np.float64) for c in ("width", "log_loss", "std_error"))
        return cls(width, {method: loss}, {method: error}, {method: float(selection.width)})._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the evidence, if available, above the losses, which have a band of one standard error."""
        losses = [name for name in self.criteria if name != "log_evidence"]
        panels = [["log_evidence"], losses] if "log_evidence" in self.criteria else [losses]
        with self._canvas(ax, len(panels), size=(6.0, 2.0 + 1.5 * len(panels)), sharex=True) as axes:
            for one, names in zip(axes, panels, strict=True):
                for name in names:
                    self._draw(one, name)
                evidence = names == ["log_evidence"]
                one.set(ylabel="log evidence" if evidence else "log loss per held-out row", xscale="log")
                if evidence:
                    self._lift(one)
            axes[-1].set(xlabel="scale σ of the prior", xlim=(self.width[0], self.width[-1]))
            legend_above(*axes)
        return self

    def _draw(self, ax: Panel, name: str) -> None:
        k, values, best = list(CRITERIA).index(name), self.criteria[name], self.chosen[name]
        ax.plot(self.width, values, **line_of(k, f"{CRITERIA[name]}: σ = {best:.3g}"))
        if name in self.errors:
            ends = values - self.errors[name], values + self.errors[name]
            ax.fill_between(self.width, *ends, color=color_of(k), alpha=0.14, linewidth=0)
        height = np.interp(np.log(best), np.log(self.width), values)
        ax.axvline(best, color=color_of(k), lw=0.9, ls=":", zorder=0)
        ax.plot(best, height, marker_of(k), color=color_of(k), ms=8, mec="white", zorder=4)

    def _lift(self, ax: Panel) -> None:
        """Limit the axis to the top of the evidence: its fall towards small scales would flatten the curve."""
        values = self.criteria["log_evidence"]
        top = float(values.max())
        low = max(float(values.min()), top - 3.0 * (top - float(values[-1])))
        pad = 0.08 * (top - low)
        if pad > 0:
            ax.set_ylim(low - pad, top + pad)
