"""ROC and precision–recall curves of two models on held-out rows.

If one curve is above another everywhere, its model ranks better; grey lines are random guessing.
"""

import numpy as np
from sklearn.datasets import make_classification

from oddsmith import LogisticRegression, Polynomial
from oddsmith.plots import PrecisionRecallDisplay, RocDisplay, new_axes

X, y = make_classification(
    1200, 4, n_informative=4, n_redundant=0, n_clusters_per_class=2, weights=[0.8], random_state=3
)
labels = np.array(["no", "yes"])[y]
models = {
    "linear": LogisticRegression(prior=1.0).fit(X[:600], labels[:600]),
    "quadratic": LogisticRegression(prior=1.0, basis=Polynomial(2)).fit(X[:600], labels[:600]),
}
left, right = new_axes(1, 2, (6.6, 3.9))
roc = RocDisplay.from_estimator(models, X[600:], labels[600:], ax=left)
precision = PrecisionRecallDisplay.from_estimator(models, X[600:], labels[600:], ax=right)
figure = left.figure
