"""The reliability diagram: naive Bayes is overconfident, logistic regression is calibrated.

Naive Bayes counts correlated columns twice. The bands are intervals of the frequency, given the rows in a bin.
"""

import numpy as np

from oddsmith import LogisticRegression, NaiveBayes
from oddsmith.plots import ReliabilityDisplay

rng = np.random.default_rng(0)
y = np.arange(4000) % 2
shared = rng.normal(size=(4000, 1)) + 0.8 * y[:, None]
X = shared + 0.5 * rng.normal(size=(4000, 6))
train, test = slice(0, 2000), slice(2000, None)

models = {"naive Bayes": NaiveBayes(), "logistic": LogisticRegression()}
models = {name: model.fit(X[train], y[train]) for name, model in models.items()}
display = ReliabilityDisplay.from_estimator(models, X[test], y[test])
figure = display.figure_
