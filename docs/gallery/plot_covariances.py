"""Gaussian classes: one covariance for all, one for each, and one shared by two classes.

Boundaries are straight between classes that share a covariance, and quadrics otherwise. The number of parameters is in
parentheses.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

rng = np.random.default_rng(7)
wide, round_, small = np.array([[1.3, 0.9], [0.0, 0.6]]), np.array([[0.8, -0.3], [0.0, 1.1]]), 0.45 * np.eye(2)
X = np.vstack(
    [
        rng.normal(size=(70, 2)) @ wide + [-1.5, -1.0],
        rng.normal(size=(70, 2)) @ round_ + [1.7, -1.6],
        rng.normal(size=(70, 2)) @ small + [0.2, 0.9],
    ]
)
y = np.repeat(["A", "B", "C"], 70)

axes = new_axes(1, 3, (7.0, 2.9), sharex=True, sharey=True)
displays = {}
ways = {"shared": "shared", "separate": "separate", "A and B share": {"A": 0, "B": 0, "C": 1}}
for ax, (name, covariance) in zip(axes, ways.items(), strict=True):
    model = GaussianClassifier(covariance).fit(X, y)
    title = f"{name} ({model.n_parameters_})"
    displays[name] = DecisionRegionDisplay.from_estimator(model, X, y).plot(ax, legend=False, title=title)
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
