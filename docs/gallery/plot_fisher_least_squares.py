"""Two classes overlap when projected onto the line of their means, but hardly along Fisher's direction.

Fisher's discriminant and least squares with the targets N/N₁ and −N/N₂ have the same direction. The arrow is the
projection axis, thin lines show some of the projections, and the dashed line is the boundary, perpendicular to the
arrow.
"""

import numpy as np

from oddsmith import FisherDiscriminant, LeastSquaresClassifier
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import INK, QUIET, color_of, scatter_classes, style

rng = np.random.default_rng(0)
root = np.array([[1.8, 0.0], [1.5, 0.5]])
X = np.vstack([rng.normal(size=(n, 2)) @ root.T + centre for n, centre in ((120, [0.0, 0.0]), (60, [2.2, -0.2]))])
y = np.repeat(["A", "B"], [120, 60])

fisher = FisherDiscriminant().fit(X, y).boundary_.normal
least = LeastSquaresClassifier(targets="fisher").fit(X, y).boundary_.normal
means = np.subtract(*(X[y == label].mean(axis=0) for label in "BA"))
directions = {"line of the means": means / np.linalg.norm(means), "Fisher and least squares": fisher}

axes = np.reshape(new_axes(2, 2, (6.8, 4.8), gridspec_kw={"height_ratios": [2, 1]}), (2, 2))
projected = {}
with style():
    for (above, below), (name, w) in zip(axes.T, directions.items(), strict=True):
        scatter_classes(above, X, (y == "B") * 1, ["A", "B"])
        middle, own = X.mean(axis=0), X[::6]
        foot = middle + ((own - middle) @ w)[:, None] * w
        above.plot(*np.stack([own, foot], axis=1).transpose(2, 1, 0), color=QUIET, lw=0.7, zorder=1)
        tail, head = middle - 3.2 * w, middle + 3.2 * w
        above.annotate(
            "", head, tail, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
        )
        means_on_w = [X[y == label].mean(axis=0) @ w for label in "AB"]
        above.axline(middle + (np.mean(means_on_w) - middle @ w) * w, slope=-w[0] / w[1], color=INK, lw=1.0, ls="--")
        above.set(title=name, xlabel="x0", ylabel="x1", aspect="equal", adjustable="datalim")
        projected[name] = X @ w - X.mean(axis=0) @ w
        bins = np.linspace(*np.quantile(projected[name], [0, 1]), 25)
        for k, label in enumerate("AB"):
            below.hist(projected[name][y == label], bins, color=color_of(k), alpha=0.6, hatch=("", "///")[k])
        below.set(xlabel="projection", ylabel="rows")
figure_legend(axes[0, 0])
figure = axes[0, 0].figure
