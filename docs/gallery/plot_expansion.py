"""Linearly separable and inseparable classes, without and with a quadratic expansion.

If a line is enough, the expansion changes little. No line separates a ring from its centre, but a quadratic does.
Percentages: accuracy on the samples.
"""

import numpy as np

from oddsmith import LogisticRegression, Polynomial
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

rng = np.random.default_rng(3)
line = np.vstack([rng.normal([-1.2, -0.8], 0.6, (60, 2)), rng.normal([1.2, 0.8], 0.6, (60, 2))])
angle, radius = rng.uniform(0, 2 * np.pi, 120), np.repeat([0.0, 2.2], 60) + np.abs(rng.normal(0.5, 0.3, 120))
ring = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
y = np.repeat(["A", "B"], 60)

axes = new_axes(2, 2, (6.0, 6.2))
displays = {}
for i, (data, X) in enumerate({"separable": line, "not separable": ring}.items()):
    for j, (how, basis) in enumerate({"linear": None, "quadratic": Polynomial(2)}.items()):
        model = LogisticRegression(prior=2.0, basis=basis).fit(X, y)
        title = f"{data}, {how}: {100 * model.score(X, y):.0f}%"
        shown = DecisionRegionDisplay.from_estimator(model, X, y, limits=((-3.4, 3.4), (-3.4, 3.4)))
        displays[data, how] = shown.plot(axes[2 * i + j], legend=False, title=title)
        axes[2 * i + j].set_aspect("equal")
figure_legend(axes[0])
figure = axes[0].figure
