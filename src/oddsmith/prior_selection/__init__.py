"""The scale of a prior, chosen by the evidence, by leave-one-out or by cross-validation."""
