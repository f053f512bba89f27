"""Synthetic data: measured penguins, and penguins sampled from the fitted Gaussian classes.

A generative model is easy to criticise: its samples should look like the data.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.data import load_dataset
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import scatter_classes, style

names = ["bill_length_mm", "flipper_length_mm"]
table = load_dataset("penguins").select([*names, "species"]).drop_null()
X, y = np.column_stack([table[name].to_numpy() for name in names]), table["species"].to_numpy()

model = GaussianClassifier("separate").fit(X, y)
rows, labels = model.sample(len(X), seed=1)
axes = new_axes(1, 2, (6.8, 3.4), sharex=True, sharey=True)
with style():
    for ax, (title, points, of) in zip(axes, (("measured", X, y), ("drawn", rows, labels)), strict=True):
        scatter_classes(ax, points, np.searchsorted(model.classes_, of), model.classes_.tolist())
        ax.set_title(title)
        ax.set(xlabel=names[0], ylabel=names[1])
        ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
