"""Proper scores, calibration, curves, comparison: how good a classifier is, and how sure that is."""

from oddsmith.evaluation.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
