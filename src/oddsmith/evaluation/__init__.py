"""Proper scores, calibration, curves, comparison: how good a classifier is, and how sure that is."""

from oddsmith.evaluation.class_prior import estimate_class_prior
from oddsmith.evaluation.comparison import Comparison, compare
from oddsmith.evaluation.curves import (
    Curve,
    cost_curve,
    precision_recall_curve,
    reliability_curve,
    risk_coverage_curve,
    roc_curve,
)
from oddsmith.evaluation.recalibration import recalibrate
from oddsmith.evaluation.scoring import Evaluation, evaluate

__all__ = [
    "Comparison",
    "Curve",
    "Evaluation",
    "compare",
    "cost_curve",
    "estimate_class_prior",
    "evaluate",
    "precision_recall_curve",
    "recalibrate",
    "reliability_curve",
    "risk_coverage_curve",
    "roc_curve",
]
