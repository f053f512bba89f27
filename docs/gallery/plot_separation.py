"""Separated classes: the log likelihood grows for ever, and Jeffreys' prior gives it a maximum.

Left: a threshold between 2 and 3 separates the classes, so every steeper curve is more likely. Right: the log
likelihood has no maximum in the slope; it has one with Jeffreys' prior (dotted), and if the classes overlap.
"""

import numpy as np

from oddsmith import JeffreysPrior, LogisticRegression
from oddsmith.links import LINKS
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, QUIET, color_of, dashes_of, legend_above, style

x, t = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0, 0, 0, 1, 1, 1])
overlap = np.array([0, 0, 1, 0, 1, 1])
sigmoid, slopes = LINKS["logit"].inverse, np.geomspace(0.1, 30.0, 200)


def log_likelihood(w: float, labels: np.ndarray) -> float:
    """Return the log likelihood of a slope whose curve is ½ in the middle."""
    a = np.where(labels == 1, 1.0, -1.0) * w * (x - 2.5)
    return float(-np.logaddexp(0.0, -a).sum())


def information(w: float) -> float:
    """Return the log of the root of the information about the slope."""
    y = sigmoid(w * (x - 2.5))
    return float(0.5 * np.log((y * (1 - y)) @ (x - 2.5) ** 2))


separated = np.array([log_likelihood(w, t) for w in slopes])
overlapping = np.array([log_likelihood(w, overlap) for w in slopes])
penalised = separated + np.array([information(w) for w in slopes])
firth = LogisticRegression(JeffreysPrior(), fit_intercept=False).fit(x[:, None] - 2.5, t).coef_[0, 0]

left, right = new_axes(1, 2, (7.0, 3.5))
with style():
    grid = np.linspace(-0.5, 5.5, 300)
    for k, w in enumerate((1.0, 3.0, 20.0)):
        left.plot(grid, sigmoid(w * (grid - 2.5)), color=color_of(k), ls=dashes_of(k), label=f"slope {w:g}")
    left.plot(x, t, "o", color=INK, ms=5)
    left.set(xlabel="x", ylabel="probability of class 1", ylim=(-0.05, 1.05))
    legend_above(left)
    for k, (values, name) in enumerate(
        ((separated, "separated"), (penalised, "Jeffreys"), (overlapping, "overlapping"))
    ):
        right.plot(slopes, values - values.max(), color=color_of(k), ls=dashes_of(k), label=name)
    right.axvline(firth, color=QUIET, lw=1.0, ls=":")
    right.set(xlabel="slope", ylabel="log likelihood below its best", xscale="log", ylim=(-4, 0.3))
    legend_above(right)
figure = left.figure
