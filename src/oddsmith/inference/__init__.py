"""Statistical inference from the record of a fit: standard errors, tests, intervals, posterior, leave-one-out."""

from oddsmith.inference.hypotheses import ChiSquareTest, DropOne
from oddsmith.inference.margins import MarginalEffects
from oddsmith.inference.residuals import Diagnostics
from oddsmith.inference.summary import Summary
from oddsmith.likelihood.separation import Separation, detect_separation

__all__ = ["ChiSquareTest", "Diagnostics", "DropOne", "MarginalEffects", "Separation", "Summary", "detect_separation"]
