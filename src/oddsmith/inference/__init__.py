"""What can be said about weights and classes, from numbers alone: errors, tests, intervals, posterior, separation."""

from oddsmith.inference.hypotheses import ChiSquareTest, DropOne
from oddsmith.inference.margins import MarginalEffects
from oddsmith.inference.residuals import Diagnostics
from oddsmith.inference.separation import Separation, detect_separation
from oddsmith.inference.summary import Summary

__all__ = [
    "ChiSquareTest",
    "Diagnostics",
    "DropOne",
    "MarginalEffects",
    "Separation",
    "Summary",
    "detect_separation",
]
