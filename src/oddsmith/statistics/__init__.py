"""What is summed: counts, moments, features, gram, curvature, scores … Importing registers them all."""

from oddsmith.kernels.reference import CurvatureParams as CurvatureParams
from oddsmith.statistics.counts import Counts as Counts
from oddsmith.statistics.curvature import Curvature as Curvature
from oddsmith.statistics.curvature import CurvatureDiagonal as CurvatureDiagonal
from oddsmith.statistics.curvature import CurvatureProduct as CurvatureProduct
from oddsmith.statistics.curvature import Losses as Losses
from oddsmith.statistics.curvature import LossesParams as LossesParams
from oddsmith.statistics.features import Features as Features
from oddsmith.statistics.features import FeaturesParams as FeaturesParams
from oddsmith.statistics.gram import Gram as Gram
from oddsmith.statistics.moments import Moments as Moments
from oddsmith.statistics.moments import MomentsParams as MomentsParams
from oddsmith.statistics.sample import Sample as Sample
from oddsmith.statistics.sample import SampleParams as SampleParams
from oddsmith.statistics.scores import LeverageParams as LeverageParams
from oddsmith.statistics.scores import LeverageSlope as LeverageSlope
from oddsmith.statistics.scores import ScoreScatter as ScoreScatter
