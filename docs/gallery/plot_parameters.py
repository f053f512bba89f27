"""The number of parameters for two classes of D columns, and the error that they achieve.

Left: densities need O(D²) parameters, the boundary alone D + 1. Right: on Gaussian classes, where its assumptions hold,
the generative model needs fewer rows; both reach the same error.
"""

import numpy as np
from scipy.special import ndtr

from oddsmith import GaussianClassifier, LogisticRegression
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import QUIET, color_of, dashes_of, marker_of, style

rng = np.random.default_rng(0)
models = {
    "Gaussian classes": GaussianClassifier("shared"),
    "logistic regression": LogisticRegression(prior=10.0),
}
dimensions = np.array([1, 2, 5, 10, 15, 20])
counts = {
    name: [model.fit(rng.normal(size=(60, D)), np.arange(60) % 2).n_parameters_ for D in dimensions]
    for name, model in models.items()
}

D, sizes = 10, np.array([30, 50, 100, 300, 1000])
shift = np.full(D, 3.0 / np.sqrt(D))  # the means are three standard deviations apart
best = ndtr(-1.5)


def error(model, n):
    """Mean over twenty fits to n rows of the error, which is known: each class is Gaussian across the boundary."""
    y, found = np.arange(n) % 2, []
    for seed in range(20):
        boundary = model.fit(np.random.default_rng(seed).normal(size=(n, D)) + np.outer(y, shift), y).boundary_
        found.append(0.5 * ndtr(boundary.offset) + 0.5 * ndtr(-boundary.offset - boundary.normal @ shift))
    return float(np.mean(found))


errors = {name: [error(model, n) for n in sizes] for name, model in models.items()}
left, right = new_axes(1, 2, (7.0, 3.4))
with style():
    for k, name in enumerate(models):
        look = {"color": color_of(k), "ls": dashes_of(k), "marker": marker_of(k), "ms": 5, "label": name}
        left.plot(dimensions, counts[name], **look)
        right.plot(sizes, errors[name], **look)
    right.axhline(best, color=QUIET, lw=0.8)
    right.annotate(
        "the best possible", (sizes[-1], best), (0, -11), textcoords="offset points", ha="right", color=QUIET
    )
    left.set(xlabel="columns D", ylabel="parameters")
    right.set(xlabel="rows of the fit (D = 10)", ylabel="error on new rows", xscale="log", ylim=(0.055, None))
figure_legend(left)
figure = left.figure
