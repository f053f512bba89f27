"""The perceptron finds any separating line; logistic regression with a prior has a unique optimum.

On the left, each order of the rows gives a different boundary. The boundary on the right does not depend on the order.
"""

import numpy as np

from oddsmith import LogisticRegression, PerceptronClassifier
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes
from oddsmith.plots.style import INK

rng = np.random.default_rng(12)
X = np.vstack([rng.normal([-1.3, 0.8], 0.6, (40, 2)), rng.normal([1.3, -0.8], 0.6, (40, 2))])
y = np.repeat(["left", "right"], 40)

left, right = new_axes(1, 2, (6.6, 3.4), sharey=True)
perceptrons = [PerceptronClassifier(seed=seed).fit(X, y) for seed in range(8)]
walked = DecisionRegionDisplay.from_estimator(perceptrons[0], X, y)
walked.plot(left, legend=False, title="perceptron, 8 orders")
for model in perceptrons[1:]:
    normal, offset = model.boundary_.normal, model.boundary_.offset
    left.axline(-offset * normal, slope=-normal[0] / normal[1], color=INK, lw=0.8, ls="--")

orders = [rng.permutation(80) for _ in range(8)]
logistic = [LogisticRegression(prior=2.0).fit(X[order], y[order]) for order in orders]
best = DecisionRegionDisplay.from_estimator(logistic[0], X, y).plot(right, legend=False, title="logistic regression")
right.label_outer()
figure_legend(left)
figure = left.figure
