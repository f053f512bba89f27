"""Stochastic gradient descent is noisy, but reaches the neighbourhood of the optimum in one pass over the data.

Both start at the same point and use every row once: four hundred steps of one row each, or one step of all rows. The
cross is the optimum, around which the small steps continue.
"""

import numpy as np

from oddsmith import gradient_descent
from oddsmith.links import LINKS
from oddsmith.plots import PathDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.5], [0.0, 0.9]])
sigmoid = LINKS["logit"].inverse
t = (rng.random(400) < sigmoid(X @ [1.5, -1.0])) * 1.0


def f(w):
    """Mean cross-entropy."""
    return np.mean(np.logaddexp(0.0, X @ w) - t * (X @ w))


def gradient(w):
    """Mean of (y − t) φ."""
    return X.T @ (sigmoid(X @ w) - t) / len(X)


start = np.array([-1.5, 1.0])
steps = [start]
for i, n in enumerate(rng.permutation(400)):
    error = sigmoid(np.asarray(X[n] @ steps[-1])) - t[n]
    steps.append(steps[-1] - 0.8 / (1 + i / 60) * error * X[n])
batch = gradient_descent(f, gradient, start, step_size=4.0, max_iter=1)
optimum = gradient_descent(f, gradient, start, step_size=2.0, tol=1e-8)
paths = {"all rows at once": batch.path, "one row at a time": np.array(steps)}
display = PathDisplay.from_paths(f, paths, optimum=optimum.x).plot()
figure = display.figure_
