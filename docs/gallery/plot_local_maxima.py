"""Gradient ascent finds the nearest maximum: two starts lead to two maxima, one higher than the other.

The function is a sum of two Gaussians. The log likelihood of logistic regression is concave: every start leads to its
only maximum.
"""

import numpy as np

from oddsmith import gradient_descent
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, color_of, dashes_of, legend_above, mark_of, style

CENTRES, HEIGHTS, WIDTHS = np.array([[-1.0, -0.6], [1.1, 0.8]]), np.array([0.6, 1.0]), np.array([0.7, 0.8])


def f(x):
    """The sum of two bumps, upside down: its minima are their tops."""
    return -np.sum(HEIGHTS * np.exp(-0.5 * np.sum((x - CENTRES) ** 2, axis=1) / WIDTHS**2))


def gradient(x):
    """Its gradient."""
    bumps = HEIGHTS * np.exp(-0.5 * np.sum((x - CENTRES) ** 2, axis=1) / WIDTHS**2)
    return np.sum((bumps / WIDTHS**2)[:, None] * (x - CENTRES), axis=0)


starts = {"start 1": [-1.9, 0.8], "start 2": [0.2, 1.9]}
found = {name: gradient_descent(f, gradient, start, step_size=0.25, tol=1e-6) for name, start in starts.items()}

(ax,) = new_axes(1, 1, (5.6, 4.6))
grid = np.linspace(-2.6, 2.8, 120)
heights = np.array([[-f(np.array([a, b])) for a in grid] for b in grid])
with style():
    ax.contour(grid, grid, heights, 12, colors="#DD9944", linewidths=0.8)
    for k, (name, result) in enumerate(found.items()):
        label = f"{name}: height {-result.value:.2f}"
        ax.plot(*result.path.T, color=color_of(2 * k), ls=dashes_of(k), lw=1.3, label=label, **mark_of(k, 5, mew=0.4))
        ax.plot(*result.path[0], "o", ms=9, mfc="none", mec=INK)
    ax.set(xlabel="z₁", ylabel="z₂", aspect="equal")
    legend_above(ax)
figure = ax.figure
