"""A profile likelihood is not a parabola: its interval is asymmetric.

Wald's interval uses only the curvature at the estimate. With few rows, the likelihood-ratio interval is more reliable.
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
