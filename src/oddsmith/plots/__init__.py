"""Figures in scikit-learn's convention: ``X.from_estimator(…, ax=None)`` draws, ``.plot(ax=None)`` draws again.

Nothing is shown or saved. Constructors that take existing results (``from_curve``, ``from_summary``, …) do not draw:
call ``.plot()``.

>>> from oddsmith import GaussianClassifier
>>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
>>> model = GaussianClassifier("spherical").fit(X, y)
>>> display = DecisionRegionDisplay.from_estimator(model, X, y)
>>> display.class_at(3, 3)
'b'
"""

from oddsmith.plots.curves import (
    CostDisplay,
    PrecisionRecallDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    RocDisplay,
)
from oddsmith.plots.densities import ClassDensityDisplay, LaplaceDisplay
from oddsmith.plots.forest_plots import CoefficientDisplay, ComparisonDisplay
from oddsmith.plots.links import LinkDisplay
from oddsmith.plots.maps import DecisionRegionDisplay, PosteriorMapDisplay, UncertaintyMapDisplay
from oddsmith.plots.profile import ProfileDisplay
from oddsmith.plots.residuals import InfluenceDisplay, ResidualDisplay
from oddsmith.plots.style import Display, figure_legend, new_axes, style
from oddsmith.plots.traces import PathDisplay, TraceDisplay
from oddsmith.plots.weight_paths import (
    CrossValidationDisplay,
    StabilityDisplay,
    WeightPathDisplay,
    cv_curve,
    path,
    stability,
)
from oddsmith.plots.widths import WidthDisplay

__all__ = [
    "ClassDensityDisplay",
    "CoefficientDisplay",
    "ComparisonDisplay",
    "CostDisplay",
    "CrossValidationDisplay",
    "DecisionRegionDisplay",
    "Display",
    "InfluenceDisplay",
    "LaplaceDisplay",
    "LinkDisplay",
    "PathDisplay",
    "PosteriorMapDisplay",
    "PrecisionRecallDisplay",
    "ProfileDisplay",
    "ReliabilityDisplay",
    "ResidualDisplay",
    "RiskCoverageDisplay",
    "RocDisplay",
    "StabilityDisplay",
    "TraceDisplay",
    "UncertaintyMapDisplay",
    "WeightPathDisplay",
    "WidthDisplay",
    "cv_curve",
    "figure_legend",
    "new_axes",
    "path",
    "stability",
    "style",
]
