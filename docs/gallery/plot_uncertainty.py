"""The predictive distribution is uncertain where there was no data.

Bright means uncertain: along the boundary, and increasingly so far from the samples. The lines are probabilities with
the weights integrated out; they fan out, whereas a single weight vector would give parallel lines.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import UncertaintyMapDisplay

rng = np.random.default_rng(6)
X = np.vstack([rng.normal([-1.0, -0.5], 0.7, (25, 2)), rng.normal([1.0, 0.5], 0.7, (25, 2))])
y = np.repeat(["no", "yes"], 25)

model = LogisticRegression(prior=3.0).fit(X, y)
display = UncertaintyMapDisplay.from_estimator(model, X, y, limits=((-5, 5), (-4, 4)))
figure = display.figure_
