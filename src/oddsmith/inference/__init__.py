"""What can be said about the weights: separation now; errors, posterior and evidence to come."""

from oddsmith.inference.separation import Separation, detect_separation

__all__ = ["Separation", "detect_separation"]
