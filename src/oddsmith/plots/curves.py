"""Evaluation curves: reliability, ROC, precision–recall, cost, risk–coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from oddsmith.decision.loss import LossLike
from oddsmith.design.inputs import split_target
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation import curves as compute
from oddsmith.evaluation.curves import Curve
from oddsmith.evaluation.model_output import class_codes
from oddsmith.plots.style import QUIET, AxesLike, Display, Panel, color_of, legend_above, line_of, mark_of, named, plain
from oddsmith.protocols import ClassifierLike

Models = ClassifierLike | Mapping[str, ClassifierLike]  # A fitted classifier, or several by name.


@dataclass(eq=False)
class CurveDisplay(Display):
    """The base of curve displays: one curve for each model.

    Attributes
    ----------
    curves : dict from name to Curve
        As the functions of `oddsmith.evaluation` return them.
    """

    curves: dict[str, Curve]

    @classmethod
    def from_curve(cls, curves: Curve | Mapping[str, Curve]) -> Self:
        """Use an existing curve, or several, ``{name: curve}``."""
        return cls(named(curves, ""))

    def _lines(self, ax: Panel, x: str, y: str, fact: str = "", short: str = "", **options: Any) -> None:
        for k, (name, curve) in enumerate(self.curves.items()):
            value = f"{short} {getattr(curve, fact):.3f}" if fact else ""
            label = ", ".join(part for part in (plain(name), value) if part)
            ax.plot(getattr(curve, x), getattr(curve, y), **line_of(k, label or None, **options))
        if ax.get_legend_handles_labels()[1]:
            legend_above(ax)


def _set_square(ax: Panel, xlabel: str, ylabel: str) -> None:
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")


class RocDisplay(CurveDisplay):
    """The ROC curve: true positive rate against false positive rate, over all thresholds.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]
    >>> display = RocDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y)
    >>> display.curves["GaussianClassifier"].area
    0.75
    """

    @classmethod
    def from_estimator(cls, models: Models, X: Any, y: Any, *, label: object = None, ax: AxesLike = None) -> Self:
        """Draw the curve of a fitted classifier, or of several ``{name: model}``, for the class ``label``."""
        return cls({n: compute.roc_curve(model, X, y, label) for n, model in named(models).items()})._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the curves and the diagonal of random guessing; the legend shows the areas."""
        with self._canvas(ax, size=(4.6, 4.6)) as (ax,):
            ax.plot([0, 1], [0, 1], color=QUIET, lw=0.8, zorder=0)
            self._lines(ax, "false_positive_rate", "true_positive_rate", "area", "AUC")
            _set_square(ax, "false positive rate", "true positive rate")
        return self


