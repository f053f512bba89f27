"""Several classes, worked through: four separable ones, and three with a quadratic expansion, without and with a prior.

Regions, the posterior map of each class (white is high) and the log likelihood against the iteration. With maximum
likelihood, the maps of the expansion are black and white, which is overconfident; a prior of scale σ = 2 gives smoother
maps and a slightly lower likelihood.
"""

import warnings

import numpy as np

from oddsmith import LogisticRegression, Polynomial
from oddsmith.errors import SeparationWarning
from oddsmith.lectures.algorithms import softmax_newton, with_ones
from oddsmith.numerics import log_softmax
from oddsmith.plots import DecisionRegionDisplay, PosteriorMapDisplay, new_axes
from oddsmith.plots.style import color_of, style

rng = np.random.default_rng(11)
four = np.vstack([rng.normal(centre, 0.75, (60, 2)) for centre in ([-1.5, 1.4], [1.5, 1.5], [-1.4, -1.5], [1.6, -1.4])])
angle, radius = rng.uniform(0, 2 * np.pi, 180), np.repeat([0.0, 1.3, 2.6], 60) + np.abs(rng.normal(0.3, 0.2, 180))
rings = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
four_labels, ring_labels = np.repeat(["C1", "C2", "C3", "C4"], 60), np.repeat(["C1", "C2", "C3"], 60)

examples = {
    "four classes": (four, four_labels, None, None),
    "three, linear": (rings, ring_labels, None, None),
    "three, quadratic": (rings, ring_labels, Polynomial(2), None),
    "with σ = 2": (rings, ring_labels, Polynomial(2), 2.0),
}
axes = np.reshape(new_axes(4, 6, (7.8, 5.8)), (4, 6))
models, maps, values = {}, {}, {}
limits = ((-3.6, 3.6), (-3.6, 3.6))
for row, (name, (X, y, basis, prior)) in zip(axes, examples.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)  # so are the rings, expanded
        models[name] = LogisticRegression(prior, basis=basis, solver="newton").fit(X, y)
    some = np.arange(len(X)) % 3 == 0
    DecisionRegionDisplay.from_estimator(models[name], X[some], y[some], limits=limits).plot(row[0], legend=False)
    maps[name] = PosteriorMapDisplay.from_estimator(models[name], X, limits=limits)
    for ax, label in zip(row[1:5], models[name].classes_, strict=False):
        maps[name].plot(ax, label=label, samples=False)
    values[name] = models[name].trace_.log_likelihood
    if prior is None:
        Phi, T = with_ones(X if basis is None else basis.fit(X).transform(X)), (y[:, None] == np.unique(y)) * 1
        path = softmax_newton(Phi, T, np.zeros((T.shape[1], Phi.shape[1])), 1e-8, max_iter=8).weights
        values[name] = np.array([np.sum(log_softmax(Phi @ W.T) * T) for W in path])
    with style():
        for ax in row[:5]:
            ax.set(aspect="equal", xlabel="", ylabel="", xticks=[-2, 0, 2], yticks=[-2, 0, 2])
        row[0].set_ylabel("x2")
        row[0].set_title(name)
        row[5].plot(values[name], "o-", color=color_of(0), ms=3, lw=1.2)
        row[5].set_title("log likelihood")
    row[5].set(ylim=(-350, 15))
    row[5].yaxis.set_label_position("right")
for ax in axes[-1]:
    ax.set_xlabel("x1")
axes[-1, 5].set_xlabel("iteration")
for row in axes[1:]:
    row[4].remove()
axes[0, 4].set_xlabel("x1")
figure = axes[0, 0].figure
