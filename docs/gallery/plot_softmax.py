"""Softmax: each class has a linear function, and the largest gives the most probable class.

Above: the functions of three Gaussian classes with one variance. Below: their softmax. Boundaries are where the two
largest lines cross.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.data import load_dataset
from oddsmith.plots import new_axes
from oddsmith.plots.style import QUIET, color_of, dashes_of, legend_above, style

table = load_dataset("penguins").select(["species", "bill_length_mm"]).drop_null()
model = GaussianClassifier("shared").fit(table["bill_length_mm"].to_numpy()[:, None], table["species"].to_numpy())

x = np.linspace(32, 60, 400)
activations = x[:, None] * model.coef_[:, 0] + model.intercept_
activations -= activations.mean(axis=1, keepdims=True)  # only differences count
proba = model.predict_proba(x[:, None])
best = activations.argmax(axis=1)
boundaries = x[1:][np.diff(best) != 0]
axes = new_axes(2, 1, (6.0, 4.6), sharex=True)
with style():
    for ax, values, label in zip(axes, (activations, proba), ("activation", "p(class | x)"), strict=True):
        for k, name in enumerate(model.classes_):
            ax.plot(x, values[:, k], color=color_of(k), ls=dashes_of(k), label=name)
        for boundary in boundaries:
            ax.axvline(boundary, color=QUIET, lw=0.8)
        ax.set_ylabel(label)
    axes[1].set_xlabel("bill_length_mm")
    legend_above(axes[0])
figure = axes[0].figure
