"""The maximum likelihood fit: a mean for each class, and the pooled covariance.

Dashed: the covariance of each class. Solid: the pooled covariance, the average weighted by class shares, drawn at every
mean. The ellipses are at two standard deviations.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.data import load_dataset
from oddsmith.plots.style import color_of, legend_above, new_axes, scatter_classes, style

names = ["bill_length_mm", "bill_depth_mm"]
table = load_dataset("penguins").select([*names, "species"]).drop_null()
model = GaussianClassifier("shared").fit(table, y="species")
own = GaussianClassifier("separate").fit(table, y="species")

circle = np.column_stack([np.cos(t := np.linspace(0, 2 * np.pi, 200)), np.sin(t)])
points = np.column_stack([table[name].to_numpy() for name in names])
codes = np.searchsorted(model.classes_, table["species"].to_numpy())
(ax,) = new_axes()
with style():
    scatter_classes(ax, points, codes, model.classes_.tolist(), alpha=0.6)
    for fit, dashes, label in ((own, "--", "scatter of the class alone"), (model, "-", "average of the three")):
        for k in range(3):
            ellipse = fit.means_[k] + 2.0 * circle @ np.linalg.cholesky(fit.covariances_[k]).T
            ax.plot(*ellipse.T, color=color_of(k), ls=dashes, lw=1.6)
        ax.plot([], [], color="#555555", ls=dashes, lw=1.6, label=label)
    ax.set(xlabel=names[0], ylabel=names[1])
    legend_above(ax)
figure = ax.figure
