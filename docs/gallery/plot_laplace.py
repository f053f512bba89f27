"""Laplace's approximation: a Gaussian at the mode, with the curvature there.

The density is a Gaussian times a sigmoid, which is skewed. The negative logarithm of the approximation is a parabola
that touches that of the density at the mode.
"""

import numpy as np

from oddsmith.plots import LaplaceDisplay


def log_density(z):
    """Log of exp(−z²/2) σ(20 z + 4), up to a constant."""
    return -0.5 * z**2 - np.logaddexp(0.0, -(20.0 * z + 4.0))


display = LaplaceDisplay.from_density(log_density, start=1.0, limits=(-2.0, 4.0), name="z").plot()
figure = display.figure_
