"""Models side by side: how much worse than the best one, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from oddsmith.evaluation.comparison import NOISE, Comparison, compare
from oddsmith.numerics import Array
from oddsmith.plots.style import QUIET, AxesLike, Display, Look, color_of, legend_above, plain

VERDICTS = {"best": (0, "o"), "within noise": (1, "s"), "worse": (2, "^")}
WORDS = {"log_loss": "log loss", "brier": "Brier score", "error": "share of errors"}


@dataclass(eq=False, kw_only=True)
class ComparisonDisplay(Display):
    """The difference of each model's score from the best one's, with its interval, and a verdict.

    Attributes
    ----------
    models, verdicts : lists of str, the best first
    difference, std_error : arrays
        Of the score, from the best model's, over the same rows; NaN where there is none.
    accuracy : array
    by : str
        The score.

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
        """Take what `compare` returned."""
        table = comparison.to_dict()
        columns = {name: np.asarray(table[name], dtype=np.float64) for name in ("difference", "std_error", "accuracy")}
        return cls(models=list(table["model"]), verdicts=list(table["verdict"]), by=comparison.by, **columns)

    @classmethod
    def from_models(cls, models: object, X: Any, y: Any, **options: Any) -> Self:
        """Compare models and take the result; arguments as in `compare`."""
        return cls.from_comparison(compare(models, X, y, **options))

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the models from top to bottom, the best first, with their accuracies beside them."""
        place = -np.arange(len(self.models), dtype=np.float64)
        with self._canvas(ax, size=(6.4, 1.3 + 0.3 * len(self.models))) as (ax,):
            ax.axvline(0.0, color=QUIET, lw=0.8, zorder=0)
            for verdict, (k, marker) in VERDICTS.items():
                own = np.array([v == verdict for v in self.verdicts])
                if own.any():
                    look: Look = {"ms": 6, "mec": "white", "mew": 0.6, "elinewidth": 1.4}
                    half = NOISE * self.std_error[own]
                    x, y = self.difference[own], place[own]
                    ax.errorbar(x, y, xerr=half, fmt=marker, color=color_of(k), label=verdict, **look)
            side: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 9}
            for i in np.flatnonzero(~np.isfinite(self.difference)):
                ax.text(0.99, place[i], self.verdicts[i], ha="right", color=QUIET, **side)
            for at, value in zip(place, self.accuracy, strict=True):
                text = "" if np.isnan(value) else f"{100 * value:.1f}%"
                ax.text(1.02, at, text, **side)
            ax.text(1.02, 0.75, "accuracy", color=QUIET, **side)
            ax.set_yticks(place, [plain(name) for name in self.models])
            ax.set_ylim(place[-1] - 0.6, 0.6)
            ax.set_xlabel(f"{WORDS.get(self.by, self.by)} of a row, above that of the best")
            ax.tick_params(axis="y", length=0)
            ax.spines["left"].set_visible(False)
            legend_above(ax)
        return self
