"""Four classes by softmax regression: straight lines, and the corner where more than two regions meet.

Each region is where one of four linear functions is the largest, so every region is convex.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import DecisionRegionDisplay

rng = np.random.default_rng(0)
centres = np.array([[-2.0, 1.5], [2.0, 2.0], [1.5, -2.0], [-1.5, -1.8]])
X = np.vstack([rng.normal(centre, 0.9, (50, 2)) for centre in centres])
y = np.repeat(["north-west", "north-east", "south-east", "south-west"], 50)

model = LogisticRegression(prior=2.0).fit(X, y)
display = DecisionRegionDisplay.from_estimator(model, X, y)
figure = display.figure_
