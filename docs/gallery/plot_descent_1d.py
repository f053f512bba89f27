"""Gradient descent in one dimension: short steps are slow, good ones converge, long ones oscillate.

The function is the cross-entropy of a logistic regression with one weight. Its slope at each point determines the
direction and length of the step.
"""

import numpy as np

from oddsmith.lectures.algorithms import batch_gradient
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, color_of, mark_of, style

x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
t = np.array([0, 0, 1, 0, 1, 1])


def E(w):
    """Cross-entropy at each of several weights."""
    a = np.outer(w, x)
    return (np.logaddexp(0.0, a) - t * a).sum(axis=1)


steps = {0.08: "too short", 0.5: "good", 3.0: "too long"}
paths = {eta: batch_gradient(x[:, None], t, [0.0], eta, 1e-9, max_iter=12).weights[:, 0] for eta in steps}
w = np.linspace(-0.8, 8.2, 300)
axes = new_axes(1, 3, (7.0, 3.0), sharex=True, sharey=True)
with style():
    for ax, (eta, path) in zip(axes, paths.items(), strict=True):
        ax.plot(w, E(w), color=INK, lw=1.2)
        ax.plot(path, E(path), color=color_of(0), lw=1.0, **mark_of(0, 5))
        ax.annotate("start", (path[0], E(path[:1])[0]), (8, 0), textcoords="offset points")
        ax.set(title=f"η = {eta}: {steps[eta]}", xlabel="w", ylabel="E(w)")
        ax.label_outer()
figure = axes[0].figure
