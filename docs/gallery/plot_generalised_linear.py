"""Three activation functions on the same data: level lines are parallel, and only their distances differ.

The lines are probabilities of 0.1, 0.3, 0.5, 0.7 and 0.9, from left to right. All are perpendicular to w, whatever
the function is.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.links import LINKS
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes
from oddsmith.plots.style import INK, style

rng = np.random.default_rng(1)
X = rng.normal(size=(400, 2))
y = np.where(X @ [1.4, 0.8] + rng.gumbel(size=400) > 0.8, "yes", "no")
few = np.arange(400) % 4 == 0  # drawn; all are fitted

LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
levels = (0.1, 0.3, 0.5, 0.7, 0.9)
axes = new_axes(1, 3, (7.0, 2.9), sharex=True, sharey=True)
models = {link: LogisticRegression(link=link).fit(X, y) for link in ("logit", "probit", "cloglog")}
lines = {}
for ax, (link, model) in zip(axes, models.items(), strict=True):
    shown = DecisionRegionDisplay.from_estimator(model, X[few], y[few], limits=((-2, 2), (-2, 2)))
    shown.plot(ax, legend=False, title=link)
    rows = np.stack(np.meshgrid(shown.x, shown.y), axis=-1).reshape(-1, 2)
    p = model.predict_proba(rows)[:, 1].reshape(len(shown.y), len(shown.x))
    with style():
        lines[link] = ax.contour(shown.x, shown.y, p, levels, colors=INK, linewidths=0.7)
        w, w0, f = model.coef_[0], model.intercept_[0], LINKS[link]
        for level in (0.1, 0.5, 0.9):
            across = (f.link(np.array([level]))[0] - w0 - 1.6 * w[1]) / w[0]  # where the line passes x1 = 1.6
            ax.text(across, 1.6, f"{level}", fontsize=7, ha="center", va="center", bbox=LABEL)
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