@dataclass(eq=False)
class PrecisionRecallDisplay(CurveDisplay):
    """Precision against recall, over all thresholds; random guessing has the positive class's share as precision.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]
    >>> PrecisionRecallDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y).share
    0.5
    """

    share: float | None = None

    @classmethod
    def from_estimator(cls, models: Models, X: Any, y: Any, *, label: object = None, ax: AxesLike = None) -> Self:
        """Draw the curve of a fitted classifier, or of several ``{name: model}``, for the class ``label``."""
        several = named(models)
        curves = {name: compute.precision_recall_curve(model, X, y, label) for name, model in several.items()}
        classes = np.asarray(next(iter(several.values())).classes_)
        positive = 1 if label is None else classes.tolist().index(label)
        return cls(curves, float(np.mean(class_codes(split_target(X, y)[1], classes) == positive)))._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the curves as step functions; the legend shows the average precisions."""
        with self._canvas(ax, size=(4.6, 4.6)) as (ax,):
            if self.share is not None:
                ax.axhline(self.share, color=QUIET, lw=0.8, zorder=0)
            self._lines(ax, "recall", "precision", "average_precision", "AP", drawstyle="steps-post")
            _set_square(ax, "recall", "precision")
        return self


class ReliabilityDisplay(CurveDisplay):
    """The reliability diagram: observed class frequency against predicted probability, with a band.

    With more than two classes, it shows one model, with a line for each class.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]
    >>> display = ReliabilityDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y, bins=2)
    >>> display.curves["GaussianClassifier"].frequency.tolist()
    [0.5, 0.5]
    """

    @classmethod
    def from_estimator(
        cls, models: Models, X: Any, y: Any, *, bins: int = 10, level: float = 0.95, ax: AxesLike = None
    ) -> Self:
        """Draw the diagram of a fitted classifier, or of several ``{name: model}`` for two classes."""
        several = named(models)
        curves = {n: compute.reliability_curve(m, X, y, bins=bins, level=level) for n, m in several.items()}
        return cls(curves)._drawn(ax)

    def plot(self, ax: AxesLike = None, *, band: bool = True) -> Self:
        """Draw frequency against probability, the band of the frequency, and the diagonal of a calibrated model."""
        lines = []
        for name, curve in self.curves.items():
            labels = list(dict.fromkeys(curve.columns["class"].tolist()))
            if len(labels) > 1 and len(self.curves) > 1:
                raise InvalidInputError(f"{name!r} has {len(labels)} classes: draw one model at a time.")
            lines += [(str(c) if len(labels) > 1 else name, curve, curve.columns["class"] == c) for c in labels]
        with self._canvas(ax, size=(4.6, 4.6)) as (ax,):
            ax.plot([0, 1], [0, 1], color=QUIET, lw=0.8, zorder=0)
            for k, (name, curve, own) in enumerate(lines):
                p = curve.probability[own]
                if band:
                    ax.fill_between(p, curve.lower[own], curve.upper[own], color=color_of(k), alpha=0.16, linewidth=0)
                ax.plot(p, curve.frequency[own], **line_of(k, plain(name) or None, **mark_of(k, 5.5)))
            _set_square(ax, "predicted probability", "observed frequency")
            if ax.get_legend_handles_labels()[1]:
                legend_above(ax)
        return self


class CostDisplay(CurveDisplay):
    """The mean cost under a loss against the threshold of the second class's probability.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]
    >>> display = CostDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y, [[0, 1], [4, 0]])
    >>> display.curves["GaussianClassifier"].right_threshold
    0.2
    """

    @classmethod
    def from_estimator(cls, models: Models, X: Any, y: Any, loss: LossLike = None, *, ax: AxesLike = None) -> Self:
        """Draw the curve of a fitted classifier, or of several ``{name: model}``; ``loss`` as in ``decide``."""
        return cls({name: compute.cost_curve(model, X, y, loss) for name, model in named(models).items()})._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the costs as step functions, and the threshold that is optimal for calibrated probabilities."""
        with self._canvas(ax) as (ax,):
            for k, (name, curve) in enumerate(self.curves.items()):
                threshold = np.append(np.clip(curve.threshold, 0.0, 1.0), 1.0)
                cost = np.append(curve.cost, curve.cost[-1])
                ax.plot(threshold, cost, **line_of(k, plain(name) or None, drawstyle="steps-post"))
            for right in dict.fromkeys(curve.right_threshold for curve in self.curves.values()):
                ax.axvline(right, color=QUIET, lw=1.0, ls=":", label=f"right threshold {right:.3g}")
            for k, curve in enumerate(self.curves.values()):
                mark = mark_of(k, 8, mew=None, color=color_of(k), ls="", zorder=4)
                ax.plot(curve.right_threshold, curve.cost_there, **mark)
            ax.set(xlabel="threshold of the probability", ylabel="mean cost per row", xlim=(0, 1), ylim=(0, None))
            legend_above(ax)
        return self


class RiskCoverageDisplay(CurveDisplay):
    """The risk of decisions against coverage, the share of rows that get one, the most certain first.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]
    >>> display = RiskCoverageDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y)
    >>> display.curves["GaussianClassifier"].risk.tolist()
    [0.0, 0.5]
    """

    @classmethod
    def from_estimator(cls, models: Models, X: Any, y: Any, loss: LossLike = None, *, ax: AxesLike = None) -> Self:
        """Draw the curve of a fitted classifier, or of several ``{name: model}``; ``loss`` as in ``decide``."""
        curves = {name: compute.risk_coverage_curve(model, X, y, loss) for name, model in named(models).items()}
        return cls(curves)._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw risk against coverage; the legend shows the areas."""
        with self._canvas(ax) as (ax,):
            self._lines(ax, "coverage", "risk", "area", "area")
            ax.set(xlabel="coverage: share of rows decided", xlim=(0, 1))
            ax.set(ylabel="risk: their mean loss", ylim=(0.0, None))
        return self
