"""Influential rows: far from the other rows (leverage), and poorly predicted (residual).

The area shows Cook's distance, how far the weights move without the row. Row 0 was added by hand.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import InfluenceDisplay

rng = np.random.default_rng(3)
X = rng.normal(size=(120, 2))
y = rng.random(120) < 1 / (1 + np.exp(-1.5 * X[:, 0] + X[:, 1]))
X[0], y[0] = [3.0, 1.2], False

model = LogisticRegression().fit(X, np.where(y, "yes", "no"))
display = InfluenceDisplay.from_estimator(model, X, np.where(y, "yes", "no"))
figure = display.figure_
