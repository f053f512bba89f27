"""What to do with a posterior: loss matrix, reject option, class-prior shift, calibration maps.

Numbers in, numbers out: nothing here knows a model, so that models can have these as methods.
"""

from oddsmith.decision.acting import (
    REJECT,
    DecisionRegions,
    decide,
    decide_by,
    decision_regions,
    expected_loss,
    mark,
    threshold_for,
)
from oddsmith.decision.calibration import METHODS, IsotonicMap, LinearMap, fit_linear, fit_map, influence
from oddsmith.decision.class_prior import ClassPrior, estimate_prior, read_class_prior, read_rates, shift_log_proba
from oddsmith.decision.loss import LossMatrix, read_loss, read_probabilities, read_reject

__all__ = [
    "REJECT",
    "DecisionRegions",
    "LossMatrix",
    "decide",
    "decide_by",
    "decision_regions",
    "expected_loss",
    "mark",
    "read_loss",
    "read_probabilities",
    "read_reject",
    "threshold_for",
    "ClassPrior",
    "estimate_prior",
    "read_class_prior",
    "read_rates",
    "shift_log_proba",
    "METHODS",
    "IsotonicMap",
    "LinearMap",
    "fit_linear",
    "fit_map",
    "influence",
]
