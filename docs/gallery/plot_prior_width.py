"""Three classes with a quadratic expansion, by maximum likelihood and with a prior of scale σ = 2.

Few samples in many dimensions are separable: the likelihood grows without bound, and its map is black and white. The
prior keeps the weights small, and the map grey where the class is uncertain.
"""

import warnings

import numpy as np

from oddsmith import LogisticRegression, Polynomial
from oddsmith.errors import SeparationWarning
from oddsmith.plots import PosteriorMapDisplay, figure_legend, new_axes

rng = np.random.default_rng(8)
centres = np.array([[-1.2, 0.0], [1.2, 0.8], [0.4, -1.4]])
X = np.vstack([rng.normal(centre, 0.5, (14, 2)) for centre in centres])
y = np.repeat(["A", "B", "C"], 14)

axes = new_axes(2, 3, (6.4, 4.6), sharex=True, sharey=True)
maps = {}
for row, (name, prior) in enumerate({"maximum likelihood": None, "prior of σ = 2": 2.0}.items()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)  # this is what the figure is about
        model = LogisticRegression(prior, basis=Polynomial(2)).fit(X, y)
    maps[name] = PosteriorMapDisplay.from_estimator(model, X, y, ax=axes[3 * row : 3 * row + 3])
    axes[3 * row].set_ylabel(f"{name}\nx1")
for ax in axes:
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
