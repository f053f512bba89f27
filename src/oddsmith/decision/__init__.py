"""What to do with a posterior: loss matrix, reject option, class-prior shift, calibration maps.

Numbers in, numbers out: nothing here knows a model, so that models can have these as methods.
"""

from oddsmith.decision.actions import REJECT, DecisionRegions, decide, decision_regions, expected_loss, threshold_for
from oddsmith.decision.loss import LossMatrix

__all__ = ["REJECT", "DecisionRegions", "LossMatrix", "decide", "decision_regions", "expected_loss", "threshold_for"]
