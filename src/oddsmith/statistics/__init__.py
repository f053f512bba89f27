"""Statistics: counts, moments, features, gram, curvature, scores … Importing this package registers all of them.

Statistics that a likelihood fit does not use are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oddsmith.kernels.reference import CurvatureParams as CurvatureParams
from oddsmith.statistic import STATISTICS
from oddsmith.statistics.counts import Counts as Counts
from oddsmith.statistics.curvature import Curvature as Curvature
from oddsmith.statistics.curvature import CurvatureDiagonal as CurvatureDiagonal
from oddsmith.statistics.curvature import CurvatureProduct as CurvatureProduct
from oddsmith.statistics.curvature import Gradients as Gradients
from oddsmith.statistics.curvature import Losses as Losses
from oddsmith.statistics.curvature import LossesParams as LossesParams
from oddsmith.statistics.curvature import OwnProduct as OwnProduct
from oddsmith.statistics.moments import Moments as Moments
from oddsmith.statistics.moments import MomentsParams as MomentsParams

if TYPE_CHECKING:
    from oddsmith.statistics.features import Features as Features
    from oddsmith.statistics.features import FeaturesParams as FeaturesParams
    from oddsmith.statistics.gram import Gram as Gram
    from oddsmith.statistics.sample import Sample as Sample
    from oddsmith.statistics.sample import SampleParams as SampleParams
    from oddsmith.statistics.scores import LeverageParams as LeverageParams
    from oddsmith.statistics.scores import LeverageSlope as LeverageSlope
    from oddsmith.statistics.scores import ScoreScatter as ScoreScatter

_MODULES = {
    **{"Features": "features", "FeaturesParams": "features", "Gram": "gram", "Sample": "sample"},
    **{"SampleParams": "sample", "LeverageParams": "scores", "LeverageSlope": "scores", "ScoreScatter": "scores"},
}
for _name in ("features", "gram", "sample"):
    STATISTICS.later(_name, f"oddsmith.statistics.{_name}")
STATISTICS.later("column classes", "oddsmith.statistics.column_classes")
for _name in ("score scatter", "leverage slope"):
    STATISTICS.later(_name, "oddsmith.statistics.scores")


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"oddsmith.statistics.{_MODULES[name]}"), name)
