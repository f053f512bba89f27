"""The posterior of two weights after 0, 5 and 60 rows: exact (grey) and Laplace's approximation (lines).

It becomes narrower and more Gaussian with each row. The cross marks the weights that generated the data.
"""

import numpy as np

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import color_of, style

rng = np.random.default_rng(0)
true, scale = np.array([1.5, -1.0]), 2.0
X = rng.normal(size=(60, 2))
t = (rng.random(60) < 1 / (1 + np.exp(-X @ true))) * 1.0

x = np.linspace(-5, 5, 121)
grid = np.stack(np.meshgrid(x, x), axis=-1)
axes = new_axes(1, 3, (7.0, 3.3), sharex=True, sharey=True)
posteriors = {}
with style():
    for ax, n in zip(axes, (0, 5, 60), strict=True):
        A = grid @ X[:n].T
        log = (t[:n] * A - np.logaddexp(0.0, A)).sum(axis=-1) - (grid**2).sum(axis=-1) / (2 * scale**2)
        if n:
            model = LogisticRegression(GaussianPrior(scale), fit_intercept=False).fit(X[:n], t[:n])
            mean, S = model.posterior_.mean[1:], model.posterior_.covariance[1:, 1:]  # the intercept is zero
        else:
            mean, S = np.zeros(2), scale**2 * np.eye(2)
        posteriors[n] = (log - log.max(), mean, S)
        ax.contourf(x, x, np.exp(log - log.max()), levels=np.linspace(0, 1, 11), cmap="Greys")
        away = np.einsum("xyi,ij,xyj->xy", grid - mean, np.linalg.inv(S), grid - mean)
        ax.contour(x, x, away, levels=[1.39, 4.61], colors=color_of(1), linewidths=1.6)  # half and nine tenths
        ax.plot([], [], color=color_of(1), lw=1.6, label="Laplace's Gaussian (50% and 90% inside)")
        ax.plot(*true, "x", color=color_of(2), ms=8, mew=2.2, label="weights that made the data")
        ax.set(title=f"{n} rows", xlabel="w₁", ylabel="w₂", aspect="equal")
        ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
