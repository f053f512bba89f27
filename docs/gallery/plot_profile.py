"""The profile of a likelihood is no parabola: its interval is longer on one side.

Wald's interval takes the curvature at the estimate for the whole. With few rows the likelihood-ratio interval is the
one to trust.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import ProfileDisplay

rng = np.random.default_rng(11)
X = rng.normal(size=(25, 1))
y = rng.random(25) < 1 / (1 + np.exp(-1.0 - 2.0 * X[:, 0]))

model = LogisticRegression().fit(X, y)
display = ProfileDisplay.from_estimator(model, X, y, "x0")
figure = display.figure_
