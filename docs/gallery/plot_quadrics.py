"""A covariance for each class: the boundary is an ellipse around the narrower class, a hyperbola, or a parabola.

The sign of the determinant of the quadratic part determines which: positive, negative, or near zero.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

rng = np.random.default_rng(4)
ways = {  # standard deviations of both classes, and the mean of the second
    "ellipse": ((1.6, 1.4), (0.6, 0.7), (0.3, 0.3)),
    "hyperbola": ((1.9, 0.6), (0.45, 0.9), (0.0, 0.3)),
    "parabola": ((0.7, 0.7), (0.7, 1.6), (2.2, 0.0)),
}
axes = new_axes(1, 3, (7.0, 2.9))
displays, models = {}, {}
for ax, (name, (first, second, centre)) in zip(axes, ways.items(), strict=True):
    noise = rng.normal(size=(2, 60, 2))
    noise -= noise.mean(axis=1, keepdims=True)
    if name == "parabola":
        noise /= noise.std(axis=1, keepdims=True)  # exactly as broad in x0
    X = np.vstack([noise[0] * first, noise[1] * second + centre])
    y = np.repeat(["A", "B"], 60)
    models[name] = GaussianClassifier("diagonal").fit(X, y)
    displays[name] = DecisionRegionDisplay.from_estimator(models[name], X, y).plot(ax, legend=False, title=name)
figure_legend(axes[0])
figure = axes[0].figure
