"""Another class prior moves the boundary parallel to itself.

The class densities stay the same; only a constant is added to the log odds.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.plots import DecisionRegionDisplay
from oddsmith.plots.style import QUIET, dashes_of, legend_above, style

rng = np.random.default_rng(4)
S = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]]))
X = np.vstack([rng.normal(size=(100, 2)) @ S.T, rng.normal(size=(100, 2)) @ S.T + [2.0, -0.6]])
y = np.repeat(["rare", "usual"], 100)

model = GaussianClassifier("shared").fit(X, y)
display = DecisionRegionDisplay.from_estimator(model, X, y).plot(legend=False)
boundaries = {}
with style():
    for k, share in enumerate((0.1, 0.01, 0.001)):
        other = model.with_class_prior({"rare": share, "usual": 1.0 - share})
        normal, offset = other.boundary_.normal, other.boundary_.offset
        x = display.x[[0, -1]]
        display.ax_.plot(
            x,
            -(offset + normal[0] * x) / normal[1],
            color=QUIET,
            ls=dashes_of(k + 1),
            lw=1.4,
            label=f"prior {share:g} of rare",
        )
        boundaries[share] = other.boundary_
    legend_above(display.ax_)
figure = display.figure_
