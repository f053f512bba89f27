"""What is summed: counts, moments, features, gram, curvature, losses … Importing registers them all."""

from oddsmith.kernels.reference import CurvatureParams
from oddsmith.statistics.counts import Counts
from oddsmith.statistics.curvature import Curvature, CurvatureDiagonal, CurvatureProduct
from oddsmith.statistics.features import Features, FeaturesParams
from oddsmith.statistics.gram import Gram
from oddsmith.statistics.losses import Losses, LossesParams
from oddsmith.statistics.moments import Moments, MomentsParams
from oddsmith.statistics.sample import Sample, SampleParams
from oddsmith.statistics.scores import LeverageParams, LeverageSlope, ScoreScatter

__all__ = [
    "Counts",
    "Curvature",
    "CurvatureDiagonal",
    "CurvatureParams",
    "CurvatureProduct",
    "Features",
    "FeaturesParams",
    "Gram",
    "LeverageParams",
    "LeverageSlope",
    "Losses",
    "LossesParams",
    "Moments",
    "MomentsParams",
    "Sample",
    "SampleParams",
    "ScoreScatter",
]
