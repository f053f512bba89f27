"""Two Gaussian classes with a shared covariance: the boundary is a line, not perpendicular to that of the means.

The ellipses contain 50% and 90% of each class. The weights are the inverse covariance times the difference of the
means.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.plots import DecisionRegionDisplay
from oddsmith.plots.style import INK, color_of, legend_above, style

rng = np.random.default_rng(3)
root = np.linalg.cholesky(np.array([[1.0, 0.8], [0.8, 1.0]]))
X = np.vstack([rng.normal(size=(120, 2)) @ root.T + centre for centre in ([0.0, 0.0], [2.2, 0.6])])
y = np.repeat(["C0", "C1"], 120)

model = GaussianClassifier("shared").fit(X, y)
display = DecisionRegionDisplay.from_estimator(model, X, y).plot(legend=False)
circle = np.column_stack([np.cos(t := np.linspace(0, 2 * np.pi, 200)), np.sin(t)])
spread = np.linalg.cholesky(model.covariances_[0])
ellipses = {}
with style():
    for k, mean in enumerate(model.means_):
        for share in (0.5, 0.9):
            ellipses[k, share] = mean + np.sqrt(-2 * np.log(1 - share)) * circle @ spread.T
            display.ax_.plot(*ellipses[k, share].T, color=color_of(k), lw=1.6)
    display.ax_.plot(*model.means_.T, color=INK, ls="--", lw=1.2, marker="+", ms=10, mew=2, label="means")
    legend_above(display.ax_)
display.ax_.set_aspect("equal")
figure = display.figure_
