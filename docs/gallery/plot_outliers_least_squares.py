"""Rows far on the correct side rotate the boundary of least squares, but not of logistic regression.

Least squares penalises an activation of seven for a target of one as much as an activation of minus five.
"""

import numpy as np

from oddsmith import LeastSquaresClassifier, LogisticRegression
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

rng = np.random.default_rng(0)
X = np.vstack([rng.normal([-1.5, 1.5], 0.8, (80, 2)), rng.normal([1.5, -1.5], 0.8, (80, 2))])
y = np.repeat(["left", "right"], 80)
X_far = np.vstack([X, rng.normal([9.0, -12.0], 0.5, (25, 2))])
y_far = np.append(y, ["right"] * 25)

axes = new_axes(2, 2, (6.4, 5.6))
boundaries, displays = {}, {}
for row, make in enumerate((LeastSquaresClassifier, lambda: LogisticRegression(prior=3.0))):
    for column, (rows, labels) in enumerate(((X, y), (X_far, y_far))):
        model = make().fit(rows, labels)
        limits = None if column else ((-5, 5), (-5, 5))
        shown = DecisionRegionDisplay.from_estimator(model, rows, labels, limits=limits)
        name = "least squares" if row == 0 else "logistic regression"
        errors = int((model.predict(X) != y).sum())
        shown.plot(axes[2 * row + column], legend=False, title=f"{name}: {errors} of 160 wrong")
        boundaries[name, column], displays[name, column] = model.boundary_, shown
figure_legend(axes[0])
figure = axes[0].figure
