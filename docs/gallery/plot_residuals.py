"""Residuals reveal a missing quadratic effect: omitted on the left, fitted on the right.

Individual residuals of two classes lie on two curves. Their means in bins stay within two standard errors of zero if
the model is correct.
"""

import numpy as np

from oddsmith import LogisticRegression, Polynomial
from oddsmith.plots import ResidualDisplay, new_axes

rng = np.random.default_rng(2)
X = rng.normal(size=(800, 1))
y = np.where(rng.random(800) < 1 / (1 + np.exp(0.5 - X[:, 0] - 1.2 * X[:, 0] ** 2)), "yes", "no")

axes = np.reshape(new_axes(2, 2, (7.0, 5.0), sharey="row", sharex=True), (2, 2))
linear = LogisticRegression().fit(X, y)
quadratic = LogisticRegression(basis=Polynomial(2)).fit(X, y)
missed = ResidualDisplay.from_estimator(linear, X, y, ax=axes[:, 0])
fitted = ResidualDisplay.from_estimator(quadratic, X, y).plot(axes[:, 1], legend=False)
for ax in axes.ravel():
    ax.label_outer()
figure = missed.figure_
