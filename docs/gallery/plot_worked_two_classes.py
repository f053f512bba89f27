"""Two classes, worked through: regions, posterior maps and the log likelihood of each fit.

Separable classes get sharp boundaries (the likelihood rewards certainty, and has no maximum); classes that no line
separates get weak posteriors and a poor likelihood; a quadratic expansion separates these.
"""

import warnings

import numpy as np

from oddsmith import LogisticRegression, Polynomial
from oddsmith.errors import SeparationWarning
from oddsmith.lectures.algorithms import irls, with_ones
from oddsmith.plots import DecisionRegionDisplay, PosteriorMapDisplay, new_axes
from oddsmith.plots.style import color_of, style

rng = np.random.default_rng(5)
apart = np.vstack([rng.normal([-1.6, -1.2], 0.45, (400, 2)), rng.normal([1.4, 1.2], 0.45, (400, 2))])
angle, radius = rng.uniform(0, 2 * np.pi, 800), np.repeat([0.0, 2.3], 400) + np.abs(rng.normal(0.4, 0.25, 800))
ring = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
y = np.repeat(["C1", "C2"], 400)


def log_likelihood(a, t):
    """Return the sum of ln p(t | a) over the rows."""
    return float(np.sum(t * a - np.logaddexp(0.0, a)))


examples = {"separable": (apart, None), "not separable": (ring, None), "expanded": (ring, Polynomial(2))}
axes = np.reshape(new_axes(3, 4, (8.0, 6.0)), (3, 4))
models, maps, values = {}, {}, {}
for row, (name, (X, basis)) in zip(axes, examples.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)  # this is what the first row is about
        models[name] = LogisticRegression(basis=basis, solver="newton").fit(X, y)
    some = np.arange(len(X)) % 8 == 0
    limits = ((-3.4, 3.4), (-3.4, 3.4))
    DecisionRegionDisplay.from_estimator(models[name], X[some], y[some], limits=limits).plot(row[0], legend=False)
    maps[name] = PosteriorMapDisplay.from_estimator(models[name], X, limits=limits)
    for ax, label in zip(row[1:3], ("C1", "C2"), strict=True):
        maps[name].plot(ax, label=label, samples=False)
    Phi = with_ones(X if basis is None else basis.fit(X).transform(X))
    path = irls(Phi, (y == "C2") * 1, np.zeros(Phi.shape[1]), 1e-8, max_iter=8).weights
    values[name] = [log_likelihood(Phi @ w, y == "C2") for w in path]
    with style():
        for ax in row[:3]:
            ax.set(aspect="equal", xlabel="x1" if name == "expanded" else "", ylabel="")
        row[0].set(ylabel="x2")
        row[0].set_title(name)
        row[3].plot(values[name], "o-", color=color_of(0), ms=3.5, lw=1.2)
        row[3].set_title("log likelihood")
    row[3].set(xlabel="iteration of IRLS" if name == "expanded" else "", ylim=(-600, 20), ylabel="ln p(t | w)")
    row[3].yaxis.set_label_position("right")
figure = axes[0, 0].figure
